"""Comparisons as text, Markdown, CSV, JSON and files: the conclusion first, nothing rounded to look better."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.comparing.comparison import Findings, Side, Variant
from edgewise.errors import BadInput, StoreError
from edgewise.metrics import METRICS
from edgewise.report import comparison_charts as charts
from edgewise.report.charts import render_svg
from edgewise.report.comparison import comparison_document, title_of
from edgewise.report.comparison_files import (
    COMPARISON_EXTENSIONS,
    check_comparison_target,
    render_comparison,
    write_comparison,
)
from edgewise.report.comparison_tables import before_after_table
from edgewise.report.comparison_text import comparison_text
from edgewise.report.comparison_words import (
    conclusion,
    ends_text,
    factor_of,
    percent,
    ratio_text,
    side_text,
    time_text,
    verdict_text,
)
from sample_comparisons import (
    HOSTILE,
    four_variants,
    hostile,
    latency_row,
    one_failed,
    row,
    rows_of_two,
    stored_runs,
    two_variants,
)
from sample_runs import NO_ENERGY, make_run, sampled

AT_80 = f"""\
B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92×
larger in peak memory

Before and after: A → B
                                                   Ratio
Metric         Before     After          (95 % interval)   Verdict
───────────────────────────────────────────────────────────────────────────
Latency        421 µs    174 µs   0.412 (0.405 to 0.419)   2.43× faster
Latency p99    502 µs    491 µs   0.978 (0.930 to 1.030)   inconclusive [1]
Throughput    2380 /s   5760 /s   2.427 (2.387 to 2.469)   2.43× faster
Peak memory   48.0 MB   92.0 MB   1.917 (1.910 to 1.924)   1.92× larger
Model size    53.9 kB   53.9 kB                    1.000   same
Energy        n/a [2]   n/a [2]                  n/a [3]   inconclusive
no room for: Margin, Adjusted p (a wider terminal or -o shows them)

What was compared
Variant   Model      Runtime             Threads   Precision   Grade
────────────────────────────────────────────────────────────────────
A         kws.onnx   onnxruntime 1.2.3         1   f32         B
B         kws.onnx   openvino 1.2.3            1   f32         B
no room for: Run (a wider terminal or -o shows them)
[1] ≈ 40 s more would decide
[2] {NO_ENERGY}
[3] A and B have no energy: {NO_ENERGY}

What differs
  engine: onnxruntime 1.2.3 → openvino 1.2.3

What the verdicts rest on
  fresh processes of all variants took turns in random order (Student's t on the
  log ratios of 18 pairs of fresh processes, several looks allowed for):
  latency, latency p99, throughput and peak memory
  both numbers are exact: model size
  no evidence: energy
  18 pairs of fresh processes in 42.1 s of measuring; stopped because: every
  verdict is safe
  too small to matter: ± 3 %
  a difference needs p < 0.01 after Holm's correction over all rows; 'same'
  needs the whole interval within what is too small to matter, at every look

Cautions
  single-session: B: one process only; the interval is ± 2.6 % → use --sessions
  3 or more, so that the interval includes the difference between processes
"""

TABLE_AT_120 = """\
Before and after: A → B
                                                                     Ratio
Metric                     Before           After          (95 % interval)   Verdict
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
Latency                421 ± 5 µs      174 ± 2 µs   0.412 (0.405 to 0.419)   2.43× faster
Latency p99   502 (490 to 680) µs          491 µs   0.978 (0.930 to 1.030)   inconclusive (≈ 40 s more would decide)
Throughput           2380 ± 30 /s    5760 ± 60 /s   2.427 (2.387 to 2.469)   2.43× faster
Peak memory         48.0 ± 0.1 MB   92.0 ± 0.1 MB   1.917 (1.910 to 1.924)   1.92× larger
Model size                53.9 kB         53.9 kB                    1.000   same (within ± 3 %)
Energy                    n/a [1]         n/a [1]                  n/a [2]   inconclusive
no room for: Margin, Adjusted p (a wider terminal or -o shows them)
"""


class Text(HTMLParser):
    """Tags and text of a page; fails on tags that don't nest."""

    VOID = frozenset({"meta", "br", "hr", "img", "input", "link", "wbr"})

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def test_80_columns():
    assert comparison_text(two_variants(), width=80) == AT_80


