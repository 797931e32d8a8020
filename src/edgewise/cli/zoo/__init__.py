"""``edgewise zoo``."""

from edgewise.verbs.command import PlainCommand


class Zoo(PlainCommand):
    """Build reference networks to measure on devices."""

    group = "Predict"
    command = ".command:COMMANDS"
