"""Carries out requests that measure models: `bench`, `profile`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgewise.clock import now
from edgewise.device.devices import LOCAL, transport_of
from edgewise.device.target import find_target
from edgewise.errors import BadInput, EdgewiseError, RunFailed, StoreError, Unavailable, as_flag
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.progress import StageStarted, emit
from edgewise.record import Job, Run, new_run_id
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.plan import NetworkFile, Plan, make_plan, tell_conversions
from edgewise.run.run_builder import METERS_OFF
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import long_time
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.context import Context
from edgewise.verbs.factories import build_everywhere, build_files
from edgewise.verbs.presentation import Ending, Presentation, View
from edgewise.verbs.profile.request import ProfileRequest
from edgewise.verbs.profile.stored_runs import find_measured

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.report.bench.recommendation import Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What `bench` and `profile` give.

    Attributes:
        runs: one per job, in the plan's order; a job that failed is a run too.
        skipped: what was asked for and could not become a job, and what a time budget left no time for, each with the
            reason.
        open_batches: names of the models that leave the batch open and ran with a batch of 1 alone.
        convertible: which installed engines could measure a model in another format, and the command that makes it.
        save_errors: why runs could not be saved; empty when all are.
        interrupted: whether the work was cancelled; `runs` are those finished, and the one in progress.
        devices_left_out: those of several that could not measure it, as `skipped` says.
        first: what the first lines of every output say: which jobs and devices were not measured, and why.
        unmeasured: the names of the jobs that an interruption left out.
        way_on: the commands that measure these.
        again: by verb, the options of a profile's command that commands which follow need too.
        typed: sha256 of a model → how the command of a profile named its file.
        known: by id of a profiled run, what stored runs measured of what it advises.
        earlier: what turns of stored runs proved of those of a benchmark that say something else now.
    """

    runs: Sequence[Run]
    skipped: Sequence[str] = ()
    open_batches: Sequence[str] = ()
    convertible: Sequence[str] = ()
    save_errors: Sequence[StoreError] = ()
    interrupted: bool = False
    devices_left_out: Sequence[str] = ()
    first: Sequence[str] = ()
    unmeasured: Sequence[str] = ()
    way_on: Sequence[str] = ()
    again: Mapping[str, Sequence[str]] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    earlier: Sequence[str] = ()

    @property
    def led_by(self) -> Sequence[str]:
        """The first lines on a terminal: `first`, and at which hosts of a lab it was measured."""
        hosts = dict.fromkeys(one_line(run.lab.host) for run in self.runs if run.lab is not None)
        return (*self.first, *([f"measured in the lab, at {listing(list(hosts))}"] if hosts else []))

    @property
    def recommendation(self) -> Recommendation | None:
        """Which run to take, and why; None where none qualifies."""
        from edgewise.report.bench.recommendation import recommendation

        return recommendation(self.runs)


@contextmanager
def planned(request: BenchRequest | ProfileRequest) -> Iterator[Plan]:
    """Yield the jobs of `request`; models that functions make exist inside the context. Raises `BadInput`,
    `Unavailable`.
    """
    _find_target(request)
    profile = isinstance(request, ProfileRequest)
    cases = request.cases if isinstance(request, ProfileRequest) else ({},)
    settings = request.plan_settings()
    with ExitStack() as stack:
        files: Sequence[str | NetworkFile]
        left_out: Sequence[str] = ()
        if profile and not request.runtimes:  # one file for the engines that read it, as layers are compared
            files = build_files(stack, request.models, shapes=request.shapes, cases=cases)
        else:
            files, left_out = build_everywhere(
                stack, request.models, axes=settings["axes"], target=settings["target"], cases=cases
            )
        plan = make_plan(files, **settings, profile=profile, with_tools=True)
        yield replace(plan, skipped=(*left_out, *plan.skipped))


