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
from edgewise.report.document.text import to_text
from edgewise.report.profile.diff import diff_table, diff_tables
from edgewise.report.profile.document import profile_document
from edgewise.report.profile.order import NOT_PROVEN, disagreement_line, leader_of, order_line, pairs_of_files
from edgewise.report.profile.page import profile_page
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
    first, *others = profile_document(runs).answer
    assert first == told and any(line.startswith("openvino/cpu (fastest) takes 870 ± 9 µs: ") for line in others)
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
    assert disagreement_line([first, second]) in document.sections[0].lines
    assert disagreement_line([second]) == ""


def test_the_engine_that_turns_favour_is_named_also_without_proof():
    """It crowned the engine of the least latency alone, which turns found slower."""
    runs = two(1.15, "inconclusive", spread=0.06)
    assert leader_of(runs) == (runs[0], "onnxruntime/cpu (probably fastest)")
    slow, fast = (line for line in profile_document(runs).answer if " µs: " in line or " ms: " in line)
    assert slow.startswith("openvino/cpu takes 870 ± 9 µs: ")
    assert fast.startswith("onnxruntime/cpu (probably fastest) takes 1.00 ± 0.01 ms: ")
    assert leader_of(two(1.01, "inconclusive"))[1] == "onnxruntime/cpu (least time in turns, not proven)"
    assert leader_of(two(0.87, "faster"))[1] == "openvino/cpu (fastest)"
    assert leader_of([profiled_run(), faster_run()])[1] == "openvino/cpu (least latency)"


def test_an_interval_without_1_that_proves_nothing_is_probable_in_every_place():
    """ "can't be told apart" stood beside an interval that left 1 out."""
    runs = two(1.15, "inconclusive", spread=0.06)
    open_ = "not proven: a proof takes a risk of error below 1 % over all pairs, the interval has 5 %"
    assert order_line(runs) == (
        "openvino/cpu is probably slower than onnxruntime/cpu (ratio 1.150, 95 % interval 1.081 to 1.219, measured in "
        f"turns; {open_})"
    )
    verdict = diff_table(runs).rows[-1][-1]
    assert (verdict.text, verdict.notes[1:]) == ("probably slower", (open_,))
    assert diff_table(two(1.01, "inconclusive")).rows[-1][-1].text == "unclear"
    assert order_line(runs[::-1]).startswith("onnxruntime/cpu is probably faster than openvino/cpu (ratio 0.870, ")
    second = replace(runs[1], in_turns=(replace(runs[1].in_turns[0], proof_low=0.97, proof_high=1.36),))
    assert order_line([runs[0], second]).endswith(
        "; not proven: a proof takes the 99 % interval over all pairs, 0.970 to 1.360)"
    )


def test_of_three_runs_the_one_that_turns_favour_leads_without_proof():
    first, second = two(1.15, "inconclusive", spread=0.06)
    third = replace(faster_run(29), job=replace(first.job, runtime=replace(first.job.runtime, name="litert")))
    turns = [in_turns(one, third, 1.2, "inconclusive", spread=0.06) for one in (first, second)]
    first, second = (
        replace(one, in_turns=(*one.in_turns, *pair[0].in_turns))
        for one, pair in zip((first, second), turns, strict=True)
    )
    third = replace(third, in_turns=tuple(told for _, after in turns for told in after.in_turns))
    assert order_line([third, second, first]) == (
        "probably fastest: onnxruntime/cpu; openvino/cpu takes 1.150× [1.081, 1.219] the time and litert/cpu takes 1.200× "
        "[1.128, 1.272] the time in turns, not proven: a proof takes a risk of error below 1 % over all pairs, the "
        "interval has 5 %"
    )


def test_no_row_of_the_whole_has_a_change_beside_times_that_it_is_not_of():
    alone, turns = diff_table(two(1.08, "slower")).rows[-2:]
    assert [cell.text for cell in alone] == ["end to end, each alone", "–", "1000 ± 10", "870 ± 9", "–", "–", "–"]
    assert [cell.text for cell in turns] == ["end to end, in turns", "–", "–", "–", "+80.0", "1.08", "slower"]
    assert diff_table([profiled_run(), faster_run()]).rows[-1][0].text == "end to end"


def two_files_in_two_engines() -> list[Run]:
    """a.onnx and b.onnx, whose pw1 takes 240 µs, in onnxruntime and openvino: in turns, b takes 1.2 times as long."""
    runs = [profiled_run(31), faster_run(32), profiled_run(33), faster_run(34)]
    names = ["a.onnx", "a.onnx", "b.onnx", "b.onnx"]
    named = [
        replace(run, job=replace(run.job, model=replace(run.job.model, name=name, sha256=name[0] * 64)))
        for run, name in zip(runs, names, strict=True)
    ]
    for one, other in ((0, 2), (1, 3)):
        slower = tuple(
            replace(layer, time=240e-6, low=235e-6, high=245e-6) if layer.name == "pw1" else layer
            for layer in named[other].layers
        )
        named[one], named[other] = in_turns(named[one], replace(named[other], layers=slower), 1.2, "slower")
    return named


