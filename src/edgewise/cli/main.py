"""The command line's front door: one lazily imported module a command, one place that turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
import typer
from typer.core import TyperGroup

from edgewise import __version__
from edgewise.errors import EdgewiseError, ExitCode

#: command → (module, one-line help). Help is shown from here, so that ``--help`` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "tour": ("edgewise.cli.tour", "Walk the whole loop on a bundled real model, ending in an HTML report."),
    "bench": ("edgewise.cli.bench", "Measure models on every runtime, side by side."),
    "doctor": ("edgewise.cli.doctor", "Runtimes, meters, and how fit this machine is for measuring."),
    "runs": ("edgewise.cli.runs", "List, show, export, import and remove stored runs."),
    "report": ("edgewise.cli.report", "Turn stored runs into tables, CSV, JSON or an HTML page."),
}


class LazyGroup(TyperGroup):
    """Lists `COMMANDS` without importing them and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the loop, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported only where it is about to run."""
        if cmd_name not in COMMANDS:
            return None
        module, help_text = COMMANDS[cmd_name]
        if cmd_name not in sys.argv and cmd_name not in ctx.args and not ctx.meta.get("edgewise.load"):
            return typer.core.TyperCommand(cmd_name, help=help_text, short_help=help_text)
        app: Any = import_module(module).app
        command: click.Command = typer.main.get_command(app)
        command.name = cmd_name
        return command
