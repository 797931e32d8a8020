"""The search's result: what is chosen, its file with its provenance, and the line that makes it again."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewise.errors import EdgewiseError, StoreError
from edgewise.evaluating.form import Form
from edgewise.evaluating.instructions import write_instructions
from edgewise.model.identity import open_model
from edgewise.optimizing.base import Capabilities
from edgewise.optimizing.choice import check_bounds, find_closest
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.factors import find_factors
from edgewise.optimizing.loader import write_loader
from edgewise.optimizing.search import Search
from edgewise.optimizing.state import Entry
from edgewise.optimizing.variant import ORIGINAL, Candidate, Number, Optimization, Promise, Untried
from edgewise.record import DataRef, ModelRef, Run

SCHEMA = 1


def conclude(
    search: Search,
    commission: Commission,
    *,
    headline: str,
    form: Form | None,
    calibration: DataRef | None,
    save: Callable[[Run], None],
    elapsed_s: float,
    interrupted: bool,
) -> Optimization:
    """Choose, write the chosen file with its provenance, and keep the runs of everything that was raced."""
    state, finals = search.state, search.finals
    original = state.original.candidate
    chosen = None if finals is None else finals.choose()
    members, metrics = ((), ()) if finals is None else finals.find_front()
    unmet, closest = _find_unmet(search, commission, chosen)
    notes = [*state.notes, *(f"{one.name} was not tried: {one.why}" for one in search.menu.untried)]
    # Without labels the original is not judged: variants are, against it.
    judged = [entry.marks.evaluation for entry in state.entries.values() if entry.marks is not None]
    evaluation = next((one for one in judged if one is not None), None)
    result = Optimization(
        baseline=original,
        candidates=tuple(entry.candidate for entry in state.others),
        front=members,
        front_metrics=metrics,
        chosen=chosen,
        factors=() if chosen is None or finals is None else find_factors(chosen, state, finals.races),
        untried=_find_untried(state.others, commission),
        with_data=_find_promise(search, None if chosen is None else state.entries[chosen]),
        bounds=commission.bounds,
        unmet=unmet,
        closest=closest,
        task=commission.task.name if commission.task else "",
        headline=headline,
        data=None if evaluation is None else evaluation.data,
        judged=None if evaluation is None else evaluation.n,
        calibration=calibration,
        sensitivity=() if state.sensitivities is None else state.sensitivities.layers,
        notes=tuple(notes),
        stopped_because=state.stopped or "everything that was planned is done",
        elapsed_s=elapsed_s,
        judged_by=None if form is None else form.to_document(),
        conditions=_conditions(search, commission),
        interrupted=interrupted,
    )
    if chosen is not None:
        result = _with_files(result, commission, state.entries[chosen], state.root_of(chosen))
    errors = [
        error
        for entry in state.entries.values()
        if entry.run is not None
        and (error := _keep(entry, result, state.root_of(entry.candidate.id), save)) is not None
    ]
    return replace(result, save_errors=tuple(errors))


def _find_untried(entries: Sequence[Entry], commission: Commission) -> Untried:
    """What was planned and not judged, for there was no time."""
    late = [one for one in entries if one.candidate.stage in _UNJUDGED and TIME in one.candidate.why]
    if not late:
        return Untried(of=len(entries))
    names = {one.candidate.id for one in late}
    families: dict[str, bool] = {}
    for one in entries:
        if one.attempt is not None and (family := _family_of(one.attempt.one.capabilities)):
            families[family] = families.get(family, True) and one.candidate.id in names
    return Untried(
        variants=tuple(one.candidate.id for one in late),
        of=len(entries),
        families=tuple(family for family, none in families.items() if none),
        budget_s=2.0 * commission.budget_s,
    )


TIME = "time budget"
_UNJUDGED = ("planned", "made", "loaded", "agreed", "sliced")


def _family_of(capabilities: Capabilities) -> str:
    """What an engineer calls such a pass; empty for those that leave outputs as they are."""
    if capabilities.kind == "quantisation":
        return capabilities.arithmetic.partition("-")[0] or "quantisation"
    names = {"compression": "weight compression", "pruning": "pruning", "distillation": "distillation"}
    return names.get(capabilities.kind, "")


def _find_promise(search: Search, chosen: Entry | None) -> Promise | None:
    """The most that is predicted of passes that lack samples: in the chosen engine, else in any."""
    entry = search.state.original if chosen is None else chosen
    found = [
        Promise(variant=name, engine=name.rpartition(" @ ")[2], prediction=one)
        for name, one in search.state.with_data.items()
        if one.speedup is not None and one.low is not None and one.low > 1.0
    ]
    return max(
        found,
        key=lambda one: (one.engine == entry.candidate.runtime.name, one.prediction.speedup or 0.0),
        default=None,
    )


def _find_unmet(search: Search, commission: Commission, chosen: str | None) -> tuple[str, str | None]:
    """What no variant meets, the original included, and what comes closest; nothing where one does."""
    state = search.state
    if chosen is not None or not commission.bounds:
        return "", None
    original = _as_variant(state.original.candidate)
    unmet = check_bounds(original.metrics, commission.bounds, original.metrics)
    if not unmet:
        return "", None
    everyone = [original, *(entry.candidate for entry in state.others if entry.candidate.stage in ("judged", "raced"))]
    closest = find_closest(everyone, commission.bounds, original.metrics) or ORIGINAL
    metrics = next(one.metrics for one in everyone if one.id == closest)
    return "; ".join(check_bounds(metrics, commission.bounds, original.metrics) or unmet), closest


def _as_variant(original: Candidate) -> Candidate:
    """The original as a variant of itself: it loses nothing."""
    none = Number(value=0.0, low=0.0, high=0.0, basis="derived", method="the original against itself")
    return replace(original, metrics={**original.metrics, "accuracy_drop": none, "output_max_abs_error": none})


def _conditions(search: Search, commission: Commission) -> dict[str, Any]:
    original = search.state.original.job
    return {
        "threads": commission.threads or 1,
        "seed": commission.seed,
        "budget_s": commission.budget_s,
        "aim": commission.aim,
        "original_runtime": None if original is None else original.runtime.name,
        "shapes": {name: list(shape) for name, shape in commission.shapes.items()},
    }


def _with_files(result: Optimization, commission: Commission, entry: Entry, root: ModelRef) -> Optimization:
    """The chosen model's files at the top of the folder, with provenance and instructions beside them."""
    candidate = entry.candidate
    assert candidate.model is not None
    command = _command(commission, candidate, root, engine=result.baseline.runtime.name)
    try:
        file = _copy(candidate, commission)
        provenance = file.with_name(f"{file.name}.provenance.json")
        document = provenance_of(result, candidate, root, command=command)
        provenance.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        files = {"chosen": str(file), "provenance": str(provenance)}
        if commission.instructions.steps or commission.instructions.task:
            beside = file.with_name(f"{file.name}.yaml")
            write_instructions(commission.instructions, beside)
            files["instructions"] = str(beside)
        kind = commission.judged.data.kind if commission.judged is not None else None
        if entry.job is not None:
            title = _loader_title(file, entry)
            loader = write_loader(file, entry.job, commission.instructions, kind=kind, title=title)
            files |= {} if loader is None else {"loader": str(loader)}
    except (OSError, EdgewiseError) as error:
        reason = error.message if isinstance(error, EdgewiseError) else error.strerror or str(error)
        note = f"the chosen file could not be copied to {commission.folder}: {reason}"
        return replace(result, command=command, notes=(*result.notes, note), files={"chosen": candidate.model.path})
    return replace(result, command=command, files=files)


