"""What a gate asks for, and what becomes of it: pass, fail, inconclusive, unmeasured."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.gate import Check, GateResult, is_settled, judge, refuse
from edgewise.comparing.metrics import compare_runs
from edgewise.comparing.requirement import Requirement, parse_requirements
from edgewise.errors import BadInput, ExitCode
from edgewise.record import DataRef, Evaluation, Job, Measurement, Run, Scenario
from edgewise.stats.comparison import INTERVAL_FACTOR
from edgewise.stats.proportions import paired_interval, samples_to_decide, wilson_interval
from messages import has, says, wording
from sample_runs import failed_run, job_of, make_run, measured, missing, session

KWS = make_run(1).job.model


def run_with(number: int, *rows: Measurement, sessions: int = 5, kind: str = "single-stream", **workload) -> Run:
    """A run of exactly these measurements."""
    job: Job = job_of(model=KWS, runtime="fake", provider="cpu", threads=1, batch=1, scenario=Scenario(kind=kind))
    job = replace(job, workload=replace(job.workload, **workload))
    base = make_run(number)
    return replace(
        base,
        job=job,
        group=workload.pop("group", None),
        measurements=rows,
        sessions=tuple(session(index) for index in range(sessions)),
        variation=None,
    )


def of_processes(metric: str, values: list[float], *, unit: str = "s", each: int = 20) -> Measurement:
    """A measurement whose processes have exactly these medians, without any scatter within them."""
    samples = tuple(value for value in values for _ in range(each))
    logs = np.log(values)
    middle = float(np.median(values))
    reach = float(stats.t.ppf(0.975, len(values) - 1) * logs.std(ddof=1) / math.sqrt(len(values)))
    return Measurement(
        metric=metric,
        unit=unit,
        basis="measured",
        method="sample",
        value=middle,
        low=middle * math.exp(-reach),
        high=middle * math.exp(reach),
        samples=samples,
        session_lengths=(each,) * len(values),
    )


def turns(a: list[float], b: list[float], metric: str = "latency", **options) -> tuple[Run, Run]:
    """Two runs whose processes took turns."""
    first = run_with(1, of_processes(metric, a, **options), sessions=len(a), interleave="turns")
    second = run_with(2, of_processes(metric, b, **options), sessions=len(b), interleave="turns")
    return replace(first, group="g"), replace(second, group="g")


def ask(*regressions: str, budget: str = "") -> tuple[Requirement, ...]:
    return parse_requirements(regressions, (budget,) if budget else ())


def only(checks: tuple[Check, ...]) -> Check:
    (check,) = checks
    return check


# --- words ---


def test_words_become_requirements():
    found = parse_requirements(
        ["3%", "memory_peak=5%,throughput=-2.5 %"],
        [
            "latency=5ms, model_size=1MB",
            "accuracy_drop=1pt,accuracy_top1=97%,energy=2mJ,throughput=100/s,temperature=80°C",
        ],
    )
    told = [(one.metric, one.kind, one.limit) for one in found]
    assert told == [
        ("", "regression", 0.03),
        ("memory_peak", "regression", 0.05),
        ("throughput", "regression", -0.025),
        ("latency", "budget", 0.005),
        ("model_size", "budget", 1e6),
        ("accuracy_top1", "drop", 0.01),
        ("accuracy_top1", "budget", 0.97),
        ("energy", "budget", 0.002),
        ("throughput", "budget", 100.0),
        ("temperature", "budget", 353.15),
    ]
    assert found[0].resolve("latency").metric == "latency"
    assert [one.resolve("latency").text for one in found] == [
        "Latency: at most 3 % worse",
        "Peak memory: at most 5 % worse",
        "Throughput: at least 2.5 % better",
        "Latency: at most 5 ms",
        "Model size: at most 1 MB (977 KiB)",
        "Top-1 accuracy: at most 1 pt lost",
        "Top-1 accuracy: at least 97 %",
        "Energy: at most 2 mJ",
        "Throughput: at least 100 /s",
        "Temperature: at most 80 °C",
    ]
    assert [one.needs_baseline for one in found] == [True, True, True, False, False, True, *[False] * 4]


@pytest.mark.parametrize(
    ("regressions", "budgets", "words"),
    [
        ([], [], says("no-requirement-given")),
        (["3"], [], says("write-percent-sign")),
        (["3 percent"], [], says("max-regression-not-percentage")),
        (["latncy=3%"], [], "latency"),
        (["depth=3%"], [], says("neither-better-high-nor-low")),
        (["-100%"], [], says("max-regression-limit-must-above")),
        (["throughput=100%"], [], says("max-regression-allows-everything")),
        (["nan%"], [], says("not-number-unit")),
        (["1e999%"], [], says("not-number-unit")),
        (["3%,,"], [], says("empty-part")),
        (["3%", "4%"], [], says("two-limits-same-thing-one")),
        ([], ["latency=5ms,latency=6ms"], says("two-limits-same-thing-one")),
        ([], ["latency"], says("budget-not-metric-limit")),
        ([], ["latency=5MB"], says("budget-not-value", id=has("latency"))),
        ([], ["latency=-5ms"], says("budget-not-value", id=has("latency"))),
        ([], ["latency=0ms"], says("budget-out-range")),
        ([], ["model_size=5ms"], says("budget-not-value", id=has("model_size"))),
        ([], ["model_size=1e400"], says("budget-no-unit")),
        ([], ["model_size=1e400MB"], says("budget-not-value", id=has("model_size"))),
        ([], ["latency=5"], says("budget-no-unit")),
        ([], ["latency= .5e-3 "], says("budget-no-unit")),
        ([], ["memory_peak=5"], says("budget-no-unit")),
        ([], ["energy=5ms"], says("budget-not", unit=has("ms"))),
        ([], ["accuracy_top1=97"], says("budget-more-than-all")),
        ([], ["accuracy_drop=1%"], says("budget-not-points")),
        ([], ["accuracy_drop=-1pt"], says("budget-out-range")),
        ([], ["cpu_utilization=50%"], says("neither-better-high-nor-low")),
        ([], ["\x1b[31m=1"], says("unknown-metric-in-requirement")),
    ],
)
def test_words_that_say_nothing_are_one_error_with_advice(regressions, budgets, words):
    with pytest.raises(BadInput) as caught:
        parse_requirements(regressions, budgets)
    assert re.search(words, f"{caught.value.message} {caught.value.advice}")
    assert caught.value.advice
    assert "\x1b" not in caught.value.message


def test_a_headline_limit_of_everything_is_refused_once_the_headline_is_known():
    (one,) = ask("100%")
    assert one.resolve("latency").metric == "latency"
    with pytest.raises(BadInput, match=says("max-regression-allows-everything")):
        one.resolve("throughput")


# --- regressions ---

EVEN = [1.000e-3, 1.002e-3, 0.998e-3, 1.001e-3, 0.999e-3, 1.000e-3, 1.002e-3, 0.998e-3]


def slower(factor: float) -> list[float]:
    """`EVEN` times `factor`, with a little scatter of its own."""
    return [value * factor * (1 + 2e-4 * (-1) ** index) for index, value in enumerate(EVEN)]


@pytest.mark.parametrize(
    ("factor", "limit", "verdict"),
    [
        (1.00, "3%", "pass"),
        (0.90, "3%", "pass"),
        (1.02, "3%", "pass"),
        (1.10, "3%", "fail"),
        (1.03, "3%", "inconclusive"),
        (1.00, "-5%", "fail"),
        (0.90, "-5%", "pass"),
    ],
)
def test_a_regression_is_judged_by_its_interval(factor, limit, verdict):
    check = only(judge(ask(limit), *turns(EVEN, slower(factor))))
    assert check.verdict == verdict
    assert check.ratio == pytest.approx(factor, rel=1e-3)
    assert check.ratio_low < check.ratio < check.ratio_high
    assert check.before == pytest.approx(1e-3) and check.value == pytest.approx(1e-3 * factor, rel=3e-3)
    assert check.because


def test_the_interval_that_decides_holds_at_all_looks_and_for_all_requirements_and_attempts():
    """By hand: Student's t at 5 % / factor / tests, on the differences of logarithms."""
    a, b = EVEN, [value * 1.02 * (1 + 4e-3 * (-1) ** index) for index, value in enumerate(EVEN)]
    differences = np.log(b) - np.log(a)
    error = differences.std(ddof=1) / math.sqrt(len(a))

    def upper(tests: int) -> float:
        t = stats.t.ppf(1 - 0.05 / tests / INTERVAL_FACTOR / 2, len(a) - 1)
        return float(math.expm1(differences.mean() + t * error))

    for tests, options in ((1, {}), (3, {"attempts": 3})):
        for nudge, verdict in ((1e-6, "pass"), (-1e-6, "inconclusive")):
            limit = Requirement(metric="latency", kind="regression", limit=upper(tests) + nudge, word="x")
            assert only(judge([limit], *turns(a, b), **options)).verdict == verdict
    # The second requirement is as demanding on the first as a second attempt would be.
    two = [
        Requirement(metric="latency", kind="regression", limit=upper(2) - 1e-6, word="x"),
        Requirement(metric="", kind="regression", limit=upper(2) + 1e-6, word="y"),
    ]
    assert [check.verdict for check in judge(two, *turns(a, b))] == ["inconclusive", "pass"]


