"""The page of measured runs: recommendation, tables, charts, every run in detail, conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from edgewise.formatting import ABSENT, quantity, range_text, value_text
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.report import charts
from edgewise.report.accuracy import chief_metric, judged_on, judged_rows, preparation_of
from edgewise.report.bench import bench_document, default_title
from edgewise.report.bench_devices import answer_by_device, recommendations_by_device, summary_of, title_of_group
from edgewise.report.bench_table import GRADE_TONES
from edgewise.report.candidates import comparable_groups
from edgewise.report.cautions import uncovered_reasons
from edgewise.report.cells import failure_of, label_of, reason_of_absence
from edgewise.report.charts import Series
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
from edgewise.report.field_tables import FIELD_TABLES, Options, field_tables
from edgewise.report.names import distinct_names
from edgewise.report.page import ChartRenderer, render_page, view_table
from edgewise.report.provenance import how_of, provenance_of_column
from edgewise.report.sustained import sustained_charts
from edgewise.text import one_line
from edgewise.units import significant

MOST_DRAWN = 24
"""Number of runs with a chart of their own; hundreds would take minutes to render."""


def render_html(
    runs: Sequence[Run], *, title: str = "", options: Options | None = None, first: Sequence[str] = ()
) -> str:
    """The page of `runs`.

    Args:
        title: heading; empty for one made from the models and the machine.
        first: lines above the answer.
        options: task and reference for the tables of the field.

    Where vl-convert-python is missing the page has no charts and says how to get them.
    """
    runs = told_apart(runs)
    labels = labels_of(runs)
    series = [
        Series(run=run, label=label, colour=charts.colour_of(index))
        for index, (run, label) in enumerate(zip(runs, labels, strict=True))
    ]
    colours = {one.run.id: one.colour for one in series}
    drawing = ChartRenderer()
    used = {row.metric for run in runs for row in run.measurements}
    document = bench_document(runs)
    return render_page(
        "report.html.jinja",
        scripts=["report.js"],
        styles=["report.css"],
        kind="report",
        title=one_line(title) or default_title(runs),
        answer=(*first, *summary_of(runs), *answer_by_device(runs, each=True)),
        facts=_facts(runs),
        picks=_picks(series),
        results=[
            view_table(table, f"result-{index}", sortable=True, colours=colours, colour_by="Run", runs=colours)
            for index, table in enumerate(document.tables)
        ],
        sections=[section for section in document.sections if not section.title.startswith(("Recommended", "No rec"))],
        groups=[_group_view(group, series, drawing) for group in comparable_groups(runs)],
        runs=[_run_view(one, drawing, draw=index < MOST_DRAWN) for index, one in enumerate(series)],
        most_drawn=MOST_DRAWN if len(runs) > MOST_DRAWN else None,
        missing=drawing.missing,
        field_tables=[
            (name, [view_table(table, f"{name}-{index}") for index, table in enumerate(tables)])
            for name, tables in (
                (name, field_tables(name, runs, options=options or Options())) for name in FIELD_TABLES
            )
        ],
        conditions=_conditions(series),
        how_rows=_HOW_ROWS,
        metrics=[metric for identity, metric in METRICS.items() if identity in used],
    )


def _facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Facts under the heading."""

    def several(words: Iterable[str | None]) -> str:
        return ", ".join(dict.fromkeys(word for word in words if word)) or "not reported"

    days = sorted({run.created_at[:10] for run in runs})
    failed = sum(run.status == "failed" for run in runs)
    return [
        ("Runs", f"{len(runs)}" + (f", {failed} failed" if failed else "")),
        ("Models", several(run.job.model.name for run in runs)),
        ("Processor", several(processor_of(run) for run in runs)),
        ("System", several(system_of(run) for run in runs)),
        ("Engines", several(engine_of(run) for run in runs if run.status == "done")),
        ("Measured", (days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}") if days else "not reported"),
    ]


def _picks(series: Sequence[Series]) -> list[dict[str, Any]]:
    """One card per group of comparable runs."""
    by_id = {one.run.id: one for one in series}
    cards = []
    for found in recommendations_by_device([one.run for one in series]):
        chosen = by_id.get(found.run) if found.run is not None else None
        card: dict[str, Any] = {"group": found.group, "why": found.why, "label": found.label, "run": found.run}
        row = chosen.run.measurement(chosen.run.headline) if chosen is not None else None
        if chosen is not None and row is not None and row.value is not None:
            number, _, unit = quantity(row.value, row.unit).partition(" ")
            card |= {"number": number, "unit": unit, "metric": label_of(row.metric), "interval": _interval(row)}
            card |= {"colour": chosen.colour, "how": how_of(chosen.run, row.metric)}
        cards.append(card)
    return cards


def _interval(row: Measurement) -> str:
    return range_text(row.metric, row.unit, row.low, row.high, to=" – ")


def _group_view(group: Sequence[Run], page: Sequence[Series], drawing: ChartRenderer) -> dict[str, Any]:
    """The charts of one group: colours are the page's, names just what tells the group's own runs apart."""
    colours = {one.run.id: one.colour for one in page}
    series = [
        Series(run=run, label=label, colour=colours[run.id])
        for run, label in zip(group, distinct_names(labels_of(group)), strict=True)
    ]
    return {
        "title": title_of_group(group, [one.run for one in page]),
        "charts": drawing.draw_all([*sustained_charts(series), *(make(series) for make in charts.GROUP_CHARTS)]),
    }


def _run_view(one: Series, drawing: ChartRenderer, *, draw: bool) -> dict[str, Any]:
    run = one.run
    judged = chief_metric(run)
    rows = [one.row, run.measurement(judged) if judged is not None else None]
    known = [value_text(row.metric, row.unit, row.value) for row in rows if row is not None and row.value is not None]
    return {
        "run": run,
        "label": one.label,
        "colour": one.colour,
        "headline": failure_of(run) if run.status == "failed" else ", ".join(known) or ABSENT,
        "tone": GRADE_TONES[run.trust.grade] if run.trust is not None else "plain",
        "reasons": uncovered_reasons(run),
        "facts": _run_facts(run),
        "measurements": [_measurement_view(run, row) for row in run.measurements],
        "percentiles": _percentiles(run.measurement(run.headline)),
        "spread": how_of(run, run.headline),
        "phases": list(dict.fromkeys(name for session in run.sessions for name in session.phases)),
        "chart": drawing.draw(charts.series_chart(one)) if draw else None,
    }


def _run_facts(run: Run) -> list[tuple[str, str]]:
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
    pairs = [
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
    return [(name, text) for name, text in pairs if text]


def _count(run: Run, row: Measurement) -> str:
    """Samples behind a number: inferences, or samples of the data that were judged; empty where it is not reported."""
    if row.summary is not None:
        return str(row.summary.n)
    if row.samples:
        return str(len(row.samples))
    return str(run.evaluation.n) if run.evaluation is not None and row in judged_rows(run) else ""


def _measurement_view(run: Run, row: Measurement) -> dict[str, str]:
    known = row.value is not None
    return {
        "label": label_of(row.metric),
        "metric": row.metric,
        "value": value_text(row.metric, row.unit, row.value),
        "interval": _interval(row) if known else "",
        "basis": row.basis or "",
        "n": _count(run, row),
        "method": row.method if known else reason_of_absence(run, row.metric),
    }


_HOW_ROWS = partial(
    provenance_of_column, "Numbers of a run", None, "beside each number; of a phase: two readings of a monotonic clock",
    "beside each number; a phase has none", (("Conditions", "the cautions and settings of the run"),),
)  # fmt: skip


def _percentiles(row: Measurement | None) -> list[tuple[str, str]]:
    """The headline's spread, one pair each."""
    if row is None or row.summary is None:
        return []
    summary = row.summary
    pairs = [("min", summary.min), *summary.percentiles.items(), ("max", summary.max), ("mean", summary.mean)]
    pairs.append(("std", summary.std))
    told = [(name, quantity(value, row.unit)) for name, value in pairs]
    told += [("samples", str(summary.n)), ("far outliers", str(summary.outliers))]
    if summary.autocorrelation is not None:
        told.append(("autocorrelation", significant(summary.autocorrelation, 2)))
    if summary.between_sessions is not None:
        told.append(("between sessions", f"{summary.between_sessions:.2%} (standard deviation)"))
    return told


def _conditions(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Every environment that differs from the others, with the runs that it holds for."""
    found: dict[str, dict[str, Any]] = {}
    for one in series:
        key = json.dumps(one.run.environment, sort_keys=True, default=str)
        view = found.setdefault(key, {"labels": [], "facts": list(flatten(one.run.environment))})
        view["labels"].append(one.label)
    views = list(found.values())
    for view in views:
        view["all"] = len(view["labels"]) == len(series)
    return views
