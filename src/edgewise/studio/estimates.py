"""Estimates and predictions that finished jobs left: the atlas shows them beside the runs, and the store has none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgewise.store.jobs import JobRow
from edgewise.studio.studio import Studio
from edgewise.verbs.verb import VERBS

MOST_JOBS = 200
MOST_BYTES = 20 * 10**6
"""Of a result that is read; estimates of large models have a row per layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """What a job says of one metric of a model on a device.

    Attributes:
        sha256: of the model's file; "" where neither the result nor the studio's models tell it.
        value: in `unit`; None if there is none, for the `reason`.
        coverage: share of cases in which the interval holds the true value; None where its ends are something else.
    """

    job: str = ""
    model: str
    sha256: str = ""
    device: str
    metric: str
    unit: str
    basis: str | None
    value: float | None
    low: float | None
    high: float | None
    coverage: float | None
    reason: str


def newest_estimates(studio: Studio, metric: str) -> Sequence[Estimated]:
    """Return the newest estimate of `metric` of each model file and device, from the last `MOST_JOBS` done jobs."""
    found: dict[tuple[str, str, str], Estimated] = {}
    files: Mapping[str, str] | None = None
    verbs = [name for name, verb in VERBS if verb.estimates]
    for job in studio.store.jobs.list(status=("done",), verbs=verbs, limit=MOST_JOBS):
        path = studio.jobs.folder_of(job.id) / "result" / "result.json"
        for one in _read(path, job.attempt):
            if one.metric != metric:
                continue
            if not one.sha256:
                files = {str(each.path): each.sha256 for each in studio.models.entries()} if files is None else files
                one = replace(one, sha256=_file_of(job, one.model, files))  # noqa: PLW2901
            found.setdefault((one.model, one.sha256, one.device), replace(one, job=job.id))
    return list(found.values())


def _file_of(job: JobRow, name: str, files: Mapping[str, str]) -> str:
    """Return the sha256 of the model called `name` in a job's request; "" where the studio does not have it."""
    paths = json.loads(job.request).get("models") or ()
    return next((files.get(path, "") for path in paths if Path(path).name == name), "")


@lru_cache(maxsize=MOST_JOBS * 2)
def _read(path: Path, attempt: int) -> Sequence[Estimated]:
    """Return the numbers in the result of an attempt, which stay; none where it is not there, too large or damaged."""
    del attempt
    try:
        if path.stat().st_size > MOST_BYTES:
            return ()
        document = json.loads(path.read_bytes())
        device = document["device"]
        clock = device.get("clock_hz")
        title = f"{device['name']}@{clock / 1e6:g} MHz" if clock else str(device["name"])
        # Results of older jobs on calibrated devices have their rows under "models".
        rows = document["estimates"] if "estimates" in document else document["models"]
        return [_estimated(row, document, title) for row in rows]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()


def _estimated(row: Mapping[str, Any], document: Mapping[str, Any], device: str) -> Estimated:
    told = document.get("model") or {"name": row["model"]}
    reason = row.get("absent_because") or row.get("refused") or document.get("refused") or "no reason was recorded"
    return Estimated(
        model=str(told["name"]),
        sha256=str(told.get("sha256") or ""),
        device=device,
        **{name: row[name] for name in ("metric", "unit", "basis", "value", "low", "high", "coverage")},
        reason=str(reason),
    )
