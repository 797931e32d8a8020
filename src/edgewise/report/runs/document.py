"""Stored runs on the terminal: a listing, and one run in full."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgewise.comparing.fairness import limits_text
from edgewise.device.devices import LOCAL
from edgewise.formatting import ABSENT, interval_text, quantity, value_text, with_range
from edgewise.grouping import by_key
from edgewise.record import Layer, Measurement, Run, SessionRecord, Source
from edgewise.record.job import UNKNOWN_DEVICE
from edgewise.record.layer import ESTIMATED_SHARE
from edgewise.report.document import (
    Cell,
    Column,
    Columns,
    Document,
    Section,
    Table,
    filled,
    lines_of,
    pairs_table,
    table_of,
)
from edgewise.report.document.columns import text_column
from edgewise.report.runs.cautions import uncovered_reasons
from edgewise.report.runs.cells import (
    CHIEF,
    chief_metric,
    failure_of,
    judged_on,
    judged_rows,
    label_of,
    notes_of,
    preparation_of,
    reason_of_absence,
    short_label_of,
)
from edgewise.report.runs.conditions import engine_of, file_of, flatten, own_words, path_of, scenario_of, short_engines
from edgewise.report.runs.provenance import how_of, provenance_of_column
from edgewise.store.codec import parse_time
from edgewise.text import one_line, plural, printable
from edgewise.units import format_duration, significant

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.store.tables import RunRow

MOST_LAYERS = 20
_MODEL_ALONE = re.compile(r"\((R|TM)\)|\s+(CPU\b|\d+-Core\b|Processor\b|@).*")
"""Parts of a processor's name that say nothing about the model."""

_HOW_ROWS = partial(
    provenance_of_column, "Numbers of a run", None, "beside each number; of a phase: two readings of a monotonic clock",
    "beside each number; a phase has none", (("Conditions", "the cautions and settings of the run"),),
)  # fmt: skip


def listing_document(
    rows: Sequence[RunRow], *, id_size: int | None = None, scores: Mapping[str, RunRow] = MappingProxyType({})
) -> Document:
    """One line per run; the heading names the metric, or each cell.

    Args:
        id_size: characters of an id; None shows all.
        scores: see `Store.scores`.
    """
    metrics = list(dict.fromkeys(row.metric for row in rows if row.metric))
    usual, mixed = (metrics[0] if metrics else None), len(metrics) > 1
    away = any(row.device not in (LOCAL, UNKNOWN_DEVICE) for row in rows)
    title = label_of(usual) if usual and not mixed else "Result"
    graded = any(map(_grade_of, rows))
    scored = list(dict.fromkeys(score.metric for score in scores.values()))
    judged = any(metric in CHIEF for metric in scored)
    result = Column(title=f"{title}, grade" if graded else title, numeric=True)
    machine = Column(title="Machine", name=not away, rank=0 if away else 6)
    own = own_words([tuple(row.model.split()) for row in rows if _is_program(row)])
    engines = short_engines(map(_engine_of_row, rows))

    def score_cell(row: RunRow) -> Cell:
        if row.id not in scores:
            return Cell(text="")
        score, named = scores[row.id], len(scored) > 1
        short = _result(replace(score, low=None, high=None), named=named)
        return Cell(text=_result(score, named=named), short=short, low=score.low)

    def result_cell(row: RunRow) -> Cell:
        grade = f" {_grade_of(row)}".rstrip()
        # Beside an accuracy 80 cells have no room for the interval.
        told = replace(row, low=None, high=None) if judged else row
        short = row.cause or _result(told, named=row.metric != usual and not _is_program(row)) + grade
        return Cell(text=_result(row, named=mixed) + grade, short=short, low=row.low)

    columns: Columns[RunRow] = [
        text_column("Run", lambda row: row.id[:id_size], whole=True),
        text_column("Made (UTC)", lambda row: _moment(row.created_at), rank=4),
        (
            Column(title="Model", name=True),
            lambda row: Cell(
                text=row.model, short=own.get(tuple(row.model.split()), row.model.replace("(sha256 ", "("))
            ),
        ),
        (
            Column(title="Runtime", name=True, folds=id_size is not None),  # whole ids leave no room
            lambda row: Cell(text=_engine_words(row), short=_engine_words(row, short=engines)),
        ),
        text_column(
            "Shape",
            lambda row: row.shapes or "",
            name=True,
            rank=1 if _differ_in_shape(rows) else 5,
            hidden=not any(row.shapes for row in rows),
        ),
        (result, result_cell),
        (
            Column(
                title=label_of(scored[0]) if len(scored) == 1 and scored[0] else "Score",
                numeric=True,
                rank=0 if judged else 3,
                hidden=not scored,
            ),
            score_cell,
        ),
        (machine, lambda row: _machine_cell(row, away=away)),
        text_column("Tags", lambda row: ", ".join(row.tags), rank=2, hidden=not any(row.tags for row in rows)),
    ]
    return Document(title="", tables=(table_of("", rows, columns),))


