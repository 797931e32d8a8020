"""A profile as tables and lines: layers, overheads, their sum, memory, findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from types import MappingProxyType
from typing import Unpack

from edgewise.formatting import ABSENT, plus_minus, quantity, time_unit_of
from edgewise.profiling.layers import NAMELESS, NOT_THE_WHOLE, STRETCHED
from edgewise.record import Finding, Layer, Profile, Run
from edgewise.record.facts import is_profiled, precision_of, threads_of
from edgewise.report.bench.document import default_title, input_sections
from edgewise.report.bench.ranking import load_lines
from edgewise.report.document import DASH, Cell, Column, Document, Section, Table, absent, filled
from edgewise.report.document.bars import WIDEST, draw_timeline
from edgewise.report.document.names import keep_end, layer_names
from edgewise.report.profile.cells import (
    how_layers,
    layers_of,
    peak_rows,
    percent_cell,
    profile_of,
    ranked,
    rate_reason,
    roof_cell,
    share_cell,
    share_of,
    sum_cells,
    time_cell,
    time_left,
    time_line,
    time_reason,
    time_unit,
    timing_line,
    type_table,
    untimed_notes,
    with_layers_told,
)
from edgewise.report.profile.changes import LARGEST, change_lines, type_line
from edgewise.report.profile.diff import diff_tables
from edgewise.report.profile.findings import (
    NAME_WIDTH,
    After,
    Known,
    evidence_sections,
    finding_sections,
    headline_of,
    is_tried_next,
    limit_lines,
    next_section,
    ranked_findings,
    saving_words,
    titled,
    unmeasured_words,
    with_others,
)
from edgewise.report.profile.order import asked_of, compared_by_layer, disagreement_line, leader_of, order_line
from edgewise.report.runs.cautions import caution_sections, default_precision_lines
from edgewise.report.runs.cells import NOT_MEASURED, failure_of
from edgewise.report.runs.conditions import elsewhere, engine_of, labels_of, told_apart
from edgewise.text import listing, one_line, plural
from edgewise.units import format_bytes, format_si, significant

MOST_EXPLAINED = 0.5
"""Least share of the difference between two engines of a finding that explains most of it."""
MOST_NAMED = 2
"""Layers of such a finding that are named."""
MOST_ROWS = 15
"""Number of layers with a row of their own; the others are summed in one row."""
MOST_OVERHEADS = 6
NAMELESS_NOTE = f"includes the steps marked ({NAMELESS}): the engine ran them, but edgewise found no operator for them"
TOO_SHORT = "the engine's clock tells 0 of each in all inferences"
LEAST_TAKEN = 0.01
"""Smallest share of the latency added by the profiler that is mentioned."""

CONDITIONS = "Conditions and limits"
"""The section of what each run is, and how far the machine could be faster."""
WHOLE = "whole"
"""The time that the layers are compared with and that their shares refer to."""
# Of runs that older versions stored:
WHOLE_NOTE = (
    "the mean of inferences without the profiler, timed between the profiled ones; all shares refer to it. "
    "The median latency above comes from other processes"
)
WHOLE_OF_TOOL = "the tool's own mean, otherwise its headline; all shares refer to it"
WHOLE_IS_LATENCY = "the median latency; all shares refer to it"


def profile_document(
    runs: Sequence[Run],
    *,
    top: int = MOST_ROWS,
    title: str = "",
    width: int | None = None,
    **after: Unpack[After],
) -> Document:
    """Return findings, two runs compared, tables of types and layers, then per run its conservation, memory and method.

    Args:
        top: rows of layers; the rest is folded into one row with its sum.
        width: cells of the terminal, on which the memory over time is drawn, and where tables come before conditions
            and findings if what changed is asked for; None for no terminal.
        after: what the next commands need.
    """
    runs = told_apart(runs)
    # A label distinguishes the runs where there are several.
    labelled = list(zip(runs, labels_of(runs) if len(runs) > 1 else [""], strict=True))
    profiled = [(run, label) for run, label in labelled if is_profiled(run)]
    tables = [type_table(run, label=label) for run, label in profiled]
    tables += [layer_table(run, top=top, label=label) for run, label in profiled]
    sections: list[Section] = []
    for run, label in labelled:
        sections += [
            *evidence_sections(run, label),
            *sum_sections(run, label),
            *memory_sections(run, label, width=width),
        ]
        sections += method_sections(run, label)
    answer, conditions = answer_lines(runs, after.get("known", {}))
    sections += [
        *input_sections([run for run in runs if is_profiled(run)]),
        *caution_sections(runs, default_precision_lines(runs)),
    ]
    differences = diff_tables(runs)
    told = [Section(title=CONDITIONS, lines=tuple(conditions))]
    lead = [
        *(section for run, label in labelled for section in finding_sections(run, label, others=runs)),
        *filled([next_section(runs, after.get("again", {}), after.get("typed", {}), after.get("known", {}))]),
    ]
    if width is not None and differences and not leader_of(runs):
        lead, sections = [], [*told, *lead, *sections]
    elif len(runs) > 1:  # those of each would push the tables off the first screen
        sections = [*told, *sections]
    else:
        lead = [*told, *lead]
    return Document(
        title=title or f"Profile of {default_title(runs)}",
        tables=with_differences(runs, tables, differences),
        sections=tuple(sections),
        answer=tuple(answer),
        lead=tuple(lead),
    )


def answer_lines(runs: Sequence[Run], known: Mapping[str, Known] = MappingProxyType({})) -> tuple[list[str], list[str]]:
    """Return the lines that say which run is faster and where the time goes, and those on each run and its limits."""
    lead = leader_of(runs)
    asked = [(engine, order_line(two), _led_by_largest(two), two) for engine, two in compared_by_layer(runs)]
    named, ordered = any(engine for engine, *_ in asked), any(order for _, order, _, _ in asked)
    where = [where_lines(run, name, known, runs) for run, name in zip(runs, labels_of(runs), strict=True)]
    off = [off_line(run, name) for run, name in zip(runs, labels_of(runs), strict=True)]
    differences = [
        *(
            titled_line(engine, line)
            for engine, order, changes, two in asked
            for line in (order, type_line(two) if lead else "", *changes[:1])
        ),
        *(load_lines(runs) if ordered else []),
        *(titled_line(engine, headline_of(two)) for engine, _, _, two in asked),
    ]
    if lead:
        subject = asked_of(runs) if ordered else None
        leading = where_lines(*lead, known, runs)
        explained = explained_lines(runs)
        if subject is None or subject[0] is lead[0]:
            about = [*leading[:1], *explained, *leading[1:]]
            rest = [[] if run is lead[0] else lines for run, lines in zip(runs, where, strict=True)]
        else:  # the slow one, of which one asks why, before the fast one, whose savings matter less
            slow = where_lines(*subject, known, runs)
            is_told = any(line.startswith(f"{subject[1]} takes ") for line in explained)
            about = [*slow[:1], *leading[:1], *explained, *([] if is_told else slow[1:])]
            rest = [
                lines[1:] if run is lead[0] else [] if run is subject[0] else lines
                for run, lines in zip(runs, where, strict=True)
            ]
        first = [*differences, *off, *about] if ordered else [*off, *about, *differences]
    else:
        shown = 0 if named else 1
        leading, rest = [line for lines in where for line in lines[:shown]], [lines[shown:] for lines in where]
        first = [*off, *explained_lines(runs), *differences, *leading]
    more = [
        *(line for run, lines in zip(runs, rest, strict=True) for line in (header(run), *lines, *limit_lines(run))),
        *(titled_line(engine, line) for engine, _, changes, _ in asked for line in changes[1:]),
        *(titled_line(engine, disagreement_line(two)) for engine, _, _, two in asked),
        order_line(runs) if named else "",
        *default_precision_lines([run for run in runs if not is_tried_next(run, runs)]),
    ]
    return list(filter(None, first)), list(filter(None, more))


def off_line(run: Run, name: str) -> str:
    """Return the caution on layers whose times don't add up to the whole; empty where they do."""
    told = next((each.message for each in run.cautions if each.code == "layers-off"), "")
    if not told and run.profile is not None and run.profile.conservation > 1 + STRETCHED:
        told = f"{NOT_THE_WHOLE}they are {run.profile.conservation:.0%} of it"
    return f"{name}: {one_line(told)}; measure again on a quiet machine" if told else ""


