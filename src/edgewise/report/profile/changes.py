"""The largest changes between two profiled runs in words, and the sum of all changes against that of the whole."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.formatting import plus_minus, round_outwards, time_unit_of
from edgewise.grouping import by_key
from edgewise.profiling.layer_matching import LOADED, LayerPair, are_alike, join_pairs, pair_layers, speed_between
from edgewise.record import Run
from edgewise.report.document.names import keep_end
from edgewise.report.profile.cells import OVERHEADS
from edgewise.report.profile.diff import (
    BEFORE_AFTER,
    FASTER,
    SAME,
    SLOWER,
    WholeChange,
    change_of_sums,
    change_of_whole,
    headings_of_two,
    is_proven,
    verdict_cell,
)
from edgewise.report.profile.findings import BEFORE_AND_AFTER
from edgewise.text import one_line
from edgewise.units import significant

LARGEST = "largest "
"""How the line on layers begins that belongs to the answer."""
MOST_NAMED = 3
LEAST_EXPLAINED = 0.1
"""Layers that together make up a smaller share of the change of the whole do not explain it."""
NAME_WIDTH = 32

PROVEN = (FASTER.text, SLOWER.text)


def change_lines(runs: Sequence[Run]) -> list[str]:
    """Which layers differ most between two profiles of like models, and the sum of all; empty for other runs.

    A layer's change has its verdict, the kernels that the engines name, and its share of the whole's change where both
    are proven. Layers are named where their change is clear and explains at least `LEAST_EXPLAINED` of a proven one.
    """
    profiled = [run for run in runs if run.profile is not None]
    if len(profiled) != BEFORE_AND_AFTER or not are_alike(*profiled):
        return []
    pairs = [pair for pair in pair_layers(*profiled) if pair.kind != "eliminated"]
    whole = change_of_whole(*profiled)
    names, heading, _ = headings_of_two(*profiled)
    change = heading.lower()
    summed, shares = _sum_lines(pairs, whole, change, (profiled[0], profiled[1]))
    known = [
        pair for pair in pairs
        if (pair.is_paired or pair.is_added_or_removed) and pair.change and not pair.is_bounded
    ]  # fmt: skip
    slowed = [pair for pair in known if pair.is_of_load]
    known = [pair for pair in known if not pair.is_of_load]
    named = [pair for pair in known if is_proven(pair)][:MOST_NAMED]
    explained = abs(sum(pair.change or 0.0 for pair in named))
    if whole is not None and whole.verdict in PROVEN and explained < LEAST_EXPLAINED * abs(whole.value):
        named = []
    said = []
    for pair in named:
        verdict = _only_in(pair, profiled) if pair.is_added_or_removed else verdict_cell(pair).text
        words = filter(None, (verdict, _kernel_words(pair), _share_words(pair, shares, change)))
        moved = _signed(pair.change or 0.0, *pair.change_ends)
        said.append(f"{keep_end(one_line(pair.name), NAME_WIDTH)} {moved} ({'; '.join(words)})")
    sides = "" if names == BEFORE_AFTER else f", {names[1]} less {names[0]}"
    largest = [f"{LARGEST}{change}s by layer{sides}: {', '.join(said)}"] if said else []
    return [*largest, *_load_lines(slowed), *summed]


def type_line(runs: Sequence[Run]) -> str:
    """Which types of operators make the difference between two profiles of like models, the largest difference first.

    ``"by type of operator, openvino less onnxruntime: Conv -130 ± 8 µs (97.0 % of the difference)"``. Only those whose
    time differs for sure, by at least `LEAST_EXPLAINED` of the largest; "" where none does.
    """
    profiled = [run for run in runs if run.profile is not None]
    if len(profiled) != BEFORE_AND_AFTER or not are_alike(*profiled):
        return ""
    pairs = [pair for pair in pair_layers(*profiled) if pair.kind != "eliminated"]
    names, heading, _ = headings_of_two(*profiled)
    _, whole = _sum_lines(pairs, change_of_whole(*profiled), heading.lower(), (profiled[0], profiled[1]))
    types = by_key((OVERHEADS.strip("()") if pair.kind == "overhead" else pair.op, pair) for pair in pairs)
    found = [(op, join_pairs(some)) for op, some in types.items()]
    sure = [
        (op, one, one.change) for op, one in found
        if one.change and one.is_clear and one.is_reliable and not one.is_bounded
    ]  # fmt: skip
    sure.sort(key=lambda each: -abs(each[2]))
    told = []
    for op, one, change in sure[:MOST_NAMED]:
        if abs(change) >= LEAST_EXPLAINED * abs(sure[0][2]):
            share = f" ({whole.share_text(change, one.change_ends)} of the {heading.lower()})" if whole else ""
            told.append(f"{one_line(op)} {_signed(change, *one.change_ends)}{share}")
    sides = "" if names == BEFORE_AFTER else f", {names[1]} less {names[0]}"
    return f"by type of operator{sides}: {', '.join(told)}" if told else ""


def _signed(seconds: float, low: float | None = None, high: float | None = None) -> str:
    """``"-58.4 ± 3.1 ms"``, in the unit of its size; a plus before what is more."""
    unit, factor = time_unit_of(seconds)
    ends = (None if end is None else end * factor for end in (low, high))
    return f"{'+' if seconds > 0 else ''}{plus_minus(seconds * factor, *ends)} {unit}"


def _signed_ends(low: float, high: float) -> str:
    """``"-226 to +22.4 ms"``, in the unit of the larger one."""
    unit, factor = time_unit_of(max(abs(low), abs(high)))
    texts = zip((low, high), round_outwards(low * factor, high * factor), strict=True)
    return f"{' to '.join(('+' if end > 0 else '') + text for end, text in texts)} {unit}"


def _load_lines(pairs: Sequence[LayerPair]) -> list[str]:
    """Return what is no cause of the change: layers of both models that the machine's speed changed alike."""
    factors = [after / before for before, after in (pair.times for pair in pairs) if before and after]
    if not factors:
        return []
    low, high = significant(min(factors)), significant(max(factors))
    times = low if low == high else f"{low} to {high}"
    return [f"no cause: unchanged layers took {times} times as long, which the load of the machine explains"]


