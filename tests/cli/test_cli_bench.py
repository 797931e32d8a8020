"""`edgewise bench` through the fake engine: exact numbers from the command line to the store and back."""

import contextlib
import io
import json
import os
import pty
import re
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.record import SCHEMA, InTurns, Measurement
from edgewise.registry import Availability
from edgewise.run.agreement import compared_with
from edgewise.store import open_store
from edgewise.testing import write_fake_model
from messages import has, is_in, says, wording

MS = 1_000_000
CONVERTIBLE = (
    "not measured: litert can't read .onnx: edgewise convert net.onnx --to tflite makes a file that it measures"
)


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.chdir(tmp_path)


def fake(tmp_path, name="m.fake", **script):
    path = tmp_path / name
    script.setdefault("latency_ns", [2 * MS])
    write_fake_model(path, **script)
    return str(path)


def document_of(capsys):
    """The one JSON document on standard output."""
    return json.loads(capsys.readouterr().out)


def measurements(run_document):
    return {row["metric"]: row for row in run_document["measurements"]}


def test_json_is_one_document_of_the_contract(tmp_path, capsys):
    model = fake(tmp_path)
    assert run(["bench", model, "--iterations", "20", "--warmup", "2", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert set(document) == {"schema", "runs", "recommendation", "recommendations"}
    (record,) = document["runs"]
    assert record["schema"] == SCHEMA and record["status"] == "done"
    assert record["job"]["runtime"]["name"] == "fake"
    assert set(record["job"]) == {"model", "runtime", "target", "workload", "command"}
    assert document["recommendation"]["run"] in (record["id"], None)
    assert "fake" in captured.err  # progress is on standard error


def test_numbers_are_the_scripts_to_the_digit(tmp_path, capsys):
    latencies = [n * 100_000 for n in range(1, 21)]
    model = fake(tmp_path, latency_ns=[MS] * 3 + latencies, outputs_value=1.0)
    assert run(["bench", model, "--warmup", "3", "--iterations", "20", "--json", "-q"]) == 0
    (record,) = document_of(capsys)["runs"]
    rows = measurements(record)
    latency = rows["latency"]
    assert latency["samples"] == pytest.approx([n * 1e-9 for n in latencies], abs=1e-12)
    assert latency["value"] == pytest.approx(np.median(latencies) * 1e-9, rel=1e-9)
    assert latency["unit"] == "s" and latency["basis"] == "measured"
    assert latency["summary"]["min"] == pytest.approx(1e-4)
    assert latency["summary"]["max"] == pytest.approx(2e-3)
    assert "p50" in latency["summary"]["percentiles"] and "p99" not in latency["summary"]["percentiles"]
    assert rows["latency_first"]["value"] == pytest.approx(1e-3)
    assert rows["throughput"]["value"] == pytest.approx(20 / (sum(latencies) * 1e-9), rel=1e-9)
    assert rows["energy"]["value"] is None and rows["energy"]["absent_because"]


def test_the_headline_is_the_call_and_the_engines_own_clock_is_told_beside_it(tmp_path, capsys):
    model = fake(tmp_path, latency_ns=[1_080_000], engine_latency_ns=[MS])
    assert run(["bench", model, "--iterations", "20", "-q", "--details"]) == 0
    shown = capsys.readouterr().out
    assert "1.08" in shown and re.search(says("engine-own-clock", quantity=has("1.00 ms")), " ".join(shown.split()))
    assert run(["runs", "list", "--json"]) == 0
    (listed,) = document_of(capsys)["rows"]
    assert (listed["metric"], listed["value"]) == ("latency", pytest.approx(1.08e-3))
    assert run(["runs", "show", "last", "--json"]) == 0
    (record,) = document_of(capsys)["runs"]
    rows = measurements(record)
    assert rows["latency"]["value"] == pytest.approx(1.08e-3)
    assert rows["latency_engine"]["value"] == pytest.approx(1e-3)
    assert rows["throughput"]["value"] == pytest.approx(1 / 1.08e-3)
    assert "latency_call" not in rows


def test_every_absent_value_has_a_reason_and_every_present_one_a_basis(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "--iterations", "10", "--json", "-q"]) == 0
    (record,) = document_of(capsys)["runs"]
    for row in record["measurements"]:
        if row["value"] is None:
            assert row["absent_because"], row["metric"]
        else:
            assert row["basis"] and row["method"], row["metric"]


def seed_recipe(elapsed, batch_size):
    """The arithmetic of the TensorFlow throughput recipe, without TensorFlow: its lines and its throughput.

    It prints at i = 0, 50, 100 …: "Steps i-(i+50)" is the mean of the (up to) 50 runs that end *with* run i, so that its
    first line averages one run, and each later one the stretch before the one its label names.
    """
    elapsed_time = []
    lines = []
    for i, seconds in enumerate(elapsed):
        elapsed_time = np.append(elapsed_time, seconds)
        if i % 50 == 0:
            lines.append(f"Steps {i}-{i + 50} average: {elapsed_time[-50:].mean() * 1000:4.1f}ms")
    return lines, len(elapsed) * batch_size / elapsed_time.sum()


def test_the_tensorflow_throughput_recipe_to_the_digit(tmp_path, capsys):
    rng = np.random.default_rng(7)
    latencies = [int(value) for value in rng.integers(1 * MS, 9 * MS, 1000)]
    model = fake(
        tmp_path, latency_ns=[30 * MS] * 50 + latencies, inputs=[{"name": "x", "shape": [None, 4], "dtype": "float32"}]
    )
    arguments = ["--warmup", "50", "--iterations", "1000", "--report-every", "50", "--batch", "8", "--json"]
    assert run(["bench", model, *arguments]) == 0
    captured = capsys.readouterr()
    elapsed = [value * 1e-9 for value in latencies]
    recipe_lines, throughput = seed_recipe(elapsed, batch_size=8)
    (record,) = json.loads(captured.out)["runs"]
    row = measurements(record)["throughput"]
    assert row["value"] == pytest.approx(throughput, rel=1e-9)
    assert f"{row['value']:.0f}" == f"{throughput:.0f}"
    assert re.match(says("inferences-batch-time-s", count=1000, batch=8), row["method"])
    printed = [line for line in captured.err.splitlines() if line.startswith("Steps")]
    # As many lines in the same words, each the mean of the very runs that its label names …
    assert len(printed) == len(recipe_lines) == 20
    means = [np.mean(elapsed[start : start + 50]) * 1000 for start in range(0, 1000, 50)]
    assert printed == [f"Steps {50 * n}-{50 * n + 50} average: {mean:4.1f}ms" for n, mean in enumerate(means)]
    # … where the recipe's first line is one run, and line n is the mean of the 50 runs up to run 50·n.
    assert recipe_lines[0] == f"Steps 0-50 average: {elapsed[0] * 1000:4.1f}ms"
    assert recipe_lines[1] == f"Steps 50-100 average: {np.mean(elapsed[1:51]) * 1000:4.1f}ms"


def test_sessions_are_fresh_processes_and_all_samples_are_kept(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "--sessions", "3", "--iterations", "15", "--json", "-q"]) == 0
    (record,) = document_of(capsys)["runs"]
    assert len({session["pid"] for session in record["sessions"]}) == 3
    assert measurements(record)["latency"]["session_lengths"] == [15, 15, 15]


