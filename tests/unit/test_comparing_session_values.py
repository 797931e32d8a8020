"""Which number stands for a process, percentiles of joined ones, and samples that can't be used."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from comparable_runs import compare, evidence, only, pair_of, row_of, run_of
from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import Side, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import OF_MEANS, compare_pairs, contrast_of
from edgewise.comparing.session_values import join_processes, scatter_of_processes
from edgewise.record import Disagreement, InTurns, Run, Scenario
from edgewise.report.comparison.document import disagreement_lines
from edgewise.report.comparison.tables import before_after_table
from edgewise.stats.between_runs import Scatter
from edgewise.stats.comparison import RISK_FACTOR, STOPPED_LEVEL, replicates_to_decide
from edgewise.stats.turns import MEAN
from edgewise.store.codec import from_document, to_document
from messages import has, says, wording
from sample_runs import measured, offline_run

# One number per process


def test_medians_of_processes():
    run = run_of(row_of("latency", [[1.0, 9.0, 2.0], [4.0, 6.0]]), processes=2)
    found = evidence(run, "latency")
    assert found.values == (2.0, 5.0)
    assert found.lengths == (3, 2)
    assert found.side == Side(value=4.0, replicates=2)


def test_scatter_of_processes_is_beyond_that_of_their_parts():
    fast, slow = [1.0] * 8, [2.0] * 8
    found = scatter_of_processes(run_of(row_of("latency", [fast, slow, fast]), processes=3))
    # logarithms 0, ln 2, 0
    assert found == Scatter(pytest.approx(math.log(2.0) ** 2 / 3), 2.0)
    # each process is more unsteady than they differ: it may be the machine
    unsteady = run_of(row_of("latency", [[scale, 3.0 * scale] * 4 for scale in (1.0, 1.1, 1.2)]), processes=3)
    assert scatter_of_processes(unsteady) is None
    assert scatter_of_processes(run_of(row_of("latency", [fast, slow]), processes=2)) is None


def test_a_pair_of_runs_varies_as_both_of_their_earlier_processes():
    a, b = pair_of("latency", [1e-3] * 5, [2e-3] * 5)
    variants = [replace(a, scatter=Scatter(0.01, 4.0)), replace(b, scatter=Scatter(0.02, 4.0))]
    (exact,) = compare_pairs([a, b], [(0, 1)], ["latency"], criteria=Criteria())
    (row,) = compare_pairs(variants, [(0, 1)], ["latency"], criteria=Criteria())
    assert (exact.low, exact.high) == pytest.approx((2.0, 2.0))
    # the pairs' variance of 0 has 4 degrees; that of both has 0.03² / (0.01² / 4 + 0.02² / 4) = 7.2
    variance, degrees = 0.03 * 7.2 / 11.2, 11.2
    reach = math.exp(scipy.stats.t.ppf(1 - (1 - STOPPED_LEVEL) / 2, degrees) * math.sqrt(variance / 5))
    assert (row.low, row.high) == pytest.approx((2.0 / reach, 2.0 * reach))
    assert (row.verdict, "other processes" in row.method) == ("slower", True)


def test_means_of_processes_where_the_catalogue_says_mean():
    assert evidence(run_of(row_of("energy", [[1.0, 2.0, 6.0], [4.0]])), "energy").values == (3.0, 4.0)


def test_pairs_of_windows_may_be_negative_and_processes_may_not():
    assert evidence(run_of(row_of("energy", [[1.0, -0.5, 1.0], [4.0]])), "energy").values == (0.5, 4.0)
    assert evidence(run_of(row_of("energy", [[1.0, -2.0], [4.0]])), "energy").absent.endswith(
        "not above 0 in every process"
    )
    assert re.search(
        says("not-positive-numbers-first"), evidence(run_of(row_of("latency", [[1.0, -0.5]])), "latency").absent
    )


def test_the_highest_of_each_process():
    assert evidence(run_of(row_of("temperature", [[310.0, 330.0, 320.0]])), "temperature").values == (330.0,)


def test_throughput_of_a_stream_is_batch_over_mean_time():
    rate = measured("throughput", 3.0, half=0.1)
    run = run_of(row_of("latency", [[1.0, 3.0], [4.0]]), rate, batch=8, processes=2)
    assert evidence(run, "throughput").values == (4.0, 2.0)
    wall = run_of(row_of("latency_engine", [[1.0]]), row_of("latency", [[2.0, 6.0]]), rate, batch=8, processes=1)
    found = evidence(wall, "throughput")  # the engine's own clock leaves out what passes between its inferences
    assert found.values == (2.0,)
    assert found.side == Side(value=3.0, low=2.9, high=3.1, replicates=1)


def beside_others(times: Sequence[float], work: float, *, number: int, others: float) -> Run:
    """Five processes with four inferences, each a turn of its own; processor time of each inference is `work`."""
    rows = [row_of("latency", [list(times)] * 5), measured("throughput", 1.0, half=0.1)]
    run = run_of(*rows, processes=5, interleave="turns", number=number)
    facts = {
        "steady": {
            "turns": [1] * 4,
            "turn_wall_ns": [round(one * 1e9) for one in times],
            "turn_processor_ns": [round(work * 1e9)] * 4,
        },
        "counters": {"busy_share_of_others": others, "steal_share": 0.0},
    }
    return replace(run, sessions=tuple(replace(each, facts=facts) for each in run.sessions))


def waiting(*, others: float = 0.9) -> tuple[Run, Run]:
    """1 ms of work against 3 ms, of which most inferences wait for 6 ms."""
    a = beside_others([1e-3, 1e-3, 1e-3, 7e-3], 1e-3, number=1, others=others)
    return a, beside_others([9e-3, 9e-3, 9e-3, 3e-3], 3e-3, number=2, others=others)


@pytest.mark.parametrize(("metric", "ratio", "off"), [("latency", 3.0, 9.0), ("throughput", 1 / 3, 1 / 9)])
def test_what_waited_is_compared_by_processor_time_in_time_and_rate(metric, ratio, off):
    row = only(*waiting(), metric=metric)
    assert row.ratio == pytest.approx(ratio)
    assert (row.low, row.high) == pytest.approx(sorted((ratio, off)))
    assert row.verdict == "slower"
    assert row.disagreement.quoted == "processor time"
    assert row.disagreement.ratios["neighbouring turns"] == pytest.approx(off)
    assert row.disagreement.others == pytest.approx(0.9)


def test_on_a_quiet_machine_times_are_compared_by_neighbours_and_rates_by_means():
    time, rate = (only(*waiting(others=0.01), metric=metric) for metric in ("latency", "throughput"))
    assert (time.ratio, rate.ratio) == pytest.approx((9.0, 1 / 3))
    assert time.disagreement is rate.disagreement is None


def test_one_line_tells_of_the_load_for_a_time_and_its_rate():
    variants = [Variant(label=name, run=run) for name, run in zip(("a", "b"), waiting(), strict=True)]
    findings = assess(variants, Criteria(metrics=("latency", "throughput")))
    assert disagreement_lines(findings) == [
        "Latency: while others used 90 % of the processors, the ratio was 3.00 by processor time, but 3.00 by mean time, "
        "4.80 by the shortest tenth and 9.00 by neighbouring turns; the interval spans all"
    ]


def test_both_times_and_their_ratio_are_of_one_statistic():
    """The medians are 1 and 9 ms, but the ratio is 3 by processor time."""
    variants = [Variant(label=name, run=run) for name, run in zip(("a", "b"), waiting(), strict=True)]
    findings = assess(variants, Criteria(metrics=("latency",)))
    assert findings.comparisons[0].after.value == variants[1].run.value("latency")
    (cells,) = before_after_table(findings, "b").rows
    assert [cell.text for cell in cells[1:3]] == ["1.00 ms", "3.00 ms"]
    assert [cell.notes for cell in cells[1:4]] == [
        ("by processor time, as the ratio is of that; the median is 1.00 ms",),
        ("by processor time, as the ratio is of that; the median is 9.00 ms",),
        (),
    ]
    by_mean = replace(findings.comparisons[0], disagreement=replace(findings.comparisons[0].disagreement, quoted=MEAN))
    (cells,) = before_after_table(replace(findings, comparisons=(by_mean,)), "b").rows
    assert [cell.value for cell in cells[1:3]] == pytest.approx([2.5e-3, 7.5e-3])
    for times in ("neighbouring turns", "something new"):
        other = replace(by_mean, disagreement=replace(by_mean.disagreement, quoted=times))
        (cells,) = before_after_table(replace(findings, comparisons=(other,)), "b").rows
        assert [cell.value for cell in cells[1:3]] == pytest.approx([1e-3, 9e-3])


@pytest.mark.parametrize("broken", [{"turn_wall_ns": [1]}, {"turn_processor_ns": [0] * 4}, {"turn_processor_ns": "x"}])
def test_processor_time_that_does_not_fit_the_turns_is_not_known(broken):
    a, b = waiting()
    facts = {**b.sessions[0].facts, "steady": {**b.sessions[0].facts["steady"], **broken}}
    b = replace(b, sessions=(replace(b.sessions[0], facts=facts), *b.sessions[1:]))
    assert only(a, b, metric="latency").disagreement.quoted == "mean time"


def test_a_disagreement_is_kept_in_the_record_of_both_sides():
    apart = Disagreement(quoted="processor time", ratios={"processor time": 4.0, "mean time": 2.0}, others=0.9)
    turns = InTurns(against="x", ratio=4.0, low=2.0, high=4.0, verdict="slower", method="turns", disagreement=apart)
    run = replace(run_of(measured("latency", 1.0)), in_turns=(turns,))
    assert from_document(to_document(run)).in_turns == (turns,)
    assert apart.inverse().ratios == {"processor time": 0.25, "mean time": 0.5}


def test_why_a_rate_may_be_open_where_the_latency_is_decided_is_said():
    pauses = (1e-3, 9e-3, 5e-3)
    a = in_turns(1, *[[(1e-3, 10)] * 20 for _ in pauses], others=0.0)
    b = in_turns(2, *[[(2e-3, 10)] * 19 + [(2e-3 + 30 * pause, 10)] for pause in pauses], others=0.0)
    a, b = (replace(run, measurements=(*run.measurements, measured("throughput", 500.0, half=9.0))) for run in (a, b))
    time, rate = (only(a, b, metric=metric) for metric in ("latency", "throughput"))
    assert (time.verdict, OF_MEANS in time.because) == ("slower", False)
    assert (rate.verdict, OF_MEANS in rate.because) == ("inconclusive", True)


def test_offline_throughput_is_the_harmonic_mean_of_windows():
    run = run_of(row_of("throughput", [[100.0, 300.0], [200.0]]), scenario=Scenario(kind="offline"))
    assert evidence(run, "throughput").values == pytest.approx((150.0, 200.0))


def test_samples_without_lengths_are_one_each_where_they_are_as_many_as_the_processes():
    row = replace(row_of("memory_peak", [[1.0], [2.0], [3.0]]), session_lengths=())
    assert evidence(run_of(row, processes=3), "memory_peak").values == (1.0, 2.0, 3.0)
    assert evidence(run_of(row, processes=2), "memory_peak").values == (2.0,)


def test_processes_are_joined_until_every_side_has_a_thousand_samples():
    assert join_processes([1000, 400, 600, 1200]) == [(0, 1), (1, 3), (3, 4)]
    assert join_processes([1000, 400, 600, 500]) == [(0, 1), (1, 4)]  # the rest belongs to the last
    assert join_processes([1000, 1000, 1000], [500, 500, 500]) == [(0, 3)]
    assert join_processes([999]) == []


# Turns


def in_turns(number: int, *processes: list[tuple[float, int]], others: float | None = None):
    """A run whose processes had these turns: (time of every inference, how many) each."""
    rows = [[time for time, count in turns for _ in range(count)] for turns in processes]
    run = run_of(row_of("latency", rows), processes=len(processes), interleave="turns", number=number)
    sessions = tuple(
        replace(
            record,
            facts={
                **record.facts,
                "steady": {"turns": [count for _, count in turns]},
                "counters": {"busy_share_of_others": others, "steal_share": 0.0},
            },
        )
        for record, turns in zip(run.sessions, processes, strict=True)
    )
    return replace(run, sessions=sessions)


BURST = [1.0, 1.0, 3.0, 3.0, 3.0]
"""How many times its usual time the machine makes an inference take, turn by turn."""


def burst(base: float, counts: list[int]) -> list[tuple[float, int]]:
    return [(base * factor, count) for factor, count in zip(BURST, counts, strict=False)]


def test_neighbouring_turns_give_the_ratio_where_bursts_move_the_medians_of_processes():
    """A infers mostly before the burst, B in it: the medians' ratio is 3.3, that of every two neighbours 1.1."""
    a = in_turns(1, *[burst(1e-3, [5, 5, 1, 1, 1])] * 3)
    b = in_turns(2, *[burst(base, [1, 1, 5, 5, 5]) for base in (1.1e-3, 1.09e-3, 1.12e-3)])
    found = contrast_of(a, b, "latency")
    assert np.divide(evidence(b, "latency").values, evidence(a, "latency").values) == pytest.approx([3.3, 3.27, 3.36])
    logs = np.log([1.1, 1.09, 1.12])
    assert found.contrast.log_ratio == pytest.approx(logs.mean(), rel=1e-12)
    assert found.contrast.error == pytest.approx(logs.std(ddof=1) / math.sqrt(3), rel=1e-9)
    assert (found.contrast.degrees, found.contrast.replicates, found.design) == (2.0, 3, "interleaved")
    assert found.contrast.method.startswith("median ratio of neighbouring turns in each pair; ")
    # What the two sides themselves are told to take stays their own.
    assert (found.before.value, found.after.value) == pytest.approx((1e-3, 3.3e-3))


