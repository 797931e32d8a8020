"""How a request ended, in a few numbers, as a record for programs that collect many."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgewise.clock import now
from edgewise.device.lease import noting_waits
from edgewise.errors import BadModel, EdgewiseError, StoreError
from edgewise.verbs.verb import VERBS, carry_out

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.presentation import Presentation
    from edgewise.verbs.request import Request
    from edgewise.verbs.verb import Verb

Status = Literal["done", "failed", "refused", "lost"]
PREFIX = "outcome-"
"""Of the names of files with an outcome, before the key of the cell."""
LOST = "LinkLost"
USELESS = ("Unsupported", "BadModel")
"""Causes of a failed run for which trying again is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a request ended.

    Attributes:
        key: of the cell of a suite (`edgewise.verbs.sweep.cells.Requests.key`); "" where its model could not be read.
        cell: its name.
        status: ``done``; ``failed``, which the next sweep tries again; ``refused``, where trying again is of no use;
            ``lost``, where the link to the device broke.
        seconds: duration without `waited`.
        waited: seconds of waiting for a device that others used; None in a record that lacks them.
        skipped: what was asked for and could not become a run, each with the reason.
        finished: s since 1970.
        rows: of the table (`edgewise.verbs.rows`).
        cause, advice: why it did not end as it should, and what to do.
    """

    key: str
    cell: str
    status: Status
    seconds: float
    finished: float
    rows: Sequence[Mapping[str, Any]] = field(default=())
    cause: str = ""
    advice: str = ""
    waited: float | None = None
    skipped: Sequence[str] = ()


def _ended_by(error: EdgewiseError) -> dict[str, Any]:
    """Return the fields of the outcome of a request that raised `error`."""
    status = "refused" if isinstance(error, BadModel) else "failed"
    return {"status": status, "cause": error.message, "advice": error.advice}


def outcome_by(error: EdgewiseError, key: str, cell: str, *, seconds: float = 0.0) -> Outcome:
    """Return the outcome, now, of a request that could not be carried out."""
    return Outcome(key=key, cell=cell, seconds=seconds, finished=time.time(), **_ended_by(error))


def _ended_with(result: Any, presentation: Presentation[Any]) -> dict[str, Any]:
    """Return the fields of the outcome of a request that gave `result`."""
    rows, skipped = list(presentation.rows(result)), list(getattr(result, "skipped", ()))
    failures = [row["failure"] for row in rows if row.get("failure")]
    problems = [*presentation.problems(result), *(() if failures else presentation.shown(result))]
    if any(row.get("status", "done") == "done" for row in rows) and not problems:
        return {"status": "done", "rows": rows, "skipped": skipped}
    cause = "; ".join([f"{one['cause']}: {one['message']}" for one in failures] or [one.message for one in problems])
    causes = {one["cause"] for one in failures}
    status = "lost" if LOST in causes else "refused" if causes and causes <= set(USELESS) else "failed"
    advice = problems[0].advice if problems else ""
    ended = {"status": status, "rows": rows, "skipped": skipped}
    return {**ended, "cause": cause or "nothing could be measured", "advice": advice}


def outcome_of(key: str, cell: str, work: Callable[[], Any], verb: Verb) -> tuple[Outcome | None, Any]:
    """Return how `work`, that of a request of `verb`, ended, and its result, or the `EdgewiseError` that it raised.

    The outcome is None if it was interrupted. Raises `StoreError`.
    """
    begun = now()
    ended: dict[str, Any]
    with noting_waits() as waits:
        try:
            result = work()
        except StoreError:
            raise
        except EdgewiseError as error:
            result, ended = error, _ended_by(error)
        else:
            if getattr(result, "interrupted", False):
                return None, result
            ended = _ended_with(result, verb.presentation())
    seconds, waited = now() - begun - sum(waits), sum(waits)
    return Outcome(key=key, cell=cell, seconds=seconds, waited=waited, finished=time.time(), **ended), result


def line_of(outcome: Outcome) -> str:
    """Return `outcome` as a line of JSON."""
    return json.dumps(asdict(outcome), allow_nan=False) + "\n"


def carry_out_and_note(file: Path, request: Request, context: Context) -> Any:
    """Carry `request` out, and write to `file` how it ended unless it was interrupted; its name holds the key.

    Raises what `edgewise.verbs.verb.carry_out` does, and `StoreError` or `BadInput` where `file` can't be written.
    """
    from edgewise.store.exchange import write_file

    key = file.stem.removeprefix(PREFIX)
    outcome, result = outcome_of(key, "", partial(carry_out, request, context), VERBS.get(request.verb))
    if outcome is not None:
        write_file(file, line_of(outcome), overwrite=True)
    if isinstance(result, EdgewiseError):
        raise result
    return result


def read_outcome(file: Path) -> Outcome | None:
    """Return the outcome in `file`; None where it has none."""
    try:
        found = Outcome(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return found if isinstance(found.finished, float) and all(isinstance(row, dict) for row in found.rows) else None
