"""What a lab loses when everything in it is killed, and how much of its devices' time it uses.

python benchmarks/lab.py chaos [KILLS] [FILE]  kills of workers, of the client and of the database, 25 in each lab; FILE
                                           has a line for each lab, and the next call goes on from it
python benchmarks/lab.py scale [JOBS]      64 simulated devices at 4 hosts, JOBS jobs of 2 s in all
python benchmarks/lab.py latency [JOBS]    time from queueing to start on a free device that is gauged, in 1 s
python benchmarks/lab.py shards [SAMPLES] [MS] [SHARE]  an evaluation of SAMPLES samples at one machine and at 4 hosts,
                                           where the preparation of a sample takes MS ms: slept, or with SHARE computed.
                                           Then each host, the client and the one machine have SHARE of a processor, by
                                           a control group (version 1, needs root)
python benchmarks/lab.py cells [CELLS]     time to queue, look up and count CELLS cells

Needs PostgreSQL's programs. Hosts are processes of this machine, and devices are simulated: a job sleeps. Gone workers
are noticed after 6 s instead of 30 s, so that kills follow one another quickly.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sqlalchemy import text

from edgewise.errors import StoreError
from edgewise.record import new_run_id
from edgewise.run.reference import VERSION
from edgewise.store import lab as store_lab
from edgewise.store import open_store
from edgewise.verbs.lab import blocks, engine, worker
from edgewise.verbs.lab.job import Ended
from edgewise.verbs.outcome import Outcome
from edgewise.version import __version__
from lab_host import make_fast
from postgresql import Server
from sample_runs import make_run

GAUGE_S = 1.0
"""A gauge of a simulated device; one of a real device takes two to three."""
GROUPS = Path("/sys/fs/cgroup/cpu")
USUAL = {"version": VERSION, "readings": [{"at": 1.0, "compute_s": 1e-4, "copy_s": 1e-4}] * 4}
SLOW_SAMPLES = """
import time
from dataclasses import replace
from pathlib import Path

from edgewise.evaluating.dataset import open_data


class Slow:
    def __init__(self, count, seconds, computes):
        self._few = open_data(str(Path(__file__).with_name("digits.npz")))["test"]
        self.name, self.path, self.format, self.split = "slow", None, "slow", "all"
        self.kind, self.classes, self.labelled = self._few.kind, self._few.classes, True
        self._count, self._seconds, self._computes = count, seconds, computes

    def __len__(self):
        return self._count

    def stamp(self):
        return f"{self._count} {self._seconds}"

    def read(self, index):
        if self._computes:
            until = time.thread_time() + self._seconds
            while time.thread_time() < until:
                pass
        else:
            time.sleep(self._seconds)
        return replace(self._few.read(index % len(self._few)), index=index)


def load(count, seconds, computes):
    return Slow(int(count), float(seconds), computes == "yes")
