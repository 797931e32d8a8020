"""Steps for audio: waveforms of (frames,) or (frames, channels), real numbers with 1 as full scale."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.audio_features import cosine_transform, filter_bank, magnitudes, resample
from edgewise.evaluating.dataset import CorruptSample, Kind
from edgewise.evaluating.step_settings import (
    LOWER_CASE,
    MAX_FRAMES,
    MAX_RATE,
    Item,
    NotNegative,
    Positive,
    Step,
    YesNo,
    to_number,
)
from edgewise.workload.arrays import Array

_KINDS: tuple[Kind, ...] = ("audio", "array")
_MAX_FFT = 2**16
_MAX_FEATURES = 2**25
"""Numbers that the spectrum of one sample may take."""


def set_length(wave: Array, frames: int, *, centre: bool) -> Array:
    """Return `wave` (frames, …) with exactly `frames` frames: silence is appended, or the end cut off.

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
            f"{item.sample} has shape {list(data.shape)}, not a sound of (frames[, channels])",
            advice=f"put {what} before steps that change the shape",
        )
    if data.dtype.kind != "f":
        raise BadInput(
            f"{item.sample} is {data.dtype}: {what} needs real numbers", advice="convert them: ⟦prepare=scale=1/32768⟧"
        )


def _rate_of(item: Item, what: str) -> int:
    if item.rate is None:
        raise BadInput(
            f"{what} needs the sampling rate of {item.sample}, which is not known",
            advice="give it: ⟦prepare⟧ 'rate={to: 16000, from: 16000}'",
        )
    return item.rate


_Frames = Annotated[int, Field(ge=1, le=MAX_FRAMES)]
_Rate = Annotated[int, Field(ge=1, le=MAX_RATE)]


class Mono(Step, name="mono", takes=_KINDS):
    """The mean of the channels."""

    def _apply(self, item: Item) -> None:
        _check_wave(item, "mono")
        if item.data.ndim == 2:
            item.data = item.data.mean(axis=1, dtype=item.data.dtype)


class Rate(Step, name="rate", main="to", takes=_KINDS):
    """Resample."""

    to: _Rate = Field(description="frames per second")
    source: _Rate | None = Field(None, alias="from", description="frames per second of data that has no rate")

    def _apply(self, item: Item) -> None:
        _check_wave(item, "rate")
        source = self.source if item.rate is None and self.source is not None else _rate_of(item, "rate")
        if not 1 <= source <= MAX_RATE:
            raise CorruptSample(item.sample, f"{source} frames per second is not a sampling rate")
        if item.data.shape[0] * self.to / source > MAX_FRAMES:
            raise CorruptSample(item.sample, f"it would have more than {MAX_FRAMES} frames at {self.to} per second")
        try:
            item.data = resample(item.data, source, self.to)
        except ValueError as error:
            raise CorruptSample(
                item.sample, f"{source} frames per second can't be brought to {self.to}: {error}"
            ) from error
        item.rate = self.to


class Length(Step, name="length", main="frames", takes=_KINDS):
    """Cut, or append silence."""

    frames: _Frames = Field(description="number of frames")
    keep: Annotated[Literal["start", "centre"], LOWER_CASE] = Field("start", description="what is kept")

    def _apply(self, item: Item) -> None:
        if item.data.ndim == 0:
            raise BadInput(f"{item.sample} is one number, which has no length", advice="leave the length step out")
        if item.data.shape[0] > self.frames:
            item.changes.append(f"cut to {self.frames} frames")
        item.data = set_length(item.data, self.frames, centre=self.keep == "centre")


