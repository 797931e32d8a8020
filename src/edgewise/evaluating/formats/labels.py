"""From labels in files, numbers or words, to those of samples: class indices, floats or texts."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.workload.arrays import Array

KINDS = ("class", "float", "text")
"""What the option ``label_kind`` takes."""
_ADVICE = "set the kind of labels with label_kind=class, float or text"
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Attributes:
    values: one a sample.
    classes: names in the order of their indices; empty where labels are numbers.
    """

    values: Sequence[Any]
    classes: tuple[str, ...] = ()
    kind: str = "class"


def read_labels(
    values: Array, *, kind: str | None, place: Callable[[int], str], classes: Sequence[str] = ()
) -> Labels | None:
    """Return the labels in an array of numbers or texts; None where each is an array, to be read with its sample.

    `kind`, `place`, `classes`: as for `read_words`. Raises `BadInput`: as `read_words` and `read_numbers`; values of
    another type.
    """
    if values.dtype.kind == "U" and values.ndim == 1:
        return read_words([str(word) for word in values.tolist()], kind=kind, place=place, classes=classes)
    if values.dtype.kind not in "biuf" or kind == "text":
        what = f"of the type {values.dtype}" if values.ndim == 1 else f"of {values.ndim} dimensions"
        raise BadInput(f"{place(0)} has a label {what}", advice="labels are numbers, or one text per sample")
    if values.ndim > 2:
        return None
    return read_numbers(values.astype(np.int64) if values.dtype.kind == "b" else values, kind=kind, place=place)


def read_words(
    words: Sequence[str],
    *,
    kind: str | None,
    place: Callable[[int], str],
    separator: str | None = None,
    classes: Sequence[str] = (),
) -> Labels:
    """Return labels that are text in a table.

    Whole numbers are class indices and other numbers are values to predict, if all of them are; anything else are names
    of classes, numbered in the order of their names.

    Args:
        kind: one of `KINDS`, instead of finding out.
        place: the place of a word, for errors.
        separator: between texts of which any counts.
        classes: names in the order of their indices, where the user gave it.

    Raises `BadInput`: a missing, negative or not finite label, or a name that is not among `classes`.
    """
    empty = next((index for index, word in enumerate(words) if not word.strip()), None)
    if empty is not None and kind != "text":
        raise BadInput(f"{place(empty)} has no label", advice="fill it in, or remove the row")
    whole = all(_WHOLE.fullmatch(word.strip()) for word in words)
    if kind is None and not whole and all(is_number(word) for word in words):
        kind = "float"
    if kind == "text":
        texts = words if separator is None else [tuple(map(str.strip, word.split(separator))) for word in words]
        return Labels(values=texts, kind="text")
    if kind == "float":
        return Labels(values=_read_floats(words, place), kind="float")
    if not classes and whole:
        return Labels(values=check_indices(np.array([int(word) for word in words], np.int64), place))
    names = tuple(classes) or tuple(sorted({word.strip() for word in words}))
    index = {name: number for number, name in enumerate(names)}
    values = array("q")
    for number, word in enumerate(words):
        if word.strip() not in index:
            raise BadInput(
                f"{place(number)} has the label {word.strip()!r}, which is not a class",
                advice=f"classes: {', '.join(names[:12])}{' …' if len(names) > 12 else ''}",
            )
        values.append(index[word.strip()])
    return Labels(values=values, classes=names)


def read_numbers(values: Array, *, kind: str | None, place: Callable[[int], str]) -> Labels:
    """Return labels that are numbers: whole ones are class indices, others values to predict.

    A row with a single 1 among zeros is the index of the 1. `values`: of shape (n,), (n, 1), or (n, k). Raises
    `BadInput`: negative class indices, values that are not finite, or a kind that they can't be.
    """
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    one_hot = flat.ndim == 2 and flat.size and np.isin(flat, (0, 1)).all() and (flat.sum(axis=1) == 1).all()
    if one_hot and kind != "float":
        return Labels(values=check_indices(flat.argmax(axis=1), place))
    if flat.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(flat).reshape(len(flat), -1).all(axis=1))
        if len(wrong):
            raise BadInput(f"{place(int(wrong[0]))} has a label that is not finite", advice="labels are numbers")
    if flat.ndim == 2:
        if kind == "class":
            raise BadInput(f"{place(0)} has a label of {flat.shape[1]} numbers, which is not a class", advice=_ADVICE)
        return Labels(values=list(flat.astype(np.float64)), kind="float")
    if kind == "float" or (kind is None and flat.dtype.kind == "f"):
        return Labels(values=array("d", flat.astype(np.float64).tolist()), kind="float")
    if flat.dtype.kind == "f" and not np.array_equal(flat, np.round(flat)):
        wrong = np.flatnonzero(flat != np.round(flat))
        raise BadInput(f"{place(int(wrong[0]))} has the label {flat[wrong[0]]}, which is not a class", advice=_ADVICE)
    return Labels(values=check_indices(flat, place))


def check_indices(values: Array, place: Callable[[int], str]) -> Sequence[int]:
    """Return `values` as class indices. Raises `BadInput` for a negative one, or one above 2⁵³."""
    wrong = np.flatnonzero((values < 0) | (values > 2**53))
    if len(wrong):
        raise BadInput(
            f"{place(int(wrong[0]))} has the label {values[wrong[0]]}, and a class is 0 or more",
            advice="number classes from 0, or say label_kind=float for values to predict",
        )
    return array("q", values.astype(np.int64).tolist())


def is_number(word: str) -> bool:
    """Return whether `word` is a number as tables have them."""
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _read_floats(words: Sequence[str], place: Callable[[int], str]) -> Sequence[float]:
    values = array("d")
    for index, word in enumerate(words):
        if not is_number(word) or not math.isfinite(float(word)):
            raise BadInput(f"{place(index)} has the label {word.strip()!r}, which is not a number", advice=_ADVICE)
        values.append(float(word))
    return values
