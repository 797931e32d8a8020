"""Data from a Python function of the user: ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import CorruptSample, Dataset, Kind, Sample
from edgewise.evaluating.formats.images import picture_to_array
from edgewise.evaluating.formats.labels import Labels, read_numbers, read_words
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import ALL, Split
from edgewise.model.callable_loader import call, explained, find, import_module, own_code

_MEMBERS = ("name", "path", "format", "split", "kind", "classes", "labelled", "stamp", "read", "__len__")
_ADVICE = "return (x, y), a sequence of (data, label), a data set, or a mapping of names of splits to any of these"


class Loader(BuiltInFormat):
    """A function that returns data; it is the user's code, and is run.

    It gives one of

    - ``(x, y)`` or ``x``: arrays (of numpy, torch …), one row a sample;
    - a sequence, as data sets of torch are: each item ``(data, label)``, data alone, or a `Sample`;
    - a `Dataset`;
    - a mapping from names of splits to any of these.

    Pillow images and uint8 arrays of (height, width, 1, 3 or 4) are images. Options are the function's arguments.
    """

    name = "loader"
    title = "module:function or file.py:function that gives data"

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, also for whatever the function raises."""
        target = str(path)
        module_name, _, attribute = target.rpartition(":")
        if not module_name or not attribute:
            raise BadInput(f"{target!r} names no function", advice="give module:function or path/to/file.py:function")
        with _running(target):
            module = import_module(module_name, target)
            made = call(find(module, attribute, target), options, target, flag="--data-option")
            file = getattr(module, "__file__", None)
            source = _Source(target=target, file=Path(file) if file else None, options=tuple(sorted(options.items())))
            return {split: _wrap(source, split, given) for split, given in _name_splits(target, made).items()}


@contextlib.contextmanager
def _running(target: str) -> Iterator[None]:
    """The user's code runs: its errors are `BadInput` with the line that raised them."""
    try:
        with own_code(target.rpartition(":")[0]), explained(target):
            yield
    except ModuleNotFoundError as error:
        raise BadInput(f"{target} needs the module {error.name!r}", advice=f"pip install {error.name}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Where data came from.

    Attributes:
        options: of the user, as pairs.
    """

    target: str
    file: Path | None
    options: tuple[tuple[str, str], ...]

    def stamp(self, extra: object) -> str:
        """Of the function's own file. What it reads can't be known."""
        about: object = None
        if self.file is not None and self.file.exists():
            found = os.stat(self.file)  # noqa: PTH116
            about = (found.st_size, found.st_mtime_ns)
        return hashlib.sha256(repr((self.target, self.options, about, extra)).encode()).hexdigest()


@dataclass(kw_only=True)
class Rows(Split):
    """Arrays in memory, or any sequence: `labels` are None where an item carries its own or there are none."""

    source: _Source
    items: Any
    labels: Labels | None
    masks: Any = None
    pairs: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def read(self, index: int) -> Sample:
        """The item as a sample. Raises `CorruptSample`; `BadInput` for errors of the user's code."""
        name = f"{self.source.target}[{index}]"
        item = _get(self.items, index, self.source.target)
        if isinstance(item, Sample):
            return item
        data, label = item if self.pairs else (item, None)
        if self.labels is not None:
            label = self.labels.values[index]
        elif self.masks is not None:
            label = np.asarray(self.masks[index])
        elif label is not None:
            label = _to_label(label, name)
        return Sample(index=index, name=name, data=_to_data(data, self.kind, name), label=label)

    def stamp(self) -> str:
        """From the function's file, its arguments, and arrays that it gave."""
        content = _digest(self.items), _digest(self.masks), None if self.labels is None else list(self.labels.values)
        return self.source.stamp((self.split, len(self), content))


@dataclass(kw_only=True)
class Wrapped(Split):
    """A data set of the user's own class, whose errors are explained."""

    source: _Source
    own: Any

    def __len__(self) -> int:
        return len(self.own)

    def read(self, index: int) -> Sample:
        """What the user's data set reads. Raises `CorruptSample`; `BadInput` for other errors of the user's code."""
        sample = _get(self.own, index, self.source.target, method="read")
        if not isinstance(sample, Sample):
            raise BadInput(
                f"{self.source.target}: read({index}) gave {type(sample).__name__}, no Sample", advice=_ADVICE
            )
        return sample

    def stamp(self) -> str:
        """That of the user's data set, and of the function's file."""
        with _running(self.source.target):
            return self.source.stamp((self.split, str(self.own.stamp())))


def _name_splits(target: str, made: Any) -> dict[str, Any]:
    if not isinstance(made, Mapping):
        return {ALL: made}
    if "x" in made:
        raise BadInput(f"{target} gave a mapping with 'x', which is not the name of a split", advice="return (x, y)")
    if not made or not all(isinstance(name, str) and name for name in made):
        raise BadInput(f"{target} gave a mapping without names of splits", advice=_ADVICE)
    return dict(made)


def _wrap(source: _Source, split: str, given: Any) -> Dataset:
    if all(hasattr(given, member) for member in ("read", "kind", "__len__")):
        return _wrap_own(source, split, given)
    # A tuple, not a list: it holds columns, not two samples.
    if isinstance(given, tuple) and len(given) == 2 and all(_is_column(part) for part in given):
        return _wrap_arrays(source, split, given[0], given[1])
    if _is_array(given):
        return _wrap_arrays(source, split, given, None)
    if hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, str | bytes):
        return _wrap_sequence(source, split, given)
    raise BadInput(f"{source.target} gave {type(given).__name__}, which is not data", advice=_ADVICE)


