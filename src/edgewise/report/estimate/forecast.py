"""What `calibrate` prints of a device, and `estimate` of models on a calibrated one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from edgewise.device.calibrations import count_text
from edgewise.formatting import amount_interval, quantity
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration, validation
from edgewise.predicting.choice import CHOICE_POINTS, COVERAGE, TRUST, Choice, Mean, Prediction, Trial
from edgewise.predicting.features import TERMS
from edgewise.predicting.forecast import KINDS, SEEN_SHARE, Forecast, Forecasts
from edgewise.predicting.laws import known_profile
from edgewise.predicting.suggestion import Suggestion
from edgewise.report.document import (
    Cell,
    Column,
    Columns,
    Document,
    Provenance,
    Section,
    Table,
    absent,
    table_of,
    value_cell,
)
from edgewise.report.document.columns import number_column, text_column
from edgewise.report.estimate.forecast_charts import forecast_chart, validation_charts
from edgewise.report.runs.provenance import basis_text, interval_facts, provenance_of_column
from edgewise.text import enumerate_few, one_line
from edgewise.units import format_si

UNCOUNTED = ("elements", "operators")
"""Terms of a profile that are not MACs."""


def calibration_document(calibration: Calibration) -> Document:
    """Return the laws of a device, the chosen one first, and the points with what is predicted without each."""
    tables: list[Table] = []
    earlier = calibration.replaced
    replaced = [f"This replaces the calibration {calibration.name} ({earlier})."] if earlier else []
    for metric, choice in calibration.choices.items():
        tables += [laws_table(metric, choice), _points(metric, choice)]
    return Document(
        title=f"Calibration of {calibration.name}",
        answer=(
            *(_learnt(metric, choice, calibration.name) for metric, choice in calibration.choices.items()),
            *map(one_line, calibration.doubts),
            *(chosen_law(metric, choice) for metric, choice in calibration.choices.items()),
            _way_on(calibration),
            *replaced,
        ),
        tables=tuple(tables),
        sections=tuple(_origin(calibration, said=calibration.doubts)),
        charts=lambda: validation_charts(calibration),
    )


def _way_on(calibration: Calibration) -> str:
    """Return the command that predicts others, of a table where this machine's values are by an unknown engine."""
    subjects = [point.subject for points in calibration.points.values() for point in points]
    if calibration.runtime or not any(subject.host for subject in subjects):
        return f"Predict others: edgewise estimate MODEL -d {calibration.name}"
    return (
        f"Predict others: edgewise estimate TABLE.csv -d {calibration.name}, a table with the columns of this "
        "machine's values, such as model,host_latency_ms: their engine is not known, so stored runs are not taken"
    )


def _learnt(metric: str, choice: Choice, device: str) -> str:
    """How many models the law of `metric` was fitted to, which it was not and why, and how far off it is."""
    trial, number = choice.chosen, len(choice.points)
    words = f"{METRICS[metric].label} on {device} is learnt from {count_text(trial.number, number)} measured models"
    words += f": {_errors(trial, choice.points)}"
    lacks = [(point.subject.name, trial.lacking(point.subject)) for point in choice.points]
    unused = [f"{one_line(name)} ({one_line(lack)})" for name, lack in lacks if lack]
    return f"{words}; not used: {enumerate_few(unused)}." if unused else f"{words}."


def _errors(trial: Trial, points: Sequence[Point]) -> str:
    """``"off by 9.1 % on average where a model is left out, most for a.tflite (+22%)"``."""
    words = f"off by {100 * validation(trial, points)['error']:.1f} % on average where a model is left out"
    shares = [(share, point.subject.name) for point, share in zip(points, _offs(trial, points), strict=True)]
    worst, name = max(((share, name) for share, name in shares if share is not None), key=lambda one: abs(one[0]))
    return f"{words}, most for {one_line(name)} ({_off_text(worst)})"


def _offs(trial: Trial, points: Sequence[Point]) -> list[float | None]:
    """How far a law is off for each point when it is left out, as a share; None where it lacks something."""
    shares = [float(value) / point.value - 1 for value, point in zip(trial.left_out, points, strict=True)]
    return [None if math.isnan(share) else share for share in shares]


