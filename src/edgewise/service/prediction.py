"""Carries out the requests of `calibrate` and of predictions for calibrated devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.comparing.fairness import limits_text
from edgewise.device.calibrations import file_of
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, EdgewiseError
from edgewise.estimating.base import is_known
from edgewise.metrics import METRICS
from edgewise.model.precision import find_precision
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration, load, save
from edgewise.predicting.choice import FEWEST_POINTS, choose
from edgewise.predicting.features import profile_of
from edgewise.predicting.fleet import Catalogue
from edgewise.predicting.forecast import Forecasts, forecast
from edgewise.predicting.points import UNITS, Row, check_points, is_measurement, join_repeats, read_table
from edgewise.record import Run
from edgewise.record.job import Job
from edgewise.run.observation import observe_file

if TYPE_CHECKING:
    from edgewise.service.context import Context
    from edgewise.service.requests import CalibrateRequest, PredictRequest
    from edgewise.store import Store

TABLE = ".csv"
MOST_MODELS = 500
NEWEST = 20
"""Stored runs of a model with one engine and number of threads among which its limits are looked for."""


@dataclass(kw_only=True)
class _Model:
    """A model before it is known which values of this machine are taken.

    Attributes:
        stored: engine and its settings → metric → value, from stored runs on this machine.
        hosts: metric → value, as somebody wrote it down.
    """

    subject: Subject
    sha256: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    hosts: Mapping[str, float] = field(default_factory=dict)
    stored: dict[str, dict[str, float]] = field(default_factory=dict)


def calibrate(request: CalibrateRequest, context: Context) -> Calibration:
    """Learn a device from what was measured on it, and keep that."""
    file_of(request.name)
    if is_known(request.name) or request.name == LOCAL:
        raise BadInput(
            f"{request.name} is a device that edgewise knows already", advice="give your device another name"
        )
    tables = [path for path in request.measurements if path.lower().endswith(TABLE)]
    models = [model for path in tables for model in _from_table(Path(path))]
    others = [one for one in request.measurements if one not in tables]
    runs, cautions = _of_one_engine(_runs(others, context), wanted=request.runtime)
    models += [_from_run(run, [Path(one).parent for one in others], cautions) for run in runs]
    if len(models) > MOST_MODELS:
        raise BadInput(f"{len(models)} measured models", advice=f"give {MOST_MODELS} at most; 10 are mostly enough")
    if not models:
        raise BadInput("no measurements given", advice=f"give a CSV file or runs: {', '.join(request.measurements)}")
    machine, engine = _with_host_values(models, context, wanted=request.host, required=True)
    points = {metric: _points(models, metric, engine) for metric in UNITS}
    points = {metric: found for metric, found in points.items() if found}
    if not points:
        raise BadInput("no metric was measured on the device", advice="columns such as latency_ms hold its values")
    cautions += [
        caution for metric, found in points.items() for caution in check_points(found, what=metric.replace("_", " "))
    ]
    cautions += [
        f"{metric} has {len(found)} models, and {FEWEST_POINTS} are needed: it is not predicted."
        for metric, found in points.items()
        if 0 < len(found) < FEWEST_POINTS and len(points) > 1
    ]
    kept = {metric: found for metric, found in points.items() if len(found) >= FEWEST_POINTS} or points
    kept, reasons = _predictable(kept, method=request.method)
    cautions += reasons
    found = Calibration(
        name=request.name,
        points={metric: tuple(rows) for metric, rows in kept.items()},
        method=request.method,
        host=machine,
        runtime=engine,
        sources=request.measurements,
        cautions=tuple(dict.fromkeys(cautions)),
    )
    if context.keep:
        save(found)
    return found


def _predictable(points: Mapping[str, list[Point]], *, method: str | None) -> tuple[dict[str, list[Point]], list[str]]:
    """The metrics for which a law can be chosen, and a sentence on each of the others.

    Raises `BadInput` as `choose` does where there is none.
    """
    found, problems = {}, {}
    for metric, rows in points.items():
        try:
            choose(rows, method=method)
        except BadInput as error:
            problems[metric] = error
        else:
            found[metric] = rows
    if not found:
        raise next(iter(problems.values()))
    return found, [f"{metric} is not predicted: {error.message}." for metric, error in problems.items()]


def predict(request: PredictRequest, context: Context) -> Forecasts:
    """Predict models for a calibrated device."""
    calibration = load(request.device)
    models: list[_Model] = []
    for path in request.models:
        models += _from_word(path)
    if calibration.runtime:
        _with_host_values(models, context, wanted=calibration.runtime)
    for metric in request.targets:
        if metric not in calibration.points:
            raise BadInput(
                f"{calibration.name} is not calibrated for {metric}", advice=f"it has {', '.join(calibration.points)}"
            )
    rows = [
        forecast(
            replace(calibration, points={metric: points}),
            [_subject(model, metric, calibration.runtime) for model in models],
            targets=request.targets,
        ).rows
        for metric, points in calibration.points.items()
    ]
    return Forecasts(calibration=calibration, rows=tuple(row for part in rows for row in part), targets=request.targets)


def _points(models: Sequence[_Model], metric: str, engine: str) -> list[Point]:
    return join_repeats(
        Point(subject=_subject(model, metric, engine), value=model.values[metric])
        for model in models
        if metric in model.values
    )


def _subject(model: _Model, metric: str, engine: str) -> Subject:
    host = model.hosts.get(metric, model.stored.get(engine, {}).get(metric))
    return replace(model.subject, host=host)


def _from_word(word: str) -> list[_Model]:
    """The models of a table or a file; what is neither may be a name of the atlas."""
    path, named = Path(word), Subject(name=word)
    if word.lower().endswith(TABLE):
        return _from_table(path)
    if not path.exists() and not Catalogue().lacking(named):
        return [_Model(subject=named)]
    return [_from_file(path)]


def _from_table(path: Path) -> list[_Model]:
    return [_from_row(row, path.parent) for row in read_table(path)]


def _from_row(row: Row, folder: Path) -> _Model:
    """A model of a table; where its name is that of a file, what the file says."""
    file = next((path for path in (folder / row.name, Path(row.name)) if path.is_file()), None)
    model = _Model(subject=Subject(name=row.name)) if file is None else _from_file(file)
    subject = replace(
        model.subject, name=row.name, family=row.family, precision=row.precision or model.subject.precision
    )
    return replace(model, subject=subject, values=row.values, hosts=row.hosts)


def _from_file(path: Path) -> _Model:
    graph, network = observe_file(path, shapes={}, hash_weights=True)
    subject = Subject(name=path.name, profile=profile_of(graph), precision=find_precision(graph))
    return _Model(subject=subject, sha256=str(network.source.get("sha256") or ""))


def _of_one_engine(runs: Sequence[Run], *, wanted: str | None) -> tuple[list[Run], list[str]]:
    """The runs that are measurements of one device with one engine, one input at a time; cautions about the others.

    Raises:
        BadInput: runs of several devices, or of several engines where `wanted` does not decide.
    """
    cautions, kept = [], []
    for run in runs:
        job = run.job
        why = ""
        if run.status == "failed":
            why = "it failed"
        elif job.workload.batch != 1 or job.workload.scenario.kind != "single-stream":
            why = f"scenario {job.workload.scenario.kind}, batch {job.workload.batch}"
        if why:
            cautions.append(f"A run of {job.model.name} is left out: {why}.")
        else:
            kept.append(run)
    if runs and not kept:
        raise BadInput(cautions[0], advice="measure in the scenario single-stream with batch 1")
    devices = sorted({run.job.target.device for run in kept})
    if len(devices) > 1:
        raise BadInput(
            f"the runs are of several devices: {', '.join(devices)}", advice="calibrate one device at a time"
        )
    engines = {engine_text(run.job) for run in kept}
    if wanted is not None and kept:
        chosen = {wanted} if wanted in engines else {engine for engine in engines if engine.startswith(wanted)}
        if not chosen:
            raise BadInput(f"no run is of {wanted}", advice=f"the runs are of: {'; '.join(sorted(engines))}")
        engines = chosen
    if len(engines) > 1:
        found = sorted(engines)
        raise BadInput(f"the runs are of several engines: {'; '.join(found)}", advice=f"add --runtime '{found[0]}'")
    return [run for run in kept if engine_text(run.job) in engines], cautions


def _from_run(run: Run, folders: Sequence[Path], cautions: list[str]) -> _Model:
    """The model of a run on the device, and what its file says, where it is still there, or in one of `folders`."""
    path = Path(run.job.model.path) if run.job.model.path else None
    if path is not None and not path.is_file():  # exported runs keep only the file's name
        path = next((place / path.name for place in folders if (place / path.name).is_file()), None)
    model = _Model(subject=Subject(name=run.job.model.name), sha256=run.job.model.sha256 or "", values=_values_of(run))
    if run.source is not None:
        what = METRICS[_latency_of(run)].label.lower()
        batch = ", and batch 1 is assumed" if "batch" in run.source.unknown else ""
        cautions.append(f"{run.job.model.name} was measured by {run.source.tool}: {what}{batch}.")
    if path is not None and path.is_file():
        try:
            found = _from_file(path)
        except EdgewiseError:
            return model
        if found.sha256 == model.sha256:
            model.subject = replace(found.subject, name=run.job.model.name)
        else:
            cautions.append(f"The file of {run.job.model.name} has changed since: its operators are not known.")
    return model


def _values_of(run: Run) -> dict[str, float]:
    """Metric → value, of the metrics that can be predicted."""
    named = {metric: metric for metric in UNITS} | {"latency": _latency_of(run)}
    return {
        metric: value
        for metric, name in named.items()
        if (value := run.value(name)) is not None and is_measurement(value)
    }


def _latency_of(run: Run) -> str:
    """The metric that is taken as the latency: of an imported run without a median, its headline."""
    return run.headline if run.source is not None and run.headline.startswith("latency") else "latency"


def _runs(references: Sequence[str], context: Context) -> list[Run]:
    from edgewise.comparing.jobs import runs_among
    from edgewise.service.subjects import read_subjects

    if not references:
        return []
    subjects = read_subjects(references, store=context.store, runs=context.runs)
    if model := next((one.thing for one in subjects if isinstance(one.thing, Path)), None):
        raise BadInput(f"{model} holds no measurements", advice="give a CSV file, stored runs or exported runs")
    return list(runs_among(subjects))


def _with_host_values(
    models: Sequence[_Model], context: Context, *, wanted: str | None, required: bool = False
) -> tuple[str, str]:
    """Fill `_Model.stored`; returns this machine and the engine and settings of which most models have runs.

    Args:
        wanted: the engine and its settings, or the beginning of it; None takes those with the most models.
        required: whether it is an error that no model has a run with `wanted`.
    """
    machines: dict[str, str] = {}
    runs = _stored_runs({model.sha256 for model in models if model.sha256}, context)
    for model in models:
        for run, machine in runs:
            engine = engine_text(run.job)
            if run.job.model.sha256 == model.sha256 and engine.startswith(wanted or ""):
                model.stored[engine] = _values_of(run)
                machines.setdefault(engine, machine)
    known = Counter(engine for model in models for engine in model.stored)
    if not known:
        if wanted and required:
            engines = sorted({engine_text(run.job) for run, _ in runs})
            raise BadInput(
                f"this machine has no runs of the models with {wanted}",
                advice=f"stored are runs with: {'; '.join(engines)}" if engines else "run 'edgewise bench MODEL' here",
            )
        return "", ""
    engine = wanted if wanted is not None and wanted in known else max(sorted(known), key=lambda each: known[each])
    return machines[engine], engine


def engine_text(job: Job) -> str:
    """An engine with its threads and limits, such as ``litert/cpu, 1 thread, within 2 CPUs``."""
    runtime, limits = job.runtime, limits_text(job)
    words = [f"{runtime.name}{f'/{runtime.provider}' if runtime.provider else ''}"]
    if runtime.threads is not None:
        words.append(f"{runtime.threads} thread{'' if runtime.threads == 1 else 's'}")
    words += [runtime.precision] if runtime.precision else []
    words += [f"within {limits}"] if limits != "none" else []
    return ", ".join(words)


def _stored_runs(models: Iterable[str], context: Context) -> list[tuple[Run, str]]:
    """The newest finished run of each model on this machine with each engine, threads and limits; and the machine.

    Runs have one input at a time. Of runs with the same engine and threads, the `NEWEST` are read.
    """
    from edgewise.store import open_store

    store = context.store

    def rows(opened: Store) -> list[tuple[Run, str]]:
        newest: dict[tuple[str, str], tuple[Run, str]] = {}
        for sha256 in sorted(models):
            read: Counter[tuple[str | int | None, ...]] = Counter()
            for row in opened.rows(model=sha256, status="done"):
                key = row.runtime, row.provider, row.threads
                if row.device == "local" and row.batch == 1 and row.scenario == "single-stream" and row.value:
                    read[key] += 1
                    if read[key] <= NEWEST:
                        run = opened.get(row.id)
                        newest.setdefault((sha256, engine_text(run.job)), (run, row.machine or ""))
        return list(newest.values())

    if store is not None and not isinstance(store, str):
        return rows(store)
    try:
        with open_store(store, create=False) as opened:
            return rows(opened)
    except EdgewiseError:
        if store is not None:
            raise
        return []  # this user has no store yet
