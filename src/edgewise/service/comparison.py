"""Carries out `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from edgewise.comparing.comparison import ComparisonResult
from edgewise.comparing.subjects import ComparisonSettings, Conditions, Subject, compare_matched, compare_subjects
from edgewise.comparing.trial import TrialSettings
from edgewise.device.target import check_device
from edgewise.errors import BadField
from edgewise.record import Run
from edgewise.run.run_builder import METERED, METERS_OFF
from edgewise.service.context import Context
from edgewise.service.requests import CompareRequest
from edgewise.service.subjects import ParsedSubject, build_words, pair_runs, read_subjects


def compare(request: CompareRequest, context: Context) -> ComparisonResult:
    """Measure what is to be measured, side by side, and compare the later subjects with the first."""
    check_device(request.device)
    with ExitStack() as stack:
        words = build_words(stack, request.subjects, shapes=request.shapes)
        subjects = read_subjects(words, store=context.store, runs=context.runs)
        _check_sensors(subjects, request)
        names = [_name_of(subject, request.labels) for subject in subjects]
        sides = _two_sides_of_runs(subjects)
        if sides is not None:
            pairs, left_out = pair_runs(*sides)
            first, second = (
                next((name for subject, name in zip(subjects, names, strict=True) if subject.argument == side), None)
                for side in sorted({subject.argument for subject in subjects})
            )
            return compare_matched(pairs, request.criteria(), names=(first, second), notes=left_out)
        with context.saving() as save:
            return compare_subjects(
                [_subject(subject, name) for subject, name in zip(subjects, names, strict=True)],
                ComparisonSettings(
                    criteria=request.criteria(),
                    trial=TrialSettings(
                        budget_s=request.time_budget,
                        duet=request.duet,
                        seed=request.seed,
                        until=request.until,
                        rounds=request.rounds,
                    ),
                    conditions=Conditions(
                        axes=request.axes(),
                        scenario=request.scenario_spec(),
                        stopping=request.stopping(),
                        target=request.target(),
                        seed=request.seed,
                        input_data=None if request.input_data is None else Path(request.input_data),
                    ),
                    save=save,
                    sensors=None if request.meters else METERS_OFF,
                    stored=request.stored,
                    history=context.history,
                ),
            )


def _check_sensors(subjects: Sequence[ParsedSubject], request: CompareRequest) -> None:
    """Raises `BadField` where a metric is asked for that only sensors measure, and they are not read."""
    wanted = {*request.metrics, *([request.until] if request.until else [])} & set(METERED)
    if wanted and not request.meters and any(subject.run is None for subject in subjects):
        raise BadField(f"{', '.join(sorted(wanted))}: sensors are not read", advice="add {meters=True}")


def _name_of(subject: ParsedSubject, labels: Sequence[str | None]) -> str | None:
    given = labels[subject.argument] if subject.argument < len(labels) else None
    return given if given is not None else subject.label


def _subject(subject: ParsedSubject, name: str | None) -> Subject:
    thing = subject.path if subject.run is None else subject.run
    assert thing is not None
    return Subject(thing=thing, label=name, settings=subject.settings)


def _two_sides_of_runs(subjects: Sequence[ParsedSubject]) -> tuple[list[Run], list[Run]] | None:
    """The runs of two arguments of which one names several: they are matched, like with like."""
    words = {subject.argument for subject in subjects}
    if len(words) != 2 or len(subjects) == 2 or any(subject.run is None for subject in subjects):
        return None
    first, second = sorted(words)
    sides = [[one.run for one in subjects if one.argument == word and one.run is not None] for word in (first, second)]
    return sides[0], sides[1]
