"""Splits a speed-up into factors: the engine, the change of the network, and the engine's settings.

Every factor is the ratio of two variants of one race, so the product of the factors is the speed-up except for noise.
Steps whose variants were in no common race are one factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgewise.comparing.comparison import ComparisonResult
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_pairs
from edgewise.optimizing.choice import factor_of
from edgewise.optimizing.variant import ORIGINAL, Candidate, Factor, MetricValue, root_of

_TERMS = Criteria(metrics=("latency",), force=True)
_ARITHMETIC = ("quantisation", "compression")


def find_engine_step(one: Candidate, known: Mapping[str, Candidate]) -> str | None:
    """Id of the unchanged given file in the engine of a variant; None where there is no such variant."""
    root = root_of(one.id, known)
    for name, other in known.items():
        plain = not other.passes and other.job is not None
        if plain and other.model == root and other.runtime.name == one.runtime.name:
            return name
    return None


def find_factors(chosen: str, known: Mapping[str, Candidate], races: Sequence[ComparisonResult]) -> tuple[Factor, ...]:
    """Return the factors of a variant's speed-up, in the order of the steps; empty where there is only one step.

    Steps that no race tells apart are one factor.

    Args:
        known: all candidates and the original, by id.
        races: in the order in which they were run.
    """
    one = known[chosen]
    plain = one
    while plain.kind == "tuning":  # one setting after the other
        plain = known[plain.parent or ORIGINAL]
    if plain.job is None or known[ORIGINAL].job is None:
        return ()
    step = find_engine_step(plain, known)
    network = "precision" if any(kind in _ARITHMETIC for kind in _kinds_of(plain, known)) else "network"
    passes = plain.id.rpartition(" @ ")[0]
    steps: list[tuple[str, str, str | None, str]] = []
    if step != ORIGINAL:
        steps.append(("engine", plain.job.runtime.name, ORIGINAL, step or "the file as it was given"))
    if plain.passes:
        steps.append((network, passes, step, plain.id))
    if plain is not one and one.task is not None:
        only = set(one.task.recipe.settings.to_document()) <= {"threads", "runtime"}
        label = one.id.removeprefix(f"{plain.id}, ")
        steps.append(("threads" if only else "settings", label, plain.id, chosen))
    if len(steps) < 2:
        return ()
    found: list[Factor] = []
    for kind, what, before, after in steps:
        factor = Factor(kind=kind, what=what, before=before or "", after=after, number=_ratio(before, after, races))
        if found and found[-1].number.value is None:  # its two variants were not in one race: both steps are one factor
            last = found.pop()
            number = _ratio(last.before, after, races)
            factor = replace(
                last, kind=f"{last.kind} + {kind}", what=f"{last.what}, {what}", after=after, number=number
            )
        found.append(factor)
    return tuple(found) if found[-1].number.value is not None else ()


def find_precision_steps(known: Mapping[str, Candidate], races: Sequence[ComparisonResult]) -> tuple[Factor, ...]:
    """Return what inexact passes alone gain: each raced file that one made against the unchanged file in its engine.

    The verdicts of a race are adjusted for all of these comparisons in it; the last race with both files counts.
    """
    steps = {name: find_engine_step(one, known) for name, one in known.items() if one.family and one.model}
    found: dict[str, Factor] = {}
    for findings in reversed(races):
        places = _places(findings)
        names = [name for name, step in steps.items() if name not in found and name in places and step in places]
        pairs = [(places[steps[name] or ""], places[name]) for name in names]
        rows = compare_pairs(findings.variants, pairs, ["latency"], criteria=_TERMS)
        found |= {
            name: Factor(kind=known[name].family, what=name.rpartition(" @ ")[0], before=steps[name] or "", after=name,
                         number=factor_of(row))
            for name, row in zip(names, rows, strict=True)
        }  # fmt: skip
    return tuple(one for one in found.values() if one.number.value is not None)


def _places(findings: ComparisonResult) -> dict[str, int]:
    """Return the places of the variants that a race measured, by their ids."""
    return {one.label: place for place, one in enumerate(findings.variants) if one.run.sessions}


def _kinds_of(one: Candidate, known: Mapping[str, Candidate]) -> list[str]:
    """Return the kinds of the passes that made a variant."""
    kinds: list[str] = []
    while one.task is not None:
        kinds.append(one.task.capabilities.kind)
        one = known[one.parent or ORIGINAL]
    return kinds


def _ratio(before: str | None, after: str, races: Sequence[ComparisonResult]) -> MetricValue:
    """Time of `before` over time of `after`, from the last race with both."""
    for findings in reversed(races):
        places = _places(findings)
        if before in places and after in places:
            pair = (places[before or ""], places[after])
            (row,) = compare_pairs(findings.variants, [pair], ["latency"], criteria=_TERMS)
            return factor_of(row)
    return MetricValue(
        value=None, absent_because=f"{before or 'the file as it was given'} and {after} were not in one race"
    )
