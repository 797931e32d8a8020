"""What passes should win, before any is tried: the pre-flight's answers, and the order that follows from them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from edgewise.comparing.subjects import NATIVE
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.preflight import Preflight
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.variant import Prediction
from edgewise.progress import StageStarted, VariantPredicted, emit

PREFLIGHT_SHARE = 0.15
LEAST_PREFLIGHT_S = 20.0
"""For what samples would win, even where the time before the races is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What the pre-flight said of tasks.

    Attributes:
        tasks: by rank, the fastest by the pre-flight first.
        predictions: by the name of the result.
    """

    tasks: tuple[PlannedTask, ...] = ()
    predictions: Mapping[str, Prediction]


def predict(tasks: Sequence[PlannedTask], settings: SearchSettings, *, left: float) -> Predicted:
    """Ask the pre-flight about tasks, in the time that is `left` before the races, s.

    Of equals the first recipe of every pass and the first of every file come first, those in an engine's own format
    before others: where time is short, something of everything is tried.
    """
    if not tasks:
        return Predicted(predictions={})
    emit(StageStarted(title="Pre-flight: what should help here?"))
    asked: dict[str, Prediction] = {}
    keyed: list[tuple[tuple[int, float, int, bool], PlannedTask]] = []
    room = PREFLIGHT_SHARE * min(settings.budget_s, 2.0 * max(0.0, left))
    sources = list({task.source.variant: task.source for task in tasks}.values())
    for place, source in enumerate(sources):
        # What one file leaves over is the others'.
        begin, share = time.monotonic(), room / (len(sources) - place)
        preflight = _preflight(source, settings, budget_s=share)
        own = NATIVE.get(source.facts.format)
        for turn, task in enumerate(_in_turns([one for one in tasks if one.source.variant == source.variant])):
            found = {
                task.result_name(engine): _predict_one(preflight, task, engine, settings) for engine in task.engines
            }
            speed = max((one.speedup for one in found.values() if one.speedup is not None), default=1.0)
            keyed.append(((task.recipe.rank, -speed, turn, own not in task.engines), task))
            asked |= found
        room -= time.monotonic() - begin
    _tell(asked)
    return Predicted(tasks=tuple(task for _, task in sorted(keyed, key=itemgetter(0))), predictions=asked)


def predict_lacking(
    lacking: Sequence[PlannedTask], settings: SearchSettings, *, own: str, left: float
) -> Mapping[str, Prediction]:
    """What passes would win that are not tried because there are no samples; the pre-flight needs none.

    Args:
        own: the original's engine.
    """
    if settings.judged is not None or not lacking:
        return {}
    emit(StageStarted(title="Pre-flight: what would help with --data?"))
    end = time.monotonic() + min(2.0 * PREFLIGHT_SHARE * settings.budget_s, max(LEAST_PREFLIGHT_S, left))
    asked = [(task, engine) for task in lacking for engine in task.engines]
    preflights: dict[str, Preflight] = {}
    found: dict[str, Prediction] = {}
    # One answer in the original's engine says more than one of every file in none.
    for task, engine in sorted(asked, key=lambda each: each[1] != own):
        source = task.source
        if source.variant not in preflights:
            preflights[source.variant] = _preflight(source, settings, budget_s=max(0.0, end - time.monotonic()))
        found[task.result_name(engine)] = _predict_one(preflights[source.variant], task, engine, settings)
    _tell(found)
    return found


def _preflight(source: Source, settings: SearchSettings, *, budget_s: float) -> Preflight:
    return Preflight(source.facts, threads=settings.threads or 1, budget_s=budget_s)


def _predict_one(preflight: Preflight, task: PlannedTask, engine: str, settings: SearchSettings) -> Prediction:
    if settings.device != "local":
        return Prediction(speedup=None, because="the pre-flight measures on this machine, not on the target")
    if task.source.format != task.source.facts.format:
        return Prediction(speedup=None, because="it changes the module, before there is a file")
    return preflight.predict(task.one, task.recipe, runtime=engine)


def _tell(predictions: Mapping[str, Prediction]) -> None:
    for name, one in predictions.items():
        emit(VariantPredicted(name=name, speedup=one.speedup, low=one.low, high=one.high, because=one.because))


def _in_turns(tasks: Sequence[PlannedTask]) -> list[PlannedTask]:
    """The first recipe of every pass, then the second of each; in a turn those first that are calibrated.

    These win most where they win, and the time of the pre-flight may not do for all.
    """
    seen: Counter[str] = Counter()
    turns = []
    for task in tasks:
        turns.append(((seen[task.one.name], not task.capabilities.calibrates), task))
        seen[task.one.name] += 1
    return [task for _, task in sorted(turns, key=itemgetter(0))]
