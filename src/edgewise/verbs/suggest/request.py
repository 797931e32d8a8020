"""The request of ``calibrate --suggest``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.verbs.request import FilePath, Request, Whole


class SuggestRequest(Request):
    """Choose reference networks to measure next on a device, and write their files.

    Attributes:
        name: of the device that is to be calibrated.
        suggest: number of networks.
        folder: its `output`: where the files go; None is ``NAME-models`` in the current folder.
        format: ``onnx`` or ``tflite``.
        force: overwrite other files of the same names.
    """

    PATHS = ("folder",)

    verb: Literal["suggest"] = "suggest"
    name: str
    suggest: Whole = Field(ge=1)
    folder: FilePath | None = None
    format: Literal["onnx", "tflite"] = "onnx"
    force: bool = False
