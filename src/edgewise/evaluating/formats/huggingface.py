"""Data sets of Hugging Face as `save_to_disk` leaves them: nothing is downloaded, and none of their code is run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import CorruptSample, Dataset, Decoded, Kind, Sample
from edgewise.evaluating.formats.files import decode_file, find_inside, require_decoder
from edgewise.evaluating.formats.images import decode_mask, require_pillow
from edgewise.evaluating.formats.labels import KINDS, Labels, check_indices, read_labels
from edgewise.evaluating.formats.listing import list_folder
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import ALL, Split, parse_words
from edgewise.evaluating.offline import offline
from edgewise.safe_yaml import read_text
from edgewise.text import first_line

_TEXTS = ("text", "sentence", "content")
_LABELS = ("label", "labels", "target", "class", "y")
_ADVICE = "write it with the save_to_disk of the library datasets"
_MAX_STATE_BYTES = 2**26


@dataclass(kw_only=True)
class TableSplit(Split):
    """A split of a data set on disk.

    Attributes:
        folder: of the split.
        table: the `datasets.Dataset`, images and recordings as they are stored.
        sources: columns of the samples.
        label: column of the labels.
        lazy_label: makes a label of what is stored in its row; None where `labels` has them.
    """

    folder: Path
    table: Any
    sources: Sequence[str]
    label: str | None
    lazy_label: Callable[[Any, str], Any] | None

    def __len__(self) -> int:
        return len(self.table)

    def read(self, index: int) -> Sample:
        """Return the sample, decoded now. Raises `CorruptSample`."""
        name = f"{self.split}[{index}]"
        try:
            row = self.table[index]
        except Exception as error:  # pyarrow's errors of damaged files
            raise CorruptSample(name, f"can't be read: {first_line(error)}") from error
        source = row[self.sources[0]]
        match self.kind:
            case "image" | "audio":
                found = decode_file(_content(source, self.folder, name), self.kind, name)
            case "text":
                if not isinstance(source, str):
                    raise CorruptSample(name, f"the text in {self.sources[0]!r} is missing")
                found = Decoded(source)
            case _:
                arrays = {each: _to_array(row[each], each, name) for each in self.sources}
                found = Decoded(next(iter(arrays.values())) if len(arrays) == 1 else arrays)
        label = self.label_of(index)
        if self.lazy_label is not None and self.label is not None:
            value = row[self.label]
            if isinstance(value, dict):
                value = _content(value, self.folder, name)
            label = self.lazy_label(value, name)
        return Sample(index=index, name=name, label=label, **found._asdict())

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """As `Split.find_files`."""
        return self.folder, list_folder(self.folder)[1]


class HuggingFace(BuiltInFormat):
    """A folder that `save_to_disk` wrote: one split, or several.

    Samples are the first column of images, else of recordings, else the texts in ``text``, ``sentence`` or the only
    column of strings, else the columns of arrays by their names. Labels are the column ``label`` or the only one of
    classes; -1 throughout means that there are none.

    Options: ``image``, ``audio``, ``text``, ``columns`` (of arrays), ``label``: which columns; a label may be a column
    of masks; ``label_kind`` = class, float or text.
    """

    name = "huggingface"
    title = "data sets of Hugging Face on disk"
    options: ClassVar = {"image": (), "audio": (), "text": (), "columns": (), "label": (), "label_kind": KINDS}

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        if not path.is_dir():
            raise BadInput(f"{path} is not a folder", advice=_ADVICE)
        return {
            split: _open_split(path, split, folder, _load(folder), options)
            for split, folder in _find_folders(path).items()
        }


def _find_folders(path: Path) -> dict[str, Path]:
    """Return split → folder. Raises `BadInput`."""
    if not (path / "dataset_dict.json").is_file():
        return {ALL: path}
    names = _read_json(path / "dataset_dict.json").get("splits")
    if not isinstance(names, list) or not names:
        raise BadInput(f"{path / 'dataset_dict.json'} names no splits", advice=_ADVICE)
    for name in names:
        if not isinstance(name, str) or not _is_plain(name) or not (path / name).is_dir():
            raise BadInput(f"the split {name!r} of {path} is not there", advice=_ADVICE)
    return {name: path / name for name in names}


def _load(folder: Path) -> Any:
    """Return the `datasets.Dataset`, mapped and not read. Raises `BadInput`, `Unavailable`."""
    files = _read_json(folder / "state.json").get("_data_files")
    names = [file.get("filename") if isinstance(file, dict) else None for file in files or []]
    if not all(isinstance(name, str) and _is_plain(name) for name in names):
        raise BadInput(f"{folder / 'state.json'} names files outside of its folder", advice=_ADVICE)
    with offline():
        try:
            import datasets
        except ImportError as error:
            raise Unavailable(
                "data sets of Hugging Face need the library datasets", advice="pip install 'edgewise[huggingface]'"
            ) from error
        try:
            table = datasets.Dataset.load_from_disk(str(folder.absolute()), keep_in_memory=False).with_format(None)
            for name, feature in table.features.items():
                if isinstance(feature, datasets.Image | datasets.Audio):
                    table = table.cast_column(name, type(feature)(decode=False))
        except Exception as error:  # errors of pyarrow, of JSON, of its own
            raise BadInput(f"{folder} can't be read: {first_line(error)}", advice=_ADVICE) from error
        return table


def _open_split(path: Path, split: str, folder: Path, table: Any, options: Mapping[str, str]) -> TableSplit:
    import datasets

    features = dict(table.features)
    for option in ("image", "audio", "text", "label"):
        if option in options and options[option] not in features:
            raise BadInput(f"{path} has no column {options[option]!r}", advice=f"it has: {', '.join(features)}")
    label = options.get("label") or _find_label(path, features)
    rest = {name: feature for name, feature in features.items() if name != label}
    kind, sources = _find_sources(path, rest, options)
    require_decoder(kind)
    labels: Labels | None = None
    lazy: Callable[[Any, str], Any] | None = None
    if label is not None:
        if isinstance(features[label], datasets.Image):
            require_pillow()
            lazy = decode_mask
        elif isinstance(features[label], datasets.Value | datasets.ClassLabel):
            labels = _read_labels(table, label, features[label], split=split, kind=options.get("label_kind"))
        else:
            lazy = _read_lazy_label
    return TableSplit(
        name=path.name, path=path, format="huggingface", split=split, kind=kind,
        labelled=lazy is not None,
        folder=folder, table=table.select_columns(list(dict.fromkeys([*sources, *([label] if lazy else [])]))),
        sources=sources, label=label, labels=labels, lazy_label=lazy, about=(sources, label, sorted(options.items())),
    )  # fmt: skip


def _find_label(path: Path, features: Mapping[str, Any]) -> str | None:
    import datasets

    by_name = next((name for name in _LABELS if name in features), None)
    if by_name is not None:
        return by_name
    found = [name for name, feature in features.items() if isinstance(feature, datasets.ClassLabel)]
    if len(found) > 1:
        raise BadInput(f"{path} has labels in {', '.join(found)}", advice=f"choose one: label={found[0]}")
    return found[0] if found else None


def _find_sources(path: Path, features: Mapping[str, Any], options: Mapping[str, str]) -> tuple[Kind, list[str]]:
    """Return the kind of the samples, and their columns."""
    import datasets

    wanted = [name for name in ("image", "audio", "text", "columns") if name in options]
    if len(wanted) > 1:
        raise BadInput(f"samples can't be both {wanted[0]}= and {wanted[1]}=", advice="give one of them")
    images = [name for name, feature in features.items() if isinstance(feature, datasets.Image)]
    sounds = [name for name, feature in features.items() if isinstance(feature, datasets.Audio)]
    texts = [name for name, feature in features.items() if getattr(feature, "dtype", "") in ("string", "large_string")]
    if "columns" in options:
        return "array", _check_arrays(path, features, parse_words(options["columns"]))
    groups: list[tuple[Kind, list[str]]] = [("image", images), ("audio", sounds), ("text", texts)]
    for kind, names in groups:
        if kind in options:
            if options[kind] not in names:
                raise BadInput(f"the column {options[kind]!r} of {path} holds no {kind}", advice="another column")
            return kind, [options[kind]]
    for kind, names in groups[:2]:
        if names:
            return kind, names[:1]
    usual = [name for name in _TEXTS if name in texts] or (texts if len(texts) == 1 else [])
    if usual:
        return "text", usual[:1]
    arrays = [name for name, feature in features.items() if not isinstance(feature, datasets.Value)]
    if not arrays:
        raise BadInput(
            f"{path} has no column of images, recordings, one text or arrays; it has: {', '.join(features)}",
            advice="choose them: image=, audio=, text= or columns=a,b",
        )
    return "array", _check_arrays(path, features, arrays)


def _check_arrays(path: Path, features: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in features:
            raise BadInput(f"{path} has no column {name!r}", advice=f"it has: {', '.join(features)}")
        inner = features[name]
        while hasattr(inner, "feature") or isinstance(inner, list):
            inner = inner[0] if isinstance(inner, list) else inner.feature
        if not any(word in str(getattr(inner, "dtype", "")) for word in ("int", "float", "bool")):
            raise BadInput(f"the column {name!r} of {path} holds no numbers", advice="choose them: columns=a,b")
    return list(names)


def _read_labels(table: Any, column: str, feature: Any, *, split: str, kind: str | None) -> Labels | None:
    """Return all labels of a split; None where it has none, which is written as -1 or as nothing."""

    def place(index: int) -> str:
        return f"{split}[{index}]"

    values = table.select_columns([column])[:][column]
    if all(value is None or value == -1 for value in values):
        return None
    missing = next((index for index, value in enumerate(values) if value is None), None)
    if missing is not None:
        raise BadInput(f"{place(missing)} has no label", advice="filter it out, or fill it in")
    array = np.asarray(values)
    names = tuple(getattr(feature, "names", None) or ())
    if names and array.dtype.kind in "iu":
        return Labels(values=check_indices(array, place), classes=names)
    return read_labels(array, kind=kind, place=place)


def _read_lazy_label(value: Any, name: str) -> Any:
    """Return a list of texts, of which any counts, or of numbers."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return tuple(value)
    return _to_array(value, "its label", name)


def _to_array(value: Any, column: str, name: str) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise CorruptSample(name, f"{column} is not an array of numbers")
    return array


def _content(value: Any, folder: Path, name: str) -> Path | bytes:
    """Return a file stored in the table or in its folder."""
    if not isinstance(value, dict) or not (value.get("bytes") or value.get("path")):
        raise CorruptSample(name, "nothing is stored")
    if isinstance(value.get("bytes"), bytes):
        return bytes(value["bytes"])
    return find_inside(folder, str(value["path"]))


def _read_json(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_text(file, most=_MAX_STATE_BYTES))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"can't read {file}: {first_line(error)}", advice=_ADVICE) from error
    if not isinstance(document, dict):
        raise BadInput(f"{file} does not describe a data set", advice=_ADVICE)
    return document


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and not set(name) & set("/\\\0")
