"""TFLite: thousands of mutations of real files, each of which is a graph or one clear error."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from edgewise import data as bundled
from edgewise.errors import BadModel
from edgewise.model.cost import KINDS, total_of
from edgewise.model.graph import Graph
from edgewise.model.memory_plan import plan_memory
from edgewise.model.readers.tflite import TfliteReader

WORDS = (0, 1, 2, 3, 4, 32, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


def table_bytes(data: bytes) -> list[tuple[int, int]]:
    """Where the file is not weights: a mutation of a weight would teach nothing. Spans of (start, end)."""
    import tflite

    model = tflite.Model.GetRootAs(data, 0)
    weights = []
    for at in range(model.BuffersLength()):
        buffer = model.Buffers(at)
        if buffer.DataLength() > 256:
            vector = buffer._tab.Vector(buffer._tab.Offset(4))
            weights.append((vector, vector + buffer.DataLength()))
    spans, start = [], 0
    for low, high in sorted(weights):
        spans.append((start, low))
        start = high
    return [span for span in [*spans, (start, len(data))] if span[0] < span[1]]


def mutate(data: bytes, spans: list[tuple[int, int]], chance: random.Random) -> bytes:
    changed = bytearray(data)
    sizes = [high - low for low, high in spans]

    def place() -> int:
        low, high = chance.choices(spans, sizes)[0]
        return chance.randrange(low, high)

    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = place()
        match chance.randrange(7):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at] = chance.randrange(256)
            case 2:
                struct.pack_into("<I", changed, min(at & ~3, len(changed) - 4), chance.choice(WORDS))
            case 3:
                struct.pack_into("<H", changed, min(at & ~1, len(changed) - 2), chance.choice(WORDS) & 0xFFFF)
            case 4:
                word = struct.unpack_from("<I", changed, min(at & ~3, len(changed) - 4))[0]
                word = (word + chance.choice((-8, -4, -1, 1, 4, 8))) & 0xFFFFFFFF
                struct.pack_into("<I", changed, min(at & ~3, len(changed) - 4), word)
            case 5:
                other, length = place(), chance.choice((4, 8, 16, 64))
                piece = bytes(changed[other : other + length])
                changed[at : at + len(piece)] = piece[: len(changed) - at]
            case 6 if chance.random() < 0.1:
                del changed[at:]
                if len(changed) < 16:
                    break
                sizes = [max(min(high, len(changed)) - min(low, len(changed) - 1), 1) for low, high in spans]
                spans = [(min(low, len(changed) - 1), max(min(high, len(changed)), 1)) for low, high in spans]
                spans = [(low, max(high, low + 1)) for low, high in spans]
    return bytes(changed)


def judge(path: Path) -> str:
    """Reads a file; what becomes of it, and everything that is computed of a graph."""
    try:
        graph = TfliteReader().read_graph(path)
    except BadModel:
        return "BadModel"
    examine(graph)
    shapes = {
        name: tuple(size if isinstance(size, int) else 2 for size in graph.tensors[name].shape or ())
        for name in graph.inputs
    }
    try:
        examine(TfliteReader().read_graph(path, shapes=shapes))
    except BadModel:
        return "BadModel with shapes"
    return "Graph"


def examine(graph: Graph) -> None:
    for inner in (graph, *graph.subgraphs.values()):
        names = {operator.name for operator in inner.operators}
        assert len(names) == len(inner.operators)
        for operator in inner.operators:
            assert not operator.kind or operator.kind in KINDS
            assert {name for name in (*operator.inputs, *operator.outputs) if name} <= inner.tensors.keys()
            assert set(operator.weights) <= set(operator.inputs)
    total = total_of(graph)
    assert total.macs is None or total.macs >= 0
    assert total.ops is None or total.ops >= 0
    assert total.macs is not None or total.why
    plan_memory(graph)


def bombard(data: bytes, *, count: int, seed: int, path: Path) -> Counter[str]:
    chance = random.Random(seed)
    spans = table_bytes(data)
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        path.write_bytes(mutate(data, spans, chance))
        outcomes[judge(path)] += 1
    return outcomes


# A file that is still a graph is read again with other input sizes, for which the engine is asked in a process of its own.
FEW_AND_MANY = [24, pytest.param(400, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_mutations_of_the_bundled_model(count, tmp_path):
    data = bundled.path("digits_cnn.tflite").read_bytes()
    outcomes = bombard(data, count=count, seed=count, path=tmp_path / "m.tflite")
    assert outcomes["Graph"] > count // 5
    assert outcomes["BadModel"] > count // 5


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 24) for name in ("ad01_int8", "pretrainedResnet_quant")),
        *(
            pytest.param(name, 100, marks=pytest.mark.long)
            for name in ("ad01_int8", "kws_ref_model", "str_ww_ref_model", "pretrainedResnet_quant")
        ),
    ],
)
def test_mutations_of_real_models(name, count, shared_models, tmp_path):
    data = (shared_models / f"{name}.tflite").read_bytes()
    outcomes = bombard(data, count=count, seed=count + 1, path=tmp_path / "m.tflite")
    assert outcomes["Graph"] > count // 10
    assert outcomes["BadModel"] > count // 10
