"""`diff` keeps sums: however many samples there are, only the tensors of one of them are in memory."""

from __future__ import annotations

import weakref
from collections import Counter

import numpy as np
import pytest

from edgewise.verbs.diff import tensor_worker

LAYERS, FILES = 50, ("first.onnx", "second.onnx")


@pytest.fixture
def alive(monkeypatch):
    """An engine whose tensors are counted while they are in memory: the arrays now, the most ever, all that were made.

    Layer *n* of the second model is off by 0.1 × *n*.
    """
    counts = Counter()

    def ended():
        counts["now"] -= 1

    class Engine:
        version = "counted 1"

        def __init__(self, path, names):
            self.error = 0.1 if path.name == FILES[1] else 0.0

        def run(self, feeds, names):
            return {name: self._tensor(feeds[0], int(name[1:])) for name in names}

        def _tensor(self, feed, at):
            made = feed + np.float32(self.error * at)
            weakref.finalize(made, ended)
            counts.update(now=1, made=1)
            counts["most"] = max(counts["most"], counts["now"])
            return made

    monkeypatch.setitem(tensor_worker.ENGINES, "counted", Engine)
    return counts


@pytest.mark.parametrize("samples", [1, 2, 40])
def test_the_tensors_of_one_sample_are_in_memory_whatever_their_number(alive, samples):
    names = [f"t{at}" for at in range(LAYERS)]
    request = {
        "models": [{"path": file, "format": "onnx", "engine": "counted"} for file in FILES],
        "layers": [{"first": [[name, None]], "second": [[name, None]]} for name in names],
    }
    feeds = [[np.full((2, 3), value, np.float32)] for value in range(1, samples + 1)]
    told = tensor_worker.compare(request, [feeds, feeds])
    assert alive == {"now": 0, "made": 2 * LAYERS * samples, "most": 2 * LAYERS}
    assert told["samples"] == samples
    for at, layer in enumerate(told["layers"]):
        assert layer["count"] == 6 * samples
        assert layer["signal"] == pytest.approx(6 * sum(value**2 for value in range(1, samples + 1)))
        assert layer["noise"] == pytest.approx(6 * samples * (0.1 * at) ** 2, rel=1e-4)
