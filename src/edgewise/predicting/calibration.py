"""A device as learnt from a few measured models: its points, kept in a file, and how well its laws predict them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.device.calibrations import calibrations_folder, count_text, file_of, models_used, names
from edgewise.errors import BadInput
from edgewise.metrics import METRICS
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.choice import COVERAGE, Choice, LeftOut, Trial, choose, leave_out
from edgewise.predicting.features import TERMS, OperatorProfile
from edgewise.predicting.points import UNITS, is_measurement
from edgewise.shown import Shown

if TYPE_CHECKING:
    from edgewise.store import Store

SCHEMA = 1
COVERAGES = (0.5, 0.8, COVERAGE, 0.95)
"""Of the intervals that a validation counts left-out points in."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Calibration(Shown):
    """What was measured on a device.

    Attributes:
        points: metric → points.
        method: the law that the user chose; None chooses one for each metric.
        host: the machine whose values the points have; "" where somebody wrote them down.
        runtime: on which the host's values were measured, or are to be where there are none; "" where unknown.
        sources: the tables and runs that the points are from.
        cautions: sentences about the measurements.
        doubts: those of `cautions` that say that values look wrong, or are not used.
        unmeasured: files of the models without a value of this machine by `measured_by`.
        measured_by: the engine that files are to be measured with on this machine: that of the device where it is
            known, else `runtime`.
        runs_here: how many models have runs on this machine by `measured_by` that all have grade D, and how many have
            any.
        written: how many of the models have values of this machine that somebody wrote down.
        replaced: the calibration of this name that this one took the place of, in words; "" where there was none.
        path: where it is kept; None where it is not.
        atlas_device: name of the device in the atlas; "" where it has none.
    """

    name: str
    points: Mapping[str, tuple[Point, ...]]
    method: str | None = None
    host: str = ""
    runtime: str = ""
    sources: tuple[str, ...] = ()
    cautions: tuple[str, ...] = field(default=())
    doubts: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    measured_by: str = ""
    runs_here: tuple[int, int] = (0, 0)
    written: int = 0
    replaced: str = ""
    path: Path | None = None
    atlas_device: str = ""

    @cached_property
    def choices(self) -> Mapping[str, Choice]:
        """Metric → its law. Raises `BadInput` as `choose` does."""
        return {
            metric: choose(
                [replace(point, unit=METRICS[metric].unit, device=self.atlas_device) for point in points],
                method=self.method,
            )
            for metric, points in self.points.items()
        }

    def to_document(self) -> dict[str, Any]:
        """JSON, with the validation of each law for people and other programs; `read_calibration` computes it anew."""
        return {
            "schema": SCHEMA,
            "calibration": self.name,
            "method": self.method,
            "host": self.host,
            "runtime": self.runtime,
            "sources": list(self.sources),
            "cautions": list(self.cautions),
            "doubts": list(self.doubts),
            "host_missing": list(self.unmeasured),
            "host_engine": self.measured_by or None,
            "host_runs": self.runs_here[1],
            "host_runs_grade_d": self.runs_here[0],
            "host_written": self.written,
            "replaced": self.replaced or None,
            "atlas_device": self.atlas_device or None,
            "metrics": {
                metric: {
                    "unit": METRICS[metric].unit,
                    "points": [{**asdict(point.subject), "value": point.value} for point in choice.points],
                    "laws": [validation(trial, choice.points) for trial in choice.trials],
                }
                for metric, choice in self.choices.items()
            },
        }


def validation(trial: Trial, points: Sequence[Point]) -> dict[str, Any]:
    """How well a law predicts points that it was not fitted to. None where that can't be said.

    ``n`` is the number of points that it was fitted to, ``error`` the mean relative error, ``expected_error`` what laws
    are chosen by, ``rank_correlation`` Spearman's, ``r2`` that of the fitted values themselves, ``coverage`` the share
    of left-out points inside their intervals of each nominal coverage.
    """
    values = np.array([point.value for point in points])
    row: dict[str, Any] = {
        "law": trial.predictor.name,
        "title": trial.predictor.title,
        "equation": trial.fitted.equation if trial.fitted else None,
        "n": trial.number,
        "error": None,
        "expected_error": None,
        "rank_correlation": None,
        "r2": None,
        "coverage": None,
        "left_out": [None if math.isnan(value) else value for value in trial.left_out.tolist()],
        "unusable_because": trial.because or None,
    }
    if trial.fitted is not None:
        used = np.isfinite(trial.left_out)
        subjects = [point.subject for point, known in zip(points, used, strict=True) if known]
        values, left_out = values[used], trial.left_out[used]
        fitted = np.exp(trial.fitted.predict(subjects)[0])
        rest = float(np.sum((values - values.mean()) ** 2))
        row["error"] = float(np.mean(np.abs(left_out / values - 1)))
        row["expected_error"] = trial.expected_error
        row["rank_correlation"] = rank_correlation(left_out, values)
        row["r2"] = 1 - float(np.sum((values - fitted) ** 2)) / rest if rest else None
        row["coverage"] = covered(leave_out(trial, points))
    return row


def covered(points: Sequence[LeftOut]) -> list[dict[str, float]]:
    """For each of `COVERAGES`, the share of left-out points inside their intervals."""
    return [
        {"nominal": nominal, "share": sum(point.inside(nominal) for point in points) / len(points)}
        for nominal in COVERAGES
    ]


