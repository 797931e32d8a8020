"""`edgewise gate` through the fake engine: exit codes, baselines of every kind, reports."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.run.run_builder import Sensors
from edgewise.stats.comparison import LOOKS
from edgewise.store import open_store
from edgewise.store.exchange import import_runs
from edgewise.testing import write_fake_model
from edgewise.units import format_quantity
from messages import has, is_in, says, wording
from threaded_workers import Line, install

MS = 1_000_000
PASS, FAIL, UNMEASURED = ExitCode.DONE, ExitCode.BUDGET_EXCEEDED, ExitCode.RUN_FAILED


def write(folder: Path, name: str, latency_ms: float, **script) -> Path:
    """A model whose inferences take `latency_ms`, a thousandth more or less."""
    path = folder / f"{name}.fake"
    times = [round(latency_ms * MS * (1 + 0.001 * step)) for step in (-1, 0, 1, 0, 1, -1)]
    write_fake_model(path, **{"latency_ns": times, **script})
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A folder with models, a store whose run is tagged main, and bundles of five and of one process."""
    folder = tmp_path_factory.mktemp("recorded")
    write(folder, "base", 2.0)
    write(folder, "same", 2.001)
    write(folder, "slow", 2.2)
    store = ["--store", str(folder / "runs.db"), "-q"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["bench", "base.fake", "--iterations", "40", "--sessions", "5", "--no-meters", *store]) == PASS
        assert run(["runs", "tag", "main", "last", "--store", str(folder / "runs.db")]) == PASS
        assert run(["runs", "export", "main", "-o", "five.json", "--store", str(folder / "runs.db")]) == PASS
        assert run(["bench", "base.fake", "--iterations", "40", "--no-meters", *store]) == PASS
        assert run(["runs", "export", "last", "-o", "one.json", "--store", str(folder / "runs.db")]) == PASS
    return folder


