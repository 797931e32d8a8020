"""Layer times of LiteRT, from its real profiler."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import edgewise.data
from edgewise.runtime.base import CannotProfile, LoadOptions, ProfilesLayers
from edgewise.runtime.litert import LiteRt
from edgewise.runtime.litert_capi import CHECKED
from edgewise.runtime.litert_sessions import CompiledSession, InterpreterSession
from edgewise.runtime.litert_xnnpack import KINDS_OF_STEPS, type_of
from messages import has, says

RUNTIME = LiteRt()
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not RUNTIME.availability(), reason="ai-edge-litert is not installed"),
    pytest.mark.skipif(
        bool(RUNTIME.availability()) and RUNTIME.availability().version not in CHECKED,
        reason="LiteRT's profiler was not checked with this version",
    ),
]
DIGITS = Path(edgewise.data.__file__).parent / "digits_cnn.tflite"
TINY = (
    "ad01_fp32", "ad01_int8", "kws_ref_model", "kws_ref_model_float32", "pretrainedResnet", "pretrainedResnet_quant",
    "str_ww_ref_model", "vww_96_float", "vww_96_int8",
)  # fmt: skip


def load(path, *, provider="interpreter", threads=1, profile=True, **options):
    session = RUNTIME.load(path, LoadOptions(provider=provider, threads=threads, profile=profile, **options))
    random = np.random.default_rng(0)
    arrays = []
    for spec in session.inputs:
        values = random.standard_normal(spec.shape) * 20
        arrays.append(values.astype(spec.dtype))
    session.bind(arrays)
    return session


def profile_of(path, inferences=20, **options):
    session = load(path, **options)
    try:
        return session.profile_layers(inferences)
    finally:
        session.close()


def operators_of(path):
    """Types and outputs of the model's operators, as the interpreter lists them."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    names = {detail["index"]: detail["name"] for detail in interpreter.get_tensor_details()}
    return [(node["op_name"], names[node["outputs"][0]]) for node in interpreter._get_ops_details()]


def check(profile, inferences):
    """What holds of every profile."""
    assert len(profile.inference_ns) == inferences
    assert len({node.name for node in profile.nodes}) == len(profile.nodes)
    times = np.array([node.times_ns for node in profile.nodes])
    overheads = np.array([overhead.times_ns for overhead in profile.overheads])
    assert times.shape == (len(profile.nodes), inferences)
    assert overheads.shape[1] == inferences
    assert (times >= 0).all()  # A fast processor takes less than a unit of the resolution for each.
    assert (times % profile.resolution_ns == 0).all()
    # Operators and what lies between them are part of the call; a timed operator may seem up to 1 µs too long.
    assert (times.sum(axis=0) + overheads[0] <= np.array(profile.inference_ns) + profile.resolution_ns).all()
    assert all(earlier.start_ns <= later.start_ns for earlier, later in pairwise(profile.nodes))
    assert "compiled-model API" in profile.notes[0]


@pytest.mark.parametrize("name", TINY)
def test_every_step_of_the_tiny_models_is_attributed(shared_models, name):
    path = shared_models / f"{name}.tflite"
    profile = profile_of(path)
    check(profile, 20)
    assert profile.truncates
    assert profile.ordered
    outputs = {output for _, output in operators_of(path)}
    assert all(node.originals and set(node.originals) <= outputs for node in profile.nodes)
    # Whatever is not merged away by design is executed by a step.
    executed = {name for node in profile.nodes for name in node.originals}
    assert {output for op, output in operators_of(path) if op not in ("RESHAPE", "PAD")} <= executed


def test_the_steps_of_a_model():
    profile = profile_of(DIGITS)
    check(profile, 20)
    assert [type_of(node.op) for node in profile.nodes] == [
        "Static Reshape", *["Convolution"] * 5, "Average Pooling", "Static Reshape", "Fully Connected",
    ]  # fmt: skip
    operators = operators_of(DIGITS)
    assert [op for op, _ in operators] == [
        "RESHAPE", "DEPTHWISE_CONV_2D", "CONV_2D", "PAD", "CONV_2D", "PAD", "CONV_2D", "CONV_2D", "AVERAGE_POOL_2D",
        "FULLY_CONNECTED",
    ]  # fmt: skip
    named = [operators[at][1] for at in (0, 1, 2, 4, 6, 7, 8, 9, 9)]
    assert [node.originals for node in profile.nodes] == [(name,) for name in named]
    assert {node.dtype for node in profile.nodes if "F32" in node.op} == {"float32"}


