"""From a run's measurement to a cell: rounding, intervals and the reasons of what is absent."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgewise.amounts import with_ends
from edgewise.metrics import METRICS, SHARES, is_score
from edgewise.record import Measurement, Run
from edgewise.report.document import Cell, absent
from edgewise.text import one_line
from edgewise.units import format_quantity, significant

NOT_MEASURED = "not measured by this run"
DIGITS = 3

Scale = Callable[[float], float]


def times(factor: float) -> Scale:
    """A scale that multiplies, such as ``times(1e3)`` from s to ms."""
    return lambda value: value * factor


def celsius(kelvin: float) -> float:
    """°C from K."""
    return kelvin - 273.15


def reason_of_absence(run: Run, metric: str) -> str:
    """Why `run` has no value of `metric`: its own words, its failure, or that nothing measured it."""
    row = run.measurement(metric)
    if row is not None and row.absent_because:
        return one_line(row.absent_because)
    if run.failure is not None:
        return failure_of(run)
    if run.status == "cancelled":
        return "the run was cancelled before this was measured"
    return NOT_MEASURED


def failure_of(run: Run) -> str:
    """One line on why `run` failed, with the phase and the advice."""
    failure = run.failure
    if failure is None:
        return f"the run was {run.status}" if run.status != "done" else ""
    where = f" in phase {one_line(failure.phase)}" if failure.phase else ""
    message = one_line(failure.message).rstrip(".")
    advice = f"; {one_line(failure.advice)}" if failure.advice else ""
    return f"the run failed{where}: {failure.cause}: {message}{advice}"


def cell_of(run: Run, metric: str, *, scale: Scale = lambda value: value, interval: bool = True) -> Cell:
    """The cell of `metric` of `run`: `scale` leads from its SI unit to the column's.

    Args:
        interval: whether the text has the interval; the cell always keeps it.
    """
    row = run.measurement(metric)
    if row is None or row.value is None or not math.isfinite(row.value):
        return absent(reason_of_absence(run, metric))
    return cell_of_measurement(row, scale=scale, interval=interval)


def cell_of_measurement(row: Measurement, *, scale: Scale = lambda value: value, interval: bool = True) -> Cell:
    """The cell of a measurement that has a value."""
    if row.value is None:
        raise ValueError(f"{row.metric} has no value")
    value = scale(row.value)
    low = scale(row.low) if row.low is not None and math.isfinite(row.low) else None
    high = scale(row.high) if row.high is not None and math.isfinite(row.high) else None
    if row.metric in SHARES or is_score(row.metric):
        ends = (row.low, row.high) if interval and low is not None and high is not None else (None, None)
        text = with_ends(row.metric, row.value, *ends, digits=DIGITS)
    else:
        text = plus_minus(value, low, high) if interval else significant(value, DIGITS)
    return Cell(text=text, value=value, low=low, high=high, notes=basis_notes(row))


def basis_notes(row: Measurement) -> tuple[str, ...]:
    """A footnote for every value that was not measured or computed from what was."""
    if row.basis in ("simulated", "estimated"):
        return (f"{row.basis}: {one_line(row.method)}",)
    return ()


LOPSIDED_FROM = 0.1
"""Intervals within this share of the value are printed with ±, whatever their sides."""


def plus_minus(value: float, low: float | None, high: float | None) -> str:
    """``"0.421 ± 0.012"``: the value at three significant digits, then the wider side of its interval.

    The half-width is rounded up at the value's last place and counted from the printed value, so that what is printed
    always contains the interval; only an interval without any width is ``± 0``.
    """
    if low is None or high is None or not math.isfinite(value):
        return significant(value, DIGITS)
    if _is_lopsided(value, low, high):
        return f"{significant(value, DIGITS)} [{significant(low, DIGITS)}, {significant(high, DIGITS)}]"
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    places = DIGITS - 1 - magnitude
    shown = round(value, places)
    half = 0.0 if low == high == value else max(shown - low, high - shown, 0.0)
    # The small allowance keeps 0.012 from becoming 0.013 through binary fractions.
    steps = math.ceil(half * 10.0**places - 1e-9)
    if steps == 0:
        return f"{significant(value, DIGITS)} ± 0"
    width = steps * 10.0**-places
    # `significant` writes numbers of these magnitudes with an exponent.
    exponent = magnitude < -4 or magnitude >= 9
    return f"{significant(value, DIGITS)} ± {f'{width:.2e}' if exponent else f'{width:.{max(0, places)}f}'}"


def _is_lopsided(value: float, low: float, high: float) -> bool:
    """Whether ± would mislead: sides that differ much, or a wider one that reaches past 0."""
    below, above = value - low, high - value
    wide, narrow = max(below, above), min(below, above)
    if abs(wide) <= LOPSIDED_FROM * abs(value):
        return False
    return wide > 1.5 * narrow or wide >= abs(value)


def quantity(value: float, unit: str) -> str:
    """`value` in the catalogue's unit as a person reads it, at the digits that every table uses."""
    return format_quantity(value, unit, DIGITS)


def label_of(metric: str) -> str:
    """What tables call `metric`; an id that is not in the catalogue (a newer record) stands for itself."""
    row = METRICS.get(metric)
    return row.label if row is not None else metric
