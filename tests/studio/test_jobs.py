"""Jobs from the queue to their end, by the fake engine in real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from edgewise.data import path
from edgewise.errors import BadInput, StoreError
from edgewise.store import open_store
from edgewise.store.jobs import Jobs
from edgewise.studio.jobs import Dispatcher
from edgewise.testing import write_fake_model
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.convert.request import ConvertRequest
from edgewise.verbs.estimate.request import EstimateRequest
from edgewise.verbs.exec.request import ExecRequest
from messages import says
from patience import wait_until
from tiny_models import write_tiny_onnx

MS = 1_000_000


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """A job must not wait for what other tests measure."""
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "runs.db")) as opened:
        yield opened


@contextmanager
def dispatching(store, folder):
    """A dispatcher at work."""
    found = Dispatcher(store, folder=folder, store_url=store.name)
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def jobs(store, tmp_path):
    with dispatching(store, tmp_path) as found:
        yield found


def fake(folder, name="m.fake", **script):
    path = folder / name
    write_fake_model(path, **{"latency_ns": [2 * MS], **script})
    return str(path)


def bench(folder, name="m.fake", *, sessions=1, **script):
    return BenchRequest(models=(fake(folder, name, **script),), iterations=20, warmup=0, sessions=sessions)


def tiny(folder):
    write_tiny_onnx(folder / "tiny.onnx")
    return str(folder / "tiny.onnx")


def hanging(folder, name="slow.fake"):
    """A benchmark whose first run is complete and whose second hangs, and the file that it makes then."""
    sign = folder / f"{name}.hangs"
    slow = fake(folder, name, behaviour={"at": "invoke", "after": 5, "do": "hang", "touch": str(sign)})
    return BenchRequest(models=(fake(folder, "quick.fake"), slow), iterations=20, warmup=0, sessions=1), sign


def ended(store, job_id):
    """The job once it has ended."""
    return wait_until(lambda: (job := store.jobs.get(job_id)).finished and job)


def test_a_job_leaves_what_the_command_leaves(jobs, store, tmp_path):
    job_id = jobs.add(bench(tmp_path), title="Bench m.fake")
    job = ended(store, job_id)
    assert (job.status, job.exit_code, job.message, job.attempt, job.device) == ("done", 0, "", 1, "local")
    (run,) = store.resolve(["all"])
    assert job.runs == (run.id,) and run.value("latency") == 0.002
    result = jobs.folder_of(job_id) / "result"
    assert {path.name for path in result.iterdir()} == {
        "part.html", "result.html", "result.md", "result.csv", "result.json",
    }  # fmt: skip
    assert json.loads((result / "result.json").read_bytes())["runs"][0]["id"] == run.id
    assert (result / "part.html").read_text().startswith('<div class="result">')
    assert (result / "result.html").read_text().startswith("<!doctype html>")
    log = (jobs.folder_of(job_id) / "log.txt").read_text()
    assert "m.fake" in log and "2.00 ± " in log
    state = jobs.live.get(job_id)
    assert (state.status, state.saved, state.job["index"], state.job["total"]) == ("done", [run.id], 0, 1)
    assert [(each["id"], each["status"]) for each in state.runs] == [(run.id, "done")]


@pytest.mark.long
def test_a_run_that_fails_fails_its_job_and_is_shown(jobs, store, tmp_path):
    job_id = jobs.add(bench(tmp_path, behaviour={"at": "load", "do": "segfault"}), title="A")
    job = ended(store, job_id)
    assert (job.status, job.exit_code) == ("failed", 4)
    assert "SIGSEGV" in job.message and "m.fake" in job.message
    assert (jobs.folder_of(job_id) / "result" / "part.html").exists()


def test_bad_input_is_said_with_its_advice(jobs, store, tmp_path):
    job_id = jobs.add(BenchRequest(models=(str(tmp_path / "nothing.onnx"),)), title="A")
    job = ended(store, job_id)
    assert (job.status, job.exit_code) == ("failed", 2)
    assert "nothing.onnx" in job.message and job.advice
    assert "result.json" not in jobs.files_of(job_id)


@pytest.mark.engine
@pytest.mark.long
def test_a_job_keeps_the_models_that_it_makes(jobs, store, tmp_path):
    pytest.importorskip("openvino", reason="needs OpenVINO")
    job_id = jobs.add(ConvertRequest(model=tiny(tmp_path), to="openvino"), title="A")
    job = ended(store, job_id)
    assert (job.status, job.message, job.runs) == ("done", "", ())
    assert set(jobs.files_of(job_id)) == {
        "request.json", "log.txt", "part.html", "result.html", "result.md", "result.csv", "result.json",
        "files/tiny.xml", "files/tiny.bin",
    }  # fmt: skip


@pytest.mark.long
def test_an_estimate_has_its_own_files(jobs, store, tmp_path):
    request = EstimateRequest(model=str(path("digits_cnn_int8.tflite")), device="cortex-m4")
    job_id = jobs.add(request, title="A")
    assert ended(store, job_id).status == "done"
    assert store.jobs.get(job_id).device == "local"  # it keeps no device busy
    assert set(jobs.files_of(job_id)) == {
        "request.json", "log.txt", "part.html", "result.html", "result.md", "result.csv", "result.json", "result.txt",
        "result.mltk.json",
    }  # fmt: skip


def test_code_is_refused(jobs, tmp_path):
    with pytest.raises(BadInput, match=says("job-studio-runs-no-code")):
        jobs.add(BenchRequest(models=(f"{tmp_path}/evil.py:model",)), title="A")
    with pytest.raises(BadInput, match=says("not-job", verb="exec")):
        jobs.add(ExecRequest(command=("true",)), title="A")


@pytest.mark.long
def test_cancelling_keeps_what_was_finished(jobs, store, tmp_path):
    request, sign = hanging(tmp_path)
    job_id = jobs.add(request, title="A")
    later = jobs.add(bench(tmp_path, "later.fake"), title="B")
    wait_until(sign.exists)
    assert store.jobs.get(later).status == "queued"
    jobs.cancel(job_id)
    with pytest.raises(BadInput, match="already"):
        jobs.cancel(job_id)
    job = ended(store, job_id)
    assert (job.status, job.exit_code) == ("cancelled", 130)
    kept = json.loads((jobs.folder_of(job_id) / "result" / "result.json").read_text())["runs"]
    assert {run["job"]["model"]["name"]: run["status"] for run in kept} == {
        "quick.fake": "done",
        "slow.fake": "cancelled",
    }
    assert ended(store, later).status == "done"


@pytest.mark.long
def test_a_queued_job_is_cancelled_at_once_and_can_be_started_again(jobs, store, tmp_path):
    request, sign = hanging(tmp_path)
    first = jobs.add(request, title="A")
    second = jobs.add(bench(tmp_path), title="B")
    wait_until(sign.exists)
    jobs.cancel(second)
    assert store.jobs.get(second).status == "cancelled"
    assert jobs.again(second) == second
    jobs.cancel(first)
    assert ended(store, first).status == "cancelled"
    job = wait_until(lambda: (job := store.jobs.get(second)).status == "done" and job)
    assert (job.attempt, job.fence) == (1, 1)


@pytest.mark.long
def test_a_killed_child_is_said_and_the_next_job_goes_on(jobs, store, tmp_path):
    request, sign = hanging(tmp_path)
    job_id = jobs.add(request, title="A")
    later = jobs.add(bench(tmp_path, "later.fake"), title="B")
    wait_until(sign.exists)
    os.kill(child_of(job_id), signal.SIGKILL)
    job = ended(store, job_id)
    assert (job.status, job.exit_code) == ("failed", None)
    assert job.message == "the process of this job was killed, most likely for want of memory"
    assert job.advice == "run it again; the runs that were finished are in the store"
    assert [run.job.model.name for run in store.resolve(job.runs)] == ["quick.fake"]
    assert not (jobs.folder_of(job_id) / "result").exists()
    assert ended(store, later).status == "done"


@pytest.mark.long
def test_one_that_does_not_stop_is_killed(jobs, store, tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.studio.jobs.dispatcher.GRACE_S", 0.0)
    request, sign = hanging(tmp_path)
    job_id = jobs.add(request, title="A")
    wait_until(sign.exists)
    jobs.cancel(job_id)
    job = ended(store, job_id)
    assert (job.status, job.message) == ("cancelled", "the job did not stop within 0 s and was killed")


@pytest.mark.long
def test_another_server_cancels(jobs, store, tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.studio.jobs.dispatcher.LOOK_S", 0.05)  # real time: a period
    request, sign = hanging(tmp_path)
    job_id = jobs.add(request, title="A")
    wait_until(sign.exists)
    with open_store(store.name) as other:
        other.jobs.cancel(job_id)
    assert ended(store, job_id).status == "cancelled"


@pytest.mark.long
def test_two_dispatchers_share_a_queue(store, tmp_path):
    with dispatching(store, tmp_path) as one, dispatching(store, tmp_path) as two:
        ids = [each.add(bench(tmp_path, f"{number}.fake"), title=str(number)) for number, each in enumerate((one, two))]
        assert {ended(store, job_id).status for job_id in ids} == {"done"}
    assert [store.jobs.get(job_id).fence for job_id in ids] == [1, 1]
    assert len(store.list()) == 2


@pytest.mark.long
def test_a_server_that_stops_loses_its_job_and_the_next_goes_on_with_the_queue(store, tmp_path):
    request, sign = hanging(tmp_path)
    with dispatching(store, tmp_path) as first:
        lost = first.add(request, title="A")
        queued = first.add(bench(tmp_path, "later.fake"), title="B")
        wait_until(sign.exists)
    job = store.jobs.get(lost)
    assert (job.status, job.message) == ("lost", "the studio was ended while this job ran")
    assert len(job.runs) == 1 and store.jobs.get(queued).status == "queued"
    with dispatching(store, tmp_path):
        assert ended(store, queued).status == "done"
        assert store.jobs.get(lost).status == "lost"


DRIVER = """
import json, sys, time
from pathlib import Path
from edgewise.verbs.reading import read_request
from edgewise.store import open_store
from edgewise.store.jobs import Jobs
from edgewise.studio.jobs import Dispatcher
store = open_store(sys.argv[1])
jobs = Dispatcher(store, folder=Path(sys.argv[2]), store_url=sys.argv[1])
jobs.start()
ids = [jobs.add(read_request(json.loads(text)), title="T") for text in sys.argv[3:]]
print(json.dumps(ids), flush=True)
while not all(store.jobs.get(one).finished for one in ids):
    time.sleep(0.02)
