"""Reports as files: of runs and of other results, for each kind a table of extension → writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from edgewise.errors import BadInput
from edgewise.folders import check_place
from edgewise.record import SCHEMA, Run
from edgewise.record.facts import is_profiled
from edgewise.registry import load_class
from edgewise.report.bench.document import bench_document, default_title, recommendations_by_device
from edgewise.report.bench.recommendation import recommendation
from edgewise.report.bench.tables import bench_table
from edgewise.report.document import Document, Table, json_text
from edgewise.report.runs.conditions import told_apart
from edgewise.report.runs.field_tables import FIELD_TABLES, Options, field_document, usage_table

if TYPE_CHECKING:
    from edgewise.report.profile.findings import After

PROFILE_EXTENSIONS = (".trace.json", ".nodes.json", ".mltk.json", ".svg", ".png")
"""Extensions of files that need a profile."""
SEVERAL = frozenset({".trace.json"})
"""Those that hold several runs."""
REPORTS = (".md", ".html", ".csv", ".json")
EXTENSIONS = (*REPORTS, *PROFILE_EXTENSIONS)
TABLES = ("bench", *FIELD_TABLES, "profile", "usage")


def extension_of(path: Path) -> str:
    """Return the extension that says the format: ``.trace.json`` is one, and ``.json`` another."""
    name = path.name.lower()
    found = (each for each in PROFILE_EXTENSIONS if name.endswith(each) and len(name) > len(each))
    return next(found, path.suffix.lower())


def table_of(runs: Sequence[Run], table: str | None) -> str:
    """`table`, or what suits `runs` where that is None: ``profile`` where all are profiled, else ``bench``."""
    if table is not None:
        return table
    return "profile" if runs and all(map(is_profiled, runs)) else "bench"


def check_target(path: Path, *, overwrite: bool, profiles: bool = True) -> None:
    """Raise `BadInput` with advice where a report can't be written to `path`.

    Args:
        profiles: whether the runs can be profiled; the files of `PROFILE_EXTENSIONS` hold nothing else.
    """
    extension, known = extension_of(path), EXTENSIONS if profiles else REPORTS
    if extension not in known:
        problem = f"reports can't be written as {extension}" if extension else "the name of a report needs an extension"
        more = f"; 'edgewise profile' writes {extension}" if extension in PROFILE_EXTENSIONS else ""
        raise BadInput(f"{path}: {problem}", advice=f"end the file's name with one of: {', '.join(known)}{more}")
    check_place(path, overwrite=overwrite, example="report.html")


class ReportSettings(TypedDict, total=False):
    """What a report shows.

    Attributes:
        table: one of `TABLES`, or None for what suits the runs. There are two pages: that of profiles, and one with all
            other tables. JSON has the runs themselves, whatever this says.
        task, reference: as in `edgewise.report.runs.field_tables.Options`.
        title: heading; empty for one made from the runs.
        known: other runs, whose values fill in for missing ones in the tables of the field.
        first: lines above the answer, such as what was not measured.
        last: lines below the answer of the table bench, such as which other runs there are.
        after: of profiles, what the next commands need.
        only_tables: in Markdown nothing but the tables, their environment and their footnotes.
    """

    table: str | None
    task: str | None
    reference: str | None
    title: str
    known: Sequence[Run]
    only_tables: bool
    first: Sequence[str]
    last: Sequence[str]
    after: After


def report_document(runs: Sequence[Run], **settings: Unpack[ReportSettings]) -> Document:
    """Return the document of one of `TABLES`, or of what suits the runs.

    Raises `BadInput` for an unknown table or no runs.
    """
    table, title = _check(runs, settings.get("table")), settings.get("title", "")
    if table == "profile":
        from edgewise.report.profile.document import profile_document

        most = max(1, *(len(run.layers) for run in runs))
        return profile_document(runs, top=most, title=title, **settings.get("after", {}))
    if table == "bench":
        document = bench_document(runs, title=title)
        return replace(document, answer=(*document.answer, *settings.get("last", ())))
    if table == "usage":
        return Document(title=title or default_title(runs), tables=(usage_table(_commands(runs)),))
    return field_document(table, runs, options=_options(settings), title=title)


def render_report(
    runs: Sequence[Run], extension: str, *, word: str = "", **settings: Unpack[ReportSettings]
) -> str | bytes:
    """Return the content of a report: bytes for ``.png``, else text.

    Args:
        extension: one of `EXTENSIONS`.
        word: which chart or node data, see `render_profile_file`.

    Raises `BadInput` for an unknown table, an unknown extension or no runs, and where `render_profile_file` does.
    """
    table, title = _check(runs, settings.get("table")), settings.get("title", "")
    first = settings.get("first", ())
    match extension.lower():
        case ".html" if table == "profile":
            from edgewise.report.document.page import render_document_page
            from edgewise.report.profile.page import profile_page

            page = profile_page(runs, title=title, first=first, **settings.get("after", {}))
            return render_document_page(page, kind="profile")
        case ".html":
            from edgewise.report.bench.page import bench_page
            from edgewise.report.document.page import render_document_page

            page = bench_page(runs, title=title, options=_options(settings), first=first)
            page = replace(page, answer=(*page.answer, *settings.get("last", ())))
            return render_document_page(page, kind="report")
        case ".json":
            return json_text(runs_document(runs, first=first))
        case ".csv" if table == "profile":
            from edgewise.report.profile.csv import layers_csv

            return layers_csv(profiled(runs))
        case ".csv":
            from edgewise.report.document.csv import render_csv

            return render_csv(_one_table(runs, table, _options(settings)))
        case ".md":
            from edgewise.report.document.markdown import render_markdown

            document = report_document(runs, **settings).led_by(first)
            return render_markdown(document, only_tables=settings.get("only_tables", False))
        case special if special in PROFILE_EXTENSIONS:
            return render_profile_file(runs, special, word)
        case _:
            raise BadInput(f"reports can't be written as {extension}", advice=f"one of: {', '.join(EXTENSIONS)}")


def render_profile_file(runs: Sequence[Run], extension: str, word: str = "") -> str | bytes:
    """Return the content of a file of a profile.

    Args:
        extension: one of `PROFILE_EXTENSIONS`.
        word: what stands before the extension: which chart (``roofline`` of ``x.roofline.svg``) or which node data
            (``macs`` of ``x.macs.nodes.json``); any other word, and none, is the first of them.

    Raises `BadInput` where no run is profiled, or several are and the format holds one; `Unavailable` where there is
    nothing to draw with.
    """
    found = profiled(runs)
    if extension == ".trace.json":
        from edgewise.report.profile.trace import render_trace

        return render_trace(found)
    if len(found) > 1:
        raise BadInput(f"a {extension} file holds one run, and these are {len(found)}", advice="name one run")
    run = found[0]
    match extension:
        case ".nodes.json":
            from edgewise.report.profile.model_explorer import METRICS, render_node_data

            return render_node_data(run, word if word in METRICS else "time")
        case ".mltk.json":
            from edgewise.report.profile.mltk import to_json

            return to_json(run)
        case ".svg" | ".png":
            from edgewise.report.profile.charts import KINDS, render_chart

            return render_chart(run, word if word in KINDS else "layers", extension)
        case _:
            raise BadInput(f"no profile is a {extension} file", advice=f"one of: {', '.join(PROFILE_EXTENSIONS)}")


def profiled(runs: Sequence[Run]) -> list[Run]:
    """Those of `runs` that have a profile. Raises `BadInput` where none has."""
    found = [run for run in runs if is_profiled(run)]
    if not found:
        reasons = dict.fromkeys(run.profile_absent_because for run in runs if run.profile_absent_because)
        why = f": {'; '.join(reasons)}" if reasons else ""
        raise BadInput(f"none of these runs is profiled{why}", advice="measure with 'edgewise profile MODEL'")
    return found


def write_report(
    runs: Sequence[Run], path: Path, *, overwrite: bool = False, **settings: Unpack[ReportSettings]
) -> None:
    """Write a report in the format of the extension of `path`, whole or not at all.

    Raises `BadInput` where `check_target` does, for an unknown table or no runs, and where the file can't be written;
    `StoreError` where the disk fails.
    """
    from edgewise.store.exchange import write_file

    check_target(path, overwrite=overwrite)
    extension = extension_of(path)
    word = Path(path.name[: -len(extension)]).suffix[1:].lower()
    content = render_report(runs_for_others(runs, extension), extension, word=word, **settings)
    write_file(path, content, overwrite=overwrite)


def runs_for_others(runs: Sequence[Run], extension: str) -> list[Run]:
    """Return `runs` as a file with this extension has them: nothing in it says where their models lie."""
    from edgewise.store.redaction import redact_run

    # Without paths nothing else tells files of one name apart; JSON keeps the name that the record has.
    named = runs if extension == ".json" else told_apart(runs)
    return [redact_run(run) for run in named]


def _commands(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of commands. Raises `BadInput` where there is none."""
    found = [run for run in runs if run.job.command]
    if not found:
        raise BadInput("the table 'usage' is for runs of 'edgewise exec'", advice="use ⟦table⟧ bench")
    return found


