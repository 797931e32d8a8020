"""What the operating system counts about this process and this machine, read at two moments and subtracted.

Standard library only: the worker reads these on the device, right before and right after the timed phase. Whatever a
system does not tell is None, never 0.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.constraints.hierarchy import ROOT, cgroup_folders, read_text

SHORTEST_WINDOW_S = 0.1
"""The kernel books processor time in ticks of 1/100 s; shares of a shorter window would be mostly rounding."""
_PRESSURES = ("cpu", "memory", "io")
_FIGURES = ("VmPeak", "VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem", "VmSwap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """One moment. Processor times are sums over `cores` in s; None is what this system does not tell.

    Attributes:
        monotonic_ns: when, on the monotonic clock.
        process_cpu_s: user plus system time of all threads of this process.
        voluntary_switches, involuntary_switches: context switches of all threads of this process.
        minor_faults, major_faults: page faults of this process without and with input/output.
        cores: the processors that this process may use and whose times follow.
        busy_s: user, nice, system and interrupt time.
        idle_s: idle time, waiting for input/output excluded.
        iowait_s: idle while input/output was outstanding.
        steal_s: wanted by this machine while the hypervisor ran something else.
        throttled_s: time that a cgroup's processor quota held its tasks back, own cgroup first, then its parents.
        cpu_pressure_us, memory_pressure_us, io_pressure_us: time in which some task waited for a processor, for memory,
            for input/output (PSI, ``some``), whole machine.
    """

    monotonic_ns: int
    process_cpu_s: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    cores: tuple[int, ...] = ()
    busy_s: float | None = None
    idle_s: float | None = None
    iowait_s: float | None = None
    steal_s: float | None = None
    throttled_s: tuple[float, ...] = ()
    cpu_pressure_us: int | None = None
    memory_pressure_us: int | None = None
    io_pressure_us: int | None = None

    def delta(self, earlier: Counters) -> dict[str, float | None]:
        """Return what happened since `earlier`.

        Returns:
            ``wall_s``, ``process_cpu_s``; ``busy_share``, ``busy_share_of_others`` (busy without this process),
            ``iowait_share``, ``steal_share``: parts of the time of the usable cores, 0…1; ``cpu_pressure_share``,
            ``memory_pressure_share``, ``io_pressure_share``: parts of the wall time; ``voluntary_per_s``,
            ``involuntary_per_s``, ``minor_faults``, ``major_faults``; ``throttled_s``: of the cgroup that was held back
            the most. None where it can't be known; shares and rates also where the window is shorter than
            `SHORTEST_WINDOW_S`, shares where the usable cores changed.
        """
        wall = (self.monotonic_ns - earlier.monotonic_ns) / 1e9
        cpu = _difference(self.process_cpu_s, earlier.process_cpu_s)
        long_enough = wall >= SHORTEST_WINDOW_S
        return {
            "wall_s": wall,
            "process_cpu_s": cpu,
            **self._shares(earlier, process_cpu=cpu, trusted=long_enough),
            **{f"{name}_pressure_share": self._pressure(earlier, name) for name in _PRESSURES},
            "voluntary_per_s": _rate(self.voluntary_switches, earlier.voluntary_switches, wall),
            "involuntary_per_s": _rate(self.involuntary_switches, earlier.involuntary_switches, wall),
            "minor_faults": _difference(self.minor_faults, earlier.minor_faults),
            "major_faults": _difference(self.major_faults, earlier.major_faults),
            "throttled_s": self._throttled(earlier),
        }

    def _shares(self, earlier: Counters, *, process_cpu: float | None, trusted: bool) -> dict[str, float | None]:
        names = ("busy", "idle", "iowait", "steal")
        spent = {name: _difference(getattr(self, f"{name}_s"), getattr(earlier, f"{name}_s")) for name in names}
        known = [value for value in spent.values() if value is not None]
        total = sum(known)
        if not trusted or len(known) < len(names) or self.cores != earlier.cores or total <= 0:
            return dict.fromkeys(("busy_share", "busy_share_of_others", "iowait_share", "steal_share"))
        busy = known[0]
        # Ticks and the process's exact time are booked apart, so that the difference can be slightly below zero.
        others = None if process_cpu is None else min(1.0, max(0.0, busy - process_cpu) / total)
        return {
            "busy_share": busy / total,
            "busy_share_of_others": others,
            "iowait_share": known[2] / total,
            "steal_share": known[3] / total,
        }

    def _pressure(self, earlier: Counters, name: str) -> float | None:
        rate = _rate(
            getattr(self, f"{name}_pressure_us"),
            getattr(earlier, f"{name}_pressure_us"),
            (self.monotonic_ns - earlier.monotonic_ns) / 1e9,
        )
        return None if rate is None else min(1.0, rate / 1e6)

    def _throttled(self, earlier: Counters) -> float | None:
        if not self.throttled_s or len(self.throttled_s) != len(earlier.throttled_s):
            return None
        # A parent that is held back holds its children back at the same time: the sum would count that twice.
        return max(max(0.0, now - then) for now, then in zip(self.throttled_s, earlier.throttled_s, strict=True))


def _difference(now: float | None, then: float | None) -> float | None:
    """`now` − `then`, not below 0: the kernel lets idle and iowait step back by a tick."""
    return None if now is None or then is None else max(0, now - then)


def _rate(now: float | None, then: float | None, seconds: float) -> float | None:
    change = _difference(now, then)
    return None if change is None or seconds < SHORTEST_WINDOW_S else change / seconds


def read_counters(root: Path = ROOT) -> Counters:
    """Return the counters now.

    Process time, context switches and faults come from ``getrusage``, which adds up all threads, ended ones included
    (``/proc/self/status`` knows only the main thread's switches). The rest comes from ``/proc`` and ``/sys``.

    Args:
        root: what ``/proc`` and ``/sys`` are under.
    """
    return Counters(
        monotonic_ns=time.monotonic_ns(),
        throttled_s=_throttled_times(root),
        **_pressures(root),
        **_usage(),
        **_processor_times(root),
    )


def _usage() -> dict[str, Any]:
    try:
        import resource
    except ImportError:
        return {}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "process_cpu_s": usage.ru_utime + usage.ru_stime,
        "voluntary_switches": usage.ru_nvcsw,
        "involuntary_switches": usage.ru_nivcsw,
        "minor_faults": usage.ru_minflt,
        "major_faults": usage.ru_majflt,
    }


def _processor_times(root: Path) -> dict[str, Any]:
    """Return times of the usable cores from ``/proc/stat`` (proc_stat(5)); guest time is part of user."""
    wanted = usable_cores(root)
    tick = 1.0 / os.sysconf("SC_CLK_TCK")
    sums, cores = [0] * 8, []
    for match in re.finditer(r"^cpu(\d+)((?: \d+){8,})$", read_text(root / "proc/stat") or "", re.MULTILINE):
        values = [int(word) for word in match[2].split()[:8]]
        if int(match[1]) in wanted:
            cores.append(int(match[1]))
            sums = [total + value for total, value in zip(sums, values, strict=True)]
    if not cores:
        return {}
    user, nice, system, idle, iowait, irq, softirq, steal = sums
    return {
        "cores": tuple(cores),
        "busy_s": (user + nice + system + irq + softirq) * tick,
        "idle_s": idle * tick,
        "iowait_s": iowait * tick,
        "steal_s": steal * tick,
    }


def _throttled_times(root: Path) -> tuple[float, ...]:
    """Seconds of each cgroup from ``cpu.stat``: version 2 counts µs, version 1 ns."""
    times = []
    for folder in cgroup_folders("cpu", root):
        text = read_text(folder / "cpu.stat") or ""
        if match := re.search(r"^throttled_usec (\d+)$", text, re.MULTILINE):
            times.append(int(match[1]) / 1e6)
        elif match := re.search(r"^throttled_time (\d+)$", text, re.MULTILINE):
            times.append(int(match[1]) / 1e9)
    return tuple(times)


def _pressures(root: Path) -> dict[str, Any]:
    """Time in which some task waited, by the kernel's pressure files."""
    found = {
        name: re.search(r"^some .*\btotal=(\d+)", read_text(root / "proc/pressure" / name) or "", re.MULTILINE)
        for name in _PRESSURES
    }
    return {f"{name}_pressure_us": int(match[1]) if match else None for name, match in found.items()}


def memory_figures(root: Path = ROOT) -> dict[str, int | None]:
    """Memory of this process in bytes, from ``/proc/self/status``.

    Returns:
        ``VmPeak`` (address space), ``VmHWM`` (highest resident), ``VmRSS`` (resident now) and its parts ``RssAnon``,
        ``RssFile``, ``RssShmem``, and ``VmSwap``; None where the system does not tell. Kernels from 6.2 on count
        resident pages per processor, so that a figure may be off by some dozen pages a core.
    """
    text = read_text(root / "proc/self/status") or ""
    found = {match[1]: int(match[2]) * 1024 for match in re.finditer(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    return {name: found.get(name) for name in _FIGURES}


def reset_peak_memory(root: Path = ROOT) -> bool:
    """Set ``VmHWM`` back to the resident memory of now (proc_pid_clear_refs(5)); False where that is not possible."""
    try:
        # Opened for update: the file must be the kernel's, never one made by this write.
        with (root / "proc/self/clear_refs").open("r+") as file:
            file.write("5")
    except OSError:
        return False
    return True


def usable_cores(root: Path = ROOT) -> tuple[int, ...]:
    """Processors that are online and that this process is allowed to run on; empty where the system does not tell."""
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", read_text(root / "proc/self/status") or "", re.MULTILINE)
    cores = parse_cpu_list(allowed[1]) if allowed else ()
    online = parse_cpu_list(read_text(root / "sys/devices/system/cpu/online") or "")
    # The list of allowed processors also names ones that were never plugged in.
    return tuple(core for core in cores if not online or core in online)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Numbers of a kernel processor list: ``"0-2,5"`` is ``(0, 1, 2, 5)``; text that is no list is empty."""
    cores: set[int] = set()
    for part in text.strip().split(","):
        if (match := re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)) is None:
            return ()
        cores.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(cores))
