"""The store: runs saved, found, listed, tagged and removed.

A run's document is the truth; the index tables serve listings and searches and can be made again from the documents.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from sqlalchemy import Connection, Select, delete, func, insert, select, tuple_
from sqlalchemy import text as sql
from sqlalchemy.exc import DBAPIError

from edgewise.errors import BadInput, StoreError
from edgewise.record import SCHEMA, Run
from edgewise.record.reference import Reading
from edgewise.store import tables
from edgewise.store.codec import decode, encode, parse
from edgewise.store.connection import Database, open_database
from edgewise.store.jobs import Jobs
from edgewise.store.leases import Leases
from edgewise.store.location import find_location
from edgewise.store.merging import later_version
from edgewise.store.tables import RunRow, documents, index_rows, runs
from edgewise.store.upgrade import upgrade

MIN_PREFIX = 4
_MAX_LISTED = 8
MOST_READINGS = 2000
"""Of a machine's reference times: those of some 200 runs with five sessions."""

_PART = 1000
"""Rows that are read at a time."""

_MOST_MODELS = 20_000
_MOST_NAMED = 50
"""If more models than this match, a page is found soon by reading the runs from the newest on."""

_NEWEST = (runs.c.created.desc(), runs.c.id.desc())

_LAST = re.compile(r"last(?:~([0-9]{1,9}))?")
# A letter first: run ids begin with a digit, so that no tag can be taken for the beginning of one.
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9._/+\-]{0,63}")
_RESERVED = re.compile(r"all|last.*|group:.*", re.DOTALL)

# Both databases know this form; SQLAlchemy has it once per dialect, and importing one of those takes long.
_UPSERT = sql(
    "INSERT INTO documents (id, schema, document) VALUES (:id, :schema, :document) "
    "ON CONFLICT (id) DO UPDATE SET schema = excluded.schema, document = excluded.document"
)

# `Store.list` hides the built-in name inside the class.
_Runs = list[Run]
_Rows = list[RunRow]
_Texts = list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What `Store.merge` did.

    Attributes:
        added: runs that were new.
        updated: runs of which the store held an earlier version, with less in it.
        skipped: runs that were there already, in the same or a later version.
    """

    added: int
    skipped: int
    updated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexResult:
    """What `Store.reindex` did: runs indexed, and ``(id, why)`` of each whose document can't be read."""

    indexed: int
    unreadable: tuple[tuple[str, str], ...]


class RunFilter(TypedDict, total=False):
    """Which runs `Store.rows` lists. None and what is left out set no condition.

    Attributes:
        model: part of the model's name, in any case, or the beginning of its sha256 (eight characters or more).
        runtime, device: their names.
        tag: one that the run has.
        status: ``done``, ``failed`` or ``cancelled``.
        since: made then or later.
        metric: only runs that have a value of it.
        before: only those that come after this run in the list: with `limit`, the next page. As in `Store.get`.
        limit: the most rows.
    """

    model: str | None
    runtime: str | None
    device: str | None
    tag: str | None
    status: str | None
    since: datetime | None
    metric: str | None
    before: str | None
    limit: int | None


def open_store(url: str | None = None, *, create: bool = True) -> Store:
    """The store at `url`.

    Args:
        url: a path, ``sqlite:///PATH`` or ``postgresql://…``; None asks the environment (``EDGEWISE_STORE``) and then
            takes the user's own store.
        create: whether to make a SQLite file that is not there yet.

    Raises:
        StoreError: it is missing, corrupt, newer, something else's, or out of reach.
    """
    return Store(open_database(find_location(url), create=create, reindex=_index_again))


