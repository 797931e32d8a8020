"""What is asked of the search: the model, what it is judged on, the bounds, and what it may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edgewise.device.devices import transport_of
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.task import Task
from edgewise.optimizing.choice import Aim
from edgewise.optimizing.variant import Bound
from edgewise.record import TargetSpec

BUDGET_S = 300.0
CALIBRATION_SAMPLES = 128
TRAINING_SAMPLES = 5000


LEAST_SNR_DB = 20.0
"""What a variant must reach where its outputs are compared by their signal-to-noise ratio, unless the user says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The user's limits, SI units.

    Attributes:
        accuracy_drop: ``1pt`` (0.01 of a share), ``2%`` (of the original's value), or a number in the metric's unit;
            None is 1pt (10pt of boxes), and 1% where the metric is no share.
        least_accuracy: of the headline metric.
        least_snr_db: of the outputs against the original's, where there are no labels; None is `LEAST_SNR_DB` where
            nothing else tells how good they are.
    """

    latency_s: float | None = None
    size_bytes: int | None = None
    memory_bytes: int | None = None
    accuracy_drop: str | None = None
    least_accuracy: float | None = None
    least_snr_db: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Attributes:
    model: a file, or a factory ``package.module:function`` or ``file.py:function``.
    format: ``onnx``, ``tflite``, ``openvino``, ``torch`` or ``keras``.
    also: further files of the network, in other formats: variants may be them, and may be made of them.
    limits: the user's; where there are no labels, the bounds follow from them once the form of the outputs is known.
    folder: where variants and the result go; what an earlier search left there is used again.
    instructions: how to prepare samples.
    judged: the data on which variants are judged; None: outputs are compared on random inputs only.
    calibration: samples that passes may look at; None: passes that need some are not tried.
    training: samples that passes which train may learn from; None: those of the calibration.
    task: None where there are no labels: the original's outputs are taken as right.
    task_name: that the user or the instructions name, with labels or without; None where neither does.
    runtimes: the only engines to use; empty leaves them free.
    threads: of every engine; None is one, and tuning may try more.
    passes: ``NAME`` or ``NAME:LABEL``; the only ones to try, empty for all that can be used.
    keep_float: operators that passes must leave alone.
    sensitivity: whether layers are tried one by one: ``auto`` where a quantised variant loses more than half of what
        it may.
    rank: recipes up to this rank are tried.
    budget_s: all of it ends by then.
    fresh: use nothing that an earlier search left.
    device: where models run; passes run on this machine.
    words: what the user typed of model, data, task and bounds, for the line that makes the chosen file again.
    """

    model: str
    format: str = ""
    folder: Path = Path()
    instructions: Instructions = field(default_factory=Instructions)
    also: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    bounds: tuple[Bound, ...] = ()
    judged: SampleSelection | None = None
    calibration: SampleSelection | None = None
    training: SampleSelection | None = None
    task: Task | None = None
    task_name: str | None = None
    task_options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    threads: int | None = None
    passes: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()
    sensitivity: Literal["auto", "on", "off"] = "auto"
    rank: int = 1
    aim: Aim = "latency"
    seed: int = 0
    budget_s: float = BUDGET_S
    fresh: bool = False
    memory_limit: int | None = None
    device: str = "local"
    words: tuple[str, ...] = ()

    @property
    def target(self) -> TargetSpec:
        """Where models run, as a job has it."""
        return TargetSpec(device=self.device, transport=transport_of(self.device), memory_limit_bytes=self.memory_limit)

    @property
    def is_module(self) -> bool:
        """Whether the model is built by a factory."""
        return self.format in ("torch", "keras")
