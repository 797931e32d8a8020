"""Tables: names of files, texts, or numbers, one sample per row."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Kind, Sample
from edgewise.evaluating.formats.files import Files, check_name, check_some_there, require_decoder
from edgewise.evaluating.formats.labels import KINDS, Labels, is_number, read_words
from edgewise.evaluating.formats.listing import IMAGES, SOUNDS, suffix_of
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import ALL, Split, find_split, parse_words, stamp_files
from edgewise.workload.arrays import Array

_PATHS = ("path", "file", "filename", "file_name", "image", "image_path", "audio")
_TEXTS = ("text", "sentence")
_LABELS = ("label", "class", "target", "y", "reference", "references")
_REFERENCES = ("reference", "references")
"""_Columns of labels that are texts."""
_SPLITS = ("split",)
_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "\\t": "\t"}
_HEAD_BYTES = 2**16
_FILES_TO_TRY = 100
_ADVICE = "files are named relative to the table; root=FOLDER if they are elsewhere"


@dataclass(kw_only=True)
class TableRows(Split):
    """Texts or numbers in the rows of a table.

    Attributes:
        data: text, or numbers (float64), of every sample.
        lines: of the table, of every sample.
    """

    data: Sequence[str] | Array
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, index: int) -> Sample:
        """Return the sample."""
        name = f"{self.name}, line {self.lines[index]}"
        return Sample(index=index, name=name, data=self.data[index], label=self.label_of(index))


class Csv(BuiltInFormat):
    """A table with names of columns in its first row: ``path`` (images, ``.npy``, WAV), or ``text``, or numbers in all
    columns; ``label``, and ``split`` if there is one.

    Labels that are all whole numbers are class indices, all numbers are values to predict, anything else are names of
    classes, numbered in their order; in a column ``reference`` they are texts.

    Options: ``path``, ``text``, ``columns``, ``label``, ``split``: which columns; ``label_kind`` = class, float or
    text; ``separator``, between texts of which any counts; ``classes``, in their order; ``delimiter``; ``header`` = no;
    ``root``, the folder that files are relative to.
    """

    name = "csv"
    title = "tables: names of files, texts or numbers, one sample per row"
    options: ClassVar = {
        "path": (), "text": (), "columns": (), "label": (), "split": (), "label_kind": KINDS, "separator": (),
        "classes": (), "delimiter": (), "header": ("yes", "no"), "root": (),
    }  # fmt: skip

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        if not path.is_file():
            raise BadInput(f"{path} is not a file", advice="give a .csv or .tsv file")
        table = _read_table(path, options)
        root = Path(options["root"]) if "root" in options else path.parent
        kind = _find_kind(path, table, root)
        labels = _read_labels(path, table, options)
        splits: dict[str, list[int]] = {}
        for row in range(len(table.lines)):
            word = table.splits[row].strip() if table.splits else ""
            splits.setdefault((find_split(word) or word) if word else ALL, []).append(row)
        found: dict[str, Dataset] = {}
        for split, rows in splits.items():
            about: dict[str, Any] = {
                "name": path.name, "path": path, "format": self.name, "split": split, "kind": kind,
                "labels": labels and replace(labels, values=[labels.values[row] for row in rows]),
                "about": (sorted(options.items()), stamp_files(path.parent, [path.name])),
            }  # fmt: skip
            if table.columns.path is not None:
                files = [table.sources[row] for row in rows]
                found[split] = Files(root=root, files=files, confined=True, **about)
                continue
            data = [table.sources[row] for row in rows] if kind == "text" else table.features[rows]
            found[split] = TableRows(data=data, lines=[table.lines[row] for row in rows], **about)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Numbers of the columns of a table. Samples are one of: files named in `path`, texts in `text`, the numbers in
    `features`.

    Attributes:
        names: of all columns.
    """

    names: Sequence[str]
    path: int | None = None
    text: int | None = None
    features: Sequence[int] = ()
    label: int | None = None
    split: int | None = None

    @property
    def source(self) -> int | None:
        """The column of files or texts; None where samples are numbers."""
        return self.path if self.path is not None else self.text


@dataclass(kw_only=True)
class _Table:
    """A table column by column: `features` are numbers, [rows, columns], and lists of absent columns are empty."""

    columns: _Columns
    lines: list[int]
    sources: list[str]
    features: Array
    labels: list[str]
    splits: list[str]


def _read_table(file: Path, options: Mapping[str, str]) -> _Table:
    rows = _read_rows(file, options)
    _, names = next(rows)
    columns = _find_columns(file, names, options)
    lines: list[int] = []
    words: dict[int | None, list[str]] = {
        number: [] for number in (columns.source, columns.label, columns.split) if number is not None
    }
    features = array("d")
    for line, row in rows:
        lines.append(line)
        for number, column in words.items():
            column.append(row[number or 0])
        for number in columns.features:
            if not is_number(row[number]):
                raise BadInput(
                    f"{file.name}, line {line}: {row[number][:40]!r} in the column {names[number]!r} is not a number",
                    advice="name the columns of numbers with columns=a,b, or those of files or texts with path=, text=",
                )
            features.append(float(row[number]))
    if not lines:
        raise BadInput(f"{file.name} has no rows below the names of its columns", advice="one row a sample")
    return _Table(
        columns=columns, lines=lines, sources=words.get(columns.source, []), labels=words.get(columns.label, []),
        splits=words.get(columns.split, []), features=np.array(features).reshape(len(lines), len(columns.features)),
    )  # fmt: skip


