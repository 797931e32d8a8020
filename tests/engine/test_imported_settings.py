"""Runs from elsewhere can't make an engine write files: their settings go through the list of their engine."""

from __future__ import annotations

import json
import re

import pytest

from edgewise import data
from edgewise.cli.main import run
from edgewise.errors import ExitCode
from messages import says, wording

pytestmark = pytest.mark.engine

WRITES = [
    ("litert/compiled", "digits_cnn.tflite", "xnnpack_weight_cache_path", "ai_edge_litert"),
    ("openvino", "digits_cnn.onnx", "CACHE_DIR", "openvino"),
    ("onnxruntime", "digits_cnn.onnx", "session.optimized_model_filepath", "onnxruntime"),
    ("onnxruntime", "digits_cnn.onnx", "provider_options", "onnxruntime"),
]


@pytest.mark.parametrize(("runtime", "model", "name", "module"), WRITES)
def test_a_bundle_can_not_make_an_engine_write(runtime, model, name, module, tmp_path, monkeypatch, capsys):
    pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    path = str(data.path(model))
    words = ["-r", runtime, "--iterations", "20", "--sessions", "1", "--no-meters", "--no-store", "--json"]
    assert run(["bench", path, *words]) == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    precious = tmp_path / "precious"
    precious.write_text("kept")
    value = {"cache_dir": str(precious)} if name == "provider_options" else str(precious)
    document["runs"][0]["job"]["runtime"]["options"] = {name: value}
    document["kind"] = "edgewise-bundle"
    bundle = tmp_path / "bundle.json"
    bundle.write_text(json.dumps(document))
    for words in (
        ["gate", path, "--baseline", str(bundle), "--max-regression", "3%", "--no-store"],
        ["compare", str(bundle), path, "--no-store"],
    ):
        assert run(words) == ExitCode.BAD_INPUT
        error = " ".join(capsys.readouterr().err.split())
        assert (
            f"setting '{name}' of" in error
            and re.search(says("setting-not-supported-supported"), error)
            and wording("measure-model-here-compare-run") in error
        )
    assert precious.read_text() == "kept" and len(list(tmp_path.iterdir())) == 2
