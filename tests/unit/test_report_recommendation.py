"""Which run is recommended, and what is said for and against it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.comparing.judging import judge
from edgewise.record import Caution, Disagreement, InTurns, Scenario, Trust
from edgewise.report.bench.answer import answer_of
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.ranking import candidates_of, comparable_groups, finalists, may_be_as_fast, rank_models
from edgewise.report.bench.recommendation import recommendation, recommendations
from edgewise.report.bench.speeds import speed_lines
from edgewise.report.bench.tables import bench_table, ranking_table
from edgewise.report.comparison.words import conclusion
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.text import to_text
from edgewise.report.files import runs_document
from edgewise.run.agreement import METRICS_OF_AGREEMENT, REFERENCE, absent_measurements
from messages import has, says, wording
from report_pages import render_html
from sample_runs import (
    MISMATCH,
    VWW,
    all_runs,
    failed_run,
    make_run,
    measured,
    missing,
    offline_run,
    run_id,
    same_model_runs,
)


def with_caution(run, code, message):
    return replace(run, cautions=(*run.cautions, Caution.of(code, message)))


def test_the_clearly_fastest_run_is_recommended_with_numbers():
    found = recommendation(same_model_runs())
    assert found.to_document() == {
        "run": run_id(2),
        "why": [
            "1.429× [1.382, 1.476] faster than fake/cpu (median latency 231 µs against 330 µs), by their processes",
            "1.818× [1.760, 1.877] faster than onnxruntime/cpu (median latency 231 µs against 420 µs), by their processes",
            "grade B: one process only; the interval is ± 1.7 % (at best B)",
            "litert/interpreter is left out: the run failed in phase load: Unsupported: operator 'Einsum' is not "
            "supported; try another runtime",
        ],
    }


def test_overlapping_intervals_cannot_be_told_apart_and_memory_decides():
    fast = make_run(1, latency=4.0e-4, half=3e-5, memory=90e6, grade="A")
    lean = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=40e6, grade="A")
    found = recommendation([fast, lean])
    assert found.run == run_id(2)
    assert found.why == (
        "can't be told apart from onnxruntime/cpu in speed (median latency 420 µs against 400 µs)",
        "chosen for the least peak memory: 38.1 MiB; onnxruntime/cpu has 85.8 MiB",
    )


def test_engines_are_compared_on_their_calls():
    """OpenVINO's own clock leaves out the Python call; LiteRT has no clock of its own."""
    litert = make_run(1, runtime="litert", latency=2.03e-4, half=1e-6)
    openvino = make_run(2, runtime="openvino", latency=2.07e-4, half=1e-6)
    own = measured("latency_engine", 2.01e-4, half=1e-6)
    openvino = replace(openvino, measurements=(*openvino.measurements, own))
    found = recommendation([litert, openvino])
    assert found.run == run_id(1)
    assert found.why[0] == ("as fast as openvino/cpu (median latency 203 µs against 207 µs), by their processes")


@pytest.mark.parametrize(
    ("code", "words"), [("overloaded", "left out: overloaded"), ("output-not-finite", "left out: outputs not finite")]
)
def test_a_run_that_does_not_do_its_work_is_never_recommended(code, words):
    run = with_caution(make_run(1), code, "as it were")
    assert recommendation([run]) is None
    assert words in recommendations([run])[0].why[0]


def in_precision(run, precision, *differ):
    job = replace(run.job, runtime=replace(run.job.runtime, precision=precision))
    return replace(run, job=job, effective={"precision": precision}, measurements=(*run.measurements, *differ))


def test_a_lower_precision_is_named_beside_full_precision_and_not_recommended_over_it():
    row = measured("output_max_rel_error", 0.0038)
    full = in_precision(make_run(1, runtime="openvino", latency=4.2e-4, half=3e-6, grade="A"), "f32")
    lower = in_precision(make_run(2, runtime="openvino", latency=3.0e-4, half=3e-6, grade="A"), "bf16", row)
    (line, *_) = answer_of([full, lower])
    assert recommendation([full, lower]).run == full.id
    assert line.startswith(
        "Recommended: openvino/cpu · f32, latency 420 ± 3 µs, grade A; openvino/cpu · bf16 is 1.400× [1.381, 1.419]"
    )
    assert line.endswith(" faster, by their processes (its outputs differ by 0.38 % of their scale)")
    bare = answer_of([full, in_precision(make_run(2, runtime="openvino", latency=4.2e-4, half=3e-6), "bf16")])[0]
    assert (
        "openvino/cpu · bf16 is as fast, by their processes (its outputs were not compared with those in f32)" in bare
    )


def test_a_lower_precision_that_alone_can_be_recommended_says_so():
    row = measured("output_max_rel_error", 0.0038)
    full = in_precision(make_run(1, runtime="openvino", latency=4.2e-4, half=3e-5, grade="D"), "f32")
    lower = in_precision(make_run(2, runtime="openvino", latency=3.0e-4, half=3e-6, grade="A"), "bf16", row)
    line = answer_of([full, lower])[0]
    assert recommendation([full, lower]).run == lower.id
    assert "; it computes in bf16: its outputs differ by 0.38 % of their scale" in line


def test_grade_d_with_a_better_value_that_took_no_turns_leaves_it_undecided():
    fast = make_run(1, latency=3.0e-4, half=3e-5, grade="D", threads=2)
    slow = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-6, grade="A")
    third = make_run(3, runtime="litert", latency=5e-4, half=3e-6, grade="A")
    decide = (
        "To decide: edgewise compare kws.onnx,runtime=openvino/cpu,threads=1 kws.onnx,runtime=onnxruntime/cpu,threads=2"
    )
    assert answer_of([fast, slow, third]) == (
        "Not decided: onnxruntime/cpu (300 µs, grade D) may be faster than openvino/cpu (420 µs)",
        decide,
        "Until then take openvino/cpu, latency 420 ± 3 µs, grade A; "
        "litert/cpu is 1.190× [1.178, 1.203] slower, by their processes",
    )
    why = recommendation([fast, slow, third]).why
    first, rest = "not decided: onnxruntime/cpu (300 µs, grade D) may be faster than openvino/cpu (420 µs)", decide[1:]
    assert why[why.index(first) + 1] == f"t{rest}"
    other = replace(third, job=replace(third.job, model=VWW))
    assert answer_of([fast, slow, other])[:3] == (
        "Not decided: kws.onnx on onnxruntime/cpu with 2 threads (300 µs, grade D) may be faster than "
        "kws.onnx on openvino/cpu with 1 thread (420 µs)",
        decide,
        "Until then take kws.onnx on openvino/cpu with 1 thread, 420 ± 3 µs; next vww.tflite on "
        "litert/cpu with 1 thread, 500 ± 3 µs (1.190× [1.178, 1.203] slower)",
    )
    assert "Not decided" not in " ".join(answer_of([replace(fast, trust=slow.trust), slow, third]))


def test_of_an_engine_that_is_not_installed_no_command_is_told():
    fast = make_run(1, latency=3.0e-4, half=3e-5, grade="D", runtime="unheard-of")
    lines = answer_of([fast, make_run(2, latency=4.2e-4, half=3e-6)])
    assert lines[1] == "To decide, measure both again on an idle machine"


def test_a_better_value_with_other_outputs_is_named_with_its_reason():
    wrong = with_caution(make_run(1, latency=3.0e-4, half=3e-6), "output-mismatch", MISMATCH)
    slow = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-6)
    third = make_run(3, runtime="litert", latency=5e-4, half=3e-6)
    first, *facts = answer_of([wrong, slow, third])
    assert first.startswith("Recommended: openvino/cpu, latency 420 ± 3 µs")
    assert "Not ranked, though its value is better: onnxruntime/cpu, 300 µs (outputs differ)" in facts


def test_what_decides_among_runs_as_fast_stands_in_the_answer():
    fast = make_run(1, latency=4.0e-4, half=3e-5, memory=90e6, grade="A")
    lean = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=40e6, grade="A")
    assert answer_of([fast, lean]) == (
        "Recommended: openvino/cpu, latency 420 ± 30 µs, grade A; onnxruntime/cpu (400 µs) can't be told apart from it",
        "chosen for the least peak memory: 38.1 MiB; onnxruntime/cpu has 85.8 MiB",
    )


