"""One lazy registry for everything that can be plugged in.

A runtime, reader, meter, transport, pass or estimator is a class that satisfies a small Protocol and is named by an
entry point. Built-ins use the same groups as everybody else. `names` reads metadata only; `get` imports one module.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from edgewise.errors import Unavailable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")
A = TypeVar("A")

PATIENCE_S = 20.0
"""Longest time, in s, for importing a third-party plug-in and for its check of availability."""

FOR_TESTS = frozenset({"fake"})
"""Plug-ins that are used by name only, and that no advice lists."""

_silent: set[str] = set()
"""Plug-ins that took longer; they are not asked again."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether something can be used here, and if not, why and what would change that."""

    available: bool
    reason: str = ""
    install_hint: str = ""
    version: str | None = None

    def __bool__(self) -> bool:
        return self.available


class ReportsAvailability(Protocol):
    """What can say whether it can be used here."""

    def availability(self) -> Availability:
        """Whether it can be used, and if not, why."""


def load_class(location: str) -> Any:
    """Return the class at ``"package.module:Class"``.

    Raises ImportError, or AttributeError where the module lacks it.
    """
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def availability_of(plugin: ReportsAvailability) -> Availability:
    """`plugin.availability()`, where a plug-in that fails to answer counts as not available."""
    try:
        return _ask(plugin.availability, home=f"{type(plugin).__module__}:{type(plugin).__qualname__}")
    except Exception as error:
        return Availability(False, f"its own check failed: {type(error).__name__}: {error}", "report it to its authors")


def _ask(question: Callable[[], A], *, home: str) -> A:
    """Return the answer of `question`. Third-party code may raise anything, end the process, or never answer.

    Raises:
        TimeoutError: it takes longer than `PATIENCE_S`; it is left behind.
        RuntimeError: it tried to end the process.
    """
    if home.partition(".")[0] == "edgewise":
        return question()
    answers: list[A] = []
    errors: list[BaseException] = []

    def answer() -> None:
        try:
            answers.append(question())
        except BaseException as error:
            errors.append(error)

    if home not in _silent:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
    if errors:
        raise errors[0] if isinstance(errors[0], Exception) else RuntimeError(f"it ended with {errors[0]!r}")
    if not answers:
        _silent.add(home)
        raise TimeoutError(f"no answer within {PATIENCE_S:g} s")
    return answers[0]


@lru_cache(maxsize=64)
def _points_of(group: str, folders: tuple[tuple[str, int], ...]) -> dict[str, EntryPoint]:
    """Return the entry points of a group by their names, sorted; read again only where a folder of `sys.path` has
    changed.

    edgewise's own come before others of the same name; a name that two other packages have is that of both.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(_read_entry_points(folders).select(group=group), key=lambda point: point.name):
        old = found.setdefault(point.name, point)
        if old.value == point.value or _is_own(old):
            continue
        found[point.name] = point if _is_own(point) else replace_value(old, f"{old.value}{BOTH}{point.value}")
    return found


BOTH = " and "
"""Between the places of two plug-ins that have one name."""


def _is_own(point: EntryPoint) -> bool:
    return point.value.startswith("edgewise.")


def replace_value(point: EntryPoint, value: str) -> EntryPoint:
    """`point` for another place."""
    return type(point)(point.name, value, point.group)


def installed_stamp() -> tuple[tuple[str, int], ...]:
    """Return the folders of `sys.path` with their times: another value where a package has come or gone."""
    folders = []
    for folder in sys.path:
        try:
            folders.append((folder, Path(folder).stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(folders)


@lru_cache(maxsize=2)
def _read_entry_points(folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    del folders  # the key of the cache
    from importlib.metadata import entry_points  # slow to import; a worker on a device never needs it

    return cast("EntryPoints", entry_points())  # Python 3.11 has another type with the same `select`


class Registry(Generic[T]):
    """The plug-ins of one entry-point group.

    Args:
        group: the entry-point group, such as ``"edgewise.runtimes"``.
        noun: what one of them is called in messages, such as ``"runtime"``.
        members: attributes without which a plug-in can't be used.
        meant: other word that users write → what they mean, which errors suggest.
    """

    def __init__(
        self, group: str, noun: str, *, members: Sequence[str] = (), meant: Mapping[str, str] | None = None
    ) -> None:
        self._members, self.meant = members, meant or {}
        self.group = group
        self.noun = noun
        self._instances: dict[str, T] = {}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return _points_of(self.group, installed_stamp())

    def names(self) -> tuple[str, ...]:
        """All names, sorted, without importing anything."""
        return tuple(self._entry_points)

    def location(self, name: str) -> str:
        """Where `name` is defined, as ``"package.module:Class"``. Raises `Unavailable`."""
        return self._entry_point(name).value

    def is_own(self, name: str) -> bool:
        """Whether `name` is a plug-in of edgewise itself. Raises `Unavailable`."""
        return _is_own(self._entry_point(name))

    def get(self, name: str) -> T:
        """Return the plug-in called `name`, its module imported and its class instantiated once.

        Raises `Unavailable`.
        """
        if name not in self._instances:
            point = self._entry_point(name)
            if BOTH in point.value:
                raise Unavailable(
                    f"two packages have a {self.noun} {name!r}: {point.value}", advice="uninstall one of them"
                )
            try:
                plugin = _ask(lambda: cast(T, point.load()()), home=point.value)
                if missing := [member for member in self._members if not hasattr(plugin, member)]:
                    raise TypeError(f"it lacks {', '.join(missing)}")
            except Exception as error:  # third-party code may raise anything; the other plug-ins stay usable
                raise Unavailable(
                    f"{self.noun} {name!r} can't be loaded: {error}",
                    advice=(f"reinstall the package that provides {point.value}"),
                ) from error
            self._instances[name] = plugin
        return self._instances[name]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        """Every plug-in that loads, as ``(name, plug-in)``; one that can't be imported is left out."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except Unavailable:
                continue

    def _is_usable(self, name: str) -> bool:
        """Whether `name` loads and does not say that a package is missing."""
        try:
            plugin = self.get(name)
        except Unavailable:
            return False
        return not hasattr(plugin, "availability") or bool(availability_of(cast(ReportsAvailability, plugin)))

    def _entry_point(self, name: str) -> EntryPoint:
        try:
            return self._entry_points[name]
        except KeyError:
            from difflib import get_close_matches  # only a mistake needs it

            names = [each for each in self.names() if each not in FOR_TESTS]
            near = [self.meant[name]] if name in self.meant else get_close_matches(name, names, n=1)
            missing = [each for each in names if not self._is_usable(each)]
            known = f"existing: {', '.join(each for each in names if each not in missing) or 'none'}"
            known += f"; not installed here: {', '.join(missing)}" if missing else ""
            advice = f"did you mean {near[0]!r}? {known}" if near else known
            raise Unavailable(f"unknown {self.noun} {name!r}", advice=advice) from None
