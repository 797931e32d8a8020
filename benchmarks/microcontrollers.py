"""Estimates for microcontrollers: equality of outputs, arenas, predicted counts, and seconds of a command.

    python benchmarks/microcontrollers.py [--graphs 200] [--rounds 3]

Prints the Markdown tables of docs/benchmarks.md. An estimate by emulation is an error unless all bytes of all outputs
equal tflite-micro's, so each one that succeeds is a check.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from models import MLPERF_TINY

import edgewise
from edgewise.errors import EdgewiseError
from edgewise.estimating.base import Estimate
from edgewise.estimating.mcu.cores import CORES
from edgewise.estimating.mcu.firmware import GCC, QEMU
from edgewise.estimating.mcu.lowering import LOWERINGS
from mcu_graphs import write_chains

MODELS = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")
# The chains end with DEQUANTIZE by themselves; the others are parts of other operators, or have other operands.
LEFT_OUT = {"ASSIGN_VARIABLE", "CALL_ONCE", "DEQUANTIZE", "EXPAND_DIMS", "SPLIT_V", "SQUEEZE", "VAR_HANDLE"}
CODES = sorted({*LOWERINGS} - LEFT_OUT)
CHAINS_PER_FILE = 20


def row(*cells: object) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def head(*titles: str) -> None:
    """Print the head of a table; the columns after the first are numbers."""
    print()
    row(*titles)
    row("---", *("--:" for _ in titles[1:]))


def value(estimate: Estimate, metric: str) -> float:
    """Return the value of a metric that the estimate has."""
    found = estimate.measurement(metric)
    assert found is not None and found.value is not None, metric
    return found.value


def counted_and_predicted(models: Sequence[Path]) -> None:
    """Print the instructions by emulation, which compares the outputs, and the error of the prediction."""
    head("instructions by emulation; error of the table", *(path.stem for path in models))
    for core in CORES:
        cells = []
        for path in models:
            counted, ours = (
                value(edgewise.estimate(path, core, settings={"counts": each}), "instructions")
                for each in ("emulation", "table")
            )
            cells.append(f"{counted:,.0f}; {ours / counted - 1:+.1%}")
        row(core, *cells)


def generated(graphs: int) -> None:
    """Print the number of generated graphs whose outputs are compared with tflite-micro's."""
    head("generated graphs with equal outputs", "graphs", "operators", "outputs that differ")
    for core in ("cortex-m0plus", "cortex-m4", "cortex-m55"):
        equal, operators, wrong = 0, 0, 0
        for first in range(0, graphs, CHAINS_PER_FILE):
            chains = [
                (10_000 + seed, [CODES[(seed * 5 + step) % len(CODES)] for step in (0, 7, 20, 11)][: 2 + seed % 3])
                for seed in range(first, first + CHAINS_PER_FILE)
            ]
            with tempfile.TemporaryDirectory() as folder:
                path = write_chains(Path(folder) / "chains.tflite", chains)
                try:
                    found = edgewise.estimate(path, core, settings={"counts": "emulation"})
                except EdgewiseError as error:
                    print(error, file=sys.stderr)
                    wrong += CHAINS_PER_FILE
                    continue
            assert found.refused is None, found.refused
            equal, operators = equal + CHAINS_PER_FILE, operators + sum(each.index is not None for each in found.layers)
        row(core, equal, operators, wrong)


def arenas(models: Sequence[Path]) -> None:
    """Print the plan of edgewise beside tflite-micro's arenas."""
    head("arena, B", "edgewise's plan", "tflite-micro, 64 bits", "with 32 bits")
    for path in models:
        found = edgewise.estimate(path, "cortex-m4")
        plan, wide, narrow = (
            value(found, metric) for metric in ("memory_arena", "memory_arena_tflm", "memory_arena_tflm_32bit")
        )
        row(path.stem, f"{plan:,.0f}", f"{wide:,.0f}", f"{narrow:,.0f}")


def seconds(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Elapsed seconds and processor seconds of a command that succeeds."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    elapsed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(models: Sequence[Path], rounds: int) -> None:
    """Print seconds of `edgewise estimate`: cache empty, cache filled, without compiler and emulator."""
    bare = "without compiler and emulator"
    head("seconds elapsed (CPU time)", "cold", "warm", f"{bare}, cold", f"{bare}, warm")
    assert shutil.which(GCC) and shutil.which(QEMU)
    for path in models:
        estimate = [sys.executable, "-m", "edgewise", "estimate", str(path), "--json", "-d", "cortex-m4"]
        timings: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": [], "bare": [], "bare, warm": []}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "XDG_CACHE_HOME": cache}
                timings["cold"].append(seconds(estimate, environment))
                timings["warm"].append(seconds(estimate, environment))
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "XDG_CACHE_HOME": cache, "PATH": cache}
                timings["bare"].append(seconds(estimate, environment))
                timings["bare, warm"].append(seconds(estimate, environment))
        row(path.stem, *(
            f"{statistics.median(each for each, _ in rows):.2f} ({statistics.median(each for _, each in rows):.2f})"
            for rows in timings.values()
        ))  # fmt: skip


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    models = [MLPERF_TINY / f"{name}.tflite" for name in MODELS]
    elapsed, busy = seconds([sys.executable, "-m", "edgewise", "--help"], os.environ)
    load = f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    print(f"{load}; edgewise --help takes {elapsed:.2f} s ({busy:.2f} s CPU time) here")
    commands(models, arguments.rounds)
    arenas(models)
    counted_and_predicted(models)
    generated(arguments.graphs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