def rank_correlation(one: Any, other: Any) -> float | None:
    """Spearman's coefficient; None where a side is constant."""
    ranks = [_ranks(np.asarray(values, dtype=float)) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: Any) -> Any:
    """Ranks, the mean of them for equal values."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def remove(name: str) -> Path:
    """Delete the calibration `name` and return its file. Raises `BadInput` where there is none."""
    path = file_of(name)
    try:
        path.unlink()
    except FileNotFoundError:
        raise _unknown(name) from None
    except OSError as error:
        raise BadInput(f"{path} can't be deleted: {error.strerror}") from None
    return path


def _unknown(name: str, store: str | Store | None = None) -> BadInput:
    known = ", ".join(names(store)) or "none"
    return BadInput(f"no device {name!r} is calibrated", advice=f"calibrated, in {calibrations_folder(store)}: {known}")


def summaries(store: str | Store | None = None) -> list[dict[str, Any]]:
    """Name, metric → models fitted and measured, and sources of each calibration, or why its file can't be read."""
    found: list[dict[str, Any]] = []
    for name in names(store):
        try:
            this = load(name, store)
            counts = models_used(json.loads(file_of(name, store).read_text("utf-8")))
            used, measured = ({metric: pair[at] for metric, pair in counts.items()} for at in (0, 1))
            sources = list(this.sources)
            found.append({"name": name, "models": used, "measured": measured, "sources": sources, "reason": None})
        except BadInput as error:
            found.append({"name": name, "models": {}, "measured": {}, "sources": [], "reason": error.message})
    return found


def save(calibration: Calibration, store: str | Store | None = None) -> Calibration:
    """Keep `calibration` with `store`; returns it with its file and what was there. Raises `BadInput` where that fails.

    Args:
        store: of which the calibration is a part; None asks the environment.
    """
    from edgewise.store.exchange import write_with_folder

    path = file_of(calibration.name, store)
    kept = replace(calibration, path=path, replaced=_words(path, calibration.name, store))
    document = json.dumps(kept.to_document(), indent=1, allow_nan=False)
    write_with_folder(path, f"{document}\n", overwrite=True)
    return kept


def _words(path: Path, name: str, store: str | Store | None) -> str:
    """Return the calibration that is at `path`, in words; "" where there is none."""
    if not path.exists():
        return ""
    try:
        earlier = load(name, store)
    except BadInput:
        return "one that could not be read"
    used = models_used(json.loads(path.read_text("utf-8")))
    counts = (f"{metric.replace('_', ' ')} of {count_text(*used[metric])} models" for metric in earlier.points)
    return f"{', '.join(counts)}, from {', '.join(earlier.sources)}"


def load(name: str, store: str | Store | None = None) -> Calibration:
    """Return the calibration `name`. Raises `BadInput` where there is none, or where its file is damaged."""
    path = file_of(name, store)
    try:
        document = json.loads(path.read_text("utf-8"))
        if document["schema"] > SCHEMA:
            raise BadInput(f"{path} was written by a later edgewise", advice="update edgewise, or calibrate again")
        points = {
            metric: tuple(_point(point) for point in found["points"])
            for metric, found in document["metrics"].items()
            if metric in UNITS
        }
        if not points:
            raise ValueError("no metric")
        return Calibration(
            name=name,
            points=points,
            method=document["method"],
            host=str(document["host"]),
            runtime=str(document["runtime"]),
            sources=tuple(map(str, document["sources"])),
            cautions=tuple(map(str, document["cautions"])),
            doubts=tuple(map(str, document.get("doubts", ()))),  # earlier files have none
            unmeasured=tuple(map(str, document.get("host_missing", ()))),  # earlier files have none
            measured_by=str(document.get("host_engine") or ""),
            runs_here=(int(document.get("host_runs_grade_d", 0)), int(document.get("host_runs", 0))),
            written=int(document.get("host_written", 0)),
            path=path,
            atlas_device=str(document.get("atlas_device") or ""),  # earlier files have none
        )
    except FileNotFoundError:
        raise _unknown(name, store) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path} is damaged: {error!r}", advice="calibrate the device again") from None


def _point(found: Mapping[str, Any]) -> Point:
    profile, value, host = found["profile"], float(found["value"]), found["host"]
    for number in (value, *([] if host is None else [host])):
        if not is_measurement(float(number)):
            raise ValueError(f"{number} is not a measurement")
    if profile is not None and not (
        len(profile["amounts"]) == len(TERMS) and all(0 <= each < math.inf for each in profile["amounts"])
    ):
        raise ValueError(f"{found['name']} has no usable operators")
    return Point(
        value=value,
        subject=Subject(
            name=str(found["name"]),
            host=None if host is None else float(host),
            host_error=float(found.get("host_error", 0.0)),  # earlier files do not say
            profile=None
            if profile is None
            else OperatorProfile(
                amounts=tuple(float(amount) for amount in profile["amounts"]), unknown=tuple(profile["unknown"])
            ),
            precision=str(found["precision"]),
            family=str(found["family"]),
            noisy=bool(found.get("noisy")),  # earlier files do not say
        ),
    )
