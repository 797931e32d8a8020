"""``edgewise completion``."""

from edgewise.verbs.command import PlainCommand


class Completion(PlainCommand):
    """Print the script that makes your shell complete commands."""

    group = "Keep"
