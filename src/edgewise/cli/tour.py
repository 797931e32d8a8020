"""``edgewise tour``: the loop on a bundled real model: measure, explain, judge, improve, and prove it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.cli.measuring import Outcome
    from edgewise.optimizing.variant import Optimization
    from edgewise.record import Run
    from edgewise.run.plan import Plan

_STEP = "\n[bold]{number}/{total} {title}[/]\n[dim]{command}[/]"
MODELS = ("digits_cnn.onnx", "digits_cnn.tflite")
TABLES = ("zoo", "platform", "watch")
TASK = "Image Classification"
SESSIONS = 3
STEPS = 6
ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for every step.

    Attributes:
        output: folder for tables and pages.
        store, keep: where runs are kept, and whether.
    """

    console: Console
    output: Path
    store: str | None
    keep: bool
    quiet: bool

    def say_step(self, number: int, title: str, command: str) -> None:
        """A step's heading, and the line that does the same."""
        self.console.print(
            _STEP.format(number=number, total=STEPS, title=title, command=escape(command)), soft_wrap=True
        )


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
    from edgewise.errors import BadInput, ExitCode

    if output.exists() and not output.is_dir():
        raise BadInput(f"{output} is not a folder", advice="give another with -o FOLDER")
    setting = Setting(console=err(), output=output, store=store, keep=not no_store, quiet=quiet)
    setting.console.print(
        "A small convolutional network for handwritten digits, bundled as ONNX and as TFLite, goes round the loop "
        "on every runtime that is installed here. 'edgewise doctor' lists them.",
    )
    paths = _readable([bundled(name) for name in MODELS])
    typed = shlex.join(["edgewise", "bench", f"--sessions={SESSIONS}", *map(str, paths)])
    setting.say_step(1, "Benchmark", typed)
    benched = measure(_plan(paths, profile=False), store=store, keep=setting.keep, meters=True, quiet=quiet)
    show(benched, as_json=False)
    if not benched.runs or benched.interrupted:
        return finish(benched)
    profiled = _profile(setting, _fastest(benched.runs))
    _report(setting, benched, profiled)
    code = max(finish(benched), finish(profiled))
    if profiled.interrupted:
        return code
    models = [path for path in paths if any(_is_good(run, path) for run in benched.runs)]
    code = max(code, _evaluate(setting, models))
    if code == ExitCode.INTERRUPTED:
        return code
    result, ended = _optimize(setting, models)
    if ended == ExitCode.INTERRUPTED:
        return ended
    return max(code, ended, _compare(setting, benched.runs, result))


def _readable(paths: Sequence[Path]) -> list[Path]:
    """Those that an installed runtime reads; all of them where none is, so that the benchmark says what to install."""
    from edgewise.model.identity import open_model
    from edgewise.optimizing.planning import installed_runtimes

    return [path for path in paths if installed_runtimes(open_model(path).ref.format)] or list(paths)


def _profile(setting: Setting, best: Run) -> Outcome:
    """The layers of the run that the benchmark recommends, so that the profile explains the number just seen."""
    from edgewise.cli.measuring import measure, show

    engine = best.job.runtime.name
    setting.say_step(2, "Profile", shlex.join(["edgewise", "profile", best.job.model.path, "-r", engine]))
    plan = _plan([Path(best.job.model.path)], profile=True, runtimes=[engine])
    profiled = measure(plan, store=setting.store, keep=setting.keep, meters=False, quiet=setting.quiet)
    show(profiled, as_json=False, layers=ROWS)
    return profiled


def _report(setting: Setting, benched: Outcome, profiled: Outcome) -> None:
    """Write tables and pages of what was measured so far."""
    from edgewise.cli.tour_improving import say_written
    from edgewise.report.files import write_report

    output = setting.output
    last = profiled.runs[0].id if profiled.runs else "last"
    setting.say_step(3, "Report", f"edgewise report {last} -o profile.html")
    output.mkdir(parents=True, exist_ok=True)
    files: list[tuple[Path, Sequence[Run], dict[str, Any]]] = [
        (output / f"{table}.md", benched.runs, {"table": table, "task": TASK}) for table in TABLES
    ]
    if profiled.runs and profiled.runs[0].profile is not None:
        files.append((output / "profile.html", profiled.runs, {"title": "edgewise tour: profile"}))
    files.append((output / "report.html", benched.runs, {"title": "edgewise tour", "table": "bench"}))
    for file, runs, settings in files:
        write_report(runs, file, overwrite=True, known=(), **settings)
        say_written(setting.console, file)


def _evaluate(setting: Setting, models: Sequence[Path]) -> int:
    """How right the models are, on the bundled test images; their row of a model zoo's table is then full."""
    from edgewise.cli.tour_improving import DATA, evaluate, evaluate_command, say_written
    from edgewise.data import path as bundled
    from edgewise.report.files import write_report

    if not models:
        setting.say_step(4, "Evaluate", "skipped: no model was measured")
        return 0
    page, table = setting.output / "evaluate.html", setting.output / "accuracy.md"
    setting.say_step(4, "Evaluate: is it right?", evaluate_command(models, bundled(DATA), page))
    results, code = evaluate(
        models,
        bundled(DATA),
        page=page,
        sessions=SESSIONS,
        store=setting.store,
        keep=setting.keep,
        quiet=setting.quiet,
    )
    if results.examined:
        write_report([one.run for one in results.examined], table, overwrite=True, table="zoo", task=TASK)
    say_written(setting.console, *([table] if results.examined else []), page)
    return code


def _optimize(setting: Setting, models: Sequence[Path]) -> tuple[Optimization | None, int]:
    """Search for a faster variant, where a pass is installed that could make one."""
    from edgewise.cli.tour_improving import DATA, choose_errand, optimize, say_written
    from edgewise.data import path as bundled

    errand = choose_errand(models, data=bundled(DATA), output=setting.output)
    if isinstance(errand, str):
        setting.say_step(5, "Optimize", f"skipped: {errand}")
        return None, 0
    setting.say_step(5, "Optimize: can it be smaller and faster, and still be right?", errand.command)
    result, code = optimize(errand, store=setting.store, keep=setting.keep, quiet=setting.quiet)
    say_written(setting.console, errand.report)
    return result, code


def _compare(setting: Setting, runs: Sequence[Run], result: Optimization | None) -> int:
    """Before and after in turns; where nothing was chosen, the two fastest of `runs`."""
    from edgewise.cli.tour_comparison import choose_contest, compare
    from edgewise.cli.tour_improving import say_written
    from edgewise.errors import ExitCode
    from edgewise.run.counters import usable_cores

    contest = choose_contest(runs, result, cores=len(usable_cores()))
    if isinstance(contest, str):
        setting.say_step(6, "Compare", f"skipped: {contest}")
        return ExitCode.DONE
    setting.say_step(6, contest.title, contest.command)
    page = setting.output / "compare.html"
    code = compare(contest, page, store=setting.store, keep=setting.keep, quiet=setting.quiet)
    say_written(setting.console, page)
    return code


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


def _is_good(run: Run, path: Path) -> bool:
    return run.status == "done" and Path(run.job.model.path) == path


def _fastest(runs: Sequence[Run]) -> Run:
    """The run with the lowest latency, of those that have one; else the first."""
    measured = [run for run in runs if run.value("latency")]
    return min(measured, key=lambda run: run.value("latency") or 0.0) if measured else runs[0]
