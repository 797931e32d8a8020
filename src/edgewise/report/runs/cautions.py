"""Cautions and the reasons of grades as lines: the runs, what was observed, and what to do."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from edgewise.device.devices import LOCAL
from edgewise.grouping import by_key
from edgewise.record import CAUTIONS, Run
from edgewise.report.document import Section
from edgewise.report.runs.conditions import namer
from edgewise.text import one_line

T = TypeVar("T")


def caution_sections(runs: Sequence[Run], said: Sequence[str] = ()) -> list[Section]:
    """Cautions and the reasons of the grades.

    Args:
        said: lines that stand before them; what one of these has, the brief text names without its words.
    """
    lines = caution_lines(runs)
    brief = _brief_cautions(runs, said)
    return [Section(title="Cautions", lines=tuple(lines), tone="poor", brief=brief)] if lines else []


def caution_lines(runs: Sequence[Run]) -> list[str]:
    """One line per kind of caution: the runs, the observation, the advice; equal messages are merged."""
    names = namer(runs)
    advice = {caution.code: one_line(caution.advice) for run in reversed(runs) for caution in reversed(run.cautions)}
    lines = []
    for code, messages in merge_cautions(enumerate(runs)).items():
        said = "; ".join(f"{names(who)}{message}" for message, who in messages.items())
        lines.append(f"{code}: {said}" + (f" → {advice[code]}" if advice[code] else ""))
    graded = by_key(
        (f"grade {run.trust.grade}: {reason}", index)
        for index, run in enumerate(runs)
        if run.status == "done" and run.trust is not None
        for reason in uncovered_reasons(run)
    )
    return lines + [f"{names(who)}{said}" for said, who in graded.items()]


def merge_cautions(runs: Iterable[tuple[T, Run]]) -> dict[str, dict[str, list[T]]]:
    """Code of a caution → each message → the names, given with the runs, of those that have it."""
    cautions = by_key(
        (caution.code, (one_line(caution.message), name)) for name, run in runs for caution in run.cautions
    )
    return {code: by_key(messages) for code, messages in cautions.items()}


def uncovered_reasons(run: Run) -> list[str]:
    """Reasons of the run's grade that none of its cautions has said."""
    said = tuple(one_line(caution.message) for caution in run.cautions)
    reasons = map(one_line, run.trust.reasons) if run.trust is not None else ()
    return [reason for reason in reasons if not (said and reason.startswith(said))]


def default_precision_lines(runs: Sequence[Run], *, verb: str = "", places: bool = False) -> list[str]:
    """Which engines would have run in another precision by themselves, and how that is measured too.

    Args:
        verb: whose command measures it; empty for none.
        places: whether the command has the path of a model that is not below the current folder; else it has the name
            of its file.
    """
    told = by_key((each.message, run) for run in runs for each in run.cautions if each.code == "not-default-precision")
    lines = []
    for message, some in told.items():
        command, effective = "", some[0].effective
        if verb and "default_precision" in effective:
            families = {run.job.model.family for run in some}
            engines = dict.fromkeys(run.job.runtime.name for run in runs if run.job.model.family in families)
            more = ["--precision", f"{effective.get('precision')},{effective.get('default_precision')}"]
            command = command_of_runs(some, verb, list(engines), more=more, places=places)
        lines.append(f"not measured: {one_line(message)}{command and f': {command}'}")
    return lines


def fixed_dimension_lines(runs: Sequence[Run], *, places: bool = False) -> list[str]:
    """Return what was fixed in the files of `runs` before they were compiled, and how they are measured as they are.

    Args:
        runs: which are recommended, or win.
        places: as of `default_precision_lines`.
    """
    told = by_key((each.message, run) for run in runs for each in run.cautions if each.code == FIXED)
    more = ["--set", "keep_open_dimensions=true"]
    return [
        f"{one_line(message)}: {command_of_runs(of, 'bench', more=more, places=places)}" for message, of in told.items()
    ]


def typed_path(run: Run, *, places: bool = False) -> str:
    """Return the path of the model as a command names it, as `default_precision_lines` says."""
    path, here = Path(run.job.model.path), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path) if places else path.name


def command_of_runs(
    runs: Sequence[Run], verb: str, engines: Sequence[str] = (), *, more: Sequence[str] = (), places: bool = False
) -> str:
    """Return the command that measures the models of `runs` as the first of them was, with the threads of all of them
    and the options `more`.
    """
    job = runs[0].job
    paths = dict.fromkeys(typed_path(run, places=places) for run in runs)
    words = ["edgewise", verb, *paths, "-r", ",".join(engines or [job.runtime.name])]
    words += [] if job.target.device == LOCAL else ["-d", job.target.device]
    threads = sorted({run.job.runtime.threads or 1 for run in runs})
    words += ["--threads", ",".join(map(str, threads))] if threads != [1] else []
    words += ["--batch", str(job.workload.batch)] if job.workload.batch > 1 else []
    return one_line(shlex.join([*words, *more]))


FIXED = "fixed-dimensions"
"""Code of the caution on dimensions that an engine got fixed."""
_TOLD = ("limit-not-held", "not-default-precision", FIXED)
"""Cautions whose words stand beside their names: the limit that was not held, the precision not measured."""


def _brief_cautions(runs: Sequence[Run], said: Sequence[str]) -> str:
    """Every kind of caution with the number of runs that have it, the most severe first."""
    codes = [dict.fromkeys(one_line(each.code) for each in run.cautions) for run in runs]
    counts = Counter(code for own in codes for code in own)
    if not counts:
        return "see the reasons of the grades"
    unequal = ("output-mismatch", "output-not-finite")
    order = sorted(counts, key=lambda code: (code in unequal, CAUTIONS.get(code, ("A", ""))[0]), reverse=True)
    messages = merge_cautions(enumerate(runs))
    told = {
        code: "; ".join(some)
        for code in _TOLD
        if (some := [text for text in messages.get(code, ()) if not any(text in line for line in said)])
    }
    if len(runs) == 1:
        return ", ".join(f"{code} ({told[code]})" if code in told else code for code in order)
    of = [f"{counts[code]}{f' of {len(runs)} runs' if code == order[0] else ''}" for code in order]
    return ", ".join(
        f"{code} ({number}{f': {told[code]}' if code in told else ''})" for code, number in zip(order, of, strict=True)
    )
