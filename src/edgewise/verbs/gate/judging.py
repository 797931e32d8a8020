"""How `gate` judges both models on data: alike, and as the baseline's stored run was judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.comparing.fairness import differences_of_judging, has_unsure_classes
from edgewise.comparing.gate import BASELINE, CANDIDATE
from edgewise.comparing.jobs import Subject
from edgewise.errors import BadField, BadInput, BadPreparation, EdgewiseError, StoreError
from edgewise.model.identity import open_model
from edgewise.record import Job, Run, Stopping
from edgewise.run.dispatch import Interrupted
from edgewise.text import enumerate_few
from edgewise.verbs.gate.request import GateRequest

if TYPE_CHECKING:
    from edgewise.evaluating.data_options import DataOptions
    from edgewise.evaluating.evaluation import EvaluationPlan
    from edgewise.evaluating.instructions import Instructions
    from edgewise.run.plan import Axes
    from edgewise.store import Store

MOST_SEARCHED = 20
"""Newest runs of the baseline's model among which an evaluation is looked for."""
_MOST_NAMED = 3
"""Classes that a note names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Measures the accuracies of both models.

    Attributes:
        first: the plan of the candidate, with the settings that both share.
        instructions: label of a model → how its samples are prepared and its answers read.
        told: what was not given and where it is from, a line each.
    """

    request: GateRequest
    first: EvaluationPlan
    instructions: Mapping[str, Instructions]
    told: tuple[str, ...]

    def measure(self, save: Callable[[Run], None], jobs: Mapping[str, Job]) -> Mapping[str, Run]:
        """Return the run with the accuracy of each of `jobs`, by label. Raises `BadInput` with the model's name."""
        from edgewise.evaluating.evaluation import run_evaluation

        runs: dict[str, Run] = {}
        for label, job in jobs.items():
            plan = replace(self.first, jobs=(self._job_like(job),), instructions=self.instructions[label])
            try:
                results = run_evaluation(plan, save=save)
            except BadPreparation as error:
                message = f"{label} {job.model.name}: {error.marked.message}"
                raise BadPreparation(message, steps=error.steps, otherwise=error.otherwise) from None
            except BadInput as error:
                raise BadInput(
                    f"{label} {job.model.name}: {error.marked.message}", advice=error.marked.advice
                ) from None
            runs[label] = results.models[0].run
            if results.interrupted:
                raise Interrupted(list(runs.values()))
        return runs

    def _job_like(self, job: Job) -> Job:
        from edgewise.run.plan import Axes

        spec = job.runtime
        axes = Axes(
            runtimes=(f"{spec.name}/{spec.provider}" if spec.provider else spec.name,),
            threads=() if spec.threads is None else (spec.threads,),
            precisions=() if spec.precision is None else (spec.precision,),
            signatures=(job.model.signature,) if job.model.signature else (),
            shapes=self.request.shapes,
        )
        return replace(_plan(self.request, job.model.path, self.first.data, axes).jobs[0], runtime=spec)


