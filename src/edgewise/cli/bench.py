"""``edgewise bench``: measure models on every runtime, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgewise.errors import BadInput

_MEASURE, _VARY, _OUTPUT = "How to measure", "What to vary", "Output"


def command(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help=".onnx, .tflite or OpenVINO .xml files.")],
    runtime: Annotated[
        list[str] | None,
        typer.Option(
            "-r",
            "--runtime",
            metavar="A,B",
            help="Runtimes by name or name/provider (default: all installed)",
            rich_help_panel=_VARY,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option("-d", "--device", metavar="DEVICE", help="Where to run", rich_help_panel=_VARY)
    ] = "local",
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Providers by name (default: each runtime's first)", rich_help_panel=_VARY),
    ] = None,
    threads: Annotated[
        list[str] | None,
        typer.Option(
            metavar="1,2", help="Thread counts (default: 1; offline: all usable cores)", rich_help_panel=_VARY
        ),
    ] = None,
    batch: Annotated[
        list[str] | None, typer.Option(metavar="1,8", help="Batch sizes (default: 1)", rich_help_panel=_VARY)
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(metavar="P,…", help="f32, bf16, f16 (default: f32, like for like)", rich_help_panel=_VARY),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=1x3x224x224",
            help="Shape of an input with open dimensions; repeatable",
            rich_help_panel=_MEASURE,
        ),
    ] = None,
    input_data: Annotated[
        Path | None,
        typer.Option(metavar="F.npz", help="One array per input (default: random)", rich_help_panel=_MEASURE),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random inputs", rich_help_panel=_MEASURE)] = 0,
    scenario: Annotated[
        str, typer.Option(metavar="KIND", help="single-stream, offline or paced", rich_help_panel=_MEASURE)
    ] = "single-stream",
    fps: Annotated[float | None, typer.Option(help="Paced: arrivals per second", rich_help_panel=_MEASURE)] = None,
    streams: Annotated[int | None, typer.Option(help="Offline: parallel streams", rich_help_panel=_MEASURE)] = None,
    requests: Annotated[int | None, typer.Option(help="Offline: requests in flight", rich_help_panel=_MEASURE)] = None,
    iterations: Annotated[
        int | None,
        typer.Option(metavar="N", help="Exactly so many timed inferences a session", rich_help_panel=_MEASURE),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Exactly so many warm-ups (default: found in the data)", rich_help_panel=_MEASURE
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="5s", help="Measure for so long a session", rich_help_panel=_MEASURE)
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Fresh processes (default: 5; 1 with --iterations, --warmup, --duration)",
            rich_help_panel=_MEASURE,
        ),
    ] = None,
    report_every: Annotated[
        int | None,
        typer.Option(metavar="N", help="A line with the running average every N inferences", rich_help_panel=_MEASURE),
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="T", help="Kill a worker that is silent for so long", rich_help_panel=_MEASURE)
    ] = "120s",
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="2GiB", help="What a worker may allocate (default: available memory)", rich_help_panel=_MEASURE
        ),
    ] = None,
    meters: Annotated[
        bool, typer.Option("--meters/--no-meters", help="Read sensors where there are any", rich_help_panel=_MEASURE)
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write a report: .md, .html, .csv or .json",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output", rich_help_panel=_OUTPUT)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress", rich_help_panel=_OUTPUT)] = False,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where runs are kept: a path or any SQLAlchemy URL", rich_help_panel=_OUTPUT),
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep nothing", rich_help_panel=_OUTPUT)] = False,
) -> int:
    """Measure models on every runtime, side by side: latency, throughput, memory, start-up, with intervals."""
    from edgewise.api import stopping_of
    from edgewise.cli.measuring import check_output, finish, measure, show, write_report
    from edgewise.cli.settings import seconds, size, split_numbers, split_shapes, split_words, target
    from edgewise.record import Scenario
    from edgewise.run.plan import Axes, make_plan

    if scenario not in ("single-stream", "offline", "paced"):
        raise BadInput(f"--scenario {scenario!r} is unknown", advice="single-stream, offline or paced")
    if output is not None:
        check_output(output, overwrite=force)
    plan = make_plan(
        models,
        axes=Axes(
            runtimes=split_words(runtime),
            providers=split_words(provider),
            threads=split_numbers(threads, "--threads"),
            batches=split_numbers(batch, "--batch") or (1,),
            precisions=split_words(precision),
            shapes=split_shapes(shape),
        ),
        scenario=Scenario(kind=scenario, fps=fps, streams=streams, requests=requests),  # type: ignore[arg-type]
        stopping=stopping_of(
            iterations=iterations,
            warmup=warmup,
            duration=seconds(duration),
            sessions=sessions,
            report_every=report_every,
            timeout=seconds(timeout) or 0.0,
        ),
        target=target(device, memory_limit=size(memory_limit)),
        seed=seed,
        input_data=input_data,
    )
    outcome = measure(plan, store=store, keep=not no_store, meters=meters, quiet=quiet)
    show(outcome, as_json=as_json)
    if output is not None and outcome.runs:
        write_report(outcome.runs, output, overwrite=force)
    return finish(outcome)
