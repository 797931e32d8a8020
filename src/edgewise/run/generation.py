"""The timed requests of a language model. Standard library only, as everything that is sent to a device.

A request goes from the text of its prompt to its last new token. These times are taken, all by one clock:

    begin → tokens of the prompt are known → first token is known → it is text → second token … last token
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.run.metering import PROMPT
from edgewise.run.timing import Clock, Reporter
from edgewise.runtime.base import Generates, UnsupportedModel
from edgewise.workload.prompts import read_prompts

LEAST_REQUESTS = 2
"""Timed requests of a session whose number is not prescribed, however long they take."""
MEASURE_S = 5.0
"""And more until this time has passed, s."""
MOST_REQUESTS = 1000
TELL_S = 0.5
"""Shortest time between two messages about the speed, which are sent between requests, never within one, s."""
STRIDE = 16
"""Prompts from the begin of one session to that of the next, where the number of requests is not prescribed."""
MOST_KEPT = 4096
"""New tokens of a session that are kept, of its first requests."""
_ATTEMPTS = 8
_VAIN = 32
"""Times in a row that more tokens may make no longer text, as some tokens hide those behind them."""


@dataclass(slots=True)
class Request:
    """The times of one request, ns from its begin.

    Attributes:
        prompt_tokens: computed of its prompt.
        ready: the tokens of the prompt were known.
        first_text: the first new token was text.
        tokens: each new token was known; the first one before `first_text`.
        prompt: tells prompts of other texts or tokens apart.
        made: the new tokens.
    """

    prompt_tokens: int
    begin: int = 0
    ready: int = 0
    first_text: int = 0
    tokens: list[int] = field(default_factory=list)
    prompt: str = ""
    made: list[int] = field(default_factory=list)

    @property
    def gaps(self) -> list[int]:
        """Between the new tokens. The first one begins when the first token was text: that is no time of the model."""
        return [later - earlier for earlier, later in pairwise([self.first_text, *self.tokens[1:]])]


class Requests:
    """Makes requests of one scenario, each with another prompt. The first one is the same in every session.

    Args:
        job: the job's message.

    Raises:
        BadInput: no prompt of the file is long enough, or one is longer than the model's context.
    """

    def __init__(self, session: Generates, job: Mapping[str, Any], clock: Clock, reporter: Reporter) -> None:
        workload = job["workload"]
        scenario = workload["scenario"]
        self._before = job["session"] * (job["stopping"]["iterations"] or STRIDE)
        self._session, self._now, self._reporter = session, clock.now, reporter
        self._new: int = scenario["new_tokens"]
        self._depth: int = scenario["depth"] or 0
        self._wanted: int | None = scenario["prompt_tokens"]
        self._seed: int = workload["seed"]
        self._done = 0
        path = workload["input_path"]
        self._given = long_enough(session, read_prompts(Path(path)), self._taken()) if path else []
        self._filling = self._tokens(f"{self._seed} depth", self._depth) if self._depth else []
        if self._given and self._wanted is None:
            _check_whole(session, self._given)
        longest = max((len(session.encode(each)) for each in self._given), default=0) + bool(self._depth)
        self._room = (self._wanted or longest) + self._new
        most = job.get("longest_context")
        if most is not None and self._depth + self._room > most:  # known before loading unless prompts are of a file
            raise BadInput(
                f"depth {self._depth} + the longest prompt of the file, {longest} tokens, + {self._new} new tokens are "
                f"{self._depth + self._room} tokens; the model has a context of {most}",
                advice="cut the prompts with ⟦prompt_tokens⟧, or leave the long ones out of the file",
            )

    def _taken(self) -> int | None:
        """Tokens that are taken of a prompt's text. At a depth, its first token is the one that filling has made."""
        return None if self._wanted is None else self._wanted - bool(self._depth)

    def _tokens(self, seed: str, count: int) -> list[int]:
        return list(self._session.encode(random_text(self._session, count, seed=seed)))[:count]

    def make(self) -> Request:
        """Return the next request, timed. Raises `UnsupportedModel` where it does not make the tokens that it is to."""
        return self._answer(self._next_text(), self._new)

    def repeated(self) -> tuple[Callable[[], Request], dict[str, Callable[[], Request]]]:
        """Return what a meter's loaded windows are to hold: one request again and again, and without its decoding.

        Making random texts would be in the windows. Prompts of several lengths have no such parts: they take turns.
        """
        if self._wanted is None:
            return self.make, {}
        text = self._next_text()
        return partial(self._answer, text, self._new), {PROMPT: partial(self._answer, text, 1)}

    def _next_text(self) -> str:
        number = self._done + (self._before if self._done else 0)
        self._done += 1
        if self._given:
            return self._given[number % len(self._given)]
        return random_text(self._session, self._taken() or 0, seed=f"{self._seed} {number}")

    def _answer(self, text: str, new: int) -> Request:
        session, now, most = self._session, self._now, self._taken()
        session.fill(self._filling, room=self._room)
        self._reporter.beat()
        stamps: list[int] = []
        made: list[int] = []
        first_text = 0
        beat = self._reporter.beat

        def take(token: int) -> None:
            nonlocal first_text
            stamps.append(now())
            made.append(token)
            if len(stamps) == 1:
                session.decode([token])
                first_text = now()
            elif len(stamps) <= new:  # more than were asked for are no sign of life
                beat()

        begin = now()
        tokens = session.encode(text)[:most]
        ready = now()
        session.generate(tokens, new, take)
        if len(stamps) != new:
            raise UnsupportedModel(f"the engine made {len(stamps)} tokens instead of {new}")
        return Request(
            prompt_tokens=len(tokens) + bool(self._depth),
            begin=begin,
            ready=ready - begin,
            first_text=first_text - begin,
            tokens=[stamp - begin for stamp in stamps],
            prompt=hashlib.sha256(f"{text}\0{list(tokens)}".encode(errors="surrogatepass")).hexdigest()[:16],
            made=made,
        )