def explained_lines(runs: Sequence[Run]) -> list[str]:
    """Return the findings of slower engines that explain most of what these take longer than the fastest one."""
    lead = leader_of(runs)
    if lead is None:
        return []
    lines, least = [], lead[0].measurement("latency")
    for run, name in zip(runs, labels_of(runs), strict=True):
        taken, profile = run.measurement("latency"), run.profile
        if least is None or taken is None or profile is None or run.job.model.sha256 != lead[0].job.model.sha256:
            continue
        if not (least.value and taken.value and least.high and taken.low) or taken.low <= least.high:
            continue
        longer = taken.value - least.value
        # That layers are far from their limits is no reason.
        found = [one for one in ranked_findings(profile) if not one.once and one.code != "far-from-roof"]
        if found and not found[0].is_refuted and found[0].saving >= MOST_EXPLAINED * longer:
            explains = "may explain" if found[0].low is None else "explains"
            lines.append(
                f"{name} takes {quantity(longer, 's')} longer, and {_about(found[0], run)} {explains} most of that, "
                f"{saving_words(found[0], profile)}: {one_line(found[0].suggestion)} ({one_line(found[0].code)})"
            )
    return lines


def _about(finding: Finding, run: Run) -> str:
    """Return ``"a finding on conv1, conv2 and 3 more layers"``: the layers that take most, by name."""
    short = layer_names(run, NAME_WIDTH)
    layers = ranked([layer for layer in run.layers if layer.index in finding.layers])
    names = [short[layer.index] for layer in layers[:MOST_NAMED]]
    more = len(layers) - len(names)
    names += [plural(more, "more layer")] if more else []
    return f"a finding on {listing(names)}" if names else "a finding"