def test_the_median_is_that_of_the_ratios_of_neighbours_and_turns_are_their_own_medians():
    """By neighbours 4, 1.1, 1.1, 0.5, 0.05; the medians of all turns are 4 ms on both sides. One wild inference of three
    does not move its turn."""
    a = in_turns(1, *[[(time, 3) for time in (1e-3, 2e-3, 4e-3, 8e-3, 16e-3)]] * 3, others=0.0)
    b = in_turns(2, *[[(time, 3) for time in (4e-3, 2.2e-3, 4.4e-3, 4e-3, 0.8e-3)]] * 3, others=0.0)
    row = b.measurements[0]
    samples = list(row.samples)
    samples[6] = 1.0  # the first of the third turn of the first process
    b = replace(b, measurements=(replace(row, samples=tuple(samples)),))
    assert contrast_of(a, b, "latency").contrast.ratio == pytest.approx(1.1, rel=1e-12)
    assert contrast_of(b, a, "latency").contrast.ratio == pytest.approx(1 / 1.1, rel=1e-12)


def test_turns_without_a_neighbour_do_not_count():
    """B was ended two turns early in one process, A in another: those that have a neighbour decide."""
    whole = [1e-3 * factor for factor in (1.0, 2.0, 4.0, 8.0, 16.0)]
    a = in_turns(1, [(time, 2) for time in whole], [(time, 2) for time in whole[:2]], [(time, 2) for time in whole])
    b = in_turns(
        2,
        [(time * 1.2, 2) for time in whole[:3]],
        [(time * 1.3, 2) for time in whole],
        [(time * 1.1, 2) for time in whole],
    )
    logs = np.log([1.2, 1.3, 1.1])
    contrast = contrast_of(a, b, "latency").contrast
    assert contrast.log_ratio == pytest.approx(logs.mean(), rel=1e-12)
    assert contrast.error == pytest.approx(logs.std(ddof=1) / math.sqrt(3), rel=1e-9)


