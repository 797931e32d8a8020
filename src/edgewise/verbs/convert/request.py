"""The request that converts a model to another format."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgewise.converting.base import TARGETS
from edgewise.errors import BadField
from edgewise.run.limits import require_at_least, require_time
from edgewise.units import parse_duration
from edgewise.verbs.fields import InputData, InputShapes, Lab, MemoryLimit, Prepare, Seed, Signature
from edgewise.verbs.option import argument, option, worded
from edgewise.verbs.request import FilePath, Number, Request, Whole
from edgewise.verbs.shared import check_signature
from edgewise.verbs.shared_options import ABSOLUTE, AS_JSON, DATA, DETAILS, DRY_RUN, FORCE, MEASURE, OUTPUT, QUIET

HOW = "How to convert"


class ConvertRequest(Request):
    """Convert a model to another format, and compare the outputs.

    The fields are the arguments of `edgewise.convert`, but for:

    Attributes:
        folder: its `output`.
    """

    PATHS = ("model", "input_data", "folder", "data")

    OTHER_OPTIONS = (DETAILS, AS_JSON, QUIET, DRY_RUN, ABSOLUTE)

    verb: Literal["convert"] = "convert"
    model: Annotated[
        FilePath,
        argument(
            "model",
            ".onnx, .tflite, .pt2, .keras, .pb, .pdmodel, a SavedModel's folder, or FILE.py:FUNCTION.",
            str,
            metavar="MODEL",
        ),
    ]
    to: Annotated[
        str | None,
        option(
            "--to FORMAT",
            HOW,
            "onnx, ort, openvino, tflite (or litert), executorch, pt2, keras or savedmodel (default: by the ending of "
            "-o); from .onnx to tflite, the first time, downloads the converter onnx2tf, about 170 MB",
            choices=tuple(TARGETS),
            common=True,
        ),
    ] = None
    folder: Annotated[
        FilePath | None,
        option("-o --output F", OUTPUT, "File to write, or a SavedModel's folder (default: MODEL's name)", common=True),
    ] = None
    opset: Annotated[
        Whole | None, option("--opset N", HOW, "Version of ONNX's operator set (default: the exporter's)")
    ] = None
    precision: Annotated[
        str | None,
        option(
            "--precision P",
            HOW,
            "f16 stores the weights of OpenVINO IR in 16 bits; int8 quantises weights and activations of .tflite and "
            ".onnx (default: f32, unchanged)",
            common=True,
        ),
    ] = None
    shapes: Annotated[
        InputShapes,
        worded(
            "Shape of an input with open dimensions: of the test inputs, of the export of a module without example "
            "inputs, and of OpenVINO IR; repeatable",
            panel=HOW,
        ),
    ] = Field(default_factory=dict)
    signature: Signature = ""
    input_data: Annotated[
        InputData,
        worded("File with one array per input, on which source and result are compared (default: 3 random inputs)"),
    ] = None
    data: Annotated[
        FilePath | None,
        option("--data PATH", DATA, "For --precision int8: samples for the ranges of the activations", common=True),
    ] = None
    split: Annotated[
        str | None,
        option("--split NAME", DATA, "Part of the data to use (default: calibration, train, training or all)"),
    ] = None
    limit: Annotated[
        Whole | None,
        option("--limit N", DATA, "Number of samples to use, chosen at random by --seed (default: 128)", common=True),
    ] = None
    prepare: Prepare = ()
    seed: Seed = 0
    timeout: Annotated[
        Number, option("--timeout T", MEASURE, "Time limit of the conversion", read=parse_duration, default="10min")
    ] = 600.0
    memory_limit: Annotated[
        MemoryLimit, worded("Memory that the converter and a worker may allocate (default: available memory)")
    ] = None
    lab: Annotated[Lab, worded("Let any host of the lab in the store (EDGEWISE_STORE) convert it")] = False
    force: Annotated[bool, FORCE] = False

    def check(self) -> None:
        """Reject formats and settings that no converter supports."""
        to = self.target_word
        check_signature(self.signature, self.model)
        if self.precision not in (None, "f32", "f16", "int8"):
            raise BadField(f"⟦precision⟧ must be f32, f16 or int8, not {self.precision!r}")
        self._check_int8(to)
        if self.precision == "f16" and to != "openvino":
            raise BadField(
                "⟦precision=f16⟧ applies only to ⟦to=openvino⟧",
                advice="'edgewise optimize' has passes for other formats",
            )
        if self.opset is not None and to not in ("onnx", "ort"):
            raise BadField("⟦opset⟧ applies only to ⟦to=onnx⟧", advice="leave ⟦opset⟧ out")
        require_at_least(1, opset=self.opset, memory_limit=self.memory_limit)
        require_at_least(0, seed=self.seed)
        require_time(timeout=self.timeout)

    def _check_int8(self, to: str) -> None:
        """Reject int8 without samples or in another format, and samples that nothing reads."""
        if self.precision == "int8":
            if to not in ("tflite", "onnx"):
                raise BadField(f"⟦precision=int8⟧ applies only to tflite and onnx, not to {to}")
            if self.data is None:
                raise BadField(
                    "⟦precision=int8⟧ needs samples, from which the ranges of the activations come",
                    advice="add ⟦data⟧: a file or folder with samples",
                )
            if self.input_data is not None:
                raise BadField("⟦input_data⟧ does not apply to ⟦precision=int8⟧, which compares on ⟦data⟧")
        given = {"data": self.data, "prepare": self.prepare, "split": self.split, "limit": self.limit}
        if self.precision != "int8" and (unused := next((name for name, value in given.items() if value), "")):
            raise BadField(f"⟦{unused}⟧ applies only to ⟦precision=int8⟧", advice=f"leave ⟦{unused}⟧ out")
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
                f"⟦to⟧ is required: one of {words}",
                advice="give ⟦to⟧, or an output name that ends with .onnx, .ort, .xml, .tflite, .pte, .pt2 or .keras",
            )
        to = ending if self.to is None else {"litert": "tflite"}.get(self.to, self.to)
        if to not in TARGETS:
            raise BadField(f"⟦to⟧ must be one of {words}, not {to!r}")
        target = TARGETS[to]
        if self.folder is not None and target.suffix and not self.folder.endswith(target.suffix):
            raise BadField(
                f"the name of the output must end with {target.suffix} for ⟦to={to}⟧, and {self.folder!r} does not"
            )
        return to
