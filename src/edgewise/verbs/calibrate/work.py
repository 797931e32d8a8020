"""Carries out the requests of `calibrate` and of predictions for calibrated devices."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.device.calibrations import file_of
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, EdgewiseError, as_flag
from edgewise.estimating.base import is_known
from edgewise.model.identity import open_model
from edgewise.model.precision import find_precision
from edgewise.predicting.atlas import stamp, tables
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration, load, save
from edgewise.predicting.choice import FEWEST_POINTS, Unrelated, choose, enough_points
from edgewise.predicting.features import profile_of
from edgewise.predicting.fleet import Catalogue
from edgewise.predicting.forecast import Forecasts, forecast
from edgewise.predicting.outliers import describe_misfit, describe_trend
from edgewise.predicting.points import (
    UNITS,
    Row,
    check_points,
    doubt_units,
    is_measurement,
    join_repeats,
    read_table,
)
from edgewise.record import Run
from edgewise.run.observation import observe_file
from edgewise.run.peaks import known_rates
from edgewise.runtime.base import runtimes
from edgewise.store.preference import grade_of, preference
from edgewise.text import enumerate_few, listing
from edgewise.verbs.calibrate.device_runs import (
    MODELS,
    TABLE,
    ModelFiles,
    Notes,
    engine_text,
    note_tool,
    of_one_engine,
    read_measurements,
    reading,
)
from edgewise.verbs.calibrate.host_engine import (
    choose_engine,
    engine_here,
    error_of_grade_d,
    is_told,
    measuring,
    tell_grade_d,
    tell_unmeasured,
)
from edgewise.verbs.calibrate.host_values import Written, contradiction, contradictions
from edgewise.verbs.estimate.work import advising_conversion

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.verbs.calibrate.request import CalibrateRequest
    from edgewise.verbs.context import Context
    from edgewise.verbs.predict.request import PredictRequest

MOST_MODELS = 500
MOST_READ = 20
"""Stored runs of a model with one engine and number of threads among which its limits are looked for."""


@dataclass(kw_only=True)
class _Model:
    """A model before it is known which values of this machine are taken.

    Attributes:
        sha256, path: of its file; "" where only its name is known.
        stored: engine and its settings → metric → value, from stored runs on this machine.
        noisy: engines and settings whose runs on this machine all have grade D → the latency of the newest, and the
            standard deviation of its logarithm; None where it can't be used.
        hosts: metric → value, as somebody wrote it down.
        columns, place: of `hosts`: metric → name of its column, and the line and its file; empty without a table.
    """

    subject: Subject
    sha256: str = ""
    path: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    hosts: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    stored: dict[str, dict[str, float]] = field(default_factory=dict)
    noisy: dict[str, tuple[float, float] | None] = field(default_factory=dict)


def calibrate(request: CalibrateRequest, context: Context) -> Calibration:
    """Learn a device from what was measured on it, and keep that."""
    file_of(request.name)
    if is_known(request.name) or request.name == LOCAL:
        raise BadInput(
            f"{request.name} is a device that edgewise knows already", advice="give your device another name"
        )
    notes = Notes()
    given = read_measurements(request.measurements, request.name, context, notes)
    runs = of_one_engine(given.runs, notes, wanted=request.runtime)
    models_of = [Path(request.model_dir)] if request.model_dir else []
    if models_of and not models_of[0].is_dir():
        raise BadInput(f"⟦model_dir⟧ {request.model_dir} is no folder", advice="name the folder of the models")
    files = ModelFiles([*models_of, *given.folders])
    models = [_from_row(row, path, files) for path in given.tables for row in read_table(path)]
    models += [_from_run(run, files, notes) for run in runs]
    if len(models) > MOST_MODELS:
        raise BadInput(f"{len(models)} measured models", advice=f"give {MOST_MODELS} at most; 10 are mostly enough")
    if not models:
        raise BadInput("no measurements given", advice=f"give a CSV file or runs: {', '.join(request.measurements)}")
    here = _take_runs_here(models, context, notes)
    own = engine_here(runs[0].job) if runs and not request.host else ""
    machine, engine = _host_engine(models, here, notes, wanted=request.host, own=own, method=request.method)
    _note_missing_files(models, notes)
    device = _check_atlas(request.atlas_device)
    points = {metric: _points(models, metric, engine, device=device, method=request.method) for metric in UNITS}
    timed, by = [one for one in models if "latency" in one.values], own or engine
    lacking, (noisy, known) = _lacking_here(timed, by), _count_runs_here(timed, by)
    is_own, used = by != engine, by == engine and _uses_grade_d(points)
    is_worse = by == engine and not used and _gains_by_grade_d(timed, "latency", engine)
    grade_d = tell_grade_d(noisy, known, by, used=used, is_worse=is_worse)
    unmeasured = tell_unmeasured(lacking, by, "calibrate again", again=bool(noisy), is_own=is_own, used=used)
    points = {metric: found for metric, found in points.items() if found}
    if not points:
        raise BadInput("no metric was measured on the device", advice="columns such as latency_ms hold its values")
    cautions, doubts = _check(models, points)
    cautions += [
        f"{metric} has {len(found)} models, and {FEWEST_POINTS} are needed: it is not predicted."
        for metric, found in points.items()
        if 0 < len(found) < FEWEST_POINTS and len(points) > 1
    ]
    kept = {metric: found for metric, found in points.items() if len(found) >= FEWEST_POINTS} or points
    try:
        kept, reasons, misfits, trends = _predictable(kept, method=request.method)
    except BadInput as error:
        told = [sentence.removesuffix(".") for sentence in grade_d]
        advice = error.marked.advice
        if isinstance(error, Unrelated):
            advice = _advice_to_relate(models, next(iter(kept)), by, again=bool(noisy))
        raise BadInput("; ".join((error.marked.message, *told)), advice=advice) from None
    found = Calibration(
        name=request.name,
        points={metric: tuple(rows) for metric, rows in kept.items()},
        method=request.method,
        host=machine,
        runtime=engine,
        sources=tuple(given.sources),
        cautions=tuple(
            dict.fromkeys([*grade_d, *doubts, *misfits, *trends, *unmeasured, *notes.sentences, *cautions, *reasons])
        ),
        doubts=(*grade_d, *doubts, *misfits),
        unmeasured=tuple(lacking),
        measured_by=by,
        runs_here=(noisy, known),
        written=len({model.subject.name for model in models if model.hosts.keys() & kept.keys()}),
        atlas_device=device,
    )
    return save(found, context.store) if context.keep else found


def _check_atlas(device: str | None) -> str:
    """Return `device`, "" for None. Raises `BadInput` where the atlas has no device of that name."""
    known = {row.device for rows in tables(stamp()).values() for row in rows} if device else ()
    if device and device not in known:
        alike = get_close_matches(device, known, n=3, cutoff=0.4)
        advice = f"'edgewise devices list --atlas' lists its devices{f', such as {listing(alike)}' if alike else ''}"
        raise BadInput(f"⟦atlas_device⟧ {device}: the atlas has no such device", advice=advice)
    return device or ""


def _advice_to_relate(models: Sequence[_Model], metric: str, engine: str, *, again: bool) -> str:
    """Return what gives the models values of this machine, which most laws need: a column, or a command."""
    lacking = [model for model in models if not _is_known_here(model, metric)]
    names = enumerate_few([model.subject.name for model in lacking])
    files = list(dict.fromkeys(model.path for model in lacking))
    column = f"add the column host_{metric}_{list(UNITS[metric])[1]} with what {names} took on this machine"
    if all(files):
        return f"{measuring(files, engine, again=again)}, then calibrate again; or {column}"
    return f"give the folder of their files to ⟦model_dir⟧; or {column}"


def _is_known_here(model: _Model, metric: str, engine: str = "") -> bool:
    """Whether a value of this machine is known, by `engine`; "" is any."""
    return metric in model.hosts or (engine in model.stored if engine else bool(model.stored))


def _uses_grade_d(points: Mapping[str, Sequence[Point]]) -> bool:
    """Whether the value of this machine of a point is of a run of grade D."""
    return any(point.subject.host_error for found in points.values() for point in found)


def _is_noisy(model: _Model, engine: str = "") -> bool:
    """Whether no value of this machine is known, by `engine` or by any, as its runs have grade D."""
    return not _is_known_here(model, "latency", engine) and (engine in model.noisy if engine else bool(model.noisy))


def _lacking_here(models: Sequence[_Model], engine: str) -> dict[str, str]:
    """Return the files without a value of this machine by `engine` → the names of their models."""
    lacking = [model for model in models if not _is_known_here(model, "latency", engine)]
    return {model.path: model.subject.name for model in lacking if model.path}


def _count_runs_here(models: Sequence[_Model], engine: str) -> tuple[int, int]:
    """Return how many models have runs here by `engine` that all have grade D, and how many have runs here by it."""
    noisy = sum(_is_noisy(model, engine) for model in models)
    return noisy, noisy + sum(engine in model.stored if engine else bool(model.stored) for model in models)


def _check(models: Sequence[_Model], points: Mapping[str, list[Point]]) -> tuple[list[str], list[str]]:
    """Cautions about the points, and doubts about their values. Raises `BadInput` as `check_points` does."""
    cautions, doubts = list[str](), list[str]()
    for metric, found in points.items():
        written = _written(models, metric)
        places = {model.subject.name: model.place for model in models if model.place}
        places |= {each.name: f"{each.place}{contradiction(each)}" for each in written}
        what = metric.replace("_", " ")
        cautions += check_points(found, what=what, places=places)
        lines = {each.name: f"{each.column} of {each.place}" for each in written}
        peaks = known_rates() if metric == "latency" and any(point.subject.profile for point in found) else None
        doubts += [*contradictions(written), *doubt_units(found, what=what, written=lines, peaks=peaks)]
    return cautions, doubts


def _written(models: Sequence[_Model], metric: str) -> list[Written]:
    """Return the values of this machine in tables."""
    return [
        Written(
            name=model.subject.name,
            metric=metric,
            column=model.columns[metric],
            place=model.place,
            value=model.hosts[metric],
            stored=tuple(values[metric] for values in model.stored.values() if metric in values),
        )
        for model in models
        if metric in model.hosts
    ]


def _predictable(
    points: Mapping[str, list[Point]], *, method: str | None
) -> tuple[dict[str, list[Point]], list[str], list[str], list[str]]:
    """Return the metrics for which a law can be chosen, a sentence on each of the others, on models that do not fit,
    and on errors that go with the size.

    Raises `BadInput` as `choose` does where there is none.
    """
    found, problems, misfits, trends = {}, {}, list[str](), list[str]()
    for metric, rows in points.items():
        try:
            choice = choose(rows, method=method)
            misfits.append(describe_misfit(choice, metric))
            trends.append(describe_trend(choice, metric))
        except BadInput as error:
            problems[metric] = error
        else:
            found[metric] = rows
    if not found:
        raise next(iter(problems.values()))
    reasons = [f"{metric} is not predicted: {error.message}." for metric, error in problems.items()]
    return found, reasons, [each for each in misfits if each], [each for each in trends if each]


def predict(request: PredictRequest, context: Context) -> Forecasts:
    """Predict models for a calibrated device."""
    calibration = load(request.device, context.store)
    models: list[_Model] = []
    for path in request.models:
        models += _from_word(path)
    notes = Notes()
    by, learnt = calibration.measured_by or calibration.runtime, calibration.unmeasured
    if calibration.runtime:
        _take_runs_here(models, context, notes, engines=(calibration.runtime, by))
    lacking = _lacking_here(models, by) if by or learnt else {}
    known = {point.subject.name for point in calibration.points.get("latency", ())}
    counts = _count_runs_here([model for model in models if model.subject.name not in known], by)
    noisy, total = (before + more for before, more in zip(calibration.runs_here, counts, strict=True))
    then = "calibrate and estimate again" if learnt else "estimate again"
    is_own = by != calibration.runtime
    used = not is_own and _uses_grade_d(calibration.points)
    unmeasured = tell_unmeasured(lacking, by, then, learnt=learnt, again=bool(noisy), is_own=is_own, used=used)
    grade_d = tell_grade_d(noisy, total, by, used=used)
    if unmeasured:  # the command for the files of the calibration alone would be run in vain
        calibration = replace(
            calibration,
            cautions=tuple(each for each in calibration.cautions if not is_told(each)),
            doubts=tuple(each for each in calibration.doubts if not is_told(each)),
        )
    else:
        grade_d = []
    _note_missing_files(models, notes)
    for metric in request.targets:
        if metric not in calibration.points:
            raise BadInput(
                f"{calibration.name} is not calibrated for {metric}", advice=f"it has {', '.join(calibration.points)}"
            )
    rows = [
        forecast(
            replace(calibration, points={metric: points}),
            [_subject(model, metric, calibration.runtime, grade_d=used) for model in models],
            targets=request.targets,
            anyway=request.anyway,
        ).rows
        for metric, points in calibration.points.items()
    ]
    doubts = [each for metric in calibration.points for each in contradictions(_written(models, metric))]
    return Forecasts(
        calibration=calibration,
        rows=tuple(row for part in rows for row in part),
        targets=request.targets,
        cautions=(*grade_d, *doubts, *unmeasured, *notes.sentences),
        doubts=(*grade_d, *doubts),
    )


def _points(
    models: Sequence[_Model], metric: str, engine: str, *, device: str = "", method: str | None = None
) -> list[Point]:
    """Return the points of `metric`. Where too few have a better value of this machine, runs of grade D give one.

    They don't where the best law is expected to err less without them.

    Args:
        device: its name in the atlas; "" where it has none.
        method: the law that the user chose; None for the best one.
    """
    models = [model for model in models if metric in model.values]

    def points(*, grade_d: bool) -> list[Point]:
        subjects = [_subject(model, metric, engine, grade_d=grade_d) for model in models]
        values = [model.values[metric] for model in models]
        pairs = zip(subjects, values, strict=True)
        return [replace(one, device=device) for one in join_repeats(Point(subject=a, value=b) for a, b in pairs)]

    if not _gains_by_grade_d(models, metric, engine):
        return points(grade_d=False)
    return min((points(grade_d=True), points(grade_d=False)), key=lambda each: _expected_error(each, method))


def _gains_by_grade_d(models: Sequence[_Model], metric: str, engine: str) -> bool:
    """Whether fewer of `models`, which have `metric`, than laws need have a better value here than one of grade D."""
    known = sum(metric in model.hosts or metric in model.stored.get(engine, {}) for model in models)
    usable = metric == "latency" and any(model.noisy.get(engine) is not None for model in models)
    return usable and known < enough_points(len(models))


def _expected_error(points: Sequence[Point], method: str | None) -> float:
    """Return what the law is chosen by; infinite where there is none."""
    try:
        return choose(points, method=method).chosen.expected_error
    except BadInput:
        return math.inf


def _subject(model: _Model, metric: str, engine: str, *, grade_d: bool) -> Subject:
    """Return what is known of a model; its value of this machine may be of a run of grade D where `grade_d` says so."""
    host, error = model.hosts.get(metric, model.stored.get(engine, {}).get(metric)), 0.0
    if host is None and grade_d and metric == "latency":
        host, error = model.noisy.get(engine) or (None, 0.0)
    return replace(model.subject, host=host, host_error=error, noisy=host is None and _is_noisy(model, engine))


def _from_word(word: str) -> list[_Model]:
    """Return the models of a table or a file; what is neither may be a name of the atlas."""
    path, named = Path(word), Subject(name=word)
    if word.lower().endswith(TABLE):
        return [_from_row(row, path, ModelFiles([])) for row in read_table(path)]
    if not path.exists() and not Catalogue().lacking(named):
        return [_Model(subject=named)]
    with advising_conversion(word, open_model(path).ref):
        return [_from_file(path)]


def _from_row(row: Row, table: Path, files: ModelFiles) -> _Model:
    """Return a model of a table; where its name is that of a file, what the file says."""
    places = (table.parent / row.name, Path(row.name), *files.named(row.name))
    file = next((path for path in places if path.is_file()), None)
    model = _Model(subject=Subject(name=row.name)) if file is None else _from_file(file)
    subject = replace(
        model.subject, name=row.name, family=row.family, precision=row.precision or model.subject.precision
    )
    place = f"line {row.line} of {table}"
    return replace(model, subject=subject, values=row.values, hosts=row.hosts, columns=row.columns, place=place)


def _note_missing_files(models: Sequence[_Model], notes: Notes) -> None:
    """Note the models whose names are those of files, where there is no such file: most are mistyped."""
    for model in models:
        name = model.subject.name
        is_path = "/" in name or "\\" in name or Path(name).suffix.lower() in MODELS
        if is_path and not model.sha256 and model.subject.profile is None and Catalogue().lacking(model.subject):
            notes.add("No such file was found, so that nothing but the name is known", name)


def _from_file(path: Path) -> _Model:
    graph, network = observe_file(path, shapes={}, hash_weights=True)
    subject = Subject(name=path.name, profile=profile_of(graph), precision=find_precision(graph))
    return _Model(subject=subject, sha256=str(network.source.get("sha256") or ""), path=str(path))


def _from_run(run: Run, files: ModelFiles, notes: Notes) -> _Model:
    """Return the model of a run on the device, and what its file says: where it was, or that of its hash or its
    name.
    """
    ref = run.job.model
    note_tool(run, _latency_of(run), notes)
    model = _Model(subject=Subject(name=ref.name), sha256=ref.sha256 if ref.is_known else "", values=_values_of(run))
    own = [Path(ref.path)] if ref.path and Path(ref.path).is_file() else []  # exported runs keep only the name
    hashed = files.hashed(ref.sha256) if ref.is_known and not own else None
    places = [*own, *([hashed] if hashed else files.named(ref.name))]
    changed = False
    for path in places:
        try:
            found = _from_file(path)
        except EdgewiseError:
            continue
        if not ref.is_known:
            notes.add("The tool gives no hash of its file: taken for the file of the same name", ref.name)
        elif found.sha256 != ref.sha256:
            changed = True
            continue
        return replace(model, subject=replace(found.subject, name=ref.name), sha256=found.sha256, path=found.path)
    if changed:
        notes.add("The file has changed since, so that its operators are not known", ref.name)
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
    """Return the metric that is taken as the latency: of an imported run without a median, its headline."""
    return run.headline if run.source is not None and run.headline.startswith("latency") else "latency"


def _take_runs_here(
    models: Sequence[_Model], context: Context, notes: Notes, *, engines: tuple[str, ...] = ("",)
) -> list[tuple[Run, str]]:
    """Fill `_Model.stored` and `_Model.noisy`; returns the runs of `models` on this machine, see `_best_here`.

    Args:
        engines: and their settings, or the beginnings of them, which are taken.
    """
    with reading(context) as store:
        runs = [] if store is None else _runs_here(models, store, notes)
    for model in models:
        for run, _ in runs:
            engine = engine_text(run.job)
            if run.job.model.sha256 == model.sha256 and engine.startswith(engines):
                if grade_of(run) == "D":
                    value, error = _values_of(run).get("latency"), error_of_grade_d(run)
                    model.noisy[engine] = None if value is None or error is None else (value, error)
                else:
                    model.stored[engine] = _values_of(run)
    return runs


def _host_engine(
    models: Sequence[_Model],
    runs: Sequence[tuple[Run, str]],
    notes: Notes,
    *,
    wanted: str | None,
    own: str,
    method: str | None,
) -> tuple[str, str]:
    """Return this machine and the engine and settings whose values are taken, see `choose_engine`.

    Args:
        runs: of the models on this machine, with the machine.
        wanted: the engine and its settings, or the beginning of it; it is an error that no model has a run with it, nor
            a value of this machine in a table, whose engine `wanted` names then.
        own: the device's engine on this machine; "" where none is known.
    """
    known = Counter(engine for model in models for engine in model.stored)
    doubtful = [engine for model in models for engine, found in model.noisy.items() if found is not None]
    counts = {engine: known[engine] for engine in (*known, *doubtful) if engine.startswith(wanted or "")}
    written = [model.subject.name for model in models if model.hosts]
    if wanted and not counts:
        # The user names the engine of the table's values: one that may have runs here later.
        if written and re.split("[/,]", wanted)[0].strip() in runtimes().names():
            notes.add(f"Measured on this machine with {wanted}, as the command says", enumerate_few(written))
            return "", wanted
        engines = sorted({engine_text(run.job) for run, _ in runs})
        raise BadInput(
            f"this machine has no runs of the models with {wanted}",
            advice=f"stored are runs with: {'; '.join(engines)}" if engines else "run 'edgewise bench MODEL' here",
        )
    engine = own
    if wanted in counts:
        engine = wanted or ""
    elif counts:
        metric = next((each for each in UNITS if any(each in model.values for model in models)), "latency")
        measured = sum(metric in model.values for model in models)

        def error_with(engine: str) -> float:
            return _expected_error(_points(models, metric, engine, method=method), method)

        engine = choose_engine(counts, own=own, enough=enough_points(measured), error_with=error_with)
    if not wanted:
        for name in written:
            notes.add(_unnamed(engine), name)
    return next((machine for run, machine in runs if engine and engine_text(run.job) == engine), ""), engine


def _unnamed(engine: str) -> str:
    """State that the engine of a table's values of this machine is not known, and what follows."""
    follows = "so that estimates take no stored runs beside them"
    if engine:
        follows = f"and values of other models are of {engine}"
    name = as_flag("host", "ENGINE")
    return f"No engine is named for values of this machine in a table, {follows} ({name} names it)"


