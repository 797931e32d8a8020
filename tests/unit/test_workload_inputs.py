"""Shapes given to open dimensions, random arrays, and arrays from files."""

from __future__ import annotations

import io
import pickle
import re
import zipfile

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.model.graph import Graph, Tensor
from edgewise.model.signature import Signature, TensorSpec
from edgewise.record import InputSpec
from edgewise.workload.input_shapes import batch_of, other_inputs, parse_shape, resolve_inputs
from edgewise.workload.inputs import load_arrays, make_arrays, read_arrays, read_shapes
from edgewise.workload.resolved_graph import resolve_shapes
from messages import has, says, wording


def signature(*inputs):
    """Inputs from (name, shape) or (name, shape, dtype)."""
    specs = [TensorSpec(name=i[0], shape=i[1], dtype=i[2] if len(i) > 2 else "float32") for i in inputs]
    return Signature(inputs=tuple(specs), outputs=())


def resolve(*inputs, batch=1, **overrides):
    return resolve_inputs(signature(*inputs), batch=batch, overrides=overrides)


def shapes(*inputs, batch=1, **overrides):
    return [spec.shape for spec in resolve(*inputs, batch=batch, **overrides)]


def refuse(*inputs, batch=1, **overrides):
    with pytest.raises(BadInput) as caught:
        resolve(*inputs, batch=batch, **overrides)
    assert caught.value.advice
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("x=1x3x224x224", ("x", (1, 3, 224, 224))),
        ("1x3", ("", (1, 3))),
        ("7", ("", (7,))),
        ("serving_default_x:0=1,3", ("serving_default_x:0", (1, 3))),
        ("a=b=2X5", ("a=b", (2, 5))),
        (" x = [1, 3] ", ("x", (1, 3))),
    ],
)
def test_parse_shape(text, answer):
    assert parse_shape(text) == answer


@pytest.mark.parametrize(
    "text", ["", "x=", "x", "x=1x", "x=-1x3", "x=1x0", "x=1.5", "x=axb", "=", "x=1 3", "x=" + "9" * 13, "x=٣"]
)
def test_parse_shape_refuses(text):
    with pytest.raises(BadInput) as caught:
        parse_shape(text)
    assert caught.value.advice


def test_fixed_shapes_stay():
    assert resolve(("x", (1, 3)), ("s", ())) == (
        InputSpec(name="x", shape=(1, 3), dtype="float32"),
        InputSpec(name="s", shape=(), dtype="float32"),
    )
    assert resolve() == ()


@pytest.mark.parametrize("name", [None, "N", "batch", "batch_size", "unk__7", "s0"])
def test_an_open_first_dimension_is_the_batch_without_a_note(name):
    assert resolve(("x", (name, 4)), batch=8) == (InputSpec(name="x", shape=(8, 4), dtype="float32"),)


