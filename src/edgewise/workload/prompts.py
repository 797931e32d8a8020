"""Prompts of a language model from a file with one in each line."""

from __future__ import annotations

import json
from pathlib import Path

from edgewise.errors import BadInput

MOST_PROMPTS = 1000
"""The first of a file are taken; the rest is not read."""
MOST_LINE_BYTES = 2**20
FIELDS = ("prompt", "text")
_ADVICE = 'give a file with a line {"prompt": "…"} for each prompt to ⟦input_data⟧'


def read_prompts(path: Path) -> list[str]:
    """Return the first `MOST_PROMPTS` prompts of a file: each line is a JSON text, or an object with one under
    `FIELDS`.

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
