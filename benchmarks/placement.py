"""What do layers in float gain that `optimize` chooses by their times? Float, int8 and mixed files in turns.

    python benchmarks/placement.py NETWORK.onnx… [--seconds 2] [--recipe LABEL] [-o FILE.json]

For each network: the usual file of `ort-static` (or the recipe called LABEL), times of its layers and of the float
file's, the file with those layers in float that would save time (`edgewise.optimizing.placement`), and then all three
in turns in ONNX Runtime on one thread. Inputs are random, so this tells speed, not accuracy.

All is in one process, and the latencies are processor time, so that it also works on a machine with other work, where
`optimize` itself, which times layers in processes of their own, finds that nothing is proven. The times of layers are
the profiler's, scaled to that latency.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.errors import EdgewiseError
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import CannotApply, PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.placement import find_placement
from edgewise.optimizing.planning import facts_of
from edgewise.profiling.layers import build_profile
from edgewise.record import Measurement, Run, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan
from edgewise.runtime.base import LoadOptions, runtimes
from edgewise.stats.paired import paired_ratio
from edgewise.workload.input_shapes import resolve_inputs
from edgewise.workload.inputs import make_arrays

SAMPLES, ROUNDS, TURN_S = 2, 41, 0.02
SURE = 0.02
"""Half-width of the interval of a latency of many inferences, relative."""


def quantize(model: Path, folder: Path, label: str | None, keep: tuple[str, ...] = ()) -> Path:
    """Return the int8 file of a network with the layers `keep` in float. Raises `CannotApply`."""
    folder.mkdir()
    one = passes().get("ort-static")
    recipes = {recipe.label: recipe for recipe in one.recipes(facts_of(model))}
    recipe = recipes[next(iter(recipes)) if label is None else label]
    inputs, samples = resolve_inputs(open_model(model).signature, batch=1, overrides={}), folder / "samples.npz"
    write_calibration(samples, [make_arrays(inputs, seed=seed) for seed in range(SAMPLES)], None)
    made = one.apply(PassTask(
        model=str(model), format="onnx", settings=recipe.settings, folder=folder, keep_float=keep, calibration=samples
    ))  # fmt: skip
    assert made.model is not None
    return made.model


def open_session(model: Path, *, profile: bool = False) -> Any:
    """Return a session of ONNX Runtime on one thread, with its inputs."""
    runtime, inputs = runtimes().get("onnxruntime"), resolve_inputs(open_model(model).signature, batch=1, overrides={})
    options = LoadOptions(
        provider=runtime.providers[0].name, threads=1, profile=profile,
        shapes={spec.name: spec.shape for spec in inputs}, dtypes={spec.name: spec.dtype for spec in inputs},
    )  # fmt: skip
    session = runtime.load(model, options)
    session.bind(make_arrays(inputs, seed=0))
    return session


def time_one(infer: Callable[[], object], seconds: float, *, least: int = 1) -> float:
    """Return the processor time of an inference, s."""
    begin, count = time.process_time(), 0
    while count < least or time.process_time() - begin < seconds:
        infer()
        count += 1
    return (time.process_time() - begin) / count


def profile(model: Path, seconds: float) -> Run:
    """Return a run with the times of the layers."""
    session = open_session(model, profile=True)
    infer = session._infer
    infer()
    latency = time_one(infer, seconds / 3, least=3)
    found = session.profile_layers(max(5, int(seconds / 2 / latency)))
    layers, _ = build_profile(read_graph(model), [found], latency=latency, uncertainty=SURE)
    axes = Axes(runtimes=("onnxruntime",), threads=(1,))
    plan = make_plan([str(model)], axes=axes, scenario=Scenario(), stopping=Stopping(), target=TargetSpec())
    row = Measurement(
        metric="latency", value=latency, unit="s", basis="measured", method="processor time",
        low=latency * (1 - SURE), high=latency * (1 + SURE),
    )  # fmt: skip
    return Run(id=model.name, created_at="", job=plan.jobs[0], status="done", measurements=(row,), layers=layers)


def measure(model: Path, label: str | None, *, seconds: float, work: Path) -> dict[str, Any]:
    """Return a row of the table."""
    int8 = quantize(model, work / "int8", label)
    found = find_placement(profile(model, seconds), profile(int8, seconds))
    files = {"float": model, "int8": int8}
    if found.layers:
        files["mixed"] = quantize(model, work / "mixed", label, found.layers)
    sessions = {name: open_session(file) for name, file in files.items()}
    times: dict[str, list[float]] = {name: [] for name in files}
    order, shuffled = list(files), random.Random(0)
    for _ in range(ROUNDS):
        shuffled.shuffle(order)
        for name in order:
            sessions[name]._infer()
            times[name].append(time_one(sessions[name]._infer, TURN_S))

    def ratio(one: str, other: str) -> list[float] | None:
        if not {one, other} <= times.keys():
            return None
        value, half = paired_ratio(list(zip(times[other], times[one], strict=True)))
        return [round(value, 3), round(value - half, 3), round(value + half, 3)]

    return {
        "float_s": median(times["float"]),
        "int8/float": ratio("int8", "float"),
        "mixed/float": ratio("mixed", "float"),
        "mixed/int8": ratio("mixed", "int8"),
        "pays": found.pays,
        "predicted/float": round(1 / found.prediction.speedup, 3) if found.prediction.speedup else None,
        "kept": len(found.names),
        "names": list(found.names[:6]),
        "bytes": {name: file.stat().st_size for name, file in files.items()},
    }


def main() -> None:
    """Print a row of JSON per network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each profile")
    parser.add_argument("--recipe", help="label of ort-static's recipe; default: the usual one")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rows = {}
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows[model.stem] = measure(model, options.recipe, seconds=options.seconds, work=Path(folder))
            except (CannotApply, EdgewiseError, KeyError) as error:
                rows[model.stem] = {"why": str(error)}
        print(model.stem, json.dumps(rows[model.stem]), flush=True)
        if options.output is not None:
            options.output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
