"""TFLite's open dimensions, which LiteRT settles in a process with limits, and what can't be known."""

from __future__ import annotations

import re

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.model.cost import total_of
from edgewise.model.readers import isolated
from edgewise.model.readers.tflite import TfliteReader
from messages import has, says
from tflite_writer import FLOAT, INT32, Writer, dense, floats, read, refuse

interpreter = pytest.importorskip("ai_edge_litert.interpreter")
pytestmark = pytest.mark.engine


def test_open_dimensions_stay_open_and_are_settled_from_the_inputs(tmp_path):
    data = dense(marks=[-1, 4])
    graph = read(tmp_path, data)
    assert graph.tensors["x"].shape == (None, 4)
    assert graph.tensors["y"].shape == (None, 3)
    assert total_of(graph).macs is None and "open" in total_of(graph).why
    graph = read(tmp_path, data, x=(7, 4))
    assert graph.tensors["y"].shape == (7, 3)
    assert total_of(graph).macs == 7 * 12


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [({"z": (1, 4)}, says("model-no-input", name="z")), ({"x": (1, 5)}, says("does-not-fit-input")), ({"x": (4,)}, says("does-not-fit-input")),
     ({"x": (-1, 4)}, says("input-impossible-size"))],
)  # fmt: skip
def test_shapes_that_do_not_fit(tmp_path, shapes, reason):
    assert re.search(reason, refuse(tmp_path, dense(marks=[-1, 4]), BadInput, **shapes))


def settle(tmp_path, op, shapes, output, *, constants=(), extra=(), **options):
    """Shape of the result of one operator on inputs of the `shapes`, whose first dimensions the file leaves open."""
    w = Writer()
    tensors = [w.tensor(f"in{at}", [1, *shape[1:]], marks=[-1, *shape[1:]]) for at, shape in enumerate(shapes)]
    for at, values in enumerate(constants):
        array = np.array(values, np.int32)
        tensors.append(w.tensor(f"c{at}", list(array.shape), INT32, at + 1))
    buffers = [np.array(values, np.int32).tobytes() for values in constants]
    for at, shape in enumerate(extra):
        tensors.append(w.tensor(f"w{at}", list(shape), FLOAT, len(buffers) + 1))
        buffers.append(floats(*shape))
    tensors.append(w.tensor("out", [max(size, 1) for size in output], marks=output))
    inputs = list(range(len(tensors) - 1))
    step = w.operator(0, inputs, [len(tensors) - 1], **options)
    data = w.finish([w.graph(tensors, [step], inputs[: len(shapes)], [len(tensors) - 1])], [op], buffers)
    return read(tmp_path, data, **{f"in{at}": tuple(shape) for at, shape in enumerate(shapes)}).tensors["out"].shape


STRIDES = {"stride_w": 2, "stride_h": 2}


@pytest.mark.parametrize(
    ("op", "shapes", "output", "rest", "expected"),
    [
        ("RELU", [(5, 3)], [-1, 3], {}, (5, 3)),
        ("ADD", [(5, 3), (1, 3)], [-1, 3], {"Add": {}}, (5, 3)),
        ("CONV_2D", [(5, 9, 9, 2)], [-1, -1, -1, 4],
         {"extra": [(4, 3, 3, 2), (4,)], "Conv2D": {**STRIDES, "padding": 1}}, (5, 4, 4, 4)),
        ("CONV_2D", [(5, 9, 9, 2)], [-1, 5, 5, 4],
         {"extra": [(4, 3, 3, 2), (4,)], "Conv2D": {**STRIDES, "padding": 0}}, (5, 5, 5, 4)),
        ("MAX_POOL_2D", [(5, 9, 9, 2)], [-1, -1, -1, 2],
         {"Pool2D": {**STRIDES, "padding": 1, "filter_width": 2, "filter_height": 2}}, (5, 4, 4, 2)),
        # The batch is not the first dimension of what comes out of a reshape.
        ("RESHAPE", [(5, 7, 7, 2)], [-1, 2], {"Reshape": {"new_shape": [-1, 2]}}, (245, 2)),
                ("FULLY_CONNECTED", [(5, 6, 4)], [-1, 3], {"extra": [(3, 4)], "FullyConnected": {}}, (30, 3)),
        ("MEAN", [(5, 6, 4)], [-1, 4], {"constants": [[1]], "Reducer": {}}, (5, 4)),
        ("MEAN", [(5, 6, 4)], [-1, 1, 4], {"constants": [[1]], "Reducer": {"keep_dims": True}}, (5, 1, 4)),
        ("TRANSPOSE", [(5, 6)], [6, -1], {"constants": [[1, 0]]}, (6, 5)),
        ("PAD", [(5, 6)], [-1, 8], {"constants": [[[0, 0], [1, 1]]]}, (5, 8)),
        ("CONCATENATION", [(5, 6), (2, 6)], [-1, 6], {"Concatenation": {"axis": 0}}, (7, 6)),
        ("BATCH_MATMUL", [(5, 2, 3), (5, 3, 4)], [-1, 2, 4], {"BatchMatMul": {}}, (5, 2, 4)),
        ("GATHER", [(5, 6)], [-1, 6], {"constants": [[1, 0, 1]], "Gather": {"axis": 0}}, (3, 6)),
        ("PACK", [(5, 6), (5, 6)], [-1, 2, 6], {"Pack": {"axis": 1, "values_count": 2}}, (5, 2, 6)),
        ("TILE", [(5, 6)], [-1, 6], {"constants": [[2, 1]]}, (10, 6)),
        ("SLICE", [(5, 6)], [-1, 3], {"constants": [[1, 2], [-1, 3]]}, (4, 3)),
        ("STRIDED_SLICE", [(5, 6)], [-1, 3],
         {"constants": [[1, 0], [4, 6], [2, 2]], "StridedSlice": {}}, (2, 3)),
        ("STRIDED_SLICE", [(5, 6)], [-1],
         {"constants": [[0, 2], [0, 3], [1, 1]], "StridedSlice": {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}},
         (5,)),
        ("RESIZE_BILINEAR", [(5, 3, 3, 2)], [-1, -1, -1, 2], {"constants": [[6, 9]], "ResizeBilinear": {}}, (5, 6, 9, 2)),
        # What the file fixes is its converter's batch.
        ("RELU", [(5, 3)], [1, 3], {}, (5, 3)),
    ],
)  # fmt: skip
def test_what_becomes_of_open_dimensions(tmp_path, op, shapes, output, rest, expected):
    assert settle(tmp_path, op, shapes, output, **rest) == expected


