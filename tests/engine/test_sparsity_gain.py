"""`inspect --sparsity --measure` on real engines: the network and its sparse layers are timed against dense weights."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.model.graph import BITS
from edgewise.model.identity import read_graph
from edgewise.model.sparsity import PRODUCTS, count_zeros, find_weights, open_data
from edgewise.optimizing import sparsity
from edgewise.optimizing.sparsity import measure_gains

pytestmark = pytest.mark.engine


def plant(path):
    """Set every second element of each product's weights to its zero point. Returns the number of zeros planted."""
    graph, planted = read_graph(path), 0
    for operator in graph.operators:
        if operator.kind in PRODUCTS:
            for _, name in find_weights(operator, graph, graph.producers()):
                tensor = graph.tensors[name]
                place = tensor.data
                data = np.array(open_data(place, path))
                data[::2] = tensor.quantization.zero_point if tensor.quantization else 0
                with path.open("r+b") as file:
                    file.seek(place.offset)
                    file.write(data.tobytes())
                planted += (data.size + 1) // 2
                assert data.nbytes * 8 == tensor.elements * BITS[place.dtype]
    return planted


@pytest.mark.parametrize(
    ("name", "engines"),
    [("digits_cnn.onnx", {"onnxruntime/cpu", "openvino/cpu"}), ("digits_cnn_int8.tflite", {"litert/interpreter", "openvino/cpu"})],
)  # fmt: skip
@pytest.mark.long
def test_every_part_is_timed_in_every_engine(name, engines, tmp_path, monkeypatch):
    path = tmp_path / name
    shutil.copyfile(bundled(name), path)
    planted = plant(path)
    shapes = {"image": (1, 1, 32, 32)} if name.endswith("onnx") else None
    graph = read_graph(path, shapes=shapes)
    found = count_zeros(graph, model=path)
    zeros = found.to_dict()["totals"]["zeros"]
    assert zeros == planted if name.endswith("onnx") else zeros >= planted
    monkeypatch.setattr(sparsity, "PROCESSES", 1)
    monkeypatch.setattr(sparsity, "_TURNS_S", 0.02)  # real time: how long is timed; no deadline
    before = path.read_bytes()
    gains, why = measure_gains(path, graph, found)
    assert path.read_bytes() == before
    assert why == ""
    assert {each.engine for each in gains} <= engines
    parts = [each.part for each in gains]
    assert parts[0] == "the whole network"
    assert len(set(parts)) == 1 + sparsity.LAYERS
    for each in gains:
        assert each.absent_because is None
        assert each.low <= each.speedup <= each.high
        assert each.pairs >= 9


def test_a_dense_network_is_not_timed():
    path = bundled("digits_cnn.onnx")
    graph = read_graph(path)
    assert measure_gains(path, graph, count_zeros(graph, model=path)) == (
        (), "no convolution or matrix product has at least 10% zeros",
    )  # fmt: skip
