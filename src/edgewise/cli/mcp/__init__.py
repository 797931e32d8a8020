"""``edgewise mcp``."""

from edgewise.verbs.command import PlainCommand


class Mcp(PlainCommand):
    """Serve edgewise as tools to an agent (Model Context Protocol)."""

    group = "Keep"
