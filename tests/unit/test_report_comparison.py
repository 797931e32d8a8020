"""Comparisons as text, Markdown, CSV, JSON and files: the conclusion first, nothing rounded to look better."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import ComparisonResult, ParetoFront, Side, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.errors import StoreError
from edgewise.metrics import METRICS
from edgewise.record import Caution, ModelRef
from edgewise.report.comparison.document import comparison_document, front_lines, ranking_table, title_of
from edgewise.report.comparison.tables import before_after_table
from edgewise.report.document.text import to_text
from edgewise.run.agreement import (
    METRICS_OF_AGREEMENT,
    Difference,
    absent_measurements,
    measurements_of_difference,
)
from edgewise.stats.turns import OF_NEIGHBOURS
from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
from report_pages import Outline
from sample_comparisons import (
    HOSTILE,
    comparison_text,
    four_variants,
    hostile,
    latency_row,
    one_failed,
    row,
    stored_runs,
    two_variants,
)
from sample_runs import NO_ENERGY, failed_run, make_run

AT_80 = f"""\
B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92×
larger in peak memory

Engine against engine: A | B
                                                     Ratio
Metric               A          B          (95 % interval)   Verdict
─────────────────────────────────────────────────────────────────────────────
Latency         421 µs     174 µs   0.412 (0.405 to 0.419)   2.43× faster
Latency p99     502 µs     491 µs   0.978 (0.930 to 1.030)   inconclusive [1]
Throughput     2380 /s    5760 /s   2.427 (2.387 to 2.469)   2.43× faster
Peak memory   45.8 MiB   87.7 MiB   1.917 (1.910 to 1.924)   1.92× larger
Model size    52.7 KiB   52.7 KiB                    1.000   same
Energy         n/a [2]    n/a [2]                  n/a [3]   inconclusive
intervals left out for width: A, B; use a wider terminal or -o

Engine against engine: A | B (continued)
Metric         Margin   Adjusted p
──────────────────────────────────
Latency         ± 3 %      < 0.001
Latency p99     ± 3 %         0.40
Throughput      ± 3 %      < 0.001
Peak memory     ± 3 %      < 0.001
Model size      ± 3 %        exact
Energy        n/a [3]      n/a [3]
[1] ≈ 40 s more would decide
[2] {NO_ENERGY}
[3] A and B have no energy: {NO_ENERGY}

What was compared
Variant   Model      Runtime             Threads   Precision   Grade
────────────────────────────────────────────────────────────────────
A         kws.onnx   onnxruntime 1.2.3         1   f32         B
B         kws.onnx   openvino 1.2.3            1   f32         B

What was compared (continued)
Variant   Run
──────────────────────────────────────────────
A         0195f0c0-0000-7000-8000-000000000001
B         0195f0c0-0000-7000-8000-000000000002

What differs
  engine: onnxruntime 1.2.3 → openvino 1.2.3

Inputs
  all runs: input float32 1×49×10×1; random from seed 0

Basis of the verdicts
  fresh processes of all variants took turns in random order (Student's t on the
  log ratios of 18 pairs of fresh processes, several looks allowed for):
  latency, latency p99, throughput and peak memory
  both numbers are exact: model size
  no evidence: energy
  18 pairs of fresh processes in 42.1 s of measuring; stopped because: every
  verdict is decided
  too small to matter: ± 3 %
  a difference needs p < 0.01 after Holm's correction over all rows; 'same'
  needs the whole interval within what is too small to matter, at every look

Cautions about the variants' own numbers
  single-session: B: one process only; the interval is ± 2.6 %
"""

TABLE_AT_120 = """\
Engine against engine: A | B
                                                                    Ratio
