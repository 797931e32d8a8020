"""Findings whose saving a setting shows: what turns tell of it, and what a reader sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.comparing import tried_findings
from edgewise.comparing.tried_findings import settings_to_try, with_measured_savings
from edgewise.profiling.findings import NOT_KNOWN
from edgewise.record import Finding, InTurns
from edgewise.report.profile.document import profile_document
from edgewise.report.profile.findings import finding_sections, next_section, ranked_findings
from edgewise.report.profile.page import profile_page
from sample_profiles import profiled_run
from sample_runs import make_run

SETTING = "session.set_denormal_as_zero"
DENORMAL = Finding(code="denormal-weights", message="slow", suggestion="make them 0", saving=9e-4, layers=(0,))
OTHER = Finding(code="layout-changes", message="moved", suggestion="another layout", saving=3e-4, layers=(1,))
TURNS = InTurns(against="", ratio=0.26, low=0.254, high=0.266, verdict="faster", method="5 pairs")
NOTHING = replace(TURNS, ratio=1.002, low=0.98, high=1.02, verdict="same")


def run_with(*findings):
    run = profiled_run()
    return replace(run, profile=replace(run.profile, latency=1e-3, findings=findings))


@pytest.fixture
def turns(monkeypatch):
    """What turns tell of the run with the setting, None for nothing; and the runs that took them."""
    told, taken = [TURNS], []

    def with_turns(runs, history, *, each_s):
        taken.append((runs, each_s))
        own, other = runs
        (one,) = told
        return [own, other if one is None else replace(other, in_turns=(replace(one, against=own.id),))]

    monkeypatch.setattr(tried_findings, "with_turns", with_turns)
    return told, taken


def measured(*findings):
    return with_measured_savings(run_with(*findings), lambda machine: [])


def test_the_saving_is_that_of_turns_with_and_without_the_setting(turns):
    """An upper bound of 69 % stood where the setting saved 74 %: layers behind the weights gain, too."""
    found = measured(OTHER, DENORMAL)
    ((own, other), each_s) = turns[1][0]
    assert (
        other.job.runtime.options == {**own.job.runtime.options, SETTING: "1"}
        and SETTING not in own.job.runtime.options
    )
    assert other.id != own.id and each_s == 20.0 and len(turns[1]) == 1
    first, second = found.profile.findings
    assert (first.code, first.suggestion) == ("denormal-weights", "make them 0") and second == OTHER
    assert (first.saving, first.low, first.high) == pytest.approx((7.4e-4, 7.34e-4, 7.46e-4))
    assert first.method == (
        f"measured in turns with --set {SETTING}=1 and without it, ratio 0.260 (5 pairs); as a share of the latency"
    )
    assert settings_to_try(found) == [] and settings_to_try(run_with(DENORMAL)) == [f"{SETTING}=1"]
    lines = finding_sections(found)[0].lines
    assert lines[0] == "1. 740 µs (74.0 ± 0.6 %), measured in turns: slow → make them 0 (denormal-weights)"
    assert lines[1].startswith("2. up to 300 µs (30.0 %): moved → ")
    (row, *_) = profile_page([found]).tables[1].rows
    assert [cell.text for cell in row[1:3]] == ["740 µs", "74.0 ± 0.6 % of the whole"]
    assert "largest saving among the findings: 740 µs (74.0 ± 0.6 %), measured in turns: make them 0" in " ".join(
        profile_document([found]).answer
    )


def test_a_setting_that_saves_nothing_refutes_the_finding(turns):
    turns[0][:] = [NOTHING]
    found = measured(DENORMAL, OTHER)
    assert [one.code for one in ranked_findings(found.profile)] == ["layout-changes", "denormal-weights"]
    refuted = ranked_findings(found.profile)[1]
    assert refuted.is_refuted and not OTHER.is_refuted
    assert refuted.suggestion == f"--set {SETTING}=1 was tried, and a saving by it is not proven: {NOT_KNOWN}"
    assert (
        finding_sections(found)[0]
        .lines[1]
        .startswith("2. no saving is proven, measured in turns (-0.200 [-2.00, 2.00] %): slow → --set")
    )
    alone = measured(DENORMAL)
    assert not any("largest saving" in line for line in profile_document([alone]).answer)
    assert not any("without-denormals.onnx" in line for line in next_section([alone], {}).lines)


def test_the_bound_stays_where_turns_tell_nothing(turns):
    for told in (None, replace(TURNS, low=None, high=None)):
        turns[0][:] = [told]
        (found,) = measured(replace(DENORMAL, method="the whole")).profile.findings
        assert found.method == (
            f"the whole; --set {SETTING}=1 was tried in turns, but 40 s were too short for an interval"
        )
        assert replace(found, method="") == DENORMAL


def test_what_takes_no_turns_is_not_tried(turns):
    assert settings_to_try(run_with(OTHER)) == [] and settings_to_try(make_run(1)) == []
    tool = make_run(1, runtime="benchmark_model")
    assert settings_to_try(replace(tool, profile=run_with(DENORMAL).profile)) == []
    run = replace(tool, profile=run_with(DENORMAL).profile)
    assert with_measured_savings(run, lambda machine: []) == run and not turns[1]
