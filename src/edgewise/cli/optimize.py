"""``edgewise optimize``: smaller and faster, proven on real data, never worse by surprise."""

from __future__ import annotations

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
    Quiet,
    Shapes,
    StoreUrl,
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
from edgewise.errors import ExitCode

if TYPE_CHECKING:
    from edgewise.optimizing.commission import Commission
    from edgewise.optimizing.variant import Optimization

BOUNDS = "What a variant must keep to"
PASSES = "What is tried"


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help=".onnx, .tflite, OpenVINO .xml, or a factory FILE.py:FUNCTION.")
    ],
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="The network in another format: take that too; repeatable", rich_help_panel=PASSES
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Judge on it, and calibrate on its training part or on a part", rich_help_panel=DATA
        ),
    ] = None,
    task: Task = None,
    split: Split = None,
    limit: Limit = None,
    calibrate_on: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", help="Part that passes look at (default: train, else set apart)", rich_help_panel=DATA
        ),
    ] = None,
    calibration_limit: Annotated[
        int | None, typer.Option(metavar="N", help="So many samples for that (default: 128)", rich_help_panel=DATA)
    ] = None,
    seed: Seed = 0,
    strict: Strict = False,
    data_format: DataFormat = None,
    data_options: DataOptions = None,
    task_options: TaskOptions = None,
    prepare: Prepare = None,
    instructions: InstructionsFile = None,
    classes: Classes = None,
    max_latency: Annotated[str | None, typer.Option(metavar="5ms", rich_help_panel=BOUNDS)] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="1MB", help="Of the model's files", rich_help_panel=BOUNDS)
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="64MiB", help="Peak of the process in inference", rich_help_panel=BOUNDS)
    ] = None,
    max_accuracy_drop: Annotated[
        str | None,
        typer.Option(
            metavar="1pt",
            help="Points, 2% of the original's, or 0.05 in the metric's unit (default: 1pt, or 1% of what is no share)",
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    min_accuracy: Annotated[
        float | None, typer.Option(metavar="0.9", help="Of the task's headline metric", rich_help_panel=BOUNDS)
    ] = None,
    min_snr: Annotated[
        str | None,
        typer.Option(metavar="20dB", help="Of outputs against the original's, without labels", rich_help_panel=BOUNDS),
    ] = None,
    aim: Annotated[
        str,
        typer.Option(metavar="AIM", help="latency, or size: take what is smaller and as fast", rich_help_panel=BOUNDS),
    ] = "latency",
    passes: Annotated[
        list[str] | None,
        typer.Option(metavar="P,…", help="Only these, NAME or NAME:RECIPE (default: all)", rich_help_panel=PASSES),
    ] = None,
    keep_float: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", help="A layer that is left alone; repeatable", rich_help_panel=PASSES),
    ] = None,
    sensitivity: Annotated[
        bool | None,
        typer.Option(
            "--sensitivity/--no-sensitivity",
            help="Try layers one by one (default: where int8 loses too much)",
            rich_help_panel=PASSES,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Also recipes that seldom win", rich_help_panel=PASSES)
    ] = False,
    runtime: Annotated[
        list[str] | None,
        typer.Option(
            "-r", "--runtime", metavar="A,B", help="Engines that may be used (default: all)", rich_help_panel=VARY
        ),
    ] = None,
    device: Device = "local",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Inference threads (default: 1, and more are tried)", rich_help_panel=VARY
        ),
    ] = None,
    shape: Shapes = None,
    time_budget: Annotated[
        str, typer.Option(metavar="T", help="All of it ends by then", rich_help_panel=MEASURE)
    ] = "5min",
    memory_limit: MemoryLimit = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Use nothing of an earlier search", rich_help_panel=MEASURE)
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Variants and the result (default: MODEL-optimized)",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option(metavar="F", help="Also write .md, .html, .csv or .json; repeatable", rich_help_panel=OUTPUT),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the report", rich_help_panel=OUTPUT)] = False,
    details: Details = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    store: StoreUrl = None,
    no_store: NoStore = False,
) -> int:
    """Find the fastest variant of a model that keeps its accuracy: quantised, fused, pruned, converted, tuned."""
    from edgewise.cli import settings
    from edgewise.cli.console import write_files
    from edgewise.cli.questions import read_wish
    from edgewise.comparing.requirement import BARE
    from edgewise.errors import BadInput
    from edgewise.optimizing.commission import Limits
    from edgewise.optimizing.ordering import make_commission
    from edgewise.report.optimization_files import check_target, write_optimization

    if aim not in ("latency", "size"):
        raise BadInput(f"--aim {aim!r} is unknown", advice="latency or size")
    for flag, value in {"--max-latency": max_latency, "--max-size": max_size, "--max-memory": max_memory}.items():
        if value is not None and BARE.fullmatch(value):
            raise BadInput(f"{flag} {value} has no unit", advice="such as 5ms, 1MB or 64MiB")
    settings.check_outputs(report or [], check_target, overwrite=force)
    settings.target(device, memory_limit=None)
    wish = None
    if data is not None:
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
    commission = make_commission(
        model,
        folder=output,
        wish=wish,
        calibrate_on=calibrate_on,
        calibration_limit=calibration_limit,
        limits=Limits(
            latency_s=settings.seconds(max_latency),
            size_bytes=settings.size(max_size),
            memory_bytes=settings.size(max_memory),
            accuracy_drop=max_accuracy_drop,
            least_accuracy=min_accuracy,
            least_snr_db=settings.decibels(min_snr),
        ),
        also=tuple(also or ()),
        aim=aim,
        runtimes=tuple(settings.split_words(runtime)),
        threads=threads,
        shapes=settings.split_shapes(shape),
        passes=tuple(passes or ()),
        keep_float=tuple(keep_float or ()),
        sensitivity="auto" if sensitivity is None else "on" if sensitivity else "off",
        rank=2 if everything else 1,
        seed=seed,
        budget_s=settings.seconds(time_budget) or 0.0,
        memory_limit=settings.size(memory_limit),
        fresh=fresh,
        words=_typed(
            model,
            {
                "--data": data, "--task": task, "--split": split, "--limit": limit, "--calibrate-on": calibrate_on,
                "--calibration-limit": calibration_limit, "--data-format": data_format, "--data-option": data_options,
                "--task-option": task_options, "--prepare": prepare, "--instructions": instructions,
                "--classes": classes, "--max-accuracy-drop": max_accuracy_drop, "--min-snr": min_snr, "--shape": shape,
                "--threads": threads,
            },
        ),
    )  # fmt: skip
    result = run(commission, store=store, keep=not no_store, quiet=quiet)
    show(result, as_json=as_json, details=details)
    lost = write_files(report or (), lambda path: write_optimization(result, path, overwrite=force))
    return finish(result, kept=not no_store) or lost