def _differ_in_shape(rows: Sequence[RunRow]) -> bool:
    """Whether nothing but their shapes tells some of `rows` apart."""
    shapes = by_key(((row.sha256, row.model, _engine_words(row)), row.shapes) for row in rows)
    return any(len({*some}) > 1 for some in shapes.values())


def _machine_cell(row: RunRow, *, away: bool) -> Cell:
    """Return where a run took place, short without what says nothing of a processor's model; `away`: also elsewhere."""
    short = LOCAL if away and row.device == LOCAL else _MODEL_ALONE.sub("", row.machine or "").strip()
    return Cell(text=row.machine or "–", short=short)


def _is_program(row: RunRow) -> bool:
    return row.scenario == row.runtime


def _engine_of_row(row: RunRow) -> str:
    return "/".join(dict.fromkeys(filter(None, (row.runtime, row.provider))))


def _engine_words(row: RunRow, *, short: Mapping[str, str] = MappingProxyType({})) -> str:
    """Runtime, provider and settings, a program's runtime alone; `short`: other words for a runtime with provider."""
    if _is_program(row):
        return row.runtime
    engine = _engine_of_row(row)
    words = [short.get(engine, engine)]
    words += [f"{row.threads}T"] if row.threads else []
    words += [f"batch {row.batch}"] if row.batch != 1 else []
    words += [row.scenario] if row.scenario != "single-stream" else []
    return " ".join(words)


def _grade_of(row: RunRow) -> str:
    """Return the grade of a result; "" where there is none."""
    return row.grade or "" if row.status == "done" else ""


def _result(row: RunRow, *, named: bool) -> str:
    """Return the run's headline with its interval, and the metric's name where the heading does not say it."""
    if row.status != "done":
        return row.status + (f": {row.cause}" if row.cause else "")
    if row.value is None or row.unit is None or row.metric is None:
        return "absent"
    text = with_range(row.metric, row.unit, row.value, row.low, row.high)
    return f"{short_label_of(row.metric)} {text}" if named else text


def _moment(created_at: str) -> str:
    return f"{parse_time(created_at):%Y-%m-%d %H:%M}"


def print_run(run: Run, console: Console) -> None:
    """Print everything that the record of `run` holds; samples are in the JSON."""
    from edgewise.report.document.text import print_document, print_titled
    from edgewise.report.profile.document import profile_document

    layers = f"no layers: {run.profile_absent_because}" if run.profile_absent_because else ""
    if run.layers:
        count = plural(len(run.layers), "layer")
        layers = "" if run.profile or run.source else f"{count}: see --json"
    environment = [f"{name}: {text}" for name, text in flatten(run.environment)]
    more = [
        Section(title="Model file", lines=lines_of([run.job.model.path])),
        Section(title="Environment", lines=lines_of(environment)),
        Section(title="Layers", lines=lines_of([layers])),
    ]
    found = run_document(run)
    print_titled(replace(found, sections=tuple(filled([*found.sections, *more]))), console, details=True)
    if run.layers and run.profile is not None:
        console.print()
        print_document(profile_document([run], width=console.width), console, details=True)


def run_document(run: Run, *, label: str = "") -> Document:
    """Facts and measurements of `run`, called `label` among others, how they were obtained, cautions and settings."""
    headline, judged = run.measurement(run.headline), chief_metric(run)
    rows = [headline, run.measurement(judged) if judged is not None else None]
    known = [value_text(row.metric, row.unit, row.value) for row in rows if row is not None and row.value is not None]
    told = [failure_of(run) if run.status == "failed" else ", ".join(known) or ABSENT]
    told += [f"grade {run.trust.grade}"] if run.trust and run.status == "done" else []
    tables = [
        _measurements(run),
        _spread(run, headline),
        _sessions(run),
        *([_layers(run)] if run.source is not None and run.layers and run.profile is None else []),
        pairs_table("What was run", ((name, text and one_line(text)) for name, text in _facts(run))),
    ]
    return Document(
        id=f"run-{run.id}",
        title=label or run.job.label,
        answer=(", ".join(told),),
        tables=tuple(table for table in tables if table.rows),
        sections=tuple(filled(_sections(run))),
    )


