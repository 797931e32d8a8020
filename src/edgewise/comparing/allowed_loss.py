"""Whether a loss of accuracy is proven to be within what is allowed: one statistic and one wording for every verb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgewise.formatting import ends_text, percent_of, round_outwards
from edgewise.metrics import METRICS, SHARES
from edgewise.stats.proportions import paired_interval, samples_to_decide
from edgewise.units import significant


@dataclass(frozen=True, slots=True)
class PairedAnswers:
    """The answers of two models to the same samples.

    Attributes:
        lost: samples that only the first one answers right.
        gained: samples that only the second one answers right.
        n: all samples.
    """

    lost: int
    gained: int
    n: int

    @classmethod
    def of(cls, before: Sequence[float], after: Sequence[float]) -> PairedAnswers:
        """Count outcomes of 1.0 and 0.0. Raises `ValueError` for unequal lengths."""
        lost = sum(was > now for was, now in zip(before, after, strict=True))
        gained = sum(was < now for was, now in zip(before, after, strict=True))
        return cls(lost, gained, len(before))

    def loss_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the loss, as a share; below 0 where it may be a gain."""
        low, high = paired_interval(self.lost, self.gained, self.n)
        return -high, -low


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """What the samples prove about a limit.

    Attributes:
        limit: in the metric's unit; 0.01 for one percentage point.
        verdict: ``within`` or ``beyond`` where the whole 95 % interval is on that side of the limit.
        because: the loss with its interval, and what is not proven.
        samples_needed_low, samples_needed_high: how many samples would decide in 80 % of cases if the loss stays what
            it is; None where they do and where that can't be told.
    """

    limit: float
    verdict: Literal["within", "beyond", "inconclusive"]
    because: str
    samples_needed_low: int | None = None
    samples_needed_high: int | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def check_loss(
    loss: float,
    low: float | None,
    high: float | None,
    *,
    limit: float,
    metric: str,
    answers: PairedAnswers | None = None,
    aside: str = "",
) -> LimitCheck:
    """Decide whether a loss is within `limit`.

    Args:
        loss: of `metric`, above 0 where it became worse.
        low, high: its 95 % interval; None where there is none.
        answers: that loss and interval are of, where they are of paired outcomes; tells how many samples would decide.
        aside: what the interval is of, otherwise.
    """
    interval = "without an interval" if low is None or high is None else f"95 % interval {_range(low, high, metric)}"
    on = aside if answers is None else f" on the same {answers.n:,} samples"
    told = f"loss {_amount(loss, metric)}, {interval}{on}"
    if low is not None and high is not None and (high <= limit or low > limit):
        return LimitCheck(limit=limit, verdict="within" if high <= limit else "beyond", because=told)
    side = "within" if percent_of(loss) <= percent_of(limit) else "beyond"
    told += f": not proven to be {side} {_amount(limit, metric, exact=True)}"
    if answers is None:
        return LimitCheck(limit=limit, verdict="inconclusive", because=told)
    changed = answers.lost + answers.gained
    needed = samples_to_decide(answers.lost, answers.gained, answers.n, limit=limit)
    if needed is None:
        told += f"; how many samples would decide can't be told from {changed} changed answer{'s' * (changed != 1)} in "
        told += f"{answers.n:,}: four times as many samples would tell more"
        return LimitCheck(limit=limit, verdict="inconclusive", because=told)
    low, high = needed
    told += f", which needs about {_two_digits(low, up=False):,} to {_two_digits(high):,} samples if the loss stays "
    told += f"{_amount(loss, metric)} ({changed} of {answers.n:,} changed)"
    return LimitCheck(
        limit=limit, verdict="inconclusive", because=told, samples_needed_low=low, samples_needed_high=high
    )


def _amount(value: float, metric: str, *, exact: bool = False) -> str:
    """``0.33 pt`` of a share, ``0.021`` of what is none; `exact`: as it was given."""
    share = metric in SHARES
    number = percent_of(value) if share else value
    text = f"{number:.6g}" if exact else f"{number:.2f}" if share else significant(number)
    return f"{text.replace('-', '−')} {_unit(metric)}".rstrip()


def _range(low: float, high: float, metric: str) -> str:
    """``−1.00 to 1.85 pt``, rounded outwards."""
    share = metric in SHARES
    first, last = ends_text(percent_of(low), percent_of(high), 2) if share else round_outwards(low, high)
    return f"{first} to {last} {_unit(metric)}".rstrip().replace("-", "−")


def _unit(metric: str) -> str:
    return "pt" if metric in SHARES else METRICS[metric].unit.removeprefix("1")


def _two_digits(count: int, *, up: bool = True) -> int:
    """`count` with two digits."""
    step = int(10.0 ** max(0, len(str(count)) - 2))
    return (count + up * (step - 1)) // step * step
