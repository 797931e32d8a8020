"""Uploads: a form's files are streamed into a folder of their own, told apart by a limited process, then kept whole.

    POST /uploads → receive() → incoming/edgewise-tmp-…/  → model_worker → Models.add() → models/SHA256/ or data/SHA256/

Whatever goes wrong, the folder in ``incoming`` is removed; one of a killed server goes with the next upload or start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder
from edgewise.model.bundles import is_plain
from edgewise.studio.models import DATA, FORMATS, MOST_DEPTH, WEIGHTS, ModelEntry, Models, clean_label, safe_name
from edgewise.studio.reading import ask_worker

MOST_FILES = 64
MOST_ZEROS = 2**16
"""Bytes at the beginning of a file that may all be zero."""
_ADVICE = "drop one model: a file, together with its files of weights (.xml with .bin), or a .zip of a folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One file of an upload.

    Attributes:
        name: the client's name for it, without folders.
        path: where it lies.
    """

    name: str
    path: Path

    @property
    def label(self) -> str:
        """The name for people."""
        return clean_label(self.name)

    @property
    def safe_stem(self) -> str:
        """The name without its ending, as that of a file."""
        return safe_name(self.name, otherwise="model")

    @property
    def suffix(self) -> str:
        """The ending of the name, small, where it is one that a file may have; else empty."""
        suffix = Path(self.name).suffix.lower()
        return suffix if re.fullmatch("[.][a-z0-9]{1,12}", suffix) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A model, or data, with its weight files.

    Attributes:
        needs: where weight files must lie below its folder → their names.
        weights: the same → those of the upload.
    """

    model: Received
    needs: Mapping[str, str]
    weights: dict[str, Received] = field(default_factory=dict)


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
            files = await _save(request, folder)
            several = {"names": [str(each.path) for each in files]} if len(files) > 1 else None
            named = await run_in_threadpool(ask_worker, several, what="the upload") if several else {}
            groups = group(files, named)
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
    names = [re.split(r"[/\\]", str(each.filename))[-1] for each in found]
    return [Received(name=name, path=Path(str(each.file.name))) for name, each in zip(names, found, strict=True)]


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
            # Weights may begin with as many zeros as they like.
            is_model = Path(str(part.filename)).suffix.lower() in (*FORMATS, *DATA, ".zip")
            path = self._folder / str(self._current_files)
            part.file = self._files.enter_context(_Arriving(path, refuses_zeros=is_model))


class _Arriving(BufferedWriter):
    """A new file for what arrives. A model that begins with zeros is refused before it fills the disk."""

    def __init__(self, path: Path, *, refuses_zeros: bool) -> None:
        super().__init__(FileIO(path, "xb"))
        self._empty = refuses_zeros

    def write(self, data: Any) -> int:
        """Write `data`. Raises `BadInput` and OSError."""
        self._empty = self._empty and data.count(0) == len(data)
        if self._empty and self.tell() > MOST_ZEROS:
            raise BadInput("the file begins with zeros and is no model", advice="export or download it again")
        return super().write(data)


def group(files: Sequence[Received], named: Mapping[str, Sequence[str]]) -> list[Parts]:
    """Return the files of each model: those that its content names, or that have its name with the ending for weights.

    Args:
        named: path of a file → locations of the weight files that it names.

    Raises `BadInput`: no file, or one of weights that no model names.
    """
    if not files:
        raise BadInput("there is no file in this upload", advice=_ADVICE)
    models = [Parts(model=each, needs=_needs(each, named.get(str(each.path), ()))) for each in files]
    free = {each.name: each for each in files if len(files) > 1 and not named.get(str(each.path))}
    for each in models:
        for place, name in each.needs.items():
            if name != each.model.name and name in free:
                each.weights[place] = free.pop(name)
    taken = [file for each in models for file in each.weights.values()]
    strays = [each for each in free.values() if each.suffix not in (*FORMATS, *DATA, ".zip")]
    for each in models:
        missing = [name for place, name in each.needs.items() if place not in each.weights]
        if missing and strays:
            raise BadInput(
                f"{each.model.label} names its weight file {missing[0]!r}, and {strays[0].label} has another name",
                advice=f"rename it to {missing[0]}, and drop both together",
            )
    if lost := next((each for each in strays if each.suffix in WEIGHTS.values()), None):
        raise BadInput(f"{lost.label}: no model in this upload names these weights", advice=_ADVICE)
    return [each for each in models if each.model not in taken]


def _needs(model: Received, locations: Sequence[str]) -> dict[str, str]:
    """Where the weight files of a model must lie below its folder → the client's names for them."""
    if ending := WEIGHTS.get(model.suffix):
        return {f"{model.safe_stem}{ending}": f"{Path(model.name).stem}{ending}"}
    plain = (each for each in locations if is_plain(each) and each.count("/") < MOST_DEPTH)
    return {place: place.rpartition("/")[2] for place in plain}


def _keep(models: Models, parts: Parts, *, most_bytes: int) -> ModelEntry:
    """Find out what the files are, and keep them. Raises `EdgewiseError` and OSError."""
    first = parts.model
    made = first.path.with_suffix(".made")
    made.mkdir(mode=0o700)
    own = f"{first.safe_stem}{first.suffix}"
    places = {own: first, **{place: file for place, file in parts.weights.items() if place != own}}
    for place, file in places.items():
        (made / place).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.path.rename(made / place)
    told = {"take": list(places), "title": first.label, "folder": str(made), "most_bytes": most_bytes}
    return models.add(made, label=first.label, **ask_worker(told, what=first.label))
