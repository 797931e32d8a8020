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
from mcu_networks import NETWORKS, write_network

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
ENGINES = {"X-CUBE-AI": "X-CUBE-AI", "Plumerai": "Plumerai", "Bosch": "HALE", "ONNC": "ONNC"}
"""Word in a result of MLPerf Tiny → name of the engine. ONNC names CMSIS as its library, but needs fewer cycles than
CMSIS-NN's kernels have instructions on a Cortex-M4, so it has kernels of its own."""
SPECIAL = ("max_performance", "min_ram", "float", "native")
"""Parts of the names of systems that are left out: builds for one model, float models, and TVM's own schedules."""
SOFTWARE = {
    "cmsis-nn": "Arm's CMSIS-NN kernels under tflite-micro or TVM",
    "tflm-reference": "tflite-micro's reference kernels",
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
STM32L4R5 reads them at 120 MHz in dual bank mode, whose words have 64 bits (ST RM0432)."""
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
    text = entry["compiler"] + entry["framework"]
    name = next((name for word, name in ENGINES.items() if word in text), None)
    version = re.search(r"v\d+\.\d+", entry["compiler"] or entry["round"])
    return ("vendor", f"{name} {version[0]}") if name and version else None


def results(path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the results of int8 models in MLPerf Tiny's closed division on a plain Cortex-M, and the board of each."""
    for entry in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        special = entry["accelerator"] or any(word in entry["system"].lower() for word in SPECIAL)
        if entry["division"] == "closed" and entry["core"].startswith("Cortex-M") and not special:
            board = entry["board"].lower().replace("_", "-")
            yield entry, "nucleo-h7a3zi-q" if board == "nucleo-h7a3zi" else board


def read_mlperf(path: Path) -> list[Row]:
    """Return the latencies of MLPerf Tiny; those of one engine, version, board and model are averaged geometrically."""
    found = defaultdict(list)
    for entry, board in results(path):
        engine, core = engine_in(entry), entry["core"].lower().replace("+", "plus")
        if engine and core in CORES:
            cycles = float(entry["latency_ms"]) * float(entry["clock_mhz"]) * 1e3
            found[*engine, board, core, entry["benchmark"]].append(np.log(cycles))
    return [Row(*key, float(np.exp(np.mean(logs)))) for key, logs in sorted(found.items())]


def read_edgemark(path: Path) -> list[Row]:
    """Return the int8 latencies of EdgeMark on the NUCLEO-L4R5ZI, which its firmware runs at 120 MHz."""
    return [
        Row(*RUNTIMES[entry["runtime"]], REFERENCE_BOARD, "cortex-m4", model, float(entry["latency_ms"]) * 120e3)
        for entry in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        if entry["precision"] == "q_full_int_only" and entry["runtime"] in RUNTIMES and entry["latency_ms"]
        if (model := EDGEMARK.get(entry["model"], entry["model"])) in (*MODELS, *NETWORKS)
    ]  # fmt: skip


def count_all(rows: Sequence[Row], models: Path) -> Costs:
    """Return the costs of the operators of every model of `rows` on every core of them."""
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
    engines, boards, models = (sorted({getattr(row, kind) for row in rows}) for kind in ("engine", "board", "model"))
    boards.sort(key=lambda name: name != REFERENCE_BOARD)
    matrix = np.array(
        [
            [row.engine == name for name in engines]
            + [row.board == name for name in boards[1:]]
            + [float(row.model == name) - (row.model == models[-1]) for name in models[:-1]]
            for row in rows
        ],
        float,
    )
    found = np.linalg.lstsq(matrix, np.log([row.cycles / work(row) for row in rows]), rcond=None)[0]
    first, second, third = np.split(found, [len(engines), len(engines) + len(boards) - 1])
    levels = first, [0.0, *second], [*third, -third.sum()]
    return tuple(dict(zip(*each, strict=True)) for each in zip((engines, boards, models), levels, strict=True))


def names_of(kind: str, rows: Sequence[Row], **wanted: str) -> list[str]:
    """Return the engines, families or boards of the rows with the attributes `wanted`."""
    return sorted({getattr(row, kind) for row in rows if all(getattr(row, key) == wanted[key] for key in wanted)})


def place(level: float, **more: Any) -> dict[str, Any]:
    """Return a board or a core."""
    return {"factor": float(np.exp(level)), "half_width": 0.0, **more}


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
        """Return the work of the row's model on its core, cycles."""
        return sum(work_of(each, {"work": self.work}) for each in self.costs[row.core, row.model])

    def levels(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the factors and overheads, without errors."""
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
        places = {name: [each for each in boards if cores[each] == name] for name in {cores[each] for each in boards}}
        return {
            "coverage": COVERAGE,
            "work": self.work,
            "software": {
                name: {
                    "title": SOFTWARE[name],
                    **dict(zip(("factor", "operator_cycles", "inference_cycles"), numbers, strict=True)),
                    **dict.fromkeys(("half_width", "overhead_half_width"), 0.0),
                    "leave_one_model_out": dict.fromkeys(("mape", "rows", "models"), 0),
                    **{f"{kind}s": names_of(kind, rows, software=name) for kind in ("board", "engine")},
                }
                for name in SOFTWARE
                if (numbers := software.get(name))
            },
            "boards": {
                name: place(level, core=cores[name], engines=names_of("family", vendor, board=name))
                for name, level in boards.items()
            },
            "cores": {
                name: place(np.mean([boards[each] for each in own]), boards=own) for name, own in sorted(places.items())
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
        """Return the product's estimate of a published latency."""
        return time_operators(
            self.costs[row.core, row.model], core=row.core, board=None if core_only else row.board,
            software=row.software, fit=fit,
        )  # fmt: skip

    def document(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the fit with the half-widths of its intervals, from leave-one-out errors."""
        fit = self.levels(rows)
        missed = []
        for left, rest in without(rows, lambda row: row.model):
            levels = self.levels(rest)
            # Two models were measured on one board: without them nothing is known of it.
            missed += [(row, self.predict(row, levels)) for row in left if row.board in levels["boards"]]
        for name, entry in fit["software"].items():
            own = [(row, found) for row, found in missed if row.software == name]
            errors = np.array([abs(np.log(found.total / row.cycles)) for row, found in own])
            starts = [len(found.operators) * entry["operator_cycles"] + entry["inference_cycles"] for _, found in own]
            overhead = np.array([start / found.total for start, (_, found) in zip(starts, own, strict=True)])
            entry["half_width"] = width = bound(errors[overhead < 0.2])
            left = np.sqrt(np.maximum(0, errors**2 - ((1 - overhead) * width) ** 2))[overhead >= 0.2]
            entry["overhead_half_width"] = max(width, bound(left / overhead[overhead >= 0.2]) if len(left) else 0.0)
            entry["leave_one_model_out"] = summary(own)
        self._add_moves(rows, fit)
        return fit

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
    """Yield the rows of each group, with those of all other groups."""
    for name in sorted({group(row) for row in rows}):
        yield [row for row in rows if group(row) == name], [row for row in rows if group(row) != name]


def bound(errors: Any) -> float:
    """Return the half-width that contains a further error with the probability `COVERAGE`.

    Split conformal prediction (Vovk et al., Algorithmic Learning in a Random World, 2005) where there are enough
    errors; Student's t for a mean of 0 otherwise.
    """
    count = len(errors)
    rank = int(np.ceil((count + 1) * COVERAGE))
    if count >= 20:
        return float(sorted(errors)[min(rank, count) - 1])
    return float(t.ppf((1 + COVERAGE) / 2, max(count - 1, 1)) * np.sqrt(np.mean(np.square(errors))))


def checked(fit: Fit, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Errors and coverage of the whole fit, intervals included, on rows that it has not seen."""
    for name in SOFTWARE:
        seen = []
        for left, rest in without([row for row in rows if row.software == name], lambda row: row.model):
            document = fit.document(rest + [row for row in rows if row.software != name and row.model != left[0].model])
            seen += [(row, fit.predict(row, document)) for row in left]
        yield {"what": f"{name}: the model", **summary(seen)}
    left = [row for row in rows if row.engine.startswith("TVM")]
    document = fit.document([row for row in rows if row not in left])
    yield {"what": "cmsis-nn: the runtime (TVM)", **summary([(row, fit.predict(row, document)) for row in left])}
    moves = [error for _, error in fit.moves(rows)]
    mape = float(np.mean(np.abs(np.expm1(moves))))
    yield {"what": "vendor: the engine on this board", "rows": len(moves), "models": len(MODELS), "mape": mape}
    for left, rest in without([row for row in rows if row.software == "vendor"], lambda row: row.board):
        if left[0].core in {row.core for row in rest}:
            document = fit.document(rest)
            seen = [(row, fit.predict(row, document, core_only=True)) for row in left]
            yield {"what": f"vendor: the board {left[0].board}", **summary(seen)}


def summary(seen: Sequence[tuple[Row, Timing]]) -> dict[str, Any]:
    """Mean absolute percentage error, and the share of the rows that their intervals contain."""
    return {
        "rows": len(seen),
        "models": len({row.model for row, _ in seen}),
        "mape": float(np.mean([abs(found.total / row.cycles - 1) for row, found in seen])),
        "coverage": float(np.mean([found.low <= row.cycles <= found.high for row, found in seen])),
        "width": float(np.exp(np.median([found.half_width for _, found in seen]))),
    }


def power(path: Path) -> dict[str, Any]:
    """How well the power of a board at one supply voltage, from other submissions, tells the energy of an inference."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for entry, board in results(path):
        if entry["energy_uJ"] and (supply := re.search(r"at ([\d.]+) ?V", entry["hw_notes"])):
            watts = float(entry["energy_uJ"]) * 1e-6 * float(entry["energy_mode_inf_per_s"])
            found[f"{board} at {float(supply[1]):.1f} V"][entry["round"] + entry["system"]].append(np.log(watts))
    several = {name: list(each.values()) for name, each in sorted(found.items()) if len(each) > 1}
    errors = [
        float(np.mean([np.mean(other) for other in submissions if other is not own]) - each)
        for submissions in several.values()
        for own in submissions
        for each in own
    ]
    mape = float(np.mean(np.abs(np.expm1(errors))))
    return {"half_width": bound(np.abs(errors)), "mape": mape, "rows": len(errors), "boards": list(several)}


def main() -> None:
    """Fit, check, write, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("mlperf", "edgemark", "models"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    rows = read_mlperf(given.mlperf) + read_edgemark(given.edgemark)
    fit = Fit(count_all(rows, given.models))
    document = fit.document(rows)
    document |= {"power": power(given.mlperf), "checked": list(checked(fit, rows)), "sources": SOURCES}
    rounded = json.loads(json.dumps(document), parse_float=lambda text: float(f"{float(text):.4g}"))
    TARGET.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    print("| Left out of the fit | Latencies | Models | Mean error | In the 90 % interval | Interval: × and ÷ |")
    print("|---|---|---|---|---|---|")
    for row in document["checked"]:
        inside = f"{row['coverage']:.0%} | {row['width']:.2f}" if "coverage" in row else "– | –"
        print(f"| {row['what']} | {row['rows']} | {row['models']} | {row['mape']:.0%} | {inside} |")
    energy = document["power"]
    print(f"| energy: the submission, whose latency is known | {energy['rows']} | 4 | {energy['mape']:.0%} | – | – |")


if __name__ == "__main__":
    main()
