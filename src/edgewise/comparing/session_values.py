"""The evidence of one run on one metric: a number per fresh process, or the reason why there is none.

A comparison counts processes, so the samples of each are first reduced to one number: their median or mean,
depending on the metric. A 99th percentile needs more samples than a short process gives; processes are joined for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import ref

import numpy as np

from edgewise.comparing.comparison import Side, Variant
from edgewise.metrics import METRICS, SHARES
from edgewise.record import Measurement, Run, SessionRecord
from edgewise.run.energy import words_of_view
from edgewise.run.metering import OF_ENERGY
from edgewise.run.told_facts import TURN_LISTS
from edgewise.run.variation import reach_of
from edgewise.stats.autocorrelation import Samples
from edgewise.stats.between_runs import Scatter
from edgewise.stats.comparison import LEAST_REPLICATES
from edgewise.stats.distributions import t_quantile
from edgewise.stats.turns import Turns

PERCENTILE_METRIC = "latency_p99"
PERCENTILE = 99.0
LEAST_FOR_PERCENTILE = 1000
"""A percentile is given only where at least ten samples are expected beyond it: n ≥ 10/(1 − p)."""

PARTS = 8
"""Parts of a process whose medians tell how much its speed varies while it lives."""

MEAN_METRIC = "latency_mean"
OF_OTHERS = ("busy_share_of_others", "steal_share")
"""Counters of what others took of the processors."""

OF_ARRIVALS = "deadline_miss_rate"
"""Its interval is over arrivals and leaves out how processes differ."""

OF_TEXT = frozenset({"perplexity", "bits_per_byte"})
"""Metrics that say nothing about another text."""
OF_DATA = SHARES - {OF_ARRIVALS} | OF_TEXT
"""Metrics whose interval is over the items of a data set; that of any other one is over processes."""

OF_LABELS = {each for each in OF_DATA if not each.startswith("agreement_")} | {"mae", "rmse", "r2"}
"""Metrics of answers beside labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence of a run on a metric.

    Attributes:
        side: the run's own headline.
        values: one positive number per fresh process, in their order; empty where there are no samples. Where `absent`
            says why there is no value for all of them, those of processes that took turns can still be paired.
        lengths: samples behind each of `values`.
        sessions: of a percentile: the samples of each process, shapes (n_i,).
        turns: of a time, or of a rate that follows from it, in processes that took turns; else empty.
        outcomes: of a share of samples: 1.0 or 0.0 for each, in order; of a perplexity, numbers whose geometric mean it
            is; else empty.
        questions: SHA-256 of these samples: with the same one, two runs answered the same.
        tokens: of a perplexity: the tokens behind it.
        exact: the value is known exactly, such as the size of a file.
        view: of an energy or power: what its meter sees, in words.
        doubt: why no verdict can rest on the interval of `side`, used where there are no `values`.
        absent: why nothing can be compared; empty where something can.
    """

    side: Side
    values: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    sessions: tuple[Samples, ...] = field(default=(), repr=False)
    turns: tuple[Turns, ...] = field(default=(), repr=False)
    outcomes: tuple[float, ...] = field(default=(), repr=False)
    questions: str = ""
    tokens: float | None = None
    exact: bool = False
    view: str = ""
    doubt: str = ""
    absent: str = ""


def are_paired(a: Evidence, b: Evidence) -> bool:
    """Whether both have the outcome of each of the same samples."""
    return bool(a.outcomes) and len(a.outcomes) == len(b.outcomes) and a.questions == b.questions


def why_unpaired(a: Evidence, b: Evidence) -> str:
    """Why two numbers over samples of data can't be paired sample by sample; "" for other numbers."""
    if not a.questions or not b.questions:
        return ""
    same = a.questions == b.questions
    return "not paired: no outcome of each sample is on record" if same else "not paired: of different samples"


def why_other_texts(a: Evidence, b: Evidence, metric: str) -> str:
    """Return why a number of `OF_TEXT` of two runs can't be compared; "" where it can, and for other metrics."""
    if metric not in OF_TEXT or a.absent or b.absent:
        return ""
    if a.questions != b.questions:
        return "they are of different texts"
    if a.tokens != b.tokens:
        return "their tokenizers divide the text differently: compare bits_per_byte"
    return ""


def evidence_of(variants: Sequence[Variant]) -> Callable[[int, str], Evidence]:
    """Return a function of a variant's index and a metric that gathers each evidence once while its run exists."""

    def evidence(index: int, metric: str) -> Evidence:
        run, name = variants[index].run, variants[index].label
        kept = _gathered_of(run)
        if (metric, name) not in kept:
            kept[metric, name] = gather_evidence(run, metric, name=name)
        return kept[metric, name]

    return evidence


