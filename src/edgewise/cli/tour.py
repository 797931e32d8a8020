"""``edgewise tour``: the loop on a bundled real model. Later steps of the loop join here as they come to be."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.cli.measuring import Outcome
    from edgewise.record import Run
    from edgewise.run.plan import Plan

_STEP = "\n[bold]{number}/{total} {title}[/]\n[dim]{command}[/]"
MODELS = ("digits_cnn.onnx", "digits_cnn.tflite")
TABLES = ("zoo", "platform", "watch")
SESSIONS = 3
STEPS = 4
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

    if output.exists() and not output.is_dir():
        raise BadInput(f"{output} is not a folder", advice="give another with -o FOLDER")
    console, keep = err(), not no_store
    console.print(
        "A small convolutional network for handwritten digits, bundled as ONNX and as TFLite, goes round the loop "
        "on every runtime that is installed here. 'edgewise doctor' lists them.",
    )
    paths = [bundled(name) for name in MODELS]
    _say_step(console, 1, "Benchmark", shlex.join(["edgewise", "bench", f"--sessions={SESSIONS}", *map(str, paths)]))
    benched = measure(_plan(paths, profile=False), store=store, keep=keep, meters=True, quiet=quiet)
    show(benched, as_json=False)
    if not benched.runs or benched.interrupted:
        return finish(benched)
    # The one that the benchmark recommends, so that the profile explains the number just seen.
    best = _fastest(benched.runs)
    engine = best.job.runtime.name
    _say_step(console, 2, "Profile", shlex.join(["edgewise", "profile", best.job.model.path, "-r", engine]))
    plan = _plan([Path(best.job.model.path)], profile=True, runtimes=[engine])
    profiled = measure(plan, store=store, keep=keep, meters=False, quiet=quiet)
    show(profiled, as_json=False, layers=ROWS)
    _report(console, benched, profiled, output)
    code = max(finish(benched), finish(profiled))
    if profiled.interrupted:
        return code
    return max(code, _compare(console, benched.runs, output, store=store, keep=keep, quiet=quiet))


def _report(console: Console, benched: Outcome, profiled: Outcome, output: Path) -> None:
    """Write tables and pages of what was measured so far into the folder `output`."""
    from edgewise.report.files import write_report

    last = profiled.runs[0].id if profiled.runs else "last"
    _say_step(console, 3, "Report", f"edgewise report {last} -o profile.html")
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


def _compare(console: Console, runs: Sequence[Run], output: Path, *, store: str | None, keep: bool, quiet: bool) -> int:
    """The two fastest of `runs` against each other, in turns."""
    from edgewise.cli.tour_comparison import choose_contest, compare
    from edgewise.errors import ExitCode
    from edgewise.run.counters import usable_cores

    title = "Compare: is the fastest really faster than the runner-up?"
    contest = choose_contest(runs, cores=len(usable_cores()))
    if isinstance(contest, str):
        _say_step(console, 4, title, f"skipped: {contest}")
        return ExitCode.DONE
    _say_step(console, 4, "Compare: one thread or two?" if contest.threads else title, contest.command)
    return compare(contest, output / "compare.html", store=store, keep=keep, quiet=quiet, console=console)


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
