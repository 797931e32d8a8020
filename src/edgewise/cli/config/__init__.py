"""``edgewise config``."""

from edgewise.verbs.command import PlainCommand


class Config(PlainCommand):
    """Show what the project file edgewise.toml sets."""

    group = "Keep"
    command = ".command:COMMANDS"
