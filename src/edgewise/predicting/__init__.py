"""Few-shot prediction: what a model takes on a device on which a few other models were measured."""

from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration
from edgewise.predicting.choice import Choice, LeftOut, Prediction, choose, leave_out
from edgewise.predicting.forecast import Forecast, Forecasts, forecast

__all__ = [
    "Calibration",
    "Choice",
    "Forecast",
    "Forecasts",
    "LeftOut",
    "Point",
    "Prediction",
    "Subject",
    "choose",
    "forecast",
    "leave_out",
]