def run(commission: Commission, *, store: str | None, keep: bool, quiet: bool) -> Optimization:
    """Search with progress on standard error."""
    from edgewise.cli.console import err
    from edgewise.cli.measuring import Keeper
    from edgewise.cli.searching import SearchLines
    from edgewise.optimizing.undertaking import undertake

    with Keeper(store, keep=keep) as keeper, SearchLines(err(), quiet=quiet) as lines:
        return undertake(commission, save=keeper.save, witness=lines)


def show(result: Optimization, *, as_json: bool, details: bool = False) -> None:
    """The result on standard output: one JSON document, or tables for a person."""
    from edgewise.cli.console import out, print_json
    from edgewise.report.optimization import print_optimization

    if as_json:
        print_json(result.to_document())
    else:
        print_optimization(result, out(), details=details)


def finish(result: Optimization, *, kept: bool) -> int:
    """Say what could not be met, and give the exit code."""
    from edgewise.cli.console import complain

    if result.interrupted:
        _say("[bold red]interrupted[/]: the best so far is above; the same command goes on with what was made")
        return ExitCode.INTERRUPTED
    if result.unmet:
        complain(
            f"nothing meets the bounds: {result.unmet}",
            f"the closest is {result.closest or 'none'}; loosen a bound, or add --passes or time",
        )
        return ExitCode.RUN_FAILED
    return ExitCode.UNAVAILABLE if kept and result.save_errors else ExitCode.DONE


def _typed(model: str, flags: dict[str, object]) -> tuple[str, ...]:
    """What was typed of model, data and task, for the line that makes the chosen file again."""
    words = [model]
    for flag, value in flags.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                words += [flag, str(one)]
    return tuple(words)


def _say(text: str) -> None:
    from edgewise.cli.console import err

    err().print(text, soft_wrap=True)
