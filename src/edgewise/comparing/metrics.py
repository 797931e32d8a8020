"""Ratios and verdicts of runs by metric, each with its evidence."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from edgewise.comparing.comparison import Comparison, Design, Side, Variant, Verdict, why_unproven
from edgewise.comparing.criteria import METRICS_COMPARED, Criteria, check_metric
from edgewise.comparing.fairness import describe_unlike, describe_unused_limit, is_together
from edgewise.comparing.session_values import (
    LEAST_FOR_PERCENTILE,
    OF_LABELS,
    PERCENTILE_METRIC,
    Evidence,
    are_paired,
    evidence_of,
    gather_evidence,
    join_processes,
    percentiles_of,
    why_other_texts,
    why_unpaired,
)
from edgewise.comparing.turns import compare_in_turns
from edgewise.errors import BadInput, as_flag
from edgewise.metrics import METRICS, SHARES
from edgewise.record import Disagreement, Run
from edgewise.record.facts import NOT_A_MODEL, is_only_vague, is_unreliable
from edgewise.run.measurements import Z95
from edgewise.run.variation import reach_of
from edgewise.stats.between_runs import Scatter, add
from edgewise.stats.comparison import (
    LEAST_REPLICATES,
    LOOKS,
    RISK,
    Contrast,
    adjust_holm,
    contrast_exact,
    contrast_groups,
    contrast_intervals,
    contrast_outcomes,
    contrast_pairs,
    decide,
    replicates_to_decide,
)
from edgewise.stats.turns import contrast_turns, others_of
from edgewise.text import one_line

_WITHOUT_TEST: tuple[Design, ...] = ("exact", "same-run")
_OF_TIME = ("s", "1/s")
OF_MEANS = "a rate is of mean times, which pauses move more than the medians of turns that the latency is of"
OF_RERUNS = "there are too few processes, but the intervals are for a re-run, which has fresh ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricContrast:
    """B over A in one metric, before any verdict.

    Attributes:
        before, after: the runs' own numbers.
        contrast: None where there is no ratio, and then `because` says why.
        others: share of the processors that others used during turns, 0…1; None where not known.
        of_mean_times: whether it is a rate, of the mean times of processes whose turns tell the latency.
        processes_each: fresh processes of a side per replicate of the contrast; above 1 where they were joined.
    """

    metric: str
    before: Side
    after: Side
    contrast: Contrast | None = None
    design: Design = "none"
    because: str = ""
    processes_each: float = 1.0
    others: float | None = None
    of_mean_times: bool = False

    @property
    def disagreement(self) -> Disagreement | None:
        """Return the ratios of all statistics, where they are not one."""
        if self.contrast is None or not self.contrast.rivals:
            return None
        every = {self.contrast.statistic: self.contrast.ratio}
        every |= {name: rival.ratio for name, rival in self.contrast.rivals}
        return Disagreement(quoted=self.contrast.statistic, ratios=every, others=self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relation:
    """How two runs were measured relative to each other.

    Attributes:
        together: the design where their processes took turns, None where they ran apart.
        pairs: how many pairs of processes took turns.
        between_runs: the standard error of the logarithm of a time's ratio that comes from how a machine's speed varies
            between runs; 0 where they took turns.
        of_reruns: the intervals of both are for a re-run in fresh processes: it is known how this machine's runs vary.
        watched: their own results decided when that command stopped, whether or not pairs can be told.
        itself: both are one run.
        doubt: why no verdict on a time can rest on runs measured apart: one has grade D, or they differ in a limit
            alone that neither reached; else "".
        doubted: the one metric that `doubt` is about, where the grades follow from the width of its interval; None is
            all times.
        scatter: variance of the log ratio of a time between pairs of processes, as other processes tell it.
        unlike: why their accuracies can't be compared; "" where they can.
        names: what reasons call them.
        more: how to get more samples of a program; "" for models.
    """

    together: Design | None
    pairs: int
    between_runs: float
    of_reruns: bool
    watched: bool
    itself: bool
    doubt: str
    doubted: str | None
    unlike: str
    names: tuple[str, str]
    more: str
    scatter: Scatter | None = None


def contrast_of(a: Run, b: Run, metric: str, *, names: tuple[str, str] = ("A", "B")) -> MetricContrast:
    """B over A in `metric`, by pairs of processes where they took turns, by groups of them where they ran apart.

    Args:
        names: what reasons call the two runs.

    Raises:
        BadInput: `metric` is none of the catalogue, or neither better high nor low.
    """
    check_metric(metric)
    first, second = (gather_evidence(run, metric, name=name) for run, name in zip((a, b), names, strict=True))
    return _contrast(first, second, metric, relation=_relation(a, b, names))


def settle_faster(a: Variant, b: Variant, metric: str, criteria: Criteria) -> bool | None:
    """Return whether B is proven faster in `metric`, where that metric alone settles it; None where all of them must
    be looked at, for Holm's correction multiplies a p-value by at most their number.

    The two took no turns.
    """
    evidence = evidence_of((a, b))
    one = _contrast(
        evidence(0, metric), evidence(1, metric), metric, relation=_relation(a.run, b.run, (a.label, b.label))
    )
    if one.contrast is None:
        return False
    if one.design in _WITHOUT_TEST:
        return None
    p_value, better = _p_value(one), METRICS[metric].better
    if p_value is None or p_value >= RISK or ("higher" if one.contrast.log_ratio > 0.0 else "lower") != better:
        return False
    surely_differs = abs(one.contrast.log_ratio) > math.log1p(_margin_of(one, criteria))
    return True if surely_differs and p_value * (len(METRICS_COMPARED) + 2) < RISK else None


def _margin_of(one: MetricContrast, criteria: Criteria) -> float:
    smaller = min((side.value for side in (one.before, one.after) if side.value), default=None)
    return min(criteria.margin_of(one.metric, smaller), sys.float_info.max)


def compare_runs(
    variants: Sequence[Variant], criteria: Criteria, *, seconds_per_pair: float | None = None
) -> tuple[Comparison, ...]:
    """Every later variant against the first, metric by metric, corrected for all these rows together.

    Args:
        seconds_per_pair: what one more fresh process of every variant takes, where processes take turns; with it,
            undecided rows have the time until a decision.

    Raises:
        BadInput: fewer than two variants, two of one label, or a metric that can't be compared.
    """
    labels = [variant.label for variant in variants]
    if len(labels) < 2:
        raise BadInput("a comparison needs two variants at least", advice="name a second model, run or setting")
    for label in labels:
        if labels.count(label) > 1:
            raise BadInput(f"two variants are called {label!r}", advice="give each a name of its own: NAME=MODEL")
    metrics = choose_metrics(variants, criteria)
    pairs = [(0, index) for index in range(1, len(variants))]
    return tuple(compare_pairs(variants, pairs, metrics, criteria=criteria, seconds_per_pair=seconds_per_pair))


def choose_metrics(variants: Sequence[Variant], criteria: Criteria) -> tuple[str, ...]:
    """Return the metrics that are compared: those given, else the headline and those that a run has."""
    if criteria.metrics:
        return tuple(dict.fromkeys(check_metric(metric) for metric in criteria.metrics))
    # An imported run may have another headline than its scenario's, such as a mean.
    headlines = [variants[0].run.headline, *(each.run.headline for each in variants if each.run.source is not None)]
    evidence = evidence_of(variants)
    # Records of scripts had the size of the script, which says nothing of what they do.
    programs = any(each.run.job.command and each.run.job.model.format in NOT_A_MODEL for each in variants)
    told = [
        metric
        for metric in METRICS_COMPARED
        if not (programs and metric == "model_size")
        and any(evidence(index, metric).side.value is not None for index in range(len(variants)))
    ]
    return tuple(dict.fromkeys((*headlines, *told)))


def compare_pairs(
    variants: Sequence[Variant],
    pairs: Sequence[tuple[int, int]],
    metrics: Sequence[str],
    *,
    criteria: Criteria,
    seconds_per_pair: float | None = None,
) -> list[Comparison]:
    """Chosen pairs of variants in chosen metrics; Holm's correction is over all these rows, exact ones left out.

    Args:
        pairs: (index of A, index of B) of each comparison.
        metrics: ids of the metric catalogue that are better one way.

    Returns:
        One row per pair and metric: all metrics of the first pair, then those of the second … What turns of both runs
        found, when they were made, stands in place of what their samples tell.
    """
    evidence = evidence_of(variants)
    relations = {
        (first, second): replace(
            _relation(variants[first].run, variants[second].run, _labels(variants, (first, second))),
            scatter=add(known)
            if (known := [each for at in (first, second) if (each := variants[at].scatter)])
            else None,
        )
        for first, second in pairs
    }
    found = [
        _contrast(evidence(pair[0], metric), evidence(pair[1], metric), metric, relation=relations[pair])
        for pair, metric in product(pairs, metrics)
    ]
    p_values = [_p_value(one) for one in found]
    tests = sum(value is not None for value in p_values)
    turns = {pair: compare_in_turns(variants[pair[0]], variants[pair[1]]) for pair in pairs}
    rows = []
    for (pair, _), one, *p in zip(product(pairs, metrics), found, p_values, adjust_holm(p_values), strict=True):
        row = _row(one, labels=_labels(variants, pair), criteria=criteria, p=(p[0], p[1]))
        if (turned := turns[pair]) is not None and turned.metric == one.metric:
            row = replace(turned, before=row.before, after=row.after, margin=row.margin)
        wait = None if seconds_per_pair is None else _time_to_decide(row, one, tests=tests, seconds=seconds_per_pair)
        rows.append(replace(row, decides_in_s=wait))
    return rows


def _labels(variants: Sequence[Variant], pair: tuple[int, int]) -> tuple[str, str]:
    return variants[pair[0]].label, variants[pair[1]].label


def _p_value(one: MetricContrast) -> float | None:
    """Return the p-value for the correction; None for exact values, a run against itself, and doubtful contrasts."""
    if one.contrast is None or one.contrast.doubt or one.design in _WITHOUT_TEST:
        return None
    return one.contrast.p_value


def _row(
    one: MetricContrast, *, labels: tuple[str, str], criteria: Criteria, p: tuple[float | None, float | None]
) -> Comparison:
    contrast = one.contrast
    nothing = Comparison(
        a=labels[0],
        b=labels[1],
        metric=one.metric,
        before=one.before,
        after=one.after,
        verdict="inconclusive",
        because=one.because,
    )
    if contrast is None:
        return nothing
    margin = _margin_of(one, criteria)
    verdict = _verdict(one, contrast, margin=margin, p_adjusted=p[1])
    because = contrast.doubt
    if verdict == "inconclusive" and not because:
        because = f"not yet proven: a difference, or equality within {margin * 100:.3g} %"
        because += f"; {OF_MEANS}" if one.of_mean_times else ""
    low, high = contrast.interval() or (None, None)
    apart = low is not None and high is not None and not low <= 1.0 <= high
    proof: tuple[float | None, float | None] = (None, None)
    if verdict == "inconclusive" and apart and not contrast.doubt and p[1] is not None:
        proof = contrast.proof_interval(p[1]) or proof
        because += f"; the 95 % interval leaves 1 out, but {why_unproven(contrast.ratio, *proof, over='metrics')}"
    return replace(
        nothing,
        verdict=verdict,
        ratio=contrast.ratio,
        low=low,
        high=high,
        proof_low=proof[0],
        proof_high=proof[1],
        p_value=p[0],
        p_adjusted=p[1],
        margin=margin,
        design=one.design,
        method=contrast.method,
        because=because,
        disagreement=one.disagreement,
    )


def _verdict(one: MetricContrast, contrast: Contrast, *, margin: float, p_adjusted: float | None) -> Verdict:
    decided = decide(
        contrast, margin=margin, p_adjusted=contrast.p_value if one.design in _WITHOUT_TEST else p_adjusted
    )
    if decided in ("same", "inconclusive"):
        return "same" if decided == "same" else "inconclusive"
    return "faster" if decided == METRICS[one.metric].better else "slower"


def _time_to_decide(row: Comparison, one: MetricContrast, *, tests: int, seconds: float) -> float | None:
    """Seconds until a decision, if the ratio and the scatter stay the same."""
    if row.verdict != "inconclusive" or one.contrast is None or row.margin is None or one.design != "interleaved":
        return None
    needed = replicates_to_decide(one.contrast, margin=row.margin, tests=max(1, tests))
    if needed is None:
        return None
    pairs = math.ceil(needed * one.processes_each)
    # Verdicts are sought only at the looks, the last of which ends measuring.
    look = next((look for look in LOOKS if look >= pairs), None)
    return None if look is None else max(1, look - round(one.contrast.replicates * one.processes_each)) * seconds


def _relation(a: Run, b: Run, names: tuple[str, str]) -> _Relation:
    ways = (a.job.workload.interleave, b.job.workload.interleave)
    same_command = a.group is not None and a.group == b.group
    watched = same_command and ways[0] is not None and ways[0] == ways[1]
    together: Design | None = None
    if is_together(a, b) and len(a.sessions) == len(b.sessions):
        together = "interleaved"
    # The records of older versions, and of engines with a made-up clock, do not tell how runs vary.
    told = a.variation is not None or b.variation is not None
    apart = not watched and (told or not same_command)
    error = math.hypot(reach_of(a.variation), reach_of(b.variation)) / Z95 if apart else 0.0
    limit = describe_unused_limit(a, b)
    grades = () if watched else tuple((run, _grade_d(run, name)) for run, name in zip((a, b), names, strict=True))
    vague = {run.headline if is_only_vague(run) else None for run, doubt in grades if doubt}
    return _Relation(
        together=together,
        pairs=len(a.sessions),
        between_runs=error,
        of_reruns=apart and a.variation is not None and b.variation is not None,
        watched=watched,
        itself=is_same_run(a, b),
        doubt="; ".join(filter(None, (limit, *(doubt for _, doubt in grades)))),
        doubted=next(iter(vague)) if len(vague) == 1 and not limit else None,
        unlike=describe_unlike((names[0], a), (names[1], b)),
        names=names,
        more=f": exec with {as_flag('repeat')} 3 or more gives several" if a.job.command and b.job.command else "",
    )


def _grade_d(run: Run, name: str) -> str:
    """Why nothing can be concluded from the times of `run`; "" where something can."""
    if run.trust is None or not is_unreliable(run):
        return ""
    reason = next((each.removesuffix(" (at best D)") for each in run.trust.reasons if each.endswith("(at best D)")), "")
    return f"{name} has grade D" + (f": {one_line(reason)}" if reason else "")


def is_same_run(a: Run, b: Run) -> bool:
    """Whether both are the same run: then the ratio is 1 by definition."""
    return a.id == b.id and a.measurements == b.measurements and a.environment == b.environment


def _contrast(a: Evidence, b: Evidence, metric: str, *, relation: _Relation) -> MetricContrast:
    """Return B over A; its doubt says why times of runs measured apart prove nothing, where they don't."""
    found = _contrast_of_evidence(a, b, metric, relation=relation)
    timed = METRICS[metric].unit in _OF_TIME and found.design in ("sessions", "intervals")
    if found.contrast is None or found.contrast.doubt or not relation.doubt or not timed:
        return found
    if relation.doubted not in (None, metric):
        return found
    return replace(found, contrast=replace(found.contrast, doubt=relation.doubt))


