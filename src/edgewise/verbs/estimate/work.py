"""Carries out the requests of `estimate`, on one device or on all boards of the catalogue."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgewise.converting.signature_file import take_signature
from edgewise.errors import BadInput, BadModel
from edgewise.estimating.base import Estimate, find_device
from edgewise.estimating.boards import CORE_TITLES
from edgewise.estimating.fits import Fits, Groups, Limits, boards_by_core, estimates_of_core, rank
from edgewise.estimating.memory_only import fit_of
from edgewise.estimating.model_facts import with_model_facts
from edgewise.folders import job_folder
from edgewise.model.callable_loader import is_factory
from edgewise.model.graph import Graph
from edgewise.model.identity import describe_file, open_model
from edgewise.progress import StageStarted, emit
from edgewise.record import Measurement, ModelRef
from edgewise.run.battery import Quantity, battery_life
from edgewise.run.observation import observe_file

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.estimate.request import EstimateRequest
    from edgewise.verbs.fits.request import FitsRequest


T = TypeVar("T", bound=Estimate | Fits)
PARALLEL = 2
"""Number of cores that execute the model at the same time."""


def estimate(request: EstimateRequest, context: Context) -> Estimate:
    """The estimate of the model on the device; its `Estimate.refused` says where there can be none."""
    del context
    estimator, device = find_device(request.device, request.set)

    def work(path: Path) -> Estimate:
        graph, network = observe_file(path, shapes=request.shapes, hash_weights=True)
        found = with_model_facts(replace(estimator.estimate(path, graph, device), model=network.source), graph)
        found = replace(found, advice=_named(found.advice, request))
        return _refused_if_too_large(with_fit(found, graph))

    return _on_file(request, work)


def _named(advice: str, request: EstimateRequest) -> str:
    """`advice` with the request's model and device in its commands."""
    advice = advice.replace("-d DEVICE", f"-d {shlex.quote(request.device)}")
    return advice.replace("optimize MODEL ", f"optimize {shlex.quote(str(request.model))} ")


def fits(request: FitsRequest, context: Context) -> Fits:
    """The boards of the catalogue that hold the model. Each core executes the model once."""
    del context
    groups = boards_by_core(request.set)
    limits = Limits(latency=request.max_latency, ram=request.max_ram, flash=request.max_flash)
    battery = request.battery()

    def work(path: Path) -> Fits:
        graph, network = observe_file(path, shapes=request.shapes, hash_weights=True)
        found = [with_fit(each, graph) for each in _on_all_cores(groups, path, graph, settings=request.set)]
        if battery is not None:
            found = [with_battery(each, *battery) for each in found]
        return Fits(model=network.source, candidates=rank(found, limits))

    return _on_file(request, work)


def _on_all_cores(groups: Groups, path: Path, graph: Graph, *, settings: Mapping[str, str]) -> list[Estimate]:
    """The estimates on the boards of all `groups`. Raises `BadInput` where no estimator takes its `settings`."""
    found: list[Estimate] = []
    answers: list[BadInput | None] = []
    with ThreadPoolExecutor(PARALLEL) as pool:
        tasks = [
            pool.submit(copy_context().run, estimates_of_core, estimator, devices, path, graph)
            for estimator, devices in groups
        ]
        try:
            for number, ((estimator, devices), task) in enumerate(zip(groups, tasks, strict=True), start=1):
                core = CORE_TITLES[devices[0].core]
                emit(StageStarted(title=f"Core {number} of {len(groups)}: {core}, boards: {len(devices)}"))
                estimates, rejected = task.result()
                found += estimates
                answers += [rejected] if settings.keys() & estimator.settings.keys() else []
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    rejections = [answer for answer in answers if answer is not None]
    if rejections and len(rejections) == len(answers):
        raise rejections[0]
    return found


def _on_file(request: EstimateRequest | FitsRequest, work: Callable[[Path], T]) -> T:
    """What `work` returns for the request's file or its signature, or for what its function makes, in int8."""
    if not is_factory(request.model):
        if not open_model(request.model, request.signature).ref.signatures:
            return work(Path(request.model))
        with job_folder() as folder:
            # Vela would add the time of all signatures.
            taken, whole = take_signature(request.model, request.signature, folder, always=True)
            try:
                found = work(Path(taken))
            except BadModel as error:
                if whole is None or whole.format == "tflite":
                    raise
                how = f"edgewise convert {request.model} --signature {whole.signature} --to tflite"
                raise BadModel(error.message, advice=f"{how}, and estimate its result") from error
            return found if whole is None else _of_signature(found, whole, chosen=bool(request.signature))
    from edgewise.optimizing.untrained import build_int8

    (case,) = request.cases
    with job_folder() as folder:
        path, built, notes = build_int8(request.model, folder, what_if=case, shapes=request.shapes)
        found = work(path)
        file = {name: found.model[name] for name in ("format", "size_bytes")}
        # The file that was estimated is gone afterwards, where notes tell how it was made.
        source = {**found.model, **built.source, **file, **({"path": None} if notes else {})}
        return replace(found, model=source, conditions=(*notes, *found.conditions))


def _of_signature(found: T, ref: ModelRef, *, chosen: bool) -> T:
    """`found`, which is of a file with the signature `ref` alone, as of the user's file."""
    assumed = [*([] if chosen else [f"signature: {ref.signature_words}"]), *found.model["assumed"]]
    whole = {**describe_file(ref.path, read_all=True), "name": ref.name, "assumed": assumed}
    own = ref.signature or ref.signatures[0]
    others = ", ".join(name for name in ref.signatures if name != own)
    note = f"Only the signature {own} is estimated; the file also has {others}."
    return replace(found, model=whole, conditions=(note, *found.conditions))


def with_fit(estimate: Estimate, graph: Graph) -> Estimate:
    """`estimate` with what the model needs of the board's memories, where its device is a board."""
    board = estimate.device.board
    return estimate if board is None else replace(estimate, fit=fit_of(board, estimate, graph))


def _refused_if_too_large(estimate: Estimate) -> Estimate:
    fit = estimate.fit
    if fit is None or not fit.lacking or estimate.refused is not None:
        return estimate
    return replace(
        estimate,
        refused=f"the model does not fit {fit.board.name}: {fit.needs}",
        advice="'edgewise estimate MODEL --fits' lists the boards that hold it",
    )


def with_battery(estimate: Estimate, capacity_j: float, idle_power: Quantity, per_hour: float) -> Estimate:
    """`estimate` with the life of a battery, whose energy per inference is above the idle power."""
    energy, latency = (estimate.measurement(metric) for metric in ("energy", "latency"))
    try:
        if energy is None or energy.value is None or latency is None or latency.value is None:
            raise BadInput((energy and energy.absent_because) or "the energy of an inference is not known")
        idle_j = idle_power.value * latency.value
        low, high = (None if end is None else end - idle_j for end in (energy.low, energy.high))
        found = battery_life(
            capacity_j=capacity_j,
            idle_power=idle_power,
            energy=Quantity(energy.value - idle_j, low, high),
            per_hour=per_hour,
            latency_s=latency.value,
            source="estimated, minus the idle power during the inference",
        )
    except BadInput as error:
        row = Measurement.absent("battery_life", error.message)
    else:
        life = found.life
        ends = {"low": life.low, "high": None if life.high is None or math.isinf(life.high) else life.high}
        row = Measurement.of("battery_life", life.value, found.method, basis="derived", **ends)
    return replace(estimate, measurements=(*estimate.measurements, row))
