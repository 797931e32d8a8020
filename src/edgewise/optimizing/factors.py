"""Splits a speed-up into factors: the engine, the change of the network, and the engine's settings.

Every factor is the ratio of two variants of one race, so the product of the factors is the speed-up except for noise.
Steps whose variants were in no common race are one factor.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from edgewise.comparing.comparison import ComparisonResult
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_pairs
from edgewise.optimizing.choice import factor_of, in_words, is_slower
from edgewise.optimizing.variant import ORIGINAL, Candidate, Factor, MetricValue, made_of, root_of

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


def find_precision_steps(
    known: Mapping[str, Candidate], races: Sequence[ComparisonResult], chosen: str | None = None
) -> tuple[Factor, ...]:
    """Return what inexact passes alone gain: each raced file that one made against the unchanged file in its engine.

    Where the chosen variant has a file that no such pass changed, in another precision say, each is also held against
    that. The verdicts of a race are adjusted for all of these comparisons in it; the last race with both files counts.
    """
    files = [name for name, one in known.items() if one.family and one.model]
    steps = [(find_engine_step(known[name], known) or "", name) for name in files]
    if chosen is not None and not made_of(known[chosen], known).family:
        changed = [name for name, one in known.items() if made_of(one, known).family and one.model]
        steps += [(chosen, name) for name in changed if (chosen, name) not in steps]
    found: dict[tuple[str, str], Factor] = {}
    for findings in reversed(races):
        places = _places(findings)
        open_steps = [step for step in steps if step not in found and {*step} <= places.keys()]
        pairs = [(places[before], places[after]) for before, after in open_steps]
        rows = compare_pairs(findings.variants, pairs, ["latency"], criteria=_TERMS)
        for (before, after), row in zip(open_steps, rows, strict=True):
            number = factor_of(row)
            ends = number.low or 0.0, number.high or math.inf
            # The verdict that decides on the choice, which this one must not contradict.
            if number.verdict == "inconclusive" and ends[0] > 1.0 and is_slower(known[before], known[after]):
                number = replace(number, verdict="faster")
            if number.verdict == "inconclusive" and ends[1] < 1.0 and is_slower(known[after], known[before]):
                number = replace(number, verdict="slower")
            what = after.rpartition(" @ ")[0]
            found[before, after] = Factor(
                kind=made_of(known[after], known).family, what=what, before=before, after=after, number=number
            )
    return tuple(one for one in found.values() if one.number.value is not None)


def find_apart(names: Collection[str], races: Sequence[ComparisonResult]) -> frozenset[tuple[str, str]]:
    """Return the ids of every two variants that a race proved different, the slower first; the last one with both
    counts, and its verdicts are adjusted for all of these comparisons in it.
    """
    found: set[tuple[str, str]] = set()
    seen: set[frozenset[str]] = set()
    for findings in reversed(races):
        places = _places(findings)
        pairs = [pair for pair in combinations([one for one in names if one in places], 2) if {*pair} not in seen]
        seen |= set(map(frozenset, pairs))
        rows = compare_pairs(
            findings.variants, [(places[a], places[b]) for a, b in pairs], ["latency"], criteria=_TERMS
        )
        found |= {(row.a, row.b) if row.verdict == "faster" else (row.b, row.a)
                  for row in rows if row.verdict in ("faster", "slower")}  # fmt: skip
    return frozenset(found)


def tell_slower(
    one: Candidate, best: Candidate, races: Sequence[ComparisonResult], *, apart: Collection[tuple[str, str]]
) -> str:
    """``"1.20× slower [1.14, 1.27] than the chosen one"``: how much slower an accepted variant is than the chosen one;
    empty where no race tells.
    """
    if not is_slower(one, best, apart):
        return ""
    number = _ratio(one.id, best.id, races)
    if number.low is not None and number.low > 1.0:
        return f"{in_words(number, 'slower')} than the chosen one"
    speeds = [each.metrics["speedup"] for each in (one, best)]
    if any(each.value is None for each in speeds):
        return "slower than the chosen one"
    return "slower than the chosen one: " + " against ".join(map(in_words, speeds))


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
