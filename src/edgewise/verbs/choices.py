"""What options can be completed with: read when a command line is completed, and never before."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path


def _plugins(group: str) -> Sequence[str]:
    from edgewise.registry import FOR_TESTS, Registry

    return [name for name in Registry[object](f"edgewise.{group}", "").names() if name not in FOR_TESTS]


runtimes = partial(_plugins, "runtimes")
tasks = partial(_plugins, "tasks")
data_formats = partial(_plugins, "datasets")
passes = partial(_plugins, "passes")
tools = partial(_plugins, "importers")


def registered_devices() -> Sequence[str]:
    """Devices of the file that 'edgewise devices add' writes."""
    from edgewise.device.devices import read_devices

    return tuple(read_devices())


def measured_devices() -> Sequence[str]:
    """Return this machine and the registered devices."""
    return tuple(dict.fromkeys(("local", *registered_devices())))


def estimated_devices() -> Sequence[str]:
    """Calibrated devices, and those that an estimator knows."""
    from edgewise.device.calibrations import names
    from edgewise.estimating.base import device_names

    return (*names(), *device_names())


def devices() -> Sequence[str]:
    """All of them."""
    return (*measured_devices(), *estimated_devices())


def networks() -> Sequence[str]:
    """Return reference networks."""
    from edgewise.zoo.networks import REFERENCES

    return tuple(REFERENCES)


def tables() -> Sequence[str]:
    """Tables of the atlas."""
    from edgewise.predicting.atlas import names

    return names()


def runs() -> Sequence[str]:
    """Words for stored runs, tags, and the ids of the newest runs."""
    return ("last", "all", *tags(), *_stored("SELECT id FROM runs ORDER BY created DESC, id DESC LIMIT 50"))


def tags() -> Sequence[str]:
    """Tags of stored runs."""
    return _stored("SELECT DISTINCT name FROM tags ORDER BY name")


def runs_and_files() -> Sequence[str]:
    """Files of the current folder, and stored runs."""
    return (*sorted(path.name for path in Path().iterdir() if not path.name.startswith(".")), *runs())


def _stored(query: str) -> Sequence[str]:
    """Return the first column of a query of the store, which must be a file, and is only read."""
    from edgewise.store.location import find_location

    path = find_location().path
    if path is None or not path.is_file():
        return ()
    # A store that nobody has open is read without locks: those would leave files beside it.
    unused = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{unused}", uri=True, timeout=1)) as connection:
        return [str(row[0]) for row in connection.execute(query)]
