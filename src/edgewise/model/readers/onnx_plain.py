"""Whether an ONNX model is so plain that nothing in it can make the package's shape inference big, slow or stumble.

The package's inference believes a model: an attribute of another type than its operator's definition says, one input
too many or an integer out of range have all been seen to crash it. Here everything it reads is compared with the
definitions first, and whatever could grow without bound is left to a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from edgewise.model.readers.onnx_blocks import NATIVE, Block, Step
from edgewise.model.readers.onnx_types import INT, INTS, Proto
from edgewise.model.readers.onnx_wire import Description

MAX_RANK = 16
MAX_SIZE = 2**31 - 1
MAX_NODES = 20_000
MAX_INTEGERS = 64
"""Elements of a constant that says a shape, or axes."""

#: Operators whose outputs have no more dimensions than their inputs, or two, and whose inference is short and simple.
_PLAIN = frozenset({
    "Abs", "Add", "And", "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat", "Constant", "Conv",
    "ConvTranspose", "Cos", "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp",
    "Flatten", "Floor", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSigmoid",
    "Identity", "InstanceNormalization", "LRN", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "QLinearConv",
    "QLinearMatMul", "QuantizeLinear", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus",
    "Softsign", "SpaceToDepth", "Sqrt", "Sub", "Sum", "Tanh", "Transpose", "Where",
})  # fmt: skip
#: The same, if the input at this position, where there is one, is a constant of few elements: a shape, or axes.
_SHAPED = {
    "ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "ReduceL2": 1, "ReduceMax": 1, "ReduceMean": 1, "ReduceMin": 1,
    "ReduceProd": 1, "ReduceSum": 1, "Squeeze": 1, "Unsqueeze": 1,
}  # fmt: skip
_SIMPLE_VALUES = {"value", "value_float", "value_int"}
_INTEGERS = (6, 7)
"""``TensorProto``'s INT32 and INT64."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """What an operator's definition allows.

    Attributes:
        attributes: name → type.
        required: names of those that must be there.
    """

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: Mapping[str, int]
    required: frozenset[str]


@lru_cache(maxsize=4096)
def _define(op: str, opset: int) -> _Definition | None:
    """The definition of an operator in an operator set, None where it has none."""
    from onnx import defs

    if not 0 < opset < 2**31:  # a file may say anything, and the package takes an int32
        return None
    try:
        schema = defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return None
    return _Definition(
        inputs=(schema.min_input, min(schema.max_input, 4096)),
        outputs=(schema.min_output, min(schema.max_output, 4096)),
        attributes={name: int(each.type.value) for name, each in schema.attributes.items()},
        required=frozenset(name for name, each in schema.attributes.items() if each.required),
    )


def is_plain(model: Proto, block: Block, description: Description) -> bool:
    """Whether shape inference can be let loose on the model in this process."""
    graph = block.proto
    opsets = [each.version for each in model.opset_import if each.domain in NATIVE]
    if model.functions or graph.sparse_initializer or len(block.steps) > MAX_NODES or len(opsets) != 1:
        return False
    ranks: dict[str, int] = {"": 0}
    integers: dict[str, int] = {}
    for name, tensor in _constants(block):
        dims = tensor.dims
        ranks[name] = len(dims)
        if dims and not 0 <= min(dims) <= max(dims) <= MAX_SIZE:
            return False
        if tensor.data_type in _INTEGERS and description.look_up(tensor) is None:
            integers[name] = prod(dims)
    for info in graph.input:
        if info.type.WhichOneof("value") != "tensor_type" or not info.type.tensor_type.HasField("shape"):
            return False
        sizes = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        ranks[info.name] = len(sizes)
        if sizes and max(sizes) > MAX_SIZE:
            return False
    if max(ranks.values()) > MAX_RANK:
        return False
    return all(_is_plain_step(step, opsets[0], ranks, integers) for step in block.steps)


def _is_plain_step(step: Step, opset: int, ranks: dict[str, int], integers: Mapping[str, int]) -> bool:
    op, inputs = step.op, step.inputs
    if (op not in _PLAIN and op not in _SHAPED) or step.domain:
        return False
    definition = _define(op, opset)
    if definition is None or not _fits(step, definition):
        return False
    # Opsets differ in how many dimensions are laid out at least: vectors become matrices, matrices batches.
    rank = 2
    for name in inputs:
        known = ranks.get(name, MAX_RANK + 1)
        rank = known if known > rank else rank
    if op in _SHAPED:
        at = _SHAPED[op]
        if len(inputs) > at:
            count = integers.get(inputs[at], MAX_INTEGERS + 1)
        else:
            count = max([len(attribute.ints) for attribute in step.attributes], default=0)
        if count > MAX_INTEGERS:
            return False
        rank = rank + count if op == "Unsqueeze" else max(rank, count)
    for name in step.outputs:
        # A constant's is known already.
        ranks.setdefault(name, rank)
    return rank <= MAX_RANK


def _fits(step: Step, definition: _Definition) -> bool:
    """Whether a node has as many inputs and outputs, and such attributes, as its definition says."""
    if not definition.inputs[0] <= len(step.inputs) <= definition.inputs[1]:
        return False
    if not definition.outputs[0] <= len(step.outputs) <= definition.outputs[1]:
        return False
    names = set()
    for attribute in step.attributes:
        kind, name = attribute.type, attribute.name
        if definition.attributes.get(name) != kind or name in names or attribute.ref_attr_name:
            return False
        names.add(name)
        if kind == INT:
            if not -MAX_SIZE <= attribute.i <= MAX_SIZE:
                return False
        elif kind == INTS:
            numbers = list(attribute.ints)
            if numbers and not -MAX_SIZE <= min(numbers) <= max(numbers) <= MAX_SIZE:
                return False
    if step.op == "Constant" and (len(names) != 1 or not names <= _SIMPLE_VALUES):
        return False
    return definition.required <= names


def _constants(block: Block) -> Iterator[tuple[str, Proto]]:
    for tensor in block.proto.initializer:
        yield tensor.name, tensor
    for step in block.steps:
        if step.op == "Constant" and step.outputs:
            for attribute in step.attributes:
                yield step.outputs[0], attribute.t
