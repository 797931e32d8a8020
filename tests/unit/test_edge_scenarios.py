"""Rests, background load, dropped files and their cautions, without an engine."""

from __future__ import annotations

import copy
import os
from dataclasses import asdict, replace

import pytest

from comparable_runs import run_of
from edgewise.record import Scenario, Stopping
from edgewise.run.background_load import BackgroundLoad
from edgewise.run.file_cache import drop_files
from edgewise.run.host_protocol import SessionResult
from edgewise.run.timing import Clock, recorder_of, single_stream
from edgewise.run.trust import cautions_of
from patience import wait_until

MS = 1_000_000


class SteadySession:
    """An engine whose inferences take 10 ms and whose rests are 1 ms too long each."""

    inputs = outputs = ()
    effective = {}

    def __init__(self):
        self.now = 0
        self.rests = []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.rests.append(seconds)
        self.now += round(seconds * 1e9) + MS

    def invoke(self):
        self.now += 10 * MS


class Beats:
    def beat(self):
        pass


def test_a_duty_cycle_rests_after_each_block_and_tells_what_it_was():
    session = SteadySession()
    clock = Clock.of(session)
    recorder = recorder_of(session, clock, asdict(Scenario(duty_cycle=0.2)))
    assert recorder.achieved is None
    stopping = asdict(Stopping(iterations=20, warmup=1))
    steady = single_stream(session, stopping=stopping, clock=clock, reporter=Beats(), recorder=recorder)
    assert steady.samples["latency"] == [10 * MS] * 20
    # blocks of 20 ms at most, after a first one of a single inference
    assert session.rests == pytest.approx([0.04] + [0.08] * 9 + [0.04])
    assert recorder.achieved == pytest.approx(200 / (1000 + 11))


@pytest.mark.parametrize("kind", ["compute", "memory"])
def test_a_background_load_uses_processors_until_it_is_stopped(kind):
    reader, writer = os.pipe()
    load = BackgroundLoad(2, kind, close=(writer,))
    os.close(writer)
    assert os.read(reader, 1) == b""  # the processes don't hold it open
    os.close(reader)
    pids = list(load._pids)
    wait_until(lambda: (load.cpu_s() or 0.0) >= 0.05)
    load.stop()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_load_is_no_disturbance_and_a_load_that_ended_is_unknown(monkeypatch):
    monkeypatch.setattr("edgewise.run.background_load.usable_cores", lambda: (0, 1))
    load = BackgroundLoad(0, "compute")
    monkeypatch.setattr(load, "cpu_s", lambda: 7.0)
    delta = {"wall_s": 4.0, "busy_share_of_others": 0.6}
    assert load.count(delta, since_s=3.0) == 1.0 and delta["busy_share_of_others"] == pytest.approx(0.1)
    monkeypatch.setattr(load, "cpu_s", lambda: None)
    assert load.count(delta, since_s=3.0) is None and delta["busy_share_of_others"] == pytest.approx(0.1)


def test_a_file_on_a_disk_leaves_the_cache(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(os.urandom(2**20))
    path.read_bytes()
    found = drop_files([path])
    if found["cached_before"] is None:
        pytest.skip("the kernel does not tell which pages are cached")
    assert found["cached_before"] == 1.0
    in_memory = os.statvfs("/dev/shm").f_fsid == os.statvfs(tmp_path).f_fsid
    assert found["cached_after"] == (1.0 if in_memory else 0.0)
    assert drop_files([tmp_path / "absent"]) == {"cached_before": None, "cached_after": None}


def cautions(scenario, **facts):
    session = SessionResult(index=0, started_at="", facts=facts)
    job = run_of(scenario=scenario).job
    found = cautions_of(replace(job), sessions=[session], measurements=(), usable_cores=2)
    return {caution.code: caution.message for caution in found}


@pytest.mark.parametrize(
    ("scenario", "facts", "code", "message"),
    [
        (Scenario(duty_cycle=0.2), {"steady": {"duty_cycle": 0.14}}, "load-not-held",
         "inferences took 14.0% of the time, not 20.0%"),
        (Scenario(kind="cold-start", drop_cache=True), {"file_cache": {"cached_after": 1.0}}, "cache-not-dropped",
         "100% of the model's files stayed in the file cache"),
        (Scenario(background_load=2, background_kind="compute"), {"background_cpu": None}, "load-not-held",
         "a process of the background load ended before the measurement"),
        (Scenario(background_load=2, background_kind="compute"), {"background_cpu": 0.2}, "load-not-held",
         "background load of 2: it used 0.20 of 2 cores"),
    ],
)  # fmt: skip
def test_conditions_that_did_not_hold_are_cautions(scenario, facts, code, message):
    assert cautions(scenario, **facts)[code] == message


@pytest.mark.parametrize(
    ("scenario", "facts"),
    [
        (Scenario(duty_cycle=0.2), {"steady": {"duty_cycle": 0.19}}),
        (Scenario(kind="cold-start", drop_cache=True), {"file_cache": {"cached_after": 0.0}}),
        (Scenario(kind="cold-start", drop_cache=True), {"file_cache": {"cached_after": None}}),
        (Scenario(background_load=4, background_kind="memory"), {"background_cpu": 0.9}),
    ],
)
def test_conditions_that_held_are_none(scenario, facts):
    assert not {"load-not-held", "cache-not-dropped"} & set(cautions(scenario, **facts))


def test_a_job_makes_its_key_once_and_another_job_has_its_own():
    one = run_of().job
    assert one.key is one.key
    assert replace(one, workload=replace(one.workload, batch=2)).key != one.key
    assert replace(one).key == copy.deepcopy(one).key == one.key


def test_jobs_of_before_keep_their_keys_and_every_condition_has_its_own():
    job = run_of().job
    assert job.key == "d66453d7f3715063"
    keys = {
        replace(job, workload=replace(job.workload, scenario=scenario)).key
        for scenario in (
            Scenario(), Scenario(sustained_s=60.0), Scenario(duty_cycle=0.2), Scenario(kind="cold-start"),
            Scenario(kind="cold-start", drop_cache=True), Scenario(background_load=1, background_kind="compute"),
            Scenario(background_load=1, background_kind="memory"),
        )
    }  # fmt: skip
    assert len(keys) == 7


def test_conditions_are_named_and_paced_runs_too():
    assert Scenario().words == Scenario().kind_in_words == "single-stream"
    paced = Scenario(kind="paced", fps=30.0, sustained_s=1800.0, background_load=1, background_kind="memory")
    assert paced.words == "paced 30 fps, sustained for 30 min, 1 busy process (memory)"
    assert paced.kind_in_words == "paced, sustained for 30 min, 1 busy process (memory)"
    assert Scenario(duty_cycle=0.125).words == "single-stream, duty cycle 12.5%"
