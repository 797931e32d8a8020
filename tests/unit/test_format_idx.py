"""IDX files: MNIST's own layout, pairs of files, and headers that lie."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import open_data
from edgewise.evaluating.formats.idx import Idx
from messages import says

FASHION = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts it."""
CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def encode(array: np.ndarray) -> bytes:
    code = CODES[array.dtype.str[1:]]
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write(folder: Path, stem: str, images: np.ndarray, labels: np.ndarray | None, *, packed: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    ending = "-ubyte.gz" if packed else "-ubyte"
    pack = gzip.compress if packed else bytes
    file = folder / f"{stem}-images-idx{images.ndim}{ending}"
    file.write_bytes(pack(encode(images)))
    if labels is not None:
        (folder / f"{stem}-labels-idx1{ending}").write_bytes(pack(encode(labels)))
    return file


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    return rng.integers(0, 256, (count, 5, 4), np.uint8), rng.integers(0, 10, count).astype(np.uint8)


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_as_mnist_has_it(tmp_path: Path, packed: bool):
    train, test = digits(6), digits(3)
    write(tmp_path, "train", *train, packed=packed)
    write(tmp_path, "t10k", *test, packed=packed)
    splits = open_data(str(tmp_path))
    assert {name: (len(split), split.kind, split.labelled) for name, split in splits.items()} == {
        "train": (6, "image", True), "test": (3, "image", True),
    }  # fmt: skip
    for index in range(3):
        sample = splits["test"].read(index)
        assert np.array_equal(sample.data, test[0][index][:, :, None])
        assert (sample.data.dtype, sample.label) == (np.uint8, test[1][index])
        assert sample.name.startswith("t10k-images-idx3-ubyte") and sample.name.endswith(f"[{index}]")


def test_one_file_finds_its_labels(tmp_path: Path):
    images, labels = digits(4)
    file = write(tmp_path, "t10k", images, labels)
    (split,) = Idx().open(file, {}).values()
    assert (split.split, split.read(3).label) == ("test", labels[3])
    (tmp_path / "t10k-labels-idx1-ubyte").rename(tmp_path / "t10k-labels.idx1-ubyte")
    (split,) = Idx().open(file, {}).values()
    assert split.labelled
    (tmp_path / "t10k-labels.idx1-ubyte").unlink()
    (split,) = Idx().open(file, {}).values()
    assert (split.labelled, split.read(3).label) == (False, None)


def test_the_file_that_is_named_is_the_one_that_is_read(tmp_path: Path):
    images, labels = digits(4)
    write(tmp_path, "train", images[:2], None, packed=True)
    write(tmp_path, "train", images.reshape(4, 20), None)
    (split,) = Idx().open(write(tmp_path, "train", images, labels), {}).values()
    assert np.array_equal(split.read(3).data[:, :, 0], images[3])


def test_several_data_sets_in_one_folder(tmp_path: Path):
    for name in ("emnist-letters", "emnist-digits"):
        write(tmp_path, f"{name}-train", *digits(2 + len(name)))
        write(tmp_path, f"{name}-test", *digits(2))
    with pytest.raises(BadInput, match=says("holds-data-sets", prefixes_count=2)) as caught:
        Idx().open(tmp_path, {})
    assert "emnist-digits, emnist-letters" in caught.value.advice
    splits = Idx().open(tmp_path, {"prefix": "emnist-letters"})
    assert {name: len(split) for name, split in splits.items()} == {"train": 16, "test": 2}
    with pytest.raises(BadInput, match=says("holds-no-files", wanted="other")):
        Idx().open(tmp_path, {"prefix": "other"})


@pytest.mark.parametrize("packed", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hnp.arrays(
        st.sampled_from(["<u1", "<i1", "<i2", "<i4", "<f4", "<f8"]),
        hnp.array_shapes(min_dims=1, max_dims=4, max_side=4),
        elements={"allow_nan": False},
    )
)
def test_every_row_comes_back(tmp_path: Path, packed: bool, array: np.ndarray):
    (split,) = Idx().open(write(tmp_path / "d", "train", array, None, packed=packed), {}).values()
    assert len(split) == len(array)
    for index, row in enumerate(array):
        found = split.read(index).data
        assert np.array_equal(found.reshape(np.shape(row)), row)
        assert found.dtype == array.dtype


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", says("does-not-begin-like-idx")),
        (b"\0\0\x08", says("does-not-begin-like-idx")),
        (b"PK\x03\x04" + bytes(40), says("does-not-begin-like-idx")),
        (b"\0\0\x07\x03" + bytes(12), says("does-not-begin-like-idx")),
        (b"\0\0\x08\x00", says("declares-dimensions", magic=0)),
        (b"\0\0\x08\xff" + bytes(4 * 255), says("declares-dimensions", magic=255)),
        (b"\0\0\x08\x03\0\0", says("what-damaged-error")),
        (b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1), says("would-unpack-bytes")),
        (b"\0\0\x08\x03" + struct.pack(">3I", 10, 28, 28) + bytes(28 * 28 * 9), says("declares-bytes", promised=7856)),
        (b"\0\0\x08\x03" + struct.pack(">3I", 1, 2, 2) + bytes(5), "it declares 20 bytes and has 21"),
    ],
)
def test_headers_that_lie(tmp_path: Path, content: bytes, message: str, packed: bool):
    file = tmp_path / f"train-images-idx3-ubyte{'.gz' if packed else ''}"
    file.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(BadInput, match=message) as caught:
        Idx().open(file, {})
    assert file.name in caught.value.message


