"""Builds the result of a search: the choice, its file with provenance, and the command that repeats it."""

from __future__ import annotations

import filecmp
import json
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from edgewise.comparing.reasons import explain_files
from edgewise.errors import EdgewiseError, as_flag
from edgewise.evaluating.calibrated import shorten_digests
from edgewise.evaluating.instructions import write_instructions
from edgewise.evaluating.output_format import OutputFormat
from edgewise.model.graph import Graph
from edgewise.model.identity import describe_file, open_model, read_graph
from edgewise.optimizing.changed_answers import ChangedAnswers
from edgewise.optimizing.choice import check_bounds, find_closest
from edgewise.optimizing.elsewhere import with_device_memory
from edgewise.optimizing.factors import find_factors, find_precision_steps, tell_slower
from edgewise.optimizing.loader import write_loader
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.selection import Selection, Standings
from edgewise.optimizing.thumbnails import draw_thumbnails
from edgewise.optimizing.variant import (
    ORIGINAL,
    SMALLER,
    Candidate,
    MetricValue,
    NotTried,
    Optimization,
    Prediction,
    PredictionWithData,
    file_words_of,
    made_of,
)
from edgewise.record import DataRef, ModelRef, Run
from edgewise.text import listing

SCHEMA = 1
MOST_CHANGED = 8
"""Variants whose changed answers a result has."""


def build_result(
    standings: Standings,
    settings: SearchSettings,
    *,
    headline: str,
    form: OutputFormat | None,
    calibration: DataRef | None,
    calibrated_on: tuple[str, ...],
    save: Callable[[Run], None],
    elapsed_s: float,
) -> Optimization:
    """Choose, write the chosen file with its provenance, and save the runs of all raced variants."""
    selection = Selection(settings=settings, headline=headline, save=save, end_by=0.0)
    everything, others = standings.everything, tuple(standings.candidates.values())
    choice = selection.decide(standings)
    chosen = None if choice is None else choice.id
    if choice is not None:
        best = everything[choice.id]
        others = tuple(
            replace(one, behind=tell_slower(one, best, standings.races, apart=choice.apart))
            if one.accepted and one.id != choice.id
            else one
            for one in others
        )
    members, metrics = selection.find_pareto_front(standings)
    unmet, closest = _find_unmet(standings, settings, chosen)
    # Without labels only variants have an evaluation.
    judged = [one.accuracy.evaluation for one in everything.values() if one.accuracy is not None]
    evaluation = next((one for one in judged if one is not None), None)
    if calibration is not None and evaluation is not None and settings.set_apart:  # of the same data
        calibration = replace(calibration, data_sha256=evaluation.data.data_sha256)
    result = Optimization(
        baseline=standings.original,
        candidates=others,
        front=members,
        front_metrics=metrics,
        chosen=chosen,
        reason="" if chosen is None else _explain(everything[chosen], everything),
        chosen_because="" if choice is None else choice.because,
        factors=() if chosen is None else find_factors(chosen, everything, standings.races),
        precision_steps=find_precision_steps(everything, standings.races, chosen),
        not_tried=_find_not_tried(others, settings),
        with_data=_find_prediction_with_data(standings.with_data, everything[chosen or ORIGINAL].runtime.name),
        bounds=settings.bounds,
        unmet=unmet,
        closest=closest,
        task=settings.task.name if settings.task else "",
        headline=headline,
        data=None if evaluation is None else evaluation.data,
        judged=None if evaluation is None else evaluation.n,
        calibration=calibration,
        calibrated_on=calibrated_on,
        changed=_find_changed(others, chosen, members),
        sensitivity=standings.sensitivity,
        notes=standings.notes,
        stopped_because=standings.stopped or "everything that was planned is done",
        elapsed_s=elapsed_s,
        device="" if settings.judge is None else settings.judge.device,
        judged_by=None if form is None else form.to_document(),
        conditions={
            "threads": settings.threads or 1,
            "seed": settings.seed,
            "budget_s": settings.budget_s,
            "aim": settings.aim,
            "original_runtime": standings.original.runtime.name,
            "shapes": {name: list(shape) for name, shape in settings.shapes.items()},
        },
        interrupted=standings.interrupted,
    )
    if settings.judged is not None and result.changed_most is not None:
        samples = result.changed[result.changed_most].samples
        result = replace(result, thumbnails=draw_thumbnails(settings.judged.data, samples))
    written = _write_provenances(result, settings)
    if chosen is not None:
        result = _with_files(result, settings, everything[chosen], written.get(chosen))
    result = _with_summary(result, settings.folder)
    if (int8 := _find_smaller_int8(result)) is not None:
        file, folder = Path(int8.path), settings.folder.resolve()
        file = settings.folder / file.relative_to(folder) if file.is_relative_to(folder) else file
        result = replace(result, files={**result.files, "int8": str(file)})
    for one in everything.values():
        if one.measured is not None:
            save(_with_provenance(one, one.measured, result))
    return result


