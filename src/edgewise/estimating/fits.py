"""The boards of the catalogue that hold a model: their order, limits, and what the others lack."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, BadModel, EdgewiseError
from edgewise.estimating.base import (
    AS_TFLITE,
    SCHEMA,
    Estimate,
    EstimatedDevice,
    EstimatesSeveral,
    Estimator,
    estimators,
)
from edgewise.estimating.boards import Fit, kib
from edgewise.estimating.memory_only import memory_estimates
from edgewise.formatting import interval_text
from edgewise.model.graph import Graph
from edgewise.registry import availability_of
from edgewise.shown import Shown
from edgewise.units import format_duration

REACHES_BELOW = ", but its interval reaches below"
"""How the reason ends for which a board is left out whose latency may be within the limit."""
ROWS = ("latency", "energy", "battery_life")
"""Metrics of a board in the list, besides its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper limits of what the model may take; None sets no limit.

    Attributes:
        latency: s. A board without a known latency does not meet it.
        ram, flash: bytes.
    """

    latency: float | None = None
    ram: int | None = None
    flash: int | None = None

    def reasons(self, estimate: Estimate, fit: Fit) -> tuple[str, ...]:
        """Why the board of `estimate` is left out; empty where it holds the model within the limits."""
        row = estimate.measurement("latency")
        latency = None if row is None else row.value
        if latency is None and self.latency is not None and estimate.at_least.get("latency", 0.0) > self.latency:
            latency = estimate.at_least["latency"]
        found = [f"not enough {memory}" for memory in fit.lacking]
        for name, value, most, text in (
            ("RAM of the model", fit.ram_bytes, self.ram, lambda size: f"{kib(size)} KiB"),
            ("flash of the model", fit.flash_bytes, self.flash, lambda size: f"{kib(size)} KiB"),
            ("latency", latency, self.latency, format_duration),
        ):
            if most is not None and (value is None or value > most):
                held = "" if found or name != "latency" else "holds it, " if fit.fits else "may hold it, "
                doubt = row is not None and name == "latency" and row.low is not None and row.low <= most
                above = f"{name} above {text(most)}" + (REACHES_BELOW if doubt else "")
                found.append(f"{held}{name} not known" if value is None else f"{held}{above}")
        return tuple(found)

    def may_exceed(self, estimate: Estimate) -> bool:
        """Whether the interval of the latency reaches above the limit."""
        row = estimate.measurement("latency")
        return self.latency is not None and row is not None and row.high is not None and row.high > self.latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A board of the catalogue with the estimate of the model.

    Attributes:
        left_out: why it is left out, the memory first; empty where it is not.
        may_exceed: whether the interval of its latency reaches above the limit.
    """

    estimate: Estimate
    fit: Fit
    left_out: tuple[str, ...]
    may_exceed: bool = False

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        told = self.estimate.to_document()
        return {
            "device": told["device"],
            "fit": told["fit"],
            "estimates": [row for row in told["estimates"] if row["metric"] in ROWS],
            "software": told["software"],
            "left_out": list(self.left_out),
            "may_exceed": self.may_exceed,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fits(Shown):
    """The boards of the catalogue in their order, see `rank`: those that hold the model, then those left out.

    Attributes:
        model: as `Estimate.model`.
        conditions: what the estimates rest on besides their devices, in sentences.
        advice: what to do about `refused`.
    """

    model: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    conditions: tuple[str, ...] = ()
    advice: str = "use a smaller model, or raise the limits"

    @property
    def listed(self) -> tuple[Candidate, ...]:
        """The boards that hold the model within the limits."""
        return tuple(each for each in self.candidates if not each.left_out)

    @property
    def left_out(self) -> Mapping[str, int]:
        """First reason → number of boards, the most frequent first; the numbers add up to the boards left out."""
        return dict(Counter(each.left_out[0] for each in self.candidates if each.left_out).most_common())

    @property
    def refused(self) -> str | None:
        """Why no board is listed, with what the closest one lacks; None where there are boards."""
        if self.listed:
            return None
        lacking = [each for each in self.candidates if each.fit.lacking]
        if len(lacking) == len(self.candidates):
            closest = self.nearest.fit
            lacks = ", ".join(f"{kib(size)} KiB {memory}" for memory, size in closest.lacking.items())
            return f"the model fits none of the {len(lacking)} boards: the closest, {closest.board.name}, lacks {lacks}"
        counts = ", ".join(f"{reason} ({number})" for reason, number in self.left_out.items())
        words = f"none of the {len(self.candidates)} boards holds the model within the limits: {counts}"
        return "; ".join([words, *self._closest()])

    @property
    def nearest(self) -> Candidate:
        """The board that lacks the least memory; of those with enough the one with the fewest reasons, the fastest."""

        def distance(each: Candidate) -> tuple[int, int, float]:
            row = each.estimate.measurement("latency")
            latency = math.inf if row is None or row.value is None else row.value
            return _most_lacking(each.fit), len(each.left_out), latency

        return min(self.candidates, key=distance)

    def _closest(self) -> list[str]:
        """Return what keeps the boards out that have enough memory: the least latency, and why others have none."""
        held = [each for each in self.candidates if not each.fit.lacking]
        rows = [(row, each) for each in held if (row := each.estimate.measurement("latency")) is not None]
        known = [(row.value, each.fit.board.name, row, each) for row, each in rows if row.value is not None]
        found = []
        if known:
            latency, name, row, each = min(known, key=lambda one: one[:2])
            ends = interval_text(row.metric, row.unit, row.value, row.low, row.high)
            coverage = each.estimate.coverage.get(row.metric)
            told = f" ({f'{coverage:.0%}: ' if coverage else ''}{ends})" if ends else ""
            found.append(f"the fastest with enough memory, {name}, takes {format_duration(latency)}{told}")
        advice = (f"; {each.estimate.advice}" for _, each in rows)
        whys = [(row.absent_because or "").removesuffix(end) for (row, _), end in zip(rows, advice, strict=True)]
        helped = next((why for why, (_, each) in zip(whys, rows, strict=True) if why and each.estimate.advice), "")
        return [*found, *([f"the latency is not known, as {helped}"] if helped else [])]

    def named_advice(self, model: str) -> str:
        """`advice`, or what makes the model one whose latency is known, with the model and a board in its command."""
        helped = [each for each in self.candidates if each.estimate.advice]
        if self.refused is None or not helped:
            return self.advice
        best = min(helped, key=lambda each: _most_lacking(each.fit))
        return name_in(best.estimate.advice, model=model, device=best.fit.board.name)

    def to_document(self) -> dict[str, Any]:
        """Return the document that ``edgewise estimate --fits --json`` prints."""
        return {
            "schema": SCHEMA,
            "model": dict(self.model),
            "conditions": list(self.conditions),
            "boards": [each.to_document() for each in self.candidates],
            "left_out": dict(self.left_out),
            "refused": self.refused,
            "advice": "" if self.refused is None else self.advice,
        }


def _most_lacking(fit: Fit) -> int:
    """Bytes of the memory that the board lacks most; 0 where it lacks none."""
    return max(fit.lacking.values(), default=0)


def rank(estimates: Sequence[Estimate], limits: Limits) -> tuple[Candidate, ...]:
    """Return the boards of `estimates`: those that fit, those that may fit, those left out; each by latency, then
    by memory. Within a limit of the latency, which all boards that are listed meet, the smallest come first.
    """

    def place(candidate: Candidate) -> tuple[bool, bool, tuple[int, int], float, tuple[int, int], str]:
        row, name = candidate.estimate.measurement("latency"), candidate.fit.board.name
        latency = math.inf if row is None or row.value is None else row.value
        is_left_out, size = bool(candidate.left_out), size_of(candidate)
        first = (0, 0) if limits.latency is None or is_left_out else size
        return is_left_out, candidate.fit.fits is None, first, latency, size, name

    found = [
        Candidate(
            estimate=each, fit=each.fit, left_out=limits.reasons(each, each.fit), may_exceed=limits.may_exceed(each)
        )
        for each in estimates
        if each.fit is not None
    ]
    return tuple(sorted(found, key=place))


def size_of(candidate: Candidate) -> tuple[int, int]:
    """RAM and flash of the board in bytes: by them, one board is smaller than another."""
    return candidate.fit.board.ram_bytes, candidate.fit.board.flash_bytes


Groups = Sequence[tuple[Estimator, Sequence[EstimatedDevice]]]
"""Estimators, each with boards that have the same core."""


def boards_by_core(settings: Mapping[str, str]) -> Groups:
    """Return the boards of all estimators, those with the same core together, with `settings` where an estimator
    has them.

    Raises:
        BadInput: a setting that no estimator of boards has.
    """
    groups: dict[tuple[str, str], tuple[Estimator, list[EstimatedDevice]]] = {}
    known: set[str] = set()
    for name, estimator in estimators():
        for device in estimator.devices():
            if device.board is not None:
                known |= set(estimator.settings)
                own = {key: value for key, value in settings.items() if key in estimator.settings}
                adapted = replace(device, settings={**device.settings, **own})
                groups.setdefault((name, device.core), (estimator, []))[1].append(adapted)
    if unknown := sorted(settings.keys() - known):
        raise BadInput(f"boards have no setting {unknown[0]!r}", advice=f"settings: {', '.join(known) or 'none'}")
    return list(groups.values())


def estimates_of_core(
    estimator: Estimator,
    devices: Sequence[EstimatedDevice],
    path: Path,
    graph: Graph,
    *,
    model: str,
    convert: str = AS_TFLITE,
) -> tuple[list[Estimate], BadInput | None]:
    """Return the estimates on boards with the same core; the memory alone, with the reason, where only that is known.

    Args:
        model: as the user named it, for advice.
        convert: advice where the estimator reads only .tflite files, and this is none.

    Returns:
        One estimate per device, and the error where the estimator rejects the devices' settings.
    """
    state = availability_of(estimator)
    if not state:
        return memory_estimates(graph, devices, because=f"{state.reason}; {state.install_hint}"), None
    try:
        if isinstance(estimator, EstimatesSeveral):
            found = estimator.estimate_several(path, graph, devices)
        else:
            found = [estimator.estimate(path, graph, device) for device in devices]
    except EdgewiseError as error:
        rejected = error if isinstance(error, BadInput) and not isinstance(error, BadModel) else None
        reads_other = error.advice == AS_TFLITE
        advice = convert if reads_other else error.advice
        memory = memory_estimates(graph, devices, because="; ".join(filter(None, (error.message, advice))))
        return [replace(each, advice=advice) for each in memory] if reads_other else memory, rejected
    first = found[0]
    if first.refused is not None:
        advice = name_in(first.advice, model=model, device="DEVICE")
        because = f"{first.refused}; {advice}" if advice else first.refused
        return [replace(each, advice=advice) for each in memory_estimates(graph, devices, because=because)], None
    return found, None


def name_in(advice: str, *, model: str, device: str) -> str:
    """`advice` with a model and a device in its commands."""
    advice = advice.replace("-d DEVICE", f"-d {shlex.quote(device)}")
    return re.sub(r"(convert|optimize) MODEL ", lambda found: f"{found[1]} {shlex.quote(model)} ", advice)
