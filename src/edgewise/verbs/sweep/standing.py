"""Which place is the best of each model in a sweep, and which can't be told from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from edgewise.report.bench.ranking import (
    UNRELIABLE,
    Candidate,
    candidates_of,
    may_be_as_fast,
    objection_of,
    peers_of,
    prefer,
)
from edgewise.verbs.sweep.values import Value, Values, overlaps, sign_of

MAY_BE = "may be as good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The places of a model in one metric.

    Attributes:
        best: None where fewer than two places could be ranked.
        alike: places that can't be told from the best.
        unranked: places that are not ranked and have a better value than the best or may be as good, or all that are
            not ranked where there is no best → why they don't count.
        sole: the only place that could be ranked, of several; None where there is none.
        is_judged: whether runs were judged, as reports do it, and not values with intervals.
    """

    best: str | None = None
    alike: Set[str] = frozenset()
    unranked: Mapping[str, str] = field(default_factory=dict)
    sole: str | None = None
    is_judged: bool = False


def standings_of(metric: str, values: Values) -> dict[str, Standing]:
    """Return the standing of each model: as reports recommend, where all its runs are at hand, else by its values."""
    judged = {
        model: candidates_of([run for value in of_model.values() for run in value.runs])[0]
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
    chosen = prefer(peers, able)[0] if peers else None

    def why(place: str, value: Value) -> str:
        brief = next(filter(None, (objection_of(run).brief for run in value.runs)), UNRELIABLE)
        if chosen is None or len(standing) < 2 or _is_better(metric, value, of_model[places[chosen.run.id]]):
            return brief
        return f"{brief}, {MAY_BE}" if any(may_be_as_fast(run, chosen) for run in value.runs) else ""

    unranked = {place: why(place, value) for place, value in of_model.items() if place not in standing}
    return _standing(
        best=places[chosen.run.id] if chosen is not None else None,
        alike=frozenset(places[one.run.id] for one in peers),
        unranked=unranked,
        ranked=standing,
        is_judged=True,
    )


def _by_values(metric: str, of_model: Mapping[str, Value]) -> Standing:
    """Return the place with the best value; none of grade D."""
    ranked = [place for place, value in of_model.items() if not value.vague]
    best = min(ranked, key=lambda place: sign_of(metric) * of_model[place].value, default=None)

    def why(value: Value) -> str:
        if best is None or len(ranked) < 2 or _is_better(metric, value, of_model[best]):
            return UNRELIABLE
        return f"{UNRELIABLE}, {MAY_BE}" if overlaps(value, of_model[best]) else ""

    return _standing(
        best=best,
        alike=frozenset(place for place in ranked if best is not None and overlaps(of_model[place], of_model[best])),
        unranked={place: why(value) for place, value in of_model.items() if value.vague},
        ranked=ranked,
    )


def _standing(
    *, best: str | None, alike: Set[str], unranked: Mapping[str, str], ranked: Collection[str], is_judged: bool = False
) -> Standing:
    """Return a standing without a best where only one place could be ranked: that proves nothing."""
    told = {place: why for place, why in unranked.items() if why}
    if len(ranked) < 2:
        return Standing(unranked=told, sole=best, is_judged=is_judged)
    return Standing(best=best, alike=alike - {best}, unranked=told, is_judged=is_judged)


def _is_better(metric: str, value: Value, other: Value) -> bool:
    return sign_of(metric) * (value.value - other.value) < 0
