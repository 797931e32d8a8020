"""Results as Python users see them: text, rows and files."""

from __future__ import annotations

import csv
import math
import os
import pickle
import re
import sys
from dataclasses import replace
from html import escape as html_escape
from html import unescape as html_unescape
from types import SimpleNamespace

import pytest

import edgewise
from edgewise import data
from edgewise.api import Runs
from edgewise.errors import BadInput, Unavailable
from edgewise.record import Caution, Failure
from edgewise.report.bench.document import bench_document
from edgewise.report.comparison.document import comparison_document
from edgewise.report.document.text import to_text
from edgewise.report.files import DESCRIBED
from edgewise.report.profile.document import profile_document
from edgewise.shown import Shown, _without_empty
from edgewise.verbs import shown_in_python
from estimates import estimated
from messages import says
from sample_comparisons import judged, two_variants
from sample_diffs import diffed
from sample_optimizations import found as found_variants
from sample_optimizations import one_model as evaluated_one
from sample_profiles import profiled_run
from sample_runs import all_runs, make_run


def escape(text):
    """As the templates do."""
    return html_escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


@pytest.fixture
def runs():
    return Runs(all_runs())


def test_runs_are_the_table_of_the_command_line_without_their_samples(runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = repr(runs)
    assert text == str(runs) and max(map(len, text.splitlines())) <= 100
    assert to_text(bench_document(runs), width=100).startswith(text)  # all but what --details would add
    assert "--details" not in text
    assert repr(Runs()) == "[]"


def test_flags_that_are_other_arguments_are_named_as_those():
    message = "its default is bf16; --precision f32,bf16 measures both, --sessions 9 narrows it"
    run = replace(make_run(1), cautions=(Caution.of("not-default-precision", message),))
    assert "In Python: --precision is precisions\n" in f"{shown_in_python.text_of([run])}\n"
    assert "--precision is precisions (edgewise.bench)" in shown_in_python.html_of(run)
    plain = replace(run, cautions=(Caution.of("not-default-precision", "see 'edgewise bench m --precision f32'"),))
    assert "In Python" not in shown_in_python.html_of(plain)


def test_without_a_terminal_lines_have_120_characters(runs, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(shown_in_python, "get_terminal_size", os.terminal_size)
    assert repr(runs) == to_text(bench_document(runs), width=120)[: len(repr(runs))]


def test_a_run_is_one_line(runs):
    run = next(run for run in runs if run.status == "done")
    row = run.measurement(run.headline)
    assert repr(run).startswith(f"<run {run.id} of {run.job.label}: Latency ") and "\n" not in repr(run)
    assert f"grade {run.trust.grade}" in repr(run) and row.low is not None and " ± " in repr(run)
    failed = replace(run, status="failed", measurements=(), failure=Failure(cause="Killed", message="by the kernel"))
    assert repr(failed) == f"<run {run.id} of {run.job.label}: the run failed: Killed: by the kernel>"


def test_rows_of_runs_have_the_same_keys_whatever_their_values(runs):
    rows = runs.as_rows()
    assert [row["run"] for row in rows] == [run.id for run in runs]
    assert len({tuple(row) for row in rows}) == 1
    done = [(run, row) for run, row in zip(runs, rows, strict=True) if run.status == "done"]
    for run, row in done:
        for one in run.measurements:
            key = one.metric if one.unit == "1" else f"{one.metric} ({one.unit})"
            assert [row[key], row[f"{key} low"], row[f"{key} high"]] == [one.value, one.low, one.high]
            if one.value is None:
                assert f"{one.metric}" in row["notes"]
    slow = [replace(one, value=1000 * one.value) for one in done[0][0].measurements if one.value is not None]
    (other,) = Runs([replace(done[0][0], measurements=tuple(slow))]).as_rows()
    assert set(other) <= set(done[0][1])
    assert other["latency (s)"] == pytest.approx(1000 * done[0][1]["latency (s)"])
    assert Runs().as_rows() == []


def test_rows_of_a_failed_run_have_no_values_and_say_why(runs):
    run = next(run for run in runs if run.status == "done")
    failed = replace(run, status="failed", failure=Failure(cause="Killed", message="by the kernel"))
    (row,) = failed.as_rows()
    assert (row["status"], row["latency (s)"]) == ("failed", None)
    assert "Killed: by the kernel" in row["notes"] and "latency" in row["notes"]


@pytest.mark.parametrize(
    ("heading", "key"),
    [
        ("Latency (s) low", "latency (s) low"),
        ("Peak memory (B)", "memory_peak (B)"),
        ("Top-1 accuracy (1) high", "accuracy_top1 high"),
        ("Predicted speed-up", "predicted_speedup"),
        ("pi 4: Top-1 accuracy low", "pi 4: accuracy_top1 low"),
        ("Instructions: load", "instructions: load"),
        ("J/op", "energy_per_op (J)"),
        ("Activations (B)", "activations (B)"),
        ("Adjusted p", "p_adjusted"),
        ("Value low", "value low"),
        ("-d", "device"),
    ],
)
def test_a_heading_becomes_a_key_of_the_vocabulary(heading, key):
    assert shown_in_python.key_of(heading) == key


def test_the_same_quantity_has_one_key_in_all_results(runs, tmp_path):
    layers = {
        "inspect": edgewise.inspect(data.path("digits_cnn.onnx")).as_rows()[0],
        "profile": Runs([profiled_run()]).as_rows()[0],
        "estimate": shown_in_python.rows_of(estimated(tmp_path))[0],
    }
    for verb, row in layers.items():
        assert {"index", "name", "op", "macs", "ops", "parameters", "weights (B)", "inputs", "outputs"} <= set(row), (
            verb
        )
    for verb in ("profile", "estimate"):
        assert {"time (s)", "share"} <= set(layers[verb]), verb
    found = {
        "bench": runs.as_rows()[0],
        "optimize": shown_in_python.rows_of(found_variants())[0],
        "profile": layers["profile"],
    }
    for verb, row in found.items():
        assert {"run", "runtime", "provider", "threads", "notes"} <= set(row), verb
    for verb in ("bench", "optimize"):
        assert {"latency (s)", "latency (s) low", "latency (s) high", "memory_peak (B)", "precision"} <= set(
            found[verb]
        )
    for row in (*layers.values(), *found.values()):
        for key in row:
            assert key.removesuffix(" low").removesuffix(" high").partition(" (")[0].islower(), key


def test_engine_and_provider_have_one_meaning_in_the_rows_of_all_results(runs, tmp_path):
    profiled, one = profiled_run(), evaluated_one()
    for run, rows in [
        *((run, [row]) for run, row in zip(runs, runs.as_rows(), strict=True)),
        (profiled, Runs([profiled]).as_rows()),
        (one.models[0].run, shown_in_python.rows_of(one)),
    ]:
        engine, provider = run.job.runtime.name, run.job.runtime.provider
        assert rows and {(row["runtime"], row["provider"], row["run"]) for row in rows} == {(engine, provider, run.id)}
    layers = profiled.layers
    rows = Runs([profiled]).as_rows()
    assert [row["engine_provider"] for row in rows] == [*(layer.provider for layer in layers), None]
    assert [row["kind"] for row in rows].index("whole") == len(layers)
    search = found_variants()
    for row, variant in zip(shown_in_python.rows_of(search), (search.baseline, *search.candidates), strict=True):
        assert (row["runtime"], row["provider"]) == (variant.runtime.name or None, variant.runtime.provider)
    compared = two_variants()
    for rows in (
        shown_in_python.rows_of(compared),
        shown_in_python.rows_of(estimated(tmp_path)),
        edgewise.inspect(data.path("digits_cnn.onnx")).as_rows(),
    ):
        assert rows and not any({"runtime", "provider"} & set(row) for row in rows)  # they are of no run, or of two


def test_rows_of_a_difference_have_numbers_alone_and_the_reason_of_the_others_is_in_words():
    found = diffed()
    rows = found.as_rows()
    assert [row["name"] for row in rows] == [layer.name for layer in found.layers[:3]]
    assert [row["snr (dB)"] for row in rows] == [42.0, math.inf, 10.0]
    assert [row["loss (dB)"] for row in rows] == [0.0, 0.0, 30.0]
    assert found.layers[3].why in " ".join(repr(found).split())
    assert repr(found).startswith("int8.onnx against float.onnx\nThe error of int8.onnx begins in Conv1 (Conv)")
    assert escape("The error of int8.onnx begins in Conv1 (Conv)") in found._repr_html_()


def test_a_unit_is_text_also_where_it_is_one():
    accuracies, compared = shown_in_python.rows_of(evaluated_one()), shown_in_python.rows_of(two_variants())
    assert [row["unit"] for row in accuracies if row["metric"] == "accuracy_top1"] == ["1"]
    assert all(isinstance(row["unit"], str) for row in (*accuracies, *compared))


def test_rows_of_other_results_are_those_of_the_csv_file(tmp_path):
    found = edgewise.inspect(data.path("digits_cnn.onnx"))
    found.write(tmp_path / "model.csv")
    with (tmp_path / "model.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    for row, words in zip(found.as_rows(), expected, strict=True):
        assert list(row) == [shown_in_python.key_of(title) for title in words]
        for title, value in zip(words, row.values(), strict=True):
            assert value == (None if words[title] == "n/a" else type(value)(words[title])), title


def test_files_are_not_replaced_unasked_and_other_endings_refused(runs, tmp_path):
    page = tmp_path / "runs.md"
    runs.write(page)
    assert page.read_text("utf-8").startswith("# ")
    with pytest.raises(BadInput, match=says("exists-already-in-folders")):
        runs.write(page)
    runs.write(str(page), overwrite=True)
    with pytest.raises(BadInput, match="docx"):
        runs.write(tmp_path / "runs.docx")


def test_an_inspection_shows_itself_and_its_layers(tmp_path):
    model = data.path("digits_cnn.onnx")
    found = edgewise.inspect(model)
    assert repr(found).startswith(f"Inspection of {model.name}") and "MACs" in repr(found)
    rows = found.as_rows()
    assert sum(row["macs"] for row in rows) == found.total.macs
    found.write(tmp_path / "model.md")
    assert str(model.parent) not in (tmp_path / "model.md").read_text("utf-8")


def test_every_result_of_a_function_has_a_format():
    for kind in Shown.__subclasses__():
        assert kind.__name__ in ("Run", "Runs") or shown_in_python.format_of(kind.__new__(kind)) is not DESCRIBED


def test_runs_survive_pickling(runs):
    assert pickle.loads(pickle.dumps(runs)) == runs


def test_a_notebook_shows_the_answer_the_tables_and_their_footnotes(runs):
    document, page = bench_document(runs), runs._repr_html_()
    for line in document.answer:
        assert escape(line) in page
    for table in document.tables:
        assert (escape(table.title) in page) is not table.detail
    notes = [
        note
        for table in document.tables
        if not table.detail
        for row in table.rows
        for cell in row
        for note in cell.notes
    ]
    assert notes and all(page.count(f": {escape(note)}</small>") == 1 for note in notes)
    assert "<script" not in page and "<style" not in page


def test_a_notebook_begins_with_what_the_text_begins_with(runs, tmp_path):
    compared, gated = two_variants(), judged()
    assert comparison_document(compared).title in bold_lines(compared)
    assert bold_lines(gated)[1].startswith("Gate failed")
    for result in (compared, gated, found_variants(), evaluated_one(), estimated(tmp_path), Runs(runs[:1])):
        assert " ".join(shown_in_python.text_of(result).split()).startswith(bold_lines(result)[0])
    (answer, *_) = profile_document([profiled_run()]).answer
    assert bold_lines(Runs([profiled_run()]))[0] == answer


def bold_lines(result):
    """What a notebook shows in bold, as text."""
    return [
        html_unescape(line) for line in re.findall("<p><strong>(.*?)</strong></p>", shown_in_python.html_of(result))
    ]


def test_names_from_files_are_text_in_a_notebook(runs):
    run = next(run for run in runs if run.status == "done")
    named = replace(run, job=replace(run.job, model=replace(run.job.model, name="<img src=x onerror=alert(1)>")))
    assert "<img" not in named._repr_html_() and "&lt;img" in named._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_the_rows(runs, monkeypatch, library):
    """Neither is a dependency: what stands for one keeps the rows that it is given."""
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable, match=says("neither-pandas-nor-polars-installed")) as error:
        runs.to_frame()
    assert error.value.advice.startswith("pip install pandas")
    monkeypatch.setitem(sys.modules, library, SimpleNamespace(DataFrame=lambda rows, **_: ("frame", rows)))
    kind, (row, *_) = runs.to_frame()
    whole = runs.as_rows()[0]
    assert kind == "frame" and row == {key: whole[key] for key in row}
    assert {"latency (s)", "latency (s) low", "latency (s) high"} <= row.keys()
    assert "energy (J)" in whole and not {"energy (J)", "model_size (B) low", "model_size (B) high"} & row.keys()


def test_a_frame_has_the_columns_that_tell_something_in_one_of_its_rows():
    rows = [
        {
            "model": "a",
            "x": 0.0,
            "x low": 0.0,
            "x high": 0.0,
            "y": 2.0,
            "y low": 2.0,
            "y high": 3.0,
            "z": None,
            "n": "",
        },
        {"model": "b", "x": 1.0, "x low": None, "x high": None, "y": None, "y low": None, "y high": None, "z": None},
    ]
    assert [list(row) for row in _without_empty(rows)] == [["model", "x", "y", "y low", "y high"]] * 2
    assert _without_empty([]) == []