@pytest.mark.parametrize(
    ("shape", "dtype", "answer", "note"),
    [
        ((1, 3, "height", "width"), "float32", (1, 3, 224, 224),
         "open dimension 2 'height' taken as 224 (image-like name); open dimension 3 'width' taken as 224 (image-like name)"),
        ((1, "inputHeight", 9), "float32", (1, 224, 9), "open dimension 1 'inputHeight' taken as 224 (image-like name)"),
        ((1, "sequence_length"), "int64", (1, 128), "open dimension 1 'sequence_length' taken as 128 (sequence-like name)"),
        ((1, "channels", 5), "float32", (1, 3, 5), "open dimension 1 'channels' taken as 3 (channels-like name)"),
        ((1, 3, None, 32), "float32", (1, 3, 224, 32), "open dimension 2 taken as 224 (image-like position)"),
        ((1, None, None, 1), "uint8", (1, 224, 224, 1),
         "open dimension 1 taken as 224 (image-like position); open dimension 2 taken as 224 (image-like position)"),
        ((1, None), "int32", (1, 128), "open dimension 1 taken as 128 (integers in rows, like tokens)"),
        ((1, None), "float32", (1, 1), "open dimension 1 taken as 1 (unknown)"),
        ((1, 512, None, 7), "float32", (1, 512, 1, 7), "open dimension 2 taken as 1 (unknown)"),
        (("time", "batch", 40), "float32", (128, 1, 40), "open dimension 0 'time' taken as 128 (sequence-like name)"),
    ],
)  # fmt: skip
def test_stated_defaults(shape, dtype, answer, note):
    assert resolve(("x", shape, dtype)) == (InputSpec(name="x", shape=answer, dtype=dtype, note=note),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["a: open dimension 2 'H' taken as 224 (image-like name)", "a: an open batch is assumed to be 1",
              "b: an open batch is assumed to be 1"]),
        ({"a": (4, 3, 8)}, []),  # the other input has the same name of a batch, so its size is given too
    ],
)  # fmt: skip
def test_an_open_batch_is_named_beside_other_sizes(given, said):
    tensors = {"a": Tensor(name="a", shape=("N", 3, "H"), dtype="float32"),
               "b": Tensor(name="b", shape=("N", 5), dtype="float32")}  # fmt: skip
    graph = Graph(name="g", format="onnx", tensors=tensors, operators=(), inputs=("a", "b"), outputs=())
    shapes, notes = resolve_shapes(graph, given)
    assert notes == said
    assert shapes["b"] == (4 if given else 1, 5)


CACHE = ("past_key_values.0.key", (None, 3, "past_sequence_length", 64))


@pytest.mark.parametrize(
    ("ids", "mask", "cache"),
    [
        (("batch", "sequence_length"), ("batch", "past_sequence_length + 1"), CACHE),
        (("batch", "sequence_length"), ("batch", "past_sequence_length + sequence_length"), CACHE),
        (("batch", "sequence_length"), ("batch", "total_sequence_length"), CACHE),
        ((None, None), (None, None), ("past_key_values.0.key", (None, 3, None, 64))),
    ],
)
def test_a_mask_is_as_long_as_the_cache_and_the_new_tokens(ids, mask, cache):
    inputs = (("attention_mask", mask, "int64"), ("input_ids", ids, "int64"), ("position_ids", ids, "int64"), cache)
    assert shapes(*inputs) == [(1, 129), (1, 1), (1, 1), (1, 3, 128, 64)]
    assert all("taken as" in spec.note for spec in resolve(*inputs))
    given = shapes(*inputs, **{cache[0]: (1, 3, 40, 64)})
    assert given == [(1, 41), (1, 1), (1, 1), (1, 3, 40, 64)]


def test_an_encoders_mask_is_not_the_decoders():
    found = shapes(
        ("encoder_attention_mask", ("batch", "encoder_sequence_length"), "int64"),
        ("input_ids", ("batch", "decoder_sequence_length"), "int64"),
        ("encoder_hidden_states", ("batch", "encoder_sequence_length", 512)),
        ("past_key_values.0.encoder.key", ("batch", 8, "encoder_sequence_length_out", 64)),
        ("past_key_values.0.decoder.key", ("batch", 8, "past_decoder_sequence_length", 64)),
    )
    assert found == [(1, 128), (1, 1), (1, 128, 512), (1, 8, 128, 64), (1, 8, 128, 64)]


def test_masks_without_a_cache_are_as_long_as_the_tokens():
    found = shapes(("ids", (None, None), "int64"), ("mask", (None, None), "bool"), ("attention_mask", (1, None)))
    assert found == [(1, 128), (1, 128), (1, 128)]


def test_a_sample_rate_is_one():
    inputs = (("input", (None, None)), ("state", (2, None, 128)), ("sr", (), "int64"))
    sound, state, rate = resolve(*inputs)
    assert (sound.shape, state.shape, rate.value) == ((1, 512), (2, 1, 128), 16000)
    assert re.search(says("value-sample-rate"), rate.note)
    assert make_arrays([sound, state, rate], seed=0)[2].tolist() == 16000
    assert [spec.shape for spec in resolve(*inputs, batch=4)] == [(4, 512), (2, 4, 128), ()]
    (other, *_) = other_inputs(signature(*inputs), batch=1, overrides={})
    assert (other[0].shape, other[2].value) == ((1, 256), 8000)
    assert shapes(("waveform", (1, None))) == [(1, 16000)]
    (given,) = resolve_inputs(signature(("sr", (), "int64")), batch=1, overrides={}, given=True)
    assert (given.value, given.note) == (None, "")
    assert shapes(("", (1, 2)), ("", (1, 3))) == [(1, 2), (1, 3)]  # names may be the same


