"""The page of profiles: beyond what `profile` prints, numbers at a glance, charts, and every layer with its details."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Unpack

from edgewise.formatting import ABSENT, quantity
from edgewise.record import Finding, Layer, Profile, Run
from edgewise.record.facts import is_profiled
from edgewise.report.bench.document import default_title
from edgewise.report.charts import Chart
from edgewise.report.document import (
    About,
    Cell,
    Column,
    Document,
    How,
    Section,
    Table,
    absent,
    pairs_table,
    table_of,
    text_cell,
)
from edgewise.report.document.names import layer_names, shorten
from edgewise.report.profile import charts
from edgewise.report.profile.cells import (
    how_times,
    layers_of,
    peak_rows,
    provenance_of_derived,
    ranked,
    roof_words,
    tensors_text,
    time_reason,
    time_unit,
    type_table,
)
from edgewise.report.profile.diff import diff_tables
from edgewise.report.profile.document import (
    CONDITIONS,
    count_words,
    latency_parts,
    layer_table,
    op_words,
    profile_document,
    reason_of_no_profile,
    whole_note,
    with_differences,
)
from edgewise.report.profile.findings import (
    BEFORE_AND_AFTER,
    NEXT,
    After,
    finding_sections,
    message_of,
    names_in_messages,
    ranked_findings,
    share_of_whole,
    titled,
    with_others,
)
from edgewise.report.profile.mltk import mltk_tables
from edgewise.report.profile.order import asked_of, compared_by_layer, leader_of
from edgewise.report.runs.cells import NOT_MEASURED
from edgewise.report.runs.conditions import flatten, labels_of
from edgewise.report.runs.document import run_document
from edgewise.report.runs.provenance import how_of
from edgewise.text import one_line, plural
from edgewise.units import format_bytes, format_duration, format_si, significant

_ATTRIBUTE_WIDTH = 400
_NAME_WIDTH = 60
MOST_LINKS = 8
"""Layers of a finding that are named."""


class Number(NamedTuple):
    """One of the main numbers: its name, the number in words, what more there is to say, how it is known."""

    name: str
    text: str
    more: str
    how: How = None


def profile_page(
    runs: Sequence[Run],
    *,
    title: str = "",
    first: Sequence[str] = (),
    **after: Unpack[After],
) -> Document:
    """Return what the page of `runs` has: each run's profile, and what changed where there are two.

    Args:
        title: heading; empty for one made from the models and the machine.
        first: lines above the answer.
        after: what the next commands need.
    """
    document = profile_document(runs, **after)
    labels = labels_of(runs) if len(runs) > 1 else [""] * len(runs)
    numbered = [(place, run, label) for place, (run, label) in enumerate(zip(runs, labels, strict=True), 1)]
    profiled = [(place, run, label) for place, run, label in numbered if is_profiled(run)]
    compared = [replace(table, detail=True) for table in diff_tables(runs, most=None)]
    tables: list[Table] = []
    for place, run, label in profiled:
        below = [
            *_findings_tables(run, label, place, runs),
            type_table(run, most=None, label=label),
            _layers_table(run, label, place),
        ]
        tables += [_numbers_table(run, label), *(replace(table, detail=True) for table in below)]
    lacking = [
        Section(title=titled("Not profiled", label), lines=(reason_of_no_profile(run),), tone="poor")
        for _, run, label in numbered
        if run.profile is not None and not run.layers
    ]
    none = [
        section
        for _, run, label in profiled
        if run.profile is not None and not run.profile.findings
        for section in finding_sections(run, label)
    ]
    whole = [
        Section(title=titled("The whole", label), lines=(f"the whole is {whole_note(run)}",))
        for _, run, label in profiled
    ]
    return replace(
        document,
        title=one_line(title) or f"Profile of {default_title(runs)}",
        answer=(*first, *document.answer),
        lead=tuple(lacking),
        tables=with_differences(runs, tables, compared),
        sections=(
            *none,
            *(section for title in (NEXT, CONDITIONS) for section in document.lead if section.title == title),
            *whole,
            *document.sections,
        ),
        charts=lambda: _charts(profiled, runs),
        parts=lambda: [(label or "More of this run", _parts(run)) for _, run, label in numbered],
    )


def _charts(profiled: Sequence[tuple[int, Run, str]], runs: Sequence[Run]) -> list[Chart | None]:
    """Return those of each run, the one asked about first, then what differs; this first where it is asked for."""
    lead = asked_of(runs) or leader_of(runs)
    found: list[Chart | None] = []
    for place, run, label in sorted(profiled, key=lambda each: lead is None or each[1].id != lead[0].id):
        drawn = [charts.chart_of(run, kind) for kind in charts.KINDS]
        found += [each and replace(each, title=titled(each.title, label), rows=f"layer-{place}-") for each in drawn]
    changed = []
    for engine, pair in compared_by_layer(runs):
        both = [run for run in pair if run.profile is not None]
        if len(both) == BEFORE_AND_AFTER and (chart := charts.changes_chart(*both)):
            changed.append(replace(chart, title=titled(chart.title, engine)))
    return [*found, *changed] if lead else [*changed, *found]


def _parts(run: Run) -> list[Document]:
    """Return what is not read by everyone."""
    found = [replace(run_document(run), title="What was run", id="", answer=())]
    for title, kind in (("Not matched", "unmatched"), ("Removed by the engine", "eliminated")):
        if layers := layers_of(run, kind):
            count = f"{title}: {plural(len(layers), 'operator')}"
            lines = tuple(one_line(f"{layer.title} ({layer.op}): {time_reason(layer)}") for layer in layers)
            found.append(Document(title=count, tables=(), sections=(Section(title=title, lines=lines),)))
    if run.profile is not None and run.profile.peaks:
        roofs = table_of(
            "The roofs, and how they were measured",
            peak_rows(run.profile.peaks),
            [
                (Column(title="Roof"), lambda peak: Cell(text=peak[0])),
                (Column(title="Peak"), lambda peak: Cell(text=peak[1])),
                (Column(title="Method"), lambda peak: Cell(text=peak[2])),
            ],
        )
        found.append(Document(title=roofs.title, tables=(roofs,)))
    if is_profiled(run):
        title = "The model and its layers, column for column as Silicon Labs' MLTK profiler shows them"
        found.append(Document(title=title, tables=tuple(mltk_tables(run))))
    machine = pairs_table("The machine", flatten(run.environment))
    none = () if run.environment else ("the record holds no environment",)
    return [*found, Document(title="The machine", tables=(machine,), answer=none)]


def _numbers_table(run: Run, label: str) -> Table:
    """Return the main numbers of a profile."""
    return table_of(
        titled("Overview", label),
        _numbers(run),
        [
            (Column(title="Number"), lambda number: Cell(text=number.name)),
            (Column(title="Value", numeric=True), _number_cell),
            (Column(title="What it is"), lambda number: text_cell(number.more)),
        ],
    )


def _number_cell(number: Number) -> Cell:
    return absent() if number.text == ABSENT else Cell(text=number.text, how=number.how)


def _numbers(run: Run) -> list[Number]:
    profile = run.profile
    if profile is None:
        return []
    name, text, unit = latency_parts(run)
    number, _, interval = text.partition(" ")
    more = name.removesuffix(" latency") + (f"; 95 % interval {interval} {unit}" if interval else "")
    more += f"; grade {run.trust.grade}" if run.trust is not None else ""
    how = how_of(run, "latency") or how_times(run, title="Whole of the layers", interval="none")
    savings = [
        _saving(run, finding) for finding in ranked_findings(profile) if not (finding.once or finding.is_refuted)
    ]
    return [
        Number("Latency", f"{number} {unit}".strip(), more, how if unit else None),
        _half(run, profile),
        _rate(run, profile),
        _memory(run, profile),
        *savings[:1],
    ]


def _derived(run: Run, name: str, text: str, more: str, known: tuple[str, float, str] | None = None) -> Number:
    """`text` is a number with a unit; `known` has the SI unit, the exact value and the method."""
    return Number(name, text, more, known and partial(provenance_of_derived, run, f"{name}: {text}", *known))


def _saving(run: Run, finding: Finding) -> Number:
    how = "at most" if finding.low is None else "measured"
    more = f"{how}, from the largest finding: {one_line(finding.code).replace('-', ' ')}"
    known = ("s", finding.saving, f"{'upper bound: ' if finding.low is None else ''}{one_line(finding.method)}")
    return _derived(run, "Possible saving", format_duration(finding.saving), more, known)


def _half(run: Run, profile: Profile) -> Number:
    """Return the smallest number of layers that take half of the whole; where all together do not, what they take."""
    times = [layer.time for layer in ranked(layers_of(run, "operator")) if layer.time]
    total, half = len(layers_of(run, "operator")), profile.latency * (0.5 - 1e-9)
    count = next((place for place, done in enumerate(accumulate(times), 1) if done >= half), 0)
    share = sum(times[: count or None]) / profile.latency * 100 if profile.latency > 0 else 0.0
    if not count:
        method = "sum of the times of all layers over the whole"
        text = f"{share:.0f} %"
        return _derived(run, "All layers", text, f"of the whole, in {total} layers", ("1", share / 100, method))
    text, more = plural(count, "layer"), f"of {total} take {share:.0f} % of the whole"
    method = "smallest number of layers whose times add up to half of the whole"
    return _derived(run, "Half of the time", text, more, ("1", count, method))


def _rate(run: Run, profile: Profile) -> Number:
    """Return what the model attains over an inference of the headline's latency."""
    known = [layer.ops for layer in layers_of(run, "operator")]
    ops = run.value("ops")
    if ops is None and all(each is not None for each in known):
        ops = float(sum(each for each in known if each is not None))
    latency = run.value("latency") or profile.latency
    if ops is None or latency <= 0:
        return _derived(run, "Rate", ABSENT, "the cost of a layer is not known")
    method = "operations of an inference, counted from the shapes, over the latency"
    peak = max((each.value for each in profile.peaks if each.kind == "compute"), default=None)
    rate = ops / latency
    part = f", {rate / peak * 100:.0f} % of the highest measured peak" if peak and rate <= peak else ""
    more = f"{count_words(ops)} operations an inference{part}"
    return _derived(run, "Rate", format_si(rate, "op/s"), more, ("op/s", rate, method))


