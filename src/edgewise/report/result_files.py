"""Result files of compare, gate, evaluate and optimize: for each kind a table of extension → writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgewise.errors import BadInput
from edgewise.folders import check_place
from edgewise.registry import load_class
from edgewise.report.document import json_text
from edgewise.report.files import extension_of

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.comparing.gate import GateResult
    from edgewise.converting.result import Conversion
    from edgewise.estimating.base import Estimate
    from edgewise.estimating.fits import Fits
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.model.inspection import Inspection
    from edgewise.optimizing.variant import Optimization
    from edgewise.predicting.calibration import Calibration
    from edgewise.predicting.forecast import Forecasts

T = TypeVar("T")
Writer = Callable[[Any], str]
"""Returns the content of a file with a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat(Generic[T]):
    """How results of one kind are written to files.

    Attributes:
        noun: what error messages call the result.
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


def _writer(render: str, make: str = "", **settings: Any) -> Writer:
    """A writer that calls `render` on a result, or on what `make` makes of it.

    Args:
        render, make: ``module:function`` of this package, imported when a file is written.
        settings: keyword arguments of `render`.
    """

    def write(result: Any) -> str:
        made = load_class(f"edgewise.report.{make}")(result) if make else result
        return str(load_class(f"edgewise.report.{render}")(made, **settings))

    return write


def _json(result: Any) -> str:
    return json_text(result.to_document())


def _is_gate_report(path: Path) -> bool:
    from edgewise.report.gate import is_gate_report

    return is_gate_report(path)


def _usual(document: str, *, table: str = "", page: str = "", kind: str = "") -> dict[str, Writer]:
    """Writers of Markdown, HTML, CSV and JSON.

    Args:
        document, table, page: ``module:function`` of this package; without `table`, CSV has the document's last table.
        kind: what `render_document_page` makes a page of where there is no `page`.
    """
    return {
        ".md": _writer("markdown:render_markdown", document),
        ".html": _writer(page) if page else _writer("document_html:render_document_page", document, kind=kind),
        ".csv": _writer("csv:render_csv", table) if table else _writer("csv:render_last_table", document),
        ".json": _json,
    }


def _format(
    noun: str,
    document: str,
    *,
    model_paths: Callable[[Any], Iterable[str]],
    own: Mapping[str, Writer] | None = None,
    **places: str,
) -> ResultFormat[Any]:
    """The format of a result that is written as `document` says.

    Args:
        own: writers beside or instead of the usual ones.
        places: the arguments of `_usual`.
    """
    writers = _usual(document, **places) | dict(own or {})
    return ResultFormat(noun=noun, document=document, writers=writers, model_paths=model_paths)


def _path_in(name: str) -> Callable[[Any], Iterable[str]]:
    """Return the path, if any, in the description of a model that a result has as `name`."""

    def paths(result: Any) -> Iterable[str]:
        path = getattr(result, name).get("path")
        return [str(path)] if path else []

    return paths


COMPARISON: ResultFormat[ComparisonResult] = _format(
    "comparison",
    "comparison:comparison_document",
    table="comparison_tables:csv_table",
    page="comparison_html:render_comparison_html",
    model_paths=lambda result: {variant.run.job.model.path for variant in result.variants},
)
EVALUATION: ResultFormat[EvaluationResults] = _format(
    "evaluation",
    "evaluation:describe_results",
    table="evaluation_tables:csv_table",
    page="evaluation_html:render_evaluation_html",
    own={".json": _writer("document:json_text", "evaluation:evaluation_document")},
    model_paths=lambda result: {one.run.job.model.path for one in result.models},
)
OPTIMIZATION: ResultFormat[Optimization] = _format(
    "optimization",
    "optimization:describe_optimization",
    table="optimization_tables:csv_table",
    page="optimization_html:render_optimization_html",
    model_paths=lambda result: [] if result.baseline.model is None else [result.baseline.model.path],
)
_ESTIMATE: ResultFormat[Estimate] = _format(
    "estimate",
    "estimate:estimate_document",
    table="estimate:layer_table",
    kind="estimate",
    own={
        ".txt": _writer("text:to_text", "estimate:estimate_document", width=160, details=True),
        ".mltk.json": _writer("mltk:to_json"),
    },
    model_paths=_path_in("model"),
)
ESTIMATES: ResultFormat[Estimate] = replace(
    _ESTIMATE,
    in_folder={
        **{f"report{extension}": _ESTIMATE.writers[extension] for extension in (".txt", ".json", ".mltk.json")},
        "layers.csv": _ESTIMATE.writers[".csv"],
        "summary.csv": _writer("csv:render_csv", "estimate:summary_table"),
    },
)
CALIBRATIONS: ResultFormat[Calibration] = _format(
    "calibration",
    "forecast:calibration_document",
    page="forecast_html:render_calibration_html",
    model_paths=lambda result: [],
)
FORECASTS: ResultFormat[Forecasts] = _format(
    "estimates",
    "forecast:forecasts_document",
    page="forecast_html:render_forecasts_html",
    model_paths=lambda result: [],
)
FITS: ResultFormat[Fits] = _format(
    "list of boards", "fits:fits_document", table="fits:csv_table", kind="fits", model_paths=_path_in("model")
)
INSPECTIONS: ResultFormat[Inspection] = _format(
    "inspection",
    "inspection:inspection_document",
    table="inspection:layer_table",
    page="inspection_html:render_inspection_html",
    own={".json": lambda result: json_text(result.to_dict())},
    model_paths=_path_in("source"),
)
CONVERSIONS: ResultFormat[Conversion] = _format(
    "conversion", "conversion:conversion_document", kind="conversion", model_paths=_path_in("source")
)
DIFF: ResultFormat[Any] = _format("result", "document:described", kind="diff", model_paths=lambda result: ())
GATE: ResultFormat[GateResult] = ResultFormat(
    noun="gate",
    document="gate:gate_document",
    writers={
        ".xml": _writer("junit:render_junit"),
        ".md": _writer("gate:render_gate_markdown"),
        ".json": _json,
        ".html": _writer("gate_html:render_gate_html"),
    },
    model_paths=lambda result: {variant.run.job.model.path for variant in result.findings.variants},
    is_own=_is_gate_report,
)
DESCRIBED: ResultFormat[Any] = _format("result", "document:described", model_paths=lambda result: ())
"""Results that describe themselves, such as those of verbs that other packages bring."""
