"""Decides which variant is best and why others are not, from numbers measured elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgewise.comparing.allowed_loss import LimitCheck, check_loss
from edgewise.comparing.comparison import Comparison, Ranking
from edgewise.comparing.criteria import THRESHOLD
from edgewise.evaluating.agreement import WORST
from edgewise.formatting import ends_text, factor_text, points_range, points_text, value_text
from edgewise.metrics import METRICS, SHARES
from edgewise.optimizing.variant import SMALLER, Bound, Candidate, MetricValue, made_of, size_of, smallest
from edgewise.text import listing
from edgewise.units import format_quantity, significant

Aim = Literal["latency", "size"]

UNPROVEN, PROBABLE = "not proven faster", "probably faster, not proven"
"""Begins why a raced variant that may be faster is not accepted: more time could decide on it."""


def factor_of(row: Comparison | None, what: str = "latency") -> MetricValue:
    """Return `what` before over after, from its comparison of a variant with the original."""
    if row is None or not row.ratio:
        because = "it was not measured in a race" if row is None else row.because or "the race gave no ratio"
        return MetricValue(value=None, absent_because=because)
    return MetricValue(
        value=1.0 / row.ratio,
        low=None if not row.high else 1.0 / row.high,
        high=None if not row.low else 1.0 / row.low,
        basis="derived",
        method=f"{what} of the original over the variant's; {row.method}",
        verdict=row.verdict,
    )


def drop_of(gap: MetricValue, metric: str) -> MetricValue:
    """Return the loss of the headline metric, above 0 where it became worse, from variant minus original; or the
    reverse.
    """
    if gap.value is None or METRICS[metric].better == "lower":
        return gap
    low, high = gap.low, gap.high
    return MetricValue(
        value=0.0 - gap.value,
        low=None if high is None else 0.0 - high,
        high=None if low is None else 0.0 - low,
        basis=gap.basis,
        method=gap.method,
    )


def judge_speed(row: Comparison | None, *, smaller: bool, aim: Aim, reason: str = "") -> tuple[bool, str]:
    """Whether a variant that is accurate enough is accepted, and why, in one line.

    A variant is accepted if it is proven faster; with the aim ``size``, also if it is smaller and proven as fast.

    Args:
        row: its latency against the original's, from the race.
        smaller: whether its file is smaller than the original's.
        reason: the pre-flight's reason why the pass is slow here, for variants that are slower.
    """
    speed = factor_of(row)
    if row is None or speed.value is None:
        return False, speed.absent_because or "it was not measured in a race"
    words = in_words(speed, "the speed")
    match row.verdict:
        case "faster":
            return True, f"faster: {in_words(speed)}"
        case "slower":
            return False, f"slower: {words}" + (f"; {reason}" if reason else "")
        case "same" if aim == "size" and smaller:
            return True, f"smaller and as fast: {words}"
        case "same":
            return False, f"no difference that matters: {words}"
    doubt = f" ({row.because})" if row.because else ""
    if speed.high is not None and speed.high < 1.0:
        return False, f"probably slower, not proven: {words}{doubt}"
    if speed.high is not None and speed.high <= 1.0 + THRESHOLD:
        return False, f"not faster by an amount that matters: {words}{doubt}"
    return False, f"{PROBABLE if (speed.low or 0.0) > 1.0 else UNPROVEN}: {words}{doubt}"


def in_words(speed: MetricValue, kind: str = "") -> str:
    """``2.81× [2.75, 2.87]``, the ends rounded outwards; with a `kind`, ``0.96× the speed [0.93, 0.99]``."""
    assert speed.value is not None
    factor, _, interval = factor_text(speed.value, speed.low, speed.high).partition(" ")
    return " ".join(filter(None, (factor, kind, interval)))


def accuracy_words(drop: MetricValue, metric: str) -> str:
    """``Top-1 accuracy −0.20 pt [−0.60, +0.20]``: the change of the headline metric."""
    row = METRICS[metric]
    if drop.value is None:
        return f"{row.label}: {drop.absent_because}"
    # Of a metric where lower is better, a drop of the quality is a rise of the value.
    sign = 1.0 if row.better == "lower" else -1.0
    ends = sorted(sign * end for end in (drop.low, drop.high) if end is not None)
    interval = points_range(metric, ends[0], ends[1]) if len(ends) == 2 else ""
    return f"{row.label} {points_text(metric, sign * drop.value)} {interval}".rstrip()


def judged_words(metrics: Mapping[str, MetricValue], headline: str) -> str:
    """Return the change of the headline metric, or the SNR where that is the headline."""
    if headline != WORST:
        return accuracy_words(
            metrics.get("accuracy_drop") or MetricValue(value=None, absent_because="not known"), headline
        )
    found = metrics.get(WORST)
    if is_identical(metrics):
        return "outputs are the same"
    if found is None or found.value is None:
        return f"SNR: {'not known' if found is None else found.absent_because}"
    return f"SNR {snr_text(found)}"


def check_quality(
    one: Candidate, original: Mapping[str, MetricValue], bounds: Sequence[Bound], *, headline: str
) -> LimitCheck | None:
    """Whether the loss of a variant is proven to be within its bound; None without such a bound or a value.

    Without an accuracy it is the outputs' signal-to-noise ratio that is.
    """
    metric = WORST if headline == WORST else "accuracy_drop"
    bound = next((one for one in bounds if one.metric == metric), None)
    limit = None if bound is None else limit_of(bound, original)
    found = one.metrics.get(metric)
    if bound is None or limit is None or found is None or found.value is None:
        return None
    if metric != WORST:
        answers = None if one.accuracy is None else one.accuracy.paired
        return check_loss(found.value, found.low, found.high, limit=limit, metric=headline, answers=answers)
    told = f"SNR {snr_text(found)}"
    if found.low is not None and found.low >= limit:
        return LimitCheck(limit=limit, verdict="within", because=told)
    return LimitCheck(
        limit=limit, verdict="inconclusive", because=f"{told}: not proven to be at least {significant(limit)} dB"
    )


def snr_text(found: MetricValue) -> str:
    """``27.3 dB [26.8, 27.9]``, the ends rounded outwards."""
    assert found.value is not None
    text = f"{found.value:.1f} dB"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{', '.join(ends_text(found.low, found.high, 1))}]"


def is_identical(metrics: Mapping[str, MetricValue]) -> bool:
    """Whether the outputs are equal to the original's. Their SNR has no value then, and meets any bound."""
    worst = metrics.get("output_max_abs_error")
    return worst is not None and worst.value == 0.0


