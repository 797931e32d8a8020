"""Cycles from the costs of operators: documented timings of instructions, scaled to published latencies.

An operator takes ``factor × work + overhead`` cycles. Its work is the sum of its instructions, each with the number of
cycles that Arm documents for its class on a Cortex-M4 without wait states, and of its waits for flash. The factor
belongs to the software (fitted on boards that were measured with it) and to the board or core (fitted on engines that
were measured on several boards). ``timing.json`` has all numbers, their errors and sources; ``tools/fit_mcu_timing.py``
writes it from public measurements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from edgewise.errors import BadInput
from edgewise.estimating.mcu.costs import OperatorCosts

DEFAULT_SOFTWARE = "cmsis-nn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Estimated cycles of one inference.

    Attributes:
        operators: cycles of each operator, with the runtime's overhead for it.
        start: cycles of the runtime before and after the operators.
        half_width: of the interval of `total`, as a logarithm: it reaches from ``total / e**half_width`` to
            ``total * e**half_width``.
        coverage: probability with which the interval contains the true value.
        method: the software, and the leave-one-out errors of the fit, in a sentence.
    """

    operators: tuple[float, ...]
    start: float
    half_width: float
    coverage: float
    method: str

    @property
    def total(self) -> float:
        """Cycles of the inference."""
        return sum(self.operators) + self.start

    @property
    def low(self) -> float:
        """Lower end of the interval of `total`, cycles."""
        return self.total * math.exp(-self.half_width)

    @property
    def high(self) -> float:
        """Upper end of the interval of `total`, cycles."""
        return self.total * math.exp(self.half_width)


class NoTiming(Exception):
    """No published latency says how many cycles the core needs; the text is the reason."""


@cache
def fitted() -> Mapping[str, Any]:
    """Return the fitted numbers, their errors and sources, as ``timing.json`` has them."""
    text = (resources.files("edgewise.estimating.mcu") / "timing.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def work_of(costs: OperatorCosts, fit: Mapping[str, Any] | None = None) -> float:
    """Return the cycles of `costs` at the documented timings, before any factor.

    Where classes or bytes from flash were not counted, the averages of the fit per instruction are used instead.

    Args:
        fit: instead of `fitted`.
    """
    timings = (fit or fitted())["work"]
    if costs.classes is None:
        cycles = costs.instructions * timings["per_instruction"]
    else:
        cycles = sum(timings["classes"][name] * count for name, count in costs.classes.items())
    if costs.flash_bytes is None:
        waits = costs.instructions * timings["flash_per_instruction"]
    else:
        waits = costs.flash_bytes * timings["flash_byte"]
    return float(cycles + waits)


def time_operators(
    operators: Sequence[OperatorCosts], *, core: str, board: str | None = None, software: str = DEFAULT_SOFTWARE,
    count_error: float = 0.0, fit: Mapping[str, Any] | None = None,
) -> Timing:  # fmt: skip
    """Cycles of one inference that executes `operators`.

    Args:
        operators: those that are executed; operators without instructions are left out.
        core: as `edgewise.estimating.boards.Board.core`.
        board: name of a board; without published latencies of its own it counts as any board with `core`.
        software: a name of the fit.
        count_error: of the instructions, relative to their number; widens the interval.
        fit: instead of `fitted`.

    Raises:
        BadInput: `software` is unknown.
        NoTiming: nothing is published for the core.
    """
    fit = fit or fitted()
    engine = engine_of(software, fit)
    place = place_of(core, board, fit)
    kernels = [engine["factor"] * place["factor"] * work_of(each, fit) for each in operators]
    overhead, start = (engine[name] * place["factor"] for name in ("operator_cycles", "inference_cycles"))
    cycles = [each + overhead for each in kernels]
    total = sum(cycles) + start
    # Kernels and the runtime around them have errors of their own; a small network is mostly runtime.
    share = sum(kernels) / total if total else 1.0
    moved = 0.0 if board in engine["boards"] else place["half_width"]
    own = share * engine["half_width"], (1 - share) * engine["overhead_half_width"]
    counts = share * math.log1p(count_error)
    return Timing(
        operators=tuple(cycles),
        start=start,
        half_width=math.hypot(*own, moved, counts),
        coverage=fit["coverage"],
        method=_method(software, engine, place, board),
    )


def engine_of(software: str, fit: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return what is fitted for `software`. Raises `BadInput` for an unknown one."""
    known: Mapping[str, Mapping[str, Any]] = (fit or fitted())["software"]
    if software not in known:
        raise BadInput(
            f"software must be {' or '.join(known)}, not {software!r}",
            advice=f"such as ⟦set⟧ software={DEFAULT_SOFTWARE}",
        )
    return known[software]


def place_of(core: str, board: str | None, fit: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return what is fitted for `board`, otherwise for `core`. Raises `NoTiming`."""
    fit = fit or fitted()
    if board in fit["boards"]:
        return {**fit["boards"][board], "name": board}
    if core not in fit["cores"]:
        measured = ", ".join(sorted(fit["cores"]))
        raise NoTiming(
            "no published latency tells how many cycles an instruction of this core takes; there are some for "
            f"{measured}"
        )
    return {**fit["cores"][core], "name": core}


def _method(software: str, engine: Mapping[str, Any], place: Mapping[str, Any], board: str | None) -> str:
    errors = engine["leave_one_model_out"]
    words = (
        f"{software} ({engine['title']}): documented cycles of the counted instructions × "
        f"{engine['factor'] * place['factor']:.2f}; mean error on models left out of the fit {errors['mape']:.0%} "
        f"({errors['rows']} published latencies of {errors['models']} models)"
    )
    if board in engine["boards"]:
        return words
    how = f"from {', '.join(place['engines'])}" if "engines" in place else f"from {', '.join(place['boards'])}"
    return f"{words}; factor of {place['name']} {how}"
