"""The tables of a lab, in the database of a team's store: `edgewise.store.lab` makes them where they are asked for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, String, Table, Text

from edgewise.store.tables import job_columns

metadata = MetaData()

settings = Table(
    "lab_settings",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", Text, nullable=False),
)

hosts = Table(
    "lab_hosts",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("worker", String(64), nullable=False),
    Column("boot", String(64), nullable=False),
    Column("version", String(32), nullable=False),
    Column("started", Double, nullable=False),  # s since 1970, on the database's clock, as all times
    Column("seen", Double, nullable=False),
    Column("draining", Integer, nullable=False),
)

devices = Table(
    "lab_devices",
    metadata,
    Column("host", String(128), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("identity", Text, nullable=False),
    Column("answers", Text, nullable=False),  # the names and tags by which jobs ask for it, as JSON
    Column("processor", Text),
)

_IN_LAB: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("lock", Text, {}),
    ("version", String(32), {"nullable": False}),
    ("host", String(128), {"nullable": False}),
    ("place", String(64), {"nullable": False}),
    ("delivery", BigInteger, {}),
    ("outcome", Text, {}),
    ("suite", Text, {"nullable": False, "server_default": ""}),
    ("model", Text, {"nullable": False, "server_default": ""}),
    # of jobs on the device that has not ended; only then is the job's end known to others
    ("block", String(64), {}),
    # queued again because its device was suspect
    ("repeated", Integer, {"nullable": False, "server_default": "0"}),
)

jobs = Table(
    "lab_jobs",
    metadata,
    *job_columns(),
    *(Column(name, kind, **rules) for name, kind, rules in _IN_LAB),
    Index("ix_lab_jobs_status", "status", "device"),
    Index("ix_lab_jobs_place", "host", "place", "status"),
    Index("ix_lab_jobs_finished", "finished"),
    Index("ix_lab_jobs_suite", "suite", "status"),
)

earlier = Table(  # how jobs ended before they were queued again, without their requests
    "lab_earlier",
    metadata,
    Column("number", BigInteger, primary_key=True),
    *(Column(one.name, one.type, nullable=one.nullable) for one in jobs.columns),
    Index("ix_lab_earlier_id", "id", "number"),
    Index("ix_lab_earlier_place", "host", "place", "finished"),
)

cells = Table(  # the jobs of each suite, as it names them
    "lab_cells",
    metadata,
    Column("suite", Text, primary_key=True),
    Column("job", String(64), primary_key=True),
    Column("title", Text, nullable=False),
    Column("model", Text, nullable=False),
)

gauges = Table(
    "lab_gauges",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("identity", Text, nullable=False),  # of the device
    Column("moment", String(8), nullable=False),
    Column("at", Double, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("document", Text, nullable=False),  # as edgewise.run.facts_worker.gauge
    Index("ix_lab_gauges_identity", "identity", "moment", "id"),
)

schedules = Table(
    "lab_schedules",
    metadata,
    Column("suite", String(255), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("cron", Text, nullable=False),
    Column("due", Double, nullable=False),
    Column("queued", Double),
    Column("cells", Integer, nullable=False),
    Column("jobs", Text, nullable=False),  # as JSON
)

files = Table(
    "lab_files",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("added", Double, nullable=False),
)

chunks = Table(
    "lab_chunks",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
