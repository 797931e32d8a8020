"""Empty stores, one for each database that there is: SQLite, and PostgreSQL where the environment names one."""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import count

from edgewise.store import open_store

POSTGRESQL = "EDGEWISE_TEST_POSTGRESQL"
_NUMBERS = count()
DATABASES = ["sqlite", *(["postgresql"] if os.environ.get(POSTGRESQL) else [])]


@contextmanager
def new_store(database, folder):
    """An empty store in one of `DATABASES`; a file lies in `folder`."""
    if database == "sqlite":
        with open_store(str(folder / "runs.db")) as opened:
            yield opened
        return
    url = os.environ[POSTGRESQL]
    from sqlalchemy import create_engine, make_url, text

    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    schema = f"edgewise_test_{os.getpid()}_{next(_NUMBERS)}"
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
