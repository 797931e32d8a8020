"""The sentences of a comparison: verdicts, evidence, conclusions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from edgewise.comparing.comparison import Comparison, Ranking
from edgewise.comparing.session_values import LEAST_FOR_PERCENTILE, PERCENTILE_METRIC
from edgewise.formatting import factor_text, percent, ratio_text, time_text
from edgewise.metrics import METRICS, in_sentence
from edgewise.record import Disagreement
from edgewise.report.runs.cells import label_of
from edgewise.stats.turns import OF_NEIGHBOURS
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import significant

MOST_BUTS = 2

_GOOD_AS = {"s": "as fast as", "1/s": "as fast as", "B": "as large as"}
"""unit → how two variants that are the same compare."""
_RATIO_OF = {
    "interleaved": "fresh processes of one round, which share what slows the machine",
    "sessions": "fresh processes, which count alike",
}
"""Design → what its ratio is of, where that is not the two values."""
_RATIO_OF_TURNS = "neighbours in time, which share what slows the machine"
UNSEEN = 0.005
"""A relative difference of two ratios that three digits hardly show."""
_SPEEDS = frozenset({"latency", "latency_mean", "latency_p99", "throughput", "tpot", "decode_rate"})
"""Metrics of one speed: that one of them is worse beside another one says nothing new."""
_FACTORED = frozenset({"s", "1/s", "B", "J", "J/token", "W"})
"""Units of which a multiple means something: none of a temperature, and of a share the difference is what counts."""


def factor_of(row: Comparison) -> str:
    """``"2.43×"``; empty where there is no ratio, or a multiple of this metric is meaningless."""
    if row.ratio is None or row.unit not in _FACTORED or not 0.0 < row.ratio < math.inf:
        return ""
    if row.ratio >= 1.0:
        return factor_text(row.ratio, row.low, row.high, interval=False)
    ends = (1.0 / row.high, 1.0 / row.low) if row.low and row.high else (None, None)
    return factor_text(1.0 / row.ratio, *ends, interval=False)


def verdict_text(row: Comparison, *, hint: bool = True) -> str:
    """``"2.43× faster"``; ``"inconclusive (≈ 40 s more would decide)"``, in brackets the `hint` on margin or time."""
    if row.verdict == "inconclusive":
        return f"{row.word} ({waiting_text(row)})" if hint and row.decides_in_s is not None else row.word
    if row.design == "same-run":
        return f"{row.word} (the same run)" if hint else row.word
    if row.verdict == "same":
        return f"{row.word} (within ± {percent(row.margin)})" if hint and row.margin is not None else row.word
    return f"{factor_of(row)} {row.word}".strip()


def quotient_note(row: Comparison) -> str:
    """Why the ratio is not that of the two values beside it; "" where it is, as far as three digits show."""
    before, after = row.before.value, row.after.value
    if row.design not in _RATIO_OF or not row.ratio or not before or after is None:
        return ""
    opposite = "the two values differ the other way: " if _is_opposite(row) else ""
    if not opposite and row.ratio * (1.0 - UNSEEN) <= after / before <= row.ratio * (1.0 + UNSEEN):
        return ""
    return (
        f"{opposite}{significant(after / before, 4)} is the quotient of the two values, each of all its samples; the "
        f"ratio is of {_what_ratio_is_of(row)}"
    )


def disagreement_text(found: Disagreement | None) -> str:
    """``"while others used 91 % of the processors, the ratio was 2.72 by processor time, but 6.87 by neighbouring
    turns; the interval spans all"``; "" where the ratio is of one statistic.
    """
    if found is None:
        return ""
    names = sorted(found.ratios, key=lambda name: name != found.quoted)
    quoted, *others = (f"{significant(found.ratios[name])} by {one_line(name)}" for name in names)
    share = "" if found.others is None else f"while others used {percent(found.others)} of the processors, "
    return f"{share}the ratio was {quoted}, but {listing(others)}; the interval spans all"


def _what_ratio_is_of(row: Comparison) -> str:
    """Return the statistic behind the ratio: turns of a median, processes of a mean, groups of a percentile."""
    if row.metric == PERCENTILE_METRIC:
        return f"99th percentiles of groups of fresh processes, each of {LEAST_FOR_PERCENTILE} samples or more"
    if row.disagreement is not None:
        return f"{row.disagreement.quoted} in pairs of processes"
    if OF_NEIGHBOURS in row.method:
        return _RATIO_OF_TURNS
    return _RATIO_OF[row.design]


def _is_opposite(row: Comparison) -> bool:
    """Whether the ratio is above 1 and the quotient of the two values below, or the other way round, at three digits.

    The ratio of neighbours in time may be, as may that of groups of processes; the two values are of all samples.
    """
    before, after = row.before.value, row.after.value
    if row.design not in _RATIO_OF or row.ratio is None or not before or after is None:
        return False
    return (round(row.ratio, 3) - 1.0) * (round(after / before, 3) - 1.0) < 0.0


def waiting_text(row: Comparison) -> str:
    """``"≈ 40 s more would decide"``; empty where that can't be known."""
    return "" if row.decides_in_s is None else f"≈ {time_text(row.decides_in_s)} more would decide"


