"""Carries out the requests of `estimate`, on one device or on all boards of the catalogue."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgewise.converting.paths import is_converted
from edgewise.converting.signature_file import take_signature
from edgewise.device.calibrations import names
from edgewise.device.devices import LOCAL, is_device
from edgewise.errors import BadInput, BadModel
from edgewise.estimating.base import AS_TFLITE, Estimate, find_device, is_known
from edgewise.estimating.boards import CORE_TITLES
from edgewise.estimating.fits import Fits, Groups, Limits, boards_by_core, estimates_of_core, name_in, rank
from edgewise.estimating.memory_only import fit_of
from edgewise.estimating.model_facts import with_model_facts
from edgewise.folders import job_folder
from edgewise.model.callable_loader import is_factory
from edgewise.model.graph import Graph
from edgewise.model.identity import NoLayers, describe_file, open_model
from edgewise.progress import StageStarted, emit
from edgewise.record import Measurement, ModelRef
from edgewise.run.battery import Quantity, battery_life
from edgewise.run.observation import observe_file
from edgewise.verbs.convert.work import default_output

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.estimate.request import EstimateRequest
    from edgewise.verbs.fits.request import FitsRequest


T = TypeVar("T", bound=Estimate | Fits)
PARALLEL = 2
"""Number of cores that execute the model at the same time."""


def estimate(request: EstimateRequest, context: Context) -> Estimate:
    """Return the estimate of the model on the device; its `Estimate.refused` says where there can be none."""
    _check_estimated(request.device)
    others = names(context.store)
    estimator, device = find_device(request.device, request.set, others=others, model=str(request.model))

    def work(path: Path) -> Estimate:
        graph, network = observe_file(path, shapes=request.shapes, hash_weights=True)
        if graph.format == "tflite":  # of another format an estimator refuses the file, or computes for a moment
            context.begin()
        found = with_model_facts(replace(estimator.estimate(path, graph, device), model=network.source), graph)
        named = name_in(found.advice, model=str(request.model), device=request.device)
        found = replace(found, advice=named)
        return _refused_if_too_large(with_fit(found, graph, path))

    return _on_file(request, work)


def _check_estimated(name: str) -> None:
    """Raise `BadInput` for a device to measure on, with what can be done on it."""
    if is_known(name) or not is_device(name):
        return
    is_named = name != LOCAL and "://" not in name
    learn = f", and after that of 3 models or more 'edgewise calibrate {name}' learns it" if is_named else ""
    raise BadInput(
        f"{name} is a device to measure on, and it is not calibrated",
        advice=f"'edgewise bench MODEL -d {name}' measures the model there{learn}",
    )


def firmware(
    model: str, folder: Path, *, device: str, identity: str = "custom", signature: str = "", force: bool = False
) -> Path:
    """Write the firmware of a model, or of its `signature`, as `write_firmware`, which has the errors."""
    from edgewise.estimating.mcu.runner import write_firmware

    ref = open_model(model, signature).ref
    with job_folder() as scratch, advising_conversion(model, ref, device=device):
        if ref.format != "tflite":
            raise BadModel(f"{model}: firmware is made of .tflite files only", advice=AS_TFLITE)
        taken, _ = take_signature(model, signature, scratch, always=True)
        return write_firmware(Path(taken), folder, device=device, identity=identity, force=force)


def fits(request: FitsRequest, context: Context) -> Fits:
    """Return the boards of the catalogue that hold the model. Each core executes the model once."""
    groups = boards_by_core(request.set)
    limits = Limits(latency=request.max_latency, ram=request.max_ram, flash=request.max_flash)
    battery = request.battery()

    def work(path: Path) -> Fits:
        graph, network = observe_file(path, shapes=request.shapes, hash_weights=True)
        if graph.format == "tflite":
            context.begin()
        convert = _conversion_of(request) if is_converted(graph.format, "tflite") else AS_TFLITE
        found = [with_fit(each, graph, path) for each in _on_all_cores(groups, path, graph, request, convert=convert)]
        if battery is not None:
            found = [with_battery(each, *battery) for each in found]
        listed = Fits(model=network.source, candidates=rank(found, limits))
        return replace(listed, advice=listed.named_advice(str(request.model)))

    return _on_file(request, work)


def _conversion_of(request: FitsRequest) -> str:
    ref = open_model(str(request.model), request.signature).ref
    return f"convert it first: {conversion_advice(str(request.model), ref, 'DEVICE')}"


def _on_all_cores(groups: Groups, path: Path, graph: Graph, request: FitsRequest, *, convert: str) -> list[Estimate]:
    """Return the estimates on the boards of all `groups`; `convert` is as for `estimates_of_core`.

    Raises `BadInput` where no estimator takes the settings.
    """
    model, settings = str(request.model), request.set
    found: list[Estimate] = []
    answers: list[BadInput | None] = []
    with ThreadPoolExecutor(PARALLEL) as pool:
        tasks = [
            pool.submit(
                copy_context().run, estimates_of_core, estimator, devices, path, graph, model=model, convert=convert
            )
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
    """Return what `work` returns for the request's file or its signature, or for what its function makes, in int8."""
    if not is_factory(request.model):
        ref = open_model(request.model, request.signature).ref
        with ExitStack() as stack:
            stack.enter_context(advising_conversion(request.model, ref, device=getattr(request, "device", "DEVICE")))
            if not ref.signatures:
                return work(Path(request.model))
            folder = stack.enter_context(job_folder())
            # Vela would add the time of all signatures.
            taken, whole = take_signature(request.model, request.signature, folder, always=True)
            found = work(Path(taken))
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


