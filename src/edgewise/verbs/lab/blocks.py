"""Blocks of jobs on a device: it is gauged before and after each, and is fit or out.

What is usual for a device is what its own earlier gauges tell, in the database of the lab. Nothing is corrected by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgewise.cancellation import Cancelled, CancelToken, cancellable, sleep
from edgewise.clock import now
from edgewise.device.devices import LOCAL
from edgewise.errors import EdgewiseError, StoreError
from edgewise.record import Caution, Run, new_run_id
from edgewise.run.run_builder import with_cautions
from edgewise.run.variation import shift_from
from edgewise.stats.between_runs import LEAST_BLOCKS
from edgewise.stats.distributions import t_quantile
from edgewise.store.lab import Lab, LabDevice
from edgewise.store.lab_gauges import Gauge, Moment, Verdict
from edgewise.units import format_duration, format_quantity
from edgewise.verbs.lab.engine import ring
from edgewise.verbs.lab.gauge import last_use

BLOCK_S = 600.0
"""A block ends with the first job that ends after this time."""
IDLE_S = 5.0
"""It also ends where no job has come for so long."""
SETTLE_S, STEP_S = 300.0, 5.0
"""How long a device may take to settle, and the time between two looks at it."""
RISK = 0.001
"""Of a fit device, to be called suspect after one gauge; and the risk of each band to which it settles."""
SUSPECT: Verdict = "suspect"
_BANDS = (("load", 1, 0.02, "1"), ("temperature", 1, 1.0, "K"), ("clock", -1, 2e7, "Hz"))
"""What is read, on which side its band ends, how far from the mean at least, and the unit."""
FRESH_S = BLOCK_S
"""A gauge after a block is the one before the next, for so long as a gauge before a block counts for its jobs."""
Ask = Callable[[LabDevice], Mapping[str, Any]]
"""Asks a device how it is, as `edgewise.verbs.lab.gauge.ChildGauge`."""


def unsettled(earlier: Sequence[Gauge], gauge: Gauge) -> Iterator[str]:
    """Yield what is outside of the device's own band: of values that can be read and have a history.

    The band ends where a next value would be with the risk `RISK`, by Student's t, were it as the earlier ones.
    """
    for name, side, step, unit in _BANDS:
        value = getattr(gauge, name)
        known = np.array([each for one in earlier if (each := getattr(one, name)) is not None])
        if value is None or len(known) < LEAST_BLOCKS:
            continue
        reach = t_quantile(1.0 - RISK, len(known) - 1.0) * float(known.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(known))
        end = float(known.mean()) + side * max(reach, step)
        if side * (value - end) > 0.0:
            shown, limit = (f"{one:.0%}" if unit == "1" else format_quantity(one, unit) for one in (value, end))
            yield f"{name} {shown}, where its band ends at {limit}"


def judge(earlier: Sequence[Gauge], gauge: Gauge) -> tuple[Verdict, str]:
    """Whether the reference kernels of a device are as they were in its earlier gauges, and why, in words."""
    if not gauge.readings:
        return "not judged", "no reference kernel runs on it"
    readings = [reading for one in earlier for reading in one.readings]
    shift = shift_from(readings, gauge.readings, risk=RISK)
    if shift is None:
        return "not judged", f"{sum(bool(one.readings) for one in earlier)} earlier gauges are too few or too close"
    if shift == 0.0:
        return "fit", ""
    word = "slower" if shift > 0 else "faster"
    return SUSPECT, f"the reference kernel ran {math.exp(abs(shift)):.2f}× {word} than usual on this device"


def flag(run: Run, why: str) -> Run:
    """Return the run of a block after which its device was suspect."""
    return with_cautions(run, (Caution.of("suspect-device", f"after the jobs beside this one {why}"),))


@dataclass(kw_only=True)
class Blocks:
    """The blocks of one device, one after the other. Its methods are called by one thread at a time.

    Attributes:
        ask: how it is.
        say: tells the host's owner.
        id: of the open block; None where none is.
    """

    lab: Lab
    device: LabDevice
    ask: Ask
    say: Callable[[str], None]
    id: str | None = None
    _begun: float = 0.0
    _touched: float = 0.0
    _closing: CancelToken | None = None
    _told: str = field(default="")
    _fit: tuple[float, object] | None = None  # when it was last found fit, after a block, and that use of it

    def enter(self) -> str:
        """Begin a block where none is open: settle, and gauge the device; why it is out, "" where it is not.

        For `FRESH_S` after a gauge that found it fit, it is not gauged again, unless somebody has used it since.

        Raises `StoreError`, and `Cancelled`.
        """
        if self.id is not None:
            return ""
        fresh = self._is_fresh()
        verdict, why = self.lab.gauges.verdicts().get(self.device.identity, ("not judged", ""))
        if verdict != SUSPECT and not fresh:
            verdict, why = self._gauge("before")
        if verdict == SUSPECT:
            return why
        self.id, self._begun = new_run_id(), now()
        self.touch()
        return ""

    def touch(self) -> None:
        """Note that a job of the block has ended."""
        self._touched = now()

    def disturb(self) -> None:
        """Work that is not timed ran on the device: it is gauged before its next block."""
        self._fit = None

    def _is_fresh(self) -> bool:
        """Whether the gauge after the last block still holds; it serves one block."""
        fit, self._fit = self._fit, None
        if fit is None or now() - fit[0] >= FRESH_S:
            return False
        return last_use(LOCAL if self.device.is_host else self.device.identity, self.lab.leases) == fit[1]

    def is_over(self, *, waiting: bool) -> bool:
        """Whether the open block ends now.

        Args:
            waiting: whether jobs for the device are queued.
        """
        return self.id is not None and (not waiting or now() - self._begun >= BLOCK_S)

    @property
    def is_idle(self) -> bool:
        """Whether the open block has had no job for a while."""
        return self.id is not None and now() - self._touched >= IDLE_S

    def close(self, persist: Callable[[Callable[[], None]], object], *, judged: bool = True) -> str:
        """End the open block: gauge the device, and give its jobs free, or queue them again; why it is out, or "".

        Args:
            persist: calls what writes to the database once that is there.
            judged: whether the device is asked.
        """
        if self.id is None:
            return ""
        block, self.id, why = self.id, None, ""
        if judged:
            self._closing = CancelToken()
            try:
                with cancellable(self._closing):
                    verdict, reason = self._gauge("after")
                why = reason if verdict == SUSPECT else ""
            except (Cancelled, StoreError) as error:
                self._tell(f"not judged after its jobs: {getattr(error, 'message', 'stopped')}")
            finally:
                self._closing = None
        persist(lambda: self.lab.jobs.close_block(block, why, flag=flag, ring=ring))
        return why

    def stop(self) -> None:
        """Give up gauging."""
        if (token := self._closing) is not None:
            token.cancel("stopped")

    def _gauge(self, moment: Moment) -> tuple[Verdict, str]:
        """Return what follows from a new gauge, which is kept; before a block the device may take `SETTLE_S` to
        settle.
        """
        earlier = self.lab.gauges.earlier(self.device.identity, moment)
        give_up = now() + (SETTLE_S if moment == "before" else 0.0)
        told: Mapping[str, Any] = {}
        verdict: Verdict = "not judged"
        while True:
            try:
                told = self.ask(self.device)
                gauge = Gauge.of(told)
            except (EdgewiseError, KeyError, TypeError, ValueError) as error:
                why, told = getattr(error, "message", f"it gave no gauge: {error}"), {}
                break
            outside = "; ".join(unsettled(earlier, gauge)) if moment == "before" else ""
            if not outside:
                verdict, why = judge(earlier, gauge)
                break
            if now() >= give_up:
                verdict, why = SUSPECT, f"it has not settled within {format_duration(SETTLE_S)}: {outside}"
                break
            self._tell(f"waits until it has settled: {outside}")
            sleep(STEP_S)
        self.lab.gauges.add(self.device.identity, moment, told, verdict=verdict, why=why)
        if moment == "after" and verdict == "fit" and (use := told.get("use")) is not None:
            self._fit = now(), use
        if why:
            self._tell(f"{verdict} {moment} its jobs: {why}")
        return verdict, why

    def _tell(self, what: str) -> None:
        if what != self._told:
            self.say(f"{self.device.name}: {what}")
        self._told = what
