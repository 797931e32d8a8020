"""What is known of one run against another: how much faster, how that is known, and what stays open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise.formatting import percent_of
from edgewise.grouping import by_key
from edgewise.record import InTurns, Run
from edgewise.record.facts import is_unreliable, threads_of
from edgewise.report.bench.ranking import (
    UNRELIABLE,
    Candidate,
    are_apart,
    at_another_time,
    factor_of,
    has_better_value,
    is_faster,
    judged,
    likely_verdict,
    noun_of,
    speed_of,
    turns_of,
    why_likely,
    words_of_open,
)
from edgewise.report.bench.values import headline_text
from edgewise.report.runs.conditions import (
    path_of,
    provider_of,
)
from edgewise.text import enumerate_few
from edgewise.units import significant

_LOWER = ("bf16", "f16")


def in_full_precision(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Those that don't compute in a lower precision because it was asked for, of which speed alone tells too little.

    All, where none computes in full precision.
    """
    return [one for one in ranked if one.run.job.runtime.precision not in _LOWER] or list(ranked)


def text_on_lower_precision(chosen: Candidate, ranked: Sequence[Candidate]) -> str:
    """Return the fastest run in a lower precision against `chosen`, and how far its outputs differ; "" if none."""
    full = in_full_precision(ranked)
    lower = [one for one in (chosen, *ranked) if one.run.job.runtime.precision in _LOWER]
    if not lower:
        return ""
    other = lower[0]
    row = other.run.measurement("output_max_rel_error")
    differ = "its outputs were not compared with those in f32"
    if row is not None and row.value is not None:
        differ = f"its outputs differ by {significant(percent_of(row.value), 2)} % of their scale"
    if other is chosen or other in full:
        return f"it computes in {other.run.job.runtime.precision}: {differ}"
    said = cost_beside(other, chosen)
    told = f"is {said}{how_apart(other, chosen)}" if said else words_when_open(other, chosen)
    return f"{other.label} {told} ({differ})"


def text_of_turns(turns: InTurns, chosen: Candidate, other: Candidate) -> str:
    """Return what measuring in turns says of `chosen` against `other`."""
    factor = factor_of(chosen, other, slow=turns.verdict == "slower")
    if turns.verdict in ("faster", "slower"):
        lasting = at_another_time(chosen, other, slow=turns.verdict == "slower") or " within these minutes"
        return f"{factor} {turns.verdict} than {other.label}, measured in turns{lasting}"
    if likely := likely_verdict(chosen, other):
        factor = factor_of(chosen, other, slow=likely == "slower")
        said = f"probably {factor} {likely} than {other.label}, measured in turns within these minutes"
        return f"{said}; not proven: {why_likely(chosen, other)}"
    word = "as fast as" if turns.verdict == "same" else "can't be told apart from"
    return f"{word} {other.label}: {factor} its speed, measured in turns within these minutes"


def against_values(one: Candidate, other: Candidate) -> str:
    """State that each alone had the other order, where turns prove one; else ""."""
    turns = turns_of(one, other)
    if turns is None or turns.verdict not in ("faster", "slower"):
        return ""
    if not (has_better_value(other, one) if turns.verdict == "faster" else has_better_value(one, other)):
        return ""
    numbers = " against ".join(headline_text(each.run, interval=False) for each in (one, other))
    return f", though measured alone {numbers}: repeat it on an idle machine"


def cost_beside(other: Candidate, chosen: Candidate) -> str:
    """Return what `other` costs instead: ``1.8× [1.7, 1.9] slower``, ``as fast``; "" if they can't be told apart."""
    verdict = judged(other, chosen).verdict
    if verdict in ("same", "inconclusive"):
        return "as fast" if verdict == "same" else ""
    in_turns, is_slow = "", verdict == "slower"
    if turns_of(other, chosen) is not None:
        in_turns = f" in turns{at_another_time(other, chosen, slow=is_slow)}{against_values(other, chosen)}"
    return f"{factor_of(other, chosen, slow=is_slow)} {verdict}{in_turns}"


_OF_DESIGN = {"sessions": ", by their processes", "intervals": ", by their 95 % intervals"}


def how_apart(other: Candidate, chosen: Candidate) -> str:
    """How it is known which of two is faster that took no turns; "" where they did, or where it isn't known."""
    row = judged(other, chosen)
    return "" if row.verdict == "inconclusive" else _OF_DESIGN.get(row.design, "")


def text_on_threads(chosen: Candidate, ranked: Sequence[Candidate]) -> tuple[str, Candidate | None]:
    """Return what the threads of `chosen` cost, or what more would gain, and the run that says so.

    "" and None where its engine had one number.
    """
    own = threads_of(chosen.run)
    alike = {
        count: one
        for one in reversed(ranked)
        if provider_of(one.run) == provider_of(chosen.run) and path_of(one.run) == path_of(chosen.run)
        if (count := threads_of(one.run)) is not None and count != own
    }
    if own is None or not alike:
        return "", None
    least = min(alike)
    if least > own:
        best = nearest(chosen, [one for one in ranked if one in alike.values()])
        if best is None:
            return "", None
        said = cost_beside(best, chosen)
        line = f"{threads_of(best.run)} threads are {said}{how_apart(best, chosen)}"
        return (line, best) if said else (_of_unproven_threads(best, chosen), best)
    other, cores = alike[least], _as_many(own, least)
    proven, turned = is_faster(chosen, other), turns_of(chosen, other) is not None
    gain = factor_of(chosen, other) if proven or turned else f"{_times(chosen, other)}×"
    gain += f" in turns{at_another_time(chosen, other)}{against_values(chosen, other)}" if turned else ""
    doubt = "" if proven else ", which is not proven"
    return f"{own} threads: {cores} the cores for {gain}{doubt}", other