@pytest.mark.parametrize("model", [None, VWW])
def test_a_run_of_grade_d_that_may_be_as_fast_is_named_with_its_interval(model):
    first, third = (make_run(1, latency=4e-4, half=3e-6), make_run(3, latency=9e-4, half=3e-6, runtime="litert"))
    third = replace(third, job=replace(third.job, model=model or third.job.model))
    doubtful = wide_run(2, 3.9e-4, 6e-4, 8e-4, runtime="openvino")
    name = "kws.onnx on openvino/cpu" if model else "openvino/cpu"
    line, *facts = answer_of([first, doubtful, third])
    assert f"Not ranked, and may be as fast: {name}, 600 [390, 800] µs (grade D)" in facts
    assert line.startswith("Fastest of the ranked runs: kws.onnx on onnxruntime/cpu, " if model else "Recommended: ")
    far = wide_run(2, 4.1e-4, 6e-4, 8e-4, runtime="openvino")
    assert "may be as fast" not in " ".join(answer_of([first, far, third]))


def test_a_run_of_grade_d_that_turns_tie_with_the_first_is_named_with_its_value():
    first, other = make_run(1, latency=4e-4, half=3e-6), wide_run(2, 2e-4, 3e-4, 8e-4, runtime="openvino")
    tied = turns_between(first, other, 0.9, "inconclusive", low=0.7, high=1.2)
    assert answer_of(tied)[0] == (
        "Recommended: onnxruntime/cpu, latency 400 ± 3 µs, grade B; "
        "openvino/cpu (latency 1.111× [0.833, 1.429]) can't be told apart from it in turns"
    )
    slower = turns_between(first, other, 0.7, "faster")
    assert "grade D" not in " ".join(answer_of(slower))


def of_threads(number, threads, latency, *, grade="C", **facts):
    """A run with an interval of ± 2 % or, of grade D, from a quarter to six times its value."""
    if grade == "D":
        return wide_run(number, latency / 4, latency, latency * 6, threads=threads, **facts)
    return make_run(number, threads=threads, latency=latency, half=latency / 50, grade=grade, **facts)


def test_grade_d_that_turns_do_not_decide_is_tied_and_more_threads_may_gain():
    one, two = of_threads(1, 1, 2.39e-3), of_threads(2, 2, 1.55e-3, grade="D")
    two, one = turns_between(two, one, 1 / 1.3, "inconclusive", low=0.55, high=1.01)
    assert answer_of([one, two]) == (
        "Recommended: onnxruntime/cpu · 1 thread, latency 2.39 ± 0.05 ms, grade C; 2 threads: 1.300× [0.990, 1.819] "
        "the speed in turns, not proven faster; at most 1.819× for twice the cores",
        "chosen as the only one measured better than grade D",
    )
    other = of_threads(3, 1, 2.41e-3, model=VWW, runtime="litert", memory=9e6)
    other, one = turns_between(other, one, 0.97, "inconclusive", low=0.9, high=1.1)
    other, two = turns_between(other, two, 1.0, "inconclusive", low=0.6, high=1.8)
    line, others = answer_of([one, two, other])[:2]
    assert line == (
        "Among the fastest: vww.tflite on litert/cpu with 1 thread (measured better than grade D, ahead in turns), 2.41 ± 0.05 ms; "
        "2 others can't be told apart from it in turns"
    )
    assert others == (
        "The others: kws.onnx on onnxruntime/cpu with 2 threads (latency 1.000× [0.555, 1.667]) and "
        "kws.onnx on onnxruntime/cpu with 1 thread (1.031× [0.909, 1.112])"
    )
    assert not any("twice the cores" in line for line in answer_of([one, two, other]))


def test_grade_d_wins_with_a_proof_in_turns():
    one, two = of_threads(1, 1, 2.39e-3), of_threads(2, 2, 1.55e-3, grade="D")
    two, one = turns_between(two, one, 1 / 1.5, "faster", low=1 / 1.6, high=1 / 1.4)
    other = of_threads(3, 1, 9e-3, model=VWW, runtime="litert")
    assert answer_of([one, two, other])[:2] == (
        "Fastest: kws.onnx on onnxruntime/cpu with 2 threads, 1.55 [0.387, 9.30] ms (measured alone: grade D; "
        "1.500× [1.400, 1.600] faster than kws.onnx on onnxruntime/cpu with 1 thread in turns)",
        "2 threads: twice the cores for 1.500× [1.400, 1.600] in turns",
    )
    assert answer_of([one, two])[0] == (
        "Recommended: onnxruntime/cpu · 2 threads, latency 1.55 [0.387, 9.30] ms (measured alone: grade D); "
        "2 threads: twice the cores for 1.500× [1.400, 1.600] in turns"
    )


def test_of_many_ties_three_are_named_and_all_with_their_threads():
    runs = [of_threads(n, 1 + n % 2, 1e-3 + n * 1e-6, runtime=f"engine{n}") for n in range(1, 7)]
    runs = [replace(run, job=replace(run.job, model=VWW)) if run is runs[0] else run for run in runs]
    line, others, *_ = answer_of(runs)
    assert line == (
        "Among the fastest: kws.onnx on engine2/cpu with 1 thread (fewest threads), 1.00 ± 0.03 ms; "
        "5 others can't be told apart from it"
    )
    assert others == (
        "The others: vww.tflite on engine1/cpu with 2 threads (1.00 ms), kws.onnx on engine3/cpu with 2 threads "
        "(1.00 ms), kws.onnx on engine4/cpu with 1 thread (1.00 ms) and 2 others"
    )


def test_a_throughput_of_grade_d_may_be_as_high_where_its_interval_reaches_the_first():
    first = offline_run(7)
    rows = [
        replace(row, value=5000.0, low=4000.0, high=5600.0) if row.metric == "throughput" else row
        for row in first.measurements
    ]
    runtime = replace(first.job.runtime, name="litert")
    other = replace(first, id=run_id(8), measurements=tuple(rows), trust=WIDE, job=replace(first.job, runtime=runtime))
    (chosen,), _ = candidates_of([first])
    assert may_be_as_fast(other, chosen)
    rows = [replace(row, high=5001.0) if row.metric == "throughput" else row for row in rows]
    assert not may_be_as_fast(replace(other, measurements=tuple(rows)), chosen)


def of_shape(run, *shape, outputs=None, name="", model=None):
    """`run` of another network, which takes and gives these sizes."""
    model = model or replace(VWW, name=name, path=f"/m/{name}", sha256=name)
    spec = replace(run.job.workload.inputs[0], shape=shape)
    job = replace(run.job, model=model, workload=replace(run.job.workload, inputs=(spec,)))
    effective = run.effective if outputs is None else {**run.effective, "outputs": [{"shape": outputs}]}
    return replace(run, job=job, effective=effective)


def test_networks_of_different_tasks_have_a_line_each_and_no_order():
    runs = [
        of_shape(make_run(1, latency=1e-4), 1, 3, 64, 64, name="a.onnx", outputs=[1, 10]),
        of_shape(make_run(2, latency=3e-4, threads=2), 1, 3, 64, 64, name="a.onnx", outputs=[1, 10]),
        of_shape(make_run(3, latency=2e-4), 1, 64, 64, 3, name="b.onnx", outputs=[1, 1000]),
        of_shape(make_run(4, latency=1e-5, half=1e-6), 1, 28, 28, name="c.onnx"),
    ]
    lines = answer_of(runs)
    assert [line.split(",")[0] for line in lines] == [
        "a.onnx: Recommended: onnxruntime/cpu · 1 thread",
        "b.onnx on onnxruntime/cpu: latency 200 ± 11 µs",
        "c.onnx on onnxruntime/cpu: latency 10.0 ± 1.0 µs",
    ]
    assert finalists(runs) == []
    document = bench_document(runs)
    assert not any(table.title.startswith("Models, fastest first") for table in document.tables)
    for text in (to_text(document, width=400), render_markdown(document), render_html(runs)):
        assert "Fastest" not in text and "a.onnx: Recommended: " in text
    many = [of_shape(make_run(n), 1, n, name=f"{n}.onnx") for n in range(2, 13)]
    assert answer_of(many)[8:] == ("3 more networks: see the recommendation of each",)


