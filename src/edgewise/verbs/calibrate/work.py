"""Carries out the requests of `calibrate` and of predictions for calibrated devices."""

from __future__ import annotations

import re
import shlex
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
from edgewise.predicting.choice import FEWEST_POINTS, Unrelated, choose
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
from edgewise.store.preference import preference
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
MOST_TO_MEASURE = 10
"""Files in a command to measure them; more tell little beside them."""
_UNMEASURED = "Without a value of this machine, which makes predictions mostly better"
NOISY = "Runs on this machine of grade D alone, which are not used (measure again when it is quiet)"


@dataclass(kw_only=True)
class _Model:
    """A model before it is known which values of this machine are taken.

    Attributes:
        sha256, path: of its file; "" where only its name is known.
        stored: engine and its settings → metric → value, from stored runs on this machine.
        hosts: metric → value, as somebody wrote it down.
        columns, place: of `hosts`: metric → name of its column, and the line and its file; empty without a table.
        noisy: whether it has runs on this machine, all of grade D.
    """

    subject: Subject
    sha256: str = ""
    path: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    hosts: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    stored: dict[str, dict[str, float]] = field(default_factory=dict)
    noisy: bool = False


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
    machine, engine = _with_host_values(models, context, notes, wanted=request.host, required=True)
    _note_missing_files(models, notes)
    points = {metric: _points(models, metric, engine) for metric in UNITS}
    lacking = _lacking_here([one for one in models if "latency" in one.values], engine)
    unmeasured = _unmeasured(lacking, engine, "calibrate again")
    device = _check_atlas(request.atlas_device)
    points = {metric: [replace(one, device=device) for one in found] for metric, found in points.items() if found}
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
        noisy = [sentence.removesuffix(".") for sentence in notes.sentences if sentence.startswith(NOISY)]
        advice = _advice_to_relate(models, next(iter(kept))) if isinstance(error, Unrelated) else error.marked.advice
        raise BadInput("; ".join((error.marked.message, *noisy)), advice=advice) from None
    found = Calibration(
        name=request.name,
        points={metric: tuple(rows) for metric, rows in kept.items()},
        method=request.method,
        host=machine,
        runtime=engine,
        sources=tuple(given.sources),
        cautions=tuple(dict.fromkeys([*doubts, *misfits, *trends, *unmeasured, *notes.sentences, *cautions, *reasons])),
        doubts=(*doubts, *misfits),
        unmeasured=tuple(lacking),
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


def _advice_to_relate(models: Sequence[_Model], metric: str) -> str:
    """Return what gives the models values of this machine, which most laws need: a column, or a command."""
    lacking = [model for model in models if not _is_known_here(model, metric)]
    names = enumerate_few([model.subject.name for model in lacking])
    files = list(dict.fromkeys(model.path for model in lacking))
    column = f"add the column host_{metric}_{list(UNITS[metric])[1]} with what {names} took on this machine"
    if all(files):
        return f"{_measuring(files)}, then calibrate again; or {column}"
    return f"give the folder of their files to ⟦model_dir⟧; or {column}"


def _is_known_here(model: _Model, metric: str, engine: str = "") -> bool:
    """Whether a value of this machine is known, by `engine`; "" is any."""
    return metric in model.hosts or (engine in model.stored if engine else bool(model.stored))


def _measuring(files: Sequence[str], engine: str = "") -> str:
    """Return the command that measures `files` here by `engine`, see `engine_text`; "" is any."""
    runtime, *settings = engine.split(", ")
    threads = next((word.split()[0] for word in settings if re.fullmatch(r"\d+ threads?", word)), "1")
    words = [*files, *(["-r", runtime] if runtime else []), *(["-t", threads] if threads != "1" else [])]
    return f"'edgewise bench {shlex.join(words)}' measures {'it' if len(files) == 1 else 'them'} here"


def _lacking_here(models: Sequence[_Model], engine: str) -> dict[str, str]:
    """Return the files without a value of this machine by `engine` → the names of their models.

    Files whose runs here all have grade D are left out: another caution tells them.
    """
    lacking = [model for model in models if not model.noisy and not _is_known_here(model, "latency", engine)]
    return {model.path: model.subject.name for model in lacking if model.path}


def _unmeasured(lacking: Mapping[str, str], engine: str, again: str, *, learnt: Sequence[str] = ()) -> list[str]:
    """State which files have no value of this machine by `engine`, and the command for it, as a sentence; [] for none.

    Args:
        lacking: files → names.
        again: what to do afterwards.
        learnt: files without one that the device was learnt from, which are in the same command.
    """
    if not lacking:
        return []
    files = [*lacking][:MOST_TO_MEASURE]
    files += [file for file in learnt if file not in files][:MOST_TO_MEASURE]
    names = enumerate_few([*lacking.values(), *(Path(file).name for file in learnt if file not in lacking)])
    return [f"{_UNMEASURED}: {names}. {_measuring(files, engine)}, then {again}."]


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
    if calibration.runtime:
        _with_host_values(models, context, notes, wanted=calibration.runtime)
    learnt = calibration.unmeasured
    lacking = _lacking_here(models, calibration.runtime) if calibration.runtime or learnt else {}
    again = "calibrate and estimate again" if learnt else "estimate again"
    unmeasured = _unmeasured(lacking, calibration.runtime, again, learnt=learnt)
    if unmeasured:  # the command for the files of the calibration alone would be run in vain
        others = tuple(each for each in calibration.cautions if not each.startswith(_UNMEASURED))
        calibration = replace(calibration, cautions=others)
    _note_missing_files(models, notes)
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
            anyway=request.anyway,
        ).rows
        for metric, points in calibration.points.items()
    ]
    doubts = [each for metric in calibration.points for each in contradictions(_written(models, metric))]
    return Forecasts(
        calibration=calibration,
        rows=tuple(row for part in rows for row in part),
        targets=request.targets,
        cautions=(*doubts, *unmeasured, *notes.sentences),
        doubts=tuple(doubts),
    )


