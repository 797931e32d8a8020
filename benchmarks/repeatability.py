"""Do the claimed 95 % intervals hold on this machine, quiet and beside a bursty load?

    python benchmarks/repeatability.py [--minutes 30] [--reruns 20] [--models FILE …] [--runtime onnxruntime]
                                       [--calibrate 10] [--load quiet,bursty] [--store FOLDER]

Benches every model `--reruns` times, evenly over `--minutes`, each time on the machine as it is and beside random busy
phases on all cores. What runs differ by is learnt before, for `--calibrate` minutes (0: it is assumed until there is
enough history). Coverage is the share of runs whose interval contains the median of all runs of that model and load;
target: 90 – 99 % for the quoted interval, for a re-run on this machine. Beside it stands that of the interval within
the run. The spread, (max − min) / median, stands beside that of a bare loop of the same measured length.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from fidelity import bare_onnxruntime
from models import light_onnx

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.data import path as bundled
from edgewise.record import Measurement, Run


def burst(core: int, seed: int) -> None:
    """Random busy and idle phases on one core until killed."""
    os.sched_setaffinity(0, {core})
    rng = random.Random(seed)
    while True:
        end = time.monotonic() + rng.expovariate(1 / 0.15)
        while time.monotonic() < end:
            pass
        time.sleep(rng.expovariate(1 / 0.3))


@dataclass
class Series:
    """The runs of one model under one load."""

    rows: list[Measurement] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    def add(self, run: Run) -> float:
        """Keep the run's latency; the seconds it measured."""
        row = run.measurement("latency")
        if row is None or row.low is None or row.within_low is None or run.variation is None:
            raise RuntimeError(f"no latency with an interval: {run.failure}")
        self.rows.append(row)
        self.sources.append(run.variation.source + (", unusual" if run.variation.shift else ""))
        return sum(row.samples)

    def values(self) -> list[float]:
        """The median latency of each run, s."""
        return [row.value for row in self.rows if row.value is not None]

    def hits(self, *, within: bool) -> int:
        """How many intervals hold the median of all runs."""
        middle = statistics.median(self.values())
        ends = [(row.within_low, row.within_high) if within else (row.low, row.high) for row in self.rows]
        return sum(low <= middle <= high for low, high in ends if low is not None and high is not None)

    def half(self, *, within: bool) -> float:
        """The median half-width."""
        return statistics.median((row.within_half_width if within else row.half_width) or 0.0 for row in self.rows)


def spread(values: Sequence[float]) -> float:
    """(max − min) / median."""
    return (max(values) - min(values)) / statistics.median(values)


@contextmanager
def beside(load: str) -> Iterator[None]:
    """A busy machine, where `load` is ``bursty``."""
    cores = sorted(os.sched_getaffinity(0)) if load == "bursty" else []
    busy = [multiprocessing.Process(target=burst, args=(core, time.time_ns() + core), daemon=True) for core in cores]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def measure(
    loads: Sequence[str], models: Sequence[Path], arguments: argparse.Namespace
) -> dict[str, dict[str, Series]]:
    """The series of every load and model: all of them once, then a pause, `--reruns` times in all."""
    series = {load: {model.stem: Series() for model in models} for load in loads}
    begin = time.monotonic()
    for index in range(arguments.reruns):
        time.sleep(max(0.0, begin + 60 * arguments.minutes * index / arguments.reruns - time.monotonic()))
        for load, model in product(loads, models):
            store = str(arguments.store / f"{load}.db")
            with beside(load):
                (run,) = edgewise.bench(model, runtimes=[arguments.runtime], meters=False, store=store)
                seconds = series[load][model.stem].add(run)
                series[load][model.stem].bare.append(bare_onnxruntime(model, seconds, 0.0))
    return series


def print_rows(load: str, series: dict[str, Series]) -> None:
    """One row of the table for every model, and one for all."""
    for name, one in series.items():
        n, sources = len(one.rows), ", ".join(f"{one.sources.count(s)} {s}" for s in dict.fromkeys(one.sources))
        print(
            f"| {load} | {name} | {statistics.median(one.values()) * 1e3:.3g} ms | {one.hits(within=False)}/{n} | "
            f"± {one.half(within=False):.1%} | {one.hits(within=True)}/{n} | ± {one.half(within=True):.1%} | "
            f"{spread(one.values()):.1%} | {spread(one.bare):.1%} | {sources} |",
            flush=True,
        )
    total = sum(len(one.rows) for one in series.values())
    hits, within = (sum(one.hits(within=kind) for one in series.values()) for kind in (False, True))
    print(f"| {load} | all | | **{hits / total:.0%}** | | {within / total:.0%} | | | | |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reruns", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--calibrate", type=float, default=10.0)
    parser.add_argument("--load", default="quiet,bursty")
    parser.add_argument("--models", type=Path, nargs="+")
    parser.add_argument("--runtime", default="onnxruntime")
    parser.add_argument("--store", type=Path, help="a folder for the stores, one a load; default: a new one")
    arguments = parser.parse_args()
    arguments.store = arguments.store or Path(tempfile.mkdtemp(prefix="repeatability-"))
    models = arguments.models or [
        bundled("digits_cnn.onnx"),
        *(light_onnx(name) for name in ("shufflenet", "squeezenet")),
    ]
    loads = arguments.load.split(",")
    if arguments.calibrate:
        first = arguments.store / f"{loads[0]}.db"
        edgewise_command(["doctor", "--calibrate", f"{arguments.calibrate:g}min", "--store", str(first)])
        for load in loads[1:]:
            shutil.copy(first, arguments.store / f"{load}.db")
    series = measure(loads, models, arguments)
    columns = (
        "load", "model", "median", "re-run interval holds", "its half-width", "within-run interval holds",
        "its half-width", "spread", "bare loop's", "between runs",
    )  # fmt: skip
    print("| " + " | ".join(columns) + " |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|---|", flush=True)
    for load in loads:
        print_rows(load, series[load])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
