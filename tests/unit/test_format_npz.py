"""NumPy archives: splits, kinds, labels, rows read one by one, and files that lie."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgewise.data import path as bundled
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, choose_split, open_data
from edgewise.evaluating.formats.npz import Npz
from messages import says


def save(tmp_path: Path, *, packed: bool = False, **arrays) -> Path:
    file = tmp_path / "data.npz"
    (np.savez_compressed if packed else np.savez)(file, **arrays)
    return file


def open_one(file: Path, **options: str):
    (split,) = Npz().open(file, options).values()
    return split


def test_the_bundled_digits_are_found_by_their_name():
    splits = open_data(str(bundled("digits_test.npz")))
    data = choose_split(splits, None, ("test", "all"))
    with np.load(bundled("digits_test.npz")) as raw:
        assert (data.format, data.split, data.kind, data.labelled, len(data)) == ("npz", "all", "array", True, 540)
        for index in (0, 17, 539):
            sample = data.read(index)
            assert np.array_equal(sample.data, raw["x"][index])
            assert sample.data.dtype == np.uint8
            assert sample.label == raw["y"][index]
            assert sample.name == f"x[{index}]"


@pytest.mark.parametrize("packed", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    x=hnp.arrays(
        st.sampled_from(["<f4", ">f4", "<f2", "i1", "u1", ">i2", "<i8", "bool"]),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4),
        elements={"allow_nan": False, "allow_infinity": False},
    ),
    fortran=st.booleans(),
)
def test_every_row_comes_back(tmp_path: Path, packed: bool, x: np.ndarray, fortran: bool):
    data = open_one(save(tmp_path, packed=packed, x=np.asfortranarray(x) if fortran else x), kind="array")
    assert len(data) == len(x)
    for index, row in enumerate(x):
        found = data.read(index).data
        assert np.array_equal(found, row)
        assert found.dtype == x.dtype.newbyteorder("=")
        assert found.shape == np.shape(row)


def test_splits_by_name(tmp_path: Path):
    file = save(
        tmp_path, x_train=np.zeros((6, 2)), y_train=np.arange(6), x_test=np.ones((3, 2)), y_test=np.arange(3),
        x_val=np.full((2, 2), 2.0), y_val=np.arange(2), x_calibration=np.full((4, 2), 3.0),
    )  # fmt: skip
    splits = Npz().open(file, {})
    assert {name: (len(split), split.labelled) for name, split in splits.items()} == {
        "train": (6, True), "test": (3, True), "validation": (2, True), "calibration": (4, False),
    }  # fmt: skip
    assert splits["test"].read(2).name == "x_test[2]"
    assert splits["validation"].read(0).data.tolist() == [2, 2]
    assert splits["calibration"].read(0).label is None


@pytest.mark.parametrize(
    ("x", "options", "kind", "shape"),
    [
        (np.zeros((2, 5, 4, 3), np.uint8), {}, "image", (5, 4, 3)),
        (np.zeros((2, 5, 4, 1), np.uint8), {}, "image", (5, 4, 1)),
        (np.zeros((2, 3, 5, 6), np.uint8), {}, "array", (3, 5, 6)),
        (np.zeros((2, 5, 4), np.uint8), {}, "array", (5, 4)),
        (np.zeros((2, 5, 4), np.uint8), {"kind": "image"}, "image", (5, 4, 1)),
        (np.zeros((2, 5, 4, 3), np.uint8), {"kind": "array"}, "array", (5, 4, 3)),
        (np.zeros((2, 5, 4, 3), np.float32), {}, "array", (5, 4, 3)),
        (np.zeros((2, 100), np.float32), {"kind": "audio"}, "audio", (100, 1)),
        (np.zeros((2, 100, 2), np.int16), {"kind": "audio", "rate": "16000"}, "audio", (100, 2)),
    ],
)
def test_kinds(tmp_path: Path, x, options, kind, shape):
    data = open_one(save(tmp_path, x=x), **options)
    assert data.kind == kind
    assert data.read(1).data.shape == shape


def test_whole_number_sound_is_scaled_and_knows_its_rate(tmp_path: Path):
    file = save(tmp_path, x=np.array([[-(2**15), 0, 2**14]], np.int16), sample_rate=np.array(8000))
    sample = open_one(file, kind="audio").read(0)
    assert sample.data.tolist() == [[-1.0], [0.0], [0.5]]
    assert sample.data.dtype == np.float32
    assert sample.rate == 8000


def test_several_inputs_by_name(tmp_path: Path):
    file = save(tmp_path, left=np.arange(6).reshape(3, 2), right=np.arange(3.0), labels=np.array([1, 0, 1]))
    sample = open_one(file).read(2)
    assert sorted(sample.data) == ["left", "right"]
    assert sample.data["left"].tolist() == [4, 5]
    assert sample.data["right"].tolist() == 2.0
    assert sample.label == 1
    assert sample.name == "left[2]"
    assert open_one(file, inputs="left").read(2).data.tolist() == [4, 5]


@pytest.mark.parametrize(
    ("y", "options", "label", "classes"),
    [
        (np.array([2, 0], np.uint8), {}, 2, ()),
        (np.array([[2], [0]]), {}, 2, ()),
        (np.array([[0, 0, 1], [1, 0, 0]], np.float32), {}, 2, ()),
        (np.array([2.0, 0.0]), {}, 2.0, ()),
        (np.array([2.0, 0.0]), {"label_kind": "class"}, 2, ()),
        (np.array([-2, 0]), {"label_kind": "float"}, -2.0, ()),
        (np.array([True, False]), {}, 1, ()),
        (np.array(["cat", "ant"]), {}, 1, ("ant", "cat")),
        (np.array(["a cat", "an ant"]), {"label_kind": "text"}, "a cat", ()),
    ],
)
def test_labels(tmp_path: Path, y, options, label, classes):
    data = open_one(save(tmp_path, x=np.zeros((2, 2)), y=y), **options)
    found = data.read(0).label
    assert found == label
    assert type(found) is type(label)
    assert tuple(data.classes) == classes


def test_labels_of_several_numbers_and_masks(tmp_path: Path):
    values = open_one(save(tmp_path, x=np.zeros((2, 2)), y=np.array([[0.5, 2], [3, 4]]))).read(1).label
    assert values.tolist() == [3, 4]
    mask = np.arange(8).reshape(2, 2, 2)
    assert open_one(save(tmp_path, x=np.zeros((2, 2, 2, 3)), y=mask)).read(1).label.tolist() == [[4, 5], [6, 7]]
    data = open_one(save(tmp_path, x=np.zeros((2, 2, 2, 3)), y=mask - 5))
    with pytest.raises(CorruptSample, match=r"x\[0\]: its label holds the class -5"):
        data.read(0)


def test_texts_and_names_of_classes(tmp_path: Path):
    data = open_one(save(tmp_path, x=np.array(["good", "bad"]), y=[1, 0], classes=np.array(["no", "yes"])))
    assert (data.kind, data.read(0).data, data.classes) == ("text", "good", ("no", "yes"))


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (
            {"x": np.zeros((2, 2)), "y": np.array([0, -1])},
            {},
            says("label-class-0-more-in-labels", place="x[1]", values=-1),
        ),
        ({"x": np.zeros((2, 2)), "y": np.array([0, np.nan])}, {}, says("label-not-finite-in-labels", place="x[1]")),
        (
            {"x": np.zeros((2, 2)), "y": np.array([0, 0.5])},
            {"label_kind": "class"},
            says("label-which-not-class-in-labels", place="x[1]", flat="0.5"),
        ),
        (
            {"x": np.zeros((2, 2)), "y": np.arange(3)},
            {},
            says("samples-labels", entry_count=2, first="x", y_count=3, name_2="y"),
        ),
        ({"y": np.arange(3)}, {}, says("holds-no-array-x-holds")),
        ({"arr_0": np.zeros(3), "arr_1": np.zeros(3)}, {}, says("arrays-no-names")),
        ({"a": np.zeros(3), "b": np.zeros(4)}, {}, says("arrays-different-lengths", sizes="a 3, b 4")),
        ({"x": np.array(3)}, {}, says("one-number-not-array-samples")),
        ({"x": np.zeros((2, 3), complex)}, {}, "values of the type complex128"),
        ({"x": np.zeros((2, 3))}, {"kind": "image"}, says("per-sample-not-image")),
        ({"x": np.zeros((2, 3, 3, 3))}, {"kind": "audio"}, says("per-sample-not-waveform")),
        ({"x": np.zeros((2, 3))}, {"kind": "audio", "rate": "fast"}, says("not-sampling-rate")),
        ({"x": np.zeros((2, 3))}, {"lable": "y"}, says("data-format-no-option", name="lable")),
        ({"x": np.zeros((2, 3))}, {"label": "z"}, says("no-array-in-npz", name_2="z")),
        ({"x": np.zeros((2, 3))}, {"kind": "video"}, says("data-option-cant", name="kind", value="video")),
    ],
)
def test_what_is_refused(tmp_path: Path, arrays, options, message):
    with pytest.raises(BadInput, match=message) as caught:
        Npz().open(save(tmp_path, **arrays), options)
    assert caught.value.advice


def write_entry(tmp_path: Path, header: str, data: bytes = b"", *, packed: bool = True) -> Path:
    text = header.encode().ljust(118) + b"\n"
    file = tmp_path / "data.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
    return file


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4)}",
            says("declares-bytes-data", size="16000000000000"),
        ),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}", "can't be read|declares"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", says("python-objects-which-never-unpickled")),
        ("__import__('os').system('false')", says("no-array-numpy-format")),
        ("{" * 100, says("no-array-numpy-format")),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: str, message: str, packed: bool):
    with pytest.raises(BadInput, match=message):
        Npz().open(write_entry(tmp_path, header, bytes(32), packed=packed), {})


def test_python_objects_are_never_unpickled(tmp_path: Path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "unpickled",))

    objects = np.empty(1, object)
    objects[0] = Evil()
    file = tmp_path / "data.npz"
    np.savez(file, x=objects)
    with pytest.raises(BadInput, match=says("python-objects-which-never-unpickled")):
        Npz().open(file, {})
    assert not (tmp_path / "unpickled").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("edgewise.workload.arrays.MAX_FILE_BYTES", 10_000)
    with pytest.raises(BadInput, match=says("would-unpack-bytes-arrays")):
        Npz().open(save(tmp_path, packed=True, x=np.zeros((2, 10_000))), {})


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.95])
def test_a_file_that_was_cut_off(tmp_path: Path, keep: float):
    file = save(tmp_path, x=np.arange(4000.0).reshape(1000, 4), y=np.arange(1000))
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep) if keep < 1 else int(keep)])
    with pytest.raises(BadInput):
        Npz().open(file, {})


def test_a_file_that_is_cut_off_later_is_named(tmp_path: Path):
    file = save(tmp_path, x=np.arange(4000.0).reshape(1000, 4))
    data = open_one(file)
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(BadInput, match=says("what-damaged-error", what="data.npz, array 'x'")):
        data.read(999)


def test_flipped_bits_of_packed_data_are_found(tmp_path: Path):
    file = save(tmp_path, packed=True, x=np.random.default_rng(0).integers(0, 255, (50, 50)))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(BadInput, match=says("what-damaged-error")):
        open_one(file).read(0)


def test_no_file_and_no_archive(tmp_path: Path):
    with pytest.raises(BadInput, match=says("not-there")):
        Npz().open(tmp_path / "none.npz", {})
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(BadInput, match=says("not-npz-file")):
        Npz().open(tmp_path / "text.npz", {})
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(BadInput, match=says("not-written-numpy-not-npy")):
        Npz().open(tmp_path / "other.npz", {})


def test_rows_are_read_without_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = open_one(save(tmp_path, x=np.arange(300_000.0).reshape(1000, 300)))
    read = []
    original = io.BufferedReader.read

    class Counting(io.BufferedReader):
        def read(self, size=-1):
            got = original(self, size)
            read.append(len(got))
            return got

    monkeypatch.setattr(Path, "open", lambda self, mode: Counting(io.FileIO(self)))
    assert data.read(999).data[-1] == 299_999
    assert sum(read) == 300 * 8


def test_the_stamp_follows_the_file_and_the_reading(tmp_path: Path):
    file = save(tmp_path, x=np.zeros((2, 3, 3), np.uint8))
    before = open_one(file).stamp()
    assert open_one(file).stamp() == before
    assert open_one(file, kind="image").stamp() != before
    os.utime(file, (1, 1))
    assert open_one(file).stamp() != before
