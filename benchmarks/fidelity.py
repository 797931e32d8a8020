"""Fidelity: edgewise's steady median over the engine's own tool's, interleaved in one run.

    python benchmarks/fidelity.py [--rounds 5] [--seconds 1.5]

Peers: OpenVINO's `benchmark_app` (sync, f32, 1 thread), LiteRT's `litert-benchmark`, and for onnxruntime, which has no
tool in its wheel, a bare loop around `InferenceSession.run_with_iobinding`, the call that its C++ tool makes too. Each
round runs peer and edgewise in fresh processes, in random order; the ratio of a row is the median of the rounds'
ratios. Like is held against like: `benchmark_app` prints OpenVINO's own clock, so edgewise's side of that row is
`latency_engine`; the other peers time the call, so theirs is `latency`. The peers of PyTorch, ExecuTorch, TensorFlow
and Keras are `torch.utils.benchmark.Timer.timeit` and Python's `timeit` around the same calls, in one process with
edgewise's adapter and in turns with it (`taking_turns.py`). The ratio of such a round is the median over its turns of
mean over mean.
Rows of engines that are not installed are left out. Target: 0.98 – 1.02.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from models import onnx_models, tflite_models
from taking_turns import TURN_S, Timer, take_turns
from tensorflow_networks import keras_models, saved_models

import edgewise
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes

BARE_ORT = """
import sys, time, json
import numpy as np, onnxruntime as ort
options = ort.SessionOptions(); options.intra_op_num_threads = 1; options.inter_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
rng = np.random.default_rng(0)
shapes = [[d if isinstance(d, int) else 1 for d in i.shape] for i in session.get_inputs()]
binding = session.io_binding()
for i, s in zip(session.get_inputs(), shapes):
    binding.bind_ortvalue_input(i.name, ort.OrtValue.ortvalue_from_numpy(rng.random(s, dtype=np.float32)))
for o in session.get_outputs(): binding.bind_output(o.name)
run, clock, times = session.run_with_iobinding, time.perf_counter, []
end = clock() + 0.3
while clock() < end: run(binding)
end = clock() + float(sys.argv[2])
while True:
    begin = clock(); run(binding); now = clock(); times.append(now - begin)
    if now > end: break