def _memory(run: Run, profile: Profile) -> Number:
    memory = profile.memory or {}
    arena, bound = memory.get("arena_bytes"), memory.get("lower_bound_bytes")
    shown = arena if arena is not None else bound
    if shown is None:
        return _derived(run, "Activations", ABSENT, one_line(profile.memory_absent_because or "") or NOT_MEASURED)
    more = "planned arena" if arena is not None else "lower bound"
    if arena is not None and bound is not None:
        above = (
            f"{(arena / bound - 1) * 100:.0f} % above the lower bound" if 0 < bound < arena else "as small as can be"
        )
        more += f", {above}"
    return _derived(run, "Activations", format_bytes(shown), more, ("B", shown, "plan of the tensors' lifetimes"))


def _findings_tables(run: Run, label: str, place: int, runs: Sequence[Run]) -> list[Table]:
    """Return the findings, the largest saving first, with the layers that they are about; empty without any."""
    profile = run.profile
    if profile is None or not profile.findings:
        return []
    names, told = layer_names(run, 48), names_in_messages(run, 48)

    def share(finding: Finding) -> Cell:
        words = "once, at the start" if finding.once else share_of_whole(finding, profile)
        return Cell(text=words if finding.once or not words else f"{words} of the whole")

    def saved(finding: Finding) -> str:
        return f"{'at most ' if finding.low is None else ''}{format_duration(finding.saving)}"

    def layers(finding: Finding) -> Cell:
        known = [(names[at], f"layer-{place}-{at}") for at in finding.layers if at in names]
        more = [(f"{len(known) - MOST_LINKS} more", known[MOST_LINKS][1])] if len(known) > MOST_LINKS else []
        return Cell(text=", ".join(name for name, _ in known), links=(*known[:MOST_LINKS], *more))

    return [
        table_of(
            titled("Findings", label),
            [with_others(finding, run, runs) for finding in ranked_findings(profile)],
            [
                (Column(title="Finding"), lambda finding: text_cell(message_of(finding, told))),
                (
                    Column(title="Saves", numeric=True),
                    lambda finding: Cell(text=saved(finding), how=_saving(run, finding).how),
                ),
                (Column(title="Share"), share),
                (Column(title="What to do"), lambda finding: text_cell(finding.suggestion)),
                (Column(title="Layers"), layers),
                (Column(title="Kind"), lambda finding: text_cell(finding.code)),
            ],
        )
    ]


