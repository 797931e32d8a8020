"""Arm Ethos-U NPUs, estimated by Arm's compiler Vela (package ``ethos-u-vela``) in a process of its own.

Vela compiles the model for one NPU, one system configuration (clock, memories and their speed) and one memory mode
(which memory holds what). Without these two it takes defaults that differ between families, so they are always given.
"""

from __future__ import annotations

import configparser
import csv
import io
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from edgewise.child_process import Outcome, run_child
from edgewise.errors import BadInput, BadModel, RunFailed, Unavailable
from edgewise.estimating.base import AS_TFLITE, Estimate, EstimatedDevice, EstimatedLayer
from edgewise.estimating.mcu.folding import tell_folded
from edgewise.estimating.mcu.lowering import advice_of
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.processor import ProcessorPart, processor_part
from edgewise.model.cost import count, total_of
from edgewise.model.graph import Graph, Operator
from edgewise.record import Measurement
from edgewise.registry import Availability
from edgewise.runtime.base import package_availability
from edgewise.units import format_duration, format_si

_CONFIGURATIONS = {
    "55": ((32, 64, 128, 256), "Ethos_U55_High_End_Embedded", "Shared_Sram", "cortex-m55"),
    "65": ((256, 512), "Ethos_U65_High_End", "Dedicated_Sram", "cortex-m55"),
    "85": ((128, 256, 512, 1024, 2048), "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB", "cortex-m85"),
}
"""Family → MACs per cycle of its members, system configuration and memory mode (Vela's choice), and the core beside."""

_MEMORIES = {"sram": "SRAM", "dram": "DRAM", "on_chip_flash": "on-chip flash", "off_chip_flash": "off-chip flash"}
SECONDS = 300.0
_CPU_S = 300
_MEMORY_BYTES = 8 * 2**30
_RUN = f"""
import sys
from edgewise.child_process import Limits
Limits(cpu_seconds={_CPU_S}, data_bytes={_MEMORY_BYTES}).apply()
from ethosu.vela.vela import main
sys.exit(main(sys.argv[1:]))
"""

_REFUSED = re.compile(r"^Warning \([^)]*\) operator: \S+, ofm: '(.*)'\nReason: (.*)$", re.MULTILINE)
_TENSOR = re.compile(r" \([^()]*\)$")
"""The name of the tensor at the end of a reason."""


