"""``edgewise tour``."""

from edgewise.verbs.command import PlainCommand


class Tour(PlainCommand):
    """Run the main commands on a bundled network; write HTML reports."""

    group = "Understand"
