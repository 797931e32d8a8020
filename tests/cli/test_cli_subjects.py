"""What the words of ``compare`` and ``gate`` name."""

from __future__ import annotations

import json
import os
import re
import string
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.comparing.jobs import runs_among
from edgewise.errors import BadInput, EdgewiseError, StoreError
from edgewise.record import Run, Scenario
from edgewise.report.files import runs_document
from edgewise.store import open_store
from edgewise.store.exchange import export_runs
from edgewise.verbs.subjects import pair_runs, read_subjects, split_vary
from messages import has, is_in, says, wording
from sample_runs import KWS, VWW, make_run, run_id, same_model_runs


@pytest.fixture
def store(tmp_path):
    """A store of the sample runs, the first tagged; its path."""
    path = str(tmp_path / "runs.db")
    with open_store(path) as opened:
        for run in same_model_runs():
            opened.save(run)
        opened.tag("main", run_id(1))
        opened.tag("release/1.2", run_id(2))
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def model(folder, name="model.onnx", content=b"\x08\x07model"):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return name


def only(word, store="absent.db"):
    [found] = read_subjects([word], store=store)
    return found


@pytest.mark.parametrize(
    ("word", "label", "settings"),
    [
        ("model.onnx", None, {}),
        ("./model.onnx", None, {}),
        ("model.onnx,threads=2", None, {"threads": 2}),
        ("old=model.onnx", "old", {}),
        ("two threads=model.onnx,threads=2,runtime=openvino", "two threads", {"threads": 2, "runtime": "openvino"}),
        (
            "model.onnx, batch=8 ,precision= bf16,provider=cpu",
            None,
            {"batch": 8, "precision": "bf16", "provider": "cpu"},
        ),
        ("model.onnx,runtime=litert/xnnpack", None, {"runtime": "litert/xnnpack"}),
        ("model.onnx,", None, {}),
    ],
)
def test_a_model_may_have_a_name_and_settings(folder, word, label, settings):
    model(folder)
    found = only(word)
    assert (found.argument, found.file) == (0, None)
    assert (found.label, found.settings) == (label, settings)
    assert isinstance(found.thing, Path)
    assert found.thing.read_bytes() == b"\x08\x07model"


@pytest.mark.parametrize(
    "name", ["a=b.onnx", "a,b.onnx", "x=y,threads=2", "m,threads=2.onnx", "d=1/m.onnx", "a=b,c=d/e=f,g"]
)
def test_an_existing_file_as_a_whole_wins(folder, name):
    model(folder, name)
    model(folder, "b.onnx")
    found = only(name)
    assert (found.label, str(found.thing), found.settings) == (None, name, {})
    named = only(f"new={name},threads=4")
    assert (named.label, str(named.thing), named.settings) == ("new", name, {"threads": 4})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.onnx,speed=2", "unknown setting 'speed'"),
        ("model.onnx,threads", "'threads' is not key=value"),
        ("model.onnx,threads=", "threads has no value"),
        ("model.onnx,threads=two", "threads 'two' is not a whole number of 1 or more"),
        ("model.onnx,threads=0", "threads '0' is not a whole number of 1 or more"),
        ("model.onnx,threads=-1", "is not a whole number"),
        ("model.onnx,batch=99999999999", "is not a whole number"),
        ("model.onnx,threads=1,threads=2", "gives threads twice"),
        ("=model.onnx", "has no usable name"),
        (" \t=model.onnx", "has no usable name"),
        (f"{'n' * 61}=model.onnx", "has no usable name"),
        ("", "is empty"),
        ("  ", "is empty"),
    ],
)
def test_wrong_words_are_one_clear_error(folder, word, message):
    model(folder)
    with pytest.raises(BadInput, match=message.replace("(", "\\(")) as caught:
        only(word)
    assert caught.value.advice


def test_unknown_settings_list_the_known_ones(folder):
    model(folder)
    with pytest.raises(BadInput) as caught:
        only("model.onnx,speed=2")
    assert caught.value.advice == (
        "settings: runtime, provider, threads, precision, batch, signature, environment; env.NAME; python=PATH; container=IMAGE; "
        "versions of onnxruntime, openvino, ai-edge-litert, torch, keras, tensorflow, numpy"
    )


def test_labels_are_one_printable_line(folder):
    model(folder)
    assert only("a\n\x1b[31mb=model.onnx").label == "a [31mb"


def test_doubled_labels_are_refused(folder):
    model(folder)
    with pytest.raises(BadInput, match=says("two-subjects-called", label="x")):
        read_subjects(["x=model.onnx", "x=model.onnx,threads=2"], store=None)


@pytest.mark.parametrize(
    ("word", "label", "numbers"),
    [
        ("main", None, [1]),
        ("release/1.2", None, [2]),
        ("base=main", "base", [1]),
        (run_id(3), None, [3]),
        ("last", None, [4]),
        ("last~1", None, [3]),
        ("group:last", None, [1, 2, 3, 4]),
        ("side=group:last", "side", [1, 2, 3, 4]),
        ("all", None, [1, 2, 3, 4]),
    ],
)
def test_stored_runs_are_found_by_every_name_they_have(store, word, label, numbers):
    found = read_subjects([word], store=store)
    assert [run.id for run in runs_among(found)] == [run_id(number) for number in numbers]
    assert {(one.label, one.argument, one.file) for one in found} == {(label, 0, None)}