def _contrast_of_evidence(a: Evidence, b: Evidence, metric: str, *, relation: _Relation) -> MetricContrast:
    """Return B over A, whatever the grades of the runs."""
    nothing = MetricContrast(metric=metric, before=a.side, after=b.side)
    if relation.itself and a.side.value is not None and math.isfinite(a.side.value):
        return replace(nothing, contrast=_OF_ITSELF, design="same-run")
    if relation.unlike and metric in OF_LABELS and not (a.absent or b.absent):
        return replace(nothing, because=relation.unlike)
    if why := why_other_texts(a, b, metric):
        return replace(nothing, because=why)
    if a.sessions and b.sessions:
        return _contrast_percentiles(a, b, relation=relation)
    if are_paired(a, b) and not (a.absent or b.absent):
        shares = metric in SHARES
        contrast = contrast_outcomes(a.outcomes, b.outcomes) if shares else _contrast_parts(a.outcomes, b.outcomes)
        return replace(nothing, contrast=contrast, design="paired")
    paired = relation.together and len(a.values) == len(b.values) == relation.pairs > 1
    if (a.absent or b.absent) and not paired:
        return replace(nothing, because="; ".join(dict.fromkeys(reason for reason in (a.absent, b.absent) if reason)))
    if a.view and b.view and a.view != b.view:
        views = (f"that of {name}: {each.view}" for name, each in zip(relation.names, (a, b), strict=True))
        return replace(nothing, because=f"energy of different meters; {'; '.join(views)}")
    if a.exact and b.exact:
        assert a.side.value is not None and b.side.value is not None
        return replace(nothing, contrast=contrast_exact(a.side.value, b.side.value), design="exact")
    if not a.values or not b.values:
        return replace(nothing, contrast=_from_intervals(a, b, relation.names), design="intervals")
    if relation.together and len(a.turns) == len(b.turns) == relation.pairs:
        turned = contrast_turns(a.turns, b.turns, scatter=relation.scatter)
        # A mean is of all samples of a process, unless something kept inferences waiting: then it errs, too.
        if METRICS[metric].aggregation == "median" or turned.rivals:
            turned = turned if METRICS[metric].unit == "s" else turned.inverse()
            others = others_of((*a.turns, *b.turns))
            return replace(nothing, contrast=turned, design=relation.together, others=others)
    contrast, design = _of_runs_apart(a, b, metric, relation=relation)
    of_means = design == "interleaved" and bool(a.turns) and METRICS[metric].unit == "1/s"
    return replace(nothing, contrast=contrast, design=design, of_mean_times=of_means)