def test_files_of_one_task_in_other_layouts_and_failed_ones_stay_in_one_order():
    a = of_shape(make_run(1, latency=1e-4, half=1e-6), 1, 3, 64, 64, name="a.onnx", outputs=[1, 10])
    b = of_shape(make_run(2, latency=2e-4, half=1e-6), 1, 64, 64, 3, name="a.tflite", outputs=[10])
    failed = of_shape(failed_run(3), 1, 3, 64, 64, name="a.onnx")
    assert answer_of([failed, a, b])[0].startswith("Fastest: a.onnx on onnxruntime/cpu, 100 ± 1 µs; next a.tflite")


def test_the_load_is_told_once_for_networks_of_different_tasks():
    runs = [busy(of_shape(make_run(n), 1, n, name=f"{n}.onnx"), n) for n in (2, 82)]
    assert answer_of(runs)[2:] == (
        "Measured while other processes used up to 82% of the processor time: which is fastest can differ on a quiet "
        "machine",
    )


def test_where_memory_is_alike_start_up_decides():
    slow_start = make_run(1, latency=4.0e-4, half=3e-5, memory=40e6, startup=0.5)
    quick_start = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=41e6, startup=0.1)
    found = recommendation([slow_start, quick_start])
    assert found.run == run_id(2)
    assert "chosen for the quickest start-up: 100 ms; onnxruntime/cpu has 500 ms" in found.why


def test_memory_that_is_not_known_decides_nothing():
    fast = make_run(1, latency=4.0e-4, half=3e-5, startup=0.2)
    other = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=20e6, startup=0.2)
    unknown = tuple(
        missing("memory_peak", "no VmHWM") if row.metric == "memory_peak" else row for row in fast.measurements
    )
    found = recommendation([replace(fast, measurements=unknown), other])
    assert found.run == run_id(1)
    assert (
        "chosen by its latency alone: no difference that matters in threads, grade and start-up; not every run has an "
        "interval of peak memory"
    ) in found.why


def test_the_first_line_names_all_that_the_reasons_cannot_tell_apart():
    chosen, one = make_run(1, runtime="openvino", latency=4.0e-4, half=6e-5), make_run(2, latency=4.1e-4, half=6e-5)
    two = make_run(3, latency=4.2e-4, half=6e-5, threads=2)
    line, why = answer_of([chosen, one, two])[0], recommendation([chosen, one, two]).why
    for label in ("onnxruntime/cpu · 1 thread", "onnxruntime/cpu · 2 threads"):
        assert any(words.startswith(f"can't be told apart from {label}") for words in why)
    assert line.endswith(
        "; onnxruntime/cpu · 1 thread (410 µs) and onnxruntime/cpu · 2 threads (420 µs) can't be told apart from it"
    )


def test_without_intervals_nothing_is_told_apart():
    def bare(run):
        rows = tuple(replace(row, low=None, high=None, samples=()) for row in run.measurements)
        return replace(run, measurements=rows)

    found = recommendation([bare(make_run(1, latency=1e-3)), bare(make_run(2, runtime="openvino", latency=1e-4))])
    assert found.why[0].endswith(
        ": latency of onnxruntime/cpu has no interval; latency of openvino/cpu has no interval"
    )
    assert not any("faster" in reason for reason in found.why)


def test_a_run_with_other_outputs_is_never_recommended():
    runs = same_model_runs()
    runs[1] = with_caution(runs[1], "output-mismatch", MISMATCH)
    found = recommendation(runs)
    assert found.run == run_id(3)
    assert f"openvino/cpu is left out: outputs differ: {MISMATCH}" in found.why


def test_grade_d_is_never_recommended():
    run = replace(make_run(1), trust=Trust(grade="D", reasons=("only 4 samples: unreliable",)))
    assert recommendation([run]) is None
    assert recommendations([run])[0].why == ("onnxruntime/cpu is left out: grade D: only 4 samples: unreliable",)


def test_nothing_qualifies_with_reasons():
    assert recommendation([failed_run()]) is None
    assert recommendation([]) is None
    found = recommendations([failed_run()])[0]
    assert found.run is None
    assert found.why[0].startswith("litert/interpreter is left out: the run failed in phase load")


def test_only_the_same_model_batch_and_scenario_are_compared():
    runs = [
        make_run(1),
        make_run(2, batch=8),
        make_run(3, model=VWW),
        make_run(4, threads=2),
        make_run(5, scenario=Scenario(kind="paced", fps=30.0)),
        make_run(6, scenario=Scenario(kind="paced", fps=10.0)),
    ]
    elsewhere = replace(make_run(7), job=replace(make_run(7).job, target=replace(runs[0].job.target, device="board")))
    groups = [[run.id for run in group] for group in comparable_groups([*runs, elsewhere])]
    assert groups == [[run_id(1), run_id(4)], [run_id(2)], [run_id(3)], [run_id(5)], [run_id(6)], [run_id(7)]]


def test_several_groups_say_what_the_recommendation_is_for():
    found = recommendation(all_runs())
    assert found.run == run_id(2)
    assert found.why[0] == wording("other-models-scenarios-judged-apart", group="kws.onnx, single-stream, batch 1")
    assert [one.run for one in recommendations(all_runs())] == [run_id(2), run_id(5), run_id(6), run_id(7)]


def test_offline_runs_are_judged_by_throughput():
    slower = offline_run(8)
    rows = tuple(
        replace(row, value=1000.0, low=990.0, high=1010.0, samples=tuple(one / 5.2 for one in row.samples))
        if row.metric == "throughput"
        else row
        for row in slower.measurements
    )
    runtime = replace(slower.job.runtime, name="fake")
    slower = replace(slower, measurements=rows, job=replace(slower.job, runtime=runtime))
    found = recommendation([slower, offline_run(7)])
    assert found.run == run_id(7)
    assert found.why[0] == (
        "5.200× [4.951, 5.461] faster than fake/cpu (throughput 5200 /s against 1000 /s), by their processes"
    )


def test_differing_precisions_and_uncompared_outputs_are_said():
    lone = replace(make_run(1), measurements=make_run(1).measurements[:-2])
    assert any("outputs were not compared" in reason for reason in recommendation([lone]).why)
    reduced = replace(make_run(2, runtime="openvino"), effective={"precision": "bf16", "threads": 1})
    assert (
        wording("precisions-differ", told="onnxruntime/cpu f32, openvino/cpu bf16")
        in recommendation([make_run(1), reduced]).why
    )
    ungraded = replace(make_run(1), trust=None)
    assert wording("run-no-trust-grade") in recommendation([ungraded]).why


@pytest.mark.parametrize("seed", range(3))
@given(order=st.permutations(range(4)))
def test_the_order_of_runs_changes_nothing(seed, order):
    runs = [
        make_run(1, latency=4.2e-4 + seed * 1e-4),
        make_run(2, runtime="openvino", latency=2.3e-4, half=4e-6),
        make_run(3, runtime="fake", latency=2.31e-4, half=4e-6, memory=20e6),
        failed_run(4),
    ]
    assert recommendation([runs[index] for index in order]).run == run_id(3)


def in_turns(*runs, **speeds):
    """`runs` with ratios of what each would take in turns, as ``r1=…``; more than 3 % apart is proven."""
    times = {run.id: speeds[f"r{number}"] for number, run in enumerate(runs, 1)}

    def told(own, other):
        ratio = times[own] / times[other]
        verdict = "same" if abs(ratio - 1) < 0.03 else "faster" if ratio < 1 else "slower"
        return InTurns(
            against=other, ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, verdict=verdict, method="5 pairs"
        )

    return [replace(run, in_turns=tuple(told(run.id, other.id) for other in runs if other is not run)) for run in runs]


def test_of_what_cannot_be_told_apart_the_fewest_threads_win_then_the_grade():
    """142 µs with 1 thread, grade B, beside 137 µs with 2, grade C: nothing is gained by the second core."""
    one, two = make_run(1, latency=1.42e-4, memory=60e6), make_run(2, latency=1.37e-4, threads=2, grade="C")
    found = recommendation([one, two])
    assert found.run == run_id(1)
    assert "chosen for the fewest threads: 1; onnxruntime/cpu · 2 threads has 2" in found.why
    assert answer_of([one, two])[0].endswith(
        "2 threads: 1.036× [0.926, 1.159] the speed, by their processes, not proven faster; at most 1.159× for twice the cores"
    )
    better, lean = make_run(1, latency=1.42e-4, memory=60e6), make_run(2, runtime="litert", latency=1.37e-4, grade="C")
    found = recommendation([better, lean])
    assert found.run == run_id(1)
    assert "chosen for the best grade: B; litert/cpu has C" in found.why


