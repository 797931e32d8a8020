"""Fits the numbers of ``src/edgewise/estimating/mcu/timing.json`` to published latencies, and measures their errors.

The measurements are MLPerf Tiny's results and EdgeMark's, as CSV files with the columns that `read_mlperf` and
`read_edgemark` read. The instructions of every model are counted by the emulator, as in ``edgewise estimate``.

    python tools/fit_mcu_timing.py mlperf_tiny.csv edgemark.csv FOLDER_OF_MLPERF_TINY_MODELS

It prints the errors as a Markdown table.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mcu_networks import NETWORKS, write_network
from scipy.optimize import least_squares
from scipy.stats import t

from edgewise.estimating.mcu.arena import plan_arena
from edgewise.estimating.mcu.cores import CORES
from edgewise.estimating.mcu.cortex_m import RANDOM_INPUTS, check_outputs, sample_inputs
from edgewise.estimating.mcu.costs import OperatorCosts, typical_costs
from edgewise.estimating.mcu.firmware import emulate
from edgewise.estimating.mcu.lowering import lower
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.reference import run_reference
from edgewise.estimating.mcu.timing import Timing, time_operators, work_of

TARGET = Path(__file__).parents[1] / "src" / "edgewise" / "estimating" / "mcu" / "timing.json"
COVERAGE = 0.9
NORMAL = 1.645
"""Half-width of the central 90 % of a normal distribution, in standard deviations."""
REFERENCE_BOARD = "nucleo-l4r5zi"
MODELS = {"ad": "ad01_int8", "ic": "pretrainedResnet_quant", "kws": "kws_ref_model", "vww": "vww_96_int8"}
EDGEMARK = {"TinyMLPerf_AE": "ad", "TinyMLPerf_ResNet": "ic", "TinyMLPerf_DS_CNN": "kws", "TinyMLPerf_MBNet": "vww"}
RUNTIMES = {
    "TFLM + STM": ("cmsis-nn", "tflite-micro with CMSIS-NN"),
    "EI + STM": ("edge-impulse", "Edge Impulse"),
}
"""Runtime of EdgeMark → class and name of the software."""
SPECIAL = ("max_performance", "min_ram", "float", "native")
"""Parts of the names of systems that are left out: builds for one model, float models, and TVM's own schedules."""
SOFTWARE = {
    "tflm-reference": "tflite-micro's reference kernels",
    "cmsis-nn": "Arm's CMSIS-NN kernels under tflite-micro or TVM",
    "edge-impulse": "Edge Impulse's SDK with CMSIS-NN, from float inputs",
    "vendor": "an engine with kernels of its own: X-CUBE-AI, Plumerai, HALE, ONNC",
}
WORK: Mapping[str, Any] = {
    "classes": {"load": 2, "store": 1, "multiply": 1, "divide": 7, "branch": 3, "float": 1, "vector": 2, "other": 1},
    "flash_byte": 0.625,
}
"""Cycles per instruction without wait states: Cortex-M4 Technical Reference Manual (Arm 100166), table 3-1: loads 2,
taken branches 1 + P with P from 1 to 3, divisions 2 to 12; stores go through the write buffer. Helium: a Cortex-M55
executes two beats of four per cycle (Cortex-M55 Technical Reference Manual). Flash: 5 wait states per 8 bytes, as the
STM32L4R5 reads them at 120 MHz in dual bank mode (ST RM0432)."""
SOURCES = [
    "MLPerf Tiny results v0.5 to v1.2: github.com/mlcommons/tiny_results_v0.5 to tiny_results_v1.2 (Apache-2.0)",
    "EdgeMark: github.com/Black3rror/EdgeMark, benchmarking_results/Experiments.xlsx, commit 3e7237db2d08 (MIT)",
    "Models of EdgeMark: github.com/Black3rror/Benchmarking, target_models, commit c752d4386b0f (MIT)",
]
Levels = dict[str, float]
Costs = Mapping[tuple[str, str], Sequence[OperatorCosts]]
"""Core and model → costs of the operators that are executed."""


@dataclass(frozen=True, slots=True)
class Row:
    """A published latency, as cycles of the core."""

    software: str
    engine: str
    board: str
    core: str
    model: str
    cycles: float

    @property
    def family(self) -> str:
        """The engine without its version."""
        return self.engine.split(" ")[0]


