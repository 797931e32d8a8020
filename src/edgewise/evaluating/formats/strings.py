"""Many texts in little memory: names of the files of large data sets, and texts of tables."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import overload


class Strings(Sequence[str]):
    """Texts one after another in one piece of memory: 8 bytes and its own UTF-8 for each.

    A list of a million file names takes about 100 MB, this about a third. Names that are no valid Unicode, as files may
    have, come back as they were.
    """

    __slots__ = ("_bytes", "_ends")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes = bytearray()
        self._ends = array("Q")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add one at the end."""
        self._bytes += text.encode("utf-8", "surrogateescape")
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        number = range(len(self._ends))[index]
        start = self._ends[number - 1] if number else 0
        return self._bytes[start : self._ends[number]].decode("utf-8", "surrogateescape")