def _sections(run: Run) -> list[Section]:
    """Why it failed or has its grade, and its cautions."""
    found = []
    if (failure := run.failure) is not None:
        end = failure.signal or (f"exit code {failure.exit_code}" if failure.exit_code is not None else "")
        lines = (f"{failure.cause}: {failure.message}", failure.advice, end and f"the worker ended with {end}")
        drawing = tuple(map(printable, (failure.stderr_tail or "").splitlines()))
        title = "Why it failed" + (f", in phase {failure.phase}" if failure.phase else "")
        found.append(Section(title=title, lines=lines_of(filter(None, lines)), drawing=drawing, tone="bad"))
    elif run.trust is not None:
        found.append(Section(title=f"Grade {run.trust.grade}, because", lines=lines_of(uncovered_reasons(run))))
    advice = [f"{each.code}: {each.message}" + (f" → {each.advice}" if each.advice else "") for each in run.cautions]
    return [*found, Section(title="Cautions", lines=lines_of(advice))]


def _measurements(run: Run) -> Table:
    def value(row: Measurement) -> Cell:
        text = value_text(row.metric, row.unit, row.value)
        notes = notes_of(run, row) if row.value is not None else ()
        return Cell(text=text, value=row.value, notes=notes, tone="plain" if row.basis else "faint")

    def interval(row: Measurement) -> str:
        return interval_text(row.metric, row.unit, row.value, row.low, row.high) if row.value is not None else ""

    columns: Columns[Measurement] = [
        text_column("Metric", lambda row: label_of(row.metric)),
        (Column(title="Value", numeric=True, how=_HOW_ROWS), value),
        text_column("95 % interval", interval, numeric=True),
        text_column("n", lambda row: _count(run, row), numeric=True),
        text_column("Basis", lambda row: row.basis or ""),
        text_column(
            "Method, or why it is not known",
            lambda row: row.method if row.value is not None else reason_of_absence(run, row.metric),
            rank=1,
        ),
    ]
    return table_of("Measurements", run.measurements, columns)


def _count(run: Run, row: Measurement) -> str:
    """Return the samples behind a number: inferences, or judged samples of the data; empty where not reported."""
    if row.summary is not None:
        return str(row.summary.n)
    if row.samples:
        return str(len(row.samples))
    return str(run.evaluation.n) if run.evaluation is not None and row in judged_rows(run) else ""


def _spread(run: Run, row: Measurement | None) -> Table:
    """Return the quantiles of the headline."""
    told: list[tuple[str, str]] = []
    if row is not None and (summary := row.summary) is not None:
        values = [("min", summary.min), *summary.percentiles.items(), ("max", summary.max), ("mean", summary.mean)]
        told = [(name, quantity(value, row.unit)) for name, value in [*values, ("std", summary.std)]]
        told += [("samples", str(summary.n)), ("far outliers", str(summary.outliers))]
        if summary.autocorrelation is not None:
            told.append(("autocorrelation", significant(summary.autocorrelation, 2)))
        if summary.between_sessions is not None:
            told.append(("between sessions", f"{summary.between_sessions:.2%} (standard deviation)"))
    columns: Columns[tuple[str, str]] = [
        text_column("Of the samples", lambda pair: pair[0]),
        text_column("Value", lambda pair: pair[1], numeric=True, how=how_of(run, run.headline)),
    ]
    return table_of("Spread of the headline", told, columns)


def _sessions(run: Run) -> Table:
    names = list(dict.fromkeys(name for session in run.sessions for name in session.phases))

    def phase(name: str) -> Callable[[SessionRecord], str]:
        return lambda session: quantity(session.phases[name], "s") if name in session.phases else ABSENT

    columns: Columns[SessionRecord] = [
        text_column("#", lambda session: session.index + 1, numeric=True),
        *(text_column(one_line(name), phase(name), numeric=True, rank=2, how=_HOW_ROWS) for name in names),
        text_column("warm-up inferences", lambda session: session.warmup, numeric=True, rank=1, how=_HOW_ROWS),
        text_column("stopped because", lambda session: session.stopped_because or ABSENT),
    ]
    return table_of("Sessions (fresh processes) and the time of their phases", run.sessions, columns)


