"""The command line: one lazily imported module per command, and one place that turns errors into exit codes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from edgewise import __version__
from edgewise.cli.console import SteadyStreams, complain
from edgewise.cli.verb import command_of
from edgewise.errors import BadField, BadInput, EdgewiseError, ExitCode
from edgewise.verbs.verb import VERBS

#: command → (group in the help, module, one-line help). Help is shown from here, so that ``--help`` imports no command.
#: A module has either a function ``command`` or, where there are subcommands, a Typer called ``app``.
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
    "serve": ("Keep", "edgewise.studio.command", "Open the studio: a local web page for everything above."),
    "studio": ("Keep", "edgewise.studio.export", "Write what the studio shows as static pages."),
}
GROUPS = ("Measure", "Understand", "Improve", "Predict", "Keep")
"""Headings of the help, in their order; those of other packages follow."""
EXAMPLES = (
    ("edgewise bench model.onnx --threads 1,2", "which engine is fastest here?"),
    ("edgewise optimize model.onnx --data photos", "can it be made faster?"),
    ("edgewise estimate model.tflite -d cortex-m4", "what would a board take?"),
)
MOST_OPTIONS = 15
"""Number of options above which ``--help`` shows only the common ones."""

_SYNONYMS = (
    ("rm", "remove", "delete", "del"), ("list", "ls"), ("show", "view", "info", "cat"), ("bench", "measure", "run"),
    ("serve", "ui", "web"), ("convert", "export"), ("optimize", "quantize", "quantise"),
)  # fmt: skip
"""Words for one command, of which each group of commands has one."""

# Typer's own copy of click is private; its public BadParameter leads to the family of all usage errors.
_UsageError = typer.BadParameter.__mro__[1]


def build(wanted: str | None) -> typer.Typer:
    """The application with every command listed and only `wanted` imported; all of them for ``wanted="*"``."""
    app = typer.Typer(
        name="edgewise",
        help="Measure and improve neural networks at the edge: one command for every runtime, with intervals and trust "
        "grades.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="\n\n".join(f"{line:<45}{question}" for line, question in EXAMPLES),
    )

    @app.callback(invoke_without_command=False)
    def root(
        version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
    ) -> None:
        del version, debug  # handled before Typer sees the command line, so that they work anywhere on it

    for name, (panel, module, help_text) in sorted(commands().items(), key=_place):
        if wanted in (name, "*"):
            loaded = import_module(module) if module else None
            if loaded is None:
                app.command(name, short_help=help_text, rich_help_panel=panel)(command_of(VERBS.get(name)))
            elif hasattr(loaded, "app"):
                app.add_typer(loaded.app, name=name, help=help_text, rich_help_panel=panel)
            else:
                whole = loaded.command.__doc__ or help_text
                app.command(name, help=whole, short_help=help_text, rich_help_panel=panel)(loaded.command)
        else:
            app.command(name, help=help_text, rich_help_panel=panel)(_not_loaded)
    return app


def _place(command: tuple[str, tuple[str, str, str]]) -> tuple[int, str]:
    """Where a command stands in the help."""
    name, (group, _, _) = command
    return GROUPS.index(group) if group in GROUPS else len(GROUPS), name


def commands() -> dict[str, tuple[str, str, str]]:
    """`COMMANDS` and those of the verbs, which have no module."""
    verbs = {name: (verb.group, "", verb.summary) for name, verb in VERBS if not verb.asked_by}
    return COMMANDS | verbs


def _not_loaded() -> None:
    """Placeholder for a command that this invocation does not run."""


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
    if "--version" in arguments[:1]:
        print(f"edgewise {__version__}")
        return ExitCode.DONE
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    try:
        group = typer.main.get_command(build(wanted))
        _take_plain_values(group)
        _hide_types(group)
        _refuse_repetitions(group)
        if "--help-all" in own:
            arguments = ["--help" if word == "--help-all" else word for word in arguments]
        elif {"--help", "-h"} & {*own} and wanted in commands():
            # Typer types its group as a command; one with several commands has them.
            _shorten_help(group.commands[wanted])  # type: ignore[attr-defined]
        answer = group(arguments, standalone_mode=False)
    except Exception as error:
        return explain(error, debug=debug, command=wanted or "")
    except KeyboardInterrupt:
        complain("interrupted", "finished runs are kept: see 'edgewise runs list'")
        return ExitCode.INTERRUPTED
    return int(answer) if isinstance(answer, int) else ExitCode.DONE


def _take_plain_values(command: Any) -> None:
    """Convert plain values here: Typer would import pydantic, and build a model of each parameter, given or not."""
    for param in _params_of(command):
        param.process_value = partial(_value_of, param, param.process_value)


def _hide_types(command: Any) -> None:
    """Keep Python's types out of the help: Typer shows ``<bool>`` after a flag, ``<list[str]>`` after an argument."""
    for param in _params_of(command):
        if param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: None
        elif param.is_flag and param.metavar is None:
            param.metavar = ""


