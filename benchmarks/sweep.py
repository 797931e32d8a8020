"""What `edgewise sweep` itself costs: planning, resuming, and the time that it adds to `bench` for each cell.

python benchmarks/sweep.py [CELLS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import yaml

from edgewise.testing import write_fake_model
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.context import Context
from edgewise.verbs.sweep.ledger import Ledger, Outcome
from edgewise.verbs.sweep.request import SweepRequest
from edgewise.verbs.sweep.work import plan_of
from edgewise.verbs.verb import carry_out

MODELS, ROUNDS = 100, 5
OPTIONS = {"iterations": "1", "sessions": "1", "warmup": "0", "meters": "false"}


def suite(folder: Path, models: int, **parts: object) -> str:
    """Return a suite of that many scripted models in `folder`; its path."""
    for number in range(models):
        write_fake_model(folder / f"{number}.fake", latency_ns=[1000 + number])
    content = {"models": ["*.fake"], "runtimes": ["fake"], "options": OPTIONS, **parts}
    (folder / "suite.yaml").write_text(yaml.safe_dump(content))
    return str(folder / "suite.yaml")


def planning(cells: int) -> tuple[float, float]:
    """Seconds of planning that many cells, and of planning them again where all are finished."""
    with tempfile.TemporaryDirectory() as room:
        path = suite(Path(room), MODELS, threads=list(range(1, 11)), repeats=cells // MODELS // 10)
        request = SweepRequest(suite=path, most_cells=cells)
        begin = time.perf_counter()
        plan = plan_of(request)
        planned = time.perf_counter() - begin
        ledger = Ledger(plan.folder)
        plan.folder.mkdir()
        lines = [
            Outcome(key=key, cell=cell.name, status="done", seconds=1.0, finished=0.0)
            for key, cell in zip(plan.keys, plan.cells, strict=True)
        ]
        ledger.write(lines)
        begin = time.perf_counter()
        assert not plan_of(request).waiting
        return planned, time.perf_counter() - begin


def added(cells: int = 10) -> float:
    """Median of the seconds that a cell of a sweep takes more than `bench` of its model, one after the other."""
    more = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as room:
            path = suite(Path(room), cells)
            context = Context(store=str(Path(room) / "runs.db"))
            begin = time.perf_counter()
            for number in range(cells):
                model = str(Path(room) / f"{number}.fake")
                carry_out(
                    BenchRequest(models=(model,), runtimes=("fake",), iterations=1, sessions=1, warmup=0, meters=False),
                    context,
                )
            alone = time.perf_counter() - begin
            begin = time.perf_counter()
            carry_out(SweepRequest(suite=path), context)
            more.append((time.perf_counter() - begin - alone) / cells)
    return statistics.median(more)


def main() -> None:
    """Print them."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    planned, resumed = planning(cells)
    print(f"plan {cells:,} cells: {planned:.1f} s; resume: {resumed:.1f} s")
    print(f"added to bench by a cell: {added() * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
