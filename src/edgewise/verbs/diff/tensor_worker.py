"""Runs two models on the same samples, sample by sample, and holds their tensors against one another as they come.

Only sums are kept, so that memory does not grow with the number of samples. This is the main module of a child process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.child_process import serve
from edgewise.stats.differences import TINY, Sums, to_real
from edgewise.verbs.diff.engines import ENGINES
from edgewise.verbs.diff.layers_alone import run_alone

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

NOT_FINITE = "it is NaN or infinite"


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
            a = to_real(one[name], other if same and scale[0] is None else scale)
            b = to_real(two[twin], scale if same and other[0] is None else other)
            if a is None or b is None:
                self.why = "integers without one scale for all can't be compared"
                continue
            for axes, right in _aligned(a, b, moved=moved):
                if not (np.isfinite(right).all() and np.isfinite(b).all()):
                    self.why = NOT_FINITE
                    continue
                self.sums.setdefault((name, twin, axes), Sums()).add(right.ravel(), b.ravel(), two[twin])

    def best(self) -> dict[str, Any]:
        """Return the candidates that agree best, JSON-shaped."""
        if not self.sums:
            return {"why": self.why}
        (name, twin, axes), sums = min(self.sums.items(), key=lambda each: each[1].noise / max(each[1].signal, TINY))
        return {"first": name, "second": twin, "axes": axes, **asdict(sums)}


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


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of layers alone where ``alone`` names some, else those of every layer; see `compare` and
    `run_alone`.
    """
    from edgewise.optimizing.calibration import read_calibration

    feeds = [read_calibration(Path(path)).feeds() for path in request["samples"]]
    return {"alone": run_alone(request, feeds[0])} if "alone" in request else compare(request, feeds)


def compare(request: Mapping[str, Any], samples: Sequence[Iterable[Sequence[Array]]]) -> dict[str, Any]:
    """Return the sums of every layer, and the versions of the engines.

    Args:
        request: ``models`` (``path``, ``format`` and ``engine`` of both), ``layers`` (``first`` and ``second``: name,
            scale and zero point of each candidate), ``samples`` (a file of `edgewise.optimizing.calibration` for each).
        samples: of each model, one array per input.
    """
    layers = [Layer(each["first"], each["second"]) for each in request["layers"]]
    names = [
        list(dict.fromkeys(name for layer in layers for name, *_ in getattr(layer, side)))
        for side in ("first", "second")
    ]
    models = [
        ENGINES[each["engine"]](Path(each["path"]), own) for each, own in zip(request["models"], names, strict=True)
    ]
    moved = request["models"][0]["format"] != request["models"][1]["format"]
    count = 0
    for feeds in zip(*samples, strict=True):
        one, two = (model.run(feed, own) for model, feed, own in zip(models, feeds, names, strict=True))
        for layer in layers:
            layer.add(one, two, moved=moved)
        del one, two  # or they would stay while the next sample is computed
        count += 1
    return {
        "layers": [layer.best() for layer in layers],
        "engines": [model.version for model in models],
        "samples": count,
    }


if __name__ == "__main__":
    raise SystemExit(serve(lambda request: json.dumps(answer(json.loads(request))).encode()))
