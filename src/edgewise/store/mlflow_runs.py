"""Runs as those of an MLflow tracking server, through MLflow's own client."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.record import Run
from edgewise.silence import silenced
from edgewise.store.codec import parse_time
from edgewise.store.series import SETTING
from edgewise.store.tables import row_of

EXPERIMENT = "edgewise"
"""The experiment that takes the runs where MLFLOW_EXPERIMENT_NAME names none."""
_ID = "edgewise.run"


def log_runs(runs: Iterable[Run], uri: str) -> tuple[int, int]:
    """Log `runs` with their settings as parameters, their values and intervals in SI units as metrics.

    Args:
        uri: a tracking server or a store that MLflow's client takes, such as ``http://127.0.0.1:5000``.

    Returns:
        Number of runs that were logged, and of those that had been logged before.

    Raises:
        Unavailable: MLflow's client is not installed.
        BadInput: the server does not answer, or refuses.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise Unavailable("MLflow's client is not installed", advice="pip install 'edgewise[mlflow]'") from None
    logged = known = 0
    try:
        client = MlflowClient(tracking_uri=uri)
        experiment = _experiment(client, os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT))
        for run in runs:
            if client.search_runs([experiment], f"tags.`{_ID}` = '{run.id}'", max_results=1):
                known += 1
                continue
            _log(client, experiment, run)
            logged += 1
    except MlflowException as error:
        raise BadInput(
            f"MLflow at {uri}: {error.message}", advice="check its address; MLFLOW_TRACKING_TOKEN logs in"
        ) from error
    return logged, known


def _experiment(client: Any, name: str) -> str:
    known = client.get_experiment_by_name(name)
    return str(known.experiment_id if known is not None else client.create_experiment(name))


def _ended_ms(run: Run) -> int:
    """When its last process ended, ms since 1970; where no process was timed, when the run began."""
    ends = [parse_time(one.started_at).timestamp() + sum(one.phases.values()) for one in run.sessions]
    return int(max([parse_time(run.created_at).timestamp(), *ends]) * 1000)


def _log(client: Any, experiment: str, run: Run) -> None:
    """Log one run. It is ended as failed where edgewise's failed; such a run has no metrics."""
    from mlflow.entities import Metric, Param

    row = row_of(run)
    began = int(parse_time(run.created_at).timestamp() * 1000)
    values = [one for one in run.measurements if one.value is not None] if run.status == "done" else []
    tags: dict[str, Any] = {f"edgewise.basis.{one.metric}": one.basis for one in values}
    tags["edgewise.status"] = run.status
    if row.grade is not None:
        tags["edgewise.grade"] = row.grade
    if run.failure is not None:
        tags["edgewise.failure"] = f"{run.failure.cause}: {run.failure.message}"
    settings = {name: getattr(row, name) for name in (*SETTING, "version", "sha256")}
    numbers = [
        (f"{one.metric}{suffix}", value)
        for one in values
        for suffix, value in (("", one.value), ("_low", one.low), ("_high", one.high))
        if value is not None
    ]
    made = client.create_run(experiment, start_time=began, tags=tags, run_name=f"{row.model} on {row.runtime}")
    client.log_batch(
        made.info.run_id,
        metrics=[Metric(name, float(value), began, 0) for name, value in numbers],
        params=[Param(name, str(value)) for name, value in settings.items() if value is not None],
    )
    with silenced():  # the client prints two links for each run
        client.set_terminated(
            made.info.run_id, status="FINISHED" if run.status == "done" else "FAILED", end_time=_ended_ms(run)
        )
    client.set_tag(made.info.run_id, _ID, run.id)  # last: what was interrupted is logged again
