"""Text files: pieces of a text, each with the text before it, to see how well a language model predicts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Dataset, Sample
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import ALL, Split

PIECE_BYTES = 1024
LEAST_BYTES, MOST_BYTES = 64, 2**20
BEFORE_BYTES = 2**15
"""Of the text before a piece that are read at most: more than a usual context has."""
_REACH = 32
"""Bytes in which white space is looked for, behind the place where a piece would end; fewer than any piece has."""
_SPACE = b" \t\n\r\v\f"
_ADVICE = "give a text of several kilobytes, in UTF-8"


@dataclass(kw_only=True)
class Pieces(Split):
    """Pieces of a text file, read when they are asked for.

    Attributes:
        size: of the file, bytes.
        step: bytes of a piece, the white space that it begins with included, ± `_REACH`.
    """

    file: Path
    size: int
    step: int

    def __len__(self) -> int:
        count = -(-self.size // self.step)
        with self.file.open("rb") as file:
            while count and self._edge(file, count - 1) >= self.size:
                count -= 1
        return count

    def read(self, index: int) -> Sample:
        """Return a piece as the label, and the text before it. Raises `CorruptSample`."""
        try:
            with self.file.open("rb") as file:
                begin, end = self._edge(file, index), self._edge(file, index + 1)
                start = max(0, begin - BEFORE_BYTES)
                file.seek(start)
                data = file.read(end - start)
        except OSError as error:
            raise BadInput(f"can't read {self.file}: {error.strerror}", advice=_ADVICE) from error
        name = f"{self.name}, bytes {begin} to {end}"
        try:
            piece = data[begin - start :].decode()
        except UnicodeDecodeError as error:
            raise CorruptSample(name, "it is not UTF-8") from error
        # The text before it may begin within a character.
        return Sample(index=index, name=name, data=data[: begin - start].decode(errors="ignore"), label=piece)

    def _edge(self, file: IO[bytes], number: int) -> int:
        """Return where piece `number` begins: before white space, or where a character does if there is none."""
        target = max(1, number * self.step)
        if target >= self.size:
            return self.size
        file.seek(target - 1)
        near = file.read(_REACH)
        for place in range(1, len(near)):
            if near[place] in _SPACE and near[place - 1] not in _SPACE:
                return target - 1 + place
        whole = next((place for place in range(1, len(near)) if near[place] & 0xC0 != 0x80), len(near))
        return target - 1 + whole

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """As `Split.find_files`."""
        return self.file.parent, [self.file.name]


class Text(BuiltInFormat):
    """A text file in UTF-8, cut at white space into pieces of about ``bytes`` bytes (1024). Its first word has nothing
    before it, and so belongs to no piece.

    Options: ``bytes``.
    """

    name = "text"
    title = "text files: pieces of a text, for perplexity"
    options: ClassVar = {"bytes": ()}

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        try:
            size = path.stat().st_size if path.is_file() else 0
        except OSError as error:
            raise BadInput(f"can't read {path}: {error.strerror}", advice=_ADVICE) from error
        step = _read_step(options.get("bytes", str(PIECE_BYTES)))
        found = Pieces(
            name=path.name, path=path, format=self.name, split=ALL, kind="text", labelled=True, about=step,
            file=path, size=size, step=step,
        )  # fmt: skip
        if not size or not len(found):
            raise BadInput(f"{path.name} has no text after its first word", advice=_ADVICE)
        return {ALL: found}


def _read_step(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 9 and LEAST_BYTES <= int(word) <= MOST_BYTES):
        raise BadInput(f"the data option bytes must be {LEAST_BYTES} to {MOST_BYTES}, not {word}")
    return int(word)
