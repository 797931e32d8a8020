"""From this machine to a device with straight lines: auptimizer's Profiler experiment, with the errors beside R².

``measure`` builds the networks, runs them here with 1, 2 and 4 threads, and writes a table. Measure the same files on
the device, write its latencies into a copy of that table, and ``fit`` prints a line per family and number of threads.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import edgewise
from edgewise.errors import EdgewiseError
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import validation
from edgewise.predicting.choice import choose
from edgewise.verbs.zoo.work import build

#: Family → name, width and resolution of its networks; None is the published resolution.
FAMILIES: dict[str, list[tuple[str, float, int | None]]] = {
    "image": [
        ("googlenet", 1.0, None),
        ("squeezenet-1.1", 1.0, None),
        *[("mobilenet-v2", width, None) for width in (0.25, 0.5, 0.75, 1.0)],
    ],
    "video": [(name, width, 56) for name in ("r3d-18", "mc3-18") for width in (0.25, 0.5)],
}
COLUMNS = ("model", "family", "threads", "latency_ms")
Table = dict[tuple[str, int], dict[str, float]]
"""Family and number of threads → model → latency in ms."""


def measure(
    folder: Path, threads: Sequence[int], *, families: Sequence[str], resolution: int | None = None, **how: int
) -> Path:
    """Write the networks and ``here.csv`` with their latencies on this machine. Returns the table's path.

    Args:
        resolution: of all networks, instead of theirs.
        how: further arguments of `edgewise.bench`, such as ``sessions``.
    """
    rows = []
    for family in families:
        for name, width, own in FAMILIES[family]:
            (path,) = build([name], folder, width=width, resolution=resolution or own)
            for count in threads:
                (run,) = edgewise.bench(path, runtimes=["onnxruntime"], threads=[count], meters=False, **how)
                latency = run.value("latency")
                if latency is None:
                    raise SystemExit(f"{path} was not measured with {count} threads: {run.status}")
                rows.append([path.name, family, count, f"{latency * 1e3:.6g}"])
    table = folder / "here.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return table


def read(path: Path) -> Table:
    """The latencies in a table with `COLUMNS`."""
    table: Table = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            table.setdefault((row["family"], int(row["threads"])), {})[row["model"]] = float(row["latency_ms"])
    return table


def fit(here: Table, device: Table) -> Iterator[str]:
    """Lines of text: the fitted lines, and what they predict for models that they were not fitted to."""
    yield f"{'Family':8}{'Threads':>8}  {'Law':16}{'R²':>7}{'Error':>8}  Equation (s)"
    for (family, threads), latencies in sorted(device.items()):
        hosts = here.get((family, threads), {})
        points = [
            Point(subject=Subject(name=name, host=hosts[name] / 1e3), value=latency / 1e3)
            for name, latency in latencies.items()
            if name in hosts
        ]
        for method in ("linear", None):
            try:
                choice = choose(points, method=method)
            except EdgewiseError as error:
                yield f"{family:8}{threads:8}  {error.message}"
                break
            row = validation(choice.chosen, points)
            r2, wrong = (f"{row[key]:.3f}" if row[key] is not None else "–" for key in ("r2", "error"))
            yield f"{family:8}{threads:8}  {row['law']:16}{r2:>7}{wrong:>8}  {row['equation']}"


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True, dest="verb")
    one = verbs.add_parser("measure")
    one.add_argument("folder", type=Path)
    one.add_argument("--threads", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 4])
    one.add_argument("--family", choices=FAMILIES, action="append")
    other = verbs.add_parser("fit")
    other.add_argument("here", type=Path)
    other.add_argument("device", type=Path)
    given = parser.parse_args(words)
    if given.verb == "measure":
        print(f"wrote {measure(given.folder, given.threads, families=given.family or list(FAMILIES))}")
    else:
        print("\n".join(fit(read(given.here), read(given.device))))


if __name__ == "__main__":
    main()
