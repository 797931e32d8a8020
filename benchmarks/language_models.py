"""Language models: edgewise's times over the engine's own, and changes of speed that are found.

    python benchmarks/language_models.py MODEL... [--requests 20] [--rounds 7] [--throttles 20] [--quiet 20]

MODEL is what the runtime `openvino-genai` reads. Four tables:

- **Fidelity, of the same requests.** The engine's own `perf_metrics` of a request and edgewise's times of it, taken by
  the code of a measurement. The ratio of a row is the median over the requests. Target: 0.98 – 1.02.
- **Fidelity, of two processes.** OpenVINO GenAI's own `perf_metrics` (time to first token, time per output token) in a
  plain script and edgewise's `ttft_model` and `tpot`, in fresh processes, in random order in each round. The ratio of a
  row is the median of the rounds' ratios. What differs between two processes on a busy machine is in it.
- **Planted throttles.** Somewhere between 35 and 65 % of the requests of a run, a control group (version 1) takes half
  of a processor away until the end. Found means that `tpot` is absent because the speed changed.
- **Without a throttle** the same runs: how many say that it changed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import edgewise
from edgewise.progress import Event, Progress, RequestsDone
from edgewise.record import Measurement
from edgewise.run.generation import Requests
from edgewise.run.timing import Clock
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.openvino_genai import OpenVinoGenAi

PROMPT, NEW = 64, 32
LEAST_CUT = 0.75
"""Share of the periods with a quota in which it stops a process that it throttles."""
GROUP = Path("/sys/fs/cgroup/cpu/benchmark-of-edgewise")
"""Its name doesn't begin with "edgewise-": a group of that kind without an edgewise that made it is removed."""

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


def bench(model: Path, store: Path, requests: int, progress: Progress | None = None) -> dict[str, Measurement]:
    """Measure a model in one process. Return metric → measurement."""
    (run,) = edgewise.bench(
        model,
        runtimes=["openvino-genai"],
        scenario="generate",
        prompt_tokens=PROMPT,
        new_tokens=NEW,
        iterations=requests,
        sessions=1,
        threads=1,
        meters=False,
        store=str(store),
        progress=progress,
    )
    return {measured.metric: measured for measured in run.measurements}


class Silent:
    """Reports nothing."""

    def lines(self, done: int, average_s: float) -> None:
        """Report no inferences."""

    def beat(self) -> None:
        """Report no sign of life."""


def same_requests(model: Path, requests: int) -> None:
    """Print how edgewise's times of requests compare with the engine's own times of the same ones."""
    session = OpenVinoGenAi().load(model, LoadOptions(provider="cpu", threads=1))
    scenario = {"prompt_tokens": PROMPT, "new_tokens": NEW, "depth": None}
    workload = {"scenario": scenario, "seed": 1, "input_path": None}
    job = {"session": 0, "stopping": {"iterations": requests}, "workload": workload}
    maker = Requests(session, job, Clock.of(session), Silent())
    maker.make()
    pipeline, results = session._pipeline, []

    class Keeping:
        """Keeps what the pipeline returns."""

        def generate(self, *arguments: object) -> None:
            results.append(pipeline.generate(*arguments))

    session._pipeline = Keeping()
    ratios: dict[str, list[float]] = {"ttft_model": [], "tpot": []}
    for _ in range(requests):
        request = maker.make()
        raw = results[-1].perf_metrics.raw_metrics
        ratios["ttft_model"].append((request.tokens[0] - request.ready) / 1e3 / raw.m_times_to_first_token[0])
        ratios["tpot"].append(sum(request.gaps) / 1e3 / sum(raw.m_durations[: NEW - 1]))
    _show_ratios(f"{model.name} | same requests", ratios)


def _show_ratios(name: str, ratios: dict[str, list[float]]) -> None:
    for metric, values in ratios.items():
        print(f"{name} | {metric} | {statistics.median(values):.4f} | {min(values):.3f} – {max(values):.3f}")


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
                told = bench(model, store, requests)
                firsts, gaps = told["ttft_model"].samples, told["tpot"].samples
                each = [statistics.fmean(gaps[start : start + NEW - 1]) for start in range(0, len(gaps), NEW - 1)]
                times[side] = [statistics.median(firsts), statistics.median(each)]
        for metric, ours, engines in zip(ratios, times["edgewise"], times["own"], strict=True):
            ratios[metric].append(ours / engines)
    _show_ratios(f"{model.name} | two processes", ratios)


@contextlib.contextmanager
def control_group() -> Iterator[Callable[[float | None], object]]:
    """Put this process and its children into a group of their own.

    Yields:
        what sets the share of a processor that they have; None is all of it.
    """
    GROUP.mkdir(exist_ok=True)
    period_us = int((GROUP / "cpu.cfs_period_us").read_text())

    def give(share: float | None) -> None:
        (GROUP / "cpu.cfs_quota_us").write_text("-1" if share is None else str(int(share * period_us)))

    give(None)
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield give
    finally:
        (GROUP.parent / "cgroup.procs").write_text(str(os.getpid()))
        GROUP.rmdir()


def cut_periods() -> tuple[int, int]:
    """Return in how many periods of the control group a quota stopped it, and how many periods there were."""
    counts = dict(line.split() for line in (GROUP / "cpu.stat").read_text().splitlines())
    return int(counts["nr_throttled"]), int(counts["nr_periods"])


def throttles(model: Path, store: Path, runs: int, *, planted: bool, requests: int = 12) -> None:
    """Print in how many runs a change of speed was named, and what each run said.

    A quota that seldom stops the process, which other programs slowed already, is no throttle: such runs are repeated.
    """
    named, kept = 0, 0
    told: list[str] = []
    with control_group() as give:
        while kept < runs and len(told) < 3 * runs:
            cut_before, periods_before = cut_periods()
            planned = random.uniform(0.35, 0.65)
            timers: list[threading.Timer] = []

            def watch(event: Event, planned: float = planned, timers: list[threading.Timer] = timers) -> None:
                if planted and not timers and isinstance(event, RequestsDone):
                    expected_s = event.elapsed_s / event.done * requests
                    timers.append(threading.Timer(expected_s * planned - event.elapsed_s, give, [0.5]))
                    timers[0].start()

            tpot = bench(model, store, requests, watch)["tpot"]
            for timer in timers:
                timer.cancel()
            give(None)
            cut, periods = cut_periods()
            share = (cut - cut_before) / max(1, periods - periods_before)
            why = tpot.absent_because or ""
            counts = not planted or share >= LEAST_CUT
            kept += counts
            named += counts and "the speed changed" in why
            told.append(
                f"{planned:.0%}, {share:.0%} of the periods cut{'' if counts else ', not counted'}: " * planted
                + (why or f"{tpot.value:.4g} s, {tpot.low:.4g} to {tpot.high:.4g}")
            )
    print(f"{model.name} | {'throttled' if planted else 'not throttled'} | {named} of {kept} named")
    print("".join(f"  {each}\n" for each in told), end="")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--throttles", type=int, default=20)
    parser.add_argument("--quiet", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        for model in arguments.models:
            if arguments.requests:
                same_requests(model, arguments.requests)
            if arguments.rounds:
                fidelity(model, store, arguments.rounds)
        first = arguments.models[0]
        if arguments.throttles:
            throttles(first, store, arguments.throttles, planted=True)
        if arguments.quiet:
            throttles(first, store, arguments.quiet, planted=False)


if __name__ == "__main__":
    main()
