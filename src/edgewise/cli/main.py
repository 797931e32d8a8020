"""The command line: commands, found by entry points and imported when they run; errors become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence

import click

from edgewise.cli.completing import VARIABLE, answer
from edgewise.cli.parsing import Group, Parsed, group_of, words_of
from edgewise.cli.project import read_project
from edgewise.errors import ExitCode, Unavailable
from edgewise.registry import BOTH
from edgewise.terminal.console import SteadyStreams, complain
from edgewise.terminal.errors import explain as explain_error
from edgewise.verbs.command import COMMANDS, Command, PlainCommand, place_of
from edgewise.verbs.verb import VERBS, Verb
from edgewise.version import __version__

ANYWHERE = ("--version", "--debug")
"""Flags that are taken from the words before click reads them."""
_HELP = (
    "Measure and improve neural networks at the edge: one command for every runtime, with intervals and grades of "
    "trust: A to C, or D for a number to measure again."
)


def root() -> Group:
    """All commands, none of them imported yet."""
    found = _found()
    usable = {name: one for name, one in found.items() if not isinstance(one, Unavailable)}
    return Group(
        "edgewise",
        _lines(found),
        _load,
        help=_HELP,
        params=[click.Option([flag], is_flag=True) for flag in ANYWHERE],
        synonyms={word: name for name, one in usable.items() for word in one.synonyms},
    )


def declared(name: str) -> Command | Mapping[str, Command]:
    """Return the command of that name, or the commands of a group by their names."""
    found = _find(name)
    if isinstance(found, PlainCommand):
        return found.declared()
    from edgewise.cli.verb import command_for  # it imports what prints results

    return command_for(found)


def _load(name: str) -> click.Command:
    found = declared(name)
    return Parsed(name, found) if isinstance(found, Command) else group_of(name, found, help=_find(name).summary)


def commands() -> dict[str, tuple[str, str]]:
    """Name of a command → its heading in the help, and one line of help; in the order of the help."""
    return _lines(_found())


def _lines(found: Mapping[str, Verb | PlainCommand | Unavailable]) -> dict[str, tuple[str, str]]:
    lines = {
        name: ("Not usable", one.message) if isinstance(one, Unavailable) else (one.group, one.summary)
        for name, one in found.items()
    }
    return dict(sorted(lines.items(), key=lambda item: (place_of(item[1][0]), item[0])))


def _found() -> dict[str, Verb | PlainCommand | Unavailable]:
    """Return what each command is, or why it can't be used, which the command itself says again, with advice."""
    found: dict[str, Verb | PlainCommand | Unavailable] = {}
    for name in sorted({*VERBS.names(), *COMMANDS.names()}):
        try:
            one = _find(name)
        except Unavailable as error:
            found[name] = error
            continue
        if isinstance(one, PlainCommand) or not one.asked_by:
            found[name] = one
    return found


def _find(name: str) -> Verb | PlainCommand:
    """Return the verb or plain command of that name; edgewise's own comes before one of another package.

    Raises `Unavailable` where it can't be loaded, and where a verb and a command of other packages have the name.
    """
    verb, plain = (name in registry.names() for registry in (VERBS, COMMANDS))
    if verb and plain and not (VERBS.is_own(name) or COMMANDS.is_own(name)):
        places = f"{VERBS.location(name)}{BOTH}{COMMANDS.location(name)}"
        raise Unavailable(f"two packages have a command {name!r}: {places}", advice="uninstall one of them")
    return VERBS.get(name) if verb and not (plain and COMMANDS.is_own(name)) else COMMANDS.get(name)


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
        project = read_project()
        with project.in_force(), root().make_context("edgewise", arguments, obj=project) as context:
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
