"""Words from anywhere, made fit to be printed, and the words that tell things apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def one_line(text: str) -> str:
    """`text` with every run of white space and control characters made one space: names and errors are hostile."""
    cleaned = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(cleaned.split())


def without_controls(text: str) -> str:
    """`text` with U+FFFD for every character that XML or UTF-8 can't hold: controls but tab and newline, surrogates."""
    return _NO_TEXT.sub("\ufffd", text)


def tells_apart(chosen: Sequence[Sequence[str]], words: Sequence[str]) -> list[bool]:
    """Per thing: is there another one with the same words so far that differs in this one?

    Args:
        chosen: the words of each thing so far.
        words: one more word of each.
    """
    kinds: dict[tuple[str, ...], set[str]] = {}
    for own, word in zip(chosen, words, strict=True):
        kinds.setdefault(tuple(own), set()).add(word)
    return [len(kinds[tuple(own)]) > 1 for own in chosen]
