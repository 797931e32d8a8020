import csv
import gc
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import BadInput
from edgewise.record import SCHEMA, Failure, Measurement, Run
from edgewise.store import exchange, from_document, open_store, to_document
from edgewise.store.exchange import csv_lines, export_runs, import_runs, read_runs
from messages import says, wording

GOLDEN = Path(__file__).parents[1] / "golden" / "schema2"


def golden(name="done"):
    return from_document(json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")))


AGREEMENT = Measurement(
    metric="agreement_top1", unit="1", basis="measured", method="outputs of one inference", value=1.0
)
RUNS = [golden("done"), golden("failed"), golden("cancelled")]


def test_a_bundle_there_and_back(tmp_path):
    path = tmp_path / "runs.json"
    export_runs(RUNS, path)
    document = json.loads(path.read_text())
    assert (document["schema"], document["kind"], len(document["runs"])) == (SCHEMA, "edgewise-bundle", 3)
    assert import_runs(path) == RUNS
    assert os.listdir(tmp_path) == ["runs.json"]


@pytest.mark.parametrize("name", ["runs.json", "runs.jsonl"])
def test_an_export_has_one_run_a_line_and_is_read_line_by_line(tmp_path, monkeypatch, name):
    path = tmp_path / name
    assert export_runs(RUNS, path) == 3
    lines = [line.rstrip(",") for line in path.read_text().splitlines() if len(line) > 100]
    assert [from_document(json.loads(line)) for line in lines] == RUNS
    # No more than a line is held: the limit is that of a line, and the file is larger.
    monkeypatch.setattr(exchange, "MAX_BYTES", max(map(len, lines)) + 2)
    assert path.stat().st_size > exchange.MAX_BYTES
    assert list(read_runs(path)) == RUNS


def alive() -> int:
    return sum(type(each) is Run for each in gc.get_objects())


@pytest.mark.parametrize("name", ["runs.json", "runs.jsonl", "runs.csv"])
@pytest.mark.long
def test_any_number_of_runs_is_exported_and_imported_one_by_one(tmp_path, name):
    before, most = alive(), 0

    def made():
        nonlocal most
        for number in range(60):
            if number % 20 == 10:  # a look at all objects takes its time
                most = max(most, alive() - before)
            yield replace(RUNS[0], id=f"0193-{number:04}")

    with open_store(str(tmp_path / "a.db")) as store:
        store.merge(made())
        assert export_runs(made(), tmp_path / name) == 60
        assert export_runs(store.each(["all"]), tmp_path / name, overwrite=True) == 60
    assert most <= 4
    if name.startswith("runs.json"):
        read = 0
        for read, _ in enumerate(read_runs(tmp_path / name), start=1):
            assert read % 20 != 10 or alive() - before <= 4
        assert read == 60


@pytest.mark.parametrize("name", ["runs.json", "runs.jsonl"])
def test_an_export_that_was_cut_or_joined_is_refused(tmp_path, name):
    path = tmp_path / name
    export_runs(RUNS, path)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:-50])
    with pytest.raises(BadInput, match=r"runs\[\d\]: not JSON"):
        import_runs(path)
    if name == "runs.jsonl":
        path.write_text(whole + "\n\n" + whole)
        assert import_runs(path) == RUNS
        return
    for text in ("".join(lines[:2]), "".join(lines[:-1]), whole + whole):
        path.write_text(text)
        with pytest.raises(BadInput, match="not JSON"):
            import_runs(path)


def test_a_bundle_that_another_program_formatted_is_read_whole(tmp_path):
    path = tmp_path / "runs.json"
    export_runs(RUNS, path)
    document = json.loads(path.read_text())
    for indent in (None, 1, "\t"):
        path.write_text(json.dumps(document, indent=indent))
        assert import_runs(path) == RUNS
    one = json.dumps(document["runs"][0], indent=2)
    path.write_text(f'{{"schema": {SCHEMA}, "runs": [\n{one}\n]}}')
    assert import_runs(path) == RUNS[:1]


