"""How often do intervals of a latency's median contain the true one, and how wide are they?

Seeded simulation over distributions × differences between sessions × sessions × samples a session. Beside the interval
that edgewise quotes stand the two that scripts usually print, both computed from the pooled samples as if they were
independent: the binomial order-statistic interval and the percentile bootstrap.

    python benchmarks/coverage.py [--repeats 600] [--seed 1] [--summary]

A row is *identifiable* where the data can tell: one process can't show how far processes differ, and fewer than ten
correlation lengths a session can't show how slow changes are. There the nominal 95 % is not expected of anybody.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from edgewise.stats.intervals import median_interval

EFFECTS = (0.0, 0.005, 0.02)
SESSIONS = (1, 3, 5)
SAMPLES = (30, 300, 3000)
LEAST_LENGTHS = 10
BOOTSTRAP_DRAWS = 500

Generator = np.random.Generator
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Scenario:
    """A stationary process of one session.

    Attributes:
        draw: (generator, (repeats, sessions, samples)) → samples of that shape.
        median: of its marginal distribution.
        memory: samples over which it stays correlated.
    """

    name: str
    draw: Callable[[Generator, Shape], np.ndarray]
    median: float
    memory: float = 1.0


@dataclass(frozen=True)
class Cell:
    """What one cell of the grid gave; `coverage` and `width` (mean relative half-width) by method."""

    scenario: str
    effect: float
    sessions: int
    samples: int
    identifiable: bool
    coverage: dict[str, float]
    width: dict[str, float]


def normal(generator: Generator, shape: Shape) -> np.ndarray:
    """Return a quiet machine: 2 %."""
    return 1.0 + 0.02 * generator.standard_normal(shape)


def lognormal(generator: Generator, shape: Shape) -> np.ndarray:
    """Skewed: 10 %."""
    return np.exp(0.1 * generator.standard_normal(shape))


def heavy(generator: Generator, shape: Shape) -> np.ndarray:
    """2 % of samples are slower by a Pareto factor of at least 2."""
    factor = np.where(generator.random(shape) < 0.02, 2.0 + generator.pareto(1.5, shape), 1.0)
    return np.exp(0.02 * generator.standard_normal(shape)) * factor


def autoregressive(rho: float) -> Callable[[Generator, Shape], np.ndarray]:
    """2 % with a first-order autocorrelation of `rho`."""

    def draw(generator: Generator, shape: Shape) -> np.ndarray:
        values = generator.standard_normal(shape)
        for index in range(1, shape[2]):
            values[..., index] = rho * values[..., index - 1] + math.sqrt(1.0 - rho**2) * values[..., index]
        return np.exp(0.02 * values)

    return draw


SLOW_SHARE, SLOW_FACTOR, BURST = 0.2, 1.3, 20


def bursts(generator: Generator, shape: Shape) -> np.ndarray:
    """Return a neighbour that comes for 20 samples and goes for 80, on average (Markov), and costs 30 % meanwhile."""
    leave, enter = 1.0 / BURST, SLOW_SHARE / (1.0 - SLOW_SHARE) / BURST
    chance = generator.random(shape)
    slow = np.empty(shape, dtype=bool)
    slow[..., 0] = chance[..., 0] < SLOW_SHARE
    for index in range(1, shape[2]):
        before = slow[..., index - 1]
        slow[..., index] = np.where(before, chance[..., index] >= leave, chance[..., index] < enter)
    return np.exp(0.02 * generator.standard_normal(shape)) * np.where(slow, SLOW_FACTOR, 1.0)


def _quantile(share: float) -> float:
    """Return the 2 % log-normal's quantile below which the fast part must lie for the median of the whole."""
    return math.exp(0.02 * NormalDist().inv_cdf(share))


SCENARIOS = (
    Scenario("normal 2 %", normal, 1.0),
    Scenario("log-normal 10 %", lognormal, 1.0),
    Scenario("heavy tail", heavy, _quantile(0.5 / 0.98)),
    Scenario("AR(1) 0.7", autoregressive(0.7), 1.0, memory=1.7 / 0.3),
    Scenario("AR(1) 0.9", autoregressive(0.9), 1.0, memory=1.9 / 0.1),
    Scenario("bursts", bursts, _quantile(0.5 / (1.0 - SLOW_SHARE)), memory=BURST / SLOW_SHARE),
)


def edgewise_interval(sessions: np.ndarray, _: Generator) -> tuple[float, float]:
    """Return the interval of `edgewise.stats.intervals.median_interval`; shape (sessions, samples)."""
    interval = median_interval(sessions.ravel(), (sessions.shape[1],) * sessions.shape[0])
    assert interval is not None
    return interval.low, interval.high