def judge_of(
    request: GateRequest, data: str, candidate: Subject, baseline: Subject | None, *, store: Store | str | None
) -> Judge:
    """Return what measures the accuracies. What was not given is that of the baseline's stored evaluation.

    Raises:
        BadInput: unfit data, or, beside the baseline's stored accuracy, settings that are not those of it.
    """
    from edgewise.evaluating.instructions import Instructions, read_flags
    from edgewise.run.plan import Axes
    from edgewise.verbs.evaluate.work import data_options_of

    if isinstance(candidate.thing, Run):
        raise BadField("⟦data⟧ judges models, and the candidate is a stored run", advice="give the model's file")
    options = data_options_of(request, data)
    steps = read_flags(options.prepare) if options.prepare else {}
    given = Instructions(steps=steps, classes=options.classes, origins=("flags",) if steps else ())
    stored = _find_evaluation(baseline, data, store)
    recorded = Instructions() if stored is None else _read_record(stored)
    if request.stored and stored is not None:
        _require_same(request, given, recorded, stored)
    paths = {CANDIDATE: Path(candidate.thing)}
    if baseline is not None:
        paths[BASELINE] = _model_of(baseline, request)
    own = {label: _read_beside(path, options) for label, path in paths.items()}
    others = {label: own[other] for label, other in ((CANDIDATE, BASELINE), (BASELINE, CANDIDATE)) if other in own}
    told: list[str] = []
    instructions = {}
    for label, path in paths.items():
        is_record_first = label == BASELINE and request.instructions is None and _is_run(baseline, stored)
        sources = [recorded, own[label]] if is_record_first else [own[label], recorded]
        instructions[label], borrowed = _fill(given, *sources, others.get(label, Instructions()))
        if borrowed:
            kept = borrowed["steps"] if "steps" in borrowed else next(iter(borrowed.values()))
            what = " and ".join(_NOUNS[field] for field in borrowed)
            told.append(f"{label} {path.name} names no {what} of its own: those of {kept} are taken for it")
    if stored is not None and stored.evaluation is not None:
        told.insert(0, _tell_record(stored, options, recorded, instructions))
        options = _with_record(options, stored, data)
    options = replace(options, task=options.task or instructions[CANDIDATE].task)
    # Data that can't be used are refused before the machine is held.
    first = _plan(request, Path(candidate.thing), options, Axes(shapes=request.shapes))
    options = replace(options, task=None if first.task is None else first.task.name)  # assumed and reported once
    return Judge(
        request=request, first=replace(first, data=options), instructions=instructions, told=tuple(filter(None, told))
    )


_NOUNS = {"steps": "preparation", "classes": "classes", "task_options": "options of the task"}


def _plan(request: GateRequest, model: str | Path, options: DataOptions, axes: Axes) -> EvaluationPlan:
    from edgewise.evaluating.evaluation import plan_evaluation

    stopping = Stopping(timeout_s=request.timeout)
    return plan_evaluation(
        [model], options, axes=axes, stopping=stopping, target=request.target(), latency=False,
        generating=request.scenario_of("generate", from_file=request.input_data is not None),
    )  # fmt: skip


def _is_run(baseline: Subject | None, stored: Run | None) -> bool:
    """Whether the baseline is that stored run itself."""
    return baseline is not None and baseline.thing is stored


def _model_of(baseline: Subject, request: GateRequest) -> Path:
    """Where the baseline's model is, or was."""
    if not isinstance(baseline.thing, Run):
        return Path(baseline.thing)
    return Path(request.baseline_model or baseline.thing.job.model.path or baseline.thing.job.model.file_name)


def _read_beside(path: Path, options: DataOptions) -> Instructions:
    """Return the instructions of the model at `path` without the user's steps; none where it is not there."""
    from edgewise.evaluating.data_options import read_instructions
    from edgewise.evaluating.instructions import Instructions

    if not path.exists():
        return Instructions()
    found = read_instructions(path, options)
    return replace(found, steps={}) if options.prepare else found


def _fill(*sources: Instructions) -> tuple[Instructions, Mapping[str, str]]:
    """Return the first task, steps, options and classes of the sources; and what only the last has, with its origin."""
    from edgewise.evaluating.instructions import Instructions

    found, borrowed = Instructions(), {}
    for source in sources:
        missing = [name for name in _NOUNS if getattr(source, name) and not getattr(found, name)]
        taken = {name: getattr(source, name) for name in missing}
        if "classes" in taken:
            taken["classes_from"] = source.classes_from
        if source is sources[-1]:
            borrowed = {name: source.classes_from or ", ".join(source.origins) for name in missing}
        origins = dict.fromkeys((*found.origins, *source.origins)) if "steps" in taken else found.origins
        found = replace(found, **taken, task=found.task or source.task, origins=tuple(origins))
    return found, borrowed


# --- the baseline's stored evaluation ---


def _find_evaluation(baseline: Subject | None, data: str, store: Store | str | None) -> Run | None:
    """Return the baseline's run where it has an evaluation, else the newest one of its model on the same data.

    Those whose classes were in doubt are left out; where the others were judged differently, none is taken.
    """
    if baseline is None:
        return None
    if isinstance(baseline.thing, Run) and _is_judged(baseline.thing):
        return baseline.thing
    try:
        if isinstance(baseline.thing, Run):
            sha256 = baseline.thing.job.model.sha256
        else:
            sha256 = open_model(Path(baseline.thing)).ref.sha256
        runs = _search(sha256, store) if sha256 else ()
        found = [run for run in runs if _is_judged(run) and _is_of_data(run, data) and not has_unsure_classes(run)]
        differ = any(differences_of_judging(("one", found[0]), ("other", run)) for run in found)
        return found[0] if found and not differ else None
    except EdgewiseError:  # a store or a model that can't be read is reported where it is needed
        return None


