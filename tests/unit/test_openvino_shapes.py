"""Shapes behind open dimensions: rules by hand, values that follow from shapes, and what does not go together."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import count, total_of
from edgewise.model.readers.openvino_shapes import RULES, settle_outputs
from edgewise.model.readers.openvino_shapes_steps import ShapeConflict, Step
from edgewise.model.readers.openvino_shapes_values import follow
from openvino_writer import Ir, const, layer, parameter, port, relu, result

U = None
HUGE = 2**63 - 1


def step(op, *shapes, version=8, outputs=1, values=None, **options):
    """An operation; `values` are by position of the input."""
    return Step(op.lower(), version, options, tuple(shapes), lambda at: (values or {}).get(at), outputs)


def settle(*arguments, stated=None, **options):
    made = step(*arguments, **options)
    found = settle_outputs(made, stated if stated is not None else [None] * made.outputs)
    return found[0] if made.outputs == 1 else found


def elements(op, *shapes, outputs=((3,),), dtype="int64", **options):
    found = follow(step(op, *shapes, outputs=len(outputs), **options), outputs=outputs, dtype=dtype)
    return found[0] if len(outputs) == 1 else found


@pytest.mark.parametrize(
    ("mode", "one", "other", "expected"),
    [("numpy", (U, 3), (3,), (U, 3)), ("numpy", (U, 3), (5, 1), (5, 3)), ("numpy", (1, 3), (U, 3), (U, 3)),
     ("numpy", (), (2, U), (2, U)), ("numpy", (0, 1), (1, 4), (0, 4)), ("numpy", U, (2,), U), ("numpy", (U,), (U,), (U,)),
     ("pdpd", (2, 3, 4), (3,), (2, 3, 4)), ("none", (U, 3), (2, U), (2, 3))],
)  # fmt: skip
def test_stretching(mode, one, other, expected):
    assert settle("Add", one, other, auto_broadcast=mode) == expected


def test_stretching_of_three():
    assert settle("Select", (U, 1), (1, 3), (4, 1)) == (4, 3)
    assert settle("FakeQuantize", (U, 3), *[(1, 3)] * 4) == (U, 3)


@pytest.mark.parametrize(
    ("op", "shapes", "options"),
    [("Add", [(2, 3), (2, 4)], {}), ("Add", [(2, 3), (2, 1)], {"auto_broadcast": "none"}),
     ("MatMul", [(2, 3), (4, 5)], {}), ("MatMul", [(), (4, 5)], {}), ("Convolution", [(1, 3, 8, 8), (4, 2, 3, 3)], {}),
     ("Convolution", [(1, 3, 2, 2), (4, 3, 3, 3)], {}), ("Convolution", [(1, 3, 8), (4, 3, 3, 3)], {}),
     ("Reshape", [(2, 3), (2,)], {"values": {1: (4, -1)}}), ("Reshape", [(2, 3), (2,)], {"values": {1: (2, 2)}}),
     ("Reshape", [(2, 3), (2,)], {"values": {1: (-1, -1)}}), ("Reshape", [(2, 3), (2,)], {"values": {1: (-2, -3)}}),
     ("Reshape", [(2,), (2,)], {"values": {1: (2, 0)}, "special_zero": True}), ("Concat", [(2, 3), (3, 3)], {"axis": 1}),
     ("Concat", [(2, 3), (2,)], {"axis": 0}), ("Concat", [(2, 3), (2, 3)], {"axis": 2}),
     ("Split", [(7,), ()], {"values": {1: (0,)}, "num_splits": 2, "outputs": 2}),
     ("VariadicSplit", [(7,), (), (2,)], {"values": {1: (0,), 2: (3, 3)}, "outputs": 2}),
     ("VariadicSplit", [(7,), (), (2,)], {"values": {1: (0,), 2: (8, -1)}, "outputs": 2}),
     ("Transpose", [(2, 3), (2,)], {"values": {1: (0, 0)}}), ("Pad", [(2,), (1,), (1,)], {"values": {1: (-3,), 2: (0,)}}),
     ("ReduceSum", [(2, 3), ()], {"values": {1: (2,)}}), ("SpaceToDepth", [(1, 3, 7)], {"block_size": 2}),
     ("Gather", [(2, 3), (3, 3), ()], {"values": {2: (1,)}, "batch_dims": 1}),
     ("Broadcast", [(2, 3), (1,)], {"values": {1: (3,)}}), ("Broadcast", [(2,), (1,)], {"values": {1: (3,)}}),
     ("LSTMSequence", [(3, 7, 4), (1, 1, 8), (1, 1, 8)], {"hidden_size": 8, "outputs": 3}),
     ("Einsum", [(2, 3), (4, 5)], {"equation": "ab,bc->ac"})],
)  # fmt: skip
def test_what_does_not_go_together(op, shapes, options):
    with pytest.raises(ShapeConflict):
        settle(op, *shapes, **options)


@pytest.mark.parametrize(
    ("op", "shapes", "options", "expected"),
    [
        ("Convolution", [(U, 3, 8, U), (4, 3, 3, 3)], {"strides": (2, 1), "pads_begin": (1, 1), "pads_end": (0, 1)}, (U, 4, 4, U)),
        ("Convolution", [(2, 3, 8), (4, 3, 3)], {"strides": 1, "dilations": 2, "auto_pad": "valid"}, (2, 4, 4)),
        ("Convolution", [(2, 3, 9, 9), (4, 3, 3, 3)], {"strides": (2, 2), "auto_pad": "same_upper"}, (2, 4, 5, 5)),
        ("GroupConvolution", [(2, U, 8), (6, 2, 1, 3)], {"strides": 1}, (2, 12, 6)),
        ("ConvolutionBackpropData", [(2, 3, 8), (3, 4, 3)], {"strides": 2, "output_padding": 1}, (2, 4, 18)),
        ("ConvolutionBackpropData", [(2, 3, 8), (3, 4, 3), (1,)], {"strides": 2, "values": {2: (16,)}}, (2, 4, 16)),
        ("AvgPool", [(2, 3, 10)], {"kernel": 3, "strides": 2, "rounding_type": "ceil"}, (2, 3, 5)),
        ("MatMul", [(U, 2, 3), (3, 5)], {}, (U, 2, 5)), ("MatMul", [(3,), (3,)], {}, ()),
        ("MatMul", [(4, 3, U), (1, 5, 3)], {"transpose_a": True, "transpose_b": True}, (4, U, 5)),
        ("Reshape", [(U, 3, 4), (2,)], {"values": {1: (0, -1)}, "special_zero": True}, (U, 12)),
        ("Reshape", [(2, 3, 4), (2,)], {"values": {1: (U, 6)}}, (4, 6)), ("Reshape", [U, (2,)], {"values": {1: (U, 6)}}, (U, 6)),
        ("Reshape", [(2, 3, 4), (3,)], {}, (U, U, U)), ("Reshape", [(2, 3, 4), (U,)], {}, U),
        ("Reshape", [(0, 3), (2,)], {"values": {1: (0, -1)}}, (0, U)), ("Reshape", [(6,), (0,)], {"values": {1: (U, U)}}, (U, U)),
        ("Squeeze", [(1, U, 1), (1,)], {"values": {1: (-1,)}}, (1, U)), ("Squeeze", [(1, U, 1)], {}, U),
        ("Squeeze", [(1, U), ()], {"values": {1: (1,)}}, U), ("Squeeze", [(1, 2), ()], {"values": {1: (1,)}}, (1, 2)), ("Squeeze", [(1, 2, 1)], {}, (2,)),
        ("Unsqueeze", [(2, 3), (2,)], {"values": {1: (0, -1)}}, (1, 2, 3, 1)), ("Transpose", [(2, U), (0,)], {"values": {1: ()}}, (U, 2)),
        ("Concat", [(U, 2), (3, 4)], {"axis": 1}, (3, 6)), ("Concat", [(U, 2), U], {"axis": 1}, (U, U)),
        ("StridedSlice", [(5, 6, 7), (2,), (2,)], {"values": {1: (1, 0), 2: (4, 9)}, "begin_mask": (0, 1), "end_mask": (0, 0)}, (3, 6, 7)),
        ("StridedSlice", [(5, 6), (2,), (2,)], {"values": {1: (0, -1), 2: (1, 0)}, "shrink_axis_mask": (0, 1), "begin_mask": "",
                                               "new_axis_mask": (1, 0)}, (1, 6)),  # the one index is of the first dimension
        ("Slice", [(U, HUGE), (1,), (1,), (1,), (1,)], {"values": {1: (-HUGE,), 2: (HUGE,), 3: (2,), 4: (1,)}}, (U, 2**62)),
        ("Slice", [(4,), (1,), (1,), (1,)], {"values": {1: (-9,), 2: (-9,), 3: (-1,)}}, (U,)),
        ("MaxPool", [(2, 3, 18)], {"kernel": 2, "strides": 3, "rounding_type": "ceil", "auto_pad": "same_upper"}, (2, 3, 7)),
        ("Gather", [(5, U), (2, 3), ()], {"values": {2: (0,)}}, (2, 3, U)), ("Tile", [(2, 3), (3,)], {"values": {1: (2, 1, U)}}, (2, 2, U)),
        ("ReduceMean", [(U, 3, 4), (2,)], {"values": {1: (1, -1)}, "keep_dims": True}, (U, 1, 1)),
        ("ReduceMean", [(U, 3, 4), U], {"keep_dims": False}, U),
        ("Interpolate", [(1, 3, 8, U), (2,)], {"version": 11, "shape_calculation_mode": "scales", "values": {1: (2.0, 2.0)}}, (U, U, U, U)),
        ("Interpolate", [(1, 8), (1,), (1,)], {"version": 11, "shape_calculation_mode": "scales", "values": {1: (2.5,), 2: (1,)}}, (1, 20)),
        ("Broadcast", [(1, 3), (2,)], {"values": {1: (U, U)}}, (U, 3)), ("Range", [(), (), ()], {"values": {0: (1,), 1: (8,), 2: (3,)}}, (3,)),
        ("Range", [(), (), ()], {"values": {0: (1.0,), 1: (8.0,), 2: (3.0,)}}, (U,)),
        ("TopK", [(2, 9), ()], {"values": {1: (4,)}, "axis": 1, "outputs": 2}, [(2, 4), (2, 4)]),
        ("GRUSequence", [(U, 7, 4), (3, 2, 8)], {"hidden_size": 8, "direction": "bidirectional", "outputs": 2}, [(3, 2, 7, 8), (3, 2, 8)]),
        ("LSTMCell", [(U, 4), (3, 8), (3, 8)], {"hidden_size": 8, "outputs": 2}, [(3, 8), (3, 8)]),
        ("NonZero", [(2, 3)], {}, U), ("Frobnicate", [(2, 3)], {}, U), ("ReLU", [(2, 3)], {"version": 0}, U),
        ("Convolution", [(2, 3, 9), (4, 3, 3)], {"strides": 0}, U), ("Convolution", [(2, 3, 9), (4, 3, 3)], {"strides": "x"}, U),
    ],
)  # fmt: skip
def test_rules(op, shapes, options, expected):
    assert settle(op, *shapes, **options) == expected


def test_what_the_file_states_stays_where_nothing_more_is_known():
    assert settle("Frobnicate", (2, 3), stated=[(U, 3)]) == (U, 3)
    assert settle("ReLU", (2, U), stated=[(U, 3)]) == (2, 3)
    with pytest.raises(ShapeConflict):
        settle("ReLU", (2, U), stated=[(3, U)])
    with pytest.raises(ShapeConflict):
        settle("ReLU", (2, U), stated=[(2, U, U)])
    assert settle("Split", (6,), (), values={1: (0,)}, num_splits=3, outputs=2) == [U, U]  # not as many as it says


@pytest.mark.parametrize(
    ("size", "scale", "expected"),
    [(8, 2.0, 16), (7, 0.5, 3), (6, 0.3333333134651184, 2), (3, 2.0000004, 6), (2**24 + 1, 1.5, U), (8, float("nan"), U),
     (8, float("inf"), U), (8, -1.0, U), (2**40, 2.0, U), (10**8, 1.0000001, U)],
)  # fmt: skip
def test_scales(size, scale, expected):
    found = settle("Interpolate", (size,), (1,), version=11, shape_calculation_mode="scales", values={1: (scale,)})
    assert found == (expected,)


def test_sizes_beyond_63_bits():
    for op, shapes, options in [
        ("Concat", [(HUGE,), (1,)], {"axis": 0}), ("Tile", [(HUGE,), (1,)], {"values": {1: (2,)}}),
        ("Pad", [(HUGE,), (1,), (1,)], {"values": {1: (HUGE,), 2: (HUGE,)}}),
        ("Reshape", [(2,), (1,)], {"values": {1: (2**63,)}}), ("DepthToSpace", [(1, 4, HUGE, 1)], {"block_size": 2}),
        ("Unsqueeze", [(1,) * 60, (10,)], {"values": {1: tuple(range(10))}}),
        ("Gather", [(2,) * 40, (2,) * 40, ()], {"values": {2: (0,)}}),
    ]:  # fmt: skip
        with pytest.raises(ShapeConflict):
            settle(op, *shapes, **options)
    assert settle("Convolution", (1, 1, HUGE), (1, 1, 1), strides=1) == (1, 1, HUGE)
    assert elements("Multiply", (1,), (1,), values={0: (2**62,), 1: (2,)}, outputs=((1,),)) == (U,)
    assert elements("Broadcast", (), (1,), values={0: (1,), 1: (HUGE,)}, outputs=((HUGE,),)) is None
    assert elements("Concat", (64,), (65,), values={}, axis=0, outputs=((129,),)) is None


@pytest.mark.parametrize(
    ("op", "shapes", "options", "expected"),
    [
        ("ShapeOf", [(2, U, 4)], {}, (2, U, 4)), ("ShapeOf", [(2, 2**31, 4)], {"dtype": "int32"}, (2, U, 4)),
        ("Gather", [(3,), (3,), ()], {"values": {0: (7, U, 9), 1: (-1, 1, 5), 2: (0,)}}, (9, U, U)),
        ("Gather", [(3, 1), (3,), ()], {"values": {0: (7, 8, 9), 1: (0, 1, 2), 2: (0,)}}, U),
        ("Concat", [(1,), (2,)], {"axis": 0, "values": {0: (5,)}}, (5, U, U)),
        ("Slice", [(6,), (1,), (1,), (1,)], {"values": {0: (1, 2, 3, 4, 5, 6), 1: (-1,), 2: (-7,), 3: (-2,)}}, (6, 4, 2)),
        ("StridedSlice", [(4,), (1,), (1,)], {"values": {0: (1, 2, 3, 4), 1: (1,), 2: (9,)}}, (2, 3, 4)),
        ("StridedSlice", [(4,), (1,), (1,)], {"values": {0: (1, 2, 3, 4), 1: (-1,), 2: (0,)}, "shrink_axis_mask": 1, "outputs": ((),)}, (4,)),
        ("StridedSlice", [(4,), (1,), (1,)], {"values": {0: (1, 2, 3, 4), 1: (9,), 2: (0,)}, "shrink_axis_mask": 1, "outputs": ((),)}, U),
        ("Split", [(4,), ()], {"values": {0: (1, 2, 3, 4)}, "outputs": ((2,), (2,))}, [(1, 2), (3, 4)]),
        ("Add", [(3,), ()], {"values": {0: (1, U, 3), 1: (4,)}}, (5, U, 7)),
        ("Divide", [(3,), ()], {"values": {0: (7, -7, 8), 1: (2,)}}, (3, -4, 4)),
        ("Divide", [(3,), ()], {"values": {0: (7, -7, 8), 1: (2,)}, "m_pythondiv": False}, U),
        ("Divide", [(3,), (3,)], {"values": {0: (7, 0, 8), 1: (0, 0, 2)}}, (U, U, 4)),
        ("Multiply", [(3,), ()], {"values": {0: (10.0, 0.1, 1e38), 1: (10.0,)}, "dtype": "float32"}, (100.0, 1.0, U)),
        ("Convert", [(3,)], {"values": {0: (1.9, -1.9, 1e30)}}, (1, -1, U)), ("Convert", [(3,)], {"values": {0: (0, 5, -1)}, "dtype": "bool"}, (0, 1, 1)),
        ("Convert", [(3,)], {"values": {0: (16777217, -1, 300)}, "dtype": "float32"}, (16777216.0, -1.0, 300.0)),
        ("Convert", [(3,)], {"values": {0: (1, -1, 300)}, "dtype": "uint8"}, (1, U, U)), ("Convert", [(3,)], {"values": {0: (1, 2, 3)}, "dtype": "string"}, (U, U, U)),
        ("Select", [(3,), (), (3,)], {"values": {0: (1, 0, U), 1: (9,), 2: (1, 2, 3)}}, (9, 2, U)),
        ("Add", [(2, 2), (2, 2)], {"values": {0: (1, 2, 3, 4), 1: (1, 2, 3, 4)}, "outputs": ((2, 2),)}, U),
        ("ReduceProd", [(3,), ()], {"values": {0: (2, 3, 4), 1: (0,)}, "outputs": ((),)}, (24,)),
        ("ReduceProd", [(3,), ()], {"values": {0: (2, U, 4), 1: (0,)}, "outputs": ((),)}, U),
        ("Sin", [(3,)], {"values": {0: (1.0, 2.0, 3.0)}}, U),
    ],
)  # fmt: skip
def test_values_that_follow(op, shapes, options, expected):
    assert elements(op, *shapes, **options) == expected


class Chance(random.Random):
    """Draws operations that make some sense, with sizes, numbers and options that make none."""

    OPTIONS = {
        "strides": [1, (1, 1), (2, 1), (0, 1), "x", HUGE], "kernel": [2, (2, 2), (HUGE, 1), ""], "dilations": [1, (1, 2), -1],
        "auto_pad": ["explicit", "same_upper", "valid", 7], "rounding_type": ["floor", "ceil", "ceil_torch"], "axis": [0, -1, 1, 70, 0.5],
        "special_zero": [True, False], "keep_dims": [True, False], "num_splits": [1, 2, HUGE], "hidden_size": [4, HUGE + 1],
        "block_size": [1, 2, 0, 2**31 - 1], "batch_dims": [0, 1, -1], "mode": ["numpy", "bidirectional", "explicit"],
        "auto_broadcast": ["numpy", "none", "pdpd"], "shape_calculation_mode": ["sizes", "scales"], "transpose_a": [True, False],
        "equation": ["ab,bc->ac", "a->" + "a" * 99, "...a->a", "->", "ab->ba"], "begin_mask": [0, (1, 0), "", "x"], "direction": ["bidirectional"],
        "shrink_axis_mask": [0, (0, 1), 1], "new_axis_mask": [0, (1, 0)], "ellipsis_mask": [0, (0, 1), (1, 1)], "pads_begin": [0, (1, 1), HUGE],
        "output_padding": [0, (1, 1)], "m_pythondiv": [True],
    }  # fmt: skip

    def shape(self):
        return tuple(
            self.choice([0, 1, 1, 2, 2, 3, 4, 6, 8, HUGE]) for _ in range(self.choice([0, 1, 1, 2, 2, 3, 4, 4, 5]))
        )

    def elements(self):
        numbers = [-1, 0, 0, 1, 1, 2, 3, 2.0, -1.0, float("nan"), float("inf"), HUGE, -HUGE - 1, None]
        return tuple(self.choice(numbers) for _ in range(self.choice([1, 1, 2, 2, 3, 4, 128])))

    def operation(self):
        shapes = [self.shape() for _ in range(self.choice([1, 2, 2, 3, 4]))]
        values = {at: self.elements() for at in range(len(shapes)) if self.random() < (0.2, 0.8)[at > 0]}
        shapes = [(len(values[at]),) if at in values and at else shape for at, shape in enumerate(shapes)]
        options = {key: self.choice(words) for key, words in self.OPTIONS.items() if self.random() < 0.5}
        return shapes, {
            "values": values,
            "version": self.choice([1, 4, 8, 13]),
            "outputs": self.choice([1, 1, 2, 3]),
            **options,
        }

    def forget(self, shape):
        return U if self.random() < 0.1 else tuple(U if self.random() < 0.3 else size for size in shape)


@pytest.mark.parametrize("op", sorted(RULES))
def test_any_operation_ends_in_sane_shapes_or_a_conflict(op):
    """And what is said of a shape that is known in part holds when the rest of it is known."""
    chance = Chance(op)
    for _ in range(60):
        shapes, options = chance.operation()
        count_ = options["outputs"]
        partly = [chance.forget(shape) for shape in shapes]
        try:
            whole = settle_outputs(step(op, *shapes, **options), [U] * count_)
        except ShapeConflict as error:
            assert len(str(error)) < 2500
            with contextlib.suppress(ShapeConflict):
                settle_outputs(step(op, *partly, **options), [U] * count_)
            continue
        # Never a conflict: neither of its own nor with the answer.
        settle_outputs(step(op, *partly, **options), whole)
        assert len(whole) == count_
        for shape in whole:
            assert shape is U or (len(shape) <= 64 and all(size is U or 0 <= size <= HUGE for size in shape))
        for dtype in ("int64", "float32", "uint8", "string"):
            for found in follow(step(op, *shapes, **options), outputs=whole, dtype=dtype):
                assert found is None or len(found) <= 128


# -- in a network ------------------------------------------------------------------------------------------------------


@pytest.fixture
def ir(tmp_path):
    return Ir(tmp_path)


def i64(number, *dims):
    return port(number, dims, "I64")


FLATTEN = [
    parameter(0, (U, 3, 4), shape="?,3,4", names="x"),
    layer(1, "ShapeOf", [port(0, (-1, 3, 4))], [i64(1, 3)], version="opset3"),
    const(2, (1,), 0, 8, dtype="i64", precision="I64"),
    const(3, (), 8, 8, dtype="i64", precision="I64"),
    layer(4, "Gather", [i64(0, 3), i64(1, 1), i64(2)], [i64(3, 1)], version="opset8"),
    const(5, (1,), 16, 8, dtype="i64", precision="I64"),
    layer(6, "Concat", [i64(0, 1), i64(1, 1)], [i64(2, 2)], axis=0),
    layer(7, "Reshape", [port(0, (-1, 3, 4)), i64(1, 2)], [port(2, (-1, -1))], special_zero="false"),
    const(8, (5, 12), 24, 240, name="w"),
    layer(9, "MatMul", [port(0, (-1, -1)), port(1, (5, 12))], [port(2, (-1, 5))], transpose_b="true"),
    result(10, (-1, 5)),
]  # fmt: skip
FLATTENED = [(0, 0, 1, 0), (1, 1, 4, 0), (2, 0, 4, 1), (3, 0, 4, 2), (4, 3, 6, 0), (5, 0, 6, 1), (0, 0, 7, 0), (6, 2, 7, 1),
             (7, 2, 9, 0), (8, 0, 9, 1), (9, 2, 10, 0)]  # fmt: skip
FLATTEN_BYTES = struct.pack("<3q", 0, 0, -1) + bytes(240)


def test_a_target_that_is_computed(ir):
    graph = ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES)
    assert graph.tensors["Reshape_7:2"].shape == (U, U)
    assert total_of(graph).macs is None
    graph = ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES, shapes={"x": (7, 3, 4)})
    assert graph.tensors["Reshape_7:2"].shape == (7, 12)
    assert total_of(graph).macs == 7 * 12 * 5


def test_shapes_that_a_sound_network_can_not_take(ir):
    weights = struct.pack("<3q", 0, 0, 12) + FLATTEN_BYTES[24:]  # [N, 12], which is right
    assert total_of(ir.read(FLATTEN, *FLATTENED, weights=weights, shapes={"x": (7, 3, 4)})).macs == 7 * 12 * 5
    product = layer(9, "MatMul", [port(0, (-1, -1)), port(1, (5, 6))], [port(2, (-1, 5))], transpose_b="true")
    layers = [*FLATTEN[:8], const(8, (5, 6), 24, 120, name="w"), product, FLATTEN[10]]
    weights = struct.pack("<3q", 0, 0, 6) + FLATTEN_BYTES[24:]  # [N, 6], which is not
    with pytest.raises(
        BadInput, match=r"can't take 'x': \[7, 3, 4\]: .*'Reshape_7' \(Reshape\): \[7, 3, 4\] to"
    ) as caught:
        ir.read(layers, *FLATTENED, weights=weights, shapes={"x": (7, 3, 4)})
    assert not isinstance(caught.value, BadModel)
    layers = [parameter(0, (U, 3), shape="?,3", names="x"), relu(1, (1, 3)), result(2, (1, 3))]
    with pytest.raises(BadInput):
        ir.read(layers, (0, 0, 1, 0), (1, 1, 2, 0), shapes={"x": (2, 3)})
    assert ir.read(layers, (0, 0, 1, 0), (1, 1, 2, 0), shapes={"x": (1, 3)}).tensors["ReLU_1:1"].shape == (1, 3)


@pytest.mark.parametrize("shapes", [None, {"x": (2, 3)}])
def test_a_file_that_contradicts_itself(ir, shapes):
    relu_ = layer(1, "ReLU", [port(0, (-1, 3))], [port(1, (-1, 4))])
    layers = [parameter(0, (U, 3), shape="?,3", names="x"), relu_, result(2, (-1, 4))]
    message = ir.refuse(layers, (0, 0, 1, 0), (1, 1, 2, 0), shapes=shapes)
    assert "shape-inconsistent at layer 'ReLU_1' (ReLU): [?, 4] and [?, 3]" in message or "[2, 3]" in message


def test_an_unknown_rank(ir):
    layers = [
        parameter(0, (), shape="...", names="x"),
        relu(1, ()),
        layer(2, "NonZero", [port(0, ())], [port(1, (), "I64")]),
    ]
    layers += [result(3, ())]
    ends = [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0)]
    graph = ir.read(layers, *ends)
    assert [graph.tensors[name].shape for name in ("x", "ReLU_1:1", "NonZero_2:1")] == [U, U, U]
    graph = ir.read(layers, *ends, shapes={"x": (2, 3)})
    # What the file does not tell of an operation without a rule is no scalar, however much is known of its input.
    assert [graph.tensors[name].shape for name in ("x", "ReLU_1:1", "NonZero_2:1")] == [(2, 3), (2, 3), U]
    assert count(graph.operators[0], graph).ops == 6


def test_elements_beyond_63_bits(ir):
    layers = [parameter(0, (U, 1), shape="?,1", names="x"), parameter(1, (1, U), shape="1,?", names="y"),
              layer(2, "Add", [port(0, (-1, 1)), port(1, (1, -1))], [port(2, (-1, -1))]), result(3, (-1, -1))]  # fmt: skip
    ends = [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)]
    with pytest.raises(BadInput, match="elements"):
        ir.read(layers, *ends, shapes={"x": (2**40, 1), "y": (1, 2**40)})
    with pytest.raises(BadInput, match="can't take"):
        ir.read(layers, *ends, shapes={"x": (2**63, 1)})


def test_the_constants_of_a_shape_are_read_once_and_only_small_ones(ir, monkeypatch):
    from edgewise.model.readers.openvino_constants import Weights

    read, seen = Weights.read_values, []

    def watch(self, constant, *, first=False):
        seen.append(constant.size)
        return read(self, constant, first=first)

    monkeypatch.setattr(Weights, "read_values", watch)
    ir.read(FLATTEN, *FLATTENED, weights=FLATTEN_BYTES, shapes={"x": (7, 3, 4)})
    assert sorted(seen) == [8, 8, 8]
    large = [parameter(0, (U,), shape="?", names="x"), const(1, (200,), 0, 1600, dtype="i64", precision="I64"),
             layer(2, "Reshape", [port(0, (-1,)), i64(1, 200)], [port(2, (-1,) * 3)], special_zero="false"), result(3, (-1,) * 3)]  # fmt: skip
    graph = ir.read(large, (0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), weights=bytes(1600), shapes={"x": (1,)})
    assert graph.tensors["Reshape_2:2"].shape == (U, U, U)
