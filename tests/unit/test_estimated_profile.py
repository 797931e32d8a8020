"""What `profile` adds to an estimate: facts of the network, ratios, and the request that is carried out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import BadInput, Unavailable
from edgewise.estimating.base import is_known
from edgewise.report.estimate.document import estimate_document, layer_table
from edgewise.report.profile import mltk
from edgewise.verbs.estimate.presentation import FORMAT as ESTIMATES
from edgewise.verbs.reading import request_for
from edgewise.verbs.verb import carry_out
from estimates import estimated
from messages import has, says


def test_layers_have_the_facts_of_their_operators(tmp_path):
    found = estimated(tmp_path)
    dense, relu = found.layers
    assert (dense.ops, dense.parameters, dense.weight_bytes) == (2 * 128 + 8, 136, 128 + 4 * 8)
    assert (relu.ops, relu.parameters, relu.weight_bytes) == (2 * 8, 0, 0)
    assert [tensor.shape for tensor in (*dense.inputs, *dense.outputs)] == [(1, 16), (1, 8)]
    assert (dense.live_bytes, relu.live_bytes) == (16 + 8, 8 + 8)
    assert [tensor.name for tensor in (*found.inputs, *found.outputs)] == ["x", "y"]


def test_energy_is_shared_by_time_and_divided_by_operations(tmp_path):
    found = estimated(tmp_path)
    assert [layer.energy for layer in found.layers] == pytest.approx([0.75e-6, 0.25e-6])
    assert found.coverage == {"energy": 0.9, "energy_per_op": 0.9, "energy_per_mac": 0.9}
    row = found.measurement("energy_per_mac")
    assert (row.value, row.low, row.high) == pytest.approx((1e-6 / 128, 0.5e-6 / 128, 2e-6 / 128))
    assert row.basis == "derived" and found.measurement("energy_per_op").value == pytest.approx(1e-6 / 280)
    table = layer_table(found)
    cells = {column.title: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert cells["J/MAC"].value == pytest.approx(0.75e-6 / 128) and cells["J/op"].value == pytest.approx(0.75e-6 / 264)
    assert cells["Input"].text == "1x16" and cells["Live memory"].value == 24


def test_without_energy_the_ratios_are_absent_with_its_reason(tmp_path):
    found = estimated(tmp_path, energy=None)
    for metric in ("energy_per_op", "energy_per_mac"):
        row = found.measurement(metric)
        assert row.value is None and row.absent_because == "no board"
    assert {layer.energy for layer in found.layers} == {None}
    assert "Energy" not in [column.title for column in layer_table(found).columns]
    assert "no board" in str(estimate_document(found))


def test_the_json_has_them_too(tmp_path):
    layer = json.loads(json.dumps(estimated(tmp_path).to_document()))["layers"][0]
    assert layer["inputs"] == [{"name": "x", "shape": [1, 16], "dtype": "int8"}]
    assert layer["ops"] == 264 and layer["energy"] == pytest.approx(0.75e-6)


def test_a_profile_of_a_device_that_can_only_be_estimated_is_an_estimate():
    fields = {"models": ["m.tflite"], "device": "cortex-m33@80MHz", "shapes": {"": (1, 2)}}
    request = request_for("profile", **fields).in_effect()
    assert request == request_for(
        "estimate", model="m.tflite", device="cortex-m33@80MHz", shapes={"": (1, 2)}
    )  # the same fields
    here = request_for("profile", models=["m.tflite"])
    assert here.in_effect() is here


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"threads": [2], "iterations": 5},
            "can only be estimated, and an estimate does not use threads and iterations",
        ),
        (
            {"models": ["a.tflite", "b.tflite"]},
            says("models-must-one-model-which", device="cortex-m33", models_count=2),
        ),
    ],
)
def test_what_needs_a_measurement_is_refused(fields, problem):
    request = request_for("profile", **{"models": ["m.tflite"], "device": "cortex-m33", **fields})
    with pytest.raises(BadInput, match=problem):
        request.in_effect()


def test_mltks_keys_are_filled_from_an_estimate(tmp_path):
    document = mltk.to_dict(estimated(tmp_path))
    size = (tmp_path / "dense.tflite").stat().st_size
    assert document["summary"] == {
        "name": "dense", "accelerator": "None", "input_shape": "1x16", "input_dtype": "int8", "output_shape": "1x8",
        "output_dtype": "int8", "tflite_size": size, "runtime_memory_size": 24, "ops": 280, "macs": 128, "n_layers": 2,
        "n_unsupported_layers": None, "accelerator_cycles": None, "cpu_cycles": 1000,
        "cpu_utilization": pytest.approx(100), "cpu_clock_rate": 1e6, "time": 1e-3, "energy": 1e-6,
        "j_per_op": pytest.approx(1e-6 / 280), "j_per_mac": pytest.approx(1e-6 / 128),
        "op_per_s": pytest.approx(280e3), "mac_per_s": pytest.approx(128e3), "inf_per_sec": pytest.approx(1000),
    }  # fmt: skip
    assert document["basis"]["time"] == "estimated" and document["basis"]["macs"] == "derived"
    dense = document["layers"][0]
    assert (dense["opcode"], dense["cpu_cycles"], dense["accelerator_cycles"]) == ("fully_connected", 750, None)
    assert (dense["input_shape"], dense["output_shape"], dense["supported"]) == ("1x16", "1x8", None)
    assert document["absent_because"]["layers.supported"] == mltk.NO_ACCELERATOR


def test_mltks_layers_tell_which_the_accelerator_leaves_to_the_processor(tmp_path):
    document = mltk.to_dict(estimated(tmp_path, energy=None, unit="NPU"))
    summary, (dense, relu) = document["summary"], document["layers"]
    assert (summary["accelerator"], summary["n_unsupported_layers"]) == ("NPU", 1)
    assert summary["accelerator_cycles"] == 1000 and summary["energy"] is None
    assert document["absent_because"]["j_per_mac"] == "no board"
    assert (dense["supported"], dense["accelerator_cycles"], dense["cpu_cycles"]) == (True, 750, None)
    assert (relu["supported"], relu["error_msg"], relu["accelerator_cycles"]) == (False, "too small", 0)
    assert relu["cpu_cycles"] == 250


def test_a_folder_gets_every_file(tmp_path):
    found, folder = estimated(tmp_path), tmp_path / "out"
    ESTIMATES.check(folder, overwrite=False)
    ESTIMATES.write(found, folder)
    names = ["layers.csv", "report.json", "report.mltk.json", "report.txt", "summary.csv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "report.mltk.json").read_text()) == mltk.to_dict(found)
    header, row = (folder / "summary.csv").read_text().splitlines()
    assert header == (
        "Model,Device,Clock (Hz),Settings,Software,Basis,Latency (s),Latency low (s),Latency high (s),"
        "Latency coverage,Energy (J),Energy low (J),Energy high (J),Energy coverage,RAM (B),Arena (B),Flash (B),Notes"
    )
    start = (
        'dense.tflite,toy-core,1000000,,toy 1.0,"estimated, derived",0.001,n/a,n/a,n/a,1e-06,5e-07,2e-06,0.9,n/a,24,'
    )
    assert row.startswith(start)
    with pytest.raises(BadInput, match=says("exists-already-in-folders")):
        ESTIMATES.check(folder, overwrite=False)
    ESTIMATES.write(found, folder, overwrite=True)
    for place in (tmp_path / "none" / "out", tmp_path / "report.svg"):
        with pytest.raises(BadInput):
            ESTIMATES.check(place, overwrite=False)


def test_an_estimate_that_is_refused_is_written_with_the_reason(tmp_path):
    whole = estimated(tmp_path)
    found = replace(whole, measurements=(), layers=(), coverage={}, refused="it computes in float", advice="quantise")
    ESTIMATES.write(found, tmp_path / "out")
    assert "it computes in float" in (tmp_path / "out" / "report.txt").read_text()
    assert (tmp_path / "out" / "summary.csv").read_text().count("n/a") == 11
    document = mltk.to_dict(found)
    assert document["layers"] == [] and document["absent_because"]["time"] == "it computes in float"


def test_a_folder_that_can_not_be_made_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match=says("cant-write-in-result-files", path="/proc/none")):
        ESTIMATES.write(estimated(tmp_path), Path("/proc/none"))


@pytest.mark.parametrize(
    ("device", "advice"),
    [
        ("cortexm4", says("did-you-mean-edgewise-estimate", near=has("cortex-m4"))),
        ("zzz", says("known-devices-local-machine-register")),
    ],
)
def test_a_device_that_nobody_has_is_named_with_similar_ones(device, advice):
    with pytest.raises(Unavailable) as caught:
        carry_out(request_for("profile", models=["m.tflite"], device=device))
    assert re.match(advice, caught.value.advice)


def test_devices_are_found_however_they_are_written():
    assert [is_known(word) for word in ("Cortex_M4@80MHz", "cortex-m4", "cortex-m", "local")] == [
        True,
        True,
        False,
        False,
    ]
