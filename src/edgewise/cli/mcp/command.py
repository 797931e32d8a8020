"""``edgewise mcp``: the tools of an agent, over standard input and output."""

from __future__ import annotations

from pathlib import Path

from edgewise.errors import BadInput, Unavailable
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, option
from edgewise.verbs.shared_options import PLAIN


@takes(
    option("--root FOLDER", PLAIN, "The folder from which paths count", Path, default=Path()),
    option("--read-only", PLAIN, "Offer only tools that measure and write nothing", bool),
    option("--allow-code", PLAIN, "Also start 'exec', and commands that call functions such as net.py:make", bool),
)
def command(values: Values) -> None:
    """Serve edgewise to an agent: a program that speaks the Model Context Protocol starts this command.

    Its tools inspect models, start commands and follow them, and find and explain what was measured. Measurements wait
    for the device like those of everyone else, and are kept in the store of EDGEWISE_STORE.
    """
    root = values["root"].absolute()
    if not root.is_dir():
        raise BadInput(f"{values['root']} is no folder", advice="name the folder with the models")
    try:
        from edgewise.cli.mcp.server import make_server
    except ImportError as error:
        package = (error.name or "mcp").partition(".")[0]
        raise Unavailable(f"an agent's tools need {package}", advice="pip install 'edgewise[mcp]'") from error
    make_server(root, read_only=values["read_only"], allow_code=values["allow_code"]).run()
