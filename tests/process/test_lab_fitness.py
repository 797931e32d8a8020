"""Devices of a lab that are fit or out, on a real PostgreSQL with real processes of hosts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import text

from edgewise.cli.main import run
from edgewise.errors import BadInput
from edgewise.run.reference import VERSION
from edgewise.store import lab_gauges
from edgewise.store.lab import STALE_S, LabDevice
from edgewise.verbs.lab.blocks import flag
from edgewise.verbs.lab.engine import ring
from edgewise.version import __version__
from labs import DONE, add, begin, hosts, log, open_gate, status
from patience import wait_until
from sample_runs import make_run

USUAL = {"version": VERSION, "readings": [{"at": 1.0, "compute_s": 1e-4, "copy_s": 1e-4}] * 4}


def learn(store, identity="fake://d1", count=12):
    """An hour of gauges at the usual speed."""
    gauges = store.lab.gauges
    for moment in ("before", "after"):
        for _ in range(count):
            gauges.add(identity, moment, USUAL, verdict="fit", why="")
    with store._database.writing() as connection:
        connection.execute(text("UPDATE lab_gauges SET at = at - 300 * id"))


def set_speed(folder, factor):
    new = folder / "new"
    new.write_text(json.dumps(factor))
    new.rename(folder / "gauge")  # never half a file


def register(lab, *names, host="h"):
    devices = [LabDevice(host=host, name=name, identity=f"fake://{name}", answers=(name,)) for name in names]
    lab.register(host, "w", version=__version__, boot="b", devices=devices)


def close(lab, block, why=""):
    lab.jobs.close_block(block, why, flag=flag, ring=ring)


def test_an_end_is_known_once_its_block_has_ended(lab):
    add(lab, "k")
    assert lab.jobs.end(begin(lab, "k"), DONE, block="b1")
    assert lab.jobs.find(["k"], ended=True) == {}
    assert add(lab, "k") == 0  # it is not measured twice meanwhile
    close(lab, "another")
    assert lab.jobs.find(["k"], ended=True) == {}
    close(lab, "b1")
    assert lab.jobs.find(["k"], ended=True)["k"].status == "done"
    assert add(lab, "k") == 1


def test_the_block_of_a_suspect_device_is_queued_again_once_and_its_runs_have_a_caution(store, lab):
    add(lab, "a", "b", "c")
    first, failed = make_run(1), {"status": "failed", "cause": "no", "advice": ""}
    assert lab.jobs.end(begin(lab, "a"), DONE, [first], block="b1")
    assert lab.jobs.end(begin(lab, "b"), failed, block="b1")
    assert lab.jobs.end(begin(lab, "c"), DONE, block="b2")
    close(lab, "b1", "it was slow")
    found = lab.jobs.find("abc")
    assert [(found[key].status, found[key].block, found[key].outcome is None) for key in "abc"] == [
        ("queued", None, True), ("queued", None, True), ("done", "b2", False),
    ]  # fmt: skip
    kept = store.get(first.id)
    assert (kept.cautions[-1].code, kept.lab.job) == ("suspect-device", "a")
    assert store.list()[0].grade == kept.trust.grade >= "C"
    with store._database.reading() as connection:
        count = connection.scalar(text("SELECT count(*) FROM procrastinate_jobs WHERE args->>'job' IN ('a', 'b')"))
    assert count == 4
    second = replace(make_run(2), cautions=())
    assert lab.jobs.end(begin(lab, "a", delivery=5), DONE, [second], block="b3")
    close(lab, "b3", "it was slow")
    job = lab.jobs.find(["a"], ended=True)["a"]
    assert (job.status, job.outcome, job.message) == ("failed", None, "its device was suspect twice: it was slow")
    assert "edgewise lab clear" in job.advice
    assert store.get(second.id).cautions[-1].code == "suspect-device"
    assert add(lab, "a") == 1  # whoever asks again gets the same two chances
    assert lab.jobs.end(begin(lab, "a", delivery=6), DONE, block="b4")
    close(lab, "b4", "it was slow")
    assert status(lab, "a") == "queued"


def test_the_blocks_of_a_host_that_is_gone_end(lab):
    register(lab, "d1")
    add(lab, "k", "m")
    assert lab.jobs.end(begin(lab, "k"), DONE, block="b1")
    lab.jobs.release_blocks(STALE_S)
    assert lab.jobs.get("k").block == "b1"
    lab.leave("h", "w")
    lab.jobs.release_blocks(STALE_S)
    assert lab.jobs.find(["k"], ended=True)


def test_gauges_are_kept_up_to_a_number_and_a_suspect_device_is_cleared(lab, monkeypatch):
    monkeypatch.setattr(lab_gauges, "MOST_KEPT", 3)
    register(lab, "d1", "d2")
    for number in range(5):
        lab.gauges.add("fake://d1", "before", {"load": number}, verdict="fit", why="")
    assert [one.load for one in lab.gauges.earlier("fake://d1", "before")] == [4.0, 3.0, 2.0]
    assert lab.gauges.earlier("fake://d1", "after") == lab.gauges.earlier("fake://d2", "before") == []
    lab.gauges.add("fake://d1", "after", {"load": 9}, verdict="suspect", why="slow")
    lab.gauges.add("fake://d1", "before", {"load": 9}, verdict="fit", why="")
    assert lab.gauges.verdicts() == {"fake://d1": ("suspect", "slow")}
    assert [(one["device"], one["state"], one["why"]) for one in lab.status()["devices"]] == [
        ("d1", "suspect", "slow"), ("d2", "ready", "no job has run on it"),
    ]  # fmt: skip
    with pytest.raises(BadInput, match="no device d3"):
        lab.clear("d3", forget=False)
    assert lab.clear("h/d1", forget=False) == ["d1 of h"]
    assert lab.gauges.verdicts() == {"fake://d1": ("fit", "")}
    assert len(lab.gauges.earlier("fake://d1", "before")) == 3
    lab.clear("fake://d1", forget=True)
    assert lab.gauges.verdicts() == {}


def test_status_names_a_suspect_device_and_the_command_that_clears_it(store, lab, url, capsys, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", url)
    register(lab, "d1")
    lab.gauges.add("fake://d1", "after", {}, verdict="suspect", why="the reference kernel ran 1.30× slower")
    assert run(["lab", "status"]) == 0
    told = capsys.readouterr().out
    assert "d1 of h is suspect: the reference kernel ran 1.30× slower" in told
    assert "edgewise lab clear h/d1" in told
    assert run(["lab", "clear", "h/d1"]) == 0
    assert "d1 of h may work again" in capsys.readouterr().err
    assert run(["lab", "status"]) == 0
    assert "suspect" not in capsys.readouterr().out


def test_a_device_that_slows_down_gives_its_jobs_to_another_until_it_is_cleared(store, lab, url, tmp_path):
    learn(store)
    set_speed(tmp_path, 1.0)
    add(lab, "k", device="any", lock=None)
    with hosts(url, tmp_path, "one") as (first,):
        wait_until(lambda: log(tmp_path, "begin"), first)
        set_speed(tmp_path, 1.5)
        open_gate(tmp_path)
        wait_until(lambda: lab.gauges.verdicts()["fake://d1"][0] == "suspect", first)
        wait_until(lambda: status(lab, "k") == "queued", first)
        set_speed(tmp_path, 1.0)
        with hosts(url, tmp_path, "two", devices="d2") as (second,):
            wait_until(lambda: lab.jobs.find(["k"], ended=True), second)
        job = lab.jobs.get("k")
        assert (job.status, job.host, job.attempt, job.fence) == ("done", "two", 1, 2)
        add(lab, "m")
        lab.clear("one/d1", forget=False)
        wait_until(lambda: lab.jobs.find(["m"], ended=True), first)
    assert [words[1:4] for words in log(tmp_path, "end")] == [
        ["k", "one", "d1"],
        ["k", "two", "d2"],
        ["m", "one", "d1"],
    ]


def test_a_device_that_is_slow_from_the_start_measures_nothing(store, lab, url, tmp_path):
    learn(store)
    set_speed(tmp_path, 1.5)
    open_gate(tmp_path)
    add(lab, "k")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: lab.gauges.verdicts()["fake://d1"][0] == "suspect", process)
        wait_until(lambda: status(lab, "k") == "queued" and lab.jobs.get("k").fence, process)
        add(lab, "free", queue="edgewise-lab-any", lock=None, verb="estimate")  # needs no device
        wait_until(lambda: status(lab, "free") == "done", process)
        assert log(tmp_path, "begin k") == []
        set_speed(tmp_path, 1.0)
        lab.clear("d1", forget=False)
        wait_until(lambda: lab.jobs.find(["k"], ended=True), process)
    assert (lab.jobs.get("k").attempt, lab.jobs.get("k").block) == (1, None)


def test_a_drained_host_ends_its_blocks(store, lab, url, tmp_path):
    learn(store)
    set_speed(tmp_path, 1.0)
    add(lab, "a", "b")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: log(tmp_path, "begin"), process)
        lab.drain("one")
        wait_until(lambda: log(tmp_path, "say one draining"), process)
        open_gate(tmp_path)
        assert process.wait(600) == 0, process.stdout.read()
    assert (status(lab, "b"), list(lab.jobs.find("ab", ended=True))) == ("queued", ["a"])
    assert len(lab.gauges.earlier("fake://d1", "after")) == 13