def _refuse_repetitions(command: Any, path: str = "edgewise") -> None:
    """Refuse an option that takes one value and is given several: Typer would take the last one without a word."""
    make = command.make_parser

    def make_parser(context: Any) -> Any:
        parser = make(context)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            found = parse(args=args)
            options, _, order = found
            for param in order if not options.get("help") else ():
                several = param.param_type_name == "option" and order.count(param) > 1 and not param.multiple
                if several and (not param.is_flag or param.secondary_opts):
                    flag = "/".join((param.opts[-1], *param.secondary_opts))
                    advice = f"give it once; '{path}' takes one value of it"
                    raise BadInput(f"{flag} is given {order.count(param)} times", advice=advice)
            return found

        parser.parse_args = parse_args
        return parser

    command.make_parser = make_parser
    for name, inner in getattr(command, "commands", {}).items():
        _refuse_repetitions(inner, f"{path} {name}")


def _shorten_help(command: Any) -> None:
    """Show only the common options of a command with many, and say how many others there are."""
    from edgewise.cli.options import COMMON

    rare = [param for param in command.params if param.param_type_name == "option" and param.name not in COMMON]
    if len(command.params) > MOST_OPTIONS:
        for param in rare:
            param.hidden = True
        command.epilog = f"{len(rare)} more options: edgewise {command.name} --help-all"


def _params_of(command: Any, parent: typer.Context | None = None) -> Iterator[Any]:
    """The parameters of a command and of the commands in it."""
    context = typer.Context(command, parent=parent, **command.context_settings)
    yield from command.get_params(context)
    for inner in getattr(command, "commands", {}).values():
        yield from _params_of(inner, context)


def _value_of(param: Any, by_typer: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """The value that Typer would make of a given or default one; Typer itself makes it where that is not plain."""
    typed = getattr(param, "type_descriptor", None)
    if typed is None or (param.required and not value):
        return by_typer(context, value)
    items, kind = get_origin(typed.annotation) is list, typed.annotation
    if value is None:
        found: Any = () if items else None
    elif type(value) is kind and kind is not str:
        found = value
    else:
        texts, kind = (value, get_args(kind)[0]) if items else ([value], kind)
        if not all(isinstance(text, str) and _is_plain(text, kind, typed.parameter_info) for text in texts):
            return by_typer(context, value)
        found = [kind(text) for text in texts] if items else kind(value)
    return found if param.callback is None else param.callback(context, param, found)


def _is_plain(text: str, kind: Any, info: Any) -> bool:
    """Whether Typer would make ``kind(text)`` of it and find nothing wrong."""
    if not text.isascii():
        return False
    if kind is int:
        return text.isdigit() and len(text) < 10 and int(text) in range(info.min or 0, (info.max or 10**9) + 1)
    return kind is str or (kind is Path and os.access(text, os.R_OK))


def explain(error: Exception, *, debug: bool, command: str = "") -> int:
    """Print `error` for a person, with a traceback for `debug`, and return its exit code.

    Args:
        command: the command whose help is named where a field has no advice of its own.
    """
    if debug:
        traceback.print_exception(error)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort):
        complain("aborted")
        return ExitCode.INTERRUPTED
    if isinstance(error, BadField):
        from edgewise.verbs.command_line import flag_of

        error = error.named(flag_of)
        error.advice = error.advice or f"see 'edgewise {command} --help'"
    if isinstance(error, EdgewiseError):
        complain(error.message, error.advice)
        return error.exit_code
    if isinstance(error, _UsageError):
        if type(error).__name__ == "NoArgsIsHelpError":
            return ExitCode.BAD_INPUT  # the help has been printed
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "edgewise"
        # The family of usage errors is found through Typer, without its type.
        advice, message = f"see '{command} --help'", error.format_message()  # type: ignore[attr-defined]
        if message.startswith("Missing option") and (param := getattr(error, "param", None)) is not None:
            advice = f"{param.opts[-1]} takes: {param.help}; {advice}" if param.help else advice
        if (unknown := re.match("No such command '(.+?)'", message)) and context is not None:
            meant = [
                one for words in _SYNONYMS if unknown[1] in words for one in words if one in context.command.commands
            ]
            advice = f"{command} {meant[0]}" if meant else advice
        if command.endswith((" runs list", " runs show")) and re.match("No such option: (-o|--output)", message):
            advice = f"{command.rpartition(' ')[0]} export -o FILE"
        if message.startswith("Missing argument") and context is not None:
            _, *words = context.command.collect_usage_pieces(context)
            usage = re.sub("[{}]", "", " ".join(words)).replace("…...", "…").upper()
            advice = f"write '{command} {usage}'; {advice}"
        complain(message, advice)
        return ExitCode.BAD_INPUT
    complain(f"internal error: {type(error).__name__}: {error}", "run again with --debug and report what it prints")
    return ExitCode.INTERNAL
