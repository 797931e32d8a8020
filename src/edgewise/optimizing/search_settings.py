"""Settings of a search: the model, the data to judge on, the bounds, and the passes and engines to use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from edgewise.converting.signature_file import name_with
from edgewise.device.devices import transport_of
from edgewise.errors import BadInput, Unavailable, as_flag
from edgewise.evaluating.agreement import WORST
from edgewise.evaluating.data_options import (
    DataOptions,
    assume_task,
    find_task,
    open_splits,
    read_instructions,
    select_samples,
)
from edgewise.evaluating.dataset import SPLITS_TO_CALIBRATE, Dataset, choose_samples, choose_split
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.output_format import HEADLINES
from edgewise.evaluating.task import Task
from edgewise.metrics import METRICS, SHARES
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.optimizing.base import passes
from edgewise.optimizing.choice import Aim
from edgewise.optimizing.elsewhere import Judge
from edgewise.optimizing.planning import read_words
from edgewise.optimizing.variant import Bound
from edgewise.record import ModelRef, TargetSpec
from edgewise.registry import availability_of
from edgewise.units import format_duration, format_limit

BUDGET_S = 300.0
CALIBRATION_SAMPLES = 128
TRAINING_SAMPLES = 5000
JUDGED_PER_CALIBRATED = 4
"""With a single split, at most one of this number of samples is for calibration; it is not judged."""
LEAST_CALIBRATION = 4
LEAST_SNR_DB = 20.0
"""Default of the lowest signal-to-noise ratio of a variant's outputs against the original's."""
_USUAL_DROPS = {"agreement_boxes": "10pt"}
_SUFFIXES = (".onnx", ".tflite", ".xml", ".keras", ".pt2", ".py")
_DROP = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+\.)\s*(pt|%|)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The user's limits, SI units.

    Attributes:
        accuracy_drop: ``1pt`` (0.01 of a share), ``2%`` (of the original's value), or a number in the metric's unit;
            None is 1pt (10pt of boxes), and 1% where the metric is not a share.
        least_accuracy: of the headline metric.
        least_snr_db: of the outputs against the original's, where there are no labels; None is `LEAST_SNR_DB` where
            the outputs have no accuracy.
    """

    latency_s: float | None = None
    size_bytes: int | None = None
    memory_bytes: int | None = None
    accuracy_drop: str | None = None
    least_accuracy: float | None = None
    least_snr_db: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Attributes:
    model: a file, or a factory ``package.module:function`` or ``file.py:function``.
    signature: of a file that has several; what is optimised is then a file of its own.
    whole: the user's file with that signature, where `model` is the file that was made of it.
    format: ``onnx``, ``tflite``, ``openvino``, ``torch`` or ``keras``.
    also: further files of the network, in other formats: candidates, and sources of variants.
    limits: without labels, the bounds follow from the limits once the format of the outputs is known.
    folder: of variants and of the result; the search uses what an earlier one left there.
    instructions: how to prepare samples.
    judged: the data on which variants are judged; None: outputs are compared on random inputs only.
    calibration: samples for passes that calibrate; None: these are not tried.
    set_apart: numbers of the calibration's samples that were chosen to be judged.
    training: samples for passes that train; None: those of the calibration.
    task: None where there are no labels: the original's outputs are the reference.
    task_name: given by the user or the instructions, or assumed; None without labels where neither names a task.
    assumed: as `assume_task`.
    fed: file of the module's example inputs, which every engine gets while it is timed; None for random inputs.
    runtimes: the only engines to use; empty for all.
    threads: of every engine; None is one, and tuning may try more.
    passes: ``NAME`` or ``NAME:LABEL``; the only ones to try, empty for all.
    keep_float: operators that passes must leave alone.
    sensitivity: whether layers are tried one by one; ``auto``: only if every promising quantised variant loses too
        much accuracy.
    rank: recipes up to this rank are tried.
    budget_s: time limit of the whole search, s.
    fresh: ignore what an earlier search left.
    device: where models run; passes run on this machine.
    judge: of a device that is not at hand, which estimates speed and memory there; None where variants are raced.
    races: whether variants are timed; else they are made and checked, for a search elsewhere that uses their files.
    words: arguments of the command line for model, data, task and bounds, for the command that repeats the result.
    """

    model: str
    signature: str = ""
    whole: ModelRef | None = None
    format: str = ""
    folder: Path = Path()
    instructions: Instructions = field(default_factory=Instructions)
    also: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    bounds: tuple[Bound, ...] = ()
    judged: SampleSelection | None = None
    calibration: SampleSelection | None = None
    set_apart: tuple[int, ...] = ()
    training: SampleSelection | None = None
    task: Task | None = None
    task_name: str | None = None
    assumed: str = ""
    task_options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    classes_given: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fed: Path | None = None
    runtimes: tuple[str, ...] = ()
    threads: int | None = None
    passes: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()
    sensitivity: Literal["auto", "on", "off"] = "auto"
    rank: int = 1
    aim: Aim = "latency"
    seed: int = 0
    budget_s: float = BUDGET_S
    fresh: bool = False
    memory_limit: int | None = None
    device: str = "local"
    judge: Judge | None = None
    races: bool = True
    words: tuple[str, ...] = ()

    @property
    def target(self) -> TargetSpec:
        """Where models run, as a job has it."""
        return TargetSpec(device=self.device, transport=transport_of(self.device), memory_limit_bytes=self.memory_limit)

    @property
    def is_module(self) -> bool:
        """Whether a factory builds the model."""
        return self.format in ("torch", "keras")


def usual_folder(model: str, signature: str) -> Path:
    """``MODEL-optimized`` in the current folder; ``MODEL-tflite-optimized`` for a ``.tflite`` beside an ``.onnx``.

    Two searches in one folder would mix their files. Of files that share a name, the first in `_SUFFIXES` has it alone.
    """
    path = Path(model.rpartition(":")[0] if is_factory(model) else model)
    if path.suffix not in _SUFFIXES:
        return Path(f"{name_with(path.name.rpartition('.')[2], signature)}-optimized")
    earlier = _SUFFIXES[: _SUFFIXES.index(path.suffix)]
    shared = any(path.with_suffix(suffix).exists() for suffix in earlier)
    kind = f"-{path.suffix[1:]}" if shared else ""
    return Path(f"{name_with(path.stem, signature)}{kind}-optimized")


def build_settings(
    wanted: SearchSettings,
    *,
    folder: Path | None,
    options: DataOptions | None,
    calibrate_on: str | None = None,
    calibration_limit: int | None = None,
) -> SearchSettings:
    """Complete the settings with what follows from the model and the data.

    Args:
        wanted: the user's settings of the model and the search.
        folder: None is ``MODEL-optimized`` in the current folder.
        options: of the data; None without data.
        calibrate_on: the split for calibration; None is the training split, else a part that is then not judged.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    model, limits = wanted.model, wanted.limits
    form = "torch" if is_factory(model) else open_model(model, wanted.signature).ref.format
    path = Path(model.rpartition(":")[0] if is_factory(model) else model)
    start = replace(wanted, format=form, folder=folder or usual_folder(model, wanted.signature))
    _require_passes(start.passes, has_data=options is not None)
    if not 0 < start.budget_s < math.inf:
        raise BadInput(f"⟦time_budget⟧ must be more than 0 s, not {start.budget_s:g} s", advice="for example 5min")
    if options is None:
        return replace(start, bounds=make_bounds(limits, headline=""))
    splits = open_splits(options)
    selected = select_samples(options, splits)
    judged, calibration = _part(selected, splits, options, split=calibrate_on, limit=calibration_limit)
    instructions = read_instructions(path, options)
    task = find_task(options.task, instructions, judged.data) if judged.data.labelled else None
    assumed = "" if task is None else assume_task(options.task, instructions, judged.data)
    if task is None:  # the limits are checked now; further bounds follow when the original has run
        make_bounds(limits, headline=HEADLINES["classes"])
        limits = replace(limits, accuracy_drop=None, least_accuracy=None)
    return replace(
        start,
        instructions=instructions,
        judged=judged,
        calibration=calibration,
        set_apart=tuple(sorted({*selected.indices} - {*judged.indices})),
        training=_training(calibration, judged, limit=calibration_limit),
        task=task,
        task_name=task.name if task is not None else options.task or instructions.task,
        assumed=assumed,
        task_options=options.task_options,
        classes=options.classes,
        classes_given=options.classes_given,
        bounds=make_bounds(limits, headline="" if task is None else task.metrics[0]),
    )


