"""Requests about hardware that is not at hand."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.errors import BadField, Unavailable
from edgewise.run.battery import Quantity
from edgewise.service.request import Case, FilePath, Number, Request, Shapes, Texts, Whole
from edgewise.service.requests.shared import check_cases, check_signature
from edgewise.units import POWERS, parse_capacity, parse_interval


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


class FitsRequest(EstimatedRequest):
    """List the boards of the catalogue that hold a model.

    Attributes:
        max_latency: s; None sets no limit.
        max_ram, max_flash: bytes that the model may take; None sets no limit.
        capacity: of a battery, such as ``10Wh``; with `idle_power` and `per_hour`, boards have a battery life.
        idle_power: between inferences, such as ``50mW±5mW``.
        per_hour: number of inferences an hour.
    """

    verb: Literal["fits"] = "fits"
    max_latency: Number | None = None
    max_ram: Whole | None = None
    max_flash: Whole | None = None
    capacity: str | None = None
    idle_power: str | None = None
    per_hour: Number | None = None

    def check(self) -> None:
        """Reject limits that are not positive, and a battery of which a part is missing or wrong."""
        super().check()
        for name in ("max_latency", "max_ram", "max_flash"):
            if (limit := getattr(self, name)) is not None and limit <= 0:
                raise BadField(f"{{{name}}} must be more than 0, not {limit:g}")
        if len({each is None for each in (self.capacity, self.idle_power, self.per_hour)}) > 1:
            raise BadField(
                "a battery life needs {capacity}, {idle_power} and {per_hour}", advice="give all three, or none of them"
            )
        if (battery := self.battery()) is not None and (battery[0] <= 0 or battery[2] < 0):
            raise BadField("{capacity} must be more than 0, and {per_hour} at least 0")

    def battery(self) -> tuple[float, Quantity, float] | None:
        """Capacity in J, idle power in W and inferences an hour; None without a battery. Raises `BadInput`."""
        if self.capacity is None or self.idle_power is None or self.per_hour is None:
            return None
        idle_power = Quantity(*parse_interval(self.idle_power, POWERS, what="power"))
        return parse_capacity(self.capacity), idle_power, self.per_hour


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