def engine_in(entry: Mapping[str, str]) -> tuple[str, str] | None:
    """Class and name of the software of a result of MLPerf Tiny; None where it is none of `SOFTWARE`."""
    if entry["is_reference"] == "1":
        return "tflm-reference", "tflite-micro 2.3.1"
    if "cmsis" in entry["system"].lower():
        return "cmsis-nn", "TVM with CMSIS-NN"
    for name, field, pattern in (
        ("X-CUBE-AI", "compiler", r"v(\d+\.\d+)"), ("Plumerai", "round", r"v(.*)"), ("HALE", "round", r"v(.*)"),
        ("ONNC", "round", r"v(.*)"),
    ):  # fmt: skip
        if name in entry["compiler"] + entry["framework"] or (name == "HALE" and entry["submitter"] == "bosch"):
            found = re.search(pattern, entry[field])
            return "vendor", f"{name} {found[1] if found else ''}"
    return None


def accepted(entry: Mapping[str, str]) -> bool:
    """Whether a result of MLPerf Tiny is an int8 model of the closed division on a plain Cortex-M."""
    special = any(word in entry["system"].lower() for word in SPECIAL)
    return (
        entry["division"] == "closed"
        and entry["core"].startswith("Cortex-M")
        and not entry["accelerator"]
        and not special
    )


def board_in(entry: Mapping[str, str]) -> str:
    """The board as the catalogue names it."""
    name = entry["board"].lower().replace("_", "-")
    return {"nucleo-h7a3zi": "nucleo-h7a3zi-q"}.get(name, name)


def read_mlperf(path: Path) -> list[Row]:
    """The latencies of MLPerf Tiny; those of one engine, version, board and model are averaged geometrically."""
    found = defaultdict(list)
    for entry in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        engine, core = engine_in(entry), entry["core"].lower().replace("+", "plus")
        if engine and accepted(entry) and core in CORES:
            key = (*engine, board_in(entry), core, entry["benchmark"])
            found[key].append(float(entry["latency_ms"]) * float(entry["clock_mhz"]) * 1e3)
    return [Row(*key, float(np.exp(np.mean(np.log(each))))) for key, each in sorted(found.items())]


def read_edgemark(path: Path) -> list[Row]:
    """The int8 latencies of EdgeMark on the NUCLEO-L4R5ZI, which its firmware runs at 120 MHz."""
    return [
        Row(*RUNTIMES[entry["runtime"]], REFERENCE_BOARD, "cortex-m4", model, float(entry["latency_ms"]) * 120e3)
        for entry in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        if entry["precision"] == "q_full_int_only" and entry["runtime"] in RUNTIMES and entry["latency_ms"]
        if (model := EDGEMARK.get(entry["model"], entry["model"])) in (*MODELS, *NETWORKS)
    ]  # fmt: skip


