"""Layers of a profile: their order, their times and shares as cells, how these are known, and sums by type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from edgewise.formatting import bound_text, ends_text, plus_minus, time_unit_of
from edgewise.grouping import by_key
from edgewise.profiling.layer_matching import ends, has_bound
from edgewise.profiling.roofline import has_limit, share_of_roof
from edgewise.record import Layer, LayerTensor, Peak, Profile, Run
from edgewise.report.document import DASH, Cell, Column, How, Provenance, Table, absent, value_cell
from edgewise.report.runs.cells import NOT_MEASURED
from edgewise.report.runs.provenance import basis_text, facts_of_run, provenance_of_column, provenance_of_number
from edgewise.text import one_line, plural, shape_text
from edgewise.units import format_bytes, format_si, significant

_UNITS = (("ms", 1e3, 0.1), ("µs", 1e6, 1e-6), ("ns", 1e9, 0.0))
FEW_SESSIONS = 2
"""Their interval is wide: Student's t with one degree of freedom is 12.7 (`edgewise.stats.intervals`)."""
BELOW = "its time is less than the profiler can tell: an upper bound"
PARTLY_BELOW = "a time in it is less than the profiler can tell: only bounds are known"
AT_LIMIT = "at the limit: the interval of this share reaches 100 %, and no layer can do more"
ABOVE_LIMIT = (
    "above the limit: the peak was measured too low, or does not hold for this layer (a better kernel, data in a "
    "nearer cache); it counts in no limit and no saving"
)
ABOVE_WHOLE = "more than the whole: layers are timed under the profiler, the whole without it"
ELSEWHERE = "in the profile of this run, beside the time of the layer"
HOW_COUNTED = partial(provenance_of_column, "Operations", "derived", "counted from the shapes", "none: exact")


def layers_of(run: Run, kind: str) -> list[Layer]:
    """Return the layers of one kind in the order of execution."""
    return [layer for layer in run.layers if layer.kind == kind]


def ranked(layers: Iterable[Layer]) -> list[Layer]:
    """Return the slowest first; layers without a time come last."""
    return sorted(layers, key=lambda layer: (-(layer.time if layer.time is not None else -1.0), layer.index))


def time_unit(times: Iterable[float | None]) -> tuple[str, float]:
    """Return the unit that suits the largest of `times` (s) and the factor to it."""
    largest = max((abs(time) for time in times if time is not None and math.isfinite(time)), default=0.0)
    word, factor, _ = next(each for each in _UNITS if largest >= each[2])
    return word, factor


def share_of(layer: Layer, profile: Profile) -> float | None:
    """Its share of the whole."""
    if layer.share is not None:
        return layer.share
    return layer.time / profile.latency if layer.time is not None and profile.latency > 0 else None


def profile_of(run: Run) -> Profile:
    """Return the profile of `run`. Raises ValueError where it has none."""
    if run.profile is None:
        raise ValueError(f"run {run.id} has no profile")
    return run.profile


def has_bounds_alone(run: Run) -> bool:
    """Whether `FEW_SESSIONS` left no layer of `run` more than an upper bound."""
    layers = [layer for layer in layers_of(run, "operator") if layer.time is not None]
    few = run.profile is not None and run.profile.sessions == FEW_SESSIONS
    return few and bool(layers) and all(layer.is_bounded for layer in layers)


def with_layers_told(run: Run) -> Run:
    """Return `run`, its layers' times without ends where they `has_bounds_alone`: the means themselves are known."""
    if not has_bounds_alone(run):
        return run
    return replace(run, layers=tuple(replace(layer, low=None, high=None) for layer in run.layers))


def most_time(run: Run) -> float:
    """Return the upper end of the latency of `run`, s: what none of its layers passes."""
    row = run.measurement("latency")
    ends = (row and row.high, row and row.value, run.profile and run.profile.latency)
    return next((end for end in ends if end), math.inf)


def time_left(layers: Sequence[Layer], run: Run, rest: float | None = None) -> float:
    """Return the most that `layers` take together, s: the upper end of the latency less the lower ends of all others.

    Args:
        rest: of no layers, where that is known already.
    """
    return _left(layers, run, most_time(run), rest)


def whole_left(layers: Sequence[Layer], run: Run, rest: float | None = None) -> float:
    """Return the most of the whole that `layers` have, s: the whole less the lower ends of all others."""
    return _left(layers, run, profile_of(run).latency, rest)


