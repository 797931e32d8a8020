"""The store's tables: documents, which are the truth, and the index tables that are made from them.

A change here needs a new revision in `edgewise.store.connection`: the tables of older stores are then made anew from
their documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, MetaData, String, Table, Text, case

from edgewise.metrics import is_score
from edgewise.record import Measurement, Run
from edgewise.record.reference import machine_key, readings_of
from edgewise.store.codec import parse_time

FACETS = ("model", "runtime", "device", "status", "tag")
"""What runs are counted by; each run has one of all but the tags."""

metadata = MetaData()

documents = Table(
    "documents",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("schema", Integer, nullable=False),
    Column("document", Text, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("device", String(512), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("expires", Double, nullable=False),  # s since 1970, on the database's clock
)


def job_columns() -> list[Column[Any]]:
    """Return the columns of a table of jobs (`edgewise.store.jobs.JobRow`)."""
    return [
        Column("id", String(64), primary_key=True),
        Column("queue", String(64), nullable=False),
        Column("device", Text, nullable=False),
        Column("created", Double, nullable=False),  # s since 1970, on the database's clock, as the other times
        Column("started", Double),
        Column("finished", Double),
        Column("verb", String(32), nullable=False),
        Column("title", Text, nullable=False),
        Column("request", Text, nullable=False),
        Column("status", String(16), nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("fence", Integer, nullable=False),
        Column("holder", Text, nullable=False),
        Column("cancelling", Integer, nullable=False),
        Column("message", Text, nullable=False),
        Column("advice", Text, nullable=False),
        Column("exit_code", Integer),
        Column("runs", Text, nullable=False),
    ]


jobs = Table(
    "jobs",
    metadata,
    *job_columns(),
    Index("ix_jobs_created", "created", "id"),
    Index("ix_jobs_status", "status", "created", "id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One line of a listing, from the index alone.

    Attributes:
        version: of the runtime, as it was asked for.
        cause: why the run failed, where it did.
        metric: the headline of its scenario, or a score where nothing was timed; `value`, `low`, `high` (95 % interval)
            are in `unit`. All None where the run has none. A failed run has no value: what it measured before it failed
            is in its record only.
        machine: the device, or the processor where the run took place on the machine that asked; None where it is not
            told.
        shapes: of the inputs, as `shapes_of` writes them; None where they are not known.
    """

    id: str
    created_at: str
    group: str | None
    model: str
    format: str
    sha256: str
    runtime: str
    version: str | None
    provider: str | None
    threads: int | None
    precision: str | None
    batch: int
    scenario: str
    device: str
    status: str
    cause: str | None
    grade: str | None
    metric: str | None
    value: float | None
    low: float | None
    high: float | None
    unit: str | None
    basis: str | None
    machine: str | None = None
    shapes: str | None = None
    tags: tuple[str, ...] = ()


_OF_RUN = FACETS[:-1]
_LONGEST_SHAPES = 200
_TYPES = {"str": Text, "int": Integer, "float": Double}