def _led_by_largest(runs: Sequence[Run]) -> list[str]:
    """Return `change_lines`, the first one on layers, or else empty."""
    lines = change_lines(runs)
    return lines if lines and lines[0].startswith(LARGEST) else ["", *lines]


def titled_line(engine: str, line: str) -> str:
    """`line`, with the engine that it is about where there are several and it names none."""
    return f"{engine}: {line}" if line and engine not in line else line


def with_differences(runs: Sequence[Run], own: Sequence[Table], differences: Sequence[Table]) -> tuple[Table, ...]:
    """Return the tables of each run, then those of `differences`; these first where they are what is asked for."""
    return (*own, *differences) if leader_of(runs) else (*differences, *own)


def where_lines(
    run: Run, name: str, known: Mapping[str, Known] = MappingProxyType({}), others: Sequence[Run] = ()
) -> list[str]:
    """Where the time of `name` goes, the largest saving that was found, and what was not measured; empty where no layer
    has a time.
    """
    if not (parts := time_line(run)) or run.profile is None:
        return []
    _, latency, unit = latency_parts(run)
    labels = zip((other.id for other in others), labels_of(others), strict=True) if len(others) > 1 else ()
    whose = next((f"{label}: " for other, label in labels if other == run.id), "")
    saved = [
        f"{whose}largest saving among the findings: {saving_words(each, run.profile)}: {one_line(each.suggestion)} "
        f"({one_line(each.code)}){unmeasured_words(run, known.get(run.id, MappingProxyType({})), others)}"
        for each in (with_others(one, run, others) for one in ranked_findings(run.profile)[:1])
        if not each.is_refuted
    ]
    return [f"{name}{f' takes {latency} {unit}' if unit else ''}: {parts}", *saved]


