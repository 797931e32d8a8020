"""A lab on a real PostgreSQL with real worker processes, which are killed, drained and left without a database."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from sqlalchemy import text

from edgewise.cancellation import CancelToken
from edgewise.cli.main import run
from edgewise.errors import BadInput, StoreError, Unavailable
from edgewise.store import lab_jobs, open_store
from edgewise.store.lab import LabDevice, LabSettings
from edgewise.store.lab_folder import CHUNK
from edgewise.store.lab_jobs import MOST_ATTEMPTS
from edgewise.testing import write_fake_model
from edgewise.verbs.lab.client import open_queue
from edgewise.verbs.lab.engine import ANY, make_engine, protocol, ring
from edgewise.verbs.lab.files import FileCache, Packer
from edgewise.verbs.lab.worker import Host
from edgewise.verbs.reading import read_request
from edgewise.verbs.sweep import in_lab
from edgewise.version import __version__
from estimates import dense_relu
from labs import DONE, add, begin, board, column, hosts, lab_keys, local, log, open_gate, status, working
from patience import wait_until
from sample_runs import make_run

TESTS = Path(__file__).parents[1]


def test_what_an_earlier_start_gives_is_refused_with_its_runs(store, lab):
    add(lab, "k")
    first = begin(lab, "k")
    lab.jobs.free("k", delivery=1)
    second = begin(lab, "k", delivery=2)
    assert (first.fence, second.fence, second.attempt) == (1, 2, 2)
    assert not lab.jobs.end(first, DONE, [make_run(1)])
    assert not store.list()
    late = make_run(2)
    assert lab.jobs.end(second, DONE, [late])
    kept = store.get(late.id)
    assert (kept.lab.job, kept.lab.fence, kept.lab.attempt, kept.lab.host, kept.lab.worker) == ("k", 2, 2, "h", "w")
    assert lab.jobs.get("k").runs == (late.id,)
    assert not lab.jobs.end(second, DONE, [make_run(3)])
    assert len(store.list()) == 1


def test_a_run_that_can_not_be_saved_leaves_its_job_running(store, lab):
    add(lab, "k")
    job = begin(lab, "k")
    bad = replace(make_run(2), id="no id")
    with pytest.raises(BadInput):
        lab.jobs.end(job, DONE, [make_run(1), bad])
    assert status(lab, "k") == "running"
    assert not store.list()


def test_a_job_that_was_queued_again_and_not_started_since_is_not_measured_twice(lab):
    add(lab, "k")
    job = begin(lab, "k")
    lab.jobs.free("k", delivery=1)
    assert status(lab, "k") == "queued"
    assert lab.jobs.end(job, DONE)
    assert begin(lab, "k", delivery=2) is None


def test_a_second_delivery_of_a_job_starts_nothing(lab):
    add(lab, "k")
    assert begin(lab, "k") is not None
    assert begin(lab, "k", delivery=2) is None
    lab.jobs.free("k", delivery=2)  # the second one's worker is gone: the first goes on
    assert status(lab, "k") == "running"


def test_a_job_whose_workers_all_end_has_failed(lab):
    add(lab, "k")
    for delivery in range(MOST_ATTEMPTS):
        assert begin(lab, "k", delivery=delivery) is not None
        lab.jobs.free("k", delivery=delivery)
    job = lab.jobs.get("k")
    assert (job.status, job.attempt) == ("failed", MOST_ATTEMPTS)
    assert "5 times" in job.message
    assert add(lab, "k") == 1
    assert (status(lab, "k"), lab.jobs.get("k").attempt) == ("queued", 0)


def test_a_job_for_another_version_is_left(lab):
    add(lab, "k")
    assert begin(lab, "k", version="9.9") is None
    assert status(lab, "k") == "queued"


def test_queueing_again_leaves_what_is_queued_or_running(store, lab):
    assert add(lab, "a", "b") == 2
    begin(lab, "a")
    assert add(lab, "a", "b", "c") == 1
    with store._database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM procrastinate_jobs")) == 3


def test_a_client_that_ends_while_it_queues_leaves_nothing(store, lab):
    def fail(_connection, _jobs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.jobs.add([column("k")], fail)
    assert not lab.jobs.find(["k"])


def test_jobs_that_the_engine_lost_are_found(store, lab):
    add(lab, "queued", "running")
    with store._database.reading() as connection:
        rows = connection.execute(text("SELECT args->>'job', id FROM procrastinate_jobs"))
        ids = {row[0]: row[1] for row in rows}
    begin(lab, "running", delivery=ids["running"])
    assert lab.jobs.lost(-1.0) == []
    with store._database.writing() as connection:
        connection.execute(text("DELETE FROM procrastinate_jobs"))
    assert dict(lab.jobs.lost(-1.0)) == {"queued": None, "running": ids["running"]}
    lab.jobs.ring_again("queued", ring)
    assert dict(lab.jobs.lost(-1.0)) == {"running": ids["running"]}


def test_a_lab_is_made_twice_without_loss_and_moves_to_a_version(lab):
    add(lab, "k")
    lab.make(LabSettings(version="9.9", most_file=5, protocol="9.9"), make_engine)
    assert lab.settings() == LabSettings(version="9.9", most_file=5, protocol="9.9")
    assert begin(lab, "k") is None
    assert begin(lab, "k", version="9.9") is not None
    with pytest.raises(Unavailable, match=r"works with edgewise 9\.9"):
        open_queue(lab)


def test_a_lab_of_an_earlier_version_gets_the_columns_that_it_lacks(store, lab):
    add(lab, "k")
    with store._database.writing() as connection:
        connection.execute(text("ALTER TABLE lab_jobs DROP COLUMN suite, DROP COLUMN model, DROP COLUMN block"))
    lab.make(LabSettings(version=__version__, protocol=protocol(), most_file=1), make_engine)
    assert lab.status()["suites"] == {}
    assert lab.jobs.get("k").model == ""


def test_a_lab_of_an_earlier_version_knows_the_cells_of_its_suites(store, lab):
    add(lab, "k", suite="s", model="m")
    with store._database.writing() as connection:
        connection.execute(text("DROP TABLE lab_cells, lab_earlier, lab_gauges, lab_schedules"))
    lab.make(LabSettings(version=__version__, protocol=protocol(), most_file=1), make_engine)
    assert lab.status()["suites"] == {"s": {"queued": 1}}
    lab.make(LabSettings(version=__version__, protocol=protocol(), most_file=1), make_engine)
    assert [job.id for job in lab.jobs.of_suite("s", most=9)] == ["k"]


def test_a_job_keeps_how_it_ended_before_up_to_a_number(lab, monkeypatch):
    monkeypatch.setattr(lab_jobs, "MOST_KEPT", 2)
    add(lab, "k", "other", suite="s")
    for number in range(1, 5):
        outcome = {**DONE, "status": "failed" if number % 2 else "done", "cause": f"end {number}"}
        assert lab.jobs.end(begin(lab, "k", delivery=number), outcome, [make_run(number)])
        assert add(lab, "k", suite="s") == 1
    assert lab.jobs.end_all(["k"]) == (1, 0)
    ends = lab.jobs.ends_of("k")
    assert [(one.status, one.message, one.fence, len(one.runs)) for one in ends] == [
        ("cancelled", "cancelled", 4, 0), ("done", "end 4", 4, 1), ("failed", "end 3", 3, 1),
    ]  # fmt: skip
    assert [one.message for one in lab.jobs.ended_on("h", "d1", most=9)] == [
        "end 4",
        "end 3",
    ]  # it was cancelled nowhere
    assert [one.message for one in lab.jobs.ended_on("h", "d1", most=1)] == ["end 4"]
    assert lab.status()["suites"] == {"s": {"cancelled": 1, "queued": 1}}


def test_a_cell_of_two_suites_is_one_job_that_both_have(lab):
    add(lab, "shared", "mine", suite="one", model="nets/m.onnx")
    add(lab, "shared", "theirs", suite="two", model="../m.onnx", title="as two names it")
    assert {(job.id, job.model) for job in lab.jobs.of_suite("one", most=9)} == {
        ("shared", "nets/m.onnx"), ("mine", "nets/m.onnx"),
    }  # fmt: skip
    assert lab.jobs.end(begin(lab, "shared"), DONE)
    add(lab, "shared", suite="two", model="../m.onnx", title="as two names it")
    assert lab.jobs.end(begin(lab, "shared", delivery=2), DONE)
    (shared,) = (job for job in lab.jobs.of_suite("two", most=9) if job.id == "shared")
    assert (shared.title, shared.model, shared.suite, shared.status) == ("as two names it", "../m.onnx", "two", "done")
    assert lab.status()["suites"] == {"one": {"done": 1, "queued": 1}, "two": {"done": 1, "queued": 1}}
    assert len(lab.jobs.ends_of("shared")) == 2


def test_a_store_without_a_lab_says_how_to_make_one(url, tmp_path):
    with open_store(url) as opened, pytest.raises(Unavailable, match="there is no lab"):
        open_queue(opened.lab)
    with open_store(str(tmp_path / "runs.db")) as opened, pytest.raises(Unavailable, match="can't hold a lab"):
        open_queue(opened.lab)


def test_two_machines_of_one_name_and_one_device_of_two_hosts(lab):
    def register(host, boot):
        device = LabDevice(host=host, name="phone", identity="adb://1234", answers=("phone",))
        return lab.register(host, f"{host}{boot}", version=__version__, boot=boot, devices=[device])

    assert register("a", "x") == []
    assert register("a", "x") == []  # a restart
    with pytest.raises(BadInput, match="another machine is the host a"):
        register("a", "y")
    assert register("b", "y") == ["adb://1234 is also phone of a"]
    assert lab.beat("a", "an earlier process") is None
    assert lab.beat("a", "ax") is False
    lab.drain("a")
    assert lab.beat("a", "ax") is True
    with pytest.raises(BadInput, match="no host c"):
        lab.drain("c")


def test_a_job_of_a_killed_worker_is_carried_out_by_another(url, lab, tmp_path):
    add(lab, "k", device="any", lock=None)
    with hosts(url, tmp_path, "one") as (first,):
        wait_until(lambda: log(tmp_path, "begin"), first)
        first.kill()
        first.wait()
        open_gate(tmp_path)
        with hosts(url, tmp_path, "two", devices="d2") as (second,):
            wait_until(lambda: status(lab, "k") == "done", second)
    job = lab.jobs.get("k")
    assert (job.attempt, job.fence, job.host, job.place) == (2, 2, "two", "d2")
    assert [words[1:5] for words in log(tmp_path, "end")] == [["k", "two", "d2", "2"]]


def test_a_device_of_a_killed_worker_is_free_again_for_its_next(url, lab, tmp_path):
    add(lab, "a", "b")
    with hosts(url, tmp_path, "one") as (first,):
        wait_until(lambda: log(tmp_path, "begin"), first)
        first.kill()
        first.wait()
    open_gate(tmp_path)
    with hosts(url, tmp_path, "one") as (again,):
        wait_until(lambda: status(lab, "a") == status(lab, "b") == "done", again)
    assert Counter(words[1] for words in log(tmp_path, "end")) == {"a": 1, "b": 1}


def test_jobs_of_one_device_at_two_hosts_take_turns(url, lab, tmp_path):
    open_gate(tmp_path)
    add(lab, *(f"k{number}" for number in range(12)))
    with hosts(url, tmp_path, "one", "two") as both:
        wait_until(
            lambda: all(job.status == "done" for job in lab.jobs.find(f"k{n}" for n in range(12)).values()), both[0]
        )
    spans = sorted(
        (float(begun[5]), float(ended[5]))
        for begun in log(tmp_path, "begin")
        for ended in log(tmp_path, "end")
        if begun[1] == ended[1]
    )
    assert len(spans) == 12
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_a_drained_host_ends_after_its_job_and_leaves_the_rest(url, lab, tmp_path):
    add(lab, "a", "b")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: log(tmp_path, "begin"), process)
        lab.drain("one")
        wait_until(lambda: log(tmp_path, "say one draining"), process)
        open_gate(tmp_path)
        assert process.wait(600) == 0, process.stdout.read()
    assert (status(lab, "a"), status(lab, "b")) == ("done", "queued")
    assert lab.status()["devices"][0]["state"] == "gone"


def test_a_host_that_is_told_to_end_queues_its_job_again(url, lab, tmp_path):
    add(lab, "k")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: log(tmp_path, "begin"), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0, process.stdout.read()
    job = lab.jobs.get("k")
    assert (job.status, job.attempt, job.fence) == ("queued", 0, 1)
    open_gate(tmp_path)
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: status(lab, "k") == "done", process)
    assert lab.jobs.get("k").fence == 2


def test_queued_and_running_jobs_are_cancelled(url, lab, tmp_path):
    add(lab, "a", "b", "c")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: log(tmp_path, "begin"), process)
        assert lab.jobs.end_all(["cell a", "b"]) == (1, 1)
        wait_until(lambda: status(lab, "a") == "cancelled", process)
        open_gate(tmp_path)
        wait_until(lambda: status(lab, "c") == "done", process)
    assert status(lab, "b") == "cancelled"
    assert [words[1] for words in log(tmp_path, "end")] == ["c"]


def test_a_database_that_was_killed_and_came_back_costs_no_job(lab, url, server, tmp_path):
    add(lab, "a", "b")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: log(tmp_path, "begin"), process)
        server.kill()
        wait_until(lambda: log(tmp_path, "say"), process)
        open_gate(tmp_path)
        wait_until(lambda: log(tmp_path, "end"), process)
        server.start()

        def both():
            try:
                return status(lab, "a") == status(lab, "b") == "done"
            except StoreError:
                return False

        wait_until(both, process)
    assert Counter(words[1] for words in log(tmp_path, "end")) == {"a": 1, "b": 1}


def jobs_of(url):
    with open_store(url) as store:
        return store.lab.jobs.of_suite("suite", most=9)


def test_a_sweep_in_a_lab_gives_what_a_sweep_alone_gives(place, url, capsys):
    assert run(["sweep", "suite.yaml", "--folder", "alone", "--store", "alone.db"]) == 0
    assert run(["lab", "init"]) == 0
    with working("--host", "bench") as process:
        with open_store(url) as store:
            wait_until(store.lab.devices, process)
        assert run(["sweep", "suite.yaml", "--folder", "far", "--lab", "--wait"]) == 0
        assert board("far") == board("alone")
        assert run(["sweep", "suite.yaml", "--folder", "again", "--lab"]) == 0  # the store has all of it
        assert board("again") == board("alone")
        capsys.readouterr()
        assert run(["lab", "status", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["jobs"] == {"local": {"done": 4}} and told["suites"] == {"suite": {"done": 4}}
        assert told["devices"][0]["worker"] and told["devices"][0]["seen_s"] >= 0
        assert {(one.suite, one.model) for one in jobs_of(url)} == {
            ("suite", "nets/fast.fake"),
            ("suite", "nets/slow.fake"),
        }
        assert run(["lab", "status"]) == 0
        assert re.search(r"^suite +0 +0 +4 +0 +0$", capsys.readouterr().out, re.MULTILINE)
        assert [(one["host"], one["device"], one["state"]) for one in told["devices"]] == [("bench", "local", "ready")]
        assert run(["lab", "drain", "bench"]) == 0
        assert process.wait(600) == 0, process.stdout.read()
    with open_store(url) as store:
        kept = [store.get(row.id) for row in store.list()]
    assert {one.lab.host for one in kept} == {"bench"}
    assert len(kept) == 4


def test_a_sweep_without_wait_is_collected_later_and_a_poisoned_cell_fails_alone(place, url, capsys):
    write_fake_model("nets/poison.fake", latency_ns=[1], behaviour={"at": "load", "do": "segfault"})
    assert run(["lab", "init"]) == 0
    with working("--host", "bench") as process, open_store(url) as store:
        wait_until(store.lab.devices, process)
        assert run(["sweep", "suite.yaml", "--lab"]) == 0
        assert "6 left, queued in the lab" in capsys.readouterr().out
        wait_until(lambda: not {"queued", "running"} & set(store.lab.status()["jobs"]["local"]), process)
    assert run(["sweep", "suite.yaml", "--lab"]) == 4
    states = Counter(state for _, state, _ in board("suite-results"))
    assert states["done"] == 4
    assert sum(states.values()) == 6


def test_estimates_are_jobs_that_any_worker_carries_out_without_a_device(place, url, capsys):
    dense_relu(Path("nets"))
    suite = {"verb": "estimate", "models": ["nets/*.tflite"], "devices": ["cortex-m4@100MHz", "cortex-m7@400MHz"]}
    Path("suite.yaml").write_text(yaml.safe_dump(suite))
    assert run(["sweep", "suite.yaml", "--folder", "alone", "--store", "alone.db"]) == 0
    assert run(["lab", "init"]) == 0
    capsys.readouterr()
    assert run(["sweep", "suite.yaml", "--folder", "far", "--lab"]) == 2
    assert "the lab has no host" in capsys.readouterr().err
    assert run(["devices", "add", "board", "ssh://nobody@127.0.0.1:1"]) == 0
    with working("--host", "bench", "--devices", "board") as process, open_store(url) as store:
        wait_until(store.lab.devices, process)
        assert run(["sweep", "suite.yaml", "--folder", "far", "--lab", "--wait"]) == 0
        assert board("far") == board("alone") and len(board("far")) == 2
        jobs = [store.lab.jobs.get(key) for key in lab_keys(store.lab)]
        assert [(job.lock, job.host, job.place, job.status) for job in jobs] == [(None, "bench", "local", "done")] * 2
        assert store.list() == []


def test_a_job_that_needs_no_device_runs_while_all_devices_are_busy(url, lab, tmp_path):
    add(lab, "a")
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lambda: log(tmp_path, "begin"), process)
        lab.jobs.add([column("b", lock=None) | {"queue": ANY, "verb": "estimate"}], ring)
        wait_until(lambda: len(log(tmp_path, "begin")) == 2, process)
        assert [words[1:4] for words in log(tmp_path, "begin")] == [["a", "one", "d1"], ["b", "one", "local"]]
        assert [one["device"] for one in lab.status()["devices"]] == ["d1"]
        open_gate(tmp_path)
        wait_until(lambda: status(lab, "a") == status(lab, "b") == "done", process)


def test_a_job_that_needs_no_device_and_the_hosts_own_processor_take_turns(lab):
    def queues(*devices):
        host = Host(lab=lab, name="h", devices=devices, work=None, say=print)
        return {one.name: ANY in host._queues(one) for one in host._places}

    board = LabDevice(host="h", name="pi4", identity="ssh://pi4", answers=("pi4",))
    assert queues(local("h"), board) == {"local": True, "pi4": False}
    assert queues(board) == {"pi4": False, "local": True}


def test_an_estimate_for_a_calibrated_device_is_refused(place, capsys):
    Path("three.csv").write_text("model,latency_ms,host_latency_ms\nA,45,12.1\nB,41,11\nC,560,140\n")
    dense_relu(Path("nets"))
    assert run(["calibrate", "phone", "--measurements", "three.csv"]) == 0
    Path("suite.yaml").write_text(
        yaml.safe_dump({"verb": "estimate", "models": ["nets/*.tflite"], "devices": ["phone"]})
    )
    assert run(["lab", "init"]) == 0
    capsys.readouterr()
    assert run(["sweep", "suite.yaml", "--lab"]) == 2
    assert "its hosts lack the calibrations" in capsys.readouterr().err


BENCH = ["bench", "nets/fast.fake", "-r", "fake", "--iterations", "9", "--sessions", "1", "--no-meters"]


def latencies(capsys):
    found = json.loads(capsys.readouterr().out)["runs"]
    return [(run["lab"] and run["lab"]["host"], next(one["samples"] for one in run["measurements"] if one["metric"] == "latency"))
            for run in found]  # fmt: skip


def test_bench_on_a_tag_of_the_lab_gives_what_bench_alone_gives(place, url, capsys):
    assert run([*BENCH, "--json", "--store", "alone.db"]) == 0
    alone = latencies(capsys)
    assert run(["lab", "init"]) == 0
    with working("--host", "bench", "--tags", "quick") as process, open_store(url) as store:
        wait_until(store.lab.devices, process)
        capsys.readouterr()
        assert run([*BENCH, "--json", "--lab", "-d", "quick"]) == 0
        assert latencies(capsys) == [("bench", samples) for _, samples in alone]
        assert run([*BENCH, "--lab", "-d", "quick,bench"]) == 0
        assert "measured in the lab, at bench" in capsys.readouterr().out
        assert run(["bench", "nets/fast.fake", "-r", "nosuch", "--lab"]) == 4
        assert "unknown runtime 'nosuch'" in capsys.readouterr().err
        assert run(["profile", "nets/fast.fake", "-r", "fake", "--iterations", "9", "--sessions", "1", "--lab"]) == 3
        assert "this runtime can't time layers" in capsys.readouterr().out
        assert store.lab.status()["jobs"] == {"quick": {"done": 2}, "bench": {"done": 1}, "local": {"failed": 2}}


def test_bench_in_a_lab_refuses_what_it_can_not_send(place, lab, capsys):
    assert run([*BENCH, "--lab", "-d", "pi4"]) == 2
    assert run([*BENCH, "--lab", "--no-store"]) == 2
    assert run(["bench", "nets/none.fake", "--lab"]) == 2
    told = capsys.readouterr().err
    assert "no device of the lab answers to 'pi4'" in told
    assert "the runs of a lab are kept in its store" in told
    assert "no such file: nets/none.fake" in told
    assert not lab.status()["jobs"]


def test_an_interrupted_bench_leaves_no_job(place, lab):
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h")])
    command = [sys.executable, "-m", "edgewise", *BENCH, "--lab"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        wait_until(lambda: lab.status()["jobs"], process)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate()
        assert process.returncode == 130, told
    assert lab.status()["jobs"] == {"local": {"cancelled": 1}}


VARYING = ("id", "created_at", "group", "environment", "seconds", "hosts")


def comparable(document):
    """A document of `evaluate` as text, without what differs between two evaluations on one machine."""

    def strip(value):
        if isinstance(value, dict):
            return {name: strip(each) for name, each in value.items() if name not in VARYING}
        if isinstance(value, list):
            return [
                strip(each) for each in value if not (isinstance(each, dict) and each.get("metric") == "inference_time")
            ]
        return value

    return json.dumps(strip(document))


@pytest.mark.engine
def test_shards_of_an_evaluation_give_the_bytes_that_one_machine_gives(place, url, capsys):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: no shards were evaluated")
    assert run(["example"]) == 0
    words = ["evaluate", "model.onnx", "--data", "digits.npz", "--task", "classification", "--prepare", "scale=1/255"]
    ten, one = [*words, "--limit", "10"], [*words, "--limit", "1"]
    capsys.readouterr()

    def tell(*given):
        assert run([*given]) == 0
        return capsys.readouterr().out

    def told(given, *more):
        return json.loads(tell(*given, "--json", *more))

    alone = [told(given, "--no-latency", "--store", "alone.db") for given in (ten, one)]
    assert run(["lab", "init"]) == 0
    assert run(["devices", "add", "board", "ssh://nobody@board.invalid"]) == 0  # has the tag, and runs no shard
    tags = ("--tags", "quick")
    with working("--host", "a", *tags) as process, working("--host", "b", *tags), open_store(url) as store:
        wait_until(lambda: len(store.lab.devices()) == 4, process)
        capsys.readouterr()
        shared = [told(ten, "--lab", "--shards", "3", "-d", "quick"), told(one, "--lab", "--shards", "16")]
        assert [*map(comparable, shared)] == [*map(comparable, alone)]
        assert [sum(each["run"]["evaluation"]["hosts"].values()) for each in shared] == [10, 1]
        assert {host for each in shared for host in each["run"]["evaluation"]["hosts"]} <= {"a", "b"}
        assert store.lab.status()["jobs"] == {"local:quick": {"done": 3}, "local": {"done": 1}}
        keys = lab_keys(store.lab)
        assert tell(*ten, "--lab", "--shards", "3", "-d", "quick") == tell(*ten, "--no-latency", "--store", "alone.db")
        assert {store.lab.jobs.get(key).fence for key in keys} == {1}  # none was run again
        assert comparable(told(one, "--lab", "--shards", "16", "--fresh")) == comparable(alone[1])
        assert sorted(store.lab.jobs.get(key).fence for key in keys) == [1, 1, 1, 2]
        assert run([*one, "--lab", "--metric", "own.py:metric"]) == 2  # there is no such file
        Path("own.py").write_text("def metric(*_): return 1.0\n")
        assert run([*one, "--lab", "--metric", "own.py:metric"]) == 4
        assert "1 of 1 shards failed: shard 1 (the worker refuses this request" in capsys.readouterr().err


@pytest.mark.engine
def test_shards_of_texts_get_the_tokenizer_of_flags_and_of_the_yaml(place, lab, capsys):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: no shards were evaluated")
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: no shards of texts were evaluated")
    onnx = pytest.importorskip("onnx", reason="needs onnx: no shards of texts were evaluated")
    make = onnx.helper
    nodes = [make.make_node("Gather", ["table", "input_ids"], ["rows"]),
             make.make_node("ReduceMean", ["rows"], ["scores"], axes=[1], keepdims=0)]  # fmt: skip
    ids, scores = (make.make_tensor_value_info(name, kind, shape) for name, kind, shape in (
        ("input_ids", onnx.TensorProto.INT64, [1, 3]), ("scores", onnx.TensorProto.FLOAT, [1, 2])))  # fmt: skip
    table = make.make_tensor("table", onnx.TensorProto.FLOAT, [3, 2], [0, 0, 0, 1, 1, 0])
    network = make.make_graph(nodes, "counts", [ids], [scores], [table])
    onnx.save(make.make_model(network, opset_imports=[make.make_opsetid("", 17)], ir_version=9), "net.onnx")
    words = {"[PAD]": 0, "good": 1, "bad": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[PAD]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    Path("words").mkdir()
    made.save("words/tokenizer.json")
    Path("texts.csv").write_text("text,label\ngood good,yes\nbad,no\nbad good good,yes\nbad bad,yes\n")
    evaluate = ["evaluate", "net.onnx", "--data", "texts.csv", "--task", "text-classification", "--json"]
    flags = ["--prepare", "tokenize={file: words/tokenizer.json, length: 3, pad: 0}", "--classes", "no,yes"]

    def told(*more):
        capsys.readouterr()
        assert run([*evaluate, *more]) == 0
        return comparable(json.loads(capsys.readouterr().out))

    alone = told(*flags, "--no-latency", "--store", "alone.db")
    assert run(["lab", "init"]) == 0
    with working("--host", "a") as process:
        wait_until(lab.devices, process)
        assert told(*flags, "--lab", "--shards", "2") == alone
        shutil.copy("words/tokenizer.json", "vocabulary.json")
        Path("names.txt").write_text("no\nyes\n")
        Path("net.yaml").write_text(
            "edgewise: 1\nclasses: names.txt\ninputs: [{tokenize: {file: vocabulary.json, length: 3, pad: 0}}]\n"
        )
        assert told("--lab", "--shards", "2") == told("--no-latency", "--store", "alone.db")


@pytest.mark.engine
def test_shards_get_the_folder_that_an_option_of_the_data_names(place, lab, capsys):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: no shards were evaluated")
    assert run(["example"]) == 0
    Path("arrays").mkdir()
    with np.load("digits.npz") as digits:
        for number in range(4):
            np.save(f"arrays/{number}.npy", digits["x_test"][number])
        rows = [f"{number}.npy,{digits['y_test'][number]}" for number in range(4)]
    Path("tables").mkdir()
    Path("tables/digits.csv").write_text("\n".join(["path,label", *rows]))
    words = ["evaluate", "model.onnx", "--data", "tables/digits.csv", "--data-option", "root=arrays", "--json"]
    words += ["--task", "classification", "--prepare", "scale=1/255"]
    capsys.readouterr()
    assert run([*words, "--no-latency", "--store", "alone.db"]) == 0
    alone = comparable(json.loads(capsys.readouterr().out))
    with working("--host", "a") as process:
        wait_until(lab.devices, process)
        capsys.readouterr()
        assert run([*words, "--lab", "--shards", "2"]) == 0
        assert comparable(json.loads(capsys.readouterr().out)) == alone


def test_files_that_a_table_names_go_along_with_it(place, lab, tmp_path):
    (tmp_path / "tab" / "img").mkdir(parents=True)
    table, pictures = tmp_path / "tab" / "labels.csv", [tmp_path / "tab" / "img" / f"{name}.png" for name in "ab"]
    for file in (table, *pictures):
        file.write_text(file.name)
    path = Packer(lab.files, most=10**6).pack(str(table), [*pictures, tmp_path / "tab" / "none.png", table])
    fetched = Path(FileCache(tmp_path / "cache", lab.files, most=10**6).place(path))
    root = fetched.parent
    assert {str(one.relative_to(root)) for one in root.rglob("*.*")} == {"labels.csv", "img/a.png", "img/b.png"}


def test_shards_are_for_hosts_themselves(place, lab, capsys):
    board = LabDevice(host="h", name="pi4", identity="ssh://pi4", answers=("pi4",))
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h"), board])
    assert run(["example"]) == 0
    words = ["evaluate", "model.onnx", "--data", "digits.npz", "--task", "classification", "--prepare", "scale=1/255"]
    assert run([*words, "--lab", "-d", "pi4"]) == 2
    assert "pi4 is a device at a host" in capsys.readouterr().err
    lab.register("old", "w", version="9.9", boot="b", devices=[local("old")])
    assert run([*words, "--lab"]) == 2
    assert f"old has edgewise 9.9, and here is {__version__}: shards need the same" in capsys.readouterr().err
    assert not lab.status()["jobs"]


def test_a_device_that_no_host_has_is_named(place, capsys):
    assert run(["lab", "init"]) == 0
    content = yaml.safe_load(Path("suite.yaml").read_text())
    Path("suite.yaml").write_text(yaml.safe_dump({**content, "devices": ["pi4"]}))
    assert run(["sweep", "suite.yaml", "--lab"]) == 2
    assert "no device of the lab answers to 'pi4'" in capsys.readouterr().err


def sql_of_the_role():
    """The statements on docs/lab.md, and those that take the role back."""
    page = (TESTS.parent / "docs" / "lab.md").read_text()
    return page.partition("```sql\n")[2].partition("```")[0]


def test_the_documented_role_can_queue_and_nothing_else(store, lab, url, tmp_path):
    store.save(make_run(1))
    with store._database.writing() as connection:
        connection.execute(text("DROP OWNED BY lab_queue" if connection.scalar(
            text("SELECT count(*) FROM pg_roles WHERE rolname = 'lab_queue'")) else "SELECT 1"))  # fmt: skip
        connection.execute(text("DROP ROLE IF EXISTS lab_queue"))
        connection.connection.driver_connection.execute(sql_of_the_role())
    device = LabDevice(host="h", name="d1", identity="fake://d1", answers=("d1",))
    lab.register("h", "w", version=__version__, boot="b", devices=[device])
    model = write_fake_model(tmp_path / "m.fake", latency_ns=[1])
    try:
        with open_store(url.replace("edgewise@", "lab_queue@")) as narrow:
            queue = open_queue(narrow.lab)
            request = read_request({"schema": 1, "verb": "bench", "models": [str(model)]})
            assert queue.add([queue.job("k", "cell", "d1", request)]) == 1
            assert narrow.lab.status()["jobs"] == {"d1": {"queued": 1}}
            for attempt in (
                narrow.list,
                lambda: narrow.save(make_run(2)),
                lambda: narrow.lab.jobs.end_all(),
                lambda: narrow.lab.drain("h"),
                lambda: begin(narrow.lab, "k"),
                lambda: narrow.lab.make(LabSettings(version="1", most_file=1), make_engine),
            ):
                with pytest.raises(StoreError, match=r"permission denied|must be owner"):
                    attempt()
        assert begin(lab, "k") is not None
        (path,) = json.loads(lab.jobs.get("k").request)["models"]
        cache = FileCache(tmp_path / "cache", lab.files, most=10**6)
        assert Path(cache.place(path)).read_bytes() == model.read_bytes()
    finally:
        with store._database.writing() as connection:
            connection.execute(text("DROP OWNED BY lab_queue"))
            connection.execute(text("DROP ROLE lab_queue"))


def test_files_are_kept_once_and_fetched_whole_and_checked(store, lab, tmp_path):
    one, folder = tmp_path / "one.bin", tmp_path / "data"
    one.write_bytes(os.urandom(CHUNK + 7))
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.txt").write_text("a")
    packer = Packer(lab.files, most=CHUNK + 7)
    single, several = packer.pack(str(one)), packer.pack(str(folder))
    assert Packer(lab.files, most=CHUNK + 7).pack(str(one)) == single
    with store._database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM lab_files")) == 2
    cache = FileCache(tmp_path / "cache", lab.files, most=10**8)
    fetched = Path(cache.place(single))
    assert fetched.read_bytes() == one.read_bytes()
    assert (Path(cache.place(several)) / "in" / "a.txt").read_text() == "a"
    fetched.write_bytes(b"damaged")
    assert Path(cache.place(single)).read_bytes() == one.read_bytes()
    shutil.rmtree(fetched.parent)
    partial = tmp_path / "cache" / f"{single.partition('/')[0]}.part"
    partial.write_bytes(one.read_bytes()[: CHUNK + 3])  # a worker was killed while it fetched
    assert Path(cache.place(single)).read_bytes() == one.read_bytes()
    with pytest.raises(BadInput, match="the lab has no file"):
        cache.place(f"{'0' * 64}/x")
    one.write_bytes(bytes(CHUNK + 8))
    with pytest.raises(BadInput, match="the lab takes files of up to"):
        Packer(lab.files, most=CHUNK + 7).pack(str(one))


def test_a_cache_forgets_what_was_used_longest_ago(lab, tmp_path):
    packer, places = Packer(lab.files, most=10**6), []
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() * 1000)
        places.append(packer.pack(str(tmp_path / name)))
    cache = FileCache(tmp_path / "cache", lab.files, most=2500)
    first, second = (Path(cache.place(place)) for place in places[:2])
    os.utime(first.parent, (1, 1))
    os.utime(second.parent, (2, 2))
    cache.place(places[2])
    assert (first.exists(), second.exists()) == (False, True)
    shutil.rmtree(tmp_path / "cache")
    with cache.keeping() as place:
        first, second = Path(place(places[0])), Path(place(places[1]))
        with pytest.raises(BadInput, match="don't fit into the worker's cache"):
            place(places[2])
        assert first.exists()
        assert second.exists()
    assert Path(cache.place(places[2])).exists()
    with pytest.raises(BadInput, match="don't fit into the worker's cache"):
        FileCache(tmp_path / "small", lab.files, most=10).place(places[0])


def test_a_model_goes_with_its_weights_and_the_yaml_beside_it(lab, tmp_path):
    model = write_fake_model(tmp_path / "m.fake", latency_ns=[1])
    (tmp_path / "m.yaml").write_text("edgewise: 1\n")
    (tmp_path / "other.yaml").write_text("edgewise: 1\n")
    path = Packer(lab.files, most=10**6).pack(str(model))
    place = Path(FileCache(tmp_path / "cache", lab.files, most=10**6).place(path))
    assert sorted(one.name for one in place.parent.iterdir()) == ["m.fake", "m.yaml"]


def test_a_worker_of_another_version_is_refused(place, lab, capsys):
    lab.make(LabSettings(version="9.9", most_file=5), make_engine)
    assert run(["lab", "work", "--host", "bench"]) == 3
    assert "works with edgewise 9.9" in capsys.readouterr().err
    assert not lab.devices()


def test_a_lab_that_moves_to_another_version_ends_the_workers_of_this_one(url, lab, tmp_path):
    with hosts(url, tmp_path, "one") as (process,):
        wait_until(lab.devices, process)
        lab.make(LabSettings(version="9.9", most_file=5), make_engine)
        assert process.wait(600) != 0
        assert "works with edgewise 9.9" in process.stdout.read().decode()


def test_a_new_process_of_a_host_takes_the_place_of_the_last_one(url, lab, tmp_path):
    with hosts(url, tmp_path, "one") as (first,):
        wait_until(lab.devices, first)
        with hosts(url, tmp_path, "one") as (second,):
            assert first.wait(600) != 0
            assert "another process is the host one" in first.stdout.read().decode()
            open_gate(tmp_path)
            add(lab, "k")
            wait_until(lambda: status(lab, "k") == "done", second)


def test_outcomes_of_a_lab_whose_clock_is_late_are_collected(place, url, lab, capsys):
    """The ledger has failures of an hour from now, as a machine whose clock is fast wrote them."""
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        assert run(["sweep", "suite.yaml", "--lab"]) == 0
        keys = [cell["key"] for cell in json.loads(Path("suite-results/board.json").read_text())["cells"]]
        assert keys == [None] * 4
        late = [
            {"key": job, "cell": "", "status": "failed", "seconds": 1.0, "finished": time.time() + 3600.0}
            for job in lab_keys(lab)
        ]
        Path("suite-results/cells.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in late))
        assert run(["sweep", "suite.yaml", "--lab", "--wait"]) == 0
    assert {state for _, state, _ in board("suite-results")} == {"done"}


def test_a_model_that_changes_while_it_is_queued_fails_alone(place, lab, capsys, monkeypatch):
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h")])
    opened = in_lab.open_queue

    def change_first(lab):
        write_fake_model("nets/fast.fake", latency_ns=[2])
        return opened(lab)

    monkeypatch.setattr(in_lab, "open_queue", change_first)
    assert run(["sweep", "suite.yaml", "--lab"]) == 4
    assert "nets/fast.fake has changed since the sweep began" in capsys.readouterr().out
    assert lab.status()["jobs"] == {"local": {"queued": 2}}


def test_an_interrupted_wait_leaves_the_cells_queued(place, lab):
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h")])
    command = [sys.executable, "-m", "edgewise", "sweep", "suite.yaml", "--lab", "--wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        wait_until(lambda: lab.status()["jobs"], process)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate()
        assert process.returncode == 130, told
    assert lab.status()["jobs"] == {"local": {"queued": 4}}


def test_a_full_disk_at_a_worker_fails_its_job(lab, tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"a")
    path = Packer(lab.files, most=10).pack(str(tmp_path / "a"))

    def refuse(*_words, **_more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    with pytest.raises(BadInput, match="the worker can't keep a: No space left on device"):
        FileCache(tmp_path / "cache", lab.files, most=10).place(path)


def test_a_job_that_begins_while_its_host_looks_at_the_store_goes_on(lab, monkeypatch):
    host = Host(lab=lab, name="h", devices=[local("h")], work=None, say=print, worker="w")
    lab.register("h", "w", version=__version__, boot="b", devices=host.devices)
    add(lab, "k")
    find, token = lab.jobs.find, CancelToken()

    def find_and_begin(keys):
        found = find(keys)
        host._running["k"] = begin(lab, "k"), token
        return found

    monkeypatch.setattr(lab.jobs, "find", find_and_begin)
    assert host._look() is False
    assert not token.cancelled
    monkeypatch.setattr(lab.jobs, "find", find)
    lab.jobs.free("k", delivery=1)
    begin(lab, "k", delivery=2)
    host._look()
    assert token.cancelled  # another start has it now
