"""Files of a lab by the hash of their content: in its database in chunks, or in the folder that its owner named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from edgewise.errors import BadInput
from edgewise.store.connection import Database
from edgewise.store.lab_folder import CHUNK, LabFolder
from edgewise.store.lab_tables import chunks, files, settings


class LabFiles:
    """The files of a lab. A file is there once all of it is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _folder(self) -> LabFolder | None:
        """Where they are kept now; None is the database."""
        with self._database.reading() as connection:
            url = connection.scalar(select(settings.c.value).where(settings.c.name == "files"))
        return LabFolder(url) if url else None

    def put(self, sha256: str, path: Path) -> None:
        """Keep the content of a file, whole or not at all. Raises `BadInput` where it is not what `sha256` says."""
        if folder := self._folder():
            folder.put(sha256, path)
            return
        content = hashlib.sha256()
        with self._database.writing() as connection, path.open("rb") as file:
            for position, piece in enumerate(iter(lambda: file.read(CHUNK), b"")):
                content.update(piece)
                chunk = insert(chunks).values(sha256=sha256, position=position, content=piece)
                connection.execute(chunk.on_conflict_do_nothing())  # another client may bring the same
            if content.hexdigest() != sha256:
                raise BadInput(f"{path} changed while it was read", advice="run the same sweep again")
            row = {"sha256": sha256, "size": path.stat().st_size, "added": self._database.now}
            connection.execute(insert(files).values(row).on_conflict_do_nothing())

    def size(self, sha256: str) -> int | None:
        """Return the bytes of a file; None where it is not there."""
        if folder := self._folder():
            return folder.size(sha256)
        with self._database.reading() as connection:
            return connection.scalar(select(files.c.size).where(files.c.sha256 == sha256))

    def read(self, sha256: str, *, first: int = 0) -> Iterator[bytes]:
        """Yield the chunks of a file from the chunk `first` on, in the database one transaction each."""
        if folder := self._folder():
            yield from folder.read(sha256, first=first)
            return
        position = first
        while True:
            chunk = select(chunks.c.content).where(chunks.c.sha256 == sha256, chunks.c.position == position)
            with self._database.reading() as connection:
                content = connection.scalar(chunk)
            if content is None:
                return
            yield content
            position += 1
