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

Writer = Callable[[Any, Path, ConvertOptions], str | None]
"""Writes a source to a path: a file's path, a `torch_program.TorchSource`, or a Keras model. It may return what there
is to say of the step."""


@dataclass(frozen=True, slots=True)
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
        told = writer(source, path, options)
        version = self.availability().version
        step = f"{self.tool} ({version})" if version else self.tool
        return f"{step}; {told}" if told else step


MODULE, KERAS_MODEL = "torch-module", "keras-model"

_KERAS_EXPORT, _OVC = "keras.Model.export", "openvino.convert_model"

STEPS = (
    # source, result, function, name of the converter, packages, extra
    Step(MODULE, "pt2", "torch_program:write_pt2", "torch.export", ("torch",), "torch"),
    Step(MODULE, "onnx", "torch_program:write_onnx", "torch.onnx.export", ("torch", "onnxscript"), "torch"),
    Step(MODULE, "openvino", "openvino_ir:write_from_torch", _OVC, ("openvino", "torch"), "openvino,torch"),
    Step(
        MODULE, "tflite", "torch_program:write_tflite", "litert_torch.convert",
        ("litert-torch", "torch", "ai-edge-litert"), "torch-optimize",
    ),
    Step(
        MODULE, "executorch", "torch_program:write_executorch", "to_edge_transform_and_lower", ("executorch", "torch"),
        "executorch",
    ),
    Step(KERAS_MODEL, "keras", "keras_model:write_keras", "keras.Model.save", ("keras",), "keras"),
    Step(
        KERAS_MODEL, "onnx", "keras_model:write_onnx", _KERAS_EXPORT, ("keras",), "keras,torch",
        behind=(("tensorflow", "tf2onnx"), ("torch", "onnxscript")),
    ),
    Step(
        KERAS_MODEL, "tflite", "keras_model:write_tflite", _KERAS_EXPORT, ("keras",), "torch-optimize",
        behind=(("tensorflow",), ("torch", "litert-torch")),
    ),
    Step(
        KERAS_MODEL, "savedmodel", "keras_model:write_savedmodel", _KERAS_EXPORT, ("keras", "tensorflow"), "tensorflow"
    ),
    *(
        Step(reads, "openvino", "openvino_ir:write_from_file", _OVC, ("openvino",), "openvino")
        for reads in ("onnx", "tflite", "savedmodel", "tensorflow", "paddle")
    ),
    Step("onnx", "ort", "onnx_files:write_ort", "onnxruntime", ("onnxruntime",), "onnxruntime"),
    Step(
        "savedmodel", "tflite", "tensorflow_files:write_tflite", "tf.lite.TFLiteConverter", ("tensorflow",),
        "tensorflow",
    ),
)  # fmt: skip

SEPARATE = (Step("onnx", "tflite", "onnx_tflite:write_tflite", "onnx2tf", (), ""),)
"""Converters that have an environment of their own, which is made where one is asked for by source and result: none is
a part of a longer path, or makes files to measure."""

_OPENED_AS = {"torch": MODULE, "keras": KERAS_MODEL}
"""Format of a file → kind of the object that is converted: its framework reads the file first."""


def opened_as(kind: str) -> str:
    """Return the kind of object that a file of this format is opened as; other kinds as they are."""
    return _OPENED_AS.get(kind, kind)


def paths_from(kind: str) -> dict[str, Availability]:
    """Return the word for each format that `kind` can be converted to → whether its converters are installed.

    A format that no converter reaches is there too, with the reason and with what helps. `kind`: a model format, or
    `MODULE` or `KERAS_MODEL`.
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
    """Return the words for the formats that `kind` can be converted to once all converters are installed."""
    return tuple(to for to in TARGETS if _find(kind, to, needed=False))


def is_converted(kind: str, to: str) -> bool:
    """Whether a command can convert `kind` to the format that `to` names, by a converter of `SEPARATE` too."""
    return to in reachable_from(kind) or any((step.reads, step.to) == (kind, to) for step in SEPARATE)


def find_path(kind: str, to: str, *, name: str) -> tuple[Step, ...]:
    """Return the fewest converters from `kind`, as in `paths_from`, to the format that `to` names.

    `name`: what the source is called in messages.

    Raises:
        BadInput: `to` is no format to convert to, or the source has it already.
        Unavailable: a converter is not installed, or there is none.
    """
    if to not in TARGETS:
        raise BadInput(f"⟦to⟧ must be one of {', '.join(TARGETS)}, not {to!r}")
    if TARGETS[to].format == kind:
        raise BadInput(f"{name} is {TARGETS[to].title} already", advice="choose another format with ⟦to⟧")
    if steps := _find(kind, to, needed=True):
        return steps
    if separate := next((step for step in SEPARATE if (step.reads, step.to) == (kind, to)), None):
        return (separate,)
    lacking = paths_from(kind)[to]
    raise Unavailable(f"can't convert {name} to {TARGETS[to].title}: {lacking.reason}", advice=lacking.install_hint)


def _find(kind: str, to: str, *, needed: bool) -> tuple[Step, ...]:
    """Return the shortest chain of steps; with `needed` only of those whose packages are installed."""
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
