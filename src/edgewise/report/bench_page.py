"""The page of measured runs: beyond what `bench` prints, its charts, every run in detail, other tables, conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from edgewise.formatting import ABSENT, quantity, range_text, value_text
from edgewise.record import Measurement, Run
from edgewise.report import bench_charts as charts
from edgewise.report.accuracy import chief_metric, judged_on, judged_rows, preparation_of
from edgewise.report.bench import bench_document, default_title
from edgewise.report.bench_charts import Series
from edgewise.report.bench_devices import answer_by_device, summary_of, title_of_group
from edgewise.report.candidates import comparable_groups
from edgewise.report.cautions import uncovered_reasons
from edgewise.report.cells import failure_of, label_of, reason_of_absence
from edgewise.report.charts import Chart, colour_of
from edgewise.report.conditions import (
    engine_of,
    file_of,
    flatten,
    labels_of,
    path_of,
    processor_of,
    scenario_of,
    system_of,
    told_apart,
)
from edgewise.report.document import (
    Cell,
    Column,
    Document,
    Section,
    Table,
    filled,
    lines_of,
    pairs_table,
    table_of,
    text_cell,
)
from edgewise.report.field_tables import FIELD_TABLES, Options, field_tables
from edgewise.report.names import distinct_names
from edgewise.report.provenance import how_of, provenance_of_column
from edgewise.report.sustained import sustained_charts
from edgewise.text import one_line
from edgewise.units import significant

MOST_DRAWN = 24
"""Number of runs with a chart of their own; hundreds would take minutes to render."""
_GRADES = (
    "measured values were observed here; derived ones are computed from those; simulated and estimated ones are not "
    "observations and say so; grades run from A (best) to D"
)
_HOW_ROWS = partial(
    provenance_of_column, "Numbers of a run", None, "beside each number; of a phase: two readings of a monotonic clock",
    "beside each number; a phase has none", (("Conditions", "the cautions and settings of the run"),),
)  # fmt: skip


def bench_page(
    runs: Sequence[Run], *, title: str = "", options: Options | None = None, first: Sequence[str] = ()
) -> Document:
    """What the page of `runs` has.

    Args:
        title: heading; empty for one made from the models and the machine.
        options: task and reference for the tables of the field.
        first: lines above the answer.
    """
    runs = told_apart(runs)
    document = bench_document(runs)
    recommended = [section for section in document.sections if section.title.startswith(("Recommended", "No rec"))]
    others = [section for section in document.sections if section not in recommended]
    return replace(
        document,
        title=one_line(title) or default_title(runs),
        answer=(*first, *summary_of(runs), *answer_by_device(runs, each=True)),
        lead=tuple(recommended),
        sections=(_facts(runs), *others, Section(title="Kinds of numbers", lines=(_GRADES,))),
        charts=lambda: _charts(runs),
        parts=lambda: _parts(runs, options or Options()),
    )


def _facts(runs: Sequence[Run]) -> Section:
    def several(words: Iterable[str | None]) -> str:
        return ", ".join(dict.fromkeys(word for word in words if word)) or "not reported"

    days = sorted({run.created_at[:10] for run in runs})
    failed = sum(run.status == "failed" for run in runs)
    facts = [
        f"Runs: {len(runs)}" + (f", {failed} failed" if failed else ""),
        f"Models: {several(run.job.model.name for run in runs)}",
        f"Processor: {several(processor_of(run) for run in runs)}",
        f"System: {several(system_of(run) for run in runs)}",
        f"Engines: {several(engine_of(run) for run in runs if run.status == 'done')}",
        f"Measured: {(days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}') if days else 'not reported'}",
    ]
    return Section(title="What was measured", lines=lines_of(facts))


def _charts(runs: Sequence[Run]) -> list[Chart | None]:
    """The charts of each group of comparable runs: colours by place in the page, names that tell the group apart."""
    colours = {run.id: colour_of(index) for index, run in enumerate(runs)}
    groups = comparable_groups(runs)
    found: list[Chart | None] = []
    for group in groups:
        series = [
            Series(run=run, label=label, colour=colours[run.id])
            for run, label in zip(group, distinct_names(labels_of(group)), strict=True)
        ]
        whose = f"{title_of_group(group, runs)}: " if len(groups) > 1 else ""
        drawn = [*sustained_charts(series), *(make(series) for make in charts.GROUP_CHARTS)]
        found += [each and replace(each, title=whose + each.title) for each in drawn]
    return found


def _parts(runs: Sequence[Run], options: Options) -> list[tuple[str, list[Document]]]:
    colours = [colour_of(index) if index < MOST_DRAWN else None for index in range(len(runs))]
    several = f" (samples over time: of the first {MOST_DRAWN})" if len(runs) > MOST_DRAWN else ""
    fields = [(name, field_tables(name, runs, options=options)) for name in FIELD_TABLES]
    return [
        (f"Runs{several}", [_run(*each) for each in zip(runs, labels_of(runs), colours, strict=True)]),
        (
            "Tables of the field",
            [
                Document(
                    id=f"table-{name}",
                    title=tables[0].title,
                    tables=tuple(tables),
                    answer=(f"edgewise report --table {name}",),
                )
                for name, tables in fields
            ],
        ),
        ("Conditions", _conditions(runs)),
    ]


def _run(run: Run, label: str, colour: str | None) -> Document:
    """Everything about one run; without a chart where it has no `colour`."""
    headline, judged = run.measurement(run.headline), chief_metric(run)
    rows = [headline, run.measurement(judged) if judged is not None else None]
    known = [value_text(row.metric, row.unit, row.value) for row in rows if row is not None and row.value is not None]
    told = [failure_of(run) if run.status == "failed" else ", ".join(known) or ABSENT]
    told += [f"grade {run.trust.grade}"] if run.trust and run.status == "done" else []
    series = Series(run=run, label=label, colour=colour or "")
    tables = [_measurements(run), _spread(run, headline), _sessions(run), pairs_table("What was run", _facts_of(run))]
    return Document(
        id=f"run-{run.id}",
        title=label,
        answer=(", ".join(told),),
        tables=tuple(table for table in tables if table.rows),
        sections=tuple(filled(_sections(run))),
        charts=lambda: [charts.series_chart(series)] if colour else [],
    )


def _sections(run: Run) -> list[Section]:
    """Why it failed or has its grade, and its cautions."""
    found = []
    if run.failure is not None:
        failure = run.failure
        end = failure.signal or (f"exit code {failure.exit_code}" if failure.exit_code is not None else "")
        lines = (f"{failure.cause}: {failure.message}", failure.advice, end and f"the worker ended with {end}")
        found.append(
            Section(
                title="Why it failed",
                lines=lines_of(filter(None, lines)),
                drawing=tuple((failure.stderr_tail or "").splitlines()),
                tone="bad",
            )
        )
    elif run.trust is not None:
        found.append(Section(title=f"Grade {run.trust.grade}, because", lines=lines_of(uncovered_reasons(run))))
    advice = [f"{each.code}: {each.message}" + (f" → {each.advice}" if each.advice else "") for each in run.cautions]
    return [*found, Section(title="Cautions", lines=lines_of(advice))]


def _measurements(run: Run) -> Table:
    def value(row: Measurement) -> Cell:
        text = value_text(row.metric, row.unit, row.value)
        return Cell(text=text, value=row.value, tone="plain" if row.basis else "faint")

    def interval(row: Measurement) -> Cell:
        known = row.value is not None
        return Cell(text=range_text(row.metric, row.unit, row.low, row.high, to=" – ") if known else "")

    def method(row: Measurement) -> Cell:
        return text_cell(row.method if row.value is not None else reason_of_absence(run, row.metric))

    return table_of(
        "Measurements",
        run.measurements,
        [
            (Column(title="Metric"), lambda row: Cell(text=label_of(row.metric))),
            (Column(title="Value", numeric=True, how=_HOW_ROWS), value),
            (Column(title="95 % interval", numeric=True), interval),
            (Column(title="n", numeric=True), lambda row: Cell(text=_count(run, row))),
            (Column(title="Basis"), lambda row: text_cell(row.basis or "")),
            (Column(title="Method, or why it is not known"), method),
        ],
    )


def _count(run: Run, row: Measurement) -> str:
    """Samples behind a number: inferences, or samples of the data that were judged; empty where it is not reported."""
    if row.summary is not None:
        return str(row.summary.n)
    if row.samples:
        return str(len(row.samples))
    return str(run.evaluation.n) if run.evaluation is not None and row in judged_rows(run) else ""


def _spread(run: Run, row: Measurement | None) -> Table:
    """The quantiles of the headline."""
    told: list[tuple[str, str]] = []
    if row is not None and (summary := row.summary) is not None:
        values = [("min", summary.min), *summary.percentiles.items(), ("max", summary.max), ("mean", summary.mean)]
        told = [(name, quantity(value, row.unit)) for name, value in [*values, ("std", summary.std)]]
        told += [("samples", str(summary.n)), ("far outliers", str(summary.outliers))]
        if summary.autocorrelation is not None:
            told.append(("autocorrelation", significant(summary.autocorrelation, 2)))
        if summary.between_sessions is not None:
            told.append(("between sessions", f"{summary.between_sessions:.2%} (standard deviation)"))
    return table_of(
        "Spread of the headline",
        told,
        [
            (Column(title="Of the samples"), lambda pair: Cell(text=pair[0])),
            (Column(title="Value", numeric=True, how=how_of(run, run.headline)), lambda pair: Cell(text=pair[1])),
        ],
    )


def _sessions(run: Run) -> Table:
    names = list(dict.fromkeys(name for session in run.sessions for name in session.phases))

    def phase(name: str) -> Any:
        return lambda session: Cell(text=quantity(session.phases[name], "s") if name in session.phases else ABSENT)

    return table_of(
        "Sessions (fresh processes) and the time of their phases",
        run.sessions,
        [
            (Column(title="#", numeric=True), lambda session: Cell(text=str(session.index + 1))),
            *((Column(title=one_line(name), numeric=True, how=_HOW_ROWS), phase(name)) for name in names),
            (
                Column(title="warm-up inferences", numeric=True, how=_HOW_ROWS),
                lambda session: Cell(text=str(session.warmup)),
            ),
            (Column(title="stopped because"), lambda session: text_cell(session.stopped_because or ABSENT)),
        ],
    )


def _facts_of(run: Run) -> list[tuple[str, str]]:
    job, stopping = run.job, run.job.workload.stopping
    inputs = [f"{spec.name} {'×'.join(map(str, spec.shape))} {spec.dtype}" for spec in job.workload.inputs]
    source = (
        f"file with sha256 {job.workload.input_data}"
        if job.workload.input_data
        else f"random, seed {job.workload.seed}"
    )
    asked = {
        "iterations": stopping.iterations,
        "warm-up": stopping.warmup,
        "duration": f"{stopping.duration_s:g} s" if stopping.duration_s is not None else None,
    }
    rule = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
    if run.source is not None:
        rule, source = rule or "set by the tool", "chosen by the tool"
    rule = rule or f"until the interval is ± {stopping.relative_half_width:.1%}, at most {stopping.max_s:g} s a session"
    return [
        ("Run", run.id),
        ("Measured", run.created_at),
        ("Model", f"{job.model.name} ({file_of(run)})"),
        ("sha256", job.model.sha256 if job.model.is_known else ""),
        ("Path", path_of(run)[0]),
        ("Lost in the export", "; ".join(job.model.origin.lost) if job.model.origin else ""),
        ("Engine", f"{engine_of(run)}, provider {job.runtime.provider or 'not reported'}"),
        ("Settings in effect", ", ".join(f"{key} {value}" for key, value in flatten(run.effective)) or "not reported"),
        ("Inputs", f"{'; '.join(inputs) or 'not reported'} ({source})"),
        ("Scenario", f"{scenario_of(run)}, batch {job.workload.batch}"),
        ("Stopping", f"{stopping.sessions} session(s), {rule}" if run.sessions else ""),
        ("Judged on", judged_on(run)),
        ("Prepared", "; ".join(preparation_of(run.evaluation)) if run.evaluation is not None else ""),
        ("Tags", ", ".join(run.tags)),
    ]


def _conditions(runs: Sequence[Run]) -> list[Document]:
    """Every environment that differs from the others, with the runs that it holds for."""
    found: dict[str, tuple[list[str], Run]] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        key = json.dumps(run.environment, sort_keys=True, default=str)
        found.setdefault(key, ([], run))[0].append(label)
    return [
        Document(
            title="The machine, the same for all runs" if len(labels) == len(runs) else ", ".join(labels),
            tables=(pairs_table("Conditions", flatten(run.environment)),),
            answer=() if run.environment else ("the record holds no environment",),
        )
        for labels, run in found.values()
    ]
