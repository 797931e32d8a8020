"""``edgewise tour``: the loop on a bundled real model. Later steps of the loop join here as they come to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.record import Run
    from edgewise.run.plan import Plan

_STEP = "\n[bold]{number}/{total} {title}[/]\n[dim]{command}[/]"
MODELS = ("digits_cnn.onnx", "digits_cnn.tflite")
TABLES = ("zoo", "platform", "watch")
SESSIONS = 3
STEPS = 3
ROWS = 8


def command(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the tables and the page; made if missing")
    ] = Path("edgewise-tour"),
    store: Annotated[str | None, typer.Option(help="Where runs are kept, any SQLAlchemy URL")] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep nothing")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress")] = False,
) -> int:
    """Walk the whole loop on a bundled real model, ending in an HTML report."""
    from edgewise.cli.console import err
    from edgewise.cli.measuring import finish, measure, show
    from edgewise.data import path as bundled
    from edgewise.errors import BadInput
    from edgewise.report.files import write_report

    if output.exists() and not output.is_dir():
        raise BadInput(f"{output} is not a folder", advice="give another with -o FOLDER")
    console = err()
    console.print(
        "A small convolutional network for handwritten digits, bundled as ONNX and as TFLite, goes round the loop "
        "on every runtime that is installed here. 'edgewise doctor' lists them.",
    )
    paths = [bundled(name) for name in MODELS]
    same = f"edgewise bench --sessions {SESSIONS} {' '.join(map(str, paths))}"
    _say_step(console, 1, "Benchmark", same)
    benched = measure(_plan(paths, profile=False), store=store, keep=not no_store, meters=True, quiet=quiet)
    show(benched, as_json=False)
    if not benched.runs or benched.interrupted:
        return finish(benched)
    # The one that the benchmark recommends, so that the profile explains the number just seen.
    best = _fastest(benched.runs)
    _say_step(console, 2, "Profile", f"edgewise profile {best.job.model.path} -r {best.job.runtime.name}")
    plan = _plan([Path(best.job.model.path)], profile=True, runtimes=[best.job.runtime.name])
    profiled = measure(plan, store=store, keep=not no_store, meters=False, quiet=quiet)
    show(profiled, as_json=False, layers=ROWS)
    _say_step(console, 3, "Report", "edgewise report group:last -o profile.html")
    output.mkdir(parents=True, exist_ok=True)
    files: list[tuple[Path, Sequence[Run], dict[str, str]]] = [
        (output / f"{table}.md", benched.runs, {"table": table, "task": "Image Classification"}) for table in TABLES
    ]
    if profiled.runs and profiled.runs[0].profile is not None:
        files.append((output / "profile.html", profiled.runs, {"title": "edgewise tour: profile"}))
    files.append((output / "report.html", benched.runs, {"title": "edgewise tour", "table": "bench"}))
    for file, runs, settings in files:
        write_report(runs, file, overwrite=True, **settings)
        hint = ": open it in a browser" if file.suffix == ".html" else ""
        console.print(f"wrote {file}{hint}", soft_wrap=True)
    return max(finish(benched), finish(profiled))


def _say_step(console: Console, number: int, title: str, command: str) -> None:
    console.print(_STEP.format(number=number, total=STEPS, title=title, command=escape(command)), soft_wrap=True)


def _plan(paths: Sequence[Path], *, profile: bool, runtimes: Sequence[str] = ()) -> Plan:
    from edgewise.api import stopping_of
    from edgewise.record import Scenario, TargetSpec
    from edgewise.run.plan import Axes, make_plan

    return make_plan(
        paths,
        axes=Axes(runtimes=runtimes),
        scenario=Scenario(),
        stopping=stopping_of(
            iterations=None, warmup=None, duration=None, sessions=SESSIONS, report_every=None, timeout=120.0
        ),
        target=TargetSpec(),
        profile=profile,
    )


def _fastest(runs: Sequence[Run]) -> Run:
    """The run with the lowest latency, of those that have one; else the first."""
    measured = [run for run in runs if run.value("latency")]
    return min(measured, key=lambda run: run.value("latency") or 0.0) if measured else runs[0]
