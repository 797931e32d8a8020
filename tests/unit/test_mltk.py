"""The MLTK tables column for column, and its JSON key for key."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from edgewise.record import Measurement
from edgewise.report.document import Document
from edgewise.report.document.text import to_text
from edgewise.report.profile import mltk
from sample_profiles import NO_COST, measured, profiled_run, unprofiled_run
from sample_runs import NO_ENERGY

# The names in Silicon Labs' documentation of the MLTK profiler (docs/guides/model_profiler.md), in its order.
MODEL = [
    "Name", "Accelerator", "Input Shape", "Input Data Type", "Output Shape", "Output Data Type", "Model File Size",
    "Runtime Memory Size", "# Operations", "# Multiply-Accumulates", "# Layers", "# Unsupported Layers",
    "# Accelerator Cycles", "# CPU Cycles", "CPU Utilization", "Clock Rate", "Time", "Energy", "J/Op", "J/MAC",
    "Ops/s", "MACs/s", "Inference/s",
]  # fmt: skip
LAYER = [
    "Index", "OpCode", "# Ops", "# MACs", "Acc Cycles", "CPU Cycles", "Energy", "Time", "Input Shape", "Output Shape",
    "Options", "Supported?", "Error Msg",
]  # fmt: skip
# Keys that silabs-mltk 0.20.0 wrote for kws_ref_model.tflite with exclude_null=False.
SUMMARY_KEYS = [
    "name", "accelerator", "input_shape", "input_dtype", "output_shape", "output_dtype", "tflite_size",
    "runtime_memory_size", "ops", "macs", "n_layers", "n_unsupported_layers", "accelerator_cycles", "cpu_cycles",
    "cpu_utilization", "cpu_clock_rate", "time", "energy", "j_per_op", "j_per_mac", "op_per_s", "mac_per_s",
    "inf_per_sec",
]  # fmt: skip
LAYER_KEYS = [
    "index", "opcode", "ops", "macs", "accelerator_cycles", "cpu_cycles", "energy", "time", "input_shape",
    "output_shape", "options", "supported", "error_msg",
]  # fmt: skip


def complete():
    """A run in which everything of the model is known: 2 mJ, 100 MHz, 11 MACs, 20 ops of the catalogue."""
    rows = {"energy": 2e-3, "clock_rate": 100e6, "cpu_cycles": 9e4, "accelerator_cycles": 1e3, "macs": 1e7, "ops": 2e7,
            "memory_arena": 1234.0}  # fmt: skip
    run = profiled_run(tflite=True)
    kept = tuple(row for row in run.measurements if row.metric not in rows)
    return replace(run, measurements=(*kept, *(measured(metric, value) for metric, value in rows.items())))


def test_keys_and_their_order_are_mltks():
    document = mltk.to_dict(profiled_run())
    assert list(document)[:4] == ["summary", "summary_labels", "layers", "layer_labels"]
    assert list(document["summary"]) == list(document["summary_labels"]) == SUMMARY_KEYS
    assert list(document["layer_labels"]) == LAYER_KEYS
    assert all(list(layer) == LAYER_KEYS for layer in document["layers"])


def test_there_are_23_numbers_of_the_model_and_13_columns_a_layer():
    model, layers = mltk.mltk_tables(profiled_run())
    assert len(model.rows) == len(MODEL) == 23
    assert len(layers.columns) == len(LAYER) == 13
    assert [column.title.removesuffix(" (J)").removesuffix(" (s)") for column in layers.columns] == LAYER


def test_the_model_in_numbers():
    summary = mltk.to_dict(complete())["summary"]
    assert summary == {
        "name": "vww",
        "accelerator": "None",
        "input_shape": "1x49x10x1",
        "input_dtype": "float32",
        "output_shape": "12",
        "output_dtype": "float32",
        "tflite_size": 333_288,
        "runtime_memory_size": 1234.0,
        "ops": 2e7,
        "macs": 1e7,
        "n_layers": 7,
        "n_unsupported_layers": 1,
        "accelerator_cycles": 1e3,
        "cpu_cycles": 9e4,
        "cpu_utilization": pytest.approx(99.8),
        "cpu_clock_rate": 100e6,
        "time": 1e-3,
        "energy": 2e-3,
        "j_per_op": pytest.approx(1e-10),
        "j_per_mac": pytest.approx(2e-10),
        "op_per_s": pytest.approx(2e10),
        "mac_per_s": pytest.approx(1e10),
        "inf_per_sec": pytest.approx(1000.0),
    }


def test_what_the_target_cannot_know_is_null_with_the_reason():
    document = mltk.to_dict(profiled_run())
    reasons = document["absent_because"]
    assert {key for key, value in document["summary"].items() if value is None} == {
        key for key in reasons if not key.startswith("layers.")
    }
    assert reasons["energy"] == reasons["j_per_op"] == reasons["j_per_mac"] == NO_ENERGY
    assert reasons["cpu_cycles"] == "perf: no hardware counters in this virtual machine"
    assert reasons["accelerator_cycles"] == mltk.NO_ACCELERATOR
    assert reasons["ops"] == reasons["op_per_s"] == mltk.NO_COST
    assert reasons["layers.ops"] == NO_COST
    assert reasons["layers.energy"] == reasons["layers.cpu_cycles"] == mltk.PER_LAYER


def test_totals_are_sums_where_every_cost_is_known():
    run = profiled_run()
    layers = tuple(replace(each, macs=5, ops=11) if each.name == "whirl" else each for each in run.layers)
    summary = mltk.to_dict(replace(run, layers=layers))["summary"]
    assert summary["macs"] == 6_000_000 + 400_000 + 4_000_000 + 5 + 64_000
    assert summary["ops"] == 12_000_000 + 800_000 + 8_000_000 + 11 + 128_000 + 60


def test_layers_have_mltks_words():
    layers = {layer["index"]: layer for layer in mltk.to_dict(complete())["layers"]}
    assert list(layers) == [0, 2, 3, 5, 6, 7, 8]  # overheads and removed operators are no layers
    assert layers[0]["opcode"] == "conv"
    assert layers[0]["options"] == "strides:2x2 note:<b>bold</b>"
    assert (layers[2]["input_shape"], layers[2]["output_shape"]) == ("1x64x25x5", "1x64x?xw")
    assert layers[7]["time"] is None
    assert (layers[8]["supported"], layers[8]["error_msg"]) == (False, "not an operator of the accelerator")


def test_an_accelerator_is_named():
    run = profiled_run()
    runtime = replace(run.job.runtime, provider="cuda")
    used = replace(run, job=replace(run.job, runtime=runtime), effective={})
    document = mltk.to_dict(used)
    assert document["summary"]["accelerator"] == "cuda"
    assert document["absent_because"]["layers.accelerator_cycles"] == mltk.PER_LAYER


def test_the_arena_is_the_engines_where_it_was_measured_else_the_planned_one():
    assert mltk.to_dict(profiled_run())["summary"]["runtime_memory_size"] == 98_304
    document = mltk.to_dict(replace(unprofiled_run(), layers=profiled_run().layers))
    assert document["summary"]["runtime_memory_size"] is None
    assert document["absent_because"]["runtime_memory_size"].startswith("litert 9.9")


def test_json_and_tables_hold_the_same():
    run = complete()
    document = json.loads(mltk.to_json(run))
    assert document == json.loads(json.dumps(mltk.to_dict(run)))
    summary, layers = mltk.mltk_tables(run)
    assert [row[0].text for row in summary.rows] == list(mltk.SUMMARY_LABELS.values())
    assert next(row[1].value for row in summary.rows if row[0].text == "Clock Rate (hz)") == 100e6
    assert [row[2].value for row in layers.rows] == [12e6, 8e5, 8e6, None, 128e3, 0, 60]
    assert layers.rows[3][2].notes == (NO_COST,)


@pytest.mark.parametrize("width", [80, 160])
def test_text_fits_and_says_why(width):
    text = to_text(Document(title="", tables=mltk.mltk_tables(profiled_run())), width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "Inference/s" in text
    assert NO_ENERGY in text


def test_a_latency_of_nothing_gives_no_rate():
    row = Measurement(metric="latency", unit="s", basis="measured", method="", value=0.0)
    kept = tuple(each for each in complete().measurements if each.metric != "latency")
    document = mltk.to_dict(replace(complete(), measurements=(*kept, row)))
    assert document["summary"]["inf_per_sec"] is None
    assert document["absent_because"]["inf_per_sec"] == "time is 0"
