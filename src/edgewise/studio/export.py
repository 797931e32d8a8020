"""``edgewise studio``: what the studio shows, without a server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from edgewise.errors import BadInput, EdgewiseError
from edgewise.formatting import value_text
from edgewise.store import open_store
from edgewise.store.exchange import write_with_folder
from edgewise.studio.pages import templates
from edgewise.studio.sharing import frozen, redacted, shared_page

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from edgewise.record import Run
    from edgewise.studio.renderer import Renderer
    from edgewise.studio.studio import Studio

app = typer.Typer(no_args_is_help=True, help="Write what the studio shows as static pages.")

MOST_RUNS = 1000
MOST_COMPARED = 8
"""Runs of one model on the page that compares them: the newest."""
MOST_JOBS = 200


@app.callback()
def root() -> None:
    """Write what the studio shows as static pages."""


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the pages: a new one, or an empty one")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN…]",
            help="Id, its beginning, a tag, last, group:ID, group:last or all (default: the newest 1000, and "
            "finished jobs)",
        ),
    ] = None,
    *,
    model: Annotated[str | None, typer.Option(help="Part of the model's name, or the beginning of its sha256")] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag")] = None,
    store: Annotated[str | None, typer.Option("--store", metavar="URL", help="Store of the runs and jobs")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has files, and overwrite")] = False,
) -> None:
    """Write runs, comparisons and finished jobs as static pages, with an index.

    The pages open without a server and load nothing from the network. Paths of this machine are removed from them.
    """
    from rich.markup import escape

    from edgewise.cli.console import err, out
    from edgewise.studio.app import make_app
    from edgewise.studio.command import studio_folder
    from edgewise.studio.settings import Settings

    if runs and (model or tag):
        raise BadInput("runs are named, and --model or --tag given", advice="use one of them")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
        raise BadInput(f"{folder} has content", advice="name a new folder, or add --force")
    open_store(store, create=False).close()  # says what is wrong with it, and makes none
    made = make_app(Settings(store=store, folder=studio_folder(store)))
    try:
        with err().status("exporting") as status:
            result = write_pages(
                made,
                folder,
                runs or (),
                model=model,
                tag=tag,
                force=force,
                say=lambda text: status.update(escape(text)),
            )
    finally:
        made.state.studio.renderer.close()
        made.state.studio.store.close()
    for problem in result.problems:
        err().print(f"left out: {problem}", markup=False, soft_wrap=True)
    if result.more:
        err().print(f"only the newest {MOST_RUNS} runs were exported; --model and --tag choose others", markup=False)
    out().print(f"{result.pages} pages; open {folder / 'index.html'}", markup=False, soft_wrap=True)


@dataclass(kw_only=True)
class ExportResult:
    """What was written.

    Attributes:
        pages: number of pages besides the index.
        more: whether there are more runs than one export holds.
        problems: what could not be exported, with the reason.
    """

    pages: int = 0
    more: bool = False
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A page of the export: its address in the studio, its file, and its line in the index."""

    address: str
    file: str
    title: str
    facts: tuple[str, ...] = ()


def write_pages(
    app: Starlette,
    folder: Path,
    references: Sequence[str] = (),
    *,
    model: str | None = None,
    tag: str | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> ExportResult:
    """Write the pages of a selection of runs into `folder`, and an index; without a selection finished jobs, too.

    Args:
        references: runs as for `edgewise.store.Store.resolve`; empty takes the newest with `model` and `tag`.
        force: overwrite files.
        say: is told of each page before it is drawn.

    Raises `BadInput` for an unknown run and for files that are in the way, `StoreError` where the disk or the store
    fails.
    """
    studio, result = app.state.studio, ExportResult()
    if references:
        ids = studio.store.find(references)
    else:
        ids = [row.id for row in studio.store.list(model=model, tag=tag, limit=MOST_RUNS + 1)]
    result.more, ids = len(ids) > MOST_RUNS, ids[:MOST_RUNS]
    runs, by_model = [], defaultdict[str, list[str]](list)
    for run in studio.store.each(ids, unreadable=lambda error: result.problems.append(error.message)):
        runs.append(_run_page(run))
        if run.status == "done":
            by_model[run.job.model.sha256].append(run.id)
    titles = {page.file: page.title for page in runs}
    groups = [sorted(same)[-MOST_COMPARED:] for same in by_model.values() if len(same) > 1]
    comparisons = [
        _Page(address=address_of(same), file=f"comparisons/{place}.html", title=f"{len(same)} runs of {name}")
        for place, same in enumerate(groups, 1)
        for name in [titles[f"runs/{same[0]}.html"].partition(" · ")[0]]
        if _is_fair(studio.renderer, same)
    ]
    found = () if references or model or tag else studio.store.jobs.list(status=("done",), limit=MOST_JOBS)
    jobs = [
        _Page(address=f"/jobs/{job.id}", file=f"jobs/{job.id}.html", title=job.title, facts=(job.verb,))
        for job in found
        if _result_of(studio, job.id).is_file()
    ]
    pages = {page.address: page for page in (*runs, *comparisons, *jobs)}

    def link(address: str) -> str | None:
        page = pages.get(address.partition("#")[0])
        return None if page is None else f"../{page.file}"

    def write(file: str, text: str) -> None:
        write_with_folder(folder / file, text, overwrite=force)

    written = set()
    for place, page in enumerate(pages.values(), 1):
        say(f"exporting page {place} of {len(pages)}: {page.title}")
        try:
            if page.address.startswith("/jobs/"):  # already a page of its own, without paths
                text = _result_of(studio, page.address.removeprefix("/jobs/")).read_text(encoding="utf-8")
            else:
                text = shared_page(app, page.address, link=link, index="../index.html")
        except EdgewiseError as error:
            result.problems.append(f"{page.title}: {error.message}")
            continue
        write(page.file, text)
        written.add(page)
    result.pages = len(written)
    groups_of = (("Comparisons", comparisons), ("Runs", runs), ("Finished jobs", jobs))
    parts = [(title, [page for page in listed if page in written]) for title, listed in groups_of]
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    index = templates().get_template("export.html.jinja").render(parts=parts, made=made, problems=result.problems)
    write("index.html", redacted(frozen(index, lambda address: address), studio))
    return result


def address_of(ids: Sequence[str]) -> str:
    """The address of the comparison of these runs."""
    return f"/compare?{urlencode([('run', one) for one in ids])}"


def _run_page(run: Run) -> _Page:
    row = run.measurement(run.headline)
    value = run.status if row is None or row.value is None else value_text(row.metric, row.unit, row.value)
    made = run.created_at[:16].replace("T", " ")
    return _Page(
        address=f"/runs/{run.id}", file=f"runs/{run.id}.html", title=run.job.label, facts=(value, f"{made} UTC")
    )


def _is_fair(renderer: Renderer, ids: Sequence[str]) -> bool:
    try:
        renderer.part("comparison", ids, force=False)
    except EdgewiseError:
        return False
    return True


def _result_of(studio: Studio, job_id: str) -> Path:
    return studio.jobs.folder_of(job_id) / "result" / "result.html"
