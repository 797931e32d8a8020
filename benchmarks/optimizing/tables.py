"""The documents of networks as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optimizing.claims import Claim, Net, entries_of, number, show, speed
from optimizing.entries import ENGINES

from edgewise.units import format_duration


def format_net(net: Net) -> Iterator[str]:
    """One network: everybody's accuracy and speed."""
    race = net["race"]
    yield f"\n### {net['net']}\n"
    yield (f"{race['pairs']} rounds of fresh processes in {race['elapsed_s']:.0f} s ({race['stopped_because']}); load "
           f"{net['load_before']:.1f} before, {net['load_after']:.1f} after\n")  # fmt: skip
    answers = "accuracy % | points" if net["labelled"] else "same best class % | SNR of the worst output, dB"
    yield f"| engine | variant | {answers} | latency | over float | s | |"
    yield "|---|---|--:|--:|--:|--:|--:|---|"
    rank = {"float": 0, "tool": 1, "edgewise": 2}
    engines = list(ENGINES)
    for one in sorted(entries_of(net), key=lambda one: (engines.index(one["engine"]), rank[one["kind"]])):
        yield f"| {' | '.join(_cells(net, one))} |"


def _cells(net: Net, one: Mapping[str, Any]) -> Iterator[str]:
    yield one["engine"]
    yield f"**{one['title']}**" if one["kind"] == "edgewise" else one["title"]
    if net["labelled"]:
        yield _percent(one["numbers"].get("accuracy"))
        yield _points(one["numbers"].get("drop")) if one["kind"] != "float" else ""
    else:
        yield _percent(one["numbers"].get("agreement"))
        snr = number(one, "snr_worst")
        yield "–" if snr is None else f"{snr:.1f}"
    latency = number(one, "latency")
    yield "–" if latency is None else format_duration(latency)
    yield "" if one["kind"] == "float" else show(speed(net, f"float {one['engine']}", one["name"]))
    yield "" if one["seconds"] is None else f"{one['seconds']:.0f}"
    yield str(one["why"]).replace("|", "/")


def format_claims(claims: Sequence[Claim]) -> Iterator[str]:
    """All claims, first as a list, then with their cells."""
    yield "\n## Claims\n"
    words = {True: "holds", False: "**missed**", None: "not known"}
    yield "| claim | found | |\n|---|---|---|"
    for claim in claims:
        yield f"| {claim.title} | {claim.found} | {words[claim.holds]} |"
    for claim in claims:
        yield f"\n### {claim.title[0].upper()}{claim.title[1:]}\n"
        yield from claim.lines


def _percent(value: Mapping[str, Any] | None) -> str:
    return "–" if value is None or value["value"] is None else f"{100 * value['value']:.2f}"


def _points(value: Mapping[str, Any] | None) -> str:
    """Return a drop as the change that it is."""
    if value is None or value["value"] is None:
        return "–"
    words = f"{0.0 - 100 * value['value']:+.2f}"
    if value.get("low") is None or value.get("high") is None:
        return words
    return f"{words} [{0.0 - 100 * value['high']:+.2f}, {0.0 - 100 * value['low']:+.2f}]"
