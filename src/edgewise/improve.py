"""The Python functions `evaluate` and `optimize`; the command line carries out the same requests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgewise.api import carry_out, context_of, several

if TYPE_CHECKING:
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.optimizing.choice import Aim
    from edgewise.optimizing.variant import Optimization
    from edgewise.progress import Progress
    from edgewise.store import Store

PathLike = str | os.PathLike[str]

SESSIONS = 3
"""Fresh processes of the latency beside an accuracy."""


def evaluate(
    models: PathLike | Sequence[PathLike],
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
    threads: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    latency: bool = True,
    sessions: int = SESSIONS,
    meters: bool = False,
    timeout: float = 120.0,
    memory_limit: int | None = None,
    cpus: float | None = None,
    memory: int | None = None,
    device: str = "local",
    fresh: bool = False,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> EvaluationResults:
    """Measure the accuracy of models on labelled data, or against another model's outputs.

    Args:
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
        latency: measure it too, in `sessions` fresh processes.
        meters: read sensors beside the latency, where there are any.
        fresh: don't resume an evaluation that was cut off.

    Returns:
        An `edgewise.evaluating.evaluation.EvaluationResults`: per model a run with measurements and an `evaluation`,
        its scores, and their paired differences from the first model's.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    fields = {name: value for name, value in locals().items() if name not in ("models", "metrics", "store", "progress")}
    found: EvaluationResults = carry_out(
        "evaluate", context_of(store, progress), models=several(models), own_metrics=metrics, **fields
    )
    return found


def optimize(
    model: PathLike,
    *,
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
    fresh: bool = False,
    store: str | Store | None = None,
    progress: Progress | None = None,
) -> Optimization:
    """Find the fastest variant of a model that keeps its accuracy, by making variants and measuring them.

    Args:
        model: a file, or a factory ``module:function`` that returns a trained torch module.
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
        fresh: use nothing that an earlier search left in `output`.
        store: where runs are kept; other arguments are as in `evaluate`.

    Returns:
        An `edgewise.optimizing.variant.Optimization`; its `to_document` is what ``edgewise optimize --json`` prints.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        RunFailed: the original does not run.
    """
    fields = {name: value for name, value in locals().items() if name not in ("output", "store", "progress")}
    found: Optimization = carry_out("optimize", context_of(store, progress), folder=output, **fields)
    return found