def test_reasons_name_the_bound_in_words():
    texts = [
        only(judge(ask(limit), *turns(EVEN, slower(factor)))).because
        for factor, limit in ((1.10, "3%"), (1.02, "3%"), (0.9, "3%"), (1.03, "3%"))
    ]
    assert re.fullmatch(r"10\.0+ % worse, at least 9\.9\d? % worse by the wider interval that decides", texts[0])
    assert re.fullmatch(r"2\.00 % worse, at most 2\.0[1-9] % worse by the wider interval that decides", texts[1])
    assert re.fullmatch(
        r"(10\.0+|9\.99) % better, at least 9\.9\d? % better by the wider interval that decides", texts[2]
    )
    # Rounded away from each other: what is shown holds the interval and never hides that it contains the limit.
    assert re.fullmatch(
        r"more than 3\.00 % worse could not be ruled out: it is between 2\.9\d % worse and 3\.0[1-9] % worse", texts[3]
    )


def test_a_multiple_is_said_as_one():
    slow = only(judge(ask("3%"), *turns(EVEN, slower(3.56))))
    assert slow.because.startswith("3.56× as long, at least 3.55× as long") and slow.verdict == "fail"
    large = [run_with(number, measured("model_size", size)) for number, size in ((1, 1e6), (2, 2.5e6))]
    assert only(judge(ask("model_size=4%"), *large)).because == "2.50× as large"


