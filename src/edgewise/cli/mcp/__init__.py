"""``edgewise mcp``."""

from edgewise.verbs.command import PlainCommand


class Mcp(PlainCommand):
    """Serve edgewise as tools to an agent, over standard input and output (Model Context Protocol)."""

    group = "Keep"
