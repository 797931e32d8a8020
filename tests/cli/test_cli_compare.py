"""`edgewise compare` from its words to its documents. Workers are threads, except where a test says otherwise."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.testing import write_fake_model
from messages import has, is_in, says, wording
from threaded_workers import Line, ThreadTransport, install, interrupt_round, play_worker

MS = 1_000_000
OPEN = [{"name": "x", "shape": [None, 4], "dtype": "float32"}]
WIDE = [{"name": "x", "shape": [1, 8], "dtype": "float32"}]
THREE = [{"name": "y", "shape": [1, 3], "dtype": "float32"}]
HOSTILE = "[red]<b>|x\x1b[31m.fake"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def transport(monkeypatch):
    return install(monkeypatch, turns=8)


@pytest.fixture
def models(transport):
    """a.fake of 1.0 ms, b.fake of 1.1 ms, same.fake of 1.0 ms but another file."""
    del transport
    fake("a.fake", 1.0)
    fake("b.fake", 1.1)
    fake("same.fake", 1.0, load_ns=1)


def fake(name: str, milliseconds: float = 1.0, **script) -> str:
    write_fake_model(name, **{"latency_ns": [round(milliseconds * MS)], **script})
    return name


def compare(capsys, *words: str) -> tuple[int, dict]:
    """The exit code and the one document on standard output."""
    code = run(["compare", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def refused(capsys, *words: str, code: int = ExitCode.BAD_INPUT) -> str:
    """What standard error says of words that are refused: one red line, and what to do."""
    assert run(["compare", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    lines = captured.err.splitlines()
    assert lines[0].startswith("error: ") and len(lines) <= 2, captured.err
    assert len(lines) == 1 or lines[1].startswith("try: ")
    return captured.err


def forbidden(*words: object, **more: object) -> None:
    raise AssertionError("the machine was to be held")


def row(document, metric: str, b: str | None = None) -> dict:
    return next(one for one in document["comparisons"] if one["metric"] == metric and b in (None, one["b"]))


def labels(document) -> list[str]:
    return [variant["label"] for variant in document["variants"]]


def stored() -> dict[str, edgewise.Run]:
    with edgewise.open_store(os.environ["EDGEWISE_STORE"]) as store:
        return {one.id: one for one in store.resolve(["all"])} if store.list() else {}


# --- with real processes ---


def test_real_processes_end_to_end(capsys):
    """From the command line to the store and back with fresh processes: the script's ratio, to the digit."""
    fake("a.fake", 1.0)
    fake("b.fake", 1.1)
    code = run(["compare", "a.fake", "b.fake", "--rounds", "3", "--json"])
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    latency = row(document, "latency")
    assert code == 0 and latency["ratio"] == pytest.approx(1.1) and latency["design"] == "interleaved"
    runs = stored()
    assert set(runs) == {variant["run"] for variant in document["variants"]}
    pids = [session.pid for one in runs.values() for session in one.sessions]
    assert len(set(pids)) == 6
    assert "[1/2] a.fake" in captured.err and "1.10 ± " in captured.err


# --- the document ---


def test_the_document_has_the_shape_of_the_contract(models, capsys):
    code = run(["compare", "a.fake", "b.fake", "--json"])
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert code == 0
    assert {"comparisons", "passed"} <= set(document)
    for one in document["comparisons"]:
        assert {"a", "b", "metric", "ratio", "low", "high", "verdict", "p_adjusted"} <= set(one)
        assert (one["a"], one["b"]) == ("a.fake", "b.fake")
        assert one["verdict"] in ("faster", "slower", "same", "inconclusive")
        # No number without a reason why it is not there.
        assert one["ratio"] is not None or one["because"]
    latency = row(document, "latency")
    assert latency["ratio"] == latency["low"] == latency["high"] == pytest.approx(1.1)
    assert latency["verdict"] == "slower" and document["passed"] is False
    assert latency["p_adjusted"] < 0.01
    assert row(document, "throughput")["verdict"] == "slower"
    assert document["pairs"] == 5 and document["stopped_because"] == "the verdict on latency is decided"
    # Progress is on standard error, in plain lines, and nothing of it on standard output.
    assert captured.out.startswith("{") and captured.out.endswith("}\n")
    assert captured.err and "\x1b" not in captured.err and "\r" not in captured.err


