"""``edgewise devices``."""

from edgewise.verbs.command import PlainCommand


class Devices(PlainCommand):
    """Register, list, check and remove the devices that -d names."""

    group = "Keep"
    command = ".command:COMMANDS"
