"""A calibrated phone with two families, and estimates for it."""

from __future__ import annotations

from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration
from edgewise.predicting.forecast import Forecasts, forecast

MEASURED = {
    "MobileNetV1": (0.0121, 0.045, "mobile"),
    "MobileNetV2": (0.0110, 0.0415, "mobile"),
    "SqueezeNet": (0.014, 0.060, "mobile"),
    "InceptionV3": (0.140, 0.560, "classic"),
    "ResNet50": (0.095, 0.330, "classic"),
}
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e & 'quoted'\nsecond line"


def calibration(*, families: bool = True, extra: str = "") -> Calibration:
    """The points of `MEASURED`, with one more named `extra`."""
    rows = MEASURED | ({extra: (0.02, 0.08, "mobile")} if extra else {})
    points = [
        Point(subject=Subject(name=name, host=host, family=family if families else ""), value=value)
        for name, (host, value, family) in rows.items()
    ]
    return Calibration(
        name="phone", points={"latency": tuple(points)}, sources=("measured.csv", *([extra] if extra else []))
    )


def forecasts(*, extra: str = "") -> Forecasts:
    """Three models, the last of which is refused; with a target."""
    hosts = {"EfficientNet": 0.030, extra or "DenseNet": 0.110, "Huge": 9.0}
    subjects = [Subject(name=name, host=host) for name, host in hosts.items()]
    return forecast(calibration(extra=extra), subjects, targets={"latency": 0.2})
