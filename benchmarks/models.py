"""Models for the benchmarks: real architectures that packages ship, and the bundled one, as files in a folder.

Run with the engines and `onnx` installed. MLPerf Tiny's files are used where ``../shared/models`` exists.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgewise.data import path as bundled

MLPERF_TINY = Path(__file__).resolve().parents[2] / "shared" / "models" / "mlperf_tiny"


def light_onnx(name: str) -> Path:
    """One of the real architectures (weights are constants) in the onnx package's own tests."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


def small_onnx() -> Path:
    """Return a convolution, a pooling and a matrix product with random weights: some 50 µs on one core."""
    rng = np.random.default_rng(0)
    weights = {
        "kernel": rng.normal(0, 0.1, (32, 8, 3, 3)).astype(np.float32),
        "matrix": rng.normal(0, 0.1, (32, 10)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "matrix"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, 32, 32])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = Path(tempfile.gettempdir()) / "edgewise-benchmark-small.onnx"
    onnx.save(model, path)
    return path


def onnx_models() -> dict[str, Path]:
    """From tens of microseconds to tens of milliseconds on one core."""
    return {
        "small": small_onnx(),
        "digits": bundled("digits_cnn.onnx"),
        "shufflenet": light_onnx("shufflenet"),
        "squeezenet": light_onnx("squeezenet"),
        "inception_v1": light_onnx("inception_v1"),
        "resnet50": light_onnx("resnet50"),
    }


def tflite_models() -> dict[str, Path]:
    """MLPerf Tiny where it is at hand, and the bundled model."""
    models = {"digits": bundled("digits_cnn.tflite")}
    names = ("kws_ref_model_float32", "pretrainedResnet", "pretrainedResnet_quant", "vww_96_float", "vww_96_int8")
    for name in names:
        file = MLPERF_TINY / f"{name}.tflite"
        if file.exists():
            models[name] = file
    return models
