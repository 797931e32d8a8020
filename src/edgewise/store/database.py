"""The store: runs saved, found, listed, tagged and removed.

A run's document is the truth; the index tables serve listings and searches and can be made again from the documents.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from sqlalchemy import Connection, delete, select, tuple_

from edgewise.errors import BadInput, StoreError
from edgewise.metrics import is_score
from edgewise.record import Run
from edgewise.record.reference import Reading
from edgewise.store import best, counts, tables, trends
from edgewise.store.best import Matrix, Workload
from edgewise.store.codec import decode, encode, parse
from edgewise.store.connection import Database, open_database
from edgewise.store.counts import Count, FacetValues, tags_of
from edgewise.store.filters import RunFilter, conditions_of, possible, search_of
from edgewise.store.index import ReindexResult, RunWriter, document_text, index_again
from edgewise.store.jobs import Jobs
from edgewise.store.leases import Leases
from edgewise.store.location import find_location
from edgewise.store.merging import later_version
from edgewise.store.references import find_all, find_one, require_text, similar_tags, tagged, unique_size
from edgewise.store.tables import FACETS, NEWEST, RunRow, documents, row_columns, runs
from edgewise.store.trends import Trend
from edgewise.store.upgrade import upgrade

if TYPE_CHECKING:
    from edgewise.store.lab import Lab

MOST_READINGS = 2000
"""Of a machine's reference times: those of some 200 runs with five sessions."""

_PART = 1000
"""Rows that are read at a time."""

# A letter first: run ids begin with a digit, so that no tag can be taken for the beginning of one.
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9._/+\-]{0,63}")
_RESERVED = ("all", "last")  # "last~2" and "group:ID" have characters that no tag has

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