def _explain(chosen: Candidate, everything: Mapping[str, Candidate]) -> str:
    """Why a variant is faster: what the pre-flight saw of its pass, else how its file differs from the original's."""
    made = made_of(chosen, everything)
    if made.predicted is not None and made.predicted.speedup is not None:
        return made.predicted.because
    before, after = everything[ORIGINAL].model, made.model
    return "" if before is None or after is None else explain_files(before, after, (before.name, made.id))


def _find_smaller_int8(result: Optimization) -> ModelRef | None:
    """Return the file of the best int8 variant, where it is not the chosen one and is smaller than the original's."""
    int8, original = result.fastest_int8, result.baseline.model
    if int8 is None or int8.model is None or original is None:
        return None
    if result.chosen is not None and result.candidate(result.chosen).model == int8.model:
        return None
    return int8.model if int8.model.size_bytes <= SMALLER * original.size_bytes else None


def _find_changed(
    candidates: Sequence[Candidate], chosen: str | None, front: Sequence[str]
) -> dict[str, ChangedAnswers]:
    """Return changed answers: of the chosen variant, then those on the front, accepted ones and others; the fastest
    first.
    """
    known = [(one, one.accuracy.changes) for one in candidates if one.accuracy is not None]
    found = [(one, changes) for one, changes in known if changes is not None]

    def key(pair: tuple[Candidate, ChangedAnswers]) -> tuple[bool, bool, bool, float]:
        one = pair[0]
        return one.id != chosen, one.id not in front, not one.accepted, -(one.value("speedup") or 0.0)

    found.sort(key=key)
    return {one.id: changes for one, changes in found[:MOST_CHANGED]}


def _find_not_tried(candidates: Sequence[Candidate], settings: SearchSettings) -> NotTried:
    """Variants that were planned and not judged for lack of time."""
    late = {one.id for one in candidates if one.stage in _UNJUDGED and TIME in one.why}
    if not late:
        return NotTried(of=len(candidates))
    families: dict[str, bool] = {}
    for one in candidates:
        if one.task is not None and (family := one.task.capabilities.family):
            families[family] = families.get(family, True) and one.id in late
    return NotTried(
        variants=tuple(one.id for one in candidates if one.id in late),
        of=len(candidates),
        families=tuple(family for family, none in families.items() if none),
        budget_s=2.0 * settings.budget_s,
    )


_COMPARABLE = ("provider", "threads", "precision")
"""Settings of an engine that `compare` takes behind a model."""
TIME = "time budget"
_UNJUDGED = ("planned", "made", "loaded", "agreed", "sliced")


def _find_prediction_with_data(with_data: Mapping[str, Prediction], engine: str) -> PredictionWithData | None:
    """Return the best prediction for a pass that lacks samples: in `engine`, else in any."""
    found = [
        PredictionWithData(variant=name, engine=name.rpartition(" @ ")[2], prediction=one)
        for name, one in with_data.items()
        if one.speedup is not None and one.low is not None and one.low > 1.0
    ]
    return max(found, key=lambda one: (one.engine == engine, one.prediction.speedup or 0.0), default=None)


def _find_unmet(standings: Standings, settings: SearchSettings, chosen: str | None) -> tuple[str, str | None]:
    """Return the bounds that no variant meets, and the id of the closest one; empty where a variant meets all."""
    if chosen is not None or not settings.bounds:
        return "", None
    original = _as_variant(standings.original)
    unmet = check_bounds(original.metrics, settings.bounds, original.metrics)
    if not unmet:
        return "", None
    everyone = [
        replace(one, metrics=with_device_memory(one.metrics))
        for one in (original, *standings.candidates.values())
        if one.id == ORIGINAL or one.stage in ("judged", "raced", "estimated")
    ]
    limits = everyone[0].metrics
    closest = find_closest(everyone, settings.bounds, limits)
    if closest is None and settings.judge is None:
        closest = ORIGINAL
    # Where no variant has all numbers, the one that came farthest tells what lacks.
    runs = [one for one in everyone if not (one.elsewhere and one.elsewhere.refused)] or everyone
    told = max(runs, key=lambda one: (one.id == closest, one.stage == "estimated", one.parent is not None)).metrics
    reached = [bound for bound in settings.bounds if bound.metric in told]
    return "; ".join(check_bounds(told, reached, limits) or unmet), closest


