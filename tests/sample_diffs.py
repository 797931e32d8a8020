"""A result of `diff` for tests of reports."""

from __future__ import annotations

from dataclasses import replace

from edgewise.verbs.diff.result import DiffResult, LayerGap
from graphs import convnet


def diffed() -> DiffResult:
    """Of a network in which the second convolution goes wrong, and the sum behind it has no twin."""
    names = ("float.onnx", "int8.onnx")
    models = [{"name": name, "engine": "engine 1.0", "format": "onnx", "sha256": "0" * 64} for name in names]
    gap = LayerGap(
        name="Conv0", op="Conv", other="Conv0", operator="Conv0", snr_db=42.0, loss_db=0.0, cosine=1.0, largest=0.01,
        zeros=0.25,
    )  # fmt: skip
    relu = replace(gap, name="Relu0", op="Relu", operator="Relu0", snr_db=float("inf"))
    wrong = replace(gap, name="Conv1", operator="Conv1", snr_db=10.0, before_db=42.0, loss_db=30.0, own_loss_db=29.0)
    broken = LayerGap(name="Add0", op="Add", other="Add0", operator="Add0", why="integers without one scale")
    return DiffResult(
        models=(models[0], models[1]), samples=3, fed="3 samples", layers=[gap, relu, wrong, broken],
        outputs={"y": 10.0}, graph=convnet(),
    )  # fmt: skip
