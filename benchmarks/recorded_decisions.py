"""How often is `compare` wrong, and does it see what is there, on this machine's own noise?

    python benchmarks/recorded_decisions.py record --file F.npz [--rounds 90] [--model FILE]
    python benchmarks/recorded_decisions.py replay --file F.npz [--trials 1000]
    python benchmarks/recorded_decisions.py live [--trials 30] [--cases same,3%,10%,bursts]

*record* keeps the samples of many rounds of one model against itself, quiet and beside a bursty load on every core.
*replay* draws trials from them: rounds in a row from a random start, sides swapped at random, slowdowns planted by
multiplying; the rules, the looks and the minute are those of the product, and other tools' rules see the same samples.
*live* carries out whole comparisons; there the slowdown is a busy wait after each inference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from decisions import PLANTED, TESTS, Tally, percent, print_tallies
from noise import bursty_load, planted_engine
from onnx import helper, numpy_helper
from peers import PEERS
from stopping_rule import judge

from edgewise.comparing.comparison import ComparisonResult
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.trial import BUDGET_S, TrialSettings, run_trial
from edgewise.record import Job, Run, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan

LOADS = ("quiet", "bursty")
CASES = {
    "same": ("planted0", False),
    "3%": ("planted3", False),
    "10%": ("planted10", False),
    "bursts": ("planted0", True),
    "bursts 10%": ("planted10", True),
}
"""Case → the provider of B, and whether there is a bursty load."""
TRUTH = {"planted0": 1.0, "planted3": 1.03, "planted10": 1.1}


def millisecond_onnx() -> Path:
    """Two convolutions of 64 channels with random weights: about 1 ms on one core."""
    generator = np.random.default_rng(0)
    weights = {f"w{index}": generator.normal(0.0, 0.05, (64, 64, 3, 3)).astype(np.float32) for index in range(2)}
    nodes = [
        helper.make_node("Conv", ["x" if not index else f"t{index}", name], [f"t{index + 1}"], pads=[1, 1, 1, 1])
        for index, name in enumerate(weights)
    ]
    graph = helper.make_graph(
        nodes,
        "millisecond",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64, 28, 28])],
        [helper.make_tensor_value_info("t2", onnx.TensorProto.FLOAT, [1, 64, 28, 28])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = Path(tempfile.gettempdir()) / "edgewise-benchmark-millisecond.onnx"
    onnx.save(model, path)
    return path


def job_of(model: Path, provider: str) -> Job:
    """One thread of the planted engine."""
    plan = make_plan(
        [model],
        axes=Axes(runtimes=[f"planted/{provider}"], threads=[1]),
        scenario=Scenario(),
        stopping=Stopping(),
        target=TargetSpec(),
    )
    return plan.jobs[0]


def measure(model: Path, provider: str, trial: TrialSettings, *, patient: bool = False) -> ComparisonResult:
    """Return the model against itself, B with a planted slowdown; `patient` never stops before the budget or the
    rounds.
    """

    def keep_nothing(_: Run) -> None:
        """Benchmarks leave no runs behind."""

    return run_trial(
        [job_of(model, "planted0"), job_of(model, provider)],
        labels=["A", "B"],
        criteria=Criteria(),
        trial=trial,
        save=keep_nothing,
        settled=(lambda _: None) if patient else None,
    )


def load_of(bursty: bool) -> contextlib.AbstractContextManager[None]:
    """Return the burst load, or none."""
    return bursty_load() if bursty else contextlib.nullcontext()


# -- recorded ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """Rounds of one model against itself.

    Attributes:
        sessions: per round and side, samples in s; of different lengths.
        seconds: a round took, on average.
        first: which side's process was started first, shape (rounds,).
        turns: per round and side, inferences of each turn.
    """

    sessions: list[tuple[np.ndarray, np.ndarray]]
    seconds: float
    first: np.ndarray
    turns: list[tuple[list[int], list[int]]]

    @property
    def ratios(self) -> np.ndarray:
        """What the product makes of each round: 1 and the median ratio of neighbouring turns, shape (rounds, 2)."""
        found = []
        for pair, counts in zip(self.sessions, self.turns, strict=True):
            logs = [
                np.log([np.median(turn) for turn in np.split(side, np.cumsum(count)[:-1])])
                for side, count in zip(pair, counts, strict=True)
            ]
            most = min(map(len, logs))
            found.append([1.0, float(np.exp(np.median(logs[1][:most] - logs[0][:most])))])
        return np.array(found)

    @property
    def medians(self) -> np.ndarray:
        """Of each process, shape (rounds, 2)."""
        return np.array([[np.median(side) for side in pair] for pair in self.sessions])


def record(file: Path, *, model: Path, rounds: int, seed: int) -> None:
    """Measure and keep."""
    kept: dict[str, np.ndarray] = {}
    for load in LOADS:
        with load_of(load == "bursty"):
            trial = TrialSettings(budget_s=20.0 * rounds, seed=seed, rounds=rounds)
            found = measure(model, "planted0", trial, patient=True)
        if found.failures or not found.pairs or found.elapsed_s is None:
            raise RuntimeError(f"{load}: {dict(found.failures)} {found.stopped_because}")
        rows = [variant.run.measurement("latency") for variant in found.variants]
        starts = [[session.started_at for session in variant.run.sessions] for variant in found.variants]
        kept[f"{load}_samples"] = np.concatenate([np.array(row.samples, dtype=np.float32) for row in rows if row])
        kept[f"{load}_lengths"] = np.array([row.session_lengths for row in rows if row])
        turns = [[one.facts["steady"]["turns"] for one in variant.run.sessions] for variant in found.variants]
        kept[f"{load}_turns"] = np.array(json.dumps(turns))
        kept[f"{load}_seconds"] = np.array(found.elapsed_s / found.pairs)
        kept[f"{load}_first"] = np.array([int(b < a) for a, b in zip(*starts, strict=True)])
    np.savez_compressed(file, **kept)
    describe(file)


def read(file: Path, load: str) -> Recording:
    """Return what was recorded under one load."""
    with np.load(file) as kept:
        samples, lengths = kept[f"{load}_samples"].astype(np.float64), kept[f"{load}_lengths"]
        parts = np.split(samples, np.cumsum(lengths.ravel())[:-1])
        rounds = lengths.shape[1]
        sessions = list(zip(parts[:rounds], parts[rounds:], strict=True))
        turns = list(zip(*json.loads(str(kept[f"{load}_turns"])), strict=True))
        return Recording(sessions, float(kept[f"{load}_seconds"]), kept[f"{load}_first"], turns)


def describe(file: Path) -> None:
    """Print what the recording is like, and whether the process that is started first is at an advantage."""
    print("| load | rounds | s a round | latency | ± of a process | ± of a pair | ± of turns | first, % faster |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for load in LOADS:
        kept = read(file, load)
        logs = np.log(kept.medians)
        difference = logs[:, 1] - logs[:, 0]
        ahead = 100.0 * np.where(kept.first == 0, difference, -difference)
        place = f"{ahead.mean():+.2f} ± {1.96 * ahead.std(ddof=1) / len(ahead) ** 0.5:.2f}"
        print(
            f"| {load} | {len(logs)} | {kept.seconds:.2f} | {np.median(kept.medians) * 1e6:.0f} µs "
            f"| {100 * logs.std():.2f} % | {100 * difference.std(ddof=1):.2f} % "
            f"| {100 * np.log(kept.ratios[:, 1]).std(ddof=1):.2f} % | {place} |"
        )


def replays(kept: Recording, *, trials: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Trials of a minute each: ratios, shape (1, rounds, 2), and samples of equal length, (1, rounds, 2, samples)."""
    generator = np.random.default_rng(seed)
    total = len(kept.sessions)
    rounds = min(total, max(5, int(BUDGET_S / kept.seconds)))
    size = min(len(side) for pair in kept.sessions for side in pair)
    cut = np.array([[side[:size] for side in pair] for pair in kept.sessions])
    ratios = kept.ratios
    for _ in range(trials):
        chosen = (generator.integers(total) + np.arange(rounds)) % total
        side = generator.integers(2, size=rounds)
        order = np.stack([side, 1 - side], axis=1)
        yield ratios[chosen[:, None], order][None], cut[chosen[:, None], order][None]


