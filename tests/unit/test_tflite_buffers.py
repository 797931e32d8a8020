"""TFLite files whose weights stand behind the flatbuffer."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.estimating.mcu.network import read_network
from edgewise.model.cost import total_of
from edgewise.model.identity import read_graph
from edgewise.runtime.tflite_buffers import has_buffers_behind
from tflite_writer import with_buffers_behind

pytest.importorskip("ai_edge_litert", reason="LiteRT, whose schema writes the file, is not installed")


@pytest.fixture
def files(tmp_path):
    near = bundled("digits_cnn_int8.tflite")
    far = tmp_path / "far.tflite"
    far.write_bytes(with_buffers_behind(near.read_bytes()))
    return near, far


def test_they_are_found(files, tmp_path):
    near, far = files
    assert has_buffers_behind(far) and not has_buffers_behind(near)
    other = tmp_path / "other.tflite"
    for data in (b"", b"1234TFL3", far.read_bytes()[:100], b"\xff" * 64):
        other.write_bytes(data)
        assert not has_buffers_behind(other)
    assert not has_buffers_behind(tmp_path)


def test_graph_and_constants_are_those_of_the_usual_file(files):
    near, far = map(read_network, files)
    for one, other in zip(near.operators, far.operators, strict=True):
        for mine, its in zip(one.inputs, other.inputs, strict=True):
            assert (mine.data is None) == (its.data is None)
            assert mine.data is None or np.array_equal(mine.data, its.data)
    one, other = (total_of(read_graph(path)) for path in files)
    assert one == other and one.weight_bytes > 10_000
