"""Files of a lab in a folder that fsspec reaches (``s3://``, ``sftp://``, …), by the hash of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from edgewise.errors import BadInput, EdgewiseError, StoreError, Unavailable
from edgewise.text import one_line

CHUNK = 4 * 2**20
"""Bytes that are read and written at once, and from whose multiples a broken transfer goes on."""


def check_folder(url: str) -> str:
    """Return the URL of a folder, absolute, in which a file was written and read.

    Raises:
        BadInput: the URL has a password.
        Unavailable: a package is not installed.
        StoreError: the folder can't be used.
    """
    if urlsplit(url).password is not None:
        raise BadInput("⟦files⟧ must not contain a password", advice="log in with a key, or by fsspec's own settings")
    if "://" not in url:
        url = Path(url).absolute().as_uri()
    LabFolder(url).check()
    return url


class LabFolder:
    """The files of a lab in a folder. A file is there once all of it is. Methods raise `Unavailable`, `StoreError`."""

    def __init__(self, url: str) -> None:
        self._url = url
        with self._explaining():
            from fsspec.core import url_to_fs

            self._system, root = url_to_fs(url)
            self._root = root.rstrip("/")

    def check(self) -> None:
        """Write a file and read it. Raises `StoreError` where it is another one then."""
        with self._explaining():
            self._system.makedirs(self._root, exist_ok=True)
            token, path = uuid4().bytes, self._path(f"check-{uuid4().hex}")
            self._system.pipe_file(path, token)
            found = self._system.cat_file(path)
            self._system.rm_file(path)
            if found != token:
                raise OSError("a file that was written there is another one")

    def put(self, sha256: str, path: Path) -> None:
        """Keep the content of a file. Raises `BadInput` where it is not what `sha256` says."""
        content, partial = (
            hashlib.sha256(),
            self._path(f"{sha256}.{uuid4().hex}.part"),
        )  # another client may bring it too
        with self._explaining():
            try:
                self._system.makedirs(self._root, exist_ok=True)
                with path.open("rb") as file, self._system.open(partial, "wb") as there:
                    for piece in iter(lambda: file.read(CHUNK), b""):
                        content.update(piece)
                        there.write(piece)
                if content.hexdigest() != sha256:
                    raise BadInput(f"{path} changed while it was read", advice="run the same sweep again")
                self._system.mv(partial, self._path(sha256))
            except BaseException:
                with suppress(Exception):
                    self._system.rm_file(partial)
                raise

    def size(self, sha256: str) -> int | None:
        """Return the bytes of a file; None where it is not there."""
        with self._explaining():
            self._system.invalidate_cache()  # others write there
            try:
                return int(self._system.info(self._path(sha256))["size"])
            except FileNotFoundError:
                return None

    def read(self, sha256: str, *, first: int) -> Iterator[bytes]:
        """Yield the chunks of a file from the chunk `first` on."""
        with self._explaining(), self._system.open(self._path(sha256), "rb") as file:
            file.seek(first * CHUNK)
            while piece := file.read(CHUNK):
                yield piece

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except EdgewiseError:
            raise
        except ImportError as error:
            raise Unavailable(
                f"the files of this lab, at {self._url}, need a package: {one_line(str(error))}",
                advice="pip install 'edgewise[lab]', and what fsspec needs for this kind of URL",
            ) from error
        except Exception as error:  # whatever the library of the URL raises
            reason = one_line(str(error)) or type(error).__name__
            raise StoreError(
                f"the files of this lab, at {self._url}, can't be used: {reason}",
                advice="check the URL, the network and the rights there",
            ) from error
