"""What is claimed of `edgewise optimize`, held against the documents of networks: pure functions on what was measured.

A tool whose file loses more than may be lost, or that made none, leaves its user with the float file in its engine:
that is what counts for it in geometric means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizing.cells import judge_sign
from optimizing.entries import ENGINES, FREE
from optimizing.tools import TOOLS

from edgewise.comparing.criteria import THRESHOLD

DROP = 0.01
FASTER, INT8, SIGN = 1.1, 3.0, 0.95
"""Targets: over the best single tool, over float, and of pre-flight cells with the right sign."""

Net = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How many times as fast B is as A; None where that is not known, and `because` says why."""

    value: float | None
    low: float | None = None
    high: float | None = None
    verdict: str = "inconclusive"
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim with its evidence.

    Attributes:
        holds: None where nothing was measured that could tell.
        found: in words.
        lines: a Markdown table of all cells; those that miss are marked.
    """

    title: str
    holds: bool | None
    found: str
    lines: tuple[str, ...] = ()


def entries_of(net: Net, kind: str | None = None) -> list[dict[str, Any]]:
    """Of one kind, or all."""
    return [one for one in net["entries"] if kind in (None, one["kind"])]


def entry(net: Net, name: str) -> dict[str, Any] | None:
    """None where there is none of this name."""
    return next((one for one in net["entries"] if one["name"] == name), None)


def number(one: Mapping[str, Any], name: str) -> float | None:
    """Return a number's value."""
    value = one["numbers"].get(name, {}).get("value")
    return None if value is None else float(value)


def speed(net: Net, a: str, b: str) -> Speed:
    """B over A, by the race."""
    twins = net["twins"]
    if a not in twins or b not in twins:
        return Speed(value=None, because="it was not in the race")
    if twins[a] == twins[b]:
        return Speed(value=1.0, low=1.0, high=1.0, verdict="same", because="the same file and settings")
    row = next((one for one in net["rows"] if (one["a"], one["b"]) == (a, b)), None)
    if row is None or not row["ratio"]:
        return Speed(value=None, because=row["because"] or "no ratio" if row else "they were not compared")
    return Speed(
        value=1.0 / row["ratio"],
        low=None if not row["high"] else 1.0 / row["high"],
        high=None if not row["low"] else 1.0 / row["low"],
        verdict=row["verdict"],
        because=row["because"] or "",
    )


def is_usable(net: Net, one: Mapping[str, Any]) -> bool:
    """Whether a file runs and is as accurate, or as near to the float file's outputs, as it must be.

    Without labels, and where outputs are not compared by their signal-to-noise ratio: whether it runs.
    """
    if one["path"] is None or number(one, "latency") is None:
        return False
    if net.get("min_snr") is not None:
        snr = number(one, "snr_worst")
        return number(one, "same") == 1.0 or (snr is not None and snr >= net["min_snr"])
    drop = number(one, "drop")
    return not net["labelled"] or (drop is not None and drop <= DROP)


def geometric_mean(speeds: Sequence[Speed]) -> Speed:
    """With the 95 % interval that the members' own, taken as independent, give."""
    known = [one for one in speeds if one.value]
    if not known:
        return Speed(value=None, because="nothing was measured")
    logs = [math.log(one.value) for one in known if one.value]
    spread = [math.log(one.high / one.low) / 2 for one in known if one.low and one.high]
    mean = math.fsum(logs) / len(logs)
    reach = math.sqrt(math.fsum(each**2 for each in spread)) / len(logs) if len(spread) == len(logs) else None
    return Speed(
        value=math.exp(mean),
        low=None if reach is None else math.exp(mean - reach),
        high=None if reach is None else math.exp(mean + reach),
    )


def check_all(nets: Sequence[Net], *, vnni: bool | None) -> list[Claim]:
    """Return the five claims."""
    return [
        check_accuracy(nets),
        check_engines(nets),
        check_free(nets),
        check_int8(nets, vnni=vnni),
        check_signs(nets),
    ]


