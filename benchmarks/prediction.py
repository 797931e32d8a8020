"""How well do the laws of `edgewise calibrate` predict models that were not measured on a device?

    python benchmarks/prediction.py FOLDER [--draws 6] [--seed 1]

FOLDER holds public measurements (`aihub.csv`, `ncnn_bench.csv`, `help_nasbench201_wide.csv`). Each device is calibrated
with k models drawn at random, and all others are predicted. First, device and models are both new, and nothing of
other devices is known. One device of the same table stands for this machine. The networks of NAS-Bench-201 have
operators, counted from their description; of the others only names are known, so that laws of operators can't be used.
Then only the device is new: all others, except those of the same hardware, are the atlas of the law `catalogue`.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgewise.errors import BadInput
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import rank_correlation
from edgewise.predicting.choice import Choice, choose, try_law
from edgewise.predicting.features import OperatorProfile
from edgewise.predicting.fleet import Catalogue, Fleet, fleets
from edgewise.predicting.tables import read_source

POINTS = (3, 5, 10)
LEAST = 0.02
"""A network that takes less than this share of the median one was not measured: tables have zeros for it."""
HOSTS = re.compile("Ryzen|EPYC|Intel|Xeon")
BOARDS = re.compile("Cortex|RK3|Raspberry|Kryo|Snapdragon")
Device = tuple[str, list[Subject], np.ndarray]
"""The set it belongs to, the models, and their values on it, NaN where there is none."""


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def pairs(cells: dict[tuple[str, str], list[float]], title: str, hosts: str, targets: str) -> Iterator[Device]:
    """Every pair of two devices of a table of device and model → ms."""
    devices = sorted({device for device, _ in cells})
    models = sorted({model for _, model in cells})
    values = {key: float(np.median(found)) / 1e3 for key, found in cells.items()}
    for host in [device for device in devices if re.search(hosts, device)]:
        for target in [device for device in devices if re.search(targets, device) and device[:30] != host[:30]]:
            common = [model for model in models if (host, model) in values and (target, model) in values]
            if len(common) > max(POINTS) + 5:
                subjects = [Subject(name=model, host=values[host, model]) for model in common]
                yield title, subjects, np.array([values[target, model] for model in common])


def ai_hub(folder: Path) -> Iterator[Device]:
    for precision, runtime in (("float", "tflite"), ("float", "qnn_dlc"), ("float", "onnx"), ("w8a8", "tflite")):
        cells = defaultdict(list)
        for row in rows_of(folder / "aihub.csv"):
            if (row["precision"], row["runtime"], row["compute_unit"]) == (precision, runtime, "NPU"):
                cells[row["device"], f"{row['model']} {row['variant']}"].append(float(row["latency_ms"]))
        yield from pairs(cells, f"AI Hub {precision} {runtime}, NPU to NPU", "", "")


def ncnn(folder: Path) -> Iterator[Device]:
    cells = defaultdict(list)
    for row in rows_of(folder / "ncnn_bench.csv"):
        if row["compute_unit"] == "CPU" and float(row["latency_ms"]) > 0:
            name = f"{row['device']} {row['threads']}"
            if not HOSTS.search(name) or row["threads"] == "1":
                cells[name, row["model"].replace("-", "_")].append(float(row["latency_ms"]))
    yield from pairs(cells, "ncnn, x86 to Arm CPU", HOSTS.pattern, BOARDS.pattern)


def nas_bench(folder: Path) -> Iterator[Device]:
    rows = rows_of(folder / "help_nasbench201_wide.csv")
    rows = [rows[at] for at in np.random.default_rng(0).choice(len(rows), 600, replace=False)]
    columns = {name: np.array([float(row[name] or 0) for row in rows]) / 1e3 for name in rows[0] if "arch" not in name}
    host = columns["silver_4114"]
    profiles = [cell_profile(row["arch"]) for row in rows]
    for name in ("pixel2", "samsung_a50", "essential_ph_1", "raspi4", "fpga", "gold_6226", "titan_rtx_256", "1080ti_1"):
        known = [
            at for at in range(len(rows))
            if host[at] > LEAST * np.median(host) and columns[name][at] > LEAST * np.median(columns[name])
        ]  # fmt: skip
        subjects = [Subject(name=str(at), host=host[at], profile=profiles[at]) for at in known]
        yield "NAS-Bench-201, Xeon to 8 others", subjects, columns[name][known]


def cell_profile(text: str) -> OperatorProfile:
    """The work of a network of NAS-Bench-201: five equal cells at each of three resolutions, on CIFAR-10."""
    pointwise = elements = operators = 0
    spatial = 9 * 3 * 16 * 1024 + 9 * 2 * (16 * 16 * 32 + 8 * 8 * 64 * 32)
    for channels, side in ((16, 32), (32, 16), (64, 8)):
        pixels = side * side
        for operation in re.findall(r"(\w+)~", text):
            if operation == "none":
                continue
            pointwise += 5 * pixels * channels**2 * (operation == "nor_conv_1x1")
            spatial += 5 * 9 * pixels * channels**2 * (operation == "nor_conv_3x3")
            elements += 5 * pixels * channels * (2 if operation == "avg_pool_3x3" else 1)
            operators += 5
    return OperatorProfile(amounts=(pointwise, spatial, 0, 640, elements, operators))


def judge(device: Device, count: int, random: np.random.Generator) -> tuple[float, float, float, float]:
    """Mean relative error, that of the ordinary line, coverage, and rank correlation of one draw."""
    _, subjects, values = device
    order = random.permutation(len(subjects))
    points = [Point(subject=subjects[at], value=float(values[at])) for at in order[:count]]
    rest = order[count : count + 200]
    true, wanted = values[rest], [subjects[at] for at in rest]
    found = choose(points).predict(wanted)
    predicted = np.array([each.value for each in found])
    held = np.mean([each.low <= value <= each.high for each, value in zip(found, true, strict=True)])
    hosts = np.array([point.subject.host for point in points])
    slope, offset = np.polyfit(hosts, [point.value for point in points], 1)
    line = slope * np.array([subject.host for subject in wanted]) + offset
    errors = (float(np.mean(np.abs(each / true - 1))) for each in (predicted, line))
    return (*errors, float(held), rank_correlation(predicted, true) or 0.0)


@dataclass(frozen=True)
class Newcomer:
    """A device, and the fleet of the same conditions without its hardware."""

    title: str
    law: Catalogue
    names: list[str]
    values: np.ndarray


def newcomers(folder: Path, per_fleet: int, random: np.random.Generator) -> Iterator[Newcomer]:
    """Devices of AI Hub's fleets and of ncnn's processors, at most `per_fleet` of each."""
    for file in ("aihub.csv", "ncnn_bench.csv"):
        rows = read_source("table", folder / file)
        for fleet in fleets({file: rows}):
            if fleet.title.endswith("GPU") or fleet.logs.shape[1] <= max(POINTS) + 5:
                continue
            full = {at: name for name, at in fleet.models.items()}
            for device in random.permutation(len(fleet.logs))[:per_fleet]:
                others = replace_devices(fleet, fleet.groups != fleet.groups[device])
                seen = np.isfinite(fleet.logs[device]) & (np.isfinite(others.logs).sum(axis=0) > 1)
                columns = np.flatnonzero(seen)
                if len(columns) > max(POINTS) + 5:
                    yield Newcomer(
                        f"{file.split('.')[0]}: {fleet.title}",
                        Catalogue([others]),
                        [full[at] for at in columns],
                        np.exp(fleet.logs[device, columns]),
                    )


def replace_devices(fleet: Fleet, kept: np.ndarray) -> Fleet:
    """`fleet` with the devices where `kept` is true."""
    return replace(
        fleet, logs=fleet.logs[kept], groups=np.unique(fleet.groups[kept], return_inverse=True)[1], kernels=[]
    )


def judge_newcomer(device: Newcomer, count: int, random: np.random.Generator) -> tuple[float, float, float]:
    """Mean relative error, coverage and rank correlation of one draw."""
    order = random.permutation(len(device.names))
    points = [Point(subject=Subject(name=device.names[at]), value=float(device.values[at])) for at in order[:count]]
    true = device.values[order[count:]]
    choice = Choice(points=tuple(points), trials=(try_law(device.law, points),))
    found = choice.predict([Subject(name=device.names[at]) for at in order[count:]])
    predicted = np.array([each.value for each in found])
    held = np.mean([each.low <= value <= each.high for each, value in zip(found, true, strict=True)])
    return float(np.mean(np.abs(predicted / true - 1))), float(held), rank_correlation(predicted, true) or 0.0


def catalogue(arguments: argparse.Namespace) -> None:
    """Print the table of the law `catalogue`."""
    sets: dict[str, list[Newcomer]] = defaultdict(list)
    for device in newcomers(arguments.folder, 40, np.random.default_rng(arguments.seed)):
        sets[device.title].append(device)
    print("| fleet | new devices | k | error | coverage of 90 % | rank correlation |")
    print("|---|--:|--:|--:|--:|--:|")
    for title, devices in sets.items():
        for count in POINTS:
            random = np.random.default_rng(arguments.seed)
            rows = [judge_newcomer(device, count, random) for device in devices for _ in range(arguments.draws)]
            error, held, rank = np.array(rows).T
            print(
                f"| {title} | {len(devices)} | {count} | {np.median(error):.1%} | {np.mean(held):.1%} "
                f"| {np.median(rank):.3f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-catalogue", action="store_true", help="leave out the laws of single devices")
    arguments = parser.parse_args()
    catalogue(arguments)
    if not arguments.only_catalogue:
        laws_of_one_device(arguments)


def laws_of_one_device(arguments: argparse.Namespace) -> None:
    """Print the table of the laws that know nothing of other devices."""
    sets: dict[str, list[Device]] = defaultdict(list)
    for source in (nas_bench, ai_hub, ncnn):
        for device in source(arguments.folder):
            sets[device[0]].append(device)
    print("| set | pairs | k | error | error of a·x + b | coverage of 90 % | rank correlation |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for title, devices in sets.items():
        for count in POINTS:
            random = np.random.default_rng(arguments.seed)
            rows = []
            for device in devices:
                for _ in range(arguments.draws):
                    try:
                        rows.append(judge(device, count, random))
                    except BadInput as error:
                        print(f"{title}: {error.message}")
            error, line, held, rank = np.array(rows).T
            print(
                f"| {title} | {len(devices)} | {count} | {np.median(error):.1%} | {np.median(line):.1%} "
                f"| {np.mean(held):.1%} | {np.median(rank):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
