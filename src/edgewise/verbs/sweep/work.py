"""Carries out the cells of a suite that are not finished, one after the other."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from edgewise.clock import now
from edgewise.comparing.finals import MOST, SWEPT_S
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, EdgewiseError, StoreError
from edgewise.grouping import by_key
from edgewise.progress import (
    Event,
    JobStarted,
    LogLine,
    RunFinished,
    SamplesStarted,
    StageStarted,
    emit,
    reporting_changed,
)
from edgewise.record import Run
from edgewise.store import open_store
from edgewise.text import enumerate_few, listing
from edgewise.units import long_time
from edgewise.verbs.measuring import take_turns
from edgewise.verbs.outcome import PREFIX, Outcome, outcome_of, read_outcome
from edgewise.verbs.sweep.cells import ZOO, Cell, Model, Requests, cells_of, unreadable, versions_of_engines
from edgewise.verbs.sweep.ledger import RESULTS, Ledger
from edgewise.verbs.sweep.result import SweepResult, with_name_of_model
from edgewise.verbs.sweep.suite import read_suite
from edgewise.verbs.verb import carry_out, words_of

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.request import Request
    from edgewise.verbs.sweep.request import SweepRequest


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cells that a request asks for.

    Attributes:
        keys: of each cell; "" where its model can't be read, which `unread` has the reason of.
        ledger: what earlier sweeps of this folder left.
        collected: outcomes of cells that a scheduler carried out, which the ledger's file does not have yet.
        not_counted: results of a scheduler that are of no cell as it is now, a line per reason.
        waiting: positions of the cells that are carried out now.
        left_out: why cells of the suite are no cells here → how many.
    """

    folder: Path
    requests: Requests
    cells: Sequence[Cell]
    keys: Sequence[str]
    unread: dict[int, EdgewiseError] = field(default_factory=dict)
    ledger: Ledger
    collected: Sequence[Outcome]
    not_counted: Sequence[str]
    waiting: Sequence[int]
    left_out: Mapping[str, int]
    limits: Mapping[str, float]
    command: str
    only: Sequence[str]

    def name_of(self, at: int) -> str:
        """Return what the ledger calls a cell: its key, or its name where its model can't be read."""
        return self.keys[at] or f"? {self.cells[at].name}"

    def file_name(self, at: int) -> str:
        """Return what names of files call a cell, the same on every machine."""
        return self.keys[at] or hashlib.sha256(self.cells[at].name.encode()).hexdigest()[:16]

    def request(self, at: int) -> Request:
        """Return what carries a cell out. Raises as `Requests.request`."""
        request = self.requests.request(self.cells[at])
        if getattr(request, "folder", "") is not None:
            return request
        # Cells of one model would share what `optimize` writes.
        return request.model_copy(update={"folder": str(self.folder / "variants" / self.file_name(at))})

    def require_unchanged(self, at: int, model: Model) -> None:
        """Raise `BadInput` where a cell is another one now that its model is `model`."""
        cell = self.cells[at]
        if self.requests.key(cell, model) != self.keys[at]:
            raise BadInput(f"{cell.model} has changed since the sweep began", advice="run the same sweep again")

    def outcome(self, at: int) -> Outcome | None:
        """How a cell ended the last time; None where it never did."""
        return self.ledger.outcomes.get(self.name_of(at))

    def cells_s(self, left: Sequence[int]) -> float | None:
        """How long the cells at the positions in `left` take, s, without waiting for busy devices; None where no cell
        of this folder is finished.

        Each as long as the finished ones of its model on average, or as all finished ones where its model has none.
        """
        ended = {name: one.seconds for name, one in self.ledger.outcomes.items() if one.status == "done"}
        if not ended:
            return None
        own: dict[str, list[float]] = {}
        for at, cell in enumerate(self.cells):
            if (seconds := ended.get(self.name_of(at))) is not None:
                own.setdefault(cell.model, []).append(seconds)
        every = fmean(ended.values())
        return sum(fmean(own.get(self.cells[at].model, [every])) for at in left)

    def time_words(self, left: Sequence[int]) -> str:
        """``"about 2 min for the cells (by 3 finished) and up to 4 min in turns"``: how long all that is left takes."""
        cells_s, ended = self.cells_s(left), sum(one.status == "done" for one in self.ledger.outcomes.values())
        turns = f"up to {long_time(self.turns_s)} in turns" if self.turns_s else ""
        if not left:
            return turns or "0 s"
        if cells_s is None:
            return f"not known before one is finished{f', then {turns}' if turns else ''}"
        return f"about {long_time(cells_s)} for the cells (by {ended} finished){f' and {turns}' if turns else ''}"

    @cached_property
    def turns_s(self) -> float:
        """How long the turns after the cells take at most, s, as far as they are on this machine."""
        if self.requests.verb.name != "bench" or self.requests.in_lab:
            return 0.0
        waiting = {self.cells[at].model for at in self.waiting}
        places: dict[str, set[Cell]] = {}
        for cell in self.cells:
            if cell.device == LOCAL and _has_turns(self.requests.check(cell)):
                places.setdefault(cell.model, set()).add(replace(cell, repeat=0))
        known = _result(self, self.waiting).finals(only=lambda model: model not in waiting)
        counts = [len(few) for _, _, finals in known for few in finals]
        counts += [min(len(own), MOST) for model, own in places.items() if model in waiting and len(own) > 1]
        return SWEPT_S * sum(counts)