@pytest.mark.parametrize(
    ("name", "shape", "lengths", "size"),
    [
        ("waveforms", ("batch_size", "N"), "waveforms_lens", 16000),  # a bare N behind the batch is no batch
        ("audio_signal", (None, None), "length", 16000),
        ("features", ("batch", "time", 80), "feature_lengths", 128),
    ],
)
def test_lengths_are_those_of_what_they_tell_of(name, shape, lengths, size):
    sequence, told = resolve((name, shape, "float32"), (lengths, ("batch_size",), "int64"))
    assert (sequence.shape[:2], told.shape, told.value) == ((1, size), (1,), size)
    assert make_arrays([sequence, told], seed=0)[1].tolist() == [size]
    assert re.search(says("value-length-another-input"), told.note)


def test_a_number_called_length_beside_fixed_sizes_is_not_known():
    assert resolve(("x", (1, 8), "float32"), ("length", (1,), "int64"))[1].value is None


def test_other_sizes_to_try():
    image = ("x", (None, 3, "height", "width"))
    assert [spec[0].shape for spec in other_inputs(signature(image), batch=1, overrides={})] == [
        (1, 3, 256, 256),
        (1, 3, 640, 640),
    ]
    assert other_inputs(signature(image), batch=1, overrides={"x": (1, 3, 96, 96)}) == ()
    assert other_inputs(signature(("x", (None, 3))), batch=1, overrides={}) == ()


def test_names_that_are_sums():
    assert shapes(("x", ("s0", "s1")), ("y", ("s0", "2*s1 - 1")), x=(1, 5)) == [(1, 5), (1, 9)]
    assert shapes(("y", (1, "s1 + 4")), ("x", (1, "s1"))) == [(1, 5), (1, 1)]
    assert shapes(("y", (1, "a-b")), ("z", (1, "9**9**9")), ("q", (1, "(" * 90 + "+"))) == [(1, 1)] * 3


def test_marks_are_no_names():
    assert shapes(("x", (None, 3, "?", "?")), x=(1, 3, 48, 192)) == [(1, 3, 48, 192)]


def test_one_name_has_one_size():
    found = resolve(("a", (None, "foo")), ("b", (2, "foo"), "int64"), ("c", ("rows", 4)), ("d", (3, "rows")), batch=8)
    assert [spec.shape for spec in found] == [(8, 1), (2, 1), (8, 4), (3, 8)]
    assert [bool(spec.note) for spec in found] == [True, True, False, False]
    # a later input's batch is known when an earlier one uses its name
    assert shapes(("d", (3, "rows")), ("c", ("rows", 4)), batch=8) == [(3, 8), (8, 4)]


def test_overrides_win_and_carry_over_by_name():
    found = resolve(("a", (None, "len")), ("b", (None, "len")), a=(1, 7))
    assert [(spec.shape, spec.note) for spec in found] == [((1, 7), ""), ((1, 7), "")]
    assert shapes(("a", ("n", 2)), ("b", ("n", 3)), a=(4, 2)) == [(4, 2), (4, 3)]
    assert shapes(("x", None), x=(5, 6)) == [(5, 6)]
    assert resolve_inputs(signature(("x", (None, 3))), batch=1, overrides={"": (2, 3)})[0].shape == (2, 3)


