"""Does the ratio of a running comparison hold the truth where other programs keep inferences waiting? Simulated.

    python benchmarks/waiting.py [--trials 400] [--seed 1]

An inference of length t is interrupted with the probability 1 − e^(−t/τ), a long one several times, and then waits for
some milliseconds each time, in bursts for longer and less often; how busy the machine is differs from round to round.
Processes take turns as `edgewise.run.interleaving` has them. Of each cell: how often the interval holds the true
ratio, for the ratio of neighbouring turns alone and for the product's; how often a verdict is wrong (a difference where
there is none, or the wrong way); and the median of the ratios found.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np

from edgewise.run.interleaving import LEAST_TURNS, MOST_A_TURN, ROUND_S, TURN_S, TURNS
from edgewise.stats.comparison import Contrast, decide
from edgewise.stats.turns import NEIGHBOURS, Turns, contrast_turns

MARGIN = 0.03
TESTS = 4
"""Metrics that `compare` tests together by default."""
LOOKS = (5, 8)
"""A minute has room for eight rounds on a busy machine."""
NOISE = 0.01
"""Scatter of an inference without interruptions, relative."""
COST = 0.03
"""What an interruption adds to the processor time of an inference: the caches are cold."""


@dataclass(frozen=True)
class Load:
    """How other programs interrupt: every `every_s` of running on average, for `wait_s` on average."""

    name: str
    every_s: float
    wait_s: float
    differs: float
    """Standard deviation between rounds of the logarithm of `every_s`."""
    others: float


LOADS = (
    Load("quiet", 1e9, 0.0, 0.0, 0.01),
    Load("some", 0.05, 0.004, 0.3, 0.4),
    Load("busy", 0.004, 0.008, 0.2, 0.9),
    Load("very busy", 0.002, 0.016, 0.3, 0.95),
    Load("bursts", 0.5, 0.1, 0.5, 0.4),
    Load("long bursts", 0.25, 0.1, 0.5, 0.6),
)
CASES = ((1e-3, 1.0), (1e-3, 1.05), (1e-3, 2.72), (1e-3, 10.0), (3e-3, 1.1), (10e-3, 2.0))
"""Time of an inference of A without interruptions, s, and the true ratio."""


def process(generator: np.random.Generator, time_s: float, load: Load, *, every_s: float, is_told: bool) -> Turns:
    """Return the turns of one process; `is_told`: its processor time is known."""
    typical = time_s + load.wait_s * (1.0 - math.exp(-time_s / every_s) > 0.5)
    count = int(max(1, min(MOST_A_TURN, TURN_S // typical)))
    turns = int(max(LEAST_TURNS, min(TURNS, ROUND_S // (count * (time_s + load.wait_s * time_s / every_s)))))
    work = time_s * np.exp(NOISE * generator.standard_normal((turns, count)))
    hits = generator.poisson(time_s / every_s, (turns, count))
    used = work * (1.0 + COST * (hits > 0))
    walls = used + load.wait_s * generator.gamma(np.maximum(hits, 1)) * (hits > 0)
    shares = used.sum(axis=1) / walls.sum(axis=1) if is_told else ()
    return Turns.of(walls.ravel(), [count] * turns, shares=shares, others=load.others)


def run(generator: np.random.Generator, case: tuple[float, float], load: Load, *, is_told: bool) -> list[Contrast]:
    """Measure until decided; the contrast of the product and that of neighbouring turns alone."""
    time_s, ratio = case
    a: list[Turns] = []
    b: list[Turns] = []
    found: Contrast | None = None
    while found is None or (len(a) < LOOKS[-1] and not (len(a) in LOOKS and verdict_of(found) != "inconclusive")):
        every_s = load.every_s * math.exp(load.differs * generator.standard_normal())
        for side, seconds in ((a, time_s), (b, time_s * ratio)):
            differs = math.exp(NOISE * generator.standard_normal())
            side.append(process(generator, seconds * differs, load, every_s=every_s, is_told=is_told))
        found = contrast_turns(a, b)
    return [found, dict(found.rivals).get(NEIGHBOURS, found)]


def verdict_of(contrast: Contrast) -> str:
    """Return the verdict beside three other metrics."""
    p_value = contrast.p_value
    return decide(contrast, margin=MARGIN, p_adjusted=None if p_value is None else min(1.0, TESTS * p_value))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400, help="per cell")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print("| load | processor time | A, ms | true ratio | held, neighbours % | held, product % "
          "| wrong % | decided % | median ratio, neighbours | product |\n|---|---|" + "--:|" * 8)  # fmt: skip
    for number, (load, case) in enumerate((load, case) for load in LOADS for case in CASES):
        for is_told in (True, False):
            generator = np.random.default_rng([arguments.seed, number, is_told])
            trials = [run(generator, case, load, is_told=is_told) for _ in range(arguments.trials)]
            truth = case[1]
            held = [
                sum(low <= truth <= high for each in trials for low, high in [each[which].interval() or (0.0, 0.0)])
                for which in (1, 0)
            ]
            verdicts = [verdict_of(each[0]) for each in trials]
            right = "higher" if truth > 1.0 else "same"
            # Within the margin nothing is wrong that says so.
            wrong = sum(verdict not in (right, "same", "inconclusive") for verdict in verdicts)
            decided = sum(verdict != "inconclusive" for verdict in verdicts)
            cells = [100 * count / len(trials) for count in (*held, wrong, decided)]
            medians = [float(np.median([each[which].ratio for each in trials])) for which in (1, 0)]
            told = [f"{cell:.1f}" for cell in cells] + [f"{median:.3f}" for median in medians]
            print(f"| {load.name} | {'known' if is_told else 'not known'} | {case[0] * 1e3:g} | {truth:g} | "
                  + " | ".join(told) + " |", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
