"""Where the time of real models goes, by engine: how much of it has a name, and what profiling itself costs.

python benchmarks/attribution.py [--quick]

Latency is measured without profiling and layers with it, in fresh processes of one run. ``--quick`` takes one process
each instead of three, and a few models.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path

import models

import edgewise
from edgewise.record import Run
from edgewise.run import profiled
from edgewise.runtime.base import availability_of, runtimes

ONNX = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
        "zfnet512")  # fmt: skip
ONNX_OPENVINO = ("resnet50", "shufflenet", "squeezenet")
TINY = ("ad01_fp32", "ad01_int8", "kws_ref_model", "kws_ref_model_float32", "pretrainedResnet",
        "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_float", "vww_96_int8")  # fmt: skip
QUICK = frozenset({"digits_cnn", "light_squeezenet", "vww_96_int8", "kws_ref_model"})
TARGET = 0.99
"""Share of the latency that shall have a name."""


def cases(*, quick: bool) -> Iterator[tuple[str, Path]]:
    """Runtime and model file, of those that are here."""
    digits = [("onnxruntime", "digits_cnn.onnx"), ("openvino", "digits_cnn.onnx")]
    digits += [(runtime, "digits_cnn.tflite") for runtime in ("litert", "openvino")]
    found = [(runtime, models.bundled(file)) for runtime, file in digits]
    found += [(runtime, models.MLPERF_TINY / f"{name}.tflite") for name in TINY for runtime in ("litert", "openvino")]
    found += [("onnxruntime", models.light_onnx(name)) for name in ONNX]
    found += [("openvino", models.light_onnx(name)) for name in ONNX_OPENVINO]
    for runtime, path in found:
        if path.exists() and availability_of(runtimes().get(runtime)) and (not quick or path.stem in QUICK):
            yield runtime, path


def row(run: Run) -> str:
    """One line of the table."""
    profile = run.profile
    if profile is None:
        why = run.profile_absent_because or (run.failure.message if run.failure else run.status)
        return f"| {run.job.runtime.name} | {run.job.model.name} | not profiled: {why} |"
    operators = [layer for layer in run.layers if layer.kind == "operator"]
    steps = sum(len(layer.engine_nodes) for layer in run.layers)
    eliminated = sum(1 for layer in run.layers if layer.kind == "eliminated")
    cells = (
        run.job.runtime.name,
        run.job.model.name,
        f"{profile.latency * 1e6:,.0f}",
        f"{profile.operators_time * 1e6:,.0f}",
        f"{profile.overheads_time * 1e6:,.1f}",
        f"{profile.conservation:.1%}",
        f"{profile.attributed:.1%}",
        f"{len(operators)} + {eliminated}",
        f"{steps}",
        f"{profile.profiled_latency / profile.latency:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one process each, a few models")
    quick: bool = parser.parse_args().quick
    if quick:
        profiled.SESSIONS = 1
    print(
        "| runtime | model | latency, µs | Σ operators, µs | overheads, µs | conservation | attributed | "
        "layers + eliminated | engine steps | profiled ÷ unprofiled |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    runs = []
    for runtime, path in cases(quick=quick):
        runs += edgewise.profile(path, runtimes=[runtime], sessions=1 if quick else 3)
        print(row(runs[-1]), flush=True)
    profiles = [run.profile for run in runs if run.profile is not None]
    if not profiles:
        print("\nnothing could be profiled: install an engine")
        return 1
    attributed = [profile.attributed for profile in profiles]
    ratios = [profile.profiled_latency / profile.latency for profile in profiles]
    print(
        f"\n{sum(share >= TARGET for share in attributed)} of {len(runs)} attribute at least {TARGET:.0%} "
        f"(least {min(attributed):.1%}); profiled ÷ unprofiled: median {statistics.median(ratios):.2f}, "
        f"most {max(ratios):.2f}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