def test_axes_make_jobs_in_a_stable_order(tmp_path, capsys):
    models = [fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")]
    assert run(["bench", *models, "--threads", "1,2", "--iterations", "1", "--json", "-q"]) == 0
    jobs = [record["job"] for record in document_of(capsys)["runs"]]
    assert [(job["model"]["name"], job["runtime"]["threads"]) for job in jobs] == [
        ("a.fake", 1), ("a.fake", 2), ("b.fake", 1), ("b.fake", 2),
    ]  # fmt: skip


def test_paced_scenario_reports_misses_and_penalty(tmp_path, capsys):
    model = fake(tmp_path, latency_ns=[4 * MS])
    arguments = ["--scenario", "paced", "--fps", "100", "--iterations", "40", "--json", "-q"]
    assert run(["bench", model, *arguments]) == 0
    rows = measurements(document_of(capsys)["runs"][0])
    assert rows["latency_paced"]["value"] == pytest.approx(4e-3)
    assert rows["deadline_miss_rate"]["value"] == 0.0
    assert rows["idle_gap_penalty"]["value"] == pytest.approx(1.0)
    assert rows["throughput"]["value"] is None


def test_paced_scenario_too_fast_for_the_model_misses_every_deadline(tmp_path, capsys):
    model = fake(tmp_path, latency_ns=[20 * MS])
    arguments = ["--scenario", "paced", "--fps", "100", "--iterations", "40", "--json", "-q"]
    assert run(["bench", model, *arguments]) == 0
    rows = measurements(document_of(capsys)["runs"][0])
    assert rows["deadline_miss_rate"]["value"] == 1.0
    assert rows["response_time"]["value"] > 0.1


def test_a_model_that_cannot_keep_the_rate_is_not_recommended(tmp_path, capsys):
    model = fake(tmp_path, latency_ns=[20 * MS])
    assert run(["bench", model, "--scenario", "paced", "--fps", "100", "--iterations", "40", "--json", "-q"]) == 0
    document = document_of(capsys)
    assert document["recommendation"] is None
    assert "overloaded" in [caution["code"] for caution in document["runs"][0]["cautions"]]


@pytest.mark.parametrize("term", ["xterm-256color", pytest.param("dumb", marks=pytest.mark.long)])
def test_a_real_terminal_sees_progress_and_the_table(tmp_path, term):
    """Through a pseudo-terminal, where the live line is drawn."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "edgewise", "bench", fake(tmp_path), "--sessions", "2", "--iterations", "20"]
    environment = {**os.environ, "TERM": term, "COLUMNS": "80"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed: everything was read
            while piece := os.read(master, 65536):
                shown += piece
    os.close(master)
    assert process.returncode == 0, shown.decode()
    assert b"m.fake" in shown and b"2.00" in shown and b"error" not in shown


def test_offline_scenario_reports_throughput_and_no_latency(tmp_path, capsys):
    model = fake(tmp_path, latency_ns=[5 * MS])
    assert run(["bench", model, "--scenario", "offline", "--iterations", "100", "--json", "-q"]) == 0
    rows = measurements(document_of(capsys)["runs"][0])
    assert rows["throughput"]["value"] == pytest.approx(200.0)
    assert rows["latency"]["value"] is None and "offline" in rows["latency"]["absent_because"]


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_table_fits_the_terminal(tmp_path, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["bench", fake(tmp_path), "--iterations", "20"]) == 0
    captured = capsys.readouterr()
    assert "m.fake" in captured.out and "ms" in captured.out
    assert max(map(len, captured.out.splitlines())) <= int(columns)


def test_a_failed_run_is_exit_code_4_and_the_others_are_shown(tmp_path, capsys):
    good = fake(tmp_path, "good.fake")
    bad = fake(tmp_path, "bad.fake", behaviour={"at": "load", "do": "segfault"})
    assert run(["bench", bad, good, "--iterations", "10", "--json", "-q"]) == 4
    runs = document_of(capsys)["runs"]
    assert [record["status"] for record in runs] == ["failed", "done"]
    assert runs[0]["failure"]["signal"] == "SIGSEGV"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--threads", "0"],
            says("threads-must-1-not", named_threads=has("--threads"), max_threads=1024, count=has("0")),
        ),
        (["--threads", "two"], says("not-whole-number-in-words")),
        (["--batch", "0"], says("field-must-least-not", field=has("--batch"), least=1, value=has("0"))),
        (["--sessions", "0"], says("field-must-least-not", field=has("--sessions"), least=1)),
        (["--iterations", "0"], says("field-must-least-not", field=has("--iterations"), least=1)),
        (
            ["--iterations", "5", "--duration", "1s"],
            says(
                "iterations-duration-exclude-each-other",
                named_iterations=has("--iterations"),
                named_duration="--duration",
            ),
        ),
        (["--duration", "soon"], "not a duration"),
        (["--timeout", "0s"], says("field-must-above-0-s", field=has("--timeout"))),
        (["--memory-limit", "lots"], says("not-size")),
        (["--scenario", "sideways"], "sideways"),
        (["--scenario", "paced"], "--fps"),
        (["--fps", "30"], "paced"),
        (["--report-every", "5"], "--report-every"),
        (["--report-every", "5", "--iterations", "9", "--scenario", "offline"], "--report-every"),
        (["--streams", "2"], "offline"),
        (["--scenario", "offline", "--streams", "0"], says("field-must-least-not", field=has("--streams"), least=1)),
        (["--scenario", "offline", "--requests", "-1"], says("field-must-least-not", field=has("--requests"), least=1)),
        (["--seed", "-1"], says("seed-must-0-2-1", named_seed=has("--seed"))),
        (["--memory-limit", "0"], says("field-must-least-not", field=has("--memory-limit"), least=1)),
        (["--timeout", "1e12s"], says("field-must-above-0-s", seconds="1e+12")),
        (["--provider", "nowhere"], says("none-requested-runtimes-can-run")),
        (["--precision", "f7"], says("none-requested-runtimes-can-run")),
        (["--precision", "f7"], "(fake): fake/cpu has no precision f7 (it has: f32"),
        (["--provider", "nowhere"], "(fake): fake has no provider nowhere (it has: cpu"),
        (["--precision", "int8"], "; or a file in int8: edgewise optimize "),
        (["-r", "litert"], "(fake): litert can't read this format\ntry: installed runtimes that read it: fake"),
        (["-r", "litert"], "; for litert, from PyTorch or Keras: edgewise convert FILE.py:FUNCTION --to tflite\n"),
        (["--shape", "nonsense"], "nonsense"),
        (["--input-data", "missing.npz"], "missing.npz"),
        (["-o", "report.docx"], "with one of: .md, .html, .csv, .json\n"),
        (["-o", "chart.svg"], "with one of: .md, .html, .csv, .json; 'edgewise profile' writes .svg\n"),
        (["-o", "model.mltk.json"], "reports can't be written as .mltk.json"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_settings_are_one_line_with_advice_and_exit_code_2(tmp_path, capsys, arguments, words):
    assert run(["bench", fake(tmp_path), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert is_in(words, captured.err)
    assert captured.err.startswith("error: ")
    assert len(captured.err.strip().splitlines()) == 2
    assert "try: " in captured.err


def test_another_word_for_an_engine_that_can_not_read_the_model_leads_to_one_that_can(capsys):
    """`-r tflite` for an ONNX file led to litert, and that to an error."""
    from edgewise.data import path

    shutil.copy(path("digits_cnn.onnx"), "my net.onnx")
    way = "; for litert: edgewise convert 'my net.onnx' --to tflite (the first time it downloads about 170 MB)\n"
    for command, code in (("bench", 2), ("optimize", 3), ("profile", 2)):
        assert run([command, "my net.onnx", "-r", "tflite"]) == 3
        told = capsys.readouterr().err
        assert "unknown runtime 'tflite'\ntry: litert can't read onnx; installed runtimes that read it: " in told
        assert told.endswith(way) and "did you mean" not in told
        assert run([command, "my net.onnx", "-r", "litert"]) == code
        assert capsys.readouterr().err.endswith(way)
    assert run(["bench", str(path("digits_cnn.tflite")), "-r", "tflite"]) == 3
    assert "did you mean 'litert'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("installed", "words", "said"),
    [
        ({"onnxruntime", "litert"}, ["net.onnx"], [CONVERTIBLE]),
        ({"onnxruntime", "openvino", "litert"}, ["net.onnx"], [CONVERTIBLE]),
        ({"onnxruntime", "openvino"}, ["net.onnx"], []),
        ({"onnxruntime", "litert"}, ["net.onnx", "net.tflite"], []),
        ({"onnxruntime", "litert"}, ["net.onnx", "-r", "onnxruntime"], []),
        ({"openvino", "litert"}, ["net.tflite"], []),
    ],
)
def test_an_installed_engine_that_needs_another_format_is_named_with_the_command(
    capsys, monkeypatch, installed, words, said
):
    from edgewise.data import path

    def availability(target, name, runtime):
        return Availability(True, version="1.0") if name in installed else Availability(False, "no", "install it")

    monkeypatch.setattr("edgewise.run.plan.availability_at", availability)
    for suffix in (".onnx", ".tflite"):
        shutil.copy(path(f"digits_cnn{suffix}"), f"net{suffix}")
    for command in ("bench", "profile"):
        assert run([command, *words, "--dry-run"]) == 0
        assert [line for line in capsys.readouterr().err.splitlines() if "can't read" in line] == said


@pytest.mark.parametrize("word", ["f32", "fp32", "FP32", "float32"])
def test_precisions_have_the_names_that_people_use(tmp_path, capsys, word):
    words = ["--precision", word, "--iterations", "9", "--sessions", "1", "--json", "--no-store", "-q"]
    assert run(["bench", fake(tmp_path), *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert found["job"]["runtime"]["precision"] == "f32"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "m.onnx"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"\x93random bytes\x00" * 100), "m.onnx"),
    ],
)
def test_bad_models_are_exit_code_2(tmp_path, capsys, make, words):
    path = tmp_path / "m.onnx"
    make(path)
    assert run(["bench", str(path)]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and len(captured.err.strip().splitlines()) <= 2


def test_an_unknown_runtime_is_exit_code_3(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "-r", "nope"]) == 3
    assert "nope" in capsys.readouterr().err


def test_a_runtime_that_is_not_installed_is_exit_code_3_with_the_line_that_installs_it(
    tmp_path, capsys, monkeypatch, tiny_onnx
):
    from edgewise.registry import Availability
    from edgewise.runtime.onnxruntime import OnnxRuntime
    from edgewise.runtime.openvino import OpenVino

    missing = Availability(False, "the package is not installed", "pip install 'edgewise[it]'")
    monkeypatch.setattr(OnnxRuntime, "availability", lambda self: missing)
    monkeypatch.setattr(OpenVino, "availability", lambda self: missing)
    for arguments in (["-r", "onnxruntime"], []):  # asked for by name, and none left that reads the format
        assert run(["bench", str(tiny_onnx()), *arguments]) == 3
        err = capsys.readouterr().err
        assert "installed" in err and wording("pip-install-edgewise", extra="it") in err
        assert len(err.strip().splitlines()) == 2


def test_a_runtime_that_does_not_read_the_format_is_exit_code_2(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "-r", "onnxruntime"]) == 2


def test_runs_are_stored_as_they_are_finished(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "--iterations", "10", "--json", "-q"]) == 0
    (record,) = document_of(capsys)["runs"]
    assert run(["runs", "show", "last", "--json"]) == 0
    (stored,) = document_of(capsys)["runs"]
    assert stored == record


def test_no_store_keeps_nothing(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "--iterations", "10", "--no-store", "-q"]) == 0
    assert not (tmp_path / "store.db").exists()


def test_a_store_that_can_not_be_opened_costs_no_measurement(tmp_path, capsys):
    (tmp_path / "broken.db").write_bytes(b"this is not a database" * 100)
    code = run(["bench", fake(tmp_path), "--iterations", "10", "--store", str(tmp_path / "broken.db"), "-q"])
    captured = capsys.readouterr()
    assert code == 3
    assert "m.fake" in captured.out
    assert "not saved" in captured.err
    (recovery,) = tmp_path.glob("edgewise-recovery-*.json")
    assert run(["runs", "import", str(recovery)]) == 0
    assert run(["runs", "list", "--json"]) == 0


def test_a_store_of_a_newer_edgewise_costs_no_measurement(tmp_path, capsys):
    store = tmp_path / "newer.db"
    edgewise.open_store(str(store)).close()
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
    assert run(["bench", fake(tmp_path), "--iterations", "10", "--store", str(store), "-q"]) == 3
    captured = capsys.readouterr()
    assert "m.fake" in captured.out
    assert "newer" in captured.err and "edgewise runs import" in captured.err


@pytest.mark.long
def test_a_full_disk_costs_no_measurement(tmp_path):
    """Files may not grow beyond 8 KiB, as on a disk that is full."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "from edgewise.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    command = ["bench", fake(tmp_path), "--iterations", "10", "--store", str(tmp_path / "full.db"), "-q"]
    whole = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # else modules of 8 KiB are left for the next import
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, cwd=tmp_path, env=whole
    )
    assert done.returncode == 3, done.stderr
    assert "m.fake" in done.stdout
    assert "not saved" in done.stderr and "Traceback" not in done.stderr