def test_numbers_survive_as_json(models, capsys):
    """NaN and Infinity are no JSON."""
    run(["compare", "a.fake", "b.fake", "--rounds", "1", "--json"])
    text = capsys.readouterr().out

    def never(word: str) -> float:
        raise AssertionError(word)

    json.loads(text, parse_constant=never)


def test_models_of_one_speed_are_the_same(models, capsys):
    code, document = compare(capsys, "a.fake", "same.fake", "-q", "--metrics", "latency,throughput")
    assert code == 0 and document["passed"] is True
    assert {one["verdict"] for one in document["comparisons"]} == {"same"}
    assert [one["metric"] for one in document["comparisons"]] == ["latency", "throughput"]


def test_a_faster_one_passes(models, capsys):
    code, document = compare(capsys, "b.fake", "a.fake", "-q", "--metrics", "latency,throughput")
    assert code == 0 and document["passed"] is True
    assert row(document, "latency")["verdict"] == "faster"
    assert row(document, "latency")["ratio"] == pytest.approx(1 / 1.1)


def test_identical_files_are_noted(models, capsys):
    code, document = compare(capsys, "a.fake", "a.fake", "-q")
    assert code == 0 and row(document, "latency")["verdict"] == "same"
    assert labels(document) == ["a.fake #1", "a.fake #2"]
    assert any("the same file with the same settings" in note for note in document["notes"])


def test_three_have_a_ranking_and_a_front(models, capsys):
    code, document = compare(capsys, "a.fake", "b.fake", "same.fake", "-q", "--pareto", "latency,model_size")
    assert code == 0
    places = {one["label"]: one["groups"] for one in document["ranking"]["places"]}
    assert places["a.fake"] == places["same.fake"] != places["b.fake"]
    assert document["pareto"]["metrics"] == ["latency", "model_size"]
    assert "a.fake" in document["pareto"]["members"]


# --- what the words say ---


def test_vary_makes_variants_of_one_model(models, capsys):
    code, document = compare(capsys, "a.fake", "--vary", "threads=1,2", "--rounds", "1", "-q")
    assert code == 0 and labels(document) == ["1 thread", "2 threads"]
    assert any(text.startswith("threads:") for text in document["stated"])


def test_one_value_alone_is_nothing_to_compare_with(models, capsys):
    told = refused(capsys, "a.fake", "--vary", "onnxruntime=1.30.0")
    assert "nothing to compare with" in told and "--vary onnxruntime=1.30.0,ANOTHER" in told
    code, document = compare(capsys, "a.fake", "b.fake", "--vary", "threads=2", "--rounds", "1", "-q")
    assert code == 0 and len(document["variants"]) == 2


def test_vary_and_the_flag_of_the_same_setting(models, capsys):
    assert "contradict" in refused(capsys, "a.fake", "--vary", "threads=1,2", "--threads", "4")
    assert "contradict" in refused(capsys, "a.fake", "--vary", "batch=2,4", "--batch", "8")