def _as_variant(original: Candidate) -> Candidate:
    """Return the original as a variant of itself, without a loss."""
    none = MetricValue(value=0.0, low=0.0, high=0.0, basis="derived", method="the original against itself")
    return replace(original, metrics={**original.metrics, "accuracy_drop": none, "output_max_abs_error": none})


def _with_files(
    result: Optimization, settings: SearchSettings, candidate: Candidate, made: Provenance | None
) -> Optimization:
    """Return the chosen model's files at the top of the folder, with provenance and instructions beside them.

    Args:
        made: its provenance, where that lies beside its variant already.
    """
    assert candidate.model is not None
    command = made.command if made else _command_of(result, settings, candidate)
    try:
        (file, *weights), replaced = _copy(candidate, settings)
        if replaced:
            other = as_flag("output", "FOLDER")
            note = f"{file.name} replaces another file of this name, of an earlier search; {other} keeps both"
            result = replace(result, notes=(*result.notes, note))
        provenance = file.with_name(f"{file.name}.provenance.json")
        text = made.text if made else _provenance_text(result, settings, candidate, command)
        provenance.write_text(text, encoding="utf-8")
        beside = {
            f"weights_{number}" if len(weights) > 1 else "weights": str(one) for number, one in enumerate(weights)
        }
        files = {"chosen": str(file), **beside, "provenance": str(provenance)}
        known = settings.instructions
        if settings.classes:
            known = replace(known, classes=settings.classes, classes_from="")
        options = {**known.task_options, **settings.task_options}
        if known.steps or settings.task_name:
            usage = file.with_name(f"{file.name}.yaml")
            write_instructions(replace(known, task=settings.task_name, task_options=options), usage)
            files["instructions"] = str(usage)
        kind = settings.judged.data.kind if settings.judged is not None else None
        if candidate.job is not None:
            title = _loader_title(file, candidate)
            loader = write_loader(file, candidate.job, settings.instructions, kind=kind, title=title)
            files |= {} if loader is None else {"loader": str(loader)}
            with suppress(EdgewiseError):  # not every engine's model has a graph that can be read
                graph = read_graph(Path(candidate.job.model.path))
                result = replace(result, notes=(*result.notes, *_tell_integers(graph)))
    except (OSError, EdgewiseError) as error:
        reason = error.message if isinstance(error, EdgewiseError) else error.strerror or str(error)
        note = f"the chosen file could not be copied to {settings.folder}: {reason}"
        return replace(result, command=command, notes=(*result.notes, note), files={"chosen": candidate.model.path})
    return replace(result, command=command, files=files)


class Provenance(NamedTuple):
    """Where a variant comes from: the command that makes it again, and the file with all that is known of it."""

    command: str
    text: str


def _command_of(result: Optimization, settings: SearchSettings, candidate: Candidate) -> str:
    return _command(settings, candidate, result.root_of(candidate.id), engine=result.baseline.runtime.name)


def _provenance_text(result: Optimization, settings: SearchSettings, candidate: Candidate, command: str) -> str:
    root = result.root_of(candidate.id)
    whole = settings.whole if root == result.baseline.model else None
    document = provenance_of(result, candidate, root, command=command, whole=whole)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _write_provenances(result: Optimization, settings: SearchSettings) -> dict[str, Provenance]:
    """Write the provenance of each variant beside its file in the folder, so that an evaluation of it knows the samples
    that calibrated it; return them by variant. One that can't be written is left out.
    """
    written: dict[str, Provenance] = {}
    folder = settings.folder.resolve()
    for one in result.candidates:
        if one.model is None or one.kind == "tuning":
            continue
        file = Path(one.model.path).resolve()
        if not file.is_relative_to(folder):
            continue
        with suppress(OSError, EdgewiseError):
            command = _command_of(result, settings, one)
            text = _provenance_text(result, settings, one, command)
            file.with_name(f"{file.name}.provenance.json").write_text(text, encoding="utf-8")
            written[one.id] = Provenance(command, text)
    return written


