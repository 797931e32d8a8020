"""Are two environments with one version of an engine "the same", and is a slower release found and named?

    python benchmarks/versions.py [--comparisons 40] [--planted 20] [--profiles 10] [--bisections 3] [--recorded FILE]

The environments are copies of one, with ONNX Runtime of the version that is installed here. In the slower one, the end
of the package's ``__init__.py`` is patched: ``InferenceSession`` opens another file in place of the model. That file
has the same operators, names and outputs, and in one convolution of 3×3 columns of zeros to the right of the kernel:
the engine does more work in this operator, and in no other. The size of the change is not assumed: the time of
both sides is measured over all comparisons together.

Printed: verdicts on one version in two environments; how often the slower environment is found, and its operator named
by the profiles of both; how often `bisect` finds the first slow one of eight releases, simulated with the noise and
the intervals of these comparisons, and measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import edgewise
from edgewise.device import environments
from edgewise.device.target import close_targets
from edgewise.profiling.layer_matching import pair_layers
from edgewise.verbs.bisect import work
from edgewise.verbs.bisect.request import BisectRequest
from edgewise.verbs.bisect.search import Search
from edgewise.verbs.context import Context

CONVOLUTIONS, CHANNELS, SIZE = 14, 16, 28
PLANTED = "conv6"
VERSIONS = [f"1.{minor}.0" for minor in range(9)]
"""The good release and eight later ones."""
MOST_PROBES = 24
LEAST = math.log(1.015)
NOISES = ((0.0008, 0.007), (0.0008, 0.015), (0.007, 0.007), (0.01, 0.01), (0.015, 0.015), (0.014, 0.007))
"""Standard deviations between simulated comparisons, and those that they tell."""
PATCH = """
_Session = InferenceSession
class InferenceSession(_Session):
    def __init__(self, path_or_bytes, *rest, **more):
        if str(path_or_bytes).endswith({name!r}):
            path_or_bytes = {slower!r}
        super().__init__(path_or_bytes, *rest, **more)
