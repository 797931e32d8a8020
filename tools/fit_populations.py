"""Fits ``src/edgewise/predicting/populations.json`` to ncnn's benchmark table.

    pip install -e . ncnn
    python tools/fit_populations.py ncnn_bench.csv FOLDER

The table has the columns model, device, threads, compute_unit, precision and latency_ms. The file has no rows of it,
only what is fitted: coefficients and their covariance over devices. It also has the work of the networks, counted from
their files in FOLDER, which is ``benchmark/`` of ncnn's source.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.predicting.atlas import normal
from edgewise.predicting.base import Subject
from edgewise.predicting.features import OperatorProfile
from edgewise.predicting.fleet import fleets
from edgewise.predicting.population import FEATURES, Population, estimate_population
from edgewise.predicting.tables import read_source
from ncnn_networks import profiles

TARGET = Path(__file__).parents[1] / "src" / "edgewise" / "predicting" / "populations.json"
SOURCE = "ncnn's benchmark table: github.com/Tencent/ncnn, benchmark/README.md, commit a4d2ea1d4422 (BSD-3-Clause)"
TITLES = {"CPU": "processors with ncnn", "GPU": "graphics units with ncnn (Vulkan)"}


def fit(table: Path, unit: str, networks: dict[str, OperatorProfile]) -> Population:
    """Return the devices of one kind, with float and int8 models together."""
    rows = [replace(row, precision="") for row in read_source("table", table) if row.unit == unit]
    (fleet,) = fleets({table.name: rows})
    subjects, columns = [], []
    for name, profile in networks.items():
        for full, precision in ((name, ""), (f"{name}_int8", "int8")):
            if (column := fleet.find(full)) is not None:
                subjects.append(Subject(name=full, profile=profile, precision=precision))
                columns.append(column)
    return estimate_population(fleet.logs[:, columns], fleet.groups, subjects, title=TITLES[unit], on_cpu=unit == "CPU")


def document(found: Population) -> dict[str, Any]:
    """JSON, to four digits."""
    return {
        "title": found.title,
        "hardware": found.hardware,
        "on_cpu": found.on_cpu,
        "mean": [rounded(each) for each in found.mean],
        "covariance": [[rounded(each) for each in row] for row in found.covariance],
        "doubt": [[rounded(each) for each in row] for row in found.doubt],
        "model_variance": rounded(found.model_variance),
        "noise": rounded(found.noise),
    }


def rounded(number: float) -> float:
    """To four significant digits."""
    return float(f"{number:.4g}")


def main() -> None:
    """Fit, print, and write the file."""
    table, networks = Path(sys.argv[1]), profiles(Path(sys.argv[2]))
    populations = [fit(table, unit, networks) for unit in TITLES]
    for found in populations:
        print(f"{found.title}: {found.hardware} kinds of hardware, sd of a model "
              f"{np.sqrt(found.model_variance):.3f}, noise {np.sqrt(found.noise):.3f}")  # fmt: skip
        parts = FEATURES, found.mean, np.diag(found.covariance), np.diag(found.doubt)
        for name, mean, variance, doubt in zip(*parts, strict=True):
            print(f"  {name:16s} {mean:+.2f} ± {np.sqrt(variance):.2f}, mean ± {np.sqrt(doubt):.2f}")
    content = {
        "features": FEATURES,
        "populations": [document(found) for found in populations],
        "networks": {normal(name): [int(amount) for amount in each.amounts] for name, each in networks.items()},
        "sources": [
            {
                "what": SOURCE,
                "sha256": hashlib.sha256(table.read_bytes()).hexdigest(),
            }
        ],
        "script": "tools/fit_populations.py",
    }
    text = json.dumps(content, indent=1)
    TARGET.write_text(shortened(text) + "\n", encoding="utf-8")


def shortened(text: str) -> str:
    """`text` with each list of numbers in one line."""
    return re.sub(r"\[\s*([-\d.e,\s]+?)\s*\]", lambda found: f"[{', '.join(found[1].replace(',', ' ').split())}]", text)


if __name__ == "__main__":
    main()