def header(run: Run) -> str:
    """``"kws.onnx · onnxruntime 1.31 (cpu, 1 thread, f32) · median latency 1.00 ± 0.01 ms"`` in one line."""
    threads, words = threads_of(run), [run.job.runtime.provider or "default provider"]
    words += [plural(threads, "thread")] if threads is not None else []
    words += [precision] if (precision := precision_of(run)) else []
    settings = one_line(", ".join(words))
    return f"{one_line(run.job.model.name)} · {engine_of(run)} ({settings}{elsewhere([run])}) · {latency_words(run)}"


def latency_words(run: Run) -> str:
    """``"median latency 1.00 ± 0.01 ms"``: the `latency_parts` of the run."""
    return " ".join(filter(None, latency_parts(run)))


def latency_parts(run: Run) -> tuple[str, str, str]:
    """``("median latency", "1.00 ± 0.01", "ms")``: name, value with its interval, and unit; ``n/a`` has no unit.

    Without a latency, the whole that the layers are held against stands in for it, under its own name.
    """
    row = run.measurement("latency")
    if run.source is not None and (row is None or row.value is None):
        row = None
    value = row.value if row is not None else (run.profile.latency if run.profile is not None else None)
    name = "median latency" if row is not None else "whole of the layers"
    if value is None or not math.isfinite(value):
        return "median latency", ABSENT, ""
    word, factor = time_unit_of(value)
    low, high = (row.low, row.high) if row is not None else (None, None)
    scaled = [None if end is None else end * factor for end in (low, high)]
    return name, plus_minus(value * factor, scaled[0], scaled[1]), word


def whole_note(run: Run) -> str:
    """Return what the whole is: the latency of the run, or a mean of its own."""
    if run.source is not None:
        return WHOLE_OF_TOOL
    return WHOLE_IS_LATENCY if run.value("latency") == profile_of(run).latency else WHOLE_NOTE


def op_words(layer: Layer) -> str:
    """``"Conv +2"``: the type of its most expensive operator and the number of others in the same step."""
    return one_line(layer.op) + (f" +{len(layer.nodes) - 1}" if len(layer.nodes) > 1 else "")


def layer_table(run: Run, *, top: int | None = MOST_ROWS, label: str = "") -> Table:
    """Layers by time, the rest as one row, then overheads, what is unattributed, and the whole.

    Args:
        top: number of layers with a row of their own; None shows all layers and all overheads.

    Raises ValueError for a run without a profile.
    """
    run = with_layers_told(run)
    profile = profile_of(run)
    unit, factor = time_unit(layer.time for layer in run.layers)
    how = how_layers(run, profile, whole_note(run))
    is_limited = any(layer.roof_share is not None for layer in run.layers)
    columns = (
        Column(title="#", numeric=True, rank=3),
        Column(title="Layer", name=True, ends=True),
        Column(title="Op", name=True, rank=1),
        Column(title=f"Time ({unit})", numeric=True, how=how["Time"]),
        Column(title="%", numeric=True, how=how["%"]),
        Column(title="Σ %", numeric=True, rank=5, how=how["Σ %"]),
        Column(title="MACs", numeric=True, rank=2, how=how["MACs"]),
        Column(title="GOP/s", numeric=True, rank=4, how=how["GOP/s"]),
        Column(title="Of limit (%)", numeric=True, rank=0 if is_limited else 7, how=how["Of limit (%)"]),
        Column(title="dtype", rank=6),
    )
    found = ranked(layers_of(run, "operator"))
    # A row for "1 more layer" would need the space that it saves.
    shown = found if top is None or len(found) <= top + 1 else found[:top]
    cumulative = accumulate(share_of(layer, profile) or 0.0 for layer in shown)
    rows = [
        _layer_row(layer, run, factor=factor, cumulative=total) for layer, total in zip(shown, cumulative, strict=True)
    ]
    if rest := found[len(shown) :]:
        rows.append(_folded_row(rest, run, factor=factor, title=f"… {len(rest)} more layers", before=shown))
    rows += _other_rows(run, most=None if top is None else MOST_OVERHEADS, factor=factor)
    title = f"Layers by time: {label}" if label else "Layers by time"
    return Table(title=title, columns=columns, rows=tuple(rows), notes=_table_notes(run, shown))


