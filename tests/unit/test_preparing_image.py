"""Steps on images: exact pixels, Pillow as the oracle, and the way back to the image as stored."""

from __future__ import annotations

import sys
from typing import get_args

import numpy as np
import pytest

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import CorruptSample
from edgewise.evaluating.steps_image import Filter, letterbox_size, resize_pixels, size_by_shorter, to_gray
from edgewise.evaluating.task import Preparation
from messages import has, says, wording
from preparations import apply, prepare, preparer, sample

Image = pytest.importorskip("PIL.Image", reason="Pillow is the oracle")

PHOTO = np.random.default_rng(5).integers(0, 256, (37, 53, 3), dtype=np.uint8)
QUANTIZED = {"dtype": "uint8"}


@pytest.mark.parametrize("filtering", get_args(get_args(Filter)[0]))
@pytest.mark.parametrize("size", [(20, 30), (80, 11)])
def test_resizing_is_pillows(filtering, size):
    method = Image.Resampling[filtering.upper()]
    for pixels in (PHOTO, PHOTO[..., 0]):
        expected = np.asarray(Image.fromarray(pixels).resize(size[::-1], method))
        assert np.array_equal(resize_pixels(pixels, size, filtering), expected)
    four = np.concatenate([PHOTO, PHOTO[..., :1] // 9], axis=2)
    found = resize_pixels(four, size, filtering)
    for channel in range(4):  # none of them is alpha, which would weigh the others
        plane = Image.fromarray(np.ascontiguousarray(four[..., channel]))
        assert np.array_equal(found[..., channel], np.asarray(plane.resize(size[::-1], method)))


def test_resizing_real_numbers_does_not_round():
    values = np.array([[0.0, 1.0]], dtype=np.float64)[..., None]
    found = resize_pixels(values, (1, 4), "bilinear")
    assert found.dtype == np.float32
    assert found.ravel().tolist() == [0.0, 0.25, 0.75, 1.0]  # by hand: centres at 0.25 0.75 1.25 1.75 of [0, 2]


@pytest.mark.parametrize(
    ("height", "width", "side", "expected"),
    [
        (37, 53, 20, (20, 28)),
        (53, 37, 20, (28, 20)),
        (375, 500, 256, (256, 341)),
        (4, 4, 9, (9, 9)),
        (1, 3, 7, (7, 21)),
    ],
)
def test_the_shorter_side(height, width, side, expected):
    assert size_by_shorter(height, width, side) == expected
    assert apply(np.zeros((height, width, 3), np.uint8), "resize", size=side).shape[:2] == expected


def test_the_centre_is_where_torchvision_has_it():
    column = np.arange(7, dtype=np.uint8)[:, None, None]
    # round((7 − 4) / 2) = round(1.5) = 2 and round((7 − 2) / 2) = round(2.5) = 2, as Python rounds.
    assert apply(np.repeat(column, 4, axis=1), "crop", size=4)[:, 0, 0].tolist() == [2, 3, 4, 5]
    assert apply(np.repeat(column, 4, axis=1), "crop", size=[2, 4])[:, 0, 0].tolist() == [2, 3]


def test_a_crop_larger_than_the_image_is_a_corrupt_sample():
    with pytest.raises(
        CorruptSample, match=says("pixels-cant-cropped-resize-pad", width=has("53"), height=37, wide=40, tall=40)
    ):
        prepare(PHOTO, "crop=40", shape=(1, 40, 40, 3), kind="image", dtype="uint8")
    with pytest.raises(CorruptSample, match=says("pixels-cant-padded-resize-crop", wide=40, tall=40)):
        prepare(PHOTO, "pad=40", shape=(1, 40, 40, 3), kind="image", dtype="uint8")


def test_padding():
    small = np.array([[[1], [2]]], dtype=np.uint8)
    assert apply(small, "pad", size=[2, 5], value=9)[..., 0].tolist() == [[9, 1, 2, 9, 9], [9, 9, 9, 9, 9]]
    assert apply(small, "pad", size=[2, 3], place="corner")[..., 0].tolist() == [[1, 2, 0], [0, 0, 0]]
    with pytest.raises(BadInput, match=says("padding-does-not-fit-pixels", value=has("300"))):
        apply(small, "pad", size=4, value=300)
    assert apply(small.astype(np.float32), "pad", size=[1, 3], value=-0.5)[..., 0].tolist() == [[1, 2, -0.5]]


@pytest.mark.parametrize(
    ("height", "width", "enlarge", "expected"),
    [(480, 640, True, (480, 640)), (1080, 1920, True, (360, 640)), (100, 50, True, (640, 320)),
     (100, 50, False, (100, 50)), (1, 2000, True, (1, 640)), (427, 640, True, (427, 640)), (333, 500, True, (426, 640))],
)  # fmt: skip
def test_letterbox_sizes(height, width, enlarge, expected):
    assert letterbox_size(height, width, (640, 640), enlarge=enlarge) == expected


def test_letterbox_and_its_feed():
    photo = np.full((30, 60, 3), 200, dtype=np.uint8)
    array, preparation = prepare(photo, "letterbox=40", shape=(1, 40, 40, 3), kind="image", dtype="uint8")
    assert np.all(array[0, :10] == 114)
    assert np.all(array[0, 10:30] == 200)
    assert np.all(array[0, 30:] == 114)
    assert preparation == Preparation(scale=(40 / 60, 20 / 30), offset=(0.0, 10.0), size=(60, 30), input_size=(40, 40))
    _, preparation = prepare(
        photo, "letterbox={size: 41, place: corner}", shape=(1, 41, 41, 3), kind="image", dtype="uint8"
    )
    # 41 / 60 · 30 = 20.5 → 20, so the two scales differ, and the feed says so.
    assert preparation == Preparation(scale=(41 / 60, 20 / 30), offset=(0.0, 0.0), size=(60, 30), input_size=(41, 41))


def test_feeds_of_chains():
    photo = np.zeros((300, 400, 3), dtype=np.uint8)
    flags = ["resize=256", "crop=224", "resize=112", "pad=120", "scale=1/255", "layout=nchw"]
    _, preparation = prepare(photo, *flags, shape=(1, 3, 120, 120), kind="image")
    width = 256 * 400 // 300
    left, top = round((width - 224) / 2), round((256 - 224) / 2)
    assert preparation.scale == (width / 400 * 0.5, 256 / 300 * 0.5)
    assert preparation.offset == (-left * 0.5 + 4, -top * 0.5 + 4)
    assert (preparation.size, preparation.input_size) == ((400, 300), (120, 120))
    _, plain = prepare(photo, shape=(1, 300, 400, 3), kind="image", dtype="uint8")
    assert plain == Preparation(scale=(1.0, 1.0), offset=(0.0, 0.0), size=(400, 300), input_size=(400, 300))


def test_an_image_on_its_side_has_no_feed():
    square = np.zeros((8, 8, 3), dtype=np.uint8)
    for flags in (["transpose=1,0,2"], ["transpose=2,1,0"], ["flatten", "reshape=8,8,3"]):
        shape = (1, 3, 8, 8) if flags == ["transpose=2,1,0"] else (1, 8, 8, 3)
        assert prepare(square, *flags, shape=shape, kind="image", dtype="uint8")[1] == Preparation()
    assert prepare(square, "transpose=2,0,1", shape=(1, 3, 8, 8), kind="image", dtype="uint8")[1].scale == (1.0, 1.0)
    turned = prepare(square, "transpose=1,0,2", "resize=4", shape=(1, 4, 4, 3), kind="image", dtype="uint8")
    assert turned[1] == Preparation()


def test_gray_is_pillows():
    assert np.array_equal(to_gray(PHOTO)[..., 0], np.asarray(Image.fromarray(PHOTO).convert("L")))
    real = to_gray(PHOTO.astype(np.float32) / 255)[..., 0] * 255
    assert np.abs(real - PHOTO @ np.array([0.299, 0.587, 0.114])).max() < 1e-4


def test_colours():
    pixel = np.array([[[10, 20, 30]]], dtype=np.uint8)
    assert apply(pixel, "color", to="bgr").ravel().tolist() == [30, 20, 10]
    assert apply(pixel, "color", to="rgb").ravel().tolist() == [10, 20, 30]
    assert apply(pixel[..., :1], "color", to="rgb").ravel().tolist() == [10, 10, 10]
    assert apply(pixel[..., 0], "color", to="gray").shape == (1, 1, 1)
    assert apply(np.concatenate([pixel, pixel[..., :1]], axis=2), "color", to="rgb").ravel().tolist() == [10, 20, 30]
    assert apply(pixel, "invert").ravel().tolist() == [245, 235, 225]
    with pytest.raises(BadInput, match=says("channels-which-not-colours", count=2)):
        apply(pixel[..., :2], "color", to="rgb")
    with pytest.raises(BadInput, match=says("invert-255-x-uint8-pixels")):
        apply(pixel.astype(np.float32), "invert")


def test_arrays_that_are_images_may_be_resized_and_others_not():
    array, preparation = prepare(PHOTO, "resize=8,9", "cast=float32", shape=(1, 8, 9, 3))
    assert np.array_equal(array[0], resize_pixels(PHOTO, (8, 9), "bilinear"))
    assert preparation.size == (53, 37)
    with pytest.raises(BadInput, match=says("shape-not-image-height-width")) as caught:
        prepare(PHOTO.transpose(2, 0, 1), "resize=8", shape=(1, 8, 8, 3), dtype="uint8")
    assert "transpose=1,2,0" in caught.value.advice
    with pytest.raises(BadInput, match=says("shape-not-image-height-width")):
        prepare(PHOTO, "layout=nchw", "resize=8", shape=(1, 3, 8, 8), kind="image", dtype="uint8")


def test_an_absurd_aspect_is_a_corrupt_sample():
    with pytest.raises(CorruptSample, match=says("pixels-would-become")):
        prepare(np.zeros((1, 60_000, 3), np.uint8), "resize=16384", shape=(1, 4, 4, 3), kind="image", dtype="uint8")


def test_one_gray_image_among_coloured_ones():
    found = preparer("resize=8,8", shape=(1, 8, 8, 3), dtype="uint8", kind="image")
    found.prepare(sample(PHOTO))
    (array,), preparation = found.prepare(sample(PHOTO[..., :1]))
    assert array.shape == (1, 8, 8, 3)
    assert (array == array[..., :1]).all()
    assert preparation.changes == ("converted from grey to RGB",)


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(Unavailable) as caught:
        preparer("resize=4", shape=(1, 4, 4, 3), dtype="uint8", kind="image")
    assert caught.value.advice == wording("pip-install-edgewise-data")
