"""Connections to a store's database: opening, pragmas, locks, migration, and errors that say what to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Double,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    inspect,
    literal_column,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from edgewise.errors import StoreError
from edgewise.store.index import index_again
from edgewise.store.location import DatabaseLocation
from edgewise.store.tables import documents, metadata

REVISION = "0011"
"""Revision of the tables that `edgewise.store.tables` describes."""

_NOW = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "(extract(epoch from clock_timestamp())::double precision)",
}

BUSY_TIMEOUT_S = 30.0
"""How long a process waits for another one's write to end."""

_LEAST_BYTES = 512
"""Size of the smallest database of SQLite. Its file is never opened here to look at it: closing a file drops all locks
that this process has on it, those of SQLite's own connections too, and another process may then take the store for
unused (https://www.sqlite.org/howtocorrupt.html, 2.2)."""

_MIGRATION_LOCK = 0x65646765  # any number that all edgewise processes share: PostgreSQL's advisory lock
_BACKENDS = ("sqlite", "postgresql")
_VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""The revision of a database's tables. Its name is Alembic's, which made the first three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """An open database.

    Attributes:
        name: what messages call it; never with a password.
        read_only: whether writing is out of the question.
    """

    engine: Engine
    name: str
    read_only: bool

    @property
    def now(self) -> ColumnElement[float]:
        """The time on the database's clock, s since 1970, as a part of a statement."""
        return literal_column(_NOW[self.engine.dialect.name], Double)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that sees one state of the store. Raises `StoreError`."""
        with explaining(self.name), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that holds the write lock from its start. Raises `StoreError`."""
        if self.read_only:
            raise StoreError(f"the store {self.name} is read-only", advice="use another one: ⟦store=PATH⟧")
        with explaining(self.name), self.engine.connect() as plain:
            connection = plain.execution_options(edgewise_write=True)
            with connection.begin():
                yield connection


def open_database(location: DatabaseLocation, *, create: bool) -> Database:
    """Return the database at `location`, its tables up to date.

    Args:
        location: where it is.
        create: whether to make a SQLite file that is not there.

    Raises:
        StoreError: it is missing, corrupt, newer, something else's, out of reach, or of a kind that can't be used.
    """
    database = _open_sqlite(location, create=create) if location.path else _open_url(location.url)
    try:
        _bring_up_to_date(database)
    except BaseException:
        database.engine.dispose()
        raise
    return database


def _open_url(url: str) -> Database:
    try:
        parsed = make_url(url)
        name = parsed.render_as_string(hide_password=True)
        backend = parsed.get_backend_name()
        if backend not in _BACKENDS:
            raise StoreError(
                f"{name}: {backend!r} is not supported for a store",
                advice="use a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE",
            )
        if backend == "sqlite":
            engine = create_engine(parsed, poolclass=StaticPool, connect_args={"check_same_thread": False})
            _listen(engine, pragmas=("PRAGMA foreign_keys=ON",))
        else:
            patience = {"connect_timeout": 10} if parsed.get_driver_name().startswith("psycopg") else {}
            engine = create_engine(parsed, pool_pre_ping=True, connect_args=patience)
    except NoSuchModuleError as error:
        raise StoreError(f"{name}: SQLAlchemy has no such driver", advice="use plain postgresql://…") from error
    except (ArgumentError, ValueError) as error:
        shown = url.rpartition("@")[2]  # what stands before it may be a password
        raise StoreError(f"{shown!r} is not a database URL", advice="use a path or a URL") from error
    except ImportError as error:
        raise StoreError(
            f"{name}: its driver is not installed: {error}", advice="pip install 'edgewise[postgresql]'"
        ) from error
    return Database(engine=engine, name=name, read_only=False)


def _open_sqlite(location: DatabaseLocation, *, create: bool) -> Database:
    path = location.path
    assert path is not None
    name = str(path)
    try:
        if path.is_dir():
            raise StoreError(f"the store {name} is a folder", advice="give a file in it: ⟦store⟧ PATH/runs.db")
        missing = not path.exists()
        if missing and not create:
            raise StoreError(f"there is no store at {name}", advice="check ⟦store⟧, or measure something first")
        if missing:
            # A folder of our own is private, as the XDG base directory rules ask; one that was named is its owner's.
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o777 if location.chosen else 0o700)
        elif 0 < path.stat().st_size < _LEAST_BYTES:  # SQLite itself would take such a file for an empty one
            raise StoreError(f"{name} is corrupt or not a store", advice="move it away and import an export of it")
    except OSError as error:
        raise StoreError(
            f"the store {name} can't be opened: {error.strerror}", advice="use another one: ⟦store=PATH⟧"
        ) from error
    # SQLite needs to create files beside the store's in order to write it.
    writable = os.access(path.parent, os.W_OK) and (missing or os.access(path, os.W_OK))
    if missing and not writable:
        raise StoreError(f"the folder {path.parent} is read-only", advice="use another store: ⟦store=PATH⟧")
    connect = _connector(path, query="mode=rwc" if create else "mode=rw") if writable else _read_only_connector(path)
    url = URL.create("sqlite", database=name)
    engine = create_engine(url, creator=connect)
    pragmas = ["PRAGMA foreign_keys=ON"]
    if writable:
        pragmas += ["PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"]
    _listen(engine, pragmas=tuple(pragmas))
    return Database(engine=engine, name=name, read_only=not writable)


