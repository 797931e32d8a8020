"""The Python API: the same engine as the command line, typed.

>>> import edgewise
>>> runs = edgewise.bench("model.onnx", runtimes=["onnxruntime"], threads=[1, 2])  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgewise import shown
from edgewise.errors import BadInput, Namer, as_argument
from edgewise.record import Run
from edgewise.record.job import LoadKind, ScenarioKind
from edgewise.terminal import notebook
from edgewise.verbs import function
from edgewise.verbs.function import carry_out, context_of
from edgewise.verbs.verb import named_for_python

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.converting.result import Conversion
    from edgewise.estimating.base import Estimate
    from edgewise.estimating.fits import Fits
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.model.inspection import Inspection
    from edgewise.optimizing.choice import Aim
    from edgewise.optimizing.variant import Optimization
    from edgewise.predicting import Calibration, Forecasts
    from edgewise.progress import Progress
    from edgewise.store import Store
    from edgewise.verbs.diff.result import DiffResult
    from edgewise.verbs.measuring import Measured
    from edgewise.verbs.optimize.in_lab import FarOptimization

PathLike = str | os.PathLike[str]
Model = Any
"""A path, or a model in memory: a PyTorch module or ``ExportedProgram``, a Keras model, an ONNX ``ModelProto``; also a
tuple of a PyTorch module and its example inputs."""


def _presentation() -> shown.Presenter:
    from edgewise.verbs import shown_in_python

    return shown_in_python


shown.presenter = _presentation
function.own_progress = notebook.progress


class Runs(list[Run], shown.Shown):
    """Runs; the interpreter shows them as the command line prints them."""

    __slots__ = ()
    __repr__ = shown.Shown.__repr__


def inspect(
    model: Model | None = None,
    example_inputs: Any = None,
    *,
    build: str | None = None,
    what_if: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    signature: str = "",
    hash_weights: bool = False,
    sparsity: bool = False,
) -> Inspection:
    """Count what a model costs, plan its memory, and ask which engines support its operators, without timing it.

    An ONNX model whose shapes, branches or loops depend on values is run once, in a process with limits, and the basis
    is then ``measured``. Where it can't be run, what depends on it is None, and `Inspection.method` says why.

    Args:
        model: a model file, whose weights are not read, or a model in memory. ``package.module:factory`` is the same
            as `build`.
        example_inputs: of a PyTorch module, as in `bench`.
        build: a factory that returns a model, trained or not: ``package.module:factory`` or ``file.py:factory``.
        what_if: keyword arguments of the factory.
        shapes: input name → shape for open dimensions.
        signature: entry point of a file that has several; "" is its first.
        hash_weights: read weight files too, for the model's hash.
        sparsity: read all weights of a file, count their zeros and find patterns (`Inspection.sparsity`).

    Returns:
        An `edgewise.model.inspection.Inspection`; its `to_dict` is what ``edgewise inspect --json`` prints.

    Raises:
        BadModel, BadInput, Unavailable (a package that the model needs is not installed).
    """
    if (build is None) == (model is None):
        raise BadInput("give a model file or a factory, and not both", advice='edgewise.inspect("model.onnx")')
    with in_memory(build if model is None else model, example_inputs) as (named,):
        found = carry_out(
            "inspect",
            context_of(None, None),
            model=named,
            cases=(dict(what_if),) if what_if else None,
            shapes=shapes,
            signature=signature,
            hash_weights=hash_weights,
            sparsity=sparsity,
        )
    inspection: Inspection = found[0]
    return inspection


def estimate(
    model: PathLike,
    device: str,
    *,
    what_if: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    signature: str = "",
) -> Estimate:
    """Estimate a model on hardware that is not at hand.

    Args:
        model: a file; ``module:function`` and ``file.py:function`` are called to make one, which is quantised to int8.
        what_if: keyword arguments of the function.
        device: ``NAME`` or ``NAME@CLOCK``, such as ``ethos-u55-128@400MHz``; ``edgewise estimate --devices`` lists all.
        settings: of the estimator, name → value.
        shapes: input name → shape for open dimensions.
        signature: entry point of a file that has several; "" is its first.

    Returns:
        An `edgewise.estimating.base.Estimate`. Where the device can't execute the model, its `refused` says why.

    Raises:
        BadModel, BadInput, RunFailed, Unavailable (the estimator is not installed).
    """
    cases = (dict(what_if),) if what_if else None
    fields = {"model": model, "cases": cases, "device": device, "set": settings, "shapes": shapes}
    found: Estimate = carry_out("estimate", context_of(None, None), signature=signature, **fields)
    return found


def convert(
    model: PathLike,
    *,
    to: str | None = None,
    output: PathLike | None = None,
    opset: int | None = None,
    precision: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    signature: str = "",
    input_data: PathLike | None = None,
    data: PathLike | None = None,
    split: str | None = None,
    limit: int | None = None,
    prepare: Sequence[str] = (),
    seed: int = 0,
    timeout: float | None = None,
    memory_limit: int | None = None,
    lab: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Convert a model to another format, and write the result if its outputs agree with the source's.

    Args:
        model: a file or a SavedModel's folder; ``module:function`` and ``file.py:function`` are called to make one.
        to: ``onnx``, ``ort``, ``openvino``, ``tflite``, ``pt2``, ``keras`` or ``savedmodel``; None is the format of
            the ending of `output`.
        output: the file to write; None is a file in the current folder that is called like the model.
        opset: version of ONNX's operator set.
        precision: ``f16`` stores the weights of OpenVINO IR in 16 bits; ``int8`` quantises a TFLite or ONNX model.
        shapes: input name → shape for open dimensions.
        signature: entry point of a file that has several; "" is its first.
        input_data: an ``.npz`` file with one array per input to compare on; None generates random inputs from `seed`.
        data: samples for ``int8``, from which the ranges of the activations come.
        split, limit, prepare: part of `data`, number of samples, and their preparation, as for `evaluate`.
        timeout: time limit of the conversion, s.
        memory_limit: bytes that a process may allocate.
        lab: a host of the lab in your store converts the model, and its files come here.
        force: overwrite files.
        progress: receives events.

    Returns:
        An `edgewise.converting.result.Conversion`. Where the outputs differ it is not ``accepted``, its ``wrong`` names
        the operator, and nothing was written.

    Raises:
        BadModel, BadInput, RunFailed, Unavailable (a converter is not installed, or can't convert this model).
    """
    fields = {
        "model": model, "to": to, "folder": output, "opset": opset, "precision": precision, "shapes": shapes,
        "signature": signature, "input_data": input_data, "data": data, "split": split, "limit": limit,
        "prepare": prepare, "seed": seed, "timeout": timeout, "memory_limit": memory_limit, "lab": lab,
        "force": force,
    }  # fmt: skip
    found: Conversion = carry_out("convert", context_of(None, progress), **fields)
    return found