def test_threads_that_win_say_what_they_cost():
    slow = make_run(1, latency=1.09e-4, half=1e-6)
    fast = make_run(2, latency=1.0e-4, half=1e-6, threads=2)
    assert answer_of([slow, fast])[0].endswith("2 threads: twice the cores for 1.090× [1.074, 1.106]")
    fast = make_run(2, latency=0.4e-4, half=1e-6, threads=6)
    assert "6 threads: 6 times the cores for 2.724× [2.651, 2.799]" in answer_of([slow, fast])[0]
    turned = in_turns(make_run(1, half=2e-4), make_run(2, half=2e-4, threads=2), r1=1.09, r2=1.0)
    assert "2 threads: twice the cores for 1.090× [1.079, 1.102]" in answer_of(turned)[0]


def test_what_turns_prove_outweighs_the_values_and_their_intervals():
    """The value with 2 threads is smaller, and in turns they are 1.14 times slower: two thirds of a noisy hour."""
    one, two = in_turns(make_run(1, latency=1.42e-4, half=8e-5), make_run(2, half=1e-6, latency=7.3e-5, threads=2),
                        r1=1.0, r2=1.14)  # fmt: skip
    found = recommendation([one, two])
    assert found.run == run_id(1)
    assert found.why[0].startswith("1.140× [1.128, 1.152]") and re.search(
        says("than-measured-turns", verdict=has("faster"), label="onnxruntime/cpu · 2 threads"), found.why[0]
    )
    assert "2 threads are 1.140× [1.128, 1.152] slower in turns" in answer_of([one, two])[0]
    one, two = in_turns(make_run(1, half=2e-4), make_run(2, half=2e-4, runtime="litert"), r1=1.0, r2=1.5)
    assert "litert/cpu is 1.500× [1.485, 1.515] slower" in answer_of([two, one])[0]


def test_throughputs_in_turns_are_better_high():
    one, two = offline_run(7), offline_run(8)
    two = replace(two, job=replace(two.job, runtime=replace(two.job.runtime, name="litert")))
    low = InTurns(against=run_id(8), ratio=2.0, low=1.9, high=2.1, verdict="faster", method="5 pairs")
    high = InTurns(against=run_id(7), ratio=0.5, low=1 / 2.1, high=1 / 1.9, verdict="slower", method="5 pairs")
    runs = [replace(one, in_turns=(low,)), replace(two, in_turns=(high,))]
    assert recommendation(runs).run == run_id(7)
    assert re.match(
        says("faster-than", factor="2.000× [1.900, 2.100]", label=has("litert")), recommendation(runs).why[0]
    )
    assert "slower" in answer_of(runs)[0] and "2.000× [1.900, 2.100]" in answer_of(runs)[0]


def test_grade_d_is_recommended_where_turns_decided():
    wide = Trust(grade="D", reasons=("the interval spans more than a factor of 2",))
    runs = [replace(make_run(number, threads=number), trust=wide) for number in (1, 2)]
    assert [[run.id for run in some] for some in finalists(runs)] == [[run_id(1), run_id(2)]]
    assert recommendation(runs) is None
    assert recommendation(in_turns(*runs, r1=1.0, r2=1.2)).run == run_id(1)


def test_finalists_are_those_that_may_be_the_fastest():
    fast, near = make_run(1, latency=1e-4), make_run(2, latency=1.05e-4, runtime="litert")
    far, other = make_run(3, latency=3e-4, runtime="openvino"), make_run(4, latency=1.02e-4, model=VWW)
    wrong = with_caution(make_run(5, latency=0.9e-4, runtime="fake"), "output-mismatch", MISMATCH)
    found = finalists([far, wrong, near, failed_run(6), fast, other])
    assert [[run.id for run in some] for some in found] == [[run_id(1), run_id(4), run_id(2)]]
    assert finalists([fast, far]) == [] and finalists([]) == []


def test_a_run_that_took_no_turns_is_a_peer_where_its_interval_overlaps():
    """There were too many finalists. The one that was left out is not proven slower and has the fewest threads."""
    left_out = make_run(3, latency=4.4e-4, half=5e-5)
    runs = in_turns(make_run(1, threads=2, half=5e-5), make_run(2, threads=4, half=5e-5), r1=1.0, r2=1.2)
    found = recommendation([*runs, left_out])
    assert found.run == run_id(3)
    assert found.why[0].startswith(
        "can't be told apart from onnxruntime/cpu · 2 threads in speed (median latency 440 µs"
    )


def turns_between(one, other, ratio, verdict, *, low=None, high=None, rerun=(None, None)):
    """`one` and `other` with what their turns found, from the side of `one`; other turns of theirs stay."""
    ends = {"rerun_low": rerun[0], "rerun_high": rerun[1]}
    back_ends = {"rerun_low": rerun[1] and 1 / rerun[1], "rerun_high": rerun[0] and 1 / rerun[0]}
    low, high = low or ratio * 0.985, high or ratio * 1.015
    back = {"faster": "slower", "slower": "faster"}.get(verdict, verdict)
    first = InTurns(against=other.id, ratio=ratio, low=low, high=high, verdict=verdict, method="5 pairs", **ends)
    second = InTurns(
        against=one.id, ratio=1 / ratio, low=1 / high, high=1 / low, verdict=back, method="5 pairs", **back_ends
    )
    return replace(one, in_turns=(*one.in_turns, first)), replace(other, in_turns=(*other.in_turns, second))


WIDE = Trust(grade="D", reasons=("the interval spans more than a factor of 2",))


def wide_run(number, low, value, high, **facts):
    """A run of grade D with the interval from `low` to `high`, s."""
    run = make_run(number, latency=value, **facts)
    rows = (replace(row, low=low, high=high) if row.metric == "latency" else row for row in run.measurements)
    return replace(run, measurements=tuple(rows), trust=WIDE)


def places_of(runs):
    return [(one.model, one.run.id, one.place, one.note) for one in rank_models(runs)]


def test_of_several_commands_the_fastest_model_stands_first_whoever_took_turns():
    """Only the runs of kws.onnx took turns with each other; vww.tflite is proven faster by its interval."""
    slow, second = turns_between(
        make_run(1, latency=111e-6, half=7e-6),
        make_run(2, latency=113e-6, half=7e-6, runtime="openvino"),
        0.9,
        "faster",
    )
    fast = make_run(3, latency=85.5e-6, half=2.2e-6, runtime="litert", model=VWW)
    quick = make_run(4, latency=93.2e-6, half=1e-6, runtime="fake")
    for runs in ([slow, second, fast], [fast, second, slow], [slow, second, fast, quick]):
        (line, *_) = answer_of(runs)
        assert line.startswith("Fastest: vww.tflite on litert/cpu, 85.5 ± 2.2 µs; next kws.onnx on ")
        assert "faster" not in line
        assert [place[2] for place in places_of(runs)] == [1, 2]
    assert recommendations([slow, second, fast, quick])[0].run == quick.id  # proven faster than those that took turns


def second_situation():
    """litert decides; of kws.onnx only a grade D, the slowest of the four, took turns with it."""
    leader = make_run(1, latency=85.5e-6, half=2e-6, runtime="litert", model=VWW)
    doubtful = wide_run(2, 82.7e-6, 123e-6, 187e-6, runtime="openvino", threads=2)
    leader, doubtful = turns_between(leader, doubtful, 1 / 1.52, "faster")
    one = make_run(3, latency=105e-6, half=3e-6, runtime="openvino")
    return [leader, doubtful, one, make_run(4, latency=109e-6, half=3e-6)]


