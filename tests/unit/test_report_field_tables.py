"""The field's tables, column for column."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.errors import BadInput
from edgewise.record import DataRef, Evaluation, InTurns
from edgewise.record.evaluation import CalibratedPart
from edgewise.report.document.csv import render_csv
from edgewise.report.runs.field_tables import FIELD_TABLES, Options, field_document
from messages import says
from sample_runs import KWS, failed_run, make_run, measured, run_id, same_model_runs

#: The headings as the field's guides have them, so that a row can be pasted into their tables.
HEADINGS = {
    "zoo": ["Model", "Task", "Accuracy", "Latency (ms)", "Model Size (MB)", "Platform", "References"],
    "long": [
        "Model", "Size (MB)", "Top-1 Accuracy", "Top-5 Accuracy", "Parameters", "Depth",
        "Time (ms) per inference step (CPU)", "Time (ms) per inference step (GPU)",
    ],
    "platform": [
        "Target Device", "Model Specs", "Accuracy (%)", "Latency (ms)", "Throughput (inf/s)", "Memory Usage (RAM)",
        "Energy (mWh)", "Startup Time (ms)", "Temperature (°C)", "Complexity (OPS)", "Compute Speed (MHz/GHz)",
        "Deployment Time (s)",
    ],
}  # fmt: skip
DATA = DataRef(name="words.npz", path=None, format="npz", sha256="d" * 64, split="test", size=90)
WATCH = [
    ["Model Params Size (MB)", "Model Size (MB)", "Accuracy (%)", "Latency (ms)", "Inference Time (ms)",
     "Throughput (inferences/sec)", "Memory Footprint (MB)", "Error Rate (%)", "Deployment Time (s)"],
    ["Computing Workload (%): CPU, GPU, NPU, TPU, VPU", "Computing Speed (MHz)", "Energy Consumption (mWh)",
     "Temperature (°C)", "Startup Time (ms)", "Network Bandwidth (MB/s)", "Model Complexity (FLOPs)"],
]  # fmt: skip


def everything():
    """A run that knows all that these tables ask."""
    run = make_run(1)
    known = {
        "accuracy_top1": 0.9167, "accuracy_top5": 0.99, "error_rate": 0.0833, "parameters": 22.9e6, "depth": 81.0,
        "parameters_size": 5.2e7, "energy": 0.0072, "temperature": 318.15, "clock_rate": 1.4e9, "ops": 5.4e6,
        "deployment_time": 1.25,
    }  # fmt: skip
    kept = tuple(row for row in run.measurements if row.metric not in known)
    return replace(run, measurements=kept + tuple(measured(metric, value) for metric, value in known.items()))


def cells(name, run, options=None):
    table = field_document(name, [run], options=options).tables[0]
    return {column.title: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}


def watched(run):
    tables = field_document("watch", [run]).tables
    return {row[0].text: row[1] for table in tables for row in table.rows}


@pytest.mark.parametrize("name", sorted(HEADINGS))
def test_columns_are_the_fields(name):
    table = field_document(name, same_model_runs()).tables[0]
    assert [column.title for column in table.columns] == HEADINGS[name]
    assert len(table.rows) == 3
    assert table.notes[-1] == "Left out: 1 run without a result: failed or cancelled"


def test_networks_have_engine_threads_latency_grade_and_accuracy_and_what_else_tells_rows_apart():
    judged = replace(everything(), evaluation=Evaluation(task="classification", data=DATA, n=90))
    table = field_document(
        "networks", [judged, make_run(2, threads=2, grade="D"), make_run(3, runtime="litert")]
    ).tables[0]
    shown = [table.columns[index].title for index in table.visible]
    assert shown == ["Model", "Runtime", "Threads", "Latency (ms)", "Grade", "Model Size (MB)", "Accuracy"]
    assert [[row[index].text for index in table.visible] for row in table.rows] == [
        ["kws.onnx", "onnxruntime/cpu", "1", "0.420 ± 0.011", "B", "0.0539", "91.67 %"],
        ["kws.onnx", "onnxruntime/cpu", "2", "0.420 ± 0.011", "D", "0.0539", "n/a"],
        ["kws.onnx", "litert/cpu", "1", "0.420 ± 0.011", "B", "0.0539", "n/a"],
    ]
    notes = [row[-1].notes for row in table.rows]
    assert notes[0] == (
        "judged on words.npz (npz, test), 90 of 90 samples, task classification, data sha256 dddddddddddddddd",
    )
    assert notes[1] == (
        "accuracy not measured in this engine: 'edgewise evaluate MODEL -r ENGINE --data PATH' does that",
    )
    table = field_document("networks", [make_run(1), make_run(2, batch=8)]).tables[0]
    assert [table.columns[index].title for index in table.visible][2:5] == ["Threads", "Batch", "Latency (ms)"]
    assert render_csv(table).startswith("Model,Runtime,Threads,Precision,Batch,Scenario,Device,Latency (ms),Grade,")


@pytest.mark.parametrize(
    ("effective", "words"),
    [
        ({"file_precision": "int8", "precision": None}, "int8"),
        ({"file_precision": "float32", "precision": "f32"}, "float32"),
        ({"file_precision": "float32", "precision": "bf16"}, "float32 run in bfloat16"),
        ({"file_precision": "uint8", "precision": "f32", "precision_of_products": {"u8": 3}}, "uint8"),
        ({"file_precision": "int8", "precision": "f32", "precision_of_products": {"f32": 3}}, "int8 run in float32"),
        ({"precision": "f32", "precision_of_products": {"i8": 3}}, "int8 + f32"),
        ({"precision": None}, "not reported"),
    ],
)
def test_a_table_of_several_networks_has_the_precision_of_each(effective, words):
    other = replace(make_run(2, model=replace(KWS, name="other.onnx", sha256="e" * 64)), effective=effective)
    table = field_document("networks", [make_run(1), other]).tables[0]
    position = [column.title for column in table.columns].index("Precision")
    assert position in table.visible and table.rows[1][position].text == words
    alone = field_document("networks", [other]).tables[0]
    assert position not in alone.visible


@pytest.mark.parametrize("name", ["zoo", "networks", "long"])
def test_programs_are_left_out_of_tables_of_networks(name):
    program = make_run(2, model=replace(KWS, name="python3", format="program"))
    program = replace(program, job=replace(program.job, command=("python3", "fir.py")))
    with_model = replace(program, job=replace(program.job, model=KWS), id=make_run(3).id)
    table = field_document(name, [make_run(1), program, with_model]).tables[0]
    assert [row[0].text for row in table.rows] == ["kws.onnx"]
    assert table.notes[-1] == "Left out: 2 runs of programs, which are no networks"
    with pytest.raises(BadInput, match=says("table-networks-these-runs-programs", name=name)):
        field_document(name, [program])
    assert len(field_document("platform", [make_run(1), program]).tables[0].rows) == 2


@pytest.mark.parametrize("name", sorted(FIELD_TABLES))
@pytest.mark.parametrize("run", [failed_run(), replace(make_run(1), status="cancelled", measurements=())])
def test_a_run_that_did_not_end_has_no_row(name, run):
    with pytest.raises(BadInput, match=says("table-rows-finished-runs-only", name=name)):
        field_document(name, [run], options=Options(known=[make_run(2)]))


@pytest.mark.parametrize("name", ["zoo", "networks", "long"])
def test_of_one_network_with_the_same_settings_the_newest_run_of_the_best_grade_has_the_row(name):
    runs = [
        replace(make_run(number, grade=grade), created_at=f"2026-03-0{number}T05:06:07.000+00:00")
        for number, grade in enumerate("CBBD", 1)
    ]
    table = field_document(name, [*runs, make_run(5, threads=2), make_run(6, batch=2)]).tables[0]
    assert len(table.rows) == 3
    assert table.notes[-1] == (
        "Left out: 3 runs older or of a worse grade than another of the same file and settings; the grade counts first"
    )
    alone = field_document(name, runs).tables[0]
    assert "All values: run 0195f0c0-0000 of 2026-03-03" in alone.notes
    assert len(field_document("platform", runs).tables[0].rows) == 4


def test_networks_have_the_ratios_in_turns_which_order_them():
    slow, apart = make_run(2, runtime="openvino", latency=2e-4), make_run(3, threads=2)
    found = InTurns(against=run_id(1), ratio=1.54, low=1.34, high=1.8, verdict="slower", method="turns")
    back = InTurns(against=run_id(2), ratio=0.649, low=0.556, high=0.746, verdict="faster", method="turns")
    runs = [replace(make_run(1), in_turns=(back,)), replace(slow, in_turns=(found,)), apart]
    table = field_document("networks", runs).tables[0]
    titles = [column.title for column in table.columns]
    position = titles.index("In turns")
    assert position + 1 == titles.index("Latency (ms)")  # what decides stands first
    cells = {row[1].text + row[2].text: row[position] for row in table.rows}
    assert [cell.text for cell in cells.values()] == ["1", "–", "1.540× [1.340, 1.800]"]
    assert "measured in turns" in cells["onnxruntime/cpu1"].notes[0] and "decide" in cells["onnxruntime/cpu1"].notes[0]
    assert "In turns" not in [
        column.title for column in field_document("networks", [make_run(1), slow]).tables[0].columns
    ]


@pytest.mark.parametrize(("alone", "noted"), [(1.9e-4, True), (2.6e-4, False)])
def test_a_latency_that_contradicts_the_turns_has_a_footnote(alone, noted):
    """What is 1.54 times as slow in turns was measured alone when the machine was faster."""
    found = InTurns(against=run_id(1), ratio=1.54, low=1.34, high=1.8, verdict="slower", method="turns")
    back = InTurns(against=run_id(2), ratio=0.649, low=0.556, high=0.746, verdict="faster", method="turns")
    slow = replace(make_run(2, runtime="openvino", latency=alone, half=1e-5), in_turns=(found,))
    runs = [replace(make_run(1, latency=2.2e-4, half=1e-5), in_turns=(back,)), slow]
    table = field_document("networks", runs).tables[0]
    at = [column.title for column in table.columns].index("Latency (ms)")
    notes = {row[1].text: row[at].notes for row in table.rows}
    assert not any("another place" in note for note in notes["onnxruntime/cpu"])
    assert any(note.startswith("measured alone it has another place") for note in notes["openvino/cpu"]) == noted


def test_networks_whose_accuracy_nobody_measured_have_no_column_of_it():
    def columns(run):
        return {column.title: column.hidden for column in field_document("networks", [run]).tables[0].columns}

    assert columns(make_run(1))["Accuracy"] and not columns(everything())["Accuracy"]


def test_an_accuracy_says_that_its_samples_calibrated_the_file():
    part = CalibratedPart(samples=30, metric="accuracy_top1", n=60, value=0.9, low=0.8, high=0.95)
    judged = Evaluation(task="classification", data=DATA, n=90, calibrated=part)
    notes = cells("networks", replace(everything(), evaluation=judged))["Accuracy"].notes
    assert notes[0] == (
        "30 of 90 samples were also used to calibrate it; top-1 accuracy without them: 90.00 % [80.00, 95.00]"
    )


def test_rows_of_a_network_stand_together_by_engine_and_threads_in_whatever_order_they_were_measured():
    other = replace(KWS, name="other.onnx", sha256="e" * 64)
    runs = [
        make_run(1, runtime="litert", threads=2),
        make_run(2, model=other),
        make_run(3),
        make_run(4, runtime="litert", threads=10),
        make_run(5, runtime="litert"),
    ]
    table = field_document("networks", runs).tables[0]
    assert [[cell.text for cell in row[:3]] for row in table.rows] == [
        ["kws.onnx", "litert/cpu", "1"],
        ["kws.onnx", "litert/cpu", "2"],
        ["kws.onnx", "litert/cpu", "10"],
        ["kws.onnx", "onnxruntime/cpu", "1"],
        ["other.onnx", "onnxruntime/cpu", "1"],
    ]


def test_watch_metrics_are_the_fields_rows_and_runs_are_columns():
    tables = field_document("watch", same_model_runs()).tables
    assert [[row[0].text for row in table.rows] for table in tables] == WATCH
    assert [column.title for column in tables[1].columns] == [
        "Target HW Platform Watch Metrics", "onnxruntime/cpu", "openvino/cpu", "fake/cpu",
    ]  # fmt: skip


def test_microcontrollers_have_ram_and_flash_too():
    run = make_run(1)
    extra = (measured("memory_arena", 21_600.0), measured("flash", 96_000.0))
    rows = watched(replace(run, measurements=run.measurements + extra))
    assert (rows["RAM (KB)"].text, rows["Flash (KB)"].text) == ("21.6", "96.0")
    assert "RAM (KB)" not in watched(run)


def test_values_are_in_the_units_of_their_headings():
    zoo = cells("zoo", everything(), Options(task="Image Classification", reference="https://example.org/x"))
    assert [cell.text for cell in zoo.values()] == [
        "kws.onnx", "Image Classification", "91.67 %", "0.420 ± 0.011", "0.0539",
        "Debian GNU/Linux 12 x86_64, Example CPU @ 2.00 GHz, onnxruntime 1.2.3 (cpu, 1 thread, f32)", "https://example.org/x",
    ]  # fmt: skip
    assert zoo["References"].link == "https://example.org/x"
    long = cells("long", everything())
    assert [cell.text for cell in long.values()][1:7] == [
        "0.0539",
        "91.67 %",
        "99.00 %",
        "22.9 M",
        "81",
        "0.420 ± 0.011",
    ]
    platform = cells("platform", everything())
    assert [cell.text for cell in platform.values()] == [
        "Example CPU @ 2.00 GHz", "kws.onnx, onnx, 0.0539 MB, f32", "91.67", "0.420 ± 0.011", "2380 ± 70",
        "48.0 ± 0.1 MB", "0.00200", "210 ± 4", "45.0", "5.40 M", "1.40 GHz", "1.25",
    ]  # fmt: skip
    watch = watched(everything())
    assert {name: watch[name].text for name in ("Model Params Size (MB)", "Error Rate (%)", "Computing Speed (MHz)")} == {
        "Model Params Size (MB)": "52.0", "Error Rate (%)": "8.33", "Computing Speed (MHz)": "1400",
    }  # fmt: skip
    assert watch["Computing Workload (%): CPU, GPU, NPU, TPU, VPU"].text == "CPU 99.8 ± 0.1"
    assert "100 % is one core" in watch["Computing Workload (%): CPU, GPU, NPU, TPU, VPU"].notes[0]


def test_what_is_not_known_says_why():
    zoo = cells("zoo", replace(make_run(1), environment={}))
    assert {name: cell.notes for name, cell in zoo.items() if cell.text == "n/a"} == {
        "Task": ("the task was not given (--task)",),
        "Accuracy": (
            "accuracy not measured in this engine: 'edgewise evaluate MODEL -r ENGINE --data PATH' does that",
        ),
        "Platform": ("the run's record does not name the platform",),
        "References": ("no reference was given (--reference)",),
    }
    assert cells("platform", make_run(1))["Energy (mWh)"].notes == (
        "rapl: /sys/class/powercap has no intel-rapl domain",
    )
    assert "pre- and postprocessing" in watched(make_run(1))["Inference Time (ms)"].notes[0]


def test_times_stand_under_the_unit_that_was_used():
    cpu = cells("long", make_run(1))
    assert cpu["Time (ms) per inference step (GPU)"].notes == ("this run used the CPU",)
    gpu = cells("long", make_run(1, provider="cuda"))
    assert gpu["Time (ms) per inference step (GPU)"].text == "0.420 ± 0.011"
    assert gpu["Time (ms) per inference step (CPU)"].notes == ("this run used the GPU",)
    unknown = cells("long", make_run(1, provider="mystery"))
    assert unknown["Time (ms) per inference step (CPU)"].text == "n/a"


def test_the_batch_is_named_where_an_inference_is_several_samples():
    assert cells("zoo", make_run(1, batch=8))["Latency (ms)"].notes == ("time of one inference of batch 8",)


@pytest.mark.parametrize(
    ("reference", "text", "link"),
    [
        ("[MLPerf](https://mlcommons.org/)", "MLPerf", "https://mlcommons.org/"),
        ("https://a.b/c", "https://a.b/c", "https://a.b/c"),
        ("our wiki", "our wiki", None),
        ("javascript:alert(1)", "javascript:alert(1)", None),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))", None),
    ],
)
def test_only_web_addresses_become_links(reference, text, link):
    cell = cells("zoo", make_run(1), Options(reference=reference))["References"]
    assert (cell.text, cell.link) == (text, link)


def test_moved_bytes_are_no_bandwidth():
    run = make_run(1)
    kept = tuple(row for row in run.measurements if row.metric != "network_bytes")
    cell = watched(replace(run, measurements=(*kept, measured("network_bytes", 2.5e6))))["Network Bandwidth (MB/s)"]
    assert (cell.text, cell.notes) == ("n/a", ("2.50 MB were moved; how long that took by itself was not measured",))


def test_the_size_comes_from_the_models_identity_where_it_was_not_measured():
    run = replace(make_run(1), measurements=())
    assert cells("zoo", run)["Model Size (MB)"].value == KWS.size_bytes * 1e-6


def test_an_unknown_table_is_refused_with_the_list():
    with pytest.raises(BadInput, match=says("there-no-table-in-field-tables", name="fancy")) as caught:
        field_document("fancy", [make_run(1)])
    assert caught.value.advice == f"one of: {', '.join(FIELD_TABLES)}"