def chosen_law(metric: str, choice: Choice) -> str:
    """Return the law that predicts `metric`, with its coefficients, as a sentence."""
    law, fitted = choice.chosen.predictor, choice.chosen.fitted
    title = law.name if isinstance(law, Mean) else f"{law.name}, {law.title}"  # the equation of a mean says the rest
    equation = fitted.equation if fitted else ""
    return f"{METRICS[metric].label} by {title}: {equation}{_why_not_least(choice)}."


def _why_not_least(choice: Choice) -> str:
    """Why the chosen law is not the one with the least error here, as a clause; "" where both are about equal."""
    least = choice.closer()
    if least is None:
        return ""
    error = _error_text(least.mean_error([point.value for point in choice.points]))
    models = "" if least.number == choice.chosen.number else f" on the {least.number} models that it knows"
    told = f"; the law {least.predictor.name} has the least error here, {error}{models}"
    expected = [_error_text(trial.expected_error) for trial in (least, choice.chosen)]
    if least.expected_error <= choice.chosen.expected_error:
        return f"{told}, but a mean of laws is mostly closer for other models"
    return f"{told}, but a larger expected error for other models, {expected[0]}, not {expected[1]}"


def _joined_by_text(cautions: Sequence[str]) -> list[str]:
    """Return cautions that differ only in the models named after the last colon as one that names all."""
    found = by_key((one.rpartition(": ")[0] or one, one) for one in dict.fromkeys(cautions))
    return [
        of[0]
        if len(of) == 1
        else f"{what}: {enumerate_few([one.removeprefix(f'{what}: ').removesuffix('.') for one in of])}."
        for what, of in found.items()
    ]


def _origin(calibration: Calibration, more: Sequence[str] = (), *, said: Sequence[str]) -> list[Section]:
    """Return the cautions of the calibration and `more`, but those that are `said`, and where its points are from."""
    lines = [f"Measured: {one_line(', '.join(calibration.sources))}."]
    has_hosts = any(point.subject.host for points in calibration.points.values() for point in points)
    if calibration.runtime and has_hosts:
        lines.append(_hosts(calibration))
    elif has_hosts:
        lines.append("host is the value in the table.")
    if calibration.path is not None:
        lines.append(f"Kept in {one_line(str(calibration.path))}.")
    sections = [Section(title="Points", lines=tuple(lines))]
    if cautions := _joined_by_text([each for each in (*calibration.cautions, *more) if each not in said]):
        sections.insert(0, Section(title="Cautions", lines=tuple(map(one_line, cautions)), tone="fair"))
    return sections


def _hosts(calibration: Calibration) -> str:
    """Where the values of this machine are from: stored runs with one engine, the table, or both."""
    runs = f"{calibration.runtime} on {one_line(calibration.host) or 'this machine'}"
    how = "the newest run of the best grade of each model"
    if not calibration.written:
        return f"host is {runs}: {how}."
    most = max(sum(point.subject.host is not None for point in points) for points in calibration.points.values())
    if calibration.written >= most:
        return f"host is the value in the table; of models to predict it is {runs}: {how}."
    return f"host is the value in the table of {calibration.written} of {most} models; of others {runs}: {how}."


def laws_table(metric: str, choice: Choice) -> Table:
    """Return a law per row."""
    rows = [(trial, validation(trial, choice.points)) for trial in choice.ranked]
    method = "each measured model is predicted by the law, fitted to the others"
    how = partial(provenance_of_column, "Validation of the law", "derived", method, "none is computed")
    columns: Columns[tuple[Trial, Mapping[str, Any]]] = [
        text_column("Law", lambda each: each[0].predictor.name),
        number_column("Error", lambda each: each[1]["error"], _error_text, why=lambda each: each[0].because, how=how),
        number_column("Expected", lambda each: each[1]["expected_error"], _error_text, how=how),
        number_column("Coverage", lambda each: _coverage(each[1]["coverage"]), "{:.0%}".format, rank=3, how=how),
        number_column("Rank corr.", lambda each: each[1]["rank_correlation"], "{:.3f}".format, rank=1, how=how),
        number_column("R²", lambda each: each[1]["r2"], "{:.3f}".format, rank=2, how=how),
        number_column("n", lambda each: each[0].number, str, rank=4),
        text_column("Equation", lambda each: each[1]["equation"] or "", folds=True, rank=5),
    ]
    title = f"{METRICS[metric].label}: laws, the chosen one first, then by error; error, coverage of {COVERAGE:.0%}"
    notes = () if len(rows) == 1 else (_how_chosen(choice),)
    return table_of(f"{title} intervals and rank of left-out models", rows, columns, notes=notes)