def _table_notes(run: Run, shown: Sequence[Layer]) -> tuple[str, ...]:
    notes = []
    if any(len(layer.nodes) > 1 for layer in shown):
        notes.append(
            "+n: n + 1 of the model's operators run together; # counts the engine's steps, where 'inspect' counts "
            "operators"
        )
    if lost := unmatched_words(run):
        notes.append(f"not matched: {lost}, of which no step of the engine is known")
    if gone := layers_of(run, "eliminated"):
        notes.append(f"removed by the engine: {_operators(gone)}")
    return tuple(notes)


def _operators(layers: Sequence[Layer]) -> str:
    count = sum(max(1, len(layer.operators or layer.nodes)) for layer in layers)
    return plural(count, "operator")


def unmatched_words(run: Run) -> str:
    """``"47 operators with 99.9 % of the MACs"``: operators that no step could be matched to; "" without any."""
    lost = layers_of(run, "unmatched")
    if not lost:
        return ""
    parts = [sum(layer.macs or 0 for layer in layers) for layers in (lost, run.layers)]
    unknown = any(layer.macs is None for layer in run.layers if layer.kind != "overhead")
    share = "an unknown share" if unknown else f"{parts[0] / parts[1]:.1%}".replace("%", " %") if parts[1] else "none"
    return f"{_operators(lost)} with {share} of the MACs"


def _layer_row(layer: Layer, run: Run, *, factor: float, cumulative: float) -> tuple[Cell, ...]:
    profile = profile_of(run)
    share = share_of(layer, profile)
    unknown = one_line(layer.cost_unknown_because) or NOT_MEASURED
    return (
        Cell(text=str(layer.index), value=layer.index),
        Cell(text=one_line(layer.title)),
        Cell(text=op_words(layer)),
        time_cell(layer, factor, time_left([layer], run)),
        DASH if share is None else share_cell(layer, share, run),
        DASH if share is None else percent_cell(cumulative),
        absent(unknown) if layer.macs is None else _count(layer.macs),
        absent(rate_reason(layer))
        if layer.ops_per_second is None
        else Cell(text=significant(layer.ops_per_second * 1e-9), value=layer.ops_per_second * 1e-9),
        _roof_cell(layer, profile),
        Cell(text=one_line(layer.dtype)) if layer.dtype else Cell(text="not reported", tone="faint"),
    )


def _roof_cell(layer: Layer, profile: Profile) -> Cell:
    """Return the share of its roof that a layer attains, and which roof limits it."""
    cell = roof_cell(layer, profile)
    return replace(cell, text=f"{cell.text} {layer.bound}") if layer.bound else cell


def _count(number: float) -> Cell:
    return Cell(text=count_words(number), value=number)


def count_words(number: float) -> str:
    """``"1.20 M"``; whole below a thousand."""
    return format_si(number, "") if number >= 1000 else f"{number:.0f}"


