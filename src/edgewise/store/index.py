"""Writing in one transaction: a run's document, its rows in the index tables and the kept tables."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError

from edgewise.errors import BadInput
from edgewise.record import SCHEMA, Run
from edgewise.store import best, counts, tables
from edgewise.store.codec import decode
from edgewise.store.tables import documents, index_rows, runs, tags

_PART = 1000
"""Rows that are read at a time."""
_WRITE_LOCK = 0x65646766  # any number that all edgewise processes share: PostgreSQL's advisory lock

# Both databases know this form; SQLAlchemy has it once per dialect, and importing one of those takes long.
_UPSERT = sql(
    "INSERT INTO documents (id, schema, document) VALUES (:id, :schema, :document) "
    "ON CONFLICT (id) DO UPDATE SET schema = excluded.schema, document = excluded.document"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexResult:
    """What `Store.reindex` did: runs indexed, and ``(id, why)`` of each whose document can't be read."""

    indexed: int
    unreadable: tuple[tuple[str, str], ...]


class RunWriter:
    """Writes and removes runs within one transaction; `finish` then brings the kept tables up to date."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._counts, self._best = counts.Changes(), best.Changes()
        _lock(connection)

    def write(self, run: Run, text: str) -> None:
        """Put `run`, whose document is `text`, in place of the run with its id."""
        self._forget(run.id)
        self._connection.execute(_UPSERT, {"id": run.id, "schema": SCHEMA, "document": text})
        rows = _write_index(self._connection, run)
        self._counts.add(rows[runs][0], [row["name"] for row in rows[tags]], +1)
        self._best.add(rows[runs][0])

    def remove(self, run_id: str) -> bool:
        """Remove the run with this id; whether there was one."""
        self._forget(run_id)
        return bool(self._connection.execute(delete(documents).where(documents.c.id == run_id)).rowcount)

    def finish(self) -> None:
        """Bring the kept tables up to date."""
        self._counts.apply(self._connection)
        self._best.apply(self._connection)

    def _forget(self, run_id: str) -> None:
        row = self._connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
        if row is not None:
            tagged = self._connection.scalars(select(tags.c.name).where(tags.c.run == run_id))
            self._counts.add(row, tagged, -1)
            self._best.remove(row)


def document_text(connection: Connection, run_id: str) -> str:
    """Return the text of a document. Raises `BadInput` where the database holds something else."""
    try:
        text = connection.execute(select(documents.c.document).where(documents.c.id == run_id)).scalar_one()
    except (DBAPIError, sqlite3.OperationalError) as error:
        if "decode to UTF-8" not in str(error):
            raise
        text = None
    if not isinstance(text, str):
        raise BadInput("its text is damaged", advice=f"'edgewise runs rm {run_id}' removes it")
    return text


def index_again(connection: Connection) -> ReindexResult:
    """Make the index tables again from the documents, and from them the kept tables."""
    _lock(connection)
    ids = connection.scalars(select(documents.c.id).order_by(documents.c.id)).all()
    unreadable = []
    for one in ids:
        try:
            _write_index(connection, decode(document_text(connection, one)))
        except BadInput as error:
            unreadable.append((one, f"run {one} can't be read: {error.message}"))
    fill_kept(connection)
    return ReindexResult(indexed=len(ids) - len(unreadable), unreadable=tuple(unreadable))


def fill_kept(connection: Connection) -> None:
    """Make the kept tables again from the index, without reading documents."""
    connection.execute(delete(tables.run_counts))
    kept_counts, kept_best = counts.Changes(), best.Changes()
    rows = connection.execute(select(runs).execution_options(yield_per=_PART)).mappings()
    for part in rows.partitions():
        tags_by_run = counts.tags_of(connection, [row["id"] for row in part])
        for row in part:
            kept_counts.add(row, tags_by_run.get(row["id"], ()), +1)
            kept_best.add(row)
    kept_counts.apply(connection)
    kept_best.fill(connection)


def _lock(connection: Connection) -> None:
    """Let one process at a time write runs in PostgreSQL, as SQLite does: what is kept of them depends on all."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})"))


def _write_index(connection: Connection, run: Run) -> dict[Table, list[dict[str, Any]]]:
    found = index_rows(run)
    for table, rows in found.items():
        key = "id" if table is runs else "run"
        connection.execute(delete(table).where(table.c[key] == run.id))
        if rows:
            connection.execute(insert(table), rows)
    return found