def _wrap_own(source: _Source, split: str, own: Any) -> Wrapped:
    missing = [member for member in _MEMBERS if not hasattr(own, member)]
    if missing:
        raise BadInput(f"the data set of {source.target} has no {', '.join(missing)}", advice="see edgewise's Dataset")
    if own.kind not in get_args(Kind):
        raise BadInput(f"{source.target} gave data of the kind {own.kind!r}", advice=f"one of {get_args(Kind)}")
    return Wrapped(
        name=str(own.name), path=own.path, format=str(own.format), split=split, kind=own.kind,
        classes=tuple(own.classes), labelled=bool(own.labelled), source=source, own=own,
    )  # fmt: skip


def _wrap_arrays(source: _Source, split: str, x: Any, y: Any) -> Rows:
    items = np.asarray(x)
    if items.dtype.kind not in "biufU" or not items.ndim:
        raise BadInput(f"{source.target} gave an x of {items.dtype} {list(items.shape)}", advice="numbers, row by row")
    labels, masks = None, None
    if y is not None:
        values = np.asarray(y)
        if not values.ndim or len(values) != len(items):
            raise BadInput(
                f"{source.target} gave {len(items)} samples and labels of the shape {list(values.shape)}",
                advice="one label a sample",
            )
        labels, masks = _read_labels(source, values)
    return Rows(
        name=source.target, path=None, format="loader", split=split,
        kind="text" if items.dtype.kind == "U" else _kind_of(items[0]) if len(items) else "array",
        classes=labels.classes if labels is not None else (), labelled=y is not None, source=source,
        items=items, labels=labels, masks=masks,
    )  # fmt: skip


def _read_labels(source: _Source, values: Any) -> tuple[Labels | None, Any]:
    """Labels, or, where each is an array, the array of them."""

    def place(index: int) -> str:
        return f"{source.target}[{index}]"

    if values.dtype.kind == "U" and values.ndim == 1:
        return read_words([str(word) for word in values], kind=None, place=place), None
    if values.dtype.kind not in "biuf":
        raise BadInput(f"{source.target} gave labels of the type {values.dtype}", advice="numbers, or names of classes")
    if values.ndim > 2:
        if (values < 0).any():
            raise BadInput(f"{source.target} gave labels below 0", advice="classes are numbered from 0")
        return None, values
    return read_numbers(values.astype(np.int64) if values.dtype.kind == "b" else values, kind=None, place=place), None


def _wrap_sequence(source: _Source, split: str, items: Any) -> Rows:
    """What the first item is, all are: it is the only one that is looked at."""
    if not len(items):
        raise BadInput(f"{source.target} gave no samples for {split!r}", advice="give some")
    first = _get(items, 0, source.target)
    pairs = isinstance(first, tuple) and len(first) == 2
    data, label = first if pairs else (first, None)
    if isinstance(first, Sample):
        data, label = first.data, first.label
    return Rows(
        name=source.target, path=None, format="loader", split=split, kind=_kind_of(data),
        classes=tuple(str(name) for name in getattr(items, "classes", ())), labelled=label is not None,
        source=source, items=items, labels=None, pairs=pairs,
    )  # fmt: skip


def _get(items: Any, index: int, target: str, method: str = "__getitem__") -> Any:
    """An item. What the user's code raises is `BadInput`, but for `CorruptSample`."""
    corrupt: CorruptSample | None = None
    with _running(target):
        try:
            return getattr(items, method)(index)
        except CorruptSample as error:
            corrupt = error
        except Unavailable as error:
            raise BadInput(error.message, advice=error.advice) from error
    raise corrupt or AssertionError("an item or an error")


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "__array__") and len(value.shape) > 0


def _is_column(value: Any) -> bool:
    return _is_array(value) or isinstance(value, list)


def _is_picture(value: Any) -> bool:
    return type(value).__module__.startswith("PIL.") and hasattr(value, "convert")


def _kind_of(data: Any) -> Kind:
    if isinstance(data, str):
        return "text"
    if _is_picture(data):
        return "image"
    if isinstance(data, Mapping):
        return "array"
    array = np.asarray(data)
    return "image" if array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] in (1, 3, 4) else "array"


def _to_data(data: Any, kind: Kind, name: str) -> Any:
    """A sample's data as its kind has it. Raises `CorruptSample`."""
    if kind == "text":
        if not isinstance(data, str):
            raise CorruptSample(name, f"{type(data).__name__} where the first sample is text")
        return str(data)
    if isinstance(data, Mapping):
        return {str(key): _to_data(value, kind, name) for key, value in data.items()}
    if _is_picture(data):
        return picture_to_array(data, name)
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise CorruptSample(name, f"{type(data).__name__} is not an array of numbers")
    if kind == "image" and (array.dtype != np.uint8 or array.ndim != 3):
        raise CorruptSample(name, f"{array.dtype} {list(array.shape)} where the first sample is an image")
    return array


def _to_label(label: Any, name: str) -> Any:
    """A label of an item: a whole number, a fraction, text, texts, or an array; boxes stay what they are."""
    if isinstance(label, str) or (
        isinstance(label, tuple) and not all(isinstance(each, int | float) for each in label)
    ):
        return label
    array = np.asarray(label)
    if array.dtype.kind not in "biuf":
        raise CorruptSample(name, f"its label is {type(label).__name__}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise CorruptSample(name, "its label is not finite")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise CorruptSample(name, f"its label is {array.min()}, and a class is 0 or more")
    if array.ndim:
        return array
    return float(array) if array.dtype.kind == "f" else int(array)


def _digest(value: Any) -> str | None:
    """Of an array in memory; None of anything else, which can't be known without reading it."""
    if not isinstance(value, np.ndarray):
        return None
    return hashlib.sha256(
        np.ascontiguousarray(value).data if value.dtype.kind != "U" else repr(value.tolist()).encode()
    ).hexdigest()
