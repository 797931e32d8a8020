"""Predicts the effect of passes on speed before time is spent on them, by trying each on random data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from statistics import median

from edgewise.clock import now
from edgewise.comparing.subjects import NATIVE
from edgewise.errors import as_flag
from edgewise.model.cost import count
from edgewise.model.graph import Graph
from edgewise.optimizing.base import Facts, Pass, PassTask, Recipe
from edgewise.optimizing.microbenchmarks import Cache, PassTiming, key_of, time_pass
from edgewise.optimizing.planning import PlannedTask
from edgewise.optimizing.processor import read_processor
from edgewise.optimizing.reasons import explain
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.variant import Prediction
from edgewise.progress import StageStarted, VariantPredicted, emit
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes
from edgewise.version import __version__

MODEL_ERROR = 0.06
"""Standard deviation of ln(predicted / measured) besides the scatter of the times.

From benchmarks/preflight.py on two busy cores of an AVX-512 processor: 40 cells of networks × passes × engines.
"""
PREFLIGHT_SHARE = 0.15
"""Share of the time budget for predictions."""
LEAST_PREFLIGHT_S = 20.0
"""Least time for predictions of what passes would gain with data, s."""
_RACE_S = 1.0
_LEAST_S = 1.0
"""A trial starts only with this much time left, s."""
_TRIALS = 2
"""Number of trials on the largest network that fit into the budget of a file."""


class Preflight:
    """Predicts the effect of passes on the speed of one model on this machine.

    A child process per pass applies the pass to the network with random data, and times the network before and after
    in each engine.

    Args:
        threads: inference threads.
        budget_s: time limit of all trials together, s.
        trial_s: time that a pass may take on the network, s. None is half of the budget.
        cache: folder of the timings; None is in the user's cache folder.
    """

    def __init__(
        self,
        facts: Facts,
        *,
        threads: int = 1,
        budget_s: float = 30.0,
        trial_s: float | None = None,
        cache: Path | None = None,
    ) -> None:
        self._facts = facts
        self._threads = threads
        self._left_s = budget_s
        self._trial_s = max(_LEAST_S, budget_s / _TRIALS) if trial_s is None else trial_s
        self._cache = Cache(cache)

    def predict(self, one: Pass, recipe: Recipe, *, engines: Sequence[str]) -> dict[str, Prediction]:
        """Engine → the predicted speed-up of the pass's result over the model, both in this engine."""
        reasons = {name: _find_obstacle(one, self._facts, name) for name in engines}
        if self._is_too_large:
            large = "the network is too large to try the pass on in the time given"
            return {name: Prediction(speedup=None, because=reason or large) for name, reason in reasons.items()}
        open_engines = [name for name, reason in reasons.items() if not reason]
        timings = self._time(one, recipe, open_engines) if open_engines else {}
        return {
            name: Prediction(speedup=None, because=reason) if reason else self._predict(timings.get(name), one, name)
            for name, reason in reasons.items()
        }

    def _predict(self, timing: PassTiming | None, one: Pass, engine: str) -> Prediction:
        if timing is None:
            return Prediction(speedup=None, because="the time for the pre-flight was used up")
        if timing.failed or timing.unchanged:
            return Prediction(speedup=None, because=timing.failed or "it finds nothing to change")
        ratios = [math.log(a / b) for a, b in zip(timing.original, timing.changed, strict=True)]
        centre = median(ratios)
        # The standard error of a median, from the median absolute deviation, as of normal values.
        scatter = 1.4826 * median(abs(ratio - centre) for ratio in ratios)
        error = 1.2533 * scatter / math.sqrt(len(ratios))
        reach = 1.96 * math.hypot(error, MODEL_ERROR)
        speedup = math.exp(centre)
        remark = self._processor.remark(one.capabilities.arithmetic, helps=speedup > 1.0)
        what = f"the network's {len(self._facts.graph.operators)} operators"
        return Prediction(
            speedup=speedup,
            low=speedup * math.exp(-reach),
            high=speedup * math.exp(reach),
            because=explain(timing, speedup=speedup, remark=remark),
            method=f"{one.name} on {what}, calibrated on random data; both timed in turns in {engine}",
        )

    _processor = cached_property(lambda self: read_processor())
    _digest = cached_property(lambda self: _hash_network(self._facts.graph))

    @cached_property
    def _is_too_large(self) -> bool:
        return _estimate_effort(self._facts.graph) > self._trial_s

    def _time(self, one: Pass, recipe: Recipe, engines: Sequence[str]) -> dict[str, PassTiming]:
        """Engine → timing, from the cache or measured now; without those for which no time is left."""
        location = f"{type(one).__module__}:{type(one).__qualname__}"
        keys = {name: self._key(one, recipe, location, name) for name in engines}
        timings = {name: timing for name, key in keys.items() if (timing := self._cache.get(key)) is not None}
        missing = [name for name in engines if name not in timings]
        if not missing or self._left_s < _LEAST_S:
            return timings
        # The child fills in the folder, and the samples where there is a path for them.
        task = PassTask(
            model=str(self._facts.path), format=self._facts.format, settings=recipe.settings, folder=Path(),
            threads=self._threads, calibration=Path() if one.capabilities.calibrates else None,
        )  # fmt: skip
        begin = now()
        timed = time_pass(
            self._facts.graph, location, task, engines=missing, seconds=_RACE_S, until=begin + self._left_s
        )
        self._left_s -= now() - begin
        for name, timing in timed.items():
            if timing.lasting:
                self._cache.put(keys[name], timing)
        return timings | timed

    def _key(self, one: Pass, recipe: Recipe, location: str, engine: str) -> str:
        """Hash of everything that a timing depends on."""
        processor, runtime = self._processor, runtimes().get(engine)
        return key_of([
            processor.model, processor.architecture, sorted(processor.flags or ()), engine,
            availability_of(runtime).version, runtime.providers[0].name, location, availability_of(one).version,
            __version__, recipe.settings.to_document(), self._digest, self._threads,
        ])  # fmt: skip