def _left(layers: Sequence[Layer], run: Run, whole: float, rest: float | None) -> float:
    """Return what is left of `whole`, s; never less than was measured of `layers`, where all add up to more."""

    def taken_by(some: Sequence[Layer]) -> float:
        timed = [each for each in some if not each.is_bounded and each.kind != "eliminated"]
        return sum((each.time if each.low is None else each.low) or 0.0 for each in timed)

    left = (whole - taken_by(run.layers) if rest is None else rest) + taken_by(layers)
    left = max(left, sum(layer.time or 0.0 for layer in layers)) if layers else left
    return min(whole, left) if left > 0.0 or not layers else whole


def time_cell(layer: Layer, factor: float, most: float = math.inf) -> Cell:
    """Its time with the interval, scaled from s by `factor`; a bound is `most` (s) at most."""
    if layer.time is None or not math.isfinite(layer.time):
        return absent(time_reason(layer))
    low, high = (None if end is None else end * factor for end in (layer.low, layer.high))
    value = layer.time * factor
    if layer.is_bounded and high is not None:
        high = min(high, most * factor)
        return Cell(text=bound_text(high), value=value, low=low, high=high, notes=(BELOW,))
    return Cell(text=plus_minus(value, low, high), value=value, low=low, high=high)


def sum_ends(layers: Iterable[Layer], most: float = math.inf) -> tuple[float, float]:
    """Return the sum of the known times without and with those that are only bounded, s; bounds add `most` at most.

    The other times count as measured, without their intervals; so do bounds that hardly change the sum (`has_bound`).
    """
    timed = [layer for layer in layers if layer.time is not None]
    if not has_bound(timed):
        return seconds_of(timed), seconds_of(timed)
    least = sum(layer.time or 0.0 for layer in timed if not layer.is_bounded)
    return least, max(least, min(most, least + sum(layer.high or 0.0 for layer in timed if layer.is_bounded)))


def sum_text(layers: Iterable[Layer], factor: float, most: float = math.inf) -> str:
    """Return the sum of the times, scaled from s by `factor`; bounds are `most` (s) at most.

    Where a part has only an upper bound: ``"< 5.99"`` if all have, else both of `sum_ends`, ``"294 to 310"``.
    ``"≥ 300"`` where a part has no time.
    """
    executed = [layer for layer in layers if layer.kind != "eliminated"]
    low, high = (float(f"{end * factor:.9g}") for end in sum_ends(executed, most))  # no binary fractions
    if any(layer.time is None for layer in executed):
        return f"≥ {significant(low)}"
    if not has_bound(executed):
        return significant(low)
    return bound_text(high) if low == 0.0 else " to ".join(ends_text(low, high, 2 - math.floor(math.log10(high))))


def bound_note(text: str) -> str:
    """Return what is said beside a time that `sum_text` wrote as a bound."""
    return BELOW if text.startswith("<") else PARTLY_BELOW


def time_reason(layer: Layer) -> str:
    """Why a layer has no time."""
    return one_line(layer.time_absent_because or "") or NOT_MEASURED


def share_cell(layer: Layer, share: float, run: Run) -> Cell:
    """Return the share of a layer; a bound where its time is one."""
    latency = profile_of(run).latency
    if layer.is_bounded and layer.high is not None and latency > 0:
        return Cell(text=bound_text(min(layer.high, whole_left([layer], run)) / latency * 100), value=share * 100)
    return percent_cell(share)


def sum_cells(layers: Sequence[Layer], run: Run, factor: float) -> tuple[Cell, Cell]:
    """Return the known time of `layers`, scaled from s by `factor`, and its share of the whole; as `sum_text`
    writes them.
    """
    profile = profile_of(run)
    timed = [layer for layer in layers if layer.time is not None]
    seconds, share = sum(layer.time or 0.0 for layer in timed), sum(share_of(layer, profile) or 0.0 for layer in timed)
    if not has_bound(timed) or profile.latency <= 0:
        return Cell(text=significant(seconds * factor), value=seconds * factor), percent_cell(share)
    time = total_cell(timed, factor, time_left(timed, run))
    percent = total_cell(timed, 100 / profile.latency, whole_left(timed, run))
    return replace(time, notes=(bound_note(time.text),)), replace(percent, value=share * 100)


