"""Which run is recommended, and what is said for and against it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.record import Caution, InTurns, Scenario, Trust
from edgewise.report.candidates import comparable_groups, finalists
from edgewise.report.recommendation import answer_of, recommendation, recommendations
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
            "1.4× faster than fake/cpu (median latency 231 µs against 330 µs); the 95 % intervals don't overlap",
            "1.8× faster than onnxruntime/cpu (median latency 231 µs against 420 µs); the 95 % intervals don't overlap",
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
        "can't be told apart from onnxruntime/cpu in speed (median latency 420 µs against 400 µs): "
        "the 95 % intervals overlap",
        "least peak memory of those: 40.0 MB against onnxruntime/cpu 90.0 MB",
    )


def test_engines_are_compared_on_their_calls():
    """OpenVINO's own clock leaves out the Python call; LiteRT has no clock of its own."""
    litert = make_run(1, runtime="litert", latency=2.03e-4, half=1e-6)
    openvino = make_run(2, runtime="openvino", latency=2.07e-4, half=1e-6)
    own = measured("latency_engine", 2.01e-4, half=1e-6)
    openvino = replace(openvino, measurements=(*openvino.measurements, own))
    found = recommendation([litert, openvino])
    assert found.run == run_id(1)
    assert found.why[0] == (
        "1.02× faster than openvino/cpu (median latency 203 µs against 207 µs); the 95 % intervals don't overlap"
    )


@pytest.mark.parametrize(
    ("code", "words"), [("overloaded", "left out: overloaded"), ("output-not-finite", "left out: outputs not finite")]
)
def test_a_run_that_does_not_do_its_work_is_never_recommended(code, words):
    run = with_caution(make_run(1), code, "as it were")
    assert recommendation([run]) is None
    assert words in recommendations([run])[0].why[0]


def test_where_memory_is_alike_start_up_decides():
    slow_start = make_run(1, latency=4.0e-4, half=3e-5, memory=40e6, startup=0.5)
    quick_start = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=41e6, startup=0.1)
    found = recommendation([slow_start, quick_start])
    assert found.run == run_id(2)
    assert "quickest start-up of those: 100 ms against onnxruntime/cpu 500 ms" in found.why


def test_memory_that_is_not_known_decides_nothing():
    fast = make_run(1, latency=4.0e-4, half=3e-5, startup=0.2)
    other = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=20e6, startup=0.2)
    unknown = tuple(
        missing("memory_peak", "no VmHWM") if row.metric == "memory_peak" else row for row in fast.measurements
    )
    found = recommendation([replace(fast, measurements=unknown), other])
    assert found.run == run_id(1)
    assert "chosen by its headline alone: no other measurement distinguishes these runs" in found.why


def test_without_intervals_nothing_is_told_apart():
    def bare(run):
        rows = tuple(replace(row, low=None, high=None) for row in run.measurements)
        return replace(run, measurements=rows)

    found = recommendation([bare(make_run(1, latency=1e-3)), bare(make_run(2, runtime="openvino", latency=1e-4))])
    assert any("there is no interval for both" in reason for reason in found.why)
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
    assert found.why[0] == "for kws.onnx, single-stream, batch 1; other models and scenarios are judged apart"
    assert [one.run for one in recommendations(all_runs())] == [run_id(2), run_id(5), run_id(6), run_id(7)]


def test_offline_runs_are_judged_by_throughput():
    slower = offline_run(8)
    rows = tuple(
        replace(row, value=1000.0, low=990.0, high=1010.0) if row.metric == "throughput" else row
        for row in slower.measurements
    )
    runtime = replace(slower.job.runtime, name="fake")
    slower = replace(slower, measurements=rows, job=replace(slower.job, runtime=runtime))
    found = recommendation([slower, offline_run(7)])
    assert found.run == run_id(7)
    assert found.why[0] == (
        "5.2× faster than fake/cpu (throughput 5200 /s against 1000 /s); the 95 % intervals don't overlap"
    )


