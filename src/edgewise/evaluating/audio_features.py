"""From waveforms to features: resampling, mel filter banks, MFCC. Pure functions on numpy arrays.

Conventions differ between libraries, and a network needs those that it was trained with, so each is a setting.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from edgewise.workload.arrays import Array

MAX_RATIO = 200_000
"""Of sampling rates in lowest terms: what bounds the filter."""

_CROSSINGS = 10
_BETA = 5.0
_BLOCK_ITEMS = 2**21


@lru_cache(maxsize=8)
def _make_polyphase(up: int, down: int) -> Array:
    """Return the filter of a resampler by phase: [phase][tap], float64.

    A sinc at the lower of the two Nyquist frequencies under a Kaiser window (β = 5), 10 zero crossings to each side,
    its sum scaled to `up`: the default of scipy.signal.resample_poly.
    """
    widest = max(up, down)
    half = _CROSSINGS * widest
    places = np.arange(-half, half + 1)
    taps = np.sinc(places / widest) * np.kaiser(2 * half + 1, _BETA)
    taps *= up / taps.sum()
    count = 2 * half // up + 1
    # Row p begins at tap 2·half − up + 1 + p and goes down in steps of `up`.
    index = np.arange(2 * half - up + 1, 2 * half + 1)[:, None] - up * np.arange(count)
    return np.where(index >= 0, taps[np.maximum(index, 0)], 0.0)


def resample(wave: Array, source: int, target: int) -> Array:
    """Resample `wave` (frames[, channels]) from `source` to `target` frames per second: ceil(frames × target / source).

    Band-limited (see `_make_polyphase`); before its beginning and after its end there is silence. Float32. Raises
    ValueError: the ratio in lowest terms is above `MAX_RATIO`.
    """
    common = gcd(source, target)
    up, down = target // common, source // common
    if up == down:
        return wave.astype(np.float32, copy=False)
    if max(up, down) > MAX_RATIO:
        raise ValueError(f"a ratio of {up}:{down}")
    table = _make_polyphase(up, down)
    count = table.shape[1]
    half = _CROSSINGS * max(up, down)
    frames = wave.shape[0]
    columns = wave.reshape(frames, -1).astype(np.float64)
    padded = np.concatenate([np.zeros((count, columns.shape[1])), columns, np.zeros((count + 1, columns.shape[1]))])
    windows = np.lib.stride_tricks.sliding_window_view(padded, count, axis=0)
    length = -(-frames * up // down)
    out = np.empty((length, columns.shape[1]), dtype=np.float32)
    block = max(1, _BLOCK_ITEMS // (count * columns.shape[1]))
    for start in range(0, length, block):
        places = np.arange(start, min(start + block, length), dtype=np.int64) * down
        first = -((half - places) // up)  # the first frame that the filter reaches
        phase = places + half - first * up - (2 * half - up + 1)
        out[start : start + len(places)] = np.einsum("mcj,mj->mc", windows[first + count], table[phase])
    return out.reshape(length, *wave.shape[1:])


def to_mel(hertz: Array, scale: str) -> Array:
    """Return frequencies on a mel scale.

    ``htk``: 2595 log₁₀(1 + f / 700) (The HTK Book, 5.4). ``slaney``: linear to 1 kHz, 3 f / 200, and 27 steps per
    factor of 6.4 above (M. Slaney, Auditory Toolbox, 1998).
    """
    if scale == "htk":
        return 2595.0 * np.log10(1.0 + hertz / 700.0)
    above = 15.0 + np.log(np.maximum(hertz, 1000.0) / 1000.0) * (27.0 / np.log(6.4))
    return np.where(hertz < 1000.0, hertz * 3.0 / 200.0, above)


def from_mel(mel: Array, scale: str) -> Array:
    """Return the inverse of `to_mel`, Hz."""
    if scale == "htk":
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    return np.where(mel < 15.0, mel * 200.0 / 3.0, 1000.0 * np.exp((mel - 15.0) * (np.log(6.4) / 27.0)))


@lru_cache(maxsize=8)
def filter_bank(
    *, bands: int, fft: int, rate: int, low: float, high: float, scale: str, triangles: str, area: bool
) -> Array:
    """Return weights of a mel filter bank, [bin][band], float64, for the fft // 2 + 1 bins of a spectrum.

    Band i rises from edge i to edge i + 1 and falls to edge i + 2; edges are evenly spaced in mel from `low` to `high`.

    Args:
        triangles: their sides are straight in ``hertz`` (librosa, torchaudio) or in ``mel`` (TensorFlow, which also
            leaves out the bin of 0 Hz).
        area: divide each by half its width in Hz (librosa's ``norm="slaney"``).
    """
    bins = np.arange(fft // 2 + 1) * (rate / fft)
    ends = to_mel(np.array([low, high], dtype=np.float64), scale)
    edges = np.linspace(ends[0], ends[1], bands + 2)
    places = bins
    in_hertz = from_mel(edges, scale)
    if triangles == "mel":
        places = to_mel(bins, scale)
    else:
        edges = in_hertz
    rise = (places[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - places[:, None]) / (edges[2:] - edges[1:-1])
    weights: Array = np.maximum(0.0, np.minimum(rise, fall))
    if triangles == "mel":
        weights[0] = 0.0
    if area:
        weights = weights * (2.0 / (in_hertz[2:] - in_hertz[:-2]))
    return weights


def taper(kind: str, length: int) -> Array:
    """Return a periodic window, float64: ``hann`` 0.5 − 0.5 cos(2πn/N), ``hamming`` 0.54 − 0.46 cos(2πn/N), or ones."""
    angle = np.cos(2 * np.pi * np.arange(length) / length)
    ground = {"hann": 0.5, "hamming": 0.54, "none": 1.0}[kind]
    return ground - (1.0 - ground) * angle


def magnitudes(wave: Array, *, window: int, step: int, fft: int, kind: str, edges: str) -> Array:
    """Return magnitudes of the short-time Fourier transform of `wave`, (1 + (frames − window) // step, fft // 2 + 1).

    Args:
        window, step, fft: frames; the window is no longer than the transform.
        edges: ``cut``: the first window begins at the first frame and the last ends within the wave. ``zero`` and
            ``reflect``: window i is centred at frame i × step, the wave continued so at both ends by fft // 2.

    Raises ValueError: the wave is too short for one window, or for being reflected.
    """
    shape = taper(kind, window)
    length = window
    if edges != "cut":
        around = fft // 2
        if edges == "reflect" and wave.shape[0] <= around:
            raise ValueError(f"{wave.shape[0]} frames are too few to be reflected by {around}")
        wave = np.pad(wave, around, mode="constant" if edges == "zero" else "reflect")
        left = (fft - window) // 2
        shape = np.pad(shape, (left, fft - window - left))
        length = fft
    if wave.shape[0] < length:
        raise ValueError(f"{wave.shape[0]} frames are fewer than one window of {length}")
    frames = np.lib.stride_tricks.sliding_window_view(wave.astype(np.float64), length)[::step]
    return np.abs(np.fft.rfft(frames * shape, n=fft, axis=1))


def cosine_transform(values: Array, count: int, *, scaling: str) -> Array:
    """Return the first `count` coefficients of the DCT-II along the last axis of `values` (…, N).

    X_k = s_k Σ x_n cos(π k (2n + 1) / 2N), with s_k = √(2/N) (``htk``, as TensorFlow), and for ``ortho``
    s_0 = √(1/N), all others √(2/N).
    """
    size = values.shape[-1]
    angles = np.pi / (2 * size) * np.outer(2 * np.arange(size) + 1, np.arange(count))
    basis = np.cos(angles) * np.sqrt(2.0 / size)
    if scaling == "ortho":
        basis[:, 0] /= np.sqrt(2.0)
    return np.asarray(values @ basis)
