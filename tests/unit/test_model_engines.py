"""Signatures against what the engines themselves say of the same files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise.model.identity import open_model

pytestmark = pytest.mark.engine

ONNX_TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64"}


def light_models():
    onnx = pytest.importorskip("onnx")
    return sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def compare_openvino(path, core):
    ours, theirs = open_model(path).signature, core.read_model(path)
    for noun in ("inputs", "outputs"):
        for spec, port in zip(getattr(ours, noun), getattr(theirs, noun), strict=True):
            sizes = tuple(size.get_length() if size.is_static else None for size in port.partial_shape)
            assert (spec.name, spec.shape) == (port.any_name if port.names else port.node.friendly_name, sizes)
            assert spec.dtype == port.element_type.to_dtype().name


def test_onnxruntime_agrees(tiny_onnx):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # folding constants takes seconds
    models = [tiny_onnx(batch="n", extra_inputs=("ids", "z")), tiny_onnx("open.onnx", batch=None), *light_models()]
    assert len(models) >= 11
    for path in models:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        signature = open_model(path).signature
        for specs, args in ((signature.inputs, session.get_inputs()), (signature.outputs, session.get_outputs())):
            found = [(spec.name, list(spec.shape), spec.dtype) for spec in specs]
            assert found == [(arg.name, arg.shape, ONNX_TYPES[arg.type]) for arg in args]


def test_litert_agrees(shared_models):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    paths = sorted(shared_models.glob("*.tflite"))
    assert len(paths) == 9
    for path in paths:
        engine, signature = interpreter.Interpreter(str(path)), open_model(path).signature
        pairs = ((signature.inputs, engine.get_input_details()), (signature.outputs, engine.get_output_details()))
        for specs, details in pairs:
            found = [(spec.name, [-1 if size is None else size for size in spec.shape], spec.dtype) for spec in specs]
            assert found == [(d["name"], list(d["shape_signature"]), np.dtype(d["dtype"]).name) for d in details]


def test_openvino_agrees_on_converted_models(tiny_onnx, tmp_path):
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    small = [path for path in light_models() if path.stat().st_size < 20_000]
    for path in [tiny_onnx(batch="n", extra_inputs=("ids", "z")), *small]:
        for half in (False, True):
            openvino.save_model(core.read_model(path), tmp_path / "m.xml", compress_to_fp16=half)
            compare_openvino(tmp_path / "m.xml", core)


def test_openvino_agrees_on_names_ranges_and_order(tmp_path):
    openvino = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    core = openvino.Core()
    a = ops.parameter(openvino.PartialShape([openvino.Dimension(1, 8), 3, -1]), openvino.Type.f16, name="first")
    a.output(0).tensor.set_names({"zz", "bb,c"})
    b = ops.parameter([2], openvino.Type.u8, name="second")
    c = ops.parameter([1, 1], openvino.Type.boolean, name="third")
    results = [ops.result(ops.relu(a)), ops.result(ops.logical_not(c)), ops.result(ops.convert(b, "i64"))]
    openvino.save_model(openvino.Model(results, [c, b, a], "m"), tmp_path / "m.xml")
    compare_openvino(tmp_path / "m.xml", core)
    names = [spec.name for spec in open_model(tmp_path / "m.xml").signature.inputs]
    assert names == ["third", "second", "bb,c"]


def test_openvino_agrees_on_tflite(shared_models, tmp_path):
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    for name in ("kws_ref_model.tflite", "ad01_int8.tflite"):
        openvino.save_model(core.read_model(shared_models / name), tmp_path / "m.xml")
        compare_openvino(tmp_path / "m.xml", core)