runs = Table(
    "runs",
    metadata,
    Column("id", String(64), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("created", Double, nullable=False),  # s since 1970, UTC: sorts and compares whatever the text's offset was
    *(
        Column(field.name, _TYPES[field.type.partition(" | ")[0]], nullable=field.type.endswith("None"))
        for field in fields(RunRow)
        if field.name not in ("id", "tags")
    ),
    Index("ix_runs_group", "group"),
    Index("ix_runs_sha256", "sha256"),
    # A listing of one model, runtime, device or status is in the order of time without sorting. Its other conditions
    # are checked, and its facets counted, in the index alone.
    Index("ix_runs_created", "created", "id", *_OF_RUN),
    *(Index(f"ix_runs_{name}", name, "created", "id", *(one for one in _OF_RUN if one != name)) for name in _OF_RUN),
)


def row_columns() -> dict[str, Any]:
    """Return the column of each field of a `RunRow` but its tags."""
    found: dict[str, Any] = {field.name: runs.c[field.name] for field in fields(RunRow) if field.name != "tags"}
    for name in ("value", "low", "high", "basis"):
        found[name] = case((runs.c.status != "failed", runs.c[name])).label(name)
    return found


NEWEST = (runs.c.created.desc(), runs.c.id.desc())
"""The order of every list."""

measurements = Table(
    "measurements",
    metadata,
    Column("run", String(64), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("metric", Text, nullable=False, index=True),
    Column("value", Double),
    Column("low", Double),
    Column("high", Double),
    Column("unit", Text, nullable=False),
    Column("basis", Text),
)

readings = Table(
    "readings",
    metadata,
    Column("run", String(64), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("machine", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("compute", Double, nullable=False),
    Column("copy", Double, nullable=False),
    Column("job", String(16)),  # null in rows of before 0.1
    Index("ix_readings_machine", "machine", "at"),
)

tags = Table(
    "tags",
    metadata,
    Column("run", String(64), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Index("ix_tags_name", "name"),
)

run_counts = Table(
    "run_counts",
    metadata,
    # Runs of which the facet `facet` has this value, and the later facet `other` that one; both "" for all.
    Column("facet", String(16), primary_key=True),
    Column("other", String(16), primary_key=True),
    Column("value", Text, primary_key=True),
    Column("other_value", Text, primary_key=True),
    Column("runs", Integer, nullable=False),
    Index("ix_run_counts_other", "facet", "other", "other_value"),
    sqlite_with_rowid=False,
)

best = Table(
    "best",
    metadata,
    # What the same work on the same machine is: only values under the same key compare.
    *(
        Column(name, Text, primary_key=True)
        for name in (
            "model",
            "sha256",
            "shapes",
            "machine",
            "metric",
            "scenario",
            "basis",
            "runtime",
            "precision",
            "provider",
        )
    ),
    Column("threads", Integer, primary_key=True, autoincrement=False),
    Column("batch", Integer, primary_key=True, autoincrement=False),
    Column("run", String(64), nullable=False),
    Column("value", Double, nullable=False),
    Column("runs", Integer, nullable=False),
    sqlite_with_rowid=False,
)


def index_rows(run: Run) -> dict[Table, list[dict[str, Any]]]:
    """Return the rows of each index table for `run`."""
    names = dict.fromkeys(map(_text, run.tags))
    return {
        runs: [_run_row(run)],
        measurements: [
            {"run": run.id, "position": position, **_value_columns(row)}
            for position, row in enumerate(run.measurements if run.status != "failed" else ())
        ],
        readings: _reading_rows(run),
        tags: [{"run": run.id, "name": name} for name in names],
    }


def row_of(run: Run, metric: str | None = None) -> RunRow:
    """Return the line that a listing has of `run`, with its value of `metric` (default: its headline)."""
    columns = _run_row(run)
    if metric is not None:
        columns |= _value_columns(next((row for row in run.measurements if row.metric == metric), None))
    if run.status == "failed":
        columns |= dict.fromkeys(("value", "low", "high", "basis"))
    return RunRow(**{field.name: columns[field.name] for field in fields(RunRow) if field.name != "tags"})


def _run_row(run: Run) -> dict[str, Any]:
    job = run.job
    headline = _headline(run)
    return {
        "id": run.id,
        "created": parse_time(run.created_at).timestamp(),
        "created_at": _text(run.created_at),
        "group": _text(run.group),
        "model": _text(job.model.name),
        "format": _text(job.model.format),
        "sha256": _text(job.model.sha256),
        "runtime": _text(job.runtime.name),
        "version": _text(job.runtime.version),
        "provider": _text(job.runtime.provider),
        "threads": _integer(job.runtime.threads),
        "precision": _text(job.runtime.precision),
        "batch": _integer(job.workload.batch),
        "scenario": job.workload.scenario.kind_in_words,
        "device": _text(job.target.device),
        "status": run.status,
        "cause": run.failure.cause if run.failure else None,
        "grade": run.trust.grade if run.trust else None,
        **_value_columns(headline),
        "machine": _text(machine_of(run)),
        "shapes": shapes_of(run),
    }


def _value_columns(row: Measurement | None) -> dict[str, Any]:
    if row is None:
        return dict.fromkeys(("metric", "value", "low", "high", "unit", "basis"))
    numbers = {"value": _finite(row.value), "low": _finite(row.low), "high": _finite(row.high)}
    return {"metric": _text(row.metric), **numbers, "unit": _text(row.unit), "basis": row.basis}


def _reading_rows(run: Run) -> list[dict[str, Any]]:
    """Return the reference kernels' times."""
    machine = machine_key(run.environment)
    if machine is None:
        return []
    return [
        {
            "run": run.id,
            "position": position,
            "machine": machine,
            "version": _integer(reading.version),
            "at": reading.at,
            "compute": reading.compute,
            "copy": reading.copy,
            "job": run.job.key,
        }
        for position, reading in enumerate(readings_of(run.sessions))
    ]


def _headline(run: Run) -> Measurement | None:
    """Return the measurement that the run is about: `Run.headline`, or its first score where it was judged and not
    timed.
    """
    known = [row for row in run.measurements if row.value is not None]
    scores = [row for row in known if is_score(row.metric)] if run.evaluation is not None else []
    return next((row for row in known if row.metric == run.headline), next(iter(scores), None))


def machine_of(run: Run) -> str | None:
    """Return the device, or the name of the processor; None where neither is known."""
    return run.job.target.device if run.job.target.device != "local" else processor_of(run)


def processor_of(run: Run) -> str | None:
    """Return the name of the processor; None where it is not known."""
    processor = run.environment.get("cpu")
    model = processor.get("model") if isinstance(processor, Mapping) else processor
    return model if isinstance(model, str) else None


def shapes_of(run: Run) -> str | None:
    """Return the shapes of the inputs in the model's order, such as ``1x3x224x224, 1x10``; None where the run has none.

    Long ones, as of models with a cache per layer, are cut and end in a part of their SHA-256, which tells them apart.
    """
    text = ", ".join("x".join(map(str, one.shape)) or "scalar" for one in run.job.workload.inputs)
    if len(text) > _LONGEST_SHAPES:
        text = f"{text[: _LONGEST_SHAPES - 14]}… {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return text or None


def _text(value: str | None) -> Any:
    """`value` as every database takes it: no NUL (PostgreSQL), no lone surrogates. The document keeps the original."""
    return None if value is None else value.replace("\x00", "�").encode("utf-8", "backslashreplace").decode()


def _integer(value: int | None) -> int | None:
    """`value` within what a database's integer holds; no real count is larger."""
    return None if value is None else max(-(2**31), min(value, 2**31 - 1))


def _finite(value: float | None) -> float | None:
    return value if value is not None and value - value == 0 else None
