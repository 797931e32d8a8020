"""Recordings in class folders: what is decoded, the lists of Speech Commands, and damaged files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, open_data
from edgewise.evaluating.formats import sounds
from edgewise.evaluating.formats.wav import Wav
from messages import has, says

soundfile = pytest.importorskip("soundfile", reason="recordings need soundfile")


def write(file: Path, samples=None, *, rate: int = 16_000, **options) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(file, np.zeros(100, np.float32) if samples is None else samples, rate, **options)
    return file


def open_one(folder: Path, **options: str):
    (split,) = Wav().open(folder, options).values()
    return split


def test_class_folders(tmp_path: Path):
    for name in ("yes/b.wav", "yes/a.flac", "no/c.ogg"):
        write(tmp_path / name)
    write(tmp_path / "_background_noise_" / "hum.wav")
    data = open_one(tmp_path)
    assert (data.format, data.split, data.kind, data.labelled) == ("wav", "all", "audio", True)
    assert list(data.classes) == ["no", "yes"]
    assert [(data.read(i).name, data.read(i).label) for i in range(3)] == [
        ("no/c.ogg", 0),
        ("yes/a.flac", 1),
        ("yes/b.wav", 1),
    ]
    sample = data.read(2)
    assert (sample.data.shape, sample.data.dtype, sample.rate) == ((100, 1), np.float32, 16_000)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    samples=hnp.arrays(np.int16, st.tuples(st.integers(1, 50), st.integers(1, 3))),
    rate=st.sampled_from([8000, 16_000, 44_100]),
    ending=st.sampled_from(["wav", "flac"]),
)
def test_sixteen_bits_come_back_exactly(tmp_path: Path, samples: np.ndarray, rate: int, ending: str):
    data, found = sounds.decode_sound(write(tmp_path / f"a.{ending}", samples, rate=rate), "a")
    assert found == rate
    assert np.array_equal(data, samples / np.float32(2**15))


def test_floats_come_back_exactly_and_bytes_as_well_as_files(tmp_path: Path):
    samples = np.random.default_rng(0).normal(size=(200_000, 2)).astype(np.float32)
    file = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    assert np.array_equal(sounds.decode_sound(file, "a")[0], samples)
    assert np.array_equal(sounds.decode_sound(file.read_bytes(), "a")[0], samples)


def test_the_lists_of_speech_commands(tmp_path: Path):
    for name in ("yes/a.wav", "yes/b.wav", "no/c.wav", "no/d.wav"):
        write(tmp_path / name)
    (tmp_path / "testing_list.txt").write_text("yes/b.wav\nno/elsewhere.wav\n")
    (tmp_path / "validation_list.txt").write_text("no/d.wav\n")
    splits = open_data(str(tmp_path))
    assert {name: [(split.read(i).name, split.read(i).label) for i in range(len(split))] for name, split in splits.items()} == {
        "train": [("no/c.wav", 0), ("yes/a.wav", 1)], "test": [("yes/b.wav", 1)], "validation": [("no/d.wav", 0)],
    }  # fmt: skip
    assert splits["test"].absent == [("no/elsewhere.wav", "testing_list.txt names it, and it is not there")]
    (tmp_path / "testing_list.txt").write_text("yes/gone.wav\n")
    with pytest.raises(BadInput, match=says("none-files-names-there", root=has("testing_list.txt"))):
        Wav().open(tmp_path, {})


def test_splits_and_prefixes(tmp_path: Path):
    for name in ("train/normal_id_00_1.wav", "test/normal_id_00_2.wav", "test/anomaly_id_00_3.wav"):
        write(tmp_path / name)
    plain = Wav().open(tmp_path, {})
    assert {name: (len(split), split.labelled) for name, split in plain.items()} == {
        "train": (1, False),
        "test": (2, False),
    }
    told = Wav().open(tmp_path, {"label": "prefix"})
    assert [told["test"].read(i).label for i in range(2)] == [0, 1]
    assert (list(told["train"].classes), told["train"].read(0).label) == (["anomaly", "normal"], 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", says("not-recording-can-read")),
        (b"hello" * 20, says("not-recording-can-read")),
        (b"RIFF\x24\0\0\0WAVEfmt ", says("not-recording-can-read")),
    ],
)
def test_what_is_no_recording_is_named(tmp_path: Path, content: bytes, reason: str):
    write(tmp_path / "yes" / "a.wav")
    (tmp_path / "yes" / "b.wav").write_bytes(content)
    data = open_one(tmp_path)
    assert data.read(0).label == 0
    with pytest.raises(CorruptSample, match=reason) as caught:
        data.read(1)
    assert caught.value.name == "yes/b.wav"


def test_a_recording_that_was_cut_off_is_not_taken_for_a_shorter_one(tmp_path: Path):
    file = write(tmp_path / "a.wav", np.ones(1000, np.int16))
    whole = file.read_bytes()
    file.write_bytes(whole[:-500])
    with pytest.raises(CorruptSample, match=says("truncated-bytes-sound-there", end=1500, size=2000)):
        sounds.decode_sound(file, "a")
    # What writes into a pipe does not know the size.
    at = whole.index(b"data") + 4
    file.write_bytes(whole[:at] + struct.pack("<I", 0xFFFFFFFF) + whole[at + 4 :])
    assert len(sounds.decode_sound(file, "a")[0]) == 1000


def test_empty_and_endless_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(CorruptSample, match=says("recording-empty")):
        sounds.decode_sound(write(tmp_path / "a.wav", np.zeros(0, np.float32)), "a")
    monkeypatch.setattr(sounds, "MAX_VALUES", 1000)
    with pytest.raises(CorruptSample, match=says("longer-than-values-limit", max_values=1000)):
        sounds.decode_sound(write(tmp_path / "a.wav", np.zeros((501, 2), np.float32)), "a")
    assert len(sounds.decode_sound(write(tmp_path / "a.wav", np.zeros((500, 2), np.float32)), "a")[0]) == 500


def test_nothing_there(tmp_path: Path):
    with pytest.raises(BadInput, match=says("holds-no", what=has("WAV"))):
        Wav().open(tmp_path, {})
    with pytest.raises(BadInput, match=says("not-folder-in-folders")):
        Wav().open(tmp_path / "none", {})
    with pytest.raises(BadInput, match=says("data-option-cant", name="label", value="best")):
        Wav().open(tmp_path, {"label": "best"})


def test_the_stamp_follows_files_and_classes(tmp_path: Path):
    file = write(tmp_path / "yes" / "a.wav")
    stamps = [open_one(tmp_path).stamp(), open_one(tmp_path).stamp()]
    os.utime(file, (1, 1))
    stamps.append(open_one(tmp_path).stamp())
    (tmp_path / "yes").rename(tmp_path / "no")
    stamps.append(open_one(tmp_path).stamp())
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 3