def _convertible(request: BenchRequest | ProfileRequest, plan: Plan) -> list[str]:
    """`Measured.convertible`; none where the request names its engines, or text is generated."""
    if request.runtimes or not plan.jobs or plan.jobs[0].workload.scenario.kind == "generate":
        return []
    target, formats = plan.jobs[0].target, {job.model.path: job.model.format for job in plan.jobs}
    own = [(file, formats[path]) for file in request.models if (path := str(Path(file).absolute())) in formats]
    return [
        line
        for file, form in own
        for line in tell_conversions(file, form, target, formats=formats.values(), with_tools=True).values()
    ]


def _find_target(request: BenchRequest | ProfileRequest) -> None:
    """Raise `Unavailable` where there is no such device, with the command for hardware that can be estimated."""
    try:
        find_target(request.device)
    except Unavailable as error:
        from edgewise.estimating.base import is_known, similar_devices

        if is_known(request.device):
            model = request.models[0] if request.models else "MODEL"
            error.advice = f"nothing can be measured on it; estimate it: edgewise estimate {model} -d {request.device}"
        elif near := similar_devices(request.device):
            error.advice = f"did you mean {', '.join(near)} of 'edgewise estimate'? {error.marked.advice}"
        raise


def measure(request: BenchRequest | ProfileRequest, context: Context) -> Measured:
    """Every job of the request, one after the other, saving each run as soon as it is there."""
    if isinstance(request, BenchRequest) and len(each := request.on_each_device()) > 1:
        return _measure_on(each, context)
    if request.lab:
        return _measure_in_lab(request, context)
    with planned(request) as plan:
        if isinstance(request, BenchRequest):
            turns: WhoTakesTurns = None if request.is_prescribed else "finalists"
            found = execute(plan, context, meters=request.meters, turns=turns, budget_s=request.time_budget)
            if len(found.runs) > 1:
                from edgewise.verbs.bench.earlier_turns import find_earlier_turns

                found = replace(found, earlier=find_earlier_turns(found.runs, context))
        else:
            turns = None if request.is_prescribed else "all"
            found = execute(plan, context, meters=False, turns=turns)
            found = replace(
                found,
                again=_again(request),
                typed=_typed(request, found.runs),
                known=find_measured(found.runs, context),
            )
        found = replace(found, convertible=_convertible(request, plan))
    rest = (*(run.job for run in found.runs if run.status == "cancelled"), *plan.jobs[len(found.runs) :])
    return replace(found, way_on=_way_on(request, rest)) if found.first else found


def _measure_in_lab(request: BenchRequest | ProfileRequest, context: Context) -> Measured:
    """Have a device of the lab carry the request out, and read the runs from the store.

    Raises `BadInput` and `BadModel` for a model that can't be read, and `RunFailed` where there is no run.
    """
    from edgewise.verbs.lab.client import lab_of, outcome_of_job

    for model in request.models:
        if not is_factory(model):
            open_model(model)
    names = enumerate_few([Path(model).name for model in request.models])
    with lab_of(context) as (store, queue):
        title = f"{request.verb} {names} on {request.device}"
        (job,) = queue.carry_out([queue.job(new_run_id(), title, request.device, request)])
        outcome = outcome_of_job(job)
        if not job.runs:
            raise RunFailed(outcome.cause, advice=outcome.advice)
        again = _again(request) if isinstance(request, ProfileRequest) else {}
        return Measured(runs=[store.get(run) for run in job.runs], skipped=outcome.skipped, again=again)


def _again(request: ProfileRequest) -> dict[str, list[str]]:
    """`Measured.again`."""
    from edgewise.verbs.verb import words_of

    fields = {"optimize": ("shapes",), **dict.fromkeys(("bench", "compare", "profile"), ("shapes", "input_data"))}
    return {verb: words_of(request, only=only) for verb, only in fields.items()}


