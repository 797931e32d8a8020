"""Do the layers of a profile add up to its whole and to its latency, as the machine is and beside a bursty load?

    python benchmarks/profile_sums.py [--reruns 20] [--load 'as it is,bursty'] [--runtimes onnxruntime,openvino,litert]

Profiles networks of every runtime in turns, `--reruns` times each runtime, on the machine as it is and beside random
busy phases on all cores. Printed per runtime: in how many profiles the sum of the layers lies within 5 % of the whole,
and of the latency in the header; the least and the most of both; and by how much the share of the operators differs
between the profiles of one network at most, which says whether the parts themselves hold.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from models import MLPERF_TINY, light_onnx
from repeatability import LOADS

import edgewise
from edgewise.data import path as bundled
from edgewise.record import Run

LOW, HIGH, AIM = 0.95, 1.05, 0.95


def networks(runtime: str) -> list[Path]:
    """From some ten microseconds to some ten milliseconds."""
    if runtime == "litert":
        found = [bundled("digits_cnn.tflite"), MLPERF_TINY / "vww_96_float.tflite", MLPERF_TINY / "vww_96_int8.tflite"]
    else:
        found = [bundled("digits_cnn.onnx"), light_onnx("shufflenet"), light_onnx("squeezenet")]
    return [path for path in found if path.exists()]


def sums(run: Run) -> tuple[float, float, float]:
    """Return the sum of the layers over the whole and over the latency, and the share of the operators."""
    latency = run.value("latency")
    if run.profile is None or not latency:
        raise RuntimeError(run.profile_absent_because or f"no latency: {run.failure}")
    total = sum(layer.time or 0.0 for layer in run.layers)
    return total / run.profile.latency, total / latency, run.profile.operators_time / run.profile.latency


def column(ratios: list[float]) -> str:
    """How many lie within the bounds, and the ends."""
    inside = sum(LOW <= ratio <= HIGH for ratio in ratios)
    return f"{inside}/{len(ratios)} | {min(ratios):.3f} – {max(ratios):.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reruns", type=int, default=20)
    parser.add_argument("--load", default="as it is,bursty")
    parser.add_argument("--runtimes", default="onnxruntime,openvino,litert")
    arguments = parser.parse_args()
    loads, runtimes = arguments.load.split(","), arguments.runtimes.split(",")
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for index in range(arguments.reruns):
        for load in loads:
            for runtime in runtimes:
                models = networks(runtime)
                with LOADS[load]():
                    (run,) = edgewise.profile(models[index % len(models)], runtimes=[runtime])
                found[load, runtime].append(sums(run))
                print(f"<!-- {load} {runtime} {run.job.model.name} {sums(run)} -->", flush=True)
    print("| load | runtime | Σ layers ÷ whole within 5 % | from – to | ÷ latency within | from – to | operators |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for (load, runtime), rows in found.items():
        wholes, latencies, shares = (list(ratios) for ratios in zip(*rows, strict=True))
        count = len(networks(runtime))
        differ = max(max(shares[at::count]) - min(shares[at::count]) for at in range(min(count, len(shares))))
        print(f"| {load} | {runtime} | {column(wholes)} | {column(latencies)} | {differ:.1%} |")
    enough = all(sum(LOW <= row[0] <= HIGH for row in rows) >= AIM * len(rows) for rows in found.values())
    return 0 if enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