def _runs_here(models: Sequence[_Model], store: Store, notes: Notes) -> list[tuple[Run, str]]:
    """Return the runs of `models` on this machine, see `_best_here`. A model without a file is that of its name."""
    for model in models:
        if not model.sha256:
            _relate_by_name(model, store, notes)
    return [each for sha256 in sorted({model.sha256 for model in models} - {""}) for each in _best_here(sha256, store)]


def _relate_by_name(model: _Model, store: Store, notes: Notes) -> None:
    """Take `model` for the file of its name that was measured here, where there is one alone."""
    name = model.subject.name
    rows = [row for row in store.rows(model=name, device=LOCAL, status="done") if row.model == name]
    if len({row.sha256 for row in rows}) > 1:
        notes.add("Several files of this name were measured here, so that none is taken", name)
    elif rows:
        model.sha256 = rows[0].sha256
        notes.add("Taken for the file of the same name that was measured here", name)
        path = Path(store.get(rows[0].id).job.model.path or "/")
        if path.is_file() and (found := _from_file(path)).sha256 == model.sha256:
            own = model.subject
            precision = own.precision or found.subject.precision
            model.subject = replace(own, profile=found.subject.profile, precision=precision)


def _best_here(sha256: str, store: Store) -> list[tuple[Run, str]]:
    """Finished runs of a file on this machine, one input at a time, and the machine.

    For each engine, number of threads and limits, the newest run of the best grade. Of the same engine and number of
    threads, `MOST_READ` are read.
    """
    rows = [
        row
        for row in store.rows(model=sha256, device=LOCAL, status="done")
        if row.batch == 1 and row.scenario == "single-stream" and row.value
    ]
    best: dict[str, tuple[Run, str]] = {}
    read: Counter[tuple[str | int | None, ...]] = Counter()
    for row in sorted(rows, key=lambda row: preference(row, row.grade)):
        key = row.runtime, row.provider, row.threads
        read[key] += 1
        if read[key] <= MOST_READ:
            run = store.get(row.id)
            best.setdefault(engine_text(run.job), (run, row.machine or ""))
    return list(best.values())