def diff(
    reference: PathLike,
    other: PathLike | None = None,
    *,
    runtimes: Sequence[str] = (),
    data: PathLike | None = None,
    split: str | None = None,
    limit: int = 16,
    prepare: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    timeout: float = 300.0,
    top: int = 15,
    progress: Progress | None = None,
) -> DiffResult:
    """Find the layer in which the values of two models, or of two engines on one model, begin to differ.

    Args:
        reference: the right model: a file, or ``file.py:function``, which is called to make one.
        other: the model to check; None is `reference` in the second of two `runtimes`.
        runtimes: engine of the reference, and of the other model; empty is that of each file's format.
        data: samples, as `evaluate` takes them, without labels too; None generates random inputs from `seed`.
        split, prepare: part of `data`, and the preparation of a sample, as for `evaluate`.
        limit: number of samples, chosen at random by `seed`.
        shapes: input name → shape for open dimensions.
        timeout: time limit of all inferences, s.
        top: number of layers in the text and in the rows; 0 is all. `DiffResult.layers` always has all.
        progress: receives events.

    Returns:
        An `edgewise.verbs.diff.result.DiffResult`; its ``begins`` is the layer, None where no layer stands out.

    Raises:
        BadModel, BadInput, RunFailed (an engine can't run a model), Unavailable (an engine is not installed).
    """
    fields = {
        "reference": reference, "other": other, "runtimes": runtimes, "data": data, "split": split, "limit": limit,
        "prepare": prepare, "shapes": shapes, "seed": seed, "timeout": timeout, "top": top,
    }  # fmt: skip
    found: DiffResult = carry_out("diff", context_of(None, progress), **fields)
    return found