"""
KILLED, KILLS_IN_LAB = ("worker", "client", "database"), 25


def job(key: str, device: str, lock: str | None = None) -> dict[str, Any]:
    """Return a job to queue."""
    return {"id": key, "queue": engine.queue_of(device), "device": device, "verb": "bench", "title": key,
            "request": "{}", "version": engine.protocol(), "lock": lock}  # fmt: skip


def host(url: str, name: str, first: str, count: str, folder: str, seconds: str, fresh: str = "") -> None:
    """Be a host's process: `count` devices, whose jobs sleep and give a run.

    With `fresh`, devices are gauged and always fit; for `fresh` seconds a gauge also serves the next block.
    """
    make_fast()
    blocks.FRESH_S = float(fresh or 0)
    log = os.open(Path(folder) / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    devices = [
        store_lab.LabDevice(host=name, name=f"d{at}", identity=f"fake://d{at}", answers=(f"d{at}", "any"))
        for at in range(int(first), int(first) + int(count))
    ]

    def work(one: store_lab.LabJob, device: store_lab.LabDevice, token: Any) -> Ended:
        begun = time.time()
        os.write(log, f"begin {one.id}:{one.fence} {device.name} {os.getpid()} {begun!r}\n".encode())
        token_wait(token, float(seconds) * (random.uniform(0.5, 1.5) if float(seconds) < 1 else 1))
        os.write(log, f"end {one.id}:{one.fence} {device.name} {os.getpid()} {time.time()!r}\n".encode())
        ended = Outcome(key=one.id, cell=one.title, status="done", seconds=time.time() - begun, finished=time.time())
        runs = (with_new_id(make_run(1)),) if float(seconds) < 1 else ()
        return Ended(outcome=asdict(ended), runs=runs)

    with open_store(url) as store:

        def ask(device: store_lab.LabDevice) -> dict[str, Any]:
            lease = store.leases.acquire(device.identity, name, seconds=60.0)
            assert not isinstance(lease, str), lease
            time.sleep(GAUGE_S)
            store.leases.release(lease)
            return {**USUAL, "use": lease.fence}

        gauge = ask if fresh else None
        worker.Host(lab=store.lab, name=name, devices=devices, work=work, say=lambda _line: None, ask=gauge).run()


def token_wait(token: Any, seconds: float) -> None:
    from edgewise.cancellation import cancellable, sleep

    with cancellable(token):
        sleep(seconds)


def with_new_id(run: Any) -> Any:
    from dataclasses import replace

    return replace(run, id=new_run_id())


def client(url: str, count: str, devices: str) -> None:
    """Be the client's process: queue all cells in parts, those that are known already, too."""
    with open_store(url) as store:
        for at in range(0, int(count), 20):
            new: list[str] = []
            with suppress(StoreError):
                missing = [f"c{key}" for key in range(at, min(at + 20, int(count)))]
                known = store.lab.jobs.find(missing)
                new = [key for key in missing if key not in known]
                store.lab.jobs.add(
                    [
                        job(key, f"d{int(key[1:]) % int(devices)}", f"fake://d{int(key[1:]) % int(devices)}")
                        for key in new
                    ],
                    engine.ring,
                )
            time.sleep(0.3 if new else 0.0)


def start(*words: object) -> subprocess.Popen[bytes]:
    """Return this script as another process."""
    return subprocess.Popen([sys.executable, __file__, *map(str, words)], start_new_session=True)


def made_lab(url: str) -> None:
    with open_store(url) as store:
        settings = store_lab.LabSettings(version=__version__, protocol=engine.protocol(), most_file=2**31)
        store.lab.make(settings, engine.make_engine)


def ended(url: str, count: int) -> bool:
    with suppress(StoreError), open_store(url) as store:
        numbers: Counter[str] = Counter()
        for states in store.lab.status()["jobs"].values():
            numbers.update(states)
        return numbers["done"] + numbers["failed"] == count
    return False


def chaos(kills: int, file: str = "") -> None:
    """Kill in one lab after the other, beside those that `file` has; print what was lost in all of them."""
    path = Path(file or tempfile.mkstemp()[1])
    labs = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    while (left := kills - sum(one["kills"] for one in labs)) > 0:
        labs.append(kill_in_lab(min(left, KILLS_IN_LAB), seed=len(labs)))
        with path.open("a") as kept:
            kept.write(json.dumps(labs[-1]) + "\n")
        print(labs[-1], flush=True)
    for name in labs[0]:
        of_labs = [one[name] for one in labs]
        print(f"{name}: {max(of_labs) if name.startswith('longest') else sum(of_labs)}")