print(json.dumps([sorted(jobs.files_of(one)) for one in ids]), flush=True)
jobs.stop()
"""


@contextmanager
def driving(store, folder, *requests, prefix=()):
    """A dispatcher in a process of its own, and the ids of its jobs."""
    texts = [json.dumps(request.to_document()) for request in requests]
    command = [*prefix, sys.executable, "-c", DRIVER, store.name, str(folder), *texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.long
def test_a_server_that_is_killed_takes_its_job_along_and_the_next_says_that_it_is_lost(store, tmp_path):
    request, sign = hanging(tmp_path)
    with driving(store, tmp_path, request, bench(tmp_path, "later.fake")) as (server, (lost, queued)):
        wait_until(sign.exists)
        child = child_of(lost)
        server.send_signal(signal.SIGKILL)
        server.wait()
        wait_until(lambda: not alive(child))
    assert (store.jobs.get(lost).status, store.jobs.get(queued).status) == ("running", "queued")
    with dispatching(store, tmp_path) as jobs:
        job = ended(store, lost)
        assert (job.status, job.message) == ("lost", "the studio ended while this job ran")
        assert job.advice == "run it again; the runs that were finished are in the store"
        assert not (jobs.folder_of(lost) / "result").exists()
        assert [run.job.model.name for run in store.resolve(["all"])][:1] == ["quick.fake"]
        assert ended(store, queued).status == "done"
        sign.unlink()
        assert jobs.again(lost) == lost
        wait_until(sign.exists)
        assert (store.jobs.get(lost).attempt, store.jobs.get(lost).fence) == (2, 2)


@pytest.mark.long
def test_a_result_that_finds_no_room_fails_its_job_and_leaves_no_part_of_it(store, tmp_path):
    """On a real file system that is full: the runs, in the store elsewhere, are kept."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs the permission to mount a file system")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = f'mount -t tmpfs -o size=64k tmpfs "{folder}" && exec "$@"'
    with driving(store, folder, bench(tmp_path), prefix=("unshare", "-m", "sh", "-c", mount, "sh")) as (server, (one,)):
        assert json.loads(server.stdout.readline()) == [["log.txt", "request.json"]]
    job = store.jobs.get(one)
    assert (job.status, job.exit_code, len(job.runs)) == ("failed", 3, 1)
    assert "No space left on device" in job.message and job.advice
    assert store.get(job.runs[0]).value("latency") == 0.002


