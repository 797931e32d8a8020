"""Result files of compare, gate, evaluate and optimize: for each kind a table of extension → writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgewise.errors import BadInput
from edgewise.folders import check_place
from edgewise.report.document import Document, Table, json_text
from edgewise.report.files import extension_of

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.comparing.gate import GateResult
    from edgewise.converting.result import Conversion
    from edgewise.estimating.base import Estimate
    from edgewise.estimating.fits import Fits
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.optimizing.variant import Optimization
    from edgewise.predicting.calibration import Calibration
    from edgewise.predicting.forecast import Forecasts

T = TypeVar("T")
Writers = Mapping[str, Callable[[T], str]]
"""Extension → the content of a file with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat(Generic[T]):
    """How results of one kind are written to files.

    Attributes:
        noun: what error messages call the result.
        extensions: of the files that can hold it; `load` has a writer for each.
        load: imports the writers.
        model_paths: paths that are removed from the text, as a report is for other people's eyes.
        is_own: whether a file may be replaced without being asked, such as the report of an earlier gate.
        load_folder: imports the writers of the files that a folder gets, by name; None where results go to files only.
    """

    noun: str
    extensions: tuple[str, ...]
    load: Callable[[], Writers[T]]
    model_paths: Callable[[T], Iterable[str]]
    is_own: Callable[[Path], bool] = lambda path: False
    load_folder: Callable[[], Writers[T]] | None = None

    def check(self, path: Path, *, overwrite: bool) -> None:
        """Raise `BadInput` with advice where the result can't be written to `path`."""
        files = self._writers_by_path(path) if path.is_dir() or not self._is_folder(path) else (path,)
        for file in files:
            check_place(file, overwrite=overwrite or self.is_own(file), example=f"{self.noun}{self.extensions[0]}")

    def render(self, result: T, extension: str) -> str:
        """The content of a file. Raises `BadInput` for an extension that is not in `extensions`."""
        self._check_extension(extension.lower())
        return self.load()[extension.lower()](result)

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
        return self.load_folder is not None and (path.is_dir() or not path.suffix)

    def _writers_by_path(self, path: Path) -> dict[Path, Callable[[T], str]]:
        """The files that `path` stands for: itself, or those in it. Raises `BadInput` for an unknown extension."""
        if self.load_folder is not None and self._is_folder(path):
            return {path / name: render for name, render in self.load_folder().items()}
        self._check_extension(extension_of(path), path)
        return {path: self.load()[extension_of(path)]}

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


def _writers(
    document: Callable[[T], Document],
    page: Callable[[T], str],
    table: Callable[[T], Table],
    data: Callable[[T], Mapping[str, Any]],
) -> Writers[T]:
    from edgewise.report.csv import render_csv
    from edgewise.report.markdown import render_markdown

    return {
        ".md": lambda result: render_markdown(document(result)),
        ".html": page,
        ".csv": lambda result: render_csv(table(result)),
        ".json": lambda result: json_text(data(result)),
    }


_USUAL = (".md", ".html", ".csv", ".json")


def _comparison_writers() -> Writers[ComparisonResult]:
    from edgewise.report.comparison import comparison_document
    from edgewise.report.comparison_html import render_comparison_html
    from edgewise.report.comparison_tables import csv_table

    return _writers(comparison_document, render_comparison_html, csv_table, lambda result: result.to_document())


def _evaluation_writers() -> Writers[EvaluationResults]:
    from edgewise.report.evaluation import describe_results, evaluation_document
    from edgewise.report.evaluation_html import render_evaluation_html
    from edgewise.report.evaluation_tables import csv_table

    return _writers(describe_results, render_evaluation_html, csv_table, evaluation_document)


def _optimization_writers() -> Writers[Optimization]:
    from edgewise.report.optimization import describe_optimization
    from edgewise.report.optimization_html import render_optimization_html
    from edgewise.report.optimization_tables import csv_table

    return _writers(describe_optimization, render_optimization_html, csv_table, lambda result: result.to_document())


def _gate_writers() -> Writers[GateResult]:
    from edgewise.report.gate import render_gate_markdown
    from edgewise.report.gate_html import render_gate_html
    from edgewise.report.junit import render_junit

    return {
        ".xml": render_junit,
        ".md": render_gate_markdown,
        ".json": lambda result: json_text(result.to_document()),
        ".html": render_gate_html,
    }


def _estimate_writers() -> Writers[Estimate]:
    from edgewise.report.csv import render_csv
    from edgewise.report.document_html import render_document_page
    from edgewise.report.estimate import estimate_document, layer_table
    from edgewise.report.markdown import render_markdown
    from edgewise.report.mltk import to_json
    from edgewise.report.text import to_text

    return {
        ".md": lambda result: render_markdown(estimate_document(result)),
        ".html": lambda result: render_document_page(estimate_document(result), kind="estimate"),
        ".txt": lambda result: to_text(estimate_document(result), width=_TEXT_WIDTH, details=True),
        ".csv": lambda result: render_csv(layer_table(result)),
        ".json": lambda result: json_text(result.to_document()),
        ".mltk.json": to_json,
    }