def test_a_report_is_written_beside_the_table(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "--iterations", "10", "-q", "-o", "report.md"]) == 0
    assert "m.fake" in (tmp_path / "report.md").read_text()
    assert run(["bench", fake(tmp_path), "--iterations", "10", "-q", "-o", "report.md"]) == 2
    assert run(["bench", fake(tmp_path), "--iterations", "10", "-q", "-o", "report.md", "--force"]) == 0


def test_reference_times_are_kept_with_every_session_and_widen_the_interval(tmp_path, capsys):
    model = fake(tmp_path, reference_ns=[80_000, 81_000])
    assert run(["bench", model, "--iterations", "20", "--sessions", "2", "--json", "-q"]) == 0
    (record,) = document_of(capsys)["runs"]
    assert record["variation"]["source"] == "assumed"
    for session in record["sessions"]:
        told = session["facts"]["reference"]
        assert [told[when]["compute_s"] for when in ("start", "end")] == [8e-5, 8.1e-5]
    latency = measurements(record)["latency"]
    assert latency["within_low"] == latency["within_high"] == 2e-3
    assert latency["low"] < 1.99e-3 < 2.01e-3 < latency["high"]
    assert record["trust"]["grade"] != "A"
    assert run(["bench", model, "--iterations", "20", "--sessions", "2", "-q", "--details"]) == 0
    out = capsys.readouterr().out
    assert "for a re-run on this machine" in out
    assert "within this run: ± 0.0 %" in out