"""


def network(columns: int = 0) -> onnx.ModelProto:
    """Convolutions of 3×3 in a row; the kernel of the planted one has more `columns`, which are zero."""
    chance = np.random.default_rng(0)
    nodes, weights, at = [], [], "x"
    for index in range(CONVOLUTIONS):
        name = f"conv{index}"
        kernel = chance.normal(0, np.sqrt(2 / (CHANNELS * 9)), (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        more = columns if name == PLANTED else 0
        kernel = np.pad(kernel, ((0, 0), (0, 0), (0, 0), (0, more)))
        weights.append(numpy_helper.from_array(kernel, f"{name}_w"))
        nodes.append(helper.make_node("Conv", [at, f"{name}_w"], [f"{name}_out"], name=name, pads=[1, 1, 1, 1 + more]))
        nodes.append(helper.make_node("Relu", [f"{name}_out"], [f"relu{index}_out"], name=f"relu{index}"))
        at = f"relu{index}_out"
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, CHANNELS, SIZE, SIZE])
              for name in ("x", at)]  # fmt: skip
    graph = helper.make_graph(nodes, "made", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@dataclass(frozen=True)
class Place:
    """The model, and environments that are copies of one: two with the same engine, and one with the slower."""

    model: Path
    fast: str
    same: str
    slow: str


def make_place(folder: Path, columns: int) -> Place:
    """Make model and environments in `folder`."""
    model, slower = folder / "chain.onnx", folder / "slower.onnx"
    onnx.save(network(), model)
    onnx.save(network(columns), slower)
    feed = {"x": np.random.default_rng(1).normal(size=(1, CHANNELS, SIZE, SIZE)).astype(np.float32)}
    outputs = [onnxruntime.InferenceSession(path).run(None, feed)[0] for path in (model, slower)]
    assert np.allclose(*outputs, atol=1e-5), "both files are one network"
    made = Path(environments.python_of(f"onnxruntime=={onnxruntime.__version__}")).parents[1]
    copies = {name: shutil.copytree(made, folder / name, symlinks=True) for name in ("fast", "same", "slow")}
    (package,) = copies["slow"].glob("lib/python*/site-packages/onnxruntime/__init__.py")
    with package.open("a") as file:
        file.write(PATCH.format(name=model.name, slower=str(slower)))
    return Place(model=model, **{name: str(copy) for name, copy in copies.items()})


@dataclass(frozen=True)
class Row:
    """What a comparison told of the latency: verdict, ratio, its interval, and the standard deviation between times."""

    verdict: str
    ratio: float
    low: float
    high: float
    rerun_sigma: float | None


def compare(place: Place, first: str, second: str) -> Row:
    """Return the row of the latency of the second environment against the first."""
    found = edgewise.compare([place.model], environments=(first, second), runtimes=("onnxruntime",), time_budget=60.0)
    row = next(row for row in found.comparisons if row.metric == "latency")
    return Row(**{each.name: getattr(row, each.name) for each in fields(Row)})


def repeat(number: int, end_by: float, place: Place, second: str) -> list[Row]:
    """As many comparisons as fit."""
    rows: list[Row] = []
    while len(rows) < number and time.monotonic() < end_by:
        rows.append(compare(place, place.fast, second))
        last = rows[-1]
        print(f"<!-- {len(rows)}: {last.verdict} {last.ratio:.4f} ({last.low:.4f} to {last.high:.4f}) -->", flush=True)
    return rows


def names_it(place: Place) -> str:
    """Return the operator with the largest change in the profiles of both environments."""
    runs = edgewise.profile([place.model], environments=(place.fast, place.slow), runtimes=("onnxruntime",))
    pairs = pair_layers(*[run for run in runs if run.profile is not None])
    return max(pairs, key=lambda pair: pair.change or -math.inf).name


Draw = Callable[[bool], tuple[float, float, float]]
"""Logarithm of the ratio of a release that is slow or not, and what the comparison tells of its spread."""


def simulate(draw: Draw, trials: int) -> tuple[float, float]:
    """Share of right releases and average probes."""
    right, probes = 0, 0
    for trial in range(trials):
        first = 1 + trial % (len(VERSIONS) - 1)
        while (bad := draw(True))[0] < LEAST:  # it would not be called slower, and nothing be searched for
            pass
        change, spread, within = bad
        search = Search(number=len(VERSIONS) - 1, change=change, spread=spread, within=within)
        for _ in range(MOST_PROBES):
            if search.is_sure or (at := search.next(())) is None:
                break
            search.update(at, *draw(at >= first))
            probes += 1
        right += search.first[0] == first
    return right / trials, probes / trials


def draw_measured(same: list[Row], slow: list[Row]) -> Draw:
    """Ratios and intervals as they were measured."""
    chance = random.Random(0)

    def draw(is_slow: bool) -> tuple[float, float, float]:
        row = chance.choice(slow if is_slow else same)
        return math.log(row.ratio), *work.spread_of(row)  # type: ignore[arg-type]  # it has what that reads

    return draw


def draw_normal(spread: float, told: float, change: float = math.log(1.031)) -> Draw:
    """Ratios with a normal distribution."""
    chance = random.Random(1)

    def draw(is_slow: bool) -> tuple[float, float, float]:
        return chance.gauss(change if is_slow else 0.0, spread), told, 0.0

    return draw


def bisect(place: Place, first: int) -> tuple[bool, int]:
    """Whether `bisect` finds the first slow release, and how many it probed between the good one and the bad one."""
    found = {
        f"onnxruntime=={version}": place.slow if at >= first else place.fast for at, version in enumerate(VERSIONS)
    }
    python_of = environments.python_of
    store = str(place.model.with_name(f"{first}-{time.monotonic_ns()}.db"))
    with (
        mock.patch.dict(os.environ, EDGEWISE_STORE=store),  # of other searches, in which other versions are slow
        mock.patch.object(work, "releases_of", lambda package: VERSIONS),
        mock.patch.object(environments, "python_of", lambda name: python_of(found.get(name, name))),
        mock.patch.object(work, "carry_out", wraps=work.carry_out) as compared,
    ):
        asked = BisectRequest(model=str(place.model), good=VERSIONS[0], bad=VERSIONS[-1], profile=False)
        result = work.bisect(asked, Context())
    close_targets()  # the next search gives the versions other environments
    print(f"<!-- bisect: {result.first} ({result.probability}), it is {VERSIONS[first]} -->", flush=True)
    return result.first == VERSIONS[first], compared.call_count - 1


def second_use(place: Place) -> float:
    """How long a fresh process prepares an environment that was used before: up to its first session, s."""
    code = (
        "import sys, time; from edgewise.record import TargetSpec; from edgewise.run.executor import facts_of;"
        "from edgewise.device.environments import worker_file;"
        "begin = time.monotonic(); facts_of(TargetSpec(environment=sys.argv[1])); worker_file();"
        "print(time.monotonic() - begin)"
    )
    words = [sys.executable, "-c", code, place.same]
    return statistics.median(float(subprocess.check_output(words, text=True)) for _ in range(7))


def risk(rows: list[Row]) -> str:
    """Verdicts with their numbers."""
    return ", ".join(f"{number} {word}" for word, number in Counter(row.verdict for row in rows).most_common())


def size(rows: list[Row]) -> str:
    """Median ratio, and how far it scatters."""
    ratios = [row.ratio for row in rows if row.ratio]
    return f"{statistics.median(ratios):.4f} ± {statistics.stdev(ratios):.4f}" if len(ratios) > 1 else "–"


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    """Measure all and print the tables."""
    place = make_place(folder, arguments.columns)
    end_by = time.monotonic() + 60.0 * arguments.minutes
    recorded = arguments.recorded
    if recorded is not None and recorded.exists():
        same, slow = ([Row(**row) for row in rows] for rows in json.loads(recorded.read_text()))
    else:
        same = repeat(arguments.comparisons, end_by, place, place.same)
        slow = repeat(arguments.planted, end_by, place, place.slow)
    if recorded is not None:
        recorded.write_text(json.dumps([[asdict(row) for row in rows] for rows in (same, slow)]))
    names: Counter[str] = Counter()
    while names.total() < arguments.profiles and time.monotonic() < end_by:
        names[names_it(place)] += 1
    chance = random.Random(arguments.seed)
    found = []
    while len(found) < arguments.bisections and time.monotonic() < end_by:
        found.append(bisect(place, chance.randrange(1, len(VERSIONS))))
    print("| environments | comparisons | ratio (median ± standard deviation) | verdicts |")
    print("|---|--:|--:|---|")
    print(f"| one version in both | {len(same)} | {size(same)} | {risk(same)} |")
    print(f"| one operator slower in the second | {len(slow)} | {size(slow)} | {risk(slow)} |")
    print(f"\nOperator named first: {names[PLANTED]} of {names.total()}")
    print("\n| bisect over 8 releases | searches | right release | probes on average, beside that of the bad release |")
    print("|---|--:|--:|--:|")
    right, probes = simulate(draw_measured(same, slow), arguments.trials)
    print(f"| simulated, with the noise of these comparisons | {arguments.trials} | {right:.1%} | {probes:.2f} |")
    if found:
        average = statistics.mean(probes for _, probes in found)
        print(f"| measured | {len(found)} | {sum(right for right, _ in found)} | {average:.2f} |")
    print("\n| comparisons differ by | and tell | right release | probes |\n|--:|--:|--:|--:|")
    for spread, told in NOISES:
        right, probes = simulate(draw_normal(spread, told), arguments.trials)
        print(f"| {spread:.2%} | {told:.1%} | {right:.1%} | {probes:.1f} |")
    print(f"\nSecond use of an environment, up to its first session: {second_use(place):.2f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=1, help="of zeros beside the planted kernel")
    parser.add_argument("--comparisons", type=int, default=40, help="of one version in two environments")
    parser.add_argument("--planted", type=int, default=40, help="of the fast environment with the slower")
    parser.add_argument("--profiles", type=int, default=10)
    parser.add_argument("--bisections", type=int, default=3)
    parser.add_argument("--trials", type=int, default=4000, help="simulated searches")
    parser.add_argument("--minutes", type=float, default=25.0, help="no measurement begins later")
    parser.add_argument("--recorded", type=Path, help="keep the comparisons in this file, or take them from it")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, Path(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