def _tell_integers(graph: Graph) -> list[str]:
    """Return how to feed and read integers that stand for real numbers, one line each, as firmware must do it."""
    told = []
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if (found := tensor.quantization) is not None and "int" in tensor.dtype and found.channels == 1:
            words = f"round(x / {found.scale:.9g}) {_signed(found.zero_point)}"
            told.append(f"input {name}: {tensor.dtype} = {words}, of each prepared value x, within the type's range")
    for name in graph.outputs:
        tensor = graph.tensors[name]
        if (found := tensor.quantization) is not None and "int" in tensor.dtype and found.channels == 1:
            told.append(f"output {name}: value = {found.scale:.9g} × ({tensor.dtype} {_signed(-found.zero_point)})")
    return told


def _signed(number: int) -> str:
    return f"{'−' if number < 0 else '+'} {abs(number)}"


def _with_summary(result: Optimization, folder: Path) -> Optimization:
    """Return the result with a summary in the folder: which file is chosen, and which are of earlier searches."""
    own = result.files.get("provenance")
    found = [*folder.glob("*.provenance.json"), *folder.glob("*/*.provenance.json")]
    found = [path for path in found if own is None or path.resolve() != Path(own).resolve()]
    earlier = sorted(path for path in found if _is_of_search(path))
    if own is None and (result.chosen is not None or not earlier):
        return result
    names = [str(path.relative_to(folder)).removesuffix(".provenance.json") for path in earlier]
    when, summary = datetime.now(UTC).isoformat(sep=" ", timespec="minutes"), folder / "chosen.md"
    chosen = "nothing was chosen"
    if own is not None:
        chosen = f"`{Path(result.files['chosen']).relative_to(folder)}` ({result.chosen})"
    lines = [f"The last search of `edgewise optimize`, {when}: {chosen}."]
    lines += ["", "Chosen by earlier searches, and kept:", "", *(f"- `{name}`" for name in names)] if names else []
    try:
        summary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        return replace(result, notes=(*result.notes, f"{summary.name} could not be written: {error.strerror}"))
    are = "are" if len(names) > 1 else "is"
    note = [f"{listing(names)} {are} of an earlier search; {summary.name} names the last one's"] if names else []
    return replace(result, files={**result.files, "summary": str(summary)}, notes=(*result.notes, *note))


