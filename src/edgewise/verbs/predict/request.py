"""The request of ``estimate -d CALIBRATED``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.verbs.request import FilePath, Number, Request


class PredictRequest(Request):
    """Predict models for a calibrated device.

    Attributes:
        models: model files, names of models in the atlas, or CSV files with models and their values on this machine.
        device: the name of a calibrated device.
        targets: metric → largest value wanted, in SI.
        anyway: widen the interval of a model that the measured ones say little about, instead of refusing it.
    """

    PATHS = ("models",)

    verb: Literal["predict"] = "predict"
    models: tuple[FilePath, ...] = Field(min_length=1)
    device: str
    targets: dict[str, Number] = Field(default_factory=dict)
    anyway: bool = False
