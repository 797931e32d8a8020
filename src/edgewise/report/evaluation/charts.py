"""What a page draws of an evaluation: the models' headline scores, and their confusion matrices."""

from __future__ import annotations

from edgewise.evaluating.evaluation import EvaluationResults
from edgewise.formatting import scale_of, with_range
from edgewise.metrics import METRICS
from edgewise.record import Evaluation
from edgewise.report import charts
from edgewise.report.charts.texts import Spec
from edgewise.report.document.names import short_names
from edgewise.report.evaluation.tables import chief_score, class_name, model_labels
from edgewise.report.runs.cells import label_of


def evaluation_charts(results: EvaluationResults) -> list[charts.Chart | charts.Matrix | None]:
    """Return the headline scores of the models, then the confusion matrix of each."""
    matrices = [
        confusion_matrix(one.run.evaluation, label)
        for one, label in zip(results.models, model_labels(results), strict=True)
    ]
    return [score_chart(results), *matrices]


def confusion_matrix(evaluation: Evaluation | None, label: str) -> charts.Matrix | None:
    """Return the counts of answers to each label; None where there are none."""
    if evaluation is None or evaluation.confusion is None:
        return None
    size = max([len(evaluation.confusion), *map(len, evaluation.confusion)])
    names = tuple(class_name(evaluation, index) for index in range(size))
    return charts.Matrix(title=label, names=names, counts=evaluation.confusion)


def score_chart(results: EvaluationResults) -> charts.Chart | None:
    """Return the headline metric of every model; None where fewer than two models know the same one."""
    labels = model_labels(results)
    scores = [chief_score(one) for one in results.models]
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
        row: Spec = {"model": f"{name}{charts.KEEP_APART}{index}", "x": convert(value), "colour": str(index)}
        if score.low is not None and score.high is not None:
            row |= {"low": convert(score.low), "high": convert(score.high)}
        rows.append(row)
    x = charts.number_axis("x", f"{label_of(metric)} ({word})" if word else label_of(metric), ticks=8, zero=False)
    y = charts.name_axis("model", [row["model"] for row in rows], limit=260)
    colour = charts.colour_channel("colour", {str(index): charts.colour_of(index) for index, *_ in found})
    left = len(results.models) - len(found)
    return charts.intervals_chart(
        f"{label_of(metric)} by model",
        rows,
        x=x,
        y=y,
        colour=colour,
        description="; ".join(
            f"{label}: {with_range(metric, unit, score.value, score.low, score.high)}" for _, label, score, _ in found
        ),
        caption="The dot is the value, the bar its 95 % interval. All models were evaluated on the same samples, so "
        "judge by the paired differences, not by whether intervals overlap."
        + (f" Without a value: {left}." if left else ""),
    )
