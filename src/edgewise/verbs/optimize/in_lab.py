"""Has a host of a lab carry out a whole search on one of its devices, and brings its folder here."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, RunFailed
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.optimizing.search_settings import usual_folder
from edgewise.record import new_run_id
from edgewise.report.files import make_folder
from edgewise.verbs.lab.client import lab_of, outcome_of_job
from edgewise.verbs.lab.files import FileCache
from edgewise.verbs.outcome import Outcome

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.optimize.request import OptimizeRequest

REPORT = "optimization"
"""Name of the files in the folder that show the result, as the host wrote them."""
FORMATS = (".md", ".html", ".csv", ".json")
FILES = "files"
"""The key of a row that has the place of the folder in the lab."""


@dataclass(frozen=True, kw_only=True)
class FarOptimization:
    """A search that a host of a lab carried out: its folder, which is here now, has the result.

    Attributes:
        host: of the lab.
        folder: where variants, the chosen file and the reports are.
        outcome: how it ended.
    """

    host: str
    folder: Path
    outcome: Outcome

    def report(self, extension: str) -> str:
        """Return the result in words, as the host wrote it: ``.txt`` or one of `FORMATS`. Raises `BadInput`."""
        try:
            return self.folder.joinpath(REPORT + extension).read_text(encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{self.host} sent no {REPORT}{extension}", advice=f"end with one of {FORMATS}") from error

    def to_document(self) -> dict[str, Any]:
        """Return the JSON document of ``edgewise optimize``."""
        document: dict[str, Any] = json.loads(self.report(".json"))
        return document


def optimize_in_lab(request: OptimizeRequest, context: Context) -> FarOptimization:
    """Have a device of the lab carry the search out.

    Raises `BadInput` and `BadModel` for a model that can't be read, `RunFailed` where there is no result, `Cancelled`.
    """
    if not is_factory(request.model):
        open_model(request.model)
    folder = Path(request.folder) if request.folder else usual_folder(request.model, request.signature)
    with lab_of(context) as (store, queue):
        asked = request.model_copy(update={"folder": None})
        job = queue.job(new_run_id(), f"optimize {Path(request.model).name} on {request.device}", request.device, asked)
        named = {**json.loads(job["request"]), "folder": folder.name}
        (ended,) = queue.carry_out([{**job, "request": json.dumps(named)}])
        outcome = outcome_of_job(ended)
        places = [row[FILES] for row in outcome.rows if FILES in row]
        if not places:
            raise RunFailed(outcome.cause, advice=outcome.advice)
        make_folder(folder)
        with TemporaryDirectory(prefix="edgewise-lab-") as near:
            shutil.copytree(FileCache(Path(near), store.lab.files, most=sys.maxsize).place(places[0]), folder,
                            dirs_exist_ok=True)  # fmt: skip
    return FarOptimization(host=ended.host, folder=folder, outcome=outcome)


def name_of_folder(folder: str | None) -> str:
    """Return the name of the folder of a queued search, without the folders around it."""
    name = Path(folder or "").name
    return name if name not in ("", "..") else "optimized"


def problems_of(result: FarOptimization) -> Sequence[RunFailed]:
    """Why nothing was found."""
    one = result.outcome
    return () if one.status == "done" else (RunFailed(one.cause, advice=one.advice),)
