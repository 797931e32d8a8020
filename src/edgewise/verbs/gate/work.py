"""Carries out `gate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgewise.comparing.gate import GateResult
from edgewise.comparing.gate_execution import Gate, run_gate
from edgewise.comparing.jobs import JobSettings, Subject, runs_among
from edgewise.comparing.reasons import explain_verdicts
from edgewise.comparing.rerun import with_reruns
from edgewise.comparing.session_values import OF_LABELS
from edgewise.device.target import find_target
from edgewise.errors import BadField, BadInput
from edgewise.folders import absolute_path
from edgewise.record import Run
from edgewise.run.plan import precision_word
from edgewise.text import enumerate_few, one_line
from edgewise.verbs.context import Context
from edgewise.verbs.gate.judging import judge_of
from edgewise.verbs.gate.request import GateRequest
from edgewise.verbs.subjects import pair_runs, read_subjects

MOST_LISTED = 6


def gate(request: GateRequest, context: Context) -> GateResult:
    """Measure what is to be measured, and check every limit.

    The verdict is what a pipeline waits for: a store that fails changes nothing about it.
    """
    find_target(request.device)
    given = _settings_of(request)
    candidate, baseline, notes = choose_sides(request, given, context)
    _require_data(request, candidate)
    judge = None
    if request.data is not None:
        judge = judge_of(request, request.data, candidate, baseline, store=context.store)
    with context.saving() as saver:
        result = run_gate(
            Gate(
                requirements=request.requirements(),
                given=given,
                policy=request.on_inconclusive,
                time_budget_s=request.time_budget,
                stored=request.stored,
                baseline_model=None if request.baseline_model is None else Path(request.baseline_model),
                seed=request.seed or 0,
                save=saver.save,
                history=context.history,
                holding=partial(context.measuring, request.device),
                accuracies=None if judge is None else partial(judge.measure, saver.save),
            ),
            candidate,
            baseline,
        )
    findings = with_reruns(result.findings, context.history)
    given_files = (request.baseline, request.candidate, request.baseline_model)
    typed = {str(absolute_path(Path(word))): word for word in given_files if word is not None}
    findings = replace(findings, save_errors=saver.errors, reasons=explain_verdicts(findings, typed))
    judging = (*(() if judge is None else judge.told), *result.judging)
    return replace(result, notes=(*notes, *result.notes), judging=judging, findings=findings)


def _require_data(request: GateRequest, candidate: Subject) -> None:
    """Refuse a limit on an accuracy that measuring times alone can't check. Raises `BadField`."""
    missing = [one.word for one in request.requirements() if one.metric in OF_LABELS]
    if missing and request.data is None and not isinstance(candidate.thing, Run):
        raise BadField(
            f"{', '.join(missing)} needs labelled samples, on which the models are judged",
            advice="give them: ⟦data⟧; without them leave this limit out",
        )


def _settings_of(request: GateRequest) -> JobSettings:
    limited = request.memory_limit is not None or request.device != "local"
    return JobSettings(
        runtime=request.runtime,
        provider=request.provider,
        threads=request.threads,
        batch=request.batch,
        precision=None if request.precision is None else precision_word(request.precision),
        signature=request.signature,
        shapes=request.shapes,
        scenario=request.scenario_spec(),
        input_data=None if request.input_data is None else Path(request.input_data),
        seed=request.seed,
        timeout_s=request.timeout,
        target=request.target() if limited else None,
    )


def choose_sides(
    request: GateRequest, given: JobSettings, context: Context
) -> tuple[Subject, Subject | None, Sequence[str]]:
    """Return the candidate, the baseline if there is one, and notes on runs that were passed over.

    Args:
        given: settings that choose among the runs of an argument that names several.

    Raises:
        BadInput: a word that names nothing, or still several.
        StoreError: a store that can't be read.
    """

    def read(word: str | None) -> list[Subject]:
        found = [] if word is None else read_subjects([word], store=context.store, runs=context.runs)
        return found if len(found) < 2 else [one for one in found if _has_settings(one, given)]

    candidates, baselines = read(request.candidate), read(request.baseline)
    notes: Sequence[str] = ()
    first, second = runs_among(baselines), runs_among(candidates)
    if len(first) + len(second) > 2 and first and second:
        pairs, notes = pair_runs(first, second)
        baselines = [one for one in baselines if one.thing in [before for before, _ in pairs]]
        candidates = [one for one in candidates if one.thing in [after for _, after in pairs]]
    elif len(first) > 1 and candidates and isinstance(candidates[0].thing, Path):
        name = candidates[0].thing.name
        baselines = [
            one for one in baselines if name in {run.job.model.file_name for run in runs_among([one])}
        ] or baselines
    candidate = _only(candidates, request.candidate)
    return candidate, None if request.baseline is None else _only(baselines, request.baseline), notes


def _has_settings(subject: Subject, given: JobSettings) -> bool:
    """Whether a run was measured with the settings that are given."""
    if not isinstance(subject.thing, Run):
        return False
    job = subject.thing.job
    name, _, provider = (given.runtime or "").partition("/")
    asked_and_had = (
        (name or None, job.runtime.name),
        (provider or given.provider, job.runtime.provider),
        (given.threads, job.runtime.threads),
        (given.precision, job.runtime.precision),
        (given.signature, job.model.signature or next(iter(job.model.signatures), None)),
        (given.batch, job.workload.batch),
    )
    return all(asked in (None, had) for asked, had in asked_and_had)


def _only(subjects: list[Subject], word: str) -> Subject:
    if not subjects:
        raise BadInput(f"{word!r} has no run with these settings", advice="see 'edgewise runs list'")
    if len(subjects) > 1:
        runs = enumerate_few([one_line(run.job.label) for run in runs_among(subjects)], MOST_LISTED)
        raise BadInput(
            f"{word!r} names {len(subjects)} runs and a gate takes one: {runs}",
            advice="choose with ⟦runtime⟧, ⟦threads⟧, ⟦batch⟧, ⟦precision⟧ or ⟦signature⟧, or name a run by its id",
        )
    return subjects[0]