def test_two_files_in_several_engines_are_compared_in_each_engine():
    """The first line ranked four runs, and no table compared the two files."""
    runs = two_files_in_two_engines()
    assert [(engine, [run.id for run in pair]) for engine, pair in pairs_of_files(runs)] == [
        ("openvino/cpu", [runs[1].id, runs[3].id]),
        ("onnxruntime/cpu", [runs[0].id, runs[2].id]),
    ]
    answer = profile_document(runs).answer
    assert [line[:60] for line in answer if "slower than" in line] == [
        "b.onnx · openvino/cpu is 1.20× slower than a.onnx · openvino"[:60],
        "b.onnx · onnxruntime/cpu is 1.20× slower than a.onnx · onnxr"[:60],
    ]
    assert answer[0].startswith("b.onnx · openvino/cpu is 1.20× slower than a.onnx · openvino/cpu (ratio 1.200, ")
    assert [table.title for table in profile_document(runs).tables[:4]] == [
        "By type of operator: a.onnx · openvino/cpu → b.onnx · openvino/cpu",
        "Before and after: a.onnx · openvino/cpu → b.onnx · openvino/cpu",
        "By type of operator: a.onnx · onnxruntime/cpu → b.onnx · onnxruntime/cpu",
        "Before and after: a.onnx · onnxruntime/cpu → b.onnx · onnxruntime/cpu",
    ]
    assert pairs_of_files(runs[::2]) == pairs_of_files(runs[:2]) == []
    assert [engine for engine, _ in pairs_of_files(runs[1:])] == ["openvino/cpu"]


def test_on_a_terminal_what_changed_stands_before_conditions_findings_and_next():
    text = to_text(profile_document(two_files_in_two_engines(), width=100), width=100)
    words = ("Before and after: ", "Conditions and limits", "Findings: ", "Next")
    places = [text.index(f"\n{each}") for each in words]
    assert places == sorted(places)
    engines = to_text(profile_document([profiled_run(), faster_run()], width=100), width=100)
    assert engines.index("Engine against engine") < engines.index("Conditions and limits")


def test_the_charts_begin_with_the_slower_engine():
    titles = [chart.title for chart in profile_page(two(1.1, "slower")).charts() if chart]
    assert titles[0].endswith(": openvino/cpu") and titles[-1] == "The largest differences"
    assert [title.endswith(": onnxruntime/cpu") for title in titles[:-1]] == sorted(
        title.endswith(": onnxruntime/cpu") for title in titles[:-1]
    )
    changed = [chart.title for chart in profile_page(two_files_in_two_engines()).charts() if chart][:2]
    assert changed == ["The largest differences: openvino/cpu", "The largest differences: onnxruntime/cpu"]


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
    assert order_line(runs).endswith(f"onnxruntime/cpu takes 1.149× [1.132, 1.167] the time; {NOT_PROVEN}")
    verdict = diff_table(runs).rows[-1][-1]
    assert (verdict.text, verdict.notes) == ("not proven", (NOT_PROVEN,))
    assert order_line(runs[:1]) == ""


def test_two_runs_have_the_ratio_and_the_open_verdict_that_comparing_them_has():
    poor = [replace(run, trust=replace(run.trust, grade="D")) for run in (profiled_run(), faster_run())]
    row = judge(poor[1], poor[0])
    assert (row.metric, row.verdict) == ("latency", "inconclusive")
    told = (
        "which is faster than openvino/cpu can't be told: onnxruntime/cpu takes 1.15× its time by the medians shown, "
        "1.149× over all processes (95 % interval 1.132 to 1.167: openvino/cpu has grade D; "
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


def test_an_interval_of_runs_apart_that_leaves_1_out_makes_the_order_probable():
    """ "can't be told" stood beside an interval that left 1 out."""
    runs = []
    for run in (profiled_run(), faster_run()):
        (row,) = (row for row in run.measurements if row.metric == "latency")
        row = replace(row, low=row.value / 1.09, high=row.value * 1.09, summary=None, samples=())
        runs.append(replace(run, measurements=(row, *(each for each in run.measurements if each.metric != "latency"))))
    row = judge(runs[1], runs[0])
    assert (row.verdict, row.low > 1.0, row.proof_low < 1.0) == ("inconclusive", True, True)
    assert order_line(runs) == (
        "probably fastest: openvino/cpu; onnxruntime/cpu takes 1.15× its time by the medians shown, 1.149× over all "
        "processes (95 % interval 1.017 to 1.299: a proof takes the 99 % interval over all metrics, "
        f"{row.proof_low:.3f} to {row.proof_high:.3f}); {NOT_PROVEN}"
    )


def test_of_three_runs_the_fastest_stands_before_what_each_takes():
    first, second = two(0.5, "faster")
    third = replace(faster_run(29), job=replace(first.job, runtime=replace(first.job.runtime, name="litert")))
    assert order_line([first, second, third]) == (
        "fastest: openvino/cpu; onnxruntime/cpu takes 2.000× [1.960, 2.040] the time, measured in turns; "
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
