"""The Python API: the same engine as the command line, typed.

>>> import edgewise
>>> runs = edgewise.bench("model.onnx", runtimes=["onnxruntime"], threads=[1, 2])  # doctest: +SKIP
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, StoreError
from edgewise.record import Run, Scenario, Stopping, TargetSpec
from edgewise.record.job import ScenarioKind

if TYPE_CHECKING:
    from edgewise.comparing.comparison import Findings
    from edgewise.model.inspection import Inspection
    from edgewise.run.assembly import Sensors
    from edgewise.run.dispatch import Observer
    from edgewise.run.plan import Plan
    from edgewise.store import Store

PathLike = str | os.PathLike[str]

SPREAD_SESSIONS = 10
"""Sessions that are laid apart, unless their number is given."""


def inspect(
    model: PathLike | None = None,
    *,
    build: str | None = None,
    what_if: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    hash_weights: bool = False,
) -> Inspection:
    """Count what a model costs, plan its memory, and ask which engines support its operators, without timing it.

    An ONNX model whose shapes, branches or loops depend on values is run once, in a process with limits, and the basis
    is then ``measured``. Where it can't be run, what depends on it is None, and `Inspection.method` says why.

    Args:
        model: a model file; weights are not read. ``package.module:factory`` is the same as `build`.
        build: a factory that returns a model, trained or not: ``package.module:factory`` or ``file.py:factory``.
        what_if: keyword arguments of the factory.
        shapes: input name → shape for open dimensions.
        hash_weights: read weight files too, for the model's hash.

    Returns:
        An `edgewise.model.inspection.Inspection`; its `to_dict` is what ``edgewise inspect --json`` prints.

    Raises:
        BadModel, BadInput, Unavailable (a package that the model needs is not installed).
    """
    from edgewise.model.build import build_graph, give_shapes, is_factory
    from edgewise.model.inspection import inspect_graph
    from edgewise.run.observation import observe_file
    from edgewise.workload.networks import resolve_shapes

    if build is None and model is not None and is_factory(os.fspath(model)):
        build, model = os.fspath(model), None
    if (build is None) == (model is None):
        raise BadInput("give a model file or a factory with --build, and not both", advice="edgewise inspect MODEL")
    if build is not None:
        built = build_graph(build, what_if=what_if or {}, shapes=shapes)
        concrete, assumed = resolve_shapes(built.graph, shapes or {})
        if concrete:
            built = give_shapes(built, concrete)
        return inspect_graph(built.graph, source={**built.source, "assumed": assumed})
    if what_if:
        raise BadInput("--what-if is for models that are built", advice="give the factory with --build MODULE:FUNCTION")
    assert model is not None
    graph, network = observe_file(Path(model), shapes=shapes or {}, hash_weights=hash_weights)
    return inspect_graph(graph, source=network.source)


def profile(
    paths: PathLike | Sequence[PathLike],
    *,
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    threads: Sequence[int] = (),
    batches: Sequence[int] = (1,),
    precisions: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_data: PathLike | None = None,
    seed: int = 0,
    sessions: int = 3,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    store: str | Store | None = None,
    observer: Observer | None = None,
) -> list[Run]:
    """Time every layer of one or more models on one or more runtimes.

    The latency is measured first, as `bench` does; then the engine times its layers in processes of its own.

    Args:
        sessions: fresh processes that measure the latency; as in `bench` are all other arguments.

    Returns:
        One run per job, with `Run.layers` and `Run.profile`, or with `Run.profile_absent_because`.

    Raises:
        BadInput, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are those finished.
    """
    from edgewise.run.assembly import METERS_OFF
    from edgewise.run.plan import Axes, make_plan

    plan = make_plan(
        [paths] if isinstance(paths, str | os.PathLike) else list(paths),
        axes=Axes(
            runtimes=runtimes,
            providers=providers,
            threads=threads,
            batches=batches,
            precisions=precisions,
            shapes=shapes or {},
        ),
        scenario=Scenario(),
        stopping=Stopping(sessions=sessions, timeout_s=timeout),
        target=TargetSpec(memory_limit_bytes=memory_limit),
        seed=seed,
        input_data=Path(input_data) if input_data is not None else None,
        profile=True,
    )
    return _keep(plan, store, observer=observer, sensors=METERS_OFF)


def bench(
    paths: PathLike | Sequence[PathLike],
    *,
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    threads: Sequence[int] = (),
    batches: Sequence[int] = (1,),
    precisions: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_data: PathLike | None = None,
    seed: int = 0,
    scenario: ScenarioKind = "single-stream",
    fps: float | None = None,
    streams: int | None = None,
    requests: int | None = None,
    iterations: int | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    sessions: int | None = None,
    spread: float | None = None,
    report_every: int | None = None,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    meters: bool = True,
    store: str | Store | None = None,
    observer: Observer | None = None,
) -> list[Run]:
    """Measure one or more models on one or more runtimes, side by side.

    Args:
        paths: model files (``.onnx``, ``.tflite``, OpenVINO ``.xml``).
        runtimes: names or ``name/provider``; empty means every installed one that reads the file.
        providers: empty means each runtime's first.
        threads: an axis; empty means one thread (all usable cores in the offline scenario).
        batches: an axis.
        precisions: an axis (``f32``, ``bf16`` …); empty means like for like.
        shapes: input name → shape for open dimensions.
        input_data: an ``.npz`` with one array per input; without it inputs are random from `seed`.
        scenario: ``single-stream``, ``offline`` (with `streams`, `requests`) or ``paced`` (with `fps`).
        iterations, warmup, duration (s), sessions, report_every: fix the protocol; what is not given follows the data.
            `sessions` is 5 by default and 1 where iterations, warmup or duration are given.
        spread: lay the sessions of all jobs apart over this long, s; `sessions` is 10 by default then.
        timeout: seconds that a worker may give no sign of life.
        memory_limit: bytes that a worker may allocate.
        meters: whether sensors are read in a pass of their own, where there are any.
        store: where runs are kept: a `Store`, or its URL; None keeps nothing.
        observer: told what happens while it happens.

    Returns:
        One run per job in the plan's order. A job that failed is a run too; its `status` says so.

    Raises:
        BadInput, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are those finished.
    """
    from edgewise.run.assembly import METERS_OFF
    from edgewise.run.plan import Axes, make_plan

    plan = make_plan(
        [paths] if isinstance(paths, str | os.PathLike) else list(paths),
        axes=Axes(
            runtimes=runtimes,
            providers=providers,
            threads=threads,
            batches=batches,
            precisions=precisions,
            shapes=shapes or {},
        ),
        scenario=Scenario(kind=scenario, fps=fps, streams=streams, requests=requests),
        stopping=stopping_of(
            iterations=iterations,
            warmup=warmup,
            duration=duration,
            sessions=sessions,
            spread=spread,
            report_every=report_every,
            timeout=timeout,
        ),
        target=TargetSpec(memory_limit_bytes=memory_limit),
        seed=seed,
        input_data=Path(input_data) if input_data is not None else None,
    )
    return _keep(plan, store, observer=observer, sensors=None if meters else METERS_OFF)


def compare(
    things: Sequence[PathLike | Run],
    *,
    labels: Sequence[str | None] = (),
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    threads: Sequence[int] = (),
    batches: Sequence[int] = (1,),
    precisions: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_data: PathLike | None = None,
    seed: int = 0,
    scenario: ScenarioKind = "single-stream",
    fps: float | None = None,
    time_budget: float | None = None,
    rounds: int | None = None,
    duet: bool = False,
    stored: bool = False,
    meters: bool = False,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    metrics: Sequence[str] = (),
    until: str | None = None,
    threshold: float = 0.03,
    floors: Mapping[str, float] | None = None,
    pareto: Sequence[str] = (),
    force: bool = False,
    store: str | Store | None = None,
    observer: Observer | None = None,
) -> Findings:
    """Compare models, settings or runs; the later ones with the first.

    Models are measured side by side, in turns, until the verdict is safe. Several runtimes, threads, batches or
    precisions make a variant of each.

    Args:
        things: model files, and runs that were measured before; runs alone are compared by their samples.
        labels: a name per thing, None to have one made.
        runtimes: empty means the engine whose own format a model has.
        time_budget: s; None means 60 for two variants and 30 for every further one.
        rounds: at most so many rounds of fresh processes.
        duet: all at once, on cores of their own, instead of in turns.
        stored: use the samples of runs even where their models could be measured again beside the others.
        metrics: ids of the metric catalogue; empty means those that the runs have.
        until: the metric whose verdict ends the measuring; None means the scenario's headline.
        threshold: a relative difference up to this doesn't matter.
        floors: metric → absolute difference (SI) that doesn't matter.
        pareto: metrics of the Pareto front.
        force: compare what can't be compared fairly. All other arguments are as in `bench`.

    Returns:
        An `edgewise.comparing.comparison.Findings`; its `to_document` is what ``edgewise compare --json`` prints.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.comparing.trial.ComparisonInterrupted`, whose `findings` are those until then.
    """
    from edgewise.comparing.contenders import Conditions, Contender, Contest, compare_contenders
    from edgewise.comparing.terms import Terms
    from edgewise.comparing.trial import ComparisonInterrupted, Trial
    from edgewise.run.assembly import METERS_OFF
    from edgewise.run.plan import Axes

    if len(labels) > len(things):
        raise BadInput(f"{len(labels)} labels for {len(things)} things", advice="one per thing, or None")
    names = [*labels, *[None] * (len(things) - len(labels))]
    contenders = [
        Contender(thing=thing if isinstance(thing, Run) else Path(thing), label=name)
        for thing, name in zip(things, names, strict=True)
    ]
    axes = Axes(
        runtimes=runtimes,
        providers=providers,
        threads=threads,
        batches=batches,
        precisions=precisions,
        shapes=shapes or {},
    )
    conditions = Conditions(
        axes=axes,
        scenario=Scenario(kind=scenario, fps=fps),
        stopping=Stopping(timeout_s=timeout),
        target=TargetSpec(memory_limit_bytes=memory_limit),
        seed=seed,
        input_data=Path(input_data) if input_data is not None else None,
    )
    with saving(store) as save:
        contest = Contest(
            terms=Terms(
                metrics=tuple(metrics), threshold=threshold, floors=floors or {}, front=tuple(pareto), force=force
            ),
            trial=Trial(budget_s=time_budget, duet=duet, seed=seed, until=until, rounds=rounds),
            conditions=conditions,
            save=save,
            observer=observer,
            sensors=None if meters else METERS_OFF,
            stored=stored,
        )
        findings = compare_contenders(contenders, contest)
    warn_of_losses(findings.save_errors)
    if findings.interrupted:
        raise ComparisonInterrupted(findings)
    return findings


def _keep(plan: Plan, store: str | Store | None, *, observer: Observer | None, sensors: Sensors | None) -> list[Run]:
    """Execute `plan` and keep its runs in `store`."""
    from edgewise.run.dispatch import Dispatcher
    from edgewise.run.variation import stored_history

    history = stored_history(store) if store is None or isinstance(store, str) else store.readings
    with saving(store) as save:
        dispatcher = Dispatcher(save=save, observer=observer, sensors=sensors, history=history)
        runs = dispatcher.execute(plan)
    warn_of_losses(dispatcher.save_errors)
    return runs


@contextmanager
def saving(store: str | Store | None) -> Iterator[Callable[[Run], None]]:
    """What keeps a run in `store`; a store given by its URL is closed in the end."""
    if isinstance(store, str):
        with open_store(store) as opened:
            yield opened.save
    else:
        yield _keep_nothing if store is None else store.save


def warn_of_losses(errors: Sequence[StoreError]) -> None:
    """Results are worth more than the store: they are returned, and the loss is not silent."""
    if errors:
        warnings.warn(f"{len(errors)} time(s) not saved: {errors[0].message}", RuntimeWarning, stacklevel=3)


def stopping_of(
    *,
    iterations: int | None,
    warmup: int | None,
    duration: float | None,
    sessions: int | None,
    report_every: int | None,
    timeout: float,
    spread: float | None = None,
) -> Stopping:
    """The stopping rule of these settings.

    Sessions by default: ten where they are laid apart, one where the protocol is prescribed, else five.
    """
    prescribed = iterations is not None or warmup is not None or duration is not None
    usual = SPREAD_SESSIONS if spread is not None else 1 if prescribed else Stopping().sessions
    return Stopping(
        iterations=iterations,
        warmup=warmup,
        duration_s=duration,
        sessions=usual if sessions is None else sessions,
        spread_s=spread,
        report_every=report_every,
        timeout_s=timeout,
    )


def open_store(url: str | None = None) -> Store:
    """The store at `url` (any SQLAlchemy URL or a path); None means the user's own. Raises `StoreError`."""
    from edgewise.store import open_store as open_

    return open_(url)


def _keep_nothing(run: Run) -> None:
    """Where no store was given, runs are only returned."""