def _contrast_parts(a: Sequence[float], b: Sequence[float]) -> Contrast:
    """From numbers of the same samples, whose geometric means are those of the runs."""
    found = contrast_pairs(a, b, sequential=False)
    return replace(found, method=f"Student's t on the log ratios of {len(a)} samples")


def _of_runs_apart(a: Evidence, b: Evidence, metric: str, *, relation: _Relation) -> tuple[Contrast, Design]:
    """By processes where there are enough; else by the intervals, with a doubt unless they are for a re-run."""
    contrast, design = _from_processes(a.values, b.values, metric, relation=relation)
    if contrast.doubt and design == "sessions" and relation.of_reruns and METRICS[metric].unit in _OF_TIME:
        found = _from_intervals(a, b, relation.names)
        return replace(found, method=f"{found.method}: {OF_RERUNS}"), "intervals"
    if contrast.error is None:
        alone = [name for name, side in zip(relation.names, (a, b), strict=True) if sum(side.lengths) == 1]
        doubt = f"one sample of {' and of '.join(alone)}{relation.more}" if alone else contrast.doubt
        return _from_intervals(a, b, relation.names, doubt=doubt), "intervals"
    if not contrast.doubt and design == "sessions":
        contrast = replace(contrast, doubt=_unequal(a, b, relation.names))
    return contrast, design


