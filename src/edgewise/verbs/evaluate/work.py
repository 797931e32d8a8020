"""Carries out `evaluate`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from edgewise.device.devices import LOCAL
from edgewise.device.target import find_target
from edgewise.errors import BadInput
from edgewise.evaluating.data_options import DataOptions
from edgewise.evaluating.dataset import Dataset
from edgewise.evaluating.evaluation import EvaluationResults, plan_evaluation, run_evaluation, run_shard
from edgewise.record import Scenario, Stopping
from edgewise.run.plan import Axes
from edgewise.run.run_builder import METERS_OFF
from edgewise.safe_yaml import read_lines, read_text
from edgewise.verbs.context import Context
from edgewise.verbs.evaluate.in_lab import run_in_lab
from edgewise.verbs.evaluate.request import EvaluateRequest
from edgewise.verbs.gate.request import GateRequest
from edgewise.verbs.optimize.request import OptimizeRequest
from edgewise.verbs.shared import with_usual_tokens


def evaluate(request: EvaluateRequest, context: Context) -> EvaluationResults:
    """Judge every model, saving each run as soon as it is there."""
    here = request.model_copy(update={"device": LOCAL}) if request.lab else request
    find_target(here.device)
    plan = plan_evaluation(
        request.models,
        data_options_of(request, request.data),
        own=request.own_metrics,
        reference=None if request.reference is None else Path(request.reference),
        axes=Axes(
            runtimes=request.runtimes,
            providers=request.providers,
            threads=(request.threads,),
            precisions=request.precisions,
            signatures=request.signatures,
            shapes=request.shapes,
        ),
        stopping=Stopping(sessions=request.sessions, timeout_s=request.timeout),
        target=here.target(),
        latency=request.latency and not request.lab and request.shards is None,
        keep_state=request.keep_state,
        fresh=request.fresh,
        generating=with_usual_tokens(Scenario(kind="generate"), from_file=False),
    )
    if request.lab or request.shards is not None:  # others run the samples before this device is held
        context.begin()
    if isinstance(request.shards, tuple):
        return run_shard(plan, *request.shards)
    shards = partial(run_in_lab, request, plan, context) if request.lab else None
    alone = context.measuring(here.device, needed=plan.latency)
    with context.saving() as saver:
        sensors = None if request.meters else METERS_OFF
        results = run_evaluation(plan, save=saver.save, sensors=sensors, alone=alone, shards=shards)
    return _with_changes(replace(results, save_errors=saver.errors), plan.selection.data)


def _with_changes(results: EvaluationResults, data: Dataset) -> EvaluationResults:
    """`results` with the samples that a model answers with another class than the reference, and their pictures."""
    from edgewise.optimizing.changed_answers import find_changes
    from edgewise.optimizing.thumbnails import draw_thumbnails

    models = tuple(
        replace(one, changed=find_changes(one.answers, labelled=False, classes=one.run.evaluation.classes))
        if one.answers and one.run.evaluation is not None
        else one
        for one in results.models
    )
    samples = next((one.changed.samples for one in models if one.changed and one.changed.samples), ())
    thumbnails = draw_thumbnails(data, samples) if samples else results.thumbnails
    return replace(results, models=models, thumbnails=thumbnails)


def data_options_of(request: EvaluateRequest | OptimizeRequest | GateRequest, data: str) -> DataOptions:
    """Return what the request says of the data. Raises `BadInput` for names of classes that can't be read."""
    classes = request.classes
    return DataOptions(
        source=data,
        format=request.data_format,
        options=request.data_options,
        split=request.split,
        limit=request.limit,
        seed=request.seed or 0,
        strict=request.strict,
        task=request.task,
        task_options=request.task_options,
        classes=read_classes(Path(classes)) if isinstance(classes, str) else classes,
        classes_given=f"⟦classes={classes}⟧" if isinstance(classes, str) else "⟦classes⟧" if classes else "",
        prepare=request.prepare,
        file=None if request.instructions is None else Path(request.instructions),
    )


def read_classes(path: Path) -> tuple[str, ...]:
    """Return the names in a file, one a line. Raises `BadInput`."""
    names = tuple(filter(None, read_lines(read_text(path))))
    if not names:
        raise BadInput(f"{path} holds no names", advice="one name a line")
    return names
