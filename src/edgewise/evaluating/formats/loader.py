"""Data from a Python function of the user: ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import CorruptSample, Dataset, Decoded, Kind, Sample
from edgewise.evaluating.formats.images import picture_to_array
from edgewise.evaluating.formats.labels import read_labels
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.rows import check_mask, is_picture
from edgewise.evaluating.formats.split import ALL, Split, stamp_files
from edgewise.model.callable_loader import call, find, import_module, running

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
        """Return its splits. Raises `BadInput`, also for all errors of the function."""
        target = str(path)
        module_name, _, attribute = target.rpartition(":")
        if not module_name or not attribute:
            raise BadInput(f"{target!r} names no function", advice="give module:function or path/to/file.py:function")
        with running(target):
            module = import_module(module_name, target)
            made = call(find(module, attribute, target), options, target, flag="⟦data_option⟧")
            # What the function reads can't be known; its own file can.
            file = Path(getattr(module, "__file__", None) or "")
            about = stamp_files(file.parent, [file.name], extra=(target, sorted(options.items())))
            return {split: _wrap(target, about, split, given) for split, given in _name_splits(target, made).items()}


@dataclass(kw_only=True)
class Items(Split):
    """Arrays in memory, any sequence, or a data set of the user's own class.

    Attributes:
        target: the function.
        own: whether `items` is a data set, whose samples are what its `read` returns.
        masks: labels that are arrays.
        pairs: whether an item is data and label.
    """

    target: str
    items: Any
    own: bool = False
    masks: Any = None
    pairs: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def read(self, index: int) -> Sample:
        """Return the item as a sample. Raises `CorruptSample`; `BadInput` for errors of the user's code."""
        name = f"{self.target}[{index}]"
        item = _get(self.items, index, self.target, method="read" if self.own else "__getitem__")
        if isinstance(item, Sample):
            return item
        if self.own:
            raise BadInput(f"{self.target}: read({index}) gave {type(item).__name__}, no Sample", advice=_ADVICE)
        data, label = item if self.pairs else (item, None)
        if self.labels is not None:
            label = self.label_of(index)
        elif self.masks is not None:
            label = np.asarray(self.masks[index])
        elif label is not None:
            label = _to_label(label, name)
        return Sample(index=index, name=name, label=label, **_to_data(data, self.kind, name)._asdict())

    def stamp(self) -> str:
        """Return a digest of the function's file, its arguments and what it returned: arrays, or a data set's stamp."""
        content: object
        if self.own:
            with running(self.target):
                content = str(self.items.stamp())
        else:
            labels = None if self.labels is None else list(self.labels.values)
            content = _digest(self.items), _digest(self.masks), labels
        return hashlib.sha256(repr((self.about, self.split, len(self), content)).encode()).hexdigest()


def _name_splits(target: str, made: Any) -> dict[str, Any]:
    if not isinstance(made, Mapping):
        return {ALL: made}
    if "x" in made:
        raise BadInput(f"{target} gave a mapping with 'x', which is not the name of a split", advice="return (x, y)")
    if not made or not all(isinstance(name, str) and name for name in made):
        raise BadInput(f"{target} gave a mapping without names of splits", advice=_ADVICE)
    return dict(made)


def _wrap(target: str, about: str, split: str, given: Any) -> Dataset:
    common: dict[str, Any] = {"target": target, "about": about, "split": split}
    if all(hasattr(given, member) for member in ("read", "kind", "__len__")):
        return _wrap_own(given, common)
    # A tuple, not a list: it holds columns, not two samples.
    if (
        isinstance(given, tuple)
        and len(given) == 2
        and all(_is_array(part) or isinstance(part, list) for part in given)
    ):
        return _wrap_arrays(given[0], given[1], common)
    if _is_array(given):
        return _wrap_arrays(given, None, common)
    if hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, str | bytes):
        return _wrap_sequence(given, common)
    raise BadInput(f"{target} gave {type(given).__name__}, which is not data", advice=_ADVICE)


def _wrap_own(own: Any, common: Mapping[str, Any]) -> Items:
    target = common["target"]
    missing = [member for member in _MEMBERS if not hasattr(own, member)]
    if missing:
        raise BadInput(f"the data set of {target} has no {', '.join(missing)}", advice="see edgewise's Dataset")
    if own.kind not in get_args(Kind):
        raise BadInput(f"{target} gave data of the kind {own.kind!r}", advice=f"one of {get_args(Kind)}")
    return Items(
        name=str(own.name), path=own.path, format=str(own.format), kind=own.kind, classes=tuple(own.classes),
        labelled=bool(own.labelled), items=own, own=True, **common,
    )  # fmt: skip