def total_cell(layers: Sequence[Layer], factor: float, most: float = math.inf) -> Cell:
    """Return the sum of the known times, scaled from s by `factor`, with its ends where they are known; bounds are
    `most` (s) at most.
    """
    known = sum_ends(layers, most) if has_bound(layers) else ends(layers) or (None, None)
    low, high = (None if end is None else end * factor for end in known)
    value = sum(layer.time or 0.0 for layer in layers) * factor
    return Cell(text=sum_text(layers, factor, most), value=value, low=low, high=high)


def untimed_notes(layers: Sequence[Layer]) -> tuple[str, ...]:
    """How many of `layers`, summed in one row, have no time, and why; empty where all have one."""
    reasons = [time_reason(layer) for layer in layers if layer.time is None]
    return (f"{len(reasons)} of them without a time: {'; '.join(dict.fromkeys(reasons))}",) if reasons else ()


def percent_cell(share: float) -> Cell:
    """Return a share of the whole in percent, noted where it is above 100."""
    text = f"{share * 100:.1f}"
    return Cell(text=text, value=share * 100, notes=(ABOVE_WHOLE,) if float(text) > 100.0 else ())


def roof_reason(layer: Layer, profile: Profile) -> str:
    """Why a layer has no roof: no rate, no peak, or a peak that it beats."""
    if not layer.ops_per_second:
        return rate_reason(layer)
    if layer.roof_share is None and (why := one_line(profile.peaks_absent_because or "")):
        return why
    return ABOVE_LIMIT if has_limit(layer, profile.peaks) else "no measured peak is a roof for it"


def roof_cell(layer: Layer, profile: Profile, digits: int = 1) -> Cell:
    """Return the share of its roof that a layer attains, in percent: above 100, only the least that it may be, noted.

    The value is as measured.
    """
    share = share_of_roof(layer, profile.peaks)
    if share is None:
        return absent(roof_reason(layer, profile))
    is_over = share.is_at_limit or share.is_above
    text = f"≥ {share.least * 100:.{digits}f}" if is_over else f"{share.value * 100:.{digits}f}"
    notes = (ABOVE_LIMIT,) if share.is_above else (AT_LIMIT,) if is_over else ()
    return Cell(text=text, value=share.value * 100, notes=notes)


def roof_words(layer: Layer, profile: Profile | None, *, digits: int = 0, of: str = " of its roof") -> str:
    """``"67 % of its roof"``, ``"at least 95 % of its roof, at the limit"``; "" without a roof."""
    if profile is None or layer.roof_share is None:
        return ""
    cell = roof_cell(layer, profile, digits)
    stands = "".join(f", {note.partition(':')[0]}" for note in cell.notes)
    return f"{cell.text.replace('≥', 'at least')} %{of}{stands}"


def moved_bytes(layer: Layer) -> int | None:
    """Return the bytes of weights and activations; None where one of them is unknown."""
    if layer.weight_bytes is None or layer.activation_bytes is None:
        return None
    return layer.weight_bytes + layer.activation_bytes


def tensors_text(tensors: Iterable[LayerTensor], *, named: bool = True) -> str:
    """Shapes and types of tensors, behind their names where they are `named`."""

    def shape(tensor: LayerTensor) -> str:
        if tensor.shape is None:
            return "of unknown rank" if named else "shape of unknown rank"
        return shape_text(tensor.shape) or "scalar"

    return "; ".join(f"{f'{one.name} ' if named else ''}{shape(one)} {one.dtype}" for one in tensors)


def rate_reason(layer: Layer) -> str:
    """Why a layer has no rate of operations: no cost, no time, or no operations."""
    if layer.ops is None:
        return one_line(layer.cost_unknown_because) or NOT_MEASURED
    if layer.time is None:
        return time_reason(layer)
    if layer.is_bounded:
        return BELOW
    return "it has no arithmetic operations" if layer.ops == 0 else NOT_MEASURED


def history_of(peak: Peak) -> str:
    """``"measured 3 times since 2026-11-30, the highest rate counts: that of 2026-12-02"``; of one time, only when."""
    since = (peak.since or peak.measured_at)[:10]
    if peak.times_measured <= 1:
        return f"measured once{f', {since}' if since else ''}"
    when = f": that of {peak.measured_at[:10]}" if peak.measured_at else ""
    since = f" since {since}" if since else ""
    return f"measured {peak.times_measured} times{since}, the highest rate counts{when}"


