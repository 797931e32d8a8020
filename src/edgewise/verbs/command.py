"""Commands: what stands in ``edgewise --help``, and the options and the work of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from edgewise.errors import EdgewiseError, Unavailable
from edgewise.registry import Registry
from edgewise.verbs.option import Option, Values

GROUPS = ("Measure", "Understand", "Improve", "Predict", "Keep")
"""Headings of ``edgewise --help``, in their order; those of other packages follow."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        work: what it does; the docstring is its help, and what it returns the exit code, None being 0.
        options: in the order in which help shows them.
    """

    work: Callable[[Values], int | None]
    options: tuple[Option, ...]

    @property
    def help(self) -> str:
        """What it is for."""
        return inspect.getdoc(self.work) or ""

    def __call__(self, values: Values) -> int:
        """Carry it out, and give the exit code."""
        return self.work(values) or 0


def takes(*options: Option) -> Callable[[Callable[[Values], int | None]], Command]:
    """Make a function of `Values` a command with these options."""
    return lambda work: Command(work, options)


def place_of(group: str) -> int:
    """Return the place of a heading."""
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


class Listed:
    """What ``edgewise --help`` lists, named by an entry point.

    Its module imports nothing heavy: what it needs is named as ``module:name`` and imported when it is needed. A module
    of its own package is ``.request:BenchRequest``, and its own module ``:name``.

    Attributes:
        group: heading of ``edgewise --help`` under which the command stands.
        synonyms: other words that users may write for its name, which errors suggest.
    """

    group: ClassVar[str] = "Measure"
    synonyms: ClassVar[tuple[str, ...]] = ()

    def _load(self, location: str) -> Any:
        """Return what `location` names. Raises `Unavailable` where another package lacks it."""
        module = import_module(type(self).__module__)
        package = module.__name__ if hasattr(module, "__path__") else module.__package__ or ""
        name, _, member = location.partition(":")
        try:
            return getattr(import_module(name or module.__name__, package), member)
        except Exception as error:  # third-party code may raise anything
            if isinstance(error, EdgewiseError) or module.__name__.startswith("edgewise."):
                raise
            raise Unavailable(
                f"{location} of {module.__name__} can't be loaded: {error}",
                advice=f"reinstall the package that provides {module.__name__}",
            ) from error


class PlainCommand(Listed):
    """A command that makes no request; the first line of its docstring is its line in ``edgewise --help``.

    Packages add commands as entry points of the group ``edgewise.commands``, as edgewise does itself; the name of the
    entry point is that of the command.

    Attributes:
        command: where its `Command` is, or a mapping of those of its subcommands by their names.
    """

    command: ClassVar[str] = ".command:command"

    @property
    def summary(self) -> str:
        """One line of help."""
        return (type(self).__doc__ or "").partition("\n")[0]

    def declared(self) -> Command | Mapping[str, Command]:
        """Return the command, or its subcommands by their names; imported now."""
        found: Command | Mapping[str, Command] = self._load(self.command)
        return found


COMMANDS: Registry[PlainCommand] = Registry("edgewise.commands", "command", members=("group", "summary", "declared"))