def test_grade_d_does_not_stand_for_a_model_that_has_better_runs_not_proven_slower():
    runs = second_situation()
    (line, *_) = answer_of(runs)
    assert line.startswith(
        "Fastest: vww.tflite on litert/cpu with 1 thread, 85.5 ± 2.0 µs; next kws.onnx on openvino/cpu with 1 thread, "
        "105 ± 3 µs"
    )
    found = recommendations(runs)[1]
    assert found.run == run_id(3)
    assert "chosen among the 2 measured better than grade D" in found.why
    proven = turns_between(runs[1], runs[2], 0.8, "faster")
    proven = (
        turns_between(proven[0], runs[3], 0.8, "faster")[0],
        proven[1],
        turns_between(proven[0], runs[3], 0.8, "faster")[1],
    )
    assert recommendations([runs[0], *proven])[1].run == run_id(2)


def test_with_grade_d_those_of_its_model_take_turns_too():
    runs = [replace(run, in_turns=()) for run in second_situation()]
    (found,) = finalists(runs)
    assert [run.id for run in found] == [run_id(1), run_id(2), run_id(3), run_id(4)]


def test_more_threads_that_took_turns_do_not_win_over_one_thread_that_did_not():
    leader = make_run(1, latency=87.7e-6, half=2.9e-6, runtime="litert", model=VWW)
    two = make_run(2, latency=118e-6, half=40e-6, threads=2, grade="C")
    leader, two = turns_between(leader, two, 0.79, "inconclusive", low=0.6, high=1.04)
    runs = [leader, two, make_run(3, latency=112e-6, half=5e-6)]
    line, after, *_ = answer_of(runs)
    assert line == (
        "Among the fastest: vww.tflite on litert/cpu with 1 thread (fewest threads), 87.7 ± 2.9 µs; kws.onnx on onnxruntime/cpu with "
        "2 threads (latency 1.266× [0.961, 1.667]) can't be told apart from it in turns"
    )
    assert after == "Next kws.onnx on onnxruntime/cpu with 1 thread, 112 ± 5 µs (1.277× [1.208, 1.351] slower)"
    found = recommendations(runs)[1]
    assert found.run == run_id(3)
    assert "chosen for the fewest threads: 1; onnxruntime/cpu · 2 threads has 2" in found.why
    assert recommendation(runs[1:]).run == run_id(3)  # the same without the other model


def test_where_turns_and_the_table_disagree_the_line_says_so():
    one = make_run(1, latency=86.7e-6, half=2e-6, runtime="litert")
    two = wide_run(2, 39.7e-6, 97.2e-6, 221e-6, runtime="litert", threads=2)
    two, one = turns_between(two, one, 1 / 1.54, "faster")
    said = "in turns, though measured alone 97.2 µs against 86.7 µs: repeat it on an idle machine"
    (line,) = answer_of([one, two])
    assert "litert/cpu · 2 threads" in line and "1.540× [" in line and said in line
    assert said.partition(", ")[2] in recommendation([one, two]).why[0]
    other = make_run(3, latency=300e-6, half=1e-6, model=VWW)
    line, fact, *_ = answer_of([one, replace(two, trust=one.trust), other])
    assert line.startswith("Fastest: kws.onnx on litert/cpu with 2 threads") and said in fact
    three = replace(two, job=replace(two.job, model=VWW))
    noted = places_of([one, three])
    assert [place[2] for place in noted] == [1, 2] and noted[0][3] == "measured in turns it is faster than kws.onnx"


def test_an_interval_without_1_that_proves_nothing_says_why():
    one, two = make_run(1, half=2e-4), make_run(2, half=2e-4, runtime="openvino")
    one, two = turns_between(one, two, 0.98, "inconclusive", low=0.97, high=0.996)
    (line, *_) = recommendation([one, two]).why
    assert line.startswith(
        "probably 1.020× [1.004, 1.031] faster than openvino/cpu, measured in turns within these minutes"
    )
    assert "; not proven: a proof takes a risk of error below 1 % over all pairs, the interval has 5 %" in line
    one, two = (
        replace(run, in_turns=(replace(run.in_turns[0], proof_low=low, proof_high=high),))
        for run, low, high in ((one, 0.95, 1.01), (two, 1 / 1.01, 1 / 0.95))
    )
    (line, *_) = recommendation([one, two]).why
    assert "; not proven: a proof takes the 99 % interval over all pairs, 0.990 to 1.053" in line
    one, two = turns_between(make_run(1, half=2e-4), make_run(2, half=2e-4, runtime="openvino"), 0.98, "inconclusive",
                             low=0.95, high=1.01)  # fmt: skip
    assert "not proven" not in recommendation([one, two]).why[0]


def test_of_runs_apart_an_interval_without_1_is_probable_with_the_interval_that_decides():
    one = make_run(1, latency=1.11e-4, half=1e-5)
    two, three = (
        make_run(number, latency=1.3e-4, half=1e-5, runtime=name) for number, name in ((3, "openvino"), (4, "litert"))
    )
    assert answer_of([one, two]) == (
        "Recommended: onnxruntime/cpu, latency 111 ± 10 µs, grade B; openvino/cpu (130 µs) is probably slower, which is not "
        "proven",
    )
    assert recommendation([one, two]).why[0] == (
        "probably 1.171× [1.040, 1.319] faster than openvino/cpu (median latency 111 µs against 130 µs); not proven: a proof "
        "takes the 99 % interval over all metrics, 0.981 to 1.399"
    )
    assert (
        "openvino/cpu (130 µs) and litert/cpu (130 µs) are probably slower, which is not proven"
        in answer_of([one, two, three])[0]
    )
    other = replace(two, job=replace(two.job, model=VWW))
    assert answer_of([one, other])[0] == (
        "Among the fastest: kws.onnx on onnxruntime/cpu (by its value alone), 111 ± 10 µs; vww.tflite on openvino/cpu "
        "(130 µs) is probably slower, which is not proven"
    )


def test_a_chain_of_proofs_is_one():
    """2 threads are faster than vww.tflite, which is faster than 1 thread; the intervals of both overlap."""
    two = make_run(1, latency=90e-6, half=15e-6, threads=2)
    between = make_run(2, latency=85e-6, half=2e-6, model=VWW)
    one = make_run(3, latency=95e-6, half=4e-6)
    two, between = turns_between(two, between, 0.8, "faster")
    runs = [two, between, one]
    assert recommendations(runs)[0].run == run_id(1)
    assert answer_of(runs)[0].startswith("Fastest: kws.onnx on onnxruntime/cpu with 2 threads")
    assert [place[:3] for place in places_of(runs)] == [("kws.onnx", run_id(1), 1), ("vww.tflite", run_id(2), 2)]


def test_a_place_that_does_not_follow_the_values_says_why():
    names = [replace(VWW, name=f"{name}.tflite", path=f"/{name}", sha256=name * 64) for name in "abc"]
    a, b = (
        make_run(1, latency=100e-6, half=2e-6, model=names[0]),
        make_run(2, latency=103.5e-6, half=1e-6, model=names[1]),
    )
    c = make_run(3, latency=110e-6, half=20e-6, model=names[2])
    found = rank_models([a, b, c])
    assert [(one.model, one.place) for one in found] == [("a.tflite", 1), ("c.tflite", 1), ("b.tflite", 2)]
    assert [one.note for one in found] == [
        "", "no model is proven faster, while a.tflite is faster than b.tflite", ""
    ]  # fmt: skip


def test_of_several_files_the_first_line_has_engine_and_threads_and_what_the_second_engine_costs():
    runs = [
        make_run(1, latency=1e-4, half=1e-6, runtime="litert"),
        make_run(2, latency=2e-4, half=1e-6, runtime="litert", threads=2),
        make_run(3, latency=3e-4, half=1e-6, model=VWW, runtime="litert"),
        make_run(4, latency=1.5e-4, half=1e-6),
    ]
    assert answer_of(runs)[:3] == (
        "Fastest: kws.onnx on litert/cpu with 1 thread, 100 ± 1 µs; next model vww.tflite on litert/cpu with 1 thread, "
        "300 ± 1 µs (3.001× [2.967, 3.035] slower)",
        "2 threads are 2.001× [1.976, 2.025] slower, by their processes",
        "kws.onnx on onnxruntime/cpu with 1 thread is 1.501× [1.481, 1.521] slower, by their processes",
    )


