"""What each layer loses, from the sums of its tensors; and by itself, given the right inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.graph import Graph
from edgewise.stats.differences import TINY, decibels
from edgewise.verbs.diff.matching import INPUT, Match
from edgewise.verbs.diff.result import LayerGap

MOST_ALONE = 5
"""Layers that are run alone: those that lose most."""
LEAST_DB = 1.0
"""A layer that loses less is not run alone."""


def gaps_of(
    matches: Sequence[Match], sums: Sequence[Mapping[str, Any]], graphs: Sequence[Graph], *, clean: float
) -> list[LayerGap]:
    """Return the matches with their ratios and losses."""
    labels = [{each.name: each.label or each.name for each in graph.operators} for graph in graphs]
    ratios = [None if "why" in each else _snr(each) for each in sums]
    found = []
    for match, each, ratio in zip(matches, sums, ratios, strict=True):
        name, other = labels[match.is_added].get(match.name, match.name), labels[1].get(match.other, match.other)
        operator = "" if match.op == INPUT or match.is_added else match.name
        if ratio is None:
            found.append(LayerGap(name=name, op=match.op, other=other, operator=operator, is_added=match.is_added,
                                  why=str(each["why"])))  # fmt: skip
            continue
        before = min((ratios[place] or 0.0 for place in nearest(match, matches, sums)), default=None)
        entering = min(clean if before is None else before, clean)
        loss = None if match.op == INPUT else entering - min(ratio, clean)
        size = math.sqrt(each["signal"] * each["other"])
        found.append(
            LayerGap(
                name=name, op=match.op, other=other, operator=operator, is_added=match.is_added,
                tensors=(each["first"], each["second"]), snr_db=ratio,
                before_db=before, loss_db=loss, cosine=each["dot"] / size if size > 0 else None,
                largest=each["largest"], zeros=each["zeros"] / each["count"],
                saturated=None if each["saturated"] < 0 else each["saturated"] / each["count"],
            )
        )  # fmt: skip
    return found


def nearest(match: Match, matches: Sequence[Match], sums: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places of the nearest layers before `match` that could be compared."""
    found, seen, waiting = list[int](), set[int](), list(match.inputs)
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        if "why" in sums[place]:
            waiting += matches[place].inputs
        else:
            found.append(place)
    return found


def losing_layers(
    layers: Sequence[LayerGap], matches: Sequence[Match], sums: Sequence[Mapping[str, Any]], scales: Mapping[str, Any]
) -> dict[int, Mapping[str, Any]]:
    """Return the few layers that lose most: place → what `edgewise.verbs.diff.layers_alone` cuts out of the other
    model.

    Args:
        scales: tensor of the reference → its scale and zero point.
    """

    def end(place: int) -> Mapping[str, Any]:
        one = sums[place]
        return {"first": one["first"], "scale": scales[one["first"]], "axes": one["axes"], "second": one["second"]}

    losing = [(layer.loss_db or 0.0, place) for place, layer in enumerate(layers)]
    worst = [place for loss, place in sorted(losing, reverse=True)[:MOST_ALONE] if loss >= LEAST_DB]
    return {
        place: {"inputs": [end(before) for before in nearest(matches[place], matches, sums)], "output": end(place)}
        for place in worst
    }


def with_own_losses(
    layers: Sequence[LayerGap], alone: Mapping[int, Mapping[str, Any] | None], *, clean: float
) -> list[LayerGap]:
    """`layers` with what those lose by themselves that could be run alone."""
    own = {place: clean - min(_snr(sums), clean) for place, sums in alone.items() if sums is not None}
    return [replace(layer, own_loss_db=own.get(place)) for place, layer in enumerate(layers)]


def _snr(sums: Mapping[str, Any]) -> float:
    if sums["noise"] == 0.0:
        return math.inf
    return decibels(max(sums["signal"], TINY), sums["noise"])
