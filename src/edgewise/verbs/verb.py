"""A verb: what users can ask edgewise for, through every door.

The command line, the Python functions, the studio's forms and jobs, ``edgewise run`` and the documentation are made
from what a verb declares. Packages add verbs as entry points of the group ``edgewise.verbs``, as edgewise does itself.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from inspect import getdoc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from edgewise.errors import BadPreparation, EdgewiseError, Namer, as_argument, as_flag, name_fields
from edgewise.registry import Registry
from edgewise.verbs.command import Listed

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.option import Option, Values
    from edgewise.verbs.presentation import Presentation
    from edgewise.verbs.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What the studio's form of a verb shows beside the fields that its options declare.

    Attributes:
        title: heading; empty is the verb's name.
        action: words of the link to the form on the page of a model; empty is the title.
        top: names of the options that most people set.
        places: where it can run: ``measured``, ``calibrated`` and ``estimated`` devices.
        also: verbs whose requests it makes, too.
        variants: smallest number of variants that a request compares; one model alone gets that many engines.
        graph: what the page of a job colours the graph of its runs by: ``times`` or ``errors``; empty for no link.
        kept: options about output that change the result.
        fixed: values of options that the form stands for.
        intro: what it is for; empty is the beginning of the command's help.
    """

    title: str = ""
    action: str = ""
    top: tuple[str, ...] = ()
    places: tuple[str, ...] = ("measured",)
    also: tuple[str, ...] = ()
    variants: int = 1
    graph: Literal["", "times", "errors"] = ""
    kept: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    intro: str = ""


