"""The pages of a calibration, and of estimates for a calibrated device."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.metrics import METRICS
from edgewise.predicting.calibration import Calibration
from edgewise.predicting.choice import leave_out
from edgewise.predicting.forecast import Forecasts
from edgewise.report.document import Section, Table, in_prose
from edgewise.report.forecast import calibration_document, chosen_law, forecasts_document
from edgewise.report.forecast_charts import (
    coverage_chart,
    curve_chart,
    forecast_chart,
    residual_chart,
    scatter_chart,
)
from edgewise.report.page import ChartRenderer, Part, metrics_part, render_result_page, table_block, warnings_part


def render_calibration_html(calibration: Calibration) -> str:
    """The page of `calibration`. Without vl-convert-python it has no charts and says how to get them."""
    document = calibration_document(calibration)
    parts = [
        _tables_part(document.tables),
        warnings_part(document.sections, ["Cautions"]),
        *_validation_parts(calibration, ChartRenderer()),
        Part(id="points", title="Points", blocks=[("sections", _others(document.sections))]),
        metrics_part(calibration.points),
    ]
    return render_result_page("calibration", document.title, parts, evidence=in_prose(document.answer))


def render_forecasts_html(found: Forecasts) -> str:
    """The page of estimates, with the validation of the laws that they rest on."""
    document, renderer = forecasts_document(found), ChartRenderer()
    calibration = found.calibration
    laws = calibration_document(calibration)
    parts = [
        Part(
            id="estimates",
            title="Estimates",
            blocks=[
                *(table_block(table, f"estimates-{at}", sortable=True) for at, table in enumerate(document.tables)),
                *renderer.blocks([forecast_chart(found, metric) for metric in found.metrics]),
                ("sections", _others(document.sections)),
            ],
        ),
        warnings_part(document.sections, ["Cautions"]),
        _tables_part(laws.tables),
        *_validation_parts(calibration, renderer),
        metrics_part(calibration.points),
    ]
    answer = [*document.answer, *(chosen_law(metric, choice) for metric, choice in calibration.choices.items())]
    return render_result_page("estimates", document.title, parts, evidence=in_prose(answer))


def _tables_part(tables: Sequence[Table]) -> Part:
    blocks = [table_block(table, f"laws-{at}", sortable=True) for at, table in enumerate(tables)]
    return Part(id="laws", title="Laws and measured models", nav="Laws", blocks=blocks)


def _validation_parts(calibration: Calibration, renderer: ChartRenderer) -> list[Part]:
    """For each metric, how well the chosen law predicts models that it was not fitted to."""
    parts = []
    for metric, choice in calibration.choices.items():
        left_out = leave_out(choice.chosen, choice.points)
        charts = [
            scatter_chart(metric, choice, left_out),
            curve_chart(metric, choice),
            coverage_chart(left_out),
            residual_chart(left_out, choice),
        ]
        label = METRICS[metric].label
        parts.append(Part(id=f"validation-{metric}", title=f"{label}: validation", blocks=renderer.blocks(charts)))
    return parts


def _others(sections: Sequence[Section]) -> list[Section]:
    return [section for section in sections if section.title != "Cautions"]