def test_120_columns():
    text = comparison_text(two_variants(), width=120)
    assert TABLE_AT_120 in text
    assert text.startswith(
        "B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92× larger in peak memory\n"
    )


@pytest.mark.parametrize("findings", [two_variants(), stored_runs(), four_variants(), one_failed(), hostile()])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(findings, width):
    from rich.cells import cell_len

    assert max(map(cell_len, comparison_text(findings, width=width).splitlines())) <= width


def test_a_wide_terminal_has_room_for_everything():
    text = comparison_text(two_variants(), width=200)
    assert "no room for" not in text
    assert "± 3 %" in text and "< 0.001" in text and "exact" in text


def test_stored_runs_say_what_cant_be_excluded():
    text = comparison_text(stored_runs())
    assert text.startswith("B is as fast as A (within ± 3 %, ratio 1.0004, 95 % interval 0.9996 to 1.0012)\n")
    for words in ("batch: 1 and 4", "the runs are 3 days apart", "both files are identical", "performance   not known"):
        assert words in text, words
    assert "fresh processes that were measured apart (Welch's t on the logarithms of 5 and\n  5" in text
    assert "pairs" not in text and "stopped because" not in text


def test_four_variants_are_ranked():
    text = comparison_text(four_variants())
    assert text.startswith("C and D share the first place of 4 in latency: they can't be told apart\n")
    for line in (
        "1       C         a        174 µs                        –",
        "1       D         a        174 µs   1.004 (0.995 to 1.012)",
        "4       B         c        500 µs   2.882 (2.831 to 2.934)",
        "B is 1.19× slower than A (ratio 1.188, 95 % interval 1.170 to 1.206)",
        "  not beaten over latency and peak memory: C and D",
        "  B is beaten by A, C and D",
        "  27 rounds of fresh processes in 60.3 s of measuring; stopped because: the time",
    ):
        assert f"{line}\n" in text, line


def test_a_single_winner_is_named_with_the_next():
    findings = four_variants()
    places = tuple(replace(one, place=place) for place, one in enumerate(findings.ranking.places, 1))
    findings = replace(findings, ranking=replace(findings.ranking, places=places))
    assert title_of(findings) == "C is the best of 4 in latency; D follows with a ratio of 1.004 (0.995 to 1.012)"


def test_several_variants_without_a_ranking():
    assert title_of(replace(four_variants(), ranking=None)) == "B, C and D against A"


def test_a_failed_variant_leaves_nothing_to_compare():
    text = comparison_text(one_failed())
    assert text.startswith("Nothing could be compared: B failed\n")
    assert "Failed\n  B: Unsupported: operator 'Einsum' is not supported\n" in text
    assert "What the verdicts rest on" not in text


def test_one_and_no_variant():
    alone = Findings(variants=(Variant(label="A", run=make_run(1)),), comparisons=())
    assert title_of(alone) == "Nothing could be compared"
    for findings in (alone, Findings(variants=(), comparisons=())):
        for extension in COMPARISON_EXTENSIONS:
            assert render_comparison(findings, extension)


def test_interruptions_and_lost_runs_are_said():
    findings = replace(
        two_variants(), interrupted=True, stopped_because="", save_errors=(StoreError("the disk is full"),)
    )
    document = comparison_document(findings)
    sections = {section.title: section.lines for section in document.sections}
    assert sections["Not saved"] == ("the disk is full",)
    assert "18 pairs of fresh processes in 42.1 s of measuring, interrupted" in sections["What the verdicts rest on"]


