"""What all charts of a profile share: colours by type of operator, axes, fonts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgewise.record import Layer, Run
from edgewise.report.chart_text import Spec, legend_below
from edgewise.report.charts import SERIES_COLOURS, SOFT, WIDE, Chart, colour_channel, colour_of, wide_chart
from edgewise.report.profile_cells import layers_of
from edgewise.text import one_line

OVERHEAD = "overhead"
OTHER = "other"
KEY: Spec = {"field": "key", "type": "nominal"}
"""The channel of the layer that a mark stands for, which leads from it to a row of a page."""


def colours_of(run: Run) -> dict[str, str]:
    """Type of operator → colour, the most expensive types first; further types have none."""
    sums: dict[str, float] = {}
    for layer in layers_of(run, "operator"):
        name = one_line(layer.op)
        sums[name] = sums.get(name, 0.0) + (layer.time or 0.0)
    slowest = sorted(sums, key=lambda name: -sums[name])[:SERIES_COLOURS]
    colours = {name: colour_of(index) for index, name in enumerate(slowest)}
    if any(layer.kind == "overhead" for layer in run.layers):
        colours[OVERHEAD] = "var(--overhead)"
    return colours


def op_of(layer: Layer, colours: dict[str, str]) -> str:
    """What the legend calls a layer: its type, `OVERHEAD`, or `OTHER` where there is no colour left for its type."""
    name = one_line(layer.op) if layer.kind == "operator" else OVERHEAD
    return name if name in colours else OTHER


def legend(colours: dict[str, str], rows: Iterable[Spec]) -> Spec:
    """The colour channel of marks whose field ``op`` is an `op_of`; the legend has just what `rows` have."""
    used = {row["op"] for row in rows}
    shown = {name: colour for name, colour in [*colours.items(), (OTHER, SOFT)] if name in used}
    return colour_channel("op", shown, legend=legend_below(list(shown), width=WIDE - 300, limit=140))


def profile_chart(
    title: str,
    layers: Sequence[Spec],
    *,
    height: int | Spec,
    description: str,
    caption: str,
    rows: Sequence[Spec] | None = None,
) -> Chart:
    """A chart of a profile."""
    return fitted(wide_chart(title, layers, height=height, description=description, caption=caption, rows=rows))


def fitted(chart: Chart) -> Chart:
    """As all charts of a profile: equally wide, whatever room their labels take; legends have squares."""
    chart.spec["config"]["legend"]["symbolType"] = "square"
    chart.spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return chart
