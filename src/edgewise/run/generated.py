"""The measurements of a language model from the requests of its sessions. Pure data → data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import as_flag
from edgewise.record import Caution, Job, Measurement, Variation
from edgewise.run.host_protocol import SessionResult
from edgewise.run.language_models import kv_cache_row
from edgewise.run.rates import distribution, rate_ends
from edgewise.run.variation import widen
from edgewise.stats import intervals
from edgewise.stats.level_changes import LEAST, level_changes
from edgewise.stats.mean_changes import mean_changes
from edgewise.stats.summary import summarise
from edgewise.units import format_quantity, long_time, significant

Floats = NDArray[np.float64]

CHANGED = 0.15
"""A change of the time per token that is less, relative to the faster side, is no other state of the machine."""
BLOCKS = 60
LEAST_BLOCK = 3
"""Gaps whose mean is one value of the series in which changes are looked for."""
COARSE = 2
"""Coarse blocks are this many times as long. A lasting change of speed has to show in them, too; a stall does not."""
FALSE_ALARMS = 0.01
"""Largest probability that a run of one speed is said to have changed, divided among its processes.

Coarse blocks are judged at half of it: an interruption that reaches into a second block makes both slow, so that their
order is not quite random. Of 300 simulated runs of 31 gaps per request, up to 1 changed with 12 requests and 5 with 3
where 2 to 50 % of the gaps begin an interruption of one to three gaps by 0.1 s each, and none with lognormal noise of
30 % (``benchmarks/speed_changes.py``). At a quarter, a throttle that ends after a fourth of the gaps is missed.
"""
FEW = 2 * LEAST
"""Requests of a process from which a change of the speed of its prompts can be proven."""
LEAST_REQUESTS = 3
"""Least number of requests from which the growth of the gaps with the context is estimated and subtracted."""
MOST_TOLD = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a session in which tokens came at one speed.

    Attributes:
        session: its number, from 0.
        begin_s: after the session's first timed request began, s.
        gap_s: the mean time between tokens, s.
        level_s: the same without the growth over the context, s.
        spent_s: sum of the times between its tokens, s.
    """

    session: int
    begin_s: float
    gap_s: float
    level_s: float
    spent_s: float


def generated_rows(job: Job, sessions: Sequence[SessionResult], variation: Variation | None) -> list[Measurement]:
    """Return times and rates of a language model, the headline first, and its KV cache."""
    scenario, n = job.workload.scenario, len(sessions)
    processes = f"{n} fresh process{'es' if n > 1 else ''}"
    where = (
        f"depth {scenario.depth or 0}, {scenario.new_tokens} tokens per request, greedy, no prefix cache, {processes}"
    )
    clock = "one monotonic clock"
    tpot = distribution(
        "tpot",
        _seconds(sessions, "tpot"),
        f"{clock}, each gap between new tokens, {where}",
        variation=variation,
    )
    rows = [tpot, decode_rate(tpot)]
    changed, _ = split_stalls(stretches(sessions))
    if changed:
        rows = [_without_value(row, words_of(changed)) for row in rows]
    method = f"{clock}, from the text of the prompt to the first token as text, warm, {where}"
    first_text = distribution("ttft", _seconds(sessions, "ttft"), method, variation=variation)
    model = _seconds(sessions, "ttft_model")
    method = f"{clock}, from the tokens of the prompt to the first new token, warm, {where}"
    of_prompts = [
        first_text,
        distribution("ttft_model", model, method, variation=variation),
        prefill_rate(model, _prompts(sessions), where, variation),
    ]
    why = why_no_prompt_rate(sessions)
    rows += [_without_value(row, why) for row in of_prompts] if why else of_prompts
    first = f"{clock}, as ttft, the first request after loading, {processes}"
    rows.append(distribution("ttft_first", _seconds(sessions, "ttft_first"), first, variation=variation))
    kind = sessions[0].facts.get("effective", {}).get("kv_cache_type")
    rows.append(kv_cache_row(job, None if kind is None else str(kind)))
    return rows


def _seconds(sessions: Sequence[SessionResult], name: str) -> list[list[float]]:
    return [[value * 1e-9 for value in session.samples[name]] for session in sessions]