def _connector(path: Path, *, query: str) -> Callable[[], sqlite3.Connection]:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{path.as_uri()}?{query}", uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)

    return connect


def _read_only_connector(path: Path) -> Callable[[], sqlite3.Connection]:
    """Return a function that opens a file, or one in a folder, that can't be written.

    A store in WAL mode is read with the help of two files beside it. Where they are not there and can't be created,
    no process has the store open and all of it is in the one file, so SQLite can open it as immutable.
    """

    def connect() -> sqlite3.Connection:
        connection = _connector(path, query="mode=ro")()
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if path.with_name(f"{path.name}-wal").exists():
                raise
            return _connector(path, query="mode=ro&immutable=1")()
        return connection

    return connect


def _listen(engine: Engine, *, pragmas: tuple[str, ...]) -> None:
    """Make SQLite's transactions ours: the driver begins none, and a writer takes its lock at the beginning."""

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            try:
                connection.execute(pragma).close()
            except sqlite3.OperationalError as error:
                # While another process works in the old journal mode it can't be changed. Both are safe, and the
                # next connection changes it.
                if _primary_code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("edgewise_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _bring_up_to_date(database: Database) -> None:
    """Make the tables of an empty database; make those of an older store again, and fill them from its documents."""
    with database.reading() as connection:
        revision = _revision(connection, name=database.name)
    if revision == REVISION:
        return
    if revision is not None and revision > REVISION:
        raise StoreError(
            f"the store {database.name} was written by a newer edgewise (revision {revision!r}; this one supports up "
            f"to {REVISION!r})",
            advice="update edgewise, or use another store: ⟦store=PATH⟧",
        )
    if database.read_only and revision is None:
        raise StoreError(f"{database.name} contains no store", advice="use another one: ⟦store=PATH⟧")
    if database.read_only:
        raise StoreError(
            f"the store {database.name} is read-only, and its tables are from an older edgewise",
            advice="copy it to a writable folder and use the copy: ⟦store=PATH⟧",
        )
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        # Another process may have done it while this one waited for the lock.
        revision = _revision(connection, name=database.name)
        if revision != REVISION:
            _make_tables(connection)
        if revision not in (None, REVISION):
            _read_documents(connection, name=database.name)


def _make_tables(connection: Connection) -> None:
    """Make all tables; of an older store's, only the documents stay."""
    for table in reversed(metadata.sorted_tables):
        if table is not documents:
            table.drop(connection, checkfirst=True)
    metadata.create_all(connection)
    _VERSION.create(connection, checkfirst=True)
    connection.execute(_VERSION.delete())
    connection.execute(_VERSION.insert(), {"version_num": REVISION})


def _read_documents(connection: Connection, *, name: str) -> None:
    """Fill the tables of an older store from its documents. Raises `StoreError` where one can't be read."""
    if unreadable := index_again(connection).unreadable:
        raise StoreError(
            f"the store {name} was made by an edgewise from before 0.1, and this one can't read {len(unreadable)} of "
            f"its runs: {unreadable[0][1]}",
            advice="export its runs with that edgewise ('edgewise runs export all -o runs.jsonl'), then import the "
            "file into a new store: ⟦store=PATH⟧",
        )


def _revision(connection: Connection, *, name: str) -> str | None:
    """Return the revision that the database is at; None where it is empty. Raises `StoreError` where it is
    another's.
    """
    present = set(inspect(connection).get_table_names())
    if "alembic_version" in present:
        return connection.scalar(select(_VERSION.c.version_num))
    if connection.dialect.name == "sqlite" and present:
        raise StoreError(f"{name} is a database, but not a store of edgewise", advice="use another file: ⟦store=PATH⟧")
    return None


@contextlib.contextmanager
def explaining(name: str) -> Iterator[None]:
    """Turn what a database driver raises inside into a `StoreError` about the store called `name`."""
    try:
        yield
    except DBAPIError as error:
        raise _explained(error.orig if error.orig is not None else error, name=name) from error
    except (sqlite3.Error, SQLAlchemyError, UnicodeDecodeError) as error:  # SQLite quotes bytes of a damaged file
        raise _explained(error, name=name) from error


def _explained(error: BaseException, *, name: str) -> StoreError:
    reason = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, sqlite3.Error):
        return StoreError(
            f"the store {name}: {reason}", advice=("check that the server is running, and the user and the database")
        )
    match _primary_code(error):
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return StoreError(
                f"the store {name} can't be written: {reason}",
                advice="if the disk is full, free some space; saved runs are kept",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreError(f"the store {name} is read-only: {reason}", advice="use another one: ⟦store=PATH⟧")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(f"the store {name} can't be opened: {reason}", advice="use another one: ⟦store=PATH⟧")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"the store {name} was in use by another process for {BUSY_TIMEOUT_S:.0f} s", advice="try again"
            )
    return StoreError(
        f"the store {name} is corrupt or not a store: {reason}",
        advice="try 'edgewise runs reindex'; otherwise move it away and import an export, or use sqlite3's .recover",
    )


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 where the driver has none."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
