"""How a request ended: the same reasons and exit code for every door, and none of it read from what was printed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import sample_comparisons
import sample_optimizations
from edgewise.cancellation import CancelToken
from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.localizing import WrongOperator
from edgewise.converting.result import Agreement, Conversion
from edgewise.errors import BadInput, ExitCode, RunFailed, StoreError, Unavailable
from edgewise.studio.jobs.messages import End, JobState
from edgewise.studio.work import carry_out, end_of
from edgewise.terminal.errors import tell_ending
from edgewise.verbs.measuring import Measured
from edgewise.verbs.presentation import Ending
from edgewise.verbs.request import SCHEMA
from edgewise.verbs.verb import VERBS
from estimates import estimated
from sample_calibrations import forecasts
from sample_profiles import profiled_run, unprofiled_run
from sample_runs import failed_run, make_run

FULL = StoreError("the disk is full", advice="free some space")


def ending(verb: str, result) -> Ending:
    return VERBS.get(verb).presentation().ending(result, kept=True)


def told(verb: str, result) -> tuple[int, list[str], list[str]]:
    """The exit code, the reasons that a door has to tell, and those that the result shows."""
    ended = ending(verb, result)
    return ended.code, [error.message for error in ended.problems], [error.message for error in ended.shown]


def refused() -> Conversion:
    apart = OutputAgreement(name="y", max_abs=1, max_rel=0.5, snr_db=0, top1=None, close=False, why="", allowed="2 %")
    return Conversion(
        source={}, to="onnx", path=None, model={}, steps=(), lost=(), agreement=Agreement(outputs=(apart,)),
        wrong=WrongOperator(),
    )  # fmt: skip


def test_what_was_asked_for_is_done(tmp_path):
    for verb, result in {
        "bench": Measured(runs=[make_run(1)]),
        "profile": Measured(runs=[profiled_run()]),
        "compare": sample_comparisons.two_variants(),
        "estimate": estimated(tmp_path),
        "optimize": sample_optimizations.found(),
        "evaluate": sample_optimizations.one_model(),
    }.items():
        assert told(verb, result) == (0, [], [])
        assert end_of(ending(verb, result)) == End(status="done", exit_code=0)


def test_a_run_that_failed_is_told_with_its_cause():
    run = failed_run(message="no such operator")
    reason = f"{run.job.label}: {run.failure.cause}: no such operator"
    assert told("bench", Measured(runs=[make_run(1), run])) == (ExitCode.RUN_FAILED, [], [reason])
    assert told("bench", Measured(runs=[make_run(1)], devices_left_out=["phone"]))[2] == ["phone could not measure"]


def test_layers_without_times_are_missed_by_profile_alone():
    run = unprofiled_run()
    crashed = replace(run, profile_absent_because="OutOfMemory: killed")
    assert told("bench", Measured(runs=[run])) == (0, [], [])
    reason = f"{run.job.label}: {run.profile_absent_because}"
    assert told("profile", Measured(runs=[run])) == (ExitCode.UNAVAILABLE, [], [reason])
    assert told("profile", Measured(runs=[run, crashed]))[0] == ExitCode.RUN_FAILED


def test_runs_that_are_not_saved_are_told_but_a_failed_one_is_worse_and_a_gate_has_its_verdict_alone():
    assert told("bench", Measured(runs=[make_run(1)], save_errors=[FULL])) == (3, [], [FULL.message])
    assert told("bench", Measured(runs=[failed_run()], save_errors=[FULL]))[0] == ExitCode.RUN_FAILED
    gate = sample_comparisons.judged()
    unsaved = replace(gate, findings=replace(gate.findings, save_errors=(FULL,)))
    assert told("gate", unsaved) == told("gate", gate)


def test_a_gate_that_closes_is_an_answer_and_one_without_a_measurement_is_not():
    gate = sample_comparisons.judged()  # slower than allowed; energy absent
    assert told("gate", gate) == (ExitCode.BUDGET_EXCEEDED, [], [])
    assert end_of(ending("gate", gate)) == End(status="done", exit_code=ExitCode.BUDGET_EXCEEDED)
    unmeasured = replace(gate, checks=tuple(one for one in gate.checks if one.verdict != "fail"))
    assert told("gate", unmeasured) == (ExitCode.RUN_FAILED, [], [unmeasured.conclusion])


def test_other_results_say_why_they_are_not_what_was_asked_for(tmp_path):
    found = sample_comparisons.one_failed()
    code, problems, shown = told("compare", found)
    assert (code, problems) == (ExitCode.RUN_FAILED, []) and shown[0].startswith(next(iter(found.failures)))
    large = replace(estimated(tmp_path), refused="too large", advice="take a smaller one")
    assert told("estimate", large) == (ExitCode.RUN_FAILED, ["too large"], [])
    assert [message.partition(":")[0] for message in told("predict", forecasts())[1]] == ["Huge"]
    assert told("optimize", sample_optimizations.bounds_unmet())[1][0].startswith("nothing meets the bounds")
    assert told("evaluate", sample_optimizations.with_failure())[0] == ExitCode.RUN_FAILED
    assert told("convert", refused())[1][0].startswith("nothing was written")


def test_what_the_result_shows_is_not_printed_again(capsys):
    assert tell_ending(ending("bench", Measured(runs=[failed_run()]))) == ExitCode.RUN_FAILED
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_result_is_cancelled_whatever_else_it_lacks():
    ended = ending("bench", Measured(runs=[failed_run()], save_errors=[FULL], interrupted=True))
    assert ended.code == ExitCode.INTERRUPTED and ended.interrupted and not (ended.problems or ended.shown)
    assert end_of(ended).status == "cancelled" and end_of(ended).error == ""


def test_the_end_of_a_job_names_the_class_of_the_error_and_each_reason_once():
    runs = [failed_run(4), failed_run(5), failed_run(6, message="error: try: it")]
    end = end_of(ending("bench", Measured(runs=runs, save_errors=[FULL])))
    assert (end.status, end.error, end.exit_code, end.advice) == ("failed", "RunFailed", 4, FULL.advice)
    assert end.message.count(runs[0].failure.message) == 1 and "error: try: it" in end.message
    lost = End.failed(Unavailable("no device"))
    assert lost == End(status="failed", exit_code=3, error="Unavailable", message="no device")
    assert End.failed(BadInput("a", advice="x"), BadInput("b", advice="x")).advice == "x"


def test_an_end_is_the_same_on_the_other_side():
    end = End.failed(RunFailed("it broke", advice="try another engine"))
    assert End.of(end.to_message()) == end
    state = JobState(id="1", title="", verb="bench")
    state.apply(end.to_message())
    assert (state.status, state.message, state.advice) == ("failed", "it broke", "try another engine")


@pytest.mark.parametrize(
    ("verb", "fields", "message", "advice"),
    [
        (
            "convert",
            {"model": "m.onnx", "to": "onnx", "precision": "f16"},
            "Precision = f16 applies only to Format = openvino",
            "passes",
        ),
        ("bench", {"models": ["m.onnx"], "fps": 30}, "FPS applies only to the scenario paced", "add Scenario = paced"),
    ],
)
def test_a_job_that_fails_names_the_labels_of_its_form(tmp_path, verb, fields, message, advice):
    (tmp_path / "request.json").write_text(json.dumps({"schema": SCHEMA, "verb": verb, **fields}))
    end = carry_out(tmp_path, lambda message: None, CancelToken())
    assert (end.status, end.message) == ("failed", message) and advice in end.advice
