"""How long estimates for Ethos-U take: every int8 model of MLPerf Tiny on one NPU per family, Vela's process included.

    python benchmarks/vela.py [--rounds 3]

The first estimate of a process also imports; it is not counted. CPU time is that of this process and of Vela's, which
other load on the machine does not change much.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from models import MLPERF_TINY

import edgewise

MODELS = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")
DEVICES = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-512")
TARGET_S = 1.0


def main() -> int:
    """Print a table of medians; 1 if one is above the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    edgewise.estimate(MLPERF_TINY / f"{MODELS[0]}.tflite", DEVICES[0])
    slowest = 0.0
    print("| model | device | median | slowest | CPU time |\n|---|---|--:|--:|--:|")
    for model in MODELS:
        for device in DEVICES:
            times, busy = [], []
            for _ in range(rounds):
                begin, used = time.perf_counter(), sum(os.times()[:4])
                edgewise.estimate(MLPERF_TINY / f"{model}.tflite", device)
                times.append(time.perf_counter() - begin)
                busy.append(sum(os.times()[:4]) - used)
            median, cpu = statistics.median(times), statistics.median(busy)
            slowest = max(slowest, median)
            print(f"| {model} | {device} | {median:.2f} s | {max(times):.2f} s | {cpu:.2f} s |")
    print(f"slowest median: {slowest:.2f} s (target ≤ {TARGET_S:g} s)")
    return int(slowest > TARGET_S)


if __name__ == "__main__":
    raise SystemExit(main())