@pytest.mark.parametrize("turns", [None, [5, 5, 1, 1], [5, 5, 1, 1, 1, 0], [13.0], ["13"], "13", [-1, 14]])
def test_turns_that_can_not_be_told_leave_the_medians_of_processes(turns):
    a = in_turns(1, *[burst(1e-3, [5, 5, 1, 1, 1])] * 3)
    b = in_turns(2, *[burst(1.1e-3, [1, 1, 5, 5, 1])] * 3)
    first = a.sessions[0]
    broken = replace(a, sessions=(replace(first, facts={"steady": {"turns": turns}}), *a.sessions[1:]))
    assert contrast_of(a, b, "latency").contrast.ratio == pytest.approx(1.1)
    found = contrast_of(broken, b, "latency")
    assert found.contrast.ratio == pytest.approx(3.3)
    assert (found.design, "neighbouring" in found.contrast.method) == ("interleaved", False)


# Percentiles


def tails(processes, *, seed, n=600, factor=1.0):
    source = np.random.default_rng(seed)
    return [[float(one) for one in factor * 1e-3 * np.exp(0.1 * source.standard_normal(n))] for _ in range(processes)]


def test_percentiles_of_paired_groups():
    a, b = tails(8, seed=1), tails(8, seed=2, n=1100, factor=1.5)  # A needs two processes for a thousand samples
    runs = [run_of(row_of("latency", one), processes=8, interleave="turns") for one in (a, b)]
    found = contrast_of(*runs, "latency_p99")
    p99 = [[np.percentile(np.concatenate(one[i : i + 2]), 99) for i in range(0, 8, 2)] for one in (a, b)]
    oracle = scipy.stats.ttest_rel(np.log(p99[1]), np.log(p99[0]))
    assert found.contrast.p_value == pytest.approx(oracle.pvalue * RISK_FACTOR)
    assert found.contrast.ratio == pytest.approx(scipy.stats.gmean(np.divide(p99[1], p99[0])))
    assert (found.contrast.replicates, found.processes_each, found.design) == (4, 2.0, "interleaved")
    assert found.before.value == pytest.approx(np.percentile(np.concatenate(a), 99))
    assert found.after.low < found.after.value < found.after.high
    assert "4 pairs of groups of fresh processes" in found.contrast.method