def calibrate(
    name: str,
    measurements: PathLike | Run | Sequence[PathLike | Run] = (),
    *,
    method: str | None = None,
    host: str | None = None,
    runtime: str | None = None,
    atlas_device: str | None = None,
    model_dir: PathLike | None = None,
    keep: bool = True,
    store: str | Store | None = None,
) -> Calibration:
    """Learn a device from 3 or more models that were measured on it; `predict` then predicts others.

    Args:
        name: of the device; an earlier calibration of this name is replaced, which `Calibration.replaced` tells.
        measurements: CSV files with the columns ``model``, ``latency_ms``, ``host_latency_ms`` and the like; runs of
            the device, or stored ones (id, its beginning, tag); files of exported runs or of another tool's output;
            folders of these. Without any, the stored runs of the device.
        method: the law to take; None chooses the one with the least error, here and on public devices together.
        host: engine whose stored runs on this machine are taken, and that measured a table's ``host_`` columns, or its
            beginning; None takes the one with the most runs.
        runtime: engine whose runs of the device are taken; needed where `measurements` has runs of several.
        atlas_device: name of the device in the atlas, where its results with other runtimes tell more of it.
        model_dir: folder of the measured models, which are found by their names or hashes.
        keep: whether the calibration is kept with the store, where `predict` finds it.
        store: of the runs; None is the user's own.

    Returns:
        An `edgewise.predicting.Calibration`; its `choices` have the laws and errors of each metric.

    Raises:
        BadInput: unreadable, contradictory or too few measurements, or an unknown law.
    """
    from edgewise.verbs.context import Context

    given = [measurements] if isinstance(measurements, str | os.PathLike | Run) else list(measurements)
    runs, words = _words_of(given)
    fields = {"name": name, "measurements": words, "method": method, "host": host, "runtime": runtime}
    fields |= {"atlas_device": atlas_device, "model_dir": None if model_dir is None else os.fspath(model_dir)}
    found: Calibration = carry_out("calibrate", Context(store=store, keep=keep, runs=runs), **fields)
    return found


def predict(
    models: PathLike | Sequence[PathLike],
    device: str,
    *,
    targets: Mapping[str, float] | None = None,
    anyway: bool = False,
    store: str | Store | None = None,
) -> Forecasts:
    """Predict models for a calibrated device.

    Args:
        models: model files, or CSV files with the columns ``model`` and ``host_latency_ms`` and the like.
        device: the name of a calibration.
        targets: metric → largest value wanted, in SI; the forecasts then have the probability of meeting it.
        anyway: widen the interval of a model that the measured ones say little about, instead of refusing it.
        store: of the calibration and of the runs on this machine; None is the user's own.

    Returns:
        An `edgewise.predicting.Forecasts`: its `of("latency")` has the models in their order. A forecast without a
        prediction says in `refused` why.

    Raises:
        BadModel, BadInput: unreadable models, or a device that is not calibrated.
    """
    from edgewise.verbs.context import Context

    found: Forecasts = carry_out(
        "predict", Context(store=store), models=several(models), device=device, targets=targets, anyway=anyway
    )
    return found


def fits(
    model: PathLike,
    *,
    what_if: Mapping[str, Any] | None = None,
    max_latency: float | None = None,
    max_ram: int | None = None,
    max_flash: int | None = None,
    capacity: str | None = None,
    idle_power: str | None = None,
    per_hour: float | None = None,
    settings: Mapping[str, str] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    signature: str = "",
) -> Fits:
    """List the boards of the catalogue that hold a model, with memory, latency and battery life.

    Args:
        what_if: keyword arguments of a factory.
        max_latency: s.
        max_ram, max_flash: bytes that the model may take.
        capacity: of a battery, such as ``"10Wh"``; a battery life needs `idle_power`, such as ``"5mW±1mW"``, and
            `per_hour`, the number of inferences an hour, too.
        settings, shapes, signature: as in `estimate`.

    Returns:
        An `edgewise.estimating.fits.Fits`. Where no board holds the model, its `refused` says what the closest lacks.

    Raises:
        BadModel, BadInput.
    """
    cases = (dict(what_if),) if what_if else None
    fields = {
        "cases": cases, "model": model, "max_latency": max_latency, "max_ram": max_ram, "max_flash": max_flash,
        "capacity": capacity, "idle_power": idle_power, "per_hour": per_hour, "shapes": shapes,
        "signature": signature,
    }  # fmt: skip
    found: Fits = carry_out("fits", context_of(None, None), set=settings, **fields)
    return found


