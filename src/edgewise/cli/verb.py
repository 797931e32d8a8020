"""What every verb does around its request: a dry run, progress, the result, report files and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.markup import escape

from edgewise.errors import BadInput, ExitCode
from edgewise.terminal.console import err, out, print_json
from edgewise.terminal.context import in_context, write_files
from edgewise.terminal.errors import tell_ending
from edgewise.text import one_line
from edgewise.verbs.command import Command
from edgewise.verbs.hub import fetch_models, takes_models
from edgewise.verbs.option import Values
from edgewise.verbs.presentation import Presentation, View
from edgewise.verbs.verb import VERBS, Verb, carry_out, command_of, rehearse

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.request import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The options about output of a command.

    Attributes:
        files: reports to write.
        top: layers to print; None prints all.
        keep: whether runs are saved.
        absolute: of a dry run: whether paths in the request are made absolute.
    """

    files: Sequence[Path] = ()
    force: bool = False
    details: bool = False
    as_json: bool = False
    top: int | None = None
    quiet: bool = False
    store: str | None = None
    keep: bool = True
    dry_run: bool = False
    absolute: bool = False


def output_of(values: Values, *, files: str = "output") -> Output:
    """Return the options about output, as given on the command line.

    Args:
        files: the name of the option for reports.
    """
    names = ("force", "details", "quiet", "store", "dry_run", "absolute")
    return Output(
        files=values.get(files) or (),
        as_json=values["json"],
        top=values.get("top") or None,
        keep=not values.get("no_store"),
        **{name: values[name] for name in names if name in values},
    )


def command_for(verb: Verb) -> Command:
    """Return the command of `verb`."""

    def work(values: Values) -> int:
        models = {one.name: fetch_models(values[one.name]) for one in verb.all_options() if takes_models(one)}
        request = verb.read({**values, **models})
        asked = VERBS.get(request.in_effect().verb)
        return perform(request, output_of(values, files=asked.reports))

    work.__doc__ = verb.help
    return Command(work, tuple(verb.all_options()))


def perform(request: Request, output: Output, work: Callable[[Request, Context], Any] = carry_out) -> int:
    """Carry `request` out by `work`, show and write the result, and give the exit code."""
    request = request.in_effect()
    presentation = VERBS.get(request.verb).presentation()
    check_files(output.files, presentation.check_file, overwrite=output.force)
    presentation.check_request(request, output.files)
    if output.dry_run:
        return _say_what_would_be_done(request, output)
    return present(with_context(output, partial(work, request)), presentation, output)


def with_context(output: Output, work: Callable[[Context], T]) -> T:
    """Return what `work` gives in the context of a command: its store, and progress on standard error."""
    return in_context(work, quiet=output.quiet, store=output.store, keep=output.keep)


def present(result: Any, presentation: Presentation[Any], output: Output) -> int:
    """Show `result`, write its reports, and give the exit code."""
    if output.as_json:
        print_json(presentation.document(result))
    else:
        presentation.show(result, out(), view=View(top=output.top, details=output.details))
    _say_notes(presentation.notes(result))
    lost = write_files(output.files, lambda path: presentation.write(result, path, overwrite=output.force))
    return tell_ending(presentation.ending(result, kept=output.keep)) or lost


def check_files(paths: Sequence[Path], check: Callable[..., None], *, overwrite: bool) -> None:
    """Refuse report files before measuring rather than after, with `check` of each and none named twice."""
    for index, path in enumerate(paths):
        check(path, overwrite=overwrite)
        if path in paths[:index]:
            raise BadInput(f"{path} is named twice as an output", advice="name each file once")


def _say_notes(notes: Sequence[str]) -> None:
    """One line for each thing that was asked for and could not be done."""
    for note in notes:
        kind, colon, reason = note.partition(": ")
        err().print(f"[dim]{escape(kind + colon)}[/]{escape(one_line(reason))}", soft_wrap=True)


def _say_what_would_be_done(request: Request, output: Output) -> int:
    """Return the request as JSON, or what it asks for in words."""
    if output.absolute:
        request = request.with_paths_from(Path.cwd())
    if output.as_json:
        print_json(request.to_document())
        return ExitCode.DONE
    presentation = VERBS.get(request.verb).presentation()
    steps, notes = ((), ()) if request.functions else presentation.plan(request)
    unchecked = with_context(replace(output, quiet=True), partial(rehearse, request))
    console = out()
    console.print(f"would run: {escape(one_line(command_of(request)))}", soft_wrap=True)
    for field, value in request.changed_fields().items():
        console.print(f"  {field}: {escape(one_line(_shown(value)))}", soft_wrap=True)
    if functions := request.functions:
        console.print(f"this runs code: {escape(one_line(', '.join(functions)))}", soft_wrap=True)
        return ExitCode.DONE
    for step in steps:
        console.print(escape(step), soft_wrap=True)
    _say_notes([*notes, *filter(None, [unchecked])])
    return ExitCode.DONE


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
