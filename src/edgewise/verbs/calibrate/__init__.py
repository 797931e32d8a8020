"""``calibrate``: learn a device from a few models measured on it."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Calibrate(Verb):
    """Learn a device from a few models that were measured on it; 'edgewise estimate -d DEVICE' then predicts others.

    Without --measurements, the runs of DEVICE in the store are taken: those of 'edgewise bench -d DEVICE', and those of
    other tools that 'edgewise runs import --device DEVICE' read. Give 3 models or more, better 5 to 10 of different
    size and kind. Models that 'edgewise bench' has measured on this machine, or whose values on it are in the table,
    are predicted better. Each law is judged by what it predicts for models that it was not fitted to.
    """

    name = "calibrate"
    summary = "Learn a device from a few models measured on it."
    examples = ("edgewise calibrate phone --measurements measured.csv",)
    group = "Predict"
    request = ".request:CalibrateRequest"
    work = ".work:calibrate"
    shown = ".presentation:CalibrationPresentation"
    reader = ".reading:read"
