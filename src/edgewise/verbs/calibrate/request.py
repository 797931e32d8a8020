"""The request of ``calibrate``."""

from __future__ import annotations

from typing import Literal

from edgewise.verbs.request import FilePath, Request, Texts


class CalibrateRequest(Request):
    """Learn a device from a few models that were measured on it.

    Attributes:
        name: of the device, as ``-d`` takes it afterwards.
        measurements: CSV files, stored runs (id, its beginning, tag), exported runs, outputs of other tools, or folders
            of these; without any, the stored runs of the device.
        method: the law to take; None chooses the one that predicts left-out models best.
        host: engine whose stored runs on this machine are taken, such as ``litert``; None takes the one with the most.
        runtime: engine whose runs of the device are taken; None where they are all of one.
        model_dir: folder of the measured models, where runs and tables have their names or hashes alone.
    """

    PATHS = ("model_dir",)

    verb: Literal["calibrate"] = "calibrate"
    name: str
    measurements: Texts = ()
    method: str | None = None
    host: str | None = None
    runtime: str | None = None
    model_dir: FilePath | None = None
