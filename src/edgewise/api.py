"""The Python API: the same engine as the command line, typed.

>>> import edgewise
>>> runs = edgewise.bench("model.onnx", runtimes=["onnxruntime"], threads=[1, 2])  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.record import Run
from edgewise.record.job import ScenarioKind

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.model.inspection import Inspection
    from edgewise.progress import Progress
    from edgewise.service.context import Context
    from edgewise.service.measuring import Measured
    from edgewise.store import Store

PathLike = str | os.PathLike[str]

SPREAD_SESSIONS = 10


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
    if (build is None) == (model is None):
        raise BadInput("give a model file or a factory, and not both", advice='edgewise.inspect("model.onnx")')
    found = carry_out(
        "inspect",
        context_of(None, None),
        model=build if model is None else model,
        cases=(dict(what_if),) if what_if else None,
        shapes=shapes,
        hash_weights=hash_weights,
    )
    inspection: Inspection = found[0]
    return inspection


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
    cpus: float | None = None,
    memory: int | None = None,
    device: str = "local",
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> list[Run]:
    """Time every layer of one or more models on one or more runtimes.

    The latency is measured first, as `bench` does; then the engine times its layers in processes of its own.

    Args:
        sessions: fresh processes that measure the latency. All other arguments are as in `bench`.

    Returns:
        One run per job, with `Run.layers` and `Run.profile`, or with `Run.profile_absent_because`.

    Raises:
        BadInput, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are the finished ones.
    """
    fields = _fields_of(locals())
    return _runs_of(carry_out("profile", context_of(store, progress), models=several(paths), **fields))


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
    cpus: float | None = None,
    memory: int | None = None,
    device: str = "local",
    meters: bool = True,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> list[Run]:
    """Measure one or more models on one or more runtimes, side by side.

    Args:
        paths: model files, or ``file.py:function`` and ``module:function``, which are called to make one.
        runtimes: names or ``name/provider``; empty means every installed one that reads the file.
        providers: empty means each runtime's first.
        threads: an axis; empty means one thread (all usable cores in the offline scenario).
        batches: an axis.
        precisions: an axis (``f32``, ``bf16`` …); empty means like for like.
        shapes: input name → shape for open dimensions.
        input_data: an ``.npz`` with one array per input; without it inputs are random from `seed`.
        scenario: ``single-stream``, ``offline`` (with `streams`, `requests`) or ``paced`` (with `fps`).
        iterations, warmup, duration (s): per session; None is found from the data.
        sessions: fresh processes; None is 5, or 1 where iterations, warmup or duration are given.
        report_every: report the running average every this many inferences.
        spread: spread the sessions of all jobs over this time, s; `sessions` is 10 by default then.
        timeout: s; a worker that is silent for this long is killed.
        memory_limit: bytes that a worker may allocate.
        cpus, memory: processors and bytes of a smaller device, held by the kernel for every worker; None sets no limit.
        device: where to run; ``local`` is this machine.
        meters: read sensors in a pass of their own, where there are any.
        store: where runs are kept: a `Store`, or its URL; None keeps nothing.
        progress: is told what happens while it happens, see `edgewise.progress`.

    Returns:
        One run per job in the plan's order. A job that failed is a run too; its `status` says so.

    Raises:
        BadInput, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are the finished ones.
    """
    fields = _fields_of(locals())
    return _runs_of(carry_out("bench", context_of(store, progress), models=several(paths), **fields))


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
    cpus: float | None = None,
    memory: int | None = None,
    device: str = "local",
    metrics: Sequence[str] = (),
    until: str | None = None,
    threshold: float = 0.03,
    floors: Mapping[str, float] | None = None,
    pareto: Sequence[str] = (),
    force: bool = False,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> ComparisonResult:
    """Compare models, settings or runs; the later ones with the first.

    Models are measured side by side, in turns, until the verdict is safe. Several runtimes, threads, batches or
    precisions make a variant of each.

    Args:
        things: model files, and runs that were measured before; runs alone are compared by their samples.
        labels: a name per thing, None to have one made.
        runtimes: empty means the engine whose own format a model has.
        time_budget: s; None means 60 for two variants and 30 for every further one.
        rounds: largest number of rounds of fresh processes.
        duet: all at once, on cores of their own, instead of in turns.
        stored: use the samples of runs even where their models could be measured again beside the others.
        metrics: ids of the metric catalogue; empty means those that the runs have.
        until: the metric whose verdict ends the measurement; None means the scenario's headline.
        threshold: a relative difference up to this doesn't matter.
        floors: metric → absolute difference (SI) that doesn't matter.
        pareto: metrics of the Pareto front.
        force: compare what can't be compared fairly. All other arguments are as in `bench`.

    Returns:
        An `edgewise.comparing.comparison.ComparisonResult`; its `to_document` is what ``edgewise compare --json``
        prints.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.comparing.trial.ComparisonInterrupted`, whose `findings` are the results so far.
    """
    fields = _fields_of(locals())
    from edgewise.comparing.trial import ComparisonInterrupted

    runs = {thing.id: thing for thing in things if isinstance(thing, Run)}
    subjects = [thing.id if isinstance(thing, Run) else os.fspath(thing) for thing in things]
    found: ComparisonResult = carry_out("compare", context_of(store, progress, runs=runs), subjects=subjects, **fields)
    if found.interrupted:
        raise ComparisonInterrupted(found)
    return found


def _fields_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request among a function's arguments."""
    return {name: value for name, value in arguments.items() if name not in ("paths", "things", "store", "progress")}


def several(paths: PathLike | Sequence[PathLike]) -> tuple[PathLike, ...]:
    """One path is a sequence of one."""
    return (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)


def context_of(
    store: str | Store | None, progress: Progress | None, *, runs: Mapping[str, Run] | None = None
) -> Context:
    """The context of a function: without a store, nothing is kept."""
    from edgewise.service.context import Context

    return Context(store=store, keep=store is not None, progress=progress, runs=runs or {})


def carry_out(verb: str, context: Context, **fields: Any) -> Any:
    """What the request gives; arguments that are None are left to it. Raises errors that name arguments."""
    from edgewise import service
    from edgewise.service.command_line import named_for_python
    from edgewise.service.reading import make_request
    from edgewise.service.requests import REQUESTS

    with named_for_python():
        given = {name: value for name, value in fields.items() if value is not None}
        return service.carry_out(make_request(REQUESTS[verb], **given), context)


def _runs_of(measured: Measured) -> list[Run]:
    """The runs. Raises `Interrupted` where the work was cancelled."""
    from edgewise.run.dispatch import Interrupted

    if measured.interrupted:
        raise Interrupted(measured.runs)
    return list(measured.runs)


def open_store(url: str | None = None) -> Store:
    """The store at `url` (any SQLAlchemy URL or a path); None means the user's own. Raises `StoreError`."""
    from edgewise.store import open_store as open_

    return open_(url)