def check_bounds(
    metrics: Mapping[str, MetricValue], bounds: Iterable[Bound], original: Mapping[str, MetricValue]
) -> list[str]:
    """Every bound that is not met, one line each; an absent number meets no bound."""
    return [words for bound in bounds if (words := _check(metrics, bound, original))]


def _check(metrics: Mapping[str, MetricValue], bound: Bound, original: Mapping[str, MetricValue]) -> str:
    if bound.metric == WORST and is_identical(metrics):
        return ""
    number = metrics.get(bound.metric)
    limit = limit_of(bound, original)
    if limit is None:
        return f"{bound.words}: the original's {bound.relative_to} is not known"
    if number is None or number.value is None:
        because = number.absent_because if number is not None else None
        return f"{bound.words}: {because or 'it was not measured'}"
    # In this form, a NaN meets no bound.
    if number.value <= limit if bound.upper else number.value >= limit:
        return ""
    return f"{_amount(bound, number.value)} is {'over' if bound.upper else 'under'} {bound.words}"


def limit_of(bound: Bound, original: Mapping[str, MetricValue]) -> float | None:
    """Return the limit in the metric's unit; None where it is relative to an unknown value."""
    if bound.relative_to is None:
        return bound.limit
    reference = original.get(bound.relative_to)
    return None if reference is None or reference.value is None else bound.limit * abs(reference.value)


def _amount(bound: Bound, value: float) -> str:
    if bound.metric == "accuracy_drop":
        # In the unit in which the limit was given.
        points = bound.words.endswith("pt") or bound.relative_to in SHARES
        return f"a drop of {significant(value * 100)} pt" if points else f"a drop of {significant(value)}"
    row = METRICS[bound.metric]
    if bound.metric == WORST:
        return f"an SNR of {value:.1f} dB"
    return f"{row.label} {significant(value * 100)} %" if bound.metric in SHARES else (
        f"{row.label} {format_quantity(value, row.unit)}"
    )  # fmt: skip


