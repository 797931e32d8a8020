"""``edgewise inspect``: what a model costs, without timing it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from edgewise.cli.options import MODEL, OUTPUT, AsJson, Build, Force, Top
from edgewise.errors import BadInput

ROWS = 15


def command(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help=".onnx, .tflite, OpenVINO .xml, .pt2, .keras, or MODULE:FUNCTION."),
    ] = None,
    build: Build = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A keyword argument of the factory; several values (width=0.5,1) are tried one after the other; "
            "repeatable",
            rich_help_panel=MODEL,
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=1x3x224x224",
            help="Shape of an input with open dimensions; repeatable",
            rich_help_panel=MODEL,
        ),
    ] = None,
    read_all: Annotated[
        bool, typer.Option("--hash", help="Read weight files too, for the model's hash", rich_help_panel=MODEL)
    ] = False,
    top: Top = ROWS,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write a file: .md, .csv (layers) or .json",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """What a model costs without timing it: MACs, ops, parameters, bytes, memory, and the engines that support it.

    An ONNX model whose shapes depend on values is run once, in a process with limits.
    """
    from edgewise.api import inspect
    from edgewise.cli.console import out, print_json
    from edgewise.cli.settings import split_shapes, split_what_if

    if output is not None:
        _check(output, overwrite=force)
    cases = split_what_if(what_if)
    if len(cases) > 1 and output is not None:
        raise BadInput("-o takes one model, and --what-if asks for several", advice="use --json, or one value each")
    documents: list[dict[str, Any]] = []
    inspections = []
    for case in cases:
        inspection = inspect(model, build=build, what_if=case, shapes=split_shapes(shape), hash_weights=read_all)
        documents.append(inspection.to_dict())
        inspections.append(inspection)
        if not as_json and len(cases) == 1:
            from edgewise.report.inspection import print_inspection

            print_inspection(inspection, out(), top=top or None)
    if as_json:
        print_json(documents[0] if len(cases) == 1 else {"schema": documents[0]["schema"], "inspections": documents})
    elif len(cases) > 1:
        from edgewise.report.inspection import sweep_document
        from edgewise.report.text import print_document

        print_document(sweep_document(inspections), out())
    if output is not None:
        from edgewise.report.inspection import render_inspection

        output.write_text(render_inspection(inspections[0], output.suffix.removeprefix(".").lower()))
    return 0


def _check(path: Path, *, overwrite: bool) -> None:
    """Refuse an output before working rather than after. Raises `BadInput`."""
    if path.suffix.lower() not in (".md", ".csv", ".json"):
        raise BadInput(f"{path.name}: no format is known by that ending", advice=".md, .csv or .json")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists", advice="--force overwrites it")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}", advice="make it first")
