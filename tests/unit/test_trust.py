"""Cautions at their thresholds, and the grade that follows."""

from dataclasses import replace
from pathlib import Path

import edgewise
from edgewise.record import (
    CAUTIONS,
    Caution,
    Constraints,
    InputSpec,
    Job,
    Measurement,
    ModelRef,
    RuntimeSpec,
    Scenario,
    Summary,
    TargetSpec,
    Workload,
)
from edgewise.run.host_protocol import SessionResult
from edgewise.run.trust import about_width, cautions_of, grade_of
from messages import wording


def job(*, threads=1, precision=None, scenario="single-stream", note=""):
    return Job(
        model=ModelRef(name="m", path="/m", format="fake", sha256="0", size_bytes=1),
        runtime=RuntimeSpec(name="fake", threads=threads, precision=precision),
        workload=Workload(
            scenario=Scenario(kind=scenario), inputs=(InputSpec(name="x", shape=(1,), dtype="float32", note=note),)
        ),
    )


def session(**counters):
    facts = {"counters": counters, "steady": {"warmup_found": True}, "effective": {"threads": 1, "precision": "f32"}}
    return SessionResult(index=0, started_at="", facts=facts)


def latency(samples=None, *, low=0.999, high=1.001, between=0.0):
    samples = tuple(samples or [1.0, 1.001, 0.999] * 10)
    summary = Summary(
        n=len(samples),
        mean=sum(samples) / len(samples),
        std=0,
        min=1,
        max=1,
        median=1,
        mad=0,
        outliers=0,
        between_sessions=between,
    )
    return Measurement(
        metric="latency", unit="s", basis="measured", method="", value=1.0, low=low, high=high, samples=samples,
        session_lengths=(len(samples),), summary=summary,
    )  # fmt: skip


def codes(*, the_job=None, sessions=None, measurement=None, usable_cores=2):
    found = cautions_of(
        the_job or job(),
        sessions=sessions or [session(), session()],
        measurements=[measurement or latency()],
        usable_cores=usable_cores,
    )
    return [caution.code for caution in found]


def test_quiet_precise_and_repeated_is_free_of_cautions():
    assert codes() == []


def test_each_condition_has_its_caution():
    assert codes(measurement=latency([1.0] * 8)) == ["too-few-samples"]
    assert codes(sessions=[session()]) == ["single-session"]
    assert codes(measurement=latency(low=0.94, high=1.06)) == ["wide-interval"]
    assert codes(measurement=latency(between=0.031)) == ["sessions-differ"]
    assert codes(measurement=latency([1.0, 1.001, 0.999] * 32 + [1.3, 1.3])) == ["outliers"]
    assert codes(measurement=latency([1.0, 1.001, 0.999] * 32 + [1.19, 1.19])) == []  # a timer tick
    assert codes(measurement=latency([1.0, 1.001, 0.999] * 40 + [1.3])) == []  # one in a hundred
    assert codes(measurement=latency([1.0, 1.001, 0.999] * 33 + [30.0])) == ["mean-above-median"]
    assert codes(measurement=latency([1.0, 1.001, 0.999] * 33 + [25.0])) == []  # 1.24 medians
    assert codes(sessions=[session(), session(busy_share_of_others=0.11)]) == ["busy-host"]
    assert codes(sessions=[session(steal_share=0.011), session()]) == ["steal"]
    assert codes(sessions=[session(memory_pressure_share=0.06), session()]) == ["memory-pressure"]
    assert codes(sessions=[session(involuntary_per_s=101.0), session()]) == ["context-switches"]
    assert codes(sessions=[session(throttled_s=0.1), session()]) == ["throttled"]
    assert codes(the_job=job(note="open dimension 2 taken as 224")) == ["assumed-shape"]
    assert codes(the_job=job(note="data converted from float64 to float32")) == ["input-converted"]
    assert codes(the_job=job(note="leading dimension reshaped from 1 to 8")) == []


