"""Stored runs on the terminal: a listing, and one run in full."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgewise.device.devices import LOCAL
from edgewise.formatting import range_text, value_text
from edgewise.record import Layer, Run, Source
from edgewise.record.job import UNKNOWN_DEVICE
from edgewise.record.layer import ESTIMATED_SHARE
from edgewise.report.accuracy import judged_on, judged_rows
from edgewise.report.cautions import caution_lines
from edgewise.report.cells import label_of
from edgewise.report.conditions import file_of, flatten, path_of
from edgewise.report.document import Cell, Column, Document, Section, Table
from edgewise.store.codec import parse_time
from edgewise.text import one_line
from edgewise.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.store.tables import RunRow

MOST_LAYERS = 20
_MODEL_ALONE = re.compile(r"\((R|TM)\)|\s+(CPU\b|\d+-Core\b|Processor\b|@).*")
"""Parts of a processor's name that say nothing about the model."""


def listing_document(rows: Sequence[RunRow], *, id_size: int | None = None) -> Document:
    """One line per run. The heading names the headline metric; each cell does where there are several.

    Args:
        id_size: the characters of an id that are shown, as `Store.id_size` gives them; None for all.
    """
    providers: dict[str, set[str | None]] = {}
    for row in rows:
        providers.setdefault(row.runtime, set()).add(row.provider)
    metrics = list(dict.fromkeys(row.metric for row in rows if row.metric))
    usual, mixed = (metrics[0] if metrics else None), len(metrics) > 1
    away = any(row.device not in (LOCAL, UNKNOWN_DEVICE) for row in rows)
    columns = (
        Column(title="Run"),
        Column(title="Made, UTC", rank=4),
        Column(title="Model", name=True),
        Column(title="Runtime", name=True),
        Column(title="Shape", name=True, rank=3, hidden=not any(row.shapes for row in rows)),
        Column(title=label_of(usual) if usual and not mixed else "Result", numeric=True),
        Column(title="Machine", name=not away, rank=0 if away else 6),
        Column(title="Trust", rank=5),
        Column(title="Tags", rank=1, hidden=not any(row.tags for row in rows)),
    )
    cells = tuple(
        (
            Cell(text=row.id[:id_size]),
            Cell(text=_moment(row.created_at)),
            Cell(text=row.model),
            _engine_cell(row, short=len(providers[row.runtime]) == 1),
            Cell(text=row.shapes or ""),
            Cell(text=_result(row, named=mixed), short=row.cause or ""),
            Cell(
                text=row.machine or "–",
                short=LOCAL if away and row.device == LOCAL else _MODEL_ALONE.sub("", row.machine or "").strip(),
            ),
            Cell(text=row.grade or ""),
            Cell(text=", ".join(row.tags)),
        )
        for row in rows
    )
    return Document(title="", tables=(Table(title="", columns=columns, rows=cells),))


def _engine_cell(row: RunRow, *, short: bool) -> Cell:
    """Runtime, provider and settings; `short` allows a narrow table to drop the provider."""
    words = [f"{row.threads}T"] if row.threads else []
    words += [f"batch {row.batch}"] if row.batch != 1 else []
    words += [row.scenario] if row.scenario != "single-stream" else []
    engine = row.runtime + (f"/{row.provider}" if row.provider not in (None, row.runtime) else "")
    words = [] if row.scenario == row.runtime else words  # a program's
    return Cell(text=" ".join([engine, *words]), short=" ".join([row.runtime, *words]) if short else "")


def _result(row: RunRow, *, named: bool) -> str:
    """The run's headline, with the metric's name where the heading does not say it."""
    if row.status != "done":
        return row.status + (f": {row.cause}" if row.cause else "")
    if row.value is None or row.unit is None or row.metric is None:
        return "absent"
    return f"{label_of(row.metric) if named else ''} {value_text(row.metric, row.unit, row.value)}".strip()


def _moment(created_at: str) -> str:
    return f"{parse_time(created_at):%Y-%m-%d %H:%M}"


def print_run(run: Run, console: Console) -> None:
    """Print everything that the record of `run` holds; samples and layers without a profile are in the JSON."""
    from edgewise.report.profile import profile_document
    from edgewise.report.text import print_document, print_titled

    print_titled(run_document(run), console, details=True)
    if run.layers and run.profile is not None:
        console.print()
        print_document(profile_document([run], width=console.width), console, details=True)