def _has_turns(request: Request) -> bool:
    """Whether what ``bench`` measures may be measured in turns as well."""
    return getattr(request, "scenario", "") != "cold-start" and getattr(request, "sustained", None) is None


def plan_of(request: SweepRequest, store: str | None = None) -> Plan:
    """Read the suite and check all its cells. Raises `BadInput`, which names the line."""
    path = Path(request.suite)
    file = read_suite(path)
    limits = file.limits
    folder = Path(request.folder) if request.folder else path.with_name(f"{path.stem}-results")
    requests = Requests(file=file, store=store, folder=folder, in_lab=request.lab)
    cells = [cell for cell in cells_of(file, request.most_cells) if _is_wanted(cell, request.only)]
    if not cells:
        raise BadInput(
            f"no cell of {path.name} matches {', '.join(request.only)}",
            advice=f"'edgewise sweep {request.suite} --dry-run' lists the cells",
        )
    left_out = Counter[str]()
    kept: list[Cell] = []
    keys: list[str] = []
    unread: dict[int, EdgewiseError] = {}
    for cell in cells:
        requests.check(cell)
    of_model = by_key((cell.model, cell) for cell in cells)
    models = {name: _read_model(requests, name, own) for name, own in of_model.items()}
    for cell in cells:
        model = models[cell.model]
        if isinstance(model, EdgewiseError):
            unread[len(kept)] = model
        elif why := unreadable(cell.runtime, model.format):
            left_out[why] += 1
            continue
        kept.append(cell)
        keys.append("" if isinstance(model, EdgewiseError) else requests.key(cell, model))
    if not kept:
        raise BadInput(f"no cell of {path.name} can be measured: {_counted(left_out)}", advice="name other runtimes")
    ledger = Ledger(folder)
    keyed = {key: cell for key, cell in zip(keys, kept, strict=True) if key}
    collected, not_counted = _collect(folder, keyed, models, ledger, is_whole=not request.only)
    ledger.outcomes |= {one.key: one for one in collected}
    ended = {key for key, one in ledger.outcomes.items() if one.status in ("done", "refused")}
    waiting = [at for at, key in enumerate(keys) if request.again or key not in ended]
    return Plan(
        folder=folder, requests=requests, cells=kept, keys=keys, unread=unread, ledger=ledger, collected=collected,
        not_counted=not_counted, waiting=waiting, left_out=left_out, limits=limits,
        command=shlex.join(["edgewise", "sweep", *words_of(request, only=("suite", "folder", "lab", "most_cells"))]),
        only=request.only,
    )  # fmt: skip


def _collect(
    folder: Path,
    cells: Mapping[str, Cell],
    models: Mapping[str, Model | EdgewiseError],
    ledger: Ledger,
    *,
    is_whole: bool,
) -> tuple[list[Outcome], list[str]]:
    """Return the outcomes in ``results`` of `cells` that are newer than those of `ledger`, and why others don't count.

    Args:
        cells: by their keys.
        is_whole: whether these are all cells of the suite.
    """
    found: dict[str, Outcome] = {}
    left: dict[str, list[str]] = {}
    for file in sorted((folder / RESULTS).rglob(f"{PREFIX}*.json")):
        key = file.stem.removeprefix(PREFIX)
        if key not in cells and not is_whole:
            continue
        outcome = read_outcome(file)
        if outcome is None:
            left.setdefault("the file is damaged", []).append(str(file))
        elif why := _why_not_counted(outcome, cells.get(key), models):
            left.setdefault(why, []).append(str(file))
        elif (earlier := found.get(key) or ledger.outcomes.get(key)) is None or earlier.finished < outcome.finished:
            found[key] = replace(outcome, key=key, cell=cells[key].name)
    return list(found.values()), [f"{enumerate_few(files, 2)}: {why}" for why, files in left.items()]


