"""The field's tables of a real model on a real engine, filled by bench and evaluate together."""

from __future__ import annotations

import pytest

import edgewise
from edgewise.data import path

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.engine


def test_a_run_that_failed_has_them_too(tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(path("digits_cnn.onnx").read_bytes())
    (run,) = edgewise.bench(model, runtimes=["onnxruntime"], memory_limit=2**20, iterations=1, sessions=1, meters=False)
    assert run.status == "failed"
    assert run.value("parameters") == 102_570