def run_document(run: Run) -> Document:
    """Facts and measurements of `run`, how they were obtained, cautions, settings in force and environment."""
    facts = Table(
        title="",
        columns=(Column(title="Run"), Column(title=run.id)),
        rows=tuple((Cell(text=name), Cell(text=words)) for name, words in _facts(run)),
    )
    sections = []
    if run.failure is not None:
        failure = run.failure
        where = f" in phase {failure.phase}" if failure.phase else ""
        lines = [f"try: {failure.advice}"] if failure.advice else []
        lines += failure.stderr_tail.rstrip().splitlines()
        sections.append(Section(title=f"{failure.cause}{where}: {failure.message}", lines=tuple(lines), tone="bad"))
    if not run.layers:
        layers = f"no layers: {run.profile_absent_because}" if run.profile_absent_because else ""
    else:
        count = f"{len(run.layers)} layer{'' if len(run.layers) == 1 else 's'}"
        layers = "" if run.profile or run.source else f"{count}: see --json"
    for title, words in (
        ("Methods", _methods(run)),
        ("Cautions", caution_lines([run])),
        ("Settings in effect", [f"{name}: {value}" for name, value in flatten(run.effective)]),
        ("Environment", [f"{name}: {value}" for name, value in flatten(run.environment)]),
        ("Layers", [layers] if layers else []),
    ):
        if words:
            sections.append(Section(title=title, lines=tuple(words)))
    tables = (facts, _measurements(run)) if run.measurements else (facts,)
    if run.source is not None and run.layers and run.profile is None:
        tables = (*tables, _layers(run))
    return Document(title=run.job.label, tables=tables, sections=tuple(sections))


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """What was measured, where and when: pairs of label and text."""
    job = run.job
    yield "made", f"{_moment(run.created_at)} UTC"
    yield "model", file_of(run) + (f", sha256 {job.model.sha256[:16]}" if job.model.is_known else "")
    if origin := job.model.origin:
        yield "built by", f"{origin.target}, network {origin.sha256[:16]}"
        yield "path", path_of(run)[0]
        if origin.lost:
            yield "lost in the export", "; ".join(origin.lost)
    runtime = " ".join(filter(None, (job.runtime.name, job.runtime.version, job.runtime.provider)))
    default = "its own number of" if run.source is None else "unknown number of"
    threads = default if job.runtime.threads is None else str(job.runtime.threads)
    yield "runtime", f"{runtime}, {threads} thread{'' if threads == '1' else 's'}"
    if job.runtime.options:
        yield "settings", one_line(job.runtime.options_in_words)
    yield "scenario", f"{job.workload.scenario.words}, batch {job.workload.batch}"
    yield "device", job.target.device
    if run.source is not None:
        yield from _origin(run.source)
    if run.evaluation is not None:
        yield "judged on", judged_on(run)
    left_out = [caution.message for caution in run.cautions if caution.code == "failed-executions"]
    yield "status", "; ".join([run.status, *left_out])
    if run.trust is not None:
        yield "trust", run.trust.grade + "".join(f"; {reason}" for reason in run.trust.reasons)
    if run.tags:
        yield "tags", ", ".join(run.tags)
    if run.group:
        yield "group", run.group


def _origin(source: Source) -> Iterator[tuple[str, str]]:
    """Where an imported run comes from."""
    yield "imported from", f"{source.tool}, {source.form}"
    yield "file", f"{source.file}, {source.part}, sha256 {source.sha256[:16]}"
    if source.told:
        yield "told on import", ", ".join(f"{name} {value}" for name, value in source.told.items())
    if source.time_from == "modified":
        yield "time", "when the file was last modified: the file has no time"


def _layers(run: Run) -> Table:
    """The layers with most of the time or of the estimated cost, of an imported run without a profile."""
    estimated = any(ESTIMATED_SHARE in layer.attributes for layer in run.layers)
    total = sum(layer.time or 0.0 for layer in run.layers)

    def share(layer: Layer) -> float | None:
        if estimated:
            return layer.attributes.get(ESTIMATED_SHARE)
        return layer.time / total if layer.time is not None and total else None

    def middle(layer: Layer) -> str:
        if estimated:
            return one_line(layer.provider or "absent")
        return "absent" if layer.time is None else format_duration(layer.time)

    rows = tuple(
        (
            Cell(text=one_line(layer.title)),
            Cell(text=one_line(layer.op)),
            Cell(text=middle(layer)),
            Cell(text="" if (part := share(layer)) is None else f"{part:.1%}"),
        )
        for layer in sorted(run.layers, key=lambda layer: -(share(layer) or 0.0))[:MOST_LAYERS]
    )
    columns = (
        Column(title="Layer", name=True, ends=True),
        Column(title="Operator"),
        Column(title="Preferred unit") if estimated else Column(title="Time", numeric=True),
        Column(title="Estimated share of the cost" if estimated else "Share of the layers", numeric=True),
    )
    more = len(run.layers) - len(rows)
    notes = (f"{more} further layer{'' if more == 1 else 's'}: see --json",) if more else ()
    return Table(title="", columns=columns, rows=rows, notes=notes)


def _measurements(run: Run) -> Table:
    judged = judged_rows(run)
    rows = []
    for row in run.measurements:
        count = len(row.samples) or (run.evaluation.n if run.evaluation is not None and row in judged else 0)
        texts = (
            label_of(row.metric),
            "absent" if row.value is None else value_text(row.metric, row.unit, row.value),
            "" if row.value is None else range_text(row.metric, row.unit, row.low, row.high) or "absent",
            row.basis or "",
            str(count or ""),
        )
        rows.append(tuple(Cell(text=text) for text in texts))
    columns = (
        Column(title="Metric"),
        Column(title="Value", numeric=True),
        Column(title="95 % interval"),
        Column(title="Basis"),
        Column(title="Samples", numeric=True),
    )
    return Table(title="", columns=columns, rows=tuple(rows))


def _methods(run: Run) -> list[str]:
    """How each number was obtained, or why it is absent; metrics with the same text share a line."""
    answers: dict[str, dict[str, None]] = {}
    for row in run.measurements:
        if row.value is None:
            answer = f"absent: {row.absent_because or 'no reason was recorded'}"
        else:
            answer = row.method or "no method was recorded"
        answers.setdefault(answer, {})[label_of(row.metric)] = None
    return [f"{', '.join(labels)}: {answer}" for answer, labels in answers.items()]
