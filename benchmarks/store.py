"""A store with a million runs: how long its answers take, and a save.

    python benchmarks/store.py [--runs 1000000] [--store FILE]

Runs are made up: 2,000 models, 8 runtimes, 40 devices, four shapes, one failed run of a thousand. One of ten has the
tag ``nightly``, one of a hundred ``candidate``, one of a thousand ``release-0`` to ``-9``. No run of trtexec is on
device-0. Their documents are small, because a listing does not read them. Each question is timed in this process, with
the file in the system's cache; the table has the median and the 95th percentile of its repetitions, as wall time and
as time of the processor, which other work on the machine disturbs less. A whole page of the studio is asked for over
HTTP, from a server in this process; its time includes that of the client. Targets at the 95th percentile: 50 ms for a
page, 100 ms for a filter, 150 ms for facets, 300 ms for a matrix.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sized
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path

from sqlalchemy import insert

from edgewise.record import SCHEMA, Job, Measurement, ModelRef, Run, RuntimeSpec, TargetSpec, new_run_id
from edgewise.store import Store, open_store
from edgewise.store.best import Matrix
from edgewise.store.filters import RunFilter
from edgewise.store.index import fill_kept
from edgewise.store.tables import documents, measurements, runs, tags
from edgewise.store.trends import Trend

MODELS = [f"{family}_{width}_{size}" for family in ("mobilenet", "resnet", "yolo", "keyword", "detector")
          for width in range(20) for size in range(20)]  # fmt: skip
RUNTIMES = ["onnxruntime", "openvino", "litert", "torch", "tensorflow", "keras", "ncnn", "trtexec"]
SIDES = [224, 224, 224, 224, 320, 384, 512]
FIRST = datetime(2024, 1, 1, tzinfo=UTC).timestamp()


def fill(store: Store, count: int) -> None:
    """Write `count` runs into the tables, in transactions of 20,000, and make the kept tables from them."""
    choose = random.Random(0)
    for first in range(0, count, 20_000):
        rows = []
        for number in range(first, min(first + 20_000, count)):
            created = FIRST + 60 * number
            model, runtime = choose.choice(MODELS), choose.choice(RUNTIMES)
            device = int(choose.expovariate(0.2)) % 40
            device += device == 0 and runtime == "trtexec"
            rows.append({
                "id": f"{number:012x}-{choose.getrandbits(48):012x}", "created": created,
                "created_at": datetime.fromtimestamp(created, UTC).isoformat(), "group": f"g{number // 8}",
                "model": model, "format": "onnx", "sha256": hashlib.sha256(model.encode()).hexdigest(),
                "runtime": runtime, "version": "1", "provider": "cpu", "threads": 1,
                "precision": "f32", "batch": 1, "scenario": "single-stream",
                "device": f"device-{device}",
                "status": "failed" if choose.random() < 0.001 else "done", "cause": None, "grade": "A",
                "metric": "latency", "value": choose.lognormvariate(-5, 1), "low": None, "high": None, "unit": "s",
                "basis": "measured", "machine": None, "shapes": f"1x3x{(side := choose.choice(SIDES))}x{side}",
            })  # fmt: skip
        with store._database.writing() as connection:
            connection.execute(insert(documents), [{"id": r["id"], "schema": SCHEMA, "document": "{}"} for r in rows])
            connection.execute(insert(runs), rows)
            values = [{"run": r["id"], "position": 0, "metric": "latency", "value": r["value"], "unit": "s",
                       "basis": "measured"} for r in rows]  # fmt: skip
            connection.execute(insert(measurements), values)
            named = [{"run": row["id"], "name": name} for at, row in enumerate(rows)
                     for name, share in (("nightly", 0.1), ("candidate", 0.01), (f"release-{at % 10}", 1e-3))
                     if choose.random() < share]  # fmt: skip
            connection.execute(insert(tags), named or [{"run": rows[0]["id"], "name": "first"}])
    begin = time.perf_counter()
    with store._database.writing() as connection:
        fill_kept(connection)
    print(f"The kept tables were made in {time.perf_counter() - begin:.0f} s.", file=sys.stderr)


def timed(repetitions: int, answer: Callable[[], object]) -> tuple[object, list[float], list[float]]:
    """Return what `answer` returned last; wall times and CPU times of its repetitions, s."""
    walls, cpus, found = [], [], None
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        found = answer()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return found, walls, cpus


def answers(store: Store) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Kind, name and question of each row of the table."""
    late, middle = datetime(2025, 11, 1, tzinfo=UTC), datetime(2024, 11, 1, tzinfo=UTC)
    there = store.list(until=middle, limit=1)[0].id
    filters: dict[str, RunFilter] = {
        "newest": {},
        "in the middle": {"before": there},
        "in the middle, backwards": {"after": there},
        "a runtime": {"runtime": "ncnn"},
        "part of a model's name": {"model": "resnet_3"},
        "part of many models' names": {"model": "resnet"},
        "a model that is not there": {"model": "vgg"},
        "failed runs": {"status": "failed"},
        "a device": {"device": "device-39"},
        "a tag": {"tag": "release-7"},
        "a frequent tag": {"tag": "nightly"},
        "a runtime's failed runs": {"runtime": "ncnn", "status": "failed"},
        "finished runs of a runtime and a device": {"runtime": "ncnn", "device": "device-0", "status": "done"},
        "a model's runs on a runtime and a device": {"model": MODELS[0], "runtime": "ncnn", "device": "device-0"},
        "a frequent tag of a runtime and a device": {"tag": "nightly", "runtime": "ncnn", "device": "device-0"},
        "a tag of a runtime and a device": {"tag": "candidate", "runtime": "ncnn", "device": "device-0"},
        "a runtime that a device never had": {"runtime": "trtexec", "device": "device-0"},
        "the same with a tag": {"runtime": "trtexec", "device": "device-0", "tag": "nightly"},
        "failed runs of a model on a device": {"model": MODELS[0], "device": "device-0", "status": "failed"},
        "part of a name, a runtime, a device": {"model": "resnet_3", "runtime": "ncnn", "device": "device-0"},
        "since a day": {"since": late},
        "finished runs of a runtime since a day": {"runtime": "ncnn", "status": "done", "since": middle},
        "finished runs of a runtime and a device before a day": {
            "runtime": "ncnn",
            "device": "device-0",
            "status": "done",
            "until": middle,
        },
        "a metric of all runs": {"metric": "latency"},
        "a metric that no run has": {"metric": "energy"},
    }
    for name, wanted in filters.items():
        wanted["limit"] = 51
        yield "page", name, partial(store.list, **wanted)
    for kind, ask in (("count", store.count), ("facets", store.facets)):
        for name, wanted in filters.items():
            if not wanted.keys() & {"before", "after"}:
                yield kind, name, partial(ask, **wanted)
    yield "matrix", "40 models × 20 machines", store.matrix
    yield "matrix", "of a runtime", partial(store.matrix, runtime="ncnn")
    yield "matrix", "part of a model's name", partial(store.matrix, model="resnet_3")
    yield "trend", "of a model", partial(store.trend, MODELS[0])
    yield "trend", "of a model's other metric", partial(store.trend, MODELS[0], metric="latency")
    page = store.list(limit=51)
    yield "id", "its beginning", partial(store.find, [page[25].id[:18]])


