"""Images in class folders and with masks: which there are, what they are decoded to, and damaged ones."""

from __future__ import annotations

import os
import re
import struct
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.data_options import DataOptions, select_samples
from edgewise.evaluating.dataset import CorruptSample, open_data, refuse_unlabelled
from edgewise.evaluating.formats import images
from edgewise.evaluating.formats.folders import Folders
from edgewise.evaluating.tasks.labels import LabelMapping
from messages import has, says, wording
from task_setting import context

Image = pytest.importorskip("PIL.Image", reason="images need Pillow")


def write(file: Path, *, color=(255, 0, 0), size=(6, 4), mode="RGB", **options) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(file, **options)
    return file


def open_one(folder: Path, **options: str):
    (split,) = Folders().open(folder, options).values()
    return split


def names(data) -> list[tuple[str, int | None]]:
    return [(data.files[index], data.label_of(index)) for index in range(len(data))]


def test_classes_are_sorted_folders_and_files_are_sorted_in_them(tmp_path: Path):
    for name in ("dog/b.png", "dog/a.jpg", "cat/z.bmp", "cat/deep/er/y.png", "10/x.PNG", "2/w.gif"):
        write(tmp_path / name, mode="RGB")
    (tmp_path / "cat" / ".hidden.png").touch()
    (tmp_path / ".cache").mkdir()
    (tmp_path / "cat" / "notes.txt").touch()
    (tmp_path / "__MACOSX").mkdir()
    data = open_one(tmp_path)
    assert (data.format, data.split, data.kind, data.labelled) == ("folders", "all", "image", True)
    assert list(data.classes) == ["10", "2", "cat", "dog"]
    assert names(data) == [
        ("10/x.PNG", 0), ("2/w.gif", 1), ("cat/z.bmp", 2), ("cat/deep/er/y.png", 2), ("dog/a.jpg", 3), ("dog/b.png", 3),
    ]  # fmt: skip
    sample = data.read(5)
    assert (sample.name, sample.label, sample.data.shape, sample.data.dtype) == ("dog/b.png", 3, (4, 6, 3), np.uint8)
    assert sample.data[0, 0].tolist() == [255, 0, 0]


def test_folders_named_with_numbers_can_be_sorted_as_such(tmp_path: Path):
    for name in ("10", "2"):
        write(tmp_path / name / "a.png")
    assert list(open_one(tmp_path, sort="number").classes) == ["2", "10"]
    write(tmp_path / "cat" / "a.png")
    with pytest.raises(BadInput, match=says("folder-not-named-number", wrong="cat")):
        open_one(tmp_path, sort="number")


def test_splits_share_their_classes(tmp_path: Path):
    for name in ("train/ant/1.png", "train/bee/2.png", "val/bee/3.png", "test/bee/4.png", "test/cow/5.png"):
        write(tmp_path / name)
    (tmp_path / "devkit").mkdir()
    splits = Folders().open(tmp_path, {})
    assert sorted(splits) == ["test", "train", "val"]
    assert all(list(split.classes) == ["ant", "bee", "cow"] for split in splits.values())
    assert names(splits["val"]) == [("val/bee/3.png", 1)]
    assert names(splits["test"]) == [("test/bee/4.png", 1), ("test/cow/5.png", 2)]
    assert splits["test"].read(1).label == 2


def test_a_class_may_be_called_train(tmp_path: Path):
    for name in ("train/1.png", "bus/2.png"):
        write(tmp_path / name)
    assert list(open_one(tmp_path).classes) == ["bus", "train"]


def test_images_without_folders_have_no_labels(tmp_path: Path):
    write(tmp_path / "b.png")
    write(tmp_path / "a.png")
    data = open_one(tmp_path)
    assert (data.labelled, list(data.classes), names(data)) == (False, [], [("a.png", None), ("b.png", None)])
    assert data.read(0).label is None


def test_the_folder_of_one_class_is_refused_with_the_one_above(tmp_path: Path):
    write(tmp_path / "photos" / "3" / "a.png")
    found = refuse_unlabelled(open_one(tmp_path / "photos" / "3"))
    assert found.message == "3 has no labels"
    assert re.match(says("if-folder-one-class-give", parent=tmp_path / "photos"), found.advice)


