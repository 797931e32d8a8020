"""From what a user says to search settings: bounds from words, and which samples are judged and which are looked at."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.agreement import WORST
from edgewise.evaluating.data_options import DataOptions, find_task, open_splits, read_instructions, select_samples
from edgewise.evaluating.dataset import SPLITS_TO_CALIBRATE, Dataset, choose_samples, choose_split
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.evaluating.output_format import HEADLINES
from edgewise.metrics import METRICS, SHARES
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.optimizing.base import passes
from edgewise.optimizing.planning import read_words
from edgewise.optimizing.search_settings import (
    CALIBRATION_SAMPLES,
    LEAST_SNR_DB,
    TRAINING_SAMPLES,
    Limits,
    SearchSettings,
)
from edgewise.optimizing.variant import Bound
from edgewise.registry import availability_of
from edgewise.units import format_bytes, format_duration

MOST_OF_ONE_SPLIT = 4
"""Where there is one split only, no more than one sample in so many is looked at; these are not judged."""
LEAST_CALIBRATION = 4


def make_bounds(limits: Limits, *, headline: str) -> tuple[Bound, ...]:
    """The limits as bounds; the one on accuracy is always there.

    Args:
        headline: metric id of what accuracy means; "" where there is no data.

    Raises:
        BadInput: an invalid limit.
    """
    found = []
    amounts: tuple[tuple[str, str, float | None, Callable[[float], str]], ...] = (
        ("latency", "--max-latency", limits.latency_s, format_duration),
        ("model_size", "--max-size", limits.size_bytes, format_bytes),
        ("memory_peak", "--max-memory", limits.memory_bytes, format_bytes),
    )
    for name, flag, value, show in amounts:
        if value is None:
            continue
        if not 0 < value < math.inf:
            raise BadInput(f"{flag} {value} must be more than 0", advice="for example 5ms, 1MB or 64MiB")
        found.append(Bound(metric=name, limit=float(value), words=f"{flag} {show(value)}"))
    if headline == WORST:
        _refuse_of_values(limits)
    elif headline:
        usual = _USUAL_DROPS.get(headline, "1pt" if headline in SHARES else "1%")
        found.append(_read_drop(usual if limits.accuracy_drop is None else limits.accuracy_drop, headline))
    if headline in AGREEMENTS:
        found += _read_snr(limits.least_snr_db, headline)
    elif headline and limits.least_snr_db is not None:
        raise BadInput(
            f"--min-snr {limits.least_snr_db:g}dB is about outputs, and this data has labels",
            advice="--max-accuracy-drop is about answers",
        )
    if limits.least_accuracy is not None:
        if not headline:
            raise BadInput("--min-accuracy needs data to judge on", advice="give --data, or leave it out")
        if not math.isfinite(limits.least_accuracy) or (headline in SHARES and not 0 <= limits.least_accuracy <= 1):
            raise BadInput(
                f"--min-accuracy {limits.least_accuracy:g} is not a valid {METRICS[headline].label}",
                advice="a share is between 0 and 1, such as 0.95 for 95 %",
            )
        words = f"--min-accuracy {limits.least_accuracy:g}"
        upper = METRICS[headline].better == "lower"
        found.append(Bound(metric=headline, limit=limits.least_accuracy, words=words, upper=upper))
    return tuple(found)


AGREEMENTS = tuple(HEADLINES.values())
"""What variants are judged by where there are no labels."""
_USUAL_DROPS = {"agreement_boxes": "10pt"}


def _read_snr(limit: float | None, headline: str) -> list[Bound]:
    """The bound on the outputs' signal-to-noise ratio: always where nothing else tells how good they are."""
    if limit is not None and not 0.0 <= limit < math.inf:
        raise BadInput(f"--min-snr must be 0 dB or more, not {limit:g}dB", advice="for example --min-snr 20dB")
    if limit is None and headline != WORST:
        return []
    limit = LEAST_SNR_DB if limit is None else limit
    return [Bound(metric=WORST, limit=limit, words=f"--min-snr {limit:g}dB", upper=False)]


def _refuse_of_values(limits: Limits) -> None:
    """Raise `BadInput` for limits on answers, where outputs are neither class scores nor boxes."""
    for flag, value in (("--max-accuracy-drop", limits.accuracy_drop), ("--min-accuracy", limits.least_accuracy)):
        if value is not None:
            raise BadInput(
                f"{flag} {value}: there is no accuracy without labels, and the outputs are not class scores",
                advice="--min-snr 20dB, or --task classification where they are class scores",
            )


_DROP = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+\.)\s*(pt|%|)")


def _read_drop(text: str, headline: str) -> Bound:
    """``1pt``, ``2%`` or ``0.05``. Raises `BadInput`."""
    word = text.strip().lower()
    match = _DROP.fullmatch(word)
    value = math.nan if match is None else float(match[1])
    if not 0.0 <= value < math.inf:
        raise BadInput(
            f"--max-accuracy-drop {text!r} is not a valid drop",
            advice="for example 1pt (percentage points), 2% or 0.05",
        )
    if match is not None and not match[2] and value >= 1.0 and headline in SHARES:
        # Most likely points are meant, and a whole share would let everything through.
        raise BadInput(
            f"--max-accuracy-drop {text!r}: {METRICS[headline].label} is a share between 0 and 1",
            advice=f"{match[1]}pt is in percentage points",
        )
    if word.endswith("pt") and headline not in SHARES:
        raise BadInput(
            f"--max-accuracy-drop {text!r}: {METRICS[headline].label} has no percentage points",
            advice="give a number in its own unit, such as 0.05, or a share of it, such as 2%",
        )
    words = f"--max-accuracy-drop {text.strip()}"
    relative = word.endswith("%")
    return Bound(
        metric="accuracy_drop",
        limit=value / 100 if relative or word.endswith("pt") else value,
        words=words,
        relative_to=headline if relative else None,
    )