SAME_RUN = "the same run: ratio 1 by definition"
_OF_ITSELF = Contrast(log_ratio=0.0, error=0.0, degrees=math.inf, replicates=1, method=SAME_RUN)


def _from_processes(
    a: Sequence[float], b: Sequence[float], metric: str, *, relation: _Relation
) -> tuple[Contrast, Design]:
    """From one number per process or group of processes."""
    if relation.together and len(a) == len(b) == relation.pairs:
        scatter = relation.scatter if METRICS[metric].unit in _OF_TIME else None
        return contrast_pairs(a, b, sequential=True, scatter=scatter), relation.together
    error = relation.between_runs if METRICS[metric].unit in _OF_TIME else 0.0
    contrast = contrast_groups(a, b, error=error)
    method = contrast.method + (f", and {error:.2%} (1 σ) between runs" if error else "")
    if relation.watched:
        method += ", several looks allowed for"
    return replace(contrast, method=method, sequential=relation.watched), "sessions"


def _unequal(a: Evidence, b: Evidence, names: tuple[str, str]) -> str:
    """Why the scatter of one side's processes can't stand for the other's only process; empty where it can.

    The median of a short process scatters more than those of long ones.
    """
    for few, many, name in ((a, b, names[0]), (b, a, names[1])):
        if len(few.values) == 1 and len(many.values) > 1 and 2 * few.lengths[0] < min(many.lengths):
            return (
                f"the only process of {name} has {few.lengths[0]} samples, those it is held against have "
                f"{min(many.lengths)} or more: their scatter can't stand for its own"
            )
    return ""


