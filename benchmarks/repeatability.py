"""Do the claimed 95 % intervals hold, in a store without a history and later, quiet and beside a bursty load?

    python benchmarks/repeatability.py record FILE.jsonl [--runs 40] [--load quiet,bursty] [--cases small/onnxruntime,…]
                                       [--pause 0] [--calibrate 0]
    python benchmarks/repeatability.py table FILE.jsonl … [--law now]

*record* benches every case `--runs` times, in turns, each on the machine as it is and beside random busy phases on all
cores, in a new store for each case and load; it appends one line a run: what was reported, and the material that laws
are made of (the medians of the sessions, and the readings of the reference kernels). Run it again for another series.

*table* prints the coverage: the share of runs whose interval for a re-run holds the median of all runs of its series;
of the first ten runs, whose variation is not learnt yet, and of the others. Target: 90 – 99 %. ``--law now`` computes
the intervals anew from the recorded material with the law of this source, so that a law can be tried on series that
were recorded before it, or kept aside.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models import MLPERF_TINY, light_onnx, small_onnx
from noise import bursty_load

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.data import path as bundled
from edgewise.record import Job, ModelRef, Run, RuntimeSpec, SessionRecord
from edgewise.record.reference import Reading, readings_of
from edgewise.run.variation import SpeedHistory, widen
from edgewise.stats.intervals import Interval

CASES: dict[str, Callable[[], Path]] = {
    "small/onnxruntime": small_onnx,
    "shufflenet/onnxruntime": lambda: light_onnx("shufflenet"),
    "shufflenet/openvino": lambda: light_onnx("shufflenet"),
    "squeezenet/openvino": lambda: light_onnx("squeezenet"),
    "digits_int8/litert": lambda: bundled("digits_cnn_int8.tflite"),
    "vww_int8/litert": lambda: MLPERF_TINY / "vww_96_int8.tflite",
}
"""Model/engine: from 25 µs to some ms, float32 and int8, three engines."""

LOADS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "quiet": contextlib.nullcontext,
    "bursty": bursty_load,
}
"""What runs beside: nothing of ours, or random busy phases on all cores."""

FIRST = 10
"""Runs of a new store whose coverage is told apart."""

Row = dict[str, Any]


def row_of(run: Run) -> Row:
    """What is kept of a run: the reported median, intervals and variation, and what they were made of."""
    latency = run.measurement("latency")
    if latency is None or latency.within_low is None or run.variation is None:
        raise RuntimeError(f"no latency with an interval: {run.failure}")
    samples = iter(latency.samples or ())
    medians = [statistics.median([next(samples) for _ in range(length)]) for length in latency.session_lengths]
    return {
        "at": run.created_at,
        **{name: getattr(latency, name) for name in ("value", "low", "high", "within_low", "within_high")},
        "variation": asdict(run.variation),
        "medians": medians,
        "references": [session.facts.get("reference", {}) for session in run.sessions],
        "busy": [session.facts.get("counters", {}).get("busy_share_of_others") for session in run.sessions],
        "environment": run.environment,
    }


def append(file: Path, row: Row) -> None:
    """Add a line to `file`."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row, default=str) + "\n")


def record(arguments: argparse.Namespace) -> None:
    """One series of every load and case: all of them once, then a pause, `--runs` times in all."""
    cases = {name: CASES[name]() for name in arguments.cases.split(",")}
    name = uuid.uuid4().hex[:8]
    with tempfile.TemporaryDirectory(prefix="repeatability-") as folder:
        stores = {
            (load, case): f"{folder}/{load}-{index}.db"
            for load in arguments.load.split(",")
            for index, case in enumerate(cases)
        }
        if arguments.calibrate:
            for store in stores.values():
                edgewise_command(["doctor", "--calibrate", f"{arguments.calibrate:g}min", "--store", store])
        for index in range(arguments.runs):
            for (load, case), store in stores.items():
                with LOADS[load]():
                    engine = case.partition("/")[2]
                    (run,) = edgewise.bench(cases[case], runtimes=[engine], meters=False, store=store)
                append(arguments.file, {"series": name, "load": load, "case": case, "index": index, **row_of(run)})
            time.sleep(arguments.pause)


def recorded(files: Sequence[Path]) -> dict[tuple[str, str, str], list[Row]]:
    """The runs of each load, case and series, in order."""
    series: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            series[row["load"], row["case"], row["series"]].append(row)
    return {key: sorted(rows, key=lambda row: int(row["index"])) for key, rows in series.items()}