_GATHERED: dict[int, tuple[ref[Run], dict[tuple[str, str], Evidence]]] = {}


def _gathered_of(run: Run) -> dict[tuple[str, str], Evidence]:
    """Return what was gathered of `run` so far; a report compares a run with many others."""
    key = id(run)
    if key not in _GATHERED:
        _GATHERED[key] = ref(run, lambda _: _GATHERED.pop(key, None)), {}
    return _GATHERED[key][1]


def gather_evidence(run: Run, metric: str, *, name: str) -> Evidence:
    """Return the evidence of `run` on `metric`. Never raises for what the run holds: the reason is in
    `Evidence.absent`.

    Args:
        metric: an id of the metric catalogue.
        name: what reasons call the run.
    """
    if run.status == "failed":
        message = " ".join(run.failure.message.split()) if run.failure else "no reason is on record"
        return Evidence(side=Side(value=None), absent=f"{name} failed: {message}")
    if metric == PERCENTILE_METRIC:
        return _percentile_evidence(run, name)
    row = run.measurement(metric)
    if row is None and metric == MEAN_METRIC:
        row = _mean_of(run.measurement("latency"))
    if row is None:
        return Evidence(side=Side(value=None), absent=_missing(row, metric, name))
    source = _source(run, row)
    if row.value is None:
        values = _withheld(source, run, metric, name) if source.metric == "tpot" and source.samples else ()
        return Evidence(side=Side(value=None), values=values, absent=_missing(row, metric, name))
    side = _side(row)
    if run.evaluation is not None and metric in OF_DATA:
        found = _without_samples(run, row, name)
        tokens = run.value("tokens_scored") if metric == "perplexity" else None
        return replace(found, outcomes=row.samples, questions=run.evaluation.data.sha256, tokens=tokens)
    if not source.samples:
        return _without_samples(run, row, name)
    sessions, wrong = _split(source, processes=len(run.sessions), name=name)
    if wrong:
        return Evidence(side=side, absent=wrong)
    if not _is_positive(side.value):
        return Evidence(side=side, absent=_not_positive(side, metric, name))
    values = _reduce(sessions, metric, batch=run.job.workload.batch if source is not row else 0)
    if metric in OF_ENERGY and min(values) <= 0.0:
        return Evidence(side=side, absent=f"{metric} of {name} is not above 0 in every process")
    if not all(map(_is_positive, values)):
        return Evidence(side=side, absent=f"{metric} of {name} is out of the range of numbers")
    side = Side(value=side.value, low=side.low, high=side.high, replicates=len(values))
    is_timed = METRICS[metric].aggregation == "median" or source.metric in ("latency", MEAN_METRIC)
    each = run.job.workload.batch if source is not row else 1
    turns = _turns(run, [part / each for part in sessions]) if is_timed else ()
    view = words_of_view(row) if metric in OF_ENERGY else ""
    return Evidence(side=side, values=values, lengths=tuple(map(len, sessions)), turns=turns, view=view)


def scatter_of_processes(run: Run) -> Scatter | None:
    """Return the variance of the logarithm of the headline between fresh processes of `run`.

    It is beyond how the parts of each process vary, which the machine's other work moves as well; None where it is not
    beyond that, or there are too few processes to tell.
    """
    row = run.measurement(run.headline)
    sessions, wrong = _split(row, processes=len(run.sessions), name="") if row is not None and row.samples else ([], "")
    if wrong or len(sessions) < LEAST_REPLICATES or not all((each > 0.0).all() for each in sessions):
        return None
    within = [np.log([np.median(part) for part in np.array_split(each, min(PARTS, len(each)))]) for each in sessions]
    between = float(np.var([np.log(np.median(each)) for each in sessions], ddof=1))
    beyond = between - float(np.mean([each.var(ddof=1) if len(each) > 1 else 0.0 for each in within]))
    return Scatter(beyond, len(sessions) - 1.0) if beyond > 0.0 else None


def _withheld(source: Measurement, run: Run, metric: str, name: str) -> tuple[float, ...]:
    """Return a number per process of a language model whose speed changed, which is why its run has no single one."""
    sessions, wrong = _split(source, processes=len(run.sessions), name=name)
    return () if wrong else _reduce(sessions, metric, batch=int(source.metric != metric))


def _mean_of(times: Measurement | None) -> Measurement | None:
    """Return the mean of a latency that has samples, without an interval: what an imported mean is compared with."""
    if times is None or not times.samples or times.summary is None:
        return None
    mean = times.summary.mean
    return replace(times, metric=MEAN_METRIC, value=mean, low=None, high=None, within_low=None, within_high=None)


