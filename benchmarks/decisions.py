"""How often is `compare` wrong, how often does it see what is there, and do its intervals hold? Simulated.

    python benchmarks/decisions.py constants [--trials 40000] [--seed 1]
    python benchmarks/decisions.py coverage [--trials 2000]
    python benchmarks/decisions.py errors [--trials 2000]
    python benchmarks/decisions.py [all]

*constants* finds again the numbers of `edgewise.stats.comparison`. *coverage*: 95 % intervals of the ratio over
distributions of samples × ways in which processes differ × designs (target 93 – 97 %). *errors*: false alarms (target
≤ 1 %, under bursts ≤ 2 %) and slowdowns of 3 % and 10 % that are caught (≥ 95 %, ≥ 99.9 %) in as many rounds as a
minute has room for, beside what other tools' rules say of the same samples. `recorded_decisions.py` does the same with
recorded and live noise.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence

import numpy as np
from noise import FAMILIES, PROCESSES, Family
from peers import PEERS
from stopping_rule import BATCH, PAIR_NOISE, UNDECIDED, Judged, disagreements, factor_for, judge

from edgewise.stats.comparison import (
    INTERVAL_FACTOR,
    LOOKS,
    RISK_FACTOR,
    STOPPED_LEVEL,
    Contrast,
    contrast_groups,
    contrast_pairs,
)

ROUNDS = 27
"""Rounds of a 1 ms model that a minute has room for on two busy cores (2.2 s each); `recorded_decisions.py` tells."""

TESTS = 4
"""Metrics that `compare` tests together by default: latency, its 99th percentile, throughput, memory."""

RATIOS = (1.0, 1.01, 1.02, 1.03, 1.05, 1.1)
SCATTERS = (0.002, 0.005, 0.01, 0.02, 0.04)
LEVELS = (0.95, 0.955, 0.96, 0.963, 0.966, 0.97)
CHUNK = 100
CELLS = (
    ("normal 2 %", "normal 1 %"),
    ("normal 2 %", "every second + 3 %"),
    ("heavy tail", "t3 1 %"),
    ("bimodal 50 % × 1.1", "none"),
    ("AR(1) 0.999, 5 %", "normal 1 %"),
    ("drifting", "normal 1 %"),
    ("bursts", "normal 1 %"),
)
"""Samples × processes of the table of errors."""

PLANTED = (0.0, 0.03, 0.1)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """95 % interval of a share. Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927)."""
    z = 1.959963984540054
    centre = (hits + z * z / 2.0) / (trials + z * z)
    reach = z / (trials + z * z) * math.sqrt(hits * (trials - hits) / trials + z * z / 4.0)
    return max(0.0, centre - reach), min(1.0, centre + reach)


def percent(hits: int, trials: int) -> str:
    """Return a share with its Wilson interval."""
    low, high = wilson(hits, trials)
    return f"{100 * hits / trials:.2f} ({100 * low:.2f} – {100 * high:.2f})"


# -- constants ---------------------------------------------------------------------------------------------------------


def show_factors(trials: int, seed: int) -> None:
    """Print the divisors of risks, and those that one more look at the end would need."""
    print("| risk over all looks | divisor found | with one more look at 200 | used |\n|--:|--:|--:|--:|")
    for risk, used in ((0.0025, RISK_FACTOR), (0.01, RISK_FACTOR), (0.05, INTERVAL_FACTOR)):
        found = factor_for(risk, trials=trials, seed=seed)
        more = factor_for(risk, trials=trials // 4, seed=seed, looks=(*LOOKS, 200))
        print(f"| {100 * risk:g} % | {found:.2f} | {more:.2f} | {used} |", flush=True)


def stopped(name: str, ratio: float, scatter: float, *, trials: int, seed: int) -> Judged:
    """Trials of one kind of pair noise, measured until decided."""
    generator = np.random.default_rng([seed, list(PAIR_NOISE).index(name), round(ratio * 1e4), round(scatter * 1e5)])
    draws = PAIR_NOISE[name](generator, (trials, LOOKS[-1]))
    return judge(math.log(ratio) + scatter * draws)


def show_levels(trials: int, seed: int) -> None:
    """Coverage of the interval that is quoted after stopping, for every shape of the differences of a pair."""
    summary = []
    for name in PAIR_NOISE:
        print(f"\n{name}: coverage at {STOPPED_LEVEL:.1%}, verdicts same / different, false or wrong way; in %\n")
        print("| true ratio | " + " | ".join(f"± {100 * scatter:g} %" for scatter in SCATTERS) + " |")
        print("|--:|" + "--:|" * len(SCATTERS))
        covered: dict[float, list[float]] = {level: [] for level in LEVELS}
        for ratio in RATIOS:
            row = []
            for scatter in SCATTERS:
                found = stopped(name, ratio, scatter, trials=trials, seed=seed)
                for level in LEVELS:
                    covered[level].append(found.covered(math.log(ratio), level))
                wrong = found.share(-1, 1) if ratio == 1.0 else found.share(-1)
                shares = f"{100 * found.share(0):.1f} / {100 * found.share(-1, 1):.1f}, {100 * wrong:.2f}"
                row.append(f"**{100 * found.covered(math.log(ratio), STOPPED_LEVEL):.1f}** {shares}")
            print(f"| {ratio:g} | " + " | ".join(row) + " |", flush=True)
        spans = [f"{100 * min(values):.1f} – {100 * max(values):.1f}" for values in covered.values()]
        summary.append(f"| {name} | " + " | ".join(spans) + " |")
    print("\nlowest – highest coverage by nominal level, in %\n")
    print("| differences of a pair | " + " | ".join(f"{100 * level:g} %" for level in LEVELS) + " |")
    print("|---|" + "--:|" * len(LEVELS))
    print("\n".join(summary))


def constants(trials: int, seed: int) -> None:
    """Everything about the constants."""
    parted = sum(
        disagreements(math.log(1.02) + 0.03 * draw(np.random.default_rng(seed), (100, 40)), tests=TESTS)
        for draw in PAIR_NOISE.values()
    )
    print(f"trials judged otherwise by the product's own code: {parted} of {100 * len(PAIR_NOISE)} (target 0)\n")
    show_factors(50 * trials, seed)
    show_levels(min(trials, BATCH), seed)


# -- coverage ----------------------------------------------------------------------------------------------------------


def draw_medians(family: Family, *, trials: int, rounds: int, seed: int) -> np.ndarray:
    """Logarithms of the medians of processes, shape (trials, rounds, 2), where processes don't differ."""
    generator = np.random.default_rng([seed, FAMILIES.index(family)])
    parts = [
        np.median(family.draw(generator, (min(CHUNK, trials - begin), rounds)), axis=-1)
        for begin in range(0, trials, CHUNK)
    ]
    return np.log(np.concatenate(parts))