_TEXT_WIDTH = 160


def _estimate_folder_writers() -> Writers[Estimate]:
    from edgewise.report.csv import render_csv
    from edgewise.report.estimate import summary_table

    by_extension = _estimate_writers()
    return {
        "report.txt": by_extension[".txt"],
        "report.json": by_extension[".json"],
        "report.mltk.json": by_extension[".mltk.json"],
        "layers.csv": by_extension[".csv"],
        "summary.csv": lambda result: render_csv(summary_table(result)),
    }


def _calibration_writers() -> Writers[Calibration]:
    from edgewise.report.forecast import calibration_document
    from edgewise.report.forecast_html import render_calibration_html

    return {**_plain_writers(calibration_document), ".html": render_calibration_html}


def _forecast_writers() -> Writers[Forecasts]:
    from edgewise.report.forecast import forecasts_document
    from edgewise.report.forecast_html import render_forecasts_html

    return {**_plain_writers(forecasts_document), ".html": render_forecasts_html}


def _plain_writers(document_of: Callable[[T], Document]) -> Writers[T]:
    from edgewise.report.csv import render_csv
    from edgewise.report.markdown import render_markdown

    return {
        ".md": lambda result: render_markdown(document_of(result)),
        ".csv": lambda result: render_csv(document_of(result).tables[-1]),
        ".json": lambda result: json_text(result.to_document()),
    }


def _fits_writers() -> Writers[Fits]:
    from edgewise.report.csv import render_csv
    from edgewise.report.document_html import render_document_page
    from edgewise.report.fits import boards_table, fits_document
    from edgewise.report.markdown import render_markdown

    return {
        ".md": lambda result: render_markdown(fits_document(result)),
        ".html": lambda result: render_document_page(fits_document(result), kind="fits"),
        ".csv": lambda result: render_csv(boards_table(result.candidates)),
        ".json": lambda result: json_text(result.to_document()),
    }


def _conversion_writers() -> Writers[Conversion]:
    from edgewise.report.conversion import conversion_document
    from edgewise.report.document_html import render_document_page
    from edgewise.report.markdown import render_markdown

    return {
        ".md": lambda result: render_markdown(conversion_document(result)),
        ".html": lambda result: render_document_page(conversion_document(result), kind="conversion"),
        ".json": lambda result: json_text(result.to_document()),
    }


def _is_gate_report(path: Path) -> bool:
    from edgewise.report.gate import is_gate_report

    return is_gate_report(path)


COMPARISON: ResultFormat[ComparisonResult] = ResultFormat(
    noun="comparison",
    extensions=_USUAL,
    load=_comparison_writers,
    model_paths=lambda result: {variant.run.job.model.path for variant in result.variants},
)
EVALUATION: ResultFormat[EvaluationResults] = ResultFormat(
    noun="evaluation",
    extensions=_USUAL,
    load=_evaluation_writers,
    model_paths=lambda result: {one.run.job.model.path for one in result.models},
)
OPTIMIZATION: ResultFormat[Optimization] = ResultFormat(
    noun="optimization",
    extensions=_USUAL,
    load=_optimization_writers,
    model_paths=lambda result: [] if result.baseline.model is None else [result.baseline.model.path],
)
ESTIMATES: ResultFormat[Estimate] = ResultFormat(
    noun="estimate",
    extensions=(".md", ".html", ".csv", ".json", ".txt", ".mltk.json"),
    load=_estimate_writers,
    load_folder=_estimate_folder_writers,
    model_paths=lambda result: [str(result.model["path"])] if result.model.get("path") else [],
)
CALIBRATIONS: ResultFormat[Calibration] = ResultFormat(
    noun="calibration", extensions=_USUAL, load=_calibration_writers, model_paths=lambda result: []
)
FORECASTS: ResultFormat[Forecasts] = ResultFormat(
    noun="estimates", extensions=_USUAL, load=_forecast_writers, model_paths=lambda result: []
)
FITS: ResultFormat[Fits] = ResultFormat(
    noun="list of boards",
    extensions=_USUAL,
    load=_fits_writers,
    model_paths=lambda result: [str(result.model["path"])] if result.model.get("path") else [],
)
CONVERSIONS: ResultFormat[Conversion] = ResultFormat(
    noun="conversion",
    extensions=(".md", ".html", ".json"),
    load=_conversion_writers,
    model_paths=lambda result: [str(result.source["path"])] if result.source.get("path") else [],
)
GATE: ResultFormat[GateResult] = ResultFormat(
    noun="gate",
    extensions=(".xml", ".md", ".json", ".html"),
    load=_gate_writers,
    model_paths=lambda result: {variant.run.job.model.path for variant in result.findings.variants},
    is_own=_is_gate_report,
)
