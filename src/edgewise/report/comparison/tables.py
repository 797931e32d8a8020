"""The tables of a comparison: before and after for people, and one row per metric for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from edgewise.comparing.comparison import Comparison, ComparisonResult, Side, Variant
from edgewise.comparing.fairness import describe_apart, is_together
from edgewise.comparing.session_values import evidence_of
from edgewise.device.devices import LOCAL
from edgewise.formatting import DIGITS, p_text, percent, ratio_text, value_text
from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.report.comparison.words import (
    conclusion,
    is_explained_in_table,
    quotient_note,
    verdict_text,
    waiting_text,
)
from edgewise.report.document import DASH, Cell, Column, Columns, Provenance, Table, Tone, absent, raw_cell, table_of
from edgewise.report.document.names import shorten
from edgewise.report.profile.diff import BEFORE_AFTER, diff_title
from edgewise.report.runs.cells import NOT_MEASURED, amount_cell, label_of, mean_notes, reason_of_absence, scales_of_two
from edgewise.report.runs.conditions import are_alternatives
from edgewise.report.runs.provenance import basis_text, provenance_of_number
from edgewise.stats.turns import value_by
from edgewise.text import listing, one_line
from edgewise.units import significant

NO_REASON = "the comparison does not say why"
MOST_DIGITS = 7
MOST_LETTERS = 16
"""Of a variant's name over its column."""

TONES: dict[str, Tone] = {"faster": "good", "slower": "bad", "same": "fair", "inconclusive": "poor"}
"""Verdict → how it may be tinted."""


def compared_labels(findings: ComparisonResult) -> list[str]:
    """Labels of what is compared with the baseline, in order."""
    return list(dict.fromkeys(row.b for row in findings.comparisons))


def rows_of(findings: ComparisonResult, label: str) -> list[Comparison]:
    """Return the rows of the variant `label`, both values by the statistic that the ratio is of."""
    return [_with_values_of_ratio(row, findings.variants) for row in findings.comparisons if row.b == label]


def _with_values_of_ratio(row: Comparison, variants: Sequence[Variant]) -> Comparison:
    """Return `row` with both times by the statistic of its ratio, where that is not the median of the runs."""
    if row.disagreement is None or METRICS[row.metric].unit != "s":
        return row
    evidence, labels = evidence_of(variants), [variant.label for variant in variants]
    before, after = (
        value_by(row.disagreement.quoted, evidence(labels.index(label), row.metric).turns) if label in labels else None
        for label in (row.a, row.b)
    )
    if before is None or after is None:
        return row
    return replace(
        row,
        before=Side(value=before, replicates=row.before.replicates),
        after=Side(value=after, replicates=row.after.replicates),
    )


def _statistic_notes(row: Comparison, side: Side, run: Run | None) -> tuple[str, ...]:
    """``"mean time, as the ratio is of that; the median is 64.4 µs"``, where the value is not that of the run."""
    own = None if run is None else run.value(row.metric)
    if row.disagreement is None or own is None or side.value == own or METRICS[row.metric].unit != "s":
        return ()
    median = value_text(row.metric, row.unit, own)
    return (f"by {one_line(row.disagreement.quoted)}, as the ratio is of that; the median is {median}",)


def chief_of(findings: ComparisonResult, label: str) -> Comparison:
    """Return the row of `label` in the baseline's headline metric, else its first; a known one where there is any."""
    rows = rows_of(findings, label)
    rows = [row for row in rows if row.ratio or row.before.value is not None or row.after.value is not None] or rows
    headlines = [variant.run.headline for variant in findings.variants[:1]]
    return next((row for row in rows if row.metric in headlines), rows[0])


def conclusion_of(findings: ComparisonResult, label: str) -> str:
    """One sentence of `label` against the baseline."""
    chief = chief_of(findings, label)
    others = [row for row in rows_of(findings, label) if row.metric != chief.metric]
    runs = {variant.label: variant.run for variant in findings.variants}
    return conclusion(chief, others, apart=_apart_text(runs.get(chief.a), runs.get(chief.b)))


def _apart_text(a: Run | None, b: Run | None) -> str:
    """Return how far apart two runs of programs were measured; "" for models, whose times allow for that, and turns."""
    if a is None or b is None or a.id == b.id or is_together(a, b) or not (a.job.command and b.job.command):
        return ""
    return describe_apart(a, b)


