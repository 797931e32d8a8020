"""The chart of an evaluation: every model's headline with its interval, as data."""

from __future__ import annotations

from edgewise.evaluating.examination import Results
from edgewise.metrics import METRICS
from edgewise.report.accuracy import range_text, value_text
from edgewise.report.cells import label_of
from edgewise.report.charts import WIDE, Chart, colour_of, layered_spec
from edgewise.report.comparison_tables import scale_of
from edgewise.report.evaluation import chief_score
from edgewise.report.evaluation_tables import model_labels
from edgewise.report.lettering import Spec, row_axis
from edgewise.report.names import short_names


def score_chart(results: Results) -> Chart | None:
    """The headline metric of every model; None where fewer than two models know the same one."""
    labels = model_labels(results)
    scores = [chief_score(one) for one in results.examined]
    found = [
        (index, label, score, score.value)
        for index, (label, score) in enumerate(zip(labels, scores, strict=True))
        if score is not None and score.value is not None
    ]
    metrics = {score.metric for _, _, score, _ in found}
    if len(found) < 2 or len(metrics) != 1:
        return None
    metric = metrics.pop()
    unit = METRICS[metric].unit
    convert, word = scale_of(metric, unit, [value for *_, value in found])
    names = short_names([label for _, label, _, _ in found], 34)
    rows: list[Spec] = []
    for (index, _, score, value), name in zip(found, names, strict=True):
        # An em space and a number keep models of one name apart; the axis shows what is before it.
        row: Spec = {"model": f"{name}\u2003{index}", "x": convert(value), "colour": str(index)}
        if score.low is not None and score.high is not None:
            row |= {"low": convert(score.low), "high": convert(score.high)}
        rows.append(row)
    x = {"field": "x", "type": "quantitative", "title": f"{label_of(metric)} ({word})" if word else label_of(metric),
         "scale": {"zero": False}, "axis": {"tickCount": 8}}  # fmt: skip
    keys = [row["model"] for row in rows]
    y = {"field": "model", "type": "nominal", "title": None, "sort": keys, "axis": row_axis(keys, limit=260)}
    scale = {"domain": [row["colour"] for row in rows], "range": [colour_of(index) for index, *_ in found]}
    colour = {"field": "colour", "type": "nominal", "legend": None, "scale": scale}
    layers: list[Spec] = [
        {"transform": [{"filter": "isValid(datum.low)"}], "mark": {"type": "rule", "strokeWidth": 3},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
         "encoding": {"y": y, "x": x, "color": colour}},
    ]  # fmt: skip
    left = len(results.examined) - len(found)
    return Chart(
        title=f"{label_of(metric)} by model",
        description="; ".join(
            f"{label}: {value_text(metric, unit, value)}"
            + (f", 95 % interval {text}" if (text := range_text(metric, unit, score.low, score.high)) else "")
            for _, label, score, value in found
        ),
        caption="The dot is the value, the bar its 95 % interval. Models were asked the same questions, so the paired "
        "differences tell more than intervals that overlap." + (f" Without a value: {left}." if left else ""),
        spec={**layered_spec(layers, height={"step": 40}, width=WIDE), "data": {"values": rows}},
        wide=True,
    )