def test_words_keep_their_order_and_number(store, folder):
    model(folder)
    found = read_subjects(["last", "model.onnx", "last", "group:last"], store=store)
    assert [one.argument for one in found] == [0, 1, 2, 3, 3, 3, 3]


def test_a_file_comes_before_a_run_of_the_same_name(store, folder):
    model(folder, "main")
    assert isinstance(only("main", store=store).thing, Path)
    (folder / "main").unlink()
    (folder / "main").mkdir()
    assert isinstance(only("main", store=store).thing, Run)


@pytest.mark.parametrize("name", ["bundle.json", "baseline.onnx", "noending"])
@pytest.mark.parametrize("start", ["", "\n  ", "\ufeff"])
def test_content_and_not_the_name_says_what_a_file_is(folder, name, start):
    export_runs(same_model_runs(), folder / "runs.json")
    (folder / name).write_text(start + (folder / "runs.json").read_text())
    found = read_subjects([f"old={name}"], store=None)
    assert [run.id for run in runs_among(found)] == [run_id(number) for number in (1, 2, 3, 4)]
    assert {(one.label, one.file) for one in found} == {("old", Path(name))}


def test_what_json_of_a_command_printed_holds_runs(folder):
    (folder / "printed.json").write_text(json.dumps(runs_document(same_model_runs())))
    assert len(read_subjects(["printed.json"], store=None)) == 4


def test_a_fake_model_is_a_model_though_it_holds_json(folder):
    model(folder, "m.fake", b'edgewise-fake 1\n{"latency": 1}')
    assert isinstance(only("m.fake").thing, Path)


@pytest.mark.parametrize("word", ["main,threads=2", "base=main,threads=2", "b.json,threads=2", "x=b.json,threads=2"])
def test_a_run_takes_no_settings(store, folder, word):
    export_runs([make_run(9)], folder / "b.json")
    with pytest.raises(BadInput, match=says("cant-set-run-which-measured", settings="threads=2")):
        only(word, store=store)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps({"schema": 99, "kind": "edgewise-bundle", "runs": []}), says("schema-written-newer-edgewise-one")),
        (json.dumps({"schema": 1, "kind": "edgewise-bundle", "runs": []}), says("holds-no-runs")),
        (json.dumps([1, 2]), says("contains-no-runs")),
        ('{"runs": [', "not JSON"),
        ('{"comparisons": []}', "b.json"),
        ("[" * 100_000, says("not-record-nested-too-deeply")),
        ("", says("path-empty")),
    ],
)
def test_a_wrong_file_of_runs_is_told(folder, text, message):
    (folder / "b.json").write_text(text)
    with pytest.raises(BadInput, match=message):
        only("b.json")


@pytest.mark.parametrize(
    ("word", "what", "run"),
    [
        ("nowhere.onnx", "'nowhere.onnx' is not a readable file", "there is no run 'nowhere.onnx'"),
        ("x=nowhere.onnx,threads=2", "'nowhere.onnx' is not a readable file", "there is no run 'nowhere.onnx'"),
        ("./a=b/nowhere.onnx", "'./a=b/nowhere.onnx' is not a readable file", "there is no run './a=b/nowhere.onnx'"),
        ("nothing", "is not a readable file", "there is no run 'nothing'"),
        ("folder", wording("folder-not-model-file-in-identity", file="'folder'"), "there is no run 'folder'"),
        ("last~99", "is not a readable file", "the store has 4"),
        ("group:none", "is not a readable file", says("there-no-group")),
        ("0195f0c0", "is not a readable file", says("matches-several-runs", reference=has("'0195f0c0'"))),
        ("x" * 5000, "is not a readable file", says("there-no-run")),
        ("a\0b", "is not a readable file", says("there-no-run")),
        ("\udcff", "is not a readable file", says("there-no-run")),
    ],
)
def test_what_is_neither_a_file_nor_a_run_says_that_both_were_tried(store, folder, word, what, run):
    (folder / "folder").mkdir()
    with pytest.raises(BadInput) as caught:
        only(word, store=store)
    assert what in caught.value.message
    assert re.search(says("nor-stored-run"), caught.value.message)
    assert is_in(run, caught.value.message)
    assert re.search(says("check-path-in-subjects"), caught.value.advice)


def test_a_setting_in_place_of_a_thing_is_explained(store):
    with pytest.raises(BadInput) as caught:
        only("threads=2", store=store)
    assert is_in(says("vary-setting-vary-set-behind", word="threads=2"), caught.value.advice)


@pytest.mark.parametrize("word", ["nowhere.onnx", "nowhere"])
def test_without_a_store_a_missing_file_is_still_bad_input(word):
    with pytest.raises(BadInput, match=says("there-no-store")):
        only(word, store="absent.db")


