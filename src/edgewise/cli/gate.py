"""``edgewise gate``: does a candidate meet its limits against a baseline? Made for continuous integration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgewise.cli.options import (
    MEASURE,
    OUTPUT,
    VARY,
    AsJson,
    Details,
    Device,
    Force,
    InputData,
    MemoryLimit,
    NoStore,
    Quiet,
    Shapes,
    StoreUrl,
    Timeout,
)
from edgewise.errors import BadInput
from edgewise.text import one_line

if TYPE_CHECKING:
    from edgewise.cli.subjects import Subject
    from edgewise.comparing.gate import Outcome
    from edgewise.comparing.gating import Ways
    from edgewise.comparing.like_for_like import Asked
    from edgewise.comparing.requirement import Requirement
    from edgewise.record import Run

LIMITS = "What must hold"
LONGEST_S = 24 * 3600.0
MOST_LISTED = 6


def command(
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="A model, a stored run or an exported file")],
    baseline: Annotated[
        str | None,
        typer.Option(metavar="B", help="A stored run or its tag, an exported file, or a model", rich_help_panel=LIMITS),
    ] = None,
    max_regression: Annotated[
        list[str] | None,
        typer.Option(
            metavar="3%",
            help="How much worse than the baseline; also latency=3%,memory_peak=5%",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(metavar="latency=5ms,…", help="Limits of its own; also accuracy_drop=1pt", rich_help_panel=LIMITS),
    ] = None,
    on_inconclusive: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="pass, fail, or retry: measure again, longer, then fail",
            rich_help_panel=LIMITS,
        ),
    ] = "retry",
    baseline_model: Annotated[
        Path | None,
        typer.Option(metavar="F", help="The baseline's model, to measure it again", rich_help_panel=MEASURE),
    ] = None,
    stored: Annotated[
        bool,
        typer.Option("--stored", help="Don't measure the baseline again", rich_help_panel=MEASURE),
    ] = False,
    time_budget: Annotated[
        str,
        typer.Option(metavar="T", help="Measure no longer; each retry twice as long", rich_help_panel=MEASURE),
    ] = "60s",
    duet: Annotated[
        bool, typer.Option("--duet", help="Measure both at once, on cores of their own", rich_help_panel=MEASURE)
    ] = False,
    runtime: Annotated[
        str | None,
        typer.Option("-r", "--runtime", metavar="NAME", help="A runtime, or runtime/provider", rich_help_panel=VARY),
    ] = None,
    device: Device = "local",
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="A provider", rich_help_panel=VARY)] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads (default: a baseline run's, else 1)", rich_help_panel=VARY)
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(metavar="N", help="Batch size (default: a baseline run's, else 1)", rich_help_panel=VARY),
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="f32, bf16 or f16", rich_help_panel=VARY)] = None,
    shape: Shapes = None,
    input_data: InputData = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the random inputs and of the order", rich_help_panel=MEASURE)
    ] = None,
    timeout: Timeout = "120s",
    memory_limit: MemoryLimit = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="F",
            help="Also write .xml (JUnit), .md (a comment), .json or .html; repeatable",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    details: Details = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    store: StoreUrl = None,
    no_store: NoStore = False,
) -> int:
    """Check a candidate against limits: exit 0 if it meets them, 5 if not, 4 if that could not be measured."""
    from edgewise.cli.console import write_files
    from edgewise.cli.settings import check_outputs, seconds, size, split_shapes, target
    from edgewise.comparing.gate import POLICIES
    from edgewise.comparing.gating import Ways
    from edgewise.comparing.like_for_like import Asked
    from edgewise.comparing.requirement import parse_requirements
    from edgewise.report.gate import check_gate_target, write_gate
    from edgewise.run.plan import precision_word

    requirements = parse_requirements(max_regression or (), budget or ())
    policy = next((word for word in POLICIES if word == on_inconclusive), None)
    if policy is None:
        raise BadInput(f"--on-inconclusive {on_inconclusive!r} is unknown", advice="pass, fail or retry")
    check_outputs(output or (), check_gate_target, overwrite=force)
    limited = memory_limit is not None or device != "local"
    asked = Asked(
        runtime=runtime,
        provider=provider,
        threads=threads,
        batch=batch,
        precision=None if precision is None else precision_word(precision),
        shapes=split_shapes(shape),
        input_data=input_data,
        seed=seed,
        timeout_s=seconds(timeout),
        target=target(device, memory_limit=size(memory_limit)) if limited else None,
    )
    ways = Ways(
        policy=policy,
        time_budget_s=_read_time(time_budget),
        stored=stored,
        baseline_model=baseline_model,
        duet=duet,
        seed=seed or 0,
    )
    parties = choose_parties(candidate, baseline, asked=asked, store=store)
    outcome = _run(requirements, parties, ways, keep=not no_store, store=store, quiet=quiet)
    _show(outcome, as_json=as_json, details=details)
    lost = write_files(output or (), lambda path: write_gate(outcome, path, overwrite=force))
    return outcome.exit_code or lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """Who meets whom: one candidate, at most one baseline, and the settings for what is measured.

    Attributes:
        beside: folder of the file that the baseline was read from, where it was.
        notes: what was passed over.
    """

    candidate: Path | Run
    asked: Asked
    baseline: Path | Run | None = None
    asked_baseline: Asked
    beside: Path | None = None
    notes: tuple[str, ...] = ()


def choose_parties(candidate: str, baseline: str | None, *, asked: Asked, store: str | None) -> Parties:
    """What the two words name. Where one names several runs, settings that were asked for choose among them.

    Raises:
        BadInput: a word that names nothing, or still several.
        StoreError: a store that can't be read.
    """
    from edgewise.cli.subjects import pair_runs, read_subjects

    candidates = read_subjects([candidate], store=store)
    baselines = read_subjects([baseline], store=store) if baseline is not None else []
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
    return Parties(
        candidate=_thing(ours),
        asked=_with_settings(asked, ours),
        baseline=None if theirs is None else _thing(theirs),
        asked_baseline=asked if theirs is None else _with_settings(asked, theirs),
        beside=None if theirs is None else _folder_of(theirs),
        notes=notes,
    )


def _narrow(subjects: list[Subject], asked: Asked) -> list[Subject]:
    """Of several runs those with the settings that were asked for; all where there are not several."""
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


def _only(subjects: list[Subject], word: str) -> Subject:
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


def _thing(subject: Subject) -> Path | Run:
    found = subject.path if subject.run is None else subject.run
    assert found is not None
    return found


def _with_settings(asked: Asked, subject: Subject) -> Asked:
    """`asked`, with what stands behind the commas of the word, which is the more particular."""
    settings = {str(key): value for key, value in subject.settings.items()}
    return replace(asked, **settings)  # type: ignore[arg-type]  # `read_subjects` has checked names and types


def _folder_of(subject: Subject) -> Path | None:
    for word in (subject.word, subject.word.partition("=")[2]):
        if subject.run is not None and word and Path(word).is_file():
            return Path(word).parent
    return None


def _run(
    requirements: tuple[Requirement, ...], parties: Parties, ways: Ways, *, keep: bool, store: str | None, quiet: bool
) -> Outcome:
    """Measure what is to be measured, with progress on standard error, saving as it goes."""
    from edgewise.cli.console import err
    from edgewise.cli.measuring import Keeper
    from edgewise.cli.progress import ProgressLines
    from edgewise.comparing.gating import Gate, run_gate
    from edgewise.run.variation import stored_history

    # The verdict is what a pipeline waits for: a store that fails is said, and changes nothing about it.
    with Keeper(store, keep=keep) as keeper, ProgressLines(err(), quiet=quiet) as lines:
        gate = Gate(
            requirements=requirements,
            asked=parties.asked,
            asked_baseline=parties.asked_baseline,
            ways=replace(ways, beside=parties.beside),
            save=keeper.save,
            observer=lines,
            history=stored_history(store),
        )
        outcome = run_gate(gate, parties.candidate, parties.baseline)
    return replace(outcome, notes=(*parties.notes, *outcome.notes))


def _show(outcome: Outcome, *, as_json: bool, details: bool = False) -> None:
    from edgewise.cli.console import out, print_json

    if as_json:
        print_json(outcome.to_document())
        return
    from edgewise.report.gate import print_gate

    print_gate(outcome, out(), details=details)


def _read_time(text: str) -> float:
    from edgewise.units import parse_duration

    found = parse_duration(text)
    if not 0.0 < found <= LONGEST_S:
        raise BadInput(f"--time-budget {text} makes no sense", advice="a time above 0 and up to a day, such as 60s")
    return found
