"""``edgewise inspect``: what a model costs, without timing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgewise.cli.options import MODEL, OUTPUT, AsJson, Build, Force, Top
from edgewise.errors import BadInput

if TYPE_CHECKING:
    from edgewise.model.inspection import Inspection

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
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write a file: .md, .csv (layers) or .json; repeatable",
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
    from edgewise.cli.console import out, print_json, write_files
    from edgewise.cli.settings import check_outputs, split_shapes, split_what_if

    check_outputs(output or (), _check, overwrite=force)
    cases = split_what_if(what_if)
    if len(cases) > 1 and output:
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
    return write_files(output or (), lambda path: _write(inspections[0], path, overwrite=force))


def _write(inspection: Inspection, path: Path, *, overwrite: bool) -> None:
    from edgewise.report.inspection import render_inspection
    from edgewise.store.exchange import write_file

    write_file(path, render_inspection(inspection, path.suffix.removeprefix(".").lower()), overwrite=overwrite)


def _check(path: Path, *, overwrite: bool) -> None:
    """Refuse an output before working rather than after. Raises `BadInput`."""
    if path.suffix.lower() not in (".md", ".csv", ".json"):
        raise BadInput(f"{path.name}: no format is known by that ending", advice=".md, .csv or .json")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists", advice="--force overwrites it")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}", advice="make it first")
