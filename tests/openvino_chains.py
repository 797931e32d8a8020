"""Small OpenVINO networks that compute the shape that another operation takes; see `openvino_operations`."""

from __future__ import annotations

import pytest

from openvino_operations import integers

ov = pytest.importorskip("openvino")
np = pytest.importorskip("numpy")


def flatten(c, ops):
    """Reshape to [N, −1], as converters write it."""

    def build(x):
        batch = ops.gather(ops.shape_of(x), integers([0]), integers(0))
        return ops.reshape(x, ops.concat([batch, integers([-1])], 0), False)

    return [c.sizes(4)], build


def merge_heads(c, ops):
    """[N, T, H, D] → [N, T, H·D], every size computed."""

    def build(x):
        sizes = ops.split(ops.convert(ops.shape_of(x), "i32"), integers(0), 4).outputs()
        parts = [ops.squeeze(each, integers([0])) for each in sizes]
        width = ops.multiply(parts[2], parts[3])
        target = [ops.unsqueeze(each, integers([0])) for each in (parts[0], parts[1], width)]
        return ops.reshape(x, ops.concat(target, 0), True)

    return [c.sizes(4)], build


def double(c, ops):
    """Resize to sizes computed in 32-bit floats."""
    scale = c.choice([2.0, 1.5, 0.5])

    def build(x):
        sizes = ops.strided_slice(ops.shape_of(x), integers([2]), integers([4]), integers([1]), [0], [0])
        scaled = ops.multiply(ops.convert(sizes, "f32"), ops.constant(np.full(2, scale, "float32")))
        return ov.opset11.interpolate(
            x, ops.convert(ops.floor(scaled), "i64"), "nearest", "sizes", axes=integers([2, 3])
        )

    return [c.sizes(4, 2)], build


def expand(c, ops):
    """ONNX's Expand: −1 stands for 1."""

    def build(x):
        sizes = ops.slice(ops.shape_of(x), integers([1]), integers([3]), integers([1]), integers([0]))
        wanted = ops.concat([integers([-1]), ops.divide(ops.add(sizes, integers([4])), integers([2]))], 0)
        ones = ops.broadcast(integers(1), ops.shape_of(wanted))
        target = ops.select(ops.equal(wanted, integers([-1])), ones, ops.maximum(wanted, integers([3])))
        return ops.broadcast(ops.constant(np.zeros((1, 1, 1), "float32")), target, broadcast_spec="BIDIRECTIONAL")

    return [c.sizes(3)], build


def count_up(c, ops):
    """Positions of a sequence, and how many elements it has."""

    def build(x):
        length = ops.gather(ops.shape_of(x), integers(1), integers(0))
        positions = ops.range(integers(0), length, integers(1), "i64")
        whole = ops.reduce_prod(ops.shape_of(x), integers([0]), True)
        return ops.add(ops.reshape(x, whole, False), ops.reduce_sum(ops.convert(positions, "f32"), integers([0]), True))

    return [c.sizes(2)], build


CHAINS = (flatten, merge_heads, double, expand, count_up)
