"""Do the intervals of accuracy metrics hold what they claim, and is "no difference" seldom denied where there is none?

    python benchmarks/intervals_accuracy.py [--trials 250] [--resamples 399] [--seed 1]

Everything is drawn from populations whose true value is known. *Shares*: Wilson's interval beside the textbook's
(value ± 1.96 standard errors), exact sums over all outcomes. *Pairs of shares*: McNemar's tests and Fay and
Lumbard's interval, exact too. *Bootstraps*: BCa, which `evaluate` quotes for values, and plain percentiles, which it
quotes for paired differences, from the same resamples. Targets: 95 % ± 2, false alarms of a test at 5 % no more than
6 %. What misses is marked.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import numpy as np

from edgewise.evaluating.tasks.anomaly import AnomalyTable
from edgewise.evaluating.tasks.classification import ClassificationTable
from edgewise.evaluating.tasks.regression import RegressionTable
from edgewise.stats.proportions import mcnemar_exact, paired_interval, wilson_interval
from edgewise.stats.resampling import Resampler, bootstrap, joint_groups, percentiles

LOW, HIGH = 0.93, 0.97
ALPHA, MOST_ALARMS = 0.05, 0.06
SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)
SIZES = (20, 50, 100, 540)


def binomial(n: int, share: float) -> np.ndarray:
    """P(X = k), k = 0 … n."""
    logs = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
    k = np.arange(n + 1)
    return np.exp(np.array(logs) + k * math.log(share) + (n - k) * math.log1p(-share))


def shares() -> Iterator[str]:
    yield "| n | true share | Wilson | textbook |"
    yield "|---|---|---|---|"
    for n in SIZES:
        scores = [wilson_interval(k, n) for k in range(n + 1)]
        walds = [(k / n - 1.96 * (s := math.sqrt(k / n * (1 - k / n) / n)), k / n + 1.96 * s) for k in range(n + 1)]
        for share in SHARES:
            chance = binomial(n, share)
            wilson, wald = (
                sum(float(p) for p, (low, high) in zip(chance, ends, strict=True) if low <= share <= high)
                for ends in (scores, walds)
            )
            yield f"| {n} | {share:.0%} | {mark(wilson)} | {mark(wald)} |"


def pairs() -> Iterator[str]:
    yield (
        "| n | B alone right | A alone right | Fay and Lumbard's interval | false alarms, exact | false alarms, mid-p |"
    )
    yield "|---|---|---|---|---|---|"
    for n in (30, 100, 300):
        for gain, loss in ((0.02, 0.02), (0.1, 0.1), (0.25, 0.25), (0.1, 0.03), (0.2, 0.05)):
            inside = exact = middle = 0.0
            either = binomial(n, gain + loss)
            for discordant in range(n + 1):
                if either[discordant] < 1e-7:
                    continue
                for gained, chance in enumerate(binomial(discordant, gain / (gain + loss))):
                    weight = float(either[discordant] * chance)
                    if weight < 1e-8:
                        continue
                    lost = discordant - gained
                    low, high = paired_interval(lost, gained, n)
                    inside += weight * (low <= gain - loss <= high)
                    exact += weight * (mcnemar_exact(lost, gained) <= ALPHA)
                    middle += weight * (mid_p(lost, gained) <= ALPHA)
            alarms = f"{alarm(exact)} | {alarm(middle)}" if gain == loss else "– | –"
            yield f"| {n} | {gain:.0%} | {loss:.0%} | {mark(inside)} | {alarms} |"


def mid_p(lost: int, gained: int) -> float:
    """McNemar's exact p-value less half the probability of what was seen: nearer to its level, seldom a little above.

    Source: M. W. Fagerland, S. Lydersen, P. Laake, "The McNemar test for binary matched-pairs data: mid-p and
    asymptotic are better than exact conditional", BMC Medical Research Methodology 13:91 (2013).
    """
    seen = math.comb(lost + gained, lost) / 2 ** (lost + gained)
    return 1.0 if lost == gained else mcnemar_exact(lost, gained) - seen


Trial = tuple[float, np.ndarray, Callable[[np.ndarray], float]]
"""Value of the samples, groups of samples, and the statistic of counts."""


def matrix(classes: int, accuracy: float, *, skewed: bool) -> np.ndarray:
    """Probabilities of (label, answer): the rarer the class, where skewed, the worse it is known."""
    prior = np.linspace(1.0, 0.2, classes) if skewed else np.ones(classes)
    prior /= prior.sum()
    right = np.linspace(min(1.0, accuracy + 0.05), accuracy - 0.05, classes)
    found = np.outer(prior * (1 - right) / (classes - 1), np.ones(classes))
    np.fill_diagonal(found, prior * right)
    return found


def classification_values(chances: np.ndarray) -> Mapping[str, float]:
    """Return the metrics of the whole population."""
    classes = chances.shape[0]
    labels, answers = (each.ravel() for each in np.indices(chances.shape))
    table = ClassificationTable(labels, answers, np.zeros_like(labels), classes=classes)
    counts = np.bincount(table.groups, weights=chances.ravel())
    return table.values_of(counts)


def draw_classes(rng: np.random.Generator, chances: np.ndarray, n: int) -> ClassificationTable:
    classes = chances.shape[0]
    drawn = rng.choice(classes * classes, size=n, p=chances.ravel())
    return ClassificationTable(drawn // classes, drawn % classes, np.zeros(n, dtype=np.intp), classes=classes)


def classification(metric: str, classes: int, accuracy: float, n: int) -> tuple[str, float, Callable[..., Trial]]:
    chances = matrix(classes, accuracy, skewed=True)

    def trial(rng: np.random.Generator) -> Trial:
        table = draw_classes(rng, chances, n)
        return table.values()[metric], table.groups, lambda counts: table.values_of(counts)[metric]

    return f"{metric}, {classes} classes, accuracy {accuracy:.0%}, n {n}", classification_values(chances)[metric], trial


def auroc(separation: float, share: float, n: int) -> tuple[str, float, Callable[..., Trial]]:
    def trial(rng: np.random.Generator) -> Trial:
        labels = rng.random(n) < share
        labels[:2] = (True, False)
        table = AnomalyTable(labels, rng.normal(size=n) + separation * labels, threshold=None)
        return table.values()["auroc"], np.arange(n), lambda counts: table.values(counts)["auroc"]

    truth = 0.5 * math.erfc(-separation / 2.0)
    return f"auroc {truth:.3f}, {share:.0%} anomalies, n {n}", truth, trial


def rmse(n: int) -> tuple[str, float, Callable[..., Trial]]:
    def trial(rng: np.random.Generator) -> Trial:
        labels = rng.normal(size=(n, 1))
        table = RegressionTable(labels + rng.laplace(size=(n, 1)), labels)
        return table.values()["rmse"], np.arange(n), lambda counts: table.values(counts)["rmse"]

    return f"rmse, heavy-tailed errors, n {n}", math.sqrt(2.0), trial


def paired_f1(classes: int, n: int, *, worse: float) -> tuple[str, float, Callable[..., Trial]]:
    """B answers as A but for a tenth of the samples, which it answers anew, and `worse` more, which it guesses."""
    chances, guess = matrix(classes, 0.85, skewed=True), np.full(classes, 1.0 / classes)
    labels = chances.sum(axis=1, keepdims=True)
    changed = chances * (1 - worse) + worse * labels * guess
    truth = classification_values(changed)["f1_macro"] - classification_values(chances)["f1_macro"]

    def trial(rng: np.random.Generator) -> Trial:
        a = draw_classes(rng, chances, n)
        codes = np.array([rng.choice(classes, size=n, p=row / row.sum()) for row in chances])
        right, answers = table_columns(a)
        fresh = np.where(rng.random(n) < 0.1, codes[right, np.arange(n)], answers)
        guessed = np.where(rng.random(n) < worse, rng.integers(0, classes, n), fresh)
        b = ClassificationTable(right, guessed, np.zeros(n, dtype=np.intp), classes=classes)
        groups, of_a, of_b = joint_groups(a.groups, b.groups)
        sizes = int(a.groups.max()) + 1, int(b.groups.max()) + 1

        def gap(counts: np.ndarray) -> float:
            first = a.values_of(np.bincount(of_a, weights=counts, minlength=sizes[0]))
            second = b.values_of(np.bincount(of_b, weights=counts, minlength=sizes[1]))
            return second["f1_macro"] - first["f1_macro"]

        return gap(np.bincount(groups).astype(float)), groups, gap

    return f"paired gap of f1_macro, {classes} classes, true gap {truth:+.3f}, n {n}", truth, trial


def paired_auroc(n: int) -> tuple[str, float, Callable[..., Trial]]:
    """Two models that see the same and add noise of their own."""

    def trial(rng: np.random.Generator) -> Trial:
        labels = rng.random(n) < 0.3
        labels[:2] = (True, False)
        seen = rng.normal(size=n) + 1.5 * labels
        a, b = (AnomalyTable(labels, seen + 0.3 * rng.normal(size=n), threshold=None) for _ in range(2))

        def gap(counts: np.ndarray) -> float:
            return b.values(counts)["auroc"] - a.values(counts)["auroc"]

        return gap(np.ones(n)), np.arange(n), gap

    return f"paired gap of auroc, true gap 0, n {n}", 0.0, trial


def table_columns(table: ClassificationTable) -> tuple[np.ndarray, np.ndarray]:
    """Labels and answers, sample by sample, back from the groups."""
    rows = [(label, answer) for label, row in enumerate(table.confusion()) for answer, k in enumerate(row) if k]
    columns = np.array(rows)
    return columns[table.groups, 0], columns[table.groups, 1]


def bootstraps(trials: int, resamples: int, seed: int) -> Iterator[str]:
    yield "| statistic | quoted | BCa | percentiles | false alarms | mean width |"
    yield "|---|---|---|---|---|---|"
    cells = (
        classification("f1_macro", 3, 0.8, 60), classification("f1_macro", 10, 0.9, 540),
        classification("accuracy_balanced", 10, 0.9, 540),
        auroc(1.5, 0.5, 60), auroc(1.5, 0.1, 200), auroc(2.5, 0.2, 200), rmse(50), rmse(300),
        paired_f1(5, 150, worse=0.0), paired_f1(10, 540, worse=0.0), paired_f1(10, 540, worse=0.05), paired_auroc(200),
    )  # fmt: skip
    for label, truth, trial in cells:
        rng = np.random.default_rng(seed)
        paired = label.startswith("paired")
        corrected = plain = alarms = 0
        width = 0.0
        for number in range(trials):
            value, groups, statistic = trial(rng)
            resampler = Resampler(groups, seed=number)
            replicates = [statistic(counts) for counts in islice(resampler.draw(), resamples)]
            left = [(statistic(counts), many) for counts, many in resampler.leave_out(min(200, resamples // 10))]
            bca = bootstrap(value, replicates, [each for each, _ in left], [many for _, many in left])
            both = [bca.interval(), percentiles(value, replicates).interval()]
            corrected += both[0][0] <= truth <= both[0][1]
            plain += both[1][0] <= truth <= both[1][1]
            width += (both[paired][1] - both[paired][0]) / trials
            alarms += percentiles(value, replicates).p_value(of=truth) <= ALPHA
        shown = alarm(alarms / trials) if paired else "–"
        quoted = "percentiles" if paired else "BCa"
        yield (
            f"| {label} | {quoted} | {mark(corrected / trials)} | {mark(plain / trials)} | {shown} | {width:.3f} |"
        )  # fmt: skip


def mark(share: float) -> str:
    return f"{share:.1%}" + ("" if LOW <= share <= HIGH else " ✗" if share < LOW else " (wide)")


def alarm(share: float) -> str:
    return f"{share:.1%}" + ("" if share <= MOST_ALARMS else " ✗")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=250)
    parser.add_argument("--resamples", type=int, default=399)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    begin = time.process_time()
    error = 1.96 * math.sqrt(0.95 * 0.05 / chosen.trials)
    print("## Shares of samples: how often 95 % intervals hold the truth (exact)\n")
    print("\n".join(shares()))
    print("\n## Pairs of shares (exact)\n")
    print("\n".join(pairs()))
    print(f"\n## Bootstraps ({chosen.trials} trials of {chosen.resamples} resamples; ± {error:.1%} by chance)\n")
    for line in bootstraps(chosen.trials, chosen.resamples, chosen.seed):
        print(line, flush=True)
    print(f"\n{time.process_time() - begin:.0f} s of processor time")


if __name__ == "__main__":
    main()
