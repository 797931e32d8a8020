"""The request of ``calibrate --suggest``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgewise.verbs.option import option
from edgewise.verbs.request import FilePath, Request, Whole
from edgewise.verbs.shared_options import MEASURE


class SuggestRequest(Request):
    """Choose reference networks to measure next on a device, and write their files.

    Attributes:
        name: of the device that is to be calibrated.
        folder: its `output`: where the files go; None is ``NAME-models`` in the current folder.
        force: overwrite other files of the same names.
    """

    PATHS = ("folder",)

    verb: Literal["suggest"] = "suggest"
    name: str
    suggest: Annotated[
        Whole,
        option(
            "--suggest K",
            MEASURE,
            "Instead of learning: write K reference networks to measure next on DEVICE to the folder of -o (default: "
            "DEVICE-models), and print the commands to run",
            optional=True,
        ),
    ] = Field(ge=1)
    folder: FilePath | None = None
    format: Annotated[
        Literal["onnx", "tflite"], option("--format FORMAT", MEASURE, "Of the networks of --suggest: onnx or tflite")
    ] = "onnx"
    force: bool = False
