"""How well do the laws of `edgewise calibrate` predict models that were not measured on a device?

    python benchmarks/prediction.py FOLDER [--draws 6] [--seed 1]

FOLDER holds public measurements (`aihub.csv`, `ncnn_bench.csv`, `help_nasbench201_wide.csv`). Each device is calibrated
with k models drawn at random, and others are predicted. There are four tables (`--only NAME` prints one of them):

- ``catalogue``: only the device is new. All others, except those of the same hardware, are the atlas of this law.
- ``fleet``: device and models are new. The population of the law `fleet` is estimated without the hardware of the
  device and of the host, and without the families of all models that are predicted.
- ``help``: networks of NAS-Bench-201 by the protocol of HELP (Lee et al., 2021): nine devices are known, and 10
  networks are measured on the new one.
- ``single``: device and models are new, and nothing of other devices is known.

One device of the same table stands for this machine; the table ``fleet`` is also printed with what
`prediction_host.py` measured on this one. Operators of ncnn's networks are those that edgewise ships, and those of
NAS-Bench-201 are counted by `prediction_networks.py`; of AI Hub's networks only names are known.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prediction_networks import cell_profile

from edgewise.errors import BadInput
from edgewise.predicting.atlas import normal
from edgewise.predicting.base import Point, Predictor, Subject, predictors
from edgewise.predicting.calibration import rank_correlation
from edgewise.predicting.choice import Choice, choose_among, try_law
from edgewise.predicting.features import OperatorProfile
from edgewise.predicting.fleet import Catalogue, Fleet, fleets
from edgewise.predicting.laws import Line
from edgewise.predicting.population import OtherDevices, estimate_population, networks
from edgewise.predicting.tables import read_source

POINTS = (3, 5, 10)
LEAST = 0.02
"""A network that takes less than this share of the median one was not measured: tables have zeros for it."""
HOSTS = re.compile("Ryzen|EPYC|Intel|Xeon")
BOARDS = re.compile("Cortex|RK3|Raspberry|Kryo|Snapdragon")
FAMILIES = {
    "mobilenet": ("mobilenet", "mnasnet", "proxylessnasnet", "blazeface"),
    "shufflenet": ("shufflenet", "nanodet", "yolofastestv2", "fastestdet"),
    "squeezenet": ("squeezenet",), "resnet": ("resnet", "regnety"), "efficientnet": ("efficientnet",),
}  # fmt: skip
HELP_KNOWN = (
    "titan_rtx_1", "titan_rtx_32", "gold_6240", "silver_4114", "silver_4210r", "samsung_a50", "pixel3",
    "essential_ph_1", "samsung_s7",
)  # fmt: skip
HELP_NEW = ("titan_rtx_256", "gold_6226", "fpga", "pixel2", "raspi4", "eyeriss")
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


def single_laws() -> list[Predictor]:
    """Return the laws that know nothing of other devices."""
    return [law for name, law in predictors() if law.automatic and name not in ("fleet", "catalogue")]


def judge(device: Device, count: int, random: np.random.Generator) -> tuple[float, float, float, float]:
    """Mean relative error, that of the ordinary line, coverage, and rank correlation of one draw."""
    _, subjects, values = device
    order = random.permutation(len(subjects))
    points = [Point(subject=subjects[at], value=float(values[at])) for at in order[:count]]
    rest = order[count : count + 200]
    true, wanted = values[rest], [subjects[at] for at in rest]
    found = choose_among(single_laws(), points).predict(wanted)
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
    models: list[Subject]
    values: np.ndarray


def newcomers(folder: Path, per_fleet: int, random: np.random.Generator) -> Iterator[Newcomer]:
    """Devices of AI Hub's fleets and of ncnn's processors, at most `per_fleet` of each.

    Those of ncnn come a second time with the models alone whose operators are known.
    """
    profiles = networks_by_name()
    for file in ("aihub.csv", "ncnn_bench.csv"):
        rows = read_source("table", folder / file)
        for fleet in fleets({file: rows}):
            if fleet.title.endswith("GPU") or fleet.logs.shape[1] <= max(POINTS) + 5:
                continue
            full = {at: name for name, at in fleet.models.items()}
            for device in random.permutation(len(fleet.logs))[:per_fleet]:
                others = replace_devices(fleet, fleet.groups != fleet.groups[device])
                seen = np.isfinite(fleet.logs[device]) & (np.isfinite(others.logs).sum(axis=0) > 1)
                law, values = Catalogue([others]), np.exp(fleet.logs[device])
                models = {at: Subject(name=full[at]) for at in np.flatnonzero(seen)}
                known = {
                    at: replace(one, profile=profiles[normal(one.name)])
                    for at, one in models.items()
                    if normal(one.name) in profiles
                }
                for words, own in (("", models), (", operators known", known)):
                    if len(own) > max(POINTS) + 5:
                        title = f"{file.split('.')[0]}: {fleet.title}{words}"
                        yield Newcomer(title, law, list(own.values()), values[list(own)])


def replace_devices(fleet: Fleet, kept: np.ndarray) -> Fleet:
    """`fleet` with the devices where `kept` is true."""
    return replace(
        fleet,
        devices=[one for one, stays in zip(fleet.devices, kept, strict=True) if stays],
        logs=fleet.logs[kept],
        groups=np.unique(fleet.groups[kept], return_inverse=True)[1],
        kernels=[],
    )


def judge_newcomer(device: Newcomer, count: int, random: np.random.Generator) -> tuple[float, float, float]:
    """Mean relative error, coverage and rank correlation of one draw."""
    order = random.permutation(len(device.models))
    points = [Point(subject=device.models[at], value=float(device.values[at])) for at in order[:count]]
    true = device.values[order[count:]]
    choice = Choice(points=tuple(points), trials=(try_law(device.law, points),))
    found = choice.predict([device.models[at] for at in order[count:]])
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
    pooled: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for title, devices in sets.items():
        for count in POINTS:
            random = np.random.default_rng(arguments.seed)
            rows = [judge_newcomer(device, count, random) for device in devices for _ in range(arguments.draws)]
            print_newcomers(title, len(devices), count, rows)
            if title.startswith("aihub"):
                pooled[count] += rows
    for count, rows in pooled.items():
        print_newcomers("aihub: all its fleets", len(rows) // arguments.draws, count, rows)


def print_newcomers(title: str, devices: int, count: int, rows: list[tuple[float, float, float]]) -> None:
    """One row: medians of errors and rank correlations, mean of coverage."""
    error, held, rank = np.array(rows).T
    print(
        f"| {title} | {devices} | {count} | {np.median(error):.1%} | {np.mean(held):.1%} | {np.median(rank):.3f} |",
        flush=True,
    )


def known_elsewhere(arguments: argparse.Namespace) -> None:
    """Print the errors of the law `catalogue` for devices that the atlas has with other runtimes, without and with
    these. Devices of the same hardware are in neither fleet.
    """
    known = fleets(
        {"aihub": [row for row in read_source("table", arguments.folder / "aihub.csv") if row.unit == "NPU"]}
    )
    print("| fleet | devices | k | error | with its other runtimes | coverage of 90 % |\n|---|--:|--:|--:|--:|--:|")
    for fleet in known:
        devices = []
        for at, (device, _) in enumerate(fleet.devices):
            without = replace_devices(fleet, fleet.groups != fleet.groups[at])
            others = [each for each in known if each is not fleet]
            more = without.with_runtimes_of(device, others)
            seen = np.isfinite(fleet.logs[at]) & (np.isfinite(without.logs).sum(axis=0) > 1)
            if more is not without and seen.sum() > 2 * max(POINTS):
                names = {column: name for name, column in fleet.models.items()}
                models = [Subject(name=names[column]) for column in np.flatnonzero(seen)]
                values = np.exp(fleet.logs[at, seen])
                devices.append([Newcomer(fleet.title, Catalogue([each]), models, values) for each in (without, more)])
        for count in POINTS:
            random, again = (np.random.default_rng(arguments.seed) for _ in range(2))
            drawn = [device for device in devices for _ in range(arguments.draws)]
            before = [judge_newcomer(device, count, random)[0] for device, _ in drawn]
            after = np.array([judge_newcomer(device, count, again) for _, device in drawn])
            errors = f"{np.median(before):.1%} | {np.median(after[:, 0]):.1%}"
            print(f"| {fleet.title} | {len(devices)} | {count} | {errors} | {np.mean(after[:, 1]):.1%} |", flush=True)


def networks_by_name() -> dict[str, OperatorProfile]:
    """Return the networks of ncnn's benchmark; an int8 model has the work of the float one."""
    return networks() | {f"{name}int8": profile for name, profile in networks().items()}


