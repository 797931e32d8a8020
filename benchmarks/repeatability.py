"""Do the claimed 95 % intervals hold, in a store without a history and later, quiet and beside a bursty load?

    python benchmarks/repeatability.py record FILE.jsonl [--runs 40] [--load 'as it is,bursty']
                                       [--cases small/onnxruntime,…] [--pause 0]
    python benchmarks/repeatability.py table FILE.jsonl … [--law now]

*record* benches every case `--runs` times, in turns, on the machine as it is and beside random busy phases on all
cores, in a new store for each case and load. It appends a line a run: what was reported, and what laws are made of (the
medians of the parts of each session, and the readings of the reference kernels). Run it again for another series.

*table* prints the coverage: the share of runs whose interval for a re-run holds the median of all runs of its series,
for the first ten runs of the store and for the others; target: 90 – 99 %. Half-widths are medians; beside the load
stands the share of the processor that other programs used. ``--law now``
computes the intervals anew from the recorded material with the law of this source, so that it can be tried on series
that were recorded before it.
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
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from models import MLPERF_TINY, light_onnx, small_onnx
from noise import bursty_load

import edgewise
from edgewise.data import path as bundled
from edgewise.record import Job, Measurement, ModelRef, Run, RuntimeSpec, SessionRecord
from edgewise.record.reference import Reading, readings_of
from edgewise.run.variation import SpeedHistory, widen
from edgewise.stats.between_runs import LEAST_IN_PART, PARTS
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
    "as it is": contextlib.nullcontext,
    "bursty": bursty_load,
}
"""What runs beside: what runs there anyway, or also random busy phases on all cores."""

FIRST = 10
"""Runs of a new store whose coverage is told apart."""

Row = dict[str, Any]
Key = tuple[str, str, str]
"""Load, case, series."""


def row_of(run: Run) -> Row:
    """Return what is kept of a run: the reported median, intervals and variation, and what they were made of."""
    latency = run.measurement("latency")
    if latency is None or latency.within_low is None or latency.samples is None or run.variation is None:
        raise RuntimeError(f"no latency with an interval: {run.failure}")
    sessions = np.split(np.array(latency.samples), np.cumsum(latency.session_lengths)[:-1])
    return {
        "at": run.created_at,
        **{name: getattr(latency, name) for name in ("value", "low", "high", "within_low", "within_high")},
        "variation": asdict(run.variation),
        "parts": [[float(np.median(part)) for part in np.array_split(each, PARTS) if len(part)] for each in sessions],
        "references": [session.facts.get("reference", {}) for session in run.sessions],
        "busy": [session.facts.get("counters", {}).get("busy_share_of_others") for session in run.sessions],
        "environment": run.environment,
    }


def append(file: Path, row: Row) -> None:
    """Add a line to `file`."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row, default=str) + "\n")


def read(files: Sequence[Path]) -> dict[Key, list[Row]]:
    """Return the runs of each load, case and series, in order."""
    series: dict[Key, list[Row]] = defaultdict(list)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            series[row["load"], row["case"], row["series"]].append(row)
    return {key: sorted(rows, key=lambda row: int(row["index"])) for key, rows in sorted(series.items())}


def record(arguments: argparse.Namespace) -> None:
    """One series of every load and case: all of them once, then a pause, `--runs` times in all."""
    cases = {name: CASES[name]() for name in arguments.cases.split(",")}
    series = uuid.uuid4().hex[:8]
    with tempfile.TemporaryDirectory(prefix="repeatability-") as folder:
        for index in range(arguments.runs):
            for load in arguments.load.split(","):
                for case, model in cases.items():
                    store = f"{folder}/{load}-{case.replace('/', '-')}.db"
                    with LOADS[load]():
                        (run,) = edgewise.bench(model, runtimes=[case.split("/")[1]], meters=False, store=store)
                    append(
                        arguments.file, {"series": series, "load": load, "case": case, "index": index, **row_of(run)}
                    )
            time.sleep(arguments.pause)