def test_overrides_are_checked():
    assert wording("model-no-input", name="q") in refuse(("x", (1,)), q=(1,))
    with pytest.raises(BadInput) as caught:
        resolve(("x", (1,)), ("z", (1,)), q=(1,))
    assert caught.value.advice == "its inputs: x, z"
    assert re.search(says("dimensions-model", given_count=3, shape_count=2), refuse(("x", (1, 2)), x=(1, 2, 3)))
    assert re.search(says("contradicts-dimension-fixed", axis=1, size=2), refuse(("x", (1, 2)), x=(1, 3)))
    assert re.search(says("dimension-below-1"), refuse(("x", (None, 2)), x=(0, 2)))
    assert re.search(says("sets-another-input", sizes=3), refuse(("a", (1, "k")), ("b", (1, "k")), a=(1, 3), b=(1, 4)))
    with pytest.raises(BadInput, match=says("shape-without-name-model-inputs", names_count=2)):
        resolve_inputs(signature(("x", (1,)), ("z", (1,))), batch=1, overrides={"": (1,)})


def test_batch_of_a_fixed_model():
    found = resolve(("x", (1, 3)), batch=8)
    assert found == (InputSpec(name="x", shape=(8, 3), dtype="float32", note="leading dimension reshaped from 1 to 8"),)
    assert resolve(("x", (1, 3)), batch=8, x=(8, 3)) == found
    assert resolve(("x", (4, 3)), batch=4)[0].note == ""
    assert shapes(("x", (4, 3)), batch=1) == [(4, 3)]
    assert re.search(says("input-fixed-leading-dimension-so", size=4), refuse(("x", (4, 3)), batch=8))
    assert re.search(says("no-input-batch-dimension-so"), refuse(("x", ()), batch=8))
    assert re.search(says("no-input-batch-dimension-so"), refuse(batch=2))
    assert re.search(says("batch-must-least-1-not"), refuse(("x", (1,)), batch=0))


def test_batch_and_shapes_must_agree():
    assert re.search(says("contradicts-batch", batch=8), refuse(("x", (None, 3)), batch=8, x=(4, 3)))
    assert re.search(says("contradicts-batch", batch=8), refuse(("x", (1, 3)), batch=8, x=(1, 3)))
    assert re.search(says("contradicts-batch", batch=8), refuse(("x", None), batch=8, x=(4, 3)))
    assert re.search(says("contradicts-dimension-fixed", size=1), refuse(("x", (1, 3)), x=(8, 3)))
    # a front that is open and by its name no batch may be anything
    assert shapes(("x", (1, 3)), ("h", ("height",)), batch=2, h=(224,)) == [(2, 3), (224,)]
    with pytest.raises(BadInput) as caught:
        resolve(("x", (1, 3)), x=(8, 3))
    assert caught.value.advice == "the model's: 1x3; for a batch: --batch 8"


def test_with_an_open_batch_elsewhere_fixed_fronts_stay():
    assert shapes(("x", (None, 3)), ("scale", (1,)), ("state", (2, None)), batch=8) == [(8, 3), (1,), (2, 1)]


def test_inputs_that_cannot_be_fed():
    assert re.search(says("input-dimension-size-0"), refuse(("x", (1, 0))))
    assert re.search(says("number-dimensions-input-unknown"), refuse(("x", None)))
    assert re.search(says("input-needs-text-random-text"), refuse(("x", (1,), "string")))
    for dtype in ("sequence(float32)", "bfloat16", "int4", "undefined"):
        assert re.search(says("input-unsupported-type", dtype=dtype), refuse(("x", (1,), dtype)))


def test_absurd_sizes():
    assert shapes(("x", (1, 2**29))) == [(1, 2**29)]  # 2 GiB exactly
    assert "GiB" in refuse(("x", (1, 2**29 + 1)))
    assert "GiB" in refuse(("x", (None, 2**20)), ("z", (None, 2**20)), batch=257)
    assert "GiB" in refuse(("x", (None, 2**62)), batch=10**12)


def spec(name="x", shape=(2, 3), dtype="float32"):
    return InputSpec(name=name, shape=shape, dtype=dtype)


