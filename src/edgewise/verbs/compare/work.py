"""Carries out `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgewise.comparing.comparison import ComparisonResult
from edgewise.comparing.fairness import MODEL
from edgewise.comparing.jobs import Subject, runs_among
from edgewise.comparing.reasons import explain_verdicts, graphs_of_two
from edgewise.comparing.rerun import with_reruns
from edgewise.comparing.subjects import ComparisonSettings, compare_matched, compare_subjects
from edgewise.comparing.trial import TrialSettings
from edgewise.device.target import find_target
from edgewise.errors import BadField
from edgewise.folders import absolute_path
from edgewise.run.run_builder import METERS_OFF, is_metered
from edgewise.verbs.compare.request import CompareRequest
from edgewise.verbs.context import Context
from edgewise.verbs.diff.structure import describe_change
from edgewise.verbs.subjects import build_words, pair_runs, read_subjects


def compare(request: CompareRequest, context: Context) -> ComparisonResult:
    """Measure what is to be measured, side by side, and compare the later subjects with the first."""
    find_target(request.device)
    with ExitStack() as stack:
        found = _read_subjects(stack, request, context)
        _check_sensors(found, request)
        _check_budget(found, request)
        subjects = [_labelled(one, request.labels) for one in found]
        sides = _two_sides_of_runs(subjects)
        if sides is not None:
            pairs, left_out = pair_runs(*map(runs_among, sides))
            names = sides[0][0].label, sides[1][0].label
            return compare_matched(pairs, request.criteria(), names=names, notes=left_out)
        with context.saving() as saver:
            settings = ComparisonSettings(
                criteria=request.criteria(),
                trial=TrialSettings(
                    budget_s=request.time_budget,
                    seed=request.seed,
                    until=request.until,
                    rounds=request.rounds,
                ),
                save=saver.save,
                **request.plan_settings(),
                sensors=None if request.meters else METERS_OFF,
                stored=request.stored,
                history=context.history,
                holding=partial(context.measuring, request.device),
            )
            findings = with_reruns(compare_subjects(subjects, settings), context.history)
        typed = {str(absolute_path(one.thing)): str(one.thing) for one in subjects if isinstance(one.thing, Path)}
        return replace(with_changes(findings), save_errors=saver.errors, reasons=explain_verdicts(findings, typed))


def with_changes(findings: ComparisonResult) -> ComparisonResult:
    """Say beside the model that differs what differs in two files of one format, where both are at hand."""
    if len(findings.variants) != 2 or any(variant.run.job.command for variant in findings.variants):
        return findings
    one, two = (variant.run.job.model for variant in findings.variants)
    graphs = graphs_of_two(one, two) if one.format == two.format else []
    told = describe_change(graphs, [Path(ref.path) for ref in (one, two)]) if graphs else ""
    stated = (f"{MODEL} ({told}){line.removeprefix(MODEL)}" if told and line.startswith(f"{MODEL}:") else line
              for line in findings.stated)  # fmt: skip
    return replace(findings, stated=tuple(stated))


def _read_subjects(stack: ExitStack, request: CompareRequest, context: Context) -> list[Subject]:
    """Return the subjects; what functions make exists as long as `stack`."""
    built = build_words(
        stack, request.subjects, shapes=request.shapes, runtimes=request.runtimes, target=request.target()
    )
    words = [(index, word) for index, each in enumerate(built) for word, _ in each]
    files = {file.path: file for each in built for _, file in each if file is not None}
    found = read_subjects(
        [word for _, word in words],
        store=context.store,
        runs=context.runs,
        arguments=[index for index, _ in words],
    )
    return [
        replace(one, thing=files[one.thing]) if isinstance(one.thing, Path) and one.thing in files else one
        for one in found
    ]


def _check_sensors(subjects: Sequence[Subject], request: CompareRequest) -> None:
    """Raise `BadField` where a metric is asked for that only sensors measure, and they are not read."""
    wanted = set(filter(is_metered, (*request.metrics, request.until or "")))
    if wanted and not request.meters and len(runs_among(subjects)) < len(subjects):
        raise BadField(f"{', '.join(sorted(wanted))}: sensors are not read", advice="add ⟦meters=True⟧")


def _check_budget(subjects: Sequence[Subject], request: CompareRequest) -> None:
    """Raise `BadField` where the time of measuring is limited, and nothing is measured."""
    given = {"time_budget": request.time_budget, "rounds": request.rounds}
    set_ones = [f"⟦{name}⟧" for name, value in given.items() if value is not None]
    if set_ones and len(runs_among(subjects)) == len(subjects):
        raise BadField(
            f"stored runs are compared as they are: {' and '.join(set_ones)} would measure",
            advice="leave it out, or give the models in place of the runs",
        )


def _labelled(subject: Subject, labels: Sequence[str | None]) -> Subject:
    given = labels[subject.argument] if subject.argument < len(labels) else None
    return subject if given is None else replace(subject, label=given)


def _two_sides_of_runs(subjects: Sequence[Subject]) -> tuple[list[Subject], list[Subject]] | None:
    """Return the runs of two arguments of which one names several: they are matched, like with like."""
    arguments = sorted({subject.argument for subject in subjects})
    if len(arguments) != 2 or len(subjects) == 2 or len(runs_among(subjects)) < len(subjects):
        return None
    first, second = ([one for one in subjects if one.argument == argument] for argument in arguments)
    return first, second
