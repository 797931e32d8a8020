import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgewise.cli.main import run as edgewise
from edgewise.cli.runs.command import _parse_time
from edgewise.errors import BadInput
from edgewise.metrics import METRICS
from edgewise.record import SCHEMA, Failure, Measurement, RuntimeSpec, Scenario
from edgewise.store import from_document, open_store, to_document
from edgewise.store.redaction import redact_run
from messages import has, says, wording

GOLDEN = Path(__file__).parents[1] / "golden" / "schema2"


def golden(name="done"):
    return from_document(json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")))


RUNS = [golden("done"), golden("failed"), golden("cancelled")]


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    """A store with three runs, found through the environment; no terminal, 80 columns."""
    path = tmp_path / "runs.db"
    monkeypatch.setenv("EDGEWISE_STORE", str(path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with open_store() as store:
        for run in RUNS:
            store.save(run)
    return path


@pytest.fixture
def call(capsys):
    """Runs one command line; its exit code, standard output and standard error."""

    def call(*words):
        code = edgewise(["runs", *map(str, words)])
        answer = capsys.readouterr()
        return code, answer.out, answer.err

    return call


def stored(path):
    with open_store(str(path)) as store:
        return store.resolve(["all"])


def test_list(call, path):
    code, out, err = call("list")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["Run", "Model", "Runtime", "Latency,", "grade", "Tags"]
    assert " ".join(lines[5:]) == ("columns left out for width: Made (UTC), Shape, Machine; use a wider terminal")
    assert [line.split()[0] for line in lines[2:5]] == [
        "01936b2a-9000",
        "01936b2a-8000",
        "01936b2a-7c10",
    ]
    assert "2.10 ± 0.06 ms D" in out
    assert max(map(len, lines)) <= 80
    assert f"3 runs in {path}" in err


def test_a_run_has_one_line_with_its_metric_threads_shape_and_short_id(call, path):
    machine = {"cpu": {"model": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"}}
    model = replace(RUNS[0].job.model, name="a_network_with_a_name_that_is_longer_than_any_line_has_room_for.tflite")
    with open_store(str(path)) as store:
        for place in range(3):
            job = replace(RUNS[0].job, model=model)
            store.save(
                replace(
                    RUNS[0], id=f"01936b2a-7{place}10-7abc-8def-000000000009", job=job, environment=machine, tags=()
                )
            )
    out = call("list")[1]
    assert len(out.partition("columns left out")[0].splitlines()) == 2 + 6 and max(map(len, out.splitlines())) <= 80
    (line,) = (line for line in out.splitlines() if line.startswith("01936b2a-7210 "))
    assert "a_networ…ine_has_room_for   litert/xnnpack 2T   2.10 ± 0.06 ms D" in line


def test_a_narrow_list_has_the_shapes_where_nothing_else_tells_runs_apart(call, path):
    def shapes(*sizes):
        with open_store(str(path)) as store:
            store.remove(store.find(["all"]))
            for at, size in enumerate(sizes):
                inputs = tuple(replace(one, shape=(1, 3, size, size)) for one in RUNS[0].job.workload.inputs[:1])
                job = replace(RUNS[0].job, workload=replace(RUNS[0].job.workload, inputs=inputs))
                store.save(
                    replace(RUNS[0], id=f"01936b2a-7{at}10-7abc-8def-000000000009", job=job, tags=("last-week",))
                )
        out = call("list")[1]
        assert max(map(len, out.splitlines())) <= 80
        return re.findall(r"1x3x\d+x\d+", out)

    assert shapes(480, 224) == ["1x3x224x224", "1x3x480x480"]
    assert shapes(224, 224) == []


def test_files_of_one_name_have_their_folder_and_programs_their_command(call, path):
    def job(**changes):
        model = replace(RUNS[0].job.model, **{"name": "net.onnx", **changes})
        return replace(RUNS[0].job, model=model)

    program = replace(
        job(name="python3", sha256="e" * 64), command=("python3", "a.py"), runtime=RuntimeSpec(name="command")
    )
    program = replace(program, workload=replace(program.workload, scenario=Scenario(kind="command")))
    jobs = [
        job(path="/nets/new/net.onnx", sha256="a" * 64),
        job(path="/nets/old/net.onnx", sha256="b" * 64),
        job(path="/nets/old/net.onnx", sha256="c" * 64),
        job(name="alone.onnx", path="/nets/old/alone.onnx", sha256="d" * 64),
        program,
    ]
    with open_store(str(path)) as store:
        store.remove(store.find(["all"]))
        for number, one in enumerate(jobs):
            store.save(replace(RUNS[0], id=f"01936b2a-7{number}10-7abc-8def-000000000009", job=one, tags=()))
    lines = call("list")[1].partition("columns left out")[0].splitlines()[2:]
    assert [line.split("   ")[1].strip() for line in reversed(lines)] == [
        "new/net.onnx", "old/net.onnx (bbbbbbbb)", "old/net.onnx (cccccccc)", "alone.onnx", "python3 a.py",
    ]  # fmt: skip
    assert lines[0].split().count("command") == 1


def test_list_is_wider_where_there_is_room(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    out = call("list")[1]
    assert len(out.splitlines()) == 6
    assert "2026-01-31 12:00" in out
    assert "litert/xnnpack 2T" in out
    assert "failed: Timeout" in out
    assert "person_detect.tflite" in out


def test_list_shows_whole_ids_where_short_ones_are_the_same(call, path):
    twin = "01936b2a-7c10-7abc-8def-0123456789ac"
    with open_store(str(path)) as store:
        store.save(replace(RUNS[0], id=twin))
    assert twin in call("list")[1]


def test_list_shows_the_next_digits_of_runs_of_one_millisecond(call, path):
    """Measured side by side, runs begin at once: their ids begin with the same time."""
    with open_store(str(path)) as store:
        for twin in ("01936b2a-7c10-7abd-8def-000000000001", "01936b2a-7c10-7abe-8def-000000000002"):
            store.save(replace(RUNS[0], id=twin))
    _, out, _ = call("list")
    table = out.partition("columns left out")[0].splitlines()
    shown = [line.split()[0] for line in table[2:] if line[0] != " "]
    assert sorted(shown) == sorted({run.id[:18] for run in stored(path)}) and len(shown) == 5
    assert {"01936b2a-7c10-7abd", "01936b2a-7c10-7abe"} <= set(shown)
    assert max(map(len, out.splitlines())) <= 80
    # What is shown is enough to name a run.
    for word in shown:
        assert call("show", word)[0] == 0
    with open_store(str(path)) as store:
        store.save(replace(RUNS[0], id="01936b2a-7c10-7abe-8dea-000000000002"))
    assert "01936b2a-7c10-7abe-8dea " in call("list")[1] and "01936b2a-7c10-7abe-8def " in call("list")[1]


def test_the_shown_ids_of_a_part_of_the_runs_are_enough_in_the_whole_store(call, path):
    """A filter, or a limit, leaves out the run that begins with the same digits."""
    twin = "01936b2a-7c10-7abd-8def-000000000001"
    with open_store(str(path)) as store:
        store.save(replace(RUNS[0], id=twin, job=replace(RUNS[0].job, model=replace(RUNS[0].job.model, name="t.onnx"))))
    for word in (["--model", "t.onnx"], ["--limit", 1]):
        (line,) = (line for line in call("list", *word)[1].splitlines() if line.startswith("0193"))
        assert len(line.split()[0]) == (18 if "--model" in word else 13)
    assert call("show", twin[:18])[0] == 0 and call("show", twin[:13])[0] == 2
    with open_store(str(path)) as store:
        many = [f"01936b2b-{number:04x}-7abc-8def-0123456789ab" for number in range(250)]
        for one in many:
            store.save(replace(RUNS[0], id=one))
        assert store.id_size(many) == 13 and store.id_size([*many, twin]) == 18


def test_list_filters(call):
    def ids(*words):
        code, out, _ = call("list", "--json", *words)
        assert code == 0
        return [row["id"] for row in json.loads(out)["rows"]]

    newest_first = [run.id for run in reversed(RUNS)]
    assert ids() == newest_first
    assert ids("--limit", 1) == newest_first[:1]
    assert ids("--status", "failed") == [RUNS[1].id]
    assert ids("--model", "PERSON") == newest_first
    assert ids("--model", "cat") == []
    assert ids("-r", "litert") == newest_first
    assert ids("--runtime", "openvino") == []
    assert ids("--since", "2026-01-31T12:01:00Z") == newest_first[:2]
    assert ids("--until", "2026-01-31T12:01:00Z") == newest_first[2:]
    assert ids("-d", "local") == newest_first and ids("--device", "board") == []
    assert ids("--metric", "latency") == [RUNS[0].id] and ids("--metric", "energy:none") == []
    assert call("tag", "best", RUNS[1].id)[0] == 0
    assert call("list", "--count")[:2] == (0, f"{len(RUNS)}\n")
    assert call("list", "--count", "--tag", "best")[1] == "1\n"
    counted = json.loads(call("list", "--count", "--json", "--status", "done", "--model", "cat")[1])
    assert (counted["count"], counted["more"]) == (0, False)
    assert ids("--tag", "best") == [RUNS[1].id] and ids("--tag", "best", "--status", "done") == []


def test_a_run_in_full_says_what_limits_a_value(call):
    wide = replace(RUNS[0].measurement("latency"), low=0.001, high=0.009)
    rows = tuple(wide if row.metric == "latency" else row for row in RUNS[0].measurements)
    with open_store() as store:
        store.save(replace(RUNS[0], id="01936b2a-f000-7abc-8def-000000000001", measurements=rows))
    words = "known only within a factor of 5, by its 95 % interval"
    assert words in " ".join(call("show", "01936b2a-f")[1].split())
    assert words not in " ".join(call("show", RUNS[0].id)[1].split())


def test_list_refuses_an_unknown_metric(call):
    code, out, errors = call("list", "--metric", "latancy")
    assert (code, out) == (2, "")
    assert re.search(says("not-metric", metric=has("'latancy'")), errors) and "similar: latency" in errors


def test_a_list_of_several_metrics_names_each_and_is_not_headed_by_one():
    from edgewise.report.runs.document import listing_document
    from edgewise.store.database import RunRow

    def row(metric, unit, value):
        values = dict.fromkeys(RunRow.__slots__)
        values |= {"id": metric, "runtime": "onnxruntime", "model": "m", "batch": 1, "scenario": "single-stream"}
        values |= {"created_at": "2026-01-31T12:00:00+00:00", "status": "done", "tags": ()}
        return RunRow(**values | {"metric": metric, "unit": unit, "value": value})

    def results(*rows):
        table = listing_document(rows).tables[0]
        return [table.columns[5].title, *(cells[5].text for cells in table.rows)]

    time, score = row("latency", "s", 1e-3), row("accuracy_top1", "1", 0.87)
    assert results(time) == ["Latency", "1.00 ms"]
    assert results(time, time, score) == ["Result", "Latency 1.00 ms", "Latency 1.00 ms", "Top-1 87.00 %"]


def test_a_list_has_the_score_of_a_run_that_was_timed_and_evaluated(call, monkeypatch):
    score = Measurement(
        metric="accuracy_top1", unit="1", basis="measured", method="m", value=0.902, low=0.882, high=0.919
    )
    judged = replace(RUNS[0], id="019aaaaa-0000-7000-8000-000000000001", measurements=(*RUNS[0].measurements, score))
    with open_store() as store:
        store.save(judged)
        scores = store.scores(list(store.rows()))
    assert [(run, row.metric, row.value, row.low, row.high) for run, row in scores.items()] == [
        (judged.id, "accuracy_top1", 0.902, 0.882, 0.919)
    ]
    narrow = call("list")[1]
    assert "90.20 %" in narrow and "[88.20, 91.90]" not in narrow
    monkeypatch.setenv("COLUMNS", "200")
    assert call("list")[1].count("90.20 % [88.20, 91.90]") == 1


def test_at_80_columns_a_list_with_scores_has_engines_whole_and_says_what_it_leaves_out():
    from edgewise.report.document.text import to_text
    from edgewise.report.runs.document import listing_document
    from edgewise.store.database import RunRow

    def row(number, metric="latency", value=6.31e-5, low=4.3e-5, high=9.55e-5):
        values = dict.fromkeys(RunRow.__slots__) | {"id": f"01a22dde-158d-745{number}", "model": "ad01_int8.tflite"}
        values |= {"runtime": "onnxruntime", "provider": "cpu", "threads": 1, "batch": 1, "scenario": "single-stream"}
        values |= {"created_at": "2026-01-31T12:00:00+00:00", "status": "done", "tags": (), "grade": "D"}
        values |= {"machine": "AMD EPYC 7763 64-Core Processor", "device": "local"}
        return RunRow(**values | {"metric": metric, "unit": "s" if metric == "latency" else "1", "value": value,
                                  "low": low, "high": high})  # fmt: skip

    rows = [row(1), row(2)]
    error = row(1, "output_max_abs_error", 5.96e-7, None, None)
    text = to_text(listing_document(rows, id_size=18, scores={rows[0].id: error}), width=80)
    assert text.count("onnxruntime 1T   63.1 [43.0, 95.5] µs D\n") == 2
    assert "left out for width: Made (UTC), Max abs error, Machine; use" in " ".join(text.split())
    top1 = row(2, "accuracy_top1", 0.902, 0.882, 0.919)
    text = to_text(listing_document(rows, id_size=18, scores={rows[1].id: top1}), width=80)
    assert "ad01_int8.tflite   onnxruntime 1T   63.1 µs D    90.20 %\n" in text
    assert "intervals left out for width" in text
    text = to_text(listing_document(rows, id_size=18, scores={rows[0].id: error, rows[1].id: top1}), width=80)
    assert "63.1 µs D   Max error 5.96e-07\n" in text and "Top-1 90.20 %\n" in text
    assert "onnxruntime" in text and "onn…" not in text


def test_a_narrow_list_leaves_out_a_provider_only_where_it_is_the_processor_and_the_engines_only_one():
    from edgewise.report.runs.document import listing_document
    from edgewise.store.database import RunRow

    def row(runtime, provider):
        values = dict.fromkeys(RunRow.__slots__)
        values |= {"id": f"{runtime}-{provider}", "runtime": runtime, "provider": provider, "model": "m", "batch": 1}
        values |= {"created_at": "2026-01-31T12:00:00+00:00", "status": "failed", "scenario": "single-stream"}
        return RunRow(**values | {"tags": ()})

    rows = listing_document([row("torch", "eager"), row("torch", "compile"), row("openvino", "cpu")]).tables[0].rows
    assert [cells[3].short or cells[3].text for cells in rows] == ["torch/eager", "torch/compile", "openvino"]


def test_a_narrow_list_keeps_names_readable_and_says_which_columns_are_left_out(call):
    with open_store() as store:
        for at, name in enumerate(("mbv2_int8.onnx", "mbv2_fp16.onnx")):
            one, job = RUNS[0], RUNS[0].job
            job = replace(job, model=replace(job.model, name=name), runtime=replace(job.runtime, provider="cpu"))
            tags = ("last-week",) if at else ()
            store.save(replace(one, id=f"{one.id[:9]}{'ab'[at]}{one.id[10:]}", job=job, tags=tags))
    _, out, _ = call("list")
    assert "mbv2_int8.onnx" in out and "mbv2_fp16.onnx" in out
    heading, told = " ".join(out.split()).split("columns left out for width: ")
    columns = ("Made (UTC)", "Shape", "Machine", "Tags")
    assert all((column in told) != (f"{column} " in heading) for column in columns)
    assert told.endswith("; use a wider terminal")


def test_a_narrow_list_of_several_kinds_of_runs_keeps_models_engines_results_and_grades_whole(call):
    with open_store() as store:
        store.remove(store.find(["all"]))
        for at, (name, provider) in enumerate((("vww_96_int8.tflite", "interpreter"), ("vww_96_float.tflite", "gpu"))):
            job = replace(RUNS[0].job, model=replace(RUNS[0].job.model, name=name))
            job = replace(job, runtime=replace(job.runtime, name=("litert", "onnxruntime")[at], provider=provider))
            store.save(replace(RUNS[0], id=f"01936b2a-9000-7{at}bc-8def-000000000001", job=job, tags=()))
        program = replace(RUNS[0].job, command=("python3", "a.py"), runtime=RuntimeSpec(name="command"))
        program = replace(program, workload=replace(program.workload, scenario=Scenario(kind="command")))
        spent = replace(RUNS[0].measurements[0], metric="total_time", value=123.4e-3, low=98.76e-3, high=156.7e-3)
        store.save(replace(RUNS[0], id="01936b2a-9000-72bc-8def-000000000001", job=program, measurements=(spent,)))
    lines = [line.rstrip() for line in call("list")[1].splitlines()]
    assert lines[0].split() == ["Run", "Model", "Runtime", "Result,", "grade"]
    assert lines[2:5] == [
        "01936b2a-9000-72   python3 a.py    command                  123 [98.7, 157] ms D",
        "01936b2a-9000-71   vww_96_float…   onnxruntime/gpu 2T   Latency 2.10 ± 0.06 ms D",
        "01936b2a-9000-70   vww_96_int8…    litert 2T            Latency 2.10 ± 0.06 ms D",
    ]


def test_list_json_is_one_document(call, path):
    document = json.loads(call("list", "--json")[1])
    assert set(document) == {"schema", "store", "rows"}
    assert (document["schema"], document["store"]) == (SCHEMA, str(path))
    row = document["rows"][2]
    assert (row["metric"], row["value"], row["unit"], row["tags"]) == ("latency", 0.0021, "s", ["baseline"])


def test_list_pages(call):
    rows = json.loads(call("list", "--json")[1])["rows"]
    assert json.loads(call("list", "--json", "--limit", 1)[1])["rows"] == rows[:1]
    assert json.loads(call("list", "--json", "--before", rows[0]["id"])[1])["rows"] == rows[1:]
    assert json.loads(call("list", "--json", "--before", rows[-1]["id"])[1])["rows"] == []


def test_list_says_that_there_is_more(call):
    _, out, err = call("list", "--limit", 2)
    assert len([line for line in out.splitlines() if line.startswith("0193")]) == 2
    assert "2 runs" in err
    assert re.search(says("there-more-limit-before", value=4), err)


def test_list_of_nothing(call, tmp_path, monkeypatch):
    assert call("list", "--model", "cat")[1:][0] == ""
    assert re.search(says("no-runs-match-in-runs"), call("list", "--model", "cat")[2])
    monkeypatch.delenv("EDGEWISE_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    code, out, err = call("list")
    assert (code, out) == (0, "")
    assert "no runs yet" in err
    assert json.loads(call("list", "--json")[1])["rows"] == []


@pytest.mark.parametrize(
    "words",
    [
        ["--status", "maybe"],
        ["--since", "tomorrow"],
        ["--until", "5 parsecs"],
        ["--count", "--limit", "3"],
        ["--limit", "0"],
    ],
)
def test_list_refuses(call, words):
    code, out, err = call("list", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "try: " in err


@pytest.mark.parametrize(
    ("text", "back"), [("7d", timedelta(days=7)), ("36h", timedelta(hours=36)), ("90min", timedelta(minutes=90))]
)
def test_since_a_span(text, back):
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert _parse_time(text, "--since", now=now) == now - back


def test_since_a_time():
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert _parse_time("2026-01-30T10:00:00+02:00", "--since", now=now) == datetime(2026, 1, 30, 8, tzinfo=UTC)
    with pytest.raises(BadInput):
        _parse_time("99999d99", "--since", now=now)
    with pytest.raises(BadInput):
        _parse_time("1e9999s", "--since", now=now)


def test_a_store_that_was_named_must_be_there(call, tmp_path):
    for words in (
        ["list"],
        ["show", "last"],
        ["export", "-o", "f.json"],
        ["rm", "all", "--yes"],
        ["reindex"],
        ["tag", "t", "last"],
    ):
        code, out, err = call(*words, "--store", tmp_path / "typo.db")
        assert (code, out) == (3, "")
        assert re.search(says("there-no-store"), err)
    assert not (tmp_path / "typo.db").exists()


def test_show(call):
    code, out, err = call("show", "baseline")
    assert (code, err) == (0, "")
    assert RUNS[0].id in out
    assert "2.10 ms" in out
    assert "± 0.06 ms" in out
    assert "measured" in out
    assert "monotonic clock around invoke; median, block bootstrap" in out
    assert "no energy meter on this machine" in out
    assert "too-few-samples: 4 samples" in out
    assert "Grade D, because\n  too few samples (4)" in out
    assert "host.cpu: Cortex-A76" in out
    assert "temperature_k: not known" in out
    assert "precision int8" in out
    assert "litert 2.3.0, provider xnnpack, 2 threads" in out
    assert "1 layer: see --json" in out
    table = [line for line in out.splitlines() if line.startswith(("Metric", "Latency  ", "Model size"))]
    assert max(map(len, table)) <= 80


def test_show_a_failure(call):
    out = call("show", RUNS[1].id)[1]
    assert "Why it failed, in phase load" in out
    assert "Timeout: the load phase took longer than 120 s\n  raise --timeout" in out
    assert "loading delegate…" in out


def test_show_json(call):
    document = json.loads(call("show", "last", "baseline", "--json")[1])
    assert document == {
        "schema": SCHEMA, "runs": [to_document(RUNS[2]), to_document(RUNS[0])], "recommendation": None,
    }  # fmt: skip
    assert json.loads(call("show", "all", "--json")[1])["runs"] == [to_document(run) for run in RUNS]


def test_what_a_run_says_can_not_drive_the_terminal(call, path):
    nasty = "\x1b]0;owned\x07[bold]\x9b31m"
    job = RUNS[1].job
    run = replace(
        RUNS[1], job=replace(job, model=replace(job.model, name=nasty), runtime=replace(job.runtime, name=nasty)),
        failure=Failure(cause="Garbage", message=nasty, phase=nasty, advice=nasty, stderr_tail=nasty),
        environment={nasty: nasty}, group=nasty,
    )  # fmt: skip
    with open_store(str(path)) as store:
        store.save(run)
    for words in (["list"], ["show", run.id]):
        _, out, err = call(*words)
        assert not {"\x1b", "\x07", "\x9b"} & set(out + err)
    assert "[bold]" in out


def test_show_what_is_not_there(call):
    code, out, err = call("show", "nothing")
    assert (code, out) == (2, "")
    assert "there is no run 'nothing'" in err


def test_export_and_import(call, tmp_path):
    code, out, err = call("export", "-o", "all.json")
    assert (code, out) == (0, "")
    assert "3 runs written to all.json" in err
    other = tmp_path / "other.db"
    assert "3 runs added" in call("import", "all.json", "--store", other)[2]
    assert stored(other) == [redact_run(run) for run in RUNS]
    assert re.search(
        says("were-store-already", skipped=has("0 runs added, 3")), call("import", "all.json", "--store", other)[2]
    )
    assert stored(other) == [redact_run(run) for run in RUNS]


def test_export_some(call, tmp_path):
    assert call("export", "last", "-o", "one.csv")[0] == 0
    assert call("export", "group:last", "-o", "two.md")[0] == 0
    assert len((tmp_path / "two.md").read_text().splitlines()) > 4
    code, _, err = call("export", "last", "-o", "two.md")
    assert code == 2
    assert re.search(says("exists-already"), err)
    assert call("export", "last", "-o", "two.md", "--force")[0] == 0
    assert RUNS[0].id not in (tmp_path / "two.md").read_text()
    code, _, err = call("export", "last")
    assert code == 2 and re.search(says("name-file-write"), err)
    assert call("export", "-o", "newest.prom", "-o", "latency.trend.csv")[0] == 0
    assert Path("newest.prom").read_text().startswith("# HELP edgewise_")
    assert Path("latency.trend.csv").read_text().startswith("id,created_at,model,metric,unit,value")
    assert call("export", "last", "-o", "x.pdf")[0] == 2


def test_export_what_filters_choose(call, tmp_path):
    call("tag", "baseline", RUNS[0].id)
    for at, (arguments, wanted) in enumerate(
        [
            (
                ["-d", RUNS[0].job.target.device],
                [run for run in RUNS if run.job.target.device == RUNS[0].job.target.device],
            ),
            (["--tag", "baseline"], RUNS[:1]),
            (["--since", "2001-01-01", "--until", "2100-01-01"], RUNS),
        ]
    ):
        code, _, err = call("export", *arguments, "-o", f"{at}.jsonl")
        assert code == 0, err
        written = (tmp_path / f"{at}.jsonl").read_text().splitlines()
        assert {json.loads(line)["id"] for line in written} == {run.id for run in wanted}
    code, _, err = call("export", "-d", "nowhere", "-o", "x.json")
    assert code == 2 and re.search(says("no-runs-match-in-runs"), err) and not (tmp_path / "x.json").exists()
    code, _, err = call("export", "last", "-d", "pi", "-o", "x.json")
    assert code == 2 and wording("name-runs-filter-them-not") in err


def test_import_what_show_printed(call, tmp_path):
    (tmp_path / "shown.json").write_text(call("show", "all", "--json")[1], encoding="utf-8")
    assert call("import", "shown.json", "--store", tmp_path / "other.db")[0] == 0
    assert stored(tmp_path / "other.db") == RUNS


def test_import_refuses_a_conflict_and_keeps_what_there_is(call, tmp_path, path):
    changed = to_document(RUNS[0]) | {"status": "cancelled"}
    new = to_document(RUNS[1]) | {"id": "0193-new"}
    (tmp_path / "conflict.json").write_text(json.dumps({"runs": [new, changed]}))
    code, _, err = call("import", "conflict.json")
    assert code == 2
    assert re.search(says("run-already-stored-different-content"), err)
    assert stored(path) == RUNS


def test_import_refuses_what_is_newer(call, tmp_path):
    (tmp_path / "newer.json").write_text('{"schema": 99, "kind": "edgewise-bundle", "runs": []}')
    code, _, err = call("import", "newer.json")
    assert code == 2
    assert re.search(says("schema-written-newer-edgewise-one"), err)
    assert "try: update edgewise" in err


def test_rm_asks_and_where_nobody_is_there_refuses(call, path):
    code, _, err = call("rm", "all")
    assert code == 2
    assert re.search(says("would-removed-standard-input-not", count=has("3 runs")), err)
    assert "--yes" in err
    assert stored(path) == RUNS


@pytest.mark.parametrize(("answer", "left"), [("n\n", 3), ("y\n", 2), ("\n", 3)])
def test_rm_on_a_terminal(call, path, monkeypatch, answer, left):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    code, out, err = call("rm", "baseline")
    assert (code, out) == (0, "")
    assert re.match(says("remove-permanently", count="1 run"), err)
    assert "permanently? [y/N] " in err
    assert len(stored(path)) == left
    assert ("nothing was removed" in err) == (left == 3)


def test_rm(call, path):
    assert "2 runs removed" in call("rm", "last", RUNS[0].id, "baseline", "-y")[2]
    assert stored(path) == [RUNS[1]]
    assert call("rm", "last", "nothing", "--yes")[0] == 2
    assert stored(path) == [RUNS[1]]


@pytest.mark.parametrize("words", [[], ["--tag", ""], ["last", "--tag", "baseline"], ["--status", "gone"]])
def test_rm_never_chooses_for_the_user(call, path, words):
    code, _, err = call("rm", *words, "--yes")
    assert code == 2 and "try: " in err
    assert stored(path) == RUNS


def test_rm_what_filters_choose(call, path):
    code, _, err = call("rm", "--until", "2100-01-01")
    assert code == 2 and re.search(says("would-removed-standard-input-not", count=has("3 runs")), err)
    assert re.search(says("no-runs-match-in-runs"), call("rm", "--since", "2100-01-01", "--yes")[2])
    call("tag", "old", RUNS[0].id)
    assert "1 run removed" in call("rm", "--tag", "old", "--yes")[2]
    assert stored(path) == RUNS[1:]
    assert "2 runs removed" in call("rm", "--until", "2100-01-01", "-y")[2]


def test_several_exports_have_the_same_runs_and_are_checked_first(call, tmp_path):
    code, _, err = call("export", "-o", "a.md", "-o", "b.csv", "-o", "c.jsonl")
    assert code == 0 and err.count("3 runs written to ") == 3
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) == 3
    for words in (["-o", "d.md", "-o", "e.pdf"], ["-o", "d.md", "-o", "d.md"], ["-o", "d.md", "-o", "b.csv"]):
        assert call("export", *words)[0] == 2
    assert not (tmp_path / "d.md").exists()


def test_a_list_as_a_file_leads_to_export(call):
    code, _, err = call("list", "-o", "x.md")
    assert code == 2 and re.search(says("export-o-file"), err)


def test_reindex(call, path):
    code, out, err = call("reindex")
    assert (code, out) == (0, "")
    assert "3 runs indexed" in err
    from sqlalchemy import update

    from edgewise.store.tables import documents

    with open_store(str(path)) as store, store._database.writing() as connection:
        connection.execute(update(documents).where(documents.c.id == RUNS[0].id).values(document="[]"))
    code, _, err = call("reindex")
    assert code == 3
    assert "2 runs indexed" in err
    assert f"run {RUNS[0].id}" in err
    assert re.search(says("cant-read-in-runs", count=has("1 run")), err)


def test_schema(call):
    document = json.loads(call("schema")[1])
    assert document["title"] == "edgewise run"
    known = document["$defs"]["Measurement"]["properties"]["metric"]["anyOf"]
    assert set(known[0]["enum"]) == set(METRICS)


def test_tag(call, path):
    assert call("tag", "quick", "last")[0] == 0
    assert stored(path)[2].tags == ("quick",)
    assert call("tag", "quick", "baseline")[0] == 2
    assert call("tag", "quick", "baseline", "--move")[0] == 0
    assert [run.tags for run in stored(path)] == [("baseline", "quick"), (), ()]
    assert "quick removed from 1 run" in call("tag", "quick", "--delete")[2]
    assert [run.tags for run in stored(path)] == [("baseline",), (), ()]
    assert call("tag", "quick")[0] == 2
    assert call("tag", "quick", "last", "--delete")[0] == 2
    assert call("tag", "all", "last")[0] == 2