class Verb(Listed):
    """One thing that users can ask for; the docstring of the class is what ``--help`` of its command says.

    Attributes:
        name: of the command, the Python function and the requests.
        summary: one line of help.
        examples: command lines for its help; a verb that has a command of its own has one at least.
        request: the class of its requests, a `edgewise.verbs.request.Request`.
        work: the function ``(request, context) → result`` that carries one out.
        shown: the `Presentation` of its results; empty is that of results that describe themselves.
        arguments: field of the request → its argument in Python, where that has another name.
        reader: the function ``values of the options → request``, of this verb or another; empty where each option
            fills the field of its name.
        reports: the option that names report files; empty where there is none.
        asked_by: the words of the command line that ask for it where they are not its name. It has no command then: its
            options, and how they are read, are those of the verb that is named first.
        rehearses: whether its work calls `Context.begin`, or holds a device, once it has refused all that it can: a dry
            run then carries it out up to there, and is refused as the run is.
        keeps_runs: whether what it measures is kept in the store. A job of it has the device of its request to itself.
        estimates: whether the JSON document has ``estimates``, which the studio's atlas shows beside runs.
        form: what the studio shows of it; None for no form, and then no jobs.
        in_lab: what the hosts of a lab do for it: measure on a device, make files that go back to who asked; empty for
            other work. None where no lab carries it out.
        not_in_lab: why no lab does, for an error; empty for no particular reason.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[Sequence[str]] = ()
    request: ClassVar[str]
    work: ClassVar[str]
    shown: ClassVar[str] = "edgewise.verbs.presentation:Presentation"
    arguments: ClassVar[Mapping[str, str]] = {}
    reader: ClassVar[str] = ""
    reports: ClassVar[str] = "output"
    asked_by: ClassVar[tuple[str, ...]] = ()
    rehearses: ClassVar[bool] = False
    keeps_runs: ClassVar[bool] = True
    estimates: ClassVar[bool] = False
    form: ClassVar[Form | None] = None
    in_lab: ClassVar[frozenset[Literal["measure", "make"]] | None] = None
    not_in_lab: ClassVar[str] = ""

    @property
    def help(self) -> str:
        """What ``--help`` of its command says."""
        told = [f"Example: {line}" for line in self.examples]
        return "\n\n".join([getdoc(type(self)) or self.summary, *told])

    def request_type(self) -> type[Request]:
        """Return the class of its requests."""
        found: type[Request] = self._load(self.request)
        return found

    def carry_out(self, request: Request, context: Context) -> Any:
        """Do what `request` asks for, in `context`."""
        return self._load(self.work)(request, context)

    def presentation(self) -> Presentation[Any]:
        """How its results are shown."""
        found: Presentation[Any] = self._load(self.shown)()
        return found

    def all_options(self) -> Sequence[Option]:
        """Its options on the command line, in the order of its help."""
        if self.asked_by:
            return VERBS.get(self.asked_by[0]).all_options()
        from edgewise.verbs.declared import declared_options

        hidden = (verb.request_type() for _, verb in VERBS if verb.asked_by and verb.asked_by[0] == self.name)
        return declared_options(self.request_type(), *hidden)

    def flag_of(self, field: str, value: str | None = None) -> str:
        """Return what the command line calls a field: ``--batch`` for ``batches``; with a value ``--batch 8``."""
        found = self.option_of(field)
        if found is None:
            return as_flag(field, value)
        if not found.flags:
            return value or found.metavar.strip("… ")
        return found.off if value == "False" and found.off else as_flag(found.flag.removeprefix("--"), value)

    def argument_of(self, field: str, value: str | None = None) -> str:
        """Return what its function calls a field: ``batches`` for ``batch``; with a value ``batches=8``."""
        found = self.option_of(field)
        name = (found and found.field_of(self.request_type())) or field
        name = self.arguments.get(name, name)
        if value is not None and found is not None and found.read is not None:
            with suppress(Exception):  # a placeholder, such as TASK, is no value that could be read
                read = found.read([value] if found.repeatable else value)
                if isinstance(read, tuple):
                    read = read[0] if len(read) == 1 and isinstance(read[0], int) else list(read)
                if ast.literal_eval(repr(read)) == read:
                    return f"{name}={read!r}"
        return as_argument(name, value)

    def option_of(self, field: str) -> Option | None:
        """Return the option that has this name or fills this field; None where there is none."""
        return next((one for one in self.all_options() if field in {one.field, one.name} - {""}), None)

    def read(self, values: Values) -> Request:
        """Return the request that values of the options describe, of this verb or another. Raises `BadInput`."""
        if self.asked_by:
            return VERBS.get(self.asked_by[0]).read(values)
        if self.reader:
            found: Request = self._load(self.reader)(values)
            return found
        from edgewise.verbs.declared import request_of

        return request_of(self.request_type(), self.all_options(), values)


VERBS: Registry[Verb] = Registry("edgewise.verbs", "verb", members=("name", "summary", "request", "work", "form"))


@contextmanager
def named_for_python(name: Namer = as_argument) -> Iterator[None]:
    """Errors raised inside call fields as Python does, or as `name` says."""
    try:
        yield
    except EdgewiseError as error:
        name_fields(error, name)
        raise


def flag_of(field: str, value: str | None = None) -> str:
    """As `Verb.flag_of`, of the first verb that has a flag for the field; for errors of commands without a request."""
    for _, verb in VERBS:
        with suppress(Exception):  # a plug-in that is broken must not hide the error that is told
            if (found := verb.option_of(field)) and found.flags:
                return verb.flag_of(field, value)
    return as_flag(field, value)


def carry_out(request: Request, context: Context | None = None) -> Any:
    """Do what `request` asks for, in `context`.

    Returns:
        What the verb gives; a cancelled one gives what was finished, where something was.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        RunFailed: of `optimize`, where the original model can't be run.
        KeyboardInterrupt: cancelled before anything was finished.
    """
    from edgewise.verbs.context import Context

    context = context or Context()
    request = request.in_effect()
    with context.in_force():
        try:
            return VERBS.get(request.verb).carry_out(request, context)
        except BadPreparation as error:
            more = (*getattr(request, "prepare", ()), *error.steps)
            raise error.in_command(command_of(request.model_copy(update={"prepare": more}))) from None


def rehearse(request: Request, context: Context) -> str:
    """Check `request` as carrying it out would, up to where the work begins; return what was not checked, or "".

    No other device is connected to, and no code of the user runs.

    Raises:
        BadInput, BadModel, Unavailable: as carrying it out would.
    """
    from edgewise.device.devices import LOCAL, is_device, transport_of
    from edgewise.verbs.context import Rehearsed

    device = getattr(request, "device", LOCAL)
    if request.functions or not VERBS.get(request.verb).rehearses:
        return ""
    if isinstance(device, str) and "://" not in device and is_device(device) and transport_of(device) != LOCAL:
        return f"not checked: a dry run does not connect to {device}"
    with suppress(Rehearsed):
        carry_out(request, replace(context, keep=False, rehearses=True))
    return ""


def command_of(request: Request) -> str:
    """Return the line to type for what `request` asks for."""
    return shlex.join(["edgewise", *(VERBS.get(request.verb).asked_by or (request.verb,)), *words_of(request)])


def words_of(request: Request, *, only: Sequence[str] = ()) -> list[str]:
    """Return what stands behind the verb on that line: the fields that are not at their defaults and that an option
    fills.

    Args:
        only: these fields; empty is all.
    """
    things: list[str] = []
    flags: list[str] = []
    command: list[str] = []
    options = {one.field_of(type(request)): one for one in reversed(VERBS.get(request.verb).all_options())}
    for name, value in request.changed_fields().items():
        option = options.get(name)
        if option is None or (only and name not in only):
            continue
        if option.metavar.startswith("--"):  # what follows belongs to another program
            command = ["--", *value]
        elif option.flags:
            flags += option.words(value)
        else:
            things += option.words(value)
    return things + flags + command
