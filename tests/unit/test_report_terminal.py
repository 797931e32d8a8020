"""What a terminal shows: the answer first, a table that fits with the memory of the model, everything else in a line."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest
from rich.cells import cell_len

from edgewise.record import Caution, ModelRef, Trust
from edgewise.report.bench.answer import answer_of
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.ranking import rank_models
from edgewise.report.document import Cell, Column, Document, Section, Table
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.page import render_document_page
from edgewise.report.document.text import to_text
from sample_comparisons import comparison_text, two_variants
from sample_optimizations import evaluation_text, found, optimization_text, two_models
from sample_runs import failed_run, make_run, same_model_runs

GRADE_D = Trust(grade="D", reasons=("the interval spans more than a factor of 2",))
BUSY = tuple(Caution.of(code, f"{code} was seen") for code in ("busy-host", "outliers", "wide-interval"))


def model(name, size):
    return ModelRef(
        name=name,
        path=f"/models/{name}",
        format="tflite",
        sha256=name.encode().hex()[:64].rjust(64, "0"),
        size_bytes=size,
    )


def run_of(number, name, latency, *, half=1e-6, size=None, **facts):
    return make_run(number, model=model(name, size or number * 1000), latency=latency, half=half, **facts)


def many_models():
    """20 runs: ten models with long names, each in two engines, with cautions."""
    return [
        replace(
            run_of(
                2 * number + (engine == "openvino"), f"networks_of_the_field_{number}_quantised_to_int8.tflite",
                (number + 1) * 1e-4, runtime=engine, size=(number + 1) * 1000,
            ),
            cautions=BUSY,
        )
        for number in range(10)
        for engine in ("litert", "openvino")
    ]  # fmt: skip


def test_twenty_runs_fit_on_a_screen_and_a_half():
    lines = to_text(bench_document(many_models()), width=80).splitlines()
    assert len(lines) <= 60
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].startswith("Fastest: networks_of_the_field_0_quantised_to_int8.tflite")
    assert any(line.startswith("Smallest: ") for line in lines[:9])
    assert "Cautions: busy-host (20 of 20 runs), wide-interval (20), outliers (20)" in lines


def test_details_say_everything():
    brief, whole = (to_text(bench_document(many_models()), width=80, details=details) for details in (False, True))
    assert "outliers was seen" not in brief and "--details adds: " in brief
    for words in (
        "outliers was seen",
        "busy-host was seen",
        "Recommended for networks_of_the_field_3",
        "rapl: /sys/class/powercap",
    ):
        assert words in whole
    assert "--details" not in whole


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("runs", [many_models, same_model_runs, lambda: [make_run(1)]], ids=["many", "same", "one"])
def test_the_memory_of_the_model_is_always_shown(runs, width):
    text = to_text(bench_document(runs()), width=width)
    heading = text.partition("Grade")[0].split()
    assert "memory" in heading and "(MiB)" in heading
    assert "Model memory" not in text.partition("columns left out for width: ")[2].partition("(a wider")[0]


def test_names_are_shortened_before_columns_go_and_stay_apart():
    text = to_text(bench_document(many_models()), width=80)
    rows = [line.split()[0] for line in text.rpartition("Grade\n")[2].splitlines()[1:21]]
    assert len(set(rows)) == 10 and all(cell_len(name) >= 16 for name in rows)
    assert "litert " in text.rpartition("Grade\n")[2].partition("Cautions")[0]


def test_names_that_have_no_room_are_folded_between_the_parts_of_their_paths():
    columns = [
        Column(title="Model", name=True),
        Column(title="Runtime", name=True),
        Column(title="Top-1 accuracy", numeric=True, folds=True),
        Column(title="Latency", numeric=True),
        Column(title="Memory", rank=2),
    ]
    rows = [
        [Cell(text=text) for text in (name, "onnxruntime/cpu", "88.25 % [84.72, 91.05]", "51.8 [46.9, 57.2]", "30 MiB")]
        for name in ("lastweek/clothes.onnx", "clothes.onnx")
    ]
    table = Table(title="T", columns=tuple(columns), rows=tuple(map(tuple, rows)))
    lines = to_text(Document(title="", tables=(table,)), width=66).splitlines()
    assert lines[3:] == [
        "lastweek/      onnxruntime/          88.25 %   51.8 [46.9, 57.2]",
        "clothes.onnx   cpu            [84.72, 91.05]",
        "clothes.onnx   onnxruntime/          88.25 %   51.8 [46.9, 57.2]",
        "               cpu            [84.72, 91.05]",
        "columns left out for width: Memory; use a wider terminal or -o",
    ]
    layers = replace(table, columns=(replace(columns[0], ends=True), *columns[1:]))
    assert "clothes.onnx   cpu" not in to_text(Document(title="", tables=(layers,)), width=66)


def test_ids_are_never_folded_and_other_columns_are_in_their_place():
    ids = ["01a22fd2-eaa9-70ae", "01a22fd2-eaa9-7095"]
    columns = (Column(title="Run", whole=True), *[Column(title=title) for title in ("Result", "Score")])
    rows = tuple((Cell(text=id_), Cell(text="Latency 266 µs D"), Cell(text="Max error 0.0737")) for id_ in ids)
    for width in (48, 36, 30):
        text = to_text(Document(title="", tables=(Table(title="", columns=columns, rows=rows),)), width=width)
        assert [word for word in text.split() if word.startswith("01a2")] == ids
        assert max(map(cell_len, text.splitlines())) <= width


def test_names_with_dashes_and_lines_below_are_folded_rather_than_cut_and_endings_go_before():
    columns = [Column(title="Model", name=True), Column(title="Engine", name=True), Column(title="Latency")]
    rows = [[Cell(text=name), Cell(text="onnxruntime 1T"), Cell(text="51.8 [46.9, 57.2]")]
            for name in ("vww_96_int8.tflite", "vww_96_float.tflite")]  # fmt: skip
    table = Table(title="", columns=tuple(columns), rows=tuple(map(tuple, rows)))

    def lines(width):
        return to_text(Document(title="", tables=(table,)), width=width).splitlines()[2:]

    assert lines(53) == [
        "vww_96_int8…    onnxruntime 1T   51.8 [46.9, 57.2]",
        "vww_96_float…   onnxruntime 1T   51.8 [46.9, 57.2]",
    ]
    assert lines(49) == [
        "vww_96_        onnxruntime 1T   51.8 [46.9, 57.2]",
        "int8.tflite",
        "vww_96_        onnxruntime 1T   51.8 [46.9, 57.2]",
        "float.tflite",
    ]


def test_what_had_no_room_is_in_the_details():
    columns = (Column(title="Name", name=True), *(Column(title=f"Figure {n}", numeric=True, rank=n) for n in range(9)))
    table = Table(title="t", columns=columns, rows=(tuple(Cell(text=f"{n}" * 8) for n in range(10)),))
    document = Document(title="", tables=(table,))
    assert "columns left out" in to_text(document, width=40)
    whole = to_text(document, width=40, details=True)
    assert all(f"{n}" * 8 in whole for n in range(10)) and "columns left out" not in whole
    assert max(map(cell_len, whole.splitlines())) <= 40


def test_a_brief_stands_for_its_section():
    document = Document(
        title="", tables=(), answer=("The answer",),
        sections=(
            Section(title="Whole", lines=("always",)), Section(title="Short", lines=("long",), brief="one line"),
            Section(title="None", lines=("hidden",), brief=""),
        ),
    )  # fmt: skip
    brief = to_text(document)
    assert (
        brief.startswith("The answer\n") and "Short: one line\n" in brief and "--details adds: short, none\n" in brief
    )
    assert "hidden" not in brief and "long" not in brief and "always" in brief


def test_models_that_cant_be_told_apart_share_a_place():
    runs = [
        run_of(1, "a.tflite", 100e-6, half=5e-6), run_of(2, "b.tflite", 104e-6, half=5e-6),
        run_of(3, "c.tflite", 200e-6), run_of(4, "d.tflite", 50e-6, grade="D"),
    ]  # fmt: skip
    runs[3] = replace(runs[3], trust=GRADE_D)
    assert [(one.model, one.place) for one in rank_models(runs)] == [
        ("a.tflite", 1), ("b.tflite", 1), ("c.tflite", 2), ("d.tflite", None)
    ]  # fmt: skip
    assert answer_of(runs) == (
        "Not decided: d.tflite on onnxruntime/cpu (50.0 µs, grade D) may be faster than a.tflite on onnxruntime/cpu "
        "(100 µs)",
        "To decide: edgewise compare a.tflite,runtime=onnxruntime/cpu,threads=1 "
        "d.tflite,runtime=onnxruntime/cpu,threads=1",
        "Until then take a.tflite on onnxruntime/cpu (by its value alone), 100 ± 5 µs; "
        "b.tflite on onnxruntime/cpu (104 µs) can't be told apart from it",
        "Next c.tflite on onnxruntime/cpu, 200 ± 1 µs (2.001× [1.902, 2.104] slower)",
        "Smallest: a.tflite, 1000 B",
    )


def test_a_model_is_ranked_by_its_fastest_runtime():
    runs = [run_of(1, "a.tflite", 3e-3, size=10), run_of(2, "a.tflite", 1e-3, size=10, runtime="openvino"),
            run_of(3, "b.tflite", 2e-3, size=10)]  # fmt: skip
    assert answer_of(runs) == (
        "Fastest: a.tflite on openvino/cpu, 1.00 ± 0.01 ms; next b.tflite on onnxruntime/cpu, 2.00 ± 0.01 ms (2.000× [1.993, 2.007] slower)",
        "Smallest: a.tflite and b.tflite, 10 B",
    )


def test_a_model_that_does_not_run_is_not_the_smallest():
    small = failed_run(2, model=model("bad.onnx", 5))
    assert answer_of([run_of(1, "a.tflite", 1e-3, size=10), small])[1:] == (
        "Not ranked: bad.onnx (Unsupported)",
        "Smallest: a.tflite, 10 B",
    )
    assert not any("Smallest" in line for line in answer_of([small, failed_run(3)]))


def test_one_model_has_the_runtime_to_take_or_why_there_is_none():
    assert answer_of(same_model_runs())[0].startswith(
        "Recommended: openvino/cpu, latency 231 ± 4 µs, grade B; fake/cpu is "
    )
    assert answer_of([make_run(1)]) == ("kws.onnx on onnxruntime/cpu: latency 420 ± 11 µs, grade B",)
    unreliable = [replace(make_run(1), trust=GRADE_D), failed_run()]
    (line,) = answer_of(unreliable)
    assert line.startswith("No run can be recommended: ")
    assert "(grade D)" in line and "(Unsupported)" in line and "value" not in line
    two = [replace(run, trust=GRADE_D, in_turns=()) for run in same_model_runs() if run.status == "done"][:2]
    (line, *_) = answer_of(two)
    least = min(two, key=lambda run: run.value("latency"))
    assert f"; the lowest value is that of {least.job.runtime.name}/" in line


@pytest.mark.parametrize(
    ("brief", "whole"),
    [
        (comparison_text(two_variants(), details=False), comparison_text(two_variants())),
        (evaluation_text(two_models(), details=False), evaluation_text(two_models())),
        (optimization_text(found(), details=False), optimization_text(found())),
    ],
)
def test_other_commands_put_the_rest_behind_details(brief, whole):
    assert len(brief.splitlines()) <= 0.75 * len(whole.splitlines())
    assert brief.splitlines()[0] == whole.splitlines()[0]
    assert "--details adds: " in brief and "--details adds: " not in whole


def test_a_cell_with_two_notes_has_their_numbers_in_one_pair_of_brackets():
    row = (Cell(text="inconclusive", notes=("too few", "18 s more")), Cell(text="n/a", notes=("18 s more",)))
    table = Table(title="T", columns=(Column(title="Verdict"), Column(title="Ratio")), rows=(row,))
    shown = to_text(Document(title="D", tables=(table,)))
    assert "inconclusive [1,2]   n/a [2]" in shown and "[1] too few" in shown and "[2] 18 s more" in shown


def test_numbers_stand_on_the_first_line_of_a_row_with_a_folded_cell():
    columns = (Column(title="Metric", rank=0), Column(title="Before (µs)", numeric=True, rank=0),
               Column(title="Verdict", rank=0))  # fmt: skip
    row = (Cell(text="Latency"), Cell(text="109", value=109.0), Cell(text="inconclusive, " * 4))
    text = to_text(Document(title="", tables=(Table(title="T", columns=columns, rows=(row,)),)), width=40)
    title, unit, rule, first, second, *_ = text.splitlines()[1:]
    assert unit.split() == ["Metric", "(µs)", "Verdict"] and rule.startswith("──") and "Before" in title
    assert first.startswith("Latency") and "109" in first and "inconclusive" in first
    assert second.startswith(" ") and "109" not in second


def noted(*cells: Cell) -> Document:
    columns = tuple(Column(title=f"C{place}", numeric=place == 1) for place in range(len(cells)))
    return Document(title="D", tables=(Table(title="T", columns=columns, rows=(cells, cells)),))


def test_footnotes_are_numbered_line_by_line_where_a_cell_is_folded():
    cells = (
        Cell(text="Latency"),
        Cell(text="0.412 (0.405 to 0.419)", notes=("of neighbours",)),
        Cell(text="inconclusive", notes=("too few", "40 s more")),
    )
    text = to_text(noted(*cells), width=40)
    assert -1 < text.find("[1,2]") < text.find("[3]") and "[3] of neighbours" in text
    assert "0.412 (0.405 to 0.419) [1]   inconclusive [2,3]" in to_text(noted(*cells), width=80)


@pytest.mark.parametrize("render", [to_text, render_markdown, partial(render_document_page, kind="estimate")])
def test_numbers_in_one_cell_ascend(render):
    first, both = Cell(text="a", notes=("one",)), Cell(text="b", notes=("two", "one"))
    text = render(noted(first, both))
    marks = re.findall(r"\[1,2\]|\[\^1\]\[\^2\]|>1</a></sup><sup><a [^>]*>2<", text)
    assert len(marks) == 2


@pytest.mark.parametrize("numeric", [True, False])
def test_a_heading_without_room_is_folded_where_the_parts_of_its_name_end(numeric):
    """``onnxruntime/cpu`` became ``onnxruntime/cp`` above ``u``."""
    engines = tuple(Column(title=f"onnxruntime/cpu{n} (µs)", numeric=numeric) for n in range(4))
    row = (Cell(text="Conv"), *(Cell(text="294 to 305") for _ in engines), Cell(text="faster"))
    table = Table(
        title="t", columns=(Column(title="Type of operator"), *engines, Column(title="openvino/cpu is")), rows=(row,)
    )
    heading = to_text(Document(title="d", tables=(table,)), width=80).partition("─")[0]
    words = {word for line in heading.splitlines() for word in line.split()}
    assert words == {
        "t", "Type", "of", "operator", "onnxruntime/", "openvino/", "cpu", "is", "(µs)", "cpu0", "cpu1", "cpu2", "cpu3",
    }  # fmt: skip


def test_a_heading_does_not_part_a_number_from_its_percent():
    columns = (
        Column(title="Metric of the comparison"),
        *(Column(title="Ratio (95 % interval)", numeric=True) for _ in range(9)),
    )
    table = Table(title="t", columns=columns, rows=(tuple(Cell(text="n/a") for _ in columns),))
    heading = to_text(Document(title="d", tables=(table,)), width=80).partition("─")[0]
    assert heading.count("95") == heading.count("95 %") > 0