def _require_passes(words: Sequence[str], *, has_data: bool) -> None:
    """Raise `Unavailable` for named passes that are unknown, not installed, or lack samples."""
    registry = passes()
    for name in read_words(words, registry) or ():
        one = registry.get(name)
        availability = availability_of(one)
        if not availability:
            raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
        if one.capabilities.calibrates and not has_data:
            raise Unavailable(f"{name} needs samples", advice="give ⟦data=PATH⟧")


def make_bounds(limits: Limits, *, headline: str) -> tuple[Bound, ...]:
    """Return the limits as bounds. With data there is always one on accuracy or, without accuracy, on the SNR.

    Args:
        headline: id of the metric that accuracy means; "" without data.

    Raises:
        BadInput: an invalid limit.
    """
    found = []
    for metric, name, value, show in (
        ("latency", "max_latency", limits.latency_s, format_duration),
        ("model_size", "max_size", limits.size_bytes, format_limit),
        ("memory_peak", "max_memory", limits.memory_bytes, format_limit),
    ):
        if value is not None:
            if not 0 < value < math.inf:
                raise BadInput(f"⟦{name}⟧ {value} must be more than 0", advice="for example 5ms, 1MB or 64MiB")
            found.append(Bound(metric=metric, limit=float(value), words=as_flag(name, show(value))))
    if headline == WORST:
        for name, given in (("max_accuracy_drop", limits.accuracy_drop), ("min_accuracy", limits.least_accuracy)):
            if given is not None:
                raise BadInput(
                    f"⟦{name}⟧ {given}: there is no accuracy without labels, and the outputs are not class scores",
                    advice="⟦min_snr=20dB⟧, or ⟦task⟧ classification where they are class scores",
                )
    elif headline:
        usual = _USUAL_DROPS.get(headline, "1pt" if headline in SHARES else "1%")
        found.append(_read_drop(usual if limits.accuracy_drop is None else limits.accuracy_drop, headline))
    if headline:
        found += _bound_snr(limits.least_snr_db, headline)
    if limits.least_accuracy is not None:
        found.append(_bound_accuracy(limits.least_accuracy, headline))
    return tuple(found)