def test_the_second_engine_stands_with_its_best_setting_in_turns():
    """Its single thread has the better value alone, and its 2 threads cost less in the turns, which decide."""
    first = make_run(1, latency=2e-4, half=1e-6, runtime="openvino", threads=2)
    one, two = make_run(2, latency=2.5e-4, half=1e-6), make_run(3, latency=2.6e-4, half=1e-6, threads=2)
    one, first = turns_between(one, first, 1.27, "slower")
    two, first = turns_between(two, first, 1.16, "slower")
    line = "onnxruntime/cpu · 2 threads is 1.160× [1.142, 1.178] slower in turns"
    assert line in " ".join(answer_of([first, one, two]))
    assert "1.270×" not in " ".join(answer_of([first, one, two]))
    far = make_run(4, latency=9e-4, half=1e-6, model=VWW, runtime="openvino", threads=2)
    assert "kws.onnx on onnxruntime/cpu with 2 threads is 1.160× [1.142, 1.178] slower in turns" in answer_of(
        [first, one, two, far]
    )


@pytest.mark.parametrize(
    ("ratio", "low", "high", "rerun", "words"),
    [
        (1.12, 1.081, 1.171, (0.714, 1.771), "0.714 to 1.771"),
        (1.12, 1.081, 1.171, (1.01, 1.3), ""),
        (1.12, 1.081, 1.171, (None, None), ""),
    ],
)
def test_bench_is_as_sure_of_another_time_as_compare_of_the_same_turns(ratio, low, high, rerun, words):
    one, two = make_run(1, latency=2e-4), make_run(2, latency=2.2e-4, threads=2)
    two, one = turns_between(two, one, ratio, "slower", low=low, high=high, rerun=rerun)
    turned = f" in these minutes, which need not hold at another time ({words})" if words else ""
    (line, *_) = answer_of([one, two])
    assert line.endswith(f"; 2 threads are 1.120× [1.081, 1.171] slower in turns{turned}")
    assert (turned or " within these minutes") in recommendation([one, two]).why[0]
    assert (turned or "interval 1.081 to 1.171") in conclusion(judge(one, two))


def test_a_gain_of_threads_that_may_turn_says_so():
    one, two = make_run(1, latency=2.2e-4), make_run(2, latency=2e-4, threads=2)
    two, one = turns_between(two, one, 1 / 1.22, "faster", low=1 / 1.32, high=1 / 1.12, rerun=(0.5, 1.25))
    assert answer_of([one, two])[0].endswith(
        "2 threads: twice the cores for 1.220× [1.120, 1.320] in turns in these minutes, which need not hold "
        "at another time (0.800 to 2.000)"
    )


def test_the_table_has_the_ratios_in_turns_that_decide_and_is_ordered_by_them():
    first = make_run(1, latency=2.07e-4, half=1e-6, runtime="openvino", threads=2)
    one, two = make_run(2, latency=2.56e-4, half=1e-6), make_run(3, latency=2.66e-4, half=1e-6, threads=2)
    far = make_run(4, latency=9e-4, half=1e-6, runtime="litert")
    one, first = turns_between(one, first, 1.27, "slower")
    two, first = turns_between(two, first, 1.16, "slower")
    (table,) = bench_document([far, one, first, two]).tables
    (place,) = (at for at, column in enumerate(table.columns) if column.title == "In turns")
    assert [row[place].text for row in table.rows] == ["1", "1.160× [1.142, 1.178]", "1.270× [1.250, 1.290]", "–"]
    assert table.notes == (
        "in turns: latency as a multiple of that of the first row, within these minutes, which decides; the other "
        "columns are of each run measured alone",
    )
    assert [row[0].text for row in table.rows] == [first.id, two.id, one.id, far.id]
    other = replace(far, job=replace(far.job, model=VWW))
    *_, table = bench_document([other, one, first, two]).tables
    assert [row[0].text for row in table.rows] == [first.id, two.id, one.id, other.id]


def test_networks_of_different_tasks_keep_the_ratios_in_turns_each_to_its_own_recommended_run():
    def of(number, name, *ends, **facts):
        run = wide_run(number, *(1e-6 * end for end in ends), **facts)
        return of_shape(run, 1, number % 2 + 8, name=f"{name}_int8.tflite")

    quick = of(1, "ad01", 3.1, 5.52, 12.7, runtime="litert")
    slow = of(3, "ad01", 15.4, 24.1, 41.0, runtime="openvino")
    ours = of(2, "kws", 35.0, 67.7, 134, runtime="litert")
    two = of(4, "kws", 44.7, 72.8, 119, runtime="litert", threads=2)
    near = of(6, "kws", 36.7, 62.7, 108, runtime="openvino")
    quick, slow = turns_between(quick, slow, 1 / 4.3, "faster", low=1 / 4.5, high=1 / 4.1)
    ours, near = turns_between(ours, near, 1 / 1.08, "faster", low=1 / 1.28, high=1 / 1.03)
    ours, two = turns_between(ours, two, 1 / 1.24, "inconclusive", low=1 / 1.52, high=1 / 0.79)
    runs = [quick, slow, near, two, ours]
    (table,) = bench_document(runs).tables
    assert [(row[0].text, row[-1].text) for row in table.rows] == [
        (quick.id, "1"),
        (slow.id, "4.300× [4.100, 4.500]"),
        (ours.id, "1"),
        (near.id, "1.080× [1.030, 1.280]"),
        (two.id, "1.240× [0.790, 1.520]"),
    ]
    assert table.notes[0].startswith("in turns: latency as a multiple of that of the row with 1 above it, within these")
    narrow = " ".join(to_text(bench_document(runs), width=80).split())
    assert "Model memory" in narrow.partition("columns left out for width: ")[2].partition(";")[0]
    for text in (
        "1 62.7 [36.7, 108] [2] D 1.08×",
        "1 24.1 [15.4, 41.0] [2] D 4.30×",
        "2 72.8 [44.7, 119] [2] D 1.24× [3]",
    ):
        assert text in narrow
    lines = answer_of(runs)
    assert [line for line in lines if "threads" in line] == [
        "kws_int8.tflite: Recommended: litert/cpu · 1 thread, latency 67.7 [35.0, 134] µs (measured alone: grade D); 2 "
        "threads: 0.806× [0.657, 1.266] the speed in turns, not proven faster; at most 1.266× for twice the cores"
    ]


def test_all_that_no_order_is_proven_of_stand_in_that_of_their_turns():
    """Alone 257, 316 and 350 µs; in turns the 350 µs are nearer than the 257."""
    first = make_run(1, latency=2e-4, half=2e-5, runtime="openvino")
    two = of_threads(2, 2, 3.16e-4, grade="D", runtime="openvino")
    slow, near = of_threads(3, 1, 3.5e-4, grade="D"), of_threads(4, 2, 2.57e-4, grade="D")
    two, first = turns_between(two, first, 1.07, "inconclusive", low=0.98, high=1.29)
    near, first = turns_between(near, first, 1.22, "inconclusive", low=1.004, high=1.49)
    slow, first = turns_between(slow, first, 1.16, "inconclusive", low=0.84, high=1.40)
    assert answer_of([slow, near, first, two]) == (
        "Recommended: openvino/cpu · 1 thread, latency 200 ± 20 µs, grade B; 2 threads: 0.935× [0.775, 1.021] the speed in "
        "turns, not proven faster; at most 1.021× for twice the cores",
        "onnxruntime/cpu · 1 thread (latency 1.160× [0.840, 1.400]) can't be told apart from it in turns; onnxruntime/cpu · "
        "2 threads (1.220× [1.004, 1.490]) is probably slower in turns, which is not proven",
        "chosen as the only one measured better than grade D",
    )
    two, first = turns_between(replace(two, in_turns=()), make_run(1, latency=2e-4, half=2e-5, runtime="openvino"), 1.07,
                               "inconclusive", low=1.01, high=1.12)  # fmt: skip
    assert answer_of([first, two])[0].endswith("2 threads: 0.935× [0.892, 0.991] the speed in turns, not proven slower")


def test_what_turns_have_as_probably_faster_goes_before_a_better_grade():
    slow, fast = of_threads(1, 1, 2.58e-4), of_threads(2, 1, 1.76e-4, grade="D", runtime="openvino")
    fast, slow = turns_between(fast, slow, 0.786, "inconclusive", low=0.683, high=0.933)
    found = recommendation([slow, fast])
    assert found.run == fast.id
    assert found.tie == "chosen as probably faster in turns than onnxruntime/cpu, which is not proven"
    fast, slow = turns_between(
        replace(fast, in_turns=()), replace(slow, in_turns=()), 0.9, "inconclusive", low=0.7, high=1.1
    )
    assert recommendation([slow, fast]).run == slow.id


