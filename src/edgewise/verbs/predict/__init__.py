"""``estimate``: predict models for a calibrated device."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Predict(Verb):
    """Predict models for a calibrated device."""

    name = "predict"
    summary = "Predict models for a calibrated device."
    group = "Predict"
    request = ".request:PredictRequest"
    work = "edgewise.verbs.calibrate.work:predict"
    rehearses = True
    shown = ".presentation:ForecastPresentation"
    asked_by = ("estimate",)
    keeps_runs = False
    estimates = True
    not_in_lab = "a lab does not estimate for calibrated devices: its hosts lack the calibrations"
