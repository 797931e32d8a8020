"""Which place is the best of each model in a sweep, and which can't be told from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.record import InTurns, Run
from edgewise.report.bench.against import how_apart
from edgewise.report.bench.ranking import (
    UNRELIABLE,
    Candidate,
    Reason,
    brief_of,
    candidates_of,
    finalists,
    likely_verdict,
    may_be_as_fast,
    objection_of,
    peers_of,
    prefer,
    took_turns,
    turns_of,
)
from edgewise.verbs.sweep.values import Value, Values, overlaps, sign_of

MAY_BE, LOOKS_BETTER = "may be as good", "looks better"
IN_TURNS = "proven in turns"
BY_VALUE = "by its value alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The places of a model in one metric.

    Attributes:
        best: None where fewer than two places could be ranked.
        alike: places that can't be told from the best.
        equal: places that turns proved to be as fast as the best; what decided between them is `why`.
        unranked: places that are not ranked and have a better value than the best or may be as good, or all that are
            not ranked where there is no best → why they don't count.
        sole: the only place that could be ranked, of several; None where there is none.
        is_judged: whether runs were judged, as reports do it, and not values with intervals.
        ranked: the places that could be ranked.
        why: how it is known that the best is the best; of several that can't be told apart, why it is preferred.
        turns: place that took turns with the best → what they found, with the ratio to the best.
        likely: place of `alike` → ``faster`` or ``slower`` than the best, where its interval in turns leaves 1 out.
        without_turns: the runs that may be the fastest, where they were not measured in turns.
    """

    best: str | None = None
    alike: Set[str] = frozenset()
    equal: Set[str] = frozenset()
    unranked: Mapping[str, str] = field(default_factory=dict)
    sole: str | None = None
    is_judged: bool = False
    ranked: Set[str] = frozenset()
    why: str = ""
    turns: Mapping[str, InTurns] = field(default_factory=dict)
    likely: Mapping[str, str] = field(default_factory=dict)
    without_turns: Sequence[Run] = ()


def standings_of(metric: str, values: Values) -> dict[str, Standing]:
    """Return the standing of each model: as reports recommend, where all its runs are at hand, else by its values."""
    judged = {
        model: candidates_of([run for value in of_model.values() for run in value.ranked])[0]
        for model, of_model in values.items()
        if all(len(value.runs) == value.number for value in of_model.values())
    }
    every = [one for candidates in judged.values() for one in candidates]
    found = {}
    for model, of_model in values.items():
        if len(of_model) < 2:
            found[model] = Standing()
        elif model in judged:
            found[model] = _judged(metric, of_model, judged[model], every)
        else:
            found[model] = _by_values(metric, of_model)
    return found


def _judged(metric: str, of_model: Mapping[str, Value], able: list[Candidate], every: list[Candidate]) -> Standing:
    """Return the recommended place, and those of its peers."""
    places = {run.id: place for place, value in of_model.items() for run in value.runs}
    standing = {places[one.run.id] for one in able}
    peers = peers_of(able, every) if able else []
    chosen, reasons = prefer(peers, able) if peers else (None, [])
    turned = (
        {}
        if chosen is None
        else {places[one.run.id]: turns for one in able if (turns := turns_of(one, chosen)) is not None}
    )

    def why(place: str, value: Value) -> str:
        brief = next(filter(None, (objection_of(run).brief for run in value.runs)), UNRELIABLE)
        if chosen is None or len(standing) < 2:
            return brief
        if _looks_better(metric, value, of_model[places[chosen.run.id]]):
            return f"{brief}, {LOOKS_BETTER}" if brief == UNRELIABLE else brief
        return f"{brief}, {MAY_BE}" if any(may_be_as_fast(run, chosen) for run in value.runs) else ""

    unranked = {place: why(place, value) for place, value in of_model.items() if place not in standing}
    equal = {place for place, turns in turned.items() if turns.verdict == "same"}
    return _standing(
        best=places[chosen.run.id] if chosen is not None else None,
        alike=frozenset(places[one.run.id] for one in peers) - equal,
        equal=frozenset(equal & {places[one.run.id] for one in peers}),
        unranked=unranked,
        ranked=frozenset(standing),
        is_judged=True,
        why="" if chosen is None else _why(chosen, peers, able, turned, reasons),
        turns=turned,
        likely={}
        if chosen is None
        else {places[one.run.id]: word for one in peers if (word := likely_verdict(one, chosen))},
        without_turns=_without_turns(rivals_in(of_model), chosen),
    )


def rivals_in(of_model: Mapping[str, Value]) -> list[Run]:
    """Return a run for each place of a model."""
    return [run for value in of_model.values() if (run := value.rival) is not None]


def _without_turns(runs: Sequence[Run], chosen: Candidate | None) -> Sequence[Run]:
    """Return those of `runs` that may be the fastest, the chosen one among them, if they took no turns."""
    finals = [some for some in finalists(runs, drifted=True) if len(some) > 1 and not took_turns(some)]
    return next((some for some in finals if chosen is None or any(run is chosen.run for run in some)), ())


def _why(
    chosen: Candidate,
    peers: Sequence[Candidate],
    able: Sequence[Candidate],
    turned: Collection[str],
    reasons: Sequence[Reason],
) -> str:
    """Return how it is known that `chosen` is the fastest, or why it is preferred to its `peers`."""
    if len(peers) > 1:
        return brief_of(reasons)
    if turned:
        return IN_TURNS
    said = (how_apart(one, chosen).removeprefix(", ") for one in able if one is not chosen)
    return next((f"proven {way}" for way in said if way), "")


def _by_values(metric: str, of_model: Mapping[str, Value]) -> Standing:
    """Return the place with the best value; none of grade D."""
    ranked = [place for place, value in of_model.items() if not value.vague]
    best = min(ranked, key=lambda place: sign_of(metric) * of_model[place].value, default=None)

    def why(value: Value) -> str:
        if best is None or len(ranked) < 2 or _looks_better(metric, value, of_model[best]):
            return f"{UNRELIABLE}, {LOOKS_BETTER}" if best is not None and len(ranked) > 1 else UNRELIABLE
        return f"{UNRELIABLE}, {MAY_BE}" if overlaps(value, of_model[best]) else ""

    alike = frozenset(place for place in ranked if best is not None and overlaps(of_model[place], of_model[best]))
    return _standing(
        best=best,
        alike=alike,
        unranked={place: why(value) for place, value in of_model.items() if value.vague},
        ranked=frozenset(ranked),
        why=BY_VALUE if alike - {best} else "",
    )


def _standing(*, best: str | None, alike: Set[str], unranked: Mapping[str, str], **others: Any) -> Standing:
    """Return a standing without a best where only one place could be ranked: that proves nothing."""
    told = {place: why for place, why in unranked.items() if why}
    if len(others["ranked"]) < 2:
        return Standing(unranked=told, sole=best, **{**others, "why": ""})
    return Standing(best=best, alike=alike - {best}, unranked=told, **others)


def _looks_better(metric: str, value: Value, other: Value) -> bool:
    """Whether a reader sees that `value` is better: two that print alike do not differ to anybody."""
    better = sign_of(metric) * (value.value - other.value) < 0
    unit = METRICS[metric].unit
    return better and quantity(value.value, unit) != quantity(other.value, unit)
