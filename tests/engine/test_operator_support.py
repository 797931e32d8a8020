"""What the tables say of an operator, against what the engine does when it loads a model that has it."""

from __future__ import annotations

import numpy as np
import pytest

import edgewise
from edgewise.errors import BadModel
from tflite_writer import Writer, floats

onnx = pytest.importorskip("onnx")
helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
pytestmark = pytest.mark.engine

TREE = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
CLASSES = {"class_ids": [0, 1], "class_nodeids": [1, 2], "class_treeids": [0, 0], "class_weights": [1.0, 1.0],
           "classlabels_int64s": [0, 1]}  # fmt: skip
TARGETS = {"target_ids": [0, 0], "target_nodeids": [1, 2], "target_treeids": [0, 0], "target_weights": [1.0, 2.0],
           "n_targets": 1}  # fmt: skip


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(array, name)


def classical(op, *, version=1, labels=False, kind=FLOAT, **options):
    """One operator of ``ai.onnx.ml`` on two features."""
    outputs = [value("label", INT64, 1), value("scores", FLOAT, 1, 2)] if labels else [value("y", FLOAT, 1, None)]
    node = helper.make_node(op, ["x"], [each.name for each in outputs], domain="ai.onnx.ml", **options)
    return [node], [value("x", kind, 1, 2)], outputs, [], {"": 13, "ai.onnx.ml": version}


def relu(**opsets):
    return (
        [helper.make_node("Relu", ["x"], ["y"])], [value("x", FLOAT, 1, 2)], [value("y", FLOAT, 1, 2)], [],
        {"": 17} | opsets,
    )  # fmt: skip


def quantized_lstm():
    rng = np.random.default_rng(0)
    constants = [
        constant("w", rng.integers(-9, 9, (1, 3, 16)).astype(np.int8)),
        constant("r", rng.integers(-9, 9, (1, 4, 16)).astype(np.int8)),
        constant("b", np.zeros((1, 32), np.float32)), constant("ws", np.ones(1, np.float32)),
        constant("wz", np.zeros(1, np.int8)), constant("rs", np.ones(1, np.float32)), constant("rz", np.zeros(1, np.int8)),
    ]  # fmt: skip
    inputs = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y"], domain="com.microsoft", hidden_size=4)
    return (
        [node],
        [value("x", FLOAT, 2, 1, 3)],
        [value("y", FLOAT, 2, 1, 1, 4)],
        constants,
        {"": 13, "com.microsoft": 1},
    )


def contributed(op, inputs, *, domain="com.microsoft", **options):
    node = helper.make_node(op, [each.name for each in inputs], ["y"], domain=domain, **options)
    return [node], inputs, [value("y", FLOAT, None)], [], {"": 17, domain: 1}


def written(text, opset=17):
    """A graph in ONNX's text form."""
    graph = onnx.parser.parse_graph(f"g {text}")
    sets = {"": opset, "com.microsoft": 1}
    return list(graph.node), list(graph.input), list(graph.output), list(graph.initializer), sets


IMAGE = value("x", FLOAT, 1, 3, 8, 8)
CASES = {
    "tree classifier": (8, classical("TreeEnsembleClassifier", labels=True, **TREE, **CLASSES)),
    "tree classifier of opset 3": (8, classical("TreeEnsembleClassifier", version=3, labels=True, **TREE, **CLASSES)),
    "tree classifier, deprecated": (10, classical("TreeEnsembleClassifier", version=5, labels=True, **TREE, **CLASSES)),
    "tree regressor": (8, classical("TreeEnsembleRegressor", **TREE, **TARGETS)),
    "scaler": (8, classical("Scaler", offset=[0.0, 1.0], scale=[1.0, 2.0])),
    "normalizer": (8, classical("Normalizer", norm="L2")),
    "imputer": (8, classical("Imputer", imputed_value_floats=[0.0, 1.0])),
    "linear classifier": (
        8,
        classical("LinearClassifier", labels=True, coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.0, 0.0],
                  classlabels_ints=[0, 1]),
    ),
    "linear regressor": (8, classical("LinearRegressor", coefficients=[1.0, 2.0], intercepts=[0.0])),
    "linear regressor on float64": (
        8, classical("LinearRegressor", kind=TensorProto.DOUBLE, coefficients=[1.0, 2.0], intercepts=[0.0]),
    ),
    "quantised LSTM": (8, quantized_lstm()),
    "gelu": (8, contributed("Gelu", [value("x", FLOAT, 2, 4)])),
    "fused product": (8, contributed("FusedMatMul", [value("x", FLOAT, 2, 4), value("z", FLOAT, 4, 3)])),
    "an operator for graphics processors": (
        8, contributed("BiasSplitGelu", [value("x", FLOAT, 1, 4, 8), value("z", FLOAT, 8)]),
    ),
    "Bernoulli": (8, written("(float[4] x) => (float[4] y) {y = Bernoulli (x)}")),
    "Bernoulli with a seed": (8, written("(float[4] x) => (float[4] y) {y = Bernoulli <seed = 1.0> (x)}")),
    "dropout in training": (
        8, written("(float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}> {y = Dropout (x, r, t)}"),
    ),
    "dropout": (8, written("(float[4] x) => (float[4] y) <float r = {0.5}, bool t = {0}> {y = Dropout (x, r, t)}")),
    "a sequence": (
        8,
        written("(float[2] a, float[2] b) => (float[4] y) "
                "{s = SequenceConstruct (a, b) y = ConcatFromSequence <axis = 0> (s)}"),
    ),
    "an optional value": (8, written("(float[4] x) => (float[4] y) {o = Optional (x) y = OptionalGetElement (o)}")),
    "unique values of ONNX Runtime": (
        8, written("(float[4] x) => (float[N] y, int64[N] i, int64[N] c) {y, i, c = com.microsoft.Unique (x)}"),
    ),
    "padding that wraps": (
        9, written('(float[4] x) => (float[6] y) <int64[2] p = {1, 1}> {y = Pad <mode = "wrap"> (x, p)}', 19),
    ),
    "a custom operator": (8, contributed("Mine", [value("x", FLOAT, 2, 4)], domain="com.example")),
    "IR version 13": (13, relu()),
    "IR version 40": (40, relu()),
    "opset 26": (10, relu(**{"": 26})),
    "opset 40": (10, relu(**{"": 40})),
    "ai.onnx.ml 6, not used": (10, relu(**{"ai.onnx.ml": 6})),
    "opset 5": (8, relu(**{"": 5})),
}  # fmt: skip