def _estimate_effort(graph: Graph) -> float:
    """Estimated time of a pass on a network, s: fitted to the slower passes on one core, their libraries imported."""
    costs = [count(operator, graph) for operator in graph.operators]
    parameters, macs = sum(cost.parameters or 0 for cost in costs), sum(cost.macs or 0 for cost in costs)
    return 0.5 + 0.012 * len(costs) + 0.12e-6 * parameters + 0.1e-9 * macs


def _hash_network(graph: Graph) -> str:
    """Hash of everything that decides the speed of a network; it does not depend on the weights."""
    tensors = [(each.name, each.shape, each.dtype, each.constant) for each in graph.tensors.values()]
    operators = [
        (each.domain, each.op, each.version, each.attributes, each.inputs, each.outputs) for each in graph.operators
    ]
    return key_of([graph.format, graph.version, tensors, operators])


def _find_obstacle(one: Pass, facts: Facts, engine: str) -> str:
    """Why the pass can't be tried in an engine; empty where it can."""
    abilities, registry = one.capabilities, runtimes()
    if abilities.kind == "tuning":
        return "measured directly"
    if abilities.trains:
        return "the result of training can't be predicted"
    if facts.format not in abilities.reads:
        return f"it does not support {facts.format} files"
    if abilities.exact:
        return "it changes no arithmetic and is quick to try"
    if abilities.runtimes and engine not in abilities.runtimes:
        return f"its results run only in {', '.join(abilities.runtimes)}"
    if engine not in registry.names():
        return f"no runtime is called {engine}"
    runtime = registry.get(engine)
    for part in (runtime, one):
        if not (available := availability_of(part)):
            return available.reason
    for form in (facts.format, abilities.writes or facts.format):
        if form not in runtime.formats:
            return f"{runtime.title} reads no {form} files, so that before and after can't be compared in it"
    return ""


