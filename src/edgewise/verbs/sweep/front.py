"""Which models and places of a sweep no other one beats in both speed and accuracy: the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.formatting import scale_of, with_range
from edgewise.metrics import METRICS, is_score
from edgewise.report.charts import Chart, colour_channel, colour_of
from edgewise.report.charts.pareto import LEGEND, ON_FRONT, fields_of, pareto_chart
from edgewise.report.comparison.words import lower_label
from edgewise.report.document import Section
from edgewise.report.runs.cells import label_of
from edgewise.text import one_line
from edgewise.verbs.rows import Row
from edgewise.verbs.sweep.values import Value, is_apart, sign_of, values_of

MOST_DRAWN = 500
"""Points, those of the front first."""
ON, NEAR, BEHIND = "on the front", "may be on the front", "behind the front"
_COLOUR = colour_channel("kind", {ON: ON_FRONT, NEAR: colour_of(0), BEHIND: colour_of(1)}, legend=LEGEND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A model in a place, with its speed `x` and its score `y`."""

    model: str
    place: str
    x: Value
    y: Value
    kind: str = ON


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Two metrics of at least two models.

    Attributes:
        x, y: the metrics.
        points: those of the front first, in the order of `x`.
        incomplete: models and places that have one of both metrics.
    """

    x: str
    y: str
    points: Sequence[Point]
    incomplete: int

    @property
    def _members(self) -> list[Point]:
        return [point for point in self.points if point.kind == ON]

    def section(self) -> Section:
        """Return the points of the front, with the numbers that they have in the chart."""
        lines = [f"{number}: {self._in_words(point)}" for number, point in enumerate(self._members, 1)]
        return Section(title=f"Pareto front: {lower_label(self.x)} and {lower_label(self.y)}", lines=tuple(lines))

    def chart(self) -> Chart:
        """All points; those of the front are numbered and joined."""
        drawn, members = self.points[:MOST_DRAWN], len(self._members)
        x_scale, x_unit = scale_of(self.x, METRICS[self.x].unit, [point.x.value for point in drawn])
        y_scale, y_unit = scale_of(self.y, METRICS[self.y].unit, [point.y.value for point in drawn])
        rows = [
            {"kind": point.kind, "front": at < members, **({"n": at + 1} if at < members else {})}
            | fields_of("x", point.x.value, point.x.low, point.x.high, x_scale)
            | fields_of("y", point.y.value, point.y.low, point.y.high, y_scale)
            for at, point in enumerate(drawn)
        ]
        left = self.incomplete, len(self.points) - len(drawn)
        return pareto_chart(
            rows,
            x_name=label_of(self.x),
            x_unit=x_unit,
            metric=self.y,
            y_unit=y_unit,
            colour=_COLOUR,
            description="; ".join(f"{self._in_words(point)}, {point.kind}" for point in drawn),
            caption="The dashed line joins the Pareto front, the points that no other one beats; its "
            "numbers are those of the list below. Bars are 95 % intervals. Behind the front is what a point of it "
            "beats beyond the intervals in both values, or in one where the other is the same; others may be on it."
            + (f" Not drawn, because one of the two is not known: {left[0]}." if left[0] else "")
            + (f" Not drawn, because there are too many: {left[1]}." if left[1] else ""),
        )

    def _in_words(self, point: Point) -> str:
        x, y = (
            with_range(metric, METRICS[metric].unit, value.value, value.low, value.high)
            for metric, value in ((self.x, point.x), (self.y, point.y))
        )
        return one_line(f"{point.model}, {point.place}: {x}{' (grade D)' if point.x.vague else ''}, {y}")


def fronts_of(rows: Sequence[Row], places: Sequence[str], whole: Mapping[str, str]) -> list[Front]:
    """Return the fronts of speed and accuracy, one for each two metrics that rows have as headlines.

    Args:
        places: of each row.
        whole: place → its full name.
    """
    pairs = dict.fromkeys(
        (speed, score)
        for row in rows
        for speed in row["headlines"][:1]
        for score in row["headlines"][1:]
        if is_score(score) and not is_score(speed)
    )
    return [found for x, y in pairs if (found := _front(rows, places, whole, x, y)) is not None]


def _front(rows: Sequence[Row], places: Sequence[str], whole: Mapping[str, str], x: str, y: str) -> Front | None:
    """None where fewer than two models have both metrics."""
    along = [
        {(model, place): value for model, of_model in values_of(rows, places, metric).items()
         for place, value in of_model.items()}
        for metric in (x, y)
    ]  # fmt: skip
    both = [one for one in along[0] if one in along[1]]
    if len({model for model, _ in both}) < 2:
        return None
    points = [Point(model=one[0], place=whole[one[1]], x=along[0][one], y=along[1][one]) for one in both]
    return Front(x=x, y=y, points=_judged(points, x, y), incomplete=len(along[0].keys() ^ along[1].keys()))


def _judged(points: Sequence[Point], x: str, y: str) -> list[Point]:
    """Return the points, each with its kind; those of the front first."""

    def worth(point: Point) -> tuple[float, float]:
        return sign_of(x) * point.x.value, sign_of(y) * point.y.value

    front: list[Point] = []
    rest: list[Point] = []
    for point in sorted(points, key=worth):
        beaten = front and worth(front[-1])[1] <= worth(point)[1] and worth(front[-1]) != worth(point)
        (rest if beaten else front).append(point)
    return front + [replace(point, kind=_kind_of(point, x, y, front)) for point in rest]


def _kind_of(point: Point, x: str, y: str, front: Sequence[Point]) -> str:
    """Whether a point of the front beats `point` beyond the intervals."""

    def beaten(by: Point) -> bool:
        sides = ((point.x, by.x, sign_of(x)), (point.y, by.y, sign_of(y)))
        worse = [is_apart(own, other) and sign * (own.value - other.value) > 0 for own, other, sign in sides]
        same = [own.value == other.value for own, other, _ in sides]
        return all(worse) or (worse[0] and same[1]) or (same[0] and worse[1])

    return BEHIND if any(map(beaten, front)) else NEAR
