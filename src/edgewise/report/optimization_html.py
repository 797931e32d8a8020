"""The page of an optimization: what was chosen, all variants, charts, where the file came from."""

from __future__ import annotations

from pathlib import Path

from edgewise.formatting import ABSENT
from edgewise.optimizing.variant import Candidate, Optimization
from edgewise.report.cells import label_of
from edgewise.report.changed_answers import changed_part
from edgewise.report.evaluation_html import confusion_part
from edgewise.report.optimization import pass_text, runtime_text, sections_of
from edgewise.report.optimization_charts import CHARTS
from edgewise.report.optimization_elsewhere import titled
from edgewise.report.optimization_tables import (
    before_after_table,
    compared_metrics,
    featured,
    front_table,
    layers_table,
    variants_table,
)
from edgewise.report.optimization_words import condition_lines, gains_of, headline_of, name_of, number_of
from edgewise.report.page import (
    ChartRenderer,
    Part,
    Tile,
    metrics_part,
    render_result_page,
    table_block,
    view_table,
    warnings_part,
)
from edgewise.text import one_line

_OWN_PLACE = ("Files", "Made by", "To make it again", "Conditions", "Not saved")
"""Sections that the page has in a form of its own."""


def render_optimization_html(result: Optimization) -> str:
    """The page of `result`. Without vl-convert-python it has no charts and says how to get them."""
    headline, evidence = _headline(result)
    other, role = featured(result)
    tiles = _tiles(result, other)
    kept = "Nothing was chosen: the original stays." if not tiles and role != "chosen" else ""
    if kept and result.candidates:
        kept += f" The table shows the variant that came {role}."
    variants = view_table(variants_table(result), "variants-table", sortable=True) if result.candidates else None
    sections = sections_of(result, reasons=False)
    provenance = _provenance(result)
    command = one_line(result.command) if provenance else ""
    metrics = [*compared_metrics(result), *(name for one in result.candidates for name in one.metrics)]
    parts = [
        warnings_part(sections, ["Not saved"]),
        Part(
            id="results",
            title="Before and after",
            blocks=[("tiles", tiles), ("soft", kept), table_block(before_after_table(result), "before-after")],
        ),
        Part(id="variants", title="Variants", blocks=[("wide table", variants)]),
        Part(
            id="charts",
            title="Charts",
            blocks=ChartRenderer().blocks(
                [make(result) for make in CHARTS], otherwise="No variant was measured against the original."
            ),
        ),
        Part(id="front", title="Pareto front", blocks=[table_block(front_table(result), "front-table", sortable=True)]),
        changed_part(result.changed, result.thumbnails),
        confusion_part(
            (one.accuracy.evaluation, one_line(one.id))
            for one in (result.baseline, other)
            if one is not None and one.accuracy is not None
        ),
        Part(id="layers", title="Layers", blocks=[table_block(layers_table(result), "layers-table", sortable=True)]),
        Part(
            id="provenance",
            title="The chosen file",
            blocks=[("pairs", provenance), ("text", command and "To make it again:"), ("command", command)],
        ),
        Part(
            id="conditions",
            title="Conditions",
            blocks=[
                ("statements", condition_lines(result)),
                ("sections", [section for section in sections if section.title not in _OWN_PLACE]),
            ],
        ),
        metrics_part(
            metrics,
            note="A speed-up is the original's time over the variant's. A variant is accepted where it is "
            f"{'faster by the estimates' if result.device else 'proven faster'} within every bound.",
        ),
    ]
    return render_result_page("optimization", headline, parts, evidence=evidence)


def _headline(result: Optimization) -> tuple[str, str]:
    """The conclusion, and the numbers that it rests on in smaller letters."""
    headline, evidence = headline_of(result)
    if result.chosen is None or result.interrupted:
        return headline, evidence
    if result.device:  # as far as its first number; the others in smaller letters
        answer, _, rest = headline.partition(" (")
        return answer.partition(" [")[0], f"{answer.partition(': ')[2]} ({rest}; {evidence}"
    chosen = result.candidate(result.chosen)
    gains = gains_of(result, chosen) or [one_line(chosen.why)]
    told = ", ".join(gains) + (f"; {evidence}" if evidence else "")
    return f"{name_of(chosen)}: {gains[0].partition(' [')[0]}", told


def _tiles(result: Optimization, other: Candidate | None) -> list[Tile]:
    """What changes in large letters, metric by metric; none where nothing was chosen."""
    if other is None or result.chosen is None:
        return []
    table = before_after_table(result)
    tiles = []
    for metric, row in zip(compared_metrics(result), table.rows, strict=True):
        before, after, change = row[1].short or row[1].text, row[2].short or row[2].text, row[3].text
        if change == ABSENT and result.device and after != ABSENT:
            change = after
        if change == ABSENT:
            continue
        figure, _, rest = change.partition("×")
        number, word = (f"{figure}×", rest.strip()) if rest else (change.partition(" [")[0], "")
        interval = f"[{change.partition('[')[2]}" if "[" in change else ""
        tiles.append(
            Tile(
                metric=titled(result, metric, label_of(metric)),
                verdict={"good": "faster", "bad": "slower"}.get(row[3].tone, "same"),
                tone=row[3].tone,
                number=number,
                word=word.partition(" [")[0],
                interval=interval,
                change=f"{before} → {after}",
                how=row[3].how or row[2].how,
            )
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
