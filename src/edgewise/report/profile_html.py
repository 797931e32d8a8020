"""The page of profiles: tiles, findings, types, charts and layers of each, then what changed between two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from edgewise.formatting import ABSENT, quantity
from edgewise.profiling.roofline import ABOVE_ROOF
from edgewise.record import Finding, Layer, Profile, Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.report import profile_charts as charts
from edgewise.report.bench import default_title
from edgewise.report.bench_table import GRADE_TONES
from edgewise.report.cells import NOT_MEASURED
from edgewise.report.conditions import engine_of, file_of, flatten, labels_of, processor_of, provider_of, system_of
from edgewise.report.document import How
from edgewise.report.mltk import mltk_tables
from edgewise.report.names import layer_names, shorten
from edgewise.report.page import MOST_PRESSED, ChartRenderer, render_page, view_table
from edgewise.report.profile import (
    count_words,
    is_profiled,
    latency_parts,
    layer_table,
    memory_line,
    method_sections,
    missing_roofs,
    op_words,
    reason_of_no_profile,
    sum_line,
    whole_note,
)
from edgewise.report.profile_cells import how_times, layers_of, provenance_of_derived, ranked, time_reason, time_unit
from edgewise.report.profile_csv import tensors_text
from edgewise.report.profile_diff import diff_table, diff_title
from edgewise.report.profile_findings import evidence_of, headline_of, nothing_found, ranked_findings, with_fusions
from edgewise.report.profile_style import colours_of
from edgewise.report.profile_types import type_table
from edgewise.report.provenance import how_of
from edgewise.text import one_line
from edgewise.units import format_bytes, format_duration, format_si, significant

_ATTRIBUTE_WIDTH = 400
_NAME_WIDTH = 60


def render_profile_html(runs: Sequence[Run], *, title: str = "", first: Sequence[str] = ()) -> str:
    """The page of `runs`: each run's profile, then what changed where there are two.

    Where vl-convert-python is missing the page has no charts and says how to get them.
    """
    drawing = ChartRenderer()
    labels = labels_of(runs)
    views = [_run_view(run, labels[place - 1], place, drawing, runs) for place, run in enumerate(runs, 1)]
    diff, changes, between = diff_table(runs, most=None), None, ""
    whole: list[tuple[str, How]] = []
    if diff is not None:
        before, after = (run for run in runs if run.profile is not None)
        between = diff_title(before, after)
        changes = drawing.draw(charts.changes_chart(before, after))
        whole = [(quantity(run.value("latency") or math.nan, "s"), how_of(run, "latency")) for run in (before, after)]
        whole.append((f"× {diff.rows[-1][5].text}, {diff.rows[-1][6].text}", None))
    return render_page(
        "profile.html.jinja",
        scripts=["report.js", "profile.js"],
        styles=["report.css", "profile.css"],
        kind="profile",
        title=one_line(title) or f"Profile of {default_title(runs)}",
        runs=views,
        diff=view_table(diff, "diff", sortable=True) if diff is not None else None,
        whole=whole,
        between=between,
        changes=changes,
        missing=drawing.missing,
        first=first,
        headline=headline_of(runs),
    )


def _run_view(run: Run, label: str, place: int, drawing: ChartRenderer, runs: Sequence[Run]) -> dict[str, Any]:
    """Everything that the template says of one of `runs`."""
    view: dict[str, Any] = {
        "key": place,
        "label": label,
        "facts": _facts(run),
        "conditions": list(flatten(run.environment)),
        "cautions": run.cautions,
        "profiled": is_profiled(run),
        "reason": reason_of_no_profile(run),
    }
    profile = run.profile
    if profile is None or not is_profiled(run):
        return view
    return view | {
        "tiles": _tiles(run, profile),
        "parts": _parts(profile),
        "conservation": sum_line(run),
        "findings": [_finding_view(run, profile, finding, runs) for finding in ranked_findings(profile)],
        "types": view_table(type_table(run, most=None), f"types-{place}", sortable=True, headed=True),
        "layers": _layers_view(run),
        "stepless": [
            (title, [(layer.title, layer.op, time_reason(layer)) for layer in found])
            for title, kind in (("Not matched", "unmatched"), ("Removed by the engine", "eliminated"))
            if (found := layers_of(run, kind))
        ],
        "charts": drawing.draw_all(charts.chart_of(run, kind) for kind in charts.KINDS),
        "no_memory": "" if profile.memory else memory_line(run),
        "nothing_found": nothing_found(run),
        "no_roof": missing_roofs(profile),
        "peaks": _peaks(profile),
        "method": [
            f"the whole is {whole_note(run)}",
            *(line for section in method_sections(run) for line in section.lines),
        ],
        "mltk": [view_table(table, f"mltk-{place}-{at}") for at, table in enumerate(mltk_tables(run))],
    }


def _facts(run: Run) -> list[tuple[str, str]]:
    """Facts under the heading."""
    threads = threads_of(run)
    return [
        ("Model", f"{run.job.model.name} ({file_of(run)})"),
        ("Engine", engine_of(run)),
        ("Provider", provider_of(run)),
        ("Threads", "not reported" if threads is None else str(threads)),
        ("Precision", precision_of(run) or "not reported"),
        ("Batch", str(run.job.workload.batch)),
        ("Processor", processor_of(run) or "not reported"),
        ("System", system_of(run) or "not reported"),
        ("Measured", run.created_at[:19].replace("T", " ")),
    ]


def _tiles(run: Run, profile: Profile) -> list[dict[str, Any]]:
    """The main numbers of a profile."""
    name, text, unit = latency_parts(run)
    number, _, interval = text.partition(" ")
    grade = run.trust.grade if run.trust is not None else ""
    tone = GRADE_TONES[run.trust.grade] if run.trust is not None else "plain"
    spread = name.removesuffix(" latency") + (f"; 95 % interval {interval} {unit}" if interval else "")
    how = how_of(run, "latency") or how_times(run, title="Whole of the layers", interval="none")
    tiles = [
        {"name": "Latency", "number": number, "unit": unit, "more": spread, "how": how if unit else None}
        | {"grade": grade, "tone": tone},
        _half_tile(run, profile),
        _rate_tile(run, profile),
        _memory_tile(run, profile),
    ]
    return tiles + [_saving_tile(run, finding) for finding in ranked_findings(profile) if not finding.once][:1]


def _tile(run: Run, name: str, text: str, more: str, known: tuple[str, float, str] | None = None) -> dict[str, Any]:
    """A tile with `text`, a number with a unit; `known` has the SI unit, the exact value and the method."""
    number, _, unit = text.partition(" ")
    how = known and partial(provenance_of_derived, run, f"{name}: {text}", *known)
    return {"name": name, "number": number, "unit": unit, "more": more, "how": how}


def _saving_tile(run: Run, finding: Finding) -> dict[str, Any]:
    more = f"at most, from the largest finding: {one_line(finding.code).replace('-', ' ')}"
    known = ("s", finding.saving, f"upper bound: {one_line(finding.method)}")
    return _tile(run, "Possible saving", format_duration(finding.saving), more, known)


def _half_tile(run: Run, profile: Profile) -> dict[str, Any]:
    """The smallest number of layers that take half of the time."""
    times = [layer.time for layer in ranked(layers_of(run, "operator")) if layer.time]
    total = sum(times)
    count = next((place for place, done in enumerate(accumulate(times), 1) if done >= total * (0.5 - 1e-9)), 0)
    share = sum(times[:count]) / profile.latency * 100 if profile.latency > 0 else 0.0
    more = f"of {len(layers_of(run, 'operator'))} take {share:.0f} % of the whole"
    text = f"{count} layer{'' if count == 1 else 's'}"
    method = "smallest number of layers whose times add up to half of the time of all layers"
    return _tile(run, "Half of the time", text, more, ("1", count, method))


def _rate_tile(run: Run, profile: Profile) -> dict[str, Any]:
    """What the model attains over an inference of the headline's latency."""
    known = [layer.ops for layer in layers_of(run, "operator")]
    ops = run.value("ops")
    if ops is None and all(each is not None for each in known):
        ops = float(sum(each for each in known if each is not None))
    latency = run.value("latency") or profile.latency
    if ops is None or latency <= 0:
        return _tile(run, "Rate", ABSENT, "the cost of a layer is not known")
    method = "operations of an inference, counted from the shapes, over the latency"
    peak = max((each.value for each in profile.peaks if each.kind == "compute"), default=None)
    rate = ops / latency
    part = f", {rate / peak * 100:.0f} % of the highest measured peak" if peak and rate <= ABOVE_ROOF * peak else ""
    more = f"{count_words(ops)} operations an inference{part}"
    return _tile(run, "Rate", format_si(rate, "op/s"), more, ("op/s", rate, method))


