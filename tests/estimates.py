"""A finished estimate with every number known, of a small int8 network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgewise.estimating.base import Estimate, EstimatedDevice, EstimatedLayer
from edgewise.estimating.boards import Board, Fit
from edgewise.estimating.model_facts import with_model_facts
from edgewise.model.identity import read_graph
from edgewise.record import Measurement
from tflite_writer import INT8, INT32, Writer


def dense_relu(folder: Path) -> Path:
    """16 → 8 values, fully connected with a bias, then RELU: 128 MACs, 136 weights."""
    writer, scale = Writer(), {"scale": [0.1]}
    tensors = [
        writer.tensor("x", [1, 16], INT8, **scale),
        writer.tensor("w", [8, 16], INT8, 1, **scale),
        writer.tensor("b", [8], INT32, 2, scale=[0.01]),
        writer.tensor("h", [1, 8], INT8, **scale),
        writer.tensor("y", [1, 8], INT8, **scale),
    ]
    steps = [writer.operator(0, [0, 1, 2], [3], FullyConnected={}), writer.operator(1, [3], [4])]
    graph = writer.graph(tensors, steps, [0], [4])
    weights = [np.arange(128, dtype=np.int8).tobytes(), np.arange(8, dtype=np.int32).tobytes()]
    path = folder / "dense.tflite"
    path.write_bytes(writer.finish([graph], ["FULLY_CONNECTED", "RELU"], weights))
    return path


def estimated(folder: Path, *, energy: float | None = 1e-6, unit: str = "CPU") -> Estimate:
    """1,000 cycles at 1 MHz in two layers, 3 : 1; with an energy, 1 µJ in 1 ms."""
    path = dense_relu(folder)
    rows = [
        Measurement.of("latency", 1e-3, "cycles / clock", basis="estimated", low=0.9e-3, high=1.1e-3),
        Measurement.of("cpu_cycles" if unit == "CPU" else "accelerator_cycles", 1000, "model", basis="estimated"),
        Measurement.of("memory_arena", 24, "plan", basis="derived"),
        Measurement.absent("energy", "no board")
        if energy is None
        else Measurement.of("energy", energy, "power × latency", basis="estimated", low=energy / 2, high=energy * 2),
    ]
    layers = (
        EstimatedLayer(index=0, name="h", op="FULLY_CONNECTED", unit=unit, macs=128, cycles=750, time=0.75e-3),
        EstimatedLayer(index=1, name="y", op="RELU", unit="CPU", macs=0, cycles=250, time=0.25e-3, because="too small"),
    )
    found = Estimate(
        model={"name": "dense.tflite", "path": str(path), "format": "tflite", "size_bytes": path.stat().st_size},
        device=EstimatedDevice(name="toy-core", title="Toy core", estimator="toy", clock_hz=1e6),
        software="toy 1.0",
        coverage={"energy": 0.9} if energy is not None else {},
        measurements=tuple(rows),
        layers=layers,
    )
    return with_model_facts(found, read_graph(path))


def on_board(
    name: str,
    *,
    ram: int,
    needed: int = 1000,
    flash: int = 4096,
    latency: float | None = None,
    energy: float | None = None,
    at_least: Any = (),
) -> Estimate:
    """An estimate on a board with `ram` bytes, of a model that needs `needed` bytes RAM and 2,048 B flash."""
    board = Board(
        name=name, title=name.title(), vendor="Toys", soc="T1", core="cortex-m4", cores=1, clock_hz=1e8, ram_bytes=ram,
        flash_bytes=flash, sources={},
    )  # fmt: skip
    rows = [
        Measurement.absent(metric, "not known") if value is None
        else Measurement.of(metric, value, "model", basis="estimated", low=0.9 * value, high=1.1 * value)
        for metric, value in (("latency", latency), ("energy", energy))
    ]  # fmt: skip
    return Estimate(
        model={"name": "m.tflite"},
        device=EstimatedDevice(name=name, title=name, estimator="toy", core=board.core, board=board),
        software="toy 1.0",
        measurements=tuple(rows),
        fit=Fit(board=board, ram_bytes=needed, flash_bytes=2048, arena_bytes=needed, at_least=dict(at_least)),
    )