def test_worse_is_lower_where_more_is_better():
    rates = [1.0 / value for value in EVEN]
    for factor, limit, verdict in ((0.90, "3%", "fail"), (1.2, "3%", "pass"), (0.975, "3%", "pass")):
        a, b = turns(
            rates, [rate * factor * (1 + 1e-4 * (-1) ** i) for i, rate in enumerate(rates)], "throughput", unit="1/s"
        )
        a, b = (
            replace(run, job=replace(run.job, workload=replace(run.job.workload, scenario=Scenario(kind="offline"))))
            for run in (a, b)
        )
        check = only(judge(ask(limit), a, b))
        assert (check.requirement.metric, check.verdict) == ("throughput", verdict)
    # 3 % less is a ratio of 0.97, not of 1 / 1.03.
    below = only(judge([Requirement(metric="throughput", kind="regression", limit=0.03, word="")], *turns(
        rates, [rate * 0.9705 for rate in rates], "throughput", unit="1/s")))  # fmt: skip
    assert below.verdict == "pass"


def test_differences_too_small_to_matter_are_no_regression():
    tiny = [value * 1e-3 for value in EVEN]  # 1 µs; 0.2 µs are 20 %
    check = only(judge(ask("3%"), *turns(tiny, [value * 1.1 for value in tiny])))
    assert check.verdict == "pass"
    assert wording("allowed-smaller-differences-do-not", format_quantity="200 ns") in check.because
    strict = judge(ask("3%"), *turns(tiny, [value * 1.1 for value in tiny]), criteria=Criteria(floors={"latency": 0.0}))
    assert only(strict).verdict == "fail"
    # What must become better must really do so.
    assert only(judge(ask("-5%"), *turns(tiny, [value * 1.1 for value in tiny]))).verdict == "fail"


def test_exact_values_decide_at_once():
    a, b = run_with(1, measured("model_size", 1000.0)), run_with(2, measured("model_size", 1040.0))
    assert only(judge(ask("model_size=3%"), a, b)).verdict == "fail"
    assert only(judge(ask("model_size=4%"), a, b)).verdict == "pass"
    assert only(judge(ask("model_size=4%"), a, b)).because == "4.00 % worse"