def open_store(url: str | None = None, *, create: bool = True) -> Store:
    """Return the store at `url`.

    Args:
        url: a path, ``sqlite:///PATH`` or ``postgresql://…``; None asks the environment (``EDGEWISE_STORE``) and then
            takes the user's own store.
        create: whether to make a SQLite file that is not there yet.

    Raises:
        StoreError: it is missing, corrupt, newer, something else's, or out of reach.
    """
    return Store(open_database(find_location(url), create=create))


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

    @property
    def lab(self) -> Lab:
        """The lab of a team."""
        from edgewise.store.lab import Lab  # most stores have none

        return Lab(self._database)

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
        with self._writing() as (_, writer):
            writer.write(run, text)

    def merge(self, incoming: Iterable[Run]) -> MergeResult:
        """Keep what of `incoming` is not there yet, read one after the other: all of it or, on an error, nothing.

        Of two versions of a run the later one stays (`later_version`), with the tags that the stored one has.

        Raises:
            BadInput: one has the id of a stored run, and each holds what the other does not.
        """
        added = skipped = updated = 0
        with self._writing() as (connection, writer):
            for run in incoming:
                if connection.scalar(select(documents.c.id).where(documents.c.id == run.id)) is None:
                    writer.write(run, encode(run))
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
                    writer.write(later, encode(later))
                    updated += 1
        return MergeResult(added=added, skipped=skipped, updated=updated)

    def get(self, reference: str) -> Run:
        """Return the run that `reference` names.

        Args:
            reference: a run's id, the beginning of one (four characters or more), a tag, ``last``, or ``last~2``
                (the last but two).

        Raises:
            BadInput: it names no run, or several; they are listed.
            StoreError: the run's document can't be read.
        """
        with self._database.reading() as connection:
            return self._load(connection, find_one(connection, reference))

    def resolve(self, references: Iterable[str]) -> _Runs:
        """Return the runs that `references` name, in that order, each once.

        Besides what `get` takes: ``all``, ``group:ID`` (or the beginning of its id) and ``group:last``; their runs come
        in the order in which they were made. Raises as `get` does.
        """
        return list(self.each(references))

    def each(
        self, references: Iterable[str], *, unreadable: Callable[[StoreError], None] | None = None
    ) -> Iterator[Run]:
        """Yield the runs of `resolve`, read one after the other from one state of the store, however many there are.

        Args:
            unreadable: called for each run whose document can't be read; the run is left out. None raises instead.
        """
        with self._database.reading() as connection:
            for one in find_all(connection, references):
                try:
                    run = self._load(connection, one)
                except StoreError as error:
                    if unreadable is None:
                        raise
                    unreadable(error)
                else:
                    yield run

    def find(self, references: Iterable[str]) -> _Texts:
        """Return the ids of the runs that `resolve` would give, found without reading them. Raises `BadInput`."""
        with self._database.reading() as connection:
            return list(find_all(connection, references))

    def id_size(self, ids: Sequence[str]) -> int | None:
        """Return the characters that are enough for each of these runs' ids to name one run here; None for all
        of them.
        """
        with self._database.reading() as connection:
            return unique_size(connection, ids)

    def identify(self, references: Iterable[str]) -> tuple[_Texts, str]:
        """Return the ids of `find`, and a hash of these runs' documents: other content or other tags give another hash.

        Raises `BadInput` as `find` does, and for a document whose text is damaged.
        """
        content = hashlib.sha256()
        with self._database.reading() as connection:
            ids = list(find_all(connection, references))
            for one in ids:
                content.update(hashlib.sha256(document_text(connection, one).encode()).digest())
        return ids, content.hexdigest()

    def list(self, **wanted: Unpack[RunFilter]) -> _Rows:
        """All that `rows` gives: the index of the runs that match, newest first."""
        return list(self.rows(**wanted))

    def rows(self, **wanted: Unpack[RunFilter]) -> Iterator[RunRow]:
        """Yield the index of the runs that match everything in `wanted`, newest first, read as it is asked for."""
        if not possible(wanted):
            return
        columns, place = row_columns(), tuple_(runs.c.created, runs.c.id)
        order: Sequence[Any] = NEWEST
        with self._database.reading() as connection:
            search = search_of(connection, conditions_of(connection, wanted))
            if not search.size:
                return
            clauses = [*search.seek_clauses(), *search.check_clauses()]
            if (before := wanted.get("before")) is not None:
                clauses.append(place < self._place(connection, before))
            if (after := wanted.get("after")) is not None:
                clauses.append(place > self._place(connection, after))
                order = (runs.c.created, runs.c.id)
            query = select(*columns.values()).order_by(*NEWEST)
            if (limit := wanted.get("limit")) is None:
                query = query.where(*clauses)
            else:  # sorting ids, which the indexes hold, and reading the rows of one page
                query = query.where(runs.c.id.in_(select(runs.c.id).where(*clauses).order_by(*order).limit(limit)))
            for part in connection.execute(query.execution_options(yield_per=_PART)).partitions():
                tagged_by = tags_of(connection, [row.id for row in part])
                for row in part:
                    if not isinstance(row.value, float | int | None):
                        raise StoreError(
                            f"the index of {self.name} is damaged", advice=("'edgewise runs reindex' repairs it")
                        )
                    yield RunRow(**dict(zip(columns, row, strict=True)), tags=tagged_by.get(row.id, ()))

    def named(self, rows: Sequence[RunRow]) -> _Rows:
        """`rows` for a person: with names that tell apart files of one name, and with command lines of programs."""
        from edgewise.store.naming import named

        with self._database.reading() as connection:
            return named(connection, rows)

    def scores(self, rows: Sequence[RunRow]) -> dict[str, RunRow]:
        """Return the runs of `rows` that were timed and evaluated: id → the row with its first score as its value."""
        timed = {row.id: row for row in rows if row.status != "failed" and row.metric and not is_score(row.metric)}
        with self._database.reading() as connection:
            told = counts.scores_of(connection, list(timed))
        return {run: replace(timed[run], **columns) for run, columns in told.items()}

    def count(self, *, most: int = 10_000, **wanted: Unpack[RunFilter]) -> Count:
        """Return the number of runs that match everything in `wanted` but its page (`before`, `after`, `limit`).

        Args:
            most: where counting stops. A larger number is given only where the store keeps it.
        """
        if not possible(wanted):
            return Count(value=0)
        with self._database.reading() as connection:
            return counts.count(connection, conditions_of(connection, wanted), most=most)

    def count_files(self, files: Sequence[str], *, by: Literal["sha256", "model"] = "sha256") -> Mapping[str, int]:
        """Return the number of runs of each model file, by its sha256 or name; files without runs are left out."""
        with self._database.reading() as connection:
            return counts.count_files(connection, files, by=by)

    def facets(self, *, most: int = 20, **wanted: Unpack[RunFilter]) -> Mapping[str, FacetValues]:
        """For model, runtime, device, status and tag: the values of the runs that match `wanted`, with their numbers.

        A facet leaves out the condition on itself, so that it also counts the alternatives. Counts are exact, or lower
        bounds that say so.

        Args:
            most: the most values of a facet.
        """
        if not possible(wanted):
            return {facet: FacetValues() for facet in FACETS}
        with self._database.reading() as connection:
            conditions = conditions_of(connection, wanted)
            return counts.facets(connection, conditions, wanted, most=most)

    def count_and_facets(
        self, *, most: int = 20, **wanted: Unpack[RunFilter]
    ) -> tuple[Count, Mapping[str, FacetValues]]:
        """`count` and `facets` of one state of the store, sooner than one after the other."""
        if not possible(wanted):
            return Count(value=0), {facet: FacetValues() for facet in FACETS}
        with self._database.reading() as connection:
            conditions = conditions_of(connection, wanted)
            count = counts.count(connection, conditions, most=counts.COUNTED)
            return count, counts.facets(connection, conditions, wanted, most=most)

    def matrix(
        self,
        *,
        models: Iterable[str] | None = None,
        model: str | None = None,
        machines: Iterable[str] | None = None,
        runtime: str | None = None,
        precision: str | None = None,
        workload: Workload | None = None,
        most_models: int = 40,
        most_machines: int = 20,
    ) -> Matrix:
        """Return the best run of each model on each machine, under one workload.

        Args:
            models: names of models. None takes those with the most runs.
            model: part of a model's name, in any case.
            machines: devices, or processors of local runs.
            runtime: only runs on it.
            precision: only runs that asked for it; "" for the runtime's default.
            workload: metric, scenario and batch of the values; None takes the most frequent.
            most_models, most_machines: the most rows and columns.
        """
        with self._database.reading() as connection:
            return best.matrix(
                connection,
                models=models,
                part=model,
                machines=machines,
                runtime=runtime,
                precision=precision,
                workload=workload,
                most_models=most_models,
                most_machines=most_machines,
            )

    def trend(
        self,
        model: str,
        *,
        runtime: str | None = None,
        device: str | None = None,
        metric: str | None = None,
        limit: int = 2000,
    ) -> Trend:
        """Return the newest finished runs of a model with their values of one metric.

        The runs may differ in settings, machine and model file: compare only points that share them.
        `edgewise.stats.level_changes` finds where the level of such points changed.

        Args:
            model: its whole name.
            runtime, device: only runs on it.
            metric: None takes each run's headline.
            limit: the most points.
        """
        with self._database.reading() as connection:
            return trends.trend(connection, model, runtime=runtime, device=device, metric=metric, limit=limit)

    def readings(self, machine: str) -> Sequence[Reading]:
        """Return the newest `MOST_READINGS` times of the reference kernels on `machine`, newest first.

        Args:
            machine: `edgewise.record.reference.machine_key` of its environment.
        """
        table, runs = tables.readings, tables.runs
        columns: dict[str, Any] = {
            field.name: table.c[field.name] if field.name in table.c else runs.c[field.name]
            for field in fields(Reading)
        }
        query = select(*columns.values()).join(runs, runs.c.id == table.c.run).where(table.c.machine == machine)
        query = query.order_by(table.c.at.desc()).limit(MOST_READINGS)
        with self._database.reading() as connection:
            return [Reading(**row) for row in connection.execute(query).mappings()]

    def forget_readings(self, machine: str) -> int:
        """Forget the times of the reference kernels on `machine`; how many. Its runs stay, and `reindex` reads them."""
        with self._writing() as (connection, _):
            return connection.execute(delete(tables.readings).where(tables.readings.c.machine == machine)).rowcount

    def remove(self, ids: Iterable[str]) -> int:
        """Remove the runs with these whole ids, all or none; how many. Raises `BadInput` for an unknown id."""
        wanted = list(dict.fromkeys(ids))
        for one in wanted:
            require_text(one)
        with self._writing() as (_, writer):
            for one in wanted:
                if not writer.remove(one):
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
        if not _TAG.fullmatch(name) or name in _RESERVED:
            raise BadInput(
                f"{name!r} can't be a tag",
                advice="give the tag, then the run; a tag is a letter, then letters, digits and . _ / + -; "
                "'all' and 'last' are reserved",
            )
        with self._writing() as (connection, writer):
            one = find_one(connection, reference)
            others = [holder for holder in tagged(connection, name) if holder != one]
            if others and not move:
                raise BadInput(
                    f"the tag {name!r} is on run {others[0]}", advice="move it with ⟦move⟧, or use another name"
                )
            for holder in others:
                self._retag(connection, writer, holder, remove=name)
            self._retag(connection, writer, one, add=name)
        return one

    def untag(self, name: str) -> int:
        """Take the tag `name` from every run that has it; how many had. Raises `BadInput` where none has."""
        require_text(name)
        with self._writing() as (connection, writer):
            holders = tagged(connection, name)
            if not holders:
                raise BadInput(f"there is no run with the tag {name!r}", advice=similar_tags(connection, name))
            for holder in holders:
                self._retag(connection, writer, holder, remove=name)
        return len(holders)

    def reindex(self) -> ReindexResult:
        """Make the index tables again from the documents. What can't be read keeps the index it has."""
        with self._database.writing() as connection:
            return index_again(connection)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[Connection, RunWriter]]:
        """Yield a transaction that changes runs."""
        with self._database.writing() as connection:
            writer = RunWriter(connection)
            yield connection, writer
            writer.finish()

    def _place(self, connection: Connection, reference: str) -> Any:
        """Time and id of the run of `reference`: its place in a list."""
        found = select(runs.c.created, runs.c.id).where(runs.c.id == find_one(connection, reference))
        return connection.execute(found).one()

    def _load(self, connection: Connection, run_id: str) -> Run:
        return self._decode(run_id, lambda: document_text(connection, run_id))

    def _decode(self, run_id: str, read: Callable[[], str]) -> Run:
        try:
            return decode(read())
        except BadInput as error:
            raise StoreError(
                f"run {run_id} in {self.name} can't be read: {error.marked.message}", advice=error.marked.advice
            ) from error

    def _retag(
        self,
        connection: Connection,
        writer: RunWriter,
        run_id: str,
        *,
        add: str | None = None,
        remove: str | None = None,
    ) -> None:
        text = document_text(connection, run_id)
        self._decode(run_id, lambda: text)  # says what is wrong with it, if anything is
        document = upgrade(parse(text))
        # Changed as JSON, so that fields which a later edgewise of the same schema added stay as they are.
        kept = [tag for tag in document.get("tags", ()) if tag not in (add, remove)]
        document["tags"] = kept if add is None else [*kept, add]
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        writer.write(decode(text), text)