def _typed(request: ProfileRequest, runs: Sequence[Run]) -> dict[str, str]:
    """`Measured.typed`."""
    names = {str(Path(name).absolute()): name for name in request.models}
    return {run.job.model.sha256: names[run.job.model.path] for run in runs if run.job.model.path in names}


def _way_on(request: BenchRequest | ProfileRequest, rest: Sequence[Job]) -> tuple[str]:
    """Return the command for `rest`: that of `request` with those models alone of which a job is left."""
    from edgewise.verbs.verb import command_of

    files = {job.model.path for job in rest}
    models = tuple(name for name in request.models if str(Path(name).absolute()) in files)
    # All of it where nothing was begun; files that functions or cases make have other names than what makes them.
    whole = len(models) < max(1, len(files))
    return (command_of(request if whole else request.model_copy(update={"models": models})),)


def _missing(runs: Sequence[Run], rest: Sequence[Job]) -> tuple[str, ...]:
    """Which jobs an interruption left out, by model, and which it cut short; empty where none is."""
    counts = Counter(one_line(job.model.name) for job in rest)
    names = enumerate_few([f"{name} ({count})" for name, count in counts.items()], most=12)
    told = [f"{len(rest)} of {len(runs) + len(rest)} jobs were not measured: {names}"] if rest else []
    cut = [one_line(run.job.label) for run in runs if run.status == "cancelled"]
    told += [f"cut short: {enumerate_few(cut)}"] if cut else []
    return (f"interrupted: {'; '.join(told)}",) if told else ()


def _measure_on(requests: Sequence[BenchRequest], context: Context) -> Measured:
    """Return the same on several devices; where one can't measure it, `Measured.skipped` says why.

    Raises:
        BadInput, Unavailable, RunFailed: no device can measure it, or one of them is not known.
    """
    for request in requests:
        if not request.lab:
            _find_target(request)
    done: list[Measured] = []
    failures: dict[str, BadInput | Unavailable | RunFailed] = {}
    for request in requests:
        try:
            done.append(measure(request, context))
        except (BadInput, Unavailable, RunFailed) as error:
            failures[request.device] = error
        if done and done[-1].interrupted:
            break
    begun = len(done) + len(failures)
    never = [each.device for each in requests[begun:]]
    if not done:
        raise next(iter(failures.values()))
    lines = [f"{each.message} ({each.advice})" for each in failures.values()]
    named = [line if name in line else f"{name}: {line}" for name, line in zip(failures, lines, strict=True)]
    first = [line for each in done for line in each.first]
    first += [f"interrupted: nothing was measured on {listing(never)}"] if never else []
    first += [one_line(f"not measured on {name}: {line}") for name, line in zip(failures, lines, strict=True)]
    return Measured(
        first=first,
        unmeasured=[one for each in done for one in each.unmeasured],
        way_on=[
            *(line for each in done for line in each.way_on),
            *(line for each in requests[begun:] for line in _way_on(each, ())),
        ],
        runs=[run for each in done for run in each.runs],
        skipped=(*dict.fromkeys(line for each in done for line in each.skipped), *named),
        open_batches=tuple(dict.fromkeys(name for each in done for name in each.open_batches)),
        convertible=tuple(dict.fromkeys(line for each in done for line in each.convertible)),
        save_errors=[error for each in done for error in each.save_errors],
        interrupted=done[-1].interrupted,
        devices_left_out=tuple(failures),
    )


WhoTakesTurns = Literal["finalists", "all"] | None

TURNS_SHARE = 0.4
"""The part of a time budget that is kept for turns: without them a noisy machine leaves the order of most jobs open."""