def test_markdown():
    text = render_comparison(two_variants(), ".md")
    lines = text.splitlines()
    assert lines[0] == (
        "# B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92× larger in peak memory"
    )
    assert "| Metric | Before | After | Ratio (95 % interval) | Verdict | Margin | Adjusted p |" in lines
    assert "| Latency | 421 ± 5 µs | 174 ± 2 µs | 0.412 (0.405 to 0.419) | 2.43× faster | ± 3 % | \\< 0.001 |" in lines
    assert "| Energy | n/a[^1] | n/a[^1] | n/a[^2] | inconclusive | n/a[^2] | n/a[^2] |" in lines
    assert f"[^1]: {NO_ENERGY.replace('_', '_')}" in text


def test_csv_has_one_row_per_metric_and_rounds_nothing():
    findings = two_variants()
    rows = list(csv.DictReader(io.StringIO(render_comparison(findings, ".csv"))))
    assert [one["Metric"] for one in rows] == [one.metric for one in findings.comparisons]
    for one, source in zip(rows, findings.comparisons, strict=True):
        assert (one["A"], one["B"], one["Unit"]) == ("A", "B", METRICS[source.metric].unit)
        assert (one["Verdict"], one["Word"]) == (source.verdict, source.word)
        for name, value in (
            ("Before", source.before.value), ("Before low", source.before.low), ("After high", source.after.high),
            ("Ratio", source.ratio), ("Ratio low", source.low), ("Adjusted p", source.p_adjusted),
            ("Decides in (s)", source.decides_in_s), ("Margin", source.margin),
        ):  # fmt: skip
            assert one[name] == "n/a" if value is None else float(one[name]) == value, name
    assert NO_ENERGY in rows[-1]["Notes"]


def test_json_is_the_document_and_holds_no_infinity():
    findings = two_variants()
    assert json.loads(render_comparison(findings, ".json")) == json.loads(json.dumps(findings.to_document()))
    wild = replace(findings, comparisons=(latency_row(high=math.inf),))
    assert json.loads(render_comparison(wild, ".json"))["comparisons"][0]["high"] is None


def test_hostile_words_are_only_words():
    findings = hostile()
    page, markdown = render_comparison(findings, ".html"), render_comparison(findings, ".md")
    assert Text(page).tags.count("script") == 1
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>" not in markdown and "\x1b" not in markdown and not re.search(r"(?<!\\)\]\(", markdown)
    assert not [line for line in markdown.splitlines() if line.startswith("# ") and not line.startswith("# \\<script")]
    table = next(line for line in markdown.splitlines() if line.startswith("| Latency |"))
    assert table.count("|") == 8
    for text in (comparison_text(findings), render_comparison(findings, ".csv")):
        assert "\x1b" not in text
    assert all(len(line.split("\n")) == 1 for line in comparison_text(findings).splitlines())
    document = json.loads(render_comparison(findings, ".json"))
    assert document["comparisons"][0]["b"] == HOSTILE
    formula = replace(two_variants(), comparisons=(latency_row(b="=cmd()"),))
    assert next(csv.DictReader(io.StringIO(render_comparison(formula, ".csv"))))["B"] == "'=cmd()"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (0.412, 0.405, 0.419, "0.412 (0.405 to 0.419)"),
        (1.0, 0.9991, 1.0012, "1.000 (0.999 to 1.002)"),
        (1.00012, 0.99987, 1.00037, "1.0001 (0.9998 to 1.0004)"),
        (0.25, 0.25, 0.25, "0.250"),
        (1.0000927, 1.0000927, 1.0000927, "1.000093"),
        (1.9167, 1.9102, 1.9231, "1.917 (1.910 to 1.924)"),
        (12.34, 11.98, 12.71, "12.3 (11.9 to 12.8)"),
        (0.01234, 0.012, 0.0128, "0.0123 (0.0120 to 0.0128)"),
        (1.2, None, None, "1.200"),
        (2.5e8, 2.41e8, 2.6123e8, "2.50e+08 (2.41e+8 to 2.62e+8)"),
        (None, None, None, "n/a"),
        (1.0, 1.0 - 1e-9, 1.0 + 1e-9, "1.000000 (0.999999 to 1.000001)"),
    ],
)
def test_ratios(ratio, low, high, text):
    assert ratio_text(ratio, low, high) == text