def find_closest(
    candidates: Sequence[Candidate], bounds: Sequence[Bound], original: Mapping[str, MetricValue]
) -> str | None:
    """Return the id of the candidate with the least sum of relative excesses over all bounds; None without numbers."""
    rated = [(excess, one.id) for one in candidates if (excess := _excess(one.metrics, bounds, original)) is not None]
    return min(rated)[1] if rated else None


def _excess(
    metrics: Mapping[str, MetricValue], bounds: Sequence[Bound], original: Mapping[str, MetricValue]
) -> float | None:
    total = 0.0
    for bound in bounds:
        if bound.metric == WORST and is_identical(metrics):
            continue
        number, limit = metrics.get(bound.metric), limit_of(bound, original)
        if number is None or number.value is None or limit is None or math.isnan(number.value):
            return None
        over = number.value - limit if bound.upper else limit - number.value
        # The limit may be 0; then the excess is not relative.
        total += max(0.0, over) / (abs(limit) or 1.0)
    return total


AS_GOOD_DB, SAME_DB = 1.0, 1000.0
"""Signal-to-noise ratios with a smaller difference count as equal; the ratio that equal outputs count as, dB."""
AS_GOOD = 0.001
"""Accuracies with a smaller difference count as equal: of a share, otherwise relative to the value."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The best accepted variant.

    Attributes:
        id: of the variant.
        because: why it, of those that no race tells from the fastest; empty where there are none.
        apart: ids of two variants that a race proved different, the slower first.
    """

    id: str
    because: str = ""
    apart: frozenset[tuple[str, str]] = frozenset()


def choose(
    candidates: Sequence[Candidate],
    ranking: Ranking | None,
    *,
    headline: str,
    aim: Aim = "latency",
    time: Callable[[Candidate], float] | None = None,
    apart: Collection[tuple[str, str]] = (),
) -> Choice | None:
    """Return the best accepted variant; None where none is accepted.

    With the aim ``latency``: the best place of the ranking, which several variants share if their difference is not
    proven, without those that are slower than another of them by `is_slower`; of these the most accurate, then those
    that no inexact pass changed, then the smallest (within 5 %), then those without a further setting of the engine,
    then the fastest. Accuracies within the interval of the most accurate variant's change count as equal. With the aim
    ``size``: first the smallest, then the same. The ranking is that of the last race; accepted variants of earlier
    races are placed relative to its first variant by their speed-ups over the original.

    Args:
        time: of a variant, which tells the fastest; None where speed-ups do.
        apart: ids of two variants that a race proved different, the slower first.
    """
    left = [one for one in candidates if one.accepted]
    if not left:
        return None
    places = {} if ranking is None else {one.label: one.place for one in ranking.places}
    first = min(
        (one for one in left if one.id in places),
        key=lambda one: (places[one.id], -(one.value("speedup") or 0.0)),
        default=None,
    )

    def place(one: Candidate) -> float:
        # There is no ranking if only one variant raced.
        if one.id in places or first is None:
            return float(places.get(one.id, 1))
        return places[first.id] + _order_of(one, first)

    if aim == "size":
        left = smallest(left)
    left = _best(left, place)
    left = [one for one in left if not any(is_slower(one, other, apart) for other in left)] or left
    accurate = _most_accurate(left, headline)
    known = {one.id: one for one in candidates}
    exact = _best(accurate, lambda one: bool(made_of(one, known).family))
    small = smallest(exact)
    plain = _best(small, lambda one: one.kind == "tuning")
    fast = time or (lambda one: -(one.value("speedup") or 0.0))
    best = min(plain, key=lambda one: (fast(one), size_of(one)))
    equal = [one for one in plain if fast(one) == fast(best)]
    slower = "with a lower speed-up" if time is None else "whose estimate is longer by less than its interval"
    stages = (
        ("less accurate", left, accurate),
        ("changed by an inexact pass", accurate, exact),
        ("larger", exact, small),
        ("with a further setting of the engine", small, plain),
        (slower, plain, equal),
        ("", equal, [best]),
    )
    lost = {lack: [one for one in before if one not in after] for lack, before, after in stages}
    said = [_loss_words(some, best, lack, headline) for lack, some in lost.items() if some]
    because = f"as fast, as far as can be told: {'; '.join(said)}" if said else ""
    return Choice(best.id, because, frozenset(apart))