print(json.dumps(sorted(times)[len(times) // 2]))
"""

# The tool prints two decimals of a millisecond; its verbose log has every run in full.
LITERT = """
import sys, json, logging
from ai_edge_litert.tools import benchmark_litert_model as tool
times = []
class Keep(logging.Handler):
    def emit(self, record):
        if isinstance(record.msg, str) and "%d/%d" in record.msg and isinstance(record.args[-1], float):
            times.append(record.args[-1])
for name in list(logging.root.manager.loggerDict) + [None]:
    logging.getLogger(name).handlers = []
tool.logger.handlers = [Keep()]; tool.logger.propagate = False; tool.logger.setLevel(logging.DEBUG)
sys.argv = ["litert-benchmark", "--model", sys.argv[1], "--num_threads", "1", "--warmup_runs", "50",
            "--num_runs", sys.argv[2], "--verbose"]
try: tool.main()
except SystemExit: pass
tool.logger.setLevel(logging.DEBUG)
print("MEDIAN", json.dumps(sorted(times)[len(times) // 2] / 1e3))
"""


def bare_onnxruntime(model: Path, seconds: float, typical: float) -> float:
    """Median of a bare loop, s."""
    del typical
    answer = subprocess.run(
        [sys.executable, "-c", BARE_ORT, str(model), str(seconds)], capture_output=True, text=True, check=True
    )
    return float(json.loads(answer.stdout))


def benchmark_app(model: Path, seconds: float, typical: float) -> float:
    """Median that OpenVINO's tool prints, s."""
    del typical
    command = [
        str(Path(sys.executable).with_name("benchmark_app")), "-m", str(model), "-d", "CPU", "-api", "sync",
        "-hint", "none", "-nthreads", "1", "-nstreams", "1", "-infer_precision", "f32", "-t",
        str(max(1, round(seconds))),
    ]  # fmt: skip
    shape = first_shape(model)
    text = subprocess.run([*command, "-shape", shape], capture_output=True, text=True, check=True).stdout
    match = re.search(r"Median:\s+([0-9.]+) (us|ms|s)\b", text)
    if match is None:
        raise RuntimeError(text[-2000:])
    return float(match[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[match[2]]


def first_shape(model: Path) -> str:
    """Return the shape that edgewise uses too."""
    from edgewise.model.identity import open_model
    from edgewise.workload.input_shapes import resolve_inputs

    (spec,) = resolve_inputs(open_model(model).signature, batch=1, overrides={})
    return "[" + ",".join(map(str, spec.shape)) + "]"


def litert_benchmark(model: Path, seconds: float, typical: float) -> float:
    """Median of LiteRT's tool, s."""
    runs = str(max(20, round(seconds / typical)))
    text = subprocess.run([sys.executable, "-c", LITERT, str(model), runs], capture_output=True, text=True, check=True)
    return float(text.stdout.split("MEDIAN")[1])


def torch_timer(provider: str) -> Callable[[Path], Timer]:
    """PyTorch's own timer."""
    return lambda model: Timer("torch_networks", (model.stem, provider))


def call_timer(call: str) -> Callable[[Path], Timer]:
    """Python's timer around `call` of a model of TensorFlow or Keras."""
    return lambda model: Timer("tensorflow_networks", (str(model), call))


def executorch_models() -> dict[str, Path]:
    """Name → file. ExecuTorch is imported only where it is there."""
    import executorch_networks

    return executorch_networks.executorch_models()


def torch_models() -> dict[str, Path]:
    """Name → file. PyTorch is imported only where it is there."""
    import torch_networks

    return torch_networks.torch_models()


def ours(model: Path, runtime: str, seconds: float, metric: str) -> float:
    """Edgewise's median of `metric`, one session of the same length, s."""
    (run,) = edgewise.bench(model, runtimes=[runtime], duration=seconds, sessions=1, threads=[1], meters=False)
    value = run.value(metric)
    if value is None:
        raise RuntimeError(f"{runtime} {model}: {run.failure}")
    return value


@dataclass(frozen=True)
class Peer:
    """An engine's own tool.

    Attributes:
        runtime: as ``-r`` takes it.
        tool: for the table.
        models: name → file.
        measure: model, seconds, typical time of an inference in s → the tool's median, s.
        timer: model → a timer that takes turns with edgewise in one process, in place of `measure`.
        metric: of edgewise, which times the same.
    """

    runtime: str
    tool: str
    models: Callable[[], dict[str, Path]]
    measure: Callable[[Path, float, float], float] | None = None
    timer: Callable[[Path], Timer] | None = None
    metric: str = "latency"

    def rounds(
        self, model: Path, count: int, seconds: float, order: random.Random
    ) -> Iterator[tuple[float, float, float]]:
        """Of each round edgewise's median, the tool's, s, and their ratio."""
        if self.timer is not None:
            timer, turns = self.timer(model), round(seconds / TURN_S)
            for index in range(count):
                pairs = take_turns(model, self.runtime, timer, turns=turns, order=order, mine_first=index % 2 == 0)
                mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
                yield mine, theirs, statistics.median(mine / theirs for mine, theirs in pairs)
            return
        typical = ours(model, self.runtime, 0.2, self.metric)
        for _ in range(count):
            first_ours = order.random() < 0.5
            mine = ours(model, self.runtime, seconds, self.metric) if first_ours else 0.0
            theirs = self.measure(model, seconds, typical)
            mine = mine or ours(model, self.runtime, seconds, self.metric)
            yield mine, theirs, mine / theirs

    def missing(self) -> str:
        """Why its rows are left out; "" where they aren't."""
        name, _, provider = self.runtime.partition("/")
        runtime = runtimes().get(name)
        availability = availability_of(runtime)
        if not availability:
            return str(availability.reason)
        known = [each.name for each in runtime.providers]
        return "" if not provider or provider in known else f"{name} has no provider {provider}"


PEERS = (
    Peer("onnxruntime", "bare loop", onnx_models, bare_onnxruntime),
    Peer("openvino", "benchmark_app", onnx_models, benchmark_app, metric="latency_engine"),
    Peer("litert/compiled", "litert-benchmark", tflite_models, litert_benchmark),
    Peer("torch/eager", "benchmark.Timer", torch_models, timer=torch_timer("eager")),
    Peer("torch/compile", "benchmark.Timer", torch_models, timer=torch_timer("compile")),
    Peer("executorch", "timeit", executorch_models, timer=lambda model: Timer("executorch_networks", (str(model),))),
    Peer("tensorflow/function", "timeit", saved_models, timer=call_timer("signature")),
    Peer("keras/function", "timeit", keras_models, timer=call_timer("function")),
    Peer("keras/call", "timeit", keras_models, timer=call_timer("call")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--only", default="", help="part of a runtime's name")
    parser.add_argument("--model", default="", help="part of a model's name")
    arguments = parser.parse_args()
    rng = random.Random(0)
    missed = 0
    print("| runtime | peer | model | edgewise | peer's | ratio | rounds |\n|---|---|---|--:|--:|--:|---|")
    left_out = []
    for peer in PEERS:
        if arguments.only not in peer.runtime:
            continue
        if why := peer.missing():
            left_out.append(f"{peer.runtime} left out: {why}")
            continue
        for name, model in peer.models().items():
            if arguments.model not in name:
                continue
            rounds = list(peer.rounds(model, arguments.rounds, arguments.seconds, rng))
            mine, theirs, ratio = (statistics.median(values) for values in zip(*rounds, strict=True))
            missed += not 0.98 <= ratio <= 1.02
            ratios = [each for _, _, each in rounds]
            print(
                f"| {peer.runtime} | {peer.tool} | {name} | {mine * 1e6:.1f} µs | {theirs * 1e6:.1f} µs "
                f"| **{ratio:.3f}** | {min(ratios):.3f} – {max(ratios):.3f} |",
                flush=True,
            )
    print(f"\n{missed} rows outside 0.98 – 1.02", *left_out, sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