def test_names_and_settings_behind_a_model(models, capsys):
    code, document = compare(capsys, "old=a.fake", "new one=a.fake,threads=2", "--rounds", "1", "-q")
    assert code == 0 and labels(document) == ["old", "new one"]
    threads = {one.job.runtime.threads for one in stored().values()}
    assert threads == {1, 2}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.fake"], wording("there-nothing-compare")),
        (["a.fake", "absent.fake"], "absent.fake"),
        (["a.fake", "x=a.fake", "x=b.fake"], "two subjects are called 'x'"),
        (["a.fake", "b.fake", "--metrics", "latenzy"], says("did-you-mean-in-criteria", near=has("latency"))),
        (["a.fake", "b.fake", "--until", "latenzy"], says("unknown-metric-in-requirement")),
        (["a.fake", "b.fake", "--until", "depth"], says("neither-better-high-nor-low")),
        (["a.fake", "b.fake", "--pareto", "latenzy"], says("unknown-metric-in-requirement")),
        (["a.fake", "b.fake", "--floor", "latenzy=1us"], says("unknown-metric-in-requirement")),
        (["a.fake", "b.fake", "--floor", "latency"], "METRIC=AMOUNT"),
        (["a.fake", "b.fake", "--floor", "latency=soon"], "soon"),
        (["a.fake", "b.fake", "--threshold", "0%"], says("not-share-above-0-most")),
        (["a.fake", "b.fake", "--threshold", "-3%"], says("not-share-above-0-most")),
        (["a.fake", "b.fake", "--threshold", "nan"], says("not-share-above-0-most")),
        (["a.fake", "b.fake", "--threshold", "much"], says("not-share-above-0-most")),
        (["a.fake", "b.fake", "--time-budget", "-5s"], "-5s"),
        (["a.fake", "b.fake", "--time-budget", "forever"], "forever"),
        (["a.fake", "b.fake", "--time-budget", "30d"], ""),
        (["a.fake", "b.fake", "--rounds", "0"], "--rounds"),
        (["a.fake", "b.fake", "--scenario", "burst"], "burst"),
        (["a.fake", "b.fake", "--scenario", "paced"], says("scenario-paced-needs-fps-arrivals")),
        (["a.fake", "b.fake", "--fps", "30"], "paced"),
        (["a.fake", "b.fake", "--vary", "colour=red"], "colour"),
        (["a.fake", "b.fake", "--vary", "threads=0,1"], "threads"),
        (["a.fake", "b.fake", "--threads", "two"], "two"),
        (["a.fake", "b.fake", "-o", "out.docx"], "out.docx"),
        (["a.fake", "b.fake", "-o", "absent/out.md"], "absent"),
        (["a.fake", "b.fake", "-r", "nonsense"], "nonsense"),
        (["a.fake", "b.fake", "--warmup", "-1"], "warmup"),
        (["a.fake", "b.fake", "--timeout", "0s"], ""),
        (["a.fake", "b.fake", "--seed", "-1"], "seed"),
        (["a.fake", "bad.onnx"], "bad.onnx"),
        (["a.fake", "wide.fake"], "input shapes"),
    ],
)
def test_words_that_make_no_sense_are_refused_before_the_machine_is_held(
    models, transport, capsys, monkeypatch, words, said
):
    monkeypatch.setattr("edgewise.verbs.context.measuring_on", forbidden)
    Path("bad.onnx").write_bytes(b"not a model")
    fake("wide.fake", inputs=WIDE)
    assert run(["compare", *words]) in (ExitCode.BAD_INPUT, ExitCode.UNAVAILABLE)
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err and "internal error" not in captured.err
    assert captured.err.startswith("error: ") and is_in(said, captured.err)
    assert transport.jobs == []


def test_a_budget_of_no_time_is_refused(models, transport, capsys):
    refused(capsys, "a.fake", "b.fake", "--time-budget", "0s", "--rounds", "1")


def test_other_shapes_are_refused_unless_forced(models, transport, capsys):
    fake("wide.fake", inputs=WIDE)
    said = refused(capsys, "a.fake", "wide.fake")
    assert "input shapes: a.fake 1×4, wide.fake 1×8" in said and "--force" in said
    assert transport.jobs == []
    code, document = compare(capsys, "a.fake", "wide.fake", "--force", "--rounds", "1", "-q")
    assert code == 0 and any("input shapes" in text for text in document["obstacles"])


def test_another_task_is_refused_after_one_round(models, transport, capsys):
    fake("three.fake", outputs=THREE)
    assert wording("different-task") in refused(capsys, "a.fake", "three.fake", "-q")
    assert len(transport.jobs) == 2


def test_offline_is_about_throughput(models, capsys):
    words = ["a.fake", "b.fake", "--scenario", "offline", "-q", "--metrics", "throughput,memory_peak"]
    code, document = compare(capsys, *words)
    throughput = row(document, "throughput")
    assert code == 0 and throughput["verdict"] == "slower"
    assert throughput["ratio"] == pytest.approx(1 / 1.1, rel=0.01)
    assert {one.job.workload.interleave for one in stored().values()} == {"rounds"}


def test_thresholds_and_floors_of_the_user(models, capsys):
    words = ["a.fake", "b.fake", "-q", "--metrics", "latency"]
    assert row(compare(capsys, *words, "--threshold", "20%")[1], "latency")["verdict"] == "same"
    assert row(compare(capsys, *words, "--floor", "latency=200us")[1], "latency")["verdict"] == "same"
    assert row(compare(capsys, *words, "--threshold", "0.01")[1], "latency")["verdict"] == "slower"


# --- runs and files ---


def measured(*words: str) -> None:
    assert run(["bench", *words, "--sessions", "3", "--iterations", "20", "--no-meters", "-q"]) == 0


