"""``edgewise doctor``."""

from edgewise.verbs.command import PlainCommand


class Doctor(PlainCommand):
    """List runtimes and meters, and grade this machine for measuring."""

    group = "Understand"
