"""Which format can be converted into which, by which converter, and what each of them needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.converting.base import TARGETS, ConvertOptions
from edgewise.errors import BadInput, Unavailable
from edgewise.packages import packages_availability
from edgewise.registry import Availability, load_class

Writer = Callable[[Any, Path, ConvertOptions], None]
"""Writes a source to a path: a file's path, a `torch_program.TorchSource`, or a Keras model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One converter.

    Attributes:
        reads: kind of its source: a model format, whose source is a file, or ``torch-module`` and ``keras-model``,
            whose source is an object in memory.
        to: the word for the format that it writes, a key of `TARGETS`.
        writer: where its function is, as ``module:function``.
        tool: name of the converter.
        packages: distributions that it needs.
        behind: further distributions of which one group is needed, such as the libraries behind Keras.
        extra: edgewise's optional dependencies with these packages.
    """

    reads: str
    to: str
    writer: str
    tool: str
    packages: tuple[str, ...]
    extra: str
    behind: tuple[tuple[str, ...], ...] = ((),)

    def availability(self) -> Availability:
        """Whether its packages are installed."""
        groups = [packages_availability((*self.packages, *group), extra=self.extra) for group in self.behind]
        return next(filter(None, groups), groups[-1])

    def write(self, source: Any, path: Path, options: ConvertOptions) -> str:
        """Convert, and return the step in words: its tool with the versions of its packages.

        Raises:
            Unavailable: the converter can't convert this model.
            BadInput: the model can't be read.
        """
        writer: Writer = load_class(f"edgewise.converting.{self.writer}")
        writer(source, path, options)
        return f"{self.tool} ({self.availability().version})"


MODULE, KERAS_MODEL = "torch-module", "keras-model"

STEPS = (
    Step(
        reads=MODULE,
        to="pt2",
        writer="torch_program:write_pt2",
        tool="torch.export",
        packages=("torch",),
        extra="torch",
    ),
    Step(
        reads=MODULE,
        to="onnx",
        writer="torch_program:write_onnx",
        tool="torch.onnx.export",
        packages=("torch", "onnxscript"),
        extra="torch",
    ),
    Step(
        reads=MODULE,
        to="openvino",
        writer="openvino_ir:write_from_torch",
        tool="openvino.convert_model",
        packages=("openvino", "torch"),
        extra="openvino,torch",
    ),
    Step(
        reads=MODULE,
        to="tflite",
        writer="torch_program:write_tflite",
        tool="litert_torch.convert",
        packages=("litert-torch", "torch", "ai-edge-litert"),
        extra="torch-optimize",
    ),
    Step(
        reads=KERAS_MODEL,
        to="keras",
        writer="keras_model:write_keras",
        tool="keras.Model.save",
        packages=("keras",),
        extra="keras",
    ),
    Step(
        reads=KERAS_MODEL,
        to="onnx",
        writer="keras_model:write_onnx",
        tool="keras.Model.export",
        packages=("keras",),
        behind=(("tensorflow", "tf2onnx"), ("torch", "onnxscript")),
        extra="keras,torch",
    ),
    Step(
        reads=KERAS_MODEL,
        to="tflite",
        writer="keras_model:write_tflite",
        tool="keras.Model.export",
        packages=("keras",),
        behind=(("tensorflow",), ("torch", "litert-torch")),
        extra="torch-optimize",
    ),
    Step(
        reads=KERAS_MODEL,
        to="savedmodel",
        writer="keras_model:write_savedmodel",
        tool="keras.Model.export",
        packages=("keras", "tensorflow"),
        extra="tensorflow",
    ),
    *(
        Step(
            reads=reads,
            to="openvino",
            writer="openvino_ir:write_from_file",
            tool="openvino.convert_model",
            packages=("openvino",),
            extra="openvino",
        )
        for reads in ("onnx", "tflite", "savedmodel", "tensorflow", "paddle")
    ),
    Step(
        reads="onnx",
        to="ort",
        writer="onnx_files:write_ort",
        tool="onnxruntime",
        packages=("onnxruntime",),
        extra="onnxruntime",
    ),
    Step(
        reads="savedmodel",
        to="tflite",
        writer="tensorflow_files:write_tflite",
        tool="tf.lite.TFLiteConverter",
        packages=("tensorflow",),
        extra="tensorflow",
    ),
)

_OPENED_AS = {"torch": MODULE, "keras": KERAS_MODEL}
"""Format of a file → kind of the object that is converted: its framework reads the file first."""


def opened_as(kind: str) -> str:
    """The kind of object that a file of this format is opened as; other kinds as they are."""
    return _OPENED_AS.get(kind, kind)


def paths_from(kind: str) -> dict[str, Availability]:
    """The word for each format that `kind` can be converted to → whether its converters are installed.

    A format that no converter reaches is there too, with the reason and with what helps.

    Args:
        kind: a model format, or `MODULE` or `KERAS_MODEL`.
    """
    found = {}
    for to, target in TARGETS.items():
        if target.format == kind:
            continue
        if steps := _find(kind, to, needed=True):
            found[to] = Availability(True, version="; ".join(step.availability().version or "" for step in steps))
        elif steps := _find(kind, to, needed=False):
            found[to] = next(each for each in (step.availability() for step in steps) if not each)
        else:
            found[to] = Availability(
                False,
                f"edgewise knows no converter to {target.title} for this source",
                "give the function that makes the network with PyTorch or Keras: "
                f"edgewise convert FILE.py:FUNCTION --to {to}",
            )
    return found


def reachable_from(kind: str) -> tuple[str, ...]:
    """The words for the formats that `kind` can be converted to once all converters are installed."""
    return tuple(to for to in TARGETS if _find(kind, to, needed=False))


def find_path(kind: str, to: str, *, name: str) -> tuple[Step, ...]:
    """The fewest converters from `kind`, as in `paths_from`, to the format that `to` names.

    Args:
        name: what the source is called in messages.

    Raises:
        BadInput: `to` is no format to convert to, or the source has it already.
        Unavailable: a converter is not installed, or there is none.
    """
    if to not in TARGETS:
        raise BadInput(f"--to must be one of {', '.join(TARGETS)}, not {to!r}")
    if TARGETS[to].format == kind:
        raise BadInput(f"{name} is {TARGETS[to].title} already", advice="choose another format with --to")
    if steps := _find(kind, to, needed=True):
        return steps
    lacking = paths_from(kind)[to]
    raise Unavailable(f"can't convert {name} to {TARGETS[to].title}: {lacking.reason}", advice=lacking.install_hint)


def _find(kind: str, to: str, *, needed: bool) -> tuple[Step, ...]:
    """The shortest chain of steps; with `needed` only of those whose packages are installed."""
    start = opened_as(kind)
    queue: deque[tuple[str, tuple[Step, ...]]] = deque([(start, ())])
    seen = {kind, start}
    while queue:
        at, steps = queue.popleft()
        for step in STEPS:
            reached = TARGETS[step.to].format
            if step.reads != at or reached in seen or (needed and not step.availability()):
                continue
            if step.to == to:
                return (*steps, step)
            seen.add(reached)
            queue.append((reached, (*steps, step)))
    return ()