def test_percentiles_of_runs_apart_join_each_side_alone():
    runs = [
        run_of(row_of("latency", tails(k, seed=k, n=n)), processes=k, group=str(k)) for k, n in ((8, 600), (3, 2000))
    ]
    found = contrast_of(*runs, "latency_p99")
    assert (found.design, found.before.replicates, found.after.replicates) == ("sessions", 4, 3)
    assert "between runs" in found.contrast.method


def test_percentiles_of_too_few_samples_say_how_many_they_need():
    runs = [
        run_of(row_of("latency", tails(5, seed=seed, n=n)), processes=5, interleave="turns")
        for seed, n in ((1, 300), (2, 900))
    ]
    row = only(*runs, metric="latency_p99")
    assert (row.ratio, row.verdict, row.design, row.margin) == (None, "inconclusive", "none", None)
    assert re.search(
        says("ratio-99th-percentiles-needs-groups", least_replicates=3, least_for_percentile=1000), row.because
    )
    assert re.search(
        says(
            "samples-process",
            name=has("before"),
            sum=1500,
            lengths_count=5,
            value=says("samples-process", name="es, after", sum=4500, lengths_count=5, value=has("es")),
        ),
        row.because,
    )
    assert row.before.value is not None  # 1500 samples do give a percentile
    few = run_of(row_of("latency", [[1e-3] * 999]), processes=1)
    assert evidence(few, "latency_p99").side.value is None
    assert evidence(few, "latency_p99").absent == "A has 999 samples of latency, a 99th percentile needs 1000"


