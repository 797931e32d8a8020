"""An option of a verb, declared once: what it is called, what it reads, and the field of the request that it fills.

Doors make of it what they show: a flag of the command line, an input of a form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from edgewise.errors import BadInput

if TYPE_CHECKING:
    from edgewise.verbs.request import Request

Values = Mapping[str, Any]
"""The values given, by the names of the options."""

_WORDS = {bool: "", int: "N", float: "X", Path: "FILE", str: "TEXT"}
_FILES = ("MODEL", "MODEL…", "PATH", "FILE", "F")
"""What help calls values that may name a file."""
_NOUNS = {int: "a whole number", float: "a number"}
_OWN: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option or argument.

    Attributes:
        name: key of `Values`.
        field: of the request, which it fills; empty is its name.
        flags: on the command line, the long one last; none for an argument.
        off: the flag that says no; empty where there is none.
        metavar: what help calls a value.
        panel: the heading under which help shows it.
        kind: `bool`, `int`, `float`, `str` or `Path`, or a list of one, which makes it repeatable.
        default: the value where the option is not given; None leaves it to the request, ``...`` makes it required.
        minimum: smallest value.
        maximum: largest value.
        read: converts the given value to that of the field.
        write: gives the words for a value of the field, each of which is given with the flag; None writes what `read`
            reads where that is known, else the value as text.
        choices: values to offer; a function is only called to complete a command line.
        files: whether a value may name a file.
        optional: whether the command works without it although the field is required: other options say what it is.
        not_asked: why no form of the studio has it; empty where forms have it. Options about output are left out too: a
            job keeps its result in all formats.
        instead: what to do rather than give several values of one number, between commas; empty where nothing helps.
        common: whether ``--help`` of a command with many options shows it; ``--help-all`` shows all.
    """

    name: str
    field: str = ""
    flags: tuple[str, ...] = ()
    off: str = ""
    metavar: str
    panel: str
    help: str
    kind: Any
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Sequence[str]] | None = None
    choices: Sequence[str] | Callable[[], Sequence[str]] = ()
    files: bool = False
    optional: bool = False
    not_asked: str = ""
    instead: str = ""
    common: bool = False

    @property
    def flag(self) -> str:
        """The long flag; for an argument its name."""
        return self.flags[-1] if self.flags else self.name

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is ...

    @property
    def repeatable(self) -> bool:
        """Whether it may be given several times."""
        return bool(get_args(self.kind))

    @property
    def item(self) -> Any:
        """The type of one value."""
        return get_args(self.kind)[0] if self.repeatable else self.kind

    @property
    def shown_default(self) -> str:
        """The default as help shows it; empty where it says nothing, or the help tells it."""
        if isinstance(self.default, bool):
            return self.flag if self.default else ""
        says_nothing = self.default in (None, ..., "", Path()) or "(default:" in self.help
        return "" if says_nothing else str(self.default)

    def convert(self, value: Any) -> Any:
        """One given value, in the option's type and within its bounds; what is no text stays as it is.

        Raises `BadInput`, whose message goes on behind the option's name.
        """
        if not isinstance(value, str):
            return value
        try:
            found = int(value.removesuffix(".0")) if self.item is int else self.item(value)
        except ValueError:
            advice = self.instead if "," in value else ""
            raise BadInput(f"must be {_NOUNS[self.item]}, not {value[:60]!r}", advice=advice) from None
        for limit, word in ((self.minimum, "least"), (self.maximum, "most")):
            if limit is not None and (found < limit if word == "least" else found > limit):
                raise BadInput(f"must be at {word} {limit}, not {found}")
        return found

    def field_of(self, kind: type[Request]) -> str | None:
        """Return the field of the request that this option fills; None for options about the output of the command."""
        return next((name for name in (self.field, self.name) if name in kind.model_fields), None)

    def words(self, value: Any) -> list[str]:
        """Return what the command line has for a value of the field."""
        from edgewise.verbs.words import written

        if not self.flags:
            return [str(one) for one in (value if isinstance(value, tuple) else (value,))]
        if self.kind is bool:
            return [self.flag if value else self.off]
        texts = self.write(value) if self.write is not None else written(value, self.read)
        return [word for text in texts for word in (self.flag, text)]

    def worded(self, text: str, **changes: Any) -> Option:
        """Return the same option with another help text, and other attributes."""
        return replace(self, help=text, **changes)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a field changes of the option that its type declares, by attribute of `Option`."""

    attributes: Mapping[str, Any]


def worded(text: str | None = None, **attributes: Any) -> Changes:
    """Change the help text or other attributes of an option that a type has: `Annotated` takes it behind the type."""
    return Changes(attributes if text is None else {"help": text, **attributes})


def option(flags: str, panel: str, text: str, kind: Any = str, *, default: Any = _OWN, **others: Any) -> Option:
    """Return an option.

    Args:
        flags: the flags, and how help names the value: ``"-r --runtime A,B"``, ``"--meters/--no-meters"``.
        panel: the heading in the help under which it stands.
        kind: type of the value; a list makes the option repeatable.
        default: False for a `bool`, otherwise None, unless given.
        others: attributes of `Option`.
    """
    words = flags.split()
    on = [word.partition("/") for word in words if word.startswith("-")]
    names = tuple(name for name, _, _ in on)
    metavar = next((word for word in words if not word.startswith("-")), _WORDS.get((get_args(kind) or (kind,))[0], ""))
    if default is _OWN:
        default = False if kind is bool else None
    others.setdefault("files", metavar in _FILES or Path in (kind, *get_args(kind)))
    name = names[-1].removeprefix("--").replace("-", "_")
    return Option(
        name=name,
        flags=names,
        off=on[-1][2],
        metavar=metavar,
        panel=panel,
        help=text,
        kind=kind,
        default=default,
        **others,
    )


def argument(name: str, text: str, kind: Any, *, metavar: str, default: Any = ..., **others: Any) -> Option:
    """Return an argument; required unless it has a default."""
    others.setdefault("files", metavar in _FILES or Path in (kind, *get_args(kind)))
    return Option(name=name, metavar=metavar, panel="Arguments", help=text, kind=kind, default=default, **others)
