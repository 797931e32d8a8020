"""Every built-in runtime that times layers against the contract, and breaches of it are found."""

from dataclasses import replace

import numpy as np
import pytest
from broken_runtimes import TellsLayers

import edgewise.data
from edgewise.runtime.base import CannotProfile, LoadOptions, runtimes
from edgewise.runtime.fake import FakeRuntime
from edgewise.testing import check_runtime, write_fake_model
from edgewise.testing.profile import check_profile
from messages import has, says

LAYERS = [
    {"name": "a", "op": "Conv", "kinds": ["convolution"], "times_ns": [600, 640]},
    {"name": "b", "op": "Gemm", "originals": ["b"], "times_ns": [200]},
]
SCRIPT = {"layers": LAYERS, "layer_overheads": [{"name": "call", "times_ns": [30, 10]}]}


@pytest.fixture
def path(tmp_path):
    return write_fake_model(tmp_path / "m.fake", **SCRIPT)


def test_fake(path):
    assert "layers" in check_runtime(FakeRuntime(), path)


def test_a_runtime_without_layers_is_no_breach(tmp_path):
    assert "layers" not in check_runtime(FakeRuntime(), write_fake_model(tmp_path / "m.fake"))


def test_an_engine_that_can_not_time_layers_is_no_breach(tmp_path):
    behaviour = {"at": "profile", "do": "cannot-profile"}
    path = write_fake_model(tmp_path / "m.fake", **SCRIPT, behaviour=behaviour)
    assert "layers" not in check_runtime(FakeRuntime(), path)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("name", "provider", "file"),
    [
        ("onnxruntime", "cpu", "digits_cnn.onnx"),
        ("openvino", "cpu", "digits_cnn.onnx"),
        ("openvino", "cpu", "digits_cnn.tflite"),
        ("litert", "interpreter", "digits_cnn.tflite"),
        ("litert", "interpreter-noxnnpack", "digits_cnn.tflite"),
        ("litert", "compiled", "digits_cnn.tflite"),
    ],
)
def test_engines(name, provider, file):
    runtime = runtimes().get(name)
    if not runtime.availability():
        pytest.skip(f"{name}: {runtime.availability().reason}")
    shapes = {"image": (1, 1, 32, 32)}
    assert "layers" in check_runtime(runtime, edgewise.data.path(file), provider=provider, shapes=shapes)


def changed(**fields):
    return lambda session, profile: replace(profile, **fields)


def node_changed(**fields):
    return lambda session, profile: replace(profile, nodes=(replace(profile.nodes[0], **fields), *profile.nodes[1:]))


def forget_inputs(session, profile):
    session._results = [array + 1 for array in session._results]
    return profile


def say_nothing(session, profile):
    raise CannotProfile


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(inference_ns=()), says("inference-ns-times-inferences", count=0, inferences=8)),
        (changed(inference_ns=(900,) * 9), says("inference-ns-times-inferences", count=9, inferences=8)),
        (changed(inference_ns=(900,) * 7), "'a' has 8 times, inference_ns has 7"),
        (node_changed(times_ns=(1.0,)), says("times-ns-times-inference-ns", name="a", times_count=1)),
        (node_changed(times_ns=(-1.0,) * 8), says("times-ns-time-below-0", name="a")),
        (node_changed(times_ns=(9e6,) * 8), says("times-ns-all-steps-take")),
        (node_changed(times_ns=(float("nan"),) * 8), says("times-ns-time-below-0")),
        (node_changed(start_ns=1e9), says("nodes-they-not-order-execution")),
        (node_changed(name="b"), says("two-one-name", what=has("nodes"))),
        (node_changed(name=""), says("one-no-name", what=has("nodes"))),
        (node_changed(kinds=("magic",)), says("kinds-which-there-none", name="a", unknown="magic")),
        (node_changed(role="boss"), "can't be sent: nodes.0.role: Input should be 'operator'"),
        (node_changed(detail={"x": object()}), says("runtime-layers-profile-cant-sent")),
        (node_changed(originals=(1,)), "can't be sent: nodes.0.originals.0: Input should be a valid string"),
        (changed(method=""), says("method-empty")),
        (changed(resolution_ns=0), says("resolution-ns-not-above-0")),
        (changed(inference_ns=(0,) * 8), says("inference-took-no-time", what=has("inference_ns"))),
        (changed(unprofiled_ns=(900, 0)), says("inference-took-no-time", what=has("unprofiled_ns"))),
        (forget_inputs, says("after-layers-were-timed-same")),
        (say_nothing, says("cannotprofile-raised-without-message")),
    ],
)
def test_a_breach_is_found(path, monkeypatch, change, message):
    monkeypatch.setattr(TellsLayers, "change", staticmethod(change))
    with pytest.raises(AssertionError, match=message):
        check_profile_of(TellsLayers(), path)


def check_profile_of(runtime, path):
    """Only the rules of layers: the others were checked above."""
    return check_profile(runtime, path, LoadOptions(provider="cpu", threads=1), [np.ones((1, 4), np.float32)])


def test_the_whole_check_finds_it_too(path, monkeypatch):
    monkeypatch.setattr(TellsLayers, "change", staticmethod(changed(method="")))
    with pytest.raises(AssertionError, match="layers: method"):
        check_runtime(TellsLayers(), path)