def test_stored_runs_are_compared_by_their_samples(models, transport, capsys):
    measured("a.fake")
    measured("b.fake")
    capsys.readouterr()
    before = len(transport.jobs)
    code, document = compare(capsys, "last~1", "last")
    assert code == 0 and len(transport.jobs) == before
    latency = row(document, "latency")
    assert latency["ratio"] == pytest.approx(1.1) and latency["design"] == "sessions"
    assert document["not_excluded"] and document["pairs"] is None


def test_a_time_budget_says_nothing_of_stored_runs(models, capsys):
    assert run(["bench", "a.fake", "b.fake", "-q"]) == 0
    runs = [one.id for one in stored().values()]
    capsys.readouterr()
    told = refused(capsys, *runs, "--time-budget", "10s", "--rounds", "2")
    assert "--time-budget and --rounds would measure" in told


def test_stored_runs_that_are_alike_are_called_as_they_were_typed(models, capsys):
    measured("a.fake", "-o", "old.json")
    assert run(["runs", "tag", "main", "last"]) == 0
    fake("a.fake", 1.1)
    measured("a.fake")
    capsys.readouterr()
    assert labels(compare(capsys, "main", "last")[1]) == ["main", "last"]
    assert labels(compare(capsys, "old.json", "last~0")[1]) == ["old.json", "last~0"]
    first, second = compare(capsys, "main", "last")[1]["variants"]
    told = labels(compare(capsys, first["run"], second["run"])[1])
    assert [label.partition(" (")[0] for label in told] == ["run 1", "run 2"]


def test_files_of_one_name_are_called_by_their_folders(models, capsys):
    Path("new").mkdir()
    fake("new/a.fake", 1.1)
    _, document = compare(capsys, "a.fake", "new/a.fake", "-q")
    assert labels(document) == ["a.fake", "new/a.fake"]


