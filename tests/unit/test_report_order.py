"""Which of several runs is faster: one answer in profiles, graphs and comparisons, proven only in turns."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgewise.comparing.criteria import Criteria
from edgewise.comparing.jobs import Subject
from edgewise.comparing.judging import judge
from edgewise.comparing.subjects import compare_stored
from edgewise.profiling.layer_matching import pair_layers
from edgewise.record import Disagreement, InTurns, Run
from edgewise.report.comparison.document import comparison_document
from edgewise.report.profile.diff import diff_table, diff_tables
from edgewise.report.profile.document import profile_document
from edgewise.report.profile.order import NOT_PROVEN, disagreement_line, order_line
from edgewise.studio.graph_part import render_graph
from report_pages import render_profile_html
from sample_profiles import faster_run, profiled_run

OPPOSITE = {"faster": "slower", "slower": "faster"}


def in_turns(first: Run, second: Run, ratio: float, verdict: str, *, spread: float = 0.02) -> tuple[Run, Run]:
    """Both with the `ratio` of the second to the first that turns found, and the `verdict` on the second."""

    def told(against: Run, value: float, word: str) -> tuple[InTurns, ...]:
        ends = (value * (1 - spread), value * (1 + spread))
        return (InTurns(against=against.id, ratio=value, low=ends[0], high=ends[1], verdict=word, method="turns"),)

    first_told = told(second, 1 / ratio, OPPOSITE.get(verdict, verdict))
    return replace(first, in_turns=first_told), replace(second, in_turns=told(first, ratio, verdict))


def two(ratio: float, verdict: str, **more: float) -> tuple[Run, Run]:
    return in_turns(profiled_run(), faster_run(), ratio, verdict, **more)


def test_the_second_of_two_is_held_against_the_first_with_ratio_interval_and_turns():
    runs = two(0.917, "faster")
    told = "openvino/cpu is 1.09× faster than onnxruntime/cpu (ratio 0.917, 95 % interval 0.898 to 0.936, measured in turns)"
    assert order_line(runs) == told
    assert order_line(runs[::-1]).startswith("onnxruntime/cpu is 1.09× slower than openvino/cpu (ratio 1.091, ")
    first, second = profile_document(runs).answer[:2]
    assert first.startswith("openvino/cpu (fastest) takes 870 ± 9 µs: ") and second == told
    assert f"<strong>{told}.</strong>" in json.loads(render_graph(runs, ".html"))["part"]
    assert told in render_profile_html(runs)


def test_turns_decide_against_the_values_measured_alone():
    """870 µs against 1000 µs alone; in turns it is the slower one."""
    runs = two(1.08, "slower")
    assert order_line(runs).startswith("openvino/cpu is 1.08× slower than onnxruntime/cpu (ratio 1.080")
    *_, change, ratio, verdict = diff_table(runs).rows[-1]
    assert (change.text, ratio.text, verdict.text) == ("+80.0", "1.08", "slower")
    (note,) = verdict.notes
    assert note.startswith("measured in turns: ratio 1.08")


def test_the_line_of_two_names_the_load_where_statistics_disagree():
    first, second = two(2.72, "slower", spread=0.5)
    (turns,) = second.in_turns
    apart = Disagreement(quoted="processor time", ratios={"neighbours": 6.87, "processor time": 2.72}, others=0.91)
    second = replace(second, in_turns=(replace(turns, disagreement=apart),))
    assert order_line([first, second]).endswith("measured in turns)")
    assert disagreement_line([first, second]) == (
        "while others used 91 % of the processors, the ratio was 2.72 by processor time, but 6.87 by neighbours; the "
        "interval spans all"
    )
    document = profile_document([first, second])
    assert order_line([first, second]) in document.answer
    assert disagreement_line([first, second]) in document.lead[0].lines
    assert disagreement_line([second]) == ""


@pytest.mark.parametrize(
    ("verdict", "begins"),
    [
        ("same", "openvino/cpu is as fast as onnxruntime/cpu ("),
        ("inconclusive", "openvino/cpu and onnxruntime/cpu can't be told apart ("),
    ],
)
def test_what_turns_do_not_separate_has_no_order(verdict, begins):
    assert order_line(two(0.99, verdict)).startswith(begins)


def test_intervals_apart_prove_no_order_of_runs_measured_at_different_times():
    runs = [profiled_run(), faster_run()]
    assert order_line(runs).endswith(f"onnxruntime/cpu takes 1.15× [1.13, 1.17] the time; {NOT_PROVEN}")
    verdict = diff_table(runs).rows[-1][-1]
    assert (verdict.text, verdict.notes) == ("not proven", (NOT_PROVEN,))
    assert order_line(runs[:1]) == ""


def test_two_runs_have_the_ratio_and_the_open_verdict_that_comparing_them_has():
    poor = [replace(run, trust=replace(run.trust, grade="D")) for run in (profiled_run(), faster_run())]
    row = judge(poor[1], poor[0])
    assert (row.metric, row.verdict) == ("latency", "inconclusive")
    told = (
        "which is faster than openvino/cpu can't be told: onnxruntime/cpu takes 1.15× its time by the medians shown, "
        "1.149× over all processes (95 % interval 1.132 to 1.167: the run of openvino/cpu has grade D; the run of "
        f"onnxruntime/cpu has grade D); {NOT_PROVEN}"
    )
    assert order_line(poor) == order_line(poor[::-1]) == told


def test_runs_that_turns_do_not_separate_have_no_fastest():
    """The one with the least latency was called the fastest, beside others that could not be told apart from it."""
    first, second = two(1.01, "inconclusive")
    third = replace(faster_run(29), job=replace(first.job, runtime=replace(first.job.runtime, name="litert")))
    third, second = in_turns(third, second, 1.0, "inconclusive")
    second = replace(second, in_turns=(*second.in_turns, *two(1.01, "inconclusive")[1].in_turns))
    third = replace(third, in_turns=(*third.in_turns, *in_turns(first, third, 1.0, "inconclusive")[1].in_turns))
    line = order_line([first, second, third])
    assert line.startswith("which is fastest can't be told: ") and line.endswith(" did not differ for sure in turns")
    assert all(label in line for label in ("onnxruntime/cpu", "openvino/cpu", "litert/cpu"))


def test_a_wide_interval_says_that_either_may_be_faster_and_keeps_the_ratio_shown():
    """The ratio was rounded to "1×" by its own interval, beside medians that differ by 15 %."""
    wide = []
    for run in (profiled_run(), faster_run()):
        (row,) = (row for row in run.measurements if row.metric == "latency")
        row = replace(row, low=row.value / 5, high=row.value * 5, summary=None, samples=())
        others = tuple(each for each in run.measurements if each.metric != "latency")
        wide.append(replace(run, measurements=(row, *others)))
    assert order_line(wide) == (
        "which is faster than openvino/cpu can't be told: onnxruntime/cpu takes 1.15× its time by the medians shown, "
        f"1.149× over all processes (95 % interval 0.118 to 11.194: either may be faster); {NOT_PROVEN}"
    )


def test_of_three_runs_the_fastest_stands_before_what_each_takes():
    first, second = two(0.5, "faster")
    third = replace(faster_run(29), job=replace(first.job, runtime=replace(first.job.runtime, name="litert")))
    assert order_line([first, second, third]) == (
        "fastest: openvino/cpu; onnxruntime/cpu takes 2.00× [1.96, 2.04] the time, measured in turns; "
        "litert/cpu takes 1.00× its time by the medians shown, 1.000× over all processes (95 % interval 0.984 to "
        f"1.016: either may be faster); {NOT_PROVEN}"
    )


def test_runs_on_two_machines_are_judged_by_their_intervals():
    first, second = profiled_run(), faster_run()
    second = replace(second, job=replace(second.job, target=replace(second.job.target, device="pi")))
    assert order_line([first, second]) == ""
    assert diff_table([first, second]).rows[-1][-1].text == "faster"


def test_a_layer_is_clear_only_beyond_the_drift_between_both_runs():
    """pw1 takes 200 µs ± 2 % and 100 µs ± 2 %; the latencies 1000 and 870 µs."""

    def pw1(runs):
        return next(pair for pair in pair_layers(*runs) if pair.name == "pw1")

    assert pw1([profiled_run(), faster_run()]).is_clear
    assert pw1(two(0.87, "faster")).is_clear
    slower = pw1(two(1.8, "slower"))  # then its 100 µs may be 207 µs at the time of the first run
    assert not slower.is_clear and slower.change_ends[0] < 0 < slower.change_ends[1]
    assert {row[0].text: row[-1].text for row in diff_table(two(1.8, "slower")).rows}["pw1"] == "unclear"
    open_ = [replace(run, in_turns=tuple(replace(one, low=None) for one in run.in_turns)) for run in two(0.9, "faster")]
    assert not pw1(open_).is_clear


def test_the_footnote_says_how_the_drift_is_in_the_verdicts():
    (note, *_) = diff_table(two(0.9, "faster")).notes
    assert "widened until they take in the ratio measured in turns" in note
    (note, *_) = diff_table([profiled_run(), faster_run()]).notes
    assert "measured at different times" in note


def test_types_of_operators_are_summed_per_engine_before_the_layers():
    types, layers = diff_tables([profiled_run(), faster_run()])
    assert types.title == "By type of operator: onnxruntime/cpu | openvino/cpu"
    assert layers.title == "Engine against engine: onnxruntime/cpu | openvino/cpu"
    assert [[cell.text for cell in row] for row in types.rows] == [
        ["Conv", "500", "390", "-110"],
        ["DepthwiseConv", "250", "250", "0"],
        ["Whirl", "80.0", "80.0", "0"],
        ["Gemm", "60.0", "60.0", "0"],
        ["Softmax", "30.0", "30.0", "0"],
        ["Relu", "none", "10.0", "+10.0"],
        ["Reshape", "≥ 0", "≥ 0", "n/a"],
        ["(overheads of the engine)", "60.0", "30.0", "-30.0"],
    ]
    assert diff_tables([profiled_run()]) == []


def test_a_comparison_of_stored_runs_has_the_verdict_of_their_turns():
    runs = two(1.08, "slower")
    findings = compare_stored([Subject(thing=run) for run in runs], Criteria())
    (row,) = [row for row in findings.comparisons if row.metric == "latency"]
    assert (row.ratio, row.verdict, row.design) == (1.08, "slower", "interleaved")
    assert (row.before.value, row.after.value) == (pytest.approx(1e-3), pytest.approx(870e-6))
    assert comparison_document(findings).title.startswith(
        "openvino/cpu is 1.08× slower than onnxruntime/cpu (ratio 1.08"
    )
    assert [text for text in findings.not_excluded if "took turns for their latency alone" in text]
    apart = compare_stored([Subject(thing=replace(run, in_turns=())) for run in runs], Criteria())
    assert next(row for row in apart.comparisons if row.metric == "latency").design != "interleaved"


def test_threads_of_one_file_are_no_before_and_after():
    one = profiled_run()
    more = replace(faster_run(), job=one.job, effective={**one.effective, "threads": 2})
    one = replace(one, effective={**one.effective, "threads": 1})
    table = diff_table([one, more])
    assert table.title == "Threads against threads: onnxruntime/cpu · 1 thread | onnxruntime/cpu · 2 threads"
    assert [column.title for column in table.columns[2:5]] == ["1 thread (µs)", "2 threads (µs)", "Difference (µs)"]
    compared = comparison_document(
        compare_stored([Subject(thing=one, label="a"), Subject(thing=more, label="b")], Criteria())
    )
    heads = [[column.title for column in each.columns] for each in compared.tables]
    assert ["a", "b"] in [some[1:3] for some in heads] and all("Before" not in some for some in heads)
