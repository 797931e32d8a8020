"""Runs that were not ranked and may be faster all the same, and the command that decides it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from edgewise.comparing.finals import can_take_turns
from edgewise.device.devices import LOCAL
from edgewise.errors import Unavailable
from edgewise.record import Run, Scenario
from edgewise.record.facts import threads_of
from edgewise.report.bench.ranking import (
    UNRELIABLE,
    Candidate,
    is_only_unreliable,
    levels,
    may_be_as_fast,
    objection_of,
)
from edgewise.report.bench.values import headline_text
from edgewise.report.runs.cautions import typed_path
from edgewise.text import enumerate_few, one_line


def find_undecided(runs: Sequence[Run], chosen: Candidate, ranked: Sequence[Candidate]) -> Run | None:
    """Return the best of the runs of grade D that have a better value than `chosen` and took no turns with it.

    None where turns proved that others are faster.
    """
    behind = {one.run.id for some in levels(ranked)[1:] for one in some}
    able = [
        run
        for run in runs
        if is_only_unreliable(run) and run.headline == chosen.run.headline and run.id not in behind
        if _is_better(run, chosen) and run.turns_against(chosen.run) is None
    ]
    return min(able, key=lambda run: (run.value(run.headline) or 0.0) * (-1 if chosen.is_rate else 1), default=None)


def lines_of_undecided(run: Run, chosen: Run, name: Callable[[Run], str]) -> list[str]:
    """Return that `run`, of grade D, may be faster than `chosen`, and the command that decides it."""
    values = [headline_text(one, interval=False) for one in (run, chosen)]
    first = f"Not decided: {name(run)} ({values[0]}, {UNRELIABLE}) may be faster than {name(chosen)} ({values[1]})"
    command = compare_command([chosen, run])
    return [first, f"To decide: {command}" if command else "To decide, measure both again on an idle machine"]


def compare_command(runs: Sequence[Run], *, places: bool = False) -> str:
    """``edgewise compare m.onnx,runtime=openvino,threads=1 …``: what measures runs of one place in turns; "" if nothing
    here does.

    Args:
        places: whether models outside the current folder have their paths.
    """
    if not all(map(is_comparable, runs)):
        return ""
    job = runs[0].job
    words = ["edgewise", "compare", *(_subject_of(run, places=places) for run in runs)]
    words += [] if job.target.device == LOCAL else ["-d", job.target.device]
    words += ["--batch", str(job.workload.batch)] if job.workload.batch > 1 else []
    kind = job.workload.scenario.kind
    words += ["--scenario", kind] if kind != Scenario().kind else []
    return one_line(shlex.join(words))


def is_comparable(run: Run) -> bool:
    """Return whether ``compare`` can measure what `run` measured; what is not installed here can't be."""
    try:
        return can_take_turns(run)
    except Unavailable:
        return False


def _subject_of(run: Run, *, places: bool) -> str:
    """``model.onnx,runtime=onnxruntime,threads=2``: a run as ``compare`` measures it again."""
    runtime = run.job.runtime
    engine = runtime.name if runtime.provider is None else f"{runtime.name}/{runtime.provider}"
    words = [typed_path(run, places=places), f"runtime={engine}", f"threads={threads_of(run) or 1}"]
    return ",".join([*words, *([f"precision={runtime.precision}"] if runtime.precision else [])])


def find_overlooked(runs: Sequence[Run], chosen: Candidate, ranked: Sequence[Candidate]) -> list[Run]:
    """Return the runs that are not in `ranked` and have a better value than `chosen`, or may be as fast."""
    ids = {one.run.id for one in ranked}
    return [
        run
        for run in runs
        if run.id not in ids and run.headline == chosen.run.headline
        if _is_better(run, chosen) or may_be_as_fast(run, chosen)
    ]


def _is_better(run: Run, chosen: Candidate) -> bool:
    """Return whether `run` has a better value than `chosen`."""
    value = run.value(run.headline)
    return value is not None and (value > chosen.value if chosen.is_rate else value < chosen.value)


def lines_of_overlooked(runs: Sequence[Run], chosen: Candidate, name: Callable[[Run], str]) -> list[str]:
    """Return each of the `find_overlooked` runs with its value and why it is not ranked; empty where there are none."""
    said = dict[bool, list[str]]({True: [], False: []})
    for run in runs:
        better = _is_better(run, chosen)
        value = headline_text(run, interval=not better)
        said[better].append(f"{name(run)}, {value} ({objection_of(run).brief or UNRELIABLE})")
    titles = {True: "Not ranked, though its value is better", False: "Not ranked, and may be as fast"}
    return [f"{titles[better]}: {enumerate_few(some, 3)}" for better, some in said.items() if some]