def decode_rate(tpot: Measurement) -> Measurement:
    """1 / time per token, from the samples of that."""
    assert tpot.value is not None
    count, total = len(tpot.samples), sum(tpot.samples)
    ends: dict[str, float | None] = {}
    for prefix in ("", "within_"):
        low, high = getattr(tpot, f"{prefix}low"), getattr(tpot, f"{prefix}high")
        ends |= {f"{prefix}low": 1 / high if high else None, f"{prefix}high": 1 / low if low else None}
    method = f"gaps / time: {count} / {total:.6g} s, of the samples of tpot"
    return Measurement.of("decode_rate", 1 / tpot.value, method, basis="derived", **ends)


def prefill_rate(
    times: Sequence[Sequence[float]], prompts: Sequence[Sequence[int]], where: str, variation: Variation | None
) -> Measurement:
    """Tokens of all prompts over the sum of their times to first token.

    Args:
        times: of each session, ttft_model of its requests, s.
        prompts: of each session, tokens of the prompts of its requests.
    """
    tokens, total = sum(map(sum, prompts)), sum(map(sum, times))
    if not total:
        return Measurement.absent("prefill_rate", "no time passed on the clock")
    each = [
        [time / count for time, count in zip(some, counts, strict=True)]
        for some, counts in zip(times, prompts, strict=True)
    ]
    flat, lengths = np.concatenate([np.asarray(some) for some in each]), tuple(map(len, each))
    method = f"tokens of the prompts / time to first token: {tokens} / {total:.6g} s, samples of ttft_model, {where}"
    several = len({count for counts in prompts for count in counts}) > 1
    # The mean time of a token is the value's own only where every prompt has as many of them.
    interval = None if several else intervals.mean_interval(flat, lengths)
    widened = None if interval is None else widen(interval, total / tokens, variation)
    method += "; no interval: the prompts have several lengths" if several else ""
    rates = 1 / flat if flat.min() > 0 else np.zeros(0)
    return Measurement.of(
        "prefill_rate",
        tokens / total,
        method,
        basis="derived",
        **rate_ends(widened, tokens / total, 1, within=interval),
        samples=tuple(round(float(rate), 6) for rate in rates),
        session_lengths=lengths if len(rates) else (),
        summary=summarise(rates, lengths) if len(rates) else None,
    )


def _without_value(row: Measurement, why: str) -> Measurement:
    """`row` with its samples alone: the mean of two speeds is none at which the machine ran."""
    return replace(row, value=None, low=None, high=None, within_low=None, within_high=None, absent_because=why)


def _prompts(sessions: Sequence[SessionResult]) -> list[list[int]]:
    return [list(map(int, session.facts["generation"]["prompt_tokens"])) for session in sessions]


