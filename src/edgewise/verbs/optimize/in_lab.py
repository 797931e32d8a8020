"""Has hosts of a lab carry out a search, and brings its folder here: any makes variants, then a device measures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, RunFailed
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.optimizing.search_settings import usual_folder
from edgewise.record import new_run_id
from edgewise.report.files import make_folder
from edgewise.verbs.lab.client import ANY_HOST, lab_of, outcome_of_job
from edgewise.verbs.lab.files import FILES, fetch_folder
from edgewise.verbs.outcome import Outcome

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.optimize.request import OptimizeRequest

REPORT = "optimization"
"""Name of the files in the folder that show the result, as the host wrote them."""
FORMATS = (".md", ".html", ".csv", ".json")


@dataclass(frozen=True, kw_only=True)
class FarOptimization:
    """A search that a host of a lab carried out: its folder, which is here now, has the result.

    Attributes:
        host: of the lab, which measured.
        maker: the host that made the variants before; "" where none could.
        folder: where variants, the chosen file and the reports are.
        outcome: how it ended.
    """

    host: str
    maker: str
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
    """Have any host of the lab make the variants, and then a device measure them.

    The device's host makes those that it lacks itself: all, where the first job failed.

    Raises `BadInput` and `BadModel` for a model that can't be read, `RunFailed` where there is no result, `Cancelled`.
    """
    if not is_factory(request.model):
        open_model(request.model)
    folder = Path(request.folder) if request.folder else usual_folder(request.model, request.signature)
    with lab_of(context) as (store, queue):
        queue.check(request.verb, request.device)
        name, place = Path(request.model).name, folder.name
        asked = request.model_copy(update={"folder": None, "fresh": False})
        making = asked.model_copy(update={"lab": "make"})
        first = queue.job(new_run_id(), f"optimize {name}: make variants", ANY_HOST, making, folder=place)
        (made,) = queue.carry_out([first])
        place = next((row[FILES] for row in outcome_of_job(made).rows if FILES in row), place)
        second = queue.job(
            new_run_id(), f"optimize {name} on {request.device}", request.device, asked, folder=place
        )  # which names the files of the first
        (ended,) = queue.carry_out([second])
        outcome = outcome_of_job(ended)
        places = [row[FILES] for row in outcome.rows if FILES in row]
        if not places:
            raise RunFailed(outcome.cause, advice=outcome.advice)
        make_folder(folder)
        fetch_folder(store.lab.files, places[0], folder)
    maker = made.host if place != folder.name else ""
    return FarOptimization(host=ended.host, maker=maker, folder=folder, outcome=outcome)


def problems_of(result: FarOptimization) -> Sequence[RunFailed]:
    """Why nothing was found."""
    one = result.outcome
    return () if one.status == "done" else (RunFailed(one.cause, advice=one.advice),)