def test_of_two_versions_in_a_file_the_later_one_is_taken(tmp_path):
    more = replace(RUNS[0], measurements=(*RUNS[0].measurements, AGREEMENT))
    export_runs([RUNS[0], more, RUNS[0]], tmp_path / "runs.json")
    assert import_runs(tmp_path / "runs.json") == [more]


def test_what_commands_print_and_single_runs_are_read_too(tmp_path):
    printed, single = tmp_path / "bench.json", tmp_path / "run.json"
    printed.write_text(json.dumps({"runs": [to_document(run) for run in RUNS], "recommendation": None}))
    single.write_text(json.dumps(to_document(RUNS[0])))
    assert import_runs(printed) == RUNS
    assert import_runs(str(single)) == RUNS[:1]


def test_an_empty_bundle(tmp_path):
    export_runs([], tmp_path / "none.json")
    assert import_runs(tmp_path / "none.json") == []


def test_a_file_is_not_replaced_unasked(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text("mine")
    with pytest.raises(BadInput, match=says("already-exists")) as caught:
        export_runs(RUNS, path)
    assert "--force" in caught.value.advice
    assert path.read_text() == "mine"
    export_runs(RUNS, path, overwrite=True)
    assert import_runs(path) == RUNS
    assert os.listdir(tmp_path) == ["runs.json"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "runs.json"
    fsync = os.fsync

    def appear(descriptor):
        path.write_text("theirs")
        fsync(descriptor)

    monkeypatch.setattr(exchange.os, "fsync", appear)
    with pytest.raises(BadInput, match=says("already-exists")):
        export_runs(RUNS, path)
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["runs.json"]


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def refuse(self, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    export_runs(RUNS, tmp_path / "runs.json")
    assert import_runs(tmp_path / "runs.json") == RUNS
    assert os.listdir(tmp_path) == ["runs.json"]


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exchange.os, "fsync", fail)
    with pytest.raises(exchange.StoreError, match="No space left"):
        export_runs(RUNS, tmp_path / "runs.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "match"),
    [("runs.txt", "'.txt'"), ("runs", says("file-without-extension")), ("no/runs.json", "can't write")],
)
def test_where_nothing_can_be_written(tmp_path, name, match):
    with pytest.raises(BadInput, match=match) as caught:
        export_runs(RUNS, tmp_path / name)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[]", "contains no runs"),
        (b"{}", "schema: a record must have its schema number"),
        (b'{"runs": 5}', "runs: is not a list"),
        (b'{"runs": [5]}', r"runs\[0\]: a record is a JSON object"),
        (b'{"runs": [{"schema": 2, "id": 5}]}', r"runs\[0\]: id: input should be a valid string"),
        (b'{"schema": 3, "runs": []}', "written by a newer edgewise"),
        (b'{"schema": 3}', "written by a newer edgewise"),
        (b'{"runs": [{"schema": 7}]}', r"runs\[0\]: .*written by a newer edgewise"),
        (b'{"schema": 1, "kind": "recipes", "runs": []}', "kind: 'recipes'"),
        (b'{"schema": 1, "kind": ["x"], "runs": []}', "kind: "),
        (b'{"runs": [NaN]}', "NaN is not a number"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_files_that_hold_no_runs(tmp_path, content, match):
    path = tmp_path / "runs.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=match) as caught:
        import_runs(path)
    assert "\n" not in caught.value.message
    # Of several files on one command line, the one that is meant.
    assert caught.value.message.count(str(path)) == 1


def test_a_truncated_export(tmp_path):
    path = tmp_path / "runs.json"
    export_runs(RUNS, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadInput, match="not JSON") as caught:
        import_runs(path)
    assert "complete" in caught.value.advice


def test_files_that_can_not_be_read(tmp_path):
    for path in (tmp_path / "no.json", tmp_path, "a\0b"):
        with pytest.raises(BadInput, match=says("cant-read-in-exchange")):
            import_runs(path)


def test_size_is_limited(tmp_path, monkeypatch):
    path = tmp_path / "runs.json"
    export_runs(RUNS, path)
    monkeypatch.setattr(exchange, "MAX_BYTES", path.stat().st_size)
    assert import_runs(path) == RUNS
    monkeypatch.setattr(exchange, "MAX_BYTES", path.stat().st_size - 1)
    with pytest.raises(BadInput, match=says("larger-than")):
        import_runs(path)
    with pytest.raises(BadInput, match=says("larger-than")):
        import_runs("/dev/zero")


def test_duplicates(tmp_path):
    path = tmp_path / "runs.json"
    export_runs([RUNS[0], RUNS[1], RUNS[0]], path)
    assert import_runs(path) == RUNS[:2]
    assert list(read_runs(path)) == [RUNS[0], RUNS[1], RUNS[0]]
    export_runs([RUNS[0], replace(RUNS[0], status="failed")], path, overwrite=True)
    with pytest.raises(BadInput, match=says("runs-run-occurs-twice-different", index=1)):
        import_runs(path)


def to_csv(runs):
    return "".join(csv_lines(runs))


def test_csv_has_a_row_for_each_measurement(tmp_path):
    rows = list(csv.DictReader(io.StringIO(to_csv(RUNS))))
    assert len(rows) == 3
    assert list(rows[0]) == [
        "run", "created", "model", "format", "runtime", "provider", "version", "threads", "batch", "scenario", "metric",
        "value", "low", "high", "unit", "basis", "method", "absent_because", "operators",
        "operators_delegated", "delegate_partitions",
    ]  # fmt: skip
    assert rows[0] == {
        "run": "01936b2a-7c10-7abc-8def-0123456789ab", "created": "2026-01-31T12:00:00.250000+00:00",
        "model": "person_detect.tflite", "format": "tflite", "runtime": "litert", "provider": "xnnpack",
        "version": "2.3.0", "threads": "2", "batch": "1", "scenario": "single-stream", "metric": "latency",
        "value": "0.0021", "low": "0.00205", "high": "0.00216", "unit": "s", "basis": "measured",
        "method": "monotonic clock around invoke; median, block bootstrap", "absent_because": "", "operators": "",
        "operators_delegated": "", "delegate_partitions": "",
    }  # fmt: skip
    assert (rows[2]["value"], rows[2]["absent_because"]) == ("", "no energy meter on this machine")
    export_runs(RUNS, tmp_path / "runs.CSV")
    assert (tmp_path / "runs.CSV").read_bytes().decode() == to_csv(RUNS)


def test_csv_of_a_failed_run_has_no_values_and_says_why():
    failure = Failure(cause="LinkLost", message="unplugged", phase="steady")
    rows = list(csv.DictReader(io.StringIO(to_csv([replace(RUNS[0], status="failed", failure=failure)]))))
    latency = next(row for row in rows if row["metric"] == "latency")
    assert [latency[name] for name in ("value", "low", "high", "basis")] == [""] * 4
    assert latency["absent_because"] == wording(
        "run-failed-in-cells", where="", cause="LinkLost", message="", advice="unplugged"
    )


def test_csv_quotes_and_leaves_out_what_is_not_finite():
    odd = replace(
        RUNS[0],
        measurements=(
            Measurement(metric="latency", unit="s", basis="measured", method='a,"b"\nc', value=float("nan")),
        ),
    )
    row = next(csv.DictReader(io.StringIO(to_csv([odd]))))
    assert (row["method"], row["value"], row["absent_because"]) == ('a,"b" c', "", "the number obtained was nan")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\x1b]8;;=x", "＝1"])
def test_exports_have_neither_formulas_nor_control_characters(name):
    job = RUNS[2].job
    job = replace(job, model=replace(job.model, name=name), runtime=replace(job.runtime, provider=name))
    row = Measurement(metric="energy", unit="J", basis=None, method="", value=None, absent_because=f"{name}\x1b[31m")
    odd = replace(RUNS[2], job=job, measurements=(*RUNS[2].measurements, row))
    for line in csv.reader(io.StringIO(to_csv([odd]))):
        assert not any(cell[:1] in tuple("=+-@＝") and not is_number(cell) for cell in line if cell)
    assert "\x1b" not in to_csv([odd])


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True
