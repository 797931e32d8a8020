"""NumPy archives: ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test`` and ``y_test``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Kind
from edgewise.evaluating.formats.labels import KINDS, read_labels
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.rows import ArrayRows, is_picture
from edgewise.evaluating.formats.split import ALL, parse_words
from edgewise.workload.arrays import StoredArray, open_archive

_SPLITS = {"train": "train", "test": "test", "val": "validation", "valid": "validation", "validation": "validation",
           "calibration": "calibration"}  # fmt: skip
_LABELS = ("y", "label", "labels", "target", "targets")
_CLASSES = ("classes", "class_names", "target_names", "label_names")
_RATES = ("rate", "sample_rate")
_ADVICE = "write it with numpy.savez('data.npz', x=…, y=…)"


class Npz(BuiltInFormat):
    """One ``.npz`` file: ``x`` with ``y``, or both for each of ``train``, ``test``, ``val`` and ``calibration``.

    Without an ``x``, all arrays but the labels (``y``, ``labels``, ``targets``) are inputs by their names. ``classes``
    may hold names, ``rate`` frames per second.

    Arrays that are not compressed are read row by row; `numpy.savez_compressed` makes each be unpacked whole.

    Options: ``kind`` = array, image or audio; ``inputs``, the arrays that are inputs; ``label``, the array of labels;
    ``label_kind`` = class, float or text; ``rate``.
    """

    name = "npz"
    title = "NumPy archives: x and y, or x_train, y_train, x_test, y_test"
    options: ClassVar = {
        "kind": ("array", "image", "audio"), "inputs": (), "label": (), "label_kind": KINDS, "rate": ()
    }  # fmt: skip

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        entries = open_archive(path)
        splits = {split: (f"x_{word}", f"y_{word}") for word, split in _SPLITS.items() if f"x_{word}" in entries}
        if splits and "x" not in entries and "inputs" not in options:
            if "label" in options:
                raise BadInput("label= is for data that is not split", advice="labels are called y_train, y_test …")
            return {
                split: _open_split(path, split, {x: entries[x]}, entries.get(y), entries=entries, options=options)
                for split, (x, y) in splits.items()
            }
        labels = next((entries[name] for name in _LABELS if name in entries), None)
        if "label" in options:
            labels = _get(path, entries, options["label"])
        inputs = _find_inputs(path, entries, labels, options)
        return {ALL: _open_split(path, ALL, inputs, labels, entries=entries, options=options)}


def _find_inputs(
    path: Path, entries: Mapping[str, StoredArray], labels: StoredArray | None, options: Mapping[str, str]
) -> dict[str, StoredArray]:
    if "inputs" in options:
        return {name: _get(path, entries, name) for name in parse_words(options["inputs"])}
    if "x" in entries:
        return {"x": entries["x"]}
    known = {*_CLASSES, *_RATES, *([labels.name] if labels is not None else [])}
    found = {name: entry for name, entry in entries.items() if name not in known}
    if not found or not all(entry.shape for entry in found.values()):
        raise BadInput(f"{path.name} holds no array x; it holds: {_list(entries)}", advice=_ADVICE)
    if len(found) > 1 and all(name.startswith("arr_") for name in found):
        raise BadInput(f"the arrays of {path.name} have no names", advice=_ADVICE)
    lengths = {len(entry) for entry in found.values()}
    if len(lengths) > 1:
        sizes = ", ".join(f"{name} {len(entry)}" for name, entry in list(found.items())[:9])
        raise BadInput(
            f"the arrays of {path.name} have different lengths: {sizes}", advice="choose them with inputs=a,b"
        )
    return found


def _open_split(
    path: Path,
    split: str,
    inputs: dict[str, StoredArray],
    y: StoredArray | None,
    *,
    entries: Mapping[str, StoredArray],
    options: Mapping[str, str],
) -> ArrayRows:
    first, entry = next(iter(inputs.items()))
    for name, each in inputs.items():
        if not each.shape:
            raise BadInput(f"{name} in {path.name} is one number, not an array of samples", advice=_ADVICE)
        if len(each) != len(entry):
            raise BadInput(
                f"{path.name} has {len(entry)} samples in {first}, {len(each)} in {name}", advice="one row a sample"
            )
    if y is not None and len(y) != len(entry):
        raise BadInput(
            f"{path.name} has {len(entry)} samples in {first}, {len(y)} labels in {y.name}", advice="one label a sample"
        )
    kind = _find_kind(path, inputs, options.get("kind"))
    classes = _read_classes(path, entries)
    labels = None
    if y is not None and len(y.shape) <= 2:
        of = options.get("label_kind")
        labels = read_labels(y.whole(), kind=of, place=lambda index: f"{first}[{index}]", classes=classes)
    return ArrayRows(
        name=path.name, path=path, format="npz", split=split, kind=kind,
        classes=classes, labelled=y is not None, inputs=inputs,
        labels=labels, masks=y if labels is None else None, stored=[path],
        rate=_find_rate(path, entries, options) if kind == "audio" else None,
    )  # fmt: skip


def _find_kind(path: Path, inputs: Mapping[str, StoredArray], asked: str | None) -> Kind:
    """Return the kind of samples: the requested one if it fits, else by the shape and type of the array."""
    entry = next(iter(inputs.values()))
    shape, dtype = entry.shape[1:], entry.dtype
    texts = [name for name, each in inputs.items() if each.dtype.kind == "U"]
    if texts and (len(inputs) > 1 or shape or asked is not None):
        raise BadInput(f"{texts[0]} in {path.name} holds text", advice="text is one text a sample, and the only input")
    if texts:
        return "text"
    if len(inputs) > 1:
        if asked not in (None, "array"):
            raise BadInput(f"{len(inputs)} inputs can't be kind={asked}", advice="leave kind= out")
        return "array"
    if asked == "image" and not is_picture(dtype, shape):
        raise BadInput(
            f"{entry.name} in {path.name} is {dtype} {list(shape)} per sample, not an image",
            advice="an image is uint8 of shape height, width, channels (1, 3 or 4)",
        )
    is_sound = dtype.kind in "fi" and len(shape) in (1, 2) and (dtype.kind == "f" or dtype.itemsize == 2)
    if asked == "audio" and not is_sound:
        raise BadInput(
            f"{entry.name} in {path.name} is {dtype} {list(shape)} per sample, not a waveform",
            advice="a waveform is floats or int16 of shape frames, or frames and channels",
        )
    if asked == "image" or (asked is None and is_picture(dtype, shape) and len(shape) == 3):
        return "image"
    return "audio" if asked == "audio" else "array"


def _read_classes(path: Path, entries: Mapping[str, StoredArray]) -> tuple[str, ...]:
    entry = next((entries[name] for name in _CLASSES if name in entries), None)
    if entry is None or entry.dtype.kind != "U" or len(entry.shape) != 1:
        return ()
    return tuple(str(name) for name in entry.whole().tolist())


def _find_rate(path: Path, entries: Mapping[str, StoredArray], options: Mapping[str, str]) -> int | None:
    """Return frames per second, from the user or the archive; None where neither has it."""
    value: Any = options.get("rate")
    if value is None:
        entry = next((entries[name] for name in _RATES if name in entries and entries[name].shape == ()), None)
        if entry is None:
            return None
        value = entry.whole().item()
    try:
        rate = int(value)
    except (ValueError, OverflowError):
        rate = 0
    if rate < 1 or (not isinstance(value, str) and rate != value):
        raise BadInput(f"{value} in {path.name} is not a sampling rate", advice="frames per second: rate=16000")
    return rate


def _get(path: Path, entries: Mapping[str, StoredArray], name: str) -> StoredArray:
    if name not in entries:
        raise BadInput(f"{path.name} has no array {name!r}", advice=f"it has: {_list(entries)}")
    return entries[name]


def _list(entries: Mapping[str, StoredArray]) -> str:
    return ", ".join(list(entries)[:12]) or "nothing"