def test_arrays_are_exactly_these():
    """Pinned: a seed means the same data in every version, on every machine."""
    (floats,) = make_arrays([spec(shape=(3,))], seed=0)
    (bytes_,) = make_arrays([spec(shape=(5,), dtype="int8")], seed=0)
    raw = np.random.PCG64(np.random.SeedSequence([0, 0])).random_raw(2)
    words = [int(raw[0]) & 0xFFFFFFFF, int(raw[0]) >> 32, int(raw[1]) & 0xFFFFFFFF]
    assert floats.tolist() == [(word >> 8) / 2**24 for word in words]
    stream = int(raw[0]).to_bytes(8, "little")[:5]
    assert bytes_.tolist() == [value - 256 if value > 127 else value for value in stream]
    assert raw.tolist() == PINNED


PINNED = [11749869230777074271, 4976686463289251617]


def test_arrays_depend_on_seed_and_position_only():
    one = make_arrays([spec(), spec("z")], seed=1)
    assert np.array_equal(one[0], make_arrays([spec("other")], seed=1)[0])
    assert not np.array_equal(one[0], one[1])
    assert not np.array_equal(one[0], make_arrays([spec()], seed=2)[0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_uniform_in_0_1(dtype):
    (array,) = make_arrays([spec(shape=(10_000,), dtype=dtype)], seed=3)
    assert array.dtype == dtype
    assert array.min() >= 0
    assert array.max() < 1
    # 6 standard errors of the mean and of the variance of 10,000 uniform numbers
    assert abs(array.mean(dtype="f8") - 0.5) < 6 * (1 / 12 / 10_000) ** 0.5
    assert abs(array.var(dtype="f8") - 1 / 12) < 6 * (1 / 180 / 10_000) ** 0.5


def test_integers_and_booleans():
    for dtype, values in {"int8": range(-128, 128), "uint8": range(256)}.items():
        (array,) = make_arrays([spec(shape=(10_000,), dtype=dtype)], seed=0)
        assert array.dtype == dtype
        assert set(array.tolist()) == set(values)
    for dtype in ("bool", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        (array,) = make_arrays([spec(shape=(100,), dtype=dtype)], seed=0)
        assert array.dtype == dtype
        assert set(array.tolist()) == {0, 1}


def test_scalars_and_layout():
    (array,) = make_arrays([spec(shape=())], seed=0)
    assert array.shape == ()
    (array,) = make_arrays([spec(dtype="int8")], seed=0)
    assert array.flags.c_contiguous
    assert array.flags.writeable


def test_arrays_that_cannot_be_made():
    with pytest.raises(BadInput, match="string"):
        make_arrays([spec(dtype="string")], seed=0)
    with pytest.raises(BadInput, match=says("seed-must-least-0-not")):
        make_arrays([spec()], seed=-1)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def save(tmp_path, *args, compress=False, **arrays):
    path = tmp_path / "data.npz"
    (np.savez_compressed if compress else np.savez)(path, *args, **arrays)
    return path


def refuse_file(path, *specs):
    with pytest.raises(BadInput) as caught:
        load_arrays(path, specs or (spec(),))
    assert caught.value.advice
    assert "\n" not in caught.value.message
    return f"{caught.value.message} | {caught.value.advice}"


@pytest.mark.parametrize("compress", [False, True])
def test_load_by_name(tmp_path, compress):
    path = save(tmp_path, compress=compress, z=X + 1, x=X)
    found = load_arrays(path, [spec("x"), spec("z")])
    assert [array.tolist() for array in found] == [X.tolist(), (X + 1).tolist()]


def test_load_by_position(tmp_path):
    assert load_arrays(save(tmp_path, whatever=X), [spec()])[0].tolist() == X.tolist()
    found = load_arrays(save(tmp_path, X, X + 1), [spec("a"), spec("b")])
    assert [array.tolist() for array in found] == [X.tolist(), (X + 1).tolist()]


def test_shapes_of_data_are_those_of_open_dimensions(tmp_path):
    path = save(tmp_path, x=X, z=X, fixed=X)
    inputs = signature(("x", (None, "w")), ("z", (None, 5)), ("fixed", (1, 3))).inputs
    assert read_shapes(path, inputs) == {"x": (2, 3)}
    assert read_shapes(path, inputs[:2]) == {}  # read_arrays says what is wrong
    assert read_shapes(save(tmp_path, any=X), signature(("y", None)).inputs) == {"y": (2, 3)}
    assert read_shapes(tmp_path / "none.npz", inputs) == {}


def test_text(tmp_path):
    text = np.array([["a", "béé"]])
    (found,) = load_arrays(save(tmp_path, x=text), [spec(shape=(1, 2), dtype="string")])
    assert found.tolist() == text.tolist()
    assert re.search(says("array-model-needs-text"), refuse_file(save(tmp_path, x=X), spec(dtype="string")))
    assert resolve_inputs(signature(("x", (None, 2), "string")), batch=3, overrides={}, given=True)[0].shape == (3, 2)


def test_names_with_slashes_and_colons(tmp_path):
    path = save(tmp_path, **{"gpu_0/data_0": X, "x:0": X})
    assert len(load_arrays(path, [spec("x:0"), spec("gpu_0/data_0")])) == 2


def test_layouts_and_byte_orders(tmp_path):
    for array in (np.asfortranarray(X), X.astype(">f4"), np.repeat(X, 2, axis=1)[:, ::2]):
        (found,) = load_arrays(save(tmp_path, x=array), [spec()])
        assert found.tolist() == X.tolist()
        assert found.dtype == np.dtype("float32")
        assert found.dtype.isnative
        assert found.flags.c_contiguous
        assert found.flags.writeable


def test_scalar(tmp_path):
    assert load_arrays(save(tmp_path, x=np.float32(5)), [spec(shape=())])[0].tolist() == 5


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("float64", "float32"), ("float16", "float32"), ("float32", "float16"), ("int64", "int32"), ("uint8", "int64"),
     ("bool", "int64"), ("int64", "int8"), ("int8", "uint8")],
)  # fmt: skip
def test_safe_conversions_are_noted(tmp_path, given, wanted):
    arrays, notes = read_arrays(save(tmp_path, x=np.array([0, 1]).astype(given)), [spec(shape=(2,), dtype=wanted)])
    assert arrays[0].tolist() == [0, 1]
    assert arrays[0].dtype == wanted
    assert notes == (f"data converted from {given} to {wanted}",)


def test_no_conversion_no_note(tmp_path):
    assert read_arrays(save(tmp_path, x=X), [spec()])[1] == ("",)


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (np.array([0, 300]), "uint8"),
        (np.array([0, -1]), "uint64"),
        (np.array([0, 2**63], dtype="uint64"), "int64"),
        (np.array([0, 1e300]), "float32"),
        (np.array([0, 1e6], dtype="float32"), "float16"),
        (np.array([0.0, 1.0]), "int32"),
        (np.array([0, 1], dtype="uint8"), "float32"),
        (np.array([0, 1]), "bool"),
        (np.array(["a", "b"]), "float32"),
    ],
)
def test_lossy_conversions_are_refused(tmp_path, array, wanted):
    assert re.search(
        says("convert-yourself-scaled-model-expects"),
        refuse_file(save(tmp_path, x=array), spec(shape=(2,), dtype=wanted)),
    )


