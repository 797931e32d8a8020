"""Steps on sound against scipy, and conventions of other libraries by their published formulas."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.audio_features import (
    cosine_transform,
    filter_bank,
    from_mel,
    magnitudes,
    resample,
    taper,
    to_mel,
)  # fmt: skip
from edgewise.evaluating.dataset import CorruptSample
from edgewise.evaluating.sound_check import guess_rate
from edgewise.evaluating.steps_audio import set_length
from messages import has, says, wording
from preparations import apply, prepare, prepare_flags, preparer, sample

NOISE = np.random.default_rng(3).standard_normal(4000).astype(np.float32)


@pytest.mark.parametrize(
    ("source", "target"),
    [(48000, 16000), (44100, 16000), (8000, 16000), (16000, 11025), (22050, 44100), (16000, 15999)],
)
def test_resampling_is_scipys(source, target):
    signal = pytest.importorskip("scipy.signal", reason="scipy is the oracle")
    common = np.gcd(source, target)
    expected = signal.resample_poly(NOISE.astype(np.float64), target // common, source // common)
    found = resample(NOISE, source, target)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5


def test_resampling_keeps_channels_and_constants_apart():
    both = np.stack([NOISE, -NOISE], axis=1)
    found = resample(both, 48000, 16000)
    assert found.shape == (1334, 2)
    assert np.array_equal(found[:, 0], -found[:, 1])
    assert resample(NOISE, 8000, 8000) is NOISE
    with pytest.raises(ValueError, match=says("ratio-up-down")):
        resample(NOISE, 767_999, 768_000)


def test_the_rate_step():
    wave = NOISE[:, None]
    array, _ = prepare(wave, "mono", "rate=8000", rate=16000, shape=(1, 2000), kind="audio")
    assert np.array_equal(array[0], resample(NOISE, 16000, 8000))
    known = apply(NOISE, "rate", **{"to": 8000, "from": 16000})
    assert np.array_equal(known, resample(NOISE, 16000, 8000))
    with pytest.raises(BadInput, match=says("needs-sampling-rate-which-not")):
        apply(NOISE, "rate", to=8000)
    with pytest.raises(CorruptSample, match=says("frames-per-second-not-sampling")):
        apply(NOISE, "rate", to=8000, rate=0)
    with pytest.raises(CorruptSample, match="ratio"):
        apply(NOISE, "rate", to=768_000, rate=767_999)


def test_rates_that_differ_need_a_rate_step():
    found = preparer(shape=(1, 8), kind="audio")
    found.prepare(sample(NOISE[:8], name="a.wav", rate=16000))
    with pytest.raises(
        BadInput,
        match=says(
            "name-name-2-other",
            name="b.wav",
            have=says("frames-per-second", rate=8000),
            name_2="a.wav",
            other=has("16000"),
        ),
    ) as caught:
        found.prepare(sample(NOISE[:8], name="b.wav", rate=8000))
    assert prepare_flags(caught.value.advice) == ["rate=16000", "length=8"]
    both = preparer("rate=16000", "length=8", shape=(1, 8), kind="audio")
    both.prepare(sample(NOISE[:8], rate=16000))
    both.prepare(sample(NOISE[:8], rate=8000))


def test_mono_is_the_mean():
    stereo = np.array([[1, 0], [0.5, 0.25]], dtype=np.float32)
    assert apply(stereo, "mono").tolist() == [0.5, 0.375]
    assert apply(stereo[:, 0], "mono").tolist() == [1, 0.5]
    with pytest.raises(BadInput, match=says("needs-real-numbers")):
        apply(np.array([1, 2], dtype=np.int16), "mono")
    with pytest.raises(BadInput, match=says("shape-not-sound-frames-channels")):
        apply(np.zeros((2, 2, 2)), "mono")


def test_lengths():
    wave = np.arange(1, 6)
    assert set_length(wave, 7, centre=False).tolist() == [1, 2, 3, 4, 5, 0, 0]
    assert set_length(wave, 8, centre=True).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert set_length(wave, 2, centre=False).tolist() == [1, 2]
    assert set_length(wave, 2, centre=True).tolist() == [2, 3]
    assert apply(wave[:, None], "length", frames=2, keep="centre").shape == (2, 1)


def test_mel_scales():
    assert to_mel(np.array([0.0, 700.0]), "htk") == pytest.approx([0, 2595 * np.log10(2)])
    # Slaney: 1 kHz is mel 15, and 27 steps above it are 6.4 kHz.
    assert to_mel(np.array([0.0, 500.0, 1000.0, 6400.0]), "slaney") == pytest.approx([0, 7.5, 15, 42])
    hertz = np.linspace(0, 8000, 100)
    for scale in ("htk", "slaney"):
        assert from_mel(to_mel(hertz, scale), scale) == pytest.approx(hertz, abs=1e-9)


def test_tapers_are_scipys():
    signal = pytest.importorskip("scipy.signal", reason="scipy is the oracle")
    for kind in ("hann", "hamming"):
        assert taper(kind, 400) == pytest.approx(signal.get_window(kind, 400, fftbins=True), abs=1e-15)
    assert taper("none", 3).tolist() == [1, 1, 1]


def test_cosine_transforms_are_scipys():
    fft = pytest.importorskip("scipy.fft", reason="scipy is the oracle")
    values = np.random.default_rng(0).standard_normal((7, 40))
    assert cosine_transform(values, 13, scaling="ortho") == pytest.approx(
        fft.dct(values, norm="ortho")[:, :13], abs=1e-12
    )
    # TensorFlow: dct (type II) × rsqrt(2 N), https://www.tensorflow.org/api_docs/python/tf/signal/mfccs_from_log_mel_spectrograms
    assert cosine_transform(values, 13, scaling="htk") == pytest.approx(
        fft.dct(values)[:, :13] / np.sqrt(80), abs=1e-12
    )


def triangle(places, left, middle, right):
    return np.interp(places, [left, middle, right], [0, 1, 0], left=0, right=0)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_filter_banks_by_interpolation(scale):
    bins = np.arange(257) * 16000 / 512
    mels = np.linspace(to_mel(np.float64(20), scale), to_mel(np.float64(4000), scale), 12)
    hertz = from_mel(mels, scale)
    common = {"bands": 10, "fft": 512, "rate": 16000, "low": 20.0, "high": 4000.0, "scale": scale}
    plain = filter_bank(**common, triangles="hertz", area=False)
    area = filter_bank(**common, triangles="hertz", area=True)
    mel = filter_bank(**common, triangles="mel", area=False)
    for band in range(10):
        expected = triangle(bins, *hertz[band : band + 3])
        assert plain[:, band] == pytest.approx(expected, abs=1e-12)
        assert area[:, band] == pytest.approx(expected * 2 / (hertz[band + 2] - hertz[band]), abs=1e-12)
        assert mel[:, band] == pytest.approx(triangle(to_mel(bins, scale), *mels[band : band + 3]), abs=1e-9)


def test_magnitudes_are_scipys():
    signal = pytest.importorskip("scipy.signal", reason="scipy is the oracle")
    found = magnitudes(NOISE, window=400, step=160, fft=512, kind="hann", edges="cut")
    assert found.shape == (1 + (4000 - 400) // 160, 257)
    window = signal.get_window("hann", 400)
    for frame in (0, 11, len(found) - 1):
        part = NOISE[frame * 160 : frame * 160 + 400].astype(np.float64) * window
        assert found[frame] == pytest.approx(np.abs(np.fft.rfft(part, 512)), abs=1e-9)
    # Centred windows: scipy.signal.stft with boundary="zeros" pads by half a window; scaled back from its spectrum.
    centred = magnitudes(NOISE, window=512, step=128, fft=512, kind="hann", edges="zero")
    _, _, expected = signal.stft(
        NOISE.astype(np.float64), window="hann", nperseg=512, noverlap=384, boundary="zeros", padded=False, scaling="spectrum"
    )  # fmt: skip
    sums = signal.get_window("hann", 512).sum()
    assert centred[: expected.shape[1]] == pytest.approx(np.abs(expected.T) * sums, abs=1e-4)
    reflected = magnitudes(NOISE, window=512, step=128, fft=512, kind="hann", edges="reflect")
    assert reflected.shape == centred.shape == (1 + 4000 // 128, 257)
    assert reflected[10] == pytest.approx(centred[10])
    assert not np.allclose(reflected[0], centred[0])


def test_a_short_window_is_centred_in_its_transform():
    click = np.zeros(600)
    click[256] = 1.0
    # Only the window centred at the click, at its top, sees it in full.
    found = magnitudes(click, window=100, step=256, fft=512, kind="hann", edges="zero")
    assert found[1] == pytest.approx(np.ones(257))
    assert found[0] == pytest.approx(np.zeros(257))


def test_mfcc_by_hand():
    fft = pytest.importorskip("scipy.fft", reason="scipy is the oracle")
    signal = pytest.importorskip("scipy.signal", reason="scipy is the oracle")
    wave = np.random.default_rng(8).uniform(-1, 1, 16000).astype(np.float32)
    flag = "mfcc={window_ms: 30, step_ms: 20, mels: 40, low: 20, high: 4000, power: 1, triangles: mel, dct: htk, coefficients: 10}"
    array, _ = prepare(wave, flag, rate=16000, shape=(1, 49, 10, 1), kind="audio")
    frames = np.stack([wave[at : at + 480] for at in range(0, 16000 - 480 + 1, 320)]).astype(np.float64)
    spectrum = np.abs(fft.rfft(frames * signal.get_window("hann", 480), 512))
    mel_of_bin = 1127.0 * np.log1p(np.arange(257) * 31.25 / 700)  # TensorFlow writes the same scale with ln
    edges = np.linspace(1127.0 * np.log1p(20 / 700), 1127.0 * np.log1p(4000 / 700), 42)
    bank = np.stack([triangle(mel_of_bin, *edges[band : band + 3]) for band in range(40)], axis=1)
    expected = fft.dct(np.log(spectrum @ bank + 1e-6))[:, :10] / np.sqrt(80)
    assert array[0, ..., 0] == pytest.approx(expected, abs=2e-3)
    assert array.dtype == np.float32


def test_log_mel_in_decibel():
    wave = np.random.default_rng(8).uniform(-1, 1, 8000)
    settings = {"window_ms": 64, "step_ms": 32, "mels": 16}
    plain = apply(wave, "log_mel", rate=16000, log="none", **settings)
    assert plain.shape == (1 + (8000 - 1024) // 512, 16)
    decibel = apply(wave, "log_mel", rate=16000, log="decibel", offset=1e-9, **settings)
    assert decibel == pytest.approx(10 * np.log10(plain + 1e-9), abs=1e-4)
    natural = apply(wave, "log_mel", rate=16000, **settings)
    assert natural == pytest.approx(np.log(plain + 1e-6), abs=1e-4)
    magnitude = apply(wave, "log_mel", rate=16000, log="decibel", power=1, offset=1e-9, **settings)
    assert magnitude == pytest.approx(20 * np.log10(apply(wave, "log_mel", rate=16000, log="none", power=1, **settings) + 1e-9), abs=1e-4)  # fmt: skip


GOOD = {"window_ms": 30, "step_ms": 20, "mels": 40}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": 4000, "high": 300}, says("hz-hz-not-range")),
        ({"high": 9000}, says("hz-not-within-half-sampling")),
        ({"fft": 256}, says("windows-frames-every-transform-not", rate=16000)),
        ({"step_ms": 0.001}, says("windows-frames-every-transform-not", rate=16000)),
        ({"window_ms": 1e9}, says("windows-frames-every-transform-not")),
        ({"offset": 0}, says("silence-no-logarithm")),
        ({"power": 3}, says("where-setting-raw", setting="power", raw=3)),
        ({"coefficients": 41}, says("mfcc-coefficients-need-many-mels", coefficients=41)),
    ],
)
def test_settings_that_make_no_sense(change, message):
    with pytest.raises(BadInput, match=message):
        apply(NOISE, "mfcc", rate=16000, **{**GOOD, "coefficients": 10, **change})


def test_sound_that_can_not_be_used():
    with pytest.raises(CorruptSample, match=says("too-short")):
        apply(NOISE[:100], "log_mel", rate=16000, **GOOD)
    with pytest.raises(CorruptSample, match=says("too-short")):
        apply(NOISE[:200], "log_mel", rate=16000, edges="reflect", **GOOD)
    with pytest.raises(BadInput, match=says("sample-shape-channels", shape=2)):
        apply(np.stack([NOISE, NOISE], axis=1), "log_mel", rate=16000, **GOOD)
    with pytest.raises(BadInput, match=says("needs-sampling-rate-which-not")):
        apply(NOISE, "log_mel", **GOOD)
    with pytest.raises(BadInput) as caught:
        prepare(NOISE[:, None], shape=(1, 16000), rate=16000, kind="audio")
    assert caught.value.advice.startswith(wording("prepare-length-log-mel-mfcc", prod=16000))


@pytest.mark.parametrize(
    ("frames", "rate", "wanted", "guess"),
    [
        (16000, 16000, 16000, None),  # fills the input
        (14000, 16000, 16000, None),  # a second of it, padded
        (15600, 16000, 15600, None),
        (160000, 16000, 15600, None),
        (44100, 44100, 16000, 16000),
        (48000, 48000, 16000, 16000),
        (8000, 8000, 16000, 16000),
        (16000, 16000, 8000, 8000),
        (48000, 16000, 144000, 48000),
        (57330, 44100, 16000, 16000),  # 1.3 s: no rate fills the input, and its own is no whole number of milliseconds
        (16000, 44100, 16000, None),
    ],
)
def test_the_rate_of_a_model_is_guessed_from_the_length_of_its_input(frames, rate, wanted, guess):
    assert guess_rate(frames, rate, wanted) == guess


def test_features_and_open_lengths_tell_that_the_rate_is_assumed():
    mel = "log_mel={window_ms: 25, step_ms: 10, mels: 40, high: 4000}"
    for steps, changes in (((), ("fed at their own 16000 Hz, as no step sets a rate",)), (("rate=16000",), ())):
        found = preparer(*steps, mel, shape=(1, 23, 40), kind="audio")
        assert found.prepare(sample(NOISE[:4000, None], rate=16000))[1].changes == changes


def test_sound_for_an_input_of_two_channels_is_not_mixed_down():
    found = preparer(shape=(1, 4000, 2), kind="audio")
    (array,), _ = found.prepare(sample(np.stack([NOISE, -NOISE], axis=1), rate=16000))
    assert np.array_equal(array[0, :, 0], -array[0, :, 1])
    with pytest.raises(BadInput, match=says("name-name-2-other", have="1 channel", name_2="a.wav", other="2 channels")):
        found = preparer(shape=(1, 4000, 2), kind="audio")
        found.prepare(sample(np.stack([NOISE, NOISE], axis=1), name="a.wav", rate=16000))
        found.prepare(sample(NOISE[:, None], name="b.wav", rate=16000))
