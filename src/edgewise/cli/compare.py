"""``edgewise compare``: is B really faster than A? Measured side by side, with intervals and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgewise.cli.options import (
    MEASURE,
    OUTPUT,
    VARY,
    AsJson,
    Batches,
    Details,
    Device,
    InputData,
    MemoryLimit,
    NoStore,
    Precisions,
    Providers,
    Quiet,
    Seed,
    Shapes,
    StoreUrl,
    Timeout,
    Warmup,
)
from edgewise.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from edgewise.cli.subjects import Setting, Subject
    from edgewise.comparing.comparison import Findings
    from edgewise.comparing.contenders import Conditions, Contender
    from edgewise.comparing.terms import Terms
    from edgewise.comparing.trial import Trial
    from edgewise.record import Run
    from edgewise.run.plan import Axes

VERDICT = "What counts"
_VARIED = {"runtime": "runtimes", "provider": "providers", "threads": "threads", "precision": "precisions",
           "batch": "batches"}  # fmt: skip


def command(
    things: Annotated[
        list[str],
        typer.Argument(
            metavar="A B…",
            help="Models (files or FILE.py:FUNCTION), stored runs or exported files; NAME=MODEL names one, "
            "MODEL,threads=2 sets its engine",
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="threads=1,2",
            help="Compare settings: runtime, provider, threads, precision, batch; repeatable",
            rich_help_panel=VARY,
        ),
    ] = None,
    runtime: Annotated[
        list[str] | None,
        typer.Option(
            "-r",
            "--runtime",
            metavar="A,B",
            help="Runtimes by name or name/provider (default: the one whose own format a model has)",
            rich_help_panel=VARY,
        ),
    ] = None,
    device: Device = "local",
    provider: Providers = None,
    threads: Annotated[
        list[str] | None, typer.Option(metavar="1,2", help="Thread counts (default: 1)", rich_help_panel=VARY)
    ] = None,
    batch: Batches = None,
    precision: Precisions = None,
    shape: Shapes = None,
    input_data: InputData = None,
    seed: Seed = 0,
    scenario: Annotated[
        str, typer.Option(metavar="KIND", help="single-stream, offline or paced", rich_help_panel=MEASURE)
    ] = "single-stream",
    fps: Annotated[float | None, typer.Option(help="Paced: arrivals per second", rich_help_panel=MEASURE)] = None,
    warmup: Warmup = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="Measure no longer (default: 60s for two, 30s for every further one)",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, max=90, metavar="N", help="At most so many rounds of fresh processes", rich_help_panel=MEASURE
        ),
    ] = None,
    duet: Annotated[
        bool, typer.Option("--duet", help="All at once, on cores of their own", rich_help_panel=MEASURE)
    ] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Don't measure the models of stored runs again", rich_help_panel=MEASURE)
    ] = False,
    meters: Annotated[
        bool, typer.Option("--meters/--no-meters", help="Read sensors, some 3 s a process", rich_help_panel=MEASURE)
    ] = False,
    timeout: Timeout = "120s",
    memory_limit: MemoryLimit = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(metavar="M,…", help="Metrics by id (default: those that the runs have)", rich_help_panel=VERDICT),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="M", help="The metric whose verdict ends it (default: latency)", rich_help_panel=VERDICT),
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="3%", help="Differences up to this don't matter", rich_help_panel=VERDICT)
    ] = "3%",
    floor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="latency=1us", help="Absolute differences that don't matter; repeatable", rich_help_panel=VERDICT
        ),
    ] = None,
    pareto: Annotated[
        list[str] | None,
        typer.Option(metavar="M,…", help="Metrics of the Pareto front", rich_help_panel=VERDICT),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write .md, .html, .csv or .json; repeatable",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Compare what can't be compared fairly; overwrite the output", rich_help_panel=OUTPUT
        ),
    ] = False,
    details: Details = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    store: StoreUrl = None,
    no_store: NoStore = False,
) -> int:
    """Is B really faster than A? Measures models side by side, in turns, and says what the data prove.

    Exit code 4 where a variant could not be measured.
    """
    from edgewise.api import stopping_of
    from edgewise.cli import settings
    from edgewise.cli.console import write_files
    from edgewise.cli.settings import axes, read_floors, read_share, seconds, size, split_shapes, split_words, target
    from edgewise.cli.subjects import build_words, read_subjects, split_vary
    from edgewise.comparing.contenders import Conditions
    from edgewise.comparing.metrics import check_metric
    from edgewise.comparing.terms import Terms
    from edgewise.comparing.trial import Trial
    from edgewise.report.comparison_files import check_comparison_target, write_comparison

    asked = settings.scenario(scenario, fps=fps)
    settings.check_outputs(output or (), check_comparison_target, overwrite=force)
    terms = Terms(
        metrics=tuple(map(check_metric, split_words(metrics))),
        threshold=read_share(threshold, "--threshold"),
        floors=read_floors(split_words(floor)),
        front=tuple(map(check_metric, split_words(pareto))),
        force=force,
    )
    trial = Trial(
        budget_s=seconds(time_budget),
        duet=duet,
        seed=seed,
        until=check_metric(until) if until else None,
        rounds=rounds,
    )
    chosen = axes(runtime, provider=provider, threads=threads, batch=batch, precision=precision, shape=shape)
    conditions = Conditions(
        axes=_with_varied(chosen, split_vary(vary)),
        scenario=asked,
        stopping=stopping_of(
            iterations=None,
            warmup=warmup,
            duration=None,
            sessions=None if warmup is None else 5,
            report_every=None,
            timeout=seconds(timeout) or 0.0,
        ),
        target=target(device, memory_limit=size(memory_limit)),
        seed=seed,
        input_data=input_data,
    )
    with ExitStack() as stack:
        subjects = read_subjects(build_words(stack, things, shapes=split_shapes(shape)), store=store)
        _check_sensors(subjects, terms, trial, meters=meters)
        findings = run(subjects, terms=terms, trial=trial, conditions=conditions, stored=stored, meters=meters,
                       store=store, keep=not no_store, quiet=quiet)  # fmt: skip
    show(findings, as_json=as_json, details=details)
    lost = write_files(output or (), lambda path: write_comparison(findings, path, overwrite=force))
    return finish(findings, kept=not no_store) or lost


def _check_sensors(subjects: Sequence[Subject], terms: Terms, trial: Trial, *, meters: bool) -> None:
    """Raises `BadInput` where a metric is asked for that only sensors tell, and they are not read."""
    from edgewise.run.assembly import METERED

    wanted = {*terms.metrics, *([trial.until] if trial.until else [])} & set(METERED)
    if wanted and not meters and any(subject.run is None for subject in subjects):
        raise BadInput(f"{', '.join(sorted(wanted))}: sensors are not read", advice="add --meters")


def run(
    subjects: Sequence[Subject],
    *,
    terms: Terms,
    trial: Trial,
    conditions: Conditions,
    stored: bool,
    meters: bool,
    store: str | None,
    keep: bool,
    quiet: bool,
) -> Findings:
    """Compare `subjects`, with progress on standard error, saving what is measured."""
    from edgewise.cli.console import err
    from edgewise.cli.measuring import Keeper
    from edgewise.cli.progress import RoundLines
    from edgewise.cli.subjects import pair_runs
    from edgewise.comparing.contenders import Contest, compare_contenders, compare_matched
    from edgewise.run.assembly import METERS_OFF
    from edgewise.run.variation import stored_history
    from edgewise.stats.comparison import LOOKS

    sides = _two_sides_of_runs(subjects)
    if sides is not None:
        pairs, left_out = pair_runs(*sides)
        named: list[str | None] = [None, None]
        for subject in subjects:
            named[subject.argument] = named[subject.argument] or subject.label
        return compare_matched(pairs, terms, names=(named[0], named[1]), notes=left_out)
    lines = RoundLines(err(), quiet=quiet, says_at=LOOKS)
    with Keeper(store, keep=keep) as keeper, lines:
        contest = Contest(
            terms=terms,
            trial=trial,
            conditions=conditions,
            save=keeper.save,
            observer=lines,
            sensors=None if meters else METERS_OFF,
            stored=stored,
            history=stored_history(store),
        )
        return compare_contenders([_contender(subject) for subject in subjects], contest)


def show(findings: Findings, *, as_json: bool, details: bool = False) -> None:
    """The comparison on standard output."""
    from edgewise.cli.console import out, print_json

    if as_json:
        print_json(findings.to_document())
        return
    from edgewise.report.comparison_text import print_comparison

    print_comparison(findings, out(), details=details)


def finish(findings: Findings, *, kept: bool) -> int:
    """Say whether it was interrupted, and give the exit code."""
    from edgewise.cli.measuring import Outcome
    from edgewise.cli.measuring import finish as finish_runs

    runs = [variant.run for variant in findings.variants]
    outcome = Outcome(runs=runs, save_errors=findings.save_errors, kept=kept, interrupted=findings.interrupted)
    code = finish_runs(outcome)
    return ExitCode.RUN_FAILED if code == ExitCode.DONE and findings.failures else code


def _contender(subject: Subject) -> Contender:
    from edgewise.comparing.contenders import Contender

    thing = subject.path if subject.run is None else subject.run
    assert thing is not None
    return Contender(thing=thing, label=subject.label, settings=subject.settings)


def _two_sides_of_runs(subjects: Sequence[Subject]) -> tuple[list[Run], list[Run]] | None:
    """The runs of two arguments of which one names several: they are matched, like with like."""
    words = {subject.argument for subject in subjects}
    if len(words) != 2 or len(subjects) == 2 or any(subject.run is None for subject in subjects):
        return None
    first, second = sorted(words)
    sides = [[one.run for one in subjects if one.argument == word and one.run is not None] for word in (first, second)]
    return sides[0], sides[1]


def _with_varied(chosen: Axes, varied: Mapping[str, Sequence[Setting]]) -> Axes:
    """The axes with what ``--vary`` says. Raises `BadInput` where a flag says something else."""
    for key, values in varied.items():
        name = _VARIED[key]
        if getattr(chosen, name) and tuple(getattr(chosen, name)) not in ((1,), tuple(values)):
            raise BadInput(f"--vary {key} and the flag of the same setting contradict each other", advice="give one")
        chosen = replace(chosen, **{name: tuple(values)})  # type: ignore[arg-type]  # `split_vary` has checked types
    return chosen
