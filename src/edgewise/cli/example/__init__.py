"""``edgewise example``."""

from edgewise.verbs.command import PlainCommand


class Example(PlainCommand):
    """Write the model and data of the documentation's examples."""

    group = "Understand"