def test_differing_precisions_and_uncompared_outputs_are_said():
    lone = replace(make_run(1), measurements=make_run(1).measurements[:-2])
    assert any("outputs were not compared" in reason for reason in recommendation([lone]).why)
    reduced = replace(make_run(2, runtime="openvino"), effective={"precision": "bf16", "threads": 1})
    assert "precisions differ: onnxruntime/cpu f32, openvino/cpu bf16" in recommendation([make_run(1), reduced]).why
    ungraded = replace(make_run(1), trust=None)
    assert "the run has no trust grade" in recommendation([ungraded]).why


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
    assert "fewest threads of those: 1 against onnxruntime/cpu · 2 threads 2" in found.why
    assert answer_of([one, two])[0].endswith("2 threads can't be told apart from it")
    better, lean = make_run(1, latency=1.42e-4, memory=60e6), make_run(2, runtime="litert", latency=1.37e-4, grade="C")
    found = recommendation([better, lean])
    assert found.run == run_id(1)
    assert "best grade of those: B against litert/cpu C" in found.why


def test_threads_that_win_say_what_they_cost():
    slow = make_run(1, latency=1.09e-4, half=1e-6)
    fast = make_run(2, latency=1.0e-4, half=1e-6, threads=2)
    assert answer_of([slow, fast])[0].endswith("2 threads: twice the cores for 1.09×")
    fast = make_run(2, latency=0.4e-4, half=1e-6, threads=6)
    assert "6 threads: 6 times the cores for 2.7×" in answer_of([slow, fast])[0]
    turned = in_turns(make_run(1, half=2e-4), make_run(2, half=2e-4, threads=2), r1=1.09, r2=1.0)
    assert "2 threads: twice the cores for 1.09× [1.07, 1.11]" in answer_of(turned)[0]


def test_what_turns_prove_outweighs_the_values_and_their_intervals():
    """The value with 2 threads is smaller, and in turns they are 1.14 times slower: two thirds of a noisy hour."""
    one, two = in_turns(make_run(1, latency=1.42e-4, half=8e-5), make_run(2, half=1e-6, latency=7.3e-5, threads=2),
                        r1=1.0, r2=1.14)  # fmt: skip
    found = recommendation([one, two])
    assert found.run == run_id(1)
    assert (
        found.why[0].startswith("1.14× [1.1")
        and "faster than onnxruntime/cpu · 2 threads, measured in turns" in found.why[0]
    )
    assert "2 threads are 1.14× [1.1" in answer_of([one, two])[0]
    one, two = in_turns(make_run(1, half=2e-4), make_run(2, half=2e-4, runtime="litert"), r1=1.0, r2=1.5)
    assert "litert/cpu is 1.50× [1.48, 1.52] slower" in answer_of([two, one])[0]


def test_throughputs_in_turns_are_better_high():
    one, two = offline_run(7), offline_run(8)
    two = replace(two, job=replace(two.job, runtime=replace(two.job.runtime, name="litert")))
    low = InTurns(against=run_id(8), ratio=2.0, low=1.9, high=2.1, verdict="faster", method="5 pairs")
    high = InTurns(against=run_id(7), ratio=0.5, low=1 / 2.1, high=1 / 1.9, verdict="slower", method="5 pairs")
    runs = [replace(one, in_turns=(low,)), replace(two, in_turns=(high,))]
    assert recommendation(runs).run == run_id(7)
    assert recommendation(runs).why[0].startswith("2.00× [1.90, 2.10] faster than litert")
    assert "slower" in answer_of(runs)[0] and "2.00× [1.90, 2.10]" in answer_of(runs)[0]


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


def test_a_run_that_took_no_turns_is_no_peer_of_those_that_did():
    """There were too many finalists; the one that was left out was slower than they, with fewer threads."""
    left_out = make_run(3, latency=4.4e-4, half=5e-5)
    runs = in_turns(make_run(1, threads=2, half=5e-5), make_run(2, threads=4, half=5e-5), r1=1.0, r2=1.2)
    assert recommendation([*runs, left_out]).run == run_id(1)


def test_of_several_files_the_first_line_has_engine_and_threads_and_what_the_second_engine_costs():
    runs = [
        make_run(1, latency=1e-4, half=1e-6, runtime="litert"),
        make_run(2, latency=2e-4, half=1e-6, runtime="litert", threads=2),
        make_run(3, latency=3e-4, half=1e-6, model=VWW, runtime="litert"),
        make_run(4, latency=1.5e-4, half=1e-6),
    ]
    (fastest, *_) = answer_of(runs)
    assert fastest == (
        "Fastest: kws.onnx on litert with 1 thread, 100 ± 1 µs; 2 threads are 2.0× slower; "
        "next vww.tflite on litert, 300 ± 1 µs (3.0× slower); kws.onnx on onnxruntime is 1.5× slower"
    )
