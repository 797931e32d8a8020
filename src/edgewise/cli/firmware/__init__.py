"""``edgewise firmware``."""

from edgewise.verbs.command import PlainCommand


class Firmware(PlainCommand):
    """Write a model as firmware that speaks MLPerf Tiny's protocol."""

    group = "Predict"