@pytest.mark.long
def test_an_end_that_finds_no_room_in_the_store_is_said_and_written_later(jobs, store, tmp_path, monkeypatch):
    finish, failed = Jobs.finish, []

    def fail_once(self, job, *arguments, **settings):
        if not failed:
            failed.append(job.id)
            raise StoreError("the store can't be written: disk full", advice="free some space")
        return finish(self, job, *arguments, **settings)

    monkeypatch.setattr(Jobs, "finish", fail_once)
    job_id = jobs.add(bench(tmp_path), title="A")
    job = ended(store, job_id)
    assert (job.status, job.message, len(job.runs), failed) == ("done", "", 1, [job_id])
    assert jobs.live.get(job_id).message == "the store can't be written: disk full"


def alive(process_id):
    """Whether a process lives, and is no zombie."""
    import psutil

    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def child_of(job_id):
    """The number of the process that carries a job out."""
    import psutil

    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "edgewise.studio.work" in command and command[-1].endswith(job_id):
            return process.pid
    raise LookupError(job_id)


@pytest.mark.long
def test_threads_end_with_the_dispatcher(store, tmp_path):
    with dispatching(store, tmp_path) as found:
        ended(store, found.add(bench(tmp_path), title="A"))
        threads = [found._dispatching, *found._threads]
    assert len(threads) == 2 and not any(thread.is_alive() for thread in threads)
