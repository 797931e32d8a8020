"""A store with a million runs: how long `edgewise runs list` takes to find a page of them.

    python benchmarks/store.py [--runs 1000000] [--store FILE]

Runs are made up: 2,000 models, 8 runtimes, 40 devices, tags on one of a thousand. Their documents are small, because a
listing does not read them. Each query is timed in this process, with the file in the system's cache; the table has the
median and the 95th percentile of its repetitions. Target: 50 ms for a page, 100 ms for a filter, both at the 95th
percentile.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import insert

from edgewise.record import SCHEMA
from edgewise.store import open_store
from edgewise.store.tables import documents, measurements, runs, tags

MODELS = [f"{family}_{width}_{size}" for family in ("mobilenet", "resnet", "yolo", "keyword", "detector")
          for width in range(20) for size in range(20)]  # fmt: skip
RUNTIMES = ["onnxruntime", "openvino", "litert", "torch", "tensorflow", "keras", "ncnn", "trtexec"]
FIRST = datetime(2024, 1, 1, tzinfo=UTC).timestamp()


def fill(store: object, count: int) -> None:
    """Write `count` runs into the tables, in transactions of 20,000."""
    choose = random.Random(0)
    for first in range(0, count, 20_000):
        rows = []
        for number in range(first, min(first + 20_000, count)):
            created = FIRST + 60 * number
            model = choose.choice(MODELS)
            rows.append({
                "id": f"{number:012x}-{choose.getrandbits(48):012x}", "created": created,
                "created_at": datetime.fromtimestamp(created, UTC).isoformat(), "group": f"g{number // 8}",
                "model": model, "format": "onnx", "sha256": f"{hash(model) % 2**64:064x}",
                "runtime": choose.choice(RUNTIMES), "version": "1", "provider": "cpu", "threads": 1,
                "precision": "f32", "batch": 1, "scenario": "single-stream",
                "device": f"device-{int(choose.expovariate(0.2)) % 40}",
                "status": "failed" if choose.random() < 0.001 else "done", "cause": None, "grade": "A",
                "metric": "latency", "value": choose.lognormvariate(-5, 1), "low": None, "high": None, "unit": "s",
                "basis": "measured", "machine": "processor",
            })  # fmt: skip
        with store._database.writing() as connection:  # type: ignore[attr-defined]
            connection.execute(insert(documents), [{"id": r["id"], "schema": SCHEMA, "document": "{}"} for r in rows])
            connection.execute(insert(runs), rows)
            values = [{"run": r["id"], "position": 0, "metric": "latency", "value": r["value"], "unit": "s",
                       "basis": "measured"} for r in rows]  # fmt: skip
            connection.execute(insert(measurements), values)
            named = [
                {"run": r["id"], "name": f"release-{at % 10}"} for at, r in enumerate(rows) if choose.random() < 1e-3
            ]
            connection.execute(insert(tags), named or [{"run": rows[0]["id"], "name": "first"}])


def main() -> int:
    """Fill a store, time the queries, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--store", help="keep the store in this file, or use the one that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.store or Path(folder) / "runs.db")
        filled = path.exists()
        with open_store(str(path)) as store:
            if not filled:
                fill(store, options.runs)
            page = store.list(limit=51)
            queries = {
                "newest page": {},
                "page in the middle": {"before": next(iter(store.rows(since=datetime(2024, 11, 1, tzinfo=UTC),
                                                                      limit=1))).id},
                "a runtime": {"runtime": "ncnn"},
                "part of a model's name": {"model": "resnet_3"},
                "a model that is not there": {"model": "vgg"},
                "failed runs": {"status": "failed"},
                "a device": {"device": "device-39"},
                "a tag": {"tag": "release-7"},
                "a runtime's failed runs": {"runtime": "ncnn", "status": "failed"},
                "a metric that no run has": {"metric": "energy"},
            }  # fmt: skip
            print("| query | rows | median | 95th percentile |\n|---|--:|--:|--:|")
            for name, wanted in queries.items():
                times = []
                for _ in range(options.repetitions):
                    begin = time.perf_counter()
                    found = store.list(limit=51, **wanted)
                    times.append(time.perf_counter() - begin)
                tail = statistics.quantiles(times, n=20)[-1]
                print(f"| {name} | {len(found)} | {statistics.median(times) * 1e3:.1f} ms | {tail * 1e3:.1f} ms |")
            begin = time.perf_counter()
            assert store.find([page[25].id[:18]]) == [page[25].id]
            print(f"| the beginning of an id | 1 | {(time.perf_counter() - begin) * 1e3:.1f} ms | |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