def _why_not_counted(outcome: Outcome, cell: Cell | None, models: Mapping[str, Model | EdgewiseError]) -> str:
    """Return why `outcome` is not that of `cell`, the one with its key; "" if it is."""
    ours = [models[cell.model]] if cell else list(models.values())
    digests = [one.identity for one in ours if isinstance(one, Model) and one.is_file]
    other = {str(row.get("model")) for row in outcome.rows if row.get("sha256") not in (None, *digests)}
    if other and len(digests) == len(ours):
        return f"no model of the suite has the content that {listing(sorted(other))} had"
    if cell:
        return ""
    for row in outcome.rows:
        engine, there = str(row.get("runtime") or ""), row.get("version")
        here = versions_of_engines(engine).get(engine) if row.get("device") == LOCAL else None
        if there and here and there != here:
            return f"measured by {engine} {there}; {here} is installed here"
    return "the suite, its options, an engine or edgewise has changed since"


def _counted(left_out: Mapping[str, int]) -> str:
    """``"litert does not read onnx (2 cells), …"``."""
    return ", ".join(f"{why} ({count} cell{'s' if count > 1 else ''})" for why, count in left_out.items())


def _read_model(requests: Requests, name: str, cells: Sequence[Cell]) -> Model | EdgewiseError:
    try:
        requests.check_room(name, cells)
        return requests.model(name)
    except EdgewiseError as error:
        return error


def _is_wanted(cell: Cell, patterns: Sequence[str]) -> bool:
    return not patterns or any(one in cell.name or fnmatchcase(cell.name, one) for one in patterns)


def sweep(request: SweepRequest, context: Context) -> SweepResult:
    """Carry out what is not finished yet; every cell that ends is written down at once.

    Raises `BadInput` for the suite, and `StoreError` where an outcome can't be written.
    """
    store = context.store if isinstance(context.store, str) else None
    plan = plan_of(request, store)
    if request.emit:
        from edgewise.verbs.sweep.emit import emit_cells

        if plan.unread:  # here it is one error; later it would be a failed job of the scheduler
            raise next(iter(plan.unread.values()))
        left = [at for at in plan.waiting if request.again or plan.outcome(at) is None]
        return replace(_result(plan, left), emitted=emit_cells(request.emit, plan))
    if request.lab:
        from edgewise.verbs.sweep.in_lab import carry_out_in_lab

        left, interrupted = carry_out_in_lab(plan, request, context)
        result = replace(_result(plan, left), interrupted=interrupted, in_lab=bool(left))
        result.write(plan.folder)
        return result
    ended: list[Outcome] = []
    interrupted = False
    with plan.ledger.held():
        if plan.collected:
            plan.ledger.write(plan.collected)
        try:
            for at in plan.waiting:
                emit(StageStarted(title=_progress(plan, at, ended)))
                outcome = _carry_out(plan, at, context)
                plan.ledger.write([outcome])
                ended.append(outcome)
        except KeyboardInterrupt:
            interrupted = True
        result = replace(_result(plan, plan.waiting[len(ended) :]), interrupted=interrupted)
        result = result if interrupted else _measured_in_turns(result, context)
        result.write(plan.folder)
    return result


def _measured_in_turns(result: SweepResult, context: Context) -> SweepResult:
    """Return the result with what turns prove of the places of each model, as ``bench`` measures them at its end."""
    known = {run.id: run for run in result.held}
    interrupted = False
    with context.saving() as saver:

        def save(run: Run) -> None:
            known[run.id] = run
            saver.save(run)

        rounds = [(model, runs, few) for model, runs, finals in result.finals() for few in finals]
        took_s, took = 0.0, 0
        try:
            for at, (model, runs, few) in enumerate(rounds):
                rest = sum(len(each) for _, _, each in rounds[at:])
                named = f"In turns {at + 1} of {len(rounds)}, {_turns_words(rest, took_s, took)}; {model}: "
                try:
                    with context.measuring(few[0].job.target.device):
                        begun = now()
                        take_turns(runs, [few], save, context, named=named, each_s=SWEPT_S)
                    took_s, took = took_s + now() - begun, took + len(few)
                except StoreError:
                    raise
                except EdgewiseError as error:
                    emit(LogLine(text=f"{model} is not measured in turns: {error.message}"))
        except KeyboardInterrupt:
            interrupted = True
    return replace(result, held=list(known.values()), interrupted=interrupted)


