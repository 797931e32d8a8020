"""From results and scores to a run's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from statistics import median
from types import MappingProxyType
from typing import Any

from edgewise.evaluating.class_order import ORDER, find_better_order
from edgewise.evaluating.evaluator import SampleResults, SampleSelection
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.scores import Score
from edgewise.evaluating.task import AsksLanguageModel, HasConfusion, MetricTable, RunsModel, Scorer
from edgewise.formatting import with_ends
from edgewise.grouping import by_key
from edgewise.metrics import METRICS, SHARES, in_sentence
from edgewise.record import CalibratedPart, Caution, DataRef, Evaluation, Measurement, Skipped, Variation
from edgewise.run.rates import distribution
from edgewise.text import listing, one_line
from edgewise.units import format_duration

MOST_CLASSES = 200
"""Of a confusion matrix that is kept."""
MOST_SKIPPED = 100
"""Of skipped samples whose names are kept."""

_MOST_NAMED = 3
"""Skipped samples that a caution names."""


def measurement_of(score: Score) -> Measurement:
    """Return the score as a run has it; the samples are `Score.outcomes`, so that runs can be paired."""
    return Measurement(
        metric=score.metric, unit=METRICS[score.metric].unit, basis=None if score.value is None else "measured",
        method=score.method, value=score.value, low=score.low, high=score.high, samples=score.outcomes,
        session_lengths=(len(score.outcomes),) if score.outcomes else (), absent_because=score.absent_because,
    )  # fmt: skip


def inference_time(
    results: SampleResults, scorer: Scorer, *, task: str, variation: Variation | None, untimed: str = ""
) -> Measurement:
    """Return the time of a whole inference: preparing the sample, the engine, and reading the answer.

    `untimed`: why the engine's times say nothing; "" where they do.
    """
    why = None
    if untimed:
        why = untimed
    elif isinstance(scorer, AsksLanguageModel):
        why = "a language model is timed by requests, not by samples"
    elif isinstance(scorer, RunsModel):
        why = "the task runs the model several times a sample"
    elif task in ("agreement", "own"):
        why = "no task reads the outputs as answers, so there is no postprocessing to time"
    elif not results.times:
        why = "all answers come from an earlier, interrupted evaluation"
    if why is not None:
        return Measurement.absent("inference_time", why)
    parts = [format_duration(median(part)) for part in zip(*results.times, strict=True)]
    row = distribution("inference_time", [[sum(times) for times in results.times]], "", variation=variation)
    how = (
        f"monotonic clocks of one process around the engine ({parts[1]}, copying in and out included) and of another "
        f"around preparing the sample in memory ({parts[0]}) and reading the answer ({parts[2]}), both edgewise's own "
        f"Python; medians, first {len(results.times)} inferences"
    )
    return replace(row, method=how + row.method)


def digest_of(results: SampleResults, apart: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return a SHA-256 over the scored samples, in order, and `apart`: number → digest of others of the same choice."""
    digests = {entry.index: entry.digest for entry in results.entries if not entry.reason} | dict(apart)
    return sha256("".join(f"{digests[index]}\n" for index in sorted(digests)).encode()).hexdigest()


