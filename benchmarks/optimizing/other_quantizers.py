"""int8 files by aimet-onnx and modelopt, made in a Python that has these packages; it needs no edgewise.

    PYTHON benchmarks/optimizing/other_quantizers.py SECONDS < jobs.json

Each job is a ``tool``, a ``model``, ``samples`` and a ``folder``. Samples are those that edgewise's passes calibrate on
(``input_0``, ``input_1`` … and ``count``). Writes ``model.onnx`` and ``row.json``: seconds of processor time, of which
a job has at most SECONDS, the most memory, and versions.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

ITERATIONS = 10_000
"""Of AdaRound per layer, as its documentation recommends; for a text detector they take hours on two cores."""
ROUNDED_ON = 32
"""Samples for AdaRound, SeqMSE and the sensitivity of layers: the first two hold the activations of all of them."""
FLIPPED = 10.0
"""Per cent of layers with a higher precision: the default of aimet-onnx."""
GAINED_DB = 3.0
"""What automatic mixed precision has to win over int8 on the samples: half of the noise."""

Feeds = list[dict[str, Any]]


def read_feeds(model: Path, samples: Path) -> Feeds:
    """Return per sample the arrays by names of inputs."""
    graph = onnx.load(model).graph
    weights = {each.name for each in graph.initializer}
    names = [each.name for each in graph.input if each.name not in weights]
    with np.load(samples) as data:
        count = int(data["count"])
        arrays = [data[f"input_{index}"] for index in range(len(names))]
    rows = [len(each) // count for each in arrays]
    return [
        {name: array[at * own : (at + 1) * own] for name, array, own in zip(names, arrays, rows, strict=True)}
        for at in range(count)
    ]


def _simulate(model: Path, scheme: str) -> Any:
    from aimet_onnx import QuantizationSimModel

    # Its default configuration has a scale per output channel of the weights.
    return QuantizationSimModel(onnx.load(model), param_type="int8", activation_type="int8", quant_scheme=scheme)


def _write(sim: Any, folder: Path) -> None:
    """As the integer kernels of onnxruntime want it: int8 weights and int32 biases as constants."""
    made = sim.to_onnx_qdq(export_int32_bias=True, prequantize_constants=True)
    onnx.save(made, folder / "model.onnx")


def aimet(model: Path, feeds: Feeds, folder: Path, *, scheme: str) -> None:
    """Quantise with ranges from the samples."""
    sim = _simulate(model, scheme)
    sim.compute_encodings(feeds)
    _write(sim, folder)


def aimet_adaround(model: Path, feeds: Feeds, folder: Path) -> None:
    """Learn the rounding of weights layer by layer (Nagel et al. 2020), then find ranges of activations."""
    from aimet_onnx import apply_adaround

    sim = _simulate(model, "min_max")
    apply_adaround(sim, feeds[:ROUNDED_ON], num_iterations=ITERATIONS)
    sim.compute_encodings(feeds)
    _write(sim, folder)


def aimet_seqmse(model: Path, feeds: Feeds, folder: Path) -> None:
    """Find ranges of weights by the error of each layer's output, in order, then ranges of activations."""
    from aimet_onnx import apply_seq_mse

    sim = _simulate(model, "min_max")
    apply_seq_mse(sim, feeds[:ROUNDED_ON])
    sim.compute_encodings(feeds)
    _write(sim, folder)


def aimet_mixed(model: Path, feeds: Feeds, folder: Path, *, higher: str) -> None:
    """Leave the most sensitive layers in float, or give their activations 16 bits (aimet-onnx's `lite_mp`)."""
    from aimet_onnx import analyze_per_layer_sensitivity, float16, int8, int16
    from aimet_onnx.lite_mp import flip_layers_to_higher_precision

    sim = _simulate(model, "min_max")
    sim.compute_encodings(feeds)
    found = analyze_per_layer_sensitivity(sim, _make_judge(model, feeds[:ROUNDED_ON]))
    # float16 is not written into the file: such layers are float32 there.
    precision = float16 if higher == "float" else (int8, int16)
    flip_layers_to_higher_precision(sim, found, percent_to_flip=FLIPPED, override_precision=precision)
    sim.compute_encodings(feeds)
    _write(sim, folder)


