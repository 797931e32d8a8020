"""``edgewise evaluate``: how right is a model? On labelled data, or against another model's outputs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgewise.cli.options import (
    MEASURE,
    OUTPUT,
    VARY,
    AsJson,
    Details,
    Device,
    MemoryLimit,
    NoStore,
    Precisions,
    Providers,
    Quiet,
    Shapes,
    StoreUrl,
    Timeout,
)
from edgewise.cli.questions import (
    DATA,
    Classes,
    DataFormat,
    DataOptions,
    InstructionsFile,
    Limit,
    Prepare,
    Seed,
    Split,
    Strict,
    Task,
    TaskOptions,
)
from edgewise.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from edgewise.evaluating.examination import Examination, Results


def command(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help=".onnx, .tflite or OpenVINO .xml files.")],
    data: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="Class folders, .npz, CSV, COCO, IDX, WAV … or MODULE:FUNCTION", rich_help_panel=DATA
        ),
    ],
    task: Task = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="M",
            help="Also your own: MODULE:FUNCTION, FILE.py:FUNCTION, hf:FOLDER; =lower where less is better",
            rich_help_panel=DATA,
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Without labels: outputs that are taken as right", rich_help_panel=DATA),
    ] = None,
    split: Split = None,
    limit: Limit = None,
    seed: Seed = 0,
    strict: Strict = False,
    data_format: DataFormat = None,
    data_options: DataOptions = None,
    task_options: TaskOptions = None,
    prepare: Prepare = None,
    instructions: InstructionsFile = None,
    classes: Classes = None,
    runtime: Annotated[
        list[str] | None,
        typer.Option(
            "-r", "--runtime", metavar="A,B", help="Runtimes (default: the format's own)", rich_help_panel=VARY
        ),
    ] = None,
    device: Device = "local",
    provider: Providers = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Inference threads", rich_help_panel=VARY)] = 1,
    precision: Precisions = None,
    shape: Shapes = None,
    latency: Annotated[
        bool, typer.Option("--latency/--no-latency", help="Measure the latency, too", rich_help_panel=MEASURE)
    ] = True,
    sessions: Annotated[
        int, typer.Option(metavar="N", help="Fresh processes for the latency", rich_help_panel=MEASURE)
    ] = 3,
    meters: Annotated[
        bool, typer.Option("--meters/--no-meters", help="Read sensors, some 3 s a run", rich_help_panel=MEASURE)
    ] = False,
    timeout: Timeout = "120s",
    memory_limit: MemoryLimit = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Don't resume a pass that was cut off", rich_help_panel=MEASURE)
    ] = False,
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
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output", rich_help_panel=OUTPUT)] = False,
    details: Details = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    store: StoreUrl = None,
    no_store: NoStore = False,
) -> int:
    """How right is a model? Accuracy with intervals, and latency beside it, on data of yours."""
    from edgewise.cli import settings
    from edgewise.cli.console import write_files
    from edgewise.cli.questions import read_wish
    from edgewise.evaluating.asking import make_examination
    from edgewise.record import Stopping
    from edgewise.report.evaluation_files import check_target, write_evaluation

    settings.check_outputs(output or [], check_target, overwrite=force)
    if meters and not latency:
        raise BadInput("sensors are read beside the latency, which is not measured", advice="leave --no-latency out")
    wish = read_wish(
        data,
        task=task,
        split=split,
        limit=limit,
        seed=seed,
        strict=strict,
        form=data_format,
        options=data_options,
        task_options=task_options,
        prepare=prepare,
        instructions=instructions,
        classes=classes,
    )
    exam = make_examination(
        models,
        wish,
        own=metric or (),
        reference=reference,
        axes=settings.axes(
            runtime, provider=provider, threads=[str(threads)], batch=None, precision=precision, shape=shape
        ),
        stopping=Stopping(sessions=sessions, timeout_s=settings.seconds(timeout) or 0.0),
        target=settings.target(device, memory_limit=settings.size(memory_limit)),
        latency=latency,
        fresh=fresh,
    )
    results = run(exam, store=store, keep=not no_store, meters=meters, quiet=quiet)
    show(results, as_json=as_json, details=details)
    lost = write_files(output or (), lambda path: write_evaluation(results, path, overwrite=force))
    return finish(results, kept=not no_store) or lost


def run(exam: Examination, *, store: str | None, keep: bool, meters: bool, quiet: bool) -> Results:
    """Evaluate with progress on standard error."""
    from edgewise.cli.console import err
    from edgewise.cli.measuring import Keeper
    from edgewise.cli.passing import PassLines
    from edgewise.cli.progress import ProgressLines
    from edgewise.evaluating.examination import examine
    from edgewise.run.assembly import METERS_OFF

    console = err()
    with Keeper(store, keep=keep) as keeper, ExitStack() as measuring:
        lines = measuring.enter_context(ProgressLines(console, quiet=quiet))
        # One live line at a time: that of the latency ends where the first pass over the data begins.
        with PassLines(console, quiet=quiet, first=measuring.close) as passes:
            return examine(
                exam, save=keeper.save, observer=lines, spectator=passes, sensors=None if meters else METERS_OFF
            )


def show(results: Results, *, as_json: bool, details: bool = False) -> None:
    """The results on standard output: one JSON document, or tables for a person."""
    from edgewise.cli.console import out, print_json
    from edgewise.report.evaluation import evaluation_document, print_evaluation

    if as_json:
        print_json(evaluation_document(results))
    else:
        print_evaluation(results, out(), details=details)


def finish(results: Results, *, kept: bool) -> int:
    """Say what failed, and give the exit code."""
    from edgewise.cli.console import complain

    if results.interrupted:
        _say("[bold red]interrupted[/]: the same command goes on where it was")
        return ExitCode.INTERRUPTED
    failed = [one.run for one in results.examined if one.run.status == "failed"]
    for one in failed:
        assert one.failure is not None
        complain(f"{one.job.label}: {one.failure.message}")
    if failed:
        return ExitCode.RUN_FAILED
    return ExitCode.UNAVAILABLE if kept and results.save_errors else ExitCode.DONE


def _say(text: str) -> None:
    from edgewise.cli.console import err

    err().print(text, soft_wrap=True)