def _from_intervals(a: Evidence, b: Evidence, names: tuple[str, str], *, doubt: str = "") -> Contrast:
    """From two headlines and the intervals they have, with what speaks against a verdict."""
    sides = (a.side, b.side)
    doubts = [one for one in dict.fromkeys((doubt, a.doubt, b.doubt)) if one]
    numbers = [
        (side.value, side.low, side.high)
        for side in sides
        if side.value is not None and side.low is not None and side.high is not None and side.low > 0.0
    ]
    if len(numbers) == len(sides):
        contrast = contrast_intervals(numbers[0], numbers[1])
        method = "; ".join(filter(None, [contrast.method, why_unpaired(a, b)]))
        method += ", which leave out, wholly or in part, how far fresh processes differ" if doubts else ""
        return replace(contrast, method=method, doubt="; ".join(doubts))
    if not doubts:
        bare = [name for name, side in zip(names, sides, strict=True) if side.low is None]
        doubts = [f"no interval of {' and of '.join(bare)}"]
    assert a.side.value is not None and b.side.value is not None
    bare_ratio = contrast_exact(a.side.value, b.side.value)
    return replace(
        bare_ratio, error=None, method="the ratio of two headlines, without an interval", doubt="; ".join(doubts)
    )


def _contrast_percentiles(a: Evidence, b: Evidence, *, relation: _Relation) -> MetricContrast:
    """B over A of 99th percentiles: of pairs of groups of processes, or of groups of each side apart."""
    paired = relation.together is not None and len(a.sessions) == len(b.sessions) == relation.pairs
    joined = join_processes(a.lengths, b.lengths) if paired else []
    groups = (joined, joined) if paired else (join_processes(a.lengths), join_processes(b.lengths))
    nothing = MetricContrast(
        metric=PERCENTILE_METRIC,
        before=replace(a.side, replicates=len(groups[0])),
        after=replace(b.side, replicates=len(groups[1])),
    )
    if min(map(len, groups)) < LEAST_REPLICATES:
        have = ", ".join(
            f"{name} has {sum(side.lengths)} samples in {len(side.lengths)} process{'es' * (len(side.lengths) > 1)}"
            for name, side in zip(relation.names, (a, b), strict=True)
        )
        return replace(
            nothing,
            because=f"a ratio of 99th percentiles needs {LEAST_REPLICATES} groups of fresh processes per side, "
            f"each with {LEAST_FOR_PERCENTILE} samples: {have}, enough for {min(map(len, groups))} of these groups",
        )
    first, second = percentiles_of(a.sessions, groups[0]), percentiles_of(b.sessions, groups[1])
    contrast, design = _from_processes(
        first,
        second,
        PERCENTILE_METRIC,
        relation=replace(relation, together=relation.together if paired else None, pairs=len(joined)),
    )
    method = contrast.method.replace("fresh processes", "groups of fresh processes", 1)
    return replace(
        nothing,
        contrast=replace(contrast, method=f"99th percentiles of {LEAST_FOR_PERCENTILE} samples or more; {method}"),
        design=design,
        processes_each=len(a.sessions) / len(first),
    )
