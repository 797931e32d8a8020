"""What edgewise itself costs: the timed loop, a worker's start-up, the command line's start.

python benchmarks/overhead.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import asdict

import edgewise
from edgewise.data import path as bundled
from edgewise.record import Stopping
from edgewise.run.timing import Clock, single_stream


class EmptyEngine:
    """An engine that does nothing."""

    inputs = outputs = ()
    effective: dict[str, object] = {}

    def invoke(self) -> None:
        """Nothing."""


class NoReporter:
    """Nobody listens."""

    def lines(self, done: int, average_s: float) -> None:
        """Nothing."""

    def beat(self) -> None:
        """Nothing."""


def loop_overhead() -> float:
    """Median of what the timed loop adds to an empty engine, s."""
    session = EmptyEngine()
    stopping = asdict(Stopping(warmup=1000, iterations=50_000))
    steady = single_stream(session, stopping=stopping, clock=Clock.of(session), reporter=NoReporter())
    return statistics.median(steady.samples["latency"]) * 1e-9


def seconds_of(*command: str) -> float:
    """Wall time of one command, s."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def worker_start() -> tuple[float, float]:
    """Medians over 10 interleaved rounds: a bare engine import, and a worker up to the end of its import phase, s."""
    bare, ours = [], []
    for _ in range(10):
        bare.append(seconds_of(sys.executable, "-c", "import onnxruntime"))
        (run,) = edgewise.bench(
            bundled("digits_cnn.onnx"), runtimes=["onnxruntime"], iterations=1, warmup=1, meters=False
        )
        phases = run.sessions[0].phases
        ours.append(phases["python"] + phases["prepare"] + phases["import"])
    return statistics.median(bare), statistics.median(ours)


def main() -> int:
    print(f"timed loop on an empty engine, median: {loop_overhead() * 1e9:.0f} ns (target ≤ 1000 ns)")
    bare, ours = worker_start()
    print(f"python -c 'import onnxruntime': {bare * 1e3:.0f} ms; worker to the end of its import: {ours * 1e3:.0f} ms;")
    print(f"  ratio {ours / bare:.2f}, difference {(ours - bare) * 1e3:+.0f} ms (target ≤ +150 ms)")
    helps, pythons = [], []
    for _ in range(10):
        helps.append(seconds_of(sys.executable, "-m", "edgewise", "--help"))
        pythons.append(seconds_of(sys.executable, "-c", "pass"))
    help_s, python_s = statistics.median(helps), statistics.median(pythons)
    print(f"start of edgewise --help: {help_s * 1e3:.0f} ms (target ≤ 250 ms); python -c pass: {python_s * 1e3:.0f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
