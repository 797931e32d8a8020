"""How much less correlated samples tell than independent ones: their long-run variance, from the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgewise.errors import BadInput

Samples: TypeAlias = NDArray[np.float64]

BATCHES = 400
"""Longer sessions are averaged into about this number of batches: slow disturbances stand out, and it is fast."""

CORRELATED = 1.3
"""Below this inflation of the variance, samples are taken as independent as far as degrees of freedom go."""


@dataclass(frozen=True, slots=True)
class LongRunVariance:
    """What correlation does to an average: its variance is ``variance / N``.

    Attributes:
        variance: the long-run variance of one sample, in its unit squared.
        degrees: degrees of freedom of that estimate.
        correlated: False where the samples may be taken as independent.
    """

    variance: float
    degrees: float
    correlated: bool


def checked(samples: ArrayLike) -> Samples:
    """Return `samples` as a flat array of finite float64. Raises `BadInput` where they are not that."""
    array = np.asarray(samples, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise BadInput(
            "samples must be a flat list of finite numbers", advice=("remove values that are not measured times")
        )
    return array


def split_sessions(samples: ArrayLike, session_lengths: Sequence[int]) -> list[Samples]:
    """Return one array per session that has samples, in order.

    Raises:
        BadInput: the lengths do not add up to the samples, or there is no sample.
    """
    array = checked(samples)
    if any(length < 0 for length in session_lengths) or sum(session_lengths) != len(array):
        raise BadInput(f"session lengths {list(session_lengths)[:10]} do not add up to {len(array)} samples")
    if not len(array):
        raise BadInput("there are no samples")
    edges = np.cumsum(session_lengths)[:-1]
    return [session for session in np.split(array, edges) if len(session)]


def autocovariance_sums(deviations: Samples, lags: int) -> Samples:
    """Σ_t d[t]·d[t + h] for h = 0 … lags − 1, shape (lags,), through one FFT padded against wrap-around."""
    size = 1 << (2 * len(deviations) - 1).bit_length()
    spectrum = np.fft.rfft(deviations, size)
    sums = np.fft.irfft(spectrum * spectrum.conj(), size)[: min(lags, len(deviations))]
    return np.pad(sums, (0, lags - len(sums)))


def _batched(sessions: Sequence[Samples]) -> tuple[list[Samples], int]:
    """Return means of consecutive batches of each session, less the session's mean, and the length of a batch."""
    length = max(1, max(map(len, sessions)) // BATCHES)
    batches = []
    for session in sessions:
        count = len(session) // length
        if count > 1:
            means = session[: count * length].reshape(count, length).mean(axis=1)
            batches.append(means - means.mean())
    return batches, length


def _correlation_time(batches: Sequence[Samples], variance: float) -> float:
    """1 + 2 Σ ρ(h), at least 1, by Geyer's initial monotone sequence.

    Sums of neighbouring autocorrelations are positive and fall for a reversible process; they are added up until noise
    makes one negative. Source: C. J. Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7 (1992), section
    3.3. It is not begun where the lag-1 autocorrelation is within one standard error of the −1/b that independent
    samples show: else a short independent series would pay for noise.
    """
    lags = max(2, max(map(len, batches)) // 3 // 2 * 2)
    total = sum(map(len, batches))
    pairs_seen = sum(np.maximum(len(batch) - np.arange(lags), 0) for batch in batches)
    sums = sum((autocovariance_sums(batch, lags) for batch in batches), start=np.zeros(lags))
    correlation = sums / np.maximum(pairs_seen, 1) / (variance * (total - len(batches)) / total)
    if correlation[1] + len(batches) / total < 1.0 / np.sqrt(total):
        return 1.0
    pairs = correlation[0::2] + correlation[1::2]
    negative = np.nonzero(pairs[1:] <= 0.0)[0]
    kept = pairs[: 1 + negative[0]] if len(negative) else pairs
    return max(1.0, float(2.0 * np.minimum.accumulate(kept).sum() - 1.0))


def long_run(sessions: Sequence[Samples]) -> LongRunVariance:
    """Return the long-run variance of one process observed in independent `sessions`, never below that of
    independent samples.

    Subtracting each session's mean removes part of the slow variation; the estimate is divided by the share that is
    left. That factor (1 − 3τ/b for b batches with correlation time τ) and the degrees of freedom (b/2τ less one per
    session, at least 3) were chosen for honest coverage and narrow intervals in `benchmarks/coverage.py`.

    Args:
        sessions: samples in time order, each of shape (n,); sessions of one sample tell nothing.
    """
    total, count = sum(map(len, sessions)), len(sessions)
    squares = sum(float(((session - session.mean()) ** 2).sum()) for session in sessions)
    independent = squares / max(1, total - count)
    batches, length = _batched(sessions)
    usable, spread = sum(map(len, batches)), sum(float((batch**2).sum()) for batch in batches)
    if independent == 0.0 or spread == 0.0 or usable - len(batches) < 3:
        return LongRunVariance(independent, float(max(1, total - count)), correlated=False)
    variance = spread / (usable - len(batches))
    time = _correlation_time(batches, variance)
    estimate, degrees = length * variance * time, float(usable - len(batches))
    correlated = time > CORRELATED
    if correlated:
        estimate /= max(0.2, 1.0 - 3.0 * time * len(batches) / usable)
        degrees = max(3.0, usable / (2.0 * time) - len(batches))
    return LongRunVariance(
        max(estimate, independent), degrees, correlated or length * variance > CORRELATED * independent
    )
