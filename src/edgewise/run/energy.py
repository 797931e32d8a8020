"""Energy and power above idle, from the windows of the sensors' pass. Pure data → data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgewise.formatting import amount_text
from edgewise.metrics import METRICS
from edgewise.record import Measurement
from edgewise.run.metering import OF_ENERGY, PROMPT, SLOW_HZ, mean_watts
from edgewise.run.meters.base import COVERAGES
from edgewise.stats import intervals
from edgewise.stats.summary import summarise
from edgewise.units import format_si

TOKEN_ENERGIES = ("energy_per_token", "prefill_energy", "decode_energy")
"""Metrics of a language model's energy per token."""
_SEES = {
    "device": "sees everything that the supply feeds",
    "processor": "sees the processor",
    "accelerator": "sees the accelerator",
    "part": "sees one part of the device",
    "": "the meter does not state what it sees",
}


def words_of_view(row: Measurement) -> str:
    """Return what the meter of an energy or power sees, from the words of the method; empty in records without them."""
    return next((words for words in _SEES.values() if words in row.method), "")


@dataclass(slots=True)
class _Source:
    """One meter, or one part of it, in all processes.

    Attributes:
        joules, watts: above idle, per session and pair of windows: of one inference, and the mean of the window.
        joules_off, watts_off: the most that the resolution of the sensor can make each of them wrong.
    """

    name: str
    covers: str = ""
    method: str = ""
    traits: Mapping[str, Any] = field(default_factory=dict)
    joules: list[list[float]] = field(default_factory=list)
    watts: list[list[float]] = field(default_factory=list)
    joules_off: list[float] = field(default_factory=list)
    watts_off: list[float] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, bool, str]:
        """The first source sees most of the device; a meter beside the target does not change what it measures."""
        return COVERAGES.index(self.covers), self.traits.get("place") != "host", self.name


def energy_rows(metered: Sequence[Mapping[str, Any]], absence: str) -> list[Measurement]:
    """Rows of ``energy`` and ``power``, and ``energy:METER`` of every meter where there are several.

    Energy per inference = (power of a loaded window − power of the idle window beside it, of the same meter) × time of
    the loaded window / inferences in it. Each pair of windows is a sample; the interval of their mean is widened by the
    most that the resolution of the sensor can add. A value is given where the interval is above 0.

    Args:
        metered: what `edgewise.run.metering.read_meters` returned in each process.
        absence: why there is no energy meter, for runs without one.
    """
    sources = sorted(_sources(metered), key=lambda source: source.rank)
    failures = _failures(metered, "energy")
    if not sources:
        why = failures_of(metered, "energy") or absence
        return [Measurement.absent("energy", why), Measurement.absent("power", why)]
    rows = [_row(f"energy:{one.name}", one, one.joules, one.joules_off, failures) for one in sources]
    head = _head(sources, failures)
    silent = failures.keys() - {one.name.partition("/")[0] for one in sources}
    rows += [Measurement.absent(f"energy:{name}", failures[name]) for name in sorted(silent)]
    why = ""
    if len(rows) > 1:
        others = ", ".join(row.metric.partition(":")[2] for row in rows if row.metric != f"energy:{head.name}")
        why = f"of the meters with a value, {head.name} sees the most of the device (other meters: {others}); "
    return [
        _row("energy", head, head.joules, head.joules_off, failures, why=why),
        _row("power", head, head.watts, head.watts_off, failures, why=why),
        *(rows if len(rows) > 1 else ()),
    ]


def _head(sources: Sequence[_Source], failures: Mapping[str, str]) -> _Source:
    """Return the first of `sources`, by their rank, whose energy has a value; the first of all where none has."""
    known = (one for one in sources if _row("energy", one, one.joules, one.joules_off, failures).value is not None)
    return next(known, sources[0])


def token_energy_rows(
    metered: Sequence[Mapping[str, Any]], absence: str, *, prompt: int | None, new: int
) -> list[Measurement]:
    """Rows of the energy per token of a language model, of the meter whose ``energy`` of a request they follow from.

    Requests that end at their first token have windows of their own: these tell the prompt from what follows.

    Args:
        metered, absence: as of `energy_rows`.
        prompt: tokens of each prompt; None where they have several lengths, which then have no windows of their own.
        new: tokens that a request makes.
    """
    sources = sorted(_sources(metered), key=lambda source: source.rank)
    if not sources:
        return [Measurement.absent(TOKEN_ENERGIES[0], failures_of(metered, "energy") or absence)]
    failures = _failures(metered, "energy")
    whole = _head(sources, failures)
    prompts = [facts | {"load": facts[PROMPT]} for facts in map(dict, metered) if PROMPT in facts]
    first = next((one for one in _sources(prompts) if one.name == whole.name), None)
    why = f"a request, its prompt included, divided by its {new} new tokens; "
    rows = [_row("energy_per_token", whole, *_per(new, whole), failures, why=why)]
    if prompt is None or first is None or list(map(len, first.joules)) != list(map(len, whole.joules)):
        told = f"{whole.name} did not read as many requests that end at their first token as whole ones"
        why = "the prompts have several lengths" if prompt is None else told
        return [*rows, *(Measurement.absent(metric, why) for metric in TOKEN_ENERGIES[1:])]
    why = f"requests that end at their first token, divided by the {prompt} tokens of the prompt; "
    rows.append(_row("prefill_energy", first, *_per(prompt, first), failures, why=why))
    why = f"requests minus those that end at their first token, divided by the {new - 1} tokens behind it; "
    return [*rows, _row("decode_energy", whole, *_per(new - 1, whole, first), failures, why=why)]


