"""Empty stores for tests: in SQLite, and in PostgreSQL where a server is at hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgewise.store import Store, open_store

POSTGRESQL = "EDGEWISE_TEST_POSTGRESQL"
"""The environment's variable with the URL of a server's database; the tests make and drop a schema of their own in it."""

KINDS = ("sqlite", *(("postgresql",) if os.environ.get(POSTGRESQL) else ()))


@contextmanager
def any_store(kind: str, folder: Path) -> Iterator[Store]:
    """An empty store of one of `KINDS`; a file of it lies in `folder`."""
    if kind == "sqlite":
        with open_store(str(folder / "runs.db")) as opened:
            yield opened
        return
    from sqlalchemy import create_engine, make_url, text

    url = os.environ[POSTGRESQL]
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    schema = f"edgewise_test_{os.getpid()}"
    with engine.begin() as connected:
        connected.execute(text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
        connected.execute(text(f"CREATE SCHEMA {schema}"))
    try:
        own = make_url(url).update_query_dict({"options": f"-csearch_path={schema}"})
        with open_store(own.render_as_string(hide_password=False)) as opened:
            yield opened
    finally:
        with engine.begin() as connected:
            connected.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        engine.dispose()