def holds(contrast: Contrast, truth: float) -> bool:
    """Whether the quoted interval holds the true ratio."""
    interval = contrast.interval()
    return interval is not None and interval[0] <= math.exp(truth) <= interval[1]


def cover(medians: np.ndarray) -> dict[str, float]:
    """Coverage by design of logarithms of medians, shape (trials, rounds, 2); the product's own code on each trial."""
    values = np.exp(medians)
    trials = len(values)
    shares: dict[str, float] = {}
    for pairs in (5, 10, 20):
        shares[f"{pairs} pairs"] = (
            sum(holds(contrast_pairs(row[:pairs, 0], row[:pairs, 1], sequential=False), 0.0) for row in values) / trials
        )
    for ratio in (1.0, 1.03):
        shift = math.log(ratio)
        found = judge(medians[:, :, 1] - medians[:, :, 0] + shift, tests=TESTS)
        shares[f"until decided, {ratio:g}"] = (
            sum(
                holds(contrast_pairs(row[:pairs, 0], ratio * row[:pairs, 1], sequential=True), shift)
                for row, pairs in zip(values, found.pairs, strict=True)
            )
            / trials
        )
    for count in (5, 10):
        # B of another trial: nothing of what moved A moved it.
        others = np.roll(values[:, :, 1], 1, axis=0)
        shares[f"apart, {count} each"] = (
            sum(
                holds(contrast_groups(row[:count, 0], other[:count]), 0.0)
                for row, other in zip(values, others, strict=True)
            )
            / trials
        )
    return shares