def _options(settings: ReportSettings) -> Options:
    return Options(task=settings.get("task"), reference=settings.get("reference"), known=settings.get("known", ()))


def _check(runs: Sequence[Run], table: str | None) -> str:
    """Return the table to make. Raises `BadInput` where there is none of that name, or no run."""
    chosen = table_of(runs, table)
    if chosen not in TABLES:
        raise BadInput(f"there is no table {chosen!r}", advice=f"one of: {', '.join(TABLES)}")
    if not runs:
        raise BadInput("there is nothing to report", advice="name a run: see 'edgewise runs list'")
    return chosen


def _one_table(runs: Sequence[Run], table: str, options: Options) -> Table:
    """CSV has one table a file: scenarios side by side, the two halves of the watch metrics one below the other."""
    if table == "bench":
        return bench_table(told_apart(runs, whole=True))
    if table == "usage":
        return usage_table(_commands(runs))
    first, *others = field_document(table, runs, options=options).tables
    rows = (*first.rows, *(row for other in others for row in other.rows))
    return Table(title=first.title, columns=first.columns, rows=rows, notes=first.notes)


def runs_document(runs: Sequence[Run], *, first: Sequence[str] = ()) -> dict[str, object]:
    """Return ``{"schema", "runs", "recommendation", "recommendations"}``, the shape that every measuring command has.

    `recommendation` is the first that there is; `recommendations` has one for each group of comparable runs.
    Where jobs or devices were left out, ``"not_measured"`` has `first`, the lines that say which and why.
    """
    from edgewise.store import to_document

    in_engines = [run for run in runs if not run.job.command]
    advice = recommendation(in_engines)
    return {
        "schema": SCHEMA,
        "runs": [to_document(run) for run in runs],
        "recommendation": advice.to_document() if advice else None,
        "recommendations": [{"group": one.group, **one.to_document()} for one in recommendations_by_device(in_engines)],
        **({"not_measured": list(first)} if first else {}),
    }


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
        """Return the content of a file. Raises `BadInput` for an extension that is not in `extensions`."""
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
        """Return the files that `path` stands for: itself, or those in it.

        Raises `BadInput` for an unknown extension.
        """
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
    """Return a writer that calls `render` on a result, or on what `make` makes of it.

    Args:
        render, make: ``module:function`` of this package, imported when a file is written.
        settings: keyword arguments of `render`.
    """

    def write(result: Any) -> str:
        made = load_class(f"edgewise.report.{make}")(result) if make else result
        return str(load_class(f"edgewise.report.{render}")(made, **settings))

    return write


