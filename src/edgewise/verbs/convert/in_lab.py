"""Has a host of a lab convert a model, and brings the file here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from edgewise.converting.checked import ConversionTask, check_output, keep
from edgewise.converting.result import Conversion
from edgewise.errors import BadInput, RunFailed
from edgewise.folders import absolute_path
from edgewise.model.callable_loader import is_factory
from edgewise.record import new_run_id
from edgewise.verbs.lab.client import ANY_HOST, lab_of, outcome_of_job
from edgewise.verbs.lab.files import FILES, fetch_folder
from edgewise.version import __version__

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.convert.request import ConvertRequest


def convert_in_lab(request: ConvertRequest, task: ConversionTask, context: Context) -> Conversion:
    """Have any host of the lab convert the model, and keep the file here as if it had been made here.

    Raises `BadInput` where a file is in the way, `RunFailed` where the host has no result, `Cancelled`.
    """
    check_output(task)
    title = f"convert {Path(request.model).name} to {task.to}"
    with lab_of(context) as (store, queue), TemporaryDirectory(prefix="edgewise-lab-") as near:
        asked = request.model_copy(update={"folder": None})
        (ended,) = queue.carry_out([queue.job(new_run_id(), title, ANY_HOST, asked, folder=task.output.name)])
        outcome = outcome_of_job(ended)
        if not outcome.rows:
            raise RunFailed(outcome.cause, advice=outcome.advice)
        (row,) = outcome.rows
        found = read_row(row)
        source = (
            dict(found.source) if is_factory(task.source) else {**found.source, "path": str(absolute_path(task.source))}
        )
        where = f"in a lab, at {ended.host}, by edgewise {row['edgewise']}"
        found = replace(found, source=source, steps=(*found.steps, where), command=task.command)
        if not found.accepted:
            return found
        fetch_folder(store.lab.files, row[FILES], Path(near))
        return keep(task, Path(near) / task.output.name, found)


def row_of(result: Conversion) -> dict[str, Any]:
    """Return the row of a result, from which `read_row` makes it again."""
    text = json.dumps(asdict(result), default=str)  # with infinite differences, which JSON lacks
    return {"model": result.source.get("name"), "to": result.to, "edgewise": __version__, "conversion": text}


def read_row(row: Mapping[str, Any]) -> Conversion:
    """Return the result in a row of `row_of`. Raises `BadInput` for another one."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Conversion).validate_json(row["conversion"])
    except (KeyError, ValidationError) as error:
        raise BadInput("the result of this conversion can't be read", advice="try again") from error
