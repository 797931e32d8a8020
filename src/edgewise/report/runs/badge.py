"""A badge for a README: one value of a run with its interval and the run's grade."""

from __future__ import annotations

import json
from html import escape

from edgewise.errors import BadInput
from edgewise.formatting import scale_of
from edgewise.record import Run
from edgewise.report.charts.texts import FONT, fit_texts, text_width
from edgewise.report.runs.cells import amount_cell, label_of, reason_of_absence
from edgewise.report.runs.conditions import engine_of
from edgewise.text import without_controls

EXTENSIONS = (".svg", ".json")
_COLOURS = {"A": "#1a7f37", "B": "#1a7f37", "C": "#9a6700", "D": "#cf222e", "": "#57606a"}
_HEIGHT, _SIZE, _SPACE = 20, 11, 6


def render_badge(run: Run, metric: str, extension: str) -> str:
    """One value of `run` as ``.svg``, or ``.json`` for shields.io's endpoint badge. Raises `BadInput` without it."""
    row = run.measurement(metric)
    if row is None or row.value is None:
        known = ", ".join(each.metric for each in run.measurements if each.value is not None)
        raise BadInput(
            f"run {run.id} has no {metric}: {reason_of_absence(run, metric)}", advice=f"it has: {known or 'no value'}"
        )
    value = amount_cell(metric, row.value, row.low, row.high, scale_of(metric, row.unit, [row.value])).text
    is_sampled = metric == run.headline or row.low is not None
    grade = run.trust.grade if run.trust and is_sampled else ""  # which says nothing of what was counted
    basis = row.basis if row.basis in ("simulated", "estimated") else ""
    label = label_of(metric)
    message = " · ".join(filter(None, (value, basis, f"grade {grade}" if grade else "")))
    if extension == ".json":
        return json.dumps({"schemaVersion": 1, "label": label, "message": message, "color": _COLOURS[grade]}) + "\n"
    left, right = (round(text_width(text, _SIZE)) + 2 * _SPACE for text in (label, message))
    title = without_controls(f"{label} of {run.job.model.name} on {engine_of(run)}: {message}; run {run.id}")
    texts = "".join(
        f'<text x="{x}" y="14" font-size="{_SIZE}px">{escape(text)}</text>'
        for x, text in ((_SPACE, label), (left + _SPACE, message))
    )
    return fit_texts(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'font-family="{FONT}"><title>{escape(title)}</title><rect width="{left}" height="{_HEIGHT}" fill="#333"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{_COLOURS[grade]}"/>'
        f'<g fill="#fff">{texts}</g></svg>\n'
    )
