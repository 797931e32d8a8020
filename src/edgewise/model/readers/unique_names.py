"""Names that are given once."""

from __future__ import annotations

from edgewise.model.readers.archive import SHORT_TEXT


class UniqueNames:
    """Gives every name once: a second ``conv`` is ``conv_2``. A file full of one name costs no more than any other."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, wanted: str, *, fallback: str = "step") -> str:
        """`wanted`, shortened, or what comes closest to it and is free."""
        base = wanted[:SHORT_TEXT] or fallback
        found, count = base, self._counts.get(base, 1)
        while found in self._taken:
            count += 1
            found = f"{base}_{count}"
        self._counts[base] = count
        self._taken.add(found)
        return found