def _search(sha256: str, store: Store | str | None) -> Iterator[Run]:
    from edgewise.store import open_store

    opened = open_store(store, create=False) if store is None or isinstance(store, str) else nullcontext(store)
    with opened as runs:
        for row in runs.list(model=sha256, status="done", limit=MOST_SEARCHED):
            with suppress(StoreError):
                yield runs.get(row.id)


def _is_judged(run: Run) -> bool:
    return run.evaluation is not None and run.evaluation.task not in ("agreement", "own")


def _is_of_data(run: Run, data: str) -> bool:
    path = None if run.evaluation is None else run.evaluation.data.path
    return path is not None and path == str(Path(data).resolve())


def _read_record(run: Run) -> Instructions:
    """Return the instructions of an evaluation as its record has them; none where they name files that are not here."""
    from edgewise.evaluating.instructions import Instructions, read_document
    from edgewise.evaluating.run_records import MOST_CLASSES

    assert run.evaluation is not None
    document = {name: value for name, value in run.evaluation.preprocessing.items() if name != "done"}
    if has_unsure_classes(run):
        document.pop("classes", None)
    elif "outputs_of_labels" in run.evaluation.settings and len(run.evaluation.classes) < MOST_CLASSES:
        document.setdefault("classes", list(run.evaluation.classes))
    try:
        found = read_document(document, folder=Path(run.job.model.path or ".").parent, name=f"run {run.id}")
    except BadInput:
        return Instructions()
    return replace(found, task=run.evaluation.task)


def _with_record(options: DataOptions, run: Run, data: str) -> DataOptions:
    """Return `options` with the task and, on the same data, the samples of an evaluation, unless they are given."""
    assert run.evaluation is not None
    options = replace(options, task=options.task or run.evaluation.task)
    if not _is_of_data(run, data) or options.split is not None or options.limit is not None:
        return options
    found = run.evaluation
    return replace(options, split=found.data.split, limit=found.limit, seed=options.seed or found.seed)


def _tell_record(run: Run, options: DataOptions, recorded: Instructions, found: Mapping[str, Instructions]) -> str:
    """Return in words what is taken from the evaluation in `run`; "" where all was given."""
    from edgewise.evaluating.instructions import write_flags

    assert run.evaluation is not None
    words = [] if options.task else [f"task {run.evaluation.task}"]
    used = [name for name in _NOUNS if any(getattr(one, name) is getattr(recorded, name) for one in found.values())]
    if "steps" in used and recorded.steps:
        words.append(", ".join(write_flags(recorded.steps)) or "samples fed as stored")
    if "classes" in used and recorded.classes:
        words.append(f"{len(recorded.classes)} classes ({enumerate_few(recorded.classes, _MOST_NAMED)})")
    if "task_options" in used and recorded.task_options:
        words.append(", ".join(f"{name}={value}" for name, value in recorded.task_options.items()))
    return f"accuracy is judged as in the stored run {run.id}: {'; '.join(words)}" if words else ""


def _require_same(request: GateRequest, given: Instructions, recorded: Instructions, run: Run) -> None:
    """Refuse what differs from how the stored accuracy was judged, which is not judged again. Raises `BadField`."""
    assert run.evaluation is not None
    differing = [
        field
        for field, one, other in (
            ("task", request.task, run.evaluation.task),
            ("prepare", given.steps, recorded.steps),
            ("classes", given.classes, recorded.classes),
        )
        if one and other and one != other
    ]
    if differing:
        names = " and ".join(f"⟦{field}⟧" for field in differing)
        raise BadField(
            f"can't be compared: {names} differ from those of the baseline's stored accuracy (run {run.id})",
            advice=f"leave {names} out to judge as that run did, or leave ⟦stored⟧ out to judge both models again",
        )