def test_an_engine_that_pins_its_threads_is_named_beside_other_processes_and_machines_alone():
    def pinned(busy, *, pins=True, steal=0.0):
        one = session(busy_share_of_others=busy, steal_share=steal)
        one.facts["effective"]["cpu_pinning"] = pins
        return one

    assert codes(sessions=[pinned(0.5), session()]) == ["busy-host", "pinned-threads"]
    assert codes(sessions=[pinned(0.5, pins=False), session()]) == ["busy-host"]
    assert codes(sessions=[pinned(0.05), session()]) == []
    assert codes(sessions=[pinned(0.0, steal=0.05), session()]) == ["steal", "pinned-threads"]
    assert codes(sessions=[pinned(0.0, steal=0.05, pins=False), session()]) == ["steal"]
    for busy, steal, who in (
        (0.5, 0.0, "other programs"), (0.0, 0.05, "other virtual machines"),
        (0.5, 0.05, "other programs and other virtual machines"),
    ):  # fmt: skip
        sessions = [pinned(busy, steal=steal)] * 2
        *_, last = cautions_of(job(), sessions=sessions, measurements=[latency()], usable_cores=2)
        assert last.message.endswith(f" pins its threads to processors, where they wait for {who}")
    found = cautions_of(job(), sessions=[pinned(0.5)] * 2, measurements=[latency()], usable_cores=2)
    assert found[1].advice.startswith("--set ENABLE_CPU_PINNING=false lets the system move them")


def test_a_mean_far_above_the_median_is_told_by_both_numbers():
    long = latency([1.0, 1.001, 0.999] * 33 + [117.0])
    assert graded(long) == ("A", ["median 1.00 s, mean 2.16 s: 1.0% of the inferences took longer than the mean"])
    busy = [session(busy_share_of_others=0.86), session(busy_share_of_others=0.25)]
    assert graded(long, busy)[1][0] == (
        "median 1.00 s, mean 2.16 s: 1.0% of the inferences took longer than the mean, while other processes used up "
        "to 86% of the processor time"
    )
    quiet = [session(busy_share_of_others=0.1), session()]
    assert graded(long, quiet)[1] == graded(long)[1]


def test_thresholds_are_not_crossed_by_their_own_value():
    quiet = session(
        busy_share_of_others=0.10,
        steal_share=0.01,
        involuntary_per_s=100.0,
        throttled_s=0.0,
        memory_pressure_share=0.05,
    )
    assert codes(sessions=[quiet, quiet], measurement=latency([1.0] * 9, low=0.9501, high=1.0499)) == []


def graded(measurement, sessions=None):
    found = cautions_of(job(), sessions=sessions or [session()] * 2, measurements=[measurement], usable_cores=2)
    return grade_of(found, measured=True).grade, [caution.message for caution in found]


def test_the_grade_follows_the_width_of_the_interval():
    assert graded(latency(low=0.96, high=1.04))[0] == "A"
    assert graded(latency(low=0.7, high=1.399)) == ("C", ["the 95 % interval is −30.0 % to +39.9 % of the value"])
    assert graded(latency(low=0.7, high=1.401)) == (
        "D", ["the 95 % interval, 1.00 [0.700, 1.41] s, spans more than a factor of 2"]
    )  # fmt: skip
    assert graded(latency(low=0.004, high=254.74)) == (
        "D", ["the 95 % interval, 1.00 [0.00400, 255] s, spans more than a factor of 2"]
    )  # fmt: skip
    assert graded(latency(low=-0.1, high=1.1))[0] == "D"


def test_a_width_beyond_the_value_is_told_by_its_ends():
    spent = session()
    spent.facts["steady"]["stopped_because"] = "time budget"
    messages = graded(latency(low=0.004, high=254.74), sessions=[spent, session()])[1]
    assert messages[1] == "the interval within this run is [0.00400, 255] s, wider than the target of ± 1%"
    assert "25374" not in " ".join(messages)


def test_the_time_budget_is_named_where_the_interval_missed_its_aim():
    spent = session()
    spent.facts["steady"]["stopped_because"] = "time budget"
    assert codes(sessions=[spent, session()], measurement=latency(low=0.98, high=1.02)) == ["stopped-early"]
    assert codes(sessions=[spent, session()], measurement=latency(low=0.995, high=1.005)) == []


def test_unreadable_counters_are_no_caution():
    assert codes(sessions=[session(busy_share_of_others=None, steal_share=None), session()]) == []