def _layers_table(run: Run, label: str, place: int) -> Table:
    """Return the table of all layers, whose rows open."""
    table = layer_table(run, top=None, label=label)
    unit, names = time_unit(layer.time for layer in run.layers)[0], layer_names(run, _NAME_WIDTH)
    layers = [*ranked(layers_of(run, "operator")), *ranked(layers_of(run, "overhead"))]
    rows, about = list(table.rows), []
    for at, layer in enumerate(layers):
        cells = rows[at]
        rows[at] = (cells[0], replace(cells[1], text=names[layer.index]), *cells[2:])
        about.append(
            About(
                id=f"layer-{place}-{layer.index}",
                facts=tuple(_details(layer)),
                words=_search_words(layer),
                tip=_tip(layer, f"{cells[3].text} {unit}", cells[4].value, run.profile),
            )
        )
    foot = len(rows) - len(layers_of(run, "operator"))
    return replace(table, rows=tuple(rows), about=tuple(about), foot=foot)


def _tip(layer: Layer, time: str, percent: float | None, profile: Profile | None) -> tuple[str, ...]:
    """Return the text of a chart's tooltip, line by line."""
    lines = [
        one_line(layer.title),
        op_words(layer),
        time + ("" if percent is None else f" · {percent:.1f} %"),
    ]
    if layer.macs:
        lines.append(f"{count_words(layer.macs)} MACs")
    if words := roof_words(layer, profile):
        lines.append(words + (f", bound by {layer.bound}" if layer.bound else ""))
    return tuple(lines)


