"""What meters with several sensors share: rails are found and sampled, and each becomes a reading of its own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.constraints.hierarchy import ROOT
from edgewise.registry import Availability
from edgewise.run.meters.base import Coverage, NoReading, Reading
from edgewise.run.meters.trace import EnergyCounter, MeanShare, PowerTrace, Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rail:
    """A place where power, a counter of energy, or a utilisation can be read.

    Attributes:
        read: W, J of a counter that grows, or a share, as `window` takes it; raises OSError, ValueError or `NoReading`.
        method: which sensor, in words.
        part, covers: as in `Reading`.
        window: what becomes of the samples of a window.
    """

    read: Callable[[], float]
    method: str
    part: str = ""
    covers: Coverage = "part"
    window: Window = PowerTrace


class RailMeter(ABC):
    """Base class of meters that read rails; a subclass has ``find_rails``, and ``absence`` where there are none.

    A rail that fails loses its own reading; the reason of the first one is that of the meter.
    """

    metrics: Sequence[str] = ("energy",)

    def __init__(self, root: Path = ROOT, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._windows: list[tuple[Rail, PowerTrace | EnergyCounter | MeanShare]] = []
        self._failures: dict[Rail, str] = {}

    @abstractmethod
    def find_rails(self) -> Sequence[Rail]:
        """Return the rails that are there. Raises `NoReading` where they say nothing now."""

    @abstractmethod
    def absence(self) -> str:
        """Why there are no rails, with the files or the library that was looked for."""

    def availability(self) -> Availability:
        """Whether a rail can be read, else the reason."""
        try:
            rails = self.find_rails()
        except NoReading as reason:
            return Availability(False, str(reason))
        reasons = []
        for rail in rails:
            try:
                rail.read()
            except (OSError, ValueError, NoReading) as error:
                reasons.append(str(error))
            else:
                return Availability(True)
        return Availability(False, reasons[0] if reasons else self.absence())

    def begin(self) -> None:
        """Start a window with a first sample of every rail. Raises `NoReading`."""
        self._windows, self._failures = [], {}
        self._windows = [(rail, rail.window()) for rail in self.find_rails()]
        self.sample()

    def sample(self) -> None:
        """Read every rail once."""
        for rail, trace in self._windows:
            if rail not in self._failures:
                try:
                    trace.add(self._clock(), rail.read())
                except (OSError, ValueError, NoReading) as error:
                    self._failures[rail] = str(error)

    def end(self) -> Sequence[Reading]:
        """Return a reading of every rail. Raises `NoReading` where one has none, with the readings of the others."""
        self.sample()
        readings = []
        for rail, trace in self._windows:
            if rail not in self._failures:
                try:
                    readings.append(trace.reading(rail.method, part=rail.part, covers=rail.covers))
                except NoReading as reason:
                    self._failures[rail] = str(reason)
        if self._failures:
            raise NoReading(next(iter(self._failures.values())), readings)
        return readings


def read_number(file: Path, scale: float) -> float:
    """Return the integer in a file of sysfs, times `scale`. Raises OSError, or ValueError which names the file."""
    text = file.read_text()
    try:
        return int(text) * scale
    except ValueError:
        raise ValueError(f"{file} holds {text[:40]!r}, not a number") from None
