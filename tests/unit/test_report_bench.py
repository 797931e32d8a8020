"""The bench table in every plain rendering, against golden files.

To accept a change of wording, look at what changed and run this file with tests/ on PYTHONPATH: it writes them anew.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from edgewise.record import Caution, Measurement, Trust
from edgewise.report.bench.answer import answer_of
from edgewise.report.bench.document import bench_document, input_sections
from edgewise.report.bench.tables import bench_table
from edgewise.report.document import Cell, Column, Document, Table
from edgewise.report.document.csv import render_csv
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.text import to_text
from edgewise.report.runs.cautions import caution_lines
from edgewise.report.runs.conditions import engine_of, lines_by_run, processor_of
from edgewise.report.runs.field_tables import Options, field_document
from edgewise.run.agreement import Outputs, compare_outputs
from edgewise.text import for_markdown
from sample_optimizations import evaluated
from sample_runs import KWS, VWW, all_runs, failed_run, make_run, missing, paced_run, run_id, same_model_runs

GOLDEN = Path(__file__).parent.parent / "golden" / "report"
OPTIONS = Options(task="Keyword Spotting", reference="[MLPerf Tiny](https://mlcommons.org/)")


@cache
def renderings():
    one, several = bench_document(same_model_runs()), bench_document(all_runs())
    answer = {
        "bench_80.txt": to_text(one, width=80),
        "bench_120.txt": to_text(one, width=120),
        "several_80.txt": to_text(several, width=80),
        "several_details_80.txt": to_text(several, width=80, details=True),
        "bench.md": render_markdown(one),
        "several.csv": render_csv(bench_table(all_runs())),
    }
    for name in ("zoo", "long", "watch", "platform"):
        answer[f"{name}.md"] = render_markdown(field_document(name, same_model_runs(), options=OPTIONS))
    return answer


@pytest.mark.parametrize("name", sorted(file.name for file in GOLDEN.iterdir()))
def test_renderings_are_as_they_were(name):
    assert set(renderings()) == {file.name for file in GOLDEN.iterdir()}
    expected = (GOLDEN / name).read_bytes().decode()
    assert renderings()[name] == expected


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("runs", [same_model_runs, all_runs, lambda: [paced_run()], lambda: [failed_run()]],
                         ids=["same", "all", "paced", "failed"])  # fmt: skip
def test_no_line_is_wider_than_the_terminal(width, runs):
    lines = to_text(bench_document(runs()), width=width).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_a_column_has_the_unit_of_its_median():
    runs = [make_run(1, latency=65.8e-6), make_run(2, latency=5.52e-3), make_run(3, latency=7.96e-3)]
    (column,) = [one for one in bench_table(runs).columns if one.title.startswith("Latency")]
    at = bench_table(runs).columns.index(column)
    assert column.title == "Latency (ms)"
    assert [row[at].text.split()[0] for row in bench_table(runs).rows] == ["0.0658", "5.52", "7.96"]


def test_headline_and_grade_stay_when_columns_are_dropped():
    text = to_text(bench_document(same_model_runs()), width=60)
    assert "231 ± 4" in text
    assert "Grade" in text
    assert "columns left out for width: Throughput (1/s), First (ms)," in text


def test_units_are_shared_down_a_column_unless_they_are_too_far_apart():
    near = bench_table([make_run(1, latency=22.3e-6, half=1e-7), make_run(2, latency=1.2e-3)])
    assert any(column.title == "Latency (µs)" for column in near.columns)
    far = bench_table([make_run(1, latency=2e-6, half=1e-8), make_run(2, latency=3.0, half=0.1)])
    index = next(index for index, column in enumerate(far.columns) if column.title == "Latency")
    assert [row[index].text for row in far.rows] == ["2.00 µs", "3.00 s"]


def test_settings_are_columns_only_where_they_vary():
    same = [column.title for column in bench_table([make_run(1), make_run(2)]).columns if not column.hidden]
    assert "Threads" not in same
    vary = bench_table([make_run(1), make_run(2, threads=2), failed_run()])
    index = next(index for index, column in enumerate(vary.columns) if column.title == "Threads")
    assert not vary.columns[index].hidden
    assert [row[index].text for row in vary.rows] == ["1", "2", "1"]


def test_a_line_about_all_runs_of_a_model_names_the_model():
    runs = [make_run(1), make_run(2, runtime="openvino"), make_run(3, model=VWW), make_run(4, model=VWW, threads=2)]
    first, second = KWS.name, VWW.name
    assert lines_by_run(runs, lambda run: run.job.model.name) == (f"{first}: {first}", f"{second}: {second}")
    assert lines_by_run(runs, lambda run: run.job.runtime.name) == (
        f"{first} · onnxruntime/cpu · 1 thread, {second} · onnxruntime/cpu · 1 thread and "
        f"{second} · onnxruntime/cpu · 2 threads: onnxruntime",
        f"{first} · openvino/cpu · 1 thread: openvino",
    )
    assert lines_by_run(runs, lambda run: "same") == ("all runs: same",)
    slow = Caution(code="busy-host", message="other programs ran", advice="end them")
    cautious = [replace(run, cautions=(slow, slow) * (run.job.model == KWS)) for run in runs]
    assert caution_lines(cautious) == [f"busy-host: {first}: other programs ran → end them"]


def test_a_failed_run_is_a_row_with_its_cause():
    table = bench_table([make_run(1), failed_run()])
    texts = [cell.text for cell in table.rows[1]]
    assert "Unsupported" in texts
    assert "failed: Unsupported" in texts
    assert "failed" in texts


def far_above(run):
    """`run` with a mean latency of 1.02 ms beside a median of 259 µs."""
    row = run.measurement("latency")
    row = replace(row, value=259e-6, summary=replace(row.summary, mean=1.02e-3))
    others = tuple(each for each in run.measurements if each.metric != "latency")
    return replace(run, measurements=(row, *others), cautions=(Caution.of("mean-above-median", "far above"),))


def test_a_throughput_of_a_mean_far_above_the_median_says_so():
    table = bench_table([make_run(1), far_above(make_run(2, runtime="openvino"))])
    place = next(place for place, column in enumerate(table.columns) if column.title.startswith("Throughput"))
    assert [row[place].notes for row in table.rows] == [
        (), ("of the mean latency, 1.02 ms; the latency of 259 µs is the median",)
    ]  # fmt: skip


def test_percentiles_without_enough_samples_are_absent_with_the_reason():
    short = make_run(2)
    rows = tuple(
        replace(row, summary=replace(row.summary, percentiles={"p50": row.summary.median}))
        if row.metric == "latency"
        else row
        for row in short.measurements
    )
    table = bench_table([make_run(1), replace(short, measurements=rows)])
    index = next(index for index, column in enumerate(table.columns) if column.title.startswith("p99"))
    assert table.rows[1][index].notes == ("too few samples for p99",)


def test_cautions_are_said_once():
    same = Caution.of("busy-host", "other processes used up to 20% of the processor time")
    runs = [make_run(1, cautions=(same,)), make_run(2, runtime="openvino", cautions=(same,))]
    assert caution_lines(runs) == [
        f"busy-host: all runs: {same.message} → {same.advice}",
    ]
    many = [make_run(index, runtime=f"r{index}", cautions=(same,) if index else ()) for index in range(9)]
    assert caution_lines(many)[0].startswith("busy-host: r1/cpu, r2/cpu, r3/cpu, r4/cpu and 4 others: other")


def test_reasons_of_a_grade_that_no_caution_gives_are_told():
    run = replace(make_run(1), trust=Trust(grade="C", reasons=("the clock is unknown",)))
    assert caution_lines([run]) == ["grade C: the clock is unknown"]
    covered = make_run(1, cautions=(Caution.of("drift", "latency moved by +9%"),))
    assert len(caution_lines([covered])) == 1


def test_every_absence_is_told():
    text = to_text(bench_document([make_run(1)]), width=200, details=True)
    for label in ("Energy, Power: rapl", "Temperature: thermal", "Clock: cpufreq", "Deployment: the job ran"):
        assert label in text


def test_disagreeing_outputs_are_told():
    run = make_run(2, runtime="openvino", cautions=(Caution.of("output-mismatch", "differs"),))
    text = to_text(bench_document([make_run(1), run]), width=300, details=True)
    assert "onnxruntime/cpu agrees" in text
    assert "openvino/cpu differs" in text
    broken = tuple(
        missing("output_max_abs_error", "one of them is not finite") if row.metric == "output_max_abs_error" else row
        for row in run.measurements
    )
    text = to_text(bench_document([make_run(1), replace(run, measurements=broken)]), width=300, details=True)
    assert "openvino/cpu not compared: one of them is not finite" in text


def test_a_run_that_equals_the_reference_does_not_differ_from_it():
    row = np.array([[0.1, 0.7, 0.2]], dtype=np.float32)
    runs = [make_run(number) for number in range(1, 5)]
    found = compare_outputs([
        Outputs(run_id=run.id, label=f"engine {at}", arrays=(row if at < 2 else -row,))
        for at, run in enumerate(runs)
    ])  # fmt: skip
    told = [
        replace(run, measurements=found[run.id].measurements, cautions=found[run.id].cautions) for run in runs
    ]  # fmt: skip
    (line,) = next(each for each in bench_document(told).sections if each.title == "Outputs").lines
    assert "agrees (max abs error 0, top-1 agreement 100.0%)" in line
    assert line.count("differs (max abs error 1.40, top-1 agreement 0.0%)") == 2


def test_csv_keeps_full_precision_and_the_interval():
    rows = list(csv.DictReader(io.StringIO(render_csv(bench_table(all_runs())))))
    assert [row["Run"] for row in rows] == [run_id(number) for number in range(1, 8)]
    alone = next(csv.DictReader(io.StringIO(render_csv(bench_table(all_runs()[-1:])))))
    units = {"s", "B", "1/s", "%"}  # whatever the values are
    assert {title.partition("(")[2].partition(")")[0] for title in [*alone, *rows[0]] if "(" in title} <= units
    first = rows[0]
    assert float(first["Latency (s)"]) == pytest.approx(0.42e-3, rel=1e-12)
    assert float(first["Latency (s) low"]) == pytest.approx(0.409e-3, rel=1e-12)
    assert float(first["Throughput (1/s)"]) == pytest.approx(1 / 4.2e-4, rel=1e-11)
    assert {(row["Engine version"], row["Processor"]) for row in rows} == {
        (engine_of(run), processor_of(run)) for run in all_runs()
    }
    assert any(" " in row["Engine version"] for row in rows)
    assert rows[3]["Latency (s)"] == "Unsupported"
    assert rows[3]["Status"] == "failed: Unsupported"
    assert "Einsum" in rows[3]["Notes"]
    assert math.isclose(float(rows[6]["Throughput (1/s)"]), 5200)


def test_csv_is_no_spreadsheet_formula():
    table = Table(
        title="t", columns=(Column(title="a"),), rows=((Cell(text='=cmd|"/c calc"!A1'),), (Cell(text="-1+2"),))
    )
    rows = list(csv.reader(io.StringIO(render_csv(table))))
    assert [row[0] for row in rows[1:]] == ['\'=cmd|"/c calc"!A1', "'-1+2"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", r"a\|b"),
        ("kws_ref_model.tflite", "kws_ref_model.tflite"),
        ("__init__", r"\_\_init\_\_"),
        ("*x* `y` [z](u) <b>", r"\*x\* \`y\` \[z\](u) \<b\>"),
        ("two\nlines", "two lines"),
        ("1. item", r"1\. item"),
        ("- item", r"\- item"),
        ("https://a.b see @someone", "https:&#47;&#47;a.b see &#64;someone"),
        ("CPU @ 2.00 GHz", "CPU @ 2.00 GHz"),
    ],
)
def test_markdown_shows_names_as_they_are(text, expected):
    assert for_markdown(text) == expected


def test_a_hostile_name_makes_no_new_cell_or_line():
    run = make_run(1)
    hostile = replace(run, job=replace(run.job, model=replace(run.job.model, name="a|b\n| c | d |\n# big.onnx")))
    text = render_markdown(bench_document([hostile]))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 3  # heading, rule, one run
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "\n# big" not in text


def test_a_document_without_rows_renders():
    empty = Document(title="nothing", tables=(Table(title="t", columns=(Column(title="a"),), rows=()),))
    assert to_text(empty).startswith("t\n")
    assert "| a |" in render_markdown(empty)
    assert render_csv(empty.tables[0]) == "a,Notes\r\n"


def test_rendering_leaves_the_runs_alone():
    runs = all_runs()
    document = bench_document(runs)
    to_text(document, width=80, details=True)
    render_markdown(document)
    render_csv(bench_table(runs))
    assert runs == all_runs()


if __name__ == "__main__":
    for name, text in renderings().items():
        (GOLDEN / name).write_bytes(text.encode())


def test_energy_has_a_column_where_it_was_measured_in_both_units():
    runs = same_model_runs()
    assert not any("Energy" in column.title for column in bench_table(runs).columns)
    energy = Measurement.of("energy", 0.0123, "a sensor", low=0.01, high=0.02)
    table = bench_table([replace(runs[0], measurements=(*without_energy(runs[0]), energy)), *runs[1:]])
    (index,) = [index for index, column in enumerate(table.columns) if column.title == "Energy"]
    assert table.rows[0][index].text == "12.3 mJ (0.00342 mWh)"
    assert table.rows[1][index].value is None


def without_energy(run):
    return [row for row in run.measurements if row.metric != "energy"]


def test_the_first_line_of_an_evaluation_is_its_accuracy():
    """It has no latency, so nothing is recommended."""
    run = evaluated().run
    run = replace(
        run, measurements=tuple(row for row in run.measurements if row.metric in ("accuracy_top1", "f1_macro"))
    )
    words = "kws.onnx on onnxruntime/cpu: top-1 accuracy 94.56 % [92.85, 95.86] on 900 of 1000 samples"
    assert answer_of([run]) == (words,)
    timed = make_run(7)
    first, second = answer_of([run, timed])
    assert (first, second) == (words, *answer_of([timed]))
    assert len(answer_of([replace(run, id=f"{at}") for at in range(10)])) == 9


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("before the timing", "; handed to the engine before the timing, not with each call"),
        ("with each call", "; handed to the engine with each call, which is timed"),
        (None, ""),
    ],
)
def test_the_line_on_inputs_says_how_they_were_handed_over(when, words):
    run = make_run(1)
    (section,) = input_sections([replace(run, effective={**run.effective, "inputs_handed_over": when})])
    assert section.lines == (f"input float32 1×49×10×1; random from seed 0{words}",)
