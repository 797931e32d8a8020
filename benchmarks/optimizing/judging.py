"""Everybody judged alike: answers on all of the data by edgewise's evaluator, and latency in one race."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optimizing.entries import ENGINES, FREE, Entry
from optimizing.subjects import Subject

from edgewise.comparing.comparison import Comparison, ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_pairs
from edgewise.comparing.trial import TrialSettings, run_trial
from edgewise.errors import EdgewiseError
from edgewise.evaluating.data_options import DataOptions
from edgewise.evaluating.evaluation import ModelEvaluation, plan_evaluation, run_evaluation
from edgewise.evaluating.output_format import OutputFormat
from edgewise.record import Run, Stopping, TargetSpec
from edgewise.run.plan import Axes
from edgewise.run.run_builder import METERS_OFF

TERMS = Criteria(metrics=("latency",), force=True)
"""Forced: that engines, precisions and outputs differ is the point. The threshold is the usual 3 %."""

Couple = tuple[str, str]
"""Names of A and B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """A race.

    Attributes:
        rows: couple → B against A; couples of one and the same thing are left out.
        twins: name → the name under which the same thing took part.
    """

    rows: dict[Couple, Comparison]
    twins: dict[str, str]
    latencies: dict[str, dict[str, Any]]
    failures: dict[str, str]
    pairs: int | None
    elapsed_s: float
    stopped_because: str


# -- answers -----------------------------------------------------------------------------------------------------------


def judge_answers(
    subject: Subject, entries: Sequence[Entry], *, limit: int | None, form: OutputFormat | None = None
) -> None:
    """Put ``accuracy`` and ``drop``, or ``agreement`` and ``snr``, into the entries' numbers, in place."""
    for engine in ENGINES:
        group = [one for one in entries if one.engine == engine and one.path is not None]
        if group:
            _judge_group(subject, group, limit=limit, form=form)


def _judge_group(subject: Subject, group: Sequence[Entry], *, limit: int | None, form: OutputFormat | None) -> None:
    """Judge the files of one engine, its float first; what fails in it is out of everything that follows."""
    reference = group[0]
    assert reference.kind == "float" and reference.path is not None
    exam = plan_evaluation(
        [reference.path],
        DataOptions(source=str(subject.data), split=subject.split, limit=limit, file=subject.instructions),
        reference=None if subject.labelled else reference.path,
        axes=Axes(runtimes=(reference.engine,), threads=(1,)),
        stopping=Stopping(),
        target=TargetSpec(),
        latency=False,
        fresh=True,
    )
    unique: dict[tuple[str, str], list[Entry]] = {}
    for one in group:
        unique.setdefault(one.identity(), []).append(one)
    shared = [one[0] for one in unique.values()]
    results = run_evaluation(replace(exam, jobs=tuple(one.job() for one in shared), form=form), save=_forget)
    for twins, found in zip(unique.values(), results.models, strict=True):
        for one in twins:
            one.numbers |= _numbers_of(found, labelled=subject.labelled)
            if found.run.failure is not None:
                one.why, one.path = f"failed on the data: {found.run.failure.message}", None


def _numbers_of(found: ModelEvaluation, *, labelled: bool) -> dict[str, dict[str, Any]]:
    scores = {each.metric: each for each in found.scores}
    numbers: dict[str, dict[str, Any]] = {}
    worst = scores.get("output_snr_worst", scores.get("output_snr"))
    if not labelled and worst is not None:
        numbers["snr_worst"] = _number(worst.value, worst.low, worst.high, worst.n)
        numbers["same"] = {"value": float(scores["output_max_abs_error"].value == 0.0)}
    headline = scores.get(found.headline)
    if headline is None or headline.value is None:
        return numbers
    if labelled or found.headline == "agreement_top1":
        numbers["accuracy" if labelled else "agreement"] = _number(
            headline.value, headline.low, headline.high, headline.n
        )
    if not labelled:
        if found.headline == "agreement_top1":
            numbers["drop"] = {"value": 1.0 - headline.value}
        snr = scores.get("output_snr")
        if snr is not None:
            numbers["snr"] = _number(snr.value, snr.low, snr.high, snr.n)
        return numbers
    gap = next((each for each in found.differences if each.metric == found.headline), None)
    if gap is not None and gap.difference is not None:
        low, high = gap.low, gap.high
        numbers["drop"] = _number(
            -gap.difference, None if high is None else -high, None if low is None else -low, gap.n
        )
    elif not found.differences:  # the first one, which the others are compared with
        numbers["drop"] = {"value": 0.0}
    return numbers