Metric                        A                B          (95 % interval)   Verdict
───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
Latency              421 ± 5 µs       174 ± 2 µs   0.412 (0.405 to 0.419)   2.43× faster
Latency p99   502 [490, 680] µs           491 µs   0.978 (0.930 to 1.030)   inconclusive (≈ 40 s more would decide)
Throughput         2380 ± 30 /s     5760 ± 60 /s   2.427 (2.387 to 2.469)   2.43× faster
Peak memory      45.8 ± 0.2 MiB   87.7 ± 0.2 MiB   1.917 (1.910 to 1.924)   1.92× larger
Model size             52.7 KiB         52.7 KiB                    1.000   same (within ± 3 %)
Energy                  n/a [1]          n/a [1]                  n/a [2]   inconclusive
"""


def test_80_columns():
    assert comparison_text(two_variants(), width=80) == AT_80


def test_120_columns():
    text = comparison_text(two_variants(), width=120)
    assert TABLE_AT_120 in text
    assert text.startswith(
        "B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92× larger in peak memory\n"
    )


def test_a_wide_terminal_has_room_for_everything():
    text = comparison_text(two_variants(), width=200)
    assert "columns left out" not in text
    assert "± 3 %" in text and "< 0.001" in text and "exact" in text


def test_stored_runs_say_what_cant_be_excluded():
    text = comparison_text(stored_runs())
    assert text.startswith("B is as fast as A (within ± 3 %, ratio 1.0004, 95 % interval 0.9996 to 1.0012)\n")
    for words in ("batch: 1 and 4", "the runs are 3 days apart", "both files are identical", "performance   not known"):
        assert words in text, words
    assert "fresh processes that were measured apart (Welch's t on the logarithms of 5 and\n  5" in text
    assert "pairs" not in text and "stopped because" not in text


def test_variants_with_outputs_that_are_no_numbers_are_named_in_the_first_lines():
    findings = two_variants()
    caution = Caution.of("output-not-finite", "33% of the outputs of B are NaN or infinite")
    first, second = findings.variants
    broken = replace(second, run=replace(second.run, cautions=(caution,)))
    assert comparison_document(replace(findings, variants=(first, broken))).answer == (
        "outputs of B are NaN or infinite with these inputs, so they can't be compared: give real inputs with --input-data",
    )


def test_four_variants_are_ranked():
    text = comparison_text(four_variants())
    assert text.startswith("C and D share the first place of 4 in latency: they can't be told apart\n")
    for line in (
        "1       C         a        174 µs                        –",
        "1       D         a        174 µs   1.004 (0.995 to 1.012)",
        "4       B         c        500 µs   2.882 (2.831 to 2.934)",
        "B is 1.19× slower than A (ratio 1.188, 95 % interval 1.170 to 1.206)",
        "  variants that no other beats in latency and peak memory: C and D",
        "  B is beaten by A, C and D",
        "  27 rounds of fresh processes in 60.3 s of measuring; stopped because: the time",
    ):
        assert f"{line}\n" in text, line


def test_of_several_variants_the_first_lines_have_the_verdict_on_each():
    document = comparison_document(four_variants())
    assert document.answer == (
        "B is 1.19× slower than A (ratio 1.188, 95 % interval 1.170 to 1.206)",
        "C is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419)",
        "D is 2.42× faster than A (ratio 0.413, 95 % interval 0.406 to 0.422)",
    )
    titles = [table.title for table in document.tables[1:4]]
    assert titles == [f"Engine against engine: A | {label}" for label in "BCD"]
    assert comparison_document(two_variants()).answer == ()  # the title has it


def test_a_front_says_nothing_of_variants_while_a_verdict_is_missing():
    findings = replace(
        two_variants(),
        comparisons=(latency_row(verdict="inconclusive"), row("model_size", "slower", ratio=1.35)),
        front=ParetoFront(metrics=("latency", "model_size"), members=("A", "B"), beaten={}),
    )
    assert front_lines(findings) == ["no variant is proven worse yet, as there is no verdict on latency"]


def test_a_single_winner_is_named_with_the_next():
    findings = four_variants()
    places = tuple(replace(one, place=place) for place, one in enumerate(findings.ranking.places, 1))
    findings = replace(findings, ranking=replace(findings.ranking, places=places))
    assert title_of(findings) == "C is the best of 4 in latency; D follows with a ratio of 1.004 (0.995 to 1.012)"


def test_a_ranking_whose_values_are_in_another_order_says_what_orders_it():
    findings = four_variants()
    assert not any("order is" in note for note in ranking_table(findings).notes)
    first, second, *rest = findings.ranking.places
    places = (replace(first, value=second.value), replace(second, value=first.value), *rest)
    turned = replace(findings, ranking=replace(findings.ranking, places=places))
    assert any("within a place the order is that of the ratios" in note for note in ranking_table(turned).notes)


def test_a_ranking_says_what_letters_and_places_mean():
    findings = four_variants()
    letters = "two variants share a letter exactly where they can't be told apart"
    assert ranking_table(findings).notes == (letters,)
    first, second, third, *_ = findings.ranking.places
    undecided = replace(third, place=1, groups="ab")
    behind = replace(second, place=2, groups="b")
    unplaced = replace(third, label="B", place=3, groups="")
    turned = replace(findings, ranking=replace(findings.ranking, places=(first, undecided, behind, unplaced)))
    assert ranking_table(turned).notes[:3] == (
        letters,
        "a place is behind those proven better: a ratio that nothing is proven of may stand before a better one",
        "runs of grade D that are not proven better, worse or the same have no place",
    )


@pytest.mark.parametrize(("value", "told"), [(4.21e-4, ""), (4.4e-4, "2.536 is the quotient of the two values")])
def test_a_ratio_in_a_ranking_that_is_not_that_of_the_column_says_why(value, told):
    findings = four_variants()
    places = tuple(replace(one, value=value) if one.label == "A" else one for one in findings.ranking.places)
    cells = [row[-1] for row in ranking_table(replace(findings, ranking=replace(findings.ranking, places=places))).rows]
    assert cells[2].text == "2.427 (2.387 to 2.469)"
    assert "; ".join(cells[2].notes).startswith(told) and bool(cells[2].notes) == bool(told)
    assert not any(cell.notes for cell in (cells[0], cells[1], cells[3]))


def test_several_variants_without_a_ranking():
    assert title_of(replace(four_variants(), ranking=None)) == "B, C and D against A"


def test_a_failed_variant_leaves_nothing_to_compare():
    text = comparison_text(one_failed())
    assert text.startswith("Nothing could be compared: B failed\n")
    assert "Failed\n  B: Unsupported: operator 'Einsum' is not supported\n" in text
    assert "Basis of the verdicts" not in text


def test_a_failure_beside_a_result_is_in_the_conclusion():
    findings = replace(two_variants(), comparisons=(latency_row(),), failures={"C": "OutOfMemory"})
    assert title_of(findings) == ("B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419); C failed")
    assert '<p class="evidence">C failed</p>' in COMPARISON.render(findings, ".html")
    failed = replace(four_variants(), failures={"E": "Timeout"})
    assert title_of(failed).endswith("can't be told apart; E failed")


def test_what_was_not_measured_because_another_failed_is_not_called_failed():
    other = replace(make_run(1), status="cancelled", sessions=(), measurements=())
    variants = [Variant(label="A", run=other), Variant(label="B", run=failed_run(2))]
    findings = assess(variants, Criteria(metrics=("model_size",)))
    assert list(findings.failures) == ["A", "B"]
    assert title_of(findings).endswith("B failed") and "A failed" not in title_of(findings)
    assert "A and B failed" not in title_of(findings)
    text = comparison_text(findings)
    assert "  A: not measured, because another variant failed or the time was up\n" in text
    assert "  B: operator 'Einsum' is not supported\n" in text


def test_one_and_no_variant():
    alone = ComparisonResult(variants=(Variant(label="A", run=make_run(1)),), comparisons=())
    assert title_of(alone) == "Nothing could be compared"
    for findings in (alone, ComparisonResult(variants=(), comparisons=())):
        for extension in COMPARISON.extensions:
            assert COMPARISON.render(findings, extension)


def test_interruptions_and_lost_runs_are_said():
    findings = replace(
        two_variants(), interrupted=True, stopped_because="", save_errors=(StoreError("the disk is full"),)
    )
    document = comparison_document(findings)
    sections = {section.title: section.lines for section in document.sections}
    assert sections["Not saved"] == ("the disk is full",)
    assert "18 pairs of fresh processes in 42.1 s of measuring, interrupted" in sections["Basis of the verdicts"]


def test_markdown():
    text = COMPARISON.render(two_variants(), ".md")
    lines = text.splitlines()
    assert lines[0] == (
        "# B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92× larger in peak memory"
    )
    assert "| Metric | A | B | Ratio (95 % interval) | Verdict | Margin | Adjusted p |" in lines
    assert "| Latency | 421 ± 5 µs | 174 ± 2 µs | 0.412 (0.405 to 0.419) | 2.43× faster | ± 3 % | \\< 0.001 |" in lines
    assert "| Energy | n/a[^1] | n/a[^1] | n/a[^2] | inconclusive | n/a[^2] | n/a[^2] |" in lines
    assert f"[^1]: {NO_ENERGY.replace('_', '_')}" in text


def test_csv_has_one_row_per_metric_and_rounds_nothing():
    findings = two_variants()
    rows = list(csv.DictReader(io.StringIO(COMPARISON.render(findings, ".csv"))))
    assert [one["Metric"] for one in rows] == [one.metric for one in findings.comparisons]
    for one, source in zip(rows, findings.comparisons, strict=True):
        assert (one["A"], one["B"], one["Unit"]) == ("A", "B", METRICS[source.metric].unit)
        assert one["Verdict"] == source.word
        for name, value in (
            ("Before", source.before.value), ("Before low", source.before.low), ("After high", source.after.high),
            ("Ratio", source.ratio), ("Ratio low", source.low), ("Adjusted p", source.p_adjusted),
            ("Decides in (s)", source.decides_in_s), ("Margin", source.margin),
        ):  # fmt: skip
            assert one[name] == "n/a" if value is None else float(one[name]) == value, name
    assert next(one["Verdict"] for one in rows if one["Metric"] == "memory_peak") == "larger"
    assert NO_ENERGY in rows[-1]["Notes"]


def test_json_is_the_document_and_holds_no_infinity():
    findings = two_variants()
    assert json.loads(COMPARISON.render(findings, ".json")) == json.loads(json.dumps(findings.to_document()))
    wild = replace(findings, comparisons=(latency_row(high=math.inf),))
    assert json.loads(COMPARISON.render(wild, ".json"))["comparisons"][0]["high"] is None


def test_hostile_words_are_only_words():
    findings = hostile()
    page, markdown = COMPARISON.render(findings, ".html"), COMPARISON.render(findings, ".md")
    assert Outline(page).tags.count("script") == 1
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>" not in markdown and "\x1b" not in markdown and not re.search(r"(?<!\\)\]\(", markdown)
    assert not [line for line in markdown.splitlines() if line.startswith("# ") and not line.startswith("# \\<script")]
    table = next(line for line in markdown.splitlines() if line.startswith("| Latency |"))
    assert table.count("|") == 8
    for text in (comparison_text(findings), COMPARISON.render(findings, ".csv")):
        assert "\x1b" not in text
    assert all(len(line.split("\n")) == 1 for line in comparison_text(findings).splitlines())
    document = json.loads(COMPARISON.render(findings, ".json"))
    assert document["comparisons"][0]["b"] == HOSTILE
    formula = replace(two_variants(), comparisons=(latency_row(b="=cmd()"),))
    assert next(csv.DictReader(io.StringIO(COMPARISON.render(formula, ".csv"))))["B"] == "'=cmd()"


def test_two_sizes_that_differ_are_told_apart():
    sizes = row(
        "model_size",
        "same",
        before=Side(value=53936.0),
        after=Side(value=53941.0),
        ratio=1.0000927,
        low=1.0000927,
        high=1.0000927,
        design="exact",
    )
    table = before_after_table(replace(two_variants(), comparisons=(sizes,)), "B")
    assert [cell.text for cell in table.rows[0][1:4]] == ["52.672 KiB", "52.677 KiB", "1.000093"]


def test_runs_that_measured_an_accuracy_alone_are_concluded_about_it():
    accuracy = row("accuracy_top1", "same", before=Side(value=0.9), after=Side(value=0.9), design="paired", ratio=1.0)
    nothing = latency_row(
        before=Side(value=None), after=Side(value=None), verdict="inconclusive", ratio=None, design="none"
    )
    found = replace(two_variants(), comparisons=(nothing, accuracy))
    assert title_of(found).startswith("B is as good as A in top-1 accuracy")


@pytest.mark.parametrize(
    ("after", "facts", "told"),
    [
        (
            12.1e-6,
            {"method": f"{OF_NEIGHBOURS} in each pair; Student's t"},
            "1.034 is the quotient of the two values, each of all its samples; the ratio is of neighbours in time",
        ),
        (
            12.1e-6,
            {},
            "1.034 is the quotient of the two values, each of all its samples; the ratio is of fresh processes of one",
        ),
        (
            12.1e-6,
            {"design": "sessions"},
            "1.034 is the quotient of the two values, each of all its samples; the ratio is of fresh",
        ),
        (13.4e-6, {}, ""),
        (13.05e-6, {}, "1.115 is the quotient"),  # inside the interval, but three digits show it
        (11.3e-6, {}, "the two values differ the other way: 0.9658 is the quotient of the two values"),
        (12.1e-6, {"design": "exact"}, ""),
    ],
)
def test_a_ratio_that_is_not_that_of_the_columns_says_why(after, facts, told):
    found = latency_row(
        before=Side(value=11.7e-6),
        after=Side(value=after),
        ratio=1.142,
        low=1.12,
        high=1.164,
        verdict="slower",
        **facts,
    )
    cell = before_after_table(replace(two_variants(), comparisons=(found,)), "B").rows[0][3]
    assert "; ".join(cell.notes).startswith(told) and bool(cell.notes) == bool(told)


def p99_row(**facts):
    """A 99th percentile that fell from 2.63 to 2.54 ms, and rose by the ratio of groups of processes."""
    sides = {"before": Side(value=2.63e-3), "after": Side(value=2.54e-3), "low": 1.01, "high": 1.371}
    return row("latency_p99", **{"verdict": "slower", "ratio": 1.066, "design": "sessions", **sides, **facts})


@pytest.mark.parametrize("design", ["interleaved", "sessions"])
def test_a_ratio_against_the_columns_says_so_in_every_metric_in_the_table_and_in_the_headline(design):
    cell = before_after_table(replace(two_variants(), comparisons=(p99_row(design=design),)), "B").rows[0][3]
    assert cell.text == "1.066 (1.010 to 1.371)"
    assert cell.notes == (
        "the two values differ the other way: 0.9658 is the quotient of the two values, each of all its samples; the "
        "ratio is of 99th percentiles of groups of fresh processes, each of 1000 samples or more",
    )
    assert title_of(replace(two_variants(), comparisons=(p99_row(design=design),))) == (
        "B is 1.07× slower than A in latency p99 (ratio 1.066, 95 % interval 1.010 to 1.371, although the two values "
        "differ the other way)"
    )
    close = p99_row(design=design, before=Side(value=1.0), after=Side(value=0.998), ratio=1.001)
    assert (
        "the other way: 0.998"
        in before_after_table(replace(two_variants(), comparisons=(close,)), "B").rows[0][3].notes[0]
    )


def test_two_engines_with_a_file_each_are_no_before_and_after():
    found = two_variants()
    a, b = found.variants
    file = replace(b.run.job.model, name="kws.tflite", sha256="f" * 64)
    other = replace(b, run=replace(b.run, job=replace(b.run.job, model=file)))
    table = before_after_table(replace(found, variants=(a, other)), "B")
    assert table.title == "Engine against engine: A | B" and [one.title for one in table.columns[1:3]] == ["A", "B"]
    same_engine = replace(other, run=replace(other.run, job=replace(a.run.job, model=file)))
    table = before_after_table(replace(found, variants=(a, same_engine)), "B")
    assert [one.title for one in table.columns[1:3]] == ["Before", "After"]


def test_what_is_slower_and_larger_says_both_in_the_headline():
    speed = latency_row(
        ratio=1.028, low=1.024, high=1.032, verdict="slower", before=Side(value=89.2e-6), after=Side(value=91.7e-6)
    )
    memory = row("memory_peak", "slower", ratio=1.175, low=1.167, high=1.182)
    size = row("model_size", "faster", ratio=0.431, low=0.431, high=0.431)
    more = row("throughput", "slower", ratio=0.97, low=0.96, high=0.98)
    assert title_of(replace(two_variants(), comparisons=(speed, more, memory, size))) == (
        "B is 1.03× slower than A (ratio 1.028, 95 % interval 1.024 to 1.032), and 1.18× larger in peak memory, but "
        "2.32× smaller in model size"
    )


def test_shares_are_per_cent_and_far_sides_have_units_of_their_own():
    accuracy = row("accuracy_top1", "same", before=Side(value=0.912, low=0.9, high=0.924), after=Side(value=0.905))
    far = latency_row(before=Side(value=2.0), after=Side(value=3e-6))
    table = before_after_table(replace(two_variants(), comparisons=(accuracy, far)), "B")
    assert [cell.text for cell in table.rows[0][1:3]] == ["91.20 % [90.00, 92.40]", "90.50 %"]
    assert [cell.text for cell in table.rows[1][1:3]] == ["2.00 s", "3.00 µs"]


def test_nothing_without_a_reason_is_absent():
    for findings in (two_variants(), four_variants(), one_failed(), stored_runs()):
        for table in comparison_document(findings).tables:
            for cells in table.rows:
                assert all(cell.notes for cell in cells if cell.text == "n/a")


def test_the_page_has_every_part():
    page = Outline(COMPARISON.render(four_variants(), ".html"))
    for words in ("C and D share the first place", "Ranking by latency", "Pareto front", "Latency: samples",
                  "process by process", "Ratios", "Basis of the verdicts", "What was compared", "Time of one call of the engine",
                  "B is 1.19× slower than A"):  # fmt: skip
        assert words in page.text, words
    assert page.tags.count("h1") == 1
    assert page.tags.count("table") == page.tags.count("caption") == 5
    assert page.tags.count("svg") == 3


def test_a_busy_machine_is_told_in_the_first_lines():
    findings = two_variants()
    load = Caution.of("busy-host", "other processes used up to 90% of the processor time")
    busy = [replace(each, run=replace(each.run, cautions=(load,))) for each in findings.variants]
    text = to_text(comparison_document(replace(findings, variants=tuple(busy))), width=80)
    assert "Measured while other processes used up to 90% of the processor time: which is" in text
    assert text.index("Load while measuring") < text.index("Metric")
    assert comparison_document(findings).lead == ()


def test_a_percentile_of_too_few_samples_says_so_and_not_that_nobody_measured_it():
    few = "a ratio of 99th percentiles needs 3 groups"
    found = p99_row(after=Side(value=None), ratio=None, because=few, design="none")
    row = before_after_table(replace(two_variants(), comparisons=(found,)), "B").rows[0]
    assert row[2].notes == row[3].notes == (few,)


def of_two_files(*rows) -> ComparisonResult:
    """A and B are two files of a network; `rows` are the measurements of the outputs of B."""
    models = [ModelRef(name="a.onnx", path=str(Path.cwd() / place / "a.onnx"), format="onnx", sha256=place, size_bytes=1)
              for place in ("old", "new")]  # fmt: skip
    a, b = (make_run(number, model=model) for number, model in enumerate(models, 1))
    kept = tuple(row for row in b.measurements if row.metric not in METRICS_OF_AGREEMENT)
    variants = (Variant(label="A", run=a), Variant(label="B", run=replace(b, measurements=(*kept, *rows))))
    return ComparisonResult(variants=variants, comparisons=(latency_row(),))


def test_files_that_compute_something_else_are_named_before_the_verdict_on_speed():
    difference = Difference(max_abs=3.0, max_rel=0.817, top1=0.1, close=False)
    document = comparison_document(of_two_files(*measurements_of_difference(difference, "a.onnx")))
    assert document.title == (
        "B does not compute the same as A (outputs differ by 81.7 % of their scale, more than rounding explains); B is "
        "2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419)"
    )
    assert document.answer[0] == (
        "more: edgewise diff old/a.onnx new/a.onnx, and edgewise evaluate old/a.onnx new/a.onnx --data DATA"
    )


def test_files_that_agree_say_so_first_and_those_not_compared_why():
    close = Difference(max_abs=1e-6, max_rel=9.01e-7, top1=1.0, close=True)
    found = of_two_files(*measurements_of_difference(close, "a.onnx"))
    document = comparison_document(found)
    assert document.title.startswith("B is 2.43× faster than A")
    assert document.answer[0] == "Outputs: B agrees with A within 0.901 parts per million of their scale"
    lacking = of_two_files(*absent_measurements("not compared with those of a.onnx: no scale is known"))
    assert comparison_document(lacking).answer[0] == "Outputs: B not compared with those of a.onnx: no scale is known"
    assert not any(line.startswith("Outputs") for line in comparison_document(of_two_files()).answer)


def test_of_three_files_each_that_computes_something_else_has_a_line():
    difference = Difference(max_abs=3.0, max_rel=0.5, top1=None, close=False)
    two = of_two_files(*measurements_of_difference(difference, "a.onnx"))
    third = replace(two.variants[0], label="C")
    document = comparison_document(replace(two, variants=(*two.variants[:2], third)))
    assert "does not compute" not in document.title
    assert document.answer[0].startswith("B does not compute the same as A (outputs differ by 50.0 % of their scale")


@pytest.mark.parametrize(
    ("half", "shown"),
    [(80e-6, ["257 µs", "257 µs"]), (0.3e-6, ["257.1 µs", "257.1 µs"]), (None, ["257.08 µs", "257.11 µs"])],
)
def test_values_have_the_digits_that_their_intervals_leave(half, shown):
    sides = [
        Side(value=value, low=half and value - half, high=half and value + half) for value in (257.08e-6, 257.11e-6)
    ]
    findings = replace(two_variants(), comparisons=(latency_row(before=sides[0], after=sides[1], ratio=1.0001),))
    (cells,) = before_after_table(findings, "B").rows
    assert [cell.short or cell.text for cell in cells[1:3]] == shown