def before_after_table(findings: ComparisonResult, label: str) -> Table:
    """`label` against the baseline by metric."""
    rows = rows_of(findings, label)
    names = [one_line(rows[0].a), one_line(label)]
    runs = [variant.run for name in (rows[0].a, label) for variant in findings.variants if variant.label == name]
    # Two files or versions are one before and one after a change; engines, or threads for one file, are not.
    named = len(runs) == 2 and are_alternatives(*runs)
    heads = [shorten(name, MOST_LETTERS) for name in names] if named else BEFORE_AFTER
    title = f"{diff_title(*runs)}: {names[0]} | {names[1]}" if named else f"Before and after: {' → '.join(names)}"
    columns: Columns[Comparison] = [
        (Column(title="Metric"), lambda row: Cell(text=label_of(row.metric))),
        (Column(title=heads[0], numeric=True), lambda row: sides_of(findings, row)[0]),
        (Column(title=heads[1], numeric=True), lambda row: sides_of(findings, row)[1]),
        (Column(title="Ratio (95 % interval)", numeric=True), _ratio),
        (Column(title="Verdict", decides=True), _verdict),
        (Column(title="Margin", numeric=True, rank=1), _margin),
        (Column(title="Adjusted p", numeric=True, rank=2), _p_value),
    ]
    return table_of(title, rows, columns)


def sides_of(findings: ComparisonResult, row: Comparison) -> tuple[Cell, Cell]:
    """Both values in one unit, chosen by the smaller one, so that they can be compared; short without intervals."""
    known = [value for side in (row.before, row.after) if (value := _finite(side.value)) is not None]
    scales = scales_of_two(row.metric, row.unit, known)
    digits = min(_digits_apart(known), *map(_digits_known, (row.before, row.after)))
    runs = {variant.label: variant.run for variant in findings.variants}
    before, after = (
        replace(
            amount_cell(row.metric, value, _finite(side.low), _finite(side.high), scale, digits=digits),
            notes=(
                *(mean_notes(runs[label], row.metric) if label in runs else ()),
                *_statistic_notes(row, side, runs.get(label)),
            ),
            how=partial(_how_side, row, side, runs.get(label)),
        )
        if (value := _finite(side.value)) is not None
        else absent(*_reasons(row, label, runs.get(label), findings))
        for side, label, scale in zip((row.before, row.after), (row.a, row.b), scales, strict=True)
    )
    return before, after


def _how_side(row: Comparison, side: Side, run: Run | None) -> Provenance:
    """How the value of one side is known: as the run's measurement, of as many processes as the comparison has."""
    measured = run.measurement(row.metric) if run is not None else None
    facts = [("Basis", basis_text(measured.basis)), ("Method", measured.method)] if measured is not None else []
    facts += [("Note", note) for note in _statistic_notes(row, side, run)]
    facts.append(("Processes", str(side.replicates or "")))
    title = f"{label_of(row.metric)}: {value_text(row.metric, row.unit, side.value)}"
    return provenance_of_number(title, row.unit, (side.value, side.low, side.high), facts, run)


def how_ratio(row: Comparison) -> Provenance:
    """How the ratio of a comparison is known."""
    facts = (
        ("Method", row.method),
        ("At another time", _rerun_text(row)),
        ("Note", row.because),
        ("Adjusted p", "" if row.p_adjusted is None else p_text(row.p_adjusted)),
        ("Margin", "" if row.margin is None else f"± {percent(row.margin)}"),
    )
    title = f"{label_of(row.metric)}, after over before"
    return provenance_of_number(title, "1", (row.ratio, row.low, row.high), facts)


def _rerun_text(row: Comparison) -> str:
    """Return the interval for another time with its method; empty without one."""
    if row.ratio is None or row.rerun_low is None or row.rerun_high is None:
        return ""
    return f"{ratio_text(row.ratio, row.rerun_low, row.rerun_high)}; {row.rerun_method}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _digits_apart(values: Sequence[float]) -> int:
    """Return number of digits at which two different values look different."""
    for digits in range(3, MOST_DIGITS):
        if len(set(values)) == len({significant(value, digits) for value in values}):
            return digits
    return MOST_DIGITS


