"""Prompts of a language model: from a file with one in each line, or random tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.runtime.base import Generates, UnsupportedModel

MOST_PROMPTS = 1000
"""The first of a file are taken; the rest is not read."""
MOST_LINE_BYTES = 2**20
FIELDS = ("prompt", "text")
_ATTEMPTS = 8
_ADVICE = 'give a file with a line {"prompt": "…"} for each prompt to ⟦input_data⟧'


def read_prompts(path: Path) -> list[str]:
    """The first `MOST_PROMPTS` prompts of a file: each line is a JSON text, or an object with one under `FIELDS`.

    Raises:
        BadInput: it can't be read, a line is none of these, or it has no prompt.
    """
    found = []
    try:
        with path.open("rb") as file:
            for number in range(1, MOST_PROMPTS + 1):
                line = file.readline(MOST_LINE_BYTES + 1)
                if not line:
                    break
                if len(line) > MOST_LINE_BYTES:
                    raise BadInput(f"line {number} of {path.name} is longer than {MOST_LINE_BYTES} B", advice=_ADVICE)
                if line.strip():
                    found.append(_prompt_of(line, f"line {number} of {path.name}"))
    except OSError as error:
        raise BadInput(f"can't read {path}: {error.strerror}", advice=_ADVICE) from error
    if not found:
        raise BadInput(f"{path.name} has no prompt", advice=_ADVICE)
    return found


def _prompt_of(line: bytes, where: str) -> str:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not JSON", advice=_ADVICE) from error
    if isinstance(entry, dict):
        entry = next((entry[name] for name in FIELDS if name in entry), None)
    if not isinstance(entry, str) or not entry.strip():
        raise BadInput(f"{where} has no text under {' or '.join(FIELDS)}", advice=_ADVICE)
    return entry


def random_text(session: Generates, count: int, *, seed: str) -> str:
    """A text of `count` random tokens or a few more, the same for each `seed`.

    The text of random tokens is seldom made of the same ones, so that its own tokens are taken until their number fits.
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
    while len(session.encode(text)) < count:
        tokens += _some(session, count, chance)
        text = session.decode(tokens)
    return text


def _some(session: Generates, count: int, chance: random.Random) -> list[int]:
    return [chance.randrange(session.vocabulary) for _ in range(count)]


def long_enough(session: Generates, prompts: Sequence[str], count: int | None) -> list[str]:
    """Those of `prompts` with `count` tokens or more; without a `count` all. Raises `UnsupportedModel` for none."""
    lengths = [len(session.encode(prompt)) for prompt in prompts]
    found = [prompt for prompt, length in zip(prompts, lengths, strict=True) if length >= (count or 1)]
    if not found:
        raise UnsupportedModel(
            f"no prompt of the file has {count or 1} tokens in this model; the longest has {max(lengths)}"
        )
    return found
