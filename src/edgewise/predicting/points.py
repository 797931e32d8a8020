"""Reads what was measured on a device: tables that people write, and runs."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from edgewise.errors import BadInput
from edgewise.metrics import METRICS
from edgewise.predicting.base import Point, Subject
from edgewise.text import listing
from edgewise.units import ENERGIES, format_quantity, format_si, significant

MOST_BYTES = 4 * 2**20
UNITS: Mapping[str, Mapping[str, float]] = {
    "latency": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "energy": {unit: ENERGIES[unit] for unit in ("J", "mJ", "uJ", "µJ", "nJ")},
    "memory_peak": {"B": 1.0, "kB": 1e3, "KiB": 2.0**10, "MB": 1e6, "MiB": 2.0**20, "GiB": 2.0**30},
}
"""Metrics that can be predicted, with the units that a column's name may end in."""
MOST_ROWS = 10_000
PLAUSIBLE = (1e-15, 1e15)
"""Values in SI beyond which a number is no measurement of a model, and squares may overflow."""
EXAMPLE = "model,latency_ms,host_latency_ms"
REPEATS_AGREE = 1.5
"""Measurements of one model that differ by less than this factor are averaged."""
_ANOTHER_UNIT = (200.0, 5000.0)
"""An outlier by a factor in this range looks like another unit: seconds for milliseconds."""
FEWEST_TO_TELL = 4
"""Of three models, any two are on a line, so that they don't tell which is wrong."""
MOST_TOLD = 6
_HOST_RATES = (1e8, 1e13)
"""MACs/s of a 1×1 convolution beyond which no machine that runs edgewise computes."""
_PEAK_RANGE = (1000.0, 10.0)
"""A median model that is slower than the first part of the peak of one thread, or faster than the second multiple of
that of all threads, has a value in another unit: the peak is of float32, and int8 and Winograd's kernels beat it."""
MEASURES: Mapping[str, Callable[[Subject], float | None]] = {
    "on this machine": lambda subject: subject.host,
    "in operations": lambda subject: subject.profile.work if subject.profile else None,
}
"""What the size of a model is told by, the better one first."""
_TEXTS = ("model", "family", "precision")
_COLUMN = re.compile(rf"(host_)?({'|'.join(UNITS)})_([^_]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model of a table.

    Attributes:
        values, hosts: metric → value on the device and on this machine, SI; empty where there is none.
        columns: of `hosts`: metric → name of the column.
        line: in the file, from 1.
    """

    name: str
    line: int
    family: str = ""
    precision: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    hosts: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


def read_table(path: Path) -> list[Row]:
    """Return the rows of a CSV file with the columns ``model``, ``latency_ms``, ``host_latency_ms`` and the like.

    Raises `BadInput` for what is no such table, with the line.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} is larger than {MOST_BYTES // 2**20} MiB", advice="give one row per model")
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} can't be read: {error}", advice=f"give a CSV file that begins with {EXAMPLE}") from None
    reader = csv.reader(text.splitlines())
    try:
        header = [name.strip() for name in next(reader, [])]
        if other := next((mark for mark in ";\t" if len(header) == 1 and mark in header[0]), ""):
            raise BadInput(
                f"{path}, line 1: columns are separated by {other!r}",
                advice="save it with commas between columns and points in numbers (12.5)",
            )
        columns = [_column(name, path) for name in header]
        if "model" not in header or len(set(header)) < len(header):
            raise BadInput(f"{path} has no column 'model', or a column twice", advice=f"begin the file with {EXAMPLE}")
        rows = [
            _row(_cells(header, cells, path, reader.line_num), columns, path, reader.line_num)
            for cells in islice(reader, MOST_ROWS + 1)
            if any(cell.strip() for cell in cells)
        ]
    except csv.Error as error:
        raise BadInput(f"{path}, line {reader.line_num}: {error}", advice=f"begin the file with {EXAMPLE}") from None
    if len(rows) > MOST_ROWS:
        raise BadInput(f"{path} has more than {MOST_ROWS} rows", advice="give one row per model")
    if not rows:
        raise BadInput(f"{path} has no rows", advice="give one row per model")
    return rows


Columns = Sequence[tuple[str, bool, str, float]]


def _column(name: str, path: Path) -> tuple[str, bool, str, float]:
    """Name, whether it is of this machine, metric and unit in SI; the metric is "" for a text."""
    if name in _TEXTS:
        return name, False, "", 0.0
    found = _COLUMN.fullmatch(name)
    if found and found[3] in UNITS[found[2]]:
        return name, bool(found[1]), found[2], UNITS[found[2]][found[3]]
    metric = name.removeprefix("host_")
    if metric in UNITS:
        ends = ", ".join(f"{name}_{unit}" for unit in UNITS[metric])
        raise BadInput(f"{path}: the column {name!r} has no unit", advice=f"write one of: {ends}")
    units = "; ".join(f"{metric}_ {', '.join(units)}" for metric, units in UNITS.items())
    raise BadInput(
        f"{path}: {name!r} is not a column of measurements",
        advice=f"columns: {', '.join(_TEXTS)}, and metrics with a unit, also with host_ in front ({units})",
    )


