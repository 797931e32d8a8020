"""The request of ``estimate``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.errors import BadField, Unavailable
from edgewise.verbs.request import Case, FilePath, Request, Shapes
from edgewise.verbs.shared import check_cases, check_signature


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
        set: settings of the estimator, name → value.
        shapes: input name → shape, for inputs with open dimensions.
        signature: name of the entry point of a file that has several; "" is its default.
    """

    PATHS = ("model",)

    model: FilePath
    cases: tuple[Case, ...] = ({},)
    set: dict[str, str] = Field(default_factory=dict)
    shapes: Shapes = Field(default_factory=dict)
    signature: str = ""

    def check(self) -> None:
        """Reject cases without a function, more than one, and a signature with a function."""
        check_cases(self.cases, (self.model,))
        check_signature(self.signature, self.model)
        if len(self.cases) > 1:
            raise BadField(f"{{cases}} must be one model for an estimate, not {len(self.cases)}")


class EstimateRequest(EstimatedRequest):
    """Estimate a model on hardware that is not at hand.

    Attributes:
        device: a device that an estimator knows, ``NAME`` or ``NAME@CLOCK``.
    """

    verb: Literal["estimate"] = "estimate"
    device: str