@contextmanager
def advising_conversion(model: str, ref: ModelRef, *, device: str = "") -> Iterator[None]:
    """Where an estimate needs a .tflite file and `model` is no such file: the commands that make one, as advice.

    The estimate is then of the file that runs on the device, and not of what this would become.

    Args:
        device: that computes in int8 alone, as its estimator does; "" where the estimate takes float.
    """
    try:
        yield
    except BadInput as error:
        unread = isinstance(error, NoLayers)
        if (error.advice != AS_TFLITE and not unread) or not is_converted(ref.format, "tflite"):
            raise
        message = error.marked.message if not unread else f"{model} can't be estimated as it is"
        raise BadModel(f"{message}: convert it first", advice=conversion_advice(model, ref, device)) from error


def conversion_advice(model: str, ref: ModelRef, device: str, words: Sequence[str] = ("--data", "DATA")) -> str:
    """Return the command that makes a .tflite file of a model, and the one that makes int8 of its result for `device`.

    Args:
        device: as for `advising_conversion`.
        words: of the second command besides the model and the device.
    """
    result = str(default_output(model, "tflite", ref.signature))
    source = shlex.join([model, *(["--signature", ref.signature] if ref.signature else [])])
    how = f"edgewise convert {source} --to tflite"
    return how + (f", then {shlex.join(['edgewise', 'optimize', result, *words, '-d', device])}" if device else "")


def _of_signature(found: T, ref: ModelRef, *, chosen: bool) -> T:
    """`found`, which is of a file with the signature `ref` alone, as of the user's file."""
    assumed = [*([] if chosen else [f"signature: {ref.signature_words}"]), *found.model["assumed"]]
    whole = {**describe_file(ref.path, read_all=True), "name": ref.name, "assumed": assumed}
    own = ref.signature or ref.signatures[0]
    others = ", ".join(name for name in ref.signatures if name != own)
    note = f"Only the signature {own} is estimated; the file also has {others}."
    return replace(found, model=whole, conditions=(note, *found.conditions))


def with_fit(estimate: Estimate, graph: Graph, path: Path) -> Estimate:
    """`estimate` with what the model at `path` needs of the board's memories, where its device is a board."""
    board, kept = estimate.device.board, path.stat().st_size if graph.format == "tflite" else 0
    return estimate if board is None else replace(estimate, fit=fit_of(board, estimate, graph, file_bytes=kept))


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
