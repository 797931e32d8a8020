"""Fits the times of `edgewise.estimating.mvp` on published results, and writes ``src/edgewise/estimating/mvp.json``.

    python tools/fit_mvp.py RESULTS.csv MODELS

RESULTS.csv has the rows of MLPerf Tiny (https://github.com/mlcommons/tiny_results_v0.7 and v1.0; columns round,
submitter, benchmark, clock_mhz, latency_ms, energy_uJ); MODELS is the folder with the benchmark's four models. Silicon
Labs measured two drivers on the same board: v0.7 has the Gecko SDK 4.0, v1.0 the Gecko SDK 4.1. Two numbers are
fitted on the eight latencies; the error of a model comes from a fit without its two rows.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import optimize, stats

from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mvp import CLOCK_HZ, CORE, cycles_of, place
from edgewise.estimating.mvp_programs import Programs
from edgewise.estimating.processor import processor_part
from edgewise.model.identity import read_graph

MODELS = {"ad": "ad01_int8", "ic": "pretrainedResnet_quant", "kws": "kws_ref_model", "vww": "vww_96_int8"}
SOFTWARE = {"v0.7": "gecko-sdk-4.0", "v1.0": "gecko-sdk-4.1"}
SCALED_FIRST = {"gecko-sdk-4.0": False, "gecko-sdk-4.1": True}
COVERAGE = 0.9
TARGET = Path(__file__).parent.parent / "src" / "edgewise" / "estimating" / "mvp.json"


@dataclass(frozen=True)
class Row:
    """A published result: latency and power, and what the model of it consists of."""

    benchmark: str
    software: str
    cycles: float
    power: float
    programs: tuple[Programs, ...]
    cpu_cycles: float

    def estimate(self, numbers: np.ndarray) -> float:
        """Cycles with ``wait`` and ``start``."""
        wait, start = numbers
        return self.cpu_cycles + sum(cycles_of(each, wait=wait, start=start)[0] for each in self.programs)


def read_rows(results: Path, models: Path) -> list[Row]:
    """Return the published rows of Silicon Labs."""
    found = []
    for line in csv.DictReader(results.read_text(encoding="utf-8").splitlines()):
        if line["submitter"] != "silicon_labs" or line["round"] not in SOFTWARE:
            continue
        software, path = SOFTWARE[line["round"]], models / f"{MODELS[line['benchmark']]}.tflite"
        placed = place(read_network(path), scaled_first=SCALED_FIRST[software])
        part = processor_part(path, read_graph(path), placed.left, core=CORE, clock_hz=CLOCK_HZ)
        if part.seconds is None:
            print(f"{path.name}: without the time of {len(placed.left)} operators on the CPU: {part.absent_because}")
            part = replace(part, seconds=0.0)
        latency = float(line["latency_ms"]) / 1e3
        found.append(Row(line["benchmark"], software, latency * CLOCK_HZ, float(line["energy_uJ"]) / 1e6 / latency,
                         tuple(placed.programs.values()), part.seconds * CLOCK_HZ))  # fmt: skip
    return found


def fit(rows: list[Row]) -> np.ndarray:
    """``wait`` (cycles per byte) and ``start`` (cycles per program) with the least squared relative errors."""

    def errors(numbers: np.ndarray) -> list[float]:
        return [math.log(row.estimate(numbers) / row.cycles) for row in rows]

    found = optimize.least_squares(errors, [0.25, 1500.0], bounds=(0, np.inf), x_scale=[0.1, 500])
    return found.x


def main() -> None:
    """Fit, print the errors, write the file."""
    rows = read_rows(Path(sys.argv[1]), Path(sys.argv[2]))
    numbers = fit(rows)
    unseen = {}
    for benchmark in MODELS:
        without = fit([row for row in rows if row.benchmark != benchmark])
        for row in rows:
            if row.benchmark == benchmark:
                unseen[row] = math.log(row.estimate(without) / row.cycles)
                print(f"{benchmark} {row.software}: {row.estimate(numbers) / row.cycles - 1:+.1%} in the fit, "
                      f"{math.exp(unseen[row]) - 1:+.1%} without the model")  # fmt: skip
    print("wait, start:", numbers)
    spread = math.sqrt(sum(each**2 for each in unseen.values()) / len(unseen))
    # The two rows of a model share its error: as many degrees of freedom as models, less one.
    half = float(stats.t.ppf((1 + COVERAGE) / 2, len(MODELS) - 1)) * spread
    told = {}
    for software, scaled_first in SCALED_FIRST.items():
        power = [row.power for row in rows if row.software == software]
        errors = [abs(math.expm1(each)) for row, each in unseen.items() if row.software == software]
        told[software] = {
            "scaled_first": scaled_first,
            **{name: float(f"{value:.4g}") for name, value in zip(("wait", "start"), numbers, strict=True)},
            "half_width": round(half, 4),
            "coverage": COVERAGE,
            "rows": len(rows),
            "mean_error": round(sum(errors) / len(errors), 4),
            "largest_error": round(max(errors), 4),
            "power": {name: round(f(power), 6) for name, f in (("mean", np.mean), ("low", min), ("high", max))},
        }
    TARGET.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