def measure(
    make: Callable[[], Request], *, stopping: Mapping[str, Any], clock: Clock, tell: Callable[..., object]
) -> tuple[list[Request], str]:
    """Return timed requests behind the first of the process, and the rule that ended them.

    A prescribed warm-up is `stopping` ``warmup`` requests, the first of the process among them.

    Args:
        tell: is told now and then, between two requests, how many are done and how fast the latest ones were.
    """
    for _ in range((stopping["warmup"] or 1) - 1):
        make()
    count, seconds = stopping["iterations"], stopping["duration_s"]
    least = count or (1 if seconds else LEAST_REQUESTS)
    begin = clock.now()
    done: list[Request] = []
    told, told_s = 0, 0.0
    while True:
        done.append(make())
        elapsed = (clock.now() - begin) / 1e9
        if elapsed - told_s >= TELL_S:
            tell(done=len(done), elapsed_s=elapsed, **rates_of(done[told:]))
            told, told_s = len(done), elapsed
        if count is not None:
            if len(done) == count:
                return done, f"{count} requests"
        elif len(done) >= MOST_REQUESTS:
            return done, f"{MOST_REQUESTS} requests"
        elif len(done) >= least and elapsed >= (seconds or MEASURE_S):
            return done, f"{seconds or MEASURE_S:g} s of requests"


def rates_of(requests: Sequence[Request]) -> dict[str, float | None]:
    """Return ``prefill_rate`` and ``decode_rate`` of requests, tokens/s; None where no time passed."""
    firsts = sum(each.tokens[0] - each.ready for each in requests)
    gaps = [gap for each in requests for gap in each.gaps]
    return {
        "prefill_rate": sum(each.prompt_tokens for each in requests) / firsts * 1e9 if firsts else None,
        "decode_rate": len(gaps) / sum(gaps) * 1e9 if sum(gaps) else None,
    }


def tell_requests(requests: list[Request]) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Return samples, ns, and what they are of: tokens of each prompt, gaps of each request, and when they began, s."""
    samples = {
        "ttft": [each.first_text for each in requests],
        "ttft_model": [each.tokens[0] - each.ready for each in requests],
        "tpot": [gap for each in requests for gap in each.gaps],
    }
    start = requests[0].begin
    facts = {
        "prompt_tokens": [each.prompt_tokens for each in requests],
        "gaps": [len(each.gaps) for each in requests],
        "first_text_s": [(each.begin + each.first_text - start) / 1e9 for each in requests],
    }
    return samples, facts


def tell_answers(requests: Sequence[Request]) -> list[tuple[str, list[int]]]:
    """Prompt and new tokens of each request, until `MOST_KEPT` tokens."""
    kept: list[tuple[str, list[int]]] = []
    room = MOST_KEPT
    for each in requests:
        if room <= 0:
            break
        kept.append((each.prompt, each.made[:room]))
        room -= len(each.made)
    return kept


def random_text(session: Generates, count: int, *, seed: str) -> str:
    """Return a text of `count` random tokens or a few more, the same for each `seed`.

    The text of random tokens is seldom made of the same ones, so that its own tokens are taken until their number fits.

    Raises `BadInput` where the tokenizer cuts texts to fewer tokens than that.
    """
    chance = random.Random(seed)  # noqa: S311  nothing is kept secret by it
    tokens = list(_some(session, count, chance))
    text = ""
    for _ in range(_ATTEMPTS):
        text = session.decode(tokens)
        found = list(session.encode(text))
        if len(found) == count:
            return text
        tokens = found[:count] + _some(session, count - len(found), chance)
    reached, vain = 0, 0
    while len(found := list(session.encode(text))) < count:
        reached, vain = max(reached, len(found)), vain + 1 if len(found) <= reached else 0
        if vain > _VAIN:
            raise BadInput(
                f"the model's tokenizer takes no more than {reached} tokens of a text, and {count} are needed",
                advice="lower ⟦prompt_tokens⟧ or ⟦depth⟧",
            )
        # Behind what was text: tokens that are none may hide all that follow them.
        text = session.decode(found + _some(session, count, chance))
    return text


def _check_whole(session: Generates, prompts: Sequence[str]) -> None:
    """Refuse prompts that the tokenizer cuts: the longest twice would have no more tokens than once. `BadInput`."""
    longest = max(prompts, key=lambda each: len(session.encode(each)))
    most = len(session.encode(longest))
    if len(session.encode(f"{longest} {longest}")) <= most:
        raise BadInput(
            f"the model's tokenizer takes no more than {most} tokens of a text, and a prompt of the file has more",
            advice="cut the prompts with ⟦prompt_tokens⟧, or leave the long ones out of the file",
        )


def _some(session: Generates, count: int, chance: random.Random) -> list[int]:
    return [chance.randrange(session.vocabulary) for _ in range(count)]


def long_enough(session: Generates, prompts: Sequence[str], count: int | None) -> list[str]:
    """Those of `prompts` with `count` tokens or more; without a `count` all. Raises `BadInput` for none."""
    lengths = [len(session.encode(prompt)) for prompt in prompts]
    found = [prompt for prompt, length in zip(prompts, lengths, strict=True) if length >= (count or 1)]
    if not found:
        raise BadInput(
            f"no prompt of the file has {count or 1} tokens in this model; the longest has {max(lengths)}",
            advice="lower ⟦prompt_tokens⟧, or give longer prompts to ⟦input_data⟧",
        )
    return found