def _error_text(share: float) -> str:
    return f"{100 * share:.1f} %"


def _how_chosen(choice: Choice) -> str:
    """Return what the expected error is, and that laws are chosen by it."""
    trusted = [law for law in (trial.predictor.name for trial in choice.trials) if law in TRUST]
    divided = [f"; that of {law} is divided by {math.sqrt(TRUST[law]):.1f}" for law in trusted]
    by = (
        "a mean weighs its laws by the inverse of its square"
        if isinstance(choice.chosen.predictor, Mean)
        else ("the law with the least one is chosen")
    )
    return (
        "Expected: root mean square error for a model that was not measured, from the errors here, which count less "
        "where the other models tell little of the one left out, and from the law's error on public devices, which "
        f"counts as {CHOICE_POINTS:.0f} models{''.join(divided)}; {by}"
    )


def _coverage(coverage: Sequence[Mapping[str, float]] | None) -> float | None:
    """Of left-out points, the share inside their intervals."""
    return next((each["share"] for each in coverage or () if each["nominal"] == COVERAGE), None)


def _off_text(share: float) -> str:
    """``"+7%"``, ``"-0.3%"`` below 1 %; a share that rounds to nothing has no sign."""
    text = f"{share:+.1%}" if abs(share) < 0.0095 else f"{share:+.0%}"
    return "0%" if float(text[:-1]) == 0.0 else text


def _points(metric: str, choice: Choice) -> Table:
    """Return a point per row, with its value as predicted by the chosen law without it."""
    hosts = [point.subject.host for point in choice.points]
    unit, show = METRICS[metric].unit, partial(quantity, unit=METRICS[metric].unit)
    offs = _offs(choice.chosen, choice.points)

    def left_out(at: int) -> Cell:
        value = float(choice.chosen.left_out[at])
        if math.isnan(value):
            return absent(one_line(choice.chosen.lacking(choice.points[at].subject)))
        return Cell(text=show(value), value=value)

    def off(at: int) -> Cell:
        share = offs[at]
        return absent() if share is None else Cell(text=_off_text(share), value=share)

    def host(at: int) -> Cell:
        cell = value_cell(hosts[at], show)
        return replace(cell, notes=("of a run of grade D",)) if choice.points[at].subject.host_error else cell

    def measured(at: int) -> Cell:
        return value_cell(choice.points[at].value, show)

    law = f"by {choice.chosen.predictor.name}, fitted to the other models"
    given = partial(provenance_of_column, "Measured", "measured", "as the table of points has it", "none is recorded")
    without = partial(provenance_of_column, "Predicted without it", "estimated", law, "see the chart of coverage")
    columns: Columns[int] = [
        text_column("Model", lambda at: choice.points[at].subject.name, name=True),
        (Column(title="Host", numeric=True, rank=1, how=given, unit=unit), host),
        (Column(title="Measured", numeric=True, how=given, unit=unit), measured),
        (Column(title="Predicted without it", numeric=True, how=without, unit=unit), left_out),
        (Column(title="Prediction off by", numeric=True, how=without, in_si=("Off", 1.0)), off),
    ]
    if not any(hosts):
        del columns[1]
    return table_of(f"{METRICS[metric].label}: measured models", range(len(choice.points)), columns)


def calibrations_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """Calibrated devices, as `edgewise.predicting.calibration.summaries` lists them."""
    columns: Columns[Mapping[str, Any]] = [
        text_column("-d", lambda each: each["name"]),
        (Column(title="Models measured", folds=True), _counts),
        text_column("Sources", lambda each: ", ".join(each["sources"]), rank=1, folds=True),
    ]
    return table_of("Calibrated devices", found, columns)