def test_shapes_that_the_model_computes_itself(tmp_path):
    """x [?, 6] → SHAPE → STRIDED_SLICE → PACK (batch, 2, 3) → RESHAPE, as converters write it."""
    w = Writer()
    constants = {"zero": [0], "one": [1], "two": 2, "three": 3}
    tensors = [w.tensor("x", [1, 6], marks=[-1, 6]), w.tensor("shape", [2], INT32), w.tensor("batch", [], INT32)]
    buffers = []
    for name, value in constants.items():
        array = np.array(value, np.int32)
        tensors.append(w.tensor(name, list(array.shape), INT32, len(buffers) + 1))
        buffers.append(array.tobytes())
    tensors += [w.tensor("wanted", [3], INT32), w.tensor("y", [1, 1, 1], marks=[-1, -1, -1])]
    steps = [
        w.operator(0, [0], [1], Shape={"out_type": 2}),
        w.operator(1, [1, 3, 4, 4], [2], StridedSlice={"shrink_axis_mask": 1}),
        w.operator(2, [2, 5, 6], [7], Pack={"values_count": 3, "axis": 0}),
        w.operator(3, [0, 7], [8]),
    ]
    data = w.finish([w.graph(tensors, steps, [0], [8])], ["SHAPE", "STRIDED_SLICE", "PACK", "RESHAPE"], buffers)
    assert read(tmp_path, data, x=(5, 6)).tensors["y"].shape == (5, 2, 3)
    assert read(tmp_path, data).tensors["y"].shape == (None, None, None)


def test_a_shape_that_follows_from_the_data_stays_open(tmp_path):
    w = Writer()
    tensors = [w.tensor("x", [1, 6], marks=[-1, 6]), w.tensor("places", [1, 2], 4, marks=[-1, 2])]
    data = w.finish([w.graph(tensors, [w.operator(0, [0], [1])], [0], [1])], ["WHERE"], [])
    assert read(tmp_path, data, x=(5, 6)).tensors["places"].shape == (None, 2)


def test_shapes_that_a_sound_network_can_not_take(tmp_path):
    w = Writer()
    tensors = [w.tensor("x", [2, 7], marks=[-1, 7]), w.tensor("y", [7, 2], marks=[-1, 2])]
    step = w.operator(0, [0], [1], Reshape={"new_shape": [-1, 2]})
    data = w.finish([w.graph(tensors, [step], [0], [1])], ["RESHAPE"], [])
    assert read(tmp_path, data, x=(4, 7)).tensors["y"].shape == (14, 2)
    with pytest.raises(BadInput, match=says("network-does-not-support", words="'x'", error=has("[5, 7]"))):
        read(tmp_path, data, x=(5, 7))


def test_without_litert_the_reason_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(isolated, "find_spec", lambda name: None)
    graph = read(tmp_path, dense(marks=[-1, 4]), x=(7, 4))
    assert (graph.tensors["x"].shape, graph.tensors["y"].shape) == ((7, 4), (None, None))
    assert graph.metadata["unobserved"] == "shapes behind open dimensions need LiteRT (pip install 'edgewise[litert]')"


@pytest.mark.parametrize("name", ["ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model"])
def test_shapes_are_those_that_the_interpreter_allocates(name, shared_models):
    path = shared_models / f"{name}.tflite"
    inputs = TfliteReader().read_signature(path).inputs
    shapes = {each.name: tuple(3 if size is None else size for size in each.shape) for each in inputs}
    graph = TfliteReader().read_graph(path, shapes=shapes)
    plain = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    engine = interpreter.Interpreter(str(path), experimental_op_resolver_type=plain)
    for each in engine.get_input_details():
        engine.resize_tensor_input(each["index"], shapes[each["name"]])
    engine.allocate_tensors()
    allocated = {each["name"]: tuple(map(int, each["shape"])) for each in engine.get_tensor_details()}
    assert {name: tensor.shape for name, tensor in graph.tensors.items()} == {
        name: allocated[name] for name in graph.tensors
    }