def _turns(run: Run, sessions: Sequence[Samples]) -> tuple[Turns, ...]:
    """Return the turns of each process; empty unless every process tells how its samples fall into turns."""
    found = []
    for record, samples in zip(run.sessions, sessions, strict=False):
        counts, walls, used = (_counts_of_turns(record, name) for name in TURN_LISTS)
        if not counts or sum(counts) != len(samples):
            return ()
        is_known = len(walls) == len(used) == len(counts)
        shares = [spent / wall for spent, wall in zip(used, walls, strict=True)] if is_known else []
        found.append(Turns.of(samples, counts, shares=shares, others=_used_by_others(record)))
    return tuple(found) if len(found) == len(sessions) == len(run.sessions) else ()


def _counts_of_turns(record: SessionRecord, name: str) -> Sequence[int]:
    """Return whole numbers above 0, one per turn; empty where the record has none."""
    steady = record.facts.get("steady")
    counts = steady.get(name) if isinstance(steady, Mapping) else None
    whole = isinstance(counts, list | tuple) and all(isinstance(count, int) and count > 0 for count in counts)
    return counts if whole and counts is not None else ()


def _used_by_others(record: SessionRecord) -> float | None:
    """Return the share of the processors that other programs and other virtual machines used meanwhile, 0…1."""
    counters = record.facts.get("counters")
    shares = [counters.get(name) if isinstance(counters, Mapping) else None for name in OF_OTHERS]
    known = [share for share in shares if isinstance(share, int | float) and math.isfinite(share)]
    return sum(known) if len(known) == len(OF_OTHERS) else None


def _missing(row: Measurement | None, metric: str, name: str) -> str:
    reason = row.absent_because if row else None
    return f"{name} has no {metric}" + (f": {reason}" if reason else "")


def _is_positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0.0


def _not_positive(side: Side, metric: str, name: str) -> str:
    shown = "no number" if side.value is None else f"{side.value:g}"
    return f"{metric} of {name} is {shown}: a ratio needs a positive one"


def _side(row: Measurement) -> Side:
    """Return the run's own numbers, as far as they are numbers; an inverted interval is dropped."""
    numbers = (row.value, row.low, row.high)
    value, low, high = (number if number is not None and math.isfinite(number) else None for number in numbers)
    if value is None or low is None or high is None or low > high:
        return Side(value=value)
    return Side(value=value, low=min(low, value), high=max(high, value))


def _source(run: Run, row: Measurement) -> Measurement:
    """Return the measurement whose samples tell `row`: of a rate without samples, the times it was derived from."""
    timed = {"throughput": "latency", "decode_rate": "tpot"}.get(row.metric)
    if timed is None or row.samples or run.job.workload.scenario.kind not in ("single-stream", "generate"):
        return row
    times = run.measurement(timed)
    return times if times is not None and times.samples else row


def _split(row: Measurement, *, processes: int, name: str) -> tuple[list[Samples], str]:
    """Return the samples of each process, or why they can't be used."""
    samples = np.asarray(row.samples, dtype=np.float64)
    lengths = row.session_lengths or ((1,) * len(samples) if len(samples) == processes else (len(samples),))
    if min(lengths) < 0 or sum(lengths) != len(samples):
        return [], f"samples of {row.metric} of {name} do not add up to its processes"
    # A pair of an idle and a loaded window may differ by less than nothing; only the mean of a process is positive.
    wrong = ~(np.isfinite(samples) & ((samples > 0.0) | (row.metric in OF_ENERGY)))
    if wrong.any():
        first = samples[int(wrong.argmax())]
        count = f"{int(wrong.sum())} of {len(samples)} samples of {row.metric} of {name}"
        return [], f"{count} are not positive numbers (the first: {first:g})"
    return [part for part in np.split(samples, np.cumsum(lengths)[:-1]) if len(part)], ""


def _reduce(sessions: Sequence[Samples], metric: str, *, batch: int) -> tuple[float, ...]:
    """One number per process. `batch`: inputs per sample where times become a rate; otherwise 0."""
    how = METRICS[metric].aggregation
    with np.errstate(all="ignore"):  # the caller looks at what comes out
        if batch:
            return tuple(float(batch / part.mean()) for part in sessions)
        if metric in ("throughput", "prefill_rate"):  # rates of windows with equal counts: all counts over all the time
            return tuple(float(1.0 / (1.0 / part).mean()) for part in sessions)
        if how == "mean":
            return tuple(float(part.mean()) for part in sessions)
        if how == "max":
            return tuple(float(part.max()) for part in sessions)
        if how == "last":
            return tuple(float(part[-1]) for part in sessions)
        return tuple(float(np.median(part)) for part in sessions)