@given(
    st.floats(1e-5, 1e5), st.floats(0.0, 3.0), st.floats(0.0, 3.0)
)  # fmt: skip
def test_a_printed_interval_holds_the_interval(ratio, below, above):
    low, high = ratio * math.exp(-below), ratio * math.exp(above)
    text = ratio_text(ratio, low, high)
    if low == high:
        return
    ends = text.partition("(")[2].rstrip(")").split(" to ")
    assert Decimal(ends[0]) <= Decimal(repr(low)) and Decimal(repr(high)) <= Decimal(ends[1])
    assert float(ends[0]) <= float(text.partition(" (")[0]) <= float(ends[1])


@given(st.floats(1e-3, 1e6), st.floats(0.0, 0.99), st.floats(0.0, 3.0))
def test_a_printed_side_holds_its_interval(value, below, above):
    low, high = value * (1.0 - below), value * (1.0 + above)
    text = side_text(value, low, high)
    if "±" in text:
        middle, half = map(float, text.split(" ± "))
        ends = middle - half, middle + half
    elif "(" in text:
        ends = tuple(map(float, text.partition("(")[2].rstrip(")").split(" to ")))
    else:
        assert low == high == value
        return
    slack = 1e-9 * high
    assert ends[0] <= low + slack and high - slack <= ends[1]


def test_ends_of_binary_fractions_stay_what_they_are():
    assert ends_text(0.405, 0.419, 3) == ("0.405", "0.419")
    assert ends_text(0.4051, 0.4189, 3) == ("0.405", "0.419")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419)"),
        ({"verdict": "slower", "ratio": 1.0312, "low": 1.0201, "high": 1.0421},
         "B is 1.031× slower than A (ratio 1.031, 95 % interval 1.020 to 1.043)"),
        ({"verdict": "same", "ratio": 1.002, "low": 0.991, "high": 1.013},
         "B is as fast as A (within ± 3 %, ratio 1.002, 95 % interval 0.991 to 1.013)"),
        ({"verdict": "inconclusive", "ratio": 1.02, "low": 0.97, "high": 1.08, "decides_in_s": 39.2},
         "Whether B differs from A in latency can't be told yet (ratio 1.020, 95 % interval 0.970 to 1.080, ≈ 40 s more "
         "would decide)"),
        ({"verdict": "inconclusive", "ratio": None, "because": "one process only"},
         "Whether B differs from A in latency can't be told (one process only)"),
        ({"metric": "energy", "ratio": 0.5, "low": 0.4, "high": 0.6},
         "B needs 2.00× less energy than A (ratio 0.500, 95 % interval 0.400 to 0.600)"),
        ({"metric": "model_size", "ratio": 0.25, "low": 0.25, "high": 0.25},
         "B is 4.00× smaller than A in model size (ratio 0.250)"),
        ({"metric": "accuracy_top1", "verdict": "slower", "ratio": 0.99, "low": 0.98, "high": 0.995},
         "B is worse than A in top-1 accuracy (ratio 0.990, 95 % interval 0.980 to 0.995)"),
    ],
)  # fmt: skip
def test_conclusions(facts, sentence):
    assert conclusion(latency_row(**{"metric": "latency", **facts})) == sentence


def test_what_turns_the_picture_is_said():
    same = latency_row(verdict="same", ratio=1.0, low=0.99, high=1.01)
    smaller = row("model_size", "faster", ratio=0.25, low=0.25, high=0.25)
    worse = [row(metric, "slower", ratio=2.0, low=1.9, high=2.1)
             for metric in ("memory_peak", "memory_load", "memory_delta", "latency_p99")]  # fmt: skip
    assert conclusion(same, [smaller, worse[0]]).endswith(
        "), and 4.00× smaller in model size, but 2.00× larger in peak memory"
    )
    assert conclusion(latency_row(), worse).endswith(
        "), but 2.00× larger in peak memory, 2.00× larger in memory after load and worse in 2 other metrics"
    )
    assert "but" not in conclusion(latency_row(verdict="inconclusive"), worse)


