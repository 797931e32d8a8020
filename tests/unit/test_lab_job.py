"""A job of a lab whose device breaks off."""

from __future__ import annotations

import pytest

from edgewise.cancellation import Cancelled, CancelToken
from edgewise.store.lab import LabDevice
from edgewise.store.lab_jobs import LabJob
from edgewise.verbs.lab.files import FileCache
from edgewise.verbs.lab.job import RETURN_S, JobRunner
from edgewise.verbs.outcome import Outcome

DEVICE = LabDevice(host="h", name="pi4", identity="ssh://pi4", answers=("pi4",))
REQUEST = '{"verb": "bench", "schema": 1, "models": ["%s/m.onnx"]}' % ("0" * 64)
BROKE, GONE = {"status": "lost", "rows": [{"status": "failed"}]}, {"status": "failed", "cause": "no connection"}
DONE = {"status": "done", "rows": [{"status": "done"}]}


@pytest.fixture
def carry_out(clock, tmp_path, monkeypatch):
    """A function that carries a job out whose processes end so, each after a second, and the times at which they began."""

    def carry_out(ends, cancel_at=None):
        token, begun, left, start = CancelToken(), [], list(ends), clock.now()

        def run(_runner, job, _document, _earlier, _token, _begun):
            begun.append(round(clock.now() - start))
            clock.let_pass(1.0)
            if cancel_at == len(begun):
                token.cancel("cancelled")
            end = left.pop(0) if len(left) > 1 else left[0]
            return Outcome(key=job.id, cell="", seconds=1.0, finished=0.0, **end), ()

        monkeypatch.setattr(JobRunner, "_run", run)
        monkeypatch.setattr(FileCache, "place", lambda _cache, path: f"/{path}")
        job = dict.fromkeys(LabJob.__dataclass_fields__, "")
        job = LabJob(**{**job, "id": "k", "verb": "bench", "request": REQUEST})
        runner = JobRunner(store="", cache=FileCache(tmp_path, None, most=1))
        return runner(job, DEVICE, token).outcome["status"], begun

    return carry_out


@pytest.mark.parametrize(
    ("ends", "status", "begun"),
    [
        ([DONE], "done", [0]),
        ([GONE], "failed", [0]),
        ([BROKE, DONE], "done", [0, 1]),
        ([BROKE, BROKE], "lost", [0, 1]),
        ([BROKE, GONE, GONE, DONE], "done", [0, 1, 12, 23]),
        ([BROKE, GONE, BROKE], "lost", [0, 1, 12]),
        ([BROKE, GONE], "lost", [0, *range(1, int(RETURN_S) + 11, 11)]),
    ],
)
def test_a_device_that_reboots_is_tried_again_until_it_is_back(carry_out, ends, status, begun):
    assert carry_out(ends) == (status, begun)


def test_waiting_for_a_device_can_be_cancelled(carry_out):
    with pytest.raises(Cancelled):
        carry_out([BROKE, GONE], cancel_at=2)