def kill_in_lab(kills: int, *, seed: int) -> dict[str, float]:
    """Kill at random while cells are carried out; then count what was lost."""
    chance, hosts, each = random.Random(seed), 3, 4
    cells = 40 * kills
    server, folder = Server(connections=200), tempfile.mkdtemp()
    made_lab(server.url)
    processes = {f"h{at}": start("host", server.url, f"h{at}", at * each, each, folder, 0.2) for at in range(hosts)}
    asking = start("client", server.url, cells, hosts * each)
    killed: dict[int, float] = {}
    numbers: Counter[str] = Counter()
    begun = time.time()
    for _ in range(kills):
        time.sleep(chance.uniform(1.5, 3.0))
        what = chance.choices(KILLED, (7, 2, 1))[0]
        numbers[what] += 1
        if what == "database":
            server.restart()
        elif what == "client":
            asking.kill()
            asking.wait()
            asking = start("client", server.url, cells, hosts * each)
        else:
            name = chance.choice(list(processes))
            os.killpg(processes[name].pid, signal.SIGKILL)
            killed[processes[name].pid] = time.time()
            processes[name].wait()
            at = int(name[1:])
            processes[name] = start("host", server.url, name, at * each, each, folder, 0.2)
    while not ended(server.url, cells):
        if asking.poll() is not None:
            asking = start("client", server.url, cells, hosts * each)
        for name, process in processes.items():
            if process.poll() is not None:
                print(f"{name} ended by itself: {process.returncode}")
                at = int(name[1:])
                processes[name] = start("host", server.url, name, at * each, each, folder, 0.2)
        time.sleep(1)
    took = time.time() - begun
    for process in (*processes.values(), asking):
        process.kill()
        process.wait()
    with open_store(server.url) as store:
        rows = store.lab.jobs.find(f"c{key}" for key in range(cells))
        runs = Counter(store.get(row.id).lab.job for row in store.list())
    server.close()
    lines = [line.split() for line in (Path(folder) / "log").read_text().splitlines()]
    finished = Counter(words[1].partition(":")[0] for words in lines if words[0] == "end")
    print(*shown_overlaps(lines, killed), sep="\n", end="")
    return {
        "kills": sum(numbers.values()),
        **{f"of them, of a {what}": numbers[what] for what in KILLED},
        "cells": cells,
        "cells done": sum(row.status == "done" for row in rows.values()),
        "cells that were started again": sum(row.attempt > 1 for row in rows.values()),
        "finished cells without their run": sum(key not in runs for key in rows),
        "cells with two runs": sum(number > 1 for number in runs.values()),
        "cells whose work was done twice, as the first could not be saved": sum(n > 1 for n in finished.values()),
        "overlaps on a device": overlaps(lines, killed),
        "longest pause of a device after a kill, s": round(longest_pause(lines, killed), 1),
        "seconds": round(took),
    }


def spans(lines: list[list[str]], killed: dict[int, float]) -> dict[str, list[tuple[float, float]]]:
    """Device → when its jobs began and ended; the job of a killed process ended with it."""
    ends = {(words[1], words[3]): float(words[4]) for words in lines if words[0] == "end"}
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for word, key, device, pid, at in lines:
        if word == "begin":
            found[device].append((float(at), ends.get((key, pid), killed.get(int(pid), float(at)))))
    return found


def shown_overlaps(lines: list[list[str]], killed: dict[int, float]) -> list[str]:
    """Each overlap in words."""
    begins = {float(words[4]): words for words in lines if words[0] == "begin"}
    return [
        f"{begins[first[0]]} until {first[1]!r}, {begins[second[0]]}"
        for device in spans(lines, killed).values()
        for first, second in pairwise(sorted(device))
        if second[0] < first[1]
    ]


def overlaps(lines: list[list[str]], killed: dict[int, float]) -> int:
    return sum(
        begin < end for device in spans(lines, killed).values() for (_, end), (begin, _) in pairwise(sorted(device))
    )


def longest_pause(lines: list[list[str]], killed: dict[int, float]) -> float:
    pauses = [
        begin - end
        for device in spans(lines, killed).values()
        for (_, end), (begin, _) in pairwise(sorted(device))
        if end in killed.values()
    ]
    return max(pauses, default=0.0)


