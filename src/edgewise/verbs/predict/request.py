"""The request of ``estimate -d CALIBRATED``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgewise.verbs import words
from edgewise.verbs.option import option
from edgewise.verbs.request import FilePath, Number, Request
from edgewise.verbs.shared_options import LIMITS, VARY


class PredictRequest(Request):
    """Predict models for a calibrated device.

    Attributes:
        models: model files, names of models in the atlas, or CSV files with models and their values on this machine.
        device: the name of a calibrated device.
        targets: metric → largest value wanted, in SI.
    """

    PATHS = ("models",)

    verb: Literal["predict"] = "predict"
    models: tuple[FilePath, ...] = Field(min_length=1)
    device: str
    targets: Annotated[
        dict[str, Number],
        option(
            "--target latency=30ms",
            LIMITS,
            "For a calibrated device: also print the probability of a value at or below this; repeatable",
            read=words.limits,
        ),
    ] = Field(default_factory=dict)
    anyway: Annotated[
        bool,
        option(
            "--anyway",
            VARY,
            "For a calibrated device: widen the interval of models that the measured ones say little about (another "
            "precision, size or kind of operators), instead of refusing them",
        ),
    ] = False