def json_writer(result: Any) -> str:
    """Return the JSON document of a result."""
    return json_text(result.to_document())


def result_format(
    shows: str,
    noun: str,
    document: str,
    *,
    model_paths: Callable[[Any], Iterable[str]],
    table: str = "",
    page: str = "",
    kind: str = "",
    own: Mapping[str, Writer] | None = None,
) -> ResultFormat[Any]:
    """Return the format of a result that is written as Markdown, HTML, CSV and JSON.

    Args:
        shows, noun, document, model_paths: as `ResultFormat` has them.
        table, page: as `document`, where CSV has not the document's last table, or the page is another.
        kind: what it is a page of.
        own: writers beside or instead of these.
    """
    writers: dict[str, Writer] = {
        ".md": writer("document.markdown:render_markdown", document),
        ".html": writer("document.page:render_document_page", page or document, kind=kind),
        ".csv": writer("document.csv:render_csv", table or document),
        ".json": json_writer,
        **(own or {}),
    }
    return ResultFormat(shows=shows, noun=noun, document=document, writers=writers, model_paths=model_paths)


def path_in(name: str) -> Callable[[Any], Iterable[str]]:
    """Return the path, if any, in the description of a model that a result has as `name`."""
    return lambda result: map(str, filter(None, [getattr(result, name).get("path")]))


DESCRIBED: ResultFormat[Any] = result_format("", "result", "document:described", model_paths=lambda result: ())
"""Results that describe themselves, such as those of verbs that other packages bring."""