def test_two_processes_apart_decide_nothing():
    a, b = (run_with(n, of_processes("latency", [1e-3, 1.001e-3]), sessions=2) for n in (1, 2))
    check = only(judge(ask("3%"), a, b))
    assert check.verdict == "inconclusive"
    assert "too few" in check.because


# --- budgets ---


@pytest.mark.parametrize(
    ("budget", "verdict"), [("latency=5ms", "pass"), ("latency=0.9ms", "fail"), ("latency=1ms", "inconclusive")]
)
def test_a_budget_is_judged_by_the_candidates_interval(budget, verdict):
    check = only(judge(ask(budget=budget), None, run_with(2, of_processes("latency", EVEN))))
    assert check.verdict == verdict
    assert (check.before, check.ratio) == (None, None)
    assert check.low < check.value < check.high


def test_a_budgets_interval_is_wider_where_measuring_went_on_until_it_was_decided():
    row = of_processes("latency", EVEN)
    plain = only(judge(ask(budget="latency=1ms"), None, run_with(2, row, sessions=8)))
    held = only(judge(ask(budget="latency=1ms"), None, run_with(2, row, sessions=8, interleave="turns")))
    assert (plain.low, plain.high) == (row.low, row.high)
    wider = stats.t.ppf(1 - 0.025 / INTERVAL_FACTOR, 7) / stats.t.ppf(0.975, 7)
    assert math.log(held.high / held.value) == pytest.approx(wider * math.log(row.high / row.value), rel=1e-6)
    assert math.log(held.value / held.low) == pytest.approx(wider * math.log(row.value / row.low), rel=1e-6)


@pytest.mark.parametrize("interleave", [None, "turns"])
@pytest.mark.parametrize("attempts", [2, 3])
def test_a_budget_that_may_be_measured_again_has_an_interval_that_allows_for_every_attempt(interleave, attempts):
    """By hand: Student's t at 5 % over the attempts, and over the looks of each where there are looks."""
    row = of_processes("latency", EVEN)
    candidate = run_with(2, row, sessions=8, interleave=interleave)
    chances = attempts * (INTERVAL_FACTOR if interleave else 1.0)
    t = stats.t.ppf(1 - 0.025 / chances, len(EVEN) - 1)
    logs = np.log(EVEN)
    reach = float(t * logs.std(ddof=1) / math.sqrt(len(EVEN)))
    low, high = row.value * math.exp(-reach), row.value * math.exp(reach)
    for limit, verdict in (
        (high * (1 + 1e-6), "pass"),
        (high * (1 - 1e-6), "inconclusive"),
        (low * (1 + 1e-6), "inconclusive"),
        (low * (1 - 1e-6), "fail"),
    ):
        budget = Requirement(metric="latency", kind="budget", limit=limit, word="x")
        check = only(judge([budget], None, candidate, attempts=attempts))
        assert check.verdict == verdict
        assert (check.low, check.high) == pytest.approx((low, high), rel=1e-9)
    assert high > row.high and low < row.low


def test_budgets_of_every_other_kind():
    run = run_with(
        2,
        measured("model_size", 1e6),
        measured("accuracy_top1", 0.95, half=0.01),
        measured("throughput", 100.0, half=1.0),
        measured("output_max_abs_error", 1e-6),
        measured("error_rate", 0.0),
        measured("memory_peak", 5e7),
    )
    asked = {
        "model_size=1MB": "pass",
        "model_size=999kB": "fail",
        "accuracy_top1=93.9%": "pass",
        "accuracy_top1=0.965": "fail",
        "accuracy_top1=95%": "inconclusive",
        "throughput=98": "pass",
        "throughput=102/s": "fail",
        "throughput=100 fps": "inconclusive",
        "output_max_abs_error=1e-5": "pass",
        "output_max_abs_error=0": "fail",
        "error_rate=1%": "inconclusive",  # a share of a sample that has no interval
        "memory_peak=1GB": "inconclusive",  # measured, and without an interval
        "energy=5mJ": "unmeasured",
    }
    assert {budget: only(judge(ask(budget=budget), None, run)).verdict for budget in asked} == asked


