"""`edgewise bench` of a 1 ms model on one runtime with default settings, beside `benchmark_app -t 5`.

    python benchmarks/end_to_end.py [--rounds 8] [--model FILE]

benchmark_app states no interval, so its honest one is the 95 % range that its reported medians spread over in re-runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from fidelity import benchmark_app

from edgewise.data import path as bundled


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--model", type=Path, default=bundled("digits_cnn.onnx"))
    arguments = parser.parse_args()
    theirs, ours, wall, half_widths = [], [], [], []
    for _ in range(arguments.rounds):
        theirs.append(benchmark_app(arguments.model, 5, 1e-3))
        begin = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "edgewise",
            "bench",
            str(arguments.model),
            "-r",
            "openvino",
            "--json",
            "--no-store",
        ]
        answer = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=True)
        wall.append(time.perf_counter() - begin)
        (run,) = json.loads(answer.stdout)["runs"]
        (latency,) = [row for row in run["measurements"] if row["metric"] == "latency"]
        ours.append(latency["value"])
        half_widths.append((latency["high"] - latency["low"]) / 2 / latency["value"])
    print(f"model {arguments.model.name}, openvino, {arguments.rounds} interleaved rounds")
    print(f"edgewise bench: {statistics.median(wall):.2f} s end to end (max {max(wall):.2f} s; target ≤ 5 s)")
    print(f"  claimed half-width: median {statistics.median(half_widths):.2%}; medians spread {spread(ours):.2%}")
    print(f"benchmark_app -t 5: claims none; medians spread {spread(theirs):.2%} (max − min over median)")
    print(f"  ratio of medians: {statistics.median(ours) / statistics.median(theirs):.3f}")
    return 0


def spread(values: list[float]) -> float:
    """(max − min) / median."""
    return (max(values) - min(values)) / statistics.median(values)


if __name__ == "__main__":
    raise SystemExit(main())