def count_all(rows: Sequence[Row], models: Path) -> Costs:
    """The costs of the operators of every model of `rows` on every core of them."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for core, model in sorted({(row.core, row.model) for row in rows}):
            path = models / f"{MODELS[model]}.tflite" if model in MODELS else write_network(model, Path(name))
            network = read_network(path)
            plan, offsets = plan_arena(network)
            lowered = lower(network, offsets)
            inputs = sample_inputs(network)
            emulated = emulate(
                network, lowered, core=CORES[core], offsets=offsets, arena_bytes=plan.arena_bytes or 0, inputs=inputs
            )
            check_outputs(path, network, emulated, run_reference(path, inputs, outputs=len(network.outputs)))
            costs = typical_costs(emulated.costs[:RANDOM_INPUTS])
            found[core, model] = [each for each, call in zip(costs, lowered.calls, strict=True) if call]
    return found


def crossed(rows: Sequence[Row], work: Callable[[Row], float]) -> tuple[Levels, Levels, Levels]:
    """Levels of engines, boards and models in log(cycles / work), by least squares.

    The level of the reference board is 0, and so is the mean of the models.
    """
    names = [sorted({getattr(row, kind) for row in rows}) for kind in ("engine", "board", "model")]
    first = REFERENCE_BOARD if REFERENCE_BOARD in names[1] else names[1][0]
    boards, last = [name for name in names[1] if name != first], names[2][-1]
    columns: list[Callable[[Row], float]] = [lambda row, name=name: float(row.engine == name) for name in names[0]]
    columns += [lambda row, name=name: float(row.board == name) for name in boards]
    columns += [lambda row, name=name: float(row.model == name) - float(row.model == last) for name in names[2][:-1]]
    matrix = np.array([[column(row) for column in columns] for row in rows])
    found = np.linalg.lstsq(matrix, np.array([np.log(row.cycles / work(row)) for row in rows]), rcond=None)[0]
    at, end = len(names[0]), len(names[0]) + len(boards)
    models = dict(zip(names[2], [*found[end:], -sum(found[end:])], strict=True))
    return (
        dict(zip(names[0], found, strict=False)),
        {first: 0.0, **dict(zip(boards, found[at:end], strict=True))},
        models,
    )


class Fit:
    """Fits to any part of the published latencies."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        everything = [each for operators in costs.values() for each in operators]
        counted = sum(each.instructions for each in everything)
        waits = WORK["flash_byte"] * sum(each.flash_bytes or 0 for each in everything)
        self.work = {
            **WORK,
            "per_instruction": (sum(work_of(each, {"work": WORK}) for each in everything) - waits) / counted,
            "flash_per_instruction": waits / counted,
        }

    def work_in(self, row: Row) -> float:
        """The work of the row's model on its core, cycles."""
        return sum(work_of(each, {"work": self.work}) for each in self.costs[row.core, row.model])

    def levels(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The factors and overheads, without errors."""
        vendor = [row for row in rows if row.software == "vendor"]
        engines, boards, _ = crossed(vendor, self.work_in)
        cores = {row.board: row.core for row in rows}
        software = {"vendor": (float(np.exp(np.mean(list(engines.values())))), 0.0, 0.0)}
        for name in ("cmsis-nn", "edge-impulse"):
            if own := [row for row in rows if row.software == name]:
                software[name] = self._with_overheads(own)
        if own := [row for row in rows if row.software == "tflm-reference"]:
            logs = [np.log(row.cycles / self.work_in(row)) for row in own]
            software["tflm-reference"] = (float(np.exp(np.mean(logs))), *software["cmsis-nn"][1:])
        return {
            "coverage": COVERAGE,
            "work": self.work,
            "software": {
                name: {
                    "title": SOFTWARE[name],
                    "factor": software[name][0],
                    "operator_cycles": software[name][1],
                    "inference_cycles": software[name][2],
                    "boards": sorted({row.board for row in rows if row.software == name}),
                    "engines": sorted({row.engine for row in rows if row.software == name}),
                    "half_width": 0.0,
                    "overhead_half_width": 0.0,
                    "leave_one_model_out": {"mape": 0.0, "rows": 0, "models": 0},
                }
                for name in SOFTWARE
                if name in software
            },
            "boards": {
                name: {
                    "core": cores[name],
                    "factor": float(np.exp(level)),
                    "half_width": 0.0,
                    "engines": sorted({row.family for row in vendor if row.board == name}),
                }
                for name, level in boards.items()
            },
            "cores": {
                core: {
                    "factor": float(np.exp(np.mean([boards[name] for name in boards if cores[name] == core]))),
                    "half_width": 0.0,
                    "boards": sorted(name for name in boards if cores[name] == core),
                }
                for core in sorted({cores[name] for name in boards})
            },
        }

    def _with_overheads(self, rows: Sequence[Row]) -> tuple[float, float, float]:
        """Factor, cycles per operator and cycles per inference, by least squares of the logarithms."""
        work = np.array([self.work_in(row) for row in rows])
        operators = np.array([len(self.costs[row.core, row.model]) for row in rows])
        cycles = np.array([row.cycles for row in rows])

        def errors(logs: Any) -> Any:
            factor, operator, start = np.exp(logs)
            return np.log((factor * work + operator * operators + start) / cycles)

        found = np.exp(least_squares(errors, np.log([1.3, 1000, 1000])).x)
        return float(found[0]), float(found[1]), float(found[2])

    def predict(self, row: Row, fit: Mapping[str, Any], *, core_only: bool = False) -> Timing:
        """The product's estimate of a published latency."""
        return time_operators(
            self.costs[row.core, row.model], core=row.core, board=None if core_only else row.board,
            software=row.software, fit=fit,
        )  # fmt: skip

    def document(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The fit with the half-widths of its intervals, from leave-one-out errors."""
        fit = self.levels(rows)
        missed = []
        for left, rest in without(rows, lambda row: row.model):
            levels = self.levels(rest)
            # Two models were measured on one board: without them nothing is known of it.
            missed += [(row, self.predict(row, levels)) for row in left if row.board in levels["boards"]]
        for name, entry in fit["software"].items():
            own = [(row, found) for row, found in missed if row.software == name]
            errors = [abs(np.log(found.total / row.cycles)) for row, found in own]
            kernels = [self._kernel_share(row, fit) for row, _ in own]
            entry["half_width"] = bound([each for each, share in zip(errors, kernels, strict=True) if share > 0.8])
            rest = [
                np.sqrt(max(0.0, each**2 - (share * entry["half_width"]) ** 2)) / (1 - share)
                for each, share in zip(errors, kernels, strict=True)
                if share <= 0.8
            ]
            entry["overhead_half_width"] = max(entry["half_width"], bound(rest) if rest else 0.0)
            entry["leave_one_model_out"] = {
                "mape": float(np.mean([abs(found.total / row.cycles - 1) for row, found in own])),
                "rows": len(own),
                "models": len({row.model for row, _ in own}),
            }
        self._add_moves(rows, fit)
        return fit

    def _kernel_share(self, row: Row, fit: Mapping[str, Any]) -> float:
        entry = fit["software"][row.software]
        kernels = entry["factor"] * self.work_in(row)
        overhead = entry["operator_cycles"] * len(self.costs[row.core, row.model]) + entry["inference_cycles"]
        return float(kernels / (kernels + overhead))

    def _add_moves(self, rows: Sequence[Row], fit: dict[str, Any]) -> None:
        """Half-widths of the factors of boards and cores."""
        families = {name: len(entry["engines"]) for name, entry in fit["boards"].items()}
        spread = [error / np.sqrt(1 + 1 / (families[row.board] - 1)) for row, error in self.moves(rows)]
        one = float(np.sqrt(np.mean(np.square(spread)))) if spread else 0.0
        for name, entry in fit["boards"].items():
            entry["half_width"] = NORMAL * one * float(np.sqrt(1 + 1 / families[name]))
        several = [entry["boards"] for entry in fit["cores"].values() if len(entry["boards"]) > 1]
        apart = [np.var([np.log(fit["boards"][name]["factor"]) for name in names], ddof=1) for names in several]
        between = float(np.sqrt(np.mean(apart))) if apart else 0.0
        for entry in fit["cores"].values():
            moved = max(fit["boards"][name]["half_width"] for name in entry["boards"])
            entry["half_width"] = float(np.hypot(moved, NORMAL * between * np.sqrt(1 + 1 / len(entry["boards"]))))

    def moves(self, rows: Sequence[Row]) -> list[tuple[Row, float]]:
        """Log errors of engines on a board where no version of them was in the fit, but other engines were."""
        vendor = [row for row in rows if row.software == "vendor"]
        found = []
        for left, rest in without(vendor, lambda row: (row.family, row.board)):
            engines, boards, models = crossed(rest, self.work_in)
            for row in left:
                if row.engine in engines and row.board in boards and row.model in models:
                    level = engines[row.engine] + boards[row.board] + models[row.model]
                    found.append((row, float(level - np.log(row.cycles / self.work_in(row)))))
        return found


def without(rows: Sequence[Row], group: Callable[[Row], Any]) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows of each group, with those of all other groups."""
    for name in sorted({group(row) for row in rows}):
        yield [row for row in rows if group(row) == name], [row for row in rows if group(row) != name]


def bound(errors: Sequence[float]) -> float:
    """The half-width that contains a further error with the probability `COVERAGE`.

    Split conformal prediction (Vovk et al., Algorithmic Learning in a Random World, 2005) where there are enough
    errors; Student's t for a mean of 0 otherwise.
    """
    count = len(errors)
    rank = int(np.ceil((count + 1) * COVERAGE))
    if count >= 20:
        return float(sorted(errors)[min(rank, count) - 1])
    return float(t.ppf((1 + COVERAGE) / 2, max(count - 1, 1)) * np.sqrt(np.mean(np.square(errors))))


def checked(fit: Fit, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Errors and coverage of the whole fit, intervals included, on rows that it has not seen."""
    found = []
    for name in SOFTWARE:
        own = [row for row in rows if row.software == name]
        models = sorted({row.model for row in own})
        fits = {model: fit.document([row for row in rows if row.model != model]) for model in models}
        seen = [(row, fit.predict(row, fits[row.model])) for row in own]
        found.append(summary(f"{name}: model left out", seen))
    moves = [error for _, error in fit.moves(rows)]
    found.append(
        {"what": "factor of a board, from other engines on it", "rows": len(moves), "models": len(MODELS),
         "mape": float(np.mean(np.abs(np.expm1(moves))))}
    )  # fmt: skip
    vendor = [row for row in rows if row.software == "vendor"]
    for board in sorted({row.board for row in vendor}):
        rest, left = [row for row in vendor if row.board != board], [row for row in vendor if row.board == board]
        if left[0].core in {row.core for row in rest}:
            document = fit.document(rest)
            seen = [(row, fit.predict(row, document, core_only=True)) for row in left]
            found.append(summary(f"vendor: board left out ({board})", seen))
    return found


def summary(what: str, seen: Sequence[tuple[Row, Timing]]) -> dict[str, Any]:
    """Mean absolute percentage error, and the share of the rows that their intervals contain."""
    return {
        "what": what,
        "rows": len(seen),
        "models": len({row.model for row, _ in seen}),
        "mape": float(np.mean([abs(found.total / row.cycles - 1) for row, found in seen])),
        "coverage": float(np.mean([found.low <= row.cycles <= found.high for row, found in seen])),
        "width": float(np.median([found.high / found.total for _, found in seen])),
    }


def power(path: Path) -> dict[str, Any]:
    """How well the power of a board at one supply voltage, from other submissions, tells the energy of an inference."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for entry in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        supply = re.search(r"at ([\d.]+) ?V", entry["hw_notes"])
        if accepted(entry) and entry["energy_uJ"] and supply:
            watts = float(entry["energy_uJ"]) * 1e-6 * float(entry["energy_mode_inf_per_s"])
            found[board_in(entry), f"{float(supply[1]):.1f} V"][entry["round"] + entry["system"]].append(watts)
    errors = []
    for submissions in found.values():
        for name, watts in submissions.items() if len(submissions) > 1 else ():
            others = np.mean([np.mean(np.log(each)) for other, each in submissions.items() if other != name])
            errors += [float(others - np.log(each)) for each in watts]
    return {
        "half_width": bound([abs(each) for each in errors]),
        "mape": float(np.mean(np.abs(np.expm1(errors)))),
        "rows": len(errors),
        "boards": sorted({f"{board} at {supply}" for (board, supply), each in found.items() if len(each) > 1}),
    }


def rounded(value: Any) -> Any:
    """`value` with four significant digits in all numbers."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def main() -> None:
    """Fit, check, write, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("mlperf", "edgemark", "models"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    rows = read_mlperf(given.mlperf) + read_edgemark(given.edgemark)
    fit = Fit(count_all(rows, given.models))
    document = fit.document(rows) | {"power": power(given.mlperf), "checked": checked(fit, rows), "sources": SOURCES}
    TARGET.write_text(json.dumps(rounded(document), indent=1) + "\n", encoding="utf-8")
    print("| Left out of the fit | Latencies | Models | Mean error | In the 90 % interval | Interval: × and ÷ |")
    print("|---|---|---|---|---|---|")
    for row in document["checked"]:
        inside = f"{row['coverage']:.0%} | {row['width']:.2f}" if "coverage" in row else "– | –"
        print(f"| {row['what']} | {row['rows']} | {row['models']} | {row['mape']:.0%} | {inside} |")
    energy = document["power"]
    print(f"| energy: power of a board, from other submissions | {energy['rows']} | 4 | {energy['mape']:.0%} | – | – |")


if __name__ == "__main__":
    main()
