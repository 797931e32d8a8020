"""Laws of preparation: boxes find their way back, quantisation loses half a step, documents read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import BadInput
from edgewise.evaluating.audio_features import resample
from edgewise.evaluating.input_conversion import quantize
from edgewise.evaluating.instructions import Instructions, read_document
from edgewise.evaluating.steps import STEPS, parse_step
from edgewise.safe_yaml import format_yaml, parse_value
from preparations import prepare

pytest.importorskip("PIL", reason="resizes")

SIDES = st.integers(1, 90)


@settings(max_examples=20, deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.booleans(), st.booleans())
def test_letterboxed_boxes_find_their_way_back(height, width, tall, wide, centre, enlarge):
    """The image's own corners, brought to the input by the feed, are exactly where its pixels are."""
    image = np.full((height, width, 1), 255, dtype=np.uint8)
    place = "centre" if centre else "corner"
    flag = f"letterbox={{size: [{tall}, {wide}], value: 0, place: {place}, enlarge: {str(enlarge).lower()}}}"
    array, preparation = prepare(image, flag, shape=(1, tall, wide, 1), dtype="uint8", kind="image")
    rows, columns = np.nonzero(array[0, ..., 0])
    (scale_x, scale_y), (left, top) = preparation.scale, preparation.offset
    assert (preparation.size, preparation.input_size) == ((width, height), (wide, tall))
    assert (left, top) == (columns.min(), rows.min())
    assert width * scale_x + left == pytest.approx(columns.max() + 1)
    assert height * scale_y + top == pytest.approx(rows.max() + 1)
    # There and back: x = (x · scale + offset − offset) / scale.
    assert (width / 3 * scale_x + left - left) / scale_x == pytest.approx(width / 3)
    if enlarge:
        assert columns.max() + 1 - columns.min() == wide or rows.max() + 1 - rows.min() == tall


@settings(max_examples=20, deadline=None)
@given(st.integers(8, 60), st.integers(8, 60), st.integers(4, 40), st.integers(1, 40), st.integers(0, 9))
def test_a_marked_pixel_is_where_the_feed_says(height, width, side, crop, seed):
    row, column = seed % height, (seed * 7) % width
    image = np.zeros((height, width, 1), dtype=np.uint8)
    image[row, column] = 255
    crop = min(crop, side)
    flags = [f"resize={{size: {side}, filter: nearest}}", f"crop={crop}", f"pad={crop + 3}"]
    array, preparation = prepare(image, *flags, shape=(1, crop + 3, crop + 3, 1), dtype="uint8", kind="image")
    rows, columns = np.nonzero(array[0, ..., 0])
    for found, first, axis in ((columns, column, 0), (rows, row, 1)):
        if len(found):
            low, high = (edge * preparation.scale[axis] + preparation.offset[axis] for edge in (first, first + 1))
            # Nearest takes the pixel under each new pixel's centre.
            assert low - 0.5 - 1e-9 <= found.min()
            assert found.max() + 1 <= high + 0.5 + 1e-9


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=20),
    st.floats(1e-4, 1e3),
    st.sampled_from(["int8", "uint8", "int16", "int32"]),
    st.data(),
)
def test_quantising_loses_half_a_step_at_most(values, scale, dtype, data):
    limits = np.iinfo(dtype)
    zero = data.draw(st.integers(max(limits.min, -(2**15)), min(limits.max, 2**15)))
    real = np.array(values, dtype=np.float32)
    found = quantize(real, scale, zero, np.dtype(dtype))
    assert found.dtype == dtype
    back = (found.astype(np.float64) - zero) * scale
    inside = np.clip(real, (float(limits.min) - zero) * scale, (float(limits.max) - zero) * scale)
    # Float32 arithmetic of 8 and 16 bits is exact to a part in 2²² of the number of steps.
    assert np.all(np.abs(back - inside) <= scale * (0.5 + 2**-5) + 1e-6 * np.abs(inside))
    assert np.array_equal(quantize(back.astype(np.float32), scale, zero, np.dtype(dtype)), found) or dtype == "int32"


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.sampled_from([8000, 11025, 16000, 22050, 44100]), st.sampled_from([8000, 16000, 48000]))
def test_resampling_gives_the_length_that_it_says(frames, source, target):
    wave = np.ones(frames, dtype=np.float32)
    found = resample(wave, source, target)
    assert len(found) == -(-frames * target // source)
    assert np.isfinite(found).all()


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
NUMBERS = st.one_of(st.integers(-1000, 1000), st.floats(-1e6, 1e6, allow_nan=False))
RAW = st.one_of(
    st.tuples(st.just("scale"), st.one_of(NUMBERS, st.just("1/255"))),
    st.tuples(st.just("mean"), st.lists(NUMBERS, min_size=1, max_size=4)),
    st.tuples(st.just("resize"), st.one_of(st.integers(1, 999), st.lists(st.integers(1, 999), min_size=2, max_size=2))),
    st.tuples(st.just("letterbox"), st.fixed_dictionaries({"size": st.integers(1, 640)}, optional={"value": NUMBERS})),
    st.tuples(st.just("mfcc"), st.fixed_dictionaries({k: st.integers(1, 60) for k in ("window_ms", "step_ms", "mels", "coefficients")})),
    st.tuples(st.sampled_from(["flatten", "mono", "invert"]), st.none()),
)  # fmt: skip
STEP = RAW.map(lambda pair: parse_step(pair[0], pair[1], where="test"))


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(TEXTS.filter(bool), st.lists(STEP, max_size=4).map(tuple), max_size=3),
    st.lists(TEXTS, max_size=5),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
)
def test_documents_read_back_through_yaml(steps, classes, options):
    made = Instructions(
        steps=steps, task="classification", task_options=options, classes=tuple(classes), origins=("a.yaml",)
    )
    text = format_yaml(made.to_document())
    again = read_document(parse_value(text, "a.yaml"), folder=Path("/nowhere"), name="a.yaml")
    assert again == made


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(STEPS)), st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)), max_leaves=6,
))  # fmt: skip
def test_any_settings_are_read_or_refused_and_canonical_ones_read_as_themselves(name, raw):
    try:
        found = parse_step(name, raw, where="test")
    except BadInput as error:
        assert "\n" not in error.message + error.advice
        return
    assert parse_step(name, found.to_document(), where="test") == found


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_yaml_or_refused(text):
    try:
        parse_value(text, "a.yaml")
    except BadInput as error:
        assert "\n" not in error.message
