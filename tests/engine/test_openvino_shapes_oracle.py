"""Shapes behind open dimensions, held against those that OpenVINO infers for the same file and the same inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise import data
from edgewise.errors import BadInput
from edgewise.model.cost import total_of
from edgewise.model.readers.onnx import OnnxReader
from edgewise.model.readers.openvino import OpenVinoReader
from edgewise.model.readers.tflite import TfliteReader
from openvino_chains import CHAINS
from openvino_operations import OPERATIONS, Chance

ov = pytest.importorskip("openvino")
np = pytest.importorskip("numpy")
pytestmark = pytest.mark.engine

CASES = 12
"""Of each operation."""


def tell(path, shapes):
    """What OpenVINO infers: name of an operation → shapes of its outputs. Raises what OpenVINO raises."""
    model = ov.Core().read_model(path)
    model.reshape(dict(zip((each.any_name for each in model.inputs), map(list, shapes), strict=True)))
    return {
        node.get_friendly_name(): [
            tuple(size.get_length() if size.is_static else None for size in each.get_partial_shape())
            for each in node.outputs()
        ]
        for node in model.get_ordered_ops()
    }


def read(path, shapes):
    reader = OpenVinoReader()
    names = [each.name for each in reader.read_signature(path).inputs]
    return reader.read_graph(path, shapes=dict(zip(names, map(tuple, shapes), strict=True)))


def shapes_of(graph, operator):
    return [graph.tensors[name].shape for name in operator.outputs]


# -- whole networks ----------------------------------------------------------------------------------------------------


LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512")  # fmt: skip
MLPERF = ("ad01_fp32", "ad01_int8", "kws_ref_model", "kws_ref_model_float32", "pretrainedResnet", "pretrainedResnet_quant",
          "str_ww_ref_model", "vww_96_float", "vww_96_int8")  # fmt: skip
SLOW = {"vgg19", "bvlc_alexnet", "zfnet512", "resnet50", "densenet121", "inception_v2"}
FIXED = {"light_shufflenet.onnx", "digits_cnn.tflite"}
"""A Reshape in them has the batch in its target, so that they take no other."""


MERGED = {"light_inception_v1.onnx": 34_963_456, "light_inception_v2.onnx": 137_682_944}
"""Multiply-accumulates of convolutions that OpenVINO found to be the same: the weights in these files are all alike."""


def count_source(source: Path) -> int:
    """Multiply-accumulates of the original with a batch of 1, by the reader of its own format."""
    reader = TfliteReader() if source.suffix == ".tflite" else OnnxReader()
    shapes = {each.name: (1, *each.shape[1:]) for each in reader.read_signature(source).inputs}
    return total_of(reader.read_graph(source, shapes=shapes)).macs - MERGED.get(source.name, 0)


def hold(source: Path, folder: Path) -> None:
    """Open the batch of a network, and compare every operation and the sum of all with batches of 1 and 3."""
    macs = count_source(source)
    model = ov.convert_model(source)
    sizes = [[size.get_length() for size in list(each.get_partial_shape())[1:]] for each in model.inputs]
    model.reshape({each.any_name: [-1, *rest] for each, rest in zip(model.inputs, sizes, strict=True)})
    path = folder / "open.xml"
    ov.save_model(model, path, compress_to_fp16=True)
    assert source.name in FIXED or total_of(OpenVinoReader().read_graph(path)).macs is None
    for batch in (1, 3):
        shapes = [(batch, *rest) for rest in sizes]
        if batch > 1 and source.name in FIXED:
            with pytest.raises(RuntimeError, match="Reshape"):
                tell(path, shapes)
            with pytest.raises(BadInput, match=r"the network can't take .*shape-inconsistent at layer .*\(Reshape\)"):
                read(path, shapes)
            continue
        told, graph = tell(path, shapes), read(path, shapes)
        # OpenVINO folds some of the operations that compute shapes while it takes the new ones.
        folded = {each.op for each in graph.operators if each.name not in told}
        assert folded <= {"ShapeOf", "Gather", "Concat", "Convert"}
        assert len(graph.operators) - len(folded) > 10
        found = {each.name: shapes_of(graph, each) for each in graph.operators if each.name in told}
        assert found == {name: told[name] for name in found}
        assert total_of(graph).macs == batch * macs


@pytest.mark.parametrize("name", MLPERF)
def test_networks_from_tflite(tmp_path, shared_models, name):
    hold(shared_models / f"{name}.tflite", tmp_path)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in LIGHT]
)
def test_networks_from_onnx(tmp_path, name):
    onnx = pytest.importorskip("onnx")
    hold(Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx", tmp_path)


@pytest.mark.parametrize("name", ["digits_cnn.onnx", "digits_cnn.tflite"])
def test_the_networks_of_the_package(tmp_path, name):
    hold(Path(data.path(name)), tmp_path)


@pytest.mark.parametrize("make", (*OPERATIONS, *CHAINS), ids=lambda make: make.__name__)
def test_operations(tmp_path, make):
    chance = Chance(make.__name__)
    path, compared = tmp_path / "m.xml", 0
    for _ in range(CASES):
        shapes, build = make(chance, ov.opset13)
        inputs = [ov.opset13.parameter(chance.open(shape), np.float32) for shape in shapes]
        try:
            ov.save_model(ov.Model(build(*inputs).outputs(), inputs), path, compress_to_fp16=False)
            told = tell(path, shapes)
        except RuntimeError:  # OpenVINO refuses some of what is drawn
            continue
        if any(None in shape for each in told.values() for shape in each):
            continue  # a size below 0, of which it says that it is open
        graph = read(path, shapes)
        found = {each.name: shapes_of(graph, each) for each in graph.operators if each.name in told}
        assert found == {name: told[name] for name in found}
        assert all(None not in (shape or ()) and shape is not None for each in found.values() for shape in each)
        OpenVinoReader().read_graph(path)
        compared += bool(found)
    assert compared > CASES / 3