def test_where_turns_decide_nothing_the_one_ahead_leads_whatever_memory_it_takes():
    lean, fast = of_threads(1, 1, 2.58e-4, memory=40e6), of_threads(2, 1, 2.5e-4, runtime="openvino", memory=90e6)
    fast, lean = turns_between(fast, lean, 0.879, "inconclusive", low=0.708, high=1.09)
    assert answer_of([lean, fast]) == (
        "Not decided; ahead in turns: openvino/cpu, latency 250 ± 5 µs, grade C; onnxruntime/cpu (latency 1.138× "
        "[0.917, 1.413]) can't be told apart from it in turns",
        "To decide, with less running beside it: edgewise compare kws.onnx,runtime=openvino/cpu,threads=1 "
        "kws.onnx,runtime=onnxruntime/cpu,threads=1",
    )
    assert recommendation([lean, fast]).tie == "chosen as ahead in turns of onnxruntime/cpu, which is not proven"


def test_where_turns_prove_runs_equal_memory_decides():
    lean, fast = of_threads(1, 1, 2.58e-4, memory=40e6), of_threads(2, 1, 2.5e-4, runtime="openvino", memory=90e6)
    fast, lean = turns_between(fast, lean, 0.99, "same", low=0.98, high=1.01)
    found = recommendation([lean, fast])
    assert (found.run, found.rivals) == (lean.id, ())
    assert found.tie == "chosen for the least peak memory: 38.1 MiB; openvino/cpu has 85.8 MiB"


def test_of_two_of_grade_d_the_one_that_is_proven_faster_says_so():
    good = make_run(1, latency=2e-4, half=2e-6)
    won, open_ = (
        of_threads(2, 1, 1.9e-4, grade="D", runtime="litert"),
        of_threads(3, 1, 1.8e-4, grade="D", runtime="fake"),
    )
    won, good = turns_between(won, good, 0.9, "faster")
    open_, good = turns_between(open_, good, 0.9, "inconclusive", low=0.7, high=1.1)
    won, open_ = turns_between(won, open_, 1.0, "inconclusive", low=0.8, high=1.2)
    found = recommendation([good, won, open_])
    assert found.run == won.id
    assert found.tie == ("chosen as the only one proven faster in turns than runs of a better grade")


def test_a_ratio_in_turns_that_proves_nothing_says_so_in_the_table():
    one, two = make_run(1, latency=2e-4), make_run(2, latency=2.1e-4, threads=2)
    two, one = turns_between(two, one, 1.03, "inconclusive", low=0.9, high=1.2)
    (table,) = bench_document([one, two]).tables
    assert [row[-1].notes for row in table.rows] == [(), ("no order of the two is proven",)]
    one, two = (replace(run, in_turns=()) for run in (one, two))
    two, one = turns_between(two, one, 1.3, "inconclusive", low=1.1, high=1.5)
    (table,) = bench_document([one, two]).tables
    assert table.rows[1][-1].notes == (
        "no order of the two is proven: a proof takes a risk of error below 1 % over all pairs, the interval has 5 %",
    )


def test_without_turns_the_table_has_no_ratio_and_keeps_its_order():
    runs = [make_run(2, latency=9e-4), make_run(1)]
    (table,) = bench_document(runs).tables
    assert "In turns" not in [column.title for column in table.columns]
    assert [row[0].text for row in table.rows] == [run.id for run in runs]


def test_throughputs_in_turns_stand_in_the_table_best_first():
    one, two = offline_run(7), offline_run(8)
    two = replace(two, job=replace(two.job, runtime=replace(two.job.runtime, name="litert")))
    one, two = turns_between(one, two, 2.0, "faster", low=1.9, high=2.1)
    (table,) = bench_document([two, one]).tables
    assert [row[-1].text for row in table.rows] == ["1", "0.500× [0.476, 0.527]"]


def at_speeds(run, *speeds):
    """`run` with 200 samples at these (latency, s; number) and the caution that they form clusters."""
    samples = tuple(speed for speed, number in speeds for _ in range(number))
    rows = tuple(replace(row, samples=samples) if row.metric == "latency" else row for row in run.measurements)
    return with_caution(replace(run, measurements=rows), "multimodal", "samples form clusters")


def test_a_run_at_two_speeds_says_so_behind_the_recommendation_or_below_where_others_were_busy():
    one, two = make_run(1, latency=7e-5), make_run(2, latency=6e-5, threads=2)
    two, one = turns_between(two, one, 1 / 1.22, "faster", low=1 / 1.32, high=1 / 1.12)
    split = at_speeds(one, (5.6e-5, 80), (8.6e-5, 120))
    line = (
        "Runs at several speeds, on which their ratios depend: onnxruntime/cpu · 1 thread, 56.0 µs (40 %) and 86.0 µs "
        "(60 %)"
    )
    assert answer_of([split, two])[1:] == (line,)
    assert answer_of([one, two])[1:] == ()
    assert answer_of([split])[1:] == ("The run has several speeds: 56.0 µs (40 %) and 86.0 µs (60 %)",)

    def below(runs):
        return [
            line
            for section in bench_document(runs).sections
            if section.title == "Several speeds"
            for line in section.lines
        ]

    assert below([split, two]) == []
    loaded = [split, busy(two, 82)]
    assert below(loaded) == [line] and line not in answer_of(loaded)
    other = make_run(3, latency=9e-4, model=VWW)
    assert line.replace("onnxruntime/cpu · 1 thread", "kws.onnx · onnxruntime/cpu") in answer_of(
        [split, other, make_run(4, model=VWW)]
    )


def test_speeds_of_most_runs_at_similar_ratios_are_the_machines():
    def run(number, ratio, **facts):
        return at_speeds(make_run(number, **facts), (5e-5, 100), (5e-5 * ratio, 100))

    runs = [run(1, 1.5), run(2, 1.6, threads=2), run(3, 1.7, runtime="litert"), make_run(4, runtime="openvino")]
    (line,) = speed_lines(runs)
    assert line == "3 of 4 runs have several speeds, 1.5× to 1.7× apart: probably the machine's, not the file's"
    (line,) = speed_lines([*runs[:2], run(3, 1.5, model=VWW)])
    assert line == "3 of 3 runs have several speeds, 1.5× to 1.6× apart: probably the machine's, not the files'"
    (line,) = speed_lines([*runs[:2], run(3, 2.5, runtime="litert")])
    assert line.startswith("Runs at several speeds, on which their ratios depend: onnxruntime/cpu · 1 thread, 50.0 µs")
    assert line.endswith("onnxruntime/cpu · 2 threads, 50.0 µs (50 %) and 80.0 µs (50 %); and litert/cpu · 1 thread")
    assert speed_lines([make_run(1)]) == []


@pytest.mark.parametrize(("count", "words"), [(1, "the reference"), (2, "2 references")])
def test_outputs_say_how_many_runs_were_references(count, words):
    def is_reference(run):
        kept = (row for row in run.measurements if row.metric not in METRICS_OF_AGREEMENT)
        return replace(run, measurements=(*kept, *absent_measurements(REFERENCE)))

    runs = [make_run(1), make_run(2, model=VWW, runtime="litert"), *(make_run(3 + at) for at in range(count))]
    document = bench_document([*runs[:2], *map(is_reference, runs[2:])])
    (section,) = (each for each in document.sections if each.title == "Outputs")
    assert section.brief == f"agree between the runs of each network (2 compared with {words})"


def test_proofs_in_a_circle_are_said_to_contradict():
    """By their processes a is faster than b and b than c; in turns c is faster than a."""
    names = [replace(VWW, name=f"{name}.tflite", path=f"/{name}", sha256=name * 64) for name in "abc"]
    a, b, c = (make_run(n, latency=n * 1e-4, half=1e-6, model=names[n - 1]) for n in (1, 2, 3))
    c, a = turns_between(c, a, 0.8, "faster")
    line, fact, *_ = answer_of([a, b, c])
    assert (
        line.startswith("Fastest: a.tflite")
        and "next b.tflite on onnxruntime/cpu, 200 ± 1 µs (2.001× [1.976, 2.025] slower)" in line
    )
    assert fact == "But c.tflite is faster in turns: repeat it on an idle machine"


