"""The request of ``estimate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from edgewise.errors import BadField, BadInput, Unavailable
from edgewise.verbs import choices
from edgewise.verbs.fields import Cases, InputShapes, Signature
from edgewise.verbs.option import argument, option, worded
from edgewise.verbs.request import FilePath, Request
from edgewise.verbs.shared import check_cases, check_signature
from edgewise.verbs.shared_options import (
    ABSOLUTE,
    AS_JSON,
    BUILD,
    DETAILS,
    DRY_RUN,
    FORCE,
    OUTPUTS,
    QUIET,
    STORE,
    TOP,
    VARY,
)  # fmt: skip


def is_estimated(device: str) -> bool:
    """Whether an estimator knows `device`, and no device of this name can be measured on."""
    from edgewise.device.devices import find_device
    from edgewise.estimating.base import is_known

    try:
        find_device(device)
    except Unavailable:
        return is_known(device)
    return False


class EstimatedRequest(Request):
    """A model on hardware that is not at hand.

    Attributes:
        model: a file; ``file.py:function`` and ``module:function`` are called to make one, which is quantised to int8.
        cases: keyword arguments of the function, at most one set of them.
    """

    PATHS = ("model",)

    model: Annotated[
        FilePath,
        argument(
            "models",
            "Model file; several for a calibrated device, also tables and names of the atlas.",
            list[str],
            metavar="MODEL…",
            optional=True,
        ),
    ]
    cases: Annotated[Cases, worded("Keyword argument of the factory; repeatable")] = ({},)
    set: Annotated[
        dict[str, str],
        option(
            "--set NAME=VALUE",
            VARY,
            "Setting of the estimator, such as software=tflm-reference; repeatable",
            common=True,
        ),
    ] = Field(default_factory=dict)
    shapes: InputShapes = Field(default_factory=dict)
    signature: Signature = ""

    def check(self) -> None:
        """Reject cases without a function, more than one, and a signature with a function."""
        check_cases(self.cases, (self.model,))
        check_signature(self.signature, self.model)
        if len(self.cases) > 1:
            raise BadField(f"⟦cases⟧ must be one model for an estimate, not {len(self.cases)}")


class EstimateRequest(EstimatedRequest):
    """Estimate a model on a device that an estimator knows, ``NAME`` or ``NAME@CLOCK``."""

    OTHER_OPTIONS = (
        BUILD,
        option(
            "--devices",
            VARY,
            "List the devices that can be estimated, with their settings",
            bool,
            not_asked="the form lists them",
        ),
        option(
            "--fits",
            VARY,
            "List the boards of the catalogue that hold the model, instead of -d",
            bool,
            common=True,
            not_asked="it has a form of its own",
        ),
        TOP,
        DETAILS,
        OUTPUTS.worded(
            "Also write a file: .md, .html, .txt, .csv (layers), .json or .mltk.json; or a folder with all of them; "
            "of a calibrated device .md, .html, .csv or .json; repeatable"
        ),
        FORCE,
        AS_JSON,
        QUIET,
        STORE.worded(
            "For a calibrated device: store that its calibration and the runs belong to (default: EDGEWISE_STORE)"
        ),
        DRY_RUN,
        ABSOLUTE,
    )

    verb: Literal["estimate"] = "estimate"
    device: Annotated[
        str,
        option(
            "-d --device NAME",
            VARY,
            "Device to estimate, such as ethos-u55-128 or ethos-u55-128@400MHz, or one that you have calibrated",
            choices=choices.estimated_devices,
            optional=True,
            common=True,
        ),
    ]

    def check_formats(self, formats: Mapping[str, str]) -> None:
        """Reject a model whose format the device's estimator does not read."""
        others = [name for name, each in formats.items() if each != "tflite"]
        if not others:  # which every estimator reads: those need not be loaded
            return
        from edgewise.estimating.base import AS_TFLITE, find_device

        estimator, _ = find_device(self.device, self.set)
        if getattr(estimator, "reads", "") == "tflite":
            raise BadInput(f"{others[0]}: ⟦device⟧ {self.device} takes .tflite files only", advice=AS_TFLITE)