def _as_many(more: int, fewer: int) -> str:
    """``"twice"``, ``"1.5 times"``: how many threads are as many as `more`."""
    return "twice" if more == 2 * fewer else f"{more / fewer:.3g} times"


def _of_unproven_threads(one: Candidate, chosen: Candidate) -> str:
    """Return what the more threads of `one` gain at most, where nothing is proven; "" where no interval says that."""
    own, threads, row = threads_of(chosen.run), threads_of(one.run), judged(one, chosen)
    (_, _, most), turned = speed_of(one, chosen), turns_of(one, chosen) is not None
    if own is None or threads is None or most is None or not (turned or row.p_value is not None):
        return ""
    factor = factor_of(one, chosen)
    end = factor.rpartition(", ")[2].removesuffix("]")
    proof = "probably faster, which is not proven" if likely_verdict(one, chosen) == "faster" else "not proven faster"
    gain = f"{proof}; at most {end}× for {_as_many(threads, own)} the cores"
    way = " in turns" if turned else _OF_DESIGN.get(row.design, "")
    return f"{threads} threads: {factor} the speed{way}, {gain if most > 1.0 else 'not proven slower'}"


def text_on_second_engine(chosen: Candidate, ranked: Sequence[Candidate]) -> str:
    """Return what the fastest other engine costs in its best setting; "" where there is none, or that can't be told."""
    own = provider_of(chosen.run)
    other = nearest(chosen, [one for one in ranked if provider_of(one.run) != own])
    said = cost_beside(other, chosen) if other is not None else ""
    return f"{other.label} is {said}{how_apart(other, chosen)}" if other is not None and said else ""


def nearest(chosen: Candidate, others: Sequence[Candidate]) -> Candidate | None:
    """Return the fastest of `others`: by their ratios in turns with `chosen` where any has one, else the first."""
    turned = [one for one in others if turns_of(one, chosen) is not None]
    return max(turned or others[:1], key=lambda one: speed_of(one, chosen)[0] or 0.0, default=None)


def text_on_open(chosen: Candidate, ranked: Sequence[Candidate], told: Candidate | None = None) -> str:
    """All but `told` that can't be told apart from `chosen`, in the order of their turns; "" where all can."""
    alike = [one for one in ranked if one is not chosen and one is not told and not cost_beside(one, chosen)]
    return open_texts(in_order_of_turns(alike, chosen), chosen)


def open_texts(others: Sequence[Candidate], chosen: Candidate) -> str:
    """Return what is known of `others`, of which no order is proven: ``"a (1.55 ms) can't be told apart from it"``."""
    keys = [(likely_verdict(one, chosen), turns_of(one, chosen) is not None) for one in others]
    ways = by_key(zip(keys, tied_texts(others, chosen), strict=True))
    return "; ".join(
        f"{enumerate_few(texts, 3)} {words_of_open(likely, len(texts), in_turns=in_turns)}"
        for (likely, in_turns), texts in ways.items()
    )


def in_order_of_turns(others: Sequence[Candidate], chosen: Candidate) -> list[Candidate]:
    """Return `others`, the fastest in turns with `chosen` first; then those that took none, as they were."""

    def place(one: Candidate) -> tuple[bool, float]:
        ratio = speed_of(one, chosen)[0] if turns_of(one, chosen) is not None else None
        return ratio is None, -(ratio or 0.0)

    return sorted(others, key=place)


def words_when_open(other: Candidate, chosen: Candidate) -> str:
    """State that nothing is proven, and whether it is turns that prove nothing: intervals may be apart all the same."""
    return words_of_open(likely_verdict(other, chosen), in_turns=turns_of(other, chosen) is not None)


def _times(one: Candidate, other: Candidate) -> str:
    """How many times as fast `one` is as `other` by their values, with two decimals where that is close to 1."""
    ratio = one.value / other.value if one.is_rate else other.value / one.value
    return f"{ratio:.2f}" if ratio < 1.095 else significant(ratio, 2)


def tied_texts(tied: Sequence[Candidate], chosen: Candidate) -> list[str]:
    """``kws.onnx on onnxruntime/cpu (latency 1.08× [0.9, 1.3])``, ``… (1.55 ms, grade D)``: runs beside `chosen`.

    Those that took turns with it have their ratio, the others their value.
    """
    texts, noun = [], f"{noun_of(chosen.run)} "
    for one in tied:
        if turns_of(one, chosen) is not None:
            texts.append(f"{one.label} ({noun}{factor_of(one, chosen, slow=not one.is_rate)})")
            noun = ""
            continue
        words = [headline_text(one.run, interval=False), *([UNRELIABLE] if is_unreliable(one.run) else [])]
        words += ["took no turns"] if chosen.run.in_turns and not one.run.in_turns else []
        texts.append(f"{one.label} ({', '.join(words)})")
    return texts


def cost_of(after: Candidate, chosen: Candidate, others: Sequence[Candidate], name: Callable[[Run], str]) -> str:
    """How much slower the next model is than `chosen`, or than the first of the `others` of which that is proven."""
    if is_faster(chosen, after):
        return cost_beside(after, chosen)
    rival = next((one for one in others if is_faster(one, after)), None)
    if rival is None:
        return words_when_open(after, chosen)
    return f"{cost_beside(after, rival)} than {name(rival.run)}"


def better_of(after: Candidate, every: Sequence[Candidate]) -> str:
    """Return the run of the same model that has a better value and is not proven faster; "" where there is none."""
    family = (one for one in every if one.run.job.model.family == after.run.job.model.family)
    best = next((one for one in family if has_better_value(one, after) and not are_apart(one, after)), None)
    return f"{best.label}, {headline_text(best.run)}, {words_when_open(best, after)}" if best is not None else ""
