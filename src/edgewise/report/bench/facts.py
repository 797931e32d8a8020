"""Facts beside the answer: accuracy, start-up, outputs of files, assumed sizes, the smallest and the leanest."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.formatting import percent, percent_of, quantity, with_range
from edgewise.grouping import by_key
from edgewise.metrics import in_sentence
from edgewise.record import Run
from edgewise.record.facts import SCRIPTS
from edgewise.report.bench.ranking import (
    PRACTICAL,
    RankedModel,
)
from edgewise.report.bench.values import parts_of_start_up, where_of
from edgewise.report.runs.cells import NOT_MEASURED, chief_metric, label_of
from edgewise.report.runs.conditions import (
    command_of,
)
from edgewise.run.agreement import BEYOND, compared_with, not_compared
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import significant
from edgewise.workload.input_shapes import ASSUMED

MOST_OF_START = 0.5
"""A larger share of a start-up before the first inference is told."""


def lines_on_start_ups(runs: Sequence[Run]) -> list[str]:
    """Return that most of a start-up is over before the first inference, with the shares of all its parts in the sum
    over the processes, where that is so of each.
    """
    starts = [parts_of_start_up(run) for run in runs if run.headline == "startup_time" and run.value("startup_time")]
    totals = [sum(map(sum, parts.values())) for parts in starts]
    if not all(totals):
        return []
    shares = [
        {words: sum(times) / total for words, times in parts.items()}
        for parts, total in zip(starts, totals, strict=True)
    ]
    found = by_key((words, share) for each in shares for words, share in each.items())
    last = found.pop("the first inference", [])
    if not last or max(last) > 1 - MOST_OF_START:
        return []
    told = [f"{words} is {_from_to(some)}" for words, some in [*found.items(), ("the first inference", last)]]
    return [f"Of the start-up {listing(told)}: inference is not what differs here"]


def _from_to(shares: Sequence[float]) -> str:
    """``"83 %"``, ``"83 to 92 %"``."""
    low, high = percent(min(shares)), percent(max(shares))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def is_only_judged(run: Run) -> bool:
    """Whether `run` has an accuracy, and no value of what its scenario measures."""
    return run.status == "done" and run.value(run.headline) is None and chief_metric(run) is not None


def line_of_evaluation(run: Run) -> str:
    """Return the accuracy of a run that nothing else was measured of, with its interval and number of samples."""
    row = run.measurement(chief_metric(run) or "")
    if row is None or row.value is None:
        why = (row.absent_because if row is not None else "") or NOT_MEASURED
        said = f"no {in_sentence(label_of(row.metric)) if row is not None else 'score'}: {one_line(why)}"
    else:
        said = f"{in_sentence(label_of(row.metric))} {with_range(row.metric, row.unit, row.value, row.low, row.high)}"
    if (found := run.evaluation) is not None:
        of = f" of {found.data.size}" if found.n < found.data.size else ""
        said += f" on {found.n}{of} sample{'' if found.data.size == 1 else 's'}"
    return f"{one_line(run.job.model.name)}{where_of(run)}: {said}"


_SAME_BELOW = 1e-7
"""A share of the scale that one rounding of a 32-bit number makes: below it nothing can be told."""


_PERCENT_FROM = 1e-4


def share_of_scale(share: float) -> str:
    """``"0.38 %"``, ``"0.901 parts per million"``: a share without a row of zeros."""
    if share < _SAME_BELOW:
        return f"at most {_SAME_BELOW * 1e6:g} parts per million"
    return f"{significant(percent_of(share))} %" if share >= _PERCENT_FROM else f"{share * 1e6:.3g} parts per million"


def lines_on_files(runs: Sequence[Run]) -> list[str]:
    """Whether files of one network put out the same, as far as they were compared."""
    names = list(dict.fromkeys(run.job.model.name for run in runs))
    told = [(run, name, row) for run in runs if (row := run.measurement("output_max_rel_error")) for name in names]
    said = []
    for run, name, row in told:
        if row.value is None and (row.absent_because or "").startswith(not_compared(name)):
            said.append(f"{run.job.model.name} {row.absent_because}")
        elif row.value is not None and row.method.startswith(compared_with(name)):
            words = "differs from {} by" if row.method.endswith(BEYOND) else "agrees with {} within"
            said.append(f"{run.job.model.name} {words.format(name)} {share_of_scale(row.value)} of their scale")
    return [f"Outputs: {one_line('; '.join(dict.fromkeys(said)))}"] if said else []


def lines_on_assumed_sizes(runs: Sequence[Run]) -> list[str]:
    """Sizes of inputs that the files leave open: with others, every number may be another one."""
    found = dict.fromkeys(
        (spec.name, spec.shape) for run in runs for spec in run.job.workload.inputs if ASSUMED in spec.note
    )
    if not found:
        return []
    shown = [f"{name} {'×'.join(map(str, shape)) or 'its value'}" for name, shape in found]
    name, shape = next(((name, shape) for name, shape in found if shape), ("", ()))
    advice = f" → set yours: --shape {name}={'x'.join(map(str, shape))}" if shape else ""
    return [one_line(f"Assumed: {enumerate_few(shown)}; other sizes take other times{advice}")]


def lines_on_smallest(ranked: Sequence[RankedModel], runs: Sequence[Run]) -> list[str]:
    """Return which of the models that run has the smallest file, and which program takes the least memory; empty where
    that is not known.
    """
    ran = {one_line(run.job.model.name) for run in runs if run.status != "failed"}
    files = [one for one in ranked if not command_of(one.run)]  # what starts a program is no model
    sizes = {one.model: size for one in files if (size := one.run.job.model.size_bytes) and one.model in ran}
    least = min(sizes.values(), default=0)
    smallest = " and ".join(model for model, size in sizes.items() if size == least)
    lines = [f"Smallest: {smallest}, {quantity(least, 'B')}"] if smallest else []
    return [*lines, *_lines_on_memory([one for one in ranked if command_of(one.run)])]


def _lines_on_memory(programs: Sequence[RankedModel]) -> list[str]:
    """Return which program has the least peak memory, where the next has more by an amount that matters."""
    peaks = sorted((peak, one.model) for one in programs if (peak := one.run.value("memory_group_peak")))
    if len(peaks) < 2 or peaks[1][0] < peaks[0][0] * (1 + PRACTICAL):
        return []
    (least, model), (more, other) = peaks[:2]
    return [f"Least peak memory: {model}, {quantity(least, 'B')} ({other} {quantity(more, 'B')})"]


def why_programs_differ(runs: Sequence[Run]) -> list[str]:
    """Return where to look for why one of several programs is faster; none for variants of one program."""
    commands = [run.job.command for run in runs if command_of(run)]
    scripts = [tuple(word for word in words if word.rpartition(".")[2] in SCRIPTS) for words in commands]
    if len({own or words[:1] for own, words in zip(scripts, commands, strict=True)}) < 2:
        return []
    return [
        "Why one is faster is not measured. Of programs that run a network, these measure the parts: what starting "
        "costs (Python, import, load, first inference): edgewise bench MODEL --scenario cold-start -r A,B; what an "
        "inference takes, with the threads and precision of each: edgewise bench MODEL -r A,B --threads 1,2"
    ]
