"""Clock of the cores that do the work, from the kernel's cpufreq interface."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.registry import Availability
from edgewise.run.counters import usable_cores
from edgewise.run.meters.base import Reading

CPUS = "/sys/devices/system/cpu"


class CpuFrequencyMeter:
    """The median clock of the cores that this process's busy threads were on; of all usable cores while it is idle.

    The second source, ``cpu MHz`` of ``/proc/cpuinfo``, counts only where the processor has the counters it is measured
    with (``aperfmperf``): elsewhere, as in most virtual machines, it is a nominal constant.
    """

    name = "cpufreq"
    title = "Processor clock"
    metrics: Sequence[str] = ("clock_rate",)
    cannot_see = "changes of the clock between two samples"

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._cores: tuple[int, ...] = ()
        self._ticks: dict[str, int] = {}
        self._busy: list[float] = []
        self._all: list[float] = []

    def availability(self) -> Availability:
        """Whether the clock of a usable core can be read; else which files are missing."""
        if not usable_cores(self._root):
            return Availability(False, "/proc/self/status does not list the usable cores")
        if self._scaling(usable_cores(self._root)) or self._measured(usable_cores(self._root)):
            return Availability(True)
        reason = f"no {CPUS}/cpu*/cpufreq/scaling_cur_freq"
        if re.search(r"^cpu MHz", self._cpuinfo(), re.MULTILINE):
            reason += ", and 'cpu MHz' of /proc/cpuinfo is a constant on this machine (no aperfmperf)"
        return Availability(False, reason)

    def begin(self) -> None:
        """Start a window with a first sample."""
        self._cores = usable_cores(self._root)
        self._busy, self._all = [], []
        self._ticks = {}
        self._active_cores()
        self.sample()

    def sample(self) -> None:
        """Read the clock of every usable core once."""
        active = self._active_cores()
        clocks = self._scaling(self._cores) or self._measured(self._cores)
        self._all += clocks.values()
        self._busy += [clock for core, clock in clocks.items() if core in active]

    def end(self) -> Sequence[Reading]:
        """Return the median over cores and samples of the window, Hz, with its lowest and highest."""
        self.sample()
        which = "cores that ran this process" if self._busy else "usable cores; this process was idle"
        samples, self._busy, self._all = self._busy or self._all, [], []
        if not samples:
            return ()
        source = "scaling_cur_freq" if self._scaling(self._cores) else "cpu MHz of /proc/cpuinfo (aperfmperf)"
        method = f"{source}, median over samples of the {which}"
        return (
            Reading(metric="clock_rate", value=median(samples), low=min(samples), high=max(samples), method=method),
        )

    def _scaling(self, cores: Sequence[int]) -> dict[int, float]:
        """Core → Hz; the kernel gives kHz."""
        texts = {core: read_text(self._root / f"{CPUS[1:]}/cpu{core}/cpufreq/scaling_cur_freq") for core in cores}
        return {
            core: int(text) * 1e3 for core, text in texts.items() if text and text.strip().isdecimal() and int(text) > 0
        }

    def _measured(self, cores: Sequence[int]) -> dict[int, float]:
        """Core → Hz from ``/proc/cpuinfo``, empty where it is no measurement."""
        clocks = {}
        for block in self._cpuinfo().split("\n\n"):
            number = re.search(r"^processor\s*:\s*(\d+)$", block, re.MULTILINE)
            clock = re.search(r"^cpu MHz\s*:\s*(\d+(?:\.\d+)?)$", block, re.MULTILINE)
            measured = re.search(r"^flags\s*:.*\baperfmperf\b", block, re.MULTILINE)
            if number and clock and measured and int(number[1]) in cores and float(clock[1]) > 0:
                clocks[int(number[1])] = float(clock[1]) * 1e6
        return clocks

    def _cpuinfo(self) -> str:
        return read_text(self._root / "proc/cpuinfo") or ""

    def _active_cores(self) -> set[int]:
        """Cores that threads of this process were on which used processor time since the last look."""
        cores, ticks = set(), {}
        for thread in (self._root / "proc/self/task").glob("[0-9]*"):
            # The name in parentheses may contain anything; fields are counted from behind it (proc_pid_stat(5)).
            fields = (read_text(thread / "stat") or "").rpartition(")")[2].split()
            if len(fields) < 37:
                continue
            ticks[thread.name] = int(fields[11]) + int(fields[12])
            if ticks[thread.name] > self._ticks.get(thread.name, 0):
                cores.add(int(fields[36]))
        self._ticks = ticks
        return cores