def load_onnxruntime(path):
    engine = pytest.importorskip("onnxruntime")
    engine.set_default_logger_severity(4)
    engine.InferenceSession(path, providers=["CPUExecutionProvider"])


def load_openvino(path):
    core = pytest.importorskip("openvino").Core()
    core.compile_model(core.read_model(path), "CPU")


def load_litert(path):
    engine = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = engine.Interpreter(str(path))
    interpreter.allocate_tensors()
    interpreter.invoke()


ENGINES = {"onnxruntime/cpu": load_onnxruntime, "openvino/cpu": load_openvino, "litert/interpreter": load_litert}


def runs(engine, path):
    try:
        ENGINES[engine](path)
    except Exception:  # each engine has its own kinds; a skip is none of them
        return False
    return True


def said(path):
    """Engine → True, False, or None for unknown."""
    return {
        each.name: False if each.refusals else None if each.unknown else True for each in edgewise.inspect(path).support
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", ["onnxruntime/cpu", "openvino/cpu"])
def test_onnx(tmp_path, name, engine):
    ir, (nodes, inputs, outputs, constants, opsets) = CASES[name]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    sets = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=sets, ir_version=ir).SerializeToString())
    told = said(path)[engine]
    if told is None and "was not tried" in str(edgewise.inspect(path).support):
        pytest.skip("the engine installed is newer than the one of the table")
    assert told is not None or (name, engine) == ("a custom operator", "openvino/cpu")
    if told is not None:
        assert told == runs(engine, path)


def unpooling(name="Convolution2DTransposeBias"):
    """A transposed 2 × 2 convolution with a bias, as MediaPipe's segmenters end in."""
    w = Writer()
    tensors = [
        w.tensor("x", [1, 4, 4, 3]), w.tensor("w", [2, 2, 2, 3], buffer=1), w.tensor("b", [2], buffer=2),
        w.tensor("y", [1, 8, 8, 2]),
    ]  # fmt: skip
    options = np.array([1, 2, 2], np.int32).tobytes()  # padding SAME, strides
    step = w.table("Operator", opcode_index=0, inputs=[0, 1, 2], outputs=[3], custom_options=options)
    return w.finish([w.graph(tensors, [step], [0], [3])], [f":{name}"], [floats(2, 2, 2, 3), floats(2)])


@pytest.mark.parametrize(
    ("op", "answer"), [("Convolution2DTransposeBias", True), ("TransformLandmarks", False), ("Mine", None)]
)
def test_custom_operators_of_tflite(tmp_path, op, answer):
    path = tmp_path / "m.tflite"
    path.write_bytes(unpooling(op))
    told = said(path)
    assert told["litert/interpreter"] is answer
    assert runs("litert/interpreter", path) is bool(answer)
    if answer is not None:
        assert told["openvino/cpu"] is False is runs("openvino/cpu", path)


@pytest.mark.parametrize(("ir", "opset"), [(10, 1), (11, 1), (11, 16), (11, 17), (9, 1), (12, 1)])
def test_openvino_ir(tmp_path, ir, opset):
    port = 'precision="FP32"><dim>2</dim></port>'
    path = tmp_path / "m.xml"
    path.write_text(
        f'<net name="n" version="{ir}"><layers>'
        '<layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/>'
        f'<output><port id="0" {port}</output></layer><layer id="1" name="o" type="ReLU" version="opset{opset}">'
        f'<input><port id="0" {port}</input><output><port id="1" {port}</output></layer>'
        f'<layer id="2" name="y" type="Result" version="opset1"><input><port id="0" {port}</input></layer></layers>'
        '<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>'
        '<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>'
    )
    path.with_suffix(".bin").write_bytes(b"")
    try:
        told = said(path)["openvino/cpu"]
    except BadModel:
        told = False  # our own reader refuses such a version
    assert told == runs("openvino/cpu", path)
