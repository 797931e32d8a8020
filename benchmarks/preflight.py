"""Is the pre-flight right? What it predicts of passes, beside what they turn out to do.

python benchmarks/preflight.py [--quick] [--nets NAME…] [--passes NAME…] [--keep FILE]

Every pass is applied to the whole network on random calibration data (which ranges it finds does not change the speed)
and raced against the original by edgewise's own comparison, in fresh processes that take turns.

A sign is ``right`` where prediction and measurement are both faster, both slower or both the same (within 5 %). It is
``near`` where one of them is the same and the other is not, but the prediction's interval holds the measurement, and
``WRONG`` otherwise. The summary counts each way of judging.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import preflight_networks

import edgewise
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import Facts, Pass, PassTask, Recipe, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.microbenchmark_worker import SAMPLES
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.preflight import Preflight
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes
from edgewise.workload.input_shapes import resolve_inputs
from edgewise.workload.inputs import make_arrays

CELLS = {
    "onnx": (
        ("ort-static", "onnxruntime"), ("ort-dynamic", "onnxruntime"), ("onnx-fp16", "onnxruntime"),
        ("nncf-ptq", "openvino"),
    ),
    "tflite": (("litert-static", "litert"), ("litert-dynamic", "litert")),
}  # fmt: skip
SAME = 0.05
TARGET = 0.95


def facts_of(path: Path) -> Facts:
    """Return what passes may know of the network at `path`."""
    model = open_model(path)
    inputs = resolve_inputs(model.signature, batch=1, overrides={})
    return Facts(
        path=path,
        format=model.ref.format,
        graph=read_graph(path, shapes={spec.name: spec.shape for spec in inputs}),
        signature=model.signature,
        quantized=False,
        runtimes=tuple(name for name, runtime in runtimes() if availability_of(runtime)),
        cores=1,
    )


def measure(facts: Facts, one: Pass, recipe: Recipe, runtime: str, rounds: int) -> tuple[float, str]:
    """Return the speed-up of the whole network, NaN and why where there is none."""
    inputs = resolve_inputs(facts.signature, batch=1, overrides={})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = folder / "calibration.npz"
        feeds = [make_arrays(inputs, seed=seed) for seed in range(SAMPLES)]
        write_calibration(samples, feeds, None)
        task = PassTask(model=str(facts.path), format=facts.format, settings=recipe.settings, folder=folder / "made",
                        calibration=samples if one.capabilities.calibrates else None)  # fmt: skip
        (made,) = apply_pass(f"{type(one).__module__}:{type(one).__qualname__}", [task], seconds=300)
        if made.model is None or made.unchanged:
            return math.nan, made.why
        found = edgewise.compare(
            [facts.path, made.model], labels=["before", "after"], runtimes=[runtime], threads=[1], rounds=rounds,
            time_budget=60, metrics=["latency"], force=True,
        ).to_document()  # fmt: skip
    rows = [row for row in found["comparisons"] if row["metric"] == "latency"]
    ratio = rows[0]["ratio"] if rows else None
    return (1.0 / ratio, "") if ratio else (math.nan, json.dumps(rows)[:200])


def word(speedup: float) -> str:
    """faster, slower or same."""
    return "faster" if speedup > 1 + SAME else "slower" if speedup < 1 / (1 + SAME) else "same"


def judge(cell: dict[str, Any]) -> str:
    """Whether the sign is right."""
    predicted, measured = cell["predicted"], cell["measured"]
    if predicted is None or math.isnan(measured):
        return "none"
    if word(predicted) == word(measured):
        return "right"
    opposite = {word(predicted), word(measured)} == {"faster", "slower"}
    return "WRONG" if opposite or not cell["low"] <= measured <= cell["high"] else "near"


def cells(options: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Every network × pass, predicted and measured."""
    known = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    for name, path in preflight_networks.make_networks(folder, quick=options.quick).items():
        if options.nets and name not in options.nets:
            continue
        facts = facts_of(path)
        preflight = Preflight(facts, budget_s=600, trial_s=300, cache=folder / "microbenchmarks")
        for pass_name, runtime in CELLS[facts.format]:
            one = passes().get(pass_name)
            recipes = one.recipes(facts)
            if not recipes or (options.passes and pass_name not in options.passes):
                continue
            begin = time.monotonic()
            told = preflight.predict(one, recipes[0], engines=[runtime])[runtime]
            took = time.monotonic() - begin
            key = f"{name} {pass_name} {runtime}"
            measured, why = known.get(key) or measure(facts, one, recipes[0], runtime, options.rounds)
            if options.keep:
                known[key] = (measured, why)
                options.keep.write_text(json.dumps(known))
            yield {
                "net": name, "pass": pass_name, "runtime": runtime, "predicted": told.speedup, "low": told.low,
                "high": told.high, "measured": measured, "seconds": took, "because": told.because or why,
                "method": told.method,
            }  # fmt: skip


def row(cell: dict[str, Any]) -> str:
    """One line of the table."""
    if cell["predicted"] is None:
        predicted = "–"
    else:
        predicted = f"{cell['predicted']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"
    texts = (
        cell["net"], cell["pass"], cell["runtime"], predicted, f"{cell['measured']:.2f}", judge(cell),
        f"{cell['seconds']:.1f}", cell["because"],
    )  # fmt: skip
    return "| " + " | ".join(texts) + " |"


def sum_up(found: list[dict[str, Any]]) -> None:
    """How often the sign was right, and how far the ratio was off."""
    judged = [cell for cell in found if judge(cell) != "none"]
    if not judged:
        return
    total = len(judged)
    strictly = sum(judge(cell) == "right" for cell in judged)
    harmless = sum(judge(cell) == "right" or word(cell["measured"]) == "same" for cell in judged)
    within = sum(judge(cell) != "WRONG" for cell in judged)
    opposite = sum({word(cell["predicted"]), word(cell["measured"])} == {"faster", "slower"} for cell in judged)
    print(f"\nSame word in {strictly} of {total} cells ({strictly / total:.0%}; target {TARGET:.0%}).")
    print(f"Same word, or measured within 5 % of no change: {harmless}. Right or near: {within}. Opposite: {opposite}.")
    errors = [math.log(cell["predicted"] / cell["measured"]) for cell in judged]
    inside = sum(cell["low"] <= cell["measured"] <= cell["high"] for cell in judged)
    print(f"Interval holds the measurement in {inside} of {len(judged)}.")
    print(f"ln(predicted / measured): median {statistics.median(errors):+.3f}, ", end="")
    print(f"root mean square {math.sqrt(statistics.fmean(error**2 for error in errors)):.3f}.")
    print(f"A prediction took {statistics.median(cell['seconds'] for cell in judged):.1f} s (median).")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small networks only")
    parser.add_argument("--nets", nargs="*", default=())
    parser.add_argument("--passes", nargs="*", default=())
    parser.add_argument("--rounds", type=int, default=3, help="of fresh processes that a measurement takes")
    parser.add_argument("--keep", type=Path, help="JSON file that keeps measurements for the next time")
    options = parser.parse_args()
    print("| network | pass | engine | predicted | measured | sign | s | because |")
    print("|---|---|---|---:|---:|---|---:|---|")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for cell in cells(options, Path(folder)):
            found.append(cell)
            print(row(cell), flush=True)
    sum_up(found)


if __name__ == "__main__":
    main()