def profile(
    paths: Model | Sequence[Model],
    example_inputs: Any = None,
    *,
    what_if: Mapping[str, Any] | None = None,
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    threads: int | Sequence[int] = (),
    batches: int | Sequence[int] = (1,),
    precisions: Sequence[str] = (),
    signatures: Sequence[str] = (),
    environments: Sequence[str] = (),
    variables: Sequence[str] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_data: PathLike | None = None,
    seed: int = 0,
    iterations: int | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    sessions: int | None = None,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    cpus: float | None = None,
    memory: int | None = None,
    mechanism: str | None = None,
    device: str = "local",
    lab: bool = False,
    settings: Mapping[str, Any] | None = None,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> Runs | Any:
    """Time every layer of one or more models on one or more runtimes.

    The latency is measured first, as `bench` does; then the engine times its layers in processes of its own.

    Args:
        what_if: keyword arguments of a factory among `paths`.
        sessions: fresh processes that measure the latency; None is 3. All other arguments are as in `bench`. Several
            runs are measured once more in turns, unless iterations, warmup, duration or sessions are given.
        device: also a device that `estimate` knows, such as ``cortex-m33``: the layers of one model are then estimated.
        settings: as in `bench`; for such a device those of the estimator, as in `estimate`.

    Returns:
        One run per job, with `Run.layers` and `Run.profile`, or with `Run.profile_absent_because`; of a device that is
        estimated, an `edgewise.estimating.base.Estimate`.

    Raises:
        BadInput, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are the finished ones.
    """
    cases = (dict(what_if),) if what_if else None
    fields = {
        "cases": cases, "runtimes": runtimes, "providers": providers, "threads": threads, "batches": batches,
        "precisions": precisions, "signatures": signatures, "environments": environments, "variables": variables,
        "shapes": shapes, "input_data": input_data, "seed": seed,
        "iterations": iterations, "warmup": warmup, "duration": duration, "sessions": sessions, "timeout": timeout,
        "memory_limit": memory_limit, "cpus": cpus, "memory": memory, "mechanism": mechanism, "device": device,
        "lab": lab,
    }  # fmt: skip
    with in_memory(paths, example_inputs) as models:
        found = carry_out("profile", context_of(store, progress), models=models, set=settings, **fields)
    from edgewise.verbs.estimate.request import is_estimated

    return found if is_estimated(device) and not lab else _runs_of(found)


def bench(
    paths: Model | Sequence[Model],
    example_inputs: Any = None,
    *,
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    threads: int | Sequence[int] = (),
    batches: int | Sequence[int] = (1,),
    precisions: Sequence[str] = (),
    signatures: Sequence[str] = (),
    environments: Sequence[str] = (),
    variables: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_data: PathLike | None = None,
    seed: int = 0,
    scenario: ScenarioKind = "single-stream",
    prompt_tokens: int | Sequence[int] = (),
    new_tokens: int | None = None,
    depth: int | Sequence[int] = (),
    fps: float | None = None,
    streams: int | None = None,
    requests: int | None = None,
    iterations: int | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    sessions: int | None = None,
    time_budget: float | None = None,
    spread: float | None = None,
    sustained: float | None = None,
    duty_cycle: float | None = None,
    drop_cache: bool = False,
    background_load: int | None = None,
    background_kind: LoadKind | None = None,
    report_every: int | None = None,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    cpus: float | None = None,
    memory: int | None = None,
    mechanism: str | None = None,
    device: str = "local",
    lab: bool = False,
    meters: bool = True,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Measure one or more models on one or more runtimes, side by side.

    Args:
        paths: model files, or ``file.py:function`` and ``module:function``, which are called to make one; also models
            in memory (PyTorch, Keras, ONNX), which run on every engine through its export.
        example_inputs: of a PyTorch module in memory: a tensor, a tuple of positional arguments or a dictionary of
            keyword arguments. They are also what it is fed, unless they only tell a shape, such as ``torch.zeros``.
        runtimes: names or ``name/provider``; empty means every installed one that reads the file.
        providers: empty means each runtime's first.
        threads: an axis; empty means one thread (all usable cores in the offline scenario).
        batches: an axis.
        precisions: an axis (``f32``, ``bf16`` …); empty means like for like.
        signatures: an axis: entry points of files that have several; empty means each file's first.
        environments: an axis: Python environments on the device, ``onnxruntime==1.30.0`` or the path of one, or
            ``container://IMAGE``; ``local`` is edgewise's own.
        variables: environment variables for the engine's process, ``NAME=VALUE`` each; several values of one name are
            varied.
        settings: of the engines by their own names (``channels_last``); each engine gets those that it has.
        shapes: input name → shape for open dimensions.
        input_data: an ``.npz`` with one array per input; without it inputs are random from `seed`.
        scenario: ``single-stream``, ``offline`` (with `streams`, `requests`), ``paced`` (with `fps`) or
            ``cold-start`` (one inference per fresh process; 10 by default), or ``generate`` (a language model makes
            `new_tokens` tokens after a prompt; `input_data` is then a ``.jsonl`` of prompts).
        prompt_tokens, depth: axes of the scenario ``generate``: tokens of the prompt, and in the KV cache before it.
        iterations, warmup, duration (s): per session; None is found from the data.
        sessions: fresh processes; None is 5, or 1 where iterations, warmup or duration are given.
        time_budget: time limit of all sessions and turns, s; each job has two sessions or more, and of several the
            sessions leave 40 % of it for turns.
        report_every: report the running average every this many inferences.
        spread: spread the sessions of all jobs over this time, s; `sessions` is 10 by default then.
        sustained: infer without a break for this time, s, in one process; `Run.sustained` has the latency over time.
        duty_cycle: share of the time in which inferences run, 0…1, with rests in between.
        drop_cache: drop the model's files from the file cache before each start of the scenario ``cold-start``.
        background_load: number of busy processes beside the model; they ``compute`` or copy ``memory``, as
            `background_kind` says.
        timeout: s; a worker that is silent for this long is killed.
        memory_limit: bytes that a worker may allocate.
        cpus, memory: processors and bytes of a smaller device, held by the kernel for every worker; None sets no limit.
        mechanism: what holds these limits; None is the best that works.
        device: where to run; ``local`` is this machine.
        lab: let hosts of the lab in `store` do it; `device` is then a name or a tag of its devices.
        meters: read sensors in a pass of their own, where there are any.
        store: where runs are kept: a `Store`, or its URL; None keeps nothing.
        progress: called with each event as it happens, see `edgewise.progress`.
            Without it, and outside a notebook, a `RuntimeWarning` tells that the device is in use and by whom.

    Returns:
        One run per job in the plan's order. A job that failed is a run too; its `status` says so.

    Raises:
        BadInput, Unavailable: before anything was measured.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are the finished ones.
    """
    fields = {
        "runtimes": runtimes, "providers": providers, "threads": threads, "batches": batches,
        "precisions": precisions, "signatures": signatures, "environments": environments, "variables": variables,
        "shapes": shapes, "input_data": input_data, "seed": seed,
        "scenario": scenario, "prompt_tokens": prompt_tokens, "new_tokens": new_tokens, "depth": depth,
        "fps": fps, "streams": streams, "requests": requests, "iterations": iterations,
        "warmup": warmup, "duration": duration, "sessions": sessions, "spread": spread, "sustained": sustained,
        "time_budget": time_budget, "duty_cycle": duty_cycle, "drop_cache": drop_cache,
        "background_load": background_load, "background_kind": background_kind, "report_every": report_every,
        "timeout": timeout, "memory_limit": memory_limit, "cpus": cpus, "memory": memory, "mechanism": mechanism,
        "device": device, "lab": lab,
        "meters": meters,
    }  # fmt: skip
    with in_memory(paths, example_inputs) as models:
        return _runs_of(carry_out("bench", context_of(store, progress), models=models, set=settings, **fields))


def compare(
    things: Sequence[Model | Run],
    example_inputs: Any = None,
    *,
    labels: Sequence[str | None] = (),
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    threads: int | Sequence[int] = (),
    batches: int | Sequence[int] = (1,),
    precisions: Sequence[str] = (),
    signatures: Sequence[str] = (),
    environments: Sequence[str] = (),
    variables: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_data: PathLike | None = None,
    seed: int = 0,
    scenario: Literal["single-stream", "offline", "paced", "generate"] = "single-stream",
    prompt_tokens: int | None = None,
    new_tokens: int | None = None,
    depth: int | None = None,
    fps: float | None = None,
    warmup: int | None = None,
    time_budget: float | None = None,
    rounds: int | None = None,
    stored: bool = False,
    meters: bool = False,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    cpus: float | None = None,
    memory: int | None = None,
    mechanism: str | None = None,
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

    Models are measured side by side, in turns, until the verdict is decided. Several runtimes, threads, batches or
    precisions make a variant of each.

    Args:
        things: model files, PyTorch modules, which run as they are unless `runtimes` are given, and runs that were
            measured before; runs alone are compared by their samples.
        example_inputs: of PyTorch modules, as in `bench`.
        labels: a name per thing, None to have one made.
        runtimes: empty means the engine whose own format a model has.
        prompt_tokens, new_tokens, depth: of the scenario ``generate``; None means 128, 128 and 0.
        time_budget: s; None means 60 for two variants and 30 for every further one, and three times as much for
            the scenario ``generate``.
        rounds: largest number of rounds of fresh processes.
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
    fields = {
        "labels": labels, "runtimes": runtimes, "providers": providers, "threads": threads, "batches": batches,
        "precisions": precisions, "signatures": signatures, "environments": environments, "variables": variables,
        "shapes": shapes, "input_data": input_data, "seed": seed,
        "scenario": scenario, "prompt_tokens": prompt_tokens, "new_tokens": new_tokens, "depth": depth, "fps": fps,
        "warmup": warmup, "time_budget": time_budget, "rounds": rounds, "stored": stored, "meters": meters,
        "timeout": timeout, "memory_limit": memory_limit, "cpus": cpus, "memory": memory, "mechanism": mechanism,
        "device": device, "metrics": metrics, "until": until, "threshold": threshold, "floors": floors,
        "pareto": pareto, "force": force,
    }  # fmt: skip
    from edgewise.comparing.trial import ComparisonInterrupted

    with in_memory(things, example_inputs, as_files=not runtimes) as named:
        runs, subjects = _words_of(named)
        context = context_of(store, progress, runs=runs)
        found: ComparisonResult = carry_out("compare", context, subjects=subjects, set=settings, **fields)
    if found.interrupted:
        raise ComparisonInterrupted(found)
    return found


def evaluate(
    models: Model | Sequence[Model],
    example_inputs: Any = None,
    *,
    data: PathLike,
    task: str | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    strict: bool = False,
    data_format: str | None = None,
    data_options: Mapping[str, str] | None = None,
    task_options: Mapping[str, str] | None = None,
    classes: Sequence[str] = (),
    prepare: Sequence[str] = (),
    instructions: PathLike | None = None,
    metrics: Sequence[str] = (),
    reference: PathLike | None = None,
    runtimes: Sequence[str] = (),
    providers: Sequence[str] = (),
    precisions: Sequence[str] = (),
    signatures: Sequence[str] = (),
    threads: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    latency: bool = True,
    sessions: int = 3,
    meters: bool = False,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    cpus: float | None = None,
    memory: int | None = None,
    mechanism: str | None = None,
    device: str = "local",
    keep_state: bool = False,
    lab: bool = False,
    shards: int | None = None,
    fresh: bool = False,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> EvaluationResults:
    """Measure the accuracy of models on labelled data, or against another model's outputs.

    Args:
        models: model files, or PyTorch modules, which run as they are.
        example_inputs: of PyTorch modules, as in `bench`.
        data: a file or folder, or ``module:function``.
        task: None takes that of the instructions beside the model.
        split: of the data; None is its test part, or all of it.
        limit: number of samples, chosen by `seed`; None is all.
        strict: a sample that can't be used is an error instead of being skipped and counted.
        prepare: ``STEP=VALUE`` words; they win over instructions beside the model.
        instructions: a YAML file to read instead of the one beside the model.
        metrics: of your own: ``module:function``, ``file.py:function`` (``=lower`` where less is better), ``hf:DIR``.
        reference: a model whose outputs are taken as right; labels are then not looked at.
        runtimes: empty is the engine whose own format a model has.
        providers, precisions, signatures: as in `bench`.
        latency: measure it too, in `sessions` fresh processes.
        meters: read sensors beside the latency, where there are any.
        keep_state: samples are one sequence for models that keep a state; otherwise it is reset before each sample.
        fresh: don't resume an evaluation that was cut off.
        lab: let hosts of the lab in `store` run the samples, in `shards` jobs; `device` is a host's name or a tag, and
            the latency is not measured.

    Returns:
        An `edgewise.evaluating.evaluation.EvaluationResults`: per model a run with measurements and an `evaluation`,
        its scores, and their paired differences from the first model's.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    fields = {
        "data": data, "task": task, "split": split, "limit": limit, "seed": seed, "strict": strict,
        "data_format": data_format, "data_options": data_options, "task_options": task_options, "classes": classes,
        "prepare": prepare, "instructions": instructions, "reference": reference, "runtimes": runtimes,
        "providers": providers, "precisions": precisions, "signatures": signatures, "threads": threads,
        "shapes": shapes, "latency": latency, "sessions": sessions, "meters": meters, "timeout": timeout,
        "memory_limit": memory_limit, "cpus": cpus, "memory": memory, "mechanism": mechanism, "device": device,
        "keep_state": keep_state, "fresh": fresh, "lab": lab, "shards": shards,
    }  # fmt: skip
    context = context_of(store, progress)
    with in_memory(models, example_inputs, as_files=True, runtimes=runtimes) as named:
        found: EvaluationResults = carry_out("evaluate", context, models=named, own_metrics=metrics, **fields)
    return found


def optimize(
    model: PathLike,
    *,
    signature: str = "",
    also: Sequence[PathLike] = (),
    data: PathLike | None = None,
    output: PathLike | None = None,
    task: str | None = None,
    split: str | None = None,
    limit: int | None = None,
    calibrate_on: str | None = None,
    calibration_limit: int | None = None,
    seed: int = 0,
    strict: bool = False,
    data_format: str | None = None,
    data_options: Mapping[str, str] | None = None,
    task_options: Mapping[str, str] | None = None,
    classes: Sequence[str] = (),
    prepare: Sequence[str] = (),
    instructions: PathLike | None = None,
    max_latency: float | None = None,
    max_size: int | None = None,
    max_memory: int | None = None,
    max_accuracy_drop: str | None = None,
    min_accuracy: float | None = None,
    min_snr: float | None = None,
    aim: Aim = "latency",
    runtimes: Sequence[str] = (),
    threads: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    passes: Sequence[str] = (),
    keep_float: Sequence[str] = (),
    sensitivity: bool | None = None,
    everything: bool = False,
    time_budget: float | None = None,
    memory_limit: int | None = None,
    device: str = "local",
    lab: bool = False,
    fresh: bool = False,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> Optimization | FarOptimization:
    """Find the fastest variant of a model that keeps its accuracy, by making variants and measuring them.

    Args:
        model: a file, or a factory ``module:function`` that returns a trained torch module.
        signature: entry point of a file that has several; "" is its first.
        also: files of the same network in other formats, so that engines which do not read the first can be tried.
        data: what variants are judged on; passes look at its training part, or at a part that is then not judged.
        output: folder for variants and the result; None is ``MODEL-optimized`` here.
        calibrate_on: the split that passes may use; None is the training part, else a part that is then not judged.
        calibration_limit: number of samples for that; None is 128.
        max_latency: s. max_size, max_memory: B. min_accuracy: of the task's headline metric.
        max_accuracy_drop: ``1pt`` (of a share), ``2%`` of the original's value, or a number in the metric's unit; None
            is 1pt, and 1% of a metric that is no share.
        min_snr: dB, of outputs against the original's where there are no labels; None is 20, where they are neither
            class scores nor boxes.
        aim: ``latency``, or ``size``, where what is smaller and as fast is accepted too.
        runtimes: engines that may be used; empty is all.
        threads: None is one, and tuning tries more.
        passes: ``NAME`` or ``NAME:RECIPE``; empty is everything that is installed.
        keep_float: layers that passes leave alone.
        sensitivity: whether layers are tried one by one; None: where a quantised variant loses too much.
        everything: try the recipes that seldom win, too.
        time_budget: s.
        device: where variants are raced; for one that `estimate` knows, or a calibrated one, they are estimated.
        lab: let a host of the lab in `store` do it; `device` is then a name or a tag of its devices.
        fresh: use nothing that an earlier search left in `output`.
        store: where runs are kept; other arguments are as in `evaluate`.

    Returns:
        An `edgewise.optimizing.variant.Optimization`; its `to_document` is what ``edgewise optimize --json`` prints.
        With `lab`, what its host wrote: the folder `output`, with the result as files.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        RunFailed: the original does not run.
    """
    fields = {
        "model": model, "signature": signature, "also": also, "data": data, "task": task, "split": split,
        "limit": limit, "calibrate_on": calibrate_on, "calibration_limit": calibration_limit, "seed": seed,
        "strict": strict, "data_format": data_format, "data_options": data_options, "task_options": task_options,
        "classes": classes, "prepare": prepare, "instructions": instructions, "max_latency": max_latency,
        "max_size": max_size, "max_memory": max_memory, "max_accuracy_drop": max_accuracy_drop,
        "min_accuracy": min_accuracy, "min_snr": min_snr, "aim": aim, "runtimes": runtimes, "threads": threads,
        "shapes": shapes, "passes": passes, "keep_float": keep_float, "sensitivity": sensitivity,
        "everything": everything, "time_budget": time_budget, "memory_limit": memory_limit, "device": device,
        "fresh": fresh, "lab": lab,
    }  # fmt: skip
    found: Optimization | FarOptimization = carry_out("optimize", context_of(store, progress), folder=output, **fields)
    return found


@contextmanager
def in_memory(
    things: Any, example_inputs: Any, *, as_files: bool = False, runtimes: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """`things` with a name, or a file, for every model in memory; see `edgewise.verbs.in_memory`."""
    if example_inputs is None and isinstance(things, str | os.PathLike):
        yield (things,)
        return
    from edgewise.verbs.in_memory import named_models

    with named_models(things, example_inputs, as_files=as_files, runtimes=runtimes) as named:
        yield named


def several(paths: PathLike | Sequence[PathLike]) -> tuple[PathLike, ...]:
    """One path is a sequence of one."""
    return (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)


def _words_of(things: Sequence[PathLike | Run]) -> tuple[dict[str, Run], list[str]]:
    """Return the runs among `things` by id, and for each thing the path or the id that names it in a request."""
    runs = {thing.id: thing for thing in things if isinstance(thing, Run)}
    return runs, [thing.id if isinstance(thing, Run) else os.fspath(thing) for thing in things]


def _runs_of(measured: Measured) -> Runs:
    """Return the runs. Raises `Interrupted` where the work was cancelled."""
    from edgewise.run.dispatch import Interrupted

    if measured.interrupted:
        raise Interrupted(measured.runs)
    return Runs(measured.runs)


def _called(names: Mapping[str, str]) -> Namer:
    """Return what a function calls fields that have other `names` on the command line."""
    return lambda field, value: as_argument(names.get(field, field), value)


@named_for_python(_called({"from": "tool", "set": "settings"}))
def import_runs(
    files: PathLike | Sequence[PathLike],
    *,
    tool: str = "auto",
    model: PathLike | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    store: str | Store | None = None,
) -> Runs:
    """Read runs from exports of edgewise or from results of other tools.

    Args:
        files: exports, or files that another tool wrote.
        tool: the tool, such as ``benchmark_app``; ``auto`` recognises it by the content.
        model: file of the model that the tool measured.
        device: device that ran the tool; ``local`` is this machine.
        settings: what the files don't have: ``threads``, ``batch``, ``precision``, ``provider`` or ``version``.
        store: where the runs are saved that it does not have yet; None saves nothing.

    Returns:
        The runs of all files, in order.

    Raises:
        BadInput: a file that is unreadable, unknown or malformed, with its line or JSON path.
        StoreError: the runs can't be saved.
    """
    from edgewise.importing import Told, read_any
    from edgewise.importing.reader import read_settings
    from edgewise.store import open_store as open_

    checked = read_settings({name: str(value) for name, value in (settings or {}).items()})
    told = Told(model=None if model is None else Path(model), device=device, settings=checked)
    found = [run for file in several(files) for run in read_any(Path(file), tool, told)]
    if isinstance(store, str):
        with open_(store) as opened:
            opened.merge(found)
    elif store is not None:
        store.merge(found)
    return Runs(found)


@named_for_python(_called({"store": "url"}))
def open_store(url: str | None = None) -> Store:
    """Return the store at `url` (any SQLAlchemy URL or a path); None means the user's own. Raises `StoreError`."""
    from edgewise.store import open_store as open_

    return open_(url)
