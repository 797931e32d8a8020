"""``edgewise battery``."""

from edgewise.verbs.command import PlainCommand


class Battery(PlainCommand):
    """Compute how long a battery lasts."""

    group = "Predict"
