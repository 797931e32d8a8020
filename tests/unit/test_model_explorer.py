"""Node data for Model Explorer: the schema of its `GraphNodeData`, keys as the model has them."""

from __future__ import annotations

import json

import pytest

from edgewise.errors import BadInput
from edgewise.report.profile.model_explorer import METRICS, node_data, render_node_data
from messages import says
from sample_profiles import FORMULA, HOSTILE, LONG, many_layers_run, profiled_run, unprofiled_run


def test_times_are_keyed_by_the_names_of_the_models_operators():
    data = node_data(profiled_run())
    assert {name: each["value"] for name, each in data["results"].items()} == {
        HOSTILE: 300.0, LONG: 250.0, "pw1": 200.0, "whirl": 80.0, FORMULA: 60.0, "softmax": 30.0,
    }  # fmt: skip
    assert data["name"] == "time (µs) · onnxruntime/cpu"


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_numbers_and_a_gradient_with_both_ends(metric):
    data = node_data(profiled_run(), metric)
    assert set(data) == {"name", "results", "gradient"}
    assert [stop["stop"] for stop in data["gradient"]] == [0, 1]
    assert all(stop["bgColor"].startswith("#") for stop in data["gradient"])
    assert all(set(each) == {"value"} and isinstance(each["value"], int | float) for each in data["results"].values())


def test_what_is_not_known_has_no_entry():
    assert "whirl" not in node_data(profiled_run(), "macs")["results"]
    assert "silent" not in node_data(profiled_run())["results"]
    assert "reorder a" not in node_data(profiled_run())["results"]


def test_equal_values_get_a_threshold_because_a_gradient_would_divide_by_zero():
    data = node_data(many_layers_run())
    assert "gradient" not in data
    assert data["thresholds"] == [{"value": 10.0, "bgColor": "#d1495b"}]


def test_nothing_to_show_is_an_error():
    with pytest.raises(BadInput, match=says("no-layer-run-value")):
        node_data(unprofiled_run())
    with pytest.raises(BadInput, match=says("there-no-node-data", metric="speed")) as caught:
        node_data(profiled_run(), "speed")
    assert "time, share, macs" in caught.value.advice


def test_json_keeps_hostile_keys_as_they_are():
    assert json.loads(render_node_data(profiled_run(), "share")) == node_data(profiled_run(), "share")