def metric_phrase(row: Comparison) -> str:
    """`` in peak memory``; "" for latency, which ``faster`` means, and where the verdict's words name the metric."""
    named = row.metric in ("energy", "power") and row.verdict in ("faster", "slower")
    return "" if named or row.metric == "latency" else f" in {lower_label(row.metric)}"


def lower_label(metric: str) -> str:
    """Return the label of a metric inside a sentence."""
    return in_sentence(label_of(metric))


def headline_text(row: Comparison) -> str:
    """Return the verdict on one metric without its evidence: ``"B is 2.43× faster than A"``."""
    a, b, where = one_line(row.a), one_line(row.b), metric_phrase(row)
    if row.design == "same-run":
        return f"{b} and {a} are one run, compared with itself"
    if row.verdict == "same":
        return f"{b} is {_GOOD_AS.get(row.unit, 'as good as')} {a}{where}"
    verb = "needs" if row.unit in ("J", "J/token", "W") else "is"
    if is_probable(row):
        is_better = ((row.ratio or 0.0) < 1.0) == (METRICS[row.metric].better == "lower")
        row = replace(row, verdict="faster" if is_better else "slower")
        verb = "is probably" if verb == "is" else f"probably {verb}"
        return f"{b} {verb} {verdict_text(row)} than {a}{metric_phrase(row)}, which is not proven"
    if row.verdict == "inconclusive":
        yet = " yet" if row.decides_in_s is not None else ""
        return f"No verdict{yet} on {b} against {a}{where or ' in latency'}"
    return f"{b} {verb} {verdict_text(row)} than {a}{where}"


def evidence_text(row: Comparison) -> str:
    """Return what the headline rests on: ``"ratio 0.412, 95 % interval 0.405 to 0.419"``, the reason where there is
    none. What follows it of another time is `lasting_text`. Why a known interval decides nothing stands beside the
    verdict in the table; here too of programs, and where the interval leaves 1 out.
    """
    if row.design == "same-run":
        return one_line(row.method)
    words = []
    known = row.rerun_low is not None and row.rerun_high is not None
    if is_probable(row):  # the ratio and why it is not proven stand in the table
        at_another_time = ratio_text(row.ratio, row.rerun_low, row.rerun_high).partition(" (")[2].removesuffix(")")
        told = ("in these minutes", f"at another time {at_another_time}") if known else ()
        return ", ".join(filter(None, (*told, waiting_text(row))))
    if row.verdict == "same" and row.margin is not None:
        words.append(f"within ± {percent(row.margin)}")
    if row.ratio is not None:
        ratio, _, interval = ratio_text(row.ratio, row.low, row.high).partition(" (")
        words.append(f"ratio {ratio}")
        words += [f"95 % interval {interval.removesuffix(')')}"] if interval else []
        if known and not lasting_text(row):
            _, _, rerun = ratio_text(row.ratio, row.rerun_low, row.rerun_high).partition(" (")
            words.append(f"at another time {rerun.removesuffix(')')}")
        if row.verdict in ("faster", "slower") and _is_opposite(row):
            words.append("although the two values differ the other way")
    if row.verdict == "inconclusive":
        # An interval without 1 looks like a verdict, so the reason why it is none stands beside it.
        is_in_table = (
            is_explained_in_table(row) and row.metric not in ("total_time", "cpu_time") and not _leaves_1_out(row)
        )
        because = "" if is_in_table else one_line(row.because)
        words += [text for text in (because, waiting_text(row)) if text]
    return ", ".join(words)


def lasting_text(row: Comparison, label: str = "") -> str:
    """`` in these minutes, which need not hold at another time (0.942 to 1.268)``, behind a proven order where the
    interval at another time contains 1, and behind "as fast" where it reaches beyond what is too small to matter.

    Args:
        label: of the side whose ratio to the other one is told; "" for B's to A.
    """
    side = label or row.b
    (ratio, *_), (low, high) = row.ratio_of(side), row.rerun_of(side)
    if ratio is None or low is None or high is None:
        return ""
    may_turn = row.verdict in ("faster", "slower") and low <= 1.0 <= high
    if not may_turn and not (row.verdict == "same" and _reaches_beyond(row)):
        return ""
    # What inverting leaves of binary fractions must not move the last digit.
    _, _, ends = ratio_text(ratio, float(f"{low:.12g}"), float(f"{high:.12g}")).partition(" (")
    return f" in these minutes, which need not hold at another time ({ends}"


