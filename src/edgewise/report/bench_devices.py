"""What is told of runs on several devices: the conclusion for each, and which is faster where both ran the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgewise.formatting import quantity
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.candidates import Candidate, are_apart, factor_of, noun_of, objection_of
from edgewise.report.conditions import elsewhere, labels_of, provider_of, scenario_of, told_apart
from edgewise.report.generated import generated_answer, is_generated
from edgewise.report.recommendation import Recommendation, answer_of, group_title, recommendations
from edgewise.text import enumerate_few, listing, one_line

MOST_LINES = 3
"""Of settings that ran on several devices, as many are told; the table has the others."""


def devices_of(runs: Sequence[Run]) -> list[str]:
    """The names of the devices, in order of first appearance."""
    return list(dict.fromkeys(one_line(run.job.target.device) for run in runs))


def _by_device(runs: Sequence[Run]) -> dict[str, list[Run]]:
    return by_key((one_line(run.job.target.device), run) for run in runs)


def title_of_group(group: Sequence[Run], runs: Sequence[Run]) -> str:
    """The title of a group of comparable runs, with its device where `runs` are of several, or not of this machine."""
    several = len(devices_of(runs)) > 1
    return group_title(group[0]) + (f", on {devices_of(group)[0]}" if several else elsewhere(group))


def recommendations_by_device(runs: Sequence[Run]) -> list[Recommendation]:
    """As `recommendations`, each with its device where there are several."""
    parts = _by_device(told_apart(runs))
    if len(parts) < 2:
        return recommendations(runs)
    return [
        replace(one, group=f"{one.group}, on {device}")
        for device, part in parts.items()
        for one in recommendations(part)
    ]


def answer_by_device(runs: Sequence[Run], *, each: bool = False) -> tuple[str, ...]:
    """The conclusion; of several devices which one is faster, then the conclusion for each.

    Args:
        each: whether several models also have a line each.
    """
    if made := [run for run in runs if is_generated(run)]:
        others = [run for run in runs if not is_generated(run)]
        return (*generated_answer(made), *(answer_by_device(others, each=each) if others else ()))
    parts = _by_device(runs)
    if len(parts) < 2:
        return answer_of(runs, each=each)
    lines = by_key((line, device) for device, part in parts.items() for line in answer_of(part, each=each))
    return (*_faster_devices(runs), *(f"{listing(devices)}: {line}" for line, devices in lines.items()))


def summary_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """What was measured with what and where, and what failed; empty for one run."""
    if len(runs) < 2:
        return ()
    told = {
        "of {} model": [run.job.model.name for run in runs],
        "in {} engine": [run.job.runtime.name for run in runs if not run.job.command],
        "on {} device": [run.job.target.device for run in runs],
    }
    counted = [
        f"{words.format(len(names))}{'s' if len(names) > 1 else ''} ({one_line(enumerate_few(names))})"
        for words, some in told.items()
        if (names := list(dict.fromkeys(some)))
    ]
    failed = [
        f"{label} ({one_line(run.failure.message) if run.failure is not None else 'no reason is recorded'})"
        for run, label in zip(runs, labels_of(runs), strict=True)
        if run.status == "failed"
    ]
    lines = [f"{len(runs)} runs {' '.join(counted)}{'' if failed else '; none failed'}"]
    return (*lines, *([f"{len(failed)} of {len(runs)} failed: {enumerate_few(failed)}"] if failed else []))


def _faster_devices(runs: Sequence[Run]) -> list[str]:
    """Which device is faster, a line for each file, engine and setting that ran on several."""
    groups = by_key((_setting_of(run), run) for run in runs).values()
    shared = [group for group in groups if len(devices_of(group)) > 1]
    labels = labels_of([group[0] for group in shared]) if len(shared) > 1 else [""]
    lines = [(f"{label}: " if label else "") + _fastest_of(group) for label, group in zip(labels, shared, strict=False)]
    rest = [f"the table has {len(lines) - MOST_LINES} more settings that ran on several devices"]
    return lines if len(lines) <= MOST_LINES else lines[:MOST_LINES] + rest


def _setting_of(run: Run) -> tuple[object, ...]:
    """File, engine, settings and limits of a run, and what it is about."""
    job, limits = run.job, (run.job.target.memory_limit_bytes, run.job.target.constraints)
    setting = (threads_of(run) or job.runtime.threads, precision_of(run) or job.runtime.precision)
    same = (job.model.sha256, job.command, provider_of(run), *setting, job.workload.batch, scenario_of(run))
    return (*same, *limits, run.headline)


def _fastest_of(group: Sequence[Run]) -> str:
    """``"pi is 1.31× [1.2, 1.4] faster than local (latency …)"``, or why that can't be told."""
    last = {device: part[-1] for device, part in _by_device(group).items()}
    objections = {device: brief for device, run in last.items() if (brief := objection_of(run).brief)}
    left_out = enumerate_few([f"{device} ({brief})" for device, brief in objections.items()])
    ranked = [
        Candidate(run, device, row)
        for device, run in last.items()
        if device not in objections and (row := run.measurement(run.headline)) is not None
    ]
    if len(ranked) < 2:
        return f"Which device is faster can't be told: {left_out}"
    metric = METRICS[ranked[0].row.metric]
    best, *others = sorted(ranked, key=lambda one: one.value, reverse=metric.better == "higher")
    said = [f"{factor_of(best, other)} faster than {other.label}" for other in others if are_apart(best, other)]
    alike = [other.label for other in others if not are_apart(best, other)]
    words = f"{best.label} is {listing(said)}" if said else f"{listing([best.label, *alike])} can't be told apart"
    words += f" and can't be told apart from {listing(alike)}" if said and alike else ""
    facts = [f"{noun_of(best.run)}: " + ", ".join(f"{one.label} {quantity(one.value, metric.unit)}" for one in ranked)]
    facts += ["the 95 % intervals overlap or are not known"] if alike else []
    facts += ["the last run on each"] if len(group) > len(last) else []
    facts += [f"left out: {left_out}"] if objections else []
    return f"{words} ({'; '.join(facts)})"