def busy(run, share):
    caution = Caution.of("busy-host", f"other processes used up to {share}% of the processor time")
    return replace(run, cautions=(*run.cautions, caution), trust=Trust(grade="C", reasons=(caution.message,)))


def test_the_second_line_says_that_a_busy_machine_may_have_decided():
    one, two = busy(make_run(1, half=1e-6), 9), busy(make_run(2, half=1e-6, latency=1.5e-4, threads=2), 82)
    said = "Measured while other processes used up to 82% of the processor time: which is fastest"
    runs = [one, two]
    assert answer_of(runs)[1] == f"{said}, and with how many threads, can differ on a quiet machine"
    models = [*runs, make_run(3, half=1e-6, model=VWW, latency=3e-4)]
    assert answer_of(models)[0].startswith("Fastest: ") and answer_of(models)[2].startswith(said)
    assert answer_of([one])[1].endswith("how fast it is can differ on a quiet machine")
    document = bench_document(runs)
    for text in (to_text(document, width=400), render_markdown(document), render_html(runs)):
        assert said in text
    assert said in runs_document(runs)["recommendation"]["why"][-1]
    assert not any("quiet machine" in line for line in answer_of([make_run(1), make_run(2, threads=2)]))


def test_what_turns_say_names_them_and_where_their_ratio_is_no_quotient():
    """Intervals of 92.3 ± 3.5 and 103 ± 5 µs don't overlap, and turns told nothing; 116 / 92.3 is not 1.28."""
    one = make_run(1, latency=92.3e-6, half=3.5e-6, runtime="litert")
    two = make_run(2, latency=103e-6, half=5e-6, runtime="litert", threads=2)
    one, two = turns_between(one, two, 0.95, "inconclusive", low=0.9, high=1.01)
    third = make_run(3, latency=107e-6, half=3e-6, runtime="openvino")
    slow, near = (
        make_run(4, latency=116e-6, half=2e-6, model=VWW),
        make_run(5, latency=114e-6, half=4e-6, model=VWW, runtime="openvino", memory=60e6),
    )
    one, slow = turns_between(one, slow, 1 / 1.28, "faster", low=1 / 1.29, high=1 / 1.26)
    line, *facts = answer_of([one, two, third, slow, near])
    after = next(fact for fact in facts if fact.startswith("Next model"))
    assert line == (
        "Fastest: kws.onnx; of its runs take litert/cpu · 1 thread (fewest threads), 92.3 ± 3.5 µs; litert/cpu · 2 "
        "threads (latency 1.053× [0.990, 1.112]) can't be told apart from it in turns"
    )
    assert (
        "Next model vww.tflite on onnxruntime/cpu with 1 thread, 116 ± 2 µs (1.280× [1.260, 1.290] " in after
        and "slower in turns; openvino" in after
    )
    assert "114 ± 4 µs, can't be told apart from it)" in after
    assert not any("quotient" in fact for fact in facts)  # the table has both values and their ratio
    why = " ".join(recommendations([one, replace(slow, job=replace(slow.job, model=one.job.model))])[0].why)
    assert "measured in turns within these minutes; 1.257 is the quotient of the two values, each measured alone" in why


def test_ratios_whose_statistics_differ_stand_at_the_end():
    apart = Disagreement(quoted="processor time", ratios={"processor time": 2.0, "the mean": 3.0}, others=0.5)
    runs = in_turns(make_run(1), make_run(2, runtime="litert"), r1=1.0, r2=1.2)
    runs = [replace(run, in_turns=tuple(replace(each, disagreement=apart) for each in run.in_turns)) for run in runs]
    document = bench_document(runs)
    (section,) = (each for each in document.sections if each.title == "In turns")
    (line,) = section.lines
    assert line == (
        "litert/cpu against onnxruntime/cpu: while others used 50 % of the processors, the ratio was 2.00 by processor "
        "time, but 3.00 by the mean; the interval spans all"
    )
    assert not any("spans all" in each for each in document.answer)


def test_the_number_of_a_single_recommended_run_is_said_once():
    assert answer_of([make_run(1), failed_run()])[0] == (
        "Recommended: onnxruntime/cpu, latency 420 ± 11 µs, grade B; the only run that can be recommended"
    )


def with_phases(run, phases):
    """The run with a process of each of `phases`."""
    return replace(run, sessions=tuple(replace(run.sessions[0], phases=each) for each in phases))


def test_the_columns_of_a_start_up_are_all_of_its_parts():
    cold = make_run(1, startup=0.21, scenario=Scenario(kind="cold-start"))
    cold = with_phases(cold, [{"python": 0.02, "prepare": 0.01, "import": 0.1, "load": 0.02, "first": 0.0025}] * 3)
    table = bench_table([cold])
    cells = {column.title: cell.text for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert cells["Python (ms)"] == "30.0"
    assert [note for note in table.notes if "sum of its parts" in note]
    bare = bench_table([replace(cold, sessions=())])
    cells = {column.title: cell for column, cell in zip(bare.columns, bare.rows[0], strict=True)}
    assert cells["Python"].notes == ("the record has no times of the parts of a start-up",)
    assert not bare.notes and "Python (ms)" not in {column.title for column in bench_table([make_run(1)]).columns}


def test_a_start_up_says_that_inference_is_not_what_differs():
    starts = [
        make_run(number, runtime=runtime, startup=startup, scenario=Scenario(kind="cold-start"))
        for number, (runtime, startup) in enumerate((("onnxruntime", 0.21), ("openvino", 0.42)), 1)
    ]
    line = (
        "Of the start-up starting Python is 20 to 25 %, importing the engine is 60 to 62 %, loading the model is 10 to 12 % "
        "and the first inference is 1.2 to 10 %: inference is not what differs here"
    )
    quick, other = ([{"python": 0.02, "prepare": 0.02, "import": 0.12, "load": 0.02, "first": 0.02}],
                    [{"python": 0.02, "import": 0.05, "load": 0.01, "first": 0.001}] * 2)  # fmt: skip
    starts = [with_phases(run, phases) for run, phases in zip(starts, (quick, other), strict=True)]
    assert line in answer_of(starts)
    slow = with_phases(starts[0], [{"python": 0.02, "import": 0.05, "load": 0.03, "first": 0.15}])  # 60 %
    assert not any(told.startswith("Of the start-up") for told in answer_of([slow]))
    assert not any(told.startswith("Of the start-up") for told in answer_of([replace(starts[0], measurements=())]))
    assert not any(told.startswith("Of the start-up") for told in answer_of([make_run(1)]))


def test_threads_decide_before_a_grade_that_turns_make_no_matter():
    """The run with one thread had grade D alone, turns told no difference, and two threads were recommended."""
    one, two = of_threads(1, 1, 2.0e-3, grade="D"), of_threads(2, 2, 2.1e-3)
    two, one = turns_between(two, one, 1.05, "inconclusive", low=0.9, high=1.2)
    assert recommendation([one, two]).run == run_id(1)
    assert recommendation([replace(one, in_turns=()), replace(two, in_turns=())]).run == run_id(2)
    other = of_threads(3, 1, 2.1e-3, runtime="litert")
    other, one = turns_between(other, replace(one, in_turns=()), 1.05, "inconclusive", low=0.9, high=1.2)
    assert recommendation([one, other]).run == run_id(3)  # as many threads: the grade decides


@pytest.mark.parametrize(("high", "noted"), [(0.97, True), (1.01, False)])
def test_a_place_that_is_shared_though_a_ratio_leaves_out_1_says_why(high, noted):
    one, two = make_run(1, latency=1e-4, half=2e-5), make_run(2, latency=1.1e-4, half=2e-5, model=VWW)
    notes = ranking_table(turns_between(one, two, 0.9, "inconclusive", low=0.84, high=high)).notes
    assert notes[0] == "models that share a place: none is proven faster than another"
    why = "a ratio within a place may leave out 1: its 95 % interval is narrower than what a proof takes"
    assert (why in notes) == noted