def peak_rows(peaks: Sequence[Peak]) -> list[tuple[str, str, str]]:
    """Return (what, how much, how it was measured) of each peak."""
    rows = []
    for peak in peaks:
        size = f" in {format_bytes(peak.size_bytes)}" if peak.size_bytes else ""
        name = f"bandwidth{size}" if peak.kind == "bandwidth" else f"arithmetic, {peak.dtype or 'not reported'}"
        unit = "B/s" if peak.kind == "bandwidth" else "op/s"
        words = f"{peak.method}, {plural(peak.threads, 'thread')}, {history_of(peak)}"
        rows.append((one_line(name), format_si(peak.value, unit), one_line(words)))
    return rows


def how_layers(run: Run, profile: Profile, whole: str) -> dict[str, How]:
    """How the columns of the table of layers are known, by heading without unit; `whole` is what shares refer to."""
    peaks = "; ".join(dict.fromkeys(f"{one_line(peak.method)}, {history_of(peak)}" for peak in profile.peaks))
    interval, facts = "none: it follows from the times, which have one", facts_of_run(run)

    def derived(title: str, method: str) -> How:
        return partial(provenance_of_column, title, "derived", method, interval, facts)

    return {
        "Time": how_times(run),
        "%": derived("Share of the whole", f"time of the layer over the whole: {whole}"),
        "Σ %": derived("Running sum of the shares", "shares of this layer and of all slower ones, added up"),
        "MACs": HOW_COUNTED,
        "GOP/s": derived("Rate of a layer", "operations, counted from the shapes of the layer, over its time"),
        "Of limit (%)": derived(
            "Share of the limit", f"rate of the layer over the rate that the machine's peaks allow: {peaks}"
        ),
    }


def how_times(run: Run, *, title: str = "Time of a layer", interval: str = "beside each time that has one") -> How:
    """How the times of the layers of `run` are known; None without a profile."""
    if run.profile is None:
        return None
    latency = run.measurement("latency")
    basis = None if latency is None else latency.basis
    return partial(provenance_of_column, title, basis, timing_line(run, run.profile), interval, facts_of_run(run))


def timing_line(run: Run, profile: Profile) -> str:
    """How the layers were timed, and in how many inferences of how many processes."""
    if run.source is not None:  # its layers and its latency are of one process
        return one_line(profile.method)
    processes = f"{profile.sessions} process{'es' if profile.sessions != 1 else ''}"
    return f"{one_line(profile.method)}; {profile.inferences} inferences in {processes} of their own"


def provenance_of_derived(run: Run, title: str, unit: str, value: float, method: str) -> Provenance:
    """How a number is known that is computed from the profile of `run` and has no interval."""
    facts = [("Basis", basis_text("derived")), ("Method", method), *facts_of_run(run)]
    return provenance_of_number(title, unit, (value, None, None), facts)


LEAST_NAMED, MOST_NAMED = 0.1, 3
"""The first line names types of operators that take at least this share of the time: the largest three at most."""
MOST_TYPES = 8
"""Types with a row of their own; the others are summed in one row."""
FUSED_NOTE = "of operators that run together the time counts for the most expensive one's type"
OVERHEADS = "(overheads of the engine)"
_SUM = "none: a sum of times, each of which has one in the table of layers"


def type_table(run: Run, *, label: str = "", most: int | None = MOST_TYPES) -> Table:
    """Return number of layers and time of each type of operator, the most expensive first, then the engine's overheads.

    Args:
        most: types with a row of their own; None for all.
    """
    run = with_layers_told(run)
    found = by_type(layers_of(run, "operator"))
    order = sorted(found, key=lambda op: -seconds_of(found[op]))
    shown = order if most is None or len(order) <= most + 1 else order[:most]
    parts = [(op, found[op]) for op in shown]
    if rest := order[len(shown) :]:
        parts.append((f"… {len(rest)} more types", [layer for op in rest for layer in found[op]]))
    if overheads := layers_of(run, "overhead"):
        parts.append((OVERHEADS, overheads))
    unit, factor = time_unit(seconds_of(layers) for _, layers in parts)
    how = partial(provenance_of_column, "Share of the whole", "derived", "sum of the times over the whole", _SUM)
    columns = (
        Column(title="Type of operator", name=True),
        Column(title="Layers", numeric=True),
        Column(title=f"Time ({unit})", numeric=True, how=how_times(run, title="Time of a type", interval=_SUM)),
        Column(title="%", numeric=True, how=partial(how, facts_of_run(run))),
    )
    fused = any(len(layer.nodes) > 1 for layer in run.layers)
    title = f"Time by type of operator: {label}" if label else "Time by type of operator"
    return Table(
        title=title,
        columns=columns,
        rows=tuple(_row(run, name, layers, factor=factor) for name, layers in parts),
        notes=(FUSED_NOTE,) if fused else (),
    )