def _digits_known(side: Side) -> int:
    """Return the number of digits of a value that its interval leaves something to; `MOST_DIGITS` without one."""
    value, low, high = _finite(side.value), _finite(side.low), _finite(side.high)
    half = 0.0 if value is None or low is None or high is None else max(value - low, high - value)
    if not value or half <= 0.0:
        return MOST_DIGITS
    return min(MOST_DIGITS, max(DIGITS, math.ceil(math.log10(abs(value) / half)) + 1))


def _reasons(row: Comparison, label: str, run: Run | None, findings: ComparisonResult) -> tuple[str, ...]:
    """Why a variant has no value of a metric."""
    if run is not None and ((reason := reason_of_absence(run, row.metric)) != NOT_MEASURED or not row.because):
        return (reason,)
    return (one_line(findings.failures.get(label, "") or row.because) or NO_REASON,)


def _ratio(row: Comparison) -> Cell:
    if row.ratio is None:
        return absent(one_line(row.because) or NO_REASON)
    notes = tuple(filter(None, [quotient_note(row)]))
    if row.low is None:
        notes = (one_line(row.because) or "no interval is known",)
    text, how = ratio_text(row.ratio, row.low, row.high), partial(how_ratio, row)
    return Cell(text=text, value=row.ratio, low=row.low, high=row.high, notes=notes, how=how)


def _verdict(row: Comparison) -> Cell:
    notes = (one_line(row.because),) if is_explained_in_table(row) else ()
    waiting = (waiting_text(row),) if row.verdict == "inconclusive" and row.decides_in_s is not None else ()
    short = verdict_text(row, hint=False)
    return Cell(text=verdict_text(row), short=short, notes=notes, short_notes=waiting, tone=TONES[row.verdict])


def _margin(row: Comparison) -> Cell:
    if row.margin is None:
        return absent(one_line(row.because) or NO_REASON)
    return Cell(text=f"± {percent(row.margin)}", value=row.margin, how=partial(how_ratio, row))


def _p_value(row: Comparison) -> Cell:
    if row.design == "exact":
        return Cell(text="exact", value=row.p_adjusted, tone="faint")
    if row.design == "same-run":
        return DASH
    if row.p_adjusted is None:
        return absent(one_line(row.because) or "how far the values scatter is not known")
    return Cell(text=p_text(row.p_adjusted), value=row.p_adjusted, how=partial(how_ratio, row))


def csv_table(findings: ComparisonResult) -> Table:
    """One row per comparison, SI units, nothing rounded, for machines."""
    titles = ("A", "B", "Metric", "Unit", "Before", "After", "Ratio", "Verdict", "p", "Adjusted p", "Margin",
              "Ratio at another time low", "Ratio at another time high", "Design", "Processes before",
              "Processes after", "Decides in (s)", "Method")  # fmt: skip
    numeric = {"Before", "After", "Ratio", "p", "Adjusted p", "Margin", "Processes before", "Processes after",
               "Decides in (s)", "Ratio at another time low", "Ratio at another time high"}  # fmt: skip
    columns = [Column(title=title, numeric=title in numeric) for title in titles]
    rows = [_csv_row(row) for row in findings.comparisons]
    devices = {variant.label: one_line(variant.run.job.target.device) for variant in findings.variants}
    if set(devices.values()) - {LOCAL}:
        columns.append(Column(title="Device"))
        where = [listing(list(dict.fromkeys(map(devices.__getitem__, (row.a, row.b))))) for row in findings.comparisons]
        rows = [(*row, Cell(text=device)) for row, device in zip(rows, where, strict=True)]
    return Table(title="Comparison", columns=tuple(columns), rows=tuple(rows))


def _csv_row(row: Comparison) -> tuple[Cell, ...]:
    why = (one_line(row.because),) if row.because else ()

    return (
        *(Cell(text=one_line(text)) for text in (row.a, row.b, row.metric, row.unit)),
        *(raw_cell(side.value, *why, low=side.low, high=side.high) for side in (row.before, row.after)),
        raw_cell(row.ratio, *why, low=row.low, high=row.high),
        Cell(text=row.word, notes=why if row.verdict == "inconclusive" else ()),
        *(raw_cell(value, *why) for value in (row.p_value, row.p_adjusted, row.margin)),
        *map(raw_cell, (row.rerun_low, row.rerun_high)),
        Cell(text=row.design),
        *(raw_cell(side.replicates, *why) for side in (row.before, row.after)),
        raw_cell(row.decides_in_s),
        Cell(text=one_line(row.method)),
    )
