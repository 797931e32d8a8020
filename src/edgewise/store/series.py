"""Runs for tools that watch numbers over time: OpenMetrics text of the newest runs, and one setting's runs as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.store.codec import parse_time
from edgewise.store.tables import RunRow
from edgewise.text import csv_text

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SETTING = (
    "model", "format", "shapes", "runtime", "provider", "threads", "precision", "batch", "scenario", "device",
    "machine",
)  # fmt: skip
"""What the runs of one series share. The content of the model's file and the engine's version may change in it."""
CSV_COLUMNS = (
    "id", "created_at", "model", "metric", "unit", "value", "low", "high", "basis", "grade", "version", "machine",
    "sha256",
)  # fmt: skip
_DETAILS = ("metric", "id", "grade", "basis", "version", "sha256")
_UNITS = {
    "s": "seconds", "B": "bytes", "J": "joules", "J/token": "joules_per_token", "W": "watts", "K": "kelvins",
    "Hz": "hertz", "dB": "decibels",
}  # fmt: skip
_Sample = tuple[RunRow, tuple[str, ...], float]
"""A run, fields of it that become labels besides its setting, and the value."""


def newest_of_each_setting(rows: Iterable[RunRow]) -> list[RunRow]:
    """Return, of `rows` in the order newest first, the first with a value of each metric under each setting."""
    newest: dict[tuple[object, ...], RunRow] = {}
    for row in rows:
        if row.value is not None:
            newest.setdefault(series_of(row), row)
    return list(newest.values())


def openmetrics(rows: Sequence[RunRow]) -> str:
    """Return values as OpenMetrics text, which tools that read Prometheus' text format also take.

    A value has no time of its own, as scrapers refuse old ones: ``edgewise_run_timestamp_seconds`` has that of the run.

    Args:
        rows: as `newest_of_each_setting` returns them.
    """
    lines: list[str] = []
    for metric, some in sorted(by_key((row.metric or "", row) for row in rows).items()):
        lines += _families(metric, some)
    stamps: list[_Sample] = [(row, ("metric",), parse_time(row.created_at).timestamp()) for row in rows]
    lines += _family("run_timestamp", "seconds", "When the newest run began.", stamps)
    details: list[_Sample] = [(row, _DETAILS, 1.0) for row in rows]
    lines += _family("run_details", "", "Id, grade and basis of the newest run; always 1.", details)
    return "".join(f"{line}\n" for line in (*lines, "# EOF"))


def series_of(row: RunRow) -> tuple[object, ...]:
    """Return the metric and what the runs of one series share."""
    return (row.metric, *(getattr(row, name) for name in SETTING))


def same_setting(rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs with a value that measured what the newest of them measured, the oldest first.

    Args:
        rows: oldest first.
    """
    known = [row for row in rows if row.value is not None]
    return [row for row in known if series_of(row) == series_of(known[-1])]


def series_csv(rows: Iterable[RunRow]) -> str:
    """Return the runs of one series as CSV in SI units, a run per line, for tools that find changes."""
    return csv_text(CSV_COLUMNS, ([getattr(row, name) for name in CSV_COLUMNS] for row in rows))


def _families(metric: str, rows: Sequence[RunRow]) -> Iterator[str]:
    known = METRICS.get(metric)
    unit = _UNITS.get(rows[0].unit or "", "")
    text = known.definition if known is not None else f"The metric {metric}."
    for suffix, field, words in (
        ("", "value", text),
        ("_low", "low", "Lower end of the 95 % interval."),
        ("_high", "high", "Upper end of the 95 % interval."),
    ):
        values: list[_Sample] = [(row, (), getattr(row, field)) for row in rows if getattr(row, field) is not None]
        yield from _family(f"{metric}{suffix}", unit, words, values)


def _family(name: str, unit: str, text: str, samples: Sequence[_Sample]) -> Iterator[str]:
    if not samples:
        return
    full = re.sub(r"\W", "_", f"edgewise_{name}" + (f"_{unit}" if unit else ""), flags=re.ASCII)
    yield f"# HELP {full} {_escaped(text)}"
    yield f"# TYPE {full} gauge"
    if unit:
        yield f"# UNIT {full} {unit}"
    for row, more, value in samples:
        labels = [(label, getattr(row, label)) for label in (*SETTING, *more)]
        told = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in labels if text is not None)
        yield f"{full}{{{told}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
