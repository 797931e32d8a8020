"""Layers timed by OpenVINO, on networks whose operators are known."""

import pytest

from edgewise.model.cost import KINDS
from edgewise.runtime.base import CannotProfile, LoadOptions, ProfilesLayers
from edgewise.runtime.openvino import OpenVino
from edgewise.runtime.openvino_mapping import outline_of_tflite
from edgewise.runtime.openvino_profile import _KINDS
from engine.profiles import OPERATORS, check_profile, random_inputs, told_of, write_network
from messages import says

pytest.importorskip("onnx")
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not OpenVino().availability(), reason="openvino is not installed"),
]

RUNTIME = OpenVino()
#: operators of each file → those that OpenVINO needs no step for (a flattening is a view)
FILES = {
    "ad01_fp32.tflite": (10, 0),
    "ad01_int8.tflite": (10, 0),
    "kws_ref_model.tflite": (13, 1),
    "pretrainedResnet.tflite": (16, 1),
    "pretrainedResnet_quant.tflite": (16, 1),
    "vww_96_float.tflite": (31, 1),
}


def load(path, **given):
    session = RUNTIME.load(path, LoadOptions(**({"provider": "cpu", "threads": 1, "profile": True} | given)))
    session.bind(random_inputs(session))
    session.invoke()
    return session


@pytest.fixture
def short(monkeypatch):
    """Inferences and compilations count as short, however long a busy machine takes for them."""
    monkeypatch.setattr("edgewise.runtime.openvino_profile.COMPILE_S", 1e18)
    monkeypatch.setattr("edgewise.runtime.openvino_profile.LONG_NS", 10**18)
    monkeypatch.setattr("edgewise.runtime.profiler_cost.SETTLE_BELOW_NS", 10**18)
    monkeypatch.setattr("edgewise.runtime.profiler_cost.WINDOW_NS", 10**18)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return write_network(tmp_path_factory.mktemp("network") / "network.onnx")


def test_only_a_session_that_was_asked_to_can_time_its_layers(network):
    plain = RUNTIME.load(network, LoadOptions(provider="cpu"))
    assert not isinstance(plain, ProfilesLayers)
    session = load(network)
    assert isinstance(session, ProfilesLayers)
    # What measures its latency has no counters.
    assert str(session._compiled.get_property("PERF_COUNT")) in ("NO", "False")


@pytest.mark.usefixtures("short")
def test_every_operator_of_an_onnx_file_has_its_step(network):
    profile = load(network).profile_layers(30)
    check_profile(profile)
    assert len(profile.inference_ns) == 7  # blocks of four or five
    found = {name: node.name for node in profile.nodes for name in node.originals}
    # A flattening and what does nothing are views.
    assert set(OPERATORS.values()) - {"f", "d"} <= found.keys() <= set(OPERATORS.values())
    assert found["c"] == found["r"]
    assert found["m"] == found["y"]
    assert told_of(profile) == 1
    first = next(node for node in profile.nodes if "c" in node.originals)
    assert (first.dtype, first.provider, first.kinds[0]) == ("float32", "CPU", "convolution")
    assert not profile.ordered


def test_operators_of_an_ir_have_their_own_names(network, tmp_path):
    import openvino

    path = tmp_path / "network.xml"
    openvino.save_model(openvino.Core().read_model(network), path, compress_to_fp16=False)
    profile = load(path).profile_layers(4)
    check_profile(profile)
    found = {name for node in profile.nodes for name in node.originals}
    assert {"conv2", "add", "relu"} <= found


@pytest.mark.parametrize("name", FILES)
def test_operators_of_tflite_files(shared_models, name):
    path = shared_models / name
    outline = outline_of_tflite(path)
    first = {outline.nodes[0].inputs[0]}
    plain = RUNTIME.load(path, LoadOptions(provider="cpu"))
    shapes = {spec.name: tuple(size or 1 for size in spec.shape) for spec in plain.inputs}
    assert shapes.keys() == first
    profile = load(path, shapes=shapes).profile_layers(4)
    check_profile(profile)
    producers = outline.producers()
    found = {producers[tensor] for node in profile.nodes for tensor in node.originals}
    operators, views = FILES[name]
    assert (len(outline.nodes), len(found)) == (operators, operators - views)
    assert told_of(profile) == 1
    assert profile.ordered


@pytest.mark.usefixtures("short")
def test_many_inferences_are_cut_down(network):
    profile = load(network).profile_layers(1000)
    # 20 blocks of 20, in windows of five, whose first inference is in no pair of windows but in the counters
    assert any("480 in total" in note for note in profile.notes)
    assert len(profile.pairs_ns) == 80


def test_few_inferences(network):
    profile = load(network).profile_layers(1)
    check_profile(profile)
    assert len(profile.inference_ns) == 1


def test_names_are_the_same_every_time_but_for_numbers(network):
    session = load(network)
    one, two = session.profile_layers(3), session.profile_layers(3)
    assert [node.originals for node in one.nodes] == [node.originals for node in two.nodes]


def test_what_can_not_be_done(network):
    session = RUNTIME.load(network, LoadOptions(provider="cpu", profile=True))
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.profile_layers(1)
    session.bind(random_inputs(session))
    session.effective = {**session.effective, "device": "GPU.0"}
    with pytest.raises(CannotProfile, match=says("openvino-counters-supported-only-cpu", device="GPU.0")):
        session.profile_layers(1)
    session.close()
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.profile_layers(1)


def test_kinds_are_those_of_the_catalogue():
    assert {kind for kinds in _KINDS.values() for kind in kinds} <= KINDS.keys()
