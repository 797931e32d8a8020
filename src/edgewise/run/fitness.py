"""How suitable a machine is for measuring: a grade, every reason that it is not better, and advice for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.errors import as_flag
from edgewise.record.facts import emulation_of
from edgewise.record.run import Grade
from edgewise.run.trust import BUSY, STEAL

#: (share of processor time, best grade above it), for other processes and for stolen time: at worst what a run gets.
_OTHERS: tuple[tuple[float, Grade], ...] = ((BUSY, "C"), (0.03, "B"))
_STEAL: tuple[tuple[float, Grade], ...] = ((STEAL, "C"), (0.0, "B"))
_LITTLE_MEMORY = 0.10
_MUCH_SWAP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One property of a machine that affects measurements.

    Attributes:
        ceiling: best grade that a machine with this property can get; A for a note only.
        reason: the observation, with its numbers.
        advice: what the user can do.
    """

    ceiling: Grade
    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """The grade of a machine, with its reasons.

    Attributes:
        grade: A best, D worst: the worst ceiling of all findings.
        findings: worst first.
    """

    grade: Grade
    findings: tuple[Finding, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The observations, worst first."""
        return tuple(finding.reason for finding in self.findings)

    @property
    def advice(self) -> tuple[str, ...]:
        """The advice for each of `reasons`, in the same order."""
        return tuple(finding.advice for finding in self.findings)


def assess_fitness(environment: Mapping[str, Any], counters: Mapping[str, float | None]) -> Fitness:
    """Grade a machine from its description and from its activity while edgewise was idle.

    Args:
        environment: `edgewise.run.environment.fingerprint`.
        counters: `edgewise.run.counters.Counters.delta` over about one second in which this process slept.

    Returns:
        The grade with its reasons. An unknown property that matters limits the grade to B.
    """
    found = [
        *_emulated(environment),
        *_others(environment, counters),
        *_hypervisor(environment, counters),
        *_clock(environment),
        *_cores(environment, counters),
        *_memory(environment),
        *_remarks(environment),
    ]
    # A stable sort: findings of one ceiling stay in the order above.
    found.sort(key=lambda finding: finding.ceiling, reverse=True)
    return Fitness(grade=found[0].ceiling if found else "A", findings=tuple(found))


def _ceiling(value: float, steps: tuple[tuple[float, Grade], ...]) -> Grade | None:
    return next((grade for limit, grade in steps if value > limit), None)


def _emulated(environment: Mapping[str, Any]) -> Iterator[Finding]:
    if why := emulation_of(environment):
        yield Finding(
            ceiling="D",
            reason=f"{why}: times, energy and memory measured here are not reported",
            advice="use it for outputs and accuracy, and measure on a real device",
        )


def _others(environment: Mapping[str, Any], counters: Mapping[str, float | None]) -> Iterator[Finding]:
    share = counters.get("busy_share_of_others")
    if share is None:
        yield Finding(
            ceiling="B",
            reason="the load of other processes is unknown: /proc/stat can't be read",
            advice="measure on a system where /proc/stat is readable",
        )
    elif grade := _ceiling(share, _OTHERS):
        yield Finding(
            ceiling=grade,
            reason=f"other processes used {share:.1%} of the processor time while edgewise waited",
            advice="stop these processes, or measure when the machine is idle",
        )
    load, cores = environment["state"]["load_average"], environment["cpu"]["usable_cores"]
    if load and cores and load[0] > cores / 2:
        yield Finding(
            ceiling="B",
            reason=f"the load average of the last minute is {load[0]:g} on {cores} usable cores",
            advice="wait until it is below half the number of cores; temperature and caches settle after the load ends",
        )


def _hypervisor(environment: Mapping[str, Any], counters: Mapping[str, float | None]) -> Iterator[Finding]:
    machine = environment["virtualisation"]
    virtual, steal = machine["hypervisor"], counters.get("steal_share")
    if virtual:
        name = f" ({machine['vendor']})" if machine["vendor"] else ""
        yield Finding(
            ceiling="B",
            reason=f"this is a virtual machine{name}: other machines on the host can slow it unnoticed",
            advice="take important measurements on the device itself",
        )
    if steal is not None and (grade := _ceiling(steal, _STEAL)):
        yield Finding(
            ceiling=grade,
            reason=f"the hypervisor gave {steal:.2%} of the processor time to other machines",
            advice="measure on a physical machine or on dedicated processors",
        )
    if virtual is None:
        yield Finding(
            ceiling="A",
            reason="it is unknown whether this is a virtual machine",
            advice="name the device in your report",
        )


def _clock(environment: Mapping[str, Any]) -> Iterator[Finding]:
    governor, boost = environment["clock"]["governor"], environment["clock"]["boost"]
    if governor is None:
        yield Finding(
            ceiling="B",
            reason="the clock governor is unknown: the frequency may change while measuring",
            advice="fix the frequency on the host or in the firmware if you can",
        )
    elif governor != "performance":
        yield Finding(
            ceiling="B",
            reason=f"the clock governor is {governor}: the frequency follows the load",
            advice="sudo cpupower frequency-set -g performance",
        )
    if boost:
        yield Finding(
            ceiling="B",
            reason="turbo (boost) is on: the first seconds run faster than a sustained load",
            advice="turn it off for comparisons, or measure long enough to reach the sustained clock",
        )
    if environment["state"]["on_mains"] is False:
        yield Finding(
            ceiling="C",
            reason="the machine runs on battery and may lower its clock to save power",
            advice="plug it in, unless you want to measure battery operation",
        )


def _cores(environment: Mapping[str, Any], counters: Mapping[str, float | None]) -> Iterator[Finding]:
    cores, quota, throttled = (
        environment["cpu"]["usable_cores"],
        environment["cpu"]["quota_cores"],
        counters.get("throttled_s"),
    )
    if cores == 1:
        yield Finding(
            ceiling="C",
            reason="one usable core: every other process interrupts the measurement",
            advice="give the machine or container a second core",
        )
    elif cores == 2:
        yield Finding(
            ceiling="B",
            reason="two usable cores: a measurement with two threads leaves none for the system",
            advice=f"measure with {as_flag('threads')} 1",
        )
    if quota is not None and (cores is None or quota < cores):
        yield Finding(
            ceiling="C",
            reason=f"a cgroup quota of {quota:g} cores: processes that exceed it are paused for milliseconds",
            advice="lift the quota (docker run without --cpus) and pin cores instead (--cpuset-cpus)",
        )
    if throttled:
        yield Finding(
            ceiling="C",
            reason=f"a cgroup quota paused processes for {throttled:.3g} s while edgewise waited",
            advice="lift the quota, or stop the processes that use it up",
        )


def _memory(environment: Mapping[str, Any]) -> Iterator[Finding]:
    total, state = environment["memory"]["total_bytes"], environment["state"]
    available, swap = state["memory_available_bytes"], state["swap_used_bytes"]
    if total and available is not None and available < _LITTLE_MEMORY * total:
        yield Finding(
            ceiling="C",
            reason=f"only {available / total:.0%} of the memory is available",
            advice="free memory: with too little, the system drops caches and swaps while measuring",
        )
    if total and swap is not None and swap > _MUCH_SWAP * total:
        yield Finding(
            ceiling="B",
            reason=f"swapped-out data amounts to {swap / total:.0%} of the memory",
            advice="free memory, then sudo swapoff -a && sudo swapon -a",
        )


def _remarks(environment: Mapping[str, Any]) -> Iterator[Finding]:
    if environment["cpu"]["smt_active"]:
        yield Finding(
            ceiling="A",
            reason="two hardware threads share each core (SMT)",
            advice=f"set {as_flag('threads')} to at most the number of physical cores",
        )
    if environment["settings"]["performance_counters"] is False:
        yield Finding(
            ceiling="A",
            reason="no hardware performance counters: cycles and instructions can't be counted",
            advice="use a machine, or a type of virtual machine, that exposes them",
        )