def test_percentiles_of_paced_runs_are_of_the_paced_latency():
    paced, busy = row_of("latency_paced", [[2.0] * 1000]), row_of("latency", [[1.0] * 1000])
    run = run_of(paced, busy, processes=1, scenario=Scenario(kind="paced", fps=30.0))
    assert evidence(run, "latency_p99").side.value == 2.0
    assert evidence(run_of(paced, busy, processes=1), "latency_p99").side.value == 1.0


def test_percentiles_that_were_recorded_without_samples():
    quoted = [run_of(measured("latency_p99", value, half=1e-6)) for value in (1e-3, 2e-3)]
    assert only(*quoted, metric="latency_p99").verdict == "slower"
    offline = offline_run()
    assert wording("offline-scenario-several-inferences-flight") in evidence(offline, "latency_p99").absent
    stripped = run_of(measured("latency", 1e-3, half=1e-5))
    assert evidence(stripped, "latency_p99").absent == "A has no samples of latency to take a percentile of"


def test_percentiles_take_longer_by_the_processes_they_join():
    a, b = tails(6, seed=1), tails(6, seed=2, factor=1.02)
    runs = [run_of(row_of("latency", one), processes=6, interleave="turns") for one in (a, b)]
    row = only(*runs, metric="latency_p99", seconds_per_pair=2.0)
    needed = replicates_to_decide(contrast_of(*runs, "latency_p99").contrast, margin=row.margin)
    assert row.verdict == "inconclusive"
    assert needed * 2 == 56
    assert row.decides_in_s == (60 - 6) * 2.0  # two processes a group, and the next look


