"""Where the store is: what was asked for, else ``EDGEWISE_STORE``, else a file in the user's data folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from edgewise.errors import StoreError

ENVIRONMENT_VARIABLE = "EDGEWISE_STORE"
FILE_NAME = "runs.db"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://|sqlite:")
_SQLITE_FILE = re.compile(r"sqlite(?:\+pysqlite)?:///(.*)", re.DOTALL)
# SQLAlchemy's own default for these names is a driver that edgewise does not ask for.
_POSTGRESQL = re.compile(r"postgres(?:ql)?://")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLocation:
    """A store's place.

    Attributes:
        url: for SQLAlchemy; empty for a SQLite file, which is named by `path` alone.
        path: the SQLite file, absolute; None for a server or for a store in memory.
        chosen: whether an argument or the environment names it, so that a missing file is likely a mistake.
    """

    url: str
    path: Path | None
    chosen: bool


def find_location(url: str | None = None) -> DatabaseLocation:
    """Return the place that `url` names: a path, ``sqlite:///path`` or any database URL; None asks the environment.

    Raises:
        StoreError: a SQLite URL with settings behind a question mark, which would be taken as part of the file's name.
    """
    if url is not None and not url.strip():
        raise StoreError("the store's name is empty", advice="give a path or a URL to ⟦store⟧, or omit it")
    asked = url or os.environ.get(ENVIRONMENT_VARIABLE) or None
    if asked is None:
        return DatabaseLocation(url="", path=default_path(), chosen=False)
    if not _SCHEME.match(asked):
        return DatabaseLocation(url="", path=_absolute(asked), chosen=True)
    if asked in ("sqlite://", "sqlite:///:memory:"):
        return DatabaseLocation(url="sqlite://", path=None, chosen=True)
    sqlite = _SQLITE_FILE.fullmatch(asked)
    if sqlite is None:
        return DatabaseLocation(url=_POSTGRESQL.sub("postgresql+psycopg://", asked, count=1), path=None, chosen=True)
    if "?" in sqlite[1] or not sqlite[1]:
        raise StoreError(f"{asked!r} does not name a SQLite file", advice="use sqlite:///PATH, or only the path")
    return DatabaseLocation(url="", path=_absolute(sqlite[1]), chosen=True)


def default_path() -> Path:
    """Return the store of this user: ``runs.db`` in the data folder that the system sets aside for edgewise."""
    from platformdirs import user_data_path

    return user_data_path("edgewise", appauthor=False) / FILE_NAME


def _absolute(text: str) -> Path:
    if "\0" in text:  # SQLite would end the name there and open another file
        raise StoreError(f"{text!r} is not a file name", advice="use a path without control characters")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:  # no home folder to expand ~ to
        raise StoreError(f"{text!r} can't be resolved: {error}", advice="give the full path") from error
