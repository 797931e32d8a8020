"""Carries out `optimize`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from edgewise.device.calibrations import is_calibrated, names
from edgewise.device.devices import LOCAL, is_device
from edgewise.device.target import find_target
from edgewise.errors import BadInput, BadModel
from edgewise.estimating.base import Estimate, is_known, unknown_device
from edgewise.evaluating.instructions import read_flags
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.optimizing.elsewhere import TIMES, Judge
from edgewise.optimizing.passes.litert_static import FULL
from edgewise.optimizing.pipeline import find_best_variant
from edgewise.optimizing.planning import is_quantized
from edgewise.optimizing.search_settings import Limits, SearchSettings, build_settings
from edgewise.optimizing.untrained import QUANTISATION
from edgewise.optimizing.variant import DeviceEstimate, MetricValue, Optimization
from edgewise.optimizing.variant_cache import keep_variants_alone
from edgewise.predicting.choice import COVERAGE
from edgewise.predicting.forecast import Forecasts
from edgewise.verbs.calibrate.work import predict
from edgewise.verbs.context import Context
from edgewise.verbs.estimate.request import EstimateRequest
from edgewise.verbs.estimate.work import conversion_advice, estimate
from edgewise.verbs.evaluate.work import data_options_of
from edgewise.verbs.optimize.in_lab import FarOptimization, optimize_in_lab
from edgewise.verbs.optimize.request import OptimizeRequest
from edgewise.verbs.predict.request import PredictRequest
from edgewise.verbs.verb import words_of
from edgewise.workload.resolved_graph import read_resolved_graph

_REPEATED_FOR_ONE = (
    "signature", "data", "task", "split", "limit", "calibrate_on", "calibration_limit", "data_format", "data_options",
    "task_options", "prepare", "instructions", "classes", "max_accuracy_drop", "min_snr", "shapes", "threads", "device",
)  # fmt: skip
"""Fields that the command which makes the chosen file again needs."""
INT8 = tuple(f"{QUANTISATION}:{label}" for label in FULL)
"""Passes for devices that compute in int8 alone."""
_SHOWN = (*TIMES, "memory_sram", "flash", "memory_peak", "energy")


def optimize(request: OptimizeRequest, context: Context) -> Optimization | FarOptimization:
    """Search for the fastest variant, saving what is measured."""
    if request.lab is True:
        context.begin(request.model)
        return optimize_in_lab(request, context)
    judge = _find_judge(request, context)
    device = request.device if judge is None else LOCAL
    quantises = judge is not None and judge.int8 and not request.passes and _check_int8(request, judge)
    find_target(device)
    # A layer in float does not run on a device that computes in int8.
    usual: Literal["auto", "off"] = "off" if judge is not None and judge.int8 else "auto"
    wanted = SearchSettings(
        model=request.model,
        signature=request.signature,
        limits=Limits(
            latency_s=request.max_latency,
            size_bytes=request.max_size,
            memory_bytes=request.max_memory,
            accuracy_drop=request.max_accuracy_drop,
            least_accuracy=request.min_accuracy,
            least_snr_db=request.min_snr,
        ),
        also=request.also,
        aim=request.aim,
        runtimes=request.runtimes,
        threads=request.threads,
        shapes=request.shapes,
        passes=request.passes or (INT8 if quantises else ()),
        keep_float=request.keep_float,
        sensitivity=usual if request.sensitivity is None else "on" if request.sensitivity else "off",
        judge=judge,
        races=not request.lab,
        rank=2 if request.everything else 1,
        seed=request.seed,
        budget_s=request.time_budget,
        memory_limit=request.memory_limit,
        device=device,
        fresh=request.fresh,
        words=(request.model, *words_of(request, only=_REPEATED_FOR_ONE)),
    )
    settings = build_settings(
        wanted,
        folder=None if request.folder is None else Path(request.folder),
        options=None if request.data is None else data_options_of(request, request.data),
        calibrate_on=request.calibrate_on,
        calibration_limit=request.calibration_limit,
    )
    with context.measuring(device, needed=settings.races), context.saving() as saver:
        result = find_best_variant(settings, save=saver.save)
    if not settings.races:
        keep_variants_alone(settings.folder)
    return replace(result, save_errors=saver.errors)


def _find_judge(request: OptimizeRequest, context: Context) -> Judge | None:
    """Return what estimates variants for the request's device; None for a device on which they are measured.

    Raises:
        BadInput: no such device is at hand, calibrated or known to an estimator.
    """
    name = request.device
    if is_device(name):
        return None
    context = replace(context, rehearses=False)  # whether the device runs the model at all is a check of its own
    if is_known(name):

        def estimated(path: str) -> DeviceEstimate:
            wanted = EstimateRequest(model=path, device=name, shapes=request.shapes)
            return _read_estimate(name, estimate(wanted, context))

        return Judge(device=name, estimate=cache(estimated), int8=True)
    if is_calibrated(name):

        def predicted(path: str) -> DeviceEstimate:
            return _read_forecasts(name, predict(PredictRequest(models=(path,), device=name), context))

        return Judge(device=name, estimate=cache(predicted), int8=False)
    if "://" in name:
        find_target(name)  # its error is about the URL
    listed = "'edgewise devices list' lists devices at hand, 'edgewise estimate --devices' those that can be estimated"
    raise unknown_device(name, names(context.store), listed=listed, model=str(request.model))


def _check_int8(request: OptimizeRequest, judge: Judge) -> bool:
    """Whether there is something to quantise: the model is a function's, or a file in float.

    Raises:
        BadInput: the estimator does not read the file, the file is quantised in a way that the device does not support,
            or there are no samples to quantise with.
    """
    if not is_factory(request.model):
        model = open_model(request.model, request.signature)
        if model.ref.format == "onnx":  # each estimator of a device that computes in int8 reads .tflite files alone
            read_flags(request.prepare)  # the advice repeats them
            words = words_of(request, only=[name for name in _REPEATED_FOR_ONE if name not in ("device", "signature")])
            advice = conversion_advice(request.model, model.ref, judge.device, words or ("--data", "DATA"))
            raise BadModel(f"{request.model}: {judge.device} runs .tflite files only: convert it first", advice=advice)
        quantized = is_quantized(read_resolved_graph(Path(request.model), shapes=request.shapes).graph)
        own = None if model.ref.signatures else judge.estimate(request.model)
        if quantized and own is not None and own.refused:
            raise BadInput(f"{request.model} on {judge.device}: {own.refused}", advice=own.advice)
        if quantized:
            return False
    if request.data is None:
        raise BadInput(
            f"a model in int8 for {judge.device} needs samples, from which the ranges of its activations come",
            advice="add ⟦data=PATH⟧",
        )
    return True


def _read_estimate(name: str, found: Estimate) -> DeviceEstimate:
    rows = {
        row.metric: MetricValue(
            value=row.value,
            low=row.low,
            high=row.high,
            basis=row.basis or "estimated",
            method=row.method,
            absent_because=row.absent_because,
            coverage=found.coverage.get(row.metric, 0.95),
            at_least=found.at_least.get(row.metric),
        )
        for row in found.measurements
        if row.metric in _SHOWN
    }
    return DeviceEstimate(
        device=name,
        title=found.device.title,
        software=found.software,
        metrics=rows,
        untimed=found.untimed if "latency" in found.at_least else (),
        bound=found.bound,
        fit="" if found.fit is None else str(found.fit),
        refused=found.refused or "",
        advice=found.advice,
    )


def _read_forecasts(name: str, found: Forecasts) -> DeviceEstimate:
    rows = {}
    for row in found.rows:
        told = row.prediction
        rows[row.metric] = MetricValue(value=None, absent_because=row.refused) if told is None else MetricValue(
            value=told.value, low=told.low, high=told.high, basis="estimated", coverage=COVERAGE,
            method=f"{row.law}: {row.equation}",
        )  # fmt: skip
    refused = next((row.refused for row in found.rows if row.metric == "latency" and row.refused), "")
    return DeviceEstimate(
        device=name,
        title=f"calibrated device, {len(next(iter(found.calibration.points.values())))} measured models",
        software="edgewise calibrate",
        metrics=rows,
        refused=refused,
    )