def test_a_wrong_folder_is_named_with_what_was_taken_for_its_classes(tmp_path: Path, monkeypatch):
    write(tmp_path / "wrong" / "photos" / "a.png")
    monkeypatch.chdir(tmp_path / "wrong")
    for source in (".", "photos/.."):
        data = next(iter(open_data(source).values()))
        with pytest.raises(BadInput) as caught:
            LabelMapping(replace(context((1, 10)), data=data)).settle(10)
        assert caught.value.message == wording("model-outputs", data="wrong", own="1 class", count=10)
        assert caught.value.advice == (
            "is it the right folder? Its sub-folders were taken for the classes: photos; if they are, name the outputs with "
            "--classes"
        )


def test_a_class_may_stand_in_the_name(tmp_path: Path):
    for name in ("test/normal_01.png", "test/anomaly_01.png", "train/normal_02.png"):
        write(tmp_path / name)
    splits = Folders().open(tmp_path, {"label": "prefix"})
    assert names(splits["test"]) == [("test/anomaly_01.png", 0), ("test/normal_01.png", 1)]
    assert names(splits["train"]) == [("train/normal_02.png", 1)]
    write(tmp_path / "test" / "plain.png")
    with pytest.raises(BadInput, match=says("name-no-class-before-underscore", file=has("plain.png"))):
        Folders().open(tmp_path, {"label": "prefix"})


@pytest.mark.parametrize(
    ("mode", "color", "ending", "shape", "pixel"),
    [
        ("RGB", (10, 20, 30), "png", (4, 6, 3), [10, 20, 30]),
        ("RGBA", (10, 20, 30, 0), "png", (4, 6, 3), [10, 20, 30]),
        ("L", 77, "png", (4, 6, 1), [77]),
        ("LA", (77, 0), "png", (4, 6, 1), [77]),
        ("1", 1, "png", (4, 6, 1), [255]),
        ("P", 5, "gif", (4, 6, 3), None),
        ("CMYK", (0, 0, 0, 0), "tiff", (4, 6, 3), [255, 255, 255]),
        ("I;16", 0xABCD, "png", (4, 6, 1), [0xAB]),
        ("RGB", (0, 0, 0), "webp", (4, 6, 3), [0, 0, 0]),
    ],
)
def test_modes_of_images(tmp_path: Path, mode, color, ending, shape, pixel):
    write(tmp_path / "c" / f"a.{ending}", mode=mode, color=color)
    data = open_one(tmp_path).read(0).data
    assert data.shape == shape
    assert data.dtype == np.uint8
    if pixel is not None:
        assert data[2, 3].tolist() == pixel


def test_pixels_are_those_of_pillow(tmp_path: Path):
    pixels = np.random.default_rng(1).integers(0, 256, (9, 7, 3), np.uint8)
    (tmp_path / "c").mkdir()
    Image.fromarray(pixels).save(tmp_path / "c" / "a.png")
    assert np.array_equal(open_one(tmp_path).read(0).data, pixels)


def test_a_transparent_palette_becomes_its_colours(tmp_path: Path):
    image = Image.new("P", (2, 1))
    image.putpalette([1, 2, 3, 200, 100, 50])
    image.putpixel((1, 0), 1)
    (tmp_path / "c").mkdir()
    image.save(tmp_path / "c" / "a.png", transparency=b"\x00\xff")
    assert open_one(tmp_path).read(0).data.tolist() == [[[1, 2, 3], [200, 100, 50]]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_stand_upright(tmp_path: Path, orientation: int):
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[0, 0] = 255
    (tmp_path / "c").mkdir()
    Image.fromarray(pixels).save(tmp_path / "c" / "a.png", exif=exif)
    found = open_one(tmp_path).read(0)
    data = found.data
    assert found.changes == (("turned upright as their cameras noted",) if orientation > 1 else ())
    at = {1: (0, 0), 2: (0, 2), 3: (1, 2), 4: (1, 0), 5: (0, 0), 6: (0, 1), 7: (2, 1), 8: (2, 0)}[orientation]
    assert data.shape == ((3, 2, 3) if orientation > 4 else (2, 3, 3))
    assert [tuple(map(int, where)) for where in np.argwhere(data[:, :, 0])] == [at]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _bomb(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"")) + _chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", says("not-image-can-read")),
        (b"hello" * 50, says("not-image-can-read")),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n", says("not-image-can-read")),
        (_bomb(60_000, 60_000), "pixels"),
        (_bomb(12_000, 12_000), "pixels"),
        (_bomb(100, 100), says("damaged-image")),
    ],
)
def test_what_is_no_image_is_named(tmp_path: Path, content: bytes, reason: str):
    write(tmp_path / "c" / "a.png")
    (tmp_path / "c" / "b.png").write_bytes(content)
    data = open_one(tmp_path)
    assert data.read(0).label == 0
    with pytest.raises(CorruptSample, match=reason) as caught:
        data.read(1)
    assert caught.value.name == "c/b.png"


