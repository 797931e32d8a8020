"""From variants to findings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgewise.comparing.assessment import assess, require_fair
from edgewise.comparing.comparison import Variant
from edgewise.comparing.criteria import Criteria
from edgewise.errors import BadInput
from messages import says
from sample_runs import failed_run, make_run, offline_run


def variants(*runs):
    return [Variant(label="ABCD"[index], run=run) for index, run in enumerate(runs)]


def with_governor(run, governor):
    return replace(run, group="other", environment=run.environment | {"governor": governor})


def in_turns(*runs):
    return [replace(run, job=replace(run.job, workload=replace(run.job.workload, interleave="turns"))) for run in runs]


def test_findings_hold_all_that_is_known():
    runs = in_turns(make_run(1), make_run(2, runtime="openvino", latency=2.1e-4, half=4e-6, memory=92e6))
    findings = assess(
        variants(*runs),
        Criteria(),
        stopped_because="every verdict is decided",
        elapsed_s=12.5,
        pairs=5,
        notes=("a note",),
    )
    latency = next(row for row in findings.comparisons if row.metric == "latency")
    assert (latency.verdict, latency.design) == ("faster", "interleaved")
    assert latency.ratio == pytest.approx(0.5, abs=0.01)
    assert findings.stated == ("engine: A onnxruntime 1.2.3 (cpu), B openvino 1.2.3 (cpu)",)
    assert findings.notes == ("a note",)
    assert (findings.stopped_because, findings.elapsed_s, findings.pairs) == ("every verdict is decided", 12.5, 5)
    assert findings.obstacles == findings.not_excluded == findings.environments == ()
    assert findings.failures == {}
    assert findings.ranking is None
    document = json.loads(json.dumps(findings.to_document(), allow_nan=False))
    assert {"a", "b", "metric", "ratio", "low", "high", "verdict", "p_adjusted"} <= document["comparisons"][0].keys()


def test_all_obstacles_are_named_at_once():
    a, b = make_run(1), offline_run(2)
    b = replace(b, job=replace(b.job, workload=replace(b.job.workload, batch=8)))
    with pytest.raises(BadInput) as caught:
        assess(variants(a, b), Criteria())
    assert "batch: A 1, B 8" in caught.value.message
    assert "scenario: A single-stream, B offline 4 requests" in caught.value.message
    assert "--force" in caught.value.advice


def test_force_compares_and_keeps_the_obstacles():
    findings = assess(variants(make_run(1), make_run(2, batch=8)), Criteria(force=True))
    assert findings.obstacles == ("batch: A 1, B 8 (a different amount of work)",)
    assert findings.comparisons


def test_obstacles_alone_can_be_required_away():
    require_fair([], force=False)
    require_fair(["batch: 1, 8"], force=True)
    with pytest.raises(BadInput, match="batch: 1, 8; scenario"):
        require_fair(["batch: 1, 8", "scenario"], force=False)


def test_three_variants_are_ranked_by_the_headline():
    runs = in_turns(make_run(1), make_run(2, latency=2.1e-4, half=4e-6), make_run(3, latency=8e-4, half=2e-5))
    findings = assess(variants(*runs), Criteria())
    assert findings.ranking is not None
    assert findings.ranking.metric == "latency"
    assert [place.label for place in findings.ranking.places] == ["B", "A", "C"]
    assert findings.front is not None
    assert findings.front.members == ("B",)


def test_environments_are_compared_where_runs_were_measured_apart():
    findings = assess(variants(make_run(1), with_governor(make_run(2), "powersave")), Criteria())
    assert [(row.name, row.a, row.b) for row in findings.environments] == [("clock governor", "not known", "powersave")]
    assert findings.not_excluded


def test_of_several_each_row_says_whose_environment_it_is():
    runs = [make_run(1), with_governor(make_run(2), "powersave"), with_governor(make_run(3), "performance")]
    assert [(row.name, row.b) for row in assess(variants(*runs), Criteria()).environments] == [
        ("clock governor (A against B)", "powersave"),
        ("clock governor (A against C)", "performance"),
    ]


def test_failed_runs_are_failures():
    findings = assess(variants(make_run(1), failed_run(2)), Criteria())
    assert findings.failures == {"B": "operator 'Einsum' is not supported"}
    assert not findings.passed


def test_a_cancelled_run_without_sessions_is_a_failure():
    findings = assess(
        variants(
            make_run(1),
            replace(make_run(2), status="cancelled"),
            failed_run(3),
            replace(make_run(4), status="cancelled", sessions=()),
        ),
        Criteria(),
    )
    # What was cancelled and has sessions has results.
    untold = "not measured, because another variant failed or the time was up"
    assert findings.failures == {"C": "operator 'Einsum' is not supported", "D": untold}


def test_what_makes_no_comparison_is_refused():
    with pytest.raises(BadInput):
        assess(variants(make_run(1)), Criteria())
    with pytest.raises(BadInput):
        assess([], Criteria())
    with pytest.raises(BadInput, match=says("two-variants-called", label="A")):
        assess([*variants(make_run(1)), *variants(make_run(2))], Criteria())