def _counts(each: Mapping[str, Any]) -> Cell:
    if each["reason"]:
        return absent(one_line(each["reason"]))
    return Cell(
        text=", ".join(
            f"{METRICS[metric].label}: {count_text(used, each['measured'][metric])}"
            for metric, used in each["models"].items()
        )
    )


def atlas_devices_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """Devices of the atlas, as `edgewise.predicting.atlas.devices_of` lists them."""
    columns: Columns[Mapping[str, Any]] = [
        text_column("Device", lambda each: each["device"], folds=True),
        text_column("Runtime", lambda each: each["runtime"]),
        text_column("Unit", lambda each: each["unit"], rank=1),
        text_column("Precisions", lambda each: ", ".join(each["precisions"]), rank=2),
        number_column("Models", lambda each: each["models"], str),
        text_column("Tables", lambda each: ", ".join(each["tables"]), rank=3),
    ]
    return table_of("Devices of the atlas", found, columns)


def forecasts_document(found: Forecasts) -> Document:
    """Return the models in their order, by metric."""
    doubts = tuple(dict.fromkeys((*found.doubts, *found.calibration.doubts)))
    sections = _origin(found.calibration, found.cautions, said=doubts)
    for metric in found.metrics:
        if pairs := found.alike(metric):
            lines = tuple(f"{one_line(one.subject.name)} and {one_line(other.subject.name)}" for one, other in pairs)
            title = f"{METRICS[metric].label}: neighbours whose order is not certain (below {COVERAGE:.0%})"
            sections.insert(0, Section(title=title, lines=lines))
    return Document(
        title=f"Estimates for {found.calibration.name}",
        answer=(
            *filter(None, (told(found, metric) for metric in found.metrics for told in (_known, _least, _rests_on))),
            *map(one_line, doubts),
        ),
        tables=tuple(_forecast_table(found, metric) for metric in found.metrics),
        sections=tuple(sections),
        charts=lambda: [forecast_chart(found, metric) for metric in found.metrics],
        parts=lambda: [("The laws", [replace(calibration_document(found.calibration), sections=())])],
    )


def _known(found: Forecasts, metric: str) -> str:
    """Return the models that were measured on the device, with their values, as a sentence; "" where none was."""
    unit = METRICS[metric].unit
    known = [
        f"{one_line(row.subject.name)}, {quantity(row.measured, unit)}"
        for row in found.of(metric)
        if row.measured is not None
    ]
    words = f"{METRICS[metric].label} measured on {found.calibration.name}"
    return f"{words}: {enumerate_few(known)}. The estimates are what the law says." if known else ""


def _least(found: Forecasts, metric: str) -> str:
    """Return the model with the least value, and one that may have less, as a sentence; "" without a prediction."""
    label, unit = METRICS[metric].label, METRICS[metric].unit
    ranked = [row for row in found.of(metric) if row.prediction]
    if not ranked or ranked[0].prediction is None:
        return ""
    first, this = ranked[0], ranked[0].prediction
    ends = f"{COVERAGE:.0%} interval {amount_interval(unit, this.value, this.low, this.high)}"
    doubt = f", doubtful: {one_line(first.doubt)}" if first.doubt else ""
    value = f"{one_line(first.subject.name)}, {quantity(this.value, unit)} ({ends}){doubt}"
    if len(ranked) == 1:
        return f"{label} on {found.calibration.name}: {value}."
    doubtful = next((other for one, other in found.alike(metric) if one is first), None)
    rest = "" if doubtful is None else f"; {one_line(doubtful.subject.name)} may have less"
    return f"Least {label.lower()} on {found.calibration.name}: {value}{rest}."


def _rests_on(found: Forecasts, metric: str) -> str:
    """Return the errors from which the interval of the least value follows, as a sentence; "" without a prediction."""
    first, choice = found.of(metric)[0], found.calibration.choices[metric]
    if first.prediction is None:
        return ""
    law = next(trial for trial in choice.trials if trial.predictor.name == first.law)
    name = "" if law is choice.chosen else f" {first.law}, as {choice.chosen.predictor.name} can't be used for it"
    return f"Its interval follows from the errors of the law{name}: {_errors(law, choice.points)}."


