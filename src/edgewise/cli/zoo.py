"""``edgewise zoo``: list and build reference networks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgewise.cli.console import err, out, print_json

app = typer.Typer(no_args_is_help=True, help="List and build reference networks to measure on devices.")

SCHEMA = 1


@app.command("list")
def list_networks(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document")] = False) -> None:
    """List the reference networks, with their published size at width 1. They have random weights, and no accuracy."""
    from edgewise.service.zoo import documents
    from edgewise.zoo.networks import WITHOUT_ACCURACY

    networks = documents()
    if as_json:
        print_json({"schema": SCHEMA, "networks": networks})
        return
    from rich.table import Table

    from edgewise.units import format_si

    table = Table("Name", "Data", "Input", box=None, padding=(0, 2, 0, 0))
    table.add_column("MACs", justify="right")
    table.add_column("Parameters", justify="right")
    for row in networks:
        sizes = [format_si(row[key], "") for key in ("macs", "parameters")]
        table.add_row(row["name"], row["family"], "×".join(map(str, row["input"])), *sizes)
    out().print(table)
    out().print(f"Accuracy: absent ({WITHOUT_ACCURACY}). Sources of the sizes: --json.", style="dim")


@app.command()
def build(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Networks, as 'edgewise zoo list' names them.")],
    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write to; created if missing")
    ] = Path(),
    width: Annotated[
        float, typer.Option("--width", metavar="0.5", help="Factor of the numbers of channels, from 0.1 to 2")
    ] = 1.0,
    resolution: Annotated[
        int | None,
        typer.Option(
            "--resolution", metavar="96", help="Height and width of images and videos (default: as published)"
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Random seed of the weights")] = 0,
    file_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="onnx or tflite (float32; needs the extra litert)")
    ] = "onnx",
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files that differ")] = False,
) -> int:
    """Write reference networks with random weights, one file each; the same settings give the same bytes.

    The networks are for measuring latency, memory and energy. Their outputs mean nothing.
    """
    from edgewise.service.zoo import build as write

    paths = write(
        names, folder, width=width, resolution=resolution, seed=seed, format=file_format, overwrite=force
    )  # fmt: skip
    err().print(f"wrote {', '.join(map(str, paths))}", soft_wrap=True, markup=False)
    return 0
