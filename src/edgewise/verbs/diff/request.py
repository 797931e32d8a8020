"""The request of ``diff``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.run.limits import require_at_least, require_time
from edgewise.units import parse_duration
from edgewise.verbs.fields import InputShapes, Prepare, Runtimes, Seed
from edgewise.verbs.option import argument, option, worded
from edgewise.verbs.request import FilePath, Number, Request, Whole
from edgewise.verbs.shared_options import DATA, MEASURE, OUTPUT


class DiffRequest(Request):
    """Find the layer in which the values of two models, or of two engines on one model, begin to differ.

    Attributes:
        reference: whose values count as right.
        other: that is held against it; None takes the reference itself, in another engine.
        runtimes: of the reference, and of the other; empty takes each file's own.
        data: samples that both get; None takes random numbers.
        limit: of samples.
        top: rows of layers on the terminal; 0 shows all.
        timeout: s, of all inferences.
    """

    PATHS = ("reference", "other", "data")

    verb: Literal["diff"] = "diff"
    reference: Annotated[
        FilePath,
        argument(
            "model",
            "The right model: .onnx, .tflite, OpenVINO .xml, .pt2 or FILE.py:FUNCTION.",
            str,
            metavar="REFERENCE",
            field="reference",
        ),
    ]
    other: Annotated[
        FilePath | None,
        argument(
            "other", "The model to check (default: the same, in the second of two runtimes).", str,
            metavar="MODEL", default=None,
        ),
    ] = None  # fmt: skip
    runtimes: Annotated[
        Runtimes,
        worded(
            "Runtime of the reference, and of the other model; of a .tflite also tflite-micro, or firmware of a core "
            "such as cortex-m4 (default: that of each file's format)"
        ),
    ] = ()
    data: Annotated[
        FilePath | None,
        option(
            "--data PATH",
            DATA,
            "Samples, as evaluate takes them, without labels too (default: random inputs)",
            common=True,
        ),
    ] = None
    split: Annotated[str | None, option("--split NAME", DATA, "Part of the data to use")] = None
    limit: Annotated[
        Whole, option("--limit N", DATA, "Number of samples, chosen at random by --seed", int, common=True)
    ] = 16
    prepare: Prepare = ()
    shapes: InputShapes = Field(default_factory=dict)
    seed: Seed = 0
    timeout: Annotated[
        Number, option("--timeout T", MEASURE, "Time limit of all inferences", read=parse_duration, default="5min")
    ] = 300.0
    top: Annotated[
        Whole, option("--top N", OUTPUT, "Number of layers to print; 0 prints all", int, minimum=0, common=True)
    ] = 15

    def check(self) -> None:
        """Reject amounts that mean nothing, and a model without another side."""
        if self.other is None and len(self.runtimes) != 2:
            raise BadField(
                "one model has nothing to be compared with",
                advice="give a second model, or two runtimes: ⟦runtimes=onnxruntime,openvino⟧",
            )
        if len(self.runtimes) > 2:
            raise BadField(f"⟦runtimes⟧ must be one or two, not {len(self.runtimes)}")
        require_at_least(1, limit=self.limit)
        require_at_least(0, top=self.top)
        require_time(timeout=self.timeout)