def stretches(sessions: Sequence[SessionResult]) -> list[Stretch]:
    """Return the stretches of the sessions in which the speed changed; empty where it changed in none.

    The gaps of a request become longer with its context. Their way is the median over all requests, each relative to
    its own median, as they may be of two speeds; it is taken out where there are enough requests.
    """
    requests = [_by_request(session) for session in sessions]
    every = [gaps for some in requests for gaps in some]
    way = np.ones(max(map(len, every)))
    if len(every) >= LEAST_REQUESTS:
        relative = [gaps / (np.median(gaps) or 1.0) for gaps in every]
        columns = [[gaps[at] for gaps in relative if len(gaps) > at] for at in range(len(way))]
        way = np.asarray([median(column) for column in columns])
        way = way / np.median(way) if np.median(way) > 0 and way.min() > 0 else np.ones(len(way))
    chance = FALSE_ALARMS / len(sessions)

    def find(blocks: Floats) -> list[int]:
        return mean_changes(blocks.mean(axis=1), chance=chance, stretches=True)

    found: list[Stretch] = []
    for index, (session, some) in enumerate(zip(sessions, requests, strict=True)):
        level = np.concatenate([gaps / way[: len(gaps)] for gaps in some])
        begins = [0.0, *_ends(session, some)]
        own = _stretches_of(index, np.concatenate(some), level, begins, find=find, least_block=LEAST_BLOCK)
        # An interruption that reaches into a second block makes both slow, so that their order is not quite random.
        coarse = _blocks(level, COARSE * LEAST_BLOCK, BLOCKS // COARSE)
        if not split_stalls(own)[0] or mean_changes(coarse.mean(axis=1), chance=chance / 2):
            found += own
    return found


def prompt_stretches(sessions: Sequence[SessionResult]) -> list[Stretch]:
    """Return the stretches of the sessions in which the speed of the prompts changed, as `stretches`.

    Empty, too, where the prompts have several lengths: their speeds differ by that.
    """
    prompts, found = _prompts(sessions), []
    if len({count for some in prompts for count in some}) > 1:
        return []

    def find(blocks: Floats) -> list[int]:
        return [each.index for each in level_changes(np.median(blocks, axis=1).tolist())]

    for index, (session, times) in enumerate(zip(sessions, _seconds(sessions, "ttft_model"), strict=True)):
        each = np.asarray(times) / prompts[index][0]
        begins = np.asarray(session.facts["generation"]["first_text_s"]) - np.asarray(times)
        found += _stretches_of(index, each, each, begins.tolist(), find=find, least_block=1)
    return found


def _stretches_of(
    index: int,
    raw: Floats,
    level: Floats,
    begins: Sequence[float],
    *,
    find: Callable[[Floats], list[int]],
    least_block: int,
) -> list[Stretch]:
    """Return the stretches of one session; none where the speed did not change.

    Args:
        raw, level: times per token, s, as they are and without their growth over the context.
        begins: when each of them began, s after the session's first timed request.
        find: consecutive times per token, s, [blocks, tokens] → the first block after each change.
        least_block: least number of tokens of a block.
    """
    blocks = _blocks(level, least_block, BLOCKS)
    size = blocks.shape[1]
    edges = [0, *(each * size for each in find(blocks)), len(raw)]
    while len(edges) > 2:
        ratios = [max(pair) / (min(pair) or math.ulp(0.0)) for pair in pairwise(_means(level, edges))]
        smallest = int(np.argmin(ratios))
        if ratios[smallest] > 1 + CHANGED:
            break
        del edges[smallest + 1]
    else:
        return []
    sides = pairwise(_means(level, edges))
    edges[1:-1] = [
        _edge(level, edge, pair, reach=(3 * size - 1) // 2) for edge, pair in zip(edges[1:-1], sides, strict=True)
    ]
    return [
        Stretch(
            session=index,
            begin_s=float(begins[begin]) if begin else 0.0,
            gap_s=float(raw[begin:until].mean()),
            level_s=float(level[begin:until].mean()),
            spent_s=float(raw[begin:until].sum()),
        )
        for begin, until in pairwise(edges)
    ]


def _blocks(level: Floats, least: int, most: int) -> Floats:
    """Return consecutive blocks of `level`, of at least `least` values each and at most `most` of them: [blocks, size].
    What is left at the end is left out.
    """
    size = max(least, -(-len(level) // most))
    return level[: len(level) // size * size].reshape(-1, size)


def _means(level: Floats, edges: Sequence[int]) -> list[float]:
    return [float(level[begin:until].mean()) for begin, until in pairwise(edges)]


def why_no_prompt_rate(sessions: Sequence[SessionResult]) -> str:
    """Return why the prompts have no single speed, or why that is in doubt; empty where they have one."""
    changed, _ = split_stalls(prompt_stretches(sessions))
    if changed:
        return words_of(changed, what="the speed of the prompts")
    prompts = _prompts(sessions)
    if len({count for some in prompts for count in some}) > 1:
        return ""
    for index, times in enumerate(_seconds(sessions, "ttft_model")):
        if min(times) > 0 and _is_split(times):
            rates = ", ".join(significant(prompts[index][0] / time) for time in times)
            return (
                f"the speed of the prompts may have changed, which {len(times)} requests can't prove: {rates} tokens/s "
                f"(process {index + 1}); {as_flag('iterations', str(2 * FEW))} would tell"
            )
    return ""


def _is_split(times: Sequence[float]) -> bool:
    """Return whether there are few `times`: two or more of one speed, then two or more of another."""
    parts = [(times[:at], times[at:]) for at in range(2, len(times) - 1)] if len(times) < FEW else []
    return any(max(some) * (1 + CHANGED) < min(others) for pair in parts for some, others in (pair, pair[::-1]))


def split_stalls(found: Sequence[Stretch]) -> tuple[list[Stretch], list[Stretch]]:
    """Return the stretches of sessions whose speed changed, and the stalls of the others.

    A stall is a stretch after which the speed is what it was before. Together they take less than the share `CHANGED`
    of their session's time, so that the mean of the whole differs from the usual time per token by less than what would
    be another state of the machine. A session that ends at another speed has changed: it may have stayed so.
    """
    changed: list[Stretch] = []
    stalls: list[Stretch] = []
    for session in dict.fromkeys(each.session for each in found):
        own = [each for each in found if each.session == session]
        usual = max(own, key=lambda each: each.spent_s).level_s
        off = [each for each in own if max(each.level_s, usual) > min(each.level_s, usual) * (1 + CHANGED)]
        short = sum(each.spent_s for each in off) < CHANGED * sum(each.spent_s for each in own)
        if off and short and own[0] not in off and own[-1] not in off:
            stalls += off
        else:
            changed += own
    return changed, stalls


def _edge(level: Floats, near: int, means: tuple[float, float], *, reach: int) -> int:
    """Return the gap at which a change began that was found in blocks: the best fit within `reach` of the two means,
    by least squares.
    """
    begin, until = max(1, near - reach), min(len(level) - 1, near + reach)
    before, after = means
    later = (level[begin:until] - (before + after) / 2) * (after - before)
    return begin + int(np.concatenate([[0], np.cumsum(later)]).argmin())


def _by_request(session: SessionResult) -> list[Floats]:
    counts = list(accumulate(session.facts["generation"]["gaps"], initial=0))
    gaps = np.asarray(session.samples["tpot"], dtype=np.float64) * 1e-9
    return [gaps[begin:end] for begin, end in pairwise(counts)]


def _ends(session: SessionResult, requests: Sequence[Floats]) -> list[float]:
    """When each gap of a session ended, s after its first timed request began."""
    firsts = session.facts["generation"]["first_text_s"]
    return [float(end) for first, gaps in zip(firsts, requests, strict=True) for end in first + np.cumsum(gaps)]


def cautions_of_stalls(sessions: Sequence[SessionResult]) -> list[Caution]:
    """One that names each stall of a language model whose speed did not change otherwise; none without any."""
    changed, stalls = split_stalls(stretches(sessions))
    if changed or not stalls:
        return []
    told = [
        f"{significant(1 / each.gap_s)} tokens/s for {format_quantity(each.spent_s, 's')} from "
        f"{long_time(each.begin_s)} on (process {each.session + 1})"
        for each in stalls[:MOST_TOLD]
    ]
    more = [f"{len(stalls) - MOST_TOLD} more"] if len(stalls) > MOST_TOLD else []
    return [Caution.of("stalled", f"the speed was another for a short time: {'; '.join([*told, *more])}")]


def words_of(found: Sequence[Stretch], *, what: str = "the speed") -> str:
    """Return ``"the speed changed: 98 tokens/s, from 12 s on 51 tokens/s (process 1)"``, never a mean of both."""
    sessions = dict.fromkeys(each.session for each in found)
    told = []
    for session in list(sessions)[:MOST_TOLD]:
        own = [each for each in found if each.session == session]
        parts = [
            (f"from {long_time(each.begin_s)} on " if place else "") + f"{significant(1 / each.gap_s)} tokens/s"
            for place, each in enumerate(own)
            if each.gap_s > 0
        ]
        told.append(f"{', '.join(parts)} (process {session + 1})")
    more = [f"{len(sessions) - MOST_TOLD} more processes"] if len(sessions) > MOST_TOLD else []
    return f"{what} changed while it was measured: {'; '.join([*told, *more])}"
