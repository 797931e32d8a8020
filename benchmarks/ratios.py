"""Do the intervals of ratios hold for another hour, quiet and beside a bursty load?

    python benchmarks/ratios.py record FILE.jsonl [--runs 20] [--load 'as it is,bursty'] [--pause 0]
                                [--pairs 'digits onnxruntime/litert,…']
    python benchmarks/ratios.py table FILE.jsonl …

*record* compares every pair `--runs` times, by turns on the machine as it is and beside random busy phases on all
cores, all in one new store, and appends a line a comparison. *table* prints, for each pair, the share of comparisons
whose interval holds the median ratio of all of them: of the interval within a comparison, and of that for another time;
target of the latter: 90 % or more. Half-widths are medians.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from models import light_onnx
from repeatability import LOADS

import edgewise
from edgewise.data import path as bundled


def engines(path: Path) -> tuple[str, str]:
    return f"{path},runtime=onnxruntime", f"{path},runtime=openvino"


PAIRS = {
    "shufflenet onnxruntime/openvino": lambda: engines(light_onnx("shufflenet")),
    "squeezenet onnxruntime/openvino": lambda: engines(light_onnx("squeezenet")),
    "squeezenet/shufflenet openvino": lambda: tuple(
        f"{light_onnx(name)},runtime=openvino" for name in ("squeezenet", "shufflenet")
    ),
    "digits onnxruntime/litert": lambda: (str(bundled("digits_cnn.onnx")), str(bundled("digits_cnn.tflite"))),
    "digits float32/int8 litert": lambda: (str(bundled("digits_cnn.tflite")), str(bundled("digits_cnn_int8.tflite"))),
}
"""Engines, models and precisions; in the cache and beyond it."""


def record(arguments: argparse.Namespace) -> None:
    loads = arguments.load.split(",")
    with tempfile.TemporaryDirectory() as folder:
        for index in range(arguments.runs):
            load = loads[index % len(loads)]
            for pair in arguments.pairs.split(","):
                with LOADS[load]():
                    found = edgewise.compare(
                        list(PAIRS[pair]()), rounds=5, time_budget=60, store=str(Path(folder, "runs.db"))
                    )
                row = next(each for each in found.comparisons if each.metric == "latency")
                names = ("ratio", "low", "high", "rerun_low", "rerun_high", "rerun_method")
                line = {name: getattr(row, name) for name in names} | {"pair": pair, "load": load, "at": time.time()}
                with arguments.files[0].open("a") as file:
                    file.write(json.dumps(line) + "\n")
            time.sleep(arguments.pause)


def table(files: list[Path]) -> None:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row["rerun_low"] is not None:
                rows[row["pair"]].append(row)
    print("| pair | comparisons | ratios | within one holds | half-width | another time holds | half-width |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    total = [0, 0, 0]
    for pair, found in rows.items():
        middle = statistics.median(row["ratio"] for row in found)
        cells = [pair, str(len(found)), "{:.3f} to {:.3f}".format(*_ends(row["ratio"] for row in found))]
        total[0] += len(found)
        for place, (low, high) in enumerate((("low", "high"), ("rerun_low", "rerun_high")), start=1):
            held = sum(row[low] <= middle <= row[high] for row in found)
            half = statistics.median(math.log(row[high] / row[low]) / 2 for row in found)
            cells += [f"{held} of {len(found)}", f"{half:.1%}"]
            total[place] += held
        print(f"| {' | '.join(cells)} |")
    print(f"\n{total[1]} of {total[0]} within, {total[2]} of {total[0]} for another time")


def _ends(values: Any) -> tuple[float, float]:
    kept = list(values)
    return min(kept), max(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "table"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", default=",".join(LOADS))
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--pairs", default=",".join(PAIRS))
    arguments = parser.parse_args()
    if arguments.what == "record":
        record(arguments)
    else:
        table(arguments.files)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