@pytest.mark.parametrize("ending", ["jpg", "png", "gif", "webp", "tiff"])
def test_an_image_that_was_cut_off(tmp_path: Path, ending: str):
    (tmp_path / "c").mkdir()
    file = tmp_path / "c" / f"a.{ending}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(CorruptSample, match=f"a.{ending}"):
        open_one(tmp_path).read(0)


def test_an_image_that_went_away(tmp_path: Path):
    file = write(tmp_path / "c" / "a.png")
    data = open_one(tmp_path)
    file.unlink()
    with pytest.raises(CorruptSample, match=says("no-such-file")):
        data.read(0)


def test_links_that_lead_back_and_pipes_do_no_harm(tmp_path: Path):
    write(tmp_path / "c" / "a.png")
    (tmp_path / "c" / "loop").symlink_to(tmp_path / "c", target_is_directory=True)
    (tmp_path / "c" / "self.png").symlink_to(tmp_path / "c" / "self.png")
    (tmp_path / "c" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "c" / "pipe.png")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "b.png").symlink_to(tmp_path / "c" / "a.png")
    found = open_one(tmp_path)
    assert names(found) == [("c/a.png", 0), ("d/b.png", 1)]
    assert found.absent == [(f"c/{name}.png", "a link to a file that does not exist") for name in ("gone", "self")]


def test_names_that_are_no_unicode(tmp_path: Path):
    (tmp_path / "c").mkdir()
    write(tmp_path / "a.png").rename(os.fsdecode(os.fsencode(tmp_path / "c") + b"/\xff\xfe.png"))
    data = open_one(tmp_path)
    assert data.read(0).data.shape == (4, 6, 3)
    assert data.stamp()


@pytest.mark.long
def test_five_thousand_files_are_listed_and_stamped_without_opening_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in range(50):
        (tmp_path / f"class_{name:02}").mkdir()
        for number in range(100):
            (tmp_path / f"class_{name:02}" / f"picture_number_{number:04}.jpeg").touch()
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("an image was opened"))
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("a file was opened"))
    tracemalloc.start()
    data = open_one(tmp_path)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data) == 5000
    assert (data.files[4999], data.label_of(4999)) == ("class_49/picture_number_0099.jpeg", 49)
    assert [data.label_of(number) for number in (0, 99, 100, 4900)] == [0, 0, 1, 49]
    assert kept < 5000 * 150
    before = data.stamp()
    os.utime(tmp_path / "class_07" / "picture_number_0003.jpeg", (1, 1))
    assert open_one(tmp_path).stamp() != before
    (tmp_path / "class_07" / "picture_number_0003.jpeg").rename(tmp_path / "class_08" / "new.jpeg")
    assert open_one(tmp_path).stamp() != before


def test_nothing_there_is_said_with_advice(tmp_path: Path):
    for make in ("empty", "empty/cat"):
        (tmp_path / make).mkdir()
        with pytest.raises(BadInput, match=says("holds-no", what="images")) as caught:
            Folders().open(tmp_path / "empty", {})
        assert wording("right-folder-sub-folders-classes") in caught.value.advice
    with pytest.raises(BadInput, match=says("not-folder-in-folders")):
        Folders().open(tmp_path / "none", {})
    with pytest.raises(BadInput, match=says("data-format-no-option", name="colour")):
        Folders().open(tmp_path, {"colour": "red"})
    with pytest.raises(BadInput, match=says("not-known-data-set")):
        open_data(str(tmp_path / "empty"))
    with pytest.raises(BadInput, match=says("empty-folder")):
        open_data(str(tmp_path / "empty" / "cat"))


def write_mask(file: Path, indices: np.ndarray, *, mode: str = "L") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(indices.astype(np.uint8))
    if mode == "P":
        image = image.convert("P")
        image.putdata(indices.ravel().tolist())
        image.putpalette([9, 8, 7] * 256)
    image.save(file)


@pytest.mark.parametrize("mode", ["L", "P"])
def test_masks_are_indices_as_stored(tmp_path: Path, mode: str):
    indices = np.arange(24).reshape(4, 6) % 3
    indices[0, 0] = 255
    write(tmp_path / "images" / "a.jpg")
    write_mask(tmp_path / "masks" / "a.png", indices, mode=mode)
    (tmp_path / "classes.txt").write_text("sky\nsea\nland\n")
    data = open_one(tmp_path)
    assert (data.kind, data.labelled, list(data.classes)) == ("image", True, ["sky", "sea", "land"])
    sample = data.read(0)
    assert sample.name == "images/a.jpg"
    assert sample.data.shape == (4, 6, 3)
    assert np.array_equal(sample.label, indices)


