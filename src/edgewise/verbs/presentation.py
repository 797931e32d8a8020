"""How the results of a verb are shown, whichever door asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgewise.errors import BadInput, EdgewiseError, ExitCode
from edgewise.registry import load_class
from edgewise.verbs.rows import Row, rows_of_runs

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.report.document import Document
    from edgewise.report.files import ResultFormat

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How much of a result is printed.

    Attributes:
        top: rows of layers; None prints all.
        details: whether reasons, cautions and conditions are printed in full.
    """

    top: int | None = None
    details: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a request that was carried out ended.

    Attributes:
        code: the exit code of its command.
        problems: what went wrong and the result itself does not say first.
        shown: what went wrong and the result shows, in its tables or lines.
        interrupted: what an interrupted request left; empty where it was not interrupted.
    """

    code: int = ExitCode.DONE
    problems: tuple[EdgewiseError, ...] = ()
    shown: tuple[EdgewiseError, ...] = ()
    interrupted: str = ""


class Presentation(Generic[T]):
    """How the results of one verb are shown.

    As it is, it shows results that have ``describe() -> Document`` and ``to_document()``, which gives JSON.

    Attributes:
        files: how reports are written and results are described; None takes what the result itself describes.
        titled: whether the title is printed, too.
        left: what an interrupted request left; empty says where its runs are.
        more_files: extensions of files beside the usual ones that the studio keeps of a result.
    """

    files: ResultFormat[Any] | None = None
    titled = False
    left = ""
    more_files: Sequence[str] = ()

    def check_file(self, path: Path, *, overwrite: bool) -> None:
        """Refuse a report before the work. Raises `BadInput`."""
        self._format.check(path, overwrite=overwrite)

    def check_request(self, request: Any, files: Sequence[Path]) -> None:
        """Refuse what `request` and report files can't do together. Raises `BadInput`."""

    def plan(self, request: Any) -> tuple[Sequence[str], Sequence[str]]:
        """Return what carrying `request` out would do, and the `notes` on what could not be done, for a dry run."""
        del request
        return (), ()

    def document(self, result: T) -> Any:
        """Return the JSON document."""
        return result.to_document()  # type: ignore[attr-defined]  # a result that has none overrides this

    def describe(self, result: T) -> Document:
        """Return what is shown of the result."""
        document: Document = load_class(f"edgewise.report.{self._format.document}")(result)
        return document

    def show(self, result: T, console: Console, *, view: View) -> None:
        """Print tables for a person."""
        from edgewise.report.document.text import print_document, print_titled

        print_ = print_titled if self.titled else print_document
        print_(self.describe(result), console, details=view.details)

    def rows(self, result: T) -> Sequence[Row]:
        """Return the result in a few numbers, for tables over many results."""
        return rows_of_runs(getattr(result, "runs", ()))

    def notes(self, result: T) -> Sequence[str]:
        """Return what was asked for and could not be done, each with the reason."""
        del result
        return ()

    def write(self, result: T, path: Path, *, overwrite: bool) -> None:
        """Write a report."""
        self._format.write(result, path, overwrite=overwrite)

    def problems(self, result: T) -> Sequence[EdgewiseError]:
        """Return what went wrong and the result itself does not say first."""
        del result
        return ()

    def shown(self, result: T) -> Sequence[EdgewiseError]:
        """Return what went wrong and the result shows."""
        del result
        return ()

    def ending(self, result: Any, *, kept: bool) -> Ending:
        """How the request ended.

        Args:
            kept: whether runs were to be saved.
        """
        unsaved = getattr(result, "save_errors", ())
        if getattr(result, "interrupted", False):
            where = "above and in the store" if kept and not unsaved else "above"
            left = self.left or f"what was finished is {where}"
            return Ending(code=ExitCode.INTERRUPTED, interrupted=left)
        problems, shown = tuple(self.problems(result)), (*self.shown(result), *(unsaved if kept else ()))
        code = max((error.exit_code for error in (*problems, *shown)), default=ExitCode.DONE)
        return Ending(code=code, problems=problems, shown=shown)

    @property
    def _format(self) -> ResultFormat[Any]:
        from edgewise.report import files as result_files

        return self.files or result_files.DESCRIBED


class Unwritten(Presentation[T]):
    """Results without report files."""

    noun = "this result"

    def check_file(self, path: Path, *, overwrite: bool) -> None:
        """Refuse every report: there is none."""
        del overwrite
        raise BadInput(f"{path} can't be written: {self.noun} has no report", advice="use ⟦json⟧")
