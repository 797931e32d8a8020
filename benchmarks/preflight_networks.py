"""Networks for `preflight.py`, as files: real architectures with random weights, and three built here.

The graphs that the onnx package ships have constants for weights; here they get random ones, as quantisers look at
weights, and a newer operator set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter

_OPSET = 17
#: expansion, channels, repetitions and stride of MobileNetV2's stages (Sandler et al. 2018, table 2)
_MOBILENET_V2 = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class Builder:
    """Nodes and random weights of one network."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(0)

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Return the name of a random tensor."""
        fan = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        values = self.random.normal(0, scale or (2 / fan) ** 0.5, shape).astype(np.float32)
        return self.constant(values)

    def constant(self, values: Any) -> str:
        """Return the name of a tensor of `values`."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Return a node; the name of its output."""
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def save(self, path: Path, shape: list[int], output: str) -> Path:
        """Write the network that takes ``x`` of `shape`."""
        inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
        outputs = [helper.make_empty_tensor_value_info(output)]
        graph = helper.make_graph(self.nodes, path.stem, inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def mobilenet_v2(path: Path) -> Path:
    """MobileNetV2 1.0 at 224 × 224, batch normalisation folded."""
    net = Builder()
    low, high = net.constant(np.float32(0)), net.constant(np.float32(6))

    def conv(x: str, before: int, after: int, *, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        weights = net.weight(after, before // group, kernel, kernel)
        pads = [kernel // 2] * 4
        return net.add("Conv", x, weights, net.weight(after, scale=0.1), group=group, strides=[stride] * 2, pads=pads)

    def relu6(x: str) -> str:
        return net.add("Clip", x, low, high)

    x, channels = relu6(conv("x", 3, 32, kernel=3, stride=2)), 32
    for expansion, after, times, first_stride in _MOBILENET_V2:
        for repetition in range(times):
            stride, wide, start = first_stride if repetition == 0 else 1, channels * expansion, x
            if expansion > 1:
                x = relu6(conv(x, channels, wide))
            x = relu6(conv(x, wide, wide, kernel=3, stride=stride, group=wide))
            x = conv(x, wide, after)
            x = net.add("Add", x, start) if stride == 1 and channels == after else x
            channels = after
    x = relu6(conv(x, channels, 1280))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    x = net.add("Gemm", x, net.weight(1280, 1000), net.weight(1000, scale=0.1))
    return net.save(path, [1, 3, 224, 224], x)


def mlp(path: Path) -> Path:
    """Four layers of 1024 units."""
    net, x = Builder(), "x"
    for before, after in ((784, 1024), (1024, 1024), (1024, 1024), (1024, 10)):
        x = net.add("Gemm", x, net.weight(before, after), net.weight(after, scale=0.1))
        x = net.add("Relu", x) if after > 10 else x
    return net.save(path, [1, 784], x)


def transformer(path: Path, *, layers: int = 6, width: int = 256, heads: int = 4, length: int = 128) -> Path:
    """Return a small encoder (pre-norm, GELU) over `length` tokens, with a classifier."""
    net, x = Builder(), "x"
    depth = width // heads
    split = net.constant(np.array([1, length, heads, depth], np.int64))
    merge = net.constant(np.array([1, length, width], np.int64))

    def norm(x: str) -> str:
        ones = net.constant(np.ones(width, np.float32))
        return net.add("LayerNormalization", x, ones, net.weight(width, scale=0.1), axis=-1)

    def dense(x: str, before: int, after: int) -> str:
        product = net.add("MatMul", x, net.weight(before, after))
        return net.add("Add", product, net.weight(after, scale=0.1))

    def split_heads(x: str, *, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        return net.add("Transpose", net.add("Reshape", x, split), perm=list(order))

    def gelu(x: str) -> str:
        inner = net.add("Erf", net.add("Div", x, net.constant(np.float32(2**0.5))))
        product = net.add("Mul", x, net.add("Add", inner, net.constant(np.float32(1))))
        return net.add("Mul", product, net.constant(np.float32(0.5)))

    for _ in range(layers):
        y = norm(x)
        query, value = split_heads(dense(y, width, width)), split_heads(dense(y, width, width))
        key = split_heads(dense(y, width, width), order=(0, 2, 3, 1))
        scores = net.add("Div", net.add("MatMul", query, key), net.constant(np.float32(depth**0.5)))
        mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), value)
        merged = net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]), merge)
        x = net.add("Add", x, dense(merged, width, width))
        x = net.add("Add", x, dense(gelu(dense(norm(x), width, 4 * width)), 4 * width, width))
    pooled = net.add("ReduceMean", norm(x), axes=[1], keepdims=0)
    return net.save(path, [1, length, width], dense(pooled, width, 10))


def light(path: Path, name: str) -> Path:
    """One of the onnx package's graphs with random weights."""
    model = onnx.load(models.light_onnx(name))
    graph = model.graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    made = {node.output[0]: constants[node.input[0]] for node in graph.node if node.op_type == "ConstantOfShape"}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    roles = _find_roles(nodes)
    random = np.random.default_rng(0)
    del graph.node[:]
    graph.node.extend(nodes)
    for weight, shape in made.items():
        values = _draw(random, [int(size) for size in shape], roles.get(weight, ""))
        graph.initializer.append(numpy_helper.from_array(values, weight))
    used = {name for node in nodes for name in node.input}
    kept = [each for each in graph.initializer if each.name in used]
    _replace(graph.initializer, kept)
    weights = {each.name for each in kept}
    inputs = [each for each in graph.input if each.name in used - weights]
    # The converter knows weights only where they are inputs too.
    listed = [helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)) for each in kept]
    _replace(graph.input, [*inputs, *listed])
    model = version_converter.convert_version(model, _OPSET)
    _replace(model.graph.input, [each for each in model.graph.input if each.name not in weights])
    del model.graph.value_info[:]
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def _replace(field: Any, values: list[Any]) -> None:
    del field[:]
    field.extend(values)


def _find_roles(nodes: list[Any]) -> dict[str, str]:
    """Weight → what it is, where that is not a kernel."""
    roles: dict[str, str] = {}
    for node in nodes:
        if node.op_type == "BatchNormalization":
            roles.update(zip(node.input[1:], ("one", "small", "small", "one"), strict=True))
        elif node.op_type in ("Conv", "Gemm") and len(node.input) > 2:
            roles[node.input[2]] = "small"
    return roles


def _draw(random: Any, shape: list[int], role: str) -> Any:
    if role == "one":
        return np.ones(shape, np.float32)
    fan = max(1, int(np.prod(shape[1:])))
    scale = 0.01 if role == "small" else (2 / fan) ** 0.5
    return random.normal(0, scale, shape).astype(np.float32)


def make_networks(folder: Path, *, quick: bool) -> dict[str, Path]:
    """Name → file, of those that can be had here."""
    found = {"digits_cnn": models.bundled("digits_cnn.onnx")}
    names = ("squeezenet", "shufflenet") if quick else ("squeezenet", "shufflenet", "resnet50", "densenet121")
    found.update({name: light(folder / f"{name}.onnx", name) for name in names})
    found["mobilenet_v2"] = mobilenet_v2(folder / "mobilenet_v2.onnx")
    found["mlp"] = mlp(folder / "mlp.onnx")
    found["transformer"] = transformer(folder / "transformer.onnx")
    found["digits_cnn.tflite"] = models.bundled("digits_cnn.tflite")
    for name in ("kws_ref_model_float32", "pretrainedResnet", "vww_96_float", "ad01_fp32"):
        if (file := models.MLPERF_TINY / f"{name}.tflite").exists():
            found[file.name] = file
    return found
