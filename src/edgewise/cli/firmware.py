"""``edgewise firmware``: a model as firmware that speaks the protocol of MLPerf Tiny's runner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An int8 .tflite file")],
    device: Annotated[
        str, typer.Option("-d", "--device", metavar="NAME", help="Core or board, such as cortex-m4 or nucleo-l4r5zi")
    ],
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write; created if missing")],
    identity: Annotated[
        str,
        typer.Option(
            "--model-id",
            metavar="NAME",
            help="Model that the firmware reports; kws01, ic01, vww01 and ad01 are those of MLPerf Tiny",
        ),
    ] = "custom",
    signature: Annotated[
        str,
        typer.Option(
            "--signature",
            metavar="NAME",
            help="Entry point of a file with several signatures (default: the first)",
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty")] = False,
) -> int:
    """Write C sources of a model and a firmware image that speaks the protocol of MLPerf Tiny's runner.

    The model first runs in QEMU, and its outputs must be equal to those of tflite-micro.

    The image runs in QEMU, too. README.md in the folder has the steps for your own board.
    """
    from edgewise.cli.console import err
    from edgewise.service.estimation import firmware

    image = firmware(str(model), folder, device=device, identity=identity, signature=signature, force=force)
    err().print(f"wrote {image}; {folder / 'README.md'} has the next steps", soft_wrap=True, markup=False)
    return 0
