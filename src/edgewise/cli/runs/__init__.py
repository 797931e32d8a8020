"""``edgewise runs``."""

from edgewise.verbs.command import PlainCommand


class Runs(PlainCommand):
    """List, show, export, import and remove stored runs."""

    group = "Keep"
    command = ".command:COMMANDS"