def _only_in(pair: LayerPair, runs: Sequence[Run]) -> str:
    """``"Conv, only in today.onnx"``; where both files have one name, whether it was added or removed."""
    names = [one_line(run.job.model.name) for run in runs]
    where = f"only in {names[not pair.before]}" if names[0] != names[1] else verdict_cell(pair).text
    return f"{one_line(pair.op)}, {where}{'' if is_proven(pair) else '; unclear'}"


def _kernel_words(pair: LayerPair) -> str:
    """``"kernel Conv → FusedConv"``; "" where an engine names none."""
    sides = [
        " + ".join(dict.fromkeys(one_line(layer.engine_op) for layer in layers if layer.engine_op))
        for layers in (pair.before, pair.after)
    ]
    return f"kernel {' → '.join(keep_end(side, NAME_WIDTH) for side in dict.fromkeys(sides))}" if all(sides) else ""


def _share_words(pair: LayerPair, whole: WholeChange | None, change: str) -> str:
    if whole is None or not is_proven(pair):
        return ""
    return f"{whole.share_text(pair.change or 0.0, pair.change_ends)} of the {change}"


def _reaches(whole: WholeChange, bounds: Sequence[float]) -> bool:
    """Whether a sum of layers between `bounds` lies within the interval of the whole's change, as far as it has one."""
    if whole.low is None or whole.high is None:
        return True
    return max(bounds) >= whole.low and min(bounds) <= whole.high


def _sum_lines(
    pairs: Sequence[LayerPair], whole: WholeChange | None, change: str, runs: tuple[Run, Run]
) -> tuple[list[str], WholeChange | None]:
    """Return the sum of the layers' changes against the whole's, and that of the whole if layers can have a share
    of it.
    """
    timed = [pair for pair in pairs if pair.change is not None]
    if whole is None or not timed:
        return [], None
    summed = join_pairs(timed)
    total, ends = summed.change or 0.0, summed.change_ends
    told = _signed(total, *ends)
    share = whole.share_text(total, ends) if whole.value else ""
    is_opposite = total * whole.value <= 0
    bounds = [total if end is None else end for end in ends]
    if summed.is_bounded:
        cell = change_of_sums(summed)
        bounds = [((cell.value if end is None else end) or 0.0) * 1e-6 for end in (cell.low, cell.high)]
        told, is_opposite = _signed_ends(*bounds), all(end * whole.value <= 0 for end in bounds)
        shares = sorted(end * 100 / whole.value for end in bounds) if whole.value else []
        share = f"{' to '.join(map(significant, shares))} %"
    text = f"the {change}s of the layers add up to {told}"
    text += f" ({len(pairs) - len(timed)} without a time left out)" if len(timed) < len(pairs) else ""
    of = f"{_signed(whole.value, whole.low, whole.high)}{', measured in turns' if whole.in_turns else ''}"
    is_told = whole.verdict in PROVEN and not is_opposite
    speed = speed_between(*runs)
    if is_told and speed is not None and max(speed, 1.0 / speed) > LOADED and not _reaches(whole, bounds):
        word = f"{significant(max(speed, 1.0 / speed))}× {'slower' if speed > 1.0 else 'faster'}"
        why = f"beside the first run's, the profiled processes of the second were {word} than in turns"
        return [f"{text}, off the {change} of the whole, {of}: {why}"], None
    why = "too small to matter" if whole.verdict == SAME.text else "not proven"
    if is_told:
        return [f"{text} of the {change} of the whole, {of} ({share})"], whole
    if whole.verdict in PROVEN:
        why = "the other way"
    return [f"{text}; the {change} of the whole, {of}, is {why}, so no layer has a share of it"], None
