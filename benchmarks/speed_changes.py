"""How often a run of a language model is said to have changed its speed: simulated times between tokens.

    python benchmarks/speed_changes.py [--runs 1000]

Two tables: runs of one speed with several kinds of noise, and runs with a throttle. A run has REQUESTS requests of
TOKENS + 1 tokens each in one process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from edgewise.run.generated import split_stalls, stretches
from edgewise.run.host_protocol import SessionResult

Generator = np.random.Generator
Floats = np.ndarray
PERIOD_S, QUOTA_S = 0.1, 0.05
"""Of a control group: in each period its processes may use the processor for this long, then they are paused."""
PROMPT_S = 0.15
REQUESTS, TOKENS = 12, 31
BURST_S = 0.1
RATES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def _bursts(rate: float) -> Callable[[Generator, int], Floats]:
    """Return gaps of 30 ms, of which a share `rate` begins an interruption of one to three gaps by 0.1 s each."""

    def draw(generator: Generator, number: int) -> Floats:
        gaps = 0.03 * (1 + 0.03 * generator.standard_normal(number))
        for at in np.flatnonzero(generator.random(number) < rate):
            gaps[at : at + generator.integers(1, 4)] += BURST_S
        return gaps

    return draw


def shared(generator: Generator, number: int, *, mean_s: float) -> Floats:
    """Gaps of 30 ms, twice as long while another program runs; it runs and rests for exponential times."""
    gaps, left, is_busy = np.empty(number), 0.0, False
    for at, gap in enumerate(0.03 * (1 + 0.03 * generator.standard_normal(number))):
        gaps[at] = gap * (1 + is_busy)
        left -= gaps[at]
        if left <= 0:
            left, is_busy = generator.exponential(mean_s), not is_busy
    return gaps


STEADY: dict[str, Callable[[Generator, int], Floats]] = {
    "normal, 5 %": lambda generator, number: 0.03 * (1 + 0.05 * generator.standard_normal(number)),
    "Laplace, 5 %": lambda generator, number: 0.03 * np.exp(0.05 * generator.laplace(size=number)),
    "t(3), 5 %": lambda generator, number: 0.03 * np.exp(0.05 * generator.standard_t(3, number)),
    "lognormal, 30 %": lambda generator, number: 0.03 * generator.lognormal(0, 0.3, number),
    **{f"interrupted, {rate:.1%} of gaps": _bursts(rate) for rate in RATES},
}
"""One speed with noise. Whether the values of two blocks of gaps are exchanged makes no difference."""

SHARED: dict[str, Callable[[Generator, int], Floats]] = {
    f"another program, {mean_s} s at a time": partial(shared, mean_s=mean_s) for mean_s in (0.1, 0.3, 1.0)
}
"""Blocks of gaps are no longer exchangeable where it runs and rests for longer than they last."""


def quota(
    generator: Generator, cpu_s: float, begin: int, end: int, *, requests: int = REQUESTS, noise: float = 0.03
) -> Floats:
    """Gaps of tokens that need `cpu_s` of a processor each, of which a control group takes half from gap `begin` until
    gap `end`.
    """
    now, period, used, gaps = generator.uniform(0, PERIOD_S), -1, 0.0, np.empty(requests * TOKENS)

    def work(needed: float, *, limited: bool) -> None:
        nonlocal now, period, used
        while needed > 0:
            if not limited:
                now += needed
                return
            if int(now / PERIOD_S) > period:
                period, used = int(now / PERIOD_S), 0.0
            end = (period + 1) * PERIOD_S
            done = min(needed, QUOTA_S - used, end - now)
            needed, used, now = needed - done, used + done, now + done
            if needed > 0:  # paused until the next period
                now, period, used = end, period + 1, 0.0

    for at in range(len(gaps)):
        if at % TOKENS == 0:
            work(PROMPT_S, limited=begin <= at < end)
        before = now
        work(cpu_s * (1 + noise * generator.standard_normal()), limited=begin <= at < end)
        gaps[at] = now - before
    return gaps


def slower(generator: Generator, factors: Floats, noise: float = 0.03) -> Floats:
    """Return gaps of 30 ms, each longer by its factor."""
    return 0.03 * factors * (1 + noise * generator.standard_normal(len(factors)))


def session(gaps: Floats) -> SessionResult:
    """Return a process whose requests had these gaps, s."""
    ends = np.cumsum(gaps.reshape(-1, TOKENS).sum(axis=1) + PROMPT_S)
    firsts = np.concatenate([[0.0], ends[:-1]]) + PROMPT_S
    told = {"gaps": [TOKENS] * len(firsts), "first_text_s": firsts.tolist()}
    samples = {"tpot": [round(gap * 1e9) for gap in gaps]}
    return SessionResult(index=0, samples=samples, facts={"generation": told})


def is_named(*processes: Floats) -> bool:
    """Whether a run of `processes`, of whose gaps in s each is one, is said to have changed its speed."""
    changed, _ = split_stalls(stretches([session(gaps) for gaps in processes]))
    return bool(changed)


def throttled(generator: Generator, requests: int = REQUESTS) -> Iterator[tuple[str, Floats]]:
    """Yield the gaps of one run of each kind with a throttle, from 35 – 65 % of the gaps on."""
    number = requests * TOKENS
    begin = int(number * generator.uniform(0.35, 0.65))
    for cpu_ms in (15, 20, 30, 50, 80, 120):
        gaps = quota(generator, cpu_ms / 1e3, begin, number, requests=requests)
        yield f"half a processor, {cpu_ms} ms per token", gaps
    for cpu_ms in (20, 50):
        gaps = quota(generator, cpu_ms / 1e3, begin, begin + number // 4, requests=requests)
        yield f"the same for a quarter of the gaps, {cpu_ms} ms", gaps
    at = np.arange(number)
    for factor in (1.1, 1.2, 1.5, 2.0):
        yield f"each {factor}×", slower(generator, np.where(at < begin, 1, factor))
    falling = np.clip((at - begin) / (number - begin), 0, 1)
    yield "each longer by and by, up to 1.5×", slower(generator, 1 + 0.5 * falling)
    yield "each longer from the beginning, up to 1.5×", slower(generator, 1 + 0.5 * at / number)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    busy = {
        f"another program, {mean_s} s": (lambda g, n, m=mean_s: shared(g, n, mean_s=m)) for mean_s in (0.1, 0.3, 1.0)
    }
    for name, draw in (STEADY | busy).items():
        for requests, processes in ((REQUESTS, 1), (3, 1), (4, 5)):
            generator = np.random.default_rng(1)
            named = sum(is_named(*(draw(generator, requests * TOKENS) for _ in range(processes))) for _ in range(runs))
            print(f"{name} | {processes} × {requests} requests | {named / runs:.2%} named", flush=True)
    for requests in (REQUESTS, 6, 3):
        named_of: dict[str, int] = {}
        generator = np.random.default_rng(2)
        for _ in range(runs):
            for name, gaps in throttled(generator, requests):
                named_of[name] = named_of.get(name, 0) + is_named(gaps)
        for name, named in named_of.items():
            print(f"{name} | {requests} requests | {named / runs:.1%} named", flush=True)


if __name__ == "__main__":
    main()