def check_accuracy(nets: Sequence[Net]) -> Claim:
    """Every choice is within a point of its engine's float file."""
    rows, missed, judged = [], 0, 0
    for net in nets:
        for one in entries_of(net, "edgewise") if net["labelled"] else ():
            drop = number(one, "drop")
            judged += 1
            misses = drop is None or drop > DROP
            missed += misses
            shown = "–" if drop is None else f"{0.0 - 100 * drop:+.2f}"
            rows.append(f"| {net['net']} | {one['title']} | {shown}{' **missed**' if misses else ''} |")
    return Claim(
        title="every choice is within 1 point of float",
        holds=not missed if judged else None,
        found=f"{judged - missed} of {judged} choices",
        lines=("| network | choice | accuracy, points |", "|---|---|--:|", *rows),
    )


def check_engines(nets: Sequence[Net]) -> Claim:
    """In every engine no usable tool's file is faster.

    A race that was too short to tell proves nothing: a choice that is behind by more than what matters there misses,
    too, and is called ``behind``.
    """
    rows, counts = [], dict.fromkeys(_STANDINGS, 0)
    for net in nets:
        for engine in ENGINES:
            ours = entry(net, f"edgewise {engine}")
            tools = [one for one in entries_of(net, "tool") if one["engine"] == engine and is_usable(net, one)]
            if ours is None:
                continue
            if not tools:
                rows.append(f"| {net['net']} | {engine} | no tool's file is usable | – | – | {_chosen(ours)} |")
                continue
            best = min(tools, key=lambda one: number(one, "latency") or math.inf)
            against = {one["name"]: speed(net, one["name"], ours["name"]) for one in tools}
            standings = {name: _stand(one) for name, one in against.items()}
            word = next(each for each in _STANDINGS if each in standings.values())
            counts[word] += 1
            by = [one["title"] for one in tools if standings[one["name"]] == word]
            mark = f"**{word}** ({', '.join(by)})" if word in _MISSING else word
            rows.append(f"| {net['net']} | {engine} | {best['title']} | {show(against[best['name']])} | {mark} | "
                        f"{_chosen(ours)} |")  # fmt: skip
    total, missed = sum(counts.values()), sum(counts[word] for word in _MISSING)
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return Claim(
        title="in no engine slower than the best of its tools that is within 1 point, or reaches the least SNR",
        holds=None if not total else not missed,
        found=f"{total - missed} of {total} cells ({words})",
        lines=("| network | engine | best tool | edgewise over it | verdict | edgewise's choice |",
               "|---|---|---|--:|---|---|", *rows),
    )  # fmt: skip


_STANDINGS = ("slower", "unknown", "behind", "undecided", "same", "faster")
"""What speaks most against a choice first."""
_MISSING = ("slower", "unknown", "behind")


def _stand(one: Speed) -> str:
    if one.value is None:
        return "unknown"
    if one.verdict != "inconclusive":
        return one.verdict
    return "behind" if one.value < 1.0 / (1.0 + THRESHOLD) else "undecided"


def check_free(nets: Sequence[Net]) -> Claim:
    """With the engine left free: over the one tool that is best over all networks."""
    ours = f"edgewise {FREE}"
    found: dict[str, list[Speed]] = {}
    used: dict[str, list[str]] = {}
    for name, tool in TOOLS.items():
        for net in nets:
            one = entry(net, f"tool {name}")
            usable = one is not None and is_usable(net, one)
            stands = f"tool {name}" if usable else f"float {tool.engine}"
            found.setdefault(name, []).append(speed(net, stands, ours))
            used.setdefault(name, []).append("" if usable else " (float)")
    means = {name: geometric_mean(speeds) for name, speeds in found.items()}
    known = {name: mean for name, mean in means.items() if mean.value is not None}
    if not known:
        return Claim(title=_FREE_TITLE, holds=None, found="nothing was measured")
    best = min(known, key=lambda name: known[name].value or math.inf)
    rows = []
    for name, speeds in found.items():
        cells = [show(one, digits=2, interval=False) + use for one, use in zip(speeds, used[name], strict=True)]
        title = f"**{TOOLS[name].title}**" if name == best else TOOLS[name].title
        rows.append(f"| {title} | {' | '.join(cells)} | {show(means[name])} |")
    header = ["tool", *(str(net["net"]) for net in nets), "geometric mean"]
    return Claim(
        title=_FREE_TITLE,
        holds=(known[best].value or 0.0) >= FASTER,
        found=f"{show(known[best])} over {TOOLS[best].title}, the best of all over these {len(nets)} networks",
        lines=(f"| {' | '.join(header)} |", "|---|" + "--:|" * (len(header) - 1), *rows),
    )