def _is_of_search(provenance: Path) -> bool:
    """Whether a search wrote the file; `convert` writes some, too."""
    try:
        document = json.loads(provenance.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and "variant" in document


def _loader_title(file: Path, candidate: Candidate) -> str:
    """``net.ort-static.onnx in onnxruntime 1.31.0, 2 threads``, as it was chosen."""
    runtime = candidate.runtime
    words = [f"{file.name} in {runtime.name} {runtime.version or ''}".rstrip()]
    words += [f"{runtime.threads} thread{'s' if runtime.threads != 1 else ''}"] if runtime.threads else []
    return f"Runs {', '.join(words)}, as it was chosen."


def _copy(candidate: Candidate, settings: SearchSettings) -> tuple[list[Path], bool]:
    """Copy the model under the name of its variant, and its weight files under their own names.

    Returns:
        The file and its weight files, and whether another one of its name was there.
    """
    assert candidate.model is not None
    model = open_model(candidate.model.path)
    source = model.files[0]
    made = any(one.name != "tune" for one in candidate.passes)
    stem = Path(settings.model.partition(":")[0]).stem
    target = settings.folder / f"{stem}.{file_words_of(candidate.id) if made else 'as-it-is'}{source.suffix}"
    if len(model.files) > 1 and model.ref.format != "openvino":
        # The model contains the names of its weight files. A folder of their own avoids overwriting other files of
        # these names, such as the original's.
        target = settings.folder / target.stem / target.name
        target.parent.mkdir(exist_ok=True)
    copies = []
    for weights in model.files[1:]:
        # OpenVINO looks for weights under the model's own stem, ONNX under the name that is in the model.
        place = weights.relative_to(source.parent)
        copy = target.parent / (place.with_stem(target.stem) if model.ref.format == "openvino" else place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(weights, copy)
        copies.append(copy)
    replaced = target.exists() and not filecmp.cmp(source, target, shallow=False)
    shutil.copyfile(source, target)
    return [target, *copies], replaced


def provenance_of(
    result: Optimization, candidate: Candidate, parent: ModelRef, *, command: str, whole: ModelRef | None = None
) -> dict[str, Any]:
    """Provenance and metrics of a variant, JSON-shaped.

    Args:
        parent: the given file that the variant was made of.
        whole: the user's file, of a signature of which `parent` was made.
    """
    from edgewise.version import __version__

    assert candidate.model is not None
    taken_from = {}
    if whole is not None:
        sha256 = describe_file(whole.path, read_all=True)["sha256"]
        taken_from = {"taken_from": {"name": whole.file_name, "sha256": sha256}}
    return {
        "schema": SCHEMA,
        "edgewise": __version__,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "variant": candidate.id,
        "model": {"name": candidate.model.name, "sha256": candidate.model.sha256, "format": candidate.model.format},
        "parent": {"name": parent.name, "sha256": parent.sha256, "format": parent.format, **taken_from},
        "passes": [asdict(one) for one in candidate.passes],
        "runtime": asdict(candidate.runtime),
        "calibration": _describe_calibration(result, candidate),
        "data": None if result.data is None else asdict(result.data),
        "task": result.task or None,
        "metrics": {name: number.to_document() for name, number in candidate.metrics.items()},
        "why": candidate.why,
        "chosen_because": result.chosen_because or None,
        "conditions": dict(result.conditions),
        "command": command or None,
    }


def _describe_calibration(result: Optimization, candidate: Candidate) -> dict[str, Any] | None:
    """Return the samples for passes; with the digest of each where a pass of the variant saw them."""
    if result.calibration is None:
        return None
    document, one = asdict(result.calibration), candidate
    while not (one.task is not None and one.task.capabilities.calibrates):
        if one.parent is None:
            return document
        one = result.candidate(one.parent)
    return {**document, "samples": shorten_digests(result.calibrated_on)}


def _command(settings: SearchSettings, candidate: Candidate, root: ModelRef, *, engine: str) -> str:
    """Return the command line that makes the variant again; `engine` is the original's."""
    own = settings.words[0] if settings.words and settings.whole is None else settings.model
    settings_of_engine = [one.settings for one in candidate.passes if one.name == "tune"]
    settable = all(set(each) <= {"runtime", *_COMPARABLE} for each in settings_of_engine)
    if len(settings_of_engine) == len(candidate.passes) and settable:  # a given file, in another engine or its settings
        given = [path for path in settings.also if open_model(path).ref.sha256 == root.sha256]
        other = given[0] if given else own
        tuned = {name: each[name] for each in settings_of_engine for name in _COMPARABLE if name in each}
        spec = ",".join(f"{name}={value}" for name, value in {"runtime": candidate.runtime.name, **tuned}.items())
        return shlex.join(["edgewise", "compare", f"{own},runtime={engine}", f"{other},{spec}"])
    also = [word for path in settings.also for word in ("--also", path)]
    words = ["edgewise", "optimize", *(settings.words or (own,)), *also]
    passes = [f"{one.name}:{one.label}" if one.label else one.name for one in candidate.passes]
    words += ["--passes", ",".join(passes)] if passes else []
    spared = list(dict.fromkeys(name for one in candidate.passes for name in one.keep_float))
    for name in spared:
        words += ["--keep-float", name]
    words += ["--aim", settings.aim] if settings.aim != "latency" else []
    engines = ",".join(dict.fromkeys((engine, candidate.runtime.name)))
    words += ["-r", engines, "--seed", str(settings.seed)]
    return shlex.join(words)


def _with_provenance(candidate: Candidate, run: Run, result: Optimization) -> Run:
    """Return the run of a candidate with where its model comes from."""
    artifact: dict[str, Any] = {
        "kind": "variant",
        "id": candidate.id,
        "parent": result.root_of(candidate.id).sha256,
        "passes": [asdict(one) for one in candidate.passes],
        "accepted": candidate.accepted,
        "why": candidate.why,
        "chosen_because": result.chosen_because or None,
        "calibration": None if result.calibration is None else result.calibration.sha256,
    }
    if candidate.id == result.chosen:
        artifact["files"] = dict(result.files)
    return replace(run, artifacts=(*run.artifacts, artifact))