def test_spread_lays_the_sessions_of_all_jobs_apart(tmp_path, capsys, monkeypatch):
    waits = []
    monkeypatch.setattr("edgewise.run.dispatch.sleep", waits.append)
    models = [fake(tmp_path, f"{name}.fake", reference_ns=[80_000]) for name in "ab"]
    assert run(["bench", *models, "--spread", "10min", "--iterations", "20", "--sessions", "3", "--json"]) == 0
    captured = capsys.readouterr()
    runs = json.loads(captured.out)["runs"]
    assert [len(record["sessions"]) for record in runs] == [3, 3]
    assert [record["variation"]["source"] for record in runs] == ["spread", "spread"]
    assert len(waits) == 3 and 250 < waits[1] <= 300 < 550 < waits[2] <= 600
    started = sorted(
        (session["started_at"], name) for name, record in zip("ab", runs, strict=True) for session in record["sessions"]
    )
    assert [name for _, name in started] == list("ababab")
    assert run(["bench", models[0], "--spread", "10min", "--sessions", "1"]) == 2
    assert "--spread" in capsys.readouterr().err


def test_a_failing_job_of_a_spread_leaves_the_others(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("edgewise.run.dispatch.sleep", lambda seconds: None)
    bad = fake(tmp_path, "bad.fake", behaviour={"at": "load", "do": "raise"})
    good = fake(tmp_path, "good.fake")
    assert run(["bench", bad, good, "--spread", "10min", "--sessions", "2", "--iterations", "9", "--json", "-q"]) == 4
    failed, done = document_of(capsys)["runs"]
    assert (failed["status"], len(failed["sessions"])) == ("failed", 0)
    assert (done["status"], len(done["sessions"])) == ("done", 2)


def test_ctrl_c_in_a_spread_keeps_the_sessions_that_are_there(tmp_path, capsys, monkeypatch):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("edgewise.run.dispatch.sleep", sleep)
    model = fake(tmp_path)
    assert run(["bench", model, "--spread", "10min", "--sessions", "4", "--iterations", "9", "--json", "-q"]) == 130
    (record,) = document_of(capsys)["runs"]
    assert (record["status"], len(record["sessions"])) == ("cancelled", 2)


def test_a_dry_run_measures_nothing_and_says_what_would_be_measured(tmp_path, capsys):
    assert run(["bench", fake(tmp_path), "--threads", "1,2", "--iterations", "9", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "--threads 1,2 --iterations 9" in shown and "iterations: 9" in shown
    assert [line for line in shown.splitlines() if line.startswith("job: ")] == [
        "job: m.fake · fake/cpu 1T, 1 session",
        "job: m.fake · fake/cpu 2T, 1 session",
    ]
    assert not (tmp_path / "store.db").exists()
    assert run(["bench", fake(tmp_path), "--batch", "0", "--dry-run"]) == 2


def test_another_precision_is_advised_for_all_files_that_it_can_change(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("edgewise.run.run_builder._is_of_integers", lambda model: model.name == "int8.fake")
    effective = {"precision": "f32", "default_precision": "bf16"}
    files = [fake(tmp_path, f"{name}.fake", effective=effective) for name in ("a", "int8", "b")]
    assert run(["bench", *files, "--iterations", "9", "--sessions", "1", "--no-store"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "measures both: edgewise bench a.fake b.fake -r fake --precision f32,bf16" in told
    assert told.count("edgewise bench") == 1


def test_a_batch_that_the_file_leaves_open_is_said(tmp_path, capsys):
    """It is 1 unless another one is asked for; a size that is given is no choice of edgewise."""
    model = fake(tmp_path, inputs=[{"name": "x", "shape": [None, 4], "dtype": "float32"}])
    line = "m.fake leaves the batch open, which is 1 here → another one: --batch N"
    words = ["bench", model, "--iterations", "9", "--sessions", "1", "--no-store"]
    for more, said in (
        ([], True), (["--dry-run"], True), (["--batch", "2", "--dry-run"], False), (["--batch", "1,2", "--dry-run"], False),
        (["--shape", "x=1x4", "--dry-run"], False),
    ):  # fmt: skip
        assert run([*words, *more]) == 0
        assert (line in " ".join(capsys.readouterr().err.split())) == said, more
    assert run([*words[:1], fake(tmp_path, "fixed.fake"), *words[2:], "--dry-run"]) == 0
    assert "leaves the batch open" not in capsys.readouterr().err


def test_a_request_is_written_by_a_dry_run_and_carried_out_later(tmp_path, capsys, monkeypatch):
    fake(tmp_path, latency_ns=[3 * MS])
    assert run(["bench", "m.fake", "--iterations", "9", "--seed", "7", "--dry-run", "--json"]) == 0
    request = document_of(capsys)
    assert (request["verb"], request["models"], request["seed"]) == ("bench", ["m.fake"], 7)
    (tmp_path / "request.json").write_text(json.dumps(request))
    # From another folder: paths count from the request's.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(["run", "../request.json", "--json", "-q", "-o", "report.md"]) == 0
    (record,) = document_of(capsys)["runs"]
    assert measurements(record)["latency"]["value"] == pytest.approx(3e-3)
    assert record["job"]["workload"]["seed"] == 7 and record["job"]["model"]["path"] == str(tmp_path / "m.fake")
    assert (tmp_path / "elsewhere" / "report.md").exists()
    assert run(["runs", "show", "last", "--json"]) == 0
    assert document_of(capsys)["runs"] == [record]


def test_a_request_comes_from_standard_input_too(tmp_path, capsys, monkeypatch):
    fake(tmp_path)
    assert run(["bench", "m.fake", "--iterations", "9", "--dry-run", "--json", "--absolute"]) == 0
    request = capsys.readouterr().out
    assert json.loads(request)["models"] == [str(tmp_path / "m.fake")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(request.encode())))
    assert run(["run", "-", "-q", "--json", "--no-store"]) == 0
    assert len(document_of(capsys)["runs"]) == 1
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", says("not-json")),
        ("[]", says("not-request-there-no-verb")),
        ('{"schema": 2, "verb": "bench"}', says("request-schema-edgewise-reads-up", schema=2)),
        ('{"schema": 1, "verb": "dance"}', says("not-verb", verb=has("'dance'"))),
        (
            '{"schema": 1, "verb": "bench", "models": ["m.fake"], "colour": 1}',
            says("not-field-request", place=has("'colour'")),
        ),
        (
            '{"schema": 1, "verb": "bench", "models": ["m.fake"], "batches": [0]}',
            says("field-must-least-not", field=has("batches"), least=1),
        ),
        ('{"schema": 1, "verb": "bench", "models": ["missing.fake"]}', "missing.fake"),
    ],
)
def test_a_bad_request_is_one_line_with_advice_and_exit_code_2(tmp_path, capsys, text, words):
    (tmp_path / "request.json").write_text(text)
    assert run(["run", "request.json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and re.search(words, captured.err)
    assert captured.err.startswith("error: ") and len(captured.err.strip().splitlines()) <= 2
    assert "--batch" not in captured.err


def test_a_request_that_runs_code_says_so(tmp_path, capsys):
    (tmp_path / "nets.py").write_text("def make():\n    raise RuntimeError('called')\n")
    (tmp_path / "request.json").write_text('{"schema": 1, "verb": "bench", "models": ["nets.py:make"]}')
    assert run(["run", "request.json"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"this request runs code: {tmp_path}/nets.py:make") and "called" in said


def test_outputs_of_several_files_are_compared_and_the_answer_says_so(tmp_path, capsys, monkeypatch):
    asked = []

    def compare_files(runs, save):
        asked.append([one.job.model.name for one in runs])
        row = Measurement.of("output_max_rel_error", 0.0038, compared_with(runs[0].job.model.name))
        return [runs[0], *(replace(one, measurements=(*one.measurements, row)) for one in runs[1:])]

    monkeypatch.setattr("edgewise.comparing.files_agreement.compare_files", compare_files)
    models = [fake(tmp_path, name, latency_ns=[at * MS]) for at, name in ((1, "a.fake"), (2, "b.fake"))]
    words = ["--iterations", "9", "--sessions", "1", "--no-store"]
    assert run(["bench", models[0], *words]) == 0 and not asked  # one file
    assert "Outputs: " not in capsys.readouterr().out
    assert run(["bench", *models, *words]) == 0
    assert asked == [["a.fake", "b.fake"]]
    told = " ".join(capsys.readouterr().out.split())
    assert "Outputs: b.fake agrees with a.fake within 0.380 % of their scale" in told.partition("Run ")[0]


def test_finalists_are_measured_in_turns_and_a_prescribed_protocol_is_left_alone(tmp_path, capsys, monkeypatch):
    asked = []

    def with_turns(some, history, *, each_s):
        asked.append([one.job.model.name for one in some])
        verdicts = {some[0].id: ("slower", 1.25), some[1].id: ("faster", 0.8)}
        return [
            replace(one, in_turns=(InTurns(
                against=other.id, ratio=verdicts[one.id][1], low=None, high=None, verdict=verdicts[one.id][0], method="m"),))
            for one, other in (some, some[::-1])
        ]  # fmt: skip

    monkeypatch.setattr("edgewise.comparing.finals.with_turns", with_turns)
    models = [fake(tmp_path, name) for name in ("a.fake", "b.fake")]
    words = "then in turns: up to 8 that can't be told apart from the fastest one, 15 s each at most"
    kept = f"{words}; 24 s of the time budget are kept for that"
    for more, told in ((["--sessions", "1"], ""), (["--duration", "1s"], ""), (["--time-budget", "60s"], kept)):
        assert run(["bench", *models, *more, "--dry-run"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert told in shown and ("in turns" in shown) == bool(told), more
    assert run(["bench", *models, "--iterations", "9", "--json", "-q"]) == 0
    assert not asked and [one["in_turns"] for one in json.loads(capsys.readouterr().out)["runs"]] == [[], []]
    assert run(["bench", *models, "--json"]) == 0
    captured = capsys.readouterr()
    assert [sorted(names) for names in asked] == [["a.fake", "b.fake"]]
    names = r"The first numbers of (a|b)\.fake · fake/cpu and (a|b)\.fake · fake/cpu prove no order: measuring these 2 "
    assert re.search(names + "in turns, 30 s at most", captured.err), captured.err
    found = json.loads(captured.out)["runs"]
    assert sorted(one["in_turns"][0]["verdict"] for one in found) == ["faster", "slower"]
    with open_store() as store:
        assert all(store.get(one["id"]).in_turns for one in found)
