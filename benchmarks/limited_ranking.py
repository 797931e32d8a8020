"""Do image classifiers rank in the same order within one CPU as without limits?

    python benchmarks/limited_ranking.py [--repeat 4]

Classifiers of the `onnx` package in ONNX Runtime with one thread, each execution a fresh process with 10 inferences.
Printed: the mean of each relative to the first one, and the pairs that can be told apart in both conditions, with those
whose order is another one within the limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path

import onnx

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = (
    "squeezenet",
    "shufflenet",
    "inception_v1",
    "inception_v2",
    "bvlc_alexnet",
    "densenet121",
    "resnet50",
    "zfnet512",
    "vgg19",
)
METRICS = ("cpu_time", "total_time")
LIMITS = {"no limits": (), "1 CPU": ("--cpus", "1")}
SCRIPT = """
import sys
import numpy as np
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 3
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feeds = {one.name: np.ones(one.shape, np.float32) for one in session.get_inputs()}
for _ in range(10):
    session.run(None, feeds)
"""

Interval = tuple[float, float, float]
"""Value, low and high in seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, choices=range(3, 100), default=4, metavar="3…")
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "infer.py")
        script.write_text(SCRIPT)
        measured = {limit: execute(script, repeat, words) for limit, words in LIMITS.items()}
    columns = [(metric, limit) for metric in METRICS for limit in LIMITS]
    print("| Model |" + "".join(f" {metric}, {limit} |" for metric, limit in columns))
    print("|---|" + "--:|" * len(columns))
    for name in NAMES:
        cells = (measured[limit][metric] for metric, limit in columns)
        print(f"| {name} |" + "".join(f" {rows[name][0] / rows[NAMES[0]][0]:.2f} |" for rows in cells))
    for metric in METRICS:
        free, limited = (told_apart(measured[limit][metric]) for limit in LIMITS)
        reversed_ = free & {(slow, fast) for fast, slow in limited}
        pairs = len(NAMES) * (len(NAMES) - 1) // 2
        print(f"{metric}: {len(free & limited)} of {pairs} pairs told apart in both, reversed: {sorted(reversed_)}")
    return 0


def execute(script: Path, repeat: int, limits: tuple[str, ...]) -> dict[str, dict[str, Interval]]:
    """Return metric → model → its time over `repeat` executions of each, in random order."""
    models = ",".join(str(LIGHT / f"light_{name}.onnx") for name in NAMES)
    words = ["exec", *limits, "--no-store", "-q", "--json", "--sample", "0s", "--repeat", str(repeat), "-m", models]
    command = [sys.executable, "-m", "edgewise", *words, "--", sys.executable, str(script), "{model}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, Interval]] = {metric: {} for metric in METRICS}
    for run in json.loads(answer.stdout)["runs"]:
        name = run["job"]["model"]["name"].removeprefix("light_").removesuffix(".onnx")
        for row in run["measurements"]:
            if row["metric"] in found:
                found[row["metric"]][name] = (row["value"], row["low"], row["high"])
    return found


def told_apart(rows: dict[str, Interval]) -> set[tuple[str, str]]:
    """Return the pairs whose intervals do not overlap, the faster one first."""
    pairs = (sorted(pair, key=rows.__getitem__) for pair in combinations(rows, 2))
    return {(fast, slow) for fast, slow in pairs if rows[fast][2] < rows[slow][1]}


if __name__ == "__main__":
    raise SystemExit(main())