PAGES = [
    "/runs", "/runs?runtime=ncnn", "/runs?model=resnet_3", "/runs?tag=nightly", "/runs?since=2025-11-01",
    "/runs?runtime=ncnn&status=done", "/runs?runtime=trtexec&device=device-0", "/runs?tag=nightly&model=resnet_3",
    "/runs?runtime=ncnn&status=done&since=2025-01-01", "/runs?runtime=ncnn&device=device-0&status=done",
    "/runs?runtime=ncnn&device=device-39&status=failed", f"/runs?model={MODELS[0]}&runtime=ncnn&device=device-0",
    "/runs?tag=nightly&runtime=ncnn&device=device-0", "/runs?tag=candidate&runtime=ncnn&device=device-0",
    "/runs?tag=release-7&runtime=ncnn&device=device-0",
    "/runs?model=resnet_3&runtime=ncnn&device=device-0",
    "/runs?tag=nightly&runtime=trtexec&device=device-0", "/runs?model=resnet_3&runtime=ncnn&tag=nightly",
    "/runs?runtime=ncnn&device=device-0&status=done&until=2024-11-01",
    "/runs?tag=nightly&status=failed&since=2025-01-01",
    "/runs?model=resnet&runtime=ncnn&device=device-0&tag=nightly&status=done&since=2024-06-01",
    f"/trend?model={MODELS[0]}", "/atlas", "/atlas?model=resnet_3",
]  # fmt: skip


