"""What the rows of a list are called: files of one name by their folders, programs by their command lines."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from sqlalchemy import Connection

from edgewise.errors import BadInput
from edgewise.store.codec import parse
from edgewise.store.index import document_text
from edgewise.store.tables import RunRow


def named(connection: Connection, rows: Sequence[RunRow]) -> list[RunRow]:
    """`rows` whose `model` tells their subjects apart: ``folder/net.onnx``, or a part of the hash where that is equal.

    Runs of a program have its command line. Only rows for which the index is not enough have their documents read.
    """
    files = defaultdict[str, set[str]](set)
    for row in rows:
        files[row.model].add(row.sha256)
    told: dict[str, tuple[str, str]] = {}
    for row in rows:
        if row.scenario == "command" or len(files[row.model]) > 1:
            with contextlib.suppress(BadInput, LookupError, TypeError):
                job = parse(document_text(connection, row.id))["job"]
                folder = PurePath(job["model"]["path"]).parent.name
                words = " ".join(job.get("command") or ()) or (f"{folder}/{row.model}" if folder else row.model)
                told[row.id] = (words, row.sha256)
    hashes = defaultdict[str, set[str]](set)
    for words, sha256 in told.values():
        hashes[words].add(sha256)
    return [replace(row, model=_name(row, told, hashes)) for row in rows]


def _name(row: RunRow, told: dict[str, tuple[str, str]], hashes: dict[str, set[str]]) -> str:
    words = told[row.id][0] if row.id in told else row.model
    return words if len(hashes[words]) < 2 or row.scenario == "command" else f"{words} {row.sha256[:4]}"