class Store:
    """Runs in a database. Every method raises `StoreError` where the database fails; may be used from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def name(self) -> str:
        """Where it is, for people: the file's path, or the URL without its password."""
        return self._database.name

    @property
    def read_only(self) -> bool:
        """Whether this store can only be read."""
        return self._database.read_only

    @property
    def leases(self) -> Leases:
        """Leases of devices, for hosts that share this store."""
        return Leases(self._database)

    @property
    def jobs(self) -> Jobs:
        """Jobs of the studio."""
        return Jobs(self._database)

    def close(self) -> None:
        """Close all connections."""
        self._database.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def save(self, run: Run) -> None:
        """Keep `run`; one with the same id is replaced. Raises `BadInput` where it can't be written as a document."""
        text = encode(run)
        with self._database.writing() as connection:
            _write(connection, run, text)

    def merge(self, incoming: Iterable[Run]) -> MergeResult:
        """Keep what of `incoming` is not there yet, read one after the other: all of it or, on an error, nothing.

        Of two versions of a run the later one stays (`later_version`), with the tags that the stored one has.

        Raises:
            BadInput: one has the id of a stored run, and each holds what the other does not.
        """
        added = skipped = updated = 0
        with self._database.writing() as connection:
            for run in incoming:
                if connection.scalar(select(documents.c.id).where(documents.c.id == run.id)) is None:
                    _write(connection, run, encode(run))
                    added += 1
                    continue
                stored = self._load(connection, run.id)
                later = later_version(stored, run)
                if later is None:
                    raise BadInput(
                        f"run {run.id} is already stored, with different content",
                        advice=f"keep one of them: 'edgewise runs rm {run.id}' removes the stored one",
                    )
                if later is stored:
                    skipped += 1
                else:
                    later = replace(later, tags=stored.tags)
                    _write(connection, later, encode(later))
                    updated += 1
        return MergeResult(added=added, skipped=skipped, updated=updated)

    def get(self, reference: str) -> Run:
        """The run that `reference` names.

        Args:
            reference: a run's id, the beginning of one (four characters or more), a tag, ``last``, or ``last~2``
                (the last but two).

        Raises:
            BadInput: it names no run, or several; they are listed.
            StoreError: the run's document can't be read.
        """
        with self._database.reading() as connection:
            return self._load(connection, self._find(connection, reference))

    def resolve(self, references: Iterable[str]) -> _Runs:
        """The runs that `references` name, in that order, each once.

        Besides what `get` takes: ``all``, ``group:ID`` (or the beginning of its id) and ``group:last``; their runs come
        in the order in which they were made. Raises as `get` does.
        """
        return list(self.each(references))

    def each(
        self, references: Iterable[str], *, unreadable: Callable[[StoreError], None] | None = None
    ) -> Iterator[Run]:
        """The runs of `resolve`, read one after the other from one state of the store, however many there are.

        Args:
            unreadable: called for each run whose document can't be read; the run is left out. None raises instead.
        """
        with self._database.reading() as connection:
            for one in self._find_all(connection, references):
                try:
                    run = self._load(connection, one)
                except StoreError as error:
                    if unreadable is None:
                        raise
                    unreadable(error)
                else:
                    yield run

    def find(self, references: Iterable[str]) -> _Texts:
        """The ids of the runs that `resolve` would give, found without reading them. Raises `BadInput`."""
        with self._database.reading() as connection:
            return list(self._find_all(connection, references))

    def identify(self, references: Iterable[str]) -> tuple[_Texts, str]:
        """The ids of `find`, and a hash of these runs' documents: other content or other tags give another hash.

        Raises `BadInput` as `find` does, and for a document whose text is damaged.
        """
        content = hashlib.sha256()
        with self._database.reading() as connection:
            ids = list(self._find_all(connection, references))
            for one in ids:
                content.update(hashlib.sha256(_document(connection, one).encode()).digest())
        return ids, content.hexdigest()

    def list(self, **wanted: Unpack[RunFilter]) -> _Rows:
        """The rows of `rows`."""
        return list(self.rows(**wanted))

    def rows(self, **wanted: Unpack[RunFilter]) -> Iterator[RunRow]:
        """The index of the runs that match everything in `wanted`, newest first, read as it is asked for."""
        if unknown := wanted.keys() - RunFilter.__annotations__.keys():
            raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
        if not all(text.isprintable() for text in wanted.values() if isinstance(text, str)):
            return
        names = [field.name for field in fields(RunRow) if field.name != "tags"]
        before = wanted.get("before")
        with self._database.reading() as connection:
            query = _select_rows(connection, wanted)
            if before is not None:
                last = select(runs.c.created, runs.c.id).where(runs.c.id == self._find(connection, before))
                query = query.where(tuple_(runs.c.created, runs.c.id) < connection.execute(last).one())
            columns = [runs.c[name] for name in names]
            if wanted.get("limit") is None:
                query = query.with_only_columns(*columns)
            else:  # sorting ids, which the indexes hold, and reading the rows of one page
                query = select(*columns).where(runs.c.id.in_(query.with_only_columns(runs.c.id))).order_by(*_NEWEST)
            for part in connection.execute(query.execution_options(yield_per=_PART)).partitions():
                tagged = _tags_of(connection, [row.id for row in part])
                for row in part:
                    if not isinstance(row.value, float | int | None):
                        raise StoreError(
                            f"the index of {self.name} is damaged", advice=("'edgewise runs reindex' repairs it")
                        )
                    yield RunRow(**dict(zip(names, row, strict=True)), tags=tagged.get(row.id, ()))

    def readings(self, machine: str) -> Sequence[Reading]:
        """The newest `MOST_READINGS` times of the reference kernels on `machine`, newest first.

        Args:
            machine: `edgewise.record.reference.machine_key` of its environment.
        """
        table = tables.readings
        columns = [table.c[field.name] for field in fields(Reading)]
        query = select(*columns).where(table.c.machine == machine).order_by(table.c.at.desc()).limit(MOST_READINGS)
        with self._database.reading() as connection:
            return [Reading(**row) for row in connection.execute(query).mappings()]

    def remove(self, ids: Iterable[str]) -> int:
        """Remove the runs with these whole ids, all or none; how many. Raises `BadInput` for an unknown id."""
        wanted = list(dict.fromkeys(ids))
        for one in wanted:
            _require_text(one)
        with self._database.writing() as connection:
            for one in wanted:
                if not connection.execute(delete(documents).where(documents.c.id == one)).rowcount:
                    raise BadInput(f"there is no run with the id {one!r}", advice="see 'edgewise runs list'")
        return len(wanted)

    def tag(self, name: str, reference: str, *, move: bool = False) -> str:
        """Name the run of `reference` by `name`; the run's id.

        Args:
            name: a letter, then letters, digits and ``._/+-``.
            reference: as in `get`.
            move: take the name from the run that has it.

        Raises:
            BadInput: a name that can't be one, or that another run has.
        """
        if not _TAG.fullmatch(name) or _RESERVED.fullmatch(name):
            raise BadInput(
                f"{name!r} can't be a tag",
                advice="use a letter, then letters, digits and . _ / + -; 'all' and 'last…' are reserved",
            )
        with self._database.writing() as connection:
            one = self._find(connection, reference)
            others = [holder for holder in _tagged(connection, name) if holder != one]
            if others and not move:
                raise BadInput(
                    f"the tag {name!r} is on run {others[0]}", advice="move it with --move, or use another name"
                )
            for holder in others:
                self._retag(connection, holder, remove=name)
            self._retag(connection, one, add=name)
        return one

    def untag(self, name: str) -> int:
        """Take the tag `name` from every run that has it; how many had. Raises `BadInput` where none has."""
        _require_text(name)
        with self._database.writing() as connection:
            holders = _tagged(connection, name)
            if not holders:
                raise BadInput(f"there is no run with the tag {name!r}", advice="see 'edgewise runs list'")
            for holder in holders:
                self._retag(connection, holder, remove=name)
        return len(holders)

    def reindex(self) -> ReindexResult:
        """Make the index tables again from the documents. What can't be read keeps the index it has."""
        with self._database.writing() as connection:
            return _index_again(connection)

    def _load(self, connection: Connection, run_id: str) -> Run:
        return self._decode(run_id, lambda: _document(connection, run_id))

    def _decode(self, run_id: str, read: Callable[[], str]) -> Run:
        try:
            return decode(read())
        except BadInput as error:
            raise StoreError(
                f"run {run_id} in {self.name} can't be read: {error.message}", advice=error.advice
            ) from error

    def _retag(self, connection: Connection, run_id: str, *, add: str | None = None, remove: str | None = None) -> None:
        text = _document(connection, run_id)
        self._decode(run_id, lambda: text)  # says what is wrong with it, if anything is
        document = upgrade(parse(text))
        # Changed as JSON, so that fields which a later edgewise of the same schema added stay as they are.
        kept = [tag for tag in document.get("tags", ()) if tag not in (add, remove)]
        document["tags"] = kept if add is None else [*kept, add]
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        _write(connection, decode(text), text)

    def _find(self, connection: Connection, reference: str) -> str:
        """The id that `reference` names. Raises `BadInput`."""
        _require_text(reference)
        last = _LAST.fullmatch(reference)
        if last is not None:
            return _last(connection, int(last[1] or 0), reference)
        if connection.scalar(select(documents.c.id).where(documents.c.id == reference)) is not None:
            return reference
        found = _tagged(connection, reference)
        if not found and len(reference) >= MIN_PREFIX:
            found = _beginning(connection, documents.c.id, reference)
        if len(found) > 1:
            raise _ambiguous(reference, found)
        if not found:
            short = f" (give at least {MIN_PREFIX} characters of an id)" if len(reference) < MIN_PREFIX else ""
            raise BadInput(f"there is no run {reference!r}{short}", advice="see 'edgewise runs list'")
        return found[0]

    def _find_all(self, connection: Connection, references: Iterable[str]) -> dict[str, None]:
        ids: dict[str, None] = {}
        for reference in references:
            ids |= dict.fromkeys(self._find_several(connection, reference))
        return ids

    def _find_several(self, connection: Connection, reference: str) -> Sequence[str]:
        in_order = select(runs.c.id).order_by(runs.c.created, runs.c.id)
        if reference == "all":
            return connection.scalars(in_order).all()
        if not reference.startswith("group:"):
            return [self._find(connection, reference)]
        group = _find_group(connection, reference.removeprefix("group:"))
        return connection.scalars(in_order.where(runs.c.group == group)).all()


