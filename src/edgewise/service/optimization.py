"""Carries out `optimize`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgewise.device.target import find_target
from edgewise.optimizing.pipeline import find_best_variant
from edgewise.optimizing.search_settings import Limits, SearchSettings, build_settings
from edgewise.optimizing.variant import Optimization
from edgewise.service.command_line import words_of
from edgewise.service.context import Context
from edgewise.service.evaluation import data_options_of
from edgewise.service.requests import OptimizeRequest

_REPEATED_FOR_ONE = (
    "signature", "data", "task", "split", "limit", "calibrate_on", "calibration_limit", "data_format", "data_options",
    "task_options", "prepare", "instructions", "classes", "max_accuracy_drop", "min_snr", "shapes", "threads",
)  # fmt: skip
"""Fields that the command which makes the chosen file again needs."""


def optimize(request: OptimizeRequest, context: Context) -> Optimization:
    """Search for the fastest variant, saving what is measured."""
    find_target(request.device)
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
        passes=request.passes,
        keep_float=request.keep_float,
        sensitivity="auto" if request.sensitivity is None else "on" if request.sensitivity else "off",
        rank=2 if request.everything else 1,
        seed=request.seed,
        budget_s=request.time_budget,
        memory_limit=request.memory_limit,
        device=request.device,
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
    with context.measuring(request.device), context.saving() as saver:
        result = find_best_variant(settings, save=saver.save)
    return replace(result, save_errors=saver.errors)
