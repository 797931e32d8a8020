"""``edgewise report``."""

from edgewise.verbs.command import PlainCommand


class Report(PlainCommand):
    """Turn stored runs into tables, CSV, JSON or an HTML page."""

    group = "Keep"
