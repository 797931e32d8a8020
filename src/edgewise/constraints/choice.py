"""Which mechanism holds the limits: the best that works here, or the one that was named."""

from __future__ import annotations

from edgewise.constraints.base import CONTAINER_NAMES, PROCESS_NAME, Group
from edgewise.constraints.cgroups import V1, V2, find_cgroup
from edgewise.constraints.containers import why_not
from edgewise.constraints.process_limits import ProcessLimits
from edgewise.errors import Unavailable


def find_group(
    *, cpus: float | None = None, memory_bytes: int | None = None, mechanism: str | None = None
) -> tuple[Group, tuple[str, ...]]:
    """Return a group that was not entered yet, and why better mechanisms were left out.

    Args:
        cpus: processors that the group may use, 1.0 is one core; None sets no limit.
        memory_bytes: memory of all processes together; None sets no limit.
        mechanism: one of `edgewise.constraints.base.MECHANISMS`; None is the best that works here.

    Raises:
        Unavailable: the named mechanism does not work here.
    """
    reasons: list[str] = []
    for version in (V2, V1):
        if mechanism in (None, version.name):
            found = find_cgroup(version, cpus=cpus, memory_bytes=memory_bytes)
            if not isinstance(found, str):
                return found, tuple(reasons)
            reasons.append(found)
    if mechanism not in (None, PROCESS_NAME):
        raise Unavailable(
            f"the mechanism {mechanism} does not work here: {'; '.join(reasons)}",
            advice="run as root, or in a session with delegated control groups (systemd-run --user --scope -p "
            "Delegate=yes)",
        )
    return ProcessLimits(cpus=cpus, memory_bytes=memory_bytes), tuple(reasons)


def examine_mechanisms() -> dict[str, str]:
    """Every mechanism, the best first, and why it can't limit both processors and memory here; "" if it can.

    Container runtimes come last: they are used only where one is asked for.
    """
    found = {version.name: find_cgroup(version, cpus=1.0, memory_bytes=2**30) for version in (V2, V1)}
    reasons = {
        name: answer.removeprefix(f"{name}: ") if isinstance(answer, str) else "" for name, answer in found.items()
    }
    return reasons | {PROCESS_NAME: ""} | {name: why_not(name) for name in CONTAINER_NAMES}
