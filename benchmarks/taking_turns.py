"""Edgewise's worker and an engine's own timer in turns of a fifth of a second, in processes of their own.

Both processes are alive at once and one of them infers at a time, so that whatever moves slowly on the machine moves
both alike. Of each turn the means are compared, as engines' timers time calls back to back. Single readings with a
tool's own bookkeeping between them would not be the same: it empties caches, and on a busy machine the median of
`torch.utils.benchmark.Timer.timeit(1)` was 7 to 35 % longer than that of a bare loop.

The timer's process prints READY; to each line with seconds it answers with the mean of as many calls, s.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.facts import target_of
from edgewise.run.host import LiveSession
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF, RunBuilder

TURN_S = 0.2
"""Long against the first inferences of a turn, which find the caches empty; the sides leave out not quite as many."""
MOST = 5000
"""Inferences of a turn, at most."""


def answer(mean_of: Callable[[int], float]) -> None:
    """Warm up, print READY, and answer each line of standard input with a mean.

    Args:
        mean_of: times a number of calls; returns the mean time of a call, s.
    """
    end = time.perf_counter() + 0.5
    typical = mean_of(2)
    while time.perf_counter() < end:
        typical = mean_of(5)
    print("READY", flush=True)
    for line in sys.stdin:
        mean_of(1)  # the other process has emptied the caches
        print(mean_of(max(1, min(MOST, int(float(line) / typical)))), flush=True)


def take_turns(
    model: Path, runtime: str, timer: Sequence[str], *, turns: int, order: random.Random
) -> list[tuple[float, float]]:
    """Per turn the means of edgewise and of the timer, s, of one fresh process each with one thread."""
    plan = make_plan(
        [model],
        axes=Axes(runtimes=(runtime,), threads=(1,)),
        scenario=Scenario(),
        stopping=Stopping(),
        target=TargetSpec(),
    )
    request = RunBuilder(save=lambda run: None, sensors=METERS_OFF).request(plan.jobs[0], index=0, mode="turns")
    theirs = []
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            timer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as peer,
        LiveSession(request, folder=Path(folder)) as live,
    ):
        lines = iter(peer.stdout.readline, "")
        if not any(line == "READY\n" for line in lines):
            raise RuntimeError(f"{timer} did not start")
        live.start(target_of(request.job.target))
        if not live.wait_for("ready"):
            raise RuntimeError(str(live.result.failure))
        for _ in range(turns):
            sides = [True, False]
            order.shuffle(sides)
            for mine in sides:
                if mine:
                    live.send("turn", seconds=TURN_S, most=MOST)
                    live.wait_for("turned")
                else:
                    peer.stdin.write(f"{TURN_S}\n")
                    peer.stdin.flush()
                    theirs.append(float(next(lines)))
        live.send("end")
        live.wait_for("done")
        peer.stdin.close()
    if live.result.failure is not None:
        raise RuntimeError(str(live.result.failure))
    times, ours = iter(live.result.samples["latency"]), []
    for count in live.result.facts["steady"]["turns"]:
        ours.append(statistics.fmean([next(times) for _ in range(count)]) / 1e9)
    return list(zip(ours, theirs, strict=True))
