"""A search as one self-contained page: no request beyond the file, readable without scripts, in light and dark."""

from __future__ import annotations

from pathlib import Path

from edgewise.metrics import METRICS
from edgewise.optimizing.variant import Candidate, Optimization
from edgewise.report.cells import label_of
from edgewise.report.document import ABSENT, Section
from edgewise.report.optimization import pass_text, runtime_text, sections_of
from edgewise.report.optimization_charts import CHARTS
from edgewise.report.optimization_tables import (
    before_after_table,
    compared_metrics,
    featured,
    front_table,
    layers_table,
    variants_table,
)
from edgewise.report.optimization_words import condition_lines, gains_of, headline_of, number_of
from edgewise.report.page import Drawing, render_page, view_table
from edgewise.text import one_line

_OWN_PLACE = ("Files", "Made by", "To make it again", "Conditions", "Not saved")
"""Sections that the page has in a form of its own."""


def render_optimization_html(result: Optimization, *, title: str = "") -> str:
    """The page of `result`.

    Args:
        title: of the window; empty for the conclusion.

    Where vl-convert-python is missing the page has no charts and says how to get them.
    """
    drawing = Drawing()
    headline, evidence = _headline(result)
    other, role = featured(result)
    drawn = [drawing.draw(make(result)) for make in CHARTS]
    front, layers = front_table(result), layers_table(result)
    return render_page(
        "optimization.html.jinja",
        scripts=["report.js"],
        styles=["report.css", "comparison.css", "evaluation.css"],
        title=one_line(title) or one_line(headline),
        headline=headline,
        evidence=evidence,
        warnings=[section for section in sections_of(result, reasons=False) if section.title == "Not saved"],
        tiles=_tiles(result, other),
        role=role,
        before_after=view_table(before_after_table(result), "before-after"),
        variants=view_table(variants_table(result), "variants-table") if result.candidates else None,
        front=view_table(front, "front-table") if front is not None else None,
        layers=view_table(layers, "layers-table") if layers is not None else None,
        charts=[chart for chart in drawn if chart is not None],
        missing=drawing.missing,
        provenance=_provenance(result),
        command=one_line(result.command),
        conditions=condition_lines(result),
        sections=_others(result),
        metrics=[METRICS[metric] for metric in _metrics(result)],
    )


def _headline(result: Optimization) -> tuple[str, str]:
    """The conclusion, and the numbers that it rests on in smaller letters."""
    headline, evidence = headline_of(result)
    if result.chosen is None or result.interrupted:
        return headline, evidence
    chosen = result.candidate(result.chosen)
    gains = gains_of(result, chosen) or [one_line(chosen.why)]
    told = ", ".join(gains) + (f"; {evidence}" if evidence else "")
    return f"{one_line(chosen.id)}: {gains[0].partition(' [')[0]}", told


def _others(result: Optimization) -> list[Section]:
    return [section for section in sections_of(result, reasons=False) if section.title not in _OWN_PLACE]


def _metrics(result: Optimization) -> list[str]:
    used = [*compared_metrics(result), *(name for one in result.candidates for name in one.metrics)]
    return [metric for metric in dict.fromkeys(used) if metric in METRICS]


def _tiles(result: Optimization, other: Candidate | None) -> list[dict[str, str]]:
    """What changes in large letters, metric by metric; none where nothing was chosen."""
    if other is None or result.chosen is None:
        return []
    table = before_after_table(result, width=1)
    tiles = []
    for metric, row in zip(compared_metrics(result), table.rows, strict=True):
        before, after, change = (cell.text for cell in row[1:4])
        if change == ABSENT:
            continue
        figure, _, rest = change.partition("×")
        number, word = (f"{figure}×", rest.strip()) if rest else (change.partition(" [")[0], "")
        interval = f"[{change.partition('[')[2]}" if "[" in change else ""
        tiles.append(
            {
                "metric": label_of(metric),
                "verdict": {"good": "faster", "bad": "slower"}.get(row[3].tone, "same"),
                "tone": row[3].tone,
                "number": number,
                "word": word.partition(" [")[0],
                "interval": interval,
                "change": f"{before} → {after}",
            }
        )
    return tiles


def _provenance(result: Optimization) -> list[tuple[str, str]]:
    """Everything that leads to the chosen file."""
    if result.chosen is None:
        return []
    chosen, parent = result.candidate(result.chosen), result.baseline.model
    pairs: list[tuple[str, str | None]] = [("Variant", chosen.id)]
    pairs += [(name.capitalize(), Path(path).name) for name, path in result.files.items()]
    if chosen.model is not None:
        size = number_of(chosen, "model_size").value
        pairs.append(("sha256", chosen.model.sha256))
        pairs.append(("Format", chosen.model.format + (f", {size:.0f} B" if size is not None else "")))
    if parent is not None:
        pairs += [("Made from", f"{parent.name} ({parent.format})"), ("Its sha256", parent.sha256)]
    for place, one in enumerate(chosen.passes, 1):
        took = f" ({one.seconds:.1f} s)" if one.seconds is not None else ""
        pairs.append((f"Pass {place}", f"{pass_text(one)}{took}"))
        pairs += [("", note) for note in one.notes]
    pairs.append(("Runs in", runtime_text(chosen)))
    for name, data in (("Judged on", result.data), ("Calibrated on", result.calibration)):
        if data is not None:
            pairs.append((name, f"{data.name}, split {data.split}, sha256 {data.sha256}"))
    pairs.append(("Run in the store", chosen.run))
    return [(one_line(name), one_line(text)) for name, text in pairs if text]
