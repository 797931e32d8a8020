"""Runs two models on the same samples, sample by sample, and holds their tensors against one another as they come.

Only sums are kept, so that memory does not grow with the number of samples. This is the main module of a child process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.child_process import serve
from edgewise.verbs.diff.engines import ENGINES

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

TINY = 1e-300
NOT_FINITE = "it is NaN or infinite"


@dataclass(slots=True)
class Sums:
    """What is kept of two tensors over all samples.

    Attributes:
        count: of values.
        signal, noise: sums of the squares of the reference, and of the difference.
        other, dot: sum of the squares of the other one, and of the products.
        largest: of the differences' absolute values.
        zeros: values of the other one that are 0.
        saturated: integers of the other one at an end of their type; -1 where it has real numbers.
    """

    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    other: float = 0.0
    dot: float = 0.0
    largest: float = 0.0
    zeros: int = 0
    saturated: int = -1

    def add(self, one: Array, two: Array, raw: Array) -> None:
        """Add the same values of both; `raw` are those of the other one before they became real."""
        gap = one - two
        self.count += one.size
        self.signal += float(np.vdot(one, one))
        self.noise += float(np.vdot(gap, gap))
        self.other += float(np.vdot(two, two))
        self.dot += float(np.vdot(one, two))
        self.largest = max(self.largest, float(np.max(np.abs(gap), initial=0.0)))
        self.zeros += int(np.sum(two == 0))
        if raw.dtype.kind in "iu" and raw.dtype.itemsize <= 2:
            ends = np.iinfo(raw.dtype)
            self.saturated = max(self.saturated, 0) + int(np.sum((raw == ends.min) | (raw == ends.max)))


@dataclass(slots=True)
class Layer:
    """The candidates of one match, each with its sums."""

    first: Sequence[Sequence[Any]]
    second: Sequence[Sequence[Any]]
    sums: dict[tuple[str, str, tuple[int, ...]], Sums] = field(default_factory=dict)
    why: str = "no tensor of this layer is there in both"

    def add(self, one: Mapping[str, Array], two: Mapping[str, Array], *, moved: bool) -> None:
        """Add one sample."""
        for (name, *scale), (twin, *other) in product(self.first, self.second):
            if name not in one or twin not in two:
                continue
            # Of the same integers one file may not tell the scale.
            same = one[name].dtype == two[twin].dtype
            a = _real(one[name], other if same and scale[0] is None else scale)
            b = _real(two[twin], scale if same and other[0] is None else other)
            if a is None or b is None:
                self.why = "integers without one scale for all can't be compared"
                continue
            for axes, right in _aligned(a, b, moved=moved):
                if not (np.isfinite(right).all() and np.isfinite(b).all()):
                    self.why = NOT_FINITE
                    continue
                self.sums.setdefault((name, twin, axes), Sums()).add(right.ravel(), b.ravel(), two[twin])

    def best(self) -> dict[str, Any]:
        """The candidates that agree best, JSON-shaped."""
        if not self.sums:
            return {"why": self.why}
        (name, twin, _), sums = min(self.sums.items(), key=lambda each: each[1].noise / max(each[1].signal, TINY))
        return {"first": name, "second": twin, **asdict(sums)}


def _real(array: Array, scale: Sequence[float | None]) -> Array | None:
    """The values in 64 bits; integers by their scale and zero point; None where they have none."""
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    factor, zero = scale
    if array.dtype.kind not in "iu" or factor is None:
        return array.astype(np.float64) if array.dtype.kind == "b" else None
    return np.asarray((array.astype(np.float64) - float(zero or 0)) * factor)


def _aligned(one: Array, two: Array, *, moved: bool) -> Iterator[tuple[tuple[int, ...], Array]]:
    """`one` in the layout of `two`: as it is, or, of files that may have channels elsewhere, with its axes moved."""
    if one.size != two.size:
        return
    if moved and one.ndim == two.ndim and 3 <= one.ndim <= 5:
        for axes in permutations(range(1, one.ndim)):
            order = (0, *axes)
            if tuple(one.shape[axis] for axis in order) == two.shape:
                yield order, one.transpose(order)
    elif one.shape == two.shape or not moved or min(one.ndim, two.ndim) < 3:
        yield (), one.reshape(two.shape)


def compare(request: Mapping[str, Any]) -> dict[str, Any]:
    """The sums of every layer, and the versions of the engines.

    Args:
        request: ``models`` (``path``, ``format`` and ``engine`` of both), ``layers`` (``first`` and ``second``: name,
            scale and zero point of each candidate), ``samples`` (a file of `edgewise.optimizing.calibration` for each).
    """
    from edgewise.optimizing.calibration import read_calibration

    layers = [Layer(each["first"], each["second"]) for each in request["layers"]]
    names = [
        list(dict.fromkeys(name for layer in layers for name, *_ in getattr(layer, side)))
        for side in ("first", "second")
    ]
    models = [
        ENGINES[each["engine"]](Path(each["path"]), own) for each, own in zip(request["models"], names, strict=True)
    ]
    samples = [read_calibration(Path(path)).feeds() for path in request["samples"]]
    moved = request["models"][0]["format"] != request["models"][1]["format"]
    count = 0
    for feeds in zip(*samples, strict=True):
        one, two = (model.run(feed, own) for model, feed, own in zip(models, feeds, names, strict=True))
        for layer in layers:
            layer.add(one, two, moved=moved)
        count += 1
    return {
        "layers": [layer.best() for layer in layers],
        "engines": [model.version for model in models],
        "samples": count,
    }


if __name__ == "__main__":
    raise SystemExit(serve(lambda request: json.dumps(compare(json.loads(request))).encode()))
