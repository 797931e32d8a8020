"""Words from anywhere, made fit to be printed, and the words that tell things apart."""

from __future__ import annotations

from collections.abc import Sequence


def one_line(text: str) -> str:
    """`text` with every run of white space and control characters made one space: names and errors are hostile."""
    cleaned = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(cleaned.split())


def enumerate_few(words: Sequence[str], most: int = 4) -> str:
    """``"a, b, c, d and 3 others"``: at most `most` of `words`, or one more where that is the last."""
    rest = len(words) - most
    if rest > 1:
        return f"{', '.join(words[:most])} and {rest} others"
    return " and ".join(", ".join(part) for part in (words[:-1], words[-1:]) if part)


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
