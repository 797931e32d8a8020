"""TFLite's tensors: quantisation, sparsity, packed and half-precision weights, and that none are copied."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from edgewise.model.cost import cost_of, count, total_of
from edgewise.model.graph import Quantization
from edgewise.model.memory_plan import plan_memory
from edgewise.model.readers.tflite import TfliteReader
from tflite_writer import FLOAT, HALF, INT4, INT8, Ref, Writer, floats, one_step, read


def test_inputs_that_are_left_out_and_variables(tmp_path):
    def tensors(w):
        return [
            w.tensor("x", [2, 8]), w.tensor("f", [4, 8], buffer=1), w.tensor("t", [4, 6], buffer=2),
            w.tensor("state", [2, 24], variable=True), w.tensor("y", [2, 2]),
        ]  # fmt: skip

    data = one_step("SVDF", tensors, [0, 1, 2, -1, 3], [4], buffers=[floats(4, 8), floats(4, 6)], SVDF={"rank": 2})
    graph = read(tmp_path, data)
    assert graph.operators[0].inputs == ("x", "f", "t", "", "state")
    assert graph.tensors["state"].variable and not graph.tensors["state"].constant
    assert cost_of(graph.operators[0], graph).macs == 2 * 4 * (8 + 6)
    assert plan_memory(graph).persistent_bytes == 2 * 24 * 4


@pytest.mark.parametrize(
    ("scale", "rest", "expected"),
    [
        ([0.5], {"zero": -3}, Quantization(scale=0.5, zero_point=-3)),
        ([0.5, 0.25, 2.0], {"axis": 0}, Quantization(scale=0.5, channels=3, axis=0)),
        ([], {}, None),
    ],
)
def test_quantization(tmp_path, scale, rest, expected):
    w = Writer()
    tensors = [w.tensor("x", [1, 4]), w.tensor("w", [3, 4], INT8, 1, scale=scale, **rest), w.tensor("y", [1, 3])]
    step = w.operator(0, [0, 1, -1], [2], FullyConnected={})
    graph = read(tmp_path, w.finish([w.graph(tensors, [step], [0], [2])], ["FULLY_CONNECTED"], [b"w" * 12]))
    assert graph.tensors["w"].quantization == expected
    # Float activations and integer weights: the weights are what they are.
    assert count(graph.operators[0], graph).weight_bytes == 12


def test_block_wise_quantization(tmp_path):
    w = Writer()
    w.b.StartObject(4)  # BlockwiseQuantization, which that package does not know yet
    w.b.PrependInt32Slot(0, 3, 0)
    w.b.PrependInt32Slot(2, 32, 0)
    blocks = Ref(w.b.EndObject())
    parameters = w.table("QuantizationParameters", details_type=2, details=blocks, quantized_dimension=1)
    tensors = [
        w.tensor("x", [1, 64]), w.tensor("w", [3, 64], INT4, 1, quantization=parameters), w.tensor("y", [1, 3]),
        w.tensor("scales", [3, 2], HALF, 2),
    ]  # fmt: skip
    step = w.operator(0, [0, 1, -1], [2], FullyConnected={})
    scales = np.array([0.5, 1, 1, 1, 1, 1], np.float16).tobytes()
    graph = read(tmp_path, w.finish([w.graph(tensors, [step], [0], [2])], ["FULLY_CONNECTED"], [b"w" * 96, scales]))
    assert graph.tensors["w"].quantization == Quantization(scale=0.5, channels=6, axis=1, block=32)
    assert count(graph.operators[0], graph).weight_bytes == 96  # two to a byte


def test_sparse_weights(tmp_path):
    w = Writer()
    segments = w.table("Int32Vector", values=[0, 1, 2, 3])
    indices = w.table("Uint8Vector", values=b"\0\1\2")
    rows = w.table("DimensionMetadata", format=0, dense_size=3)
    columns = w.table(
        "DimensionMetadata",
        format=1,
        array_segments_type=1,
        array_segments=segments,
        array_indices_type=3,
        array_indices=indices,
    )
    sparsity = w.table("SparsityParameters", traversal_order=[0, 1], dim_metadata=[rows, columns])
    tensors = [w.tensor("x", [1, 4]), w.tensor("w", [3, 4], FLOAT, 1, sparsity=sparsity), w.tensor("y", [1, 3])]
    step = w.operator(0, [0, 1, -1], [2], FullyConnected={})
    graph = read(tmp_path, w.finish([w.graph(tensors, [step], [0], [2])], ["FULLY_CONNECTED"], [floats(3)]))
    weights = graph.tensors["w"]
    assert weights.sparsity == pytest.approx(0.75)  # 3 of 12 elements are there
    assert weights.stored_bytes == 3 * 4 + 4 * 4 + 3
    assert weights.elements == 12


def test_half_precision_weights_are_weights_of_the_operator_that_takes_them(tmp_path):
    w = Writer()
    tensors = [w.tensor("h", [3, 4], HALF, 1), w.tensor("w", [3, 4]), w.tensor("x", [1, 4]), w.tensor("y", [1, 3])]
    steps = [w.operator(0, [0], [1]), w.operator(1, [2, 1, -1], [3], FullyConnected={})]
    graph = read(
        tmp_path, w.finish([w.graph(tensors, steps, [2], [3])], ["DEQUANTIZE", "FULLY_CONNECTED"], [b"h" * 24])
    )
    assert (total_of(graph).parameters, total_of(graph).weight_bytes, total_of(graph).ops) == (12, 24, 24)
    assert [count(operator, graph).parameters for operator in graph.operators] == [0, 12]
    assert plan_memory(graph).arena_bytes == 16 + 12  # x and y


def test_weights_are_not_copied(tmp_path):
    """A constant of 3 GB that lies behind the flatbuffer costs no memory."""
    w = Writer()
    size = 3 * 2**30
    big = w.table("Buffer", offset=2**20, size=size)
    tensors = [w.tensor("x", [1, 2**20]), w.tensor("w", [768, 2**20], FLOAT, 1), w.tensor("y", [1, 768])]
    step = w.operator(0, [0, 1, -1], [2], FullyConnected={})
    code = w.table("OperatorCode", deprecated_builtin_code=9, builtin_code=9)
    graph = w.graph(tensors, [step], [0], [2])
    stored = [w.table("Buffer"), big]
    w.b.Finish(w.table("Model", version=3, operator_codes=[code], subgraphs=[graph], buffers=stored), b"TFL3")
    path = tmp_path / "big.tflite"
    with path.open("wb") as file:
        file.write(bytes(w.b.Output()))
        file.truncate(2**20 + size)  # a hole: the file takes no space
    tracemalloc.start()
    try:
        graph = TfliteReader().read_graph(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total_of(graph).weight_bytes == size
    assert peak < 2_000_000
