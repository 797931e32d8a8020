"""Names that are given once."""

from __future__ import annotations

from edgewise.model.readers.archive import SHORT_TEXT


class UniqueNames:
    """Gives every name once: a second ``conv`` is ``conv_2``. A file full of one name costs no more than any other.

    Args:
        numbered: how a name and its number become one.
        longest: characters of a name that are kept.
    """

    def __init__(self, numbered: str = "{}_{}", *, longest: int = SHORT_TEXT) -> None:
        self._numbered, self._longest = numbered, longest
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """`wanted`, shortened, or what comes closest to it and is free."""
        base = wanted[: self._longest] or "step"
        found, count = base, self._counts.get(base, 1)
        while found in self._taken:
            count += 1
            found = self._numbered.format(base, count)
        self._counts[base] = count
        self._taken.add(found)
        return found