def execute(
    plan: Plan, context: Context, *, meters: bool, turns: WhoTakesTurns = None, budget_s: float | None = None
) -> Measured:
    """Execute `plan` while its device is held, saving each run as soon as it is there.

    Args:
        turns: which runs are measured once more in turns: those that may be the fastest, as nothing is proven, or
            all; None for none.
        budget_s: time limit of all sessions and turns, s; the sessions of several jobs leave `TURNS_SHARE` of it.
    """
    kept = TURNS_SHARE if turns and len(plan.jobs) > 1 else 0.0
    undecided: list[str] = []
    device = plan.jobs[0].target.device if plan.jobs else LOCAL
    with context.measuring(device, needed=bool(plan.jobs)), context.saving() as saver:
        sensors = None if meters else METERS_OFF
        dispatcher = Dispatcher(save=saver.save, sensors=sensors, history=context.history)
        begin = now()
        try:
            sessions_s = None if budget_s is None else budget_s * (1.0 - kept)
            runs, interrupted = dispatcher.execute(plan, sessions_s=sessions_s), False
        except Interrupted as stop:
            runs, interrupted = list(stop.runs), True
        try:
            if not interrupted:
                runs = _compare_files(runs, saver.save)
                if turns:
                    finals = finals_of(runs, everyone=turns == "all")
                    left_s = None if budget_s is None else begin + budget_s - now()
                    if left_s is None or left_s > 0.0:
                        runs = take_turns(runs, finals, saver.save, context, everyone=turns == "all", left_s=left_s)
                    if budget_s is not None:
                        undecided = _without_turns(runs, finals, budget_s)
                    runs = _try_settings(runs, saver.save, context)
        except KeyboardInterrupt:
            interrupted = True
    rest = plan.jobs[len(runs) :] if interrupted else ()
    return Measured(
        runs=runs,
        skipped=(*plan.skipped, *undecided),
        open_batches=plan.open_batches,
        save_errors=saver.errors,
        interrupted=interrupted,
        first=_missing(runs, rest) if interrupted else (),
        unmeasured=[job.label for job in rest],
    )


def _compare_files(runs: list[Run], save: Callable[[Run], None]) -> list[Run]:
    """Return the runs with the agreement of files of one network, where there are several."""
    if len({run.job.model.family for run in runs}) < 2:
        return runs
    from edgewise.comparing.files_agreement import compare_files

    return compare_files(runs, save)


def finals_of(runs: Sequence[Run], *, everyone: bool = False, drifted: bool = False) -> list[list[Run]]:
    """Return those of `runs` that are to be measured in turns, with each other those of a list.

    Args:
        everyone, drifted: as `edgewise.report.bench.ranking.finalists` takes them.

    Raises `Unavailable` for an engine or a device that is not known here.
    """
    from edgewise.comparing.finals import MOST, can_take_turns
    from edgewise.report.bench.ranking import finalists, took_turns

    able = (
        [run for run in some if can_take_turns(run)][:MOST]
        for some in finalists(runs, everyone=everyone, drifted=drifted)
    )
    return [few for few in able if len(few) > 1 and not took_turns(few)]


def take_turns(
    runs: Sequence[Run],
    finals: Sequence[Sequence[Run]],
    save: Callable[[Run], None],
    context: Context,
    *,
    everyone: bool = False,
    named: str = "",
    each_s: float | None = None,
    left_s: float | None = None,
) -> list[Run]:
    """Return the runs, those of `finals_of` with the ratios that turns prove, and these saved again.

    Args:
        everyone: whether the finals are all runs, and not only those that may be the fastest.
        named: what stands before the title of each stage.
        each_s: time limit for each run, s; None is the usual one.
        left_s: what is left of a time budget, s, above 0, which the finals share; None without a budget.
    """
    from edgewise.comparing.finals import EACH_S, PROFILED_S, with_turns
    from edgewise.report.runs.conditions import labels_by_id

    labels = labels_by_id(runs)
    known = {run.id: run for run in runs}
    each_s = each_s or (PROFILED_S if everyone else EACH_S)
    if left_s is not None:
        each_s = min(each_s, left_s / max(1, sum(map(len, finals))))
    for few in finals:
        who, most = listing([labels[run.id] for run in few]), f"{each_s * len(few):.3g} s at most"
        why = f"Which of {who} is faster" if everyone else f"The first numbers of {who} prove no order"
        emit(StageStarted(title=f"{named}{why}: measuring these {len(few)} in turns, {most}"))
        for run in with_turns(few, context.history, each_s=each_s):
            known[run.id] = run
            save(run)
    return list(known.values())


