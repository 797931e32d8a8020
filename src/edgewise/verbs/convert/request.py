"""The request that converts a model to another format."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.converting.base import TARGETS
from edgewise.errors import BadField
from edgewise.run.limits import require_at_least, require_time
from edgewise.verbs.request import FilePath, Number, Request, Shapes, Texts, Whole
from edgewise.verbs.shared import check_signature


class ConvertRequest(Request):
    """Convert a model to another format, and compare the outputs.

    The fields are the arguments of `edgewise.convert`, but for:

    Attributes:
        folder: its `output`.
    """

    PATHS = ("model", "input_data", "folder", "data")

    verb: Literal["convert"] = "convert"
    model: FilePath
    to: str | None = None
    folder: FilePath | None = None
    opset: Whole | None = None
    precision: str | None = None
    shapes: Shapes = Field(default_factory=dict)
    signature: str = ""
    input_data: FilePath | None = None
    data: FilePath | None = None
    split: str | None = None
    limit: Whole | None = None
    prepare: Texts = ()
    seed: Whole = 0
    timeout: Number = 600.0
    memory_limit: Whole | None = None
    force: bool = False

    def check(self) -> None:
        """Reject formats and settings that no converter supports."""
        to = self.target_word
        check_signature(self.signature, self.model)
        if self.precision not in (None, "f32", "f16", "int8"):
            raise BadField(f"{{precision}} must be f32, f16 or int8, not {self.precision!r}")
        self._check_int8(to)
        if self.precision == "f16" and to != "openvino":
            raise BadField(
                "{precision=f16} applies only to {to=openvino}",
                advice="'edgewise optimize' has passes for other formats",
            )
        if self.opset is not None and to not in ("onnx", "ort"):
            raise BadField("{opset} applies only to {to=onnx}", advice="leave {opset} out")
        require_at_least(1, opset=self.opset, memory_limit=self.memory_limit)
        require_at_least(0, seed=self.seed)
        require_time(timeout=self.timeout)

    def _check_int8(self, to: str) -> None:
        """Reject int8 without samples or in another format, and samples that nothing reads."""
        if self.precision == "int8":
            if to not in ("tflite", "onnx"):
                raise BadField(f"{{precision=int8}} applies only to tflite and onnx, not to {to}")
            if self.data is None:
                raise BadField(
                    "{precision=int8} needs samples, from which the ranges of the activations come",
                    advice="add {data}: a file or folder with samples",
                )
            if self.input_data is not None:
                raise BadField("{input_data} does not apply to {precision=int8}, which compares on {data}")
        given = {"data": self.data, "prepare": self.prepare, "split": self.split, "limit": self.limit}
        if self.precision != "int8" and (unused := next((name for name, value in given.items() if value), "")):
            raise BadField(f"{{{unused}}} applies only to {{precision=int8}}", advice=f"leave {{{unused}}} out")
        require_at_least(1, limit=self.limit)

    @property
    def target_word(self) -> str:
        """The word for the format: as given, or by the ending of the output. Raises `BadField`."""
        words = ", ".join(TARGETS)
        ending = None
        if self.folder is not None:
            suffixes = {target.suffix: word for word, target in TARGETS.items() if target.suffix}
            ending = next((word for suffix, word in suffixes.items() if self.folder.lower().endswith(suffix)), None)
        if self.to is None and ending is None and self.precision == "int8":  # in its own format
            ending = next((word for word in ("tflite", "onnx") if self.model.lower().endswith(f".{word}")), None)
        if self.to is None and ending is None:
            raise BadField(
                f"{{to}} is required: one of {words}",
                advice="give {to}, or an output name that ends with .onnx, .ort, .xml, .tflite, .pt2 or .keras",
            )
        to = ending if self.to is None else self.to
        if to not in TARGETS:
            raise BadField(f"{{to}} must be one of {words}, not {to!r}")
        target = TARGETS[to]
        if self.folder is not None and target.suffix and not self.folder.endswith(target.suffix):
            raise BadField(
                f"the name of the output must end with {target.suffix} for {{to={to}}}, and {self.folder!r} does not"
            )
        return to
