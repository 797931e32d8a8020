"""Uploads: a form's files are streamed into a folder of their own, told apart by a limited process, then kept whole.

    POST /uploads → receive() → incoming/edgewise-tmp-…/  → model_worker → Models.add() → models/SHA256/ or data/SHA256/

Whatever goes wrong, the folder in ``incoming`` is removed; one of a killed server goes with the next upload or start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder
from edgewise.studio.models import Kind, ModelEntry, Models, clean_label, safe_name
from edgewise.studio.reading import ask_worker

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_FILES = 64
HEAD_BYTES = 4096
_WEIGHTS = (".bin", ".pdiparams")
"""Endings of files that belong to the model beside them."""
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


async def receive(request: Request, models: Models, *, most_bytes: int) -> list[ModelEntry]:
    """Keep what a form uploads: one entry for each model and data set.

    What is refused is read to its end all the same: a browser that is still sending shows no answer.

    Raises:
        BadInput: no file, too many, one that is cut, too large, runs code, or is neither model nor data.
        Unavailable: the disk is full.
    """
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect

    failure: Exception | None = None
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(job_folder(within=models.incoming))
        except OSError as error:
            raise _full(error, models) from error
        form = stack.enter_context(_Form(folder, request.headers.get("content-type", "")))
        try:
            async for chunk in request.stream():
                if failure is None and chunk:
                    try:
                        await run_in_threadpool(form.write, chunk)
                    except (BadInput, OSError) as error:
                        failure = error
                        form.drop()
        except ClientDisconnect:
            raise BadInput("the upload ended before it was whole", advice="try again") from None
        try:
            if failure is not None:
                raise failure
            groups = group(form.finish())
            return [await run_in_threadpool(_keep, models, each, most_bytes=most_bytes) for each in groups]
        except OSError as error:
            raise _full(error, models) from error


def _full(error: OSError, models: Models) -> Unavailable:
    return Unavailable(
        f"the upload can't be kept in {models.folder}: {error.strerror or error}",
        advice="free some space, or use another --store",
    )


def group(files: Sequence[Received]) -> list[list[Received]]:
    """The files of each model: a file of weights belongs to the model of the same name. Raises `BadInput`."""
    if not files:
        raise BadInput("there is no file in this upload", advice=_ADVICE)
    weights = {_stem(each): each for each in files if each.path.suffix in _WEIGHTS}
    others = [each for each in files if each.path.suffix not in _WEIGHTS]
    paired = [[each, weights.pop(_stem(each))] if _stem(each) in weights else [each] for each in others]
    if weights and others:
        label = next(iter(weights.values())).label
        raise BadInput(f"{label}: no model of the same name is beside it", advice=_ADVICE)
    return paired or [[each] for each in files]


def _stem(file: Received) -> str:
    return Path(file.label).stem


def _keep(models: Models, files: Sequence[Received], *, most_bytes: int) -> ModelEntry:
    """Find out what `files` are, and keep them. Raises `EdgewiseError` and OSError."""
    label = files[0].label
    made = files[0].path.parent / f"{files[0].path.name}.made"
    made.mkdir(mode=0o700)
    stem = safe_name(label, otherwise="model")
    for file in files:
        file.path.rename(made / f"{stem}{file.path.suffix}")
    told = {"take": f"{stem}{files[0].path.suffix}", "folder": str(made), "most_bytes": most_bytes}
    found = ask_worker(told, what=label)
    kind: Kind = found.pop("kind")
    return models.add(made, kind=kind, key=found.pop("key"), main=found.pop("main"), label=label, **found)


@contextmanager
def _as_bad_input() -> Iterator[None]:
    """Turns what the parser of forms raises into `BadInput`."""
    from python_multipart.exceptions import FormParserError

    try:
        yield
    except FormParserError as error:
        advice = "use the form on the first page"
        raise BadInput("this upload is not the form of the first page", advice=advice) from error


@dataclass
class _Form:
    """The files of a form as they arrive: one at a time is open, and nothing is held in memory.

    Args:
        folder: where they go.
        content_type: with the boundary of the form's parts.
    """

    folder: Path
    content_type: str
    _files: list[Received] = field(default_factory=list)
    _open: BinaryIO | None = None
    _header: bytes = b""
    _value: bytes = b""
    _label: str | None = None
    _whole: bool = False

    def __enter__(self) -> _Form:
        from python_multipart.multipart import MultipartParser, parse_options_header

        boundary = parse_options_header(self.content_type)[1].get(b"boundary", b"")
        with _as_bad_input():
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._add_name,
                    "on_header_value": self._add_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open_file,
                    "on_part_data": self._write_file,
                    "on_part_end": self._close_file,
                    "on_end": self._end,
                },
            )
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Close and remove what arrived so far."""
        if self._open is not None:
            self._open.close()
            Path(self._open.name).unlink(missing_ok=True)
            self._open = None

    def write(self, chunk: bytes) -> None:
        """The next bytes of the form. Raises `BadInput` and OSError."""
        with _as_bad_input():
            self._parser.write(chunk)

    def finish(self) -> list[Received]:
        """All files, in order. Raises `BadInput` where the form is cut."""
        if not self._whole:
            raise BadInput("the upload ended before it was whole", advice="try again")
        return self._files

    def _begin_part(self) -> None:
        self._label, self._header, self._value = None, b"", b""

    def _add_name(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        from python_multipart.multipart import parse_options_header

        if self._header.lower() == b"content-disposition":
            name = parse_options_header(self._value)[1].get(b"filename")
            self._label = None if not name else clean_label(name.decode("utf-8", "replace"))
        self._header = self._value = b""

    def _open_file(self) -> None:
        if self._label is None:  # a field, or a file input without a file
            return
        if len(self._files) >= MOST_FILES:
            raise BadInput(f"more than {MOST_FILES} files at once", advice="pack a folder as .zip")
        suffix = Path(self._label).suffix.lower()
        name = f"{len(self._files)}{suffix if re.fullmatch('[.][a-z0-9]{1,12}', suffix) else ''}"
        self._open = (self.folder / name).open("xb")
        self._files.append(Received(label=self._label, path=self.folder / name))

    def _write_file(self, data: bytes, start: int, end: int) -> None:
        if self._open is None:
            return
        piece = data[start:end]
        # A disk image or an empty file of two gigabytes is refused before it fills the disk.
        if self._open.tell() == 0 and len(piece) >= HEAD_BYTES and not any(piece[:HEAD_BYTES]):
            raise BadInput(f"{self._label} begins with zeros and is no model", advice="export or download it again")
        self._open.write(piece)

    def _close_file(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _end(self) -> None:
        self._whole = True
