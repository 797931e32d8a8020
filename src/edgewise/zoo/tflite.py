"""Reference networks as TFLite files, float32, channels last; the schema's classes come with ai-edge-litert."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgewise.errors import Unavailable
from edgewise.zoo.layers import INPUT, OUTPUT, Layer, Layers, Shape

FUSED = ("relu", "relu6")
EPSILON = 1e-5
"""Of layer normalisation, as the default of ONNX."""


class _Writer:
    """Tensors, buffers and operators of a file; `outputs` are the tensors of the layers so far."""

    def __init__(self, net: Layers, schema: Any) -> None:
        self.net, self.schema = net, schema
        self.buffers = [schema.BufferT()]
        self.tensors: list[Any] = []
        self.operators: list[Any] = []
        self.codes: dict[str, int] = {}
        self.outputs: list[int] = []

    def tensor(self, shape: Shape, *, data: Any = None, integer: bool = False) -> int:
        """Add a tensor; with `data` a constant."""
        made = self.schema.TensorT()
        made.name, made.shape = f"tensor_{len(self.tensors)}", list(shape)
        made.type = self.schema.TensorType.INT32 if integer else self.schema.TensorType.FLOAT32
        made.buffer = 0
        if data is not None:
            made.buffer = len(self.buffers)
            self.buffers.append(self.schema.BufferT())
            self.buffers[-1].data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, array: Any) -> int:
        """Return a constant of float32."""
        array = np.asarray(array, np.float32)
        return self.tensor(array.shape, data=array)

    def integers(self, *values: int) -> int:
        """Return a vector of int32."""
        return self.tensor((len(values),), data=np.array(values, np.int32), integer=True)

    def node(self, operator: str, inputs: list[int], shape: Shape, *, act: str = "", **options: Any) -> int:
        """Add an operator; returns its output. `shape` is in the order of the file.

        Args:
            options: ``kind``, the name of the table of options, and its fields.
        """
        made = self.schema.OperatorT()
        made.opcodeIndex = self.codes.setdefault(operator, len(self.codes))
        made.inputs, made.outputs = inputs, [self.tensor(shape)]
        if kind := options.pop("kind", ""):
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, f"{kind}Options")
            made.builtinOptions = getattr(self.schema, f"{kind}OptionsT")()
            if act in FUSED:
                options["fusedActivationFunction"] = getattr(self.schema.ActivationFunctionType, act.upper())
            for name, value in options.items():
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)
        return int(made.outputs[0])

    def layer(self, layer: Layer) -> None:
        """Add the operators of a layer, and its activation unless that is part of them."""
        if layer.kind in ("input", "tokens-input"):
            self.outputs.append(self.tensor(_last(layer), integer=layer.kind == "tokens-input"))
            return
        done = _KINDS[layer.kind](self, layer, [self.outputs[at] for at in layer.inputs])
        if layer.act and layer.act not in FUSED:
            done = _ACTIVATIONS[layer.act](self, done, _last(layer))
        self.outputs.append(done)

    def model(self, name: str) -> Any:
        """Return the file as the schema's object."""
        for layer in self.net.rows:
            self.layer(layer)
        graph, model = self.schema.SubGraphT(), self.schema.ModelT()
        graph.name, graph.tensors, graph.operators = name, self.tensors, self.operators
        graph.inputs, graph.outputs = [self.outputs[0]], [self.outputs[-1]]
        self.tensors[self.outputs[0]].name, self.tensors[self.outputs[-1]].name = INPUT, OUTPUT
        model.version, model.description = 3, "edgewise zoo"
        model.subgraphs, model.buffers, model.operatorCodes = [graph], self.buffers, []
        for operator in self.codes:
            code = self.schema.OperatorCodeT()
            code.builtinCode = getattr(self.schema.BuiltinOperator, operator)
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
            model.operatorCodes.append(code)
        return model