def is_probable(row: Comparison) -> bool:
    """Whether nothing speaks against an order but that it is not proven: the interval leaves 1 out, and can be relied
    on.
    """
    return row.verdict == "inconclusive" and row.p_adjusted is not None and bool(row.ratio) and _leaves_1_out(row)


def _reaches_beyond(row: Comparison) -> bool:
    """Whether the interval at another time reaches beyond what is too small to matter."""
    most = 1.0 + (row.margin or 0.0)
    return (row.rerun_low or 1.0) < 1.0 / most or (row.rerun_high or 1.0) > most


def _leaves_1_out(row: Comparison) -> bool:
    return (row.low is not None and row.low > 1.0) or (row.high is not None and row.high < 1.0)


def is_explained_in_table(row: Comparison) -> bool:
    """Whether the verdict of `row` in a table has the reason as its note: it is open in spite of an interval."""
    return row.verdict == "inconclusive" and bool(row.because) and row.ratio is not None and row.low is not None


def conclusion(row: Comparison, others: Sequence[Comparison] = (), *, apart: str = "") -> str:
    """One sentence on B against A in the main metric, and proven differences in others that change the picture.

    Args:
        others: the rows of the other metrics.
        apart: how far apart both were measured, where that belongs to the conclusion.
    """
    evidence = ", ".join(filter(None, (evidence_text(row), apart)))
    return headline_text(row) + (f" ({evidence})" if evidence else "") + lasting_text(row) + but_text(row, others)


def but_text(row: Comparison, others: Sequence[Comparison]) -> str:
    """``", but 1.92× larger in peak memory"``: proven differences the other way in other metrics, and beside a verdict
    of slower also what else is worse; beside no verdict all of them; empty without any.
    """
    better = [each for each in others if each.verdict == "faster"] if row.verdict != "faster" else []
    worse = [each for each in others if each.verdict == "slower"]
    if row.verdict == "inconclusive":
        return _told_alone([*worse, *better])
    if row.verdict == "slower":
        worse = [each for each in worse if each.metric not in _SPEEDS]
        return _joined("and", worse, "worse") + _joined("but", better, "better")
    return _joined("and" if row.verdict == "same" else "but", better, "better") + _joined("but", worse, "worse")


def _told_alone(rows: Sequence[Comparison]) -> str:
    """``", but latency p99 is 2.30× slower and model size is 4.00× smaller"``: where the main metric has no verdict."""
    if not rows:
        return ""
    shown = rows if len(rows) <= MOST_BUTS + 1 else rows[:MOST_BUTS]
    said = [
        f"{lower_label(each.metric)} is {verdict_text(each)}" if metric_phrase(each) or each.metric == "latency"
        else f"it needs {verdict_text(each)}"
        for each in shown
    ]  # fmt: skip
    if rest := len(rows) - len(shown):
        said.append(f"{rest} other metrics differ")
    return f", but {listing(said)}"


def _joined(word: str, rows: Sequence[Comparison], more: str) -> str:
    if not rows:
        return ""
    shown = rows if len(rows) <= MOST_BUTS + 1 else rows[:MOST_BUTS]
    said = [verdict_text(each) + (metric_phrase(each) or " in latency" * (each.metric == "latency")) for each in shown]
    if rest := len(rows) - len(shown):
        said.append(f"{more} in {rest} other metrics")
    return f", {word} {listing(said)}"


def ranking_conclusion(ranking: Ranking) -> str:
    """Return the best variant, out of how many, the ratio of the next one, and what can't be ranked."""
    left = [one_line(one.label) for one in ranking.places if not one.groups]
    return _order_of(ranking) + (f"; not ranked: {enumerate_few(left)}" if left else "")


def _order_of(ranking: Ranking) -> str:
    count, where = sum(bool(one.groups) for one in ranking.places), lower_label(ranking.metric)
    first = [one for one in ranking.places if one.place == 1]
    names = [one_line(one.label) for one in first]
    if len(first) > 1:
        return f"{listing(names)} share the first place of {count} in {where}: they can't be told apart"
    following = [one for one in ranking.places if one.place > 1 and one.groups]
    if not first:
        return f"{count} variants in {where}"
    sentence = f"{names[0]} is the best of {count} in {where}"
    if following and following[0].ratio is not None:
        one = following[0]
        ratio = ratio_text(one.ratio, one.low, one.high)
        sentence += f"; {one_line(one.label)} follows with a ratio of {ratio}"
    return sentence