def scale(jobs: int) -> None:
    """Jobs of 2 s on 64 devices at 4 hosts."""
    server, folder = Server(connections=200), tempfile.mkdtemp()
    made_lab(server.url)
    processes = [start("host", server.url, f"h{at}", at * 16, 16, folder, 2.0) for at in range(4)]
    with open_store(server.url) as store:
        while len(store.lab.devices()) < 64:
            time.sleep(0.5)
        time.sleep(5)
        every = [job(f"c{key}", f"d{key % 64}", f"fake://d{key % 64}") for key in range(jobs)]
        begin = time.time()
        store.lab.jobs.add(every, engine.ring)
        while not ended(server.url, jobs):
            time.sleep(1)
        rows = store.lab.jobs.find(row["id"] for row in every)
    for process in processes:
        process.kill()
        process.wait()
    server.close()
    last = max(row.finished or 0.0 for row in rows.values())
    took = last - begin
    print(f"{jobs} jobs of 2 s on 64 devices: {took:.1f} s; ideal {jobs / 64 * 2:.1f} s; "
          f"{jobs * 2 / 64 / took:.3f} of the devices' time used; jobs started twice: "
          f"{sum(row.attempt > 1 for row in rows.values())}")  # fmt: skip


def latency(jobs: int) -> None:
    """One job after the other on a free device, which is gauged before each block, and as it is now."""
    for fresh in (0.0, blocks.FRESH_S):
        found = latencies(jobs, fresh)
        percentiles = statistics.quantiles(found, n=20)
        rule = "gauged after each block" if fresh else "gauged before and after each block"
        print(f"queueing to start on a free device, {rule}, {jobs} jobs: median {statistics.median(found) * 1e3:.0f} "
              f"ms, 95th percentile {percentiles[18] * 1e3:.0f} ms; load {os.getloadavg()[0]:.1f}",
              flush=True)  # fmt: skip


def latencies(jobs: int, fresh: float) -> list[float]:
    """From queueing to start, s; of each device the first job, before which it is gauged anyway, is left out."""
    server, folder, count = Server(), tempfile.mkdtemp(), 4
    made_lab(server.url)
    with open_store(server.url) as store:
        for at, moment in ((at, moment) for at in range(count) for moment in ("before", "after") for _ in range(12)):
            store.lab.gauges.add(f"fake://d{at}", moment, USUAL, verdict="fit", why="")
        with store._database.writing() as connection:  # an hour of history
            connection.execute(text("UPDATE lab_gauges SET at = at - 300 * id"))
        process = start("host", server.url, "h0", 0, count, folder, 0.001, fresh)
        while not store.lab.devices():
            time.sleep(0.5)
        time.sleep(5)
        for number in range(-count, jobs):
            key, device = f"c{number}", f"d{number % count}"
            store.lab.jobs.add([job(key, device, f"fake://{device}")], engine.ring)
            while not store.lab.jobs.find([key], ended=True):  # its block has ended, too
                time.sleep(0.02)
        created = {row.id: row.created for row in store.lab.jobs.find(f"c{at}" for at in range(jobs)).values()}
    process.kill()
    process.wait()
    server.close()
    lines = [line.split() for line in (Path(folder) / "log").read_text().splitlines()]
    begun = {words[1].partition(":")[0]: float(words[4]) for words in lines if words[0] == "begin"}
    return [begun[key] - at for key, at in created.items()]


@contextmanager
def machines(share: float | None) -> Iterator[Callable[[str], list[str]]]:
    """Give the function that returns the words before a command that runs on the machine with a name.

    Args:
        share: of a processor that each of these machines has; None: none is limited.
    """
    groups: dict[str, Path] = {}

    def enter(name: str) -> list[str]:
        if share is None:
            return []
        if name not in groups:
            group = groups[name] = GROUPS / f"benchmark-of-edgewise-{name}"
            group.mkdir(exist_ok=True)
            period_us = int((group / "cpu.cfs_period_us").read_text())
            (group / "cpu.cfs_quota_us").write_text(str(int(share * period_us)))
        return ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(groups[name] / "cgroup.procs")]

    try:
        yield enter
    finally:
        for group in groups.values():
            for process in (group / "cgroup.procs").read_text().split():
                (GROUPS / "cgroup.procs").write_text(process)
            group.rmdir()


