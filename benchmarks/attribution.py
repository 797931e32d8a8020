"""Where the time of real models goes, by engine: how much of it has a name, and what profiling itself costs.

python benchmarks/attribution.py [--quick] [--models FOLDER --runtime NAME]

``--models`` takes every .tflite and .onnx file under a folder instead: an unpacked wheel of mediapipe has landmark
networks, one of silero-vad recurrent ones. Latency and layers are measured in turns, in fresh processes. ``--quick``
takes one process each instead of three, and a few of the other models.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path

import models

import edgewise
from edgewise.profiling.layers import NAMELESS
from edgewise.record import Run
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes

ONNX = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
        "zfnet512")  # fmt: skip
ONNX_OPENVINO = ("resnet50", "shufflenet", "squeezenet")
TINY = ("ad01_fp32", "ad01_int8", "kws_ref_model", "kws_ref_model_float32", "pretrainedResnet",
        "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_float", "vww_96_int8")  # fmt: skip
QUICK = frozenset({"depthwise", "digits_cnn", "light_squeezenet", "vww_96_int8", "kws_ref_model"})
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
    if availability_of(runtimes().get("torch")):
        import torch_networks

        found += [("torch/eager", path) for path in torch_networks.torch_models().values()]
    for runtime, path in found:
        is_there = path.exists() and availability_of(runtimes().get(runtime.partition("/")[0]))
        if is_there and (not quick or path.stem in QUICK):
            yield runtime, path


def cases_under(folder: Path, runtime: str) -> Iterator[tuple[str, Path]]:
    """Every model file under a folder."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".tflite", ".onnx"):
            yield runtime, path


def row(run: Run) -> str:
    """One line of the table."""
    profile = run.profile
    if profile is None:
        why = run.profile_absent_because or (run.failure.message if run.failure else run.status)
        return f"| {run.job.runtime.name} | {run.job.model.name} | not profiled: {why} |"
    operators = [layer for layer in run.layers if layer.kind == "operator"]
    steps = sum(len(layer.engine_nodes) for layer in run.layers)
    lost, eliminated = (sum(1 for each in run.layers if each.kind == kind) for kind in ("unmatched", "eliminated"))
    nameless = sum(layer.time or 0.0 for layer in run.layers if layer.op == NAMELESS)
    macs = [sum(each.macs or 0 for each in layers) for layers in (operators, run.layers)]
    cells = (
        run.job.runtime.name,
        run.job.model.name,
        f"{profile.latency * 1e6:,.0f}",
        f"{profile.operators_time * 1e6:,.0f}",
        f"{profile.overheads_time * 1e6:,.1f}",
        f"{profile.conservation:.1%}",
        f"{profile.attributed:.1%}",
        f"{profile.operators_time / (profile.operators_time + nameless):.1%}",
        f"{macs[0] / macs[1]:.1%}" if macs[1] else "–",
        f"{len(operators)} + {lost} + {eliminated}",
        f"{steps}",
        f"{profile.profiled_latency / profile.latency:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one process each, a few models")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="all .tflite and .onnx files under it instead")
    parser.add_argument("--runtime", default="openvino", help="for --models")
    given = parser.parse_args()
    quick: bool = given.quick
    print(
        "| runtime | model | latency, µs | Σ operators, µs | overheads, µs | conservation | attributed | "
        "of the steps' time | of the MACs | layers + not matched + removed | engine steps | profiled ÷ unprofiled |\n"
        f"{'|---' * 12}|"
    )
    runs = []
    chosen = cases(quick=quick) if given.models is None else cases_under(given.models, given.runtime)
    for runtime, path in chosen:
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
