"""How many leading samples of a session are warm-up, found from the data.

The question is the one of Barrett et al., "Virtual machine warmup blows hot and cold" (OOPSLA 2017): at which change of
level does the steady state begin? A noisy neighbour changes the level too, in bursts that come and go, so a change
counts only where the beginning lies outside everything that windows of the same length show in the second half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from edgewise.stats.autocorrelation import Samples, checked
from edgewise.stats.summary import MAD_TO_SIGMA

LEAST = 8
"""Fewer samples have no second half to compare with; nothing is called warm-up."""

TOLERANCE = 0.01
"""A beginning within 1 % of the steady level is steady enough."""

GROWTH = 4
SIGMAS = 4.0
REFERENCE_WINDOWS = 4
BLOCKS = 16
UNSETTLED = 0.05
"""A lasting change of level by less than 5 % is left to `edgewise.stats.diagnosis.drift`."""


def warmup_length(samples: ArrayLike) -> int | None:
    """Return how many samples to drop at the beginning of one session.

    For window lengths 1, 4, 16 … the windows from the beginning on are warm-up as long as their levels differ from the
    second half's by more than 1 % and 4 robust standard deviations of its window levels (both up to five times as much
    where it has few windows), and lie outside their range. The longest prefix counts. A window's
    level is its remedian, the median of four medians of four … (Rousseeuw and Bassett, "The remedian", JASA 85, 1990).

    Args:
        samples: shape (n,), in time order, of one session.

    Returns:
        0 where there is no warm-up, at most n/2; None where no steady state was reached: the level changed once by
        more than 5 % and never came back, later than at n/2 or in the second half.

    Raises:
        BadInput: not finite, or not flat.
    """
    session = checked(samples)
    if len(session) < LEAST:
        return 0
    length, found, levels = 1, 0, session
    while len(levels) >= 2 * REFERENCE_WINDOWS:
        found = max(found, _prefix(levels) * length)
        length, levels = length * GROWTH, _window_medians(levels, GROWTH)
    if found > len(session) // 2 or _is_unsettled(session[found:]):
        return None
    return found


def _window_medians(session: Samples, length: int) -> Samples:
    count = len(session) // length
    return np.median(session[: count * length].reshape(count, length), axis=1)


def _prefix(levels: Samples) -> int:
    """Return how many leading windows lie outside what the second half's windows show, given the level of each."""
    tail = levels[len(levels) - len(levels) // 2 :]
    level = float(np.median(tail))
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(tail - level)))
    few = REFERENCE_WINDOWS / len(tail)  # so few windows know neither their spread nor the clock's resolution well
    margin = max(SIGMAS * (1.0 + 4.0 * few) * sigma, TOLERANCE * (1.0 + 4.0 * few) * abs(level))
    # Of very many windows a few may be outliers as far out as any warm-up.
    rare = 0.5 if len(tail) > 100 else 0.0
    low, high = np.percentile(tail, [rare, 100.0 - rare])
    outside = (levels > max(float(high), level + margin)) | (levels < min(float(low), level - margin))
    inside = np.flatnonzero(~outside)
    return int(inside[0]) if len(inside) else len(levels)


def _is_unsettled(session: Samples) -> bool:
    """Return whether one change splits 16 block medians into two groups without overlap, 4 at least on either side.

    In samples without order this happens with a probability of 0.4 %: 2/C(16, s), summed over the splits s.
    """
    length = len(session) // BLOCKS
    if length < 1:
        return False
    blocks = _window_medians(session[len(session) - length * BLOCKS :], length)
    level = abs(float(np.median(blocks)))
    for split in range(BLOCKS // 4, BLOCKS - BLOCKS // 4 + 1):
        before, after = blocks[:split], blocks[split:]
        apart = before.min() > after.max() or before.max() < after.min()
        if apart and abs(float(np.median(before)) - float(np.median(after))) > UNSETTLED * level:
            return True
    return False