def aimet_automatic(model: Path, feeds: Feeds, folder: Path) -> None:
    """Give as few activations as it takes 16 bits, greedily (aimet-onnx's `apply_amp`)."""
    from aimet_onnx import int8, int16
    from aimet_onnx.mixed_precision import analyze_mixed_precision_sensitivity, apply_amp

    judge = _make_judge(model, feeds[:ROUNDED_ON])
    sim = _simulate(model, "min_max")
    sim.compute_encodings(feeds)
    wanted = judge(sim.session) + GAINED_DB
    found = analyze_mixed_precision_sensitivity(sim, [(int8, int8), (int8, int16)], judge, feeds)
    apply_amp(sim, found, lambda session: judge(session) >= wanted)
    _write(sim, folder)


def _make_judge(model: Path, feeds: Feeds) -> Callable[[Any], float]:
    """Return what tells the signal-to-noise ratio of the worst output of a session, dB."""
    from onnxruntime import InferenceSession

    whole = InferenceSession(str(model), providers=["CPUExecutionProvider"])
    wanted = [np.stack(each) for each in zip(*(whole.run(None, feed) for feed in feeds), strict=True)]
    signals = [float((each.astype(np.float64) ** 2).sum()) for each in wanted]

    def judge(session: Any) -> float:  # the simulation has other names, in the same order
        found = [np.stack(each) for each in zip(*(session.run(None, feed) for feed in feeds), strict=True)]
        noises = [float(((a.astype(np.float64) - b) ** 2).sum()) for a, b in zip(wanted, found, strict=True)]
        return min(10 * float(np.log10(a / max(b, 1e-30))) for a, b in zip(signals, noises, strict=True))

    return judge


def modelopt(model: Path, feeds: Feeds, folder: Path, *, method: str) -> None:
    """Make NVIDIA's int8 file; what stays in float is float32, since a processor computes float16 slowly."""
    from modelopt.onnx.quantization import quantize

    data = {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
    quantize(
        str(model), quantize_mode="int8", calibration_data=data, calibration_method=method, calibration_eps=["cpu"],
        high_precision_dtype="fp32", output_path=str(folder / "model.onnx"), log_level="WARNING",
    )  # fmt: skip


TOOLS: dict[str, tuple[Callable[..., None], dict[str, str], str]] = {
    "aimet": (aimet, {"scheme": "min_max"}, "aimet-onnx"),
    "aimet-sqnr": (aimet, {"scheme": "tf_enhanced"}, "aimet-onnx"),
    "modelopt-max": (modelopt, {"method": "max"}, "nvidia-modelopt"),
    "modelopt-entropy": (modelopt, {"method": "entropy"}, "nvidia-modelopt"),
    "aimet-mixed-float": (aimet_mixed, {"higher": "float"}, "aimet-onnx"),
    "aimet-mixed-int16": (aimet_mixed, {"higher": "int16"}, "aimet-onnx"),
    "aimet-automatic": (aimet_automatic, {}, "aimet-onnx"),
    "aimet-seqmse": (aimet_seqmse, {}, "aimet-onnx"),
    "aimet-adaround": (aimet_adaround, {}, "aimet-onnx"),
}


def run_job(job: dict[str, Any], limit: int) -> None:
    """Carry one job out, in a process of its own."""
    folder = Path(job["folder"])
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    # One core: the time is processor time, and waiting threads would use it up.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    make, words, _ = TOOLS[job["tool"]]
    # A copy: shapes are written into the file that a tool is given.
    model = Path(shutil.copyfile(job["model"], folder / "float.onnx"))
    make(model, read_feeds(model, Path(job["samples"])), folder, **words)


def main() -> int:
    limit, jobs = int(sys.argv[1]), json.load(sys.stdin)
    # The libraries take longer to import than some files to make: once for all, then a fork for each.
    import aimet_onnx  # noqa: F401
    import modelopt.onnx.quantization  # noqa: F401

    for job in jobs:
        child = os.fork()
        if not child:
            code = 1
            try:
                run_job(job, limit)
                code = 0
            except BaseException as error:
                traceback.print_exc()
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(code)
        _, status, used = os.wait4(child, 0)
        folder, package = Path(job["folder"]), TOOLS[job["tool"]][2]
        why = ""
        if status:
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (9, 24)
            lines = [line for line in (folder / "log.txt").read_text(errors="replace").splitlines() if line.strip()]
            words = lines[-1][:200] if lines else f"ended with status {status}"
            why = f"not done in {limit} s of processor time" if late else words
        document = {
            "name": job["tool"],
            "path": None if why else str(folder / "model.onnx"),
            "why": why,
            "cpu_s": used.ru_utime + used.ru_stime,
            "memory_bytes": used.ru_maxrss * 1024,
            "versions": {name: version(name) for name in (package, "onnxruntime", "onnx", "torch")},
        }
        (folder / "row.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
