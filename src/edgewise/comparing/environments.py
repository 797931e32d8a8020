"""Where the conditions of two runs differ, and whether they ran on the same hardware.

A run's environment is whatever its record tells: records of other versions, and of other hands, are nested otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.comparing.comparison import Difference
from edgewise.record import Run
from edgewise.text import one_line
from edgewise.units import format_bytes, format_si

NOT_KNOWN = "not known"
MEMORY_TOLERANCE = 0.05
"""Machines of one kind tell memory sizes that differ by what their firmware and kernel keep for themselves."""

MOST_DIFFERENCES = 60
_LONGEST, _DEEPEST = 200, 6

#: what changes from moment to moment and why things are absent: no conditions that a run was given
_MOMENTARY = frozenset({"state", "absent", "load", "load_average", "temperature_k"})
#: settings that the fingerprint keeps among what changes
_SETTINGS_OF_STATE = ("on_mains",)
#: settings that describe the model rather than the engine, and those that a comparison states as intended differences
_NO_CONDITION = frozenset({
    "provider", "precision", "precision_of_operators", "precision_of_products", "threads", "intra_op_threads", "inputs",
    "outputs", "engine_version", "requests", "operators", "operators_delegated", "delegate_partitions",
    "execution_providers", "file_precision", "inputs_handed_over",
})  # fmt: skip
_NAMES = {
    "architecture": "architecture",
    "device.vendor": "maker of the machine",
    "device.model": "machine",
    "cpu": "processor",
    "cpu.model": "processor",
    "cpu.vendor": "maker of the processor",
    "cpu.logical_cores": "logical cores",
    "cpu.physical_cores": "physical cores",
    "cpu.usable_cores": "usable cores",
    "cpu.quota_cores": "quota of cores",
    "cpu.smt_active": "simultaneous multithreading",
    "cpu.flags": "instruction sets",
    "cpu.caches": "caches",
    "memory.total_bytes": "memory",
    "memory.limit_bytes": "memory limit of the container",
    "clock.governor": "clock governor",
    "governor": "clock governor",
    "clock.driver": "clock driver",
    "clock.min_hz": "lowest clock",
    "clock.max_hz": "highest clock",
    "clock.boost": "clock boost",
    "clock.limit_hz": "clock limit",
    "os": "operating system",
    "os.name": "operating system",
    "os.kernel": "kernel",
    "kernel": "kernel",
    "os.libc": "C library",
    "python": "Python",
    "worker_python": "Python of the workers",
    "virtualisation.hypervisor": "virtual machine",
    "virtualisation.vendor": "hypervisor",
    "virtualisation.container": "container",
    "virtualisation.emulator": "emulator of the processor",
    "settings.aslr": "address randomisation",
    "settings.transparent_hugepages": "huge pages",
    "settings.perf_event_paranoid": "access to performance counters",
    "settings.performance_counters": "performance counters",
    "state.on_mains": "mains power",
}
_NO_LIMIT = frozenset({"cpu.quota_cores", "memory.limit_bytes", "clock.limit_hz"})

#: (paths in the environment, must be told): what makes two machines the same hardware
_HARDWARE: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("architecture",), True),
    (("device.vendor",), False),
    (("device.model",), False),
    (("cpu.model", "cpu"), True),
    (("cpu.logical_cores",), True),
    (("cpu.physical_cores",), False),
    (("cpu.usable_cores",), False),
    (("cpu.quota_cores",), False),
    (("cpu.flags",), True),
    (("memory.total_bytes",), True),
)


def environment_differences(a: Run, b: Run) -> tuple[Difference, ...]:
    """Return the conditions in which `a` and `b` differ, without what changes from moment to moment (load, free
    memory).

    Engine versions and settings in force are compared where both ran on the same engine. Values are as a person reads
    them: two sizes that read the same are no difference. Files of other tools have few conditions or none: of an
    imported run, only those are compared that both records have.
    """
    if any(_is_unrecorded(run) for run in (a, b)):
        return ()
    first, second = _conditions(a, other=b), _conditions(b, other=a)
    paths = dict.fromkeys((*first, *second))
    if a.source is not None or b.source is not None:
        paths = dict.fromkeys(path for path in first if path in second)
    found = []
    for path in paths:
        words = _tell_apart(path, first.get(path, NOT_KNOWN), second.get(path, NOT_KNOWN))
        if words is not None:
            found.append(Difference(name=_NAMES.get(path) or _clean(_spell(path)), a=words[0], b=words[1]))
    more = len(found) - MOST_DIFFERENCES
    if more > 0:
        found[MOST_DIFFERENCES:] = [Difference(name=f"{more} further conditions", a="not shown", b="not shown")]
    return tuple(found)


def same_hardware(a: Run, b: Run) -> tuple[bool | None, tuple[str, ...]]:
    """Whether `a` and `b` ran on hardware of the same kind, as far as recorded.

    Compared are architecture, maker and model of the machine, processor, counts of cores, instruction sets, and the
    size of memory within 5 %. Virtual machines often tell neither maker nor model: where both are silent on one of
    these, the rest decides.

    Returns:
        True, False, or None where a record does not tell enough; and one line for every difference, or where there is
        none, for what is not reported.
    """
    if unrecorded := [run for run in (a, b) if _is_unrecorded(run)]:
        which = "neither run" if len(unrecorded) == 2 else "only one run"
        return None, (f"{which} records its hardware",)
    differing, untold = [], []
    for paths, needed in _HARDWARE:
        name = _NAMES[paths[0]]
        first, second = _first_told(a, paths), _first_told(b, paths)
        if first is None and second is None:
            untold += [f"{name}: neither run records it"] if needed else []
        elif first is None or second is None:
            untold.append(
                f"{name}: only one run records it ({value_text(paths[0], second if first is None else first)})"
            )
        elif paths[0] == "memory.total_bytes" and _close(first, second):
            continue
        elif (words := _tell_apart(paths[0], first, second)) is not None:
            differing.append(f"{name}: {words[0]} against {words[1]}")
    if differing:
        return False, tuple(differing)
    return (None, tuple(untold)) if untold else (True, ())


def _is_unrecorded(run: Run) -> bool:
    """Whether the run comes from another tool's file, without its environment."""
    return run.source is not None and not run.environment