_FREE_TITLE = f"with the engine left free at least {FASTER:g}× as fast as the best single tool, in geometric mean"


def check_int8(nets: Sequence[Net], *, vnni: bool | None) -> Claim:
    """Choices over the float file in the same engine, and the free one over float in onnxruntime."""
    keys, rows, everything = (*ENGINES, FREE), [], []
    columns: dict[str, list[Speed]] = {key: [] for key in keys}
    for net in nets:
        cells = []
        for key in keys:
            one = speed(net, f"float {key if key in ENGINES else 'onnxruntime'}", f"edgewise {key}")
            columns[key].append(one)
            everything += [one] if key in ENGINES else []
            cells.append(show(one, interval=False))
        rows.append(f"| {net['net']} | {' | '.join(cells)} |")
    means = [geometric_mean(speeds) for speeds in columns.values()]
    rows.append(f"| geometric mean | {' | '.join(map(show, means))} |")
    mean = geometric_mean(everything)
    known = mean.value is not None
    where = {True: "VNNI is there", False: "there is no VNNI here", None: "whether there is VNNI is not known"}[vnni]
    return Claim(
        title=f"choices at least {INT8:g}× as fast as float in the same engine, in geometric mean, where VNNI exists",
        holds=(mean.value or 0.0) >= INT8 if known and vnni else None,
        found=f"{show(mean)} over {sum(one.value is not None for one in everything)} cells; {where}",
        lines=(f"| network | {' | '.join(keys)} over float onnxruntime |", "|---|" + "--:|" * len(keys), *rows),
    )


def check_signs(nets: Sequence[Net]) -> Claim:
    """Return the pre-flight's sign, cell by cell; not known where too many cells lack a prediction or a measurement."""
    rows, right, judged, absent = [], 0, 0, 0
    for net in nets:
        for cell in net["cells"]:
            word = judge_sign(cell)
            right, judged, absent = right + (word == "right"), judged + (word != "none"), absent + (word == "none")
            predicted = Speed(value=cell["predicted"], low=cell["low"], high=cell["high"])
            measured = Speed(value=cell["measured"], low=cell.get("measured_low"), high=cell.get("measured_high"))
            reason = f"not measured: {cell['why']}" if cell["predicted"] else f"not predicted: {cell['because']}"
            shown = {"WRONG": "**wrong**", "none": reason}.get(word, word)
            rows.append(f"| {net['net']} | {cell['pass']} | {cell['engine']} | {show(predicted)} | {show(measured)} | "
                        f"{shown} |")  # fmt: skip
    return Claim(
        title=f"the pre-flight's sign is right in at least {SIGN:.0%} of cells (network × pass × engine)",
        holds=_holds_share(right, judged, absent),
        found=f"{right} of {judged} cells" + (f" ({right / judged:.1%})" if judged else "")
        + (f"; {absent} more lack a prediction or a measurement" if absent else ""),
        lines=("| network | pass | engine | predicted | measured | sign |", "|---|---|---|--:|--:|---|", *rows),
    )  # fmt: skip


def _holds_share(right: int, judged: int, absent: int) -> bool | None:
    if not judged or right / judged < SIGN:
        return False if judged else None
    return True if right / (judged + absent) >= SIGN else None


def show(one: Speed, *, digits: int = 2, interval: bool = True) -> str:
    """``2.81× [2.75, 2.87]``."""
    if one.value is None:
        return "–"
    words = f"{one.value:.{digits}f}×"
    if not interval or one.low is None or one.high is None:
        return words
    return f"{words} [{one.low:.{digits}f}, {one.high:.{digits}f}]"


def _chosen(one: Mapping[str, Any]) -> str:
    return str(one["why"]).partition(": ")[0] if one["path"] else str(one["why"])


def misses(claims: Iterable[Claim]) -> Iterator[Claim]:
    """Claims that do not hold."""
    return (claim for claim in claims if claim.holds is False)