def _loss_words(some: Sequence[Candidate], best: Candidate, lack: str, headline: str) -> str:
    """``"nncf-ptq @ openvino (98.70 %, 2.13× smaller), less accurate"``: with what else differs and matters."""

    def named(one: Candidate) -> str:
        words = []
        if lack == "less accurate":
            words.append(value_text(headline, METRICS[headline].unit, one.value(headline)))
        words += _differences(one, best)
        return f"{one.id} ({', '.join(words)})" if words else one.id

    # How much larger stands beside each.
    return listing([named(one) for one in some]) + ("" if lack in ("", "larger") else f", {lack}")


def _differences(one: Candidate, best: Candidate) -> list[str]:
    """Return in what `one` differs from `best`, beside its engine, which its name has: size, peak memory, inputs."""
    before, after = size_of(one), size_of(best)
    words = [_size_words(after / before, "")] if before and after < math.inf > before else []
    own, other = (each.metrics.get("memory_peak") for each in (one, best))
    if own is not None and other is not None and own.value and other.value and are_apart(own, other):
        words.append(_size_words(other.value / own.value, "peak memory "))
    types = [[] if each.job is None else [spec.dtype for spec in each.job.workload.inputs] for each in (one, best)]
    if all(types) and types[0] != types[1]:
        own_type, other_type = (listing(list(dict.fromkeys(each))) for each in types)
        words.append(
            f"input {own_type}, not {other_type}" if own_type != other_type else f"inputs {' '.join(types[0])}"
        )
    return [word for word in words if word]


def _size_words(ratio: float, what: str) -> str:
    """``"peak memory 1.20× smaller"`` for a `ratio` of the best one's over its own; "" where it is about the same."""
    if SMALLER <= ratio <= 1.0 / SMALLER:
        return ""
    return f"{what}{factor_text(max(ratio, 1.0 / ratio))} {'smaller' if ratio > 1.0 else 'larger'}"


def are_apart(a: MetricValue, b: MetricValue) -> bool:
    """Whether the intervals of two numbers are disjoint; also where one has none."""
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return True
    return a.high < b.low or b.high < a.low


def is_slower(one: Candidate, other: Candidate, apart: Collection[tuple[str, str]] = ()) -> bool:
    """Whether a race tells that `one` is slower: of the two, or of each with the original, by disjoint intervals.

    Args:
        apart: ids of two variants that a race proved different, the slower first.
    """
    if (one.id, other.id) in apart:
        return True
    a, b = one.metrics.get("speedup"), other.metrics.get("speedup")
    return a is not None and b is not None and a.high is not None and b.low is not None and a.high < b.low


def _most_accurate(candidates: Sequence[Candidate], headline: str) -> list[Candidate]:
    """Return the most accurate candidate, and those whose accuracy can't be told apart from its own."""

    def worth(one: Candidate) -> float:
        same = headline == WORST and is_identical(one.metrics)
        sign = 1.0 if headline and METRICS[headline].better == "lower" else -1.0
        return sign * (SAME_DB if same else (one.value(headline) or 0.0))

    scale = 1.0 if headline in SHARES else max(abs(worth(one)) for one in candidates)
    kept = _best(candidates, worth, within=AS_GOOD_DB if headline == WORST else AS_GOOD * scale)
    best = min(candidates, key=worth)
    most = best.metrics["accuracy_drop"].high if headline != WORST and "accuracy_drop" in best.metrics else None
    if most is None:
        return kept
    drops = [(one, one.value("accuracy_drop")) for one in candidates]
    return [one for one, drop in drops if one in kept or (drop is not None and drop <= most)]


def _order_of(one: Candidate, other: Candidate) -> float:
    """-0.5 where `one` is faster than `other`, 0.5 where it is slower or not known, 0 where the intervals overlap.

    The two were in different races, each in turns with the original.
    """
    a, b = one.metrics["speedup"], other.metrics["speedup"]
    if a.low is None or a.high is None or b.low is None or b.high is None or a.high < b.low:
        return 0.5
    return -0.5 if a.low > b.high else 0.0


def _best(
    candidates: Sequence[Candidate], key: Callable[[Candidate], float], *, within: float = 0.0
) -> list[Candidate]:
    """Return the candidates whose key is at most `within` above the least."""
    least = min(map(key, candidates))
    return [one for one in candidates if key(one) <= least + within]
