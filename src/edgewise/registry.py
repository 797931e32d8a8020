"""One lazy registry for everything that can be plugged in.

A runtime, reader, meter, transport, pass or estimator is a class that satisfies a small Protocol and is named by an
entry point. Built-ins use the same groups as everybody else. `names` reads metadata only; `get` imports one module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from edgewise.errors import Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether something can be used here, and if not, why and what would change that."""

    available: bool
    reason: str = ""
    install_hint: str = ""
    version: str | None = None

    def __bool__(self) -> bool:
        return self.available


class Registry(Generic[T]):
    """The plug-ins of one entry-point group.

    Args:
        group: the entry-point group, such as ``"edgewise.runtimes"``.
        noun: what one of them is called in messages, such as ``"runtime"``.
    """

    def __init__(self, group: str, noun: str) -> None:
        self.group = group
        self.noun = noun
        self._instances: dict[str, T] = {}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in sorted(entry_points(group=self.group), key=lambda point: point.name)}

    def names(self) -> tuple[str, ...]:
        """All names, sorted, without importing anything."""
        return tuple(self._entry_points)

    def location(self, name: str) -> str:
        """Where `name` is defined, as ``"package.module:Class"``. Raises `Unavailable`."""
        return self._entry_point(name).value

    def get(self, name: str) -> T:
        """The plug-in called `name`, its module imported and its class instantiated once. Raises `Unavailable`."""
        if name not in self._instances:
            point = self._entry_point(name)
            try:
                self._instances[name] = cast(T, point.load()())
            except Exception as error:  # somebody else's code may raise anything, and must not take the others down
                raise Unavailable(
                    f"{self.noun} {name!r} can't be loaded: {error}", advice=f"reinstall what provides {point.value}"
                ) from error
        return self._instances[name]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        """Every plug-in that loads, as ``(name, plug-in)``; one that can't be imported is left out."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except Unavailable:
                continue

    def _entry_point(self, name: str) -> EntryPoint:
        try:
            return self._entry_points[name]
        except KeyError:
            from difflib import get_close_matches  # only a mistake needs it

            near = get_close_matches(name, self.names(), n=1)
            known = f"known: {', '.join(self.names()) or 'none'}"
            advice = f"did you mean {near[0]!r}? {known}" if near else known
            raise Unavailable(f"no {self.noun} is called {name!r}", advice=advice) from None
