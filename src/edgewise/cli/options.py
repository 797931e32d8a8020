"""Options that several commands have: the same words, help and place in it everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MEASURE, VARY, OUTPUT, MODEL = "How to measure", "What to vary", "Output", "Which model"

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document", rich_help_panel=OUTPUT)]
Batches = Annotated[
    list[str] | None, typer.Option(metavar="1,8", help="Batch sizes (default: 1)", rich_help_panel=VARY)
]
Build = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION", help="A factory that returns a model, trained or not", rich_help_panel=MODEL
    ),
]
Details = Annotated[
    bool, typer.Option("--details", help="Print cautions, reasons and conditions in full", rich_help_panel=OUTPUT)
]
Device = Annotated[str, typer.Option("-d", "--device", metavar="DEVICE", help="Where to run", rich_help_panel=VARY)]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output", rich_help_panel=OUTPUT)]
InputData = Annotated[
    Path | None,
    typer.Option(
        metavar="F.npz",
        help="One array per input, which sets open dimensions (default: random)",
        rich_help_panel=MEASURE,
    ),
]
Iterations = Annotated[
    int | None,
    typer.Option(metavar="N", help="Exactly so many timed inferences a session", rich_help_panel=MEASURE),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="2GiB", help="What a worker may allocate (default: available memory)", rich_help_panel=MEASURE
    ),
]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep nothing", rich_help_panel=OUTPUT)]
Precisions = Annotated[
    list[str] | None,
    typer.Option(metavar="P,…", help="f32 or fp32, bf16, f16 or fp16 (default: f32)", rich_help_panel=VARY),
]
Providers = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Providers by name (default: each runtime's first)", rich_help_panel=VARY),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress", rich_help_panel=OUTPUT)]
Runtimes = Annotated[
    list[str] | None,
    typer.Option(
        "-r",
        "--runtime",
        metavar="A,B",
        help="Runtimes by name or name/provider (default: all installed)",
        rich_help_panel=VARY,
    ),
]
Seed = Annotated[int, typer.Option(help="Of the random inputs", rich_help_panel=MEASURE)]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=1x3x224x224",
        help="Shape of an input with open dimensions; repeatable",
        rich_help_panel=MEASURE,
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where runs are kept: a path or any SQLAlchemy URL", rich_help_panel=OUTPUT),
]
Timeout = Annotated[
    str, typer.Option(metavar="T", help="Kill a worker that is silent for so long", rich_help_panel=MEASURE)
]
Top = Annotated[
    int, typer.Option(min=0, metavar="N", help="So many layers on the terminal; 0 for all", rich_help_panel=OUTPUT)
]
Warmup = Annotated[
    int | None,
    typer.Option(metavar="N", help="Exactly so many warm-ups (default: found in the data)", rich_help_panel=MEASURE),
]
