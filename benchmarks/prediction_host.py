"""What the networks of ncnn's benchmark take on this machine, with ncnn and one thread.

    pip install -e . ncnn
    python benchmarks/prediction_host.py FOLDER [--rounds 15] [-o benchmarks/prediction_host.csv]

FOLDER is ``benchmark/`` of ncnn's source, with a ``.param`` file for each network. Their weights are 0, as in ncnn's
own benchmark. A time is the processor time of the thread, which is what the network takes where no other program runs,
and the least of all rounds, which go through all networks one after the other: other programs make a run longer, never
shorter. Values of an earlier run in the output file stay where they are less.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from ncnn_networks import Network

SECONDS = 0.1
"""Of one network in one round, but at least one run."""


def load(path: Path) -> Callable[[], float]:
    """Return a function that runs the network at `path` once and returns what that took, in s."""
    network = Network(path)
    ends = network.ends

    def run() -> float:
        start = time.thread_time()
        extractor = network.net.create_extractor()
        extractor.input(network.entry, network.tensor)
        codes = [extractor.extract(name)[0] for name in ends]
        taken = time.thread_time() - start
        if any(codes):
            raise SystemExit(f"ncnn fails with {max(codes, key=abs)} in {path}")
        return taken

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="benchmark/ of ncnn's source")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    arguments = parser.parse_args()
    nets = {path.stem: load(path) for path in sorted(arguments.folder.glob("*.param"))}
    least = {name: min(run(), run()) for name, run in nets.items()}
    for _ in range(arguments.rounds):
        for name, run in nets.items():
            times = [run() for _ in range(max(1, int(SECONDS / least[name])))]
            least[name] = min(least[name], *times)
    if arguments.output.exists():
        with arguments.output.open(newline="", encoding="utf-8") as file:
            earlier = {row["model"]: float(row["latency_ms"]) / 1e3 for row in csv.DictReader(file)}
        least = {name: min(seconds, earlier.get(name, seconds)) for name, seconds in least.items()}
    with arguments.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("model", "latency_ms"))
        writer.writerows((name, f"{seconds * 1e3:.3f}") for name, seconds in sorted(least.items()))


if __name__ == "__main__":
    main()