def whole_pages(path: Path) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Yield the same for whole pages of the studio, with list, facets and template, from a server in this process."""
    from edgewise.studio.app import make_app
    from edgewise.studio.server import listen, make_server
    from edgewise.studio.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        listener, settings = listen(Settings(port=0, store=str(path), folder=Path(folder)), next_port=False)
        app = make_app(settings)
        server = make_server(app, settings)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        headers = {"cookie": app.state.studio.sessions.set_cookie().partition(";")[0]}

        def ask(address: str) -> str:
            with urllib.request.urlopen(
                urllib.request.Request(settings.own_origin + address, headers=headers)
            ) as answer:
                return f"{len(answer.read()) / 1e3:.0f} kB"

        try:
            for address in PAGES:
                yield "whole page", f"`{address}`", partial(ask, address)
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


def size_of(found: object) -> str:
    """How much was found, as text."""
    match found:
        case Matrix():
            return f"{len(found.cells)} cells"
        case Mapping():
            lower = any(facet.more for facets in found.values() for facet in facets)
            return f"{sum(map(len, found.values()))} values" + (", some “at least”" if lower else "")
        case Trend():
            return f"{len(found.points)} points"
        case str():
            return found
        case Sized():
            return str(len(found))
    return str(found)


def new_runs(number: int) -> list[Run]:
    """Return new runs with one measurement, of models and devices that are there."""
    choose = random.Random(1)
    value = Measurement(
        metric="latency", unit="s", basis="measured", method="made up", value=0.01, low=0.009, high=0.011
    )
    return [
        Run(
            id=new_run_id(), created_at=datetime.now(UTC).isoformat(), status="done", measurements=(value,),
            job=Job(
                model=ModelRef(name=choose.choice(MODELS), path="", format="onnx", sha256="0" * 64, size_bytes=1),
                runtime=RuntimeSpec(name=choose.choice(RUNTIMES)),
                target=TargetSpec(device=f"device-{choose.randrange(40)}"),
            ),
        )
        for _ in range(number)
    ]  # fmt: skip


def main() -> int:
    """Fill a store, time the queries, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--store", help="keep the store in this file, or use the one that is there")
    options = parser.parse_args()
    gc.set_threshold(20_000)  # as in `edgewise.__main__`: with Python's own, many collections fall into the answers
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.store or Path(folder) / "runs.db")
        filled = path.exists()
        with open_store(str(path)) as store:
            if not filled:
                fill(store, options.runs)
            print("| | | found | median | 95th percentile | CPU, median | CPU, 95th |\n|---|---|--:|--:|--:|--:|--:|")
            for kind, name, answer in chain(answers(store), whole_pages(path)):
                found, walls, cpus = timed(options.repetitions, answer)
                print(f"| {kind} | {name} | {size_of(found)} | {_times(walls)} | {_times(cpus)} |", flush=True)
            runs = new_runs(options.repetitions)
            acts: dict[str, Iterator[object]] = {
                "save": map(store.save, runs),
                "save again": map(store.save, runs),
                "remove": map(store.remove, [[run.id] for run in runs]),
            }
            for name, done in acts.items():
                _, walls, cpus = timed(len(runs), partial(next, done))
                print(f"| {name} | a run | | {_times(walls)} | {_times(cpus)} |", flush=True)
    return 0


def _times(times: list[float]) -> str:
    return f"{statistics.median(times) * 1e3:.1f} ms | {statistics.quantiles(times, n=20)[-1] * 1e3:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
