"""Language models: edgewise's times over the engine's own, and changes of speed that are found.

    python benchmarks/language_models.py MODEL... [--rounds 7] [--throttles 20] [--quiet 20]

MODEL is what the runtime `openvino-genai` reads. Three tables:

- **Fidelity.** OpenVINO GenAI's own `perf_metrics` (time to first token, time per output token) in a plain script and
  edgewise's `ttft_model` and `tpot`, in fresh processes, in random order in each round. The ratio of a row is the
  median of the rounds' ratios. Target: 0.98 – 1.02. The same two values within one process have no noise between them:
  `tests/engine/test_openvino_genai.py`.
- **Planted throttles.** Somewhere between 35 and 65 % of a run a control group (version 1) takes half of a processor
  away until the end. Found means that `tpot` is absent because the speed changed.
- **Without a throttle** the same runs: how many say that it changed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PROMPT, NEW = 64, 32
GROUP = Path("/sys/fs/cgroup/cpu/edgewise-benchmark")

OWN = """
import json, statistics, sys
import numpy as np, openvino, openvino_genai
pipeline = openvino_genai.LLMPipeline(sys.argv[1], "CPU", ATTENTION_BACKEND="SDPA", NUM_STREAMS=1,
                                      INFERENCE_PRECISION_HINT="f32", INFERENCE_NUM_THREADS=1)
config = openvino_genai.GenerationConfig(max_new_tokens=int(sys.argv[3]), ignore_eos=True, do_sample=False)
vocabulary, generator, first, each = len(pipeline.get_tokenizer().get_vocab()), np.random.default_rng(1), [], []
for request in range(int(sys.argv[4]) + 1):
    ids = generator.integers(0, vocabulary, (1, int(sys.argv[2])))
    tokens = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
    metrics = pipeline.generate(tokens, config, lambda piece: False).perf_metrics
    if request:
        first.append(metrics.get_ttft().mean / 1e3)
        each.append(metrics.get_tpot().mean / 1e3)
print(json.dumps([statistics.median(first), statistics.median(each)]))
"""


def bench(model: Path, store: Path, iterations: int, *, group: Path | None = None) -> subprocess.Popen[str]:
    """Begin a run of edgewise in one process; in `group` where one is given."""
    command = [
        *(sys.executable, "-m", "edgewise", "bench", str(model), "-r", "openvino-genai", "--scenario", "generate"),
        *("--prompt-tokens", str(PROMPT), "--new-tokens", str(NEW), "--iterations", str(iterations)),
        *("--sessions", "1", "--threads", "1", "--no-meters", "--json"),
    ]
    if group is not None:
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "tasks"), *command]
    environment = os.environ | {"EDGEWISE_STORE": str(store)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def measurements(process: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    """Metric → measurement of the run."""
    told, errors = process.communicate()
    if not told:
        raise SystemExit(f"edgewise ended with {process.returncode}: {errors}")
    (run,) = json.loads(told)["runs"]
    return {measured["metric"]: measured for measured in run["measurements"]}


def fidelity(model: Path, store: Path, rounds: int, requests: int = 8) -> None:
    """Print the two ratios of a model."""
    ratios: dict[str, list[float]] = {"ttft_model": [], "tpot": []}
    for _ in range(rounds):
        sides = ["own", "edgewise"]
        random.shuffle(sides)
        times: dict[str, list[float]] = {}
        for side in sides:
            if side == "own":
                script = [sys.executable, "-c", OWN, str(model), str(PROMPT), str(NEW), str(requests)]
                times[side] = json.loads(subprocess.check_output(script, text=True))
            else:
                told = measurements(bench(model, store, requests))
                firsts, gaps = told["ttft_model"]["samples"], told["tpot"]["samples"]
                each = [statistics.fmean(gaps[start : start + NEW - 1]) for start in range(0, len(gaps), NEW - 1)]
                times[side] = [statistics.median(firsts), statistics.median(each)]
        for metric, ours, engines in zip(ratios, times["edgewise"], times["own"], strict=True):
            ratios[metric].append(ours / engines)
    for metric, values in ratios.items():
        print(f"{model.name} | {metric} | {statistics.median(values):.3f} | {min(values):.3f} – {max(values):.3f}")


def throttles(model: Path, store: Path, runs: int, *, planted: bool) -> None:
    """Print in how many runs a change of speed was named."""
    GROUP.mkdir(exist_ok=True)
    period = int((GROUP / "cpu.cfs_period_us").read_text())
    requests, named, reasons = 12, 0, []
    (GROUP / "cpu.cfs_quota_us").write_text("-1")
    begin = time.perf_counter()
    measurements(bench(model, store, requests, group=GROUP))
    usual = time.perf_counter() - begin
    for _ in range(runs):
        (GROUP / "cpu.cfs_quota_us").write_text("-1")
        process = bench(model, store, requests, group=GROUP)
        timer = threading.Timer(
            usual * random.uniform(0.35, 0.65), (GROUP / "cpu.cfs_quota_us").write_text, [str(period // 2)]
        )
        if planted:
            timer.start()
        told = measurements(process)["tpot"]
        timer.cancel()
        why = told["absent_because"] or ""
        if "the speed changed" in why:
            named += 1
        else:
            reasons.append(why or f"{told['value']:.4g} s, {told['low']:.4g} to {told['high']:.4g}")
    (GROUP / "cpu.cfs_quota_us").write_text("-1")
    GROUP.rmdir()
    print(f"{model.name} | {'throttled' if planted else 'not throttled'} | {named} of {runs} named")
    for reason in reasons if planted else ():
        print(f"  not named: {reason}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--throttles", type=int, default=20)
    parser.add_argument("--quiet", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        for model in arguments.models:
            if arguments.rounds:
                fidelity(model, store, arguments.rounds)
        first = arguments.models[0]
        if arguments.throttles:
            throttles(first, store, arguments.throttles, planted=True)
        if arguments.quiet:
            throttles(first, store, arguments.quiet, planted=False)


if __name__ == "__main__":
    main()