def family(model: str) -> str:
    """Networks of one design: detectors belong to the network that they are built on."""
    stem = model.removesuffix("int8")
    for name, members in FAMILIES.items():
        if stem.startswith(members):
            return name
    return stem


def known_networks(folder: Path) -> tuple[Fleet, list[Subject], list[int]]:
    """Return the processors of ncnn's table, the models of known operators, and their columns."""
    rows = [replace(row, precision="") for row in read_source("table", folder / "ncnn_bench.csv") if row.unit == "CPU"]
    (fleet,) = fleets({"ncnn": rows})
    subjects, columns = [], []
    for name, profile in networks_by_name().items():
        if (column := fleet.find(name)) is not None:
            precision = "int8" if name.endswith("int8") else ""
            subjects.append(Subject(name=name, profile=profile, precision=precision, family=family(name)))
            columns.append(column)
    return fleet, subjects, columns


class Draw(NamedTuple):
    """What one calibration gave.

    Attributes:
        target: the device.
        count: of points; None where all others were measured.
        error, line: mean relative error, and that of the line with relative errors.
        held: share of the values inside their intervals.
        rank: Spearman's coefficient.
    """

    target: int
    count: int | None
    error: float
    line: float
    held: float
    rank: float


def new_models(arguments: argparse.Namespace) -> None:
    """Print the table of new models on new devices, with a population of other devices."""
    here = {normal(row["model"]): float(row["latency_ms"]) / 1e3 for row in rows_of(arguments.host)}
    print(
        "| host | models | devices | k | error | of the line | better than it: draws | devices | coverage of 90 % "
        "| rank correlation |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for host in ("this machine", "x86 of the table"):
        for known in sets_of_networks(arguments.folder):
            own = np.log([here.get(one.name, np.nan) for one in known.subjects]) if host == "this machine" else None
            draws = [judged(each) for each in calibrations(known, own, arguments)]
            for count in (*POINTS, None):
                print_new_models(f"{host} | {known.title}", [draw for draw in draws if draw.count == count])


@dataclass(frozen=True)
class Networks:
    """Models of known operators, and the logarithms of what ncnn's processors take for them: (devices, models)."""

    title: str
    subjects: list[Subject]
    logs: np.ndarray
    groups: np.ndarray
    names: list[tuple[str, str, str]]


def sets_of_networks(folder: Path) -> Iterator[Networks]:
    """All models, and the float ones."""
    fleet, subjects, columns = known_networks(folder)
    rows = read_source("table", folder / "ncnn_bench.csv")
    names = sorted({(row.device, row.setting, row.group) for row in rows if row.unit == "CPU"})
    if len(names) != len(fleet.logs):
        raise SystemExit("a device of the table has no model that another one has")
    for title, kept in (("float and int8", lambda one: True), ("float", lambda one: not one.precision)):
        places = [at for at, one in enumerate(subjects) if kept(one)]
        logs = fleet.logs[:, [columns[at] for at in places]]
        yield Networks(title, [subjects[at] for at in places], logs, fleet.groups, names)


def print_new_models(title: str, draws: list[Draw]) -> None:
    """One row: a device is better predicted than by the line if its median error over draws is less."""
    error, line, held, rank = np.array([draw[2:] for draw in draws]).T
    targets = np.array([draw.target for draw in draws])
    better = [np.median(error[targets == at]) < np.median(line[targets == at]) for at in set(targets.tolist())]
    print(
        f"| {title} | {len(better)} | {draws[0].count or 'all others'} | {np.median(error):.1%} "
        f"| {np.median(line):.1%} | {np.mean(error < line):.0%} | {np.mean(better):.0%} | {np.mean(held):.1%} "
        f"| {np.median(rank):.3f} |",
        flush=True,
    )


@dataclass(frozen=True)
class Calibrated:
    """A device with its points, and models of other families; `count` as in `Draw`."""

    target: int
    count: int | None
    laws: list[Predictor]
    points: list[Point]
    models: list[Subject]
    true: np.ndarray


def calibrations(known: Networks, own: np.ndarray | None, arguments: argparse.Namespace) -> Iterator[Calibrated]:
    """Devices drawn at random, each with several draws of points.

    Args:
        own: logarithms of what the models take on this machine; None takes an x86 machine of the table, drawn anew
            for each calibration.
    """
    random = np.random.default_rng(arguments.seed)
    subjects, logs, groups = known.subjects, known.logs, known.groups
    families = sorted({one.family for one in subjects})
    counts = np.isfinite(logs).sum(axis=1)
    hosts = [
        at for at, (device, setting, _) in enumerate(known.names)
        if HOSTS.search(device) and not BOARDS.search(device) and setting == "1 threads" and counts[at] > 18
    ]  # fmt: skip
    targets = [at for at, (device, *_) in enumerate(known.names) if BOARDS.search(device) and counts[at] > 16]
    for target in random.permutation(targets)[: arguments.devices].tolist():
        for _ in range(arguments.draws):
            host = int(random.choice(hosts))
            held_out = set(random.permutation(families)[: int(0.4 * len(families))].tolist())
            new = np.array([one.family in held_out for one in subjects])
            others = groups != groups[target]
            if own is None:
                others &= groups != groups[host]
            hosted = logs[host] if own is None else own
            seen = np.flatnonzero(~new & (np.isfinite(logs[others]).sum(axis=0) > 0))
            population = estimate_population(
                logs[others][:, seen], groups[others], [subjects[at] for at in seen], title="others", on_cpu=True
            )
            both = np.isfinite(logs[target]) & np.isfinite(hosted)
            here = [replace(one, host=float(np.exp(log))) for one, log in zip(subjects, hosted, strict=True)]
            measured, wanted = random.permutation(np.flatnonzero(both & ~new)), np.flatnonzero(both & new)
            if len(wanted) < 3 or len(measured) < max(POINTS):
                continue
            for count in (*POINTS, None):
                points = [Point(subject=here[at], value=float(np.exp(logs[target, at]))) for at in measured[:count]]
                yield Calibrated(
                    target, count, [OtherDevices([population]), *single_laws()], points,
                    [here[at] for at in wanted], np.exp(logs[target, wanted]),
                )  # fmt: skip


def judged(drawn: Calibrated) -> Draw:
    """Return what the choice of `edgewise calibrate` predicts."""
    found = choose_among(drawn.laws, drawn.points).predict(drawn.models)
    values, true = np.array([each.value for each in found]), drawn.true
    held = np.mean([each.low <= value <= each.high for each, value in zip(found, true, strict=True)])
    line = np.exp(Line().fit(drawn.points).predict(drawn.models)[0])
    error, of_line = (float(np.mean(np.abs(each / true - 1))) for each in (values, line))
    return Draw(drawn.target, drawn.count, error, of_line, float(held), rank_correlation(values, true) or 0.0)


def help_protocol(arguments: argparse.Namespace) -> None:
    """Print Spearman's coefficients for networks of NAS-Bench-201 on HELP's devices."""
    rows = rows_of(arguments.folder / "help_nasbench201_wide.csv")
    rows = [rows[at] for at in np.random.default_rng(0).permutation(len(rows))[:600]]
    seconds = np.array([[float(row[name] or 0) for row in rows] for name in (*HELP_KNOWN, *HELP_NEW)]) / 1e3
    real = seconds > LEAST * np.median(seconds, axis=1)[:, None]
    kept = real[: len(HELP_KNOWN)].all(axis=0)
    subjects = [
        Subject(name=row["arch"], profile=cell_profile(row["arch"]))
        for row, keep in zip(rows, kept, strict=True)
        if keep
    ]
    seconds, real = seconds[:, kept], real[:, kept]
    logs, groups = np.log(seconds[: len(HELP_KNOWN)]), np.arange(len(HELP_KNOWN))
    models = {normal(one.name): at for at, one in enumerate(subjects)}
    catalogue = Catalogue([Fleet(("HELP", "", ""), (), ("help",), models, {}, logs, groups)])
    fleet = OtherDevices([estimate_population(logs, groups, subjects, title="HELP", on_cpu=False)])
    laws = {"catalogue": [catalogue], "fleet": [fleet], "the better one on left-out points": [catalogue, fleet]}
    print(f"| law | {' | '.join(HELP_NEW)} | mean | coverage of 90 % |")
    print(f"|---|{'--:|' * (len(HELP_NEW) + 2)}")
    for title, own in laws.items():
        means, held = [], []
        for values, known in zip(seconds[len(HELP_KNOWN) :], real[len(HELP_KNOWN) :], strict=True):
            ranks = []
            for draw in range(arguments.draws):
                order = np.random.default_rng(draw).permutation(np.flatnonzero(known))
                points = [Point(subject=subjects[at], value=float(values[at])) for at in order[:10]]
                rest = order[10:310]
                found = choose_among(own, points).predict([subjects[at] for at in rest])
                ranks.append(rank_correlation([each.value for each in found], values[rest]) or 0.0)
                held += [each.low <= value <= each.high for each, value in zip(found, values[rest], strict=True)]
            means.append(float(np.mean(ranks)))
        cells = " | ".join(f"{mean:.3f}" for mean in (*means, np.mean(means)))
        print(f"| {title} | {cells} | {np.mean(held):.1%} |", flush=True)


def seconds_taken(folder: Path) -> float:
    """To choose a law with 10 points and to predict 10 models, with 60 devices: s, after the fleet was read."""
    fleet, subjects, columns = known_networks(folder)
    random = np.random.default_rng(0)
    fleet = replace_devices(fleet, np.isin(np.arange(len(fleet.logs)), random.permutation(len(fleet.logs))[:61]))
    target = int(np.argmax(np.isfinite(fleet.logs[:, columns]).sum(axis=1)))
    others = replace_devices(fleet, fleet.groups != fleet.groups[target])
    known = [at for at, column in enumerate(columns) if np.isfinite(fleet.logs[target, column])]
    points = [Point(subject=subjects[at], value=float(np.exp(fleet.logs[target, columns[at]]))) for at in known[:10]]
    start = time.perf_counter()
    population = estimate_population(others.logs[:, columns], others.groups, subjects, title="others", on_cpu=True)
    laws = [Catalogue([others]), OtherDevices([population]), *single_laws()]
    choose_among(laws, points).predict([subjects[at] for at in known[10:20]])
    return time.perf_counter() - start


TABLES = {"catalogue": catalogue, "elsewhere": known_elsewhere, "fleet": new_models, "help": help_protocol}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--devices", type=int, default=40, help="of the table fleet, at most")
    parser.add_argument(
        "--host", type=Path, default=Path(__file__).with_name("prediction_host.csv"),
        help="what ncnn's networks take on this machine, as prediction_host.py writes it",
    )  # fmt: skip
    parser.add_argument("--only", choices=(*TABLES, "single"), help="print one table")
    arguments = parser.parse_args()
    for name, table in (TABLES | {"single": laws_of_one_device}).items():
        if arguments.only in (None, name):
            print(f"\n{name}\n", flush=True)
            table(arguments)
    print(f"\nfit and prediction with 10 points and 60 devices: {seconds_taken(arguments.folder):.2f} s")


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
