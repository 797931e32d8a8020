"""What the rows of a list are called: files as `edgewise.record.names` does, programs by their command lines."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from edgewise.errors import BadInput
from edgewise.record import ModelRef, Origin
from edgewise.record.names import model_names
from edgewise.store.codec import parse
from edgewise.store.index import document_text
from edgewise.store.tables import RunRow


def named(connection: Connection, rows: Sequence[RunRow]) -> list[RunRow]:
    """`rows` whose `model` tells their files apart; of a run of a program it is the command line.

    Only rows for which the index is not enough have their documents read.
    """
    files = defaultdict[str, set[str]](set)
    for row in rows:
        files[row.model].add(row.sha256)
    models, commands = list[ModelRef](), dict[str, str]()
    for row in rows:
        told: Mapping[str, Any] = {}
        if row.scenario == "command" or len(files[row.model]) > 1:
            with contextlib.suppress(BadInput, LookupError, TypeError):
                job = parse(document_text(connection, row.id))["job"]
                commands[row.id] = " ".join(job.get("command") or ())
                told = job["model"]
        models.append(_model(row, told))
    names = zip(rows, model_names(models), strict=True)
    return [replace(row, model=commands.get(row.id) or name) for row, name in names]


def _model(row: RunRow, told: Mapping[str, Any]) -> ModelRef:
    """Return the model of a run, with the place of its file, or of its network's function, as its document has it."""
    origin = told.get("origin")
    return ModelRef(
        name=row.model,
        path=told.get("path", ""),
        format=row.format,
        sha256=row.sha256,
        size_bytes=0,
        origin=Origin(target=origin["target"], sha256=origin["sha256"]) if origin else None,
    )
