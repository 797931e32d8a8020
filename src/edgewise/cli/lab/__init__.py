"""``edgewise lab``."""

from edgewise.verbs.command import PlainCommand


class Lab(PlainCommand):
    """Share devices of many hosts: queue, workers, status."""

    group = "Measure"
    command = ".command:COMMANDS"
