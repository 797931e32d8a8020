"""Energy of the processor packages and their memory, from the RAPL counters that Linux shows through powercap.

The counters are read by `sample` so often that a wrap-around between two readings can be told from two of them; where
that can't be excluded, there is no reading.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.registry import Availability
from edgewise.run.meters.base import NoReading, Reading

POWERCAP = "/sys/class/powercap"
MAX_POWER_W = 1000.0
"""No package or memory domain draws more; a bound for how fast a counter can come round, not an estimate."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One counter: `folder` under powercap, `name` as the kernel calls it, `range_uj` at which it starts anew."""

    folder: Path
    name: str
    range_uj: int


class RaplMeter:
    """RAPL through powercap: package domains plus separate DRAM domains.

    Cores and uncore are parts of their package and ``psys`` contains everything, so none of them is added. The MMIO
    duplicate (``intel-rapl-mmio``) shows the same package once more and is left out.
    """

    name = "rapl"
    title = "RAPL energy counters"
    metrics: Sequence[str] = ("energy",)
    rate_hz = 1000.0
    """The processor updates the counters about every 1 ms (Intel SDM, volume 3B, "Package RAPL domain")."""
    cannot_see = "board, storage, radio, display, discrete GPU and losses of the supply"

    def __init__(self, root: Path = ROOT, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._root = root
        self._clock = clock
        self._domains: tuple[Domain, ...] = ()
        self._last: list[int] = []
        self._begin_ns = self._last_ns = 0
        self._total_uj = 0

    def availability(self) -> Availability:
        """Whether every package domain is there and may be read; the reason names the file that is not."""
        folder = self._root / POWERCAP.lstrip("/")
        if not folder.is_dir():
            if self._virtual():
                return Availability(False, f"no {POWERCAP}: this virtual machine has no access to the energy counters")
            return Availability(
                False, f"no {POWERCAP}: the kernel exposes no energy counters", "sudo modprobe intel_rapl_msr"
            )
        domains = self._find()
        if not any(domain.name.startswith("package") for domain in domains):
            return Availability(False, f"no readable package domain (intel-rapl:N) in {POWERCAP}")
        for domain in domains:
            try:
                read_energy(domain.folder)
            except PermissionError:
                return Availability(
                    False,
                    f"{POWERCAP}/{domain.folder.name}/energy_uj may be read by root only",
                    f"sudo chmod o+r {POWERCAP}/intel-rapl:*/energy_uj",
                )
            except (OSError, ValueError):
                return Availability(False, f"{POWERCAP}/{domain.folder.name}/energy_uj can't be read")
        return Availability(True)

    def begin(self) -> None:
        """Start a window at the counters' present values. Raises `NoReading` where one can't be read."""
        self._domains = self._find()
        self._total_uj = 0
        self._begin_ns = self._last_ns = self._clock()
        self._last = self._read()

    def sample(self) -> None:
        """Add what the counters advanced since the last reading. Raises `NoReading` where that can't be known."""
        now, values = self._clock(), self._read()
        seconds = (now - self._last_ns) / 1e9
        if self._may_have_wrapped_twice(seconds):
            raise NoReading(f"a RAPL counter may have wrapped around twice in {seconds:.3g} s without a sample")
        for domain, value, last in zip(self._domains, values, self._last, strict=True):
            self._total_uj += value - last if value >= last else domain.range_uj - last + value
        self._last, self._last_ns = values, now

    def end(self) -> Sequence[Reading]:
        """Return the energy of the window in J; Raises `NoReading` as `sample` does, and where the counters
        stood still.
        """
        if not self._domains:
            return ()
        self.sample()
        if self._total_uj <= 0:
            raise NoReading("the RAPL counters stood still in the window")
        names = " + ".join(domain.name for domain in self._domains)
        return (
            Reading(
                metric="energy",
                value=self._total_uj / 1e6,
                method=f"RAPL counters through powercap: {names}",
                seconds=(self._last_ns - self._begin_ns) / 1e9 or None,
                covers="processor",
            ),
        )

    def _may_have_wrapped_twice(self, seconds: float) -> bool:
        # One full round is indistinguishable from none, so that even one must be impossible beyond the wrap seen.
        return any(seconds * MAX_POWER_W * 1e6 >= domain.range_uj for domain in self._domains)

    def _read(self) -> list[int]:
        try:
            return [read_energy(domain.folder) for domain in self._domains]
        except (OSError, ValueError) as error:
            raise NoReading(f"a RAPL counter can't be read: {error}") from error

    def _find(self) -> tuple[Domain, ...]:
        """Package domains and the DRAM domains below them, in the order of their names."""
        found = []
        for folder in sorted((self._root / POWERCAP.lstrip("/")).glob("intel-rapl:*")):
            name = (read_text(folder / "name") or "").strip()
            limit = (read_text(folder / "max_energy_range_uj") or "").strip()
            package = re.fullmatch(r"intel-rapl:(\d+)", folder.name) and name.startswith("package")
            dram = re.fullmatch(r"intel-rapl:(\d+):\d+", folder.name)
            if limit.isdecimal() and (package or (dram and name == "dram")):
                found.append(Domain(folder, f"dram-{dram[1]}" if dram else name, int(limit)))
        return tuple(found)

    def _virtual(self) -> bool:
        flags = re.search(r"^flags\s*:(.*)$", read_text(self._root / "proc/cpuinfo") or "", re.MULTILINE)
        return flags is not None and "hypervisor" in flags[1].split()


def read_energy(folder: Path) -> int:
    """Return the counter of one domain, µJ. Raises OSError (PermissionError for want of rights) or ValueError."""
    return int((folder / "energy_uj").read_text())