def _without_turns(runs: Sequence[Run], finals: Sequence[Sequence[Run]], budget_s: float) -> list[str]:
    """Return which of `finals` have no ratio in turns, as a time budget left them none or too little time."""
    from edgewise.report.bench.ranking import took_turns
    from edgewise.report.runs.conditions import labels_by_id

    labels = labels_by_id(runs)
    known = {run.id: run for run in runs}
    return [
        f"in turns, which of {listing([labels[run.id] for run in few])} is faster: the sessions left too little of the "
        f"time budget of {long_time(budget_s)} → raise {as_flag('time_budget')}"
        for few in finals
        if not took_turns([known[run.id] for run in few])
    ]


def _try_settings(runs: Sequence[Run], save: Callable[[Run], None], context: Context) -> list[Run]:
    """Return the runs, their findings with the savings that settings of the engine were measured to have."""
    from edgewise.comparing.tried_findings import TRIED_S, settings_to_try, with_measured_savings
    from edgewise.report.runs.conditions import labels_of

    found = []
    for run, label in zip(runs, labels_of(runs), strict=True):
        if settings := settings_to_try(run):
            what = listing([as_flag("set", one) for one in settings])
            most = f"{2 * TRIED_S * len(settings):g} s at most"
            emit(StageStarted(title=f"{label}: measuring in turns what {what} saves, {most}"))
            found.append(with_measured_savings(run, context.history))
            save(found[-1])
        else:
            found.append(run)
    return found


_NOT_MEASURED = "not measured: {}"


def _open_batch_lines(names: Sequence[str]) -> list[str]:
    """Which models leave the batch open, so that it was chosen; empty for none."""
    if not names:
        return []
    verb = "leaves" if len(names) == 1 else "leave"
    return [one_line(f"{listing(names)} {verb} the batch open, which is 1 here → another one: {as_flag('batch')} N")]


def _job_line(job: Job) -> str:
    sessions = job.workload.stopping.sessions
    place = "" if job.target.device == LOCAL else f" on {job.target.device}"
    return f"job: {one_line(job.label + place)}, {sessions} session{'s' if sessions > 1 else ''}"


def _elsewhere_line(request: BenchRequest | ProfileRequest) -> str:
    """Return what a dry run says of a device that is not this machine, which it does not connect to.

    Raises `Unavailable` and `BadInput` for a device that is not known, and for a model that can't be read.
    """
    _find_target(request)
    for model in request.models:
        if not is_factory(model):
            open_model(model)
    names = enumerate_few([Path(model).name for model in request.models])
    return one_line(
        f"{names} on {request.device}: a dry run does not connect to the device, whose engines and processors decide "
        "which jobs there are"
    )


def _turns_lines(request: BenchRequest | ProfileRequest, plan: Plan) -> list[str]:
    """Which jobs are measured once more in turns, and how long that takes; empty where none is."""
    from edgewise.comparing.finals import EACH_S, MOST, PROFILED_S
    from edgewise.comparing.tried_findings import TRIED_S

    if request.is_prescribed or not plan.jobs:
        return []
    if isinstance(request, ProfileRequest):
        turns = f"then in turns, without the profiler: up to {MOST} of them that can, {PROFILED_S:g} s each at most"
        tried = (
            "then, where a finding names a setting that may save time: in turns with it and without it, "
            f"{2 * TRIED_S:g} s at most for each"
        )
        can = any(job.runtime.name == "onnxruntime" for job in plan.jobs)  # the settings of `TRIED` are its own
        return [*([turns] if len(plan.jobs) > 1 else []), *([tried] if can else [])]
    if len(plan.jobs) < 2:
        return []
    line = f"then in turns: up to {MOST} that can't be told apart from the fastest one, {EACH_S:g} s each at most"
    if request.time_budget is not None:
        kept = long_time(TURNS_SHARE * request.time_budget)
        line += f"; {kept} of the time budget are kept for that"
    return [line]