def _turns_words(rest: int, took_s: float, took: int) -> str:
    """``"about 1 min left, until 14:32"`` for `rest` places, where `took` took `took_s`; before any, at most."""
    most = SWEPT_S * rest
    if not took:
        return f"up to {long_time(most)} left, until {_time_of_day(most)} at the latest"
    left = min(most, took_s / took * rest)
    return f"about {long_time(left)} left, until {_time_of_day(left)}"


def _progress(plan: Plan, at: int, ended: Sequence[Outcome]) -> str:
    """``"Cell 3 of 8: mbv2.onnx on pi4; 1 failed; left: about 2 min for the cells (by 2 finished), until 14:32"``."""
    count, failed = len(plan.waiting), sum(one.status != "done" for one in ended)
    words = [f"Cell {len(ended) + 1} of {count}: {plan.cells[at].name}", *([f"{failed} failed"] if failed else [])]
    left = plan.waiting[len(ended) :]
    words.append(f"left: {plan.time_words(left)}")
    if (rest := plan.cells_s(left)) is not None:
        words[-1] += f", until {' to '.join(dict.fromkeys(map(_time_of_day, (rest, rest + plan.turns_s))))}"
    waited = sum(one.waited or 0.0 for one in ended)
    return "; ".join(
        [*words, *([f"waiting for busy devices not counted, {long_time(waited)} so far"] if waited else [])]
    )


def _time_of_day(after_s: float) -> str:
    return time.strftime("%H:%M", time.localtime(time.time() + after_s))


def _carry_out(plan: Plan, at: int, context: Context, *, again: bool = False) -> Outcome:
    """Carry out a cell; once more where the link to its device broke."""
    work = partial(_work, plan, at, context)
    outcome, _ = outcome_of(plan.name_of(at), plan.cells[at].name, work, plan.requests.verb)
    if outcome is None:
        raise KeyboardInterrupt
    if outcome.status == "lost" and not again:
        return _carry_out(plan, at, context, again=True)
    return replace(outcome, status="failed") if at in plan.unread else outcome


def _work(plan: Plan, at: int, context: Context) -> Any:
    """Return the result of a cell. Raises `EdgewiseError`."""
    cell = plan.cells[at]
    if at in plan.unread:
        raise plan.unread[at]
    plan.require_unchanged(at, plan.requests.model(cell.model))
    # The progress and the token of the sweep stay in force.
    with reporting_changed(partial(_renamed, cell.model)):
        return carry_out(plan.request(at), replace(context, progress=None, cancel=None))


def _renamed(model: str, event: Event) -> Event:
    """Return the event about a network of the zoo with its name in the suite, which its file does not have."""
    if not model.startswith(ZOO):
        return event
    if isinstance(event, JobStarted | SamplesStarted):
        # The name is no path, so that no folder is shown before it.
        return replace(event, job=replace(event.job, model=replace(event.job.model, name=model, path=model)))
    if isinstance(event, RunFinished):
        return replace(event, run=with_name_of_model(event.run, model))
    return event


def _result(plan: Plan, left: Sequence[int]) -> SweepResult:
    """Return what is known of the cells, of which those at the positions in `left` are not finished."""
    missing = set(left)
    outcomes = tuple(None if at in missing else plan.outcome(at) for at in range(len(plan.cells)))
    return SweepResult(
        suite=plan.requests.file.path.stem,
        verb=plan.requests.verb.name,
        folder=str(plan.folder),
        left_out=_counted(plan.left_out),
        limits=plan.limits,
        not_counted=plan.not_counted,
        cells=tuple(plan.cells),
        outcomes=outcomes,
        held=_runs_of(outcomes, plan.requests.store),
        command=plan.command,
        only=plan.only,
    )


def _runs_of(outcomes: Sequence[Outcome | None], url: str | None) -> list[Run]:
    """Return the finished runs of the cells that the store at `url` has."""
    rows = [row for one in outcomes if one is not None for row in one.rows]
    ids = dict.fromkeys(row["run"] for row in rows if row.get("run") and row.get("status", "done") == "done")
    found: list[Run] = []
    try:
        with open_store(url, create=False) as store:
            for one in ids:
                with suppress(BadInput):  # measured elsewhere, or removed since
                    found.append(store.get(one))
    except StoreError:
        return found
    return found