def _facts(run: Run) -> Iterator[tuple[str, str | None]]:
    """Yield what was measured, where and when: pairs of label and text, empty where there is nothing to say."""
    job, stopping = run.job, run.job.workload.stopping
    yield "Run", run.id
    yield "Measured", f"{_moment(run.created_at)} UTC"
    left_out = [each.message for each in run.cautions if each.code == "failed-executions"]
    yield "Status", "; ".join([run.status, *left_out]) if left_out or run.status != "done" else ""
    yield "Model", f"{job.model.name} ({file_of(run)})"
    yield "sha256", job.model.sha256 if job.model.is_known else ""
    if origin := job.model.origin:
        yield "Built by", f"{origin.target}, network {origin.sha256[:16]}"
        yield "Path", path_of(run)[0]
        yield "Lost in the export", "; ".join(origin.lost)
    default = "its own number of" if run.source is None else "unknown number of"
    threads = f"{job.runtime.threads or default} thread{'' if job.runtime.threads == 1 else 's'}"
    yield "Engine", f"{engine_of(run)}, provider {job.runtime.provider or 'not reported'}, {threads}"
    yield "Options", job.runtime.options_in_words if job.runtime.options else ""
    yield "Settings in effect", ", ".join(f"{key} {value}" for key, value in flatten(run.effective)) or "not reported"
    inputs = [f"{spec.name} {'×'.join(map(str, spec.shape))} {spec.dtype}" for spec in job.workload.inputs]
    data, seed = job.workload.input_data, job.workload.seed
    source = f"file with sha256 {data}" if data else f"random, seed {seed}"
    asked = {
        "iterations": stopping.iterations,
        "warm-up": stopping.warmup,
        "duration": f"{stopping.duration_s:g} s" if stopping.duration_s is not None else None,
    }
    rule = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
    if run.source is not None:
        rule, source = rule or "set by the tool", "chosen by the tool"
    rule = rule or f"until the interval is ± {stopping.relative_half_width:.1%}, at most {stopping.max_s:g} s a session"
    yield "Inputs", f"{'; '.join(inputs) or 'not reported'} ({source})"
    yield "Scenario", f"{scenario_of(run)}, batch {job.workload.batch}"
    yield "Stopping", f"{stopping.sessions} session(s), {rule}" if run.sessions else ""
    yield "Limits", limits_text(job) if job.target.constraints is not None else ""
    yield "Device", job.target.device if job.target.device != LOCAL else ""
    if run.source is not None:
        yield from _origin(run.source)
    yield "Judged on", judged_on(run)
    yield "Prepared", "; ".join(preparation_of(run.evaluation)) if run.evaluation is not None else ""
    yield "Tags", ", ".join(run.tags)
    yield "Group", run.group


def _origin(source: Source) -> Iterator[tuple[str, str]]:
    """Where an imported run comes from."""
    yield "Imported from", f"{source.tool}, {source.form}"
    yield "File", f"{source.file}, {source.part}, sha256 {source.sha256[:16]}"
    yield "Told on import", ", ".join(f"{name} {value}" for name, value in source.told.items())
    yield "Time", "when the file was last modified: the file has no time" if source.time_from == "modified" else ""


def _layers(run: Run) -> Table:
    """Return the layers with most of the time or of the estimated cost, of an imported run without a profile.

    Where none has a time, the table has what ran each instead.
    """
    estimated = any(ESTIMATED_SHARE in layer.attributes for layer in run.layers)
    untimed = all(layer.time is None for layer in run.layers)
    total = sum(layer.time or 0.0 for layer in run.layers)

    def share(layer: Layer) -> float | None:
        if estimated:
            return layer.attributes.get(ESTIMATED_SHARE)
        return layer.time / total if layer.time is not None and total else None

    def middle(layer: Layer) -> str:
        if estimated or untimed:
            return one_line(layer.provider or "absent")
        return "absent" if layer.time is None else format_duration(layer.time)

    rows = sorted(run.layers, key=lambda layer: -(share(layer) or 0.0))[:MOST_LAYERS]
    part = "Estimated share of the cost" if estimated else "Share of the layers"
    columns: Columns[Layer] = [
        text_column("Layer", lambda layer: layer.title, name=True, ends=True),
        text_column("Operator", lambda layer: layer.op),
        text_column("Preferred unit" if estimated else "Ran in" if untimed else "Time", middle, numeric=not untimed),
    ]
    if estimated or not untimed:
        columns.append(
            text_column(part, lambda layer: "" if (of := share(layer)) is None else f"{of:.1%}", numeric=True)
        )
    more = len(run.layers) - len(rows)
    notes = (f"{plural(more, 'further layer')}: see --json",) if more else ()
    return table_of("", rows, columns, notes=notes)
