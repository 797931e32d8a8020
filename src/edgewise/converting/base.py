"""What a conversion takes and gives, and the formats between which edgewise converts."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgewise.errors import EdgewiseError, Unavailable
from edgewise.model.flex import flex_words

Precision = Literal["", "f16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Settings of a conversion.

    Attributes:
        name: name of the result without its suffix.
        opset: version of ONNX's operator set; None leaves it to the exporter.
        precision: ``f16`` stores the weights of OpenVINO IR in 16 bits; "" keeps their type.
        shapes: input name → shape. OpenVINO IR gets these shapes; for a PyTorch module without example inputs they
            are what it is exported with.
        program: path of a converter that has an environment of its own; "" where none is needed.
    """

    name: str = "model"
    opset: int | None = None
    precision: Precision = ""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    program: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The result of a conversion.

    Attributes:
        path: the model file, its weight files beside it; of a SavedModel its folder.
        format: as `edgewise.model.identity.open_model` names it.
        steps: one line per converter that ran, with its tool and version.
        lost: one line each on what the conversion dropped or changed.
    """

    path: Path
    format: str
    steps: tuple[str, ...]
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A format to convert to.

    Attributes:
        format: as readers name it.
        suffix: of its files; "" for a folder.
        title: its proper name.
    """

    format: str
    suffix: str
    title: str


TARGETS = {
    "onnx": Target(format="onnx", suffix=".onnx", title="ONNX"),
    "ort": Target(format="ort", suffix=".ort", title="ONNX Runtime's format"),
    "openvino": Target(format="openvino", suffix=".xml", title="OpenVINO IR"),
    "tflite": Target(format="tflite", suffix=".tflite", title="TFLite"),
    "executorch": Target(format="executorch", suffix=".pte", title="ExecuTorch"),
    "pt2": Target(format="torch", suffix=".pt2", title="PyTorch's export"),
    "keras": Target(format="keras", suffix=".keras", title="Keras"),
    "savedmodel": Target(format="savedmodel", suffix="", title="TensorFlow SavedModel"),
}
"""The word for a format → what it is."""


@contextlib.contextmanager
def calling(tool: str, *, to: str) -> Iterator[None]:
    """Call a converter: it prints to standard error, its warnings are dropped, its errors become `Unavailable`.

    Args:
        tool: name of the converter, for messages.
        to: title of the format that it writes.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MemoryError, OSError, EdgewiseError):
        raise
    except ImportError as error:
        raise Unavailable(f"{tool} can't write {to}: {error}", advice="install the missing packages") from error
    except Exception as error:  # converters raise AssertionError, KeyError, their own errors …
        if words := flex_words(str(error), tool):
            reason, _, advice = words.rpartition("; ")
            raise Unavailable(f"{tool} can't write {to}: {reason}", advice=advice) from error
        raise Unavailable(
            f"{tool} can't write {to}: {telling_line(error)}",
            advice="replace the operator, or convert the model to another format",
        ) from error


_TELLING = re.compile(
    r"no onnx function|unsupported|not supported|not implemented|no lowering|no conversion|couldn't convert|"
    r"custom op|cannot be converted|failed to legalize",
    re.IGNORECASE,
)
_PLACES = ("Exception from", "Check '", "FrontEnd API failed", "While validating", "Traceback", "File ", "Summary:")


def telling_line(error: BaseException) -> str:
    """Return the line of an error and its causes that names what a converter lacks; else its first line of text."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(lines) < 2000:
        lines += [f"{type(cause).__name__}: {line}" if not at else line for at, line in enumerate(_lines(cause))]
        cause = cause.__cause__ or cause.__context__
    telling = next((line for line in lines if _TELLING.search(line)), None)
    return (telling or next(iter(lines), type(error).__name__))[:300]


def _lines(error: BaseException) -> list[str]:
    """Return the lines of a message without places in the converter's source."""
    lines = [line.strip(" -\t") for line in str(error).splitlines()]
    return [line for line in lines if line and not line.startswith(_PLACES)]


def plain_shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the known sizes of a shape."""
    return tuple(size for size in shape if isinstance(size, int))
