"""``edgewise atlas``."""

from edgewise.verbs.command import PlainCommand


class Atlas(PlainCommand):
    """Import tables of what models take on other devices."""

    group = "Predict"
    command = ".command:COMMANDS"
