"""`benchmarks/fidelity.py` holds like against like: OpenVINO's tool prints the engine's own clock, the others the call."""

import importlib.util
import sys
from pathlib import Path

import pytest

from edgewise.testing import write_fake_model

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def fidelity(monkeypatch):
    if not (FOLDER / "fidelity.py").exists():
        pytest.skip("benchmarks/fidelity.py is not part of this distribution")
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("benchmark_fidelity", FOLDER / "fidelity.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    yield spec.loader.exec_module(module) or module
    sys.modules.pop("models", None)


@pytest.mark.long
def test_each_peer_is_held_against_its_own_clock(fidelity, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    model = write_fake_model(tmp_path / "m.fake", latency_ns=[1_080_000], engine_latency_ns=[1_000_000])
    ours = {peer.runtime: fidelity.ours(model, "fake", 0.05, peer.metric) for peer in fidelity.PEERS}
    assert ours.pop("openvino") == pytest.approx(1e-3)
    assert set(ours) >= {"onnxruntime", "litert/compiled", "torch/eager", "torch/compile"}
    assert ours == pytest.approx(dict.fromkeys(ours, 1.08e-3))


def test_rows_of_an_engine_that_is_not_there_are_left_out(fidelity):
    missing = fidelity.Peer("fake/gpu", "a tool", fidelity.bare_onnxruntime, dict).missing()
    assert missing == "fake has no provider gpu"
    assert fidelity.Peer("fake", "a tool", fidelity.bare_onnxruntime, dict).missing() == ""