class EthosU:
    """Estimates Ethos-U55, U65 and U85."""

    name = "ethos-u"
    reads = "tflite"
    title = "Arm Ethos-U NPUs, by Arm's compiler Vela"
    settings: Mapping[str, str] = {
        "system_config": "System configuration of Vela: clock, memories and their speed.",
        "memory_mode": "Memory mode of Vela: which memory holds weights and feature maps.",
        "optimise": "Aim of Vela: Performance or Size.",
        "cpu": "Core that executes the other operators, such as cortex-m85@400MHz; without a clock it has the NPU's.",
    }

    def availability(self) -> Availability:
        """Whether Vela is installed."""
        return package_availability("ethos-u-vela", extra="npu", module="ethosu")

    def devices(self) -> Sequence[EstimatedDevice]:
        """Return the configurations that Vela compiles for."""
        return [
            EstimatedDevice(
                name=f"ethos-u{family}-{macs}",
                title=f"Arm Ethos-U{family} NPU, {macs} MACs per cycle",
                estimator=self.name,
                settings={"system_config": system, "memory_mode": mode, "optimise": "Performance", "cpu": core},
            )
            for family, (sizes, system, mode, core) in _CONFIGURATIONS.items()
            for macs in sizes
        ]

    def estimate(self, path: Path, graph: Graph, device: EstimatedDevice) -> Estimate:
        """As `edgewise.estimating.base.Estimator.estimate`."""
        if graph.format != "tflite":
            raise BadInput(f"{path.name}: Vela compiles .tflite files only", advice=AS_TFLITE)
        with tempfile.TemporaryDirectory(prefix="edgewise-vela-") as folder:
            compiled = _compile(path, device, Path(folder))
        return compiled.estimate(path, graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """What Vela reports.

    Attributes:
        summary: the one row of its summary; empty where Vela wrote none.
        rows: one per operation, in the order of execution.
        refused: name of a tensor → why the operator that makes it is left on the CPU.
    """

    device: EstimatedDevice
    software: str
    summary: Mapping[str, str]
    rows: Sequence[Mapping[str, str]]
    refused: Mapping[str, str]

    @property
    def _macs_per_cycle(self) -> int:
        return int(self.device.name.rpartition("-")[2])

    def estimate(self, path: Path, graph: Graph) -> Estimate:
        """Return the estimate of `graph`, which the file at `path` has."""
        device, software = self.device, self.software
        if not any(row["Target"] == "NPU" for row in self.rows):
            why = f": {next(iter(self.refused.values()))}" if self.refused else ""
            # Other integers than int8 are no obstacle here.
            in_float = any(tensor.dtype == "float32" for tensor in graph.tensors.values())
            advice = advice_of(read_network(path)) if in_float else ""
            return Estimate(
                model={},
                device=device,
                software=software,
                refused=f"the NPU can execute none of the model's operators{why}",
                advice=advice or f"'edgewise estimate {path} -d cortex-m55' estimates it on a core",
            )
        clock = float(self.summary["core_clock"])
        device = replace(device, clock_hz=clock)
        layers = self._layers(graph, clock)
        left = {layer.index: layer for layer in layers if layer.index is not None and layer.unit == "CPU"}
        part = processor_part(path, graph, left, core=device.settings["cpu"], clock_hz=clock)
        return Estimate(
            model={},
            device=device,
            software=f"{software}; CPU: {part.software}" if part.software else software,
            conditions=(
                *self._conditions(),
                *tell_folded([layer.op for layer in part.layers.values() if not layer.unit]),
            ),
            measurements=self._measurements(graph, clock, list(left.values()), part),
            at_least={"latency": float(self.summary["cycles_total"]) / clock} if part.seconds is None else {},
            layers=tuple(part.layer(each, because=each.because) if each.index in left else each for each in layers),
        )

    def _conditions(self) -> tuple[str, ...]:
        summary = self.summary
        speeds = ", ".join(
            f"{title} {float(summary[f'{name}_bandwidth']):.3g} GB/s"
            for name, title in _MEMORIES.items()
            if float(summary[f"{name}_memory_used"]) > 0
        )
        return (
            f"Weights in {summary['weights_storage_area']}, feature maps in {summary['feature_map_storage_area']}; "
            f"peak bandwidth: {speeds}. The speed of the memories is set relative to the NPU's clock.",
            "Vela states no error of its cycle counts, so there is no interval. Arm calls them estimates of the "
            "compiler and recommends a simulator or an FPGA for decisions.",
        )

    def _measurements(
        self, graph: Graph, clock: float, left: Sequence[EstimatedLayer], part: ProcessorPart
    ) -> tuple[Measurement, ...]:
        summary, method = self.summary, f"{self.software}, compiler estimate"
        cycles = float(summary["cycles_total"])
        total = total_of(graph).macs
        names = [layer.op for layer in left]
        npu = format_duration(cycles / clock)
        if part.seconds is None:
            latency = part.absent_latency(names, known=f"the NPU takes {npu}")
        else:
            cpu = f"{self.device.settings['cpu']} {format_duration(part.seconds)} for {', '.join(names)}"
            how = f"{method}: cycles divided by the clock" + (f"; NPU {npu} + {cpu}" if part.seconds else "")
            latency = _estimated("latency", cycles / clock + part.seconds, how)
        flash = 1024 * (float(summary["on_chip_flash_memory_used"]) + float(summary["off_chip_flash_memory_used"]))
        rows = [
            latency,
            _estimated("accelerator_cycles", cycles, method),
            *part.rows(),
            _estimated("memory_sram", 1024 * float(summary["sram_memory_used"]), method),
            _estimated("memory_dram", 1024 * float(summary["dram_memory_used"]), method),
            _estimated("flash", flash, f"{method}; without the program of the CPU"),
            Measurement.absent("energy", "Vela does not estimate energy"),
        ]
        if total is not None:
            rows.append(Measurement.of("macs", total, "counted from the model's graph", basis="derived"))
        if total is not None and not left:
            share, how = total / (cycles * self._macs_per_cycle), f"MACs / (cycles × {self._macs_per_cycle})"
            rows.insert(2, _estimated("accelerator_utilization", share, how))
        return tuple(rows)

    def _layers(self, graph: Graph, clock: float) -> list[EstimatedLayer]:
        """One layer per operator of the model, then what belongs to none; their cycles add up to Vela's total."""
        steps: dict[int, list[Mapping[str, str]]] = {}
        loose: list[Mapping[str, str]] = []
        makers = {name: operator.index for operator in graph.operators for name in operator.outputs}
        waiting: list[Mapping[str, str]] = []
        for row in self.rows:
            waiting.append(row)
            if (index := makers.get(row["Name"])) is not None:
                # Steps in between have names of Vela's own; the last step makes the operator's output.
                same = [each for each in waiting if each["Original Operator"] == row["Original Operator"]]
                loose += [each for each in waiting if each not in same]
                steps.setdefault(index, []).extend(same)
                waiting = []
        loose += waiting
        layers = [self._layer(operator, graph, steps.get(operator.index, ()), clock) for operator in graph.operators]
        rest = float(self.summary["cycles_total"]) - sum(layer.cycles or 0.0 for layer in layers)
        if loose or rest:
            layers.append(
                EstimatedLayer(
                    index=None,
                    name="not attributed",
                    op="",
                    unit="NPU",
                    cycles=rest,
                    time=rest / clock,
                    steps=tuple(each["NNG Operator"] for each in loose),
                    because="Vela's steps that make no tensor of the model",
                )
            )
        return layers

    def _layer(
        self, operator: Operator, graph: Graph, steps: Sequence[Mapping[str, str]], clock: float
    ) -> EstimatedLayer:
        macs = count(operator, graph).macs
        reason = next((self.refused[name] for name in operator.outputs if name in self.refused), "")
        known = EstimatedLayer(
            index=operator.index, name=operator.label or operator.name, op=operator.op, unit="CPU", macs=macs
        )
        if reason or any(row["Target"] != "NPU" for row in steps):
            return replace(known, because=reason or "Vela leaves it on the CPU")
        if not steps:
            return replace(known, unit="", because="merged with another operator or removed")
        cycles = sum(float(row["Op Cycles"]) for row in steps)
        return replace(
            known,
            unit="NPU",
            cycles=cycles,
            time=cycles / clock,
            utilization=macs / (cycles * self._macs_per_cycle) if macs and cycles else None,
            steps=tuple(row["NNG Operator"] for row in steps),
        )


def _estimated(metric: str, value: float, method: str) -> Measurement:
    return Measurement.of(metric, value, method, basis="estimated")


def _compile(path: Path, device: EstimatedDevice, folder: Path) -> _Compiled:
    """Run Vela. Raises `BadInput` for settings that don't exist, `BadModel`, `RunFailed`."""
    system, mode = device.settings["system_config"], device.settings["memory_mode"]
    configuration = _configuration(device, folder)
    (folder / "model.tflite").symlink_to(path.resolve())
    command = [
        sys.executable, "-P", "-c", _RUN, str(folder / "model.tflite"), "--output-dir", str(folder / "out"),
        "--accelerator-config", device.name, "--config", str(configuration), "--system-config", system,
        "--memory-mode", mode, "--optimise", device.settings["optimise"], "--verbose-performance",
        "--show-cpu-operations",
    ]  # fmt: skip
    outcome = run_child(command, seconds=SECONDS, folder=folder)
    if outcome.cause:
        raise _failure(path, outcome)
    summaries, layers = (sorted((folder / "out").glob(f"model_{kind}*.csv")) for kind in ("summary", "per-layer"))
    printed = outcome.output.decode(errors="replace")
    return _Compiled(
        device=device,
        software=f"Vela {version('ethos-u-vela')}",
        summary=_read(summaries[0])[0] if summaries else {},
        rows=_read(layers[0]) if layers else (),
        refused={name: _TENSOR.sub("", reason) for name, reason in _REFUSED.findall(printed)},
    )


def _read(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))


