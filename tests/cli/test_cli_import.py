"""``edgewise runs import`` of other tools' files, at 80 columns."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import pytest

from edgewise.cli.main import run as edgewise
from edgewise.importing import Told, import_file
from edgewise.verbs.calibrate.device_runs import ModelFiles, Notes
from edgewise.verbs.calibrate.work import _from_run
from messages import has, says, wording

FOLDER = Path(__file__).parents[1] / "tool_outputs"
FILES = sorted(FOLDER.iterdir())
EXPECTED_RUNS = [run for file in FILES for run in import_file(file)]


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words):
        code = edgewise([str(word) for word in words])
        done = capsys.readouterr()
        assert "Traceback" not in done.err
        return code, done.out, done.err

    return call


def test_every_import_is_listed_and_shown_in_80_columns(call):
    code, out, err = call("runs", "import", *FILES)
    assert (code, out) == (0, "") and err.count(" added") == len(FILES)
    assert "were in the store already\n" in call("runs", "import", FILES[0])[2]
    for words in (("runs", "list"), ("runs", "show", "all")):
        code, out, err = call(*words)
        assert code == 0 and max(map(len, out.splitlines())) <= 80
    shown = "".join(out.split())
    assert all(file.name in shown for file in FILES) and out.count("Imported from") == len(EXPECTED_RUNS)


def test_speeds_of_language_models_are_told_as_far_as_the_tool_tells_them(call):
    call("runs", "import", FOLDER / "aiperf.json", FOLDER / "llama-bench.json")
    out = call("report", "all")[1]
    for line in (
        "first text after 198 ms, then 122 tokens/s at depth not told, after a prompt of 512",
        "first text not known, then 95.2 tokens/s at depth 1024, after a prompt of 0",
        "then a rate that is not known at depth 0, after a prompt of 512: not timed by the test pp512",
    ):
        assert line in out, out
    assert "on llama.cpp/cpu: first token after 400" in out


def test_the_source_is_in_the_json(call):
    call("runs", "import", "--from", "benchncnn", FOLDER / "benchncnn.txt", "--device", "pi4", "--set", "batch=1")
    document = json.loads(call("runs", "show", "all", "--json")[1])
    assert {run["source"]["tool"] for run in document["runs"]} == {"benchncnn"}
    assert all(run["source"]["told"] == {"batch": 1, "device": "pi4"} for run in document["runs"])
    assert {run["job"]["target"]["device"] for run in document["runs"]} == {"pi4"}


def test_a_profile_without_a_latency_shows_its_layers(call):
    call("runs", "import", FOLDER / "trtexec_profile.json")
    out = call("runs", "show", "all")[1]
    assert "conv1 + relu1" in out and "2.00 ms" in out and "80.0%" in out


def test_what_runs_each_operator_is_shown_where_none_has_a_time(call):
    call("runs", "import", FOLDER / "benchmark_model_results.pb")
    code, out, _ = call("runs", "show", "last")
    rows = [line.split() for line in out.splitlines()]
    assert code == 0 and ["Layer", "Operator", "Ran", "in"] in rows
    assert ["CUMSUM:1", "CUMSUM", "built-in"] in rows and ["SOFTMAX:3", "SOFTMAX", "TfLiteXNNPackDelegate"] in rows


def test_a_core_ml_report_shows_units_and_estimated_shares(call, tmp_path):
    bundle = tmp_path / "Keywords.mlperf"
    bundle.mkdir()
    code, _, err = call("runs", "import", bundle)
    assert code == 2 and "report.json: No such file or directory" in " ".join(err.split())
    (bundle / "report.json").write_bytes((FOLDER / "coreml_report.json").read_bytes())
    assert call("runs", "import", bundle)[2].endswith("1 run added\n")
    out = " ".join(call("runs", "show", "all")[1].split())
    assert (
        "conv_1 conv neural-engine 75.0%" in out and "preferred_units.cpu 1" in out and wording("file-not-known") in out
    )


def test_core_ml_reports_are_compared_and_reported(call, tmp_path):
    text = (FOLDER / "coreml_report.json").read_text()
    (tmp_path / "cpu.json").write_text(
        text.replace('"computeUnit": 3', '"computeUnit": 0').replace(", 0.0002", ", 0.0004")
    )
    call("runs", "import", FOLDER / "coreml_report.json", tmp_path / "cpu.json")
    runs = json.loads(call("runs", "show", "all", "--json")[1])["runs"]
    ids = {run["job"]["runtime"]["provider"]: run["id"] for run in runs}
    code, out, _ = call("compare", ids["cpu+neural-engine"], ids["cpu"], "--json")
    rows = {row["metric"]: row for row in json.loads(out)["comparisons"]}
    assert (code, rows["latency"]["verdict"]) == (0, "slower")
    for suffix in ("html", "md", "csv"):
        assert call("report", "all", "-o", tmp_path / f"r.{suffix}")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert "features 1×40×1×98 float16 (chosen by the tool)" in page and "InventedOS 18.0.1" in page


def test_a_profile_with_a_latency_shows_its_layers_against_it(call):
    call("runs", "import", FOLDER / "benchmark_model.txt")
    out = call("runs", "show", "all")[1]
    assert "[conv1]:0" in out and "median latency 4.99 ms" in out
    words = " ".join(out.split())
    assert "not searched: layers of another tool" in words
    assert "no roofline: the rows are the tool's own, not attributed to operators of a model" in words


def test_report_and_compare_take_imports(call, tmp_path):
    call("runs", "import", FOLDER / "pyperf.json", FOLDER / "benchncnn.txt")
    for suffix in ("html", "md", "csv"):
        assert call("report", "all", "-o", tmp_path / f"r.{suffix}")[0] == 0
    assert wording("chosen-tool") in (tmp_path / "r.html").read_text()
    ids = [run["id"] for run in json.loads(call("runs", "show", "all", "--json")[1])["runs"]]
    code, out, _ = call("compare", *ids[:2], "--json")
    assert code == 0 and json.loads(out)["comparisons"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "nothing"], "unknown importer 'nothing'"),
        (["--from", "pyperf"], "line 1: no output of pyperf; try: expected JSON"),
        (["--set", "threads"], "--set threads: has no value"),
        (["--set", "threads=1", "--set", "threads=2"], "given twice"),
        (["--set", "threads=many"], "not a whole number of at least 1"),
        (["--set", "colour=red"], "unknown setting"),
        (["--set", "threads=8"], "threads is 4, and --set says threads=8"),
        (["--model", "missing.onnx"], "several models"),
    ],
)
def test_errors(call, words, message):
    code, out, err = call("runs", "import", *words, FOLDER / "benchncnn.txt")
    assert (code, out) == (2, "") and message.partition(";")[0] in " ".join(err.split())


def test_an_unknown_document_is_no_damaged_export(call, tmp_path):
    (tmp_path / "other.json").write_text('{"foo": 1}')
    code, _, err = call("runs", "import", tmp_path / "other.json")
    assert code == 2 and wording("not-recognised-export-edgewise-output") in " ".join(err.split())


def test_an_export_takes_no_settings(call, tmp_path):
    call("runs", "import", FOLDER / "hyperfine.json")
    call("runs", "export", "all", "-o", tmp_path / "e.json")
    code, _, err = call("runs", "import", tmp_path / "e.json", "--device", "pi")
    assert code == 2 and re.search(says("export-edgewise-which-all-settings"), " ".join(err.split()))
    assert call("runs", "import", tmp_path / "e.json")[0] == 0


def test_calibrate_takes_a_mean_for_the_latency_and_says_so():
    notes, none = Notes(), ModelFiles([])
    run = import_file(FOLDER / "benchncnn.txt", told=Told(device="pi"))[0]
    assert _from_run(run, none, notes).values == {"latency": 2.2e-3}
    assert notes.sentences == [
        "Latency (mean) measured by benchncnn, which does not tell the batch (1 is assumed): squeezenet."
    ]
    (run,) = import_file(FOLDER / "onnxruntime_perf_test.txt", told=Told(settings={"batch": 1}))
    assert _from_run(run, none, notes).values == {"latency": 5e-3, "memory_peak": 3e7}
    assert notes.sentences[1:] == ["Latency measured by onnxruntime_perf_test: model of onnxruntime_perf_test.txt."]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_read_once(call, tmp_path):
    call("runs", "import", FOLDER / "hyperfine.json")
    call("runs", "export", "all", "-o", tmp_path / "e.json")
    for words, content in (
        (["--from", "trtexec"], (FOLDER / "trtexec.txt").read_bytes()),
        ([], (tmp_path / "e.json").read_bytes()),
    ):
        pipe = tmp_path / f"pipe{len(words)}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
        writer.start()
        assert call("runs", "import", *words, pipe)[0] == 0
        writer.join()


def test_what_a_tool_recorded_of_failures_is_said_on_import_and_shown(call, tmp_path):
    path, log = tmp_path / "h.json", tmp_path / "log.txt"
    rows = [
        {"command": "good.sh", "times": [1.0, 0.01, 1.2], "exit_codes": [0, 2, 0]},
        {"command": "bad.sh", "times": [0.001], "exit_codes": [127]},
    ]
    path.write_text(json.dumps({"results": rows}))
    log.write_text("&&&& RUNNING TensorRT.trtexec\n[x] [E] Error Code 4: no\n&&&& FAILED TensorRT.trtexec\n")
    code, out, err = call("runs", "import", path, log)
    assert (code, out) == (0, "") and err.splitlines() == [
        f"{path}: 2 runs added",
        "warning: good.sh: 1 of 3 executions failed and is left out: exit code 2",
        "warning: bad.sh failed: the only execution failed: exit code 127 (the shell finds no such program)",
        f"{log}: 1 run added",
        "warning: model of log.txt · tensorrt failed: Error Code 4: no",
    ]
    good, bad, build = (run.id for run in (*import_file(path), *import_file(log)))
    assert "done; 1 of 3 executions failed and is left out: exit code 2" in call("runs", "show", good)[1]
    assert "CommandFailed: the only execution failed" in call("runs", "show", bad)[1]
    assert "EngineError: Error Code 4: no" in call("runs", "show", build)[1]
    code, out, _ = call("compare", good, bad)
    assert code == 4 and re.search(
        says("executions-failed-left-out", executions_count=has("good.sh: 1 of 3"), value="is"), " ".join(out.split())
    )