class _Mel(Step):
    """Settings of a mel spectrum."""

    window_ms: Positive = Field(description="length of a window, ms, rounded to frames")
    step_ms: Positive = Field(description="from one window to the next, ms, rounded to frames")
    mels: Annotated[int, Field(ge=1, le=1024)] = Field(description="bands")
    fft: Annotated[int, Field(ge=2, le=_MAX_FFT)] | None = Field(
        None, description="length of the transform, frames; by default the next power of 2 from the window"
    )
    window: Annotated[Literal["hann", "hamming", "none"], LOWER_CASE] = Field(
        "hann", description="periodic window function"
    )
    edges: Annotated[Literal["cut", "zero", "reflect"], LOWER_CASE] = Field(
        "cut", description="whole windows only (TensorFlow), or centred ones with the wave continued (librosa)"
    )
    low: NotNegative = Field(0, description="lowest frequency, Hz")
    high: Positive | None = Field(None, description="highest frequency, Hz; by default half the sampling rate")
    scale: Annotated[Literal["htk", "slaney"], LOWER_CASE] = Field("htk", description="mel scale")
    triangles: Annotated[Literal["hertz", "mel"], LOWER_CASE] = Field(
        "hertz", description="sides straight in Hz (librosa, torchaudio) or in mel (TensorFlow)"
    )
    area: YesNo = Field(False, description="divide bands by half their width (librosa's norm)")
    power: Annotated[int, Field(ge=1, le=2)] = Field(2, description="of magnitudes: 1 or 2")
    log: Annotated[Literal["natural", "decibel", "none"], LOWER_CASE] = Field(
        "natural", description="ln(x + offset), 20 / power · log10(x + offset), or x"
    )
    offset: NotNegative = Field(1e-6, description="added before the logarithm")

    def _check(self) -> None:
        low, high = to_number(self.low), None if self.high is None else to_number(self.high)
        if high is not None and high <= low:
            raise BadInput(
                f"{self.name} from {low:g} Hz to {high:g} Hz is not a range", advice="low must be below high"
            )
        if self.log != "none" and to_number(self.offset) == 0:
            raise BadInput(f"{self.name}: silence has no logarithm", advice="give an offset above 0, such as 1e-6")

    def spectrum(self, item: Item) -> Array:
        """Return the mel spectrum of a waveform, (frames, bands), as its logarithm if `log` names one."""
        _check_wave(item, self.name)
        rate = _rate_of(item, self.name)
        wave = item.data
        if wave.ndim == 2:
            if wave.shape[1] != 1:
                raise BadInput(f"{item.sample} has {wave.shape[1]} channels", advice="add ⟦prepare⟧ mono before")
            wave = wave[:, 0]
        window, step, fft, low, high = self._frames(rate)
        if (wave.shape[0] // step + 1) * fft > _MAX_FEATURES:
            raise CorruptSample(item.sample, f"its spectrum would have more than {_MAX_FEATURES} numbers")
        try:
            found = magnitudes(wave, window=window, step=step, fft=fft, kind=self.window, edges=self.edges)
        except ValueError as error:
            raise CorruptSample(item.sample, f"it is too short: {error}") from error
        bank = filter_bank(
            bands=self.mels, fft=fft, rate=rate, low=low, high=high, scale=self.scale,
            triangles=self.triangles, area=self.area,
        )  # fmt: skip
        bands: Array = (found**2 if self.power == 2 else found) @ bank
        if self.log == "none":
            return bands
        bands = bands + to_number(self.offset)
        return np.asarray(np.log(bands) if self.log == "natural" else 20.0 / self.power * np.log10(bands))

    def _frames(self, rate: int) -> tuple[int, int, int, float, float]:
        """Return window, step and transform in frames, lowest and highest frequency, Hz. Raises `BadInput`."""
        window, step = (round(rate * to_number(value) / 1000) for value in (self.window_ms, self.step_ms))
        fft = 1 << max(0, window - 1).bit_length() if self.fft is None else self.fft
        if step < 1 or window < 2 or not window <= fft <= _MAX_FFT:
            raise BadInput(
                f"{self.name}: windows of {window} frames every {step} with a transform of {fft} are not possible at "
                f"{rate} frames per second",
                advice=f"step ≥ 1, 2 ≤ window ≤ fft ≤ {_MAX_FFT}",
            )
        low, high = to_number(self.low), rate / 2 if self.high is None else to_number(self.high)
        if high <= low or high > rate / 2:
            raise BadInput(
                f"{self.name}: {low:g} to {high:g} Hz is not within half the sampling rate, {rate / 2:g} Hz",
                advice="lower high, or resample with rate before",
            )
        return window, step, fft, low, high


class LogMel(_Mel, name="log_mel", takes=_KINDS, gives="array", real=True):
    """Mel spectrum, its logarithm."""

    def _apply(self, item: Item) -> None:
        item.data = self.spectrum(item).astype(np.float32)


class Mfcc(_Mel, name="mfcc", takes=_KINDS, gives="array", real=True):
    """Mel-frequency cepstral coefficients."""

    coefficients: Annotated[int, Field(ge=1, le=1024)] = Field(description="number of coefficients, from the first")
    dct: Annotated[Literal["ortho", "htk"], LOWER_CASE] = Field(
        "ortho", description="scaling: orthonormal, or all alike (TensorFlow)"
    )

    def _check(self) -> None:
        super()._check()
        if self.coefficients > self.mels:
            raise BadInput(
                f"mfcc: {self.coefficients} coefficients need as many mels, and there are {self.mels}",
                advice="coefficients ≤ mels",
            )

    def _apply(self, item: Item) -> None:
        features = cosine_transform(self.spectrum(item), self.coefficients, scaling=self.dct)
        item.data = features.astype(np.float32)


STEPS: tuple[type[Step], ...] = (Mono, Rate, Length, LogMel, Mfcc)