def _without_samples(run: Run, row: Measurement, name: str) -> Evidence:
    """Return a headline alone, with its interval where there is one."""
    of_data = row.metric in OF_DATA
    processes = len(run.sessions)
    side = _side(row)
    if not _is_positive(side.value):
        return Evidence(side=side, absent=_not_positive(side, row.metric, name))
    last = METRICS[row.metric].aggregation == "last"
    if last and row.low is None and row.high is None and row.basis != "estimated":
        return Evidence(side=side, exact=True)
    doubt = ""
    if side.low is None or side.low <= 0.0:
        doubt = f"{row.metric} of {name} has no interval" + (" above zero" if side.low is not None else "")
    elif row.metric == OF_ARRIVALS:
        doubt = f"the interval of {row.metric} counts arrivals: how far processes differ is not known"
    elif not of_data and processes < LEAST_REPLICATES:
        doubt = f"the interval of {name} is that of {_count(processes)}: how far processes differ is not known"
    replicates = 0 if of_data or side.low is None else processes
    side = Side(value=side.value, low=side.low, high=side.high, replicates=replicates)
    return Evidence(side=side, doubt=doubt)


def _count(processes: int) -> str:
    return {0: "an unknown number of processes", 1: "one process"}.get(processes, f"{processes} processes")


def _percentile_evidence(run: Run, name: str) -> Evidence:
    """Return the 99th percentile of the headline latency, from the samples of each process."""
    metric = run.headline if run.headline == "latency_paced" else "latency"
    row = run.measurement(metric)
    own = run.measurement(PERCENTILE_METRIC)
    if row is None or not row.samples:
        if own is not None and own.value is not None:
            return _without_samples(run, own, name)
        if row is not None and row.value is not None:
            return Evidence(side=Side(value=None), absent=f"{name} has no samples of {metric} to take a percentile of")
        return Evidence(side=Side(value=None), absent=_missing(row, metric, name))
    sessions, wrong = _split(row, processes=len(run.sessions), name=name)
    if wrong:
        return Evidence(side=Side(value=None), absent=wrong)
    lengths = tuple(map(len, sessions))
    if sum(lengths) < LEAST_FOR_PERCENTILE:
        lacking = f"{name} has {sum(lengths)} samples of {metric}, a 99th percentile needs {LEAST_FOR_PERCENTILE}"
        return Evidence(side=Side(value=None), lengths=lengths, sessions=tuple(sessions), absent=lacking)
    groups = percentiles_of(sessions, join_processes(lengths))
    headline = float(np.percentile(np.concatenate(sessions), PERCENTILE))
    side = _percentile_side(headline, groups, reach=reach_of(run.variation))
    return Evidence(side=side, lengths=lengths, sessions=tuple(sessions))


def join_processes(*lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive processes joined until every side has `LEAST_FOR_PERCENTILE` samples in a group.

    Args:
        lengths: per side, samples of each process; all of the same number of processes.

    Returns:
        (first, one past the last) of each group; what is left over belongs to the last one.
    """
    groups: list[tuple[int, int]] = []
    start, processes = 0, len(lengths[0])
    for end in range(1, processes + 1):
        if all(sum(side[start:end]) >= LEAST_FOR_PERCENTILE for side in lengths):
            groups.append((start, end))
            start = end
    if groups:
        groups[-1] = (groups[-1][0], processes)
    return groups


def percentiles_of(sessions: Sequence[Samples], groups: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    """Return the 99th percentile of each group of processes, interpolated linearly between order statistics."""
    return tuple(float(np.percentile(np.concatenate(sessions[start:end]), PERCENTILE)) for start, end in groups)


def _percentile_side(headline: float, groups: Sequence[float], *, reach: float) -> Side:
    """Student's t on the logarithms of the groups' percentiles, with what runs differ by; the headline inside."""
    if len(groups) < LEAST_REPLICATES:
        return Side(value=headline, replicates=len(groups))
    logs = np.log(groups)
    scatter = float(logs.std(ddof=1)) / math.sqrt(len(groups)) * t_quantile(0.975, float(len(groups) - 1))
    centre, reach = float(logs.mean()), math.hypot(scatter, reach)
    low, high = math.exp(centre - reach), math.exp(min(centre + reach, 700.0))
    return Side(value=headline, low=min(low, headline), high=max(high, headline), replicates=len(groups))
