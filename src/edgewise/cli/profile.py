"""``edgewise profile``: time every layer, find out where the time goes and why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgewise.cli.options import (
    MEASURE,
    MODEL,
    OUTPUT,
    VARY,
    AsJson,
    Batches,
    Build,
    Details,
    Device,
    Force,
    InputData,
    Iterations,
    MemoryLimit,
    NoStore,
    Precisions,
    Providers,
    Quiet,
    Runtimes,
    Seed,
    Shapes,
    StoreUrl,
    Timeout,
    Top,
    Warmup,
)
from edgewise.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from edgewise.record import Run


def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help=".onnx, .tflite or OpenVINO .xml files, or MODULE:FUNCTION."),
    ] = None,
    build: Build = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A keyword argument of the factory, or several values; repeatable",
            rich_help_panel=MODEL,
        ),
    ] = None,
    runtime: Runtimes = None,
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
    iterations: Iterations = None,
    warmup: Warmup = None,
    duration: Annotated[
        str | None,
        typer.Option(metavar="5s", help="Measure the latency for so long a session", rich_help_panel=MEASURE),
    ] = None,
    sessions: Annotated[
        int, typer.Option(metavar="N", help="Fresh processes that measure the latency", rich_help_panel=MEASURE)
    ] = 3,
    timeout: Timeout = "120s",
    memory_limit: MemoryLimit = None,
    top: Top = 15,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write .html, .md, .csv, .json, .trace.json (Perfetto), .nodes.json (Model Explorer), "
            ".mltk.json, .svg or .png; repeatable",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    details: Details = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    store: StoreUrl = None,
    no_store: NoStore = False,
) -> int:
    """Time every layer, find out where the time goes and why: attribution, roofline, memory, ranked findings."""
    from edgewise.api import stopping_of
    from edgewise.cli.measuring import check_outputs, finish, measure, show, write_reports
    from edgewise.cli.settings import axes, seconds, size, split_shapes, split_what_if, target
    from edgewise.record import Scenario
    from edgewise.run.plan import make_plan

    check_outputs(output or (), overwrite=force)
    if sessions < 1:
        raise BadInput("--sessions is 1 or more", advice="for example --sessions 3")
    with ExitStack() as stack:
        files = _find_files(stack, models or [], build=build, cases=split_what_if(what_if), shapes=split_shapes(shape))
        plan = make_plan(
            files,
            axes=axes(runtime, provider=provider, threads=threads, batch=batch, precision=precision, shape=shape),
            scenario=Scenario(),
            stopping=stopping_of(
                iterations=iterations,
                warmup=warmup,
                duration=seconds(duration),
                sessions=sessions,
                report_every=None,
                timeout=seconds(timeout) or 0.0,
            ),
            target=target(device, memory_limit=size(memory_limit)),
            seed=seed,
            input_data=input_data,
            profile=True,
        )
        _check_outputs(output or (), jobs=len(plan.jobs))
        outcome = measure(plan, store=store, keep=not no_store, meters=False, quiet=quiet)
    show(outcome, as_json=as_json, details=details, layers=top or None)
    lost = write_reports(outcome.runs, output or (), overwrite=force)
    return finish(outcome) or _lack_of_layers(outcome.runs) or lost


def _lack_of_layers(runs: Sequence[Run]) -> int:
    """The exit code of runs that all have a latency: whether each has layers too."""
    from edgewise.run.profiled import is_profiling_failed

    if any(map(is_profiling_failed, runs)):
        return ExitCode.RUN_FAILED
    return ExitCode.UNAVAILABLE if any(run.profile is None for run in runs) else ExitCode.DONE


def _check_outputs(paths: Sequence[Path], *, jobs: int) -> None:
    """Refuse files that hold one run where there will be several, before measuring."""
    from edgewise.report.files import extension_of
    from edgewise.report.profile_files import PROFILE_EXTENSIONS, SEVERAL

    for path in paths:
        extension = extension_of(path)
        if jobs > 1 and extension in PROFILE_EXTENSIONS and extension not in SEVERAL:
            raise BadInput(
                f"{path.name} holds one run, and this measures {jobs}",
                advice="name one runtime, such as -r onnxruntime",
            )


def _find_files(
    stack: ExitStack,
    models: list[str],
    *,
    build: str | None,
    cases: list[dict[str, object]],
    shapes: dict[str, tuple[int, ...]],
) -> list[str]:
    """The model files, those that factories build among them, in a folder that lasts as long as `stack`."""
    from edgewise.cli.building import build_files
    from edgewise.model.build import is_factory

    if bool(models) == bool(build):
        raise BadInput("give model files or a factory with --build, and not both", advice="edgewise profile MODEL")
    if not build and cases != [{}] and not any(map(is_factory, models)):
        raise BadInput("--what-if is for models that are built", advice="give the factory with --build MODULE:FUNCTION")
    return build_files(stack, [build] if build else models, shapes=shapes, cases=cases)