def by_this_law(rows: Sequence[Row]) -> list[Row]:
    """Return the runs of one series with the intervals and the variation that the law of this source gives."""
    job = Job(
        model=ModelRef(name="recorded", path="", format="onnx", sha256="0", size_bytes=1),
        runtime=RuntimeSpec(name="recorded"),
    )
    earlier: list[Reading] = []
    answer = []
    for row in rows:
        sessions = [
            SessionRecord(index=index, started_at="", pid=0, facts={"reference": told})
            for index, told in enumerate(row["references"])
        ]
        headline = Measurement.of(
            "latency",
            row["value"],
            "recorded",
            samples=tuple(part for parts in row["parts"] for part in np.repeat(parts, LEAST_IN_PART)),
            session_lengths=tuple(LEAST_IN_PART * len(parts) for parts in row["parts"]),
        )
        known = tuple(earlier)
        variation = SpeedHistory(row["environment"], lambda machine, known=known: known).variation(
            job, sessions, headline=headline
        )
        within = Interval(row["within_low"], row["within_high"], "recorded")
        interval = widen(within, row["value"], variation)
        told = {"low": interval.low, "high": interval.high, "variation": variation and asdict(variation)}
        answer.append({**row, **told})
        earlier += [
            Reading(
                version=each.version,
                at=each.at,
                compute=each.compute,
                copy=each.copy,
                run=str(row["index"]),
                job=job.key,
                value=row["value"],
            )
            for each in readings_of(sessions)
        ]
    return answer


def coverage(rows: Sequence[Row], middle: float) -> tuple[int, int, float]:
    """How many intervals hold `middle`, of how many, and their median half-width."""
    hits = sum(row["low"] <= middle <= row["high"] for row in rows)
    halves = [(row["high"] - row["low"]) / 2 / row["value"] for row in rows]
    return hits, len(rows), statistics.median(halves) if halves else 0.0


def cells(rows: Sequence[Row]) -> tuple[str, list[tuple[int, int, float]]]:
    """Return the variation between the runs of a series, and the coverage of its first runs and of the others."""
    values = np.log([row["value"] for row in rows])
    middle = float(np.exp(np.median(values)))
    return f"{values.std(ddof=1):.1%}", [coverage(part, middle) for part in (rows[:FIRST], rows[FIRST:])]


def table(arguments: argparse.Namespace) -> None:
    """Print a row for every series, and one for every load."""
    series = read(arguments.files)
    if arguments.law == "now":
        series = {key: by_this_law(rows) for key, rows in series.items()}
    print("| load | others used | model/engine | median | σ of runs | first ten hold | ± | the others hold | ± |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|")
    totals: dict[str, list[list[tuple[int, int, float]]]] = defaultdict(list)
    for (load, case, _), rows in series.items():
        if len(rows) < FIRST:  # cut short
            continue
        sigma, parts = cells(rows)
        totals[load].append(parts)
        told = " | ".join(f"{hits}/{count} | {half:.1%}" if count else "– | –" for hits, count, half in parts)
        busy = statistics.median(share for row in rows for share in row["busy"] if share is not None)
        middle = statistics.median(row["value"] for row in rows)
        print(f"| {load} | {busy:.0%} | {case} | {middle * 1e3:.3g} ms | {sigma} | {told} |")
    for load, all_parts in totals.items():
        told = " | ".join(_total(list(column)) for column in zip(*all_parts, strict=True))
        print(f"| {load} | | all {len(all_parts)} series | | | {told} |")


def _total(parts: Sequence[tuple[int, int, float]]) -> str:
    hits, count = (sum(part[index] for part in parts) for index in (0, 1))
    halves = [part[2] for part in parts if part[1]]
    return f"**{hits}/{count} = {hits / count:.0%}** | {statistics.median(halves):.1%}" if count else "– | –"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--runs", type=int, default=40)
    recording.add_argument("--load", default=",".join(LOADS))
    recording.add_argument("--cases", default=",".join(CASES))
    recording.add_argument("--pause", type=float, default=0.0, help="s after each round")
    recording.set_defaults(call=record)
    tabulating = verbs.add_parser("table")
    tabulating.add_argument("files", type=Path, nargs="+")
    tabulating.add_argument("--law", choices=("recorded", "now"), default="recorded")
    tabulating.set_defaults(call=table)
    arguments = parser.parse_args()
    arguments.call(arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
