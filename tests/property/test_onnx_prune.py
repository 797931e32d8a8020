"""Pruning masks on weights of any shape: how many go, and that the largest stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from edgewise.optimizing.passes.onnx_prune import mask_pattern, mask_share

VALUES = st.floats(-(2.0**99), 2.0**99, width=32)
WEIGHTS = arrays(np.float32, array_shapes(min_dims=1, max_dims=4, max_side=6), elements=VALUES)


@given(WEIGHTS, st.floats(0.001, 0.999))
def test_a_share_goes_within_one_weight_and_the_largest_stay(weights, sparsity):
    mask = mask_share(weights, sparsity)
    assert mask.shape == weights.shape
    assert abs(int((~mask).sum()) - sparsity * weights.size) <= 1
    if mask.any() and not mask.all():
        assert np.abs(weights[mask]).min() >= np.abs(weights[~mask]).max()


@given(st.data(), st.integers(2, 8))
def test_exactly_n_of_m_stay_and_they_are_the_largest(data, of):
    keep = data.draw(st.integers(1, of - 1))
    shape = list(data.draw(array_shapes(min_dims=1, max_dims=4, max_side=4)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] *= of
    weights = data.draw(arrays(np.float32, tuple(shape), elements=VALUES))
    mask = mask_pattern(weights, keep, of, axis=axis)
    assert mask.shape == weights.shape
    stay = np.moveaxis(mask, axis, -1).reshape(-1, of)
    size = np.abs(np.moveaxis(weights, axis, -1).reshape(-1, of))
    assert (stay.sum(axis=1) == keep).all()
    for row, kept in zip(size, stay, strict=True):
        assert row[kept].min() >= row[~kept].max()


@given(st.integers(1, 20), st.integers(2, 8))
def test_a_dimension_that_does_not_divide_is_an_error(size, of):
    weights = np.ones((size,), np.float32)
    if size % of:
        with pytest.raises(ValueError, match="no multiple"):
            mask_pattern(weights, 1, of, axis=0)
    else:
        assert mask_pattern(weights, 1, of, axis=0).sum() == size // of