def test_points_lost_are_a_difference_with_the_intervals_of_both():
    before = run_with(1, measured("accuracy_top1", 0.950, half=0.003))
    verdicts = {}
    for after in (0.949, 0.930, 0.940, 0.960):
        candidate = run_with(2, measured("accuracy_top1", after, half=0.004))
        verdicts[after] = only(judge(ask(budget="accuracy_drop=1pt"), before, candidate)).verdict
    assert verdicts == {0.949: "pass", 0.930: "fail", 0.940: "inconclusive", 0.960: "pass"}
    check = only(
        judge(ask(budget="accuracy_drop=1pt"), before, run_with(2, measured("accuracy_top1", 0.94, half=0.004)))
    )
    assert check.because == "loss 1.00 pt, 95 % interval 0.50 to 1.50 pt: not proven to be within 1 pt"
    bare = only(judge(ask(budget="accuracy_drop=1pt"), before, run_with(2, measured("accuracy_top1", 0.95))))
    assert bare.verdict == "inconclusive" and bare.because == (
        "loss 0.00 pt, without an interval: not proven to be within 1 pt"
    )


def judged(number: int, outcomes: list[float], *, data: str = "a" * 64, kept: bool = True) -> Run:
    """A run whose accuracy is the share of these outcomes, with Wilson's interval."""
    share, n = sum(outcomes) / len(outcomes), len(outcomes)
    low, high = wilson_interval(round(sum(outcomes)), n)
    row = replace(measured("accuracy_top1", share), low=low, high=high, samples=tuple(outcomes) if kept else ())
    evaluation = Evaluation(
        task="classification", data=DataRef(name="d", path=None, format="npz", split="test", size=n, sha256=data), n=n
    )
    return replace(run_with(number, row), evaluation=evaluation)


def test_points_lost_on_the_same_samples_are_those_whose_outcome_changed():
    """Alone, each of two accuracies of 60 of 80 is known within 10 points; the same 80 answers lose at most 4.5."""
    old = [1.0] * 60 + [0.0] * 20
    limit = ask(budget="accuracy_drop=5pt")
    same = only(judge(limit, judged(1, old), judged(2, old)))
    low, high = paired_interval(0, 0, 80)
    assert same.verdict == "pass" and high == pytest.approx(0.0451, abs=1e-4) and low == -high
    assert same.because == "loss 0.00 pt, 95 % interval −4.51 to 4.51 pt on the same 80 samples"
    worse = only(judge(limit, judged(1, old), judged(2, [0.0] * 20 + old[20:])))
    low, high = (-end * 100.0 for end in reversed(paired_interval(20, 0, 80)))
    ends = f"{math.floor(low * 100) / 100:.2f} to {math.ceil(high * 100) / 100:.2f} pt"
    assert worse.verdict == "fail" and worse.because == f"loss 25.00 pt, 95 % interval {ends} on the same 80 samples"
    other = only(judge(limit, judged(1, old), judged(2, old, data="b" * 64)))
    assert other.verdict == "inconclusive" and "(not paired: of different samples)" in other.because
    bare = only(judge(limit, judged(1, old), judged(2, old, kept=False)))
    assert bare.verdict == "inconclusive" and wording("not-paired-no-outcome-each") in bare.because


def test_the_samples_that_would_decide_are_estimated_from_the_answers_that_changed():
    """With 16 lost and 8 gained of 400, 2 points are lost: far more samples prove that this is below 4 points."""
    old = [1.0] * 300 + [0.0] * 100
    new = [0.0] * 16 + old[16:392] + [1.0] * 8
    open_ = only(judge(ask(budget="accuracy_drop=4pt"), judged(1, old), judged(2, new)))
    needed = samples_to_decide(16, 8, 400, limit=0.04)
    assert open_.verdict == "inconclusive" and (open_.samples_needed_low, open_.samples_needed_high) == needed
    document = open_.to_document()
    assert (document["samples_needed_low"], document["samples_needed_high"]) == needed
    assert open_.because.endswith(
        " on the same 400 samples: not proven to be within 4 pt, which needs about 940 to 1,800 samples if the loss "
        "stays 2.00 pt (24 of 400 changed)"
    )
    # A loss that is the limit is never told from it.
    left = only(judge(ask(budget="accuracy_drop=2pt"), judged(1, old), judged(2, new)))
    assert left.samples_needed_low is left.samples_needed_high is None
    assert "; how many samples would decide can't be told from 24 changed answers in 400: " in left.because
    beyond = only(judge(ask(budget="accuracy_drop=0.5pt"), judged(1, old), judged(2, new)))
    assert ": not proven to be beyond 0.5 pt, which needs about " in beyond.because


