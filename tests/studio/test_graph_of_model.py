"""The graph of a model that was not profiled: its data, its page, and what leads to it."""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from dataclasses import replace

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.profiling.layers import layers_without_times
from edgewise.report import graph as module
from edgewise.report.graph import make_model_graph
from edgewise.report.graph.columns import document_of
from edgewise.studio.graph_part import NOT_PROFILED
from edgewise.studio.model_worker import answer, inspect
from messages import says, wording
from sample_profiles import layer_of, profiled_run
from sample_runs import make_run
from tiny_models import write_tiny_onnx


def write_network(path, size=8):
    """Two convolutions in a block, and an element-wise operator of another domain."""
    from onnx import TensorProto, helper, save_model

    def value(name, channels):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, size, size])

    def weights(name, *shape):
        count = shape[0] * shape[1] * 9
        return helper.make_tensor(name, TensorProto.FLOAT, [*shape, 3, 3], [0.5] * count)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="/body/first/Conv", pads=[1] * 4),
        helper.make_node("Conv", ["a", "w2"], ["b"], name="/body/second/Conv", pads=[1] * 4),
        helper.make_node("Whirl", ["b"], ["c"], name="/head/Whirl", domain="own"),
    ]
    constants = [weights("w1", 4, 3), weights("w2", 2, 4)]
    graph = helper.make_graph(nodes, "g", [value("x", 3)], [value("c", 2)], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The data that the page's script draws, and the page."""
    page = inspect(write_network(tmp_path_factory.mktemp("model") / "net.onnx"), title="net", as_graph=True)["page"]
    return json.loads(re.search(r'id="graph-data">(.*?)</script>', page, re.S)[1]), page


def test_operators_have_their_costs_and_no_times(drawn):
    data, page = drawn
    assert data["keys"] == ["macs", "parameters", "memory", "live", "time"]
    assert data["names"] == ["/body/first/Conv", "/body/second/Conv", "/head/Whirl", "body"]
    assert [data["texts"][at] for at in data["ops"]] == ["Conv", "Conv", "Whirl"]
    values = data["values"]
    assert values["macs"] == [64 * 4 * 3 * 9, 64 * 2 * 4 * 9, None, 64 * 180]
    assert values["parameters"] == [108, 72, 0, 180]
    # Of float32: weights, and the 64 places of the channels that come in and go out.
    assert values["memory"][:2] == [4 * (108 + 64 * 7), 4 * (72 + 64 * 6)]
    assert values["live"][:2] == [4 * 64 * 7, 4 * 64 * 6]
    assert values["time"] == [None] * 4
    assert data["metrics"]["time"]["why"] == NOT_PROFILED
    assert data["edges"] == [0, 1, 1, 2]
    layers = data["runs"][0]["layers"]
    assert [data["texts"][at] for at in layers["outputs"]][:2] == ["1×4×8×8 float32", "1×2×8×8 float32"]
    assert "Whirl" in data["texts"][data["why"]["macs"]["2"]]
    assert "6.91 k</td><td>108</td>" in page and "1×4×8×8 float32" in page
    assert "µs" not in page and "Flame" not in page and "Timeline" not in page


def test_parts_are_named_after_what_has_the_most_macs():
    layers = [replace(layer_of(at, f"n{at}", "Conv", 0.0, macs=10 * (at == 7)), time=None) for at in range(205)]
    names = [block.name for block in make_model_graph(layers, ()).blocks]
    assert names[0] == "part 1: n7"


def test_a_model_without_operators_and_one_with_too_many_end_in_one_message(monkeypatch):
    with pytest.raises(BadInput, match=says("model-no-operators-draw")):
        make_model_graph((), ())
    monkeypatch.setattr(module, "MOST_NODES", 2)
    layers = [layer_of(at, f"n{at}", "Conv", 0.0) for at in range(3)]
    with pytest.raises(
        BadInput, match=says("model-operators-graph-shows-most", layers_count=3, most_nodes=2)
    ) as caught:
        make_model_graph(layers, ())
    assert wording("edgewise-inspect-model-json-lists") in caught.value.advice


def test_layers_of_a_network_are_its_operators_in_order(tmp_path):
    from edgewise.model.readers.onnx import OnnxReader

    graph = OnnxReader().read_graph(write_network(tmp_path / "net.onnx"))
    layers = layers_without_times(graph, because="not yet")
    assert [(one.index, one.kind, one.time, one.time_absent_because) for one in layers] == [
        (at, "operator", None, "not yet") for at in range(3)
    ]
    json.dumps(document_of(make_model_graph(layers, ())), allow_nan=False)


def test_the_process_that_reads_answers_with_one_message_for_what_is_no_model(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(write_tiny_onnx(path).read_bytes()[:40])
    told = json.loads(answer(json.dumps({"graph": str(path), "title": "net.onnx"}).encode()))
    assert set(told) == {"error", "message", "advice"} and str(tmp_path) not in told["message"]


@pytest.fixture(scope="module")
def filled(serve, tmp_path_factory):
    """A studio with a folder of a good and a broken model, which it has read."""
    root = tmp_path_factory.mktemp("root") / "nets"
    root.mkdir()
    write_network(root / "net.onnx")
    (root / "broken.onnx").write_bytes(b"\x08\x08no model")
    it = serve(roots=(root,))
    it.studio.readings.read(it.studio.models.get("nets/net.onnx"), "graph", wait_s=300)
    with suppress(BadModel):
        it.studio.readings.read(it.studio.models.get("nets/broken.onnx"), "graph", wait_s=300)
    return it


def test_the_page_of_a_model_leads_to_its_graph_and_the_graph_to_the_profile(filled):
    with filled.client() as client:
        assert 'href="/graph?model=nets%2Fnet.onnx">Graph</a>' in client.get("/models/nets/net.onnx").text
        text = client.get("/graph?model=nets/net.onnx").text
    assert "Not profiled yet" in text and 'href="/new/profile?model=nets/net.onnx"' in text
    assert "<code>edgewise profile MODEL</code>" in text
    assert text.count("<tbody>") == 1 and text.count('href="#node=') == 3


def test_the_graph_as_one_file_draws_and_has_no_button(filled):
    with filled.client() as client:
        text = client.get("/share?of=%2Fgraph%3Fmodel%3Dnets%2Fnet.onnx").text
    assert 'id="graph-data"' in text and "/new/profile" not in text and "edgewise profile MODEL" in text


def test_what_is_no_model_ends_in_one_message(filled):
    with filled.client() as client:
        broken, nothing = client.get("/graph?model=nets/broken.onnx"), client.get("/graph?model=nets/none.onnx")
    assert (broken.status_code, nothing.status_code) == (400, 400)
    for page in (broken, nothing):
        assert "This did not work" in page.text and "Traceback" not in page.text
    assert "broken.onnx" in html.unescape(broken.text)


def test_runs_lead_to_the_graph_and_a_profile_takes_its_place(serve, tmp_path):
    (tmp_path / "nets").mkdir()
    path = write_network(tmp_path / "nets" / "net.onnx")
    it = serve(roots=(path.parent,))
    sha256 = it.studio.readings.read(it.studio.models.get("nets/net.onnx"), "graph", wait_s=300).sha256
    bench, profile = (
        replace(run, job=replace(run.job, model=replace(run.job.model, sha256=sha256, path=str(path), origin=None)))
        for run in (make_run(1), profiled_run())
    )
    it.store.save(bench)
    with it.client() as client:
        assert "/graph?model=nets%2Fnet.onnx" in client.get(f"/runs/{bench.id}").text
        assert client.get("/graph?model=nets/net.onnx").status_code == 200
        it.store.save(profile)
        moved = client.get("/graph?model=nets/net.onnx")
    assert (moved.status_code, moved.headers["location"]) == (303, f"/runs/{profile.id}/graph")


@pytest.mark.ui
def test_the_graph_is_coloured_by_macs_and_says_why_there_are_no_times(open_page, filled):
    page = open_page("/graph?model=nets/net.onnx#view=flame", at=filled)  # a view that only profiles have
    page.wait_for_selector("#graph-stage[data-drawn]:not([aria-busy])")
    assert page.get_attribute("#graph-stage", "data-layout") == "graph"
    assert page.get_attribute("#graph-stage", "data-metric") == "macs"
    page.focus("#graph-stage")
    page.keyboard.press("Home")
    found = dict(
        page.eval_on_selector_all(
            "#graph-rows dt", "all => all.map(one => [one.textContent, one.nextElementSibling.textContent])"
        )
    )
    assert (found["Type"], found["MACs"], found["Outputs"]) == ("Conv", "6.91 k", "1×4×8×8 float32")
    assert found["Time"] == f"n/a: {NOT_PROFILED}"
    page.select_option("#graph-metric", "time")
    assert NOT_PROFILED in page.inner_text("#graph-lacking")
