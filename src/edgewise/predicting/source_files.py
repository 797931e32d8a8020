"""Files of published results: their text, and places in them that errors name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput

MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, as errors name it: the number of a line, or words."""

    path: Path
    at: int | str

    def error(self, problem: str, advice: str) -> BadInput:
        """Return what is wrong there."""
        at = f"line {self.at}" if isinstance(self.at, int) else self.at
        return BadInput(f"{self.path}, {at}: {problem}", advice=advice)

    def count(self, text: Any, what: str) -> int:
        """`text` as a whole number of at least 1, also written as ``4.0``. Raises `BadInput`."""
        value = self.positive(text, what)
        if value != int(value):
            raise self.error(f"{what} is {str(text)[:40]!r}, not a whole number", "leave out what is not known")
        return int(value)

    def positive(self, text: Any, what: str) -> float:
        """`text` as a number above 0. Raises `BadInput`."""
        try:
            value = float(text)
        except (TypeError, ValueError):
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise self.error(f"{what} is {str(text)[:40]!r}, not a number above 0", "leave out what was not measured")
        return value


def read_text(path: Path) -> str:
    """Return the text of a file. Raises `BadInput` for one that is too large, unreadable or not UTF-8."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} is larger than {MOST_BYTES // 2**20} MiB", advice="is it the right file?")
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} can't be read: {error}", advice="give your own copy of the results") from None


def files_below(path: Path, pattern: str) -> list[Path]:
    """Return the file itself, or those in a folder and below it."""
    return sorted(path.rglob(pattern)) if path.is_dir() else [path]
