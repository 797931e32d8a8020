"""Files for others hold no absolute paths of this machine and no user's name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.report.files import write_report
from edgewise.store import open_store
from edgewise.store.exchange import export_runs, import_runs
from edgewise.store.redaction import redact_paths
from messages import wording
from sample_runs import failed_run, make_run


def at(run, path):
    model = replace(run.job.model, path=str(path), name=Path(path).name)
    return replace(run, job=replace(run.job, model=model))


@pytest.mark.parametrize(
    ("text", "paths", "expected"),
    [
        ("can't read /data/secret/net.onnx: no", ["/data/secret/net.onnx"], wording("cant-read-in-coco", file="net.onnx", strerror="no")),
        ("/home/anna/v/lib/x.py line 3", [], "~/v/lib/x.py line 3"),
        ('"C:\\\\Users\\\\anna\\\\m.onnx"', [], '"~\\\\m.onnx"'),
        ("/Users/anna", [], "~"),
        ("in /data/secret.", ["/data/secret/net.onnx"], "in secret."),
        # Names of layers, system files, addresses and other folders are no places of the model.
        ("/features/conv1/Conv /sys/class/thermal https://x.org/home/page", ["/m/a.onnx"],
         "/features/conv1/Conv /sys/class/thermal https://x.org/home/page"),
        ("/data/secrets/a /my/data/secret/b", ["/data/secret/net.onnx"], "/data/secrets/a /my/data/secret/b"),
        ("models/net.onnx", ["models/net.onnx"], "models/net.onnx"),
    ],
)  # fmt: skip
def test_places_are_left_out(text, paths, expected):
    assert redact_paths(text, paths) == expected


def test_the_current_folder_and_the_users_own_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/srv/anna")
    assert redact_paths(f"{tmp_path}/out/a.onnx and /srv/anna/b.onnx") == "out/a.onnx and ~/b.onnx"


@pytest.mark.parametrize("name", ["r.json", "r.html", "r.md", "r.csv", "e.json", "e.jsonl", "e.csv"])
def test_no_export_tells_where_the_model_lay(name, tmp_path):
    place = "/home/anna maria/net & co/kws.onnx"
    failed = failed_run()
    failure = replace(failed.failure, message=f"can't read {place}", stderr_tail=f"File {place!r}\n  /home/anna/x.py")
    runs = [at(make_run(1), place), at(replace(failed, failure=failure), place)]
    file = tmp_path / name
    if name[0] == "r":
        write_report(runs, file)
    else:
        export_runs(runs, file, redact=True)
    text = file.read_text()
    assert "anna" not in text and "/home" not in text and "net &" not in text
    assert "kws.onnx" in text


def test_an_export_goes_back_into_the_store_it_came_from(tmp_path):
    run = at(make_run(1), tmp_path / "kws.onnx")
    export_runs([run], tmp_path / "runs.json", redact=True)
    (told,) = import_runs(tmp_path / "runs.json")
    assert told.job.model.path == "kws.onnx"
    with open_store(str(tmp_path / "runs.db")) as store:
        store.save(run)
        merged = store.merge([told])
        assert (merged.added, merged.skipped) == (0, 1)
        assert store.get(run.id).job.model.path == str(tmp_path / "kws.onnx")
    assert json.loads((tmp_path / "runs.json").read_text())["runs"][0]["id"] == run.id
