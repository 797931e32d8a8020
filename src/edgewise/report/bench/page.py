"""The page of measured runs: beyond what `bench` prints, its charts, every run in detail, other tables, conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from edgewise.record import Run
from edgewise.report.bench import charts
from edgewise.report.bench.charts import Series
from edgewise.report.bench.document import answer_by_device, bench_document, default_title, summary_of, title_of_group
from edgewise.report.bench.ranking import comparable_groups, sweeps
from edgewise.report.bench.sustained import sustained_charts
from edgewise.report.charts import Chart, colour_of
from edgewise.report.document import Document, Section, lines_of, pairs_table
from edgewise.report.document.names import distinct_names
from edgewise.report.runs.conditions import engine_of, flatten, labels_of, processor_of, system_of, told_apart
from edgewise.report.runs.document import run_document
from edgewise.report.runs.field_tables import FIELD_TABLES, Options, field_tables
from edgewise.text import one_line

MOST_DRAWN = 24
"""Number of runs with a chart of their own; hundreds would take minutes to render."""
MOST_TOGETHER = 12
"""Number of runs of one task on one axis; of more, those of each model have one."""
MOST_APART = 10.0
"""Ratio of the largest to the smallest value up to which one axis from 0 shows both."""
_GRADES = (
    "measured values were observed here; derived ones are computed from those; simulated and estimated ones are not "
    "observations and say so; grades run from A (best) to D"
)


def bench_page(
    runs: Sequence[Run], *, title: str = "", options: Options | None = None, first: Sequence[str] = ()
) -> Document:
    """Return what the page of `runs` has.

    Args:
        title: heading; empty for one made from the models and the machine.
        options: task and reference for the tables of the field.
        first: lines above the answer.
    """
    runs = told_apart(runs)
    document = bench_document(runs)
    # Sections that recommend a run stand above the tables; why none is recommended stands below them.
    recommended = [section for section in document.sections if section.title.startswith("Recommended")]
    others = [section for section in document.sections if section not in recommended]
    return replace(
        document,
        title=one_line(title) or default_title(runs),
        answer=(*first, *answer_by_device(runs, each=True), *summary_of(runs)),
        lead=tuple(recommended),
        sections=(facts_section(runs), *others, Section(title="Kinds of numbers", lines=(_GRADES,))),
        charts=lambda: _charts(runs),
        parts=lambda: _parts(runs, options or Options()),
    )


def facts_section(runs: Sequence[Run]) -> Section:
    """Models, machine, engines and dates of the runs."""

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
    """Return the charts, runs of one task on one axis: colours by place in the page, names that tell runs apart."""
    colours = {run.id: colour_of(index) for index, run in enumerate(runs)}
    groups = [group for some in sweeps(runs) for group in ([some] if _have_one_axis(some) else comparable_groups(some))]
    found: list[Chart | None] = []
    for group in groups:
        series = [
            Series(run=run, label=label, colour=colours[run.id])
            for run, label in zip(group, distinct_names(labels_of(group)), strict=True)
        ]
        whose = f"{title_of_group(group, runs)}: " if len(groups) > 1 else ""
        if whose and len({run.job.model.family for run in group}) > 1:
            whose = whose.removeprefix(f"{one_line(group[0].job.model.name)}, ")
        drawn = [*sustained_charts(series), *(make(series) for make in charts.GROUP_CHARTS)]
        found += [each and replace(each, title=whose + each.title) for each in drawn]
    return found


def _have_one_axis(sweep: Sequence[Run]) -> bool:
    """Return whether each of a few runs can be read beside the slowest one."""
    values = [value for run in sweep if (value := run.value(run.headline))]
    return len(sweep) <= MOST_TOGETHER and max(values, default=0.0) <= MOST_APART * min(values, default=0.0)


def _parts(runs: Sequence[Run], options: Options) -> list[tuple[str, list[Document]]]:
    colours = [colour_of(index) if index < MOST_DRAWN else None for index in range(len(runs))]
    several = f" (samples over time: of the first {MOST_DRAWN})" if len(runs) > MOST_DRAWN else ""
    # The page's first table has what the table of networks says of latency.
    made = {name: field_tables(name, runs, options=options) for name in FIELD_TABLES if name != "networks"}
    fields = [
        Document(
            id=f"table-{name}", title=some[0].title, tables=tuple(some), answer=(f"edgewise report --table {name}",)
        )
        for name, some in made.items()
        if some
    ]
    return [
        (f"Runs{several}", [_run(*each) for each in zip(runs, labels_of(runs), colours, strict=True)]),
        ("Tables of the field", fields),
        ("Conditions", environment_documents(runs)),
    ]


def _run(run: Run, label: str, colour: str | None) -> Document:
    """Everything about one run; without a chart where it has no `colour`."""
    series = Series(run=run, label=label, colour=colour or "")
    return replace(run_document(run, label=label), charts=lambda: [charts.series_chart(series)] if colour else [])


def environment_documents(runs: Sequence[Run]) -> list[Document]:
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
