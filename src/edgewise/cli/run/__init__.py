"""``edgewise run``."""

from edgewise.verbs.command import PlainCommand


class Run(PlainCommand):
    """Carry out a request written with --dry-run --json."""

    group = "Measure"
