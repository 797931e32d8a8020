"""Carries out `gate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from edgewise.comparing.gate import GateResult
from edgewise.comparing.gate_execution import Gate, GateSettings, run_gate
from edgewise.comparing.jobs import JobSettings
from edgewise.device.target import check_device
from edgewise.errors import BadInput
from edgewise.record import Run
from edgewise.run.plan import precision_word
from edgewise.service.context import Context
from edgewise.service.requests import GateRequest
from edgewise.service.subjects import ParsedSubject, pair_runs, read_subjects
from edgewise.text import one_line

MOST_LISTED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The candidate, the baseline if there is one, and the settings of what is measured.

    Attributes:
        beside: folder of the file that the baseline was read from, where it was.
        notes: what was passed over.
    """

    candidate: Path | Run
    settings: JobSettings
    baseline: Path | Run | None = None
    baseline_settings: JobSettings
    beside: Path | None = None
    notes: tuple[str, ...] = ()


def gate(request: GateRequest, context: Context) -> GateResult:
    """Measure what is to be measured, and check every limit.

    The verdict is what a pipeline waits for: a store that fails changes nothing about it.
    """
    check_device(request.device)
    sides = choose_sides(request, context)
    with context.saving() as save:
        result = run_gate(
            Gate(
                requirements=request.requirements(),
                candidate_settings=sides.settings,
                baseline_settings=sides.baseline_settings,
                settings=GateSettings(
                    policy=request.on_inconclusive,
                    time_budget_s=request.time_budget,
                    stored=request.stored,
                    baseline_model=None if request.baseline_model is None else Path(request.baseline_model),
                    beside=sides.beside,
                    duet=request.duet,
                    seed=request.seed or 0,
                ),
                save=save,
                history=context.history,
            ),
            sides.candidate,
            sides.baseline,
        )
    return replace(result, notes=(*sides.notes, *result.notes))


def _settings_of(request: GateRequest) -> JobSettings:
    limited = request.memory_limit is not None or request.device != "local"
    return JobSettings(
        runtime=request.runtime,
        provider=request.provider,
        threads=request.threads,
        batch=request.batch,
        precision=None if request.precision is None else precision_word(request.precision),
        shapes=request.shapes,
        input_data=None if request.input_data is None else Path(request.input_data),
        seed=request.seed,
        timeout_s=request.timeout,
        target=request.target() if limited else None,
    )


def choose_sides(request: GateRequest, context: Context) -> Sides:
    """What candidate and baseline name. Where one names several runs, settings that were given choose among them.

    Raises:
        BadInput: a word that names nothing, or still several.
        StoreError: a store that can't be read.
    """
    candidate, baseline, asked = request.candidate, request.baseline, _settings_of(request)

    def read(word: str | None) -> list[ParsedSubject]:
        return [] if word is None else read_subjects([word], store=context.store, runs=context.runs)

    candidates, baselines = read(candidate), read(baseline)
    first, second = _narrow(baselines, asked), _narrow(candidates, asked)
    notes: tuple[str, ...] = ()
    runs = [[one.run for one in side if one.run is not None] for side in (first, second)]
    if len(runs[0]) + len(runs[1]) > 2 and runs[0] and runs[1]:
        pairs, left_out = pair_runs(runs[0], runs[1])
        notes = tuple(left_out)
        first = [one for one in first if one.run in [a for a, _ in pairs]]
        second = [one for one in second if one.run in [b for _, b in pairs]]
    elif len(first) > 1 and second and second[0].path is not None:
        named = [one for one in first if one.run is not None and one.run.job.model.name == second[0].path.name]
        first = named or first
    ours = _only(second, candidate)
    theirs = _only(first, baseline) if baseline is not None else None
    return Sides(
        candidate=_thing(ours),
        settings=_with_settings(asked, ours),
        baseline=None if theirs is None else _thing(theirs),
        baseline_settings=asked if theirs is None else _with_settings(asked, theirs),
        beside=None if theirs is None else _folder_of(theirs),
        notes=notes,
    )


def _narrow(subjects: list[ParsedSubject], asked: JobSettings) -> list[ParsedSubject]:
    """The runs with the given settings, where there are several; else all."""
    if len(subjects) < 2:
        return subjects
    name, _, provider = (asked.runtime or "").partition("/")
    wanted = {
        "name": name or None,
        "provider": provider or asked.provider,
        "threads": asked.threads,
        "precision": asked.precision,
    }
    return [
        one
        for one in subjects
        if one.run is not None
        and all(value in (None, getattr(one.run.job.runtime, key)) for key, value in wanted.items())
        and asked.batch in (None, one.run.job.workload.batch)
    ]


def _only(subjects: list[ParsedSubject], word: str) -> ParsedSubject:
    if not subjects:
        raise BadInput(f"{word!r} has no run with these settings", advice="see 'edgewise runs list'")
    if len(subjects) > 1:
        runs = [one_line(one.run.job.label) for one in subjects[:MOST_LISTED] if one.run is not None]
        more = ", …" if len(subjects) > MOST_LISTED else ""
        raise BadInput(
            f"{word!r} names {len(subjects)} runs and a gate takes one: {', '.join(runs)}{more}",
            advice="choose with -r, --threads, --batch or --precision, or name a run by its id",
        )
    return subjects[0]


def _thing(subject: ParsedSubject) -> Path | Run:
    found = subject.path if subject.run is None else subject.run
    assert found is not None
    return found


def _with_settings(asked: JobSettings, subject: ParsedSubject) -> JobSettings:
    """`asked`, overridden by the settings behind the subject's comma."""
    settings = {str(key): value for key, value in subject.settings.items()}
    return replace(asked, **settings)  # type: ignore[arg-type]  # `read_subjects` has checked names and types


def _folder_of(subject: ParsedSubject) -> Path | None:
    for word in (subject.word, subject.word.partition("=")[2]):
        if subject.run is not None and word and Path(word).is_file():
            return Path(word).parent
    return None
