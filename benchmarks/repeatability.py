"""Do the claimed 95 % intervals hold on this machine, quiet and beside a bursty load?

    python benchmarks/repeatability.py [--reruns 20] [--model FILE] [--runtime onnxruntime]

Re-runs edgewise and a bare loop of the same measured length, interleaved, first quiet and then beside random busy
phases on all cores. Coverage: share of re-runs whose interval contains the grand median of all re-runs (target ≥ 93 %).
Spread: (max − min) / median of the reported medians, edgewise's no wider than the bare loop's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import time
from pathlib import Path

from fidelity import bare_onnxruntime

import edgewise
from edgewise.data import path as bundled


def burst(core: int, seed: int) -> None:
    """Random busy and idle phases on one core until killed."""
    os.sched_setaffinity(0, {core})
    rng = random.Random(seed)
    while True:
        end = time.monotonic() + rng.expovariate(1 / 0.15)
        while time.monotonic() < end:
            pass
        time.sleep(rng.expovariate(1 / 0.3))


def rerun(model: Path, runtime: str, count: int) -> None:
    """Print one row of the table."""
    medians, bare, covered, halves = [], [], [], []
    for _ in range(count):
        (run,) = edgewise.bench(model, runtimes=[runtime], meters=False)
        latency = run.measurement("latency")
        if latency is None or latency.value is None or latency.low is None or latency.high is None:
            raise RuntimeError(f"{run.failure}")
        medians.append(latency.value)
        covered.append((latency.low, latency.high))
        halves.append((latency.high - latency.low) / 2 / latency.value)
        bare.append(bare_onnxruntime(model, sum(latency.samples), 0.0))
    grand = statistics.median(medians)
    hit = sum(low <= grand <= high for low, high in covered) / count
    spread, bare_spread = ((max(v) - min(v)) / statistics.median(v) for v in (medians, bare))
    print(
        f"| {hit:.0%} | ± {statistics.median(halves):.2%} | {spread:.1%} | {bare_spread:.1%} | {grand * 1e6:.1f} µs |",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reruns", type=int, default=20)
    parser.add_argument("--model", type=Path, default=bundled("digits_cnn.onnx"))
    parser.add_argument("--runtime", default="onnxruntime")
    arguments = parser.parse_args()
    print("| load | coverage | median half-width | spread of medians | bare loop's spread | grand median |")
    print("|---|--:|--:|--:|--:|--:|")
    print("| quiet ", end="")
    rerun(arguments.model, arguments.runtime, arguments.reruns)
    cores = sorted(os.sched_getaffinity(0))
    load = [multiprocessing.Process(target=burst, args=(core, core), daemon=True) for core in cores]
    for process in load:
        process.start()
    print("| bursty ", end="")
    try:
        rerun(arguments.model, arguments.runtime, arguments.reruns)
    finally:
        for process in load:
            process.kill()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