def test_words_of_verdicts():
    assert verdict_text(latency_row(verdict="inconclusive", decides_in_s=7300.0)) == (
        "inconclusive (≈ 3 h more would decide)"
    )
    assert verdict_text(latency_row(verdict="same", margin=0.0421)) == "same (within ± 4.2 %)"
    assert factor_of(latency_row(ratio=1.0031)) == "1.0031×"
    assert factor_of(latency_row(ratio=0.004)) == "250×"
    assert factor_of(latency_row(ratio=None)) == ""
    assert [time_text(value) for value in (0.2, 40.0, 119.1, 150.0, 7200.0)] == ["1 s", "40 s", "120 s", "3 min", "2 h"]
    assert [percent(value) for value in (0.03, 0.1, 0.0421, 1.0, 0.005)] == ["3 %", "10 %", "4.2 %", "100 %", "0.5 %"]


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
    assert [cell.text for cell in table.rows[0][1:4]] == ["53.936 kB", "53.941 kB", "1.000093"]


def test_shares_are_per_cent_and_far_sides_have_units_of_their_own():
    accuracy = row("accuracy_top1", "same", before=Side(value=0.912, low=0.9, high=0.924), after=Side(value=0.905))
    far = latency_row(before=Side(value=2.0), after=Side(value=3e-6))
    table = before_after_table(replace(two_variants(), comparisons=(accuracy, far)), "B")
    assert [cell.text for cell in table.rows[0][1:3]] == ["91.2 ± 1.2 %", "90.5 %"]
    assert [cell.text for cell in table.rows[1][1:3]] == ["2.00 s", "3.00 µs"]


def test_nothing_without_a_reason_is_absent():
    for findings in (two_variants(), four_variants(), one_failed(), stored_runs()):
        for table in comparison_document(findings).tables:
            for cells in table.rows:
                assert all(cell.notes for cell in cells if cell.text == "n/a")


def test_files(tmp_path):
    for extension in COMPARISON_EXTENSIONS:
        path = tmp_path / f"comparison{extension}"
        write_comparison(two_variants(), path, overwrite=False)
        assert (
            path.read_text("utf-8").strip()
            == render_comparison(two_variants(), extension).replace("\r\n", "\n").strip()
        )
        with pytest.raises(BadInput, match="exists already"):
            write_comparison(two_variants(), path, overwrite=False)
        write_comparison(four_variants(), path, overwrite=True)
    assert len(list(tmp_path.iterdir())) == len(COMPARISON_EXTENSIONS)


@pytest.mark.parametrize("name", ["comparison", "c.png", "c.trace.json", "c.xlsx"])
def test_other_endings_are_refused_with_those_that_work(tmp_path, name):
    with pytest.raises(BadInput) as caught:
        check_comparison_target(tmp_path / name, overwrite=True)
    assert ".md, .html, .csv, .json" in caught.value.advice
    with pytest.raises(BadInput):
        render_comparison(two_variants(), ".png")
    with pytest.raises(BadInput, match="no folder"):
        check_comparison_target(tmp_path / "none" / "c.md", overwrite=True)


def test_the_page_has_every_part():
    page = Text(render_comparison(four_variants(), ".html"))
    for words in ("C and D share the first place", "Ranking by latency", "Pareto front", "Latency: all samples",
                  "process by process", "Ratios", "What the verdicts rest on", "What was compared", "Time of one inference",
                  "B is 1.19× slower than A"):  # fmt: skip
        assert words in page.text, words
    assert page.tags.count("h1") == 1
    assert page.tags.count("table") == page.tags.count("caption") == 5
    assert page.tags.count("svg") == 3