def _find_kind(file: Path, table: _Table, root: Path) -> Kind:
    """Return the kind of all samples; names of files are checked, the files are not read."""
    if table.columns.path is None:
        return "text" if table.columns.text is not None else "array"
    kinds: dict[Kind, str] = {}
    for name, line in zip(table.sources, table.lines, strict=True):
        place = f"{file.name}, line {line}"
        check_name(name, place, advice=_ADVICE)
        kinds.setdefault(_find_kind_of_file(name, place), place)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise BadInput(f"{first} names a file of the kind {one}, {second} one of the kind {other}",
                       advice="one kind in one data set")  # fmt: skip
    check_some_there(root, table.sources[:_FILES_TO_TRY], advice=_ADVICE)
    kind = next(iter(kinds))
    require_decoder(kind)
    return kind


def _find_kind_of_file(name: str, place: str) -> Kind:
    ending = suffix_of(name)
    if ending in IMAGES:
        return "image"
    if ending in SOUNDS:
        return "audio"
    if ending == ".npy":
        return "array"
    known = ", ".join(sorted({*IMAGES, *SOUNDS, ".npy"}))
    raise BadInput(f"{place} names {name[:80]!r}, which is of no kind that can be read", advice=f"one of {known}")


def _read_labels(file: Path, table: _Table, options: Mapping[str, str]) -> Labels | None:
    """Return the labels of all rows; None where no row has one."""
    kind, label = options.get("label_kind"), table.columns.label
    if kind is None and label is not None and table.columns.names[label].strip().lower() in _REFERENCES:
        kind = "text"
    if "separator" in options and kind != "text":
        raise BadInput("separator= is between texts", advice="with label_kind=text")
    if "classes" in options and kind not in (None, "class"):
        raise BadInput(f"labels of the kind {kind} have no classes", advice="leave classes= out")
    if label is None or not any(word.strip() for word in table.labels):
        return None
    return read_words(
        table.labels, kind=kind, place=lambda row: f"{file.name}, line {table.lines[row]}",
        separator=options.get("separator"), classes=parse_words(options.get("classes", "")),
    )  # fmt: skip


def _find_columns(file: Path, names: Sequence[str], options: Mapping[str, str]) -> _Columns:
    """Return the columns' roles: from the user, else by their names.

    Raises `BadInput`: a column that is not there, or names that could mean two things.
    """
    small = [name.strip().lower() for name in names]
    if len(set(small)) != len(small):
        twice = next(name for name in small if small.count(name) > 1)
        raise BadInput(f"{file.name} has two columns {twice!r}", advice="give each column a name of its own")

    def find(option: str, usual: Sequence[str]) -> int | None:
        if option not in options:
            return next((small.index(name) for name in usual if name in small), None)
        return _find_column(file, names, options[option])

    sources = [name for name in ("path", "text", "columns") if name in options]
    if len(sources) > 1:
        raise BadInput(f"samples can't be both {sources[0]}= and {sources[1]}=", advice="give one of them")
    label, split = find("label", _LABELS), find("split", _SPLITS)
    taken = [number for number in (label, split) if number is not None]
    if "columns" in options:
        features = [_find_column(file, names, name) for name in parse_words(options["columns"])]
        return _Columns(names=names, features=features, label=label, split=split)
    path = None if "text" in options else find("path", _PATHS)
    text = None if "path" in options else find("text", _TEXTS)
    path, text = (None if number in taken else number for number in (path, text))
    if path is not None and text is not None:
        raise BadInput(
            f"{file.name} has files in {names[path]!r} and texts in {names[text]!r}",
            advice=f"choose the samples: path={names[path]} or text={names[text]}",
        )
    features = [number for number in range(len(names)) if number not in taken] if path is None and text is None else []
    if path is None and text is None and not features:
        raise BadInput(f"{file.name} has no column of samples", advice="a column path, or text, or columns of numbers")
    return _Columns(names=names, path=path, text=text, features=features, label=label, split=split)


def _read_rows(file: Path, options: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, row) of every row that is not empty, the names of the columns first.

    Raises `BadInput`: it can't be read as text in UTF-8, or a row has more or fewer columns than the first.
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
    """Return the user's delimiter, else a tab in a ``.tsv``, else the most frequent of comma, semicolon and tab."""
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


def _find_column(file: Path, names: Sequence[str], wanted: str) -> int:
    small = [name.strip().lower() for name in names]
    if wanted.strip().lower() not in small:
        known = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
        raise BadInput(f"{file.name} has no column {wanted!r}", advice=f"it has: {known}")
    return small.index(wanted.strip().lower())