def _loader_title(file: Path, entry: Entry) -> str:
    """``net.ort-static.onnx in onnxruntime 1.31.0, 2 threads``, as it was chosen."""
    runtime = entry.candidate.runtime
    words = [f"{file.name} in {runtime.name} {runtime.version or ''}".rstrip()]
    words += [f"{runtime.threads} thread{'s' if runtime.threads != 1 else ''}"] if runtime.threads else []
    return f"Runs {', '.join(words)}, as it was chosen."


def _copy(candidate: Candidate, commission: Commission) -> Path:
    """The model's file under a name that says what it is, and its weight files under theirs."""
    assert candidate.model is not None
    model = open_model(candidate.model.path)
    source = model.files[0]
    passes = "-".join(dict.fromkeys(one.name for one in candidate.passes if one.name != "tune")) or "as-it-is"
    stem = Path(commission.model.partition(":")[0]).stem
    target = commission.folder / f"{stem}.{passes}{source.suffix}"
    if len(model.files) > 1 and model.ref.format != "openvino":
        # The names of weight files are in the model: in a folder of their own they overwrite nobody's, such as the
        # original's, which may be called the same.
        target = commission.folder / target.stem / target.name
        target.parent.mkdir(exist_ok=True)
    for weights in model.files[1:]:
        # OpenVINO looks for weights under the model's own stem, ONNX under the name that is in the model.
        place = weights.relative_to(source.parent)
        copy = target.parent / (place.with_stem(target.stem) if model.ref.format == "openvino" else place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(weights, copy)
    shutil.copyfile(source, target)
    return target


def provenance_of(result: Optimization, candidate: Candidate, parent: ModelRef, *, command: str) -> dict[str, Any]:
    """Where a variant comes from, and what it was found to be worth, JSON-shaped.

    Args:
        parent: the file of the user's that it was made of.
    """
    from edgewise import __version__

    assert candidate.model is not None
    return {
        "schema": SCHEMA,
        "edgewise": __version__,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "variant": candidate.id,
        "model": {"name": candidate.model.name, "sha256": candidate.model.sha256, "format": candidate.model.format},
        "parent": {"name": parent.name, "sha256": parent.sha256, "format": parent.format},
        "passes": [asdict(one) for one in candidate.passes],
        "runtime": asdict(candidate.runtime),
        "calibration": None if result.calibration is None else asdict(result.calibration),
        "data": None if result.data is None else asdict(result.data),
        "task": result.task or None,
        "metrics": {name: number.to_document() for name, number in candidate.metrics.items()},
        "why": candidate.why,
        "conditions": dict(result.conditions),
        "command": command or None,
    }


def _command(commission: Commission, candidate: Candidate, root: ModelRef, *, engine: str) -> str:
    """The line that makes the variant again; `engine` is the original's."""
    own = commission.words[0] if commission.words else commission.model
    if not candidate.passes:  # a file of the user's as it is, in another engine
        given = [path for path in commission.also if open_model(path).ref.sha256 == root.sha256]
        other = given[0] if given else own
        return shlex.join(
            ["edgewise", "compare", f"{own},runtime={engine}", f"{other},runtime={candidate.runtime.name}"]
        )
    also = [word for path in commission.also for word in ("--also", path)]
    words = ["edgewise", "optimize", *(commission.words or (own,)), *also]
    passes = [f"{one.name}:{one.label}" if one.label else one.name for one in candidate.passes]
    words += ["--passes", ",".join(passes)] if passes else []
    spared = list(dict.fromkeys(name for one in candidate.passes for name in one.keep_float))
    for name in spared:
        words += ["--keep-float", name]
    words += ["--aim", commission.aim] if commission.aim != "latency" else []
    engines = ",".join(dict.fromkeys((engine, candidate.runtime.name)))
    words += ["-r", engines, "--seed", str(commission.seed)]
    return shlex.join(words)


def _keep(entry: Entry, result: Optimization, root: ModelRef, save: Callable[[Run], None]) -> StoreError | None:
    """The run with where its model comes from, saved; why it could not be."""
    assert entry.run is not None
    candidate = entry.candidate
    artifact: dict[str, Any] = {
        "kind": "variant",
        "id": candidate.id,
        "parent": root.sha256,
        "passes": [asdict(one) for one in candidate.passes],
        "accepted": candidate.accepted,
        "why": candidate.why,
        "calibration": None if result.calibration is None else result.calibration.sha256,
    }
    if candidate.id == result.chosen:
        artifact["files"] = dict(result.files)
    try:
        save(replace(entry.run, artifacts=(*entry.run.artifacts, artifact)))
    except StoreError as error:
        return error
    return None