def _folded_row(
    rest: Sequence[Layer], run: Run, *, factor: float, title: str, before: Sequence[Layer] = ()
) -> tuple[Cell, ...]:
    """Many layers as one: sums of what is known, and how many have no time."""
    time, percent = sum_cells(rest, run, factor)
    notes = untimed_notes(rest)
    is_timed = any(layer.time is not None for layer in rest)
    macs = [layer.macs for layer in rest if layer.macs is not None]
    running = sum(share_of(layer, profile_of(run)) or 0.0 for layer in (*before, *rest))
    return (
        DASH,
        Cell(text=title, notes=notes, short=title.rpartition(" ")[0]),
        DASH,
        time if is_timed else absent(*notes),
        percent,
        percent_cell(running) if before else DASH,
        _count(sum(macs)) if len(macs) == len(rest) and before else DASH,
        *[DASH] * 3,
    )


def _other_rows(run: Run, *, most: int | None, factor: float) -> list[tuple[Cell, ...]]:
    """Overheads, at most `most` of them, what is unattributed, and the whole."""
    profile = profile_of(run)
    found = ranked(layers_of(run, "overhead"))
    zero = [layer for layer in found if layer.engine_nodes and layer.time == 0.0 and not layer.high]
    zero = zero if len(zero) > 1 else []
    found = [layer for layer in found if layer not in zero]
    shown = found if most is None or len(found) <= most + 1 else found[:most]
    nameless = any(layer.op == NAMELESS for layer in found)
    rows: list[tuple[Cell, ...]] = []
    for layer in shown:
        share = share_of(layer, profile)
        percent = absent(time_reason(layer)) if share is None else share_cell(layer, share, run)
        name = Cell(text=one_line(layer.title), tone="fair")
        # An overhead without a step of the engine says all in its name.
        words = one_line(layer.op) if layer.engine_nodes and layer.op else "overhead"
        op = Cell(text=f"({words})", tone="fair")
        time = time_cell(layer, factor, time_left([layer], run))
        rows.append((Cell(text="+", tone="fair"), name, op, time, percent, *[DASH] * 5))
    if rest := found[len(shown) :]:
        rows.append(_folded_row(rest, run, factor=factor, title=f"… {len(rest)} more overheads"))
    if zero:
        name = Cell(text=f"{len(zero)} steps too short to time", tone="fair", notes=(TOO_SHORT,))
        none = Cell(text="0", value=0.0)
        rows.append((Cell(text="+", tone="fair"), name, Cell(text="(overheads)", tone="fair"), none, none, *[DASH] * 5))
    for title, seconds in (("unattributed", profile.unattributed), (WHOLE, profile.latency)):
        cell = Cell(text=significant(seconds * factor), value=seconds * factor)
        percent = percent_cell(seconds / profile.latency) if profile.latency > 0 else DASH
        notes = (whole_note(run),) if title == WHOLE else (NAMELESS_NOTE,) if nameless else ()
        rows.append((DASH, Cell(text=title, tone="faint", notes=notes), DASH, cell, percent, *[DASH] * 5))
    return rows


def sum_sections(run: Run, label: str = "") -> list[Section]:
    """Return the sum of the layers; why there are none where the run has no profile."""
    if run.profile is None:
        return [Section(title=titled("Not profiled", label), lines=(reason_of_no_profile(run),), tone="poor")]
    return [Section(title=titled("Sum of the layers", label), lines=(sum_line(run),), brief=sum_line(run))]


def reason_of_no_profile(run: Run) -> str:
    """Why a run has no layers: its own reason, its failure, or that no profile was requested."""
    said = one_line(run.profile_absent_because or "") or failure_of(run)
    return said or "the run was not asked to be profiled"


def sum_line(run: Run) -> str:
    """Return the sum of the layers, and the operators that none of them includes."""
    lost = unmatched_words(run)
    return conservation_line(profile_of(run)) + (f"; not matched: {lost}" if lost else "")