def evaluated(run: Run, *, classes: tuple[str, ...] = (), order: str = "", steps: list | None = None) -> Run:
    """`run` whose classes are in this order, assumed for the reason `order`, with steps given by flags."""
    assert run.evaluation is not None
    done = {"inputs": steps, "done": [str(steps)]} if steps is not None else {}
    settings = {"class_order": order} if order else {}
    evaluation = replace(
        run.evaluation, classes=classes, settings=settings, preprocessing=done, preprocessing_from="flags"
    )
    return replace(run, evaluation=evaluation)


def test_accuracies_of_other_classes_tasks_or_steps_are_not_compared():
    old, new = judged(1, [1.0] * 80), judged(2, [1.0] * 8 + [0.0] * 72)
    names, limit = ("shirt", "bag"), ask("accuracy_top1=3%", budget="accuracy_drop=2pt")
    known = evaluated(old, classes=names)
    assumed = evaluated(new, classes=names[::-1], order="the data's")
    for before, after, why in (
        (known, assumed, "different classes: baseline shirt, bag, candidate bag, shirt (the data's order, assumed)"),
        (evaluated(old, steps=[{"pad": 32}]), evaluated(new, steps=[{"resize": 32}]), "different preparation"),
    ):
        checks = judge(limit, before, after)
        assert {check.verdict for check in checks} == {"unmeasured"}
        assert all(check.because.startswith(f"can't be compared: {why}") for check in checks)
    rows = compare_runs((Variant(label="a", run=known), Variant(label="b", run=assumed)), Criteria())
    (row,) = [row for row in rows if row.metric == "accuracy_top1"]
    assert row.verdict == "inconclusive" and row.ratio is None and row.because.startswith("can't be compared: ")
    # Two models may have orders of their own.
    assert judge(limit, known, evaluated(new, classes=names[::-1]))[1].verdict == "fail"


def test_a_percentile_waits_for_samples_and_then_decides():
    source = np.random.default_rng(3)

    def timed(number: int, processes: int) -> Run:
        samples = tuple(float(value) for value in 1e-3 * np.exp(source.normal(0, 0.02, 1000 * processes)))
        row = replace(measured("latency", 1e-3, half=1e-6), samples=samples, session_lengths=(1000,) * processes)
        return run_with(number, row, sessions=processes)

    few = replace(measured("latency", 1e-3, half=1e-6), samples=(1e-3,) * 100, session_lengths=(50, 50))
    check = only(judge(ask(budget="latency_p99=2ms"), None, run_with(2, few, sessions=2)))
    assert check.verdict == "inconclusive" and "needs 1000" in check.because
    assert only(judge(ask(budget="latency_p99=2ms"), None, timed(2, 5))).verdict == "pass"
    assert only(judge(ask(budget="latency_p99=1.02ms"), None, timed(2, 5))).verdict == "fail"
    assert only(judge(ask("latency_p99=10%"), timed(1, 5), timed(2, 5))).verdict == "pass"


# --- what is not there ---


def test_what_a_side_lacks_is_unmeasured_with_its_reason():
    whole = run_with(1, of_processes("latency", EVEN))
    without = run_with(2, missing("latency", "the offline scenario measures throughput"))
    for sides, words in (
        ((whole, without), ("the candidate", "offline scenario")),
        ((without, whole), ("the baseline", "offline scenario")),
        ((whole, run_with(3)), ("the candidate", "latency")),
        ((failed_run(), whole), ("the baseline", "Einsum")),
        ((whole, failed_run()), ("the candidate", "Einsum")),
        ((None, whole), (wording("there-no-baseline"),)),
    ):
        check = only(judge(ask("latency=3%"), *sides))
        assert check.verdict == "unmeasured"
        assert all(word in check.because for word in words), check.because


@pytest.mark.parametrize("bad", [0.0, -1e-3, math.nan, math.inf])
def test_samples_that_are_none_are_unmeasured(bad):
    row = of_processes("latency", EVEN)
    broken = replace(row, samples=(bad, *row.samples[1:]))
    for asked in (ask("3%"), ask(budget="latency=5ms")):
        check = only(judge(asked, run_with(1, row), run_with(2, broken)))
        assert check.verdict == "unmeasured"
        assert re.search(says("not-positive-numbers-first"), check.because)