@pytest.mark.parametrize("order", ["{kind}/{split}", "{split}/{kind}"])
def test_masks_in_splits(tmp_path: Path, order: str):
    for split in ("train", "val"):
        write(tmp_path / order.format(kind="images", split=split) / f"{split}.jpg")
        write_mask(tmp_path / order.format(kind="masks", split=split) / f"{split}.png", np.zeros((4, 6)))
    splits = Folders().open(tmp_path, {})
    assert sorted(splits) == ["train", "val"]
    assert splits["val"].read(0).name == order.format(kind="images", split="val") + "/val.jpg"


def test_masks_with_other_names(tmp_path: Path):
    write(tmp_path / "images" / "a.jpg")
    write_mask(tmp_path / "truth" / "a_mask.png", np.ones((4, 6)))
    data = open_one(tmp_path, masks="truth", suffix="_mask")
    assert data.read(0).label.sum() == 24
    with pytest.raises(
        BadInput, match=says("images-no-mask-first", missing_count=1, files_count=1, missing="images/a.jpg")
    ):
        open_one(tmp_path, masks="truth")
    with pytest.raises(BadInput, match=says("folder-masks-outside-data")):
        open_one(tmp_path, masks="../truth")
    with pytest.raises(BadInput, match=says("no-folders", image_folder="images", word="lost")):
        open_one(tmp_path, masks="lost")


def test_masks_that_do_not_fit(tmp_path: Path):
    write(tmp_path / "images" / "a.jpg")
    write_mask(tmp_path / "masks" / "a.png", np.ones((5, 6)))
    with pytest.raises(CorruptSample, match="the image is 6x4, its mask 6x5"):
        open_one(tmp_path).read(0)
    write(tmp_path / "masks" / "a.png")
    with pytest.raises(CorruptSample, match=says("mask-holds-colours-class-index")):
        open_one(tmp_path).read(0)


def test_labels_of_the_image_as_it_lies_keep_it_lying(tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = 6
    file = write(tmp_path / "a.png", size=(6, 4), exif=exif)
    assert images.decode_image(file, "a").data.shape == (6, 4, 3)
    assert images.decode_image(file, "a", stored_size=(6, 4)).data.shape == (4, 6, 3)
    assert images.decode_image(file, "a", stored_size=(4, 6)).data.shape == (6, 4, 3)
    with pytest.raises(CorruptSample, match="is 4x6, its label 9x9"):
        images.decode_image(file, "a", stored_size=(9, 9))


def test_files_that_can_not_be_samples_are_told(tmp_path: Path):
    for name in ("c/a.png", "d/b.png", "beside.png"):
        write(tmp_path / name)
    (tmp_path / "c" / "phone.HEIC").touch()
    (tmp_path / "c" / "notes.txt").touch()
    found = open_one(tmp_path)
    assert names(found) == [("c/a.png", 0), ("d/b.png", 1)]
    assert found.absent == [
        ("beside.png", "it is beside the folders of the classes, so it has no class"),
        ("c/phone.HEIC", ".heic files are not read"),
    ]
    with pytest.raises(BadInput, match=says("cant-used-in-data-options", name="beside.png")):
        select_samples(DataOptions(strict=True), {"all": found})


@pytest.mark.parametrize(
    ("mode", "stored", "changes"),
    [
        ("RGB", "", ()),
        ("L", "", ()),
        ("LA", "grey with alpha", ("with transparency dropped",)),
        ("RGBA", "RGB with alpha", ("with transparency dropped",)),
        ("1", "1-bit", ()),
        ("P", "palette", ()),
    ],
)
def test_what_a_picture_was_before_it_was_decoded_is_told(tmp_path: Path, mode: str, stored: str, changes: tuple):
    color = {"LA": (9, 0), "RGBA": (9, 9, 9, 0), "RGB": (9, 9, 9)}.get(mode, 1)
    decoded = images.decode_image(write(tmp_path / "a.png", mode=mode, color=color), "a")
    assert (decoded.stored, decoded.changes) == (stored, changes)
    opaque = {"LA": (9, 255), "RGBA": (9, 9, 9, 255)}.get(mode)
    if opaque is not None:
        assert images.decode_image(write(tmp_path / "b.png", mode=mode, color=opaque), "b").changes == ()
