"""A comparison that measures, with workers that are threads: exact verdicts, when it stops, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.trial import MOST_VARIANTS, TrialSettings, run_trial
from edgewise.errors import BadInput
from edgewise.progress import Event, SessionStarted, reporting_to
from edgewise.record import Job, Run, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import Sensors
from edgewise.stats.comparison import LOOKS
from edgewise.testing import write_fake_model
from messages import says, wording
from threaded_workers import Line, install, play_worker

MS = 1_000_000
WIDE = [{"name": "x", "shape": [1, 8], "dtype": "float32"}]
THREE = [{"name": "y", "shape": [1, 3], "dtype": "float32"}]


@pytest.fixture(autouse=True)
def transport(monkeypatch, clock):
    """Workers are threads, and a round takes a quarter of a second."""

    def take_time(event: Event) -> None:
        if isinstance(event, SessionStarted):
            clock.let_pass(0.25)

    with reporting_to(take_time):
        yield install(monkeypatch, turns=8)


def job_of(folder: Path, name: str, *, scenario: Scenario | None = None, batch: int = 1, **script) -> Job:
    path = write_fake_model(folder / name, **{"latency_ns": [MS], **script})
    plan = make_plan(
        [path],
        axes=Axes(runtimes=("fake",), batches=(batch,)),
        scenario=scenario or Scenario(),
        stopping=Stopping(timeout_s=20.0),
        target=TargetSpec(),
    )
    return plan.jobs[0]


def fail(line: Line) -> None:
    line.say_hello()
    line.send("failed", cause="Unsupported", message="no such operator")


def compare(
    jobs: Sequence[Job], *, criteria: Criteria | None = None, saved: list[Run] | None = None, settled=None, **trial
) -> ComparisonResult:
    kept = saved if saved is not None else []
    return run_trial(
        jobs,
        labels=[job.model.name for job in jobs],
        criteria=criteria or Criteria(),
        trial=TrialSettings(**{"budget_s": 30.0, **trial}),
        save=kept.append,
        sensors=Sensors(absences={"energy": "no meter was asked"}),
        settled=settled,
    )


def row(findings: ComparisonResult, metric: str, b: str = "b"):
    (found,) = [one for one in findings.comparisons if (one.metric, one.b) == (metric, b)]
    return found


# --- verdicts ---


@pytest.mark.parametrize(
    ("b_ns", "ratio", "verdict", "passed"),
    [
        (MS, 1.0, "same", True),
        (1_100_000, 1.1, "slower", False),
        (900_000, 0.9, "faster", True),
        (1_031_000, 1.031, "slower", False),  # just beyond the margin
        (1_029_000, 1.029, "same", True),  # just within
        (50 * MS, 50.0, "slower", False),
    ],
)
def test_the_scripts_ratio_is_the_ratio_and_five_rounds_do(tmp_path, b_ns, ratio, verdict, passed):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", latency_ns=[b_ns])]
    findings = compare(jobs, criteria=Criteria(metrics=("latency",)))
    latency = row(findings, "latency")
    assert latency.ratio == pytest.approx(ratio, rel=1e-9)
    assert (latency.low, latency.high) == pytest.approx((ratio, ratio), rel=1e-9)
    assert (latency.verdict, findings.passed, latency.design) == (verdict, passed, "interleaved")
    assert (findings.pairs, findings.stopped_because) == (LOOKS[0], "the verdict on latency is decided")
    assert latency.before.replicates == latency.after.replicates == LOOKS[0]
    assert findings.elapsed_s == 0.25 * LOOKS[0] and not findings.failures


def test_what_is_too_small_to_matter_is_the_users_to_say(tmp_path):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", latency_ns=[1_029_000])]
    only = ("latency",)
    assert row(compare(jobs, criteria=Criteria(metrics=only, threshold=0.02)), "latency").verdict == "slower"
    assert row(compare(jobs, criteria=Criteria(metrics=only, threshold=0.2)), "latency").verdict == "same"
    coarse = Criteria(metrics=only, threshold=0.02, floors={"latency": 1e-3})
    assert row(compare(jobs, criteria=coarse), "latency").verdict == "same"


def test_a_tiny_model_is_judged_by_the_floor(tmp_path):
    """A microsecond more or less, of 2: half as much again, and less than 0.2 µs is nothing."""
    jobs = [job_of(tmp_path, "a", latency_ns=[2000]), job_of(tmp_path, "b", latency_ns=[2190])]
    latency = row(compare(jobs, criteria=Criteria(metrics=("latency",))), "latency")
    assert latency.ratio == pytest.approx(1.095) and latency.verdict == "same"
    assert latency.margin == pytest.approx(0.1)


def test_offline_compares_throughput(tmp_path):
    scenario = Scenario(kind="offline")
    jobs = [job_of(tmp_path, "a", scenario=scenario), job_of(tmp_path, "b", scenario=scenario, latency_ns=[2 * MS])]
    findings = compare(jobs)
    assert row(findings, "throughput").ratio == pytest.approx(0.5, rel=0.01)
    assert row(findings, "throughput").verdict == "slower"
    assert findings.stopped_because == "the verdict on throughput is decided"
    assert {variant.run.job.workload.interleave for variant in findings.variants} == {"rounds"}


def test_paced_compares_paced_latency(tmp_path):
    scenario = Scenario(kind="paced", fps=50.0)
    jobs = [job_of(tmp_path, "a", scenario=scenario), job_of(tmp_path, "b", scenario=scenario, latency_ns=[2 * MS])]
    findings = compare(jobs)
    assert row(findings, "latency_paced").ratio == pytest.approx(2.0)
    assert findings.stopped_because == "the verdict on latency_paced is decided"


def test_three_variants_are_ranked_and_all_verdicts_are_awaited(tmp_path):
    jobs = [job_of(tmp_path, name, latency_ns=[ns]) for name, ns in {"a": MS, "b": MS, "c": 2 * MS}.items()]
    findings = compare(jobs)
    assert findings.stopped_because == "all verdicts on latency are decided"
    assert [(one.label, one.groups) for one in findings.ranking.places] == [("a", "a"), ("b", "a"), ("c", "b")]
    assert {row(findings, "latency", b).verdict for b in "bc"} == {"same", "slower"}


# --- when it stops ---


def test_it_goes_on_while_nothing_is_safe_and_stops_at_a_look(tmp_path, transport):
    """Processes of B scatter by ±10 % around 1.04 of A: after five pairs nothing is certain."""
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b")]
    factors = [1.14, 0.94, 1.10, 0.98, 1.04]

    def scattering(line: Line) -> None:
        number = sum(job["model"].endswith("b") for job in transport.jobs) - 1
        write_fake_model(tmp_path / "b", latency_ns=[round(MS * factors[number % 5])])
        play_worker(line)

    transport.parts = {("b", start): scattering for start in range(100)}
    findings = compare(jobs, criteria=Criteria(metrics=("latency",)), rounds=18)
    latency = row(findings, "latency")
    assert findings.pairs == 18 and findings.stopped_because == wording("maximum-round-reached", rounds=18, value="s")
    assert latency.verdict == "inconclusive"
    assert latency.low < 1.04 < latency.high
    assert latency.decides_in_s > 0


def test_the_last_look_ends_it_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.comparing.trial.LOOKS", (2, 3))
    findings = compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], until="energy")
    assert findings.pairs == 3
    assert "asked for" not in findings.stopped_because


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_fewer_rounds_than_a_verdict_needs_are_inconclusive(tmp_path, rounds):
    findings = compare([job_of(tmp_path, "a"), job_of(tmp_path, "b", latency_ns=[2 * MS])], rounds=rounds)
    assert findings.pairs == rounds
    if rounds < 3:
        assert row(findings, "latency").verdict == "inconclusive" and row(findings, "latency").because


def test_until_another_metric(tmp_path):
    findings = compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], until="throughput")
    assert findings.stopped_because == "the verdict on throughput is decided"


def test_metrics_without_the_headline_do_not_measure_to_the_end_of_the_budget(tmp_path):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b")]
    findings = compare(jobs, criteria=Criteria(metrics=("model_size",)), rounds=6)
    assert findings.pairs <= LOOKS[0]
    assert findings.stopped_because == "the verdict on model_size is decided"


def test_a_failed_baseline_ends_it_where_no_verdict_can_come(tmp_path, transport):
    transport.parts = {("a", 0): fail}
    findings = compare([job_of(tmp_path, name) for name in "abc"], rounds=7)
    assert "a" in findings.failures
    assert findings.pairs <= LOOKS[0]


def test_a_failed_baseline_leaves_rows_that_say_why_and_a_ranking(tmp_path, transport):
    transport.parts = {("a", 0): fail}
    jobs = [job_of(tmp_path, name, latency_ns=[ns]) for name, ns in {"a": MS, "b": MS, "c": 2 * MS}.items()]
    findings = compare(jobs, rounds=5)
    assert findings.failures == {"a": "no such operator"}
    assert not findings.passed
    for b in "bc":
        latency = row(findings, "latency", b)
        assert latency.ratio is None and latency.verdict == "inconclusive"
        assert "a failed: no such operator" in latency.because
        assert latency.after.value is not None
    assert [one.label for one in findings.ranking.places if one.value is not None] == ["b", "c"]


@pytest.mark.parametrize("at", [0, 3])
def test_a_variant_that_fails_leaves_the_others_to_be_compared(tmp_path, transport, at):
    transport.parts = {("b", at): fail}
    jobs = [job_of(tmp_path, name, latency_ns=[ns]) for name, ns in {"a": MS, "b": MS, "c": 2 * MS}.items()]
    findings = compare(jobs)
    assert findings.failures == {"b": "no such operator"} and not findings.passed
    assert row(findings, "latency", "c").verdict == "slower" and findings.pairs == LOOKS[0]
    assert "b failed" in row(findings, "latency", "b").because
    assert findings.stopped_because == "the verdict on latency is decided"


def test_both_of_two_fail(tmp_path, transport):
    transport.parts = {(name, 0): fail for name in "ab"}
    findings = compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")])
    assert set(findings.failures) == {"a", "b"}
    assert "no such operator" in findings.failures.values()
    assert findings.pairs == 0
    assert all(one.ratio is None for one in findings.comparisons if one.metric == "latency")


def test_who_settles_it_is_told_the_variants(tmp_path):
    seen: list[int] = []

    def settled(variants: Sequence[Variant]) -> str | None:
        assert [variant.label for variant in variants] == ["a", "b"]
        seen.append(len(variants[0].run.sessions))
        return "seen enough" if len(seen) == 2 else None

    findings = compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], settled=settled)
    assert seen == list(LOOKS[:2])
    assert (findings.pairs, findings.stopped_because) == (LOOKS[1], "seen enough")


def test_runs_of_a_process_that_ends_early_are_in_the_store_already(tmp_path, transport):
    """After one round there is something to keep; not only at the looks where verdicts are sought."""
    saved: list[Run] = []
    seen: dict[int, set[int]] = {}

    def noting(line: Line) -> None:
        seen[line.number] = {len(run.sessions) for run in saved}
        play_worker(line)

    transport.parts = {("b", start): noting for start in range(6)}
    compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], saved=saved)
    assert list(seen.values())[1] == {1}


# --- what is refused ---


def test_other_shapes_are_refused_before_anything_is_measured(tmp_path, transport):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", inputs=WIDE)]
    with pytest.raises(BadInput, match="input shapes: a 1×4, b 1×8") as caught:
        compare(jobs)
    assert "--force" in caught.value.advice
    assert transport.jobs == []
    assert row(compare(jobs, criteria=Criteria(force=True)), "latency").verdict == "same"


def test_another_batch_is_refused_before_anything_is_measured(tmp_path, transport):
    open_inputs = [{"name": "x", "shape": [None, 4], "dtype": "float32"}]
    jobs = [job_of(tmp_path, "a", inputs=open_inputs), job_of(tmp_path, "b", inputs=open_inputs, batch=8)]
    with pytest.raises(BadInput, match="batch: a 1, b 8"):
        compare(jobs)
    assert transport.jobs == []


def test_every_later_variant_is_held_against_the_first(tmp_path, transport):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b"), job_of(tmp_path, "c", inputs=WIDE)]
    with pytest.raises(BadInput, match="c 1×8"):
        compare(jobs)
    assert transport.jobs == []


def test_another_task_is_refused_after_the_first_round(tmp_path, transport):
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", outputs=THREE)]
    with pytest.raises(BadInput, match=r"outputs: .*a different task"):
        compare(jobs)
    assert len(transport.jobs) == 2
    findings = compare(jobs, criteria=Criteria(force=True))
    assert row(findings, "latency").verdict == "same"
    assert any(wording("different-task") in text for text in findings.obstacles)


def test_another_precision_engine_or_thread_count_is_only_stated(tmp_path):
    first = job_of(tmp_path, "a")
    other = replace(first, runtime=replace(first.runtime, threads=2, precision="bf16"))
    findings = run_trial(
        [first, other], labels=["one", "two"], criteria=Criteria(), trial=TrialSettings(budget_s=30.0),
        save=lambda run: None, sensors=Sensors(absences={}),
    )  # fmt: skip
    assert {text.split(":")[0] for text in findings.stated} >= {"threads", "precision"}
    assert findings.obstacles == ()


def test_one_is_no_comparison(tmp_path, transport):
    with pytest.raises(BadInput, match=says("there-nothing-compare")) as caught:
        compare([job_of(tmp_path, "a")])
    assert "--vary" in caught.value.advice
    with pytest.raises(BadInput, match=says("there-nothing-compare")):
        compare([])
    assert transport.jobs == []


def test_a_crowd_is_refused(tmp_path, transport):
    jobs = [job_of(tmp_path, f"m{number}") for number in range(MOST_VARIANTS + 1)]
    with pytest.raises(BadInput, match=says("variants-too-many-once")):
        compare(jobs)
    assert transport.jobs == []


def test_an_unknown_metric_to_wait_for_is_refused_first(tmp_path, transport):
    with pytest.raises(BadInput, match=says("unknown-metric", metric="latenzy")):
        compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], until="latenzy")
    assert transport.jobs == []


@pytest.mark.parametrize(
    "criteria",
    [
        pytest.param(Criteria(metrics=("latenzy",)), id="metric"),
        pytest.param(Criteria(front=("latenzy",)), id="front"),
        pytest.param(Criteria(metrics=("depth",)), id="neither better high nor low"),
        pytest.param(Criteria(threshold=-2.0), id="negative threshold"),
        pytest.param(Criteria(threshold=float("nan")), id="threshold that is no number"),
        pytest.param(Criteria(floors={"latenzy": 1e-6}), id="floor"),
        pytest.param(Criteria(floors={"latency": -1.0}), id="negative floor"),
    ],
)
def test_impossible_terms_are_refused_before_anything_is_measured(tmp_path, transport, criteria):
    with pytest.raises(BadInput):
        compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], criteria=criteria, rounds=1)
    assert transport.jobs == []


@pytest.mark.parametrize(
    "trial",
    [
        {"budget_s": 0.0},
        {"budget_s": -1.0},
        {"budget_s": float("nan")},
        {"budget_s": float("inf")},
        {"budget_s": 1e9},
        {"rounds": 0},
        {"rounds": -3},
    ],
)
def test_an_impossible_amount_of_measuring_is_refused(tmp_path, transport, trial):
    with pytest.raises(BadInput):
        compare([job_of(tmp_path, "a"), job_of(tmp_path, "b")], **{"budget_s": 1.0, **trial})
    assert transport.jobs == []
