"""``edgewise studio``: what the studio shows, without a server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from edgewise.errors import BadInput, EdgewiseError
from edgewise.folders import job_folder
from edgewise.report.runs.cells import label_of
from edgewise.store import open_store
from edgewise.store.exchange import write_with_folder
from edgewise.studio.pages import templates
from edgewise.studio.sharing import frozen, redacted, shared_page
from edgewise.studio.views.atlas import cells_of
from edgewise.studio.views.runs import COLUMNS, GRADE_TONES, USUAL
from edgewise.verbs import choices
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import PLAIN

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from edgewise.record import Run
    from edgewise.studio.renderer import Renderer
    from edgewise.studio.studio import Studio

MOST_RUNS = 1000
MOST_COMPARED = 8
"""Runs of one model on the page that compares them: the newest."""
MOST_JOBS = 200


@takes(
    argument("folder", "Folder for the pages: a new one, or an empty one", Path, metavar="DIR"),
    argument(
        "runs",
        "Id, its beginning, a tag, last, group:ID, group:last or all (default: the newest 1000, and finished jobs)",
        list[str],
        metavar="RUN…",
        default=None,
        choices=choices.runs,
    ),
    option("--model", PLAIN, "Part of the model's name, or the beginning of its sha256"),
    option("--tag", PLAIN, "Only runs with this tag", choices=choices.tags),
    option("--store URL", PLAIN, "Store of the runs and jobs"),
    option("--force", PLAIN, "Write into a folder that has files, and overwrite", bool),
)
def export(values: Values) -> None:
    """Write runs, comparisons and finished jobs as static pages, with an index.

    The pages open without a server and load nothing from the network. Paths of this machine are removed from them.
    """
    from edgewise.studio.app import make_app
    from edgewise.studio.command import check_installed, studio_folder
    from edgewise.studio.settings import Settings
    from edgewise.terminal.console import err, out

    check_installed()
    folder, runs, store, force = (values[name] for name in ("folder", "runs", "store", "force"))
    chosen = {"model": values["model"], "tag": values["tag"]}
    if runs and any(chosen.values()):
        raise BadInput("runs are named, and --model or --tag given", advice="use one of them")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
        raise BadInput(f"{folder} has content", advice="name a new folder, or add --force")
    open_store(store, create=False).close()  # says what is wrong with it, and makes none
    made = make_app(Settings(store=store, folder=studio_folder(store)))
    studio = made.state.studio
    try:
        ids = studio.store.find(runs) if runs else [row.id for row in studio.store.list(**chosen, limit=MOST_RUNS + 1)]
        with err().status("exporting") as status:
            problems = write_pages(
                made,
                ids[:MOST_RUNS],
                folder,
                jobs=not (runs or any(chosen.values())),
                overwrite=force,
                say=status.update,
            )
    finally:
        studio.renderer.close()
        studio.store.close()
    if len(ids) > MOST_RUNS:
        problems.append(f"all but the first {MOST_RUNS} runs; --model and --tag choose others")
    for problem in problems:
        err().print(f"left out: {problem}", markup=False, soft_wrap=True)
    out().print(f"open {folder / 'index.html'}", markup=False, soft_wrap=True)


COMMANDS = {"export": export}


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of an export: its part of the index, its title, its address in the studio, its file."""

    part: str
    title: str
    address: str
    file: str


def write_pages(
    app: Starlette, ids: Sequence[str], folder: Path, *, jobs: bool, overwrite: bool, say: Callable[[str], None]
) -> list[str]:
    """Write a page per run, the comparisons of the runs of each model, an index, and with `jobs` finished jobs.

    Args:
        say: is called with a line of progress, as markup.

    Returns what was left out, with the reasons. Raises `BadInput` for files that are in the way, `StoreError` where
    the disk or the store fails.
    """
    studio, problems = app.state.studio, list[str]()
    pages, by_model = [], defaultdict[tuple[str, str], list[str]](list)

    def noted() -> Iterator[Run]:
        for run in studio.store.each(ids, unreadable=lambda error: problems.append(error.message)):
            pages.append(_Page("Runs", run.job.label, f"/runs/{run.id}", f"runs/{run.id}.html"))
            if run.status == "done":
                by_model[run.job.model.sha256, run.job.model.name].append(run.id)
            yield run

    # The index knows these runs only: the studio's store may have others.
    with job_folder() as scratch, open_store(str(scratch / "runs.db")) as chosen:
        chosen.merge(noted())
        workloads = [workload for workload, _ in chosen.matrix().workloads]
        matrices = [
            chosen.matrix(workload=workload, most_models=MOST_RUNS, most_machines=MOST_RUNS) for workload in workloads
        ]
        rows = chosen.list()
    pages += _comparisons(studio, by_model)
    pages += _finished_jobs(studio) if jobs else ()
    files = {page.address: f"../{page.file}" for page in pages}
    parts: dict[str, list[_Page]] = {"Comparisons": [], "Runs": [], "Finished jobs": []}
    for place, page in enumerate(pages, 1):
        say(f"exporting page {place} of {len(pages)}")
        try:
            if page.part == "Finished jobs":  # a page of its own already, without paths
                text = _result_of(studio, page.address.rpartition("/")[2]).read_text(encoding="utf-8")
            else:
                text = shared_page(app, page.address, link=files.get, index="../index.html")
        except EdgewiseError as error:
            problems.append(f"{page.title}: {error.message}")
        else:
            write_with_folder(folder / page.file, text, overwrite=overwrite)
            parts[page.part].append(page)
    written = {page.address: page.file for page in parts.pop("Runs")}
    template = templates().get_template("export.html.jinja")
    index = template.render(
        parts=parts.items(),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        problems=problems,
        matrices=matrices,
        rows=rows,
        columns=[COLUMNS[name] for name in (*USUAL, "machine")],
        cells_of=cells_of,
        label_of=label_of,
        tones=GRADE_TONES,
    )
    text = redacted(frozen(index, written.get), studio)
    write_with_folder(folder / "index.html", text, overwrite=overwrite)
    return problems


def _comparisons(studio: Studio, by_model: Mapping[tuple[str, str], list[str]]) -> Iterator[_Page]:
    """Yield a comparison of the newest runs of each model that compare."""
    for (_, name), same in by_model.items():
        newest = sorted(same)[-MOST_COMPARED:]
        if len(newest) > 1 and _is_fair(studio.renderer, newest):
            address = f"/compare?{urlencode([('run', one) for one in newest])}"
            yield _Page("Comparisons", f"{len(newest)} runs of {name}", address, f"comparisons/{newest[0]}.html")


def _finished_jobs(studio: Studio) -> Iterator[_Page]:
    for job in studio.store.jobs.list(status=("done",), limit=MOST_JOBS):
        if _result_of(studio, job.id).is_file():
            ended = datetime.fromtimestamp(job.finished or job.created, UTC)
            title = f"{job.title}, {ended:%Y-%m-%d %H:%M} UTC"
            yield _Page("Finished jobs", title, f"/jobs/{job.id}", f"jobs/{job.id}.html")


def _is_fair(renderer: Renderer, ids: Sequence[str]) -> bool:
    try:
        renderer.part("comparison", ids, force=False)
    except EdgewiseError:
        return False
    return True


def _result_of(studio: Studio, job_id: str) -> Path:
    return studio.jobs.folder_of(job_id) / "result" / "result.html"
