"""Uploads: a form's files are streamed into a folder of their own, told apart by a limited process, then kept whole.

    POST /uploads → receive() → incoming/edgewise-tmp-…/  → model_worker → Models.add() → models/SHA256/ or data/SHA256/

Whatever goes wrong, the folder in ``incoming`` is removed; one of a killed server goes with the next upload or start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder
from edgewise.studio.models import WEIGHTS, ModelEntry, Models, clean_label, safe_name
from edgewise.studio.reading import ask_worker

MOST_FILES = 64
MOST_ZEROS = 2**16
"""Bytes at the beginning of a file that may all be zero."""
_ADVICE = "drop one model: a file, an .xml with its .bin, or a .zip of a folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One file of an upload.

    Attributes:
        label: the client's name for it.
        path: where it lies.
    """

    label: str
    path: Path

    @property
    def stem(self) -> str:
        """The label without its ending."""
        return Path(self.label).stem

    @property
    def suffix(self) -> str:
        """The ending of the label, small, where it is one that a file may have; else empty."""
        suffix = Path(self.label).suffix.lower()
        return suffix if re.fullmatch("[.][a-z0-9]{1,12}", suffix) else ""


async def receive(request: Request, models: Models, *, most_bytes: int) -> list[ModelEntry]:
    """Keep what a form uploads: one entry for each model and data set.

    Args:
        most_bytes: that an archive may unpack to.

    Raises:
        BadInput: no file, too many, one that is cut, runs code, or is neither model nor data.
        Unavailable: the disk is full, or read-only.
    """
    try:
        models.incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        with job_folder(within=models.incoming) as folder:
            groups = group(await _save(request, folder))
            return [await run_in_threadpool(_keep, models, each, most_bytes=most_bytes) for each in groups]
    except OSError as error:
        raise Unavailable(
            f"the upload can't be kept in {models.folder}: {error.strerror or error}",
            advice="use a --store on a disk that can be written and has space",
        ) from error


async def _save(request: Request, folder: Path) -> list[Received]:
    """Write the files of a form to `folder`. Raises `BadInput` and OSError."""
    with ExitStack() as files:
        parser = _Parser(request, folder, files)
        try:
            form = await parser.parse()
        except (MultiPartException, KeyError) as error:
            advice = f"use the form on the first page, with at most {MOST_FILES} files"
            raise BadInput("this upload is not the form of the first page", advice=advice) from error
        except ClientDisconnect:
            raise BadInput("the upload ended before it was whole", advice="try again") from None
        finally:
            async for _ in parser.stream:  # a browser that is still sending shows no answer
                pass
    found = [value for _, value in form.multi_items() if isinstance(value, UploadFile) and value.filename]
    return [Received(label=clean_label(str(each.filename)), path=Path(str(each.file.name))) for each in found]


class _Parser(MultiPartParser):
    """A parser whose files lie in `folder` from their first byte on; `files` closes them."""

    def __init__(self, request: Request, folder: Path, files: ExitStack) -> None:
        super().__init__(request.headers, request.stream(), max_files=MOST_FILES, max_fields=8)
        self._folder, self._files = folder, files

    def on_headers_finished(self) -> None:
        """Open the file of a part that is one, in place of a temporary one."""
        super().on_headers_finished()
        if (part := self._current_part.file) is not None:
            part.file.close()
            part.file = self._files.enter_context(_Arriving(self._folder / str(self._current_files)))


class _Arriving(BufferedWriter):
    """A new file for what arrives. One that begins with zeros is refused before it fills the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(FileIO(path, "xb"))
        self._empty = True

    def write(self, data: Any) -> int:
        """Write `data`. Raises `BadInput` and OSError."""
        self._empty = self._empty and data.count(0) == len(data)
        if self._empty and self.tell() > MOST_ZEROS:
            raise BadInput("the file begins with zeros and is no model", advice="export or download it again")
        return super().write(data)


def group(files: Sequence[Received]) -> list[list[Received]]:
    """The files of each model: a file of weights belongs to the model of the same name. Raises `BadInput`."""
    if not files:
        raise BadInput("there is no file in this upload", advice=_ADVICE)
    weights = {each.stem: each for each in files if each.suffix in WEIGHTS.values()}
    others = [each for each in files if each.suffix not in WEIGHTS.values()]
    paired = [[each, weights.pop(each.stem)] if each.stem in weights else [each] for each in others]
    if weights and others:
        label = next(iter(weights.values())).label
        raise BadInput(f"{label}: no model of the same name is beside it", advice=_ADVICE)
    return paired or [[each] for each in files]


def _keep(models: Models, files: Sequence[Received], *, most_bytes: int) -> ModelEntry:
    """Find out what `files` are, and keep them. Raises `EdgewiseError` and OSError."""
    first = files[0]
    made, stem = first.path.with_suffix(".made"), safe_name(first.label, otherwise="model")
    made.mkdir(mode=0o700)
    for file in files:
        file.path.rename(made / f"{stem}{file.suffix}")
    told = {"take": f"{stem}{first.suffix}", "folder": str(made), "most_bytes": most_bytes}
    return models.add(made, label=first.label, **ask_worker(told, what=first.label))