@pytest.mark.parametrize("keep", [0, 5, 30, 0.5, 0.99])
def test_a_packed_file_that_was_cut_off(tmp_path: Path, keep: float):
    file = write(tmp_path, "train", *digits(50), packed=True)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep) if keep < 1 else int(keep)])
    with pytest.raises(BadInput, match=says("what-damaged-error")):
        Idx().open(file, {})


def test_a_packed_file_with_flipped_bits(tmp_path: Path):
    file = write(tmp_path, "train", *digits(500), packed=True)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(BadInput, match=says("what-damaged-error")):
        Idx().open(file, {})["train"].read(0)


def test_a_packed_file_that_unpacks_to_more_than_it_says(tmp_path: Path):
    """The size at the end of a gzip file is that of its last part only."""
    file = write(tmp_path, "train", *digits(5), packed=True)
    content = encode(digits(5)[0])
    file.write_bytes(gzip.compress(bytes(10)) + gzip.compress(content))
    with pytest.raises(BadInput, match=says("does-not-begin-like-idx")):
        Idx().open(file, {})
    file.write_bytes(gzip.compress(content[:50]) + gzip.compress(bytes(10**6)) + gzip.compress(content))
    with pytest.raises(BadInput, match=says("more-data-than-bytes-declares")):
        Idx().open(file, {})["train"].read(0)


def test_labels_that_do_not_fit(tmp_path: Path):
    images, labels = digits(4)
    with pytest.raises(BadInput, match=says("shape-samples", name="train-labels-idx1-ubyte", shape="[3]")):
        Idx().open(write(tmp_path, "train", images, labels[:3]), {})
    with pytest.raises(
        BadInput, match=says("label-class-0-more-in-labels", place="train-labels-idx1-ubyte[1]", values=-2)
    ):
        Idx().open(write(tmp_path, "train", images, np.array([0, -2, 3, 4], np.int32)), {})
    with pytest.raises(BadInput, match=says("labels-fractions")):
        Idx().open(write(tmp_path, "train", images, np.zeros(4, np.float32)), {})


def test_nothing_there(tmp_path: Path):
    write(tmp_path, "train", *digits(2)).unlink()
    with pytest.raises(BadInput, match=says("no-idx-files-images")):
        Idx().open(tmp_path, {})
    with pytest.raises(BadInput, match=says("labels-only")):
        Idx().open(tmp_path / "train-labels-idx1-ubyte", {})
    with pytest.raises(BadInput, match=says("not-idx-file")):
        Idx().open(tmp_path / "train-images-idx3-ubyte", {})
    with pytest.raises(BadInput, match=says("data-format-no-option", name="split")):
        Idx().open(tmp_path, {"split": "train"})


def test_the_stamp_follows_both_files(tmp_path: Path):
    images, labels = digits(4)
    file = write(tmp_path, "train", images, labels)
    before = Idx().open(file, {})["train"].stamp()
    assert Idx().open(file, {})["train"].stamp() == before
    write(tmp_path, "train", images, labels[::-1])
    assert Idx().open(file, {})["train"].stamp() != before


@pytest.mark.skipif(not FASHION.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
def test_fashion_mnist():
    splits = open_data(str(FASHION))
    assert {name: len(split) for name, split in splits.items()} == {"train": 60_000, "test": 10_000}
    counts = np.bincount([splits["test"].read(index).label for index in range(10_000)])
    assert counts.tolist() == [1000] * 10
    assert splits["test"].read(0).data.shape == (28, 28, 1)
    assert splits["test"].read(0).label == 9