def _memory_tile(run: Run, profile: Profile) -> dict[str, Any]:
    memory = profile.memory or {}
    arena, bound = memory.get("arena_bytes"), memory.get("lower_bound_bytes")
    shown = arena if arena is not None else bound
    if shown is None:
        return _tile(run, "Activations", ABSENT, one_line(profile.memory_absent_because or "") or NOT_MEASURED)
    more = "planned arena" if arena is not None else "lower bound"
    if arena is not None and bound is not None:
        above = (
            f"{(arena / bound - 1) * 100:.0f} % above the lower bound" if 0 < bound < arena else "as small as can be"
        )
        more += f", {above}"
    return _tile(run, "Activations", format_bytes(shown), more, ("B", shown, "plan of the tensors' lifetimes"))


def _parts(profile: Profile) -> list[tuple[str, str, float]]:
    """(name, class, share) of the bar that shows where the latency went; the whole is 100."""
    found = [
        ("operators", "operators", profile.operators_time),
        ("overheads", "overheads", profile.overheads_time),
        ("unattributed", "unattributed", max(profile.unattributed, 0.0)),
    ]
    whole = max(sum(seconds for *_, seconds in found), profile.latency)
    return [(name, css, seconds / whole * 100) for name, css, seconds in found if whole > 0 and seconds > 0]