def _per(count: int, source: _Source, less: _Source | None = None) -> tuple[list[list[float]], list[float]]:
    """Return `_Source.joules` and `_Source.joules_off` of `source` minus those of `less`, divided by `count`."""
    others = less.joules if less else [[0.0] * len(some) for some in source.joules]
    joules = [
        [(each - other) / count for each, other in zip(some, own, strict=True)]
        for some, own in zip(source.joules, others, strict=True)
    ]
    off = [*source.joules_off, *(less.joules_off if less else ())]
    return joules, [each * (2 if less else 1) / count for each in off]


def _row(
    metric: str,
    source: _Source,
    per_session: Sequence[Sequence[float]],
    off: Sequence[float],
    failures: Mapping[str, str],
    *,
    why: str = "",
) -> Measurement:
    unit = METRICS[metric].unit
    samples = np.concatenate([np.asarray(values, dtype=float) for values in per_session])
    lengths = tuple(map(len, per_session))
    interval = intervals.mean_interval(samples, lengths, ratio=False)
    if interval is None:
        reason = failures.get(source.name.partition("/")[0], "the meter gave too few readings")
        return Measurement.absent(metric, f"{source.name}: {len(samples)} of at least 3 pairs of windows; {reason}")
    value, step = float(samples.mean()), float(np.mean(off))
    low, high = interval.low - step, interval.high + step
    pairs = f"{len(samples)} pairs of a loaded and an idle window in {len(lengths)} process(es)"
    if low <= 0:
        reason = f"{amount_text(unit, value, low, high)} above idle can't be told from 0: {pairs}"
        return Measurement.absent(metric, f"{source.name}: {reason}")
    blind = f", not {source.traits['cannot_see']}" if source.traits.get("cannot_see") else ""
    method = (
        f"{source.method}; {why}{_SEES[source.covers]}{blind}; mean of {pairs}, loaded minus idle; "
        f"95 % interval: {interval.method}"
    )
    if source.traits.get("resolution"):
        method += f", widened by {format_si(step, unit)} for the sensor's resolution"
    if not source.traits.get("rate_hz"):
        method += f"; the sensor's rate is not known: below {SLOW_HZ:g} values per second the result is too small"
    return Measurement.of(
        metric,
        value,
        method,
        basis="derived" if metric == "power" else "measured",
        low=low,
        high=high,
        samples=tuple(samples.tolist()),
        session_lengths=lengths,
        summary=summarise(samples, lengths),
    )


def failures_of(metered: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Why meters of `metric` have windows without readings; empty where none failed."""
    return "; ".join(f"{name}: {reason}" for name, reason in _failures(metered, metric).items())


def source_of(reading: Mapping[str, Any]) -> str:
    """Return the meter of a reading, and which part of it."""
    return f"{reading['meter']}/{reading['part']}" if reading["part"] else str(reading["meter"])


def _failures(metered: Sequence[Mapping[str, Any]], metric: str) -> dict[str, str]:
    """Meter of `metric` → the first reason why it has no reading of a window."""
    found: dict[str, str] = {}
    for facts in metered:
        wanted = {each["name"] for each in facts["sensors"] if metric in each["metrics"]}
        for problem in (*facts["idle"]["problems"], *facts["load"]["problems"]):
            if problem["meter"] in wanted:
                found.setdefault(problem["meter"], problem["reason"])
    return found


def _sources(metered: Sequence[Mapping[str, Any]]) -> list[_Source]:
    """Every meter, and part of one, with readings of both windows of a pair."""
    sources: dict[str, _Source] = {}
    for facts in metered:
        traits = {each["name"]: each for each in facts["sensors"]}
        idle = {(source_of(each), each["window"]): each for each in _energies(facts["idle"])}
        begun: set[str] = set()
        for loaded in _energies(facts["load"]):
            name, window = source_of(loaded), loaded["window"]
            if (name, window) not in idle:
                continue
            source = sources.setdefault(name, _Source(name))
            if name not in begun:
                begun.add(name)
                source.joules.append([])
                source.watts.append([])
            source.covers, source.method = loaded["covers"], loaded["method"]
            source.traits = traits.get(loaded["meter"], {})
            _add(source, loaded, idle[name, window], facts=facts)
    return list(sources.values())


def _add(source: _Source, loaded: Mapping[str, Any], idle: Mapping[str, Any], *, facts: Mapping[str, Any]) -> None:
    """Add one pair of windows."""
    window = loaded["window"]
    load_window, idle_window = (facts[kind]["windows"][window] for kind in ("load", "idle"))
    load_s, idle_s = loaded["seconds"] or load_window["seconds"], idle["seconds"] or idle_window["seconds"]
    watts = mean_watts(loaded, load_s) - mean_watts(idle, idle_s)
    steps = source.traits.get("resolution") or {}
    # Rounding shifts each mean power by half a step at most, and each reading of a counter by a step.
    watts_off = steps.get("power", 0.0) + steps.get("energy", 0.0) * (1 / load_s + 1 / idle_s)
    per_inference = load_window["seconds"] / load_window["inferences"]
    source.watts[-1].append(watts)
    source.joules[-1].append(watts * per_inference)
    source.watts_off.append(watts_off)
    source.joules_off.append(watts_off * per_inference)


def _energies(facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (each for each in facts["readings"] if each["metric"] in OF_ENERGY)