def time_line(run: Run) -> str:
    """Where the time goes, in one line: what takes most by type of operator, and the heaviest layer; empty if unknown.

    ``"Conv 94.0 % (246 ± 44 µs, 5 layers); heaviest layer: conv2 46.4 % (122 ± 21 µs)"``
    """
    run = with_layers_told(run)
    timed, overheads = (
        [layer for layer in layers_of(run, kind) if layer.time is not None] for kind in ("operator", "overhead")
    )
    if not timed or run.profile is None:
        return ""
    found = by_type(timed) | ({OVERHEADS.strip("()"): overheads} if overheads else {})
    order = sorted(found, key=lambda op: -seconds_of(found[op]))[:MOST_NAMED]
    least = min(LEAST_NAMED * run.profile.latency, seconds_of(found[order[0]]))
    parts = []
    for op in order:
        if seconds_of(found[op]) >= least:
            count = plural(len(found[op]), "layer")
            parts.append(f"{op}{_taken_words(found[op], run, '' if found[op] is overheads else count)}")
    heaviest = max(timed, key=lambda layer: layer.time or 0.0)
    latency = run.measurement("latency")
    common = (latency and latency.within_half_width) or 0.0
    rivals = sum(_may_be_as_heavy(layer, heaviest, common) for layer in timed if layer is not heaviest)
    taken = _taken_words([heaviest], run, f"{rivals} more may be as heavy" if rivals else "")
    vague = "only upper bounds are known: " if all(layer.is_bounded for layer in timed) else ""
    return f"{vague}{', '.join(parts)}; heaviest layer: {one_line(heaviest.title)}{taken}"


def _taken_words(layers: Sequence[Layer], run: Run, more: str) -> str:
    """``" 94.0 % (246 ± 44 µs, 5 layers)"``: share of the whole, time, and what more there is to say.

    No share stands where the times are only upper bounds, or where their sum passes the whole.
    """
    unit, factor = time_unit_of(seconds_of(layers))
    time, share = total_cell(layers, factor, time_left(layers, run)), sum_cells(layers, run, 1.0)[1]
    is_known = not share.text.startswith(("<", DASH.text)) and max(share.high or 0.0, share.value or 0.0) <= 100.0
    text = time.text if has_bound(layers) else plus_minus(time.value or 0.0, time.low, time.high)
    return f"{f' {share.text} %' if is_known else ''} ({', '.join(filter(None, (f'{text} {unit}', more)))})"


def _may_be_as_heavy(layer: Layer, heaviest: Layer, common: float) -> bool:
    """Whether the intervals of two layers overlap, without the half-width of the latency, `common` to both."""
    if layer.is_bounded or heaviest.is_bounded:
        return layer.high is not None and heaviest.low is not None and layer.high >= heaviest.low
    reach = 1.0
    for one in (layer, heaviest):
        if not one.time or one.high is None:
            return False
        reach *= 1.0 + math.sqrt(max(0.0, (one.high / one.time - 1.0) ** 2 - common**2))
    return seconds_of([layer]) * reach >= seconds_of([heaviest])


def by_type(layers: Sequence[Layer]) -> dict[str, list[Layer]]:
    """Group layers by the type of their operator."""
    return by_key((one_line(layer.op), layer) for layer in layers)


def _row(run: Run, name: str, layers: list[Layer], *, factor: float) -> tuple[Cell, ...]:
    notes, count = untimed_notes(layers), value_cell(len(layers), str)
    if run.profile is None or all(layer.time is None for layer in layers):
        return Cell(text=name), count, absent(*notes), DASH
    return Cell(text=name, notes=notes), count, *sum_cells(layers, run, factor)


def seconds_of(layers: Sequence[Layer]) -> float:
    """Return the sum of the times that are known, s."""
    return sum(layer.time or 0.0 for layer in layers)
