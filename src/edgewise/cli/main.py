"""The command line: one lazily imported module per command, and one place that turns errors into exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from edgewise.cli.completing import VARIABLE, answer
from edgewise.cli.parsing import Group, Parsed, group_of, words_of
from edgewise.errors import ExitCode, Unavailable
from edgewise.terminal.console import SteadyStreams, complain
from edgewise.terminal.errors import explain as explain_error
from edgewise.verbs.command import Command
from edgewise.verbs.verb import VERBS
from edgewise.version import __version__

#: command → (group in the help, module, one-line help). Help is shown from here, so that ``--help`` imports no command.
#: A module has either a ``command`` or, where there are subcommands, ``COMMANDS``.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("Measure", "edgewise.cli.run", "Carry out a request written with --dry-run --json."),
    "doctor": ("Understand", "edgewise.cli.doctor", "List runtimes and meters, and grade this machine for measuring."),
    "tour": ("Understand", "edgewise.cli.tour", "Run the main commands on a bundled network; write HTML reports."),
    "example": ("Understand", "edgewise.cli.example", "Write the model and data of the documentation's examples."),
    "battery": ("Predict", "edgewise.cli.battery", "Compute how long a battery lasts."),
    "atlas": ("Predict", "edgewise.cli.atlas", "Import tables of what models take on other devices."),
    "zoo": ("Predict", "edgewise.cli.zoo", "Build reference networks to measure on devices."),
    "firmware": ("Predict", "edgewise.cli.firmware", "Write a model as firmware that speaks MLPerf Tiny's protocol."),
    "runs": ("Keep", "edgewise.cli.runs", "List, show, export, import and remove stored runs."),
    "report": ("Keep", "edgewise.cli.report", "Turn stored runs into tables, CSV, JSON or an HTML page."),
    "devices": ("Keep", "edgewise.cli.devices", "Register, list, check and remove the devices that -d names."),
    "completion": ("Keep", "edgewise.cli.completion", "Print the script that makes your shell complete commands."),
    "serve": ("Keep", "edgewise.studio.command", "Open the studio: a local web page for everything above."),
    "studio": ("Keep", "edgewise.studio.export", "Write what the studio shows as static pages."),
}
GROUPS = ("Measure", "Understand", "Improve", "Predict", "Keep")
"""Headings of the help, in their order; those of other packages follow."""
ANYWHERE = ("--version", "--debug")
"""Flags that are taken from the words before click reads them."""
_HELP = (
    "Measure and improve neural networks at the edge: one command for every runtime, with intervals and trust grades."
)


def root() -> Group:
    """All commands, none of them imported yet."""
    return Group(
        "edgewise", commands(), _load, help=_HELP, params=[click.Option([flag], is_flag=True) for flag in ANYWHERE]
    )


def declared(name: str) -> Command | Mapping[str, Command]:
    """The command of that name, or the commands of a group by their names."""
    if name not in COMMANDS:
        from edgewise.cli.verb import command_for  # it imports what prints results

        return command_for(VERBS.get(name))
    module = import_module(COMMANDS[name][1])
    found: Command | Mapping[str, Command] = getattr(module, "COMMANDS", None) or module.command
    return found


def _load(name: str) -> click.Command:
    found = declared(name)
    return Parsed(name, found) if isinstance(found, Command) else group_of(name, found, help=commands()[name][1])


def commands() -> dict[str, tuple[str, str]]:
    """Name of a command → its heading in the help, and one line of help; in the order of the help."""
    verbs: dict[str, tuple[str, str]] = {}
    for name in VERBS.names():
        try:
            verb = VERBS.get(name)
        except Unavailable as error:  # the command itself says it again, with advice
            verbs[name] = "Not usable", error.message
        else:
            verbs |= {} if verb.asked_by else {name: (verb.group, verb.summary)}
    found = verbs | {name: (group, line) for name, (group, _, line) in COMMANDS.items()}
    places = dict(zip(GROUPS, range(len(GROUPS)), strict=True))
    return dict(sorted(found.items(), key=lambda item: (places.get(item[1][0], len(places)), item[0])))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; prints errors as one red line and one of advice."""
    with SteadyStreams() as streams:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        loss = streams.loss()
        if loss is not None:
            complain(f"standard output can't be written: {loss.strerror}", "write results to a file with -o")
        return code or (ExitCode.UNAVAILABLE if loss is not None else ExitCode.DONE)


def _run(arguments: list[str]) -> int:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own, rest = arguments[:end], arguments[end:]  # what follows -- belongs to another program
    debug = "--debug" in own or bool(os.environ.get("EDGEWISE_DEBUG"))
    arguments = [word for word in own if word != "--debug"] + rest
    if "--version" in own:
        print(f"edgewise {__version__}")
        return ExitCode.DONE
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    try:
        if asked := os.environ.get(VARIABLE):
            return answer(root(), asked)
        with root().make_context("edgewise", arguments) as context:
            return int(context.command.invoke(context) or ExitCode.DONE)
    except click.exceptions.Exit as done:
        return done.exit_code
    except Exception as error:
        return explain(error, debug=debug, command=wanted or "")
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has written ^C
        complain("interrupted", "finished runs are kept: see 'edgewise runs list'")
        return ExitCode.INTERRUPTED


def explain(error: Exception, *, debug: bool, command: str = "") -> int:
    """Print `error` as `edgewise.terminal.errors.explain` does, or what is wrong with the command line."""
    if isinstance(error, click.UsageError):
        if debug:
            traceback.print_exception(error)
        complain(*words_of(error))
        return ExitCode.BAD_INPUT
    return explain_error(error, debug=debug, command=command)