def _search_words(layer: Layer) -> str:
    words = [layer.title, layer.name, layer.op, *layer.nodes, layer.engine_op, layer.dtype or "", layer.provider or ""]
    return one_line(" ".join(words)).lower()


def _details(layer: Layer) -> list[tuple[str, str]]:
    """Details that a row shows when it is opened."""
    weights, activations = layer.weight_bytes, layer.activation_bytes
    pairs = [
        ("Name", layer.name if layer.label or len(one_line(layer.name)) > _NAME_WIDTH else ""),
        ("Operators", "; ".join(layer.nodes) if len(layer.nodes) > 1 else ""),
        ("Inputs", tensors_text(layer.inputs)),
        ("Outputs", tensors_text(layer.outputs)),
        ("Engine runs", "; ".join(layer.engine_nodes)),
        ("Kernels", layer.engine_op),
        ("Provider", layer.provider or ""),
        ("Parameters", count_words(layer.parameters) if layer.parameters else ""),
        ("Weights", format_bytes(weights) if weights else ""),
        ("Activations", format_bytes(activations) if activations else ""),
        ("Intensity", f"{significant(layer.intensity)} operations per byte" if layer.intensity else ""),
        ("Begins", f"{quantity(layer.start, 's')} after the inference began" if layer.start is not None else ""),
        ("Not accelerated", layer.error or ""),
        ("Cost", f"not known: {layer.cost_unknown_because}" if layer.cost_unknown_because else ""),
    ]
    options = [(str(key), _value(value)) for key, value in layer.attributes.items()]
    return [(name, one_line(text)) for name, text in [*pairs, *options] if text]


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text, _ATTRIBUTE_WIDTH)