# Bad input


@pytest.mark.parametrize("bad", [0.0, -1e-3, math.nan, math.inf])
@pytest.mark.parametrize("way", [None, "turns"])
def test_samples_that_are_no_times_take_the_metric_out(bad, way):
    good = row_of("latency", [[1e-3, 1e-3]] * 5)
    wrong = row_of("latency", [[1e-3, bad]] + [[1e-3, 1e-3]] * 4, value=1e-3)
    memory = row_of("memory_peak", [[1e8]] * 5)
    rows = compare(
        *(run_of(one, memory, interleave=way) for one in (good, wrong)),
        metrics=("latency", "memory_peak", "latency_p99"),
    )
    assert (rows[0].ratio, rows[0].verdict) == (None, "inconclusive")
    assert rows[0].because == f"1 of 10 samples of latency of after are not positive numbers (the first: {bad:g})"
    assert rows[1].verdict == "same"
    assert re.search(says("not-positive-numbers-first"), rows[2].because)
    json.dumps([row.to_document() for row in rows], allow_nan=False)


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0])
def test_headlines_that_are_no_numbers(bad):
    good = measured("model_size", 100.0)
    row = only(run_of(good), run_of(replace(good, value=bad)), metric="model_size")
    assert row.ratio is None
    assert "model_size of after is" in row.because
    json.dumps(row.to_document(), allow_nan=False)
    sampled = replace(row_of("latency", [[1e-3]] * 5), value=bad)
    row = only(run_of(sampled), run_of(measured("latency", 1e-3, half=1e-5)), metric="latency")
    assert row.ratio is None
    assert "latency of before is" in row.because


def test_both_sides_zero():
    nothing, neither = (run_of(measured("network_bytes", 0.0), number=n) for n in (1, 2))
    row = only(nothing, neither, metric="network_bytes")
    assert row.ratio is None
    assert "network_bytes of before is 0" in row.because
    assert "network_bytes of after is 0" in row.because


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (math.nan, 1.1), (0.9, None)])
def test_intervals_that_are_none(low, high):
    broken = replace(measured("accuracy_top1", 1.0), low=low, high=high)
    row = only(run_of(broken), run_of(measured("accuracy_top1", 0.5, half=0.01)), metric="accuracy_top1")
    assert (row.ratio, row.low, row.verdict) == (pytest.approx(0.5), None, "inconclusive")
    assert row.because == "accuracy_top1 of before has no interval"


def test_an_interval_beside_its_value_is_widened_to_hold_it():
    odd = replace(measured("accuracy_top1", 0.5), low=0.6, high=0.7)
    assert evidence(run_of(odd), "accuracy_top1").side == Side(value=0.5, low=0.5, high=0.7)


@pytest.mark.parametrize("lengths", [(2, 2), (-1, 4)])
def test_samples_that_do_not_add_up(lengths):
    row = replace(row_of("latency", [[1.0, 1.0, 1.0]]), session_lengths=lengths)
    found = only(run_of(row), run_of(row, number=2), metric="latency")
    assert "samples of latency of before do not add up" in found.because
    assert found.ratio is None


def test_extremes_stay_finite():
    tiny, huge = ([[value]] * 5 for value in (5e-324, 1.7e308))
    rate = measured("throughput", 1.0)
    runs = [run_of(row_of("latency", one), rate, batch=2) for one in (tiny, huge)]
    rows = compare(*runs, metrics=("latency", "throughput"))
    json.dumps([row.to_document() for row in rows], allow_nan=False)
    assert rows[1].because == "throughput of before is out of the range of numbers"