def test_a_run_is_the_same_as_itself(models, capsys):
    measured("a.fake", "-o", "a.json")
    capsys.readouterr()
    for words in (("last", "last"), ("a.json", "last"), ("a.json", "a.json")):
        code, document = compare(capsys, *words)
        assert (code, document["passed"]) == (0, True)
        assert {(one["verdict"], one["design"]) for one in document["comparisons"] if one["ratio"] is not None} == {
            ("same", "same-run")
        }
    assert run(["compare", "last", "last"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "are one run, compared with itself (the same run: ratio 1 by definition)" in text
    assert "can't be told" not in text


def test_exported_files_of_several_runs_are_matched(models, capsys):
    measured("a.fake", "--threads", "1,2", "--no-store", "-o", "before.json")
    fake("a.fake", 1.1)
    measured("a.fake", "--threads", "1,2,4", "--no-store", "-o", "after.json")
    capsys.readouterr()
    code, document = compare(capsys, "before.json", "after.json")
    assert code == 0
    pairs = [(one["a"], one["b"]) for one in document["comparisons"] if one["metric"] == "latency"]
    assert pairs == [("1 thread (before)", "1 thread (after)"), ("2 threads (before)", "2 threads (after)")]
    assert all(one["ratio"] == pytest.approx(1.1) for one in document["comparisons"] if one["metric"] == "latency")
    assert any(re.search(says("only-which-describe", which="second"), note) for note in document["notes"])


def test_names_of_matched_files_are_kept(models, capsys):
    for name in ("old.json", "new.json"):
        measured("a.fake", "--threads", "1,2", "--no-store", "-o", name)
    capsys.readouterr()
    _, document = compare(capsys, "v1=old.json", "v2=new.json")
    assert all(("v1" in label) != ("v2" in label) for label in labels(document))


def test_files_of_one_run_each(models, capsys):
    measured("a.fake", "--no-store", "-o", "before.json")
    measured("b.fake", "--no-store", "-o", "after.json")
    capsys.readouterr()
    code, document = compare(capsys, "before.json", "after.json")
    assert code == 0 and row(document, "latency")["verdict"] == "slower"
    assert labels(document) == ["a.fake", "b.fake"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(schema=99), "99"),
        (lambda data: data["runs"][0].update(schema=99), "99"),
        (lambda data: data["runs"][0].pop("job"), ""),
        (lambda data: data.update(runs=[]), says("holds-no-runs")),
        (lambda data: data.update(runs="all"), ""),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(models, capsys, change, said):
    measured("a.fake", "--no-store", "-o", "good.json")
    data = json.loads(Path("good.json").read_text("utf-8"))
    change(data)
    Path("bad.json").write_text(json.dumps(data), "utf-8")
    capsys.readouterr()
    assert re.search(said, refused(capsys, "good.json", "bad.json"))


def test_samples_that_are_no_times_give_no_ratio(models, capsys):
    measured("a.fake", "--no-store", "-o", "good.json")
    data = json.loads(Path("good.json").read_text("utf-8"))
    latency = next(one for one in data["runs"][0]["measurements"] if one["metric"] == "latency")
    latency["samples"][3] = 0.0
    Path("zero.json").write_text(json.dumps(data), "utf-8")
    capsys.readouterr()
    code, document = compare(capsys, "good.json", "zero.json")
    found = row(document, "latency")
    assert (
        code == 0
        and found["ratio"] is None
        and re.search(says("sum-samples-count-samples-metric", sum=1, samples_count=60), found["because"])
    )


def test_a_run_beside_a_model_is_measured_again(models, transport, capsys):
    measured("a.fake", "--threads", "2")
    capsys.readouterr()
    code, document = compare(capsys, "last", "b.fake", "-q")
    latency = row(document, "latency")
    assert code == 0 and latency["design"] == "interleaved" and latency["ratio"] == pytest.approx(1.1)
    assert any("measured again, side by side" in note for note in document["notes"])
    code, document = compare(capsys, "last~2", "b.fake", "-q", "--stored")
    assert code == 0 and row(document, "latency")["design"] == "sessions"


def test_a_run_whose_model_has_gone_is_compared_apart(models, capsys):
    measured("a.fake")
    Path("a.fake").unlink()
    capsys.readouterr()
    code, document = compare(capsys, "last", "b.fake", "-q")
    assert code == 0 and row(document, "latency")["design"] == "sessions"
    assert any("could not be measured again" in note for note in document["notes"])


# --- failures ---


def fail(line: Line) -> None:
    line.say_hello()
    line.send("failed", cause="Unsupported", message="no such operator")


@pytest.mark.parametrize("at", [0, 2])
def test_one_of_three_fails_and_the_exit_code_says_so(models, transport, capsys, at):
    transport.parts = {("b.fake", at): fail}
    code, document = compare(capsys, "a.fake", "b.fake", "same.fake")
    assert code == ExitCode.RUN_FAILED and document["passed"] is False
    assert document["failures"] == {"b.fake": "no such operator"}
    assert row(document, "latency", "same.fake")["verdict"] == "same"
    assert "b.fake failed: no such operator" in row(document, "latency", "b.fake")["because"]
    assert {one.status for one in stored().values()} == {"done", "failed"}


def test_of_two_one_fails_and_a_person_reads_why(models, transport, capsys):
    transport.parts = {("b.fake", 0): fail}
    assert run(["compare", "a.fake", "b.fake"]) == ExitCode.RUN_FAILED
    captured = capsys.readouterr()
    assert "no such operator" in captured.out and "no such operator" in captured.err
    assert "Traceback" not in captured.err


def test_ctrl_c_keeps_the_complete_rounds_and_prints_them(models, transport, capsys, monkeypatch):
    interrupt_round(monkeypatch, 3)
    code = run(["compare", "a.fake", "b.fake", "--json"])
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert code == ExitCode.INTERRUPTED
    assert row(document, "latency")["before"]["replicates"] == row(document, "latency")["after"]["replicates"] == 3
    assert row(document, "latency")["ratio"] == pytest.approx(1.1)
    assert document["stopped_because"] == "interrupted"
    assert captured.err.count("interrupted") == 1 and "above and in the store" in captured.err
    assert {(one.status, len(one.sessions)) for one in stored().values()} == {("cancelled", 3)}


def test_ctrl_c_in_the_first_round(models, transport, capsys, monkeypatch):
    interrupt_round(monkeypatch, 0)
    code = run(["compare", "a.fake", "b.fake", "--json"])
    captured = capsys.readouterr()
    assert code == ExitCode.INTERRUPTED and "Traceback" not in captured.err
    assert row(json.loads(captured.out), "latency")["ratio"] is None
    assert stored() == {}


def test_ctrl_c_without_a_store_does_not_speak_of_one(models, transport, capsys, monkeypatch):
    interrupt_round(monkeypatch, 1)
    assert run(["compare", "a.fake", "b.fake", "--no-store"]) == ExitCode.INTERRUPTED
    said = capsys.readouterr().err
    assert "interrupted" in said
    assert "in the store" not in said


def test_nothing_in_the_budget_is_one_clear_reason(models, transport, capsys):
    transport.parts = {("a.fake", 0): lambda line: line.orders.get(), ("b.fake", 0): lambda line: line.orders.get()}
    assert run(["compare", "a.fake", "b.fake", "--time-budget", "300ms"]) == ExitCode.RUN_FAILED
    captured = capsys.readouterr()
    assert captured.err.count("the time budget ended") == 1
    assert re.search(says("time-budget-ended-phase-so"), " ".join(captured.out.split()))


# --- output ---


def test_eighty_columns_hold_it(models, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["compare", "a.fake", "b.fake", "same.fake"]) == 0
    captured = capsys.readouterr()
    assert max(map(len, captured.out.splitlines())) <= 80
    assert (
        re.search(says("slower-than", name="b.fake", ratio="1.10", other=has("a.fake")), captured.out)
        and "\x1b" not in captured.out
    )
    assert "Traceback" not in captured.err


def test_without_a_terminal_progress_is_plain_lines(models, capsys, transport):
    assert run(["compare", "a.fake", "b.fake", "--json"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines[-2:]] == [
        "[1/2] a.fake · fake/cpu 1T", "[2/2] b.fake · fake/cpu 1T",
    ]  # fmt: skip
    assert len(lines) <= 3


def scattering(line: Line, transport: ThreadTransport) -> None:
    number = sum(job["model"].endswith("b.fake") for job in transport.jobs) - 1
    fake("b.fake", [1.14, 0.94, 1.10, 0.98, 1.04][number % 5])
    play_worker(line)


@pytest.mark.parametrize("words", [["a.fake", "b.fake"], ["b.fake", "--vary", "threads=1,2"]])
def test_an_open_verdict_is_told_at_every_look(models, transport, capsys, words):
    transport.parts = {("b.fake", start): lambda line: scattering(line, transport) for start in range(50)}
    assert run(["compare", *words, "--rounds", "9", "--metrics", "latency", "--json"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "no verdict yet" in line]
    assert lines == [f"{count} rounds of fresh processes: no verdict yet" for count in (5, 8)]


def test_quiet_is_quiet(models, capsys):
    assert run(["compare", "a.fake", "b.fake", "--rounds", "1", "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_every_format_is_written(models, capsys, quiet):
    names = [f"out.{extension}" for extension in ("md", "html", "csv", "json")]
    words = [word for name in names for word in ("-o", name)]
    assert run(["compare", "a.fake", "b.fake", "--rounds", "3", *words, *quiet]) == 0
    said = capsys.readouterr().err
    assert all(f"wrote {name}" in said for name in names)
    assert "| Latency" in Path("out.md").read_text("utf-8")
    assert re.search(says("slower-than", ratio="1.10"), Path("out.html").read_text("utf-8"))
    assert json.loads(Path("out.json").read_text("utf-8"))["comparisons"][0]["metric"] == "latency"
    assert Path("out.csv").read_text("utf-8").splitlines()[0].count(",") > 5
    assert "out.md" in refused(capsys, "a.fake", "b.fake", "-o", "out.md")
    assert run(["compare", "a.fake", "b.fake", "--rounds", "1", "-o", "out.md", "--force", "-q"]) == 0


def test_a_file_that_exists_is_refused_before_anything_is_measured(models, transport, capsys):
    Path("out.md").write_text("precious")
    refused(capsys, "a.fake", "b.fake", "-o", "out.md")
    assert transport.jobs == [] and Path("out.md").read_text() == "precious"


def test_hostile_names_are_only_shown(models, transport, capsys):
    fake(HOSTILE, 1.1)
    assert run(["compare", "a.fake", HOSTILE, "--rounds", "3", "-o", "o.html", "-o", "o.md", "-o", "o.csv"]) == 0
    captured = capsys.readouterr()
    assert "[red]<b>|x" in captured.out and "\x1b" not in captured.out
    page = Path("o.html").read_text("utf-8")
    assert "[red]<b>" not in page and "\x1b" not in page
    assert "\x1b" not in Path("o.md").read_text("utf-8") + Path("o.csv").read_text("utf-8")
    transport.parts = {(HOSTILE, start): fail for start in range(20)}
    assert run(["compare", "a.fake", f"[bold]x={HOSTILE}", "--rounds", "1"]) == ExitCode.RUN_FAILED
    captured = capsys.readouterr()
    assert "[bold]x" in captured.out


def test_a_hostile_name_in_progress_moves_no_cursor(models, capsys):
    fake(HOSTILE, 1.1)
    assert run(["compare", "a.fake", HOSTILE, "--rounds", "1"]) == 0
    assert "\x1b" not in capsys.readouterr().err


# --- the store ---


def test_no_store_keeps_nothing(models, folder, capsys):
    assert run(["compare", "a.fake", "b.fake", "--rounds", "1", "--no-store", "-q"]) == 0
    assert not (folder / "store.db").exists()


def test_what_is_measured_is_kept(models, capsys):
    _, document = compare(capsys, "a.fake", "b.fake", "--rounds", "2", "-q")
    assert set(stored()) == {variant["run"] for variant in document["variants"]}
    code, again = compare(capsys, *[variant["run"] for variant in document["variants"]])
    assert code == 0 and row(again, "latency")["ratio"] == row(document, "latency")["ratio"]


def test_a_store_that_cannot_be_written_costs_no_measurement(models, folder, capsys):
    (folder / "file").write_text("not a folder", "utf-8")
    url = f"sqlite:///{folder}/file/store.db"
    code = run(["compare", "a.fake", "b.fake", "--rounds", "2", "--store", url, "--json"])
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert code == ExitCode.UNAVAILABLE
    assert row(document, "latency")["ratio"] == pytest.approx(1.1)
    assert captured.err.count("not saved:") == 1
    (recovery,) = folder.glob("edgewise-recovery-*.json")
    # The bundle holds both runs, and they can be compared from there.
    code, again = compare(capsys, str(recovery), "--metrics", "latency")
    assert code == 0 and row(again, "latency")["ratio"] == pytest.approx(1.1)


# --- one clock ---


def test_no_ratio_mixes_clocks(capsys, transport):
    """By their own clocks the first two are faster than the third, by their calls they are slower."""
    del transport
    calls = {"a.fake": 1.08e-3, "b.fake": 1.2e-3, "c.fake": 1.04e-3}
    own = {"a.fake": 1.00e-3, "b.fake": 0.9e-3}
    for name, seconds in calls.items():
        engine = {"engine_latency_ns": [round(own[name] * 1e9)]} if name in own else {}
        fake(name, seconds * 1e3, **engine)
    names = dict(zip(("a", "b", "c"), calls, strict=True))
    metrics = "latency,latency_p99,latency_engine,throughput"
    _, document = compare(capsys, *calls, "-q", "--metrics", metrics)
    shown = {}
    for one in document["comparisons"]:
        first, second = (names[one[side].partition(".")[0][0]] for side in ("a", "b"))
        if one["ratio"] is not None:
            clock = own if one["metric"] == "latency_engine" else calls
            ratio = clock[second] / clock[first]
            assert one["ratio"] == pytest.approx(1 / ratio if one["metric"] == "throughput" else ratio), one
            shown.setdefault(one["metric"], set()).add((first, second))
    assert shown.pop("latency") == shown.pop("throughput") == {("a.fake", "b.fake"), ("a.fake", "c.fake")}
    assert shown.pop("latency_engine") == {("a.fake", "b.fake")}
    assert shown.keys() <= {"latency_p99"}
    lacking = next(one for one in document["comparisons"] if one["metric"] == "latency_engine" and one["ratio"] is None)
    assert "has no latency_engine" in lacking["because"]


@pytest.mark.parametrize("way", [[], ["--scenario", "paced", "--fps", "100", "--metrics", "latency_paced"]])
def test_stored_runs_are_compared_on_their_calls(capsys, transport, way):
    del transport
    fake("a.fake", 1.08, engine_latency_ns=[MS])
    fake("b.fake", 1.04)
    code, document = compare(capsys, "a.fake", "b.fake", "-q", *way)
    metric = "latency_paced" if way else "latency"
    assert code == 0 and row(document, metric)["ratio"] == pytest.approx(1.04 / 1.08)
    runs = [variant["run"] for variant in document["variants"]]
    _, again = compare(capsys, *runs, "--stored", *way[4:])
    assert row(again, metric)["ratio"] == pytest.approx(1.04 / 1.08)