def _models_with(connection: Connection, part: str) -> _Texts | None:
    """The models whose names contain `part`, in any case; None where they, or all models, are too many to list.

    The names are found one after the other in their index, which does not read the runs between them.
    """
    names = select(func.min(runs.c.model).label("name")).cte("names", recursive=True)
    following = select(func.min(runs.c.model)).where(runs.c.model > names.c.name).scalar_subquery()
    names = names.union_all(select(following).where(names.c.name.is_not(None)))
    every = connection.scalars(select(names.c.name).limit(_MOST_MODELS)).all()
    found = [name for name in every if name is not None and part.lower() in name.lower()]
    return None if len(every) == _MOST_MODELS or len(found) > _MOST_NAMED else found


def _tags_of(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Run → its tags, sorted, for those of `ids` that have any."""
    table, tagged = tables.tags.c, dict[str, tuple[str, ...]]()
    for run, name in connection.execute(select(table.run, table.name).where(table.run.in_(ids)).order_by(table.name)):
        tagged[run] = (*tagged.get(run, ()), name)
    return tagged


def _select_rows(connection: Connection, wanted: RunFilter) -> Select[Any]:
    """The query for what `wanted` says, but for `before`."""
    query = select(runs).order_by(*_NEWEST).limit(wanted.get("limit"))
    if (model := wanted.get("model")) is not None:
        models = _models_with(connection, model)
        found = runs.c.model.icontains(model, autoescape=True) if models is None else runs.c.model.in_(models)
        if len(model) >= 8:
            found |= _begins(connection, runs.c.sha256, model.lower())
        query = query.where(found)
    for name in ("runtime", "device", "status"):
        if (value := wanted.get(name)) is not None:
            query = query.where(runs.c[name] == value)
    if (since := wanted.get("since")) is not None:
        query = query.where(runs.c.created >= since.timestamp())
    if (tag := wanted.get("tag")) is not None:
        query = query.where(runs.c.id.in_(select(tables.tags.c.run).where(tables.tags.c.name == tag)))
    if (metric := wanted.get("metric")) is not None:
        rows_of = tables.measurements.c
        having = select(rows_of.run).where(rows_of.metric == metric, rows_of.value.is_not(None))
        query = query.where(runs.c.id.in_(having))
    return query


def _write(connection: Connection, run: Run, text: str) -> None:
    """Put `run`, whose document is `text`, in place of what has its id."""
    connection.execute(_UPSERT, {"id": run.id, "schema": SCHEMA, "document": text})
    _write_index(connection, run)


def _document(connection: Connection, run_id: str) -> str:
    """The text of a document. Raises `BadInput` where the database holds something else."""
    try:
        text = connection.execute(select(documents.c.document).where(documents.c.id == run_id)).scalar_one()
    except (DBAPIError, sqlite3.OperationalError) as error:
        if "decode to UTF-8" not in str(error):
            raise
        text = None
    if not isinstance(text, str):
        raise BadInput("its text is damaged", advice=f"'edgewise runs rm {run_id}' removes it")
    return text


def _index_again(connection: Connection) -> ReindexResult:
    ids = connection.scalars(select(documents.c.id).order_by(documents.c.id)).all()
    unreadable = []
    for one in ids:
        try:
            _write_index(connection, decode(_document(connection, one)))
        except BadInput as error:
            unreadable.append((one, f"run {one} can't be read: {error.message}"))
    return ReindexResult(indexed=len(ids) - len(unreadable), unreadable=tuple(unreadable))


def _write_index(connection: Connection, run: Run) -> None:
    for table, rows in index_rows(run).items():
        key = "id" if table is runs else "run"
        connection.execute(delete(table).where(table.c[key] == run.id))
        if rows:
            connection.execute(insert(table), rows)


def _tagged(connection: Connection, name: str) -> _Texts:
    query = select(tables.tags.c.run).where(tables.tags.c.name == name).order_by(tables.tags.c.run)
    return list(connection.scalars(query).all())


def _last(connection: Connection, back: int, reference: str) -> str:
    query = select(runs.c.id).order_by(*_NEWEST).limit(1).offset(back)
    found = connection.scalar(query)
    if found is None:
        count = connection.scalar(select(func.count()).select_from(runs)) or 0
        raise BadInput(f"there is no run {reference!r}: the store has {count}", advice="see 'edgewise runs list'")
    return str(found)


def _begins(connection: Connection, column: Any, prefix: str) -> Any:
    """The condition that `column` begins with `prefix`, without wildcards; SQLite can find such values in an index."""
    exactly = func.substr(column, 1, len(prefix)) == prefix
    if connection.dialect.name != "sqlite":  # whose order need not be that of characters' codes
        return exactly
    return exactly & (column >= prefix) & (column < prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _beginning(connection: Connection, column: Any, prefix: str) -> _Texts:
    """The first few values of `column` that begin with `prefix`, and one more than are listed."""
    query = select(column).where(_begins(connection, column, prefix)).distinct().order_by(column)
    return list(connection.scalars(query.limit(_MAX_LISTED + 1)).all())


def _require_text(reference: str) -> None:
    """Refuse stray bytes of a command line, which a database can't even be asked for. Raises `BadInput`."""
    if not reference.isprintable():
        raise BadInput(f"there is no run {reference!a}", advice="see 'edgewise runs list'")


def _find_group(connection: Connection, reference: str) -> str:
    _require_text(reference)
    if reference == "last":
        newest = select(runs.c.group).where(runs.c.group.is_not(None)).order_by(*_NEWEST)
        found = [str(group) for group in connection.scalars(newest.limit(1))]
    else:
        found = _beginning(connection, runs.c.group, reference) if len(reference) >= MIN_PREFIX else []
        found = [reference] if reference in found else found
    if len(found) > 1:
        raise _ambiguous(f"group:{reference}", found)
    if not found:
        raise BadInput(f"there is no group {reference!r}", advice="see 'edgewise runs list --json'")
    return found[0]


def _ambiguous(reference: str, found: Sequence[str]) -> BadInput:
    listed = ", ".join(found[:_MAX_LISTED]) + (", …" if len(found) > _MAX_LISTED else "")
    return BadInput(f"{reference!r} matches several runs: {listed}", advice="give more of the id")
