"""Edgewise's timed loop and an engine's own timer in turns of a fifth of a second, in one process.

    python benchmarks/taking_turns.py REQUEST    answers with the pairs of means, s, as JSON

The peers of PyTorch, TensorFlow and Keras are timers in Python, so they can run where edgewise's adapter does. In
processes of their own, identical timers of one small network differed by -6 to +15 % from pair to pair, because pages
and cores are dealt anew to each process: no row of 2 % could be told apart. Within a process, the model that is loaded
first was up to 11 % slower than the same one loaded third, and one of a few copies that were loaded later, by 4 to 30 %
as well. So each side loads its model four times, in the order ABBABAAB, and BAABABBA in the next round. Of each turn
the medians of the four are compared; each of these is a mean, as timers time calls back to back.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.registry import load_class
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from edgewise.run.timing import Clock, Recorder
from edgewise.runtime.base import Compiles, LoadOptions
from edgewise.workload.inputs import make_arrays

TURN_S = 0.2
WARM_S = 1.0
"""Warm-up of both sides before the first turn."""
SETTLE_S = 0.01
"""Before each turn a side infers so long without being timed: the other one has emptied the caches."""

MeanOf = Callable[[int], float]
"""Times a number of calls and returns the mean time of one, s."""


@dataclass(frozen=True)
class Timer:
    """An engine's own timer.

    Attributes:
        module: of this folder, with a function ``timer`` that returns a `MeanOf`.
        words: the arguments of that function.
    """

    module: str
    words: Sequence[str]


def take_turns(
    model: Path, runtime: str, timer: Timer, *, turns: int, order: random.Random, mine_first: bool
) -> list[tuple[float, float]]:
    """Per turn the means of edgewise and of the timer, s, from one fresh process with one thread.

    Args:
        mine_first: whether the first of the eight models is loaded by edgewise's adapter.
    """
    request = {
        "model": str(model),
        "runtime": runtime,
        "module": timer.module,
        "words": list(timer.words),
        "turns": turns,
        "seed": order.randrange(2**32),
        "mine_first": mine_first,
    }
    command = [sys.executable, __file__, json.dumps(request)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [(mine, theirs) for mine, theirs in json.loads(answer.splitlines()[-1])]


def _adapter(model: str, runtime: str) -> MeanOf:
    """Return the loop of edgewise's worker around the session that its adapter makes for ``bench --threads 1``."""
    plan = make_plan(
        [model],
        axes=Axes(runtimes=(runtime,), threads=(1,)),
        scenario=Scenario(),
        stopping=Stopping(),
        target=TargetSpec(),
    )
    request = RunBuilder(save=lambda run: None, sensors=METERS_OFF).request(plan.jobs[0], index=0)
    workload = request.job.workload
    adapter = load_class(request.runtime)()
    adapter.import_engine()
    session = adapter.load(Path(request.job.model.path), LoadOptions(**request.options))
    arrays = list(make_arrays(list(workload.inputs), seed=workload.seed))
    session.bind(arrays)
    if isinstance(session, Compiles):
        session.compile()
        session.bind(arrays)
    recorder = Recorder(session, Clock.of(session))

    def mean_of(count: int) -> float:
        begin = len(recorder.wall)
        recorder.take(count)
        return statistics.fmean(recorder.wall[begin:]) / 1e9

    return mean_of


def _for(seconds: float, mean_of: MeanOf) -> float:
    """Call for a while; the mean time of the last call, s."""
    end = time.perf_counter() + seconds
    while True:
        typical = mean_of(1)
        if time.perf_counter() > end:
            return typical


def _answer(request: Mapping[str, Any]) -> list[list[float]]:
    def make(mine: bool) -> MeanOf:
        if mine:
            return _adapter(request["model"], request["runtime"])
        timer: MeanOf = import_module(request["module"]).timer(*request["words"])
        return timer

    rng = random.Random(request["seed"])
    first = request["mine_first"]
    layout = tuple(first is (side == "A") for side in "ABBABAAB")
    sides = [make(mine) for mine in layout]
    gc.collect()
    gc.freeze()
    gc.disable()
    typical = min(_for(WARM_S, side) for side in sides)
    count = max(1, round(TURN_S / typical))
    pairs = []
    for _ in range(request["turns"]):
        means: list[float] = [0.0] * len(sides)
        for place in rng.sample(range(len(sides)), len(sides)):
            _for(SETTLE_S, sides[place])
            means[place] = sides[place](count)
        pairs.append(
            [
                statistics.median(mean for mean, mine in zip(means, layout, strict=True) if mine is wanted)
                for wanted in (True, False)
            ]
        )
    return pairs


if __name__ == "__main__":
    print("\n" + json.dumps(_answer(json.loads(sys.argv[1]))))
