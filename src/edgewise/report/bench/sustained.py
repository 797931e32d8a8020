"""Latency over time of sustained runs: the section of a document, and the charts of a page."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from edgewise.formatting import quantity, ratio_text, time_unit_of, value_text
from edgewise.metrics import METRICS
from edgewise.record import Run, Sustained
from edgewise.report import charts
from edgewise.report.bench.charts import SERIES_POINTS, Series
from edgewise.report.charts.texts import Spec, legend_below
from edgewise.report.document import Section, Tone
from edgewise.report.document.bars import WIDEST, draw_bars
from edgewise.report.runs.conditions import labels_of
from edgewise.run.sustained.result import SLOWDOWN
from edgewise.run.sustained.timing import WINDOW_S, window_of
from edgewise.text import one_line
from edgewise.units import long_time

_FIRST = ("clock_rate", "temperature", "power")
_TONES: dict[str, Tone] = {"slower": "poor", "same": "good", "faster": "plain", "inconclusive": "plain"}
_CAUSES = {
    "clock": "the processor throttled",
    "disturbance": "other work may be the cause",
    "limit": "a quota paused the worker",
    "unknown": "cause unknown",
}


def sustained_sections(runs: Sequence[Run]) -> list[Section]:
    """Return a section per sustained run: the verdict, the time to the slowdown, its cause, and bars of the latency."""
    return [
        Section(
            title="Over time" + (f": {label}" if len(runs) > 1 else ""),
            lines=_lines(run.sustained, run.job.workload.scenario.sustained_s or run.sustained.elapsed_s),
            drawing=_drawing(run.sustained),
            tone="poor" if run.sustained.slowdown_from_s is not None else _TONES[run.sustained.verdict],
        )
        for run, label in zip(runs, labels_of(runs), strict=True)
        if run.sustained is not None
    ]


def _lines(found: Sustained, requested_s: float) -> tuple[str, ...]:
    words = METRICS[found.metric].label.lower()
    lines = []
    if found.elapsed_s < 0.99 * requested_s:
        lines.append(f"ended after {long_time(found.elapsed_s)} of {long_time(requested_s)}")
    if found.first is None or found.last is None:
        return (*lines, one_line(found.explanation))
    window_s = window_of(requested_s)
    minute = "minute" if window_s == WINDOW_S else long_time(window_s)
    ends = f"{quantity(found.last.value, 's')} in the last {minute}, {quantity(found.first.value, 's')} in the first"
    ratio = f"; ratio {ratio_text(found.ratio, found.low, found.high)}" if found.ratio is not None else ""
    lines.append(f"{found.verdict}: {words} {ends}{ratio}")
    if found.slowdown_from_s is not None:
        until = "to the end" if found.slowdown_until_s is None else f"until {long_time(found.slowdown_until_s)}"
        lines.append(f"slower by more than {SLOWDOWN:.0%} from {long_time(found.slowdown_from_s)} {until}")
    else:
        least, total = long_time(window_s), long_time(found.elapsed_s)
        lines.append(f"no slowdown of more than {SLOWDOWN:.0%} for {least} or longer in {total}")
    if found.cause is not None:
        told = one_line(found.explanation)
        lines.append(told if found.cause == "unknown" else f"{_CAUSES[found.cause]}: {told}")
    elif readings := [words for name in _metered(found) if (words := _ends_in_words(found, name))]:
        lines.append("; ".join(readings))
    return tuple(lines)


def _metered(found: Sustained) -> list[str]:
    """Metrics that meters told over time: clock, temperature and power first."""
    told = {
        name for name, column in found.series.items() if name in METRICS and any(each is not None for each in column)
    }
    return sorted(told, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def _ends_in_words(found: Sustained, name: str) -> str:
    """``"clock 2.40 GHz at first, 2.38 GHz at last"``; "" where a window has no reading."""
    ends = [window.readings.get(name) for window in (found.first, found.last) if window is not None]
    known = [value_text(name, METRICS[name].unit, value) for value in ends if value is not None]
    return f"{METRICS[name].label.lower()} {known[0]} at first, {known[1]} at last" if len(known) == 2 else ""


def _points(found: Sustained, name: str, most: int) -> list[tuple[float, float]]:
    """At most `most` points of a column: the middle of the time, s, and the median of the values of some bins."""
    begins, ends = found.series["begin_s"], found.series["end_s"]
    rows = [
        ((begin + end) / 2, value)
        for begin, end, value in zip(begins, ends, found.series.get(name, ()), strict=False)
        if begin is not None and end is not None and value is not None
    ]
    size = -(-len(rows) // most) or 1
    groups = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [(median(at for at, _ in group), median(value for _, value in group)) for group in groups]


def _drawing(found: Sustained) -> tuple[str, ...]:
    points = _points(found, "median", WIDEST)
    highest = max((value for _, value in points), default=0.0)
    if highest <= 0.0:
        return ()
    axis = f"0 s to {long_time(found.elapsed_s)}, bars from 0 to {quantity(highest, 's')}"
    wide = min(4, WIDEST // len(points))
    return (*draw_bars([value for _, value in points for _ in range(wide)]), axis)


def sustained_charts(group: Sequence[Series]) -> list[charts.Chart | None]:
    """Latency over time, and each reading of a meter; empty where no run is sustained."""
    shown = [(one, one.run.sustained) for one in group if one.run.sustained is not None]
    latency = METRICS[shown[0][1].metric].label if shown else ""
    return [_chart(shown, "median", f"{latency} over time", "s")] + [
        _chart(shown, metric, f"{METRICS[metric].label} over time", METRICS[metric].unit)
        for metric in dict.fromkeys(name for _, found in shown for name in _metered(found))
    ]


def _chart(shown: Sequence[tuple[Series, Sustained]], name: str, title: str, unit: str) -> charts.Chart | None:
    """One column of the bins against time, with the first and the last minute shaded."""
    lines = {one.label: found for one, found in shown if any(value is not None for value in found.series.get(name, ()))}
    if not lines:
        return None
    columns = {label: _points(found, name, SERIES_POINTS) for label, found in lines.items()}
    tails = {label: _points(found, "p99", SERIES_POINTS) for label, found in lines.items()} if name == "median" else {}
    largest = max(value for points in (*columns.values(), *tails.values()) for _, value in points)
    word, factor, offset = _shown_unit(unit, largest)
    last_s = max(found.elapsed_s for found in lines.values())
    minutes, per = ("min", 60.0) if last_s >= 120 else ("s", 1.0)

    def rows(points: dict[str, list[tuple[float, float]]]) -> list[Spec]:
        return [
            {"run": label, "t": charts.rounded(at_s / per), "y": charts.rounded(value * factor + offset)}
            for label, found in points.items()
            for at_s, value in found
        ]

    x = charts.number_axis("t", f"time ({minutes})", ticks=8, nice=False, domain=[0, charts.rounded(last_s / per)])
    y = charts.number_axis("y", f"{title.removesuffix(' over time')} ({word})", ticks=5, zero=name == "median")
    legend = legend_below(list(lines), width=charts.WIDE) if len(lines) > 1 else None
    colours = {one.label: one.colour for one, _ in shown if one.label in lines}
    channels = {"x": x, "y": y, "color": charts.colour_channel("run", colours, legend=legend)}
    first = next(iter(lines.values()))
    windows = [
        {"t": charts.rounded(window.begin_s / per), "t2": charts.rounded(window.end_s / per)}
        for window in (first.first, first.last)
        if window is not None
    ]
    starts = [
        charts.rounded(found.slowdown_from_s / per) for found in lines.values() if found.slowdown_from_s is not None
    ]
    shaded = charts.layer("rect", {"x": x, "x2": {"field": "t2"}}, windows, color=charts.SOFT, opacity=0.15)
    behind = [
        *([shaded] if windows else []),
        *([charts.lines_at({"x": x}, starts, strokeDash=[3, 3])] if starts else []),
    ]
    thin = [charts.layer("line", channels, rows(tails), strokeWidth=1, opacity=0.6)] if any(tails.values()) else []
    what = "Medians" if name == "median" else "Readings"
    tail = " The thin line is the 99th percentile." if any(tails.values()) else ""
    slow = f" The dashed line is where a slowdown of more than {SLOWDOWN:.0%} begins." if starts else ""
    return charts.series_chart(
        title,
        rows(columns),
        x=x,
        y=y,
        colour=channels["color"],
        line={"strokeWidth": 2},
        behind=behind,
        above=thin,
        description="; ".join(f"{label}: {_in_words(found, name)}" for label, found in lines.items()),
        caption=f"{what} of time bins; the first and the last window, which are compared, are shaded.{slow}{tail}",
    )


def _shown_unit(unit: str, largest: float) -> tuple[str, float, float]:
    """Return unit of the axis, and factor and offset to it from the SI unit."""
    if unit == "s":
        return (*time_unit_of(largest), 0.0)
    return {"Hz": ("GHz", 1e-9, 0.0), "K": ("°C", 1.0, -273.15), "1": ("%", 100.0, 0.0)}.get(unit, (unit, 1.0, 0.0))


def _in_words(found: Sustained, name: str) -> str:
    if name == "median":
        return "; ".join(_lines(found, found.elapsed_s))
    return _ends_in_words(found, name) or f"over {long_time(found.elapsed_s)}"
