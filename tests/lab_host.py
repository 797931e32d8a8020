"""A host of a lab as a process, whose jobs wait for a file: ``python lab_host.py URL HOST DEVICES FOLDER``.

It appends to ``log`` in FOLDER what it begins and ends. A job ends once ``go`` is there. Its clock is fast by
``LAB_CLOCK_AHEAD_S`` of the environment. With ``gauge`` in FOLDER at the start, devices are gauged, and the file has the
answer: as JSON the factor by which the kernels are slower than usual.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from edgewise.cancellation import Cancelled
from edgewise.run.reference import VERSION
from edgewise.store import lab as store_lab
from edgewise.store import open_store
from edgewise.verbs.lab import engine, worker
from edgewise.verbs.lab.job import Ended
from edgewise.verbs.outcome import Outcome

SECONDS = float(os.environ.get("LAB_JOB_S", "0"))
AHEAD = float(os.environ.get("LAB_CLOCK_AHEAD_S", "0"))
right_time = time.time


def make_fast():
    """Notice a gone worker after seconds instead of half a minute; a busy machine still beats in time."""
    store_lab.STALE_S, engine.HEARTBEAT_S, engine.SWEEP_CRON = 6.0, 1.0, "* * * * * */2"
    worker.BEAT_S = worker.RETRY_S = 0.2


def note(folder, *words):
    with (folder / "log").open("a") as log:  # one write, which no other process can part
        log.write(" ".join(map(str, words)) + "\n")


def main(url, host, names, folder):
    folder = Path(folder)
    make_fast()
    if AHEAD:
        time.time = lambda: right_time() + AHEAD

    def work(job, device, token):
        note(folder, "begin", job.id, host, device.name, job.fence, repr(time.time()))
        end = time.monotonic() + SECONDS
        while not (folder / "go").exists() or time.monotonic() < end:
            if token.cancelled:
                note(folder, token.reason, job.id, host, device.name, job.fence, repr(time.time()))
                raise Cancelled(token.reason)
            time.sleep(0.01)  # real time: the test opens the gate
        note(folder, "end", job.id, host, device.name, job.fence, repr(time.time()))
        ended = Outcome(key=job.id, cell=job.title, status="done", seconds=1.0, finished=time.time())
        return Ended(outcome=asdict(ended))

    def ask(_device):
        factor = json.loads((folder / "gauge").read_text())
        reading = {"at": 1.0, "compute_s": 1e-4 * factor, "copy_s": 1e-4 * factor}
        return {"version": VERSION, "readings": [reading] * 4}

    devices = [
        store_lab.LabDevice(host=host, name=name, identity=f"fake://{name}", answers=(name, "any"))
        for name in names.split(",")
    ]
    with open_store(url) as store:
        worker.Host(
            lab=store.lab, name=host, devices=devices, work=work, say=lambda line: note(folder, "say", host, line),
            ask=ask if (folder / "gauge").exists() else None,
        ).run()  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
