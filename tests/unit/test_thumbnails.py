"""Small pictures of samples: exact pixels, bounded sizes, and a reason where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from edgewise.errors import Unavailable
from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.dataset import open_data
from edgewise.optimizing.changed_answers import find_changes
from edgewise.optimizing.thumbnails import draw_thumbnails
from messages import wording
from small_pictures import pixels_of
from small_selections import Rows


def changed(data, indices):
    """These samples, each with another answer."""
    entries = []
    for index in indices:
        sample = data.read(index)
        entries.append(Entry(index=index, name=sample.name, digest=sample.digest()))
    return find_changes([(entry, 0, (0, 1.0), (1, 1.0)) for entry in entries], labelled=True).samples


def draw(data, indices=(0,)):
    return draw_thumbnails(data, changed(data, indices))


GREY = np.arange(64, dtype=np.uint8).reshape(8, 8)
COLOURS = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (GREY, GREY),
        (GREY[None, None], GREY),
        (GREY[..., None], GREY),
        (COLOURS, COLOURS),
        (np.moveaxis(COLOURS, -1, 0)[None], COLOURS),
        (np.dstack([COLOURS, GREY]), COLOURS),  # without transparency
        (GREY.astype(np.float32) / 63.0, (np.arange(64) * 255 / 63).astype(np.uint8).reshape(8, 8)),
        (GREY > 31, np.where(GREY > 31, 255, 0)),
        (np.full((8, 8), 7.0), np.zeros((8, 8))),
        (np.where(GREY == 0, np.nan, np.where(GREY == 1, np.inf, 0.0)), np.where(GREY == 1, 255, 0)),
    ],
)
def test_small_arrays_keep_their_pixels(array, expected):
    pictures, words = draw(Rows([array]))
    found, form = pixels_of(pictures[0])
    assert form == "PNG" and found.tolist() == np.asarray(expected).tolist() and "without" not in words


@pytest.mark.parametrize("shape", [(64, 64, 3), (300, 200, 3), (100_000, 1), (2, 5000, 3), (3000, 3000)])
def test_the_worst_pictures_stay_small(shape):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    data = Rows([array])
    data.kind = "image"
    pictures, _ = draw(data)
    found, _ = pixels_of(pictures[0])
    assert max(found.shape) <= 96


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros(64, np.float32), wording("samples-no-pictures", name="float32", shape="[64]")),
        (np.zeros((49, 5), np.float32), wording("samples-no-pictures", name="float32", shape="[49, 5]")),
        (np.zeros((2, 16, 16), np.uint8), wording("samples-no-pictures", name="uint8", shape="[2, 16, 16]")),
        (np.zeros((0, 8), np.uint8), wording("samples-no-pictures", name="uint8", shape="[0, 8]")),
        ({"a": GREY, "b": GREY}, wording("samples-no-pictures", name="object", shape="[]")),
    ],
)
def test_what_is_no_picture_has_none_and_says_so(array, reason):
    pictures, words = draw(Rows([array]))
    assert pictures == {} and words.startswith("No pictures: ") and reason in words


@pytest.mark.parametrize(("kind", "sample"), [("audio", np.zeros((800, 1), np.float32)), ("text", "a text")])
def test_sounds_and_texts_have_no_pictures(kind, sample):
    data = Rows([sample])
    data.kind = kind
    assert draw(data) == ({}, f"No pictures: the samples are {kind}")


def test_a_sample_that_has_changed_or_is_gone_has_no_picture():
    data = Rows([GREY, GREY + 1, GREY + 2, GREY + 3])
    samples = changed(data, range(4))
    data.data[1] = GREY + 9

    def gone(index):
        if index == 2:
            raise RuntimeError("the user's loader is broken")

    data.on_read = gone
    pictures, words = draw_thumbnails(data, samples)
    assert set(pictures) == {0, 3}
    assert words.endswith("; 2 without a picture: row[1]: the sample has changed since it was evaluated")


def test_without_pillow_the_reason_is_told(monkeypatch):
    def missing():
        raise Unavailable("images need Pillow", advice="pip install it")

    monkeypatch.setattr("edgewise.optimizing.thumbnails.require_pillow", missing)
    assert draw(Rows([GREY])) == ({}, "No pictures: images need Pillow")


def test_of_an_animation_the_first_picture_counts_and_a_damaged_or_huge_file_has_none(tmp_path, monkeypatch):
    folder = tmp_path / "pets" / "cat"
    folder.mkdir(parents=True)
    frames = [Image.fromarray(np.full((20, 30), level, np.uint8)) for level in (0, 255)]
    frames[0].save(folder / "a.gif", save_all=True, append_images=frames[1:])
    for name in ("b.png", "c.png"):
        frames[1].save(folder / name)
    (data,) = open_data(str(tmp_path / "pets")).values()
    samples = changed(data, range(3))
    (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:40])
    monkeypatch.setattr("edgewise.evaluating.formats.images.MAX_PIXELS", 20 * 30)
    Image.fromarray(np.zeros((40, 40), np.uint8)).save(folder / "c.png")
    pictures, words = draw_thumbnails(data, samples)
    assert set(pictures) == {0} and int(pixels_of(pictures[0])[0].max()) == 0
    assert "2 without a picture" in words and "as stored" in words