def test_kernels_without_xnnpack():
    profile = profile_of(DIGITS, provider="interpreter-noxnnpack")
    check(profile, 20)
    assert not profile.truncates
    assert [(node.op, *node.originals) for node in profile.nodes] == operators_of(DIGITS)
    assert {node.provider for node in profile.nodes} == {"built-in"}
    assert [overhead.name for overhead in profile.overheads] == ["between operators"]


def test_a_compiled_model():
    profile = profile_of(DIGITS, provider="compiled")
    check(profile, 20)
    assert [node.op for node in profile.nodes] == [node.op for node in profile_of(DIGITS, inferences=1).nodes]
    assert [overhead.name for overhead in profile.overheads] == ["between operators", "buffers and call"]


def test_settings_of_the_compiled_model_hold_in_the_profile():
    profile = profile_of(DIGITS, provider="compiled", extra={"kernel_mode": 2})
    assert {node.provider for node in profile.nodes} == {"built-in"}


@pytest.mark.parametrize("threads", [2, None])
def test_threads_change_no_steps(threads):
    one, other = (profile_of(DIGITS, inferences=3, threads=number) for number in (1, threads))
    assert [(node.name, node.originals) for node in other.nodes] == [(node.name, node.originals) for node in one.nodes]


@pytest.mark.parametrize("provider", ["interpreter", "compiled"])
def test_another_batch(shared_models, provider):
    path = shared_models / "str_ww_ref_model.tflite"
    session = load(path, provider=provider, shapes={"serving_default_input_1:0": (4, 30, 1, 40)})
    session.invoke()
    assert session.read_outputs()[0].shape == (4, 3)
    check(session.profile_layers(5), 5)
    session.close()


def test_the_session_goes_on_as_before():
    session = load(DIGITS)
    session.invoke()
    before = session.read_outputs()[0]
    session.profile_layers(2)
    session.profile_layers(2)
    session.invoke()
    assert np.array_equal(session.read_outputs()[0], before)
    session.close()


def test_reference_kernels_can_not_be_profiled():
    with pytest.raises(
        CannotProfile, match=says("litert-profiler-works-only-compiled", provider="interpreter-reference")
    ):
        profile_of(DIGITS, provider="interpreter-reference")


def test_a_newer_version_is_profiled_and_named(monkeypatch):
    monkeypatch.setattr("edgewise.runtime.litert_profile.version", lambda name: "2.4.0")
    assert "but not with 2.4.0" in profile_of(DIGITS).notes[-1]


def test_an_older_version_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr("edgewise.runtime.litert_profile.version", lambda name: "2.1.5")
    with pytest.raises(
        CannotProfile,
        match=says("litert-profiler-needs-ai-edge", checked="2.1.6", version="2.1.5", advice=has("pip install")),
    ):
        profile_of(DIGITS)


@pytest.mark.parametrize(("provider", "kind"), [("interpreter", InterpreterSession), ("compiled", CompiledSession)])
def test_without_a_profile_sessions_are_the_plain_ones(provider, kind):
    session = load(DIGITS, provider=provider, profile=False)
    assert type(session) is kind
    assert not isinstance(session, ProfilesLayers)
    session.close()
    timed = load(DIGITS, provider=provider)
    assert isinstance(timed, ProfilesLayers)
    timed.close()


def test_every_type_of_step_that_the_engine_knows_has_kinds():
    import ai_edge_litert

    data = (Path(ai_edge_litert.__file__).parent / "libLiteRt.so").read_bytes()
    found = {
        match.group(1).decode()
        for match in re.finditer(rb"\0([A-Z][A-Za-z0-9]*(?: [A-Z][A-Za-z0-9]*)*) \((?:NC|ND|NHWC|NCHW|X\d+)[),]", data)
    }
    assert len(found) > 60
    assert found - set(KINDS_OF_STEPS) == set()