def test_threads_ignored_and_too_many():
    assert codes(the_job=job(threads=4)) == ["oversubscribed", "settings-ignored"]
    assert codes(the_job=job(threads=2)) == ["settings-ignored"]
    offline = replace(job(), workload=Workload(scenario=Scenario(kind="offline", streams=3, requests=1)))
    assert codes(the_job=offline) == ["settings-ignored"]
    assert codes(the_job=job(precision="bf16")) == ["settings-ignored"]
    assert codes(the_job=job(precision="f32")) == []


def test_a_default_of_the_engine_that_was_not_taken_is_named():
    told = session()
    told.facts["effective"] = {"threads": 1, "precision": "f32", "default_precision": "bf16"}
    (caution,) = cautions_of(job(), sessions=[told] * 2, measurements=[latency()], usable_cores=2)
    assert caution.code == "not-default-precision" and "--precision f32,bf16 measures both" in caution.message
    assert grade_of([caution], measured=True).grade == "A"
    assert codes(sessions=[told] * 2, the_job=job(precision="f32")) == []
    told.facts["effective"]["default_precision"] = "f32"
    assert codes(sessions=[told] * 2) == []


def test_a_trend_is_named():
    drifting = [1.0 + 0.002 * n for n in range(200)]
    assert "drift" in codes(measurement=latency(drifting))


def test_a_sustained_run_is_not_advised_to_use_more_sessions():
    """``--sustained`` excludes ``--sessions``."""
    scenario = Scenario(sustained_s=60.0)
    (found,) = cautions_of(
        replace(job(), workload=replace(job().workload, scenario=scenario)),
        sessions=[session()], measurements=[latency()], usable_cores=2,
    )  # fmt: skip
    assert found.code == "single-session" and found.advice == wording("run-command-again-see-how")


def test_processor_time_is_only_missed_where_the_scenario_has_no_pauses():
    def limited(**scenario):
        workload = replace(job().workload, scenario=Scenario(**scenario))
        target = TargetSpec(constraints=Constraints(cpus=0.5))
        used = session(process_cpu_s=0.1, wall_s=1.0)
        return codes(the_job=replace(job(), workload=workload, target=target), sessions=[used, used])

    assert limited() == ["cpu-not-used"]
    assert limited(duty_cycle=0.2) == [] == limited(kind="paced", fps=10.0)


def test_grade_is_the_worst_that_any_caution_allows():
    assert grade_of((), measured=True).grade == "A"
    assert grade_of((Caution.of("outliers", "some"),), measured=True).grade == "A"
    trust = grade_of((Caution.of("single-session", "one"), Caution.of("steal", "taken")), measured=True)
    assert trust.grade == "C"
    assert trust.reasons == ("taken (at best C)", "one (at best B)")
    assert grade_of((Caution.of("too-few-samples", "3"),), measured=True).grade == "D"
    assert grade_of((), measured=False).grade == "D"


def test_every_caution_is_raised_somewhere():
    rooms = [Path(edgewise.__file__).parent / name for name in ("run", "evaluating", "importing", "verbs/lab")]
    source = "".join(path.read_text() for room in rooms for path in room.glob("*.py"))
    assert [code for code in CAUTIONS if f'"{code}"' not in source] == []


def test_every_caution_has_a_grade_and_advice():
    for code, (cap, advice) in CAUTIONS.items():
        assert cap in "ABCD" and len(cap) == 1, code
        assert len(advice) > 10, code


def test_headlines():
    headlines = {kind: Scenario(kind=kind).headline for kind in ("single-stream", "offline", "paced")}
    assert headlines == {"single-stream": "latency", "offline": "throughput", "paced": "latency_paced"}


def test_a_wide_total_time_of_a_program_limits_its_grade():
    """± 29 % was graded A, as only runs of models were looked at."""
    row = Measurement.of("total_time", 3.63, "wall time", basis="measured", low=2.58, high=4.68)
    (caution,) = about_width(row)
    assert caution.code == "wide-interval" and "± 29.0 %" in caution.message
    assert not list(about_width(replace(row, low=3.6, high=3.66)))
