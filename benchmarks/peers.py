"""How others tell whether B differs from A, on arrays of many trials at once.

Every rule takes the samples of A and of B, shape (trials, processes, samples), and returns for each trial whether it
calls B different: −1 (lower), 0 (no difference told) or 1 (higher). Each looks at the processes its tool would start.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from edgewise.stats.distributions import t_quantile

PYPERF_PROCESSES, PYPERF_VALUES = 20, 3
HYPERFINE_RUNS = 10
REPETITIONS = 9
THRESHOLD = 0.03

Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _signed(different: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(different, np.sign(b - a), 0).astype(int)


def _blocks(samples: np.ndarray, count: int) -> np.ndarray:
    """Means of `count` blocks of the last axis, as a loop that times many calls at once gives them."""
    size = samples.shape[-1] // count
    return samples[..., : size * count].reshape(*samples.shape[:-1], count, size).mean(-1)


def welch(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Welch's t-test at 5 % on the samples of one process each."""
    one, other = a[:, 0], b[:, 0]
    parts = [values.var(-1, ddof=1) / values.shape[-1] for values in (one, other)]
    error = np.sqrt(parts[0] + parts[1])
    centres = one.mean(-1), other.mean(-1)
    # Hundreds of samples: Satterthwaite's degrees are at least those of one side, and t is normal to 1 %.
    critical = t_quantile(0.975, one.shape[-1] - 1)
    return _signed(np.abs(centres[1] - centres[0]) > critical * error, *centres)


def pyperf(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`pyperf compare_to`: Student's t with pooled variance at 95 % on 3 values of each of 20 processes, pooled.

    Source: pyperf/_utils.py, `is_significant`; all 60 values count as independent.
    """
    one, other = (_blocks(side[:, :PYPERF_PROCESSES], PYPERF_VALUES).reshape(len(side), -1) for side in (a, b))
    count = one.shape[-1]
    pooled = (one.var(-1, ddof=1) + other.var(-1, ddof=1)) / 2.0
    centres = one.mean(-1), other.mean(-1)
    score = np.abs(centres[1] - centres[0]) / np.sqrt(pooled * 2.0 / count)
    return _signed(score >= t_quantile(0.975, 2 * count - 2), *centres)


def hyperfine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the ± of *B ran 1.05 ± 0.02 times faster than A* leaves 1 out; 10 runs of each.

    Source: hyperfine's relative_speed.rs: the standard deviations, propagated to the ratio of the means.
    """
    one, other = (side[:, :HYPERFINE_RUNS].mean(-1) for side in (a, b))
    centres = one.mean(-1), other.mean(-1)
    spreads = [values.std(-1, ddof=1) / centre for values, centre in zip((one, other), centres, strict=True)]
    ratio = np.maximum(*centres) / np.minimum(*centres)
    return _signed(ratio - 1.0 > ratio * np.hypot(*spreads), *centres)


def u_test(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Google benchmark's `compare.py`: Mann and Whitney's U at 5 % on 9 repetitions of one process each.

    The normal approximation with continuity, as SciPy takes it beyond 8 repetitions; means don't tie.
    Source: benchmark/tools/gbench/report.py, `calc_utest`.
    """
    one, other = (_blocks(side[:, 0], REPETITIONS) for side in (a, b))
    u = (other[:, :, None] > one[:, None, :]).sum((1, 2))
    centre, spread = REPETITIONS**2 / 2.0, math.sqrt(REPETITIONS**2 * (2 * REPETITIONS + 1) / 12.0)
    different = (np.abs(u - centre) - 0.5) / spread >= 1.959963984540054
    return _signed(different, np.full(len(u), centre), u)


def threshold(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """More than 3 % between the medians of one process each."""
    one, other = (np.median(side[:, 0], axis=-1) for side in (a, b))
    return _signed(np.abs(other / one - 1.0) > THRESHOLD, one, other)


PEERS: dict[str, Rule] = {
    "Welch's t, one process": welch,
    "pyperf, 20 processes": pyperf,
    "hyperfine, 10 runs": hyperfine,
    "U test, 9 repetitions": u_test,
    "3 % of medians": threshold,
}