@pytest.mark.parametrize("word", ["last", "group:last", "x=last~1"])
def test_without_a_store_runs_are_unavailable(word):
    with pytest.raises(StoreError, match=says("there-no-store")):
        only(word, store="absent.db")


def test_a_broken_store_is_told_where_a_run_was_meant(folder):
    (folder / "broken.db").write_text("no database")
    with pytest.raises(StoreError):
        only("main", store="broken.db")
    with pytest.raises(BadInput, match=says("corrupt-not-store")):
        only("nowhere.onnx", store="broken.db")


def test_an_empty_store_names_no_runs(folder):
    open_store("empty.db").close()
    with pytest.raises(BadInput, match=says("names-no-runs-store-empty")):
        only("all", store="empty.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_told(folder):
    model(folder)
    (folder / "model.onnx").chmod(0)
    with pytest.raises(BadInput, match="can't read"):
        only("model.onnx")


def test_models_need_no_store(folder):
    model(folder)
    assert isinstance(only("model.onnx", store="absent.db").thing, Path)
    assert not (folder / "absent.db").exists()


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=string.ascii_letters + "=,./~:\n\0 \ud800é", max_size=30))
def test_no_word_is_a_traceback(text):
    try:
        found = read_subjects([text], store="absent.db")
    except EdgewiseError as error:
        assert error.message
    else:
        assert found == []


def pair_ids(first, second):
    pairs, notes = pair_runs(first, second)
    return [(a.id[-2:], b.id[-2:]) for a, b in pairs], notes


def test_one_run_each_is_a_pair_whatever_they_are():
    assert pair_ids([make_run(1)], [make_run(2, runtime="openvino", model=VWW)]) == ([("01", "02")], [])


def test_runs_are_matched_by_what_was_measured():
    first = [make_run(1), make_run(2, runtime="openvino"), make_run(3, threads=2)]
    second = [make_run(4, threads=2), make_run(5), make_run(6, batch=8)]
    assert pair_ids(first, second) == (
        [("01", "05"), ("03", "04")],
        ["only the first has kws.onnx · openvino/cpu 1T", "only the second has kws.onnx · onnxruntime/cpu 1T batch 8"],
    )


def test_one_run_meets_its_like_among_several():
    pairs, notes = pair_ids([make_run(1, runtime="openvino")], [make_run(2), make_run(3, runtime="openvino")])
    assert pairs == [("01", "03")]
    assert notes == ["only the second has kws.onnx · onnxruntime/cpu 1T"]


def test_models_count_where_there_are_several_and_scenarios_always():
    renamed = replace(KWS, name="kws-new.onnx")
    assert pair_ids([make_run(1), make_run(2, threads=2)], [make_run(3, model=renamed)])[0] == [("01", "03")]
    first = [make_run(1), make_run(2, model=VWW)]
    assert pair_ids(first, [make_run(3, model=VWW)])[0] == [("02", "03")]
    paced = make_run(4, scenario=Scenario(kind="paced", fps=30.0))
    assert pair_ids([make_run(1), paced], [make_run(5, scenario=Scenario(kind="paced", fps=30.0))])[0] == [("04", "05")]


def test_of_several_runs_of_one_kind_the_newest_counts():
    older = replace(make_run(9), created_at="2026-01-01T00:00:00+00:00")
    assert pair_ids([make_run(1), older, make_run(2)], [make_run(3)]) == (
        [("02", "03")],
        ["of 3 runs of kws.onnx · onnxruntime/cpu 1T the newest counts"],
    )


def test_nothing_in_common_is_refused():
    with pytest.raises(BadInput, match=says("no-run-first-argument-counterpart")) as caught:
        pair_runs([make_run(1)], [make_run(2, threads=2), make_run(3, threads=4)])
    assert "kws.onnx · onnxruntime/cpu 1T, kws.onnx · onnxruntime/cpu 2T" in caught.value.message
    with pytest.raises(BadInput, match=says("there-none")):
        pair_runs([], [])


def test_what_is_varied_is_read_axis_by_axis():
    assert split_vary(["threads=1,2", "runtime=onnxruntime, openvino", "threads=2,4"]) == {
        "threads": [1, 2, 4],
        "runtime": ["onnxruntime", "openvino"],
    }
    assert split_vary(None) == split_vary([]) == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("threads", says("vary-not-key-value")),
        ("speed=1", says("unknown-setting-in-subjects", key="speed")),
        ("=1", says("unknown-setting-in-subjects", key="")),
        ("threads=", says("no-value-in-subjects", key="threads")),
        ("threads=1,,2", says("no-value-in-subjects", key="threads")),
        ("threads=1,x", says("not-whole-number-1-more", key="threads", value="x")),
        ("threads=1,2,runtime=openvino", says("vary-varies-two-settings")),
    ],
)
def test_wrong_axes_are_told(value, message):
    with pytest.raises(BadInput, match=message) as caught:
        split_vary([value])
    assert "--vary" in caught.value.message
    assert caught.value.advice