# --- outcomes ---


def outcome(*verdicts: str, policy: str = "retry", attempts: int = 1) -> GateResult:
    (requirement,) = ask("latency=3%")
    checks = tuple(Check(requirement=requirement, verdict=one, because="x") for one in verdicts)
    findings = ComparisonResult(variants=(Variant(label="candidate", run=make_run(1)),), comparisons=())
    return GateResult(checks=checks, findings=findings, policy=policy, attempts=attempts)


@pytest.mark.parametrize(
    ("verdicts", "policy", "code"),
    [
        (["pass", "pass"], "retry", ExitCode.DONE),
        (["pass", "fail"], "pass", ExitCode.BUDGET_EXCEEDED),
        (["fail", "unmeasured"], "pass", ExitCode.BUDGET_EXCEEDED),
        (["pass", "unmeasured"], "pass", ExitCode.RUN_FAILED),
        (["inconclusive", "unmeasured"], "fail", ExitCode.RUN_FAILED),
        (["pass", "inconclusive"], "pass", ExitCode.DONE),
        (["pass", "inconclusive"], "fail", ExitCode.BUDGET_EXCEEDED),
        (["inconclusive"], "retry", ExitCode.BUDGET_EXCEEDED),
    ],
)
def test_the_exit_code_is_that_of_the_worst(verdicts, policy, code):
    found = outcome(*verdicts, policy=policy)
    assert found.exit_code == code
    assert found.passed == (code == 0)
    document = found.to_document()
    assert (document["exit_code"], document["passed"], document["schema"]) == (int(code), code == 0, 1)
    assert [row["verdict"] for row in document["checks"]] == verdicts


def test_conclusions_say_what_they_rest_on():
    told = "latency: x (limit +3 %)"
    assert outcome("pass").conclusion == f"passed: the requirement is met: {told}"
    assert outcome("pass", "pass").conclusion == f"passed: all 2 requirements are met: {told}; {told}"
    assert outcome(*["pass"] * 5).conclusion == "passed: all 5 requirements are met"
    ends = "failed: latency failed: x (limit +3 %); latency met: x (limit +3 %)"
    assert outcome("pass", "fail").conclusion == ends
    mixed = outcome("inconclusive", "unmeasured", "fail").conclusion
    assert mixed == "failed: " + "; ".join(
        f"latency {word}: x (limit +3 %)" for word in ("failed", "not measured", "inconclusive")
    )
    assert re.search(
        says("passed-without-proof-inconclusive-inconclusive"), outcome("inconclusive", policy="pass").conclusion
    )
    assert outcome("inconclusive", policy="retry").conclusion == (
        "failed, as it could not be ruled out that a limit is exceeded: latency inconclusive: x (limit +3 %)"
    )
    several = outcome("pass", *["unmeasured"] * 6).conclusion
    assert several.count("latency not measured: x") == 4 and several.endswith("; 2 more; latency met: x (limit +3 %)")


def test_limits_are_named_in_short():
    asked = ask("latency=3%", "throughput=3%", "memory_peak=-5%", budget="accuracy_drop=1pt,model_size=1MB")
    assert [one.limit_text for one in asked] == [
        " (limit +3 %)", " (limit −3 %)", " (limit −5 %)", " (limit 1 pt)", ""
    ]  # fmt: skip


def test_when_more_measuring_changes_nothing():
    (requirement,) = ask("latency=3%")

    def settled(*verdicts):
        return is_settled([Check(requirement=requirement, verdict=one, because="") for one in verdicts])

    assert settled("pass", "pass") and settled("fail", "inconclusive") and settled("pass", "unmeasured")
    assert settled("pass", "inconclusive") is None
    (accuracy,) = ask(budget="accuracy_drop=1pt")
    open_ = Check(requirement=accuracy, verdict="inconclusive", because="")
    assert is_settled([open_]) == "more measuring decides nothing about the accuracy"
    assert is_settled([open_, Check(requirement=requirement, verdict="inconclusive", because="")]) is None


def test_a_refusal_leaves_every_check_unmeasured():
    checks = refuse(ask("3%", budget="latency=5ms"), "other hardware", headline="latency")
    assert [(check.requirement.metric, check.verdict, check.because) for check in checks] == [
        ("latency", "unmeasured", "other hardware"),
        ("latency", "unmeasured", "other hardware"),
    ]
