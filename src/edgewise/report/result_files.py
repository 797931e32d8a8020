"""Files of results: for each kind of result, which its verb declares, a table of extension → writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from edgewise.errors import BadInput
from edgewise.folders import check_place
from edgewise.registry import load_class
from edgewise.report.document import json_text
from edgewise.report.files import extension_of

T = TypeVar("T")
Writer = Callable[[Any], str]
"""Returns the content of a file with a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat(Generic[T]):
    """How results of one kind are written to files.

    Attributes:
        noun: what error messages call the result.
        shows: name of the class of the results; empty for results that describe themselves.
        document: ``module:function`` of this package that makes the result's `Document`.
        writers: extension → writer of a file with it.
        model_paths: paths that are removed from the text, as a report is for other people's eyes.
        is_own: whether a file may be replaced without being asked, such as the report of an earlier gate.
        in_folder: name → writer of the files that a folder gets; None where results go to files only.
    """

    noun: str
    document: str
    writers: Mapping[str, Writer]
    model_paths: Callable[[T], Iterable[str]]
    is_own: Callable[[Path], bool] = lambda path: False
    in_folder: Mapping[str, Writer] | None = None
    shows: str = ""

    @property
    def extensions(self) -> tuple[str, ...]:
        """Extensions of the files that can hold a result, the usual one first."""
        return tuple(self.writers)

    def check(self, path: Path, *, overwrite: bool) -> None:
        """Raise `BadInput` with advice where the result can't be written to `path`."""
        files = self._writers_by_path(path) if path.is_dir() or not self._is_folder(path) else (path,)
        for file in files:
            check_place(file, overwrite=overwrite or self.is_own(file), example=f"{self.noun}{self.extensions[0]}")

    def render(self, result: T, extension: str) -> str:
        """The content of a file. Raises `BadInput` for an extension that is not in `extensions`."""
        self._check_extension(extension.lower())
        return self.writers[extension.lower()](result)

    def write(self, result: T, path: Path, *, overwrite: bool = False) -> None:
        """Write `result` in the format of the extension of `path`, or all files of a folder, each whole or not at all.

        Raises `BadInput` where `check` does and where a file can't be written; `StoreError` where the disk fails.
        """
        from edgewise.store.exchange import write_file
        from edgewise.store.redaction import redact_paths

        self.check(path, overwrite=overwrite)
        if self._is_folder(path):
            make_folder(path)
        for file, render in self._writers_by_path(path).items():
            text = redact_paths(render(result), self.model_paths(result))
            write_file(file, text, overwrite=overwrite or self.is_own(file))

    def _is_folder(self, path: Path) -> bool:
        return self.in_folder is not None and (path.is_dir() or not path.suffix)

    def _writers_by_path(self, path: Path) -> dict[Path, Writer]:
        """The files that `path` stands for: itself, or those in it. Raises `BadInput` for an unknown extension."""
        if self.in_folder is not None and self._is_folder(path):
            return {path / name: writer for name, writer in self.in_folder.items()}
        self._check_extension(extension_of(path), path)
        return {path: self.writers[extension_of(path)]}

    def _check_extension(self, extension: str, path: Path | None = None) -> None:
        if extension not in self.extensions:
            problem = f"can't be written as {extension}" if extension else "needs a file name with an extension"
            raise BadInput(
                f"{f'{path}: ' if path else ''}the {self.noun} {problem}",
                advice=f"end the file's name with one of: {', '.join(self.extensions)}",
            )


def make_folder(path: Path) -> None:
    """Make the folder `path` and those above it, where they are missing. Raises `BadInput`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"can't write to {path}: {error.strerror}", advice="name another folder") from error


def writer(render: str, make: str = "", **settings: Any) -> Writer:
    """A writer that calls `render` on a result, or on what `make` makes of it.

    Args:
        render, make: ``module:function`` of this package, imported when a file is written.
        settings: keyword arguments of `render`.
    """

    def write(result: Any) -> str:
        made = load_class(f"edgewise.report.{make}")(result) if make else result
        return str(load_class(f"edgewise.report.{render}")(made, **settings))

    return write


def json_writer(result: Any) -> str:
    """The JSON document of a result."""
    return json_text(result.to_document())


def _usual(document: str, *, table: str = "", page: str = "", kind: str = "") -> dict[str, Writer]:
    """Writers of Markdown, HTML, CSV and JSON.

    Args:
        document, table, page: ``module:function`` of this package; without `table`, CSV has the document's last table.
        page: as `document`, where the page has one of its own.
        kind: what it is a page of.
    """
    return {
        ".md": writer("markdown:render_markdown", document),
        ".html": writer("document_html:render_document_page", page or document, kind=kind),
        ".csv": writer("csv:render_csv", table) if table else writer("csv:render_last_table", document),
        ".json": json_writer,
    }


def result_format(
    shows: str,
    noun: str,
    document: str,
    *,
    model_paths: Callable[[Any], Iterable[str]],
    own: Mapping[str, Writer] | None = None,
    **places: str,
) -> ResultFormat[Any]:
    """The format of a result that is written as `document` says.

    Args:
        shows, noun, document, model_paths: as `ResultFormat` has them.
        own: writers beside or instead of the usual ones.
        places: the arguments of `_usual`.
    """
    writers = _usual(document, **places) | dict(own or {})
    return ResultFormat(shows=shows, noun=noun, document=document, writers=writers, model_paths=model_paths)


def path_in(name: str) -> Callable[[Any], Iterable[str]]:
    """Return the path, if any, in the description of a model that a result has as `name`."""

    def paths(result: Any) -> Iterable[str]:
        path = getattr(result, name).get("path")
        return [str(path)] if path else []

    return paths


DESCRIBED: ResultFormat[Any] = result_format("", "result", "document:described", model_paths=lambda result: ())
"""Results that describe themselves, such as those of verbs that other packages bring."""