def _number(value: float | None, low: float | None, high: float | None, n: int) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


# -- latency -----------------------------------------------------------------------------------------------------------


def couples_of(entries: Sequence[Entry]) -> Iterator[Couple]:
    """Who is compared with whom: everybody with the float of the engine, and edgewise's choices with tools'."""
    alive = [one for one in entries if one.path is not None]
    floats = {one.engine: one.name for one in alive if one.kind == "float"}
    for one in alive:
        if one.kind != "float" and one.engine in floats:
            yield floats[one.engine], one.name
    for ours in (one for one in alive if one.kind == "edgewise"):
        for other in alive:
            is_free = ours.key == FREE
            if (other.kind == "tool" and (is_free or other.engine == ours.engine)) or (
                other.kind == "float" and is_free and other.engine != ours.engine
            ):
                yield other.name, ours.name


def race(entries: Sequence[Entry], couples: Sequence[Couple], *, budget_s: float, rounds: int | None = None) -> Raced:
    """Everybody side by side, in turns, until all verdicts on `couples` are safe or the time is spent."""
    first: dict[tuple[str, str], Entry] = {}
    twins: dict[str, str] = {}
    for one in entries:
        if one.path is not None:
            twins[one.name] = first.setdefault(one.identity(), one).name
    racers = list(first.values())
    wanted = [(a, b) for a, b in couples if twins[a] != twins[b]]
    begin = time.monotonic()

    def settled(variants: Sequence[Variant]) -> str | None:
        rows = compare(variants, wanted, twins).values()
        is_open = any(row.verdict == "inconclusive" and row.ratio is not None for row in rows)
        return None if is_open else "all verdicts are safe"

    if len(racers) < 2:
        return Raced(rows={}, twins=twins, latencies={}, failures={}, pairs=0, elapsed_s=0.0,
                     stopped_because="there was nobody to race with")  # fmt: skip
    findings = run_trial(
        [one.job() for one in racers],
        labels=[one.name for one in racers],
        criteria=TERMS,
        trial=TrialSettings(budget_s=budget_s, until="latency", rounds=rounds),
        save=_forget,
        sensors=METERS_OFF,
        settled=settled,
    )
    if findings.interrupted:
        raise KeyboardInterrupt
    return Raced(
        rows=compare(findings.variants, wanted, twins),
        twins=twins,
        latencies=_latencies(findings),
        failures=dict(findings.failures),
        pairs=findings.pairs,
        elapsed_s=time.monotonic() - begin,
        stopped_because=findings.stopped_because,
    )


def compare(variants: Sequence[Variant], couples: Sequence[Couple], twins: dict[str, str]) -> dict[Couple, Comparison]:
    """B against A for every couple.

    Holm's correction is over the couples of one B: over all of them it would make it hard to be called slower.
    """
    places = {one.label: index for index, one in enumerate(variants)}
    rows: dict[Couple, Comparison] = {}
    for name in dict.fromkeys(b for _, b in couples):
        own = [couple for couple in couples if couple[1] == name]
        pairs = [(places[twins[a]], places[twins[b]]) for a, b in own]
        rows |= zip(own, compare_pairs(variants, pairs, ["latency"], criteria=TERMS), strict=True)
    return rows


def _latencies(findings: ComparisonResult) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for variant in findings.variants:
        row = variant.run.measurement("latency")
        if row is not None and row.value is not None:
            found[variant.label] = {"value": row.value, "low": row.low, "high": row.high}
    return found


def check_jobs(entries: Sequence[Entry]) -> None:
    """Put out what no job can be made of, with the reason."""
    for one in entries:
        if one.path is not None:
            try:
                one.identity()
            except EdgewiseError as error:
                one.path, one.why = None, f"can't be run: {error.message}"


def _forget(run: Run) -> None:
    """Do nothing: the documents of this benchmark are all that is kept."""