class RunPresentation(Presentation["Measured"]):
    """How runs are shown.

    Attributes:
        profiles: whether the runs have profiles.
    """

    profiles = False

    def check_file(self, path: Path, *, overwrite: bool) -> None:
        """Refuse what is no report, or in the way."""
        from edgewise.report.files import check_target

        check_target(path, overwrite=overwrite, profiles=self.profiles)

    def plan(self, request: BenchRequest | ProfileRequest) -> tuple[Sequence[str], Sequence[str]]:
        """Return the jobs; of another device what is not known without it."""
        jobs: list[str] = []
        notes: list[str] = []
        for each in request.on_each_device() if isinstance(request, BenchRequest) else (request,):
            if request.lab:
                jobs.append(f"job in the lab: {request.verb} on {each.device}")
                continue
            if transport_of(each.device) != LOCAL:
                jobs.append(_elsewhere_line(each))
                continue
            with planned(each) as plan:
                jobs += map(_job_line, plan.jobs)
                jobs += _turns_lines(each, plan)
                notes += map(_NOT_MEASURED.format, (*plan.skipped, *_convertible(each, plan)))
                notes += _open_batch_lines(plan.open_batches)
        return jobs, notes

    def document(self, result: Measured) -> Any:
        """Return runs and recommendations, and what an interruption or a device left out."""
        from edgewise.report.files import runs_document

        return runs_document(result.runs, first=result.first)

    def show(self, result: Measured, console: Console, *, view: View) -> None:
        """Show the table of `bench`."""
        from edgewise.report.bench.document import bench_document
        from edgewise.report.document.text import print_document

        if result.runs:
            document = bench_document(result.runs, places=True).led_by(result.led_by)
            document = replace(document, answer=(*document.answer, *result.earlier))
            print_document(document, console, details=view.details)

    def notes(self, result: Measured) -> Sequence[str]:
        """Return what could not be measured, and whose batch was chosen."""
        left_out = map(_NOT_MEASURED.format, (*result.skipped, *result.convertible))
        return [*left_out, *_open_batch_lines(result.open_batches)]

    def write(self, result: Measured, path: Path, *, overwrite: bool) -> None:
        """In the format of the extension; nothing without runs."""
        from edgewise.report.files import write_report

        # A file is for others too: where models lie on this machine is in no command of it.
        typed = {sha256: name for sha256, name in result.typed.items() if not Path(name).is_absolute()}
        write_report(
            result.runs,
            path,
            overwrite=overwrite,
            first=result.first,
            after={"again": result.again, "typed": typed, "known": result.known},
        )

    def ending(self, result: Measured, *, kept: bool) -> Ending:
        """Also how to measure what an interruption left out."""
        found = super().ending(result, kept=kept)
        way_on = f"; the rest: {'; '.join(result.way_on)}" if found.interrupted and result.way_on else ""
        return replace(found, interrupted=f"{found.interrupted}{way_on}")

    def shown(self, result: Measured) -> list[EdgewiseError]:
        """Return runs that failed, and devices that could not measure."""
        failed = [run for run in result.runs if run.status == "failed"]
        reasons = [f"{run.failure.cause}: {run.failure.message}" if run.failure else "failed" for run in failed]
        found = [f"{run.job.label}: {reason}" for run, reason in zip(failed, reasons, strict=True)]
        return [RunFailed(text) for text in (*found, *(f"{one} could not measure" for one in result.devices_left_out))]
