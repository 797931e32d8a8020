"""From samples to inputs: arithmetic, shapes, types, quantisation, several inputs, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample
from edgewise.evaluating.instructions import Instructions, find_instructions, read_flags
from edgewise.evaluating.preparing import Preparer
from edgewise.evaluating.steps import STEPS, parse_step
from edgewise.evaluating.task import Preparation
from edgewise.model.graph import Quantization
from edgewise.model.identity import read_graph
from edgewise.record import InputSpec
from messages import has, says, wording
from preparations import apply, prepare, prepare_flags, preparer, sample

PIXELS = np.array([[0, 1, 128, 255]], dtype=np.uint8)


def refused(call, *args, **kwargs) -> BadInput:
    with pytest.raises(BadInput) as caught:
        call(*args, **kwargs)
    assert "\n" not in caught.value.message + caught.value.advice
    return caught.value


def test_scaling_by_a_fraction_divides_once():
    every = np.arange(256, dtype=np.uint8)
    array, preparation = prepare(every, "scale=1/255", shape=(1, 256))
    assert array.dtype == np.float32
    assert np.array_equal(array[0], every.astype(np.float32) / np.float32(255))
    # Multiplying by the rounded reciprocal is another number in the last bit, for some pixels.
    assert not np.array_equal(array[0], every.astype(np.float32) * np.float32(1 / 255))
    assert preparation == Preparation()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["scale=2"], [0, 2, 256, 510]),
        (["scale=3/2"], [0, 1.5, 192, 382.5]),
        (["offset=-128"], [-128, -127, 0, 127]),
        (["mean=127.5", "std=127.5"], [-1, -126.5 / 127.5, 0.5 / 127.5, 1]),
        (["normalize={mean: 1, std: 2}"], [-0.5, 0, 63.5, 127]),
        (["clip={low: 1, high: 100}"], [1, 1, 100, 100]),
        (["cast=float32"], [0, 1, 128, 255]),
        (["scale=1/2", "cast=int32", "cast=float32"], [0, 0, 64, 128]),  # 0.5 → 0 and 127.5 → 128: ties to even
    ],
)
def test_arithmetic_by_hand(flags, expected):
    array, _ = prepare(PIXELS, *flags)
    assert array.tolist() == [[np.float32(value) for value in expected]]


def test_values_per_channel_lie_along_the_channels():
    image = np.array([[[10, 20, 30], [1, 2, 3]]], dtype=np.uint8)  # 1 × 2 pixels
    last, _ = prepare(image, "mean=1,2,3", "std=1,2,4", shape=(1, 1, 2, 3), kind="image")
    assert last.tolist() == [[[[9, 9, 6.75], [0, 0, 0]]]]
    first, _ = prepare(image, "layout=nchw", "mean=1,2,3", "std=1,2,4", shape=(1, 3, 1, 2), kind="image")
    assert first.tolist() == [[[[9, 0]], [[9, 0]], [[6.75, 0]]]]
    array = np.zeros((2, 5), dtype=np.float32)
    assert apply(array, "offset", by=[1, 2])[:, 0].tolist() == [1, 2]
    assert apply(array.T, "offset", by=[1, 2])[0].tolist() == [1, 2]
    square = np.zeros((2, 2), dtype=np.float32)
    assert re.search(
        says("values-fit-axes-data-shape", fitting_count=2), refused(apply, square, "offset", by=[1, 2]).message
    )
    assert apply(square, "offset", by=[1, 2], axis=0).tolist() == [[1, 1], [2, 2]]
    assert re.search(
        says("values-fit-axes-data-shape", fitting_count=0), refused(apply, square, "offset", by=[1, 2, 3]).message
    )
    assert wording("no-such-axis") in refused(apply, square, "offset", by=[1, 2], axis=5).message


def test_float64_stays_until_the_end():
    values = np.array([[1e-9, 1, 2, 3]])
    array, _ = prepare(values, "offset=1", "offset=-1")
    assert array[0, 0] == np.float32((1e-9 + 1) - 1) != 0


def test_axes():
    block = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.array_equal(apply(block, "transpose", axes=[2, 0, 1]), block.transpose(2, 0, 1))
    assert np.array_equal(apply(block, "layout", to="nchw"), block.transpose(2, 0, 1))
    assert np.array_equal(apply(block, "layout", **{"to": "nhwc", "from": "nchw"}), block.transpose(1, 2, 0))
    assert np.array_equal(apply(block, "layout", to="nhwc"), block)
    assert np.array_equal(apply(block, "layout", to="nchw", channels=-1), block.transpose(2, 0, 1))
    assert apply(block, "flatten").shape == (24,)
    assert apply(block, "reshape", shape=[-1, 6]).shape == (4, 6)
    assert "24" not in refused(apply, block, "reshape", shape=[7, 2]).advice
    assert re.search(says("not-shape-reshape"), refused(apply, block, "reshape", shape=[-1, -1]).message)
    assert re.search(says("not-order-axes"), refused(apply, block, "transpose", axes=[0, 0, 1]).message)
    assert re.search(says("shape-not-axes", axes_count=2), refused(apply, block, "transpose", axes=[1, 0]).message)
    assert re.search(says("shape-no-channels-whose-place"), refused(apply, block[0], "layout", to="nchw").message)


@pytest.mark.parametrize(
    ("values", "dtype", "fits"),
    [
        ([2**63 - 1], "int64", True),
        ([300], "uint8", False),
        ([-1], "uint8", False),
        ([127.4, -128.4], "int8", True),
        ([127.6], "int8", False),
        ([2.0**63], "int64", False),
        ([-(2.0**63)], "int64", True),
        ([2], "bool", False),
    ],
)
def test_casts_never_wrap(values, dtype, fits):
    if fits:
        assert apply(np.array(values), "cast", to=dtype).tolist() == [round(value) for value in values]
    else:
        assert re.search(says("values-cant-hold", to=dtype), refused(apply, np.array(values), "cast", to=dtype).message)


@pytest.mark.parametrize(
    ("have", "want"),
    [((4,), (1, 4)), ((5, 6), (1, 1, 5, 6)), ((5, 6, 1), (1, 1, 5, 6)), ((1, 5, 6), (1, 5, 6, 1)), ((), (1,)), ((3,), (3,))],
)  # fmt: skip
def test_axes_of_size_one_come_and_go(have, want):
    values = np.arange(np.prod(have, dtype=int), dtype=np.float32).reshape(have)
    array, _ = prepare(values, shape=want)
    assert array.shape == want
    assert array.ravel().tolist() == values.ravel().tolist()


@pytest.mark.parametrize(
    ("have", "want", "kind", "advice"),
    [
        ((32, 3, 3), (1, 3, 32, 3), "image", "--prepare layout=nchw"),
        ((3, 32, 32), (1, 32, 32, 3), "array", wording("prepare-transpose-1-2-0")),
        ((32, 32, 3), (1, 3, 32, 32), "array", "--prepare layout=auto"),
        ((32, 32, 3), (1, 24, 24, 3), "image", "--prepare resize=24,24"),
        ((32, 32, 1), (1, 1, 28, 28), "image", "--prepare resize=28,28"),
        ((32, 32), (1, 28, 28), "image", "--prepare resize=28,28"),
        ((28, 28, 1), (1, 1, 32, 32), "image", "--prepare pad=32,32 if training padded pictures"),
        ((28, 28), (1, 784), "array", wording("prepare-reshape-if-order-values", map="1,784")),
        ((100, 8), (1, 50, 8), "array", wording("prepare-length-if-may-cut", body=50)),
        ((3, 5, 7), (1, 11, 2), "array", wording("right-data-steps-such-resize")),
        ((2, 4), (4,), "array", wording("right-data-steps-such-resize")),
    ],
)
def test_shapes_that_do_not_fit_say_what_would_help(have, want, kind, advice):
    data = np.zeros(have, dtype=np.uint8)
    error = refused(prepare, data, "cast=float32", shape=want, kind=kind)
    assert str(list(have)) in error.message
    assert str(list(want)) in error.message
    assert error.advice.startswith(advice)


def test_what_is_advised_helps():
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    for want in [(1, 1, 28, 30), (1, 3, 24, 28), (1, 24, 28, 3)]:
        advice = refused(prepare, image, "cast=float32", shape=want, kind="image").advice
        assert "layout" not in advice
        array, _ = prepare(image, *prepare_flags(advice), "cast=float32", shape=want, kind="image")
        assert array.shape == want


@pytest.mark.parametrize(
    ("have", "want", "others"),
    [
        ((28, 28, 1), (1, 1, 32, 32), ["resize=32,32", "letterbox=32,32"]),
        ((28, 28, 1), (1, 1, 96, 96), ["pad=96,96", "letterbox=96,96"]),
        ((40, 60, 3), (1, 28, 24, 3), ["resize=32", "crop=28,24", "letterbox=28,24"]),
    ],
)
def test_every_usual_step_to_a_size_is_named_since_training_decides(have, want, others):
    advice = refused(prepare, np.zeros(have, np.uint8), "cast=float32", shape=want, kind="image").advice
    assert re.search(says("if-training-stretched-pictures-size"), advice) and all(
        f" {step} " in advice for step in others
    )
    ready = np.zeros((32, 3, 3), np.uint8)
    assert "as in training" not in refused(prepare, ready, "cast=float32", shape=(1, 3, 32, 3), kind="image").advice


def test_pixels_do_not_become_real_numbers_by_themselves():
    for kwargs in ({}, {"dtype": "float16"}, {"dtype": "int8", "quantization": Quantization(scale=0.1)}):
        error = refused(preparer, "resize=2", shape=(1, 2, 2, 3), kind="image", **kwargs)
        assert re.search(says("takes-no-step-converts-pixels"), error.message)
        assert wording("convert-them-prepare-scale-1") in error.advice
    error = refused(prepare, PIXELS)
    assert re.search(says("values-outside-0-1-input"), error.message)
    assert wording("convert-them-prepare-scale-1") in error.advice
    assert re.search(
        says("which-represents-real-numbers"),
        refused(prepare, PIXELS, dtype="int8", quantization=Quantization(scale=0.1)).message,
    )


def test_zeros_and_ones_are_what_they_are():
    assert prepare(np.array([0, 1, 1, 0]))[0].tolist() == [[0, 1, 1, 0]]
    assert prepare(np.array([True, False, False, True]))[0].dtype == np.float32


def test_integers_into_integers():
    array, _ = prepare(np.array([5, 6, 7, 8], dtype=np.int64), dtype="int32")
    assert array.dtype == np.int32
    assert array.tolist() == [[5, 6, 7, 8]]
    error = refused(prepare, np.array([0, 1, 2, 2**31]), dtype="int32")
    assert re.search(says("values-input-takes", min=0, max="2147483648"), error.message)
    assert "cast=int64" in refused(prepare, np.ones(4, dtype=np.float32), dtype="int64").advice
    assert prepare(np.array([0, 1, 1, 0]), dtype="bool")[0].tolist() == [[False, True, True, False]]
    assert prepare(PIXELS, dtype="uint8")[0].tolist() == PIXELS.tolist()


def test_real_numbers_become_integers_by_the_models_own_scale():
    values = np.array([-1.0, 0.0, 0.26, 100.0], dtype=np.float32)
    array, _ = prepare(values, dtype="int8", quantization=Quantization(scale=0.5, zero_point=3))
    assert array.dtype == np.int8
    assert array.tolist() == [[1, 3, 4, 127]]  # 0.52 → 1, 200 saturates
    ties, _ = prepare(np.array([0.25, 0.75, 1.25, -0.25]), dtype="int16", quantization=Quantization(scale=0.5))
    assert ties.tolist() == [[0, 2, 2, 0]]
    wide, _ = prepare(
        np.array([1e12, -1e12, 3.0, 0.0]), dtype="int32", quantization=Quantization(scale=1.0, zero_point=-7)
    )
    assert wide.tolist() == [[2**31 - 1, -(2**31), -4, -7]]


def test_every_pixel_finds_its_integer():
    every = np.arange(256, dtype=np.uint8)
    scale = float(np.float32(1 / 255))
    array, _ = prepare(every, "scale=1/255", shape=(1, 256), dtype="int8", quantization=Quantization(scale=scale, zero_point=-128))  # fmt: skip
    assert array[0].tolist() == list(range(-128, 128))


def test_data_of_the_inputs_own_type_goes_in_as_it_is():
    quantization = Quantization(scale=0.0078125, zero_point=128)
    array, _ = prepare(PIXELS, dtype="uint8", quantization=quantization)
    assert array.tolist() == PIXELS.tolist()
    found = preparer(dtype="uint8", quantization=quantization)
    assert found.notes == (
        "x: fed as stored → uint8 [1, 4] by round(x / 0.0078125) + 128; data that is uint8 goes in as it is",
    )
    image = np.full((2, 2, 3), 7, dtype=np.uint8)
    array, _ = prepare(image, "crop=1", shape=(1, 1, 1, 3), dtype="uint8", quantization=quantization, kind="image")
    assert array.ravel().tolist() == [7, 7, 7]


def test_notes_tell_everything():
    found = preparer(
        "resize={size: [4, 5], filter: nearest}", "scale=1/255", "mean=0.5", shape=(1, 4, 5, 3), kind="image"
    )
    assert found.notes == ("x: resize 4,5 filter=nearest, scale 1/255, mean 0.5 → float32 [1, 4, 5, 3]",)
    quantized = preparer("scale=1/255", dtype="int8", quantization=Quantization(scale=0.5, zero_point=-3))
    assert quantized.notes == ("x: scale 1/255 → int8 [1, 4] by round(x / 0.5) − 3",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_a_corrupt_sample(value):
    data = np.array([0, 1, value, 2], dtype=np.float32)
    for flags in ([], ["clip={low: 0, high: 1}"], ["scale=2"]):
        with pytest.raises(CorruptSample, match=says("values-not-numbers-infinite", what=has("s: "))):
            prepare(data, *flags)
    with pytest.raises(CorruptSample):
        prepare(data, dtype="int8", quantization=Quantization(scale=1.0))


def test_overflow_is_a_corrupt_sample():
    with pytest.raises(CorruptSample, match="float16"):
        prepare(np.array([1, 2, 3, 1e6]), dtype="float16")
    with pytest.raises(CorruptSample, match=says("values-not-numbers-infinite")):
        prepare(np.array([1, 2, 3, 1e30], dtype=np.float32), "scale=1e30")


def test_the_first_sample_speaks_for_all_and_later_ones_for_themselves():
    found = preparer()
    assert re.search(
        says("shape-input-takes", want="[1, 4]"), refused(found.prepare, sample(np.ones(5, dtype=np.float32))).message
    )
    found.prepare(sample(np.ones(4, dtype=np.float32)))
    with pytest.raises(CorruptSample) as caught:
        found.prepare(sample(np.ones(5, dtype=np.float32), name="dir/a.png"))
    assert caught.value.name == "dir/a.png"
    assert caught.value.reason.startswith("has shape [5], input 'x' takes [1, 4]")
    found.prepare(sample(np.ones(4, dtype=np.float32)))


def test_empty_and_strange_data():
    with pytest.raises(CorruptSample, match=says("empty")):
        prepare(np.zeros((0, 4), dtype=np.float32))
    assert re.search(says("which-cant-fed"), refused(prepare, np.array(["a", "b"])).message)
    assert re.search(says("which-cant-fed"), refused(prepare, np.array([1j, 2, 3, 4])).message)
    assert re.search(says("which-cant-fed"), refused(prepare, np.array([object()] * 4)).message)


def two(*flags, kind="array") -> Preparer:
    specs = [InputSpec(name="a", shape=(1, 2), dtype="float32"), InputSpec(name="b", shape=(1, 3), dtype="int64")]
    return Preparer(Instructions(steps=read_flags(flags)), specs=specs, quantizations=[None, None], kind=kind)


def test_several_inputs_each_have_their_steps():
    found = two("a:scale=1/2")
    data = {"b": np.array([1, 2, 3]), "a": np.array([4, 6], dtype=np.uint8), "other": np.array([0])}
    arrays, preparation = found.prepare(sample(data))
    assert [array.tolist() for array in arrays] == [[[2, 3]], [[1, 2, 3]]]
    assert preparation == Preparation()
    assert len(found.notes) == 2
    assert re.search(
        says("holds-nothing-input", name_2="b"), refused(two("a:scale=1").prepare, sample({"a": data["a"]})).message
    )
    assert re.search(
        says("one-array-model-takes", names_count=2, names="a, b"),
        refused(two("a:scale=1").prepare, sample(data["a"])).message,
    )


def test_steps_must_say_for_which_input():
    assert re.search(says("model-inputs-steps-dont-name"), refused(two, "scale=1/2").message)
    error = refused(two, "c:scale=1/2")
    assert wording("there-steps-which-not-input", name="c") in error.message
    assert "a, b" in error.advice
    assert re.search(says("there-steps-only-input-which"), refused(preparer, "scale=2", "x:scale=2").message)


def test_steps_for_other_kinds_are_refused():
    assert re.search(says("step-cant-done", nouns="images"), refused(preparer, "mono", kind="image").message)
    assert re.search(says("step-cant-done", nouns="sound"), refused(preparer, "resize=4", kind="audio").message)
    assert "tokenize" in refused(preparer, "scale=4", kind="text").advice
    assert re.search(says("takes-no-step-converts-text"), refused(preparer, kind="text", dtype="int64").message)


def test_several_scales_are_refused():
    many = Quantization(scale=0.1, channels=3, axis=1)
    assert re.search(
        says("quantised-several-scales-which-cant"), refused(preparer, dtype="int8", quantization=many).message
    )
    assert re.search(
        says("quantised-scale", scale=has("0")),
        refused(preparer, dtype="int8", quantization=Quantization(scale=0.0)).message,
    )


def test_results_are_contiguous_and_of_the_inputs_shape():
    array, _ = prepare(np.zeros((6, 5, 3), np.uint8), "scale=1/255", "layout=nchw", shape=(1, 3, 6, 5), kind="image")
    assert array.flags.c_contiguous
    assert array.shape == (1, 3, 6, 5)


def test_every_step_is_documented_and_reads_its_own_defaults():
    from edgewise.evaluating.step_settings import accepted

    for name, kind in STEPS.items():
        fields = kind.settings()
        assert kind.name == name and kind.__doc__
        assert kind.main is None or kind.main in fields
        for field in fields.values():
            assert field.description and accepted(field.annotation, field.metadata)
        defaults = {key: field.default for key, field in fields.items() if not field.is_required()}
        given = {key: "1" for key, field in fields.items() if field.is_required()}
        if name not in ("color", "cast", "layout"):  # their settings are words
            assert defaults.items() <= parse_step(name, given | defaults, where="test").to_document().items()


def test_the_bundled_images_become_what_their_network_was_trained_on():
    found = find_instructions(bundled("digits_cnn.onnx"), form="onnx")
    spec = InputSpec(name="image", shape=(1, 1, 32, 32), dtype="float32")
    ready = Preparer(found, specs=[spec], quantizations=[None], kind="array")
    with np.load(bundled("digits_test.npz"), allow_pickle=False) as data:
        images = data["x"][:50]
    for image in images:
        (array,), _ = ready.prepare(sample(image))
        assert np.array_equal(array[0], image.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("name", ["vww_96_int8.tflite", "pretrainedResnet_quant.tflite"])
def test_pixels_into_real_int8_networks(shared_models, name):
    # One is quantised for 0 to 1, the other for 0 to 255; both take pixel − 128.
    graph = read_graph(shared_models / name)
    tensor = graph.tensors[graph.inputs[0]]
    shape = (1, *tensor.shape[1:])
    step = "scale=1/255" if tensor.quantization.scale < 0.01 else "scale=1"
    image = np.random.default_rng(1).integers(0, 256, shape[1:], dtype=np.uint8)
    array, _ = prepare(image, step, shape=shape, dtype=tensor.dtype, quantization=tensor.quantization, kind="image")
    assert np.array_equal(array[0].astype(int), image.astype(int) - 128)


@pytest.mark.engine
def test_prepared_images_give_the_bundled_accuracy():
    engine = pytest.importorskip("onnxruntime", reason="runs the bundled network")
    session = engine.InferenceSession(str(bundled("digits_cnn.onnx")), providers=["CPUExecutionProvider"])
    found = find_instructions(bundled("digits_cnn.onnx"), form="onnx")
    spec = InputSpec(name="image", shape=(1, 1, 32, 32), dtype="float32")
    ready = Preparer(found, specs=[spec], quantizations=[None], kind="array")
    with np.load(bundled("digits_test.npz"), allow_pickle=False) as data:
        images, labels = data["x"], data["y"]
    answers = [session.run(None, {"image": ready.prepare(sample(image))[0][0]})[0].argmax() for image in images]
    assert (np.array(answers) == labels).sum() == 538


def test_channels_go_first_where_an_input_can_have_them_nowhere_else():
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    array, _ = prepare(image, "cast=float32", shape=(1, 3, 2, 4), kind="image")
    assert np.array_equal(array[0], image.transpose(2, 0, 1))
    spec = InputSpec(name="image", shape=(1, 3, 2, 4), dtype="float32")
    steps = Instructions(steps=read_flags(["cast=float32"]))
    assert "layout nchw" in Preparer(steps, specs=[spec], quantizations=[None], kind="image").notes[0]
    moved, _ = prepare(image, "cast=float32", "transpose=2,0,1", shape=(1, 3, 2, 4), kind="image")
    assert np.array_equal(moved, array)
    square = np.zeros((4, 3, 3), np.uint8)  # of [1, 3, 4, 3] either axis may be the channels
    assert "layout=nchw" in refused(prepare, square, "cast=float32", shape=(1, 3, 4, 3), kind="image").advice
    stored = np.zeros((2, 4, 3), np.uint8)  # an array does not say that its last axis holds colours
    assert "layout=auto" in refused(prepare, stored, "cast=float32", shape=(1, 3, 2, 4), kind="array").advice
    grey = refused(prepare, image, "color=gray", "cast=float32", shape=(1, 3, 2, 4), kind="image")
    assert str([2, 4, 1]) in grey.message


def test_an_automatic_layout_is_that_of_each_input():
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    flags = ("cast=float32", "layout=auto")
    first, _ = prepare(image, *flags, shape=(1, 3, 2, 4), kind="image")
    last, _ = prepare(image, *flags, shape=(1, 2, 4, 3), kind="image")
    assert np.array_equal(first[0], image.transpose(2, 0, 1)) and np.array_equal(last[0], image)
    error = refused(prepare, image, *flags, shape=(1, 3, 4, 3), kind="image")
    assert re.search(says("input-takes-where-channels-not"), error.message) and "layout=nchw" in error.advice
    error = refused(prepare, image, "cast=float32", "layout=nchw", shape=(1, 2, 4, 3), kind="image")
    assert wording("prepare-layout-auto-instead-layout") in error.advice
