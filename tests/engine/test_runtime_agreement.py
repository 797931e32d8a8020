"""The same model in several engines: their answers agree."""

from pathlib import Path

import numpy as np
import pytest

from edgewise.runtime.base import LoadOptions, runtimes

TINY = Path(__file__).parents[2].parent / "shared" / "models" / "mlperf_tiny"
pytestmark = pytest.mark.engine


def engine(name):
    runtime = runtimes().get(name)
    if not runtime.availability():
        pytest.skip(f"{name}: {runtime.availability().reason}")
    return runtime


def answers(name, provider, path, *, shapes, arrays):
    session = engine(name).load(path, LoadOptions(provider=provider, shapes=shapes, threads=1))
    try:
        session.bind(arrays)
        session.invoke()
        return session.read_outputs()
    finally:
        session.close()


@pytest.fixture
def network(tmp_path):
    """Convolution, ReLU, pooling, fully connected, softmax; weights from a fixed seed."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(7)
    weights = {"w": random.normal(size=(8, 3, 3, 3)), "b": random.normal(size=8), "m": random.normal(size=(8, 10))}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.parametrize("batch", [1, 3])
def test_onnx(network, batch):
    shapes = {"x": (batch, 3, 16, 16)}
    arrays = [np.random.default_rng(1).normal(size=shapes["x"]).astype("float32")]
    (one,) = answers("onnxruntime", "cpu", network, shapes=shapes, arrays=arrays)
    (two,) = answers("openvino", "cpu", network, shapes=shapes, arrays=arrays)
    assert one.shape == (batch, 10)
    np.testing.assert_allclose(one.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-5)


LITERT = [("litert", "interpreter"), ("litert", "compiled"), ("litert", "interpreter-noxnnpack")]


@pytest.mark.parametrize(
    ("model", "shape", "dtype", "tolerance"),
    [
        ("pretrainedResnet.tflite", (1, 32, 32, 3), "float32", 1e-4),
        ("pretrainedResnet.tflite", (2, 32, 32, 3), "float32", 1e-4),
        ("vww_96_float.tflite", (1, 96, 96, 3), "float32", 1e-4),
        ("ad01_fp32.tflite", (1, 640), "float32", 1e-4),
        # Weights of 8 bits and activations that each engine quantises in its own way.
        ("kws_ref_model_float32.tflite", (1, 49, 10, 1), "float32", 0.02),
        # Steps of an 8-bit output; engines round and fuse differently.
        ("kws_ref_model.tflite", (1, 49, 10, 1), "int8", 3),
        ("vww_96_int8.tflite", (1, 96, 96, 3), "int8", 3),
        ("str_ww_ref_model.tflite", (1, 30, 1, 40), "int8", 3),
    ],
)
def test_tflite(model, shape, dtype, tolerance):
    path = TINY / model
    if not path.exists():
        pytest.skip(f"the model {model} of MLPerf Tiny is not beside the repository")
    random = np.random.default_rng(3)
    array = random.normal(size=shape) if dtype == "float32" else random.integers(-128, 128, size=shape)
    arrays = [array.astype(dtype)]
    results = {
        f"{name}/{provider}": answers(name, provider, path, shapes={"input": shape}, arrays=arrays)[0]
        for name, provider in [*LITERT, ("openvino", "cpu")]
    }
    reference = results.pop("litert/interpreter")
    assert reference.dtype == dtype
    scale = max(1.0, float(np.abs(reference).max())) if dtype == "float32" else 1.0
    for label, result in results.items():
        assert result.shape == reference.shape, label
        difference = np.abs(result.astype("float64") - reference.astype("float64")).max()
        assert difference <= tolerance * scale, f"{label} differs by {difference}"
    assert np.array_equal(results["litert/compiled"], reference)


def test_no_engine_is_blamed_for_random_numbers(tmp_path):
    """Both engines draw their own noise: the operator is named, and no run differs from another."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    import edgewise

    for name in ("onnxruntime", "openvino"):
        engine(name)
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"], name="sample"),
        helper.make_node("Add", ["x", "n"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    runs = edgewise.bench(path, runtimes=["onnxruntime", "openvino"], sessions=1, iterations=5)
    for run in runs:
        cautions = {caution.code: caution.message for caution in run.cautions}
        assert "output-mismatch" not in cautions
        assert "sample (RandomNormalLike)" in cautions["not-repeatable"]
        assert "sample (RandomNormalLike)" in run.measurement("output_max_abs_error").absent_because