def _failure(path: Path, outcome: Outcome) -> BadModel | RunFailed:
    if outcome.cause == "exit":
        line = outcome.tail.splitlines()[-1] if outcome.tail else f"exit code {outcome.returncode}"
        return BadModel(
            f"{path.name}: Vela can't compile it: {line[:300]}", advice="'edgewise inspect' tells if it is valid"
        )
    fault = "the fault is Vela's: try another version of ethos-u-vela, or operators and types that Ethos-U executes"
    return RunFailed(
        f"{path.name}: Vela {outcome.failure}", advice=fault if outcome.cause == "crashed" else "try a smaller model"
    )


def _configuration(device: EstimatedDevice, folder: Path) -> Path:
    """Vela's configuration file, with the device's clock if there is one. Raises `BadInput` for unknown settings."""
    spec = find_spec("ethosu")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("Vela is not installed", advice="pip install 'edgewise[npu]'")
    source = Path(spec.submodule_search_locations[0]) / "config_files" / "Arm" / "vela.ini"
    file = configparser.ConfigParser()
    # Names keep their capitals: typed as a method, and documented as an attribute to set.
    file.optionxform = str  # type: ignore[assignment,method-assign]
    file.read_string(source.read_text(encoding="utf-8"))
    family = device.name.split("-")[1].upper()
    for setting, prefix in (("system_config", f"System_Config.Ethos_{family}"), ("memory_mode", "Memory_Mode.")):
        section = f"{prefix.partition('.')[0]}.{device.settings[setting]}"
        known = [name.partition(".")[2] for name in file.sections() if name.startswith(prefix)]
        if section not in file or (setting == "system_config" and not section.startswith(prefix)):
            raise BadInput(
                f"{device.name} has no {setting} {device.settings[setting]!r}", advice=f"one of: {', '.join(known)}"
            )
    if device.settings["optimise"] not in ("Performance", "Size"):
        raise BadInput(f"optimise is Performance or Size, not {device.settings['optimise']!r}")
    if device.clock_hz is None:
        return source
    section = f"System_Config.{device.settings['system_config']}"
    if not 1e6 <= device.clock_hz <= 1e10:
        raise BadInput(f"{format_si(device.clock_hz, 'Hz')} is no clock of an NPU", advice="such as @500MHz")
    file[section]["core_clock"] = f"{device.clock_hz:.0f}"
    target = folder / "vela.ini"
    with target.open("w", encoding="utf-8") as written:
        file.write(written)
    return target