def _finding_view(run: Run, profile: Profile, finding: Finding, runs: Sequence[Run]) -> dict[str, Any]:
    names = layer_names(run, 48)
    share = 0.0 if finding.once or profile.latency <= 0 else finding.saving / profile.latency * 100
    return {
        "saving": format_duration(finding.saving),
        "how": _saving_tile(run, finding)["how"],
        "share": "once, at the start" if finding.once else f"{share:.1f} % of the whole" if share else "",
        "width": min(100.0, share),
        "finding": with_fusions(finding, run, runs),
        "evidence": evidence_of(finding),
        "layers": [(at, names[at]) for at in finding.layers if at in names],
    }


def _peaks(profile: Profile) -> list[tuple[str, str, str]]:
    """(what, how much, how it was measured) of the roofs."""
    rows = []
    for peak in profile.peaks:
        size = f" in {format_bytes(peak.size_bytes)}" if peak.size_bytes else ""
        name = f"bandwidth{size}" if peak.kind == "bandwidth" else f"arithmetic, {peak.dtype or 'not reported'}"
        unit = "B/s" if peak.kind == "bandwidth" else "op/s"
        when = f", {peak.measured_at[:10]}" if peak.measured_at else ""
        words = f"{peak.method}, {peak.threads} thread{'s' if peak.threads != 1 else ''}{when}"
        rows.append((one_line(name), format_si(peak.value, unit), one_line(words)))
    return rows


def _layers_view(run: Run) -> dict[str, Any]:
    """The table of layers: its columns, and its rows with what a layer's row shows when it is opened."""
    table = layer_table(run, top=None)
    unit = time_unit(layer.time for layer in run.layers)[0]
    most = max((layer.time or 0.0 for layer in run.layers), default=0.0)
    names, colours = layer_names(run, _NAME_WIDTH), colours_of(run)
    views = []
    layers = [*ranked(layers_of(run, "operator")), *ranked(layers_of(run, "overhead"))]
    for layer, cells in zip(layers, table.rows[: len(layers)], strict=True):
        share = cells[4].value
        view = {
            "index": layer.index,
            "cells": (cells[0], replace(cells[1], text=names[layer.index]), *cells[2:]),
            "overhead": layer.kind == "overhead",
            "colour": "var(--overhead)" if layer.kind == "overhead" else colours.get(one_line(layer.op), "var(--soft)"),
            "bar": 100 * (layer.time or 0.0) / most if most > 0 else 0.0,
            "details": _details(layer),
            "words": _search_words(layer),
            "tip": _tip(layer, f"{cells[3].text} {unit}", share),
        }
        views.append(view)
    groups = [(kind, [view for view in views if view["overhead"] == bool(kind)]) for kind in ("", "overhead")]
    long = len(table.rows) > MOST_PRESSED
    return {"columns": table.columns, "groups": groups, "sums": table.rows[len(views) :], "unit": unit, "long": long}


def _tip(layer: Layer, time: str, percent: float | None) -> str:
    """The text of a chart's tooltip, line by line."""
    lines = [
        one_line(layer.title),
        op_words(layer),
        time + ("" if percent is None else f" · {percent:.1f} %"),
    ]
    if layer.macs:
        lines.append(f"{count_words(layer.macs)} MACs")
    if layer.roof_share is not None:
        lines.append(
            f"{layer.roof_share * 100:.0f} % of its roof" + (f", bound by {layer.bound}" if layer.bound else "")
        )
    return "\n".join(lines)


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
