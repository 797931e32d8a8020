"""A command of the command line: its options, and what it does with their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from edgewise.verbs.option import Option, Values


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
    """Makes a function of `Values` a command with these options."""
    return lambda work: Command(work, options)