def test_the_page_does_without_what_draws(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = Text(render_comparison(two_variants(), ".html"))
    assert "charts need the package vl-convert-python" in page.text
    assert "pip install 'edgewise[charts]'" in page.text
    assert "svg" not in page.tags
    assert "2.43× faster" in page.text


def test_charts_need_samples_and_ratios():
    bare = replace(make_run(1), measurements=())
    findings = Findings(variants=(Variant(label="A", run=bare),), comparisons=(rows_of_two()[-1],))
    assert charts.overlay_chart(findings) is None
    assert charts.process_chart(findings) is None
    assert charts.forest_chart(findings) is None
    assert "no ratio is known" in render_comparison(findings, ".html")


def test_the_outlines_lie_where_the_samples_are():
    chart = charts.overlay_chart(two_variants())
    points = chart.spec["layer"][0]["data"]["values"]
    for label, middle in (("A", 421.0), ("B", 173.5)):
        own = [point for point in points if point["run"] == label]
        top = max(own, key=lambda point: point["height"])
        assert top["height"] == 1.0
        assert top["x"] == pytest.approx(middle, rel=0.05)
        assert sorted(point["x"] for point in own) == [point["x"] for point in own]
    samples = [value for one in charts.sampled_variants(two_variants()) for value in one.row.samples]
    lower, upper = chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    beyond = sum(not lower * 1e-6 <= value <= upper * 1e-6 for value in samples)
    assert f"{beyond} of {len(samples)} samples lie beyond the axis" in chart.caption


def test_far_distributions_share_a_logarithmic_axis():
    findings = two_variants()
    slow = Variant(label="B", run=make_run(2, latency=2e-2, half=1e-4))
    chart = charts.overlay_chart(replace(findings, variants=(findings.variants[0], slow)))
    assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert "logarithmic" in chart.caption
    assert render_svg(chart.spec).startswith("<svg")


def test_samples_that_are_all_alike_are_drawn():
    flat = replace(sampled("latency", 1e-3, half=1e-6, seed=1, n=50), samples=(1e-3,) * 50, low=1e-3, high=1e-3)
    run = replace(make_run(1), measurements=(flat,))
    chart = charts.overlay_chart(Findings(variants=(Variant(label="A", run=run),), comparisons=()))
    points = chart.spec["layer"][0]["data"]["values"]
    assert max(point["height"] for point in points) == 1.0
    assert render_svg(chart.spec).startswith("<svg")


def test_processes_are_drawn_as_deviations_of_their_medians():
    chart = charts.process_chart(two_variants())
    points = chart.spec["data"]["values"]
    assert len(points) == 10
    assert all(abs(point["x"]) < 2.0 for point in points)
    assert "measured together" in chart.caption
    assert "in the order they were measured" in charts.process_chart(stored_runs()).caption.lower()


def test_the_forest_has_a_band_a_line_and_every_ratio():
    chart = charts.forest_chart(two_variants())
    rows = chart.spec["data"]["values"]
    assert [one["ratio"] for one in rows] == [0.412, 0.978, 2.427, 1.9167, 1.0]
    assert {(one["from"], one["to"]) for one in rows} == {(0.970874, 1.03)}
    assert "Without a ratio: 1." in chart.caption
    assert chart.spec["layer"][1]["data"]["values"] == [{"one": 1}]
    assert "B, Latency: 0.412 (0.405 to 0.419), 2.43× faster" in chart.description


@pytest.mark.parametrize(("low", "high"), [(0.999, 1.001), (0.8, 1.3), (0.2, 4.0), (0.01, 30.0), (1e-9, 1e9)])
def test_the_axis_of_ratios_has_ticks_at_any_span(low, high):
    chart = charts.forest_chart(replace(two_variants(), comparisons=(latency_row(ratio=1.0, low=low, high=high),)))
    ticks = chart.spec["layer"][3]["encoding"]["x"]["axis"]["values"]
    assert 3 <= len(ticks) <= 16
    assert 1.0 in ticks