def engine_version(run: Run) -> str | None:
    """Return the version in force, else the one that was planned with; None where the record has neither."""
    version = run.effective.get("engine_version") or run.job.runtime.version
    return _clean(str(version)) if version else None


def _conditions(run: Run, *, other: Run) -> dict[str, Any]:
    """Dotted path → value of everything that `run` and `other` may differ in."""
    environment = run.environment
    kept = {key: value for key, value in environment.items() if key not in _MOMENTARY}
    found = dict(_leaves(kept))
    state = environment.get("state")
    if isinstance(state, Mapping):
        found |= {f"state.{name}": state[name] for name in _SETTINGS_OF_STATE if name in state}
    absent = environment.get("absent")
    reasons = absent if isinstance(absent, Mapping) else {}
    for path in _NO_LIMIT & found.keys():
        if found[path] is None and path not in reasons:
            found[path] = "no limit"
    if run.job.runtime.name == other.job.runtime.name:
        found[f"{run.job.runtime.name} version"] = engine_version(run)
        told = {**other.effective, **run.effective}
        for name in told.keys() - _NO_CONDITION:
            values = (run.effective.get(name), other.effective.get(name))
            if name == "call" and None in values:  # runs of before it was recorded
                continue
            if any(isinstance(value, str | bool) for value in values) or name == "streams":
                found[f"in force: {name}"] = values[0]
    return found


def _leaves(mapping: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and depth < _DEEPEST:
            yield from _leaves(value, f"{prefix}{key}.", depth + 1)
        else:
            yield f"{prefix}{key}", value


def _tell_apart(path: str, first: Any, second: Any) -> tuple[str, str] | None:
    """Both values as text; None where the texts are equal."""
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        ours, theirs = (Counter(value_text(path, item) for item in items) for items in (first, second))
        own, missing = sorted((ours - theirs).elements()), sorted((theirs - ours).elements())
        return (_one_sided(own, missing), _one_sided(missing, own)) if own or missing else None
    words = value_text(path, first), value_text(path, second)
    return None if words[0] == words[1] else words


def _one_sided(own: list[str], missing: list[str]) -> str:
    words = [f"with {', '.join(own)}"] if own else []
    return _clean(", ".join(words + ([f"without {', '.join(missing)}"] if missing else [])))


def value_text(path: str, value: Any, depth: int = 0) -> str:
    """`value` as a person reads it; sizes and clocks by the end of their name."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number_in_words(path, value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        items = (f"{_spell(str(key))} {value_text(str(key), item, depth + 1)}" for key, item in value.items())
        return _clean(" ".join(items))
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return _clean(", ".join(value_text(path, item, depth + 1) for item in value) or "none")
    return _clean(str(value)) or "empty" if isinstance(value, str) else "…"


def _number_in_words(path: str, value: float) -> str:
    if abs(value) > 1e18:  # no size, clock or count; and a whole number may be too large for a float
        return "beyond 10¹⁸"
    if path.endswith("_bytes"):
        return format_bytes(value)
    return format_si(value, "Hz") if path.endswith("_hz") else f"{value:.12g}"


def _first_told(run: Run, paths: tuple[str, ...]) -> Any:
    """Return the value at the first of `paths` that leads to one; a limit that is known to be absent counts as a
    value.
    """
    absent = run.environment.get("absent")
    for path in paths:
        value: Any = run.environment
        for key in path.split("."):
            told = isinstance(value, Mapping) and key in value
            value = value[key] if told else None
        if value is None and told and path in _NO_LIMIT and not (isinstance(absent, Mapping) and path in absent):
            return "no limit"
        if value is not None and not isinstance(value, Mapping):
            return value
    return None


def _close(first: Any, second: Any) -> bool:
    """Whether two sizes are within the tolerance; a whole number may be too large for a float, and is none then."""
    try:
        return bool(abs(first - second) <= MEMORY_TOLERANCE * max(abs(first), abs(second)))
    except (TypeError, OverflowError):
        return False


def _spell(path: str) -> str:
    return path.replace(".", " ").replace("_", " ")


def _clean(text: str) -> str:
    """One printable line of bounded length: records come from anywhere."""
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