def shards(samples: int, ms: str = "4", share: str = "") -> None:
    """Evaluate on one machine, and by shards at 4 hosts, which are processes of this machine."""
    with machines(float(share) if share else None) as machine:
        _compare_shards(samples, float(ms), machine, computes=bool(share))


def _compare_shards(samples: int, ms: float, machine: Callable[[str], list[str]], *, computes: bool) -> None:
    server, folder = Server(), Path(tempfile.mkdtemp())
    (folder / "samples.py").write_text(SLOW_SAMPLES)
    environment = {**os.environ, "EDGEWISE_LOCKS": str(folder), "EDGEWISE_DEVICES": str(folder / "devices.toml")}

    def edgewise(*words: object, store: str, on: str = "client") -> subprocess.Popen[bytes]:
        command = [*machine(on), sys.executable, "-m", "edgewise", *map(str, words)]
        return subprocess.Popen(
            command, cwd=folder, env={**environment, "EDGEWISE_STORE": store}, stdout=subprocess.DEVNULL
        )

    def seconds(*words: object, store: str) -> float:
        begin = time.perf_counter()
        assert edgewise(*words, store=store).wait() == 0
        return time.perf_counter() - begin

    evaluate = ("evaluate", "model.onnx", "--data", f"{folder / 'samples.py'}:load", "--data-option",
                f"count={samples}", "--data-option", f"seconds={ms / 1e3}",
                "--data-option", f"computes={'yes' if computes else 'no'}", "--task", "classification",
                "--prepare", "scale=1/255", "--no-latency", "-q", "--fresh")  # fmt: skip
    seconds("example", store="alone.db")
    alone = seconds(*evaluate, store="alone.db")
    made_lab(server.url)
    words = ("lab", "work", "--devices", "local", "--allow-code", folder, "--cache", "cache")
    hosts = [edgewise(*words, "--host", f"h{at}", store=server.url, on=f"h{at}") for at in range(4)]
    with open_store(server.url) as store:
        while len(store.lab.devices()) < len(hosts):
            time.sleep(0.5)
    shared = seconds(*evaluate, "--lab", "--shards", len(hosts), store=server.url)
    for one in hosts:
        one.kill()
        one.wait()
    server.close()
    print(f"{samples} samples of {ms} ms: {alone:.1f} s on one machine, {shared:.1f} s at {len(hosts)} hosts: "
          f"{shared / alone:.2f} of it; load {os.getloadavg()[0]:.1f}")  # fmt: skip


def cells(count: int) -> None:
    """Queue, look up and count many cells."""
    server = Server()
    made_lab(server.url)
    with open_store(server.url) as store:
        every = [job(f"c{key}", f"d{key % 64}", f"fake://d{key % 64}") for key in range(count)]
        begin = time.perf_counter()
        store.lab.jobs.add(every, engine.ring)
        queued = time.perf_counter()
        store.lab.jobs.find((row["id"] for row in every), ended=True)
        looked = time.perf_counter()
        store.lab.status()
        asked = time.perf_counter()
        store.lab.jobs.lost()
        swept = time.perf_counter()
        print(f"{count} cells: queued in {queued - begin:.1f} s, looked up in {looked - queued:.1f} s, "
              f"status in {(asked - looked) * 1e3:.0f} ms, lost ones in {(swept - asked) * 1e3:.0f} ms")  # fmt: skip
    server.close()


def main() -> None:
    """Run a part."""
    name, *words = sys.argv[1:] or ["chaos"]
    if name in ("host", "client"):
        {"host": host, "client": client}[name](*words)
        return
    usual = {"chaos": 100, "scale": 1280, "latency": 100, "shards": 50_000, "cells": 100_000}
    part = {"chaos": chaos, "scale": scale, "latency": latency, "shards": shards, "cells": cells}[name]
    part(int(words[0]) if words else usual[name], *words[1:])


if __name__ == "__main__":
    main()