def _cells(header: Sequence[str], cells: Sequence[str], path: Path, line: int) -> dict[str, str]:
    if len(cells) > len(header):
        raise BadInput(
            f"{path}, line {line}: {len(cells)} cells for {len(header)} columns",
            advice="write 12.5 for twelve and a half, and put a name with a comma in quotes",
        )
    return dict(zip(header, cells, strict=False))


def _row(cells: Mapping[str, str], columns: Columns, path: Path, line: int) -> Row:
    texts = {name: cells.get(name, "").strip() for name in _TEXTS}
    if not texts["model"]:
        raise BadInput(f"{path}, line {line}: no model", advice="name the model: a file, or any name")
    numbers: dict[bool, dict[str, float]] = {False: {}, True: {}}
    for name, host, metric, unit in columns:
        if metric and (text := cells.get(name, "").strip()):
            numbers[host][metric] = _number(text, name, unit, path, line)
    return Row(
        name=texts["model"], family=texts["family"], precision=texts["precision"], line=line,
        values=numbers[False], hosts=numbers[True],
        columns={metric: name for name, host, metric, _ in columns if host},
    )  # fmt: skip


def is_measurement(value: float) -> bool:
    """Whether `value`, in SI, can be what a model takes."""
    return PLAUSIBLE[0] <= value <= PLAUSIBLE[1]


def _number(text: str, name: str, unit: float, path: Path, line: int) -> float:
    """Return the value in SI."""
    advice = "leave the cell empty where nothing was measured"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
        if re.fullmatch(r"\d+,\d+", text):
            advice = "write numbers with a point: 12.5"
    if not (math.isfinite(value) and value > 0):
        raise BadInput(f"{path}, line {line}: {name} is {text[:40]!r}, not a number above 0", advice=advice)
    if not is_measurement(value * unit):
        raise BadInput(
            f"{path}, line {line}: {name} is {text[:40]!r}, which no model takes",
            advice="check the number and the unit",
        )
    return value * unit


def join_repeats(points: Iterable[Point]) -> list[Point]:
    """One point per model, the geometric mean of its measurements. Raises `BadInput` where they contradict."""
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.subject.name, []).append(point)
    return [
        replace(found[0], subject=replace(found[0].subject, host=host), value=_mean(name, [p.value for p in found]))
        for name, found in by_name.items()
        for hosts in [[p.subject.host for p in found if p.subject.host is not None]]
        for host in [_mean(name, hosts) if hosts else None]
    ]


def _mean(name: str, values: Sequence[float]) -> float:
    if max(values) > REPEATS_AGREE * min(values):
        raise BadInput(
            f"{name} is given several times, with values from {min(values):.4g} to {max(values):.4g}",
            advice="keep the right one, or give other settings another name",
        )
    return math.exp(sum(map(math.log, values)) / len(values))


def check_points(points: Sequence[Point], *, what: str, places: Mapping[str, str] | None = None) -> list[str]:
    """Cautions about `points`, each a sentence; `doubt_units` has those about units.

    Args:
        places: name of a model → where its values are from, and what contradicts them.

    Raises:
        BadInput: a value looks like one in another unit, or all are the same although the models differ.
    """
    values = np.array([point.value for point in points])
    # Most of a process's memory is the engine's own: small models of any size may have the same.
    for named, measure in () if what == "memory peak" else MEASURES.items():
        sizes = [measure(point.subject) for point in points]
        if len(points) >= 3 and all(sizes):
            ratios = values / np.array(sizes, dtype=float)
            _check_units(points, ratios, what=what, named=named, places=places or {})
            if values.max() <= 1.01 * values.min() and ratios.max() > 4 * ratios.min():
                raise BadInput(
                    f"all models have the same {what}, although their sizes differ by a factor of "
                    f"{ratios.max() / ratios.min():.3g}",
                    advice="check that the measurement saw the model itself",
                )
    return [*_one_family(points), *_one_giant(points, what=what)]


def doubt_units(
    points: Sequence[Point], *, what: str, written: Mapping[str, str], peaks: tuple[float, float] | None = None
) -> list[str]:
    """State that all values of a column may be in another unit, each a sentence.

    Args:
        written: name of a model → column and line of its value of this machine; other values were measured here.
        peaks: MACs/s that this machine was seen to reach with one thread, and would with all; None where unknown.
    """
    return [
        *_all_in_another_unit(points, what=what),
        *_hosts_in_another_unit([each for each in points if each.subject.name in written], written, peaks, what=what),
    ]


