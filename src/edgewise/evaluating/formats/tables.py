"""Tables in text files: their rows and columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.formats.labels import is_number
from edgewise.evaluating.formats.split import parse_words

PATHS = ("path", "file", "filename", "file_name", "image", "image_path", "audio")
TEXTS = ("text", "sentence")
LABELS = ("label", "class", "target", "y", "reference", "references")
REFERENCES = ("reference", "references")
"""Columns of labels that are texts."""
SPLITS = ("split",)
_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "\\t": "\t"}
_HEAD_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Numbers of the columns of a table. Samples are one of: files named in `path`, texts in `text`, the numbers in
    `features`.

    Attributes:
        names: of all columns.
    """

    names: Sequence[str]
    path: int | None = None
    text: int | None = None
    features: Sequence[int] = field(default=())
    label: int | None = None
    split: int | None = None

    @property
    def source(self) -> int | None:
        """The column of files or texts; None where samples are numbers."""
        return self.path if self.path is not None else self.text

    @property
    def label_name(self) -> str:
        """What the column of labels is called; empty where there is none."""
        return "" if self.label is None else self.names[self.label]


def find_columns(file: Path, names: Sequence[str], options: Mapping[str, str]) -> Columns:
    """The columns' roles: from the user, else by their names.

    Raises:
        BadInput: a column that is not there, or names that could mean two things.
    """
    small = [name.strip().lower() for name in names]
    if len(set(small)) != len(small):
        twice = next(name for name in small if small.count(name) > 1)
        raise BadInput(f"{file.name} has two columns {twice!r}", advice="give each column a name of its own")

    def find(option: str, usual: Sequence[str]) -> int | None:
        if option not in options:
            return next((small.index(name) for name in usual if name in small), None)
        return _find(file, names, options[option])

    sources = [name for name in ("path", "text", "columns") if name in options]
    if len(sources) > 1:
        raise BadInput(f"samples can't be both {sources[0]}= and {sources[1]}=", advice="give one of them")
    label, split = find("label", LABELS), find("split", SPLITS)
    taken = [number for number in (label, split) if number is not None]
    if "columns" in options:
        features = [_find(file, names, name) for name in parse_words(options["columns"])]
        return Columns(names=names, features=features, label=label, split=split)
    path = None if "text" in options else find("path", PATHS)
    text = None if "path" in options else find("text", TEXTS)
    path, text = (None if number in taken else number for number in (path, text))
    if path is not None and text is not None:
        raise BadInput(
            f"{file.name} has files in {names[path]!r} and texts in {names[text]!r}",
            advice=f"choose the samples: path={names[path]} or text={names[text]}",
        )
    features = [number for number in range(len(names)) if number not in taken] if path is None and text is None else []
    if path is None and text is None and not features:
        raise BadInput(f"{file.name} has no column of samples", advice="a column path, or text, or columns of numbers")
    return Columns(names=names, path=path, text=text, features=features, label=label, split=split)


def read_rows(file: Path, options: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, the names of its columns first, each with the number of its line; empty ones are left out.

    Raises:
        BadInput: it can't be read as text in UTF-8, or a row has more or fewer columns than the first.
    """
    try:
        with file.open("r", encoding="utf-8-sig", newline="") as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(0)
            reader = csv.reader(stream, delimiter=_find_delimiter(file, head, options), strict=True)
            width = None
            for row in reader:
                check()
                if not any(row):
                    continue
                if width is None:
                    width = len(row)
                    if options.get("header") == "no":
                        yield 0, [str(number) for number in range(width)]
                    elif all(is_number(word) for word in row):
                        raise BadInput(
                            f"the first row of {file.name} has numbers, not names of columns",
                            advice="header=no if it has none: columns are then called 0, 1, …",
                        )
                if len(row) != width:
                    raise BadInput(
                        f"{file.name}, line {reader.line_num}: {len(row)} columns, the first row has {width}",
                        advice="put text that contains a delimiter in quotes",
                    )
                yield reader.line_num, row
            if width is None:
                raise BadInput(f"{file.name} is empty", advice="names of columns, then one row a sample")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name} is not text in UTF-8: {error.reason}", advice="save it in UTF-8") from error
    except csv.Error as error:
        raise BadInput(f"{file.name} is not a table: {error}", advice="set delimiter= if it is another") from error
    except OSError as error:
        raise BadInput(f"can't read {file}: {error.strerror or error}", advice="give a .csv file") from error


def _find_delimiter(file: Path, head: str, options: Mapping[str, str]) -> str:
    """The user's; a tab in a ``.tsv``; else the most frequent of comma, semicolon and tab in the first line."""
    if "delimiter" in options:
        found = _DELIMITERS.get(options["delimiter"], options["delimiter"])
        if len(found) != 1 or found in '"\r\n ':
            raise BadInput(
                f"delimiter={options['delimiter']} is not a single character", advice="or comma, semicolon, tab, pipe"
            )
        return found
    if file.suffix.lower() == ".tsv":
        return "\t"
    lines = head.splitlines()
    return max(",;\t", key=(lines[0] if lines else "").count)


def _find(file: Path, names: Sequence[str], wanted: str) -> int:
    small = [name.strip().lower() for name in names]
    if wanted.strip().lower() not in small:
        known = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
        raise BadInput(f"{file.name} has no column {wanted!r}", advice=f"it has: {known}")
    return small.index(wanted.strip().lower())
