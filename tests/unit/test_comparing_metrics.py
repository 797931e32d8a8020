"""Runs against runs: which evidence a ratio has, which rows there are, and what it comes to."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from comparable_runs import apart, compare, noise, only, pair_of, row_of, run_of
from edgewise.comparing.comparison import Variant
from edgewise.comparing.criteria import METRICS_COMPARED, Criteria, check_criteria
from edgewise.comparing.metrics import compare_pairs, compare_runs, contrast_of
from edgewise.errors import BadInput
from edgewise.record import Caution, Scenario, Trust, Variation
from edgewise.run.variation import FLOOR
from edgewise.stats.comparison import LOOKS, RISK_FACTOR, replicates_to_decide
from edgewise.store.codec import from_document, to_document
from messages import says, wording
from sample_runs import failed_run, make_run, measured, missing, offline_run, paced_run

NO_FLOOR = {"latency": 0.0, "memory_peak": 0.0}


# Designs


def test_processes_that_took_turns_are_pairs():
    a, b = noise(8, seed=1), noise(8, seed=2, scale=1.05e-3)
    (row,) = compare_runs(pair_of("latency", a, b), Criteria(metrics=("latency",)))
    oracle = scipy.stats.ttest_rel(np.log(b), np.log(a))
    assert row.ratio == pytest.approx(scipy.stats.gmean(np.divide(b, a)))
    assert row.p_value == row.p_adjusted == pytest.approx(oracle.pvalue * RISK_FACTOR)
    assert (row.design, row.verdict, row.word, row.because) == ("interleaved", "slower", "slower", "")
    assert row.low < row.ratio < row.high
    assert (row.before.replicates, row.after.replicates, row.margin) == (8, 8, 0.03)
    assert "8 pairs" in row.method
    assert (row.a, row.b) == ("before", "after")


def test_stored_runs_that_ran_at_once_are_no_pairs():
    (row,) = compare_runs(pair_of("latency", noise(5, seed=1), noise(5, seed=2), interleave="duet"), Criteria())
    assert (row.design, row.verdict) == ("sessions", "same")


def test_runs_apart_are_groups_and_commands_differ():
    a, b = noise(5, seed=1), noise(6, seed=2, scale=1.2e-3)
    found = contrast_of(*apart("latency", a, b), "latency")
    logs = [np.log(values) for values in (a, b)]
    welch = math.sqrt(sum(part.var(ddof=1) / len(part) for part in logs))
    error = math.sqrt(welch**2 + 2 * FLOOR**2)
    assert found.contrast.error == pytest.approx(error)
    # Welch's degrees for the part that was estimated; the part that is known adds none of its own error.
    degrees = scipy.stats.ttest_ind(*logs, equal_var=False).df * (error / welch) ** 4
    assert found.contrast.degrees == pytest.approx(degrees)
    assert (found.design, found.contrast.sequential) == ("sessions", False)
    assert "0.07% (1 σ) between runs" in found.contrast.method


def test_runs_apart_differ_by_what_their_machines_vary_by():
    a, b = (
        replace(run, variation=Variation(sigma=sigma, degrees=None, source="learnt", method="test"))
        for run, sigma in zip(apart("latency", noise(5, seed=1), noise(5, seed=2)), (0.02, 0.01), strict=True)
    )
    plain = contrast_of(*apart("latency", noise(5, seed=1), noise(5, seed=2)), "latency").contrast
    found = contrast_of(a, b, "latency").contrast
    added = math.hypot(0.02, 0.01, FLOOR, FLOOR)
    assert found.error**2 - plain.error**2 == pytest.approx(added**2 - 2 * FLOOR**2, rel=1e-6)
    one_command = contrast_of(replace(a, group="g"), replace(b, group="g"), "latency").contrast
    assert one_command.error == pytest.approx(found.error)  # one after the other is apart too


def test_no_verdict_on_a_time_rests_on_a_run_of_grade_d_that_was_measured_apart():
    """Four times as slow is no proof where the run itself may be off by more than two; turns are free of that."""
    bad = Trust(grade="D", reasons=("the interval spans more than a factor of 2 (at best D)", "too busy (at best C)"))
    a, b = apart("latency", noise(5, seed=1), noise(5, seed=2, scale=4e-3))
    for runs in ((replace(a, trust=bad), b), (a, replace(b, trust=bad))):
        row = only(*runs, metric="latency")
        assert row.verdict == "inconclusive" and row.ratio == pytest.approx(4.0, rel=0.1)
        assert row.because.endswith("has grade D: the interval spans more than a factor of 2")
    quoted = [run_of(measured("latency", n * 1e-3, half=1e-6), number=n, group=f"g{n}") for n in (1, 4)]
    assert only(*quoted, metric="latency").verdict == "slower"
    assert only(*(replace(run, trust=bad) for run in quoted), metric="latency").verdict == "inconclusive"
    assert only(a, replace(b, trust=replace(bad, grade="C")), metric="latency").verdict == "slower"
    turns = pair_of("latency", noise(5, seed=1), noise(5, seed=2, scale=4e-3))
    rows = compare_runs([replace(each, run=replace(each.run, trust=bad)) for each in turns], Criteria())
    assert [row.verdict for row in rows] == ["slower"]
    sizes = [replace(run_of(measured("model_size", 1e6 * n), number=n), trust=bad, group=f"g{n}") for n in (1, 2)]
    assert only(*sizes, metric="model_size").verdict == "slower"


def test_a_very_wide_interval_of_the_latency_leaves_other_times_their_verdicts():
    bad = Trust(grade="D", reasons=("the interval spans more than a factor of 2 (at best D)",))
    wide = Caution.of("very-wide-interval", "the interval spans more than a factor of 2")
    few = Caution.of("too-few-samples", "1 sample")
    loads = (noise(5, seed=3), noise(5, seed=4, scale=4e-3))
    a, b = (
        replace(run, measurements=(*run.measurements, row_of("load_time", [[value] for value in load])), trust=bad)
        for run, load in zip(apart("latency", noise(5, seed=1), noise(5, seed=2, scale=4e-3)), loads, strict=True)
    )
    for codes, load in (((wide,), "slower"), ((wide, few), "inconclusive"), ((), "inconclusive")):
        runs = [replace(run, cautions=codes) for run in (a, b)]
        assert only(*runs, metric="latency").verdict == "inconclusive"
        assert only(*runs, metric="load_time").verdict == load


def test_memory_does_not_drift_between_commands():
    a, b = noise(5, seed=1), noise(5, seed=2)
    welch = math.sqrt(sum(np.log(values).var(ddof=1) / 5 for values in (a, b)))
    assert contrast_of(*apart("memory_peak", a, b), "memory_peak").contrast.error == pytest.approx(welch)


def test_runs_of_one_command_one_after_the_other_are_groups_without_a_drift_between_commands():
    a, b = (variant.run for variant in pair_of("latency", noise(5, seed=1), noise(5, seed=2), interleave=None))
    found = contrast_of(a, b, "latency")
    assert found.design == "sessions"
    assert "commands" not in found.contrast.method


@pytest.mark.parametrize("change", ["group", "no group", "way", "count"])
def test_only_what_took_turns_is_paired(change):
    a, b = (variant.run for variant in pair_of("latency", noise(5, seed=1), noise(5, seed=2)))
    assert contrast_of(a, b, "latency").design == "interleaved"
    if change == "group":
        b = replace(b, group="another")
    elif change == "no group":
        a, b = replace(a, group=None), replace(b, group=None)
    elif change == "way":
        b = replace(b, job=replace(b.job, workload=replace(b.job.workload, interleave="duet")))
    else:
        b = replace(b, sessions=b.sessions[:4])
    found = contrast_of(a, b, "latency")
    assert found.design == "sessions"
    assert found.contrast.sequential == (change == "count")  # its own results decided when that command stopped


def test_a_metric_that_not_every_process_tells_is_not_paired():
    sessions = [[1.0], [1.01], [0.99], [1.0]]
    a, b = (run_of(row_of("latency", sessions), number=n, interleave="turns", processes=5) for n in (1, 2))
    found = contrast_of(a, b, "latency")
    assert (found.design, found.contrast.sequential) == ("sessions", True)
    assert "several looks" in found.contrast.method


@pytest.mark.parametrize("sessions", [[[1.0, 1.1, 0.9]], [[1.0], [1.2], [0.8]], [[0.0]]])
@pytest.mark.parametrize("metric", ["latency", "throughput", "error_rate"])
def test_a_run_against_itself_is_the_same_by_definition(metric, sessions):
    run = run_of(row_of(metric, sessions), processes=len(sessions))
    again = from_document(to_document(run))  # the same run, read from a file
    row = only(run, again, metric=metric)
    assert (row.verdict, row.design, row.ratio, row.low, row.high) == ("same", "same-run", 1.0, 1.0, 1.0)
    assert row.method == wording("same-run-ratio-1-definition") and not row.because
    assert (row.p_value, row.p_adjusted, row.decides_in_s) == (None, None, None)


def test_another_run_of_the_same_numbers_is_another_run():
    a, b = (run_of(row_of("latency", [[1.0, 1.1, 0.9]]), number=n, processes=1) for n in (1, 2))
    assert only(a, b, metric="latency").verdict == "inconclusive"


def test_what_a_run_does_not_tell_it_does_not_share_with_itself():
    run = run_of(row_of("latency", [[1.0]]), processes=1)
    row = only(run, run, metric="throughput")
    assert (row.verdict, row.ratio) == ("inconclusive", None) and row.because


def test_sizes_are_exact():
    a, b = (run_of(measured("model_size", size)) for size in (1_000_000.0, 1_250_000.0))
    row = only(a, b, metric="model_size")
    assert (row.ratio, row.low, row.high) == pytest.approx((1.25, 1.25, 1.25))
    assert (row.design, row.verdict, row.word) == ("exact", "slower", "larger")
    assert (row.p_value, row.p_adjusted) == (None, None)  # nothing was tested
    assert only(a, a, metric="model_size").verdict == "same"
    assert only(b, a, metric="model_size").word == "smaller"
    nearly = run_of(measured("model_size", 1_020_000.0))
    assert only(a, nearly, metric="model_size").verdict == "same"  # a difference within the threshold


def test_an_estimated_size_is_not_exact():
    guess = replace(measured("flash", 1000.0), basis="estimated")
    row = only(run_of(guess), run_of(replace(guess, value=2000.0)), metric="flash")
    assert (row.ratio, row.low, row.verdict) == (pytest.approx(2.0), None, "inconclusive")
    assert "no interval" in row.because


def test_accuracies_are_compared_by_their_intervals():
    a = run_of(measured("accuracy_top1", 0.90, half=0.005))
    b = run_of(measured("accuracy_top1", 0.80, half=0.005))
    row = only(a, b, metric="accuracy_top1")
    halves = math.hypot(-math.log(1 - 0.005 / 0.9), -math.log(1 - 0.005 / 0.8))
    assert (row.low, row.high) == pytest.approx((0.8 / 0.9 * math.exp(-halves), 0.8 / 0.9 * math.exp(halves)))
    assert (row.design, row.verdict, row.word) == ("intervals", "slower", "worse")
    assert only(b, a, metric="accuracy_top1").verdict == "faster"


def test_more_throughput_is_faster():
    a, b = noise(5, seed=1, scale=100.0), noise(5, seed=2, scale=120.0)
    runs = apart("throughput", a, b, scenario=Scenario(kind="offline"))
    row = only(*runs, metric="throughput")
    assert (row.verdict, row.word, row.ratio > 1.0) == ("faster", "faster", True)


def test_intervals_of_too_few_processes_decide_nothing():
    quoted = measured("latency", 1e-3, half=1e-6)
    slower = measured("latency", 2e-3, half=1e-6)
    one, five = run_of(quoted, processes=1), run_of(slower, processes=5)
    row = only(one, five, metric="latency")
    assert (row.verdict, row.design, row.p_value) == ("inconclusive", "intervals", None)
    assert row.because == "the interval of before is that of one process: how far processes differ is not known"
    assert "leave out" in row.method
    assert row.low == pytest.approx(2.0, rel=0.01)
    assert only(run_of(quoted), five, metric="latency").verdict == "slower"
    assert wording("unknown-number") in only(run_of(quoted, processes=0), five, metric="latency").because


def test_an_interval_over_arrivals_decides_nothing():
    row = only(
        run_of(measured("deadline_miss_rate", 0.1, half=0.001)),
        run_of(measured("deadline_miss_rate", 0.2, half=0.001)),
        metric="deadline_miss_rate",
    )
    assert row.verdict == "inconclusive"
    assert "counts arrivals" in row.because


def test_an_interval_that_reaches_zero_gives_a_ratio_alone():
    row = only(
        run_of(measured("error_rate", 0.01, half=0.01)),
        run_of(measured("error_rate", 0.02, half=0.01)),
        metric="error_rate",
    )
    assert row.ratio == pytest.approx(2.0)
    assert (row.low, row.p_value, row.verdict) == (None, None, "inconclusive")
    assert row.because == "error_rate of before has no interval above zero"
    assert (row.before.low, row.after.low) == (0.0, 0.01)


def test_a_number_without_an_interval_gives_a_ratio_alone():
    row = only(
        run_of(measured("idle_gap_penalty", 1.5)), run_of(measured("idle_gap_penalty", 3.0)), metric="idle_gap_penalty"
    )
    assert (row.ratio, row.low, row.high, row.verdict) == (pytest.approx(2.0), None, None, "inconclusive")
    assert "has no interval" in row.because


# Few processes


def test_one_process_each_quotes_the_interval_within_and_decides_nothing():
    samples = noise(400, seed=1)
    a, b = (
        replace(row_of("latency", [[factor * one for one in samples]]), low=factor * 0.99e-3, high=factor * 1.01e-3)
        for factor in (1.0, 1.5)
    )
    for way in (None, "turns"):
        row = only(*(run_of(one, processes=1, interleave=way) for one in (a, b)), metric="latency")
        assert row.ratio == pytest.approx(1.5)
        assert 1.0 < row.low < row.ratio < row.high
        assert (row.verdict, row.p_value, row.design) == ("inconclusive", None, "intervals")
        assert "too few" in row.because
        assert "leave out, wholly or in part, how far fresh processes differ" in row.method


def test_one_sample_in_all_gives_a_ratio_without_an_interval():
    row = only(*apart("latency", [1e-3], [2e-3]), metric="latency")
    assert (row.ratio, row.low, row.high, row.verdict) == (pytest.approx(2.0), None, None, "inconclusive")
    assert row.because == "one sample of before and of after"
    programs = [replace(run, job=replace(run.job, command=("a.sh",))) for run in apart("latency", [1e-3], [2e-3])]
    told = only(*programs, metric="latency").because
    assert told == "one sample of before and of after: exec with --repeat 3 or more gives several"
    other = run_of(row_of("latency", [noise(50, seed=1)]), processes=1)
    assert only(apart("latency", [1e-3], [1e-3])[0], other, metric="latency").because == wording(
        "one-sample", alone="before", more=""
    )


def test_two_processes_of_a_side_have_an_interval_and_no_verdict():
    row = only(*apart("latency", noise(2, seed=1), noise(5, seed=2, scale=2e-3)), metric="latency")
    assert row.low < 2.0 < row.high
    assert (row.verdict, row.p_value) == ("inconclusive", None)
    assert row.because == "only two processes on one side: too few"
    row = only(*apart("latency", noise(2, seed=1), noise(2, seed=2, scale=2e-3)), metric="latency")
    assert row.because == "only two processes on each side: too few"


def test_one_process_against_several():
    many = [noise(100, seed=seed) for seed in range(5)]
    alone = run_of(row_of("latency", [noise(100, seed=9, scale=2e-3)]), processes=1, group="other")
    row = only(run_of(row_of("latency", many)), alone, metric="latency")
    assert (row.verdict, row.design) == ("slower", "sessions")
    short = run_of(row_of("latency", [noise(3, seed=9, scale=2e-3)]), processes=1, group="other")
    row = only(run_of(row_of("latency", many)), short, metric="latency")
    assert row.verdict == "inconclusive"
    assert "the only process of after has 3 samples" in row.because


# Rows


def test_rows_are_those_that_one_run_tells():
    rows = compare(make_run(1), make_run(2, latency=8e-4))
    assert [row.metric for row in rows] == ["latency", "latency_p99", "throughput", "memory_peak", "model_size"]
    assert {row.metric for row in rows} <= set(METRICS_COMPARED)
    assert {row.metric: row.word for row in rows} == {
        "latency": "slower",
        "latency_p99": "inconclusive",
        "throughput": "slower",
        "memory_peak": "same",
        "model_size": "same",
    }


@pytest.mark.parametrize(("run", "headline"), [(paced_run(), "latency_paced"), (offline_run(), "throughput")])
def test_the_headline_comes_first(run, headline):
    rows = compare(run, run)
    assert rows[0].metric == headline
    assert len({row.metric for row in rows}) == len(rows)


def test_every_later_variant_is_held_against_the_first():
    rows = compare(make_run(1), make_run(2), make_run(3), metrics=("memory_peak", "latency", "memory_peak"))
    assert [(row.a, row.b, row.metric) for row in rows] == [
        ("before", b, metric) for b in ("after", "third") for metric in ("memory_peak", "latency")
    ]


def test_the_correction_is_over_all_rows_that_were_tested():
    columns = {"latency": 1.012, "memory_peak": 1.011, "load_time": 1.013}
    runs = []
    for number in (1, 2):
        rows = [
            row_of(metric, [[v * (factor if number == 2 else 1.0)] for v in noise(8, seed=seed)])
            for seed, (metric, factor) in enumerate(columns.items(), start=10 * number)
        ]
        rows += [measured("model_size", 100.0 * number), measured("idle_gap_penalty", 1.5)]
        runs.append(run_of(*rows, processes=8, interleave="turns"))
    found = compare(*runs, metrics=(*columns, "model_size", "idle_gap_penalty", "energy"))
    tested = sorted((row for row in found if row.p_value is not None), key=lambda row: row.p_value)
    assert {row.metric for row in tested} == set(columns)
    expected, highest = [], 0.0
    for factor, row in zip((3, 2, 1), tested, strict=True):
        highest = max(highest, min(1.0, factor * row.p_value))
        expected.append(highest)
    assert [row.p_adjusted for row in tested] == pytest.approx(expected)
    assert tested[0].p_adjusted > tested[0].p_value
    assert all(row.p_adjusted is None for row in found if row.metric not in columns)


def test_the_floor_widens_the_margin():
    (row,) = compare_runs(pair_of("latency", [1e-6] * 5, [1.15e-6] * 5), Criteria(metrics=("latency",)))
    assert (row.margin, row.verdict) == (pytest.approx(0.2), "same")  # 0.2 µs of 1 µs
    criteria = Criteria(metrics=("latency",), floors=NO_FLOOR)
    (row,) = compare_runs(pair_of("latency", [1e-6] * 5, [1.15e-6] * 5), criteria)
    assert (row.margin, row.verdict) == (0.03, "slower")


def test_an_interval_without_1_that_proves_nothing_yet_says_why():
    a, b = [1e-3, 1.02e-3, 1e-3, 1.01e-3, 1e-3], [0.9e-3, 0.97e-3, 0.84e-3, 0.99e-3, 0.91e-3]
    (row,) = compare_runs(pair_of("latency", a, b), Criteria(metrics=("latency",)))
    assert row.verdict == "inconclusive" and row.high < 1.0
    assert row.because == (
        "not yet proven: a difference, or equality within 3 %; the 95 % interval leaves 1 out, but a proof takes "
        "the 99 % interval over all metrics, 0.746 to 1.122"
    )
    assert (round(row.proof_low, 3), round(row.proof_high, 3)) == (0.747, 1.121)
    assert row.proof_of(row.a) == (1.0 / row.proof_high, 1.0 / row.proof_low)


def test_an_open_question_tells_how_long_it_would_take():
    a, b = noise(5, seed=3, sigma=0.05), noise(5, seed=4, sigma=0.05, scale=1.05e-3)
    variants = pair_of("latency", a, b)
    (row,) = compare_runs(variants, Criteria(metrics=("latency",)), seconds_per_pair=2.0)
    contrast = contrast_of(variants[0].run, variants[1].run, "latency").contrast
    assert row.verdict == "inconclusive"
    assert row.because == wording("not-yet-proven-difference-equality", margin=3)
    assert replicates_to_decide(contrast, margin=0.03) == 38
    assert row.decides_in_s == 2.0 * (40 - 5)  # the next look after 38 pairs
    (row,) = compare_runs(variants, Criteria(metrics=("latency",)))
    assert row.decides_in_s is None


@pytest.mark.parametrize(("factor", "pairs", "wait"), [(0.98, 81, 2.0 * (90 - 5)), (0.975, 106, None)])
def test_no_time_is_told_where_more_pairs_would_be_needed_than_there_ever_are(factor, pairs, wait):
    """The last look comes after 90 pairs: 81 are decided there, 106 never."""
    a, b = noise(5, seed=3, sigma=0.05), noise(5, seed=4, sigma=0.05, scale=1.05e-3)
    variants = pair_of("latency", a, [value * factor for value in b])
    (row,) = compare_runs(variants, Criteria(metrics=("latency",)), seconds_per_pair=2.0)
    contrast = contrast_of(variants[0].run, variants[1].run, "latency").contrast
    assert (LOOKS[-1], replicates_to_decide(contrast, margin=0.03)) == (90, pairs)
    assert (row.verdict, row.decides_in_s) == ("inconclusive", wait)


def test_no_time_is_told_of_runs_that_can_not_go_on_and_of_rows_that_are_decided():
    open_row = only(
        *apart("latency", noise(5, seed=3, sigma=0.05), noise(5, seed=4, sigma=0.05)),
        metric="latency",
        seconds_per_pair=1.0,
    )
    assert (open_row.verdict, open_row.decides_in_s) == ("inconclusive", None)
    (done,) = compare_runs(
        pair_of("latency", [1.0] * 5, [1.0] * 5), Criteria(metrics=("latency",)), seconds_per_pair=1.0
    )
    assert (done.verdict, done.decides_in_s) == ("same", None)
    (done,) = compare_runs(
        pair_of("latency", [1.0] * 5, [2.0] * 5), Criteria(metrics=("latency",)), seconds_per_pair=1.0
    )
    assert (done.verdict, done.decides_in_s) == ("slower", None)


# Bad input


def test_a_metric_that_one_side_lacks():
    a = run_of(missing("energy", "rapl: no domain"))
    b = run_of(row_of("energy", [[0.1]] * 5))
    row = only(a, b, metric="energy")
    assert (row.ratio, row.because, row.after.value) == (None, "before has no energy: rapl: no domain", 0.1)
    row = only(run_of(), a, metric="energy")
    assert row.because == "before has no energy; after has no energy: rapl: no domain"


def test_energies_of_meters_that_see_different_parts_are_not_compared():
    def one(number, words):
        return run_of(
            replace(row_of("energy", [[0.1, 0.11]] * 5), method=f"sensor; {words}; mean of 6 pairs"), number=number
        )

    battery, rapl = one(1, "sees everything that the supply feeds"), one(2, "sees the processor, not the board")
    assert only(battery, rapl, metric="energy").because == (
        "energy of different meters; that of before: sees everything that the supply feeds; that of after: sees the processor"
    )
    assert only(rapl, one(3, "sees the processor"), metric="energy").ratio == pytest.approx(1.0)
    assert only(rapl, one(3, "any"), metric="energy").ratio == pytest.approx(1.0)  # a record of another tool


def test_a_failed_run_is_told_in_every_row():
    rows = compare(make_run(1), failed_run(2, message="no kernel\nfor 'Einsum'"))
    assert len(rows) >= 4
    assert {row.because for row in rows} == {"after failed: no kernel for 'Einsum'"}
    assert {(row.ratio, row.verdict, row.after.value) for row in rows} == {(None, "inconclusive", None)}
    both = compare(failed_run(1), replace(failed_run(2), failure=None))
    assert [row.metric for row in both] == ["latency"]
    assert both[0].because.endswith("after failed: no reason is on record")


def test_words_that_are_no_metrics():
    with pytest.raises(BadInput, match=says("unknown-metric", metric="latncy")) as caught:
        compare(make_run(1), make_run(2), metrics=("latncy",))
    assert "latency" in caught.value.advice
    with pytest.raises(BadInput, match=says("unknown-metric")) as caught:
        contrast_of(make_run(1), make_run(2), "@@@@")
    assert "one of: latency" in caught.value.advice
    with pytest.raises(BadInput, match=says("neither-better-high-nor-low-in-criteria")):
        compare(make_run(1), make_run(2), metrics=("latency", "macs"))


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ({"metrics": ("latncy",)}, says("unknown-metric", metric="latncy")),
        ({"front": ("latency", "macs")}, says("neither-better-high-nor-low-in-criteria", metric="macs")),
        ({"threshold": -0.01}, says("threshold-must-number-least-0", threshold="-0.01")),
        ({"threshold": math.nan}, says("threshold-must-number-least-0", threshold="nan")),
        ({"threshold": math.inf}, says("threshold-must-number-least-0", threshold="inf")),
        ({"floors": {"latncy": 1e-6}}, says("unknown-metric", metric="latncy")),
        ({"floors": {"latency": -1e-6}}, says("floor-must-number-least-0", metric="latency", floor="-1e-06")),
        ({"floors": {"memory_peak": math.nan}}, says("floor-must-number-least-0", metric="memory_peak", floor="nan")),
        ({"floors": {"latency": math.inf}}, says("floor-must-number-least-0", metric="latency", floor="inf")),
    ],
)
def test_terms_that_make_no_sense_are_refused(criteria, words):
    with pytest.raises(BadInput, match=words) as caught:
        check_criteria(Criteria(**criteria))
    assert caught.value.advice


def test_terms_that_make_sense_are_left_alone():
    check_criteria(Criteria())
    check_criteria(
        Criteria(threshold=0.0, floors={"latency": 0.0, "memory_peak": 1e9}, front=("latency", "model_size"))
    )


def test_a_comparison_needs_two_names():
    with pytest.raises(BadInput, match=says("comparison-needs-two-variants-least")):
        compare(make_run(1))
    same = Variant(label="a", run=make_run(1))
    with pytest.raises(BadInput, match=says("two-variants-called", label="a")):
        compare_runs([same, same], Criteria())


# Properties

TIMES = st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=12)


@st.composite
def two_sides(draw):
    a = draw(TIMES)
    b = draw(st.lists(st.floats(1e-6, 1.0), min_size=len(a), max_size=len(a)))
    if draw(st.booleans()):  # near each other, so that every verdict comes up
        b = [value * (1.0 + 0.1 * other) for value, other in zip(a, b, strict=True)]
    return a, b


OPPOSITE = {"faster": "slower", "slower": "faster", "same": "same", "inconclusive": "inconclusive"}


@settings(max_examples=20, deadline=None)
@given(sides=two_sides(), interleave=st.sampled_from([None, "turns"]))
def test_swapping_the_sides_inverts_everything(sides, interleave):
    criteria = Criteria(metrics=("latency",), floors=NO_FLOOR)
    variants = pair_of("latency", *sides, interleave=interleave)
    there, back = compare_pairs(variants, [(0, 1), (1, 0)], ("latency",), criteria=criteria)
    assert back.ratio == pytest.approx(1.0 / there.ratio)
    assert back.low == pytest.approx(1.0 / there.high)
    assert back.high == pytest.approx(1.0 / there.low)
    assert back.p_value == pytest.approx(there.p_value, abs=1e-12)
    if there.p_adjusted == pytest.approx(0.01, rel=1e-6):
        return  # on the border rounding decides
    assert back.verdict == OPPOSITE[there.verdict]


@settings(max_examples=20, deadline=None)
@given(sides=two_sides(), exponent=st.integers(-20, 20), interleave=st.sampled_from([None, "turns"]))
def test_the_unit_does_not_matter(sides, exponent, interleave):
    criteria = Criteria(metrics=("latency",), floors=NO_FLOOR)
    factor = 2.0**exponent
    (there,) = compare_runs(pair_of("latency", *sides, interleave=interleave), criteria)
    scaled = [[value * factor for value in side] for side in sides]
    (here,) = compare_runs(pair_of("latency", *scaled, interleave=interleave), criteria)
    assert (here.ratio, here.low, here.high) == pytest.approx((there.ratio, there.low, there.high), rel=1e-6)
    assert here.p_value == pytest.approx(there.p_value, rel=1e-3, abs=1e-9)
    if there.p_adjusted == pytest.approx(0.01, rel=1e-3) or not min(there.high - there.low, 1.0) > 1e-9:
        return
    assert here.verdict == there.verdict


def test_an_unchanged_model_is_hardly_ever_faster_or_slower():
    source = np.random.default_rng(11)
    trials, alarms, same = 400, 0, 0
    for _ in range(trials):
        a, b = np.exp(0.01 * source.standard_normal((2, LOOKS[3]))) * 1e-3
        (row,) = compare_runs(pair_of("latency", list(a), list(b)), Criteria(metrics=("latency",)))
        alarms += row.verdict in ("faster", "slower")
        same += row.verdict == "same"
    assert alarms <= 4
    assert same >= 0.99 * trials


# Runs of few processes whose intervals are for a re-run, which has fresh ones

VARIES = Variation(sigma=0.01, degrees=None, source="learnt", method="of earlier runs")


def reruns(value: float, *, number: int, processes: int, variation: Variation | None = VARIES):
    row = replace(row_of("latency", [[value, value * 1.001]] * processes), low=value * 0.98, high=value * 1.02)
    run = run_of(row, measured("memory_peak", 1e6, half=1e3), number=number, processes=processes)
    return replace(run, variation=variation)


@pytest.mark.parametrize("processes", [(1, 1), (2, 2), (1, 2), (2, 5)])
def test_few_processes_decide_by_intervals_that_hold_for_a_re_run(processes):
    a, b = (reruns(value, number=n, processes=processes[n - 1]) for n, value in ((1, 1e-3), (2, 1.5e-3)))
    row = only(a, b, metric="latency")
    assert (row.verdict, row.design) == ("slower", "intervals")
    assert "the intervals are for a re-run, which has fresh ones" in row.method
    reach = math.hypot(*(math.log(side.value / side.low) for side in (row.before, row.after)))
    assert (row.low, row.high) == pytest.approx((row.ratio * math.exp(-reach), row.ratio * math.exp(reach)))
    close = reruns(1.02e-3, number=2, processes=processes[1])
    assert only(a, close, metric="latency").verdict == "inconclusive"
    unknown = reruns(1.5e-3, number=2, processes=processes[1], variation=None)
    assert only(a, unknown, metric="latency").verdict == "inconclusive"
    doubtful = replace(b, trust=Trust(grade="D"))
    assert only(a, doubtful, metric="latency").because == "after has grade D"


def test_a_floor_is_the_same_in_both_directions():
    """0.19 µs is below the floor of 0.2 µs, and 0.21 µs is above it, whichever side is the baseline."""
    for after, verdict in ((1.19e-6, "same"), (1.21e-6, "slower")):
        a, b = (run_of(row_of("latency", [[value]] * 5), number=n) for n, value in ((1, 1e-6), (2, after)))
        assert only(a, b, metric="latency").verdict == verdict
        assert only(b, a, metric="latency").verdict == {"slower": "faster"}.get(verdict, verdict)
