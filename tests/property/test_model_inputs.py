"""Laws of the shapes given to a model's inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from edgewise.errors import BadInput
from edgewise.model.signature import Signature, TensorSpec
from edgewise.workload.input_shapes import parse_shape, resolve_inputs
from edgewise.workload.inputs import make_arrays

SIZES = st.one_of(st.integers(1, 5), st.none(), st.sampled_from(["batch", "N", "height", "seq_len", "foo", "bar", "c"]))
DTYPES = st.sampled_from(["float32", "int64", "uint8", "bool", "float16"])


@st.composite
def signatures(draw):
    shapes = draw(st.lists(st.lists(SIZES, max_size=3).map(tuple), min_size=1, max_size=3))
    specs = [TensorSpec(name=f"x{at}", shape=shape, dtype=draw(DTYPES)) for at, shape in enumerate(shapes)]
    return Signature(inputs=tuple(specs), outputs=())


def check_laws(signature, found, *, batch):
    named: dict[str, int] = {}
    for spec, answer in zip(signature.inputs, found, strict=True):
        assert (answer.name, answer.dtype, len(answer.shape)) == (spec.name, spec.dtype, len(spec.shape))
        for axis, (size, given_size) in enumerate(zip(spec.shape, answer.shape, strict=True)):
            assert given_size >= 1
            if isinstance(size, int):
                assert given_size == size or (axis == 0 and size == 1 and given_size == batch)
            elif isinstance(size, str):
                assert named.setdefault(size, given_size) == given_size
        assert spec.dynamic or answer.shape == spec.shape or "reshaped" in answer.note


SHARED = [
    TensorSpec(name="x0", shape=(None, "N"), dtype="float32"),
    TensorSpec(name="x1", shape=("N",), dtype="float32"),
]


@example(signature=Signature(inputs=tuple(SHARED), outputs=()), batch=2)
@example(signature=Signature(inputs=(SHARED[0], replace(SHARED[1], shape=(1, "N"))), outputs=()), batch=2)
@given(signature=signatures(), batch=st.integers(1, 9))
def test_fixed_stays_and_one_name_is_one_size(signature, batch):
    try:
        found = resolve_inputs(signature, batch=batch, overrides={})
    except BadInput:
        assert batch != 1
        return
    check_laws(signature, found, batch=batch)


@given(signature=signatures(), batch=st.integers(1, 9))
def test_what_was_resolved_can_be_asked_for(signature, batch):
    """Giving every answer back as an override changes nothing, and then nothing is assumed any more."""
    try:
        found = resolve_inputs(signature, batch=batch, overrides={})
    except BadInput:
        return
    again = resolve_inputs(signature, batch=batch, overrides={spec.name: spec.shape for spec in found})
    assert [spec.shape for spec in again] == [spec.shape for spec in found]
    assert not any("taken as" in spec.note for spec in again)


@given(signature=signatures(), seed=st.integers(0, 2**64))
def test_arrays_fit_and_repeat(signature, seed):
    specs = resolve_inputs(signature, batch=1, overrides={})
    arrays = make_arrays(specs, seed=seed)
    for spec, array, again in zip(specs, arrays, make_arrays(specs, seed=seed), strict=True):
        assert (array.shape, array.dtype) == (spec.shape, np.dtype(spec.dtype))
        assert array.flags.c_contiguous
        assert np.array_equal(array, again)


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip() == text),
    shape=st.lists(st.integers(1, 10**9), min_size=1, max_size=8).map(tuple),
)
def test_shapes_survive_the_command_line(name, shape):
    assert parse_shape(f"{name}={'x'.join(map(str, shape))}") == (name, shape)