def build_settings(
    wanted: SearchSettings,
    *,
    folder: Path | None,
    wish: DataOptions | None,
    calibrate_on: str | None = None,
    calibration_limit: int | None = None,
) -> SearchSettings:
    """The settings of a search with what follows from the model and the data.

    Args:
        wanted: what the user says about the model and the search.
        folder: None is ``MODEL-optimized`` in the working folder.
        wish: None where there is no data.
        calibrate_on: the split that passes look at; None is the training part, else a part that is then not judged.

    Raises:
        BadInput, BadModel, Unavailable.
    """
    model, limits = wanted.model, wanted.limits
    form = "torch" if is_factory(model) else open_model(model).ref.format
    path = Path(model.rpartition(":")[0]) if form == "torch" else Path(model)
    stem = path.stem if path.suffix in _SUFFIXES else path.name.rpartition(".")[2]
    start = replace(wanted, format=form, folder=folder or Path(f"{stem}-optimized"))
    if start.passes:
        require_data(wish, start.passes)
    if not 0 < start.budget_s < math.inf:
        raise BadInput(f"--time-budget must be more than 0 s, not {start.budget_s:g} s", advice="for example 5min")
    if wish is None:
        return replace(start, bounds=make_bounds(limits, headline=""))
    splits = open_splits(wish)
    judged, calibration = _part(select_samples(wish, splits), splits, wish, split=calibrate_on, limit=calibration_limit)
    instructions = read_instructions(path, wish)
    task = find_task(wish.task, instructions) if judged.data.labelled else None
    return replace(
        start,
        instructions=instructions,
        judged=judged,
        calibration=calibration,
        training=_training(calibration, judged, limit=calibration_limit),
        task=task,
        task_name=wish.task or instructions.task,
        task_options=wish.task_options,
        classes=wish.classes,
        bounds=_check_limits(limits) if task is None else make_bounds(limits, headline=task.metrics[0]),
    )


def _check_limits(limits: Limits) -> tuple[Bound, ...]:
    """The bounds that hold without labels, whatever the outputs are; the others follow when the original has run.

    Raises:
        BadInput: a limit that no outputs can have.
    """
    make_bounds(limits, headline=HEADLINES["classes"])
    return make_bounds(replace(limits, accuracy_drop=None, least_accuracy=None), headline="")


_SUFFIXES = frozenset({".py", ".onnx", ".tflite", ".xml", ".pt2", ".keras"})


def _part(
    judged: SampleSelection, splits: Mapping[str, Dataset], wish: DataOptions, *, split: str | None, limit: int | None
) -> tuple[SampleSelection, SampleSelection | None]:
    """What is judged and what is looked at: never the same samples.

    Raises:
        Unavailable: there is no such split.
        BadInput: an invalid limit, or too few samples for both.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"--calibration-limit must be at least 1, not {limit}", advice="for example 128")
    count = CALIBRATION_SAMPLES if limit is None else limit
    others = {name: data for name, data in splits.items() if data is not splits.get(judged.data.split)}
    if split is not None or others:
        data = choose_split(splits if split is not None else others, split, SPLITS_TO_CALIBRATE)
        if data.split != judged.data.split:
            indices = choose_samples(len(data), limit=count, seed=wish.seed)
            return judged, replace(judged, data=data, indices=tuple(indices), limit=count)
    size = len(judged.indices)
    if len(judged.data) - size >= count:  # what --limit leaves over is enough
        spare = choose_samples(len(judged.data), limit=count, seed=wish.seed + 1, leave_out=judged.indices)
        return judged, replace(judged, indices=tuple(spare), limit=count)
    share = min(count, size // MOST_OF_ONE_SPLIT)
    if share < min(count, LEAST_CALIBRATION):
        raise BadInput(
            f"{size} samples of {judged.data.name} are too few to judge on and to calibrate with",
            advice=f"give {LEAST_CALIBRATION * MOST_OF_ONE_SPLIT} or more, or data with a training part",
        )
    # Chosen by another seed than the judged ones, so that a limit on these says nothing about those.
    looked = choose_samples(size, limit=share, seed=wish.seed + 1)
    places = set(looked)
    rest = tuple(index for at, index in enumerate(judged.indices) if at not in places)
    taken = tuple(judged.indices[at] for at in looked)
    return replace(judged, indices=rest), replace(judged, indices=taken, limit=share)


def _training(
    calibration: SampleSelection | None, judged: SampleSelection, *, limit: int | None
) -> SampleSelection | None:
    """What passes that train learn from: much of a training part that is not judged, else what is looked at."""
    if calibration is None or limit is not None or calibration.data.split == judged.data.split:
        return None
    if calibration.data.split not in SPLITS_TO_CALIBRATE or calibration.data.split == "all":
        return None
    indices = choose_samples(len(calibration.data), limit=TRAINING_SAMPLES, seed=calibration.seed)
    return replace(calibration, indices=tuple(indices), limit=TRAINING_SAMPLES)


def require_data(wish: DataOptions | None, words: Sequence[str]) -> None:
    """Refuse passes that are not there or not installed, and those that lack samples. Raises `Unavailable`."""
    registry = passes()
    for name in read_words(words, registry) or ():
        availability = availability_of(registry.get(name))
        if not availability:
            raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
        if wish is None and registry.get(name).capabilities.calibrates:
            raise Unavailable(f"{name} needs samples to look at", advice="give --data PATH")
