"""Which layers break when they are changed: one at a time alone, by the outputs of the whole network.

The most fragile ones are then looked at more closely: what they cost in accuracy alone, and what is gained when they
alone are spared from a change of all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.errors import EdgewiseError
from edgewise.evaluating.agreement import WORST
from edgewise.model.graph import Graph, Operator
from edgewise.optimizing.accuracy import AccuracyChecker, OutputCheck
from edgewise.optimizing.base import PassResult
from edgewise.optimizing.planning import PlannedTask
from edgewise.optimizing.variant import LayerSensitivity
from edgewise.optimizing.variant_cache import VariantCache
from edgewise.progress import LayerTested, emit
from edgewise.record import Job, ModelRef

MOST_LAYERS = 64
LEAST_S = 5.0
CLOSER = 4
"""Of the most fragile layers: so many are also judged on data, and spared alone."""
FRAGILE_DB = 6.0
"""A layer is fragile where the outputs lose so much more than with the median layer: half the amplitude."""

JobOf = Callable[[ModelRef], Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivities:
    """Of the layers of one network to one pass.

    Attributes:
        layers: the most fragile first.
        notes: what a reader should know, such as that time was over.
    """

    layers: tuple[LayerSensitivity, ...]
    notes: tuple[str, ...] = ()

    @property
    def fragile(self) -> list[str]:
        """Names of the fragile ones, the most fragile first."""
        return [one.layer for one in self.layers if one.fragile]


def layers_of(graph: Graph) -> list[Operator]:
    """Operators that have weights, those with the most of them first, at most `MOST_LAYERS`."""

    def weigh(operator: Operator) -> int:
        return sum(graph.tensors[name].elements or 0 for name in operator.weights if name in graph.tensors)

    found = [operator for operator in graph.operators if operator.weights and operator.kind]
    return sorted(found, key=weigh, reverse=True)[:MOST_LAYERS]


def measure_sensitivity(
    task: PlannedTask,
    operators: Sequence[Operator],
    *,
    cache: VariantCache,
    checker: AccuracyChecker,
    job_of: JobOf,
    end_by: float,
) -> Sensitivities:
    """Change one layer at a time, and see what that does to the outputs of a few samples.

    Args:
        task: the pass as it would be applied to all.
        job_of: how a file is run.
        end_by: monotonic time, s; layers that were not reached are absent with that reason.
    """
    found: list[LayerSensitivity] = []
    jobs: dict[str, Job] = {}
    results = cache.make([replace(task, only=(operator.name,)) for operator in operators], seconds=_room(end_by))
    for operator in operators:
        if time.monotonic() > end_by:
            found.append(_absent(operator, "the time for it was over"))
            continue
        result = next(results, None)
        if result is None or result.ref is None:
            found.append(_absent(operator, "the pass ended" if result is None else result.why))
            continue
        try:
            job = job_of(result.ref)
            found.append(_read(operator, checker.check_outputs(job)))
        except EdgewiseError as error:
            found.append(_absent(operator, f"not usable: {error.message}"))
            continue
        jobs[operator.name] = job
        _tell(found[-1])
    results.close()
    ranked = _rank(found)
    fragile = [one for one in ranked if one.layer in jobs][:CLOSER]
    closer = _look_closer(fragile, task, jobs, cache=cache, checker=checker, job_of=job_of, end_by=end_by)
    for one in closer.values():
        _tell(one)
    return Sensitivities(layers=tuple(closer.get(one.layer, one) for one in ranked))


def _tell(one: LayerSensitivity) -> None:
    emit(LayerTested(layer=one.layer, op=one.op, snr_db=one.snr_db, absent_because=one.absent_because or ""))


def _look_closer(
    layers: Sequence[LayerSensitivity],
    task: PlannedTask,
    jobs: Mapping[str, Job],
    *,
    cache: VariantCache,
    checker: AccuracyChecker,
    job_of: JobOf,
    end_by: float,
) -> dict[str, LayerSensitivity]:
    """What these layers cost in accuracy when they alone are changed, and what sparing them alone gains in SNR."""
    if not layers or time.monotonic() > end_by:
        return {}
    spared = [replace(task, keep_float=(*task.keep_float, one.layer)) for one in layers]
    results = cache.make([task, *spared], seconds=_room(end_by))
    whole = _snr_of(next(results, None), checker, job_of)
    found = {}
    for one in layers:
        if time.monotonic() > end_by:
            break
        alone = _snr_of(next(results, None), checker, job_of)
        gain = None if alone is None or whole is None else alone - whole
        accuracy = None
        with contextlib.suppress(EdgewiseError):
            accuracy = checker.measure_part(jobs[one.layer]) or checker.measure(jobs[one.layer])
        drop = None if accuracy is None else accuracy.metrics.get("accuracy_drop")
        found[one.layer] = replace(one, gain_db=gain, accuracy_drop=None if drop is None else drop.value)
    results.close()
    return found


def _snr_of(result: PassResult | None, checker: AccuracyChecker, job_of: JobOf) -> float | None:
    if result is None or result.ref is None:
        return None
    with contextlib.suppress(EdgewiseError):
        metrics = checker.check_outputs(job_of(result.ref)).metrics
        snr = metrics.get(WORST, metrics.get("output_snr"))
        return None if snr is None else snr.value
    return None


def _room(end_by: float) -> float:
    """What one layer may take: a pass that hangs shall not hold up the search for longer than all of them may."""
    return max(LEAST_S, end_by - time.monotonic())


def _read(operator: Operator, check: OutputCheck) -> LayerSensitivity:
    if check.broken:
        # Worse than any number: the network is useless with this layer changed.
        return LayerSensitivity(layer=operator.name, op=operator.op, fragile=True, absent_because=check.broken)
    snr = check.metrics.get(WORST, check.metrics.get("output_snr"))
    if snr is None or snr.value is None:
        because = "it has no outputs to compare" if snr is None else snr.absent_because
        return LayerSensitivity(layer=operator.name, op=operator.op, absent_because=because)
    return LayerSensitivity(layer=operator.name, op=operator.op, snr_db=snr.value)


def _rank(layers: Sequence[LayerSensitivity]) -> tuple[LayerSensitivity, ...]:
    """The most fragile first, with those marked that stand out from the median."""
    known = sorted(one.snr_db for one in layers if one.snr_db is not None)
    middle = known[len(known) // 2] if known else None
    marked = [
        replace(one, fragile=one.fragile or (one.snr_db is not None and middle is not None
                                             and one.snr_db < middle - FRAGILE_DB))
        for one in layers
    ]  # fmt: skip

    def key(one: LayerSensitivity) -> tuple[int, float]:
        if one.snr_db is None:
            return (0 if one.fragile else 2, 0.0)
        return (1, one.snr_db)

    return tuple(sorted(marked, key=key))


def _absent(operator: Operator, reason: str) -> LayerSensitivity:
    return LayerSensitivity(layer=operator.name, op=operator.op, absent_because=reason)