def to_tflite(net: Layers, *, name: str) -> bytes:
    """Return the bytes of a ``.tflite`` file; the same network gives the same bytes.

    Raises:
        Unavailable: ai-edge-litert is not installed.
    """
    try:
        import flatbuffers  # type: ignore[import-untyped]
        from ai_edge_litert import schema_py_generated as schema
    except ImportError as error:
        raise Unavailable(
            f"TFLite files can't be written: {error}", advice="pip install 'edgewise[litert]', or ⟦format⟧ onnx"
        ) from None
    builder = flatbuffers.Builder(1024)
    builder.Finish(_Writer(net, schema).model(name).Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _last(layer: Layer) -> Shape:
    """Return the shape of a layer with the batch and, for images and videos, the channels last."""
    is_image = len(layer.shape) > 2 and layer.kind not in ("reshape", "transpose", "matmul", "softmax")
    return (1, *layer.shape[1:], layer.shape[0]) if is_image else (1, *layer.shape)


def _steps(writer: _Writer, layer: Layer) -> dict[str, int]:
    """Return padding and strides, as options name them."""
    padding = writer.schema.Padding
    strides = dict(
        zip(("strideD", "strideH", "strideW")[-len(layer.shape) + 1 :], layer.options["stride"], strict=True)
    )
    return {"padding": padding.SAME if layer.options["same"] else padding.VALID, **strides}


def _conv(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    weights, bias = layer.weights
    order: Shape
    if len(layer.shape) == 4:
        operator, kind, order = "CONV_3D", "Conv3D", (2, 3, 4, 1, 0)
    elif layer.options["groups"] == 1:
        operator, kind, order = "CONV_2D", "Conv2D", (0, 2, 3, 1)
    else:
        operator, kind, order = "DEPTHWISE_CONV_2D", "DepthwiseConv2D", (1, 2, 3, 0)
    options = {**_steps(writer, layer), **({"depthMultiplier": 1} if kind == "DepthwiseConv2D" else {})}
    constants = [writer.constant(weights.transpose(order)), writer.constant(bias)]
    return writer.node(operator, [*inputs, *constants], _last(layer), act=layer.act, kind=kind, **options)


def _pool(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    height, width = layer.options["kernel"]
    options = {**_steps(writer, layer), "filterHeight": height, "filterWidth": width}
    return writer.node("MAX_POOL_2D", inputs, _last(layer), kind="Pool2D", **options)


def _dense(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    constants = [writer.constant(array) for array in layer.weights]
    shape, several = _last(layer), len(layer.shape) > 1
    return writer.node(
        "FULLY_CONNECTED", [*inputs, *constants], shape, act=layer.act, kind="FullyConnected", keepNumDims=several
    )  # fmt: skip


def _mean(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    keep = bool(layer.options.get("keep"))
    axes = range(1, len(writer.net.shape(layer.inputs[0])))
    shape = _last(layer) if keep else (1, *layer.shape)
    return writer.node("MEAN", [*inputs, writer.integers(*axes)], shape, kind="Reducer", keepDims=keep)


def _shaped(writer: _Writer, x: int, *shape: int) -> int:
    return writer.node("RESHAPE", [x, writer.integers(*shape)], shape)


def _turned(writer: _Writer, x: int, shape: Shape, *order: int) -> int:
    return writer.node("TRANSPOSE", [x, writer.integers(*order)], shape)


def _shuffle(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    front, channels, groups = _last(layer)[:-1], layer.shape[0], layer.options["groups"]
    size = channels // groups
    split, rank = _shaped(writer, inputs[0], *front, groups, size), len(front)
    turned = _turned(writer, split, (*front, size, groups), *range(rank), rank + 1, rank)
    return _shaped(writer, turned, *front, channels)


def _slice(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    shape = _last(layer)
    begin = writer.integers(*[0] * (len(shape) - 1), layer.options["first"])
    return writer.node("SLICE", [*inputs, begin, writer.integers(*shape)], shape)


def _norm(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
    shape = _last(layer)
    one = (*shape[:-1], 1)

    def mean(x: int) -> int:
        return writer.node("MEAN", [x, writer.integers(len(shape) - 1)], one, kind="Reducer", keepDims=True)

    centred = writer.node("SUB", [*inputs, mean(inputs[0])], shape, kind="Sub")
    variance = mean(writer.node("MUL", [centred, centred], shape, kind="Mul"))
    root = writer.node("RSQRT", [writer.node("ADD", [variance, writer.constant(EPSILON)], one, kind="Add")], one)
    scale, bias = (writer.constant(array) for array in layer.weights)
    scaled = writer.node("MUL", [writer.node("MUL", [centred, root], shape, kind="Mul"), scale], shape, kind="Mul")
    return writer.node("ADD", [scaled, bias], shape, kind="Add")


def _hard_sigmoid(writer: _Writer, x: int, shape: Shape) -> int:
    above = writer.node("ADD", [x, writer.constant(3.0)], shape, act="relu6", kind="Add")
    return writer.node("MUL", [above, writer.constant(1 / 6)], shape, kind="Mul")


def _plain(operator: str, kind: str, **options: Any) -> Callable[[_Writer, Layer, list[int]], int]:
    """One operator with the inputs of the layer and its constants."""

    def write(writer: _Writer, layer: Layer, inputs: list[int]) -> int:
        constants = [writer.constant(array) for array in layer.weights]
        return writer.node(operator, [*inputs, *constants], _last(layer), act=layer.act, kind=kind, **options)

    return write


_KINDS: Mapping[str, Callable[[_Writer, Layer, list[int]], int]] = {
    "conv": _conv,
    "pool": _pool,
    "dense": _dense,
    "mean": _mean,
    "token-mean": _mean,
    "shuffle": _shuffle,
    "slice": _slice,
    "norm": _norm,
    "add": _plain("ADD", "Add"),
    "offset": _plain("ADD", "Add"),
    "multiply": _plain("MUL", "Mul"),
    "softmax": _plain("SOFTMAX", "Softmax", beta=1.0),
    "matmul": _plain("BATCH_MATMUL", "BatchMatMul"),
    "concat": _plain("CONCATENATION", "Concatenation", axis=-1),
    "embed": lambda writer, layer, inputs: writer.node(
        "GATHER", [writer.constant(layer.weights[0]), *inputs], _last(layer), kind="Gather"
    ),
    "transpose": lambda writer, layer, inputs: _turned(
        writer, inputs[0], _last(layer), 0, *(at + 1 for at in layer.options["order"])
    ),
    "tokens": lambda writer, layer, inputs: _shaped(writer, inputs[0], 1, *layer.shape),
    "reshape": lambda writer, layer, inputs: _shaped(writer, inputs[0], 1, *layer.shape),
}
_ACTIVATIONS: Mapping[str, Callable[[_Writer, int, Shape], int]] = {
    "hard-swish": lambda writer, x, shape: writer.node("HARD_SWISH", [x], shape),
    "hard-sigmoid": _hard_sigmoid,
    "gelu": lambda writer, x, shape: writer.node("GELU", [x], shape, kind="Gelu"),
}