def replay(file: Path, *, trials: int, seed: int) -> None:
    """Print the tables of errors on recorded noise."""
    describe(file)
    rows = []
    for load in LOADS:
        tallies = [Tally(planted) for planted in PLANTED]
        kept = read(file, load)
        for medians, samples in replays(kept, trials=trials, seed=seed):
            for tally in tallies:
                slower = np.array([1.0, 1.0 + tally.planted])
                scaled = samples * slower[:, None]
                ratios = np.log(medians[..., 1] * slower[1] / medians[..., 0])
                others = {name: rule(scaled[:, :, 0], scaled[:, :, 1]) for name, rule in PEERS.items()}
                tally.add(judge(ratios, tests=TESTS), others)
        rows.append((f"{load}, {len(kept.sessions)} rounds of {kept.seconds:.2f} s", tallies))
    print_tallies(rows)


# -- live --------------------------------------------------------------------------------------------------------------


def live(model: Path, *, cases: list[str], trials: int, seed: int) -> None:
    """Whole comparisons with the default budget."""
    print("| B | trials | faster | same | slower | inconclusive | told as planted, % | interval holds it | pairs | s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for case in cases:
        provider, bursty = CASES[case]
        said: Counter[str] = Counter()
        held, pairs, seconds = 0, [], []
        with load_of(bursty):
            for index in range(trials):
                found = measure(model, provider, TrialSettings(seed=seed + index))
                row = next(row for row in found.comparisons if row.metric == "latency")
                if row.low is None or row.high is None or found.pairs is None or found.elapsed_s is None:
                    raise RuntimeError(f"{case}: {row.because} {dict(found.failures)}")
                said[row.verdict] += 1
                held += row.low <= TRUTH[provider] <= row.high
                pairs.append(found.pairs)
                seconds.append(found.elapsed_s)
                shown = f"{row.verdict} {row.ratio:.4f} ({row.low:.4f} – {row.high:.4f})"
                print(f"{case} {index}: {shown}, {found.pairs} pairs, {found.elapsed_s:.1f} s", file=sys.stderr)
        right = said["same"] if provider == "planted0" else said["slower"]
        counts = " | ".join(str(said[word]) for word in ("faster", "same", "slower", "inconclusive"))
        print(
            f"| {case} | {trials} | {counts} | {percent(right, trials)} | {held} of {trials} "
            f"| {np.median(pairs):.0f} (≤ {max(pairs)}) | {np.median(seconds):.0f} (≤ {max(seconds):.0f}) |",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "replay", "live"])
    parser.add_argument("--file", type=Path, help="of the recording")
    parser.add_argument("--model", type=Path, help="about 1 ms on one core, if none is given")
    parser.add_argument("--rounds", type=int, default=90)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--cases", default="same,3%,10%,bursts", help=f"of {', '.join(CASES)}")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.what != "live" and arguments.file is None:
        parser.error("where is the recording? --file F.npz")
    if arguments.what == "replay":
        replay(arguments.file, trials=arguments.trials or 1000, seed=arguments.seed)
        return 0
    with planted_engine():
        if arguments.what == "record":
            record(
                arguments.file,
                model=arguments.model or millisecond_onnx(),
                rounds=arguments.rounds,
                seed=arguments.seed,
            )
        else:
            cases = arguments.cases.split(",")
            live(arguments.model or millisecond_onnx(), cases=cases, trials=arguments.trials or 30, seed=arguments.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
