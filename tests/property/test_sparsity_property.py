"""Patterns of zeros in weights of any shape: planted ones are found, and counts agree with plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgewise.model.graph import Graph, Operator, StoredData, Tensor
from edgewise.model.sparsity import BLOCKS, LayerSparsity, count_zeros


def count(array, *, turned=True) -> LayerSparsity:
    """Zeros of the weight of a Gemm: [filters, channels] if `turned`, else [channels, filters]."""
    data = StoredData(dtype="float32", inline=array.astype("<f4").tobytes())
    shapes = {"x": (1, array.shape[turned]), "y": (1, array.shape[not turned])}
    tensors = {name: Tensor(name=name, shape=shape, dtype="float32") for name, shape in shapes.items()}
    tensors["w"] = Tensor(name="w", shape=array.shape, dtype="float32", constant=True, data=data)
    gemm = Operator(
        index=0, name="gemm", op="Gemm", kind="matrix-multiplication", inputs=("x", "w"), outputs=("y",),
        weights=("w",), attributes={"transB": int(turned)},
    )  # fmt: skip
    graph = Graph(name="", format="onnx", tensors=tensors, operators=(gemm,), inputs=("x",), outputs=("y",))
    (found,) = count_zeros(graph, model=None).layers
    return found


@given(st.sampled_from([4, 8, 16]), st.data(), st.booleans(), st.integers(0, 99))
def test_a_planted_pattern_is_found(of, data, turned, seed):
    keep = data.draw(st.integers(1, of - 1))
    filters, groups = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    random = np.random.default_rng(seed)
    array = random.uniform(0.5, 1.0, (filters, groups * of))
    array *= random.permuted(np.tile(np.arange(of) < keep, (filters * groups, 1)), axis=1).reshape(array.shape)
    found = count(array if turned else array.T, turned=turned)
    assert found.at_most[of] == keep
    assert found.zeros == filters * groups * (of - keep)


@given(st.integers(0, 999))
def test_random_zeros_are_no_pattern(seed):
    array = np.random.default_rng(seed).uniform(0.5, 1.0, (64, 64))
    array *= np.random.default_rng(seed + 1000).random(array.shape) < 0.5  # a group of 4 keeps 3 or 4 in 5 of 16 cases
    found = count(array)
    assert found.zeros == int((array == 0).sum())
    assert found.at_most[4] > 2
    assert found.patterns == ()


@given(st.integers(1, 16), st.integers(1, 16), st.floats(0.0, 1.0), st.integers(0, 999))
def test_counts_agree_with_plain_loops(filters, channels, density, seed):
    random = np.random.default_rng(seed)
    array = np.where(random.random((filters, channels)) < density, random.uniform(0.5, 1.0, (filters, channels)), 0.0)
    found = count(array)
    zero = array == 0
    assert found.zeros == zero.sum()
    assert (found.zero_filters, found.zero_channels) == (sum(map(all, zero)), sum(map(all, zero.T)))
    expected = {
        f"{rows}x{columns}": sum(
            rows * columns
            for top in range(0, filters, rows)
            for left in range(0, channels, columns)
            if zero[top : top + rows, left : left + columns].all()
        )
        for rows, columns in BLOCKS
        if filters % rows == 0 and channels % columns == 0
    }
    assert found.in_blocks == expected
