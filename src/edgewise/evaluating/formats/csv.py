"""Tables: names of files, texts, or numbers, one sample per row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Kind, Sample
from edgewise.evaluating.formats.arrays import read_array_file
from edgewise.evaluating.formats.images import decode_image, require_pillow
from edgewise.evaluating.formats.inside import check_name, check_some_there, find_inside
from edgewise.evaluating.formats.labels import KINDS, Labels, is_number, read_words
from edgewise.evaluating.formats.listing import IMAGES, SOUNDS, suffix_of
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.sounds import decode_sound, require_soundfile
from edgewise.evaluating.formats.split import (
    ALL,
    Split,
    check_options,
    choose,
    find_split,
    parse_words,
    stamp_files,
)
from edgewise.evaluating.formats.strings import Strings
from edgewise.evaluating.formats.tables import REFERENCES, Columns, find_columns, read_rows

_OPTIONS = ("path", "text", "columns", "label", "split", "label_kind", "separator", "classes", "delimiter", "header",
            "root")  # fmt: skip
_FILES_TO_TRY = 100
_ADVICE = "files are named relative to the table; root=FOLDER if they are elsewhere"


@dataclass(kw_only=True)
class TableRows(Split):
    """Rows of a table. Either `sources`, names of files or texts, or `features` hold the samples.

    Attributes:
        file: the table.
        root: what names of files are relative to; None where samples are in the table itself.
        rows: which rows of the table are of this split.
        lines: of the table, for every row.
        reading: the user's options for the table.
        features: of all rows, one after the other, `width` numbers each.
    """

    file: Path
    root: Path | None
    rows: Sequence[int]
    lines: Sequence[int]
    sources: Sequence[str]
    features: array[float]
    width: int
    labels: Labels | None
    reading: str

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, index: int) -> Sample:
        """The sample, decoded now. Raises `CorruptSample`."""
        row = self.rows[index]
        label = None if self.labels is None else self.labels.values[row]
        if self.root is not None:
            name = self.sources[row]
            data, rate = self._read_file(self.root, name)
            return Sample(index=index, name=name, data=data, label=label, rate=rate)
        name = f"{self.name}, line {self.lines[row]}"
        if self.kind == "text":
            return Sample(index=index, name=name, data=self.sources[row], label=label)
        numbers = np.array(self.features[row * self.width : (row + 1) * self.width], np.float64)
        return Sample(index=index, name=name, data=numbers, label=label)

    def _read_file(self, root: Path, name: str) -> tuple[Any, int | None]:
        file = find_inside(root, name)
        match self.kind:
            case "image":
                return decode_image(file, name), None
            case "audio":
                return decode_sound(file, name)
        return read_array_file(file, name), None

    def stamp(self) -> str:
        """From names, sizes and times of the table and of its files."""
        about = (self.split, self.classes, self.reading, stamp_files(self.file.parent, [self.file.name]))
        if self.root is None:
            return stamp_files(self.file.parent, [], extra=about)
        return stamp_files(self.root, (self.sources[row] for row in self.rows), extra=about)


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

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, known=_OPTIONS, form=self.name)
        choose(options, "label_kind", KINDS)
        choose(options, "header", ("yes", "no"))
        if not path.is_file():
            raise BadInput(f"{path} is not a file", advice="give a .csv or .tsv file")
        table = _read_table(path, options)
        root = Path(options["root"]) if "root" in options else path.parent
        kind = _find_kind(path, table, root)
        labels = _read_labels(path, table, options)
        splits: dict[str, list[int]] = {}
        for row in range(len(table.lines)):
            word = table.splits[row].strip() if table.columns.split is not None else ""
            splits.setdefault((find_split(word) or word) if word else ALL, []).append(row)
        return {
            split: TableRows(
                name=path.name, path=path, format=self.name, split=split, kind=kind,
                classes=labels.classes if labels is not None else (), labelled=labels is not None, file=path,
                root=root if table.columns.path is not None else None, rows=array("Q", rows), lines=table.lines,
                sources=table.sources, features=table.features, width=len(table.columns.features), labels=labels,
                reading=repr(sorted(options.items())),
            )
            for split, rows in splits.items()
        }  # fmt: skip


@dataclass(kw_only=True)
class _Table:
    """What is kept of a table, column by column."""

    columns: Columns
    lines: array[int] = field(default_factory=lambda: array("Q"))
    sources: Strings = field(default_factory=Strings)
    features: array[float] = field(default_factory=lambda: array("d"))
    labels: Strings = field(default_factory=Strings)
    splits: Strings = field(default_factory=Strings)


def _read_table(file: Path, options: Mapping[str, str]) -> _Table:
    rows = read_rows(file, options)
    _, names = next(rows)
    columns = find_columns(file, names, options)
    table = _Table(columns=columns)
    source = columns.path if columns.path is not None else columns.text
    for line, row in rows:
        table.lines.append(line)
        if source is not None:
            table.sources.append(row[source])
        for number in columns.features:
            if not is_number(row[number]):
                raise BadInput(
                    f"{file.name}, line {line}: {row[number][:40]!r} in the column {names[number]!r} is not a number",
                    advice="name the columns of numbers with columns=a,b, or those of files or texts with path=, text=",
                )
            table.features.append(float(row[number]))
        if columns.label is not None:
            table.labels.append(row[columns.label])
        if columns.split is not None:
            table.splits.append(row[columns.split])
    if not table.lines:
        raise BadInput(f"{file.name} has no rows below the names of its columns", advice="one row a sample")
    return table


def _find_kind(file: Path, table: _Table, root: Path) -> Kind:
    """What samples are, all of them the same; names of files are checked, the files are not read."""
    if table.columns.path is None:
        return "text" if table.columns.text is not None else "array"
    kinds: dict[Kind, str] = {}
    for name, line in zip(table.sources, table.lines, strict=True):
        place = f"{file.name}, line {line}"
        check_name(name, place, advice=_ADVICE)
        kinds.setdefault(_kind_of(name, place), place)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise BadInput(f"{first} names a file of the kind {one}, {second} one of the kind {other}",
                       advice="one kind in one data set")  # fmt: skip
    check_some_there(root, [table.sources[row] for row in range(min(_FILES_TO_TRY, len(table.sources)))],
                     advice=_ADVICE)  # fmt: skip
    kind = next(iter(kinds))
    if kind == "image":
        require_pillow()
    elif kind == "audio":
        require_soundfile()
    return kind


def _kind_of(name: str, place: str) -> Kind:
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
    """The labels of all rows; None where no row has one."""
    kind = options.get("label_kind")
    if kind is None and table.columns.label_name.strip().lower() in REFERENCES:
        kind = "text"
    if "separator" in options and kind != "text":
        raise BadInput("separator= is between texts", advice="with label_kind=text")
    if "classes" in options and kind not in (None, "class"):
        raise BadInput(f"labels of the kind {kind} have no classes", advice="leave classes= out")
    if table.columns.label is None or not any(word.strip() for word in table.labels):
        return None
    return read_words(
        table.labels,
        kind=kind,
        place=_placer(file, table.lines),
        separator=options.get("separator"),
        classes=parse_words(options.get("classes", "")),
    )


def _placer(file: Path, lines: Sequence[int]) -> Callable[[int], str]:
    return lambda index: f"{file.name}, line {lines[index]}"