def _points(models: Sequence[_Model], metric: str, engine: str) -> list[Point]:
    return join_repeats(
        Point(subject=_subject(model, metric, engine), value=model.values[metric])
        for model in models
        if metric in model.values
    )


def _subject(model: _Model, metric: str, engine: str) -> Subject:
    host = model.hosts.get(metric, model.stored.get(engine, {}).get(metric))
    return replace(model.subject, host=host, noisy=host is None and model.noisy)


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


def _with_host_values(
    models: Sequence[_Model], context: Context, notes: Notes, *, wanted: str | None, required: bool = False
) -> tuple[str, str]:
    """Fill `_Model.stored`; returns this machine and the engine and settings of which most models have runs.

    Args:
        wanted: the engine and its settings, or the beginning of it; None takes those with the most models.
        required: whether it is an error that no model has a run with `wanted`, nor a value of this machine in a table,
            whose engine `wanted` names then.
    """
    machines: dict[str, str] = {}
    with reading(context) as store:
        runs = [] if store is None else _runs_here(models, store, notes)
    for model in models:
        for run, machine in runs:
            engine = engine_text(run.job)
            if run.job.model.sha256 == model.sha256 and engine.startswith(wanted or ""):
                model.stored[engine] = _values_of(run)
                machines.setdefault(engine, machine)
        if model.noisy and not model.stored and not model.hosts:
            notes.add(NOISY, model.subject.name)
    known = Counter(engine for model in models for engine in model.stored)
    written = [model.subject.name for model in models if model.hosts]
    if required and not wanted:
        for name in written:
            notes.add(_unnamed(known), name)
    if not known:
        # The user names the engine of the table's values: one that may have runs here later.
        if wanted and required and written and re.split("[/,]", wanted)[0].strip() in runtimes().names():
            notes.add(f"Measured on this machine with {wanted}, as the command says", enumerate_few(written))
            return "", wanted
        if wanted and required:
            engines = sorted({engine_text(run.job) for run, _ in runs})
            raise BadInput(
                f"this machine has no runs of the models with {wanted}",
                advice=f"stored are runs with: {'; '.join(engines)}" if engines else "run 'edgewise bench MODEL' here",
            )
        return "", ""
    engine = wanted if wanted is not None and wanted in known else max(sorted(known), key=lambda each: known[each])
    return machines[engine], engine


def _unnamed(stored: Mapping[str, int]) -> str:
    """State that the engine of a table's values of this machine is not known, and what follows."""
    follows = "so that estimates take no stored runs beside them"
    if stored:
        follows = f"and values of other models are of {max(sorted(stored), key=lambda each: stored[each])}"
    name = as_flag("host", "ENGINE")
    return f"No engine is named for values of this machine in a table, {follows} ({name} names it)"


def _runs_here(models: Sequence[_Model], store: Store, notes: Notes) -> list[tuple[Run, str]]:
    """Return the runs of `models` on this machine, see `_best_here`. A model without a file is that of its name."""
    for model in models:
        if not model.sha256:
            _relate_by_name(model, store, notes)
    found = []
    for sha256 in sorted({model.sha256 for model in models} - {""}):
        best, noisy = _best_here(sha256, store)
        found += best
        for model in models:
            model.noisy = model.noisy or (noisy and model.sha256 == sha256)
    return found


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


def _best_here(sha256: str, store: Store) -> tuple[list[tuple[Run, str]], bool]:
    """Finished runs of a file on this machine, one input at a time, and the machine; whether all are of grade D.

    For each engine, number of threads and limits, the newest run of the best grade, and never one of grade D. Of the
    same engine and number of threads, `MOST_READ` are read.
    """
    rows = [
        row
        for row in store.rows(model=sha256, device=LOCAL, status="done")
        if row.batch == 1 and row.scenario == "single-stream" and row.value
    ]
    trusted = sorted((row for row in rows if row.grade != "D"), key=lambda row: preference(row, row.grade))
    best: dict[str, tuple[Run, str]] = {}
    read: Counter[tuple[str | int | None, ...]] = Counter()
    for row in trusted:
        key = row.runtime, row.provider, row.threads
        read[key] += 1
        if read[key] <= MOST_READ:
            run = store.get(row.id)
            best.setdefault(engine_text(run.job), (run, row.machine or ""))
    return list(best.values()), bool(rows) and not trusted
