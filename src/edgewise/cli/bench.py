"""``edgewise bench``: measure models on every runtime, side by side."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.options import (
    MEASURE,
    OUTPUT,
    VARY,
    AsJson,
    Batches,
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
    Warmup,
)


def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help=".onnx, .ort, .tflite, OpenVINO .xml, .pb, .pdmodel, a SavedModel's folder, or FILE.py:FUNCTION.",
        ),
    ],
    runtime: Runtimes = None,
    device: Device = "local",
    provider: Providers = None,
    threads: Annotated[
        list[str] | None,
        typer.Option(metavar="1,2", help="Thread counts (default: 1; offline: all usable cores)", rich_help_panel=VARY),
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
    streams: Annotated[int | None, typer.Option(help="Offline: parallel streams", rich_help_panel=MEASURE)] = None,
    requests: Annotated[int | None, typer.Option(help="Offline: requests in flight", rich_help_panel=MEASURE)] = None,
    iterations: Iterations = None,
    warmup: Warmup = None,
    duration: Annotated[
        str | None, typer.Option(metavar="5s", help="Measure for so long a session", rich_help_panel=MEASURE)
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Fresh processes (default: 5; 1 with --iterations, --warmup, --duration)",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            metavar="10min",
            help="Lay the sessions apart over this time (default: 10 sessions), for an interval that contains how the "
            "machine's speed varies",
            rich_help_panel=MEASURE,
        ),
    ] = None,
    report_every: Annotated[
        int | None,
        typer.Option(metavar="N", help="A line with the running average every N inferences", rich_help_panel=MEASURE),
    ] = None,
    timeout: Timeout = "120s",
    memory_limit: MemoryLimit = None,
    meters: Annotated[
        bool, typer.Option("--meters/--no-meters", help="Read sensors where there are any", rich_help_panel=MEASURE)
    ] = True,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write a report: .md, .html, .csv or .json; repeatable",
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
    """Measure models on every runtime, side by side: latency, throughput, memory, start-up, with intervals."""
    from edgewise.api import stopping_of
    from edgewise.cli import settings
    from edgewise.cli.building import build_files
    from edgewise.cli.measuring import check_outputs, finish, measure, show, write_reports
    from edgewise.cli.settings import axes, seconds, size, split_shapes, target
    from edgewise.run.plan import make_plan

    asked = settings.scenario(scenario, fps=fps, streams=streams, requests=requests)
    check_outputs(output or (), overwrite=force)
    with ExitStack() as stack:
        plan = make_plan(
            build_files(stack, models, shapes=split_shapes(shape)),
            axes=axes(runtime, provider=provider, threads=threads, batch=batch, precision=precision, shape=shape),
            scenario=asked,
            stopping=stopping_of(
                iterations=iterations,
                warmup=warmup,
                duration=seconds(duration),
                sessions=sessions,
                spread=seconds(spread),
                report_every=report_every,
                timeout=seconds(timeout) or 0.0,
            ),
            target=target(device, memory_limit=size(memory_limit)),
            seed=seed,
            input_data=input_data,
        )
        outcome = measure(plan, store=store, keep=not no_store, meters=meters, quiet=quiet)
    show(outcome, as_json=as_json, details=details)
    lost = write_reports(outcome.runs, output or (), overwrite=force)
    return finish(outcome) or lost
