"""Steps for audio: waveforms of (frames,) or (frames, channels), real numbers with 1 as full scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Kind
from edgewise.evaluating.spectra import cosine_transform, filter_bank, magnitudes, resample
from edgewise.evaluating.step_settings import (
    MAX_FRAMES,
    MAX_RATE,
    Action,
    Choice,
    Item,
    StepKind,
    not_negative,
    one_of,
    positive,
    to_number,
    whole,
    yes_no,
)

Array = np.ndarray[Any, np.dtype[Any]]

_KINDS: tuple[Kind, ...] = ("audio", "array")
_MAX_FFT = 2**16
_MAX_FEATURES = 2**25
"""Numbers that the spectrum of one sample may take."""


def set_length(wave: Array, frames: int, *, centre: bool) -> Array:
    """`wave` (frames, …) with exactly `frames`: silence behind, or what is too much cut off behind.

    With `centre` the middle is kept, and silence goes to both sides; an odd frame goes, or is cut, behind.
    """
    have = wave.shape[0]
    if have >= frames:
        start = (have - frames) // 2 if centre else 0
        return wave[start : start + frames]
    before = (frames - have) // 2 if centre else 0
    return np.pad(wave, [(before, frames - have - before)] + [(0, 0)] * (wave.ndim - 1))


def _check_wave(item: Item, what: str) -> None:
    data = item.data
    if data.ndim not in (1, 2) or not data.size:
        raise BadInput(
            f"{item.sample} has shape {list(data.shape)}, which is no sound of (frames[, channels])",
            advice=f"put {what} before steps that change the shape",
        )
    if data.dtype.kind != "f":
        raise BadInput(
            f"{item.sample} is {data.dtype}: {what} needs real numbers",
            advice="say how they become so: --prepare scale=1/32768",
        )


def _rate_of(item: Item, what: str) -> int:
    if item.rate is None:
        raise BadInput(
            f"nobody says how many frames per second {item.sample} has, which {what} needs",
            advice="say it: --prepare 'rate={to: 16000, from: 16000}'",
        )
    return item.rate


def _build_mono(settings: Mapping[str, Any]) -> Action:
    del settings

    def mono(item: Item) -> None:
        _check_wave(item, "mono")
        if item.data.ndim == 2:
            item.data = item.data.mean(axis=1, dtype=item.data.dtype)

    return mono


def _build_rate(settings: Mapping[str, Any]) -> Action:
    to, given = settings["to"], settings["from"]

    def rate(item: Item) -> None:
        _check_wave(item, "rate")
        source = item.rate if item.rate is not None else given
        if source is None:
            _rate_of(item, "rate")
        if not 1 <= source <= MAX_RATE:
            raise CorruptSample(item.sample, f"{source} frames per second make no sense")
        if item.data.shape[0] * to / source > MAX_FRAMES:
            raise CorruptSample(item.sample, f"it would have more than {MAX_FRAMES} frames at {to} per second")
        try:
            item.data = resample(item.data, source, to)
        except ValueError as error:
            raise CorruptSample(item.sample, f"{source} frames per second can't be brought to {to}: {error}") from error
        item.rate = to

    return rate


def _build_length(settings: Mapping[str, Any]) -> Action:
    frames, centre = settings["frames"], settings["keep"] == "centre"

    def length(item: Item) -> None:
        if item.data.ndim == 0:
            raise BadInput(f"{item.sample} is one number, which has no length", advice="leave the length step out")
        item.data = set_length(item.data, frames, centre=centre)

    return length


class _MelSpectrum:
    """Waveforms → (frames, bands), logarithms of them included."""

    def __init__(self, settings: Mapping[str, Any], what: str) -> None:
        self._settings = settings
        self._what = what
        self._low = to_number(settings["low"])
        self._high = None if settings["high"] is None else to_number(settings["high"])
        self._offset = to_number(settings["offset"])
        if self._high is not None and self._high <= self._low:
            raise BadInput(
                f"{what} from {self._low:g} Hz to {self._high:g} Hz makes no sense", advice="low must be below high"
            )
        if settings["log"] != "none" and self._offset == 0:
            raise BadInput(f"{what}: silence has no logarithm", advice="give an offset above 0, such as 1e-6")

    def __call__(self, item: Item) -> Array:
        _check_wave(item, self._what)
        rate = _rate_of(item, self._what)
        wave = item.data
        if wave.ndim == 2:
            if wave.shape[1] != 1:
                raise BadInput(f"{item.sample} has {wave.shape[1]} channels", advice="add --prepare mono before")
            wave = wave[:, 0]
        window, step, fft, high = self._frames(rate)
        if (wave.shape[0] // step + 1) * fft > _MAX_FEATURES:
            raise CorruptSample(item.sample, f"its spectrum would have more than {_MAX_FEATURES} numbers")
        chosen = self._settings
        try:
            found = magnitudes(wave, window=window, step=step, fft=fft, kind=chosen["window"], edges=chosen["edges"])
        except ValueError as error:
            raise CorruptSample(item.sample, f"it is too short: {error}") from error
        if chosen["power"] == 2:
            found = found**2
        bank = filter_bank(
            bands=chosen["mels"], fft=fft, rate=rate, low=self._low, high=high, scale=chosen["scale"],
            triangles=chosen["triangles"], area=chosen["area"],
        )  # fmt: skip
        return self._logarithm(found @ bank)

    def _logarithm(self, bands: Array) -> Array:
        match self._settings["log"]:
            case "natural":
                return np.asarray(np.log(bands + self._offset))
            case "decibel":
                return np.asarray(20.0 / self._settings["power"] * np.log10(bands + self._offset))
        return bands

    def _frames(self, rate: int) -> tuple[int, int, int, float]:
        """Window, step and transform in frames, and the highest frequency. Raises `BadInput`."""
        window, step = (round(rate * to_number(self._settings[name]) / 1000) for name in ("window_ms", "step_ms"))
        fft = self._settings["fft"]
        if fft is None:
            fft = 1 << max(0, window - 1).bit_length()
        if step < 1 or window < 2 or not window <= fft <= _MAX_FFT:
            raise BadInput(
                f"{self._what}: windows of {window} frames every {step} with a transform of {fft} make no sense at "
                f"{rate} frames per second",
                advice=f"step ≥ 1, 2 ≤ window ≤ fft ≤ {_MAX_FFT}",
            )
        high = rate / 2 if self._high is None else self._high
        if high <= self._low or high > rate / 2:
            raise BadInput(
                f"{self._what}: {self._low:g} to {high:g} Hz is not within half the sampling rate, {rate / 2:g} Hz",
                advice="lower high, or resample with rate before",
            )
        return window, step, fft, high


def _build_log_mel(settings: Mapping[str, Any]) -> Action:
    spectrum = _MelSpectrum(settings, "log_mel")

    def log_mel(item: Item) -> None:
        item.data = spectrum(item).astype(np.float32)

    return log_mel


def _build_mfcc(settings: Mapping[str, Any]) -> Action:
    spectrum = _MelSpectrum(settings, "mfcc")
    count, scaling = settings["coefficients"], settings["dct"]
    if count > settings["mels"]:
        raise BadInput(
            f"mfcc: {count} coefficients can't be had from {settings['mels']} mels", advice="coefficients ≤ mels"
        )

    def mfcc(item: Item) -> None:
        item.data = cosine_transform(spectrum(item), count, scaling=scaling).astype(np.float32)

    return mfcc


def _power(value: Any) -> int:
    return int(whole(1, 2)(value))


_MEL: dict[str, Choice] = {
    "window_ms": Choice(parse=positive, meaning="length of a window, ms, rounded to frames"),
    "step_ms": Choice(parse=positive, meaning="from one window to the next, ms, rounded to frames"),
    "mels": Choice(parse=whole(1, 1024), meaning="bands"),
    "fft": Choice(parse=whole(2, _MAX_FFT), default=None,
                  meaning="length of the transform, frames; by default the next power of 2 from the window"),
    "window": Choice(parse=one_of("hann", "hamming", "none"), default="hann", meaning="periodic window function"),
    "edges": Choice(parse=one_of("cut", "zero", "reflect"), default="cut",
                    meaning="whole windows only (TensorFlow), or centred ones with the wave continued (librosa)"),
    "low": Choice(parse=not_negative, default=0, meaning="lowest frequency, Hz"),
    "high": Choice(parse=positive, default=None, meaning="highest frequency, Hz; by default half the sampling rate"),
    "scale": Choice(parse=one_of("htk", "slaney"), default="htk", meaning="mel scale"),
    "triangles": Choice(parse=one_of("hertz", "mel"), default="hertz",
                        meaning="sides straight in Hz (librosa, torchaudio) or in mel (TensorFlow)"),
    "area": Choice(parse=yes_no, default=False, meaning="divide bands by half their width (librosa's norm)"),
    "power": Choice(parse=_power, default=2, meaning="of magnitudes: 1 or 2"),
    "log": Choice(parse=one_of("natural", "decibel", "none"), default="natural",
                  meaning="ln(x + offset), 20 / power · log10(x + offset), or x"),
    "offset": Choice(parse=not_negative, default=1e-6, meaning="added before the logarithm"),
}  # fmt: skip

KINDS = (
    StepKind(name="mono", summary="the mean of the channels", settings={}, takes=_KINDS, build=_build_mono),
    StepKind(name="rate", summary="resample", main="to", takes=_KINDS, build=_build_rate,
             settings={"to": Choice(parse=whole(1, MAX_RATE), meaning="frames per second"),
                       "from": Choice(parse=whole(1, MAX_RATE), default=None,
                                      meaning="frames per second of data that does not say")}),
    StepKind(name="length", summary="cut, or add silence behind", main="frames", takes=_KINDS, build=_build_length,
             settings={"frames": Choice(parse=whole(1, MAX_FRAMES), meaning="how many"),
                       "keep": Choice(parse=one_of("start", "centre"), default="start", meaning="what is kept")}),
    StepKind(name="log_mel", summary="mel spectrum, its logarithm", takes=_KINDS, gives="array", settings=_MEL,
             build=_build_log_mel, real=True),
    StepKind(name="mfcc", summary="mel-frequency cepstral coefficients", takes=_KINDS,
             gives="array", real=True, build=_build_mfcc,
             settings={**_MEL,
                       "coefficients": Choice(parse=whole(1, 1024), meaning="how many, from the first"),
                       "dct": Choice(parse=one_of("ortho", "htk"), default="ortho",
                                     meaning="scaling: orthonormal, or all alike (TensorFlow)")}),
)  # fmt: skip