def conservation_line(profile: Profile) -> str:
    """``"operators 93.1 % + overheads 6.2 % = 99.3 % of the whole, 1.23 ms; 0.7 % unattributed"``."""
    whole = quantity(profile.latency, "s")
    if profile.latency <= 0:
        return f"the whole is {whole}: there is nothing to add up to"
    operators, overheads = profile.operators_time / profile.latency, profile.overheads_time / profile.latency
    gap = profile.unattributed / profile.latency
    rest = f"{gap:.1%} unattributed" if gap >= 0 else f"{-gap:.1%} more than the whole"
    taken = profile.profiler_time / profile.latency
    less = f" ({taken:.1%} more was the time of the profiler itself, and is subtracted)" if taken >= LEAST_TAKEN else ""
    text = (
        f"operators {operators:.1%} + overheads {overheads:.1%} = {profile.conservation:.1%} "
        f"of the whole, {whole}; {rest}{less}"
    )
    return text.replace("%", " %")


def memory_line(run: Run) -> str:
    """Arena, bound and where the peak is, or why they are not known."""
    memory = profile_of(run).memory
    if not memory:
        reason = one_line(profile_of(run).memory_absent_because or "") or NOT_MEASURED
        return f"memory of the activations: n/a ({reason})"
    arena, bound = memory.get("arena_bytes"), memory.get("lower_bound_bytes")
    words = ["n/a (too many tensors to plan)" if arena is None else format_bytes(arena)]
    words += [f"lower bound {format_bytes(bound)}"] if bound is not None else []
    peak = memory.get("peak_operator")
    words += (
        [f"peak at operator {peak} ({keep_end(operator_names(run).get(peak, 'not reported'), 40)})"]
        if peak is not None
        else []
    )
    if unknown := memory.get("unknown"):
        words.append(f"{len(unknown)} tensors of unknown size left out")
    return "memory of the activations: arena " + ", ".join(words)


def operator_names(run: Run) -> dict[int, str]:
    """Index in the model's graph → name of the operator, as far as the layers tell."""
    names: dict[int, str] = {}
    for layer in run.layers:
        if len(layer.operators) == len(layer.nodes) > 1:
            names.update(zip(layer.operators, layer.nodes, strict=True))
        else:
            names.update(dict.fromkeys(layer.operators, layer.title))
    return names


def memory_sections(run: Run, label: str = "", *, width: int | None = None) -> list[Section]:
    """Return the memory of the activations, with live bytes along the model's operators as bars of text.

    Args:
        width: most cells of a line; None for no bars.
    """
    if run.profile is None:
        return []
    live = [float(value) for value in (run.profile.memory or {}).get("live_bytes") or ()]
    name = operator_names(run).get(live.index(max(live)), "") if live else ""
    bars = [] if width is None else draw_timeline(live, peak_name=name, width=min(WIDEST, width - 2))
    title = titled("Memory over time", label)
    return [Section(title=title, lines=(memory_line(run),), drawing=tuple(bars), brief="")]


def missing_roofs(profile: Profile) -> str:
    """Why there is no roofline, or not for all layers; else empty."""
    if profile.peaks and not profile.peaks_absent_because:
        return ""
    reason = one_line(profile.peaks_absent_because or NOT_MEASURED)
    return f"{'incomplete' if profile.peaks else 'no'} roofline: {reason}"


def method_sections(run: Run, label: str = "") -> list[Section]:
    """How the layers were timed, and the overhead of the profiler."""
    profile = run.profile
    if profile is None:
        return []
    more = ""
    if profile.latency > 0:
        change = profile.profiled_latency / profile.latency - 1
        more = f", {abs(change) * 100:.1f} % {'more' if change >= 0 else 'less'} than the whole"
    lines = [
        timing_line(run, profile),
        f"under the profiler an inference takes {quantity(profile.profiled_latency, 's')} (mean){more}",
    ]
    if run.source is not None:
        del lines[1]
    lines += map(one_line, profile.notes)
    lines += [f"{name}: {rate} ({how})" for name, rate, how in peak_rows(profile.peaks)]
    if reason := missing_roofs(profile):
        lines.append(reason)
    return [Section(title=titled("How it was timed", label), lines=tuple(lines), brief="")]