def describe(
    results: SampleResults,
    table: MetricTable,
    *,
    selection: SampleSelection,
    instructions: Instructions,
    settings: Mapping[str, Any],
    task: str,
    reference: str | None = None,
    calibrated: CalibratedPart | None = None,
    apart: Mapping[int, str] = MappingProxyType({}),
) -> Evaluation:
    """Return the conditions of an accuracy, as a run keeps them.

    Args:
        instructions: with the options and the classes that were given apart.
        calibrated: samples that also calibrated the model.
        apart: as `digest_of`.
    """
    data = selection.data
    confusion = table.confusion() if isinstance(table, HasConfusion) else None
    # Data sets of plug-ins and of users need not have the attribute.
    absent = [Skipped(name=name, reason=reason) for name, reason in getattr(data, "absent", ())]
    skipped = [Skipped(name=entry.name, reason=entry.reason) for entry in results.entries if entry.reason] + absent
    return Evaluation(
        task=task,
        data=DataRef(
            name=data.name, path=None if data.path is None else str(data.path.resolve()), format=data.format,
            split=data.split, size=len(data) + len(absent), sha256=digest_of(results),
            data_sha256=digest_of(results, apart),
        ),
        n=len(results.records), limit=selection.limit, seed=selection.seed,
        preprocessing={**instructions.to_document(), "done": list(results.notes)},
        preprocessing_from=", ".join(instructions.origins), settings=dict(settings),
        classes=tuple(instructions.classes or data.classes)[:MOST_CLASSES],
        confusion=None
        if not confusion or len(confusion) > MOST_CLASSES
        else tuple(tuple(int(count) for count in row) for row in confusion),
        skipped=tuple(skipped[:MOST_SKIPPED]), skipped_count=len(skipped),
        changes=dict(Counter(change for entry in results.entries if not entry.reason for change in entry.changes)),
        reference=reference, seconds=results.seconds,
        example=None if results.example is None else dict(results.example), hosts=dict(results.hosts),
        calibrated=calibrated,
    )  # fmt: skip


def cautions_of(evaluation: Evaluation, processors: Mapping[str, str] = MappingProxyType({})) -> tuple[Caution, ...]:
    """Return cautions about an accuracy: samples left out or changed, the order of classes, and differing `processors`
    of the hosts that ran the samples.
    """
    found = []
    if len(set(processors.values())) > 1:
        by_processor = by_key((processor, host) for host, processor in processors.items())
        told = "; ".join(f"{one_line(kind)}: {listing(hosts)}" for kind, hosts in by_processor.items())
        unknown = sorted(evaluation.hosts.keys() - processors.keys())
        told += f"; not known: {listing(unknown)}" if unknown else ""
        message = f"hosts with different processors ran the samples, which may round outputs differently ({told})"
        found.append(Caution.of("processors-differ", message))
    if evaluation.calibrated is not None:
        found.append(Caution.of("samples-calibrated", tell_calibrated(evaluation.calibrated)))
    if count := evaluation.skipped_count:
        named = "; ".join(f"{each.name} ({each.reason})" for each in evaluation.skipped[:_MOST_NAMED])
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        message = f"{count} of {evaluation.n + count} samples could not be used and are not in the score: {named}{more}"
        found.append(Caution.of("samples-left-out", message))
    if evaluation.changes:
        changes = ", ".join(f"{count} {change}" for change, count in evaluation.changes.items())
        found.append(Caution.of("samples-changed", f"of {evaluation.n} samples {changes}"))
    better, unsure = find_better_order(evaluation), evaluation.settings.get(ORDER)
    if doubts := [*([] if better is None else [better.words]), *([str(unsure)] if unsure else [])]:
        caution = Caution.of("class-order", "; ".join(doubts))
        if evaluation.task == "detection":
            caution = replace(caution, advice=f"{caution.advice}, and ⟦task_option=class_map=identity⟧")
        found.append(replace(caution, advice=better.advice) if better is not None and better.advice else caution)
    return tuple(found)


def tell_calibrated(part: CalibratedPart) -> str:
    """``100 of 400 samples were also used to calibrate it; top-1 accuracy without them: 86.0 % [81.6, 89.5]``."""
    if not part.n:
        return f"all {part.samples:,} samples were also used to calibrate it: none is left to judge it on"
    row = METRICS[part.metric]
    unit = "%" if row.id in SHARES else row.unit.removeprefix("1")
    known = "not known" if part.value is None else with_ends(row.id, part.value, part.low, part.high, unit=unit)
    of = f"{part.samples:,} of {part.samples + part.n:,} samples"
    return f"{of} were also used to calibrate it; {in_sentence(row.label)} without them: {known}"


def are_converted_alike(evaluation: Evaluation | None) -> bool:
    """Whether all samples were converted from the same colours to the same: then none of them is an exception."""
    if evaluation is None or len(evaluation.changes) != 1:
        return False
    ((change, count),) = evaluation.changes.items()
    return change.startswith("converted ") and count == evaluation.n