def _wrap_arrays(x: Any, y: Any, common: Mapping[str, Any]) -> Items:
    target = common["target"]
    items = np.asarray(x)
    if items.dtype.kind not in "biufU" or not items.ndim:
        raise BadInput(f"{target} gave an x of {items.dtype} {list(items.shape)}", advice="numbers, row by row")
    labels, masks = None, None
    if y is not None:
        values = np.asarray(y)
        if not values.ndim or len(values) != len(items):
            raise BadInput(
                f"{target} gave {len(items)} samples and labels of the shape {list(values.shape)}",
                advice="one label a sample",
            )
        labels = read_labels(values, kind=None, place=lambda index: f"{target}[{index}]")
        masks = values if labels is None else None
        if masks is not None and (masks < 0).any():
            raise BadInput(f"{target} gave labels below 0", advice="classes are numbered from 0")
    return Items(
        name=target, path=None, format="loader",
        kind="text" if items.dtype.kind == "U" else _find_kind(items[0]) if len(items) else "array",
        labelled=y is not None, items=items, labels=labels, masks=masks, **common,
    )  # fmt: skip


def _wrap_sequence(items: Any, common: Mapping[str, Any]) -> Items:
    """Wrap a sequence. Only the first item is read here; it decides the kind of all. Raises `BadInput`."""
    target = common["target"]
    if not len(items):
        raise BadInput(f"{target} gave no samples for {common['split']!r}", advice="give some")
    first = _get(items, 0, target)
    pairs = isinstance(first, tuple) and len(first) == 2
    data, label = first if pairs else (first, None)
    if isinstance(first, Sample):
        data, label = first.data, first.label
    return Items(
        name=target, path=None, format="loader", kind=_find_kind(data),
        classes=tuple(str(name) for name in getattr(items, "classes", ())), labelled=label is not None,
        items=items, pairs=pairs, **common,
    )  # fmt: skip


def _get(items: Any, index: int, target: str, method: str = "__getitem__") -> Any:
    """Return an item. What the user's code raises is `BadInput`, but for `CorruptSample`."""
    corrupt: CorruptSample | None = None
    with running(target):
        try:
            return getattr(items, method)(index)
        except CorruptSample as error:
            corrupt = error
        except Unavailable as error:
            raise BadInput(error.marked.message, advice=error.marked.advice) from error
    raise corrupt or AssertionError("an item or an error")


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "__array__") and len(value.shape) > 0


def _is_pillow_image(value: Any) -> bool:
    return type(value).__module__.startswith("PIL.") and hasattr(value, "convert")


def _find_kind(data: Any) -> Kind:
    if isinstance(data, str):
        return "text"
    if _is_pillow_image(data):
        return "image"
    if isinstance(data, Mapping):
        return "array"
    array = np.asarray(data)
    return "image" if array.ndim == 3 and is_picture(array.dtype, array.shape) else "array"


def _to_data(data: Any, kind: Kind, name: str) -> Decoded:
    """Return a sample's data as its kind has it. Raises `CorruptSample`."""
    if kind == "text":
        if not isinstance(data, str):
            raise CorruptSample(name, f"{type(data).__name__} where the first sample is text")
        return Decoded(str(data))
    if isinstance(data, Mapping):
        parts = {str(key): _to_data(value, kind, name) for key, value in data.items()}
        changes = tuple(dict.fromkeys(change for part in parts.values() for change in part.changes))
        return Decoded({key: part.data for key, part in parts.items()}, changes=changes)
    if _is_pillow_image(data):
        return picture_to_array(data, name)
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise CorruptSample(name, f"{type(data).__name__} is not an array of numbers")
    if kind == "image" and (array.dtype != np.uint8 or array.ndim != 3):
        raise CorruptSample(name, f"{array.dtype} {list(array.shape)} where the first sample is an image")
    return Decoded(array)


def _to_label(label: Any, name: str) -> Any:
    """Return a label of an item: a whole number, a fraction, text, texts, or an array; boxes stay what they are."""
    if isinstance(label, str) or (
        isinstance(label, tuple) and not all(isinstance(each, int | float) for each in label)
    ):
        return label
    array = np.asarray(label)
    if array.dtype.kind not in "biuf":
        raise CorruptSample(name, f"its label is {type(label).__name__}")
    if check_mask(array, name).ndim:
        return array
    return float(array) if array.dtype.kind == "f" else int(array)


def _digest(value: Any) -> str | None:
    """Return the SHA-256 of an array in memory; None for anything else, which would have to be read."""
    if not isinstance(value, np.ndarray):
        return None
    return hashlib.sha256(
        np.ascontiguousarray(value).data if value.dtype.kind != "U" else repr(value.tolist()).encode()
    ).hexdigest()
