"""Which place is the best of each model in a sweep, and which can't be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from edgewise.report.bench.ranking import Candidate, candidates_of, objection_of, peers_of, prefer
from edgewise.verbs.sweep.values import Value, Values, overlaps, sign_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The places of a model in one metric.

    Attributes:
        best: None where the model is in one place, and where no run of it qualifies.
        alike: places that can't be told from the best.
        unranked: places with a better value than the best, or all where there is no best → why they don't count.
        is_judged: whether runs were judged, as reports do it, and not values with intervals.
    """

    best: str | None = None
    alike: Set[str] = frozenset()
    unranked: Mapping[str, str] = field(default_factory=dict)
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
    best = places[prefer(peers)[0].run.id] if peers else None
    unranked = {
        place: next(filter(None, (objection_of(run).brief for run in value.runs)), "grade D")
        for place, value in of_model.items()
        if place not in standing and (best is None or _is_better(metric, value, of_model[best]))
    }
    alike = {places[one.run.id] for one in peers} - {best}
    return Standing(best=best, alike=frozenset(filter(None, alike)), unranked=unranked, is_judged=True)


def _by_values(metric: str, of_model: Mapping[str, Value]) -> Standing:
    """Return the place with the best value; none of grade D."""
    best = min(of_model, key=lambda place: (of_model[place].vague, sign_of(metric) * of_model[place].value))
    first = of_model[best]
    if first.vague:
        return Standing(unranked=dict.fromkeys(of_model, "grade D"))
    return Standing(
        best=best,
        alike=frozenset(place for place, value in of_model.items() if place != best and overlaps(value, first)),
        unranked={
            place: "grade D" for place, value in of_model.items() if value.vague and _is_better(metric, value, first)
        },
    )


def _is_better(metric: str, value: Value, other: Value) -> bool:
    return sign_of(metric) * (value.value - other.value) < 0
