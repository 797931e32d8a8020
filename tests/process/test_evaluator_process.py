"""A pass over data whose worker is killed, as the kernel does it; every other end: tests/unit/test_evaluator.py."""

from __future__ import annotations

import os
import signal

import warm_start
from edgewise.evaluating.evaluator import run_samples
from edgewise.testing import write_fake_model
from small_selections import NET, Recorder, Rows, model_under_test, rows, run_builder, selection

COUNT = 40


def put(path, data, *, folder=None):
    """Ask a model; a checkpoint is kept in `folder`."""
    kept = {"identity": {"task": "t"}, "checkpoints": folder} if folder is not None else {}
    return run_samples(model_under_test(path), selection(data), Recorder(), builder=run_builder(), **kept)


def kill_workers():
    for child in warm_start.children():
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # its end is the host's to find


def test_a_killed_worker_is_a_failure_and_the_next_pass_goes_on(tmp_path):
    model = write_fake_model(tmp_path / "m.fake", graph=NET)

    def read(index):
        if index == 20:
            kill_workers()

    whole = put(model, Rows(rows(COUNT))).entries
    results = put(model, Rows(rows(COUNT), on_read=read), folder=tmp_path / "n")
    assert results.failure is not None and results.failure.cause == "Killed" and not results.interrupted
    assert 0 < len(results.entries) < COUNT and results.entries == whole[: len(results.entries)]
    again = put(model, Rows(rows(COUNT)), folder=tmp_path / "n")
    assert (again.failure, again.resumed, again.entries) == (None, len(results.entries), whole)
    assert warm_start.children() == []