def _bound_snr(limit: float | None, headline: str) -> list[Bound]:
    """Return the bound on the outputs' signal-to-noise ratio: given, or needed because the outputs have no accuracy."""
    if limit is None and headline != WORST:
        return []
    limit = LEAST_SNR_DB if limit is None else limit
    if headline not in HEADLINES.values():
        raise BadInput(
            f"⟦min_snr⟧ {limit:g}dB applies to outputs without labels, and this data has labels",
            advice="⟦max_accuracy_drop⟧ applies to data with labels",
        )
    if not 0.0 <= limit < math.inf:
        raise BadInput(f"⟦min_snr⟧ must be 0 dB or more, not {limit:g}dB", advice="for example ⟦min_snr=20dB⟧")
    return [Bound(metric=WORST, limit=limit, words=as_flag("min_snr", f"{limit:g}dB"), upper=False)]


def _bound_accuracy(limit: float, headline: str) -> Bound:
    if not headline:
        raise BadInput("⟦min_accuracy⟧ needs data to judge on", advice="give ⟦data⟧, or omit ⟦min_accuracy⟧")
    if not math.isfinite(limit) or (headline in SHARES and not 0 <= limit <= 1):
        raise BadInput(
            f"⟦min_accuracy⟧ {limit:g} is not a valid {METRICS[headline].label}",
            advice="a share is between 0 and 1, such as 0.95 for 95 %",
        )
    upper = METRICS[headline].better == "lower"
    return Bound(metric=headline, limit=limit, words=as_flag("min_accuracy", f"{limit:g}"), upper=upper)