def test_complex_numbers_are_refused(tmp_path):
    assert "values of the type complex128" in refuse_file(save(tmp_path, x=np.array([0, 1j])), spec(shape=(2,)))


def test_not_a_number_is_data(tmp_path):
    (found,) = load_arrays(save(tmp_path, x=np.array([np.nan, np.inf])), [spec(shape=(2,))])
    assert np.isnan(found[0])
    assert np.isinf(found[1])


def test_names_and_shapes_that_do_not_match(tmp_path):
    both = (spec("x"), spec("z"))
    assert "lacks z | give exactly: x float32 [2, 3], z float32 [2, 3]" in refuse_file(save(tmp_path, x=X), *both)
    assert "lacks z" in refuse_file(save(tmp_path, x=X, y=X), *both)
    assert wording("contains-which-not-input", extra="y") in refuse_file(save(tmp_path, x=X, y=X, z=X), *both)
    assert re.search(says("array-shape", shape=has("[3, 2]")), refuse_file(save(tmp_path, x=X.T)))
    assert re.search(says("array-shape", shape=has("[6]")), refuse_file(save(tmp_path, x=X.reshape(-1))))


def write_zip(path, entries, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header(text, version=b"\x01\x00"):
    size = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text


def test_not_an_npz(tmp_path):
    path = tmp_path / "data.npz"
    assert re.search(says("not-there-in-command"), refuse_file(path))
    assert wording("not-npz-file") in refuse_file(tmp_path)
    path.write_bytes(b"")
    assert wording("not-npz-file") in refuse_file(path)
    path.write_bytes(npy(X))
    assert wording("not-npz-file") in refuse_file(path)
    path.write_bytes(pickle.dumps({"x": X}))
    assert wording("not-npz-file") in refuse_file(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not numpy",
        npy(X)[:40],
        header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", b"\x09\x00"),
        header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", b"\x03\x00"),
        header(b"(" * 5000),
        header(b"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }\n"),
        header(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }\n"),
        header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000, 3000000000), }\n"),
        header(b"__import__('os').system('false')"),
        npy(X)[:-1],
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    ],
)
def test_broken_and_hostile_arrays(tmp_path, data):
    refuse_file(write_zip(tmp_path / "data.npz", {"x.npy": data}))