def predict_tasks(
    tasks: Sequence[PlannedTask], settings: SearchSettings, *, left: float
) -> tuple[list[PlannedTask], dict[str, Prediction]]:
    """Return the tasks by rank, those first that may win, the fastest first; and predictions by the ids of the results.

    A task may win if its prediction does not exclude it, or if it calibrates and nothing is predicted. Among equals,
    the first recipe of every pass and the first of every file come first, and an engine's own format comes before
    others: with little time, something of everything is tried.

    Args:
        left: time before the races, s.
    """
    if not tasks or settings.judge is not None or not settings.races:  # the speed on this machine does not count
        return in_turns(tasks), {}
    emit(StageStarted(title="Pre-flight: predict the speed-up of passes"))
    found: dict[str, Prediction] = {}
    keyed: list[tuple[tuple[int, bool, float, int, bool], PlannedTask]] = []
    room = PREFLIGHT_SHARE * min(settings.budget_s, 2.0 * max(0.0, left))
    sources = list({task.source.variant: task.source for task in tasks}.values())
    for place, source in enumerate(sources):
        # What one file leaves over goes to the next ones.
        begin, share = now(), room / (len(sources) - place)
        preflight = Preflight(source.facts, threads=settings.threads or 1, budget_s=share)
        own = NATIVE.get(source.facts.format)
        for turn, task in enumerate(in_turns([one for one in tasks if one.source.variant == source.variant])):
            results = _predict_task(preflight, task, settings)
            speed = max((one.speedup for one in results.values() if one.speedup is not None), default=1.0)
            hopeless = not any(_may_win(one, task) for one in results.values())
            keyed.append(((task.recipe.rank, hopeless, -speed, turn, own not in task.engines), task))
            found |= results
        room -= now() - begin
    _emit(found)
    return [task for _, task in sorted(keyed, key=itemgetter(0))], found


def _may_win(told: Prediction, task: PlannedTask) -> bool:
    if told.speedup is None:
        return task.capabilities.calibrates
    return (told.high or told.speedup) > 1.0


def predict_with_data(
    lacking: Sequence[PlannedTask], settings: SearchSettings, *, own: str, left: float
) -> Mapping[str, Prediction]:
    """Predict what passes would gain that are not tried because there are no samples. The trials need none.

    Args:
        own: the original's engine.
        left: time before the races, s.
    """
    if settings.judged is not None or settings.judge is not None or not settings.races or not lacking:
        return {}
    emit(StageStarted(title=f"Pre-flight: predict the speed-up of passes that need {as_flag('data')}"))
    end = now() + min(2.0 * PREFLIGHT_SHARE * settings.budget_s, max(LEAST_PREFLIGHT_S, left))
    preflights: dict[str, Preflight] = {}
    found: dict[str, Prediction] = {}
    # Tasks that run in the original's engine first: time may end before all files are tried.
    for task in sorted(lacking, key=lambda each: own not in each.engines):
        source = task.source
        if source.variant not in preflights:
            budget = max(0.0, end - now())
            preflights[source.variant] = Preflight(source.facts, threads=settings.threads or 1, budget_s=budget)
        found |= _predict_task(preflights[source.variant], task, settings)
    _emit(found)
    return found


def _predict_task(preflight: Preflight, task: PlannedTask, settings: SearchSettings) -> dict[str, Prediction]:
    """Id of the result → prediction, for each engine of the task."""
    if settings.device != "local":
        because = "the pre-flight measures on this machine, not on the target"
    elif task.source.format != task.source.facts.format:
        because = "it changes the module, before there is a file"
    else:
        found = preflight.predict(task.one, task.recipe, engines=task.engines)
        return {task.result_name(engine): one for engine, one in found.items()}
    return {task.result_name(engine): Prediction(speedup=None, because=because) for engine in task.engines}


def _emit(predictions: Mapping[str, Prediction]) -> None:
    for name, one in predictions.items():
        emit(VariantPredicted(name=name, speedup=one.speedup, low=one.low, high=one.high, because=one.because))


def in_turns(tasks: Sequence[PlannedTask]) -> list[PlannedTask]:
    """Return the first recipe of every pass, then the second of each; in each turn those first that calibrate.

    Passes that calibrate gain the most, and the time may not suffice for all.
    """
    seen: Counter[str] = Counter()
    turns = []
    for task in tasks:
        turns.append(((seen[task.one.name], not task.capabilities.calibrates), task))
        seen[task.one.name] += 1
    return [task for _, task in sorted(turns, key=itemgetter(0))]