def _read_drop(text: str, headline: str) -> Bound:
    """``1pt``, ``2%`` or ``0.05`` as a bound. Raises `BadInput`."""
    match = _DROP.fullmatch(text.strip().lower())
    value, unit = (float(match[1]), match[2]) if match is not None else (math.nan, "")
    if not 0.0 <= value < math.inf:
        raise BadInput(
            f"⟦max_accuracy_drop⟧ {text!r} is not a valid drop",
            advice="for example 1pt (percentage points), 2% or 0.05",
        )
    if match is not None and not unit and value >= 1.0 and headline in SHARES:
        # Points are meant; a whole share would let every variant pass.
        raise BadInput(
            f"⟦max_accuracy_drop⟧ {text!r}: {METRICS[headline].label} is a share between 0 and 1",
            advice=f"{match[1]}pt is in percentage points",
        )
    if unit == "pt" and headline not in SHARES:
        raise BadInput(
            f"⟦max_accuracy_drop⟧ {text!r}: {METRICS[headline].label} has no percentage points",
            advice="give a number in its own unit, such as 0.05, or a share of it, such as 2%",
        )
    return Bound(
        metric="accuracy_drop",
        limit=value / 100 if unit else value,
        words=as_flag("max_accuracy_drop", text.strip()),
        relative_to=headline if unit == "%" else None,
    )


def _part(
    judged: SampleSelection,
    splits: Mapping[str, Dataset],
    options: DataOptions,
    *,
    split: str | None,
    limit: int | None,
) -> tuple[SampleSelection, SampleSelection | None]:
    """Return the samples to judge on and those to calibrate with: never the same ones.

    Raises:
        Unavailable: there is no such split.
        BadInput: an invalid limit, or too few samples for both.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"⟦calibration_limit⟧ must be at least 1, not {limit}", advice="for example 128")
    count = CALIBRATION_SAMPLES if limit is None else limit
    others = {name: data for name, data in splits.items() if data is not splits.get(judged.data.split)}
    if split is not None or others:
        data = choose_split(splits if split is not None else others, split, SPLITS_TO_CALIBRATE)
        if data.split != judged.data.split:
            indices = choose_samples(len(data), limit=count, seed=options.seed)
            return judged, replace(judged, data=data, indices=tuple(indices), limit=count)
    size = len(judged.indices)
    # Another seed than that of the judged samples, so that a limit on these does not decide about those.
    seed = options.seed + 1
    if len(judged.data) - size >= count:  # enough samples outside of --limit
        spare = choose_samples(len(judged.data), limit=count, seed=seed, leave_out=judged.indices)
        return judged, replace(judged, indices=tuple(spare), limit=count)
    share = min(count, size // JUDGED_PER_CALIBRATED)
    if share < min(count, LEAST_CALIBRATION):
        raise BadInput(
            f"{size} samples of {judged.data.name} are too few to judge on and to calibrate with",
            advice=f"give {LEAST_CALIBRATION * JUDGED_PER_CALIBRATED} or more, or data with a training split",
        )
    places = set(choose_samples(size, limit=share, seed=seed))
    taken, rest = (
        tuple(index for at, index in enumerate(judged.indices) if (at in places) == chosen) for chosen in (True, False)
    )
    return replace(judged, indices=rest), replace(judged, indices=taken, limit=share)


def _training(
    calibration: SampleSelection | None, judged: SampleSelection, *, limit: int | None
) -> SampleSelection | None:
    """Return samples to train on: many of a training split that is not judged; None for those of the calibration."""
    if calibration is None or limit is not None or calibration.data.split == judged.data.split:
        return None
    if calibration.data.split not in SPLITS_TO_CALIBRATE or calibration.data.split == "all":
        return None
    indices = choose_samples(len(calibration.data), limit=TRAINING_SAMPLES, seed=calibration.seed)
    return replace(calibration, indices=tuple(indices), limit=TRAINING_SAMPLES)