def coverage_cells(
    trials: int, seed: int, families: Sequence[Family] = FAMILIES
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Every cell of the grid: samples, processes, coverage by design."""
    for family in families:
        medians = draw_medians(family, trials=trials, rounds=ROUNDS, seed=seed)
        for name, differ in PROCESSES.items():
            generator = np.random.default_rng([seed, list(PROCESSES).index(name)])
            yield family.name, name, cover(medians + differ(generator, medians.shape))


def coverage(trials: int, seed: int) -> None:
    """Print the grid as a table; where something slow moves runs measured apart is left out, for their data can't
    tell.
    """
    slow = {family.name for family in FAMILIES if family.slow}
    found: list[float] = []
    for index, (samples, processes, shares) in enumerate(coverage_cells(trials, seed)):
        if not index:
            print("| samples | processes | " + " | ".join(shares) + " |\n|---|---|" + "--:|" * len(shares))
        cells = []
        for design, share in shares.items():
            fair = not (design.startswith("apart") and samples in slow)
            found += [share] if fair else []
            cells.append(f"{100 * share:.1f}" if fair else "–")
        print(f"| {samples} | {processes} | " + " | ".join(cells) + " |", flush=True)
    slack = 2.0 * math.sqrt(0.95 * 0.05 / trials)
    low, high = sum(share < 0.93 for share in found), sum(share > 0.97 for share in found)
    print(
        f"\n{len(found)} cells: {100 * min(found):.1f} – {100 * max(found):.1f} %, mean {100 * np.mean(found):.2f} %;"
    )
    print(f"below 93 %: {low}, above 97 %: {high} (two standard errors of a cell: {100 * slack:.1f} points)")


# -- errors ------------------------------------------------------------------------------------------------------------

Verdicts = dict[str, np.ndarray]


def rule_on(samples: np.ndarray, planted: float, *, tests: int = TESTS) -> tuple[Judged, Verdicts]:
    """Return what everybody says of trials.

    Args:
        samples: shape (trials, rounds, 2, samples), the same distribution on both sides.
        planted: relative slowdown of B.
    """
    a, b = samples[:, :, 0], samples[:, :, 1] * (1.0 + planted)
    ours = judge(np.log(np.median(b, axis=-1) / np.median(a, axis=-1)), tests=tests)
    return ours, {name: rule(a, b) for name, rule in PEERS.items()}


class Tally:
    """Counts of what everybody said under one planted slowdown."""

    def __init__(self, planted: float) -> None:
        self.planted = planted
        self.counts: dict[str, int] = {}
        self.trials = self.undecided = 0
        self.pairs: list[int] = []

    def add(self, ours: Judged, others: Verdicts) -> None:
        """One batch of trials."""
        for name, verdicts in {"edgewise": ours.verdict, **others}.items():
            told = verdicts == 1 if self.planted else np.isin(verdicts, (-1, 1))
            self.counts[name] = self.counts.get(name, 0) + int(told.sum())
        self.trials += len(ours.verdict)
        self.undecided += int((ours.verdict == UNDECIDED).sum())
        self.pairs += ours.pairs.tolist()

    def row(self) -> str:
        """Cells of the table: ours with its interval, how long it took, theirs."""
        ours, *others = self.counts.values()
        pairs = f"{np.median(self.pairs):.0f} / {np.percentile(self.pairs, 95):.0f}"
        cells = [percent(ours, self.trials), f"{100 * self.undecided / self.trials:.1f}", pairs]
        return " | ".join(cells + [f"{100 * count / self.trials:.1f}" for count in others])


def error_rates(family: Family, processes: str, *, trials: int, seed: int) -> list[Tally]:
    """Tallies of one cell, for each of `PLANTED`; all of the same samples."""
    generator = np.random.default_rng([seed, FAMILIES.index(family), list(PROCESSES).index(processes)])
    tallies = [Tally(planted) for planted in PLANTED]
    for begin in range(0, trials, CHUNK):
        shape = (min(CHUNK, trials - begin), ROUNDS)
        samples = family.draw(generator, shape) * np.exp(PROCESSES[processes](generator, (*shape, 2, 1)))
        for tally in tallies:
            tally.add(*rule_on(samples, tally.planted))
    return tallies


def print_tallies(rows: Sequence[tuple[str, Sequence[Tally]]]) -> None:
    """Print a table for each planted slowdown."""
    for index, planted in enumerate(PLANTED):
        what = f"a slowdown of {100 * planted:g} %: caught" if planted else "the same on both sides: false alarms"
        print(f"\n{what}, in %\n")
        print("| noise | edgewise | undecided | pairs, median / 95 % | " + " | ".join(PEERS) + " |")
        print("|---|--:|--:|--:|" + "--:|" * len(PEERS))
        for name, tallies in rows:
            print(f"| {name} | {tallies[index].row()} |", flush=True)


def errors(trials: int, seed: int) -> None:
    """Print the tables of errors."""
    known = {family.name: family for family in FAMILIES}
    rows = [
        (f"{samples}; processes {processes}", error_rates(known[samples], processes, trials=trials, seed=seed))
        for samples, processes in CELLS
    ]
    print_tallies(rows)


SECTIONS = {"constants": (constants, 40_000), "coverage": (coverage, 2000), "errors": (errors, 2000)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="?", default="all", choices=[*SECTIONS, "all"])
    parser.add_argument("--trials", type=int, help="per cell")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name, (section, trials) in SECTIONS.items():
        if arguments.section in (name, "all"):
            begin = time.perf_counter()
            print(f"\n## {name}\n")
            section(arguments.trials or trials, arguments.seed)
            print(f"\n{time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