def test_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=np.array([{}, {}], dtype=object))
    assert wording("python-objects-which-never-unpickled") in refuse_file(path, spec(shape=(2,)))


def test_a_wrong_checksum(tmp_path):
    path = write_zip(tmp_path / "data.npz", {"x.npy": npy(X)})
    data = bytearray(path.read_bytes())
    data[data.index(X.tobytes()) + 5] ^= 1
    path.write_bytes(data)
    assert "damaged" in refuse_file(path)


def test_archives_that_unpack_to_too_much(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "data.npz", {"x.npy": npy(X), "y.npy": b"\0" * 10_000}, zipfile.ZIP_DEFLATED)
    monkeypatch.setattr("edgewise.workload.arrays.MAX_FILE_BYTES", 5_000)
    assert re.search(says("would-unpack-bytes-arrays"), refuse_file(path))
    monkeypatch.setattr("edgewise.workload.arrays.MAX_FILE_BYTES", 50_000)
    monkeypatch.setattr("edgewise.workload.arrays.MAX_FILE_ARRAYS", 1)
    assert re.search(says("would-unpack-bytes-arrays", entries_count=2), refuse_file(path))


def test_compression_numpy_does_not_write(tmp_path):
    path = write_zip(tmp_path / "data.npz", {"x.npy": npy(X)}, zipfile.ZIP_LZMA)
    assert "compression" in refuse_file(path)


def test_every_truncation_and_many_flips(tmp_path):
    data = save(tmp_path, compress=True, x=X).read_bytes()
    path = tmp_path / "cut.npz"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        refuse_file(path)
    outcomes = set()
    for at in range(len(data)):
        for bit in (0x01, 0x80, 0xFF):
            path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            try:
                outcomes.add(load_arrays(path, [spec()])[0].shape)
            except BadInput:
                outcomes.add("refused")
    assert outcomes == {(2, 3), "refused"}


@pytest.mark.parametrize(
    ("own", "given", "batch"),
    [
        (("batch", 3), (4, 3), 4),
        ((None, 3), (4, 3), 4),
        ((1, 3), (8, 3), 8),
        ((4, 3), (4, 3), 1),  # a fixed 4 may be anything
        (("sequence", 3), (128, 3), 1),
        ((), (), 1),
    ],
)
def test_the_batch_that_given_shapes_amount_to(own, given, batch):
    signature = Signature(inputs=(TensorSpec(name="x", shape=own, dtype="float32"),), outputs=())
    assert batch_of(signature, [spec(shape=given)]) == batch


def test_inputs_with_different_first_sizes_have_no_batch():
    inputs = tuple(TensorSpec(name=name, shape=(None, 3), dtype="float32") for name in "ab")
    specs = [InputSpec(name=name, shape=(size, 3), dtype="float32") for name, size in (("a", 2), ("b", 4))]
    assert batch_of(Signature(inputs=inputs, outputs=()), specs) == 1
