"""Finds the layers that break the network when they are changed: each is changed alone, and the outputs are compared.

The most fragile layers get two further numbers: the loss of accuracy when they alone are changed, and the gain when
they alone are spared from a change of all layers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.clock import now
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
from edgewise.stats.differences import HALF_DB

MOST_LAYERS = 64
LEAST_S = 5.0
CLOSER = 4
"""Number of the most fragile layers that are also judged on data, and spared alone."""
FRAGILE_DB = HALF_DB
"""A layer is fragile where the outputs have this much less SNR than with the median layer."""


def layers_of(graph: Graph) -> list[Operator]:
    """Operators with weights, those with the most weights first, at most `MOST_LAYERS`."""

    def weigh(operator: Operator) -> int:
        return sum(graph.tensors[name].elements or 0 for name in operator.weights if name in graph.tensors)

    found = [operator for operator in graph.operators if operator.weights and operator.kind]
    return sorted(found, key=weigh, reverse=True)[:MOST_LAYERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityTest:
    """Tests the layers of a network.

    Attributes:
        task: the pass as it is applied to all layers.
        job_of: makes the job of a file.
        end_by: monotonic time, s; layers that are not reached by then are absent with that reason.
    """

    task: PlannedTask
    cache: VariantCache
    checker: AccuracyChecker
    job_of: Callable[[ModelRef], Job]
    end_by: float

    def run(self, operators: Sequence[Operator]) -> tuple[LayerSensitivity, ...]:
        """Change one layer at a time, and compare the outputs of a few samples. The most fragile come first."""
        found: list[LayerSensitivity] = []
        jobs: dict[str, Job] = {}
        results = self._make([replace(self.task, only=(operator.name,)) for operator in operators])
        for operator in operators:
            one = LayerSensitivity(layer=operator.name, op=operator.op)
            if self._is_late:
                found.append(replace(one, absent_because="the time for this test was over"))
                continue
            result = next(results, None)
            if result is None or result.ref is None:
                found.append(replace(one, absent_because="the pass ended" if result is None else result.why))
                continue
            try:
                job = self.job_of(result.ref)
                found.append(_with_outputs(one, self.checker.check_outputs(job)))
            except EdgewiseError as error:
                found.append(replace(one, absent_because=f"not usable: {error.message}"))
                continue
            jobs[operator.name] = job
            _emit(found[-1])
        results.close()
        ranked = _rank(found)
        closer = self._look_closer([one for one in ranked if one.layer in jobs][:CLOSER], jobs)
        return tuple(closer.get(one.layer, one) for one in ranked)

    def _look_closer(self, layers: Sequence[LayerSensitivity], jobs: Mapping[str, Job]) -> dict[str, LayerSensitivity]:
        """Name → layer with the accuracy lost when it alone is changed and the SNR gained when it alone is spared."""
        if not layers or self._is_late:
            return {}
        spared = [replace(self.task, keep_float=(*self.task.keep_float, one.layer)) for one in layers]
        results = self._make([self.task, *spared])
        whole = self._snr_of(next(results, None))
        found = {}
        for one in layers:
            if self._is_late:
                break
            alone = self._snr_of(next(results, None))
            gain = None if alone is None or whole is None else alone - whole
            accuracy = None
            with contextlib.suppress(EdgewiseError):
                accuracy = self.checker.measure_part(jobs[one.layer]) or self.checker.measure(jobs[one.layer])
            drop = None if accuracy is None else accuracy.metrics.get("accuracy_drop")
            found[one.layer] = replace(one, gain_db=gain, accuracy_drop=None if drop is None else drop.value)
            _emit(found[one.layer])
        results.close()
        return found

    @property
    def _is_late(self) -> bool:
        return now() > self.end_by

    def _make(self, tasks: Sequence[PlannedTask]) -> Generator[PassResult]:
        # One layer may take as long as all: a pass that hangs must not delay the search beyond that.
        return self.cache.make(tasks, seconds=max(LEAST_S, self.end_by - now()))

    def _snr_of(self, result: PassResult | None) -> float | None:
        if result is None or result.ref is None:
            return None
        with contextlib.suppress(EdgewiseError):
            metrics = self.checker.check_outputs(self.job_of(result.ref)).metrics
            snr = metrics.get(WORST, metrics.get("output_snr"))
            return None if snr is None else snr.value
        return None


def _emit(one: LayerSensitivity) -> None:
    emit(LayerTested(layer=one.layer, op=one.op, snr_db=one.snr_db, absent_because=one.absent_because or ""))


def _with_outputs(one: LayerSensitivity, check: OutputCheck) -> LayerSensitivity:
    if check.broken:  # worse than any number: with this layer changed the network is useless
        return replace(one, fragile=True, absent_because=check.broken)
    snr = check.metrics.get(WORST, check.metrics.get("output_snr"))
    if snr is None:
        return replace(one, absent_because="it has no outputs to compare")
    return replace(one, snr_db=snr.value, absent_because=snr.absent_because)


def _rank(layers: Sequence[LayerSensitivity]) -> tuple[LayerSensitivity, ...]:
    """Return the layers, the most fragile first; those far below the median SNR are marked as fragile."""
    known = sorted(one.snr_db for one in layers if one.snr_db is not None)
    limit = known[len(known) // 2] - FRAGILE_DB if known else 0.0

    def key(one: LayerSensitivity) -> tuple[int, float]:
        if one.snr_db is None:
            return (0 if one.fragile else 2, 0.0)
        return (1, one.snr_db)

    marked = [replace(one, fragile=one.fragile or (one.snr_db is not None and one.snr_db < limit)) for one in layers]
    return tuple(sorted(marked, key=key))