def _check_units(
    points: Sequence[Point], ratios: np.ndarray, *, what: str, named: str, places: Mapping[str, str]
) -> None:
    """Raise `BadInput` where the models are of two groups as far apart as units are, and each of similar ratios."""
    order = [int(at) for at in np.argsort(ratios)]
    logs = np.log(ratios[order])
    cut = int(np.argmax(np.diff(logs))) + 1
    factor = math.exp(np.median(logs[cut:]) - np.median(logs[:cut]))
    widest = math.exp(max(np.ptp(logs[:cut]), np.ptp(logs[cut:])))
    if not _ANOTHER_UNIT[0] <= factor <= _ANOTHER_UNIT[1] or widest**2 > factor:
        return
    low, high = [points[at] for at in order[:cut]], [points[at] for at in order[cut:]]
    few, most = sorted((low, high), key=len)
    advice = "give all values of a column in the unit that its name ends in"
    if len(few) == 1 and len(points) >= FEWEST_TO_TELL:
        (name,), times = _names(few), factor if few is high else 1 / factor
        raise BadInput(
            f"{what} of {name} is {significant(times)} times what the other models suggest by their size {named}: is a "
            f"value in another unit? It has {_values(few[0], what, places)}",
            advice=advice,
        )
    told = "; ".join(f"{point.subject.name} has {_values(point, what, places)}" for point in [*few, *most][:MOST_TOLD])
    raise BadInput(
        f"{what} of {listing(_names(high))} is {significant(factor)} times that of {listing(_names(low))} by their "
        f"size {named}: are values in another unit? These {len(points)} models don't tell which: {told}",
        advice=advice,
    )


def _names(points: Sequence[Point]) -> list[str]:
    return [point.subject.name for point in points]


def _values(point: Point, what: str, places: Mapping[str, str]) -> str:
    """Return what a point has on the device and on this machine, and where its values are from."""
    unit, host = METRICS[what.replace(" ", "_")].unit, point.subject.host
    here = "" if host is None else f" and {format_quantity(host, unit)} on this machine"
    place = f"; {places[point.subject.name]}" if places.get(point.subject.name) else ""
    return f"{format_quantity(point.value, unit)} on the device{here}{place}"


def _all_in_another_unit(points: Sequence[Point], *, what: str) -> list[str]:
    """State that the whole column may be in another unit: no phone or board, and only a microcontroller, is that
    slow.
    """
    factors = [point.value / point.subject.host for point in points if point.subject.host]
    if what != "latency" or not factors:
        return []
    factor = float(np.median(factors))
    if 1 / _ANOTHER_UNIT[0] < factor < _ANOTHER_UNIT[0]:
        return []
    told = f"{significant(factor)} times as long as" if factor > 1 else f"1/{significant(1 / factor)} of the time of"
    return [
        f"The device takes {told} this machine for the median model: check that the latencies are in the unit that "
        "their column names, unless it is that much slower or faster."
    ]


def _hosts_in_another_unit(
    points: Sequence[Point], written: Mapping[str, str], peaks: tuple[float, float] | None, *, what: str
) -> list[str]:
    """State that this machine's values may be in another unit: for the operators of the models they are implausible."""
    rates = {
        each.name: (each.profile.work / each.host, each.host)
        for each in (point.subject for point in points)
        if each.profile and each.profile.work and each.host
    }
    if what != "latency" or not rates:
        return []
    name, (rate, host) = sorted(rates.items(), key=lambda each: each[1])[len(rates) // 2]
    least, most = _HOST_RATES
    if peaks is not None:
        least, most = max(least, peaks[0] / _PEAK_RANGE[0]), min(most, peaks[1] * _PEAK_RANGE[1])
    if least <= rate <= most:
        return []
    compared = ""
    if peaks is not None:
        one, total = peaks
        share = f"{significant(rate / total)} times" if rate > total else f"1/{significant(one / rate)} of"
        compared = f", {share} the {format_si(total if rate > total else one, 'MAC/s')} that it was measured to reach"
    return [
        f"By {written[name]}, {format_quantity(host, 's')}, this machine computes {format_si(rate, 'MAC/s')} for the "
        f"median model, {name}{compared}: check that the column's values are in the unit that its name ends in, and "
        "those of the device, too."
    ]


def _one_family(points: Sequence[Point]) -> list[str]:
    families = {point.subject.family for point in points}
    if len(points) > 1 and len(families) == 1 and families != {""}:
        return [f"All measured models are of the family {families.pop()}: models of others may be far off."]
    return []


def _one_giant(points: Sequence[Point], *, what: str) -> list[str]:
    """Leverage of the largest model in the straight line through this machine's values."""
    hosts = np.array([point.subject.host or math.nan for point in points])
    if len(points) < 4 or not np.isfinite(hosts).all():
        return []
    offset = (hosts - hosts.mean()) ** 2
    leverage = 1 / len(hosts) + offset / max(float(offset.sum()), np.finfo(float).tiny)
    at = int(np.argmax(leverage))
    if leverage[at] < 0.9:
        return []
    name = points[at].subject.name
    told = f"{name} alone decides R² of the {what} (its leverage is {leverage[at]:.2f} of 1)"
    return [f"{told}: R² says little about the others."]
