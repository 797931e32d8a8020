"""Files of other tools as text, JSON or bytes: size, encoding, places in errors. Their content may be hostile."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.safe_yaml import parse_value
from edgewise.text import one_line
from edgewise.units import format_bytes

IN_BUNDLE = "report.json"
"""The file that is read of a folder that a tool wrote."""
MOST_BYTES = 32 * 2**20
HEAD_CHARACTERS = 64 * 2**10
"""A file is recognised by this much of its beginning."""
LARGEST = 1e15
"""No quantity of a benchmark is larger, in any unit."""
MOST_WORD = 200
"""Longest name of a model, layer or setting that is kept, in characters."""

UNITS = {
    "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
    "B": 1.0, "bytes": 1.0, "KiB": 2.0**10, "KB": 1e3, "MiB": 2.0**20, "MB": 1e6,
    "J": 1.0, "uJ": 1e-6, "Hz": 1.0, "%": 1e-2, "1": 1.0, "1/s": 1.0, "qps": 1.0, "FPS": 1.0,
}  # fmt: skip
"""Units of fields → SI."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|[@-Z\\-_])")
_BINARY = ((b"\x80", "a pickle"), (b"PK\x03\x04", "a zip archive"))


@dataclass(frozen=True)
class SourceFile:
    """A file as read.

    Attributes:
        text: without colours, and with a line feed at the end of each line; of a binary file a character per byte.
        not_text: why the file is binary; None for text.
    """

    path: Path
    text: str
    sha256: str
    modified: float
    not_text: BadInput | None = None

    @property
    def head(self) -> str:
        """The beginning, by which a file is recognised."""
        return self.text[:HEAD_CHARACTERS]

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def line_at(self, position: int) -> int:
        """Return the number of the line, from 1, at a position of `text`."""
        return bisect_left(self._line_ends, position) + 1

    def position_of(self, line: int) -> int:
        """Return where a line, counted from 1, begins in `text`."""
        return self._line_ends[line - 2] + 1 if line > 1 else 0

    def error(self, at: str, problem: str, advice: str = "") -> BadInput:
        """Return the error at a place of the file: ``line 3`` or a JSON path."""
        return BadInput(f"{self.path}, {at}: {problem}", advice=advice or "check that the file is complete")


def read_source(path: Path) -> SourceFile:
    """Read a file, or `IN_BUNDLE` of a folder, of at most `MOST_BYTES`. Raises `BadInput` where it can't be read."""
    place = path
    try:
        place = path / IN_BUNDLE if path.is_dir() else path
        with place.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
            modified = place.stat().st_mtime
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"can't read {place}: {reason}", advice="give a file that a tool wrote") from None
    if len(content) > MOST_BYTES:
        raise BadInput(f"{path} is larger than {format_bytes(MOST_BYTES)}", advice="import a summary of it")
    digest, not_text = hashlib.sha256(content).hexdigest(), None
    try:
        text = _decode(content, path)
    except BadInput as error:
        text, not_text = content.decode("latin-1"), error
    return SourceFile(path=path, text=text, sha256=digest, modified=modified, not_text=not_text)


def _decode(content: bytes, path: Path) -> str:
    for beginning, kind in _BINARY:
        if content.startswith(beginning):
            raise BadInput(
                f"{path} is {kind}: it is not read, because reading may run code in it",
                advice="save what the tool prints as text: print(measurement)",
            )
    # PowerShell writes the output of a command as UTF-16.
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput(f"{path}, line {line}: not text in UTF-8 or UTF-16", advice="save it as UTF-8") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise BadInput(f"{path}, line {line}: not text: it contains a NUL character", advice="save it as UTF-8")
    return _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def parse_json(source: SourceFile, text: str | None = None, *, line: int = 1) -> Any:
    """Return the JSON value of a file, or of its part `text` that begins at `line`. Raises `BadInput` with the line."""
    text = source.text if text is None else text

    def refuse(constant: str) -> float:
        at = re.search(rf"(?<![\w\"]){re.escape(constant)}(?![\w\"])", text)
        place = line + text.count("\n", 0, at.start() if at else 0)
        raise source.error(f"line {place}", f"{constant} is not a number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise source.error(f"line {line + error.lineno - 1}", f"not JSON: {error.msg}") from None
    except RecursionError:
        raise source.error(f"line {line}", "JSON is nested too deeply") from None
    except ValueError as error:  # an integer of more than 4,300 digits
        raise source.error(f"line {line}", f"not JSON: {one_line(str(error))[:MOST_WORD]}") from None


def parse_json_lines(source: SourceFile) -> list[tuple[int, Any]]:
    """Return the JSON value of each line that is not blank, with the line's number. Raises `BadInput`."""
    lines = enumerate(source.text.split("\n"), 1)
    return [(number, parse_json(source, text, line=number)) for number, text in lines if text.strip()]


def parse_table(source: SourceFile, head: str) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of CSV or Markdown tables as column → cell, with their line's number; empty cells are left out.

    `head`: regular expression of the line with the columns. Before the first one may be other text. Raises `BadInput`:
    a row has another number of cells than its table has columns.
    """
    rows, columns = list[tuple[int, dict[str, str]]](), list[str]()
    for number, line in enumerate(source.text.split("\n"), 1):
        is_head, is_markdown = re.search(head, line) is not None, line.startswith("|")
        try:
            text = line.strip().removesuffix("|")[1:]
            cells = text.split("|") if is_markdown else next(csv.reader([line], strict=True), [])
        except csv.Error as error:
            raise source.error(f"line {number}", f"not CSV: {error}") from None
        cells = [cell.strip() for cell in cells]
        if is_head:
            columns, in_markdown = cells, is_markdown
        elif columns and any(cells) and is_markdown == in_markdown and not (is_markdown and set(line) <= set("|-: ")):
            if len(cells) != len(columns):
                raise source.error(f"line {number}", f"{len(cells)} cells in a table of {len(columns)} columns")
            rows.append((number, {name: cell for name, cell in zip(columns, cells, strict=True) if cell}))
    return rows


def parse_yaml(source: SourceFile) -> Any:
    """Return the value of a YAML file, all its scalars as text. Raises `BadInput`."""
    try:
        return parse_value(source.text, source.path.name)
    except BadInput as error:
        raise source.error("the document", *error.marked) from None


def to_number(value: Any, source: SourceFile, *, at: str, what: str, least: float = 0.0) -> float:
    """Return `value` as a finite number from `least` to `LARGEST`. Raises `BadInput` with the place."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not least <= number <= LARGEST:
        shown = one_line(str(value))[:40] if isinstance(value, str | int | float) else type(value).__name__
        raise source.error(at, f"{what} is {shown!r}; expected a number from {least:g} to {LARGEST:g}")
    return number


def to_word(value: Any) -> str:
    """Return a name as one printable line of at most `MOST_WORD` characters."""
    return one_line(str(value)[: 4 * MOST_WORD])[:MOST_WORD]
