"""A part of `benchmarks/coverage.py`: the interval covers the true median as often as it says. Seeded, so exact."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def bench():
    if not PATH.exists():
        pytest.skip("benchmarks/coverage.py is not part of this distribution")
    spec = importlib.util.spec_from_file_location("benchmark_coverage", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    yield spec.loader.exec_module(module) or module
    del sys.modules[spec.name]


LONG = pytest.mark.long
CELLS = [
    ("normal 2 %", 0.0, 1, 30),
    ("normal 2 %", 0.0, 1, 300),
    ("log-normal 10 %", 0.0, 1, 300),
    ("heavy tail", 0.0, 1, 300),
    ("AR(1) 0.7", 0.0, 1, 300),
    pytest.param("AR(1) 0.9", 0.0, 1, 300, marks=LONG),
    pytest.param("bursts", 0.0, 1, 2000, marks=LONG),
    ("normal 2 %", 0.005, 3, 300),
    ("heavy tail", 0.02, 3, 30),
    pytest.param("AR(1) 0.7", 0.02, 3, 300, marks=LONG),
    pytest.param("log-normal 10 %", 0.0, 5, 300, marks=LONG),
    ("normal 2 %", 0.02, 5, 30),
    pytest.param("AR(1) 0.9", 0.005, 5, 300, marks=LONG),
]


@pytest.mark.parametrize(("scenario", "effect", "sessions", "samples"), CELLS)
def test_coverage(bench, scenario, effect, sessions, samples):
    chosen = next(row for row in bench.SCENARIOS if row.name == scenario)
    cell = bench.simulate(chosen, effect=effect, sessions=sessions, samples=samples, repeats=700, seed=11)
    assert cell.identifiable
    assert 0.92 <= cell.coverage["edgewise"] <= 0.985


def test_the_methods_beside_it_do_not_cover(bench):
    chosen = next(row for row in bench.SCENARIOS if row.name == "AR(1) 0.7")
    cell = bench.simulate(chosen, effect=0.02, sessions=3, samples=300, repeats=200, seed=11)
    assert max(cell.coverage["order statistics"], cell.coverage["bootstrap"]) < 0.5


def test_one_process_is_said_not_to_show_how_processes_differ(bench):
    cell = bench.simulate(bench.SCENARIOS[0], effect=0.02, sessions=1, samples=30, repeats=2, seed=11)
    assert not cell.identifiable