def _forecast_table(found: Forecasts, metric: str) -> Table:
    unit = METRICS[metric].unit
    rows = found.of(metric)

    def value(row: Forecast) -> Cell:
        if row.prediction is None:
            return absent(one_line("; ".join(filter(None, (row.refused, row.advice)))))
        this = row.prediction
        notes, how = tuple(map(one_line, row.cautions)), partial(_how_forecast, row, this, found)
        return Cell(
            text=quantity(this.value, unit), value=this.value, low=this.low, high=this.high, notes=notes, how=how
        )

    def interval(row: Forecast) -> Cell:
        this = row.prediction
        return absent() if this is None else Cell(text=amount_interval(unit, this.value, this.low, this.high))

    number = partial(value_cell, show=partial(quantity, unit=unit))

    def law(row: Forecast) -> Cell:
        return Cell(text=row.law, notes=(one_line(f"{row.law}: {row.equation}"),) if row.law else ())

    columns: Columns[Forecast] = [
        text_column("Model", lambda row: row.subject.name, name=True),
        (Column(title=METRICS[metric].label, numeric=True, unit=unit), value),
        (Column(title=f"{COVERAGE:.0%} interval"), interval),
        (Column(title="Law", rank=1), law),
        text_column("Most like", lambda row: ", ".join(row.nearest), rank=2),
        (Column(title="Measured", numeric=True, unit=unit, hidden=True), lambda row: number(row.measured)),
    ]
    title = f"{METRICS[metric].label}, estimated"
    if metric in found.targets:
        how = partial(provenance_of_column, "On target", "estimated", "from the spread of the prediction", "none")
        on_target = Column(title="On target", numeric=True, how=how)
        columns.insert(3, (on_target, lambda row: value_cell(row.on_target, "{:.0%}".format)))
        title += f"; on target: probability of at most {quantity(found.targets[metric], unit)}"
    return table_of(title, rows, columns)


def _how_forecast(row: Forecast, this: Prediction, found: Forecasts) -> Provenance:
    """How the prediction of one metric of one model is known."""
    metric = METRICS[row.metric]
    conditions = f"{found.calibration.name}; measured: {', '.join(found.calibration.sources)}"
    facts = interval_facts(metric.unit, this.value, this.low, this.high, f"{COVERAGE:.0%} interval")
    facts += [("Basis", basis_text("estimated")), ("Method", f"{row.law}: {row.equation}")]
    facts += [("Conditions", conditions), ("Cautions", "; ".join(row.cautions))]
    return Provenance(f"{metric.label} of {row.subject.name}: {quantity(this.value, metric.unit)}", facts)


def suggestion_document(found: Suggestion) -> Document:
    """Return the networks to measure, and the commands to run next."""

    def macs(subject: Subject) -> float:
        amounts = zip(TERMS, known_profile(subject).amounts, strict=True)
        return sum(amount for term, amount in amounts if term not in UNCOUNTED)

    def kinds(subject: Subject) -> str:
        shares = sorted(zip(known_profile(subject).shares.tolist(), TERMS, strict=True), reverse=True)
        return ", ".join(f"{KINDS[term]} {share:.0%}" for share, term in shares[:2] if share >= SEEN_SHARE)

    before = f" beside the {found.measured} measured ones" if found.measured else ""
    columns: Columns[Subject] = [
        text_column("File", lambda one: one.name, name=True),
        number_column("MACs", macs, partial(format_si, unit="")),
        text_column("Most of the work", kinds, folds=True),
    ]
    answer = f"{len(found.subjects)} networks to measure on {found.device}{before}, written to "
    return Document(
        title=f"Networks to measure on {found.device}",
        answer=(f"{answer}{one_line(str(found.folder))}.",),
        tables=(table_of("Networks, the one that tells most first", found.subjects, columns),),
        sections=(Section(title="Next", lines=tuple(f"{where}: {one_line(step)}" for where, step in found.steps)),),
    )


def refusals(found: Forecasts) -> Sequence[Forecast]:
    """Return the forecasts that have no value."""
    return [row for row in found.rows if row.prediction is None]
