"""In which number formats a network computes, from its operators; and which tolerance its outputs are held to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.model.identity import read_graph
from edgewise.model.precision import find_precision, is_of_integers, reduced_precision
from edgewise.record import ModelRef
from edgewise.run.agreement import Outputs
from openvino_writer import Ir, const, layer, parameter, port, result
from sample_runs import make_run
from small_selections import run_builder
from tflite_writer import INT8, Writer, dense

FLOAT, HALF, INT8_ONNX, UINT8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8
node = helper.make_node


def array(name, shape=(), dtype=np.float32):
    return numpy_helper.from_array(np.ones(shape, dtype), name)


SCALES = [array("s"), array("zero", dtype=np.int8), array("zu", dtype=np.uint8)]
WEIGHTS = {"w": array("w", (4, 2)), "q": array("q", (4, 2), np.int8), "h": array("h", (4, 2), np.float16)}


def quantize(name, out):
    return [node("QuantizeLinear", [name, "s", "zero"], [f"{out}_q"]),
            node("DequantizeLinear", [f"{out}_q", "s", "zero"], [out])]  # fmt: skip


QDQ = [*quantize("x", "a"), node("DequantizeLinear", ["q", "s", "zero"], ["wq"])]
ONNX = {
    "float32": ("", "float32", [node("MatMul", ["x", "w"], ["y"])]),
    "QDQ": ("int8", "int8", [*QDQ, node("MatMul", ["a", "wq"], ["y"])]),
    "QDQ behind a transpose": (
        "int8", "int8",
        [*QDQ, node("Transpose", ["a"], ["t"]), node("Transpose", ["t"], ["u"]), node("MatMul", ["u", "wq"], ["y"])],
    ),
    "QDQ without a product": ("int8", "float32", [*quantize("x", "a"), node("Relu", ["a"], ["y"])]),
    "QOperator": (
        "int8", "int8",
        [node("QuantizeLinear", ["x", "s", "zero"], ["a"]),
         node("QLinearMatMul", ["a", "s", "zero", "q", "s", "zero", "s", "zero"], ["b"]),
         node("DequantizeLinear", ["b", "s", "zero"], ["y"])],
    ),
    "dynamic": (
        "uint8 with int8 weights", "uint8 with int8 weights",
        [node("DynamicQuantizeLinear", ["x"], ["a", "sa", "za"]), node("MatMulInteger", ["a", "q", "za", "zero"], ["b"]),
         node("Cast", ["b"], ["f"], to=FLOAT), node("Mul", ["f", "sa"], ["y"])],
    ),
    "behind a mask": (  # the condition is the first input, and the constant is no data
        "", "float32",
        [node("Greater", ["x", "s"], ["mask"]), node("Where", ["mask", "s", "x"], ["a"]), node("MatMul", ["a", "w"], ["y"])],
    ),
    "QDQ behind a mask": (
        "int8", "int8",
        [*QDQ, node("Greater", ["x", "s"], ["mask"]), node("Where", ["mask", "s", "a"], ["m"]),
         node("MatMul", ["m", "wq"], ["y"])],
    ),
    "8-bit weights": (
        "float32 with int8 weights", "float32 with int8 weights", [QDQ[2], node("MatMul", ["x", "wq"], ["y"])]
    ),
    "float16 inside": (
        "float16", "float16",
        [node("Cast", ["x"], ["a"], to=HALF), node("MatMul", ["a", "h"], ["b"]), node("Cast", ["b"], ["y"], to=FLOAT)],
    ),
    "an image of bytes": (
        "", "float32", [node("Cast", ["x"], ["b"], to=UINT8), node("Cast", ["b"], ["f"], to=FLOAT),
                        node("MatMul", ["f", "w"], ["y"])],
    ),
    "arithmetic on shapes": (
        "", "float32",
        [node("Shape", ["x"], ["n"]), node("Cast", ["n"], ["m"], to=UINT8), node("Cast", ["m"], ["k"], to=TensorProto.INT64),
         node("Reshape", ["x", "k"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
    ),
}  # fmt: skip


def write_onnx(folder, name):
    nodes = ONNX[name][2]
    used = {each for step in nodes for each in step.input}
    constants = [each for each in (*SCALES, *WEIGHTS.values()) if each.name in used]
    values = [helper.make_tensor_value_info("x", FLOAT, [1, 4]), helper.make_tensor_value_info("y", FLOAT, None)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
    path = folder / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("name", ONNX)
def test_onnx(tmp_path, name):
    reduced, label, _ = ONNX[name]
    graph = read_graph(write_onnx(tmp_path, name))
    assert reduced_precision(graph) == reduced
    assert find_precision(graph) == label
    integers = {"QDQ", "QDQ behind a transpose", "QOperator", "dynamic", "QDQ behind a mask"}
    assert is_of_integers(graph) == (name in integers)


def test_a_product_in_a_branch_counts(tmp_path):
    value = helper.make_tensor_value_info("z", FLOAT, None)
    half = helper.make_graph([node("Cast", ["x"], ["a"], to=HALF), node("MatMul", ["a", "h"], ["b"]),
                              node("Cast", ["b"], ["z"], to=FLOAT)], "then", [], [value], [WEIGHTS["h"]])  # fmt: skip
    full = helper.make_graph([node("MatMul", ["x", "w"], ["z"])], "else", [], [value], [WEIGHTS["w"]])
    graph = helper.make_graph(
        [node("If", ["c"], ["y"], then_branch=half, else_branch=full)], "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 4]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    assert reduced_precision(read_graph(path)) == "float16"


def write_tflite(folder):
    """float32 in and out, FULLY_CONNECTED on int8 between them."""
    w = Writer()
    tensors = [
        w.tensor("x", [1, 4]), w.tensor("a", [1, 4], INT8, scale=[0.1]), w.tensor("w", [3, 4], INT8, 1, scale=[0.1]),
        w.tensor("b", [1, 3], INT8, scale=[0.1]), w.tensor("y", [1, 3]),
    ]  # fmt: skip
    steps = [w.operator(0, [0], [1]), w.operator(1, [1, 2], [3]), w.operator(2, [3], [4])]
    path = folder / "m.tflite"
    codes = ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    path.write_bytes(w.finish([w.graph(tensors, steps, [0], [4])], codes, [np.ones((3, 4), np.int8).tobytes()]))
    return path


def test_tflite(tmp_path):
    assert reduced_precision(read_graph(write_tflite(tmp_path))) == "int8"
    plain = tmp_path / "plain.tflite"
    plain.write_bytes(dense())
    assert reduced_precision(read_graph(plain)) == ""


@pytest.mark.parametrize(("levels", "word"), [(256, "int8"), (255, "int8"), (65536, "int16")])
def test_openvino_with_fake_quantize(tmp_path, levels, word):
    one = [port(number, [1]) for number in range(1, 5)]
    quantized = layer(3, "FakeQuantize", [port(0, [1, 4]), *one], [port(5, [1, 4])], levels=levels)
    product = layer(4, "MatMul", [port(0, [1, 4]), port(1, [4, 2])], [port(2, [1, 2])])
    ends = [(0, 0, 3, 0), *[(1, 0, 3, at) for at in range(1, 5)], (3, 5, 4, 0), (2, 0, 4, 1), (4, 2, 5, 0)]
    layers = [parameter(0, [1, 4]), const(1, [1], 0, 4), const(2, [4, 2], 4, 32), quantized, product, result(5, [1, 2])]
    graph = Ir(tmp_path).read(layers, *ends, weights=bytes(36))
    assert reduced_precision(graph) == f"{word} with float32 weights"
    assert find_precision(graph) == f"{word} with float32 weights"


ROW = np.array([[1.0, 0.5, -0.25]], np.float32)


def judge(path, shift):
    """Cautions of two runs of the model at `path` whose outputs are `shift` of the largest one apart."""
    model = ModelRef(name=path.name, path=str(path), format="onnx", sha256="0", size_bytes=1)
    runs = [make_run(1, model=model), make_run(2, model=model, runtime="openvino")]
    runs = [replace(run, measurements=(), cautions=()) for run in runs]
    made = run_builder()
    for run, values in zip(runs, (ROW, ROW + np.float32(shift)), strict=True):
        made.outputs[run.id] = Outputs(run_id=run.id, label=run.job.runtime.name, arrays=(values,))
    return [caution.message for run in made.with_agreement(runs) for caution in run.cautions]


@pytest.mark.parametrize("name", ["QDQ", "QOperator", "dynamic", "8-bit weights", "QDQ without a product"])
def test_float_outputs_of_a_quantised_model_may_differ_by_its_roundings(tmp_path, name):
    assert judge(write_onnx(tmp_path, name), 0.023) == []
    messages = judge(write_onnx(tmp_path, name), 0.2)
    assert len(messages) == 2
    assert "6.0% is allowed: the model computes in " in messages[0]


def test_tflite_with_float_outputs_too(tmp_path):
    assert judge(write_tflite(tmp_path), 0.023) == []


@pytest.mark.parametrize("name", ["float32", "an image of bytes", "arithmetic on shapes"])
def test_a_float32_model_is_held_to_its_own_tolerance(tmp_path, name):
    messages = judge(write_onnx(tmp_path, name), 0.023)
    assert len(messages) == 2
    assert "0.2% is allowed: everything computes in float32, as far as known" in messages[0]


def test_a_model_that_is_gone_is_held_to_the_tolerance_of_float32(tmp_path):
    assert len(judge(tmp_path / "gone.onnx", 0.023)) == 2