def order_statistics(sessions: np.ndarray, _: Generator) -> tuple[float, float]:
    """Ranks n/2 ± 1.96 √n/2 of the pooled samples, the normal approximation of the binomial, interpolated."""
    ordered = np.sort(sessions, axis=None)
    middle, reach = (len(ordered) - 1) / 2.0, 1.96 * math.sqrt(len(ordered)) / 2.0
    low, high = np.interp([middle - reach, middle + reach], np.arange(len(ordered)), ordered)
    return float(low), float(high)


def bootstrap(sessions: np.ndarray, generator: Generator) -> tuple[float, float]:
    """Return the percentile bootstrap of the pooled median.

    Resampling is not carried out: the middle order statistic of n uniform draws is Beta((n + 1)/2, (n + 1)/2), and the
    resampled median is the sample at that share of the sorted ones.
    """
    ordered = np.sort(sessions, axis=None)
    half = (len(ordered) + 1) / 2.0
    shares = generator.beta(half, half, BOOTSTRAP_DRAWS)
    medians = ordered[np.minimum((shares * len(ordered)).astype(int), len(ordered) - 1)]
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


METHODS = {"edgewise": edgewise_interval, "order statistics": order_statistics, "bootstrap": bootstrap}


def simulate(scenario: Scenario, *, effect: float, sessions: int, samples: int, repeats: int, seed: int) -> Cell:
    """Draw `repeats` runs of one cell and interval each by every method."""
    generator = np.random.default_rng([seed, SCENARIOS.index(scenario), round(effect * 1e4), sessions, samples])
    draws = np.random.default_rng(seed)
    hits = dict.fromkeys(METHODS, 0)
    widths = dict.fromkeys(METHODS, 0.0)
    batch = max(1, 2_000_000 // (sessions * samples))
    for begin in range(0, repeats, batch):
        count = min(batch, repeats - begin)
        runs = scenario.draw(generator, (count, sessions, samples))
        runs = runs * np.exp(effect * generator.standard_normal((count, sessions, 1)))
        for run, (name, method) in product(runs, METHODS.items()):
            low, high = method(run, draws)
            hits[name] += low <= scenario.median <= high
            widths[name] += (high - low) / 2.0 / scenario.median
    return Cell(
        scenario.name,
        effect,
        sessions,
        samples,
        identifiable=samples >= LEAST_LENGTHS * scenario.memory and (sessions > 1 or effect == 0.0),
        coverage={name: hits[name] / repeats for name in METHODS},
        width={name: widths[name] / repeats for name in METHODS},
    )


def grid(repeats: int, seed: int) -> Iterator[Cell]:
    """Every cell, sessions slowest."""
    for sessions, effect, scenario, samples in product(SESSIONS, EFFECTS, SCENARIOS, SAMPLES):
        yield simulate(scenario, effect=effect, sessions=sessions, samples=samples, repeats=repeats, seed=seed)


def _columns(coverage: dict[str, float], width: dict[str, float]) -> str:
    return "  ".join(f"{100 * coverage[name]:6.1f} % ±{100 * width[name]:6.2f} %" for name in METHODS)


def _print_row(cell: Cell) -> None:
    why = "" if cell.identifiable else "  not identifiable"
    where = f"{cell.scenario:16} {100 * cell.effect:3.1f} % {cell.sessions:2} × {cell.samples:4}"
    print(f"{where}  {_columns(cell.coverage, cell.width)}{why}")


def _print_summary(cells: list[Cell]) -> None:
    print("\nidentifiable cells: lowest / mean / highest coverage, mean relative half-width")
    for sessions, effect in product(SESSIONS, EFFECTS):
        chosen = [cell for cell in cells if (cell.sessions, cell.effect) == (sessions, effect) and cell.identifiable]
        if not chosen:
            print(f"{sessions} sessions, {100 * effect:3.1f} %: not identifiable")
            continue
        columns = []
        for name in METHODS:
            covered = [100 * cell.coverage[name] for cell in chosen]
            width = 100 * sum(cell.width[name] for cell in chosen) / len(chosen)
            mean = sum(covered) / len(covered)
            columns.append(f"{min(covered):5.1f} /{mean:5.1f} /{max(covered):5.1f} ±{width:5.2f} %")
        print(f"{sessions} sessions, {100 * effect:3.1f} %:  " + "   ".join(columns))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage and width of intervals of the median, simulated.")
    parser.add_argument("--repeats", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--summary", action="store_true", help="only the summary")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    print(f"{'scenario':16} effect  k ×    n  " + "".join(f"{name:20}" for name in METHODS))
    cells = []
    for cell in grid(arguments.repeats, arguments.seed):
        cells.append(cell)
        if not arguments.summary:
            _print_row(cell)
    _print_summary(cells)
    error = 100 * math.sqrt(0.95 * 0.05 / arguments.repeats)
    seconds = time.perf_counter() - begin
    print(f"\n{arguments.repeats} repeats a cell; standard error of 95 %: {error:.1f} points; {seconds:.0f} s")


if __name__ == "__main__":
    main()