@pytest.fixture
def place(recorded, tmp_path, monkeypatch) -> Path:
    """A copy of that folder to work in."""
    folder = tmp_path / "work"
    shutil.copytree(recorded, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EDGEWISE_STORE", str(folder / "runs.db"))
    return folder


def gate(capsys, *words: str) -> tuple[int, dict]:
    """The exit code and the one document on standard output."""
    code = run(["gate", *words, "--json", "-q"])
    return code, json.loads(capsys.readouterr().out)


def forbidden(*words: object, **more: object) -> None:
    raise AssertionError("the machine was to be held")


def verdicts(document) -> list[str]:
    return [check["verdict"] for check in document["checks"]]


def refused(capsys, *words: str) -> str:
    """What standard error says of a command line that is refused, in one line and one of advice."""
    assert run(["gate", *words, "-q"]) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    assert captured.err.startswith("error: ")
    return " ".join(captured.err.split())


# --- measured ---


def test_two_models_of_one_speed_pass_and_every_report_says_so(place, capsys):
    files = [f"out.{extension}" for extension in ("xml", "md", "json", "html")]
    outputs = [word for name in files for word in ("-o", name)]
    code = run(["gate", "same.fake", "--baseline", "base.fake", "--max-regression", "3%", *outputs])
    captured = capsys.readouterr()
    assert code == PASS
    assert "Gate passed on fake/cpu: the requirement is met" in captured.out
    assert max(map(len, captured.out.splitlines())) <= 80
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    assert (
        Path("out.md").read_text("utf-8").startswith("<!-- edgewise gate -->\n### ✓ edgewise gate passed on fake/cpu: ")
    )
    document = json.loads(Path("out.json").read_text("utf-8"))
    assert document["passed"] is True and document["attempts"] == 1 and document["pairs"] >= 5
    assert "passed on fake/cpu: the requirement is met" in Path("out.html").read_text("utf-8")
    assert all(f"wrote {name}" in captured.err for name in files)


def test_a_passing_gate_says_without_details_where_the_baseline_is_from(place, capsys):
    words = ["gate", "same.fake", "--baseline", "main", "--max-regression", "3%", "-q"]
    assert run([*words, "-o", "told.md"]) == PASS
    told = " ".join(capsys.readouterr().out.split())
    assert "How it was measured: the baseline's model was measured again beside the candidate (" in told
    with open_store() as store:
        stored = store.get("main").value("latency")
    assert f"its stored run has latency {format_quantity(stored, 's')}" in told
    visible = Path("told.md").read_text("utf-8").partition("<details>")[0]
    assert "The baseline's model was measured again beside the candidate" in visible
    assert run([*words, "--stored"]) == PASS
    told = " ".join(capsys.readouterr().out.split())
    assert "How it was measured: the baseline is the stored run" in told


def test_a_file_against_itself_is_said_to_show_no_change(place, capsys):
    assert run(["bench", "base.fake", "-q"]) == 0 and run(["runs", "tag", "before", "last"]) == 0
    capsys.readouterr()
    told = {}
    for name in ("base.fake", "same.fake"):
        assert run(["gate", name, "--baseline", "before", "--max-regression", "9%", "-q"]) == 0
        told[name] = " ".join(capsys.readouterr().out.split())
    assert "are the same file on the same engine, both measured now" in told["base.fake"]
    assert "the same file" not in told["same.fake"]


def test_a_slower_model_fails_against_a_tag_whose_model_is_measured_again(place, capsys):
    code, document = gate(capsys, "slow.fake", "--baseline", "main", "--max-regression", "3%")
    assert code == FAIL and verdicts(document) == ["fail"]
    assert document["checks"][0]["ratio"] == pytest.approx(1.1, rel=1e-3)
    assert any("measured again beside the candidate" in note for note in document["gate_notes"])
    assert document["comparisons"][0]["design"] == "interleaved"
    assert document["stopped_because"] == "a requirement is not met"
    # What was measured is kept.
    with open_store(str(place / "runs.db")) as store:
        assert {variant["run"] for variant in document["variants"]} <= {row.id for row in store.list()}


def test_a_store_that_cannot_be_written_changes_no_verdict_and_costs_no_run(place, capsys):
    Path("file").write_text("no database")
    words = ["slow.fake", "--baseline", "base.fake", "--max-regression", "3%", "--store", "file", "-q"]
    assert run(["gate", *words]) == FAIL
    assert capsys.readouterr().err.count("not saved:") == 1
    (recovery,) = place.glob("edgewise-recovery-*.json")
    assert {one.job.model.name for one in import_runs(recovery)} == {"slow.fake", "base.fake"}


def test_a_candidate_that_fails_is_unmeasured(place, capsys):
    write_fake_model("crash.fake", behaviour={"at": "load", "do": "unsupported"})
    code, document = gate(capsys, "crash.fake", "--baseline", "base.fake", "--max-regression", "3%")
    assert code == UNMEASURED and verdicts(document) == ["unmeasured"]
    assert "candidate" in document["failures"]


def test_a_metric_that_nothing_here_tells_is_unmeasured(place, capsys):
    words = ["--budget", "latency=5ms,accuracy_top1=97%", "--stored"]
    code, document = gate(capsys, "main", *words)
    assert code == UNMEASURED and verdicts(document) == ["pass", "unmeasured"]
    assert "accuracy_top1" in document["checks"][1]["because"]


def test_what_no_measuring_can_tell_ends_at_the_first_look(place, capsys, monkeypatch):
    transport = install(monkeypatch, turns=5)
    monkeypatch.setattr(
        "edgewise.run.run_builder.find_sensors", lambda **_: Sensors(absences={"energy": "no meter is here"})
    )
    code, document = gate(capsys, "same.fake", "--baseline", "base.fake", "--max-regression", "energy=3%")
    assert code == UNMEASURED and verdicts(document) == ["unmeasured"]
    assert "energy" in document["checks"][0]["because"] and "no meter is here" in document["checks"][0]["because"]
    assert (document["attempts"], document["pairs"], len(transport.jobs)) == (1, LOOKS[0], 2 * LOOKS[0])
    assert "the time budget" not in document["stopped_because"]


# --- the time budget of a candidate alone ---


def test_a_candidate_that_hangs_is_unmeasured_when_the_time_budget_ends(place, capsys, threads):
    """Its own limit is two minutes, and nothing is tried again."""
    write_fake_model("hang.fake", behaviour={"at": "load", "do": "hang"})
    code, document = gate(capsys, "hang.fake", "--budget", "latency=5ms", "--time-budget", "1s")
    assert code == UNMEASURED and verdicts(document) == ["unmeasured"] and document["attempts"] == 1
    assert wording("time-budget-ended-phase-so", phase="load") in document["checks"][0]["because"]


def say_nothing(line: Line) -> None:
    """A worker that hangs until its host has gone."""
    line.say_hello()
    line.sleep()


def test_a_time_budget_that_ends_between_processes_leaves_those_that_are_complete(place, capsys, threads):
    threads.parts = {("same.fake", 2): say_nothing}
    words = ["--budget", "latency=5ms", "--time-budget", "2s", "--on-inconclusive", "fail"]
    code, document = gate(capsys, "same.fake", *words)
    assert (code, verdicts(document), len(threads.jobs)) == (PASS, ["pass"], 3)
    assert run(["runs", "show", "last", "--json"]) == PASS
    (kept,) = json.loads(capsys.readouterr().out)["runs"]
    assert kept["status"] == "done" and kept["failure"] is None and len(kept["sessions"]) == 2
    cautions = {caution["code"]: caution["message"] for caution in kept["cautions"]}
    assert cautions["fewer-sessions"] == "only 2 of 5 sessions fit into the time budget"


# --- the baseline's samples ---


def test_with_stored_the_candidate_is_measured_as_the_baseline_was(place, capsys):
    code, document = gate(capsys, "slow.fake", "--baseline", "five.json", "--max-regression", "3%", "--stored")
    assert code == FAIL and verdicts(document) == ["fail"]
    assert document["comparisons"][0]["design"] == "sessions"
    assert any("--stored" in note for note in document["gate_notes"])
    assert any("not in turns" in line for line in document["not_excluded"])
    assert run(["runs", "show", document["variants"][1]["run"], "--json"]) == PASS
    (measured,) = json.loads(capsys.readouterr().out)["runs"]
    assert measured["job"]["workload"]["stopping"]["iterations"] == 40
    assert len(measured["sessions"]) == 5


def moved(name: str, **changes: str) -> str:
    """A bundle whose run was measured with a model that is no longer where it was."""
    document = json.loads(Path(name).read_text("utf-8"))
    document["runs"][0]["job"]["model"] |= {"path": "/nowhere/gone.fake", "name": "gone.fake", **changes}
    Path("moved.json").write_text(json.dumps(document))
    return "moved.json"


def test_without_the_model_the_same_machine_may_use_the_samples(place, capsys):
    words = ["same.fake", "--baseline", moved("five.json"), "--max-regression", "3%"]
    code, document = gate(capsys, *words)
    assert code == PASS and document["comparisons"][0]["design"] == "sessions"
    assert any("was not found: none at /nowhere/gone.fake" in note for note in document["gate_notes"])


def on_other_hardware(name: str) -> str:
    """A bundle whose run says it is from another processor."""
    bundle = moved(name)
    document = json.loads(Path(bundle).read_text("utf-8"))
    document["runs"][0]["environment"]["cpu"]["model"] = "Another CPU @ 9.99 GHz"
    Path(bundle).write_text(json.dumps(document))
    return bundle


def test_other_hardware_is_refused_with_what_differs_and_how_to_go_on(place, capsys):
    bundle = on_other_hardware("five.json")
    code, document = gate(capsys, "same.fake", "--baseline", bundle, "--max-regression", "3%", "-o", "g.xml")
    assert code == UNMEASURED and verdicts(document) == ["unmeasured"]
    because = document["checks"][0]["because"]
    assert "Another CPU" in because and "--baseline-model" in because and "none at" in because
    (suite,) = ElementTree.parse("g.xml").getroot()
    assert suite.get("errors") == "1"
    # With the model it is no matter which machine the record is from.
    code, document = gate(
        capsys, "same.fake", "--baseline", bundle, "--max-regression", "3%", "--baseline-model", "base.fake"
    )
    assert code == PASS and document["comparisons"][0]["design"] == "interleaved"


@pytest.mark.parametrize("swapped", [False, True])
def test_stored_runs_of_two_machines_are_unmeasured_with_what_differs(place, capsys, swapped):
    pair = (on_other_hardware("five.json"), "main")
    candidate, baseline = pair[::-1] if swapped else pair
    code, document = gate(capsys, candidate, "--baseline", baseline, "--max-regression", "3%")
    assert code == UNMEASURED and verdicts(document) == ["unmeasured"] and document["attempts"] == 0
    because = document["checks"][0]["because"]
    assert re.search(says("baseline-candidate-were-measured-measure", what="different hardware"), because)
    assert "Another CPU @ 9.99 GHz" in because
    # Limits of its own need no second machine.
    code, document = gate(capsys, candidate, "--budget", "latency=5ms")
    assert code == PASS and verdicts(document) == ["pass"]


def test_stored_runs_of_an_untold_machine_are_unmeasured(place, capsys):
    document = json.loads(Path("five.json").read_text("utf-8"))
    document["runs"][0]["environment"] = {}
    Path("untold.json").write_text(json.dumps(document))
    code, document = gate(capsys, "untold.json", "--baseline", "main", "--max-regression", "3%")
    assert code == UNMEASURED and verdicts(document) == ["unmeasured"]
    assert wording("hardware-their-records-do-not") in document["checks"][0]["because"]
    assert "processor" in document["checks"][0]["because"]


def test_stored_runs_need_no_measuring(place, capsys):
    code, document = gate(capsys, "five.json", "--baseline", "main", "--max-regression", "latency=3%")
    assert code == PASS and document["attempts"] == 0


def test_a_run_against_itself_passes_by_definition(place, capsys):
    document = json.loads(Path("one.json").read_text("utf-8"))
    document["runs"][0]["environment"] = {}  # what machine it was does not matter
    Path("one.json").write_text(json.dumps(document))
    shutil.copy("one.json", "copy.json")
    code, document = gate(capsys, "copy.json", "--baseline", "one.json", "--max-regression", "3%")
    (check,) = document["checks"]
    assert (code, check["verdict"], check["ratio"]) == (PASS, "pass", 1.0)
    assert check["because"] == wording("same-run-ratio-1-definition")
    (latency,) = [each for each in document["comparisons"] if each["metric"] == "latency"]
    assert (latency["verdict"], latency["design"]) == ("same", "same-run")
    code, document = gate(capsys, "copy.json", "--baseline", "one.json", "--max-regression", "-5%")
    assert (code, document["checks"][0]["verdict"]) == (FAIL, "fail")


def test_a_failed_baseline_is_no_baseline(place, capsys):
    write_fake_model("crash.fake", behaviour={"at": "load", "do": "unsupported"})
    assert run(["bench", "crash.fake", "-q", "--no-meters", "--json"]) == UNMEASURED
    capsys.readouterr()
    code, document = gate(capsys, "same.fake", "--baseline", "last", "--max-regression", "3%")
    assert code == UNMEASURED
    assert re.search(
        says("baseline-run-make-new-baseline", status="", why=has("failed")), document["checks"][0]["because"]
    )


# --- inconclusive ---


@pytest.mark.parametrize(("policy", "code"), [("pass", PASS), ("fail", FAIL), ("retry", FAIL)])
def test_what_stored_runs_leave_open_is_up_to_the_policy(place, capsys, policy, code):
    other = json.loads(Path("one.json").read_text("utf-8"))
    other["runs"][0]["id"] = "0192f7a0-0000-7000-8000-000000000001"
    Path("other.json").write_text(json.dumps(other))
    words = ["one.json", "--baseline", "other.json", "--max-regression", "3%", "--on-inconclusive", policy]
    answer, document = gate(capsys, *words)
    assert answer == code and verdicts(document) == ["inconclusive"]
    assert "too few processes" in document["checks"][0]["because"]
    again = any("nothing was measured again" in note for note in document["gate_notes"])
    assert again == (policy == "retry")


def test_retry_measures_again_with_more_processes_until_it_is_decided(place, capsys, monkeypatch):
    """The time is that of all measurements."""
    words = ["same.fake", "--baseline", "one.json", "--max-regression", "3%", "--stored"]
    monkeypatch.setattr("edgewise.comparing.gate_execution.now", itertools.count().__next__)
    code, document = gate(capsys, *words)
    assert document["elapsed_s"] == 3
    # One process against one, two against one, four against one: the last has a scatter to go by.
    assert (code, document["attempts"], verdicts(document)) == (PASS, 3, ["pass"])
    code, document = gate(capsys, *words, "--on-inconclusive", "fail")
    assert (code, document["attempts"], verdicts(document)) == (FAIL, 1, ["inconclusive"])


def test_a_candidate_alone_has_budgets(place, capsys):
    words = ["--on-inconclusive", "fail", "--budget"]
    code, document = gate(capsys, "same.fake", *words, "latency=5ms,model_size=1MB,memory_peak=4GB")
    assert code == PASS and document["comparisons"] == []
    assert verdicts(document) == ["pass", "pass", "pass"]
    code, document = gate(capsys, "main", *words, "latency=1.9ms")
    assert code == FAIL and verdicts(document) == ["fail"]


# --- settings ---


def test_settings_are_the_baselines_unless_they_are_given(place, capsys):
    assert run(["bench", "base.fake", "--threads", "2", "--iterations", "20", "--no-meters", "-q", "--json"]) == PASS
    capsys.readouterr()
    words = ["--baseline", "last", "--max-regression", "3%", "--stored", "--on-inconclusive", "pass", "--no-store"]
    _, document = gate(capsys, "same.fake", *words)
    assert not any(line.startswith("threads") for line in document["stated"])
    for given in (["same.fake", "--threads", "3"], ["same.fake,threads=3"]):
        _, document = gate(capsys, *given, *words)
        assert "threads: baseline 2, candidate 3" in document["stated"]


def test_settings_that_an_engine_does_not_list_are_not_taken_from_a_record(place, capsys):
    document = json.loads(Path("five.json").read_text("utf-8"))
    document["runs"][0]["job"]["runtime"]["options"] = {"cache": "/etc/passwd"}
    Path("hostile.json").write_text(json.dumps(document))
    error = refused(capsys, "same.fake", "--baseline", "hostile.json", "--max-regression", "3%")
    assert wording("setting-not-supported-supported", name="cache", engine="Fake engine", known="none") in error


# --- bad input ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["same.fake"], wording("no-requirement-given")),
        (["same.fake", "--max-regression", "3%"], says("needs-baseline", missing=has("3%"))),
        (["same.fake", "--baseline", "main", "--max-regression", "3"], wording("write-percent-sign", shown=3)),
        (
            ["same.fake", "--budget", "latency=5ms", "--on-inconclusive", "hope"],
            "'pass', 'fail' or 'retry', not 'hope'",
        ),
        (
            ["same.fake", "--budget", "latency=5ms", "--time-budget", "0s"],
            says("field-must-above-0-s", field=has("--time-budget")),
        ),
        (["same.fake", "--budget", "latency=5ms", "-o", "five.json"], "--force"),
        (["same.fake", "--budget", "latency=5ms", "-o", "x.csv"], "one of: .xml, .md, .json, .html"),
        (["same.fake", "--baseline", "nothing", "--max-regression", "3%"], "nothing"),
        (["missing.fake", "--baseline", "main", "--max-regression", "3%"], "missing.fake"),
        (
            ["main", "--baseline", "base.fake", "--max-regression", "3%"],
            wording("stored-candidate-cant-measured-beside"),
        ),
        (
            ["same.fake", "--baseline", "all", "--max-regression", "3%"],
            says("names-runs-gate-takes-one", subjects_count=2),
        ),
        (["same.fake", "--baseline", "all", "-r", "litert", "--max-regression", "3%"], says("no-run-these-settings")),
        (
            ["same.fake", "--baseline", "main", "--baseline-model", "slow.fake", "--max-regression", "3%"],
            says("not-baseline-model-sha256-begins", given=has("slow.fake")),
        ),
        (
            ["same.fake", "--baseline", "main", "--batch", "4", "--max-regression", "3%"],
            says("cant-compared-fairly"),
        ),
    ],
)
def test_bad_input_is_one_line_with_advice_and_does_not_wait_for_the_machine(
    place, capsys, monkeypatch, words, message
):
    monkeypatch.setattr("edgewise.verbs.context.measuring_on", forbidden)
    assert is_in(message, refused(capsys, *words))


@pytest.mark.parametrize("twice", [("x.md", "x.md"), ("x.md", "y.json", "./x.md")])
def test_an_output_that_is_named_twice_is_refused_before_anything_is_measured(place, capsys, monkeypatch, twice):
    transport = install(monkeypatch, turns=5)
    outputs = [word for name in twice for word in ("-o", name)]
    words = ["same.fake", "--baseline", "base.fake", "--max-regression", "3%", *outputs]
    assert re.search(says("named-twice-output", path=has("x.md")), refused(capsys, *words))
    assert transport.jobs == [] and not Path("x.md").exists() and not Path("y.json").exists()


def test_a_bundle_of_a_newer_edgewise_is_refused(place, capsys):
    document = json.loads(Path("five.json").read_text("utf-8"))
    document["schema"] = 99
    Path("newer.json").write_text(json.dumps(document))
    words = ["same.fake", "--baseline", "newer.json", "--max-regression", "3%"]
    assert re.search(says("schema-written-newer-edgewise-one"), refused(capsys, *words))
