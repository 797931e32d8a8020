"""What operators cost: multiply-accumulates, operations, parameters and bytes, by one formula per kind of operator.

Counting rules, the same for every format:

- A *MAC* is one multiplication whose product is added to a sum. Only kinds that accumulate products have any.
- *Operations* (ops, FLOPs) are two per MAC, plus one for every other addition, multiplication, division, comparison,
  rounding or conversion of one value, plus what `ACTIVATIONS` says for functions. A bias is one addition per output.
- Padding is counted as if it were data, as the field's tools do: a convolution costs the same at the border.
- Moving, reshaping, selecting or repeating values costs bytes and no operations. (Silicon Labs' MLTK counts 6 ops per
  padded element, and one per element of a reshape where the runtime copies; its rules are followed in everything else:
  ``tflite_micro_model/op_metrics`` in https://github.com/SiliconLabs/mltk.)
- What a formula can't know (an open dimension, a count that depends on data) is None with the reason, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from edgewise.model.graph import Graph, Operator, Tensor

ACTIVATIONS: dict[str, int] = {
    "none": 0,
    "relu": 1,  # max(0, x)
    "clamp": 2,  # min(max(low, x), high): TFLite's RELU, RELU6 and RELU_N1_TO_1 are all computed so
    "leaky-relu": 2,  # compare, multiply
    "threshold": 1,
    "sign": 1,
    "hard-sigmoid": 4,  # multiply, add, clamp
    "hard-swish": 5,  # hard sigmoid, multiply
    "exp": 1,
    "log": 1,
    "sqrt": 1,
    "sin": 1,
    "erf": 1,
    "sigmoid": 4,  # negate, exp, add, divide
    "tanh": 5,  # two exps that share one (exp, multiply), subtract, add, divide
    "silu": 5,  # sigmoid, multiply
    "softplus": 3,  # exp, add, log
    "softsign": 3,  # abs, add, divide
    "elu": 4,  # compare, exp, subtract, multiply
    "selu": 5,  # ELU, multiply
    "celu": 5,  # ELU of x/α: divide
    "gelu": 5,  # 0.5·x·(1+erf(x/√2)): divide, erf, add, two multiplications
    "gelu-tanh": 13,  # cube (2), multiply, add, multiply, tanh (5), add, two multiplications
    "mish": 9,  # softplus, tanh, multiply
}
"""Operations per element of the functions that are applied element by element. A transcendental function of the
processor's library (exp, log, sqrt, sin, erf) counts as one operation: what it takes is the library's affair."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one operator; None where it can't be known, and then `why` says why."""

    macs: int | None
    ops: int | None
    why: str = ""


Formula = Callable[[Operator, Graph], Cost]


class _Unknown(Exception):
    """A formula lacks something; the message says what."""


def _elements(graph: Graph, name: str) -> int:
    elements = graph.tensors[name].elements
    if elements is None:
        raise _Unknown(f"the shape of {name!r} is open")
    return elements


def _outputs(operator: Operator, graph: Graph) -> int:
    """Elements of the first output that is there."""
    for name in operator.outputs:
        if name:
            return _elements(graph, name)
    raise _Unknown("it has no output")


def _input(operator: Operator, graph: Graph) -> int:
    """Elements of the input that the operator works on: `geometry["data"]` says which, the first by default."""
    at = operator.geometry.get("data", 0)
    if at >= len(operator.inputs) or not operator.inputs[at]:
        raise _Unknown("its input is missing")
    return _elements(graph, operator.inputs[at])


def _number(operator: Operator, name: str) -> int:
    value = operator.geometry.get(name)
    if not isinstance(value, int):
        raise _Unknown(f"{name.replace('_', ' ')!r} of its formula depends on an open dimension or option")
    return value


def _activation(operator: Operator, elements: int) -> int:
    name = operator.geometry.get("activation", "none")
    if name not in ACTIVATIONS:
        raise _Unknown(f"the function {name!r} has no known cost")
    return elements * ACTIVATIONS[name]


def _accumulating(operator: Operator, outputs: int, macs: int) -> Cost:
    single = int(bool(operator.geometry.get("bias"))) + operator.geometry.get("further", 0)
    return Cost(macs, 2 * macs + outputs * single + _activation(operator, outputs))


def _convolution(operator: Operator, graph: Graph) -> Cost:
    outputs = _outputs(operator, graph)
    return _accumulating(operator, outputs, outputs * _number(operator, "reduction"))


def _transposed_convolution(operator: Operator, graph: Graph) -> Cost:
    macs = _input(operator, graph) * _number(operator, "reduction")
    return _accumulating(operator, _outputs(operator, graph), macs)


def _elementwise(operator: Operator, graph: Graph) -> Cost:
    outputs = _outputs(operator, graph)
    return Cost(0, outputs * _number(operator, "per_element") + _activation(operator, outputs))


def _activation_function(operator: Operator, graph: Graph) -> Cost:
    return Cost(0, _activation(operator, _outputs(operator, graph)))


def _pooling(operator: Operator, graph: Graph) -> Cost:
    outputs = _outputs(operator, graph)
    division = 1 if operator.geometry.get("average") else 0
    return Cost(0, outputs * (_number(operator, "window") + division) + _activation(operator, outputs))


def _reduction(operator: Operator, graph: Graph) -> Cost:
    per_input = operator.geometry.get("per_input", 1)
    per_output = operator.geometry.get("per_output", 0)
    return Cost(0, _input(operator, graph) * per_input + _outputs(operator, graph) * per_output)


def _softmax(operator: Operator, graph: Graph) -> Cost:
    return Cost(0, _outputs(operator, graph) * (6 if operator.geometry.get("logarithm") else 5))


def _movement(operator: Operator, graph: Graph) -> Cost:
    return Cost(0, 0)


def _recurrent(operator: Operator, graph: Graph) -> Cost:
    """Per step and sequence: gates × hidden × (input + state) MACs, then the gates' functions, element by element."""
    gates, hidden = _number(operator, "gates"), _number(operator, "hidden")
    state = operator.geometry.get("state", hidden)
    steps = _number(operator, "steps") * _number(operator, "batch")
    cells = steps * operator.geometry.get("directions", 1)
    macs = gates * hidden * (_number(operator, "input") + state)
    macs += operator.geometry.get("projection", 0) * hidden
    pointwise = gates * hidden * operator.geometry.get("biases", 0)
    pointwise += _RECURRENT_OPS[gates] * hidden + operator.geometry.get("peepholes", 0) * hidden * 2
    further = steps * hidden * operator.geometry.get("further", 0)
    return Cost(cells * macs, cells * (2 * macs + pointwise) + further)


_RECURRENT_OPS = {
    1: ACTIVATIONS["tanh"] + 1,  # h = tanh(Wx + Rh): the sum of both products
    3: 2 * ACTIVATIONS["sigmoid"] + ACTIVATIONS["tanh"] + 3 + 5,  # z, r, n; three sums; r∘(…), (1−z)∘n + z∘h
    4: 3 * ACTIVATIONS["sigmoid"] + 2 * ACTIVATIONS["tanh"] + 4 + 4,  # i, o, f, g, tanh(c); four sums; f∘c + i∘g, o∘…
}
"""Operations per hidden unit and step outside the matrix products and biases, by number of gates (RNN, GRU, LSTM)."""


def _attention(operator: Operator, graph: Graph) -> Cost:
    """Scores and weighted values of `heads` heads: queries × keys × (depth + value depth) MACs, and a softmax."""
    scores = prod(_number(operator, name) for name in ("batch", "heads", "queries", "keys"))
    macs = scores * (_number(operator, "depth") + _number(operator, "value_depth"))
    macs += operator.geometry.get("further_macs", 0)
    per_score = 5 + 1 + operator.geometry.get("per_score", 0)
    return Cost(macs, 2 * macs + scores * per_score + operator.geometry.get("further_ops", 0))


def _counted(operator: Operator, graph: Graph) -> Cost:
    macs, ops = operator.geometry.get("macs"), operator.geometry.get("ops")
    why = operator.unknown_because or "its definition does not fix the number of operations"
    return Cost(macs, ops, "" if macs is not None and ops is not None else why)


def _data_dependent(operator: Operator, graph: Graph) -> Cost:
    return Cost(0, None, operator.unknown_because or "the number of comparisons depends on the data")


def _branch(operator: Operator, graph: Graph) -> Cost:
    taken = operator.geometry.get("branch")
    found = [total_of(graph.subgraphs[name]) for name in operator.subgraphs if taken in (None, name)]
    if not found:
        raise _Unknown("its branches are not in the model")
    macs, ops = {each.macs for each in found}, {each.ops for each in found}
    why = operator.unknown_because or "which branch runs depends on the data"
    same = Cost(macs.pop() if len(macs) == 1 else None, ops.pop() if len(ops) == 1 else None)
    return same if same.macs is not None and same.ops is not None else Cost(same.macs, same.ops, why)


def _loop(operator: Operator, graph: Graph) -> Cost:
    trips = operator.geometry.get("trips")
    if not isinstance(trips, int):
        raise _Unknown("the number of repetitions depends on the data")
    bodies = [total_of(graph.subgraphs[name]) for name in operator.subgraphs]
    if not bodies:
        raise _Unknown("its body is not in the model")
    macs, ops = [each.macs for each in bodies], [each.ops for each in bodies]
    why = next((each.why for each in bodies if each.why), "")
    return Cost(_times(trips, macs), _times(trips, ops), why)


def _times(trips: int, parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return trips * sum(known) if len(known) == len(parts) else None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of operator.

    Attributes:
        title: what a person calls it.
        geometry: name → meaning of the numbers its formula takes.
        formula: how ops and MACs follow, in words, for the documentation.
    """

    title: str
    compute: Formula
    formula: str
    geometry: Mapping[str, str]


_FUSED = {
    "bias": "whether a bias is added",
    "further": "further operations per output (a fused addition)",
    "activation": "function applied to the outputs, of `ACTIVATIONS`",
}
_REDUCTION = "MACs per output element: input channels of a group × kernel elements, or the inner dimension"

KINDS: dict[str, Kind] = {
    "convolution": Kind(
        "convolution", _convolution, "MACs = outputs × reduction; ops = 2 MACs + bias + activation",
        {"reduction": _REDUCTION, "depthwise": "whether each channel has its own filter", **_FUSED},
    ),
    "transposed-convolution": Kind(
        "transposed convolution", _transposed_convolution,
        "MACs = inputs × reduction; ops = 2 MACs + bias + activation",
        {"reduction": "MACs per input element: output channels of a group × kernel elements",
         "data": "index of the convolved input (0)", **_FUSED},
    ),
    "matrix-multiplication": Kind(
        "matrix multiplication", _convolution, "MACs = outputs × reduction; ops = 2 MACs + bias + activation",
        {"reduction": _REDUCTION, **_FUSED},
    ),
    "attention": Kind(
        "attention", _attention, "scores = batch × heads × queries × keys; MACs = scores × (depth + value depth); "
        "ops = 2 MACs + 6 × scores; what the operator does beside (masks, projections) is added",
        {"batch": "", "heads": "", "queries": "", "keys": "", "depth": "of a query", "value_depth": "of a value",
         "per_score": "further operations per score (an added mask)", "further_macs": "of projections",
         "further_ops": "of biases and rotations"},
    ),
    "recurrent": Kind(
        "recurrent layer", _recurrent,
        "MACs = steps × batch × directions × (gates × hidden × (input + state) + projection × hidden); "
        "ops = 2 MACs + biases + the gates' functions",
        {"gates": "1 (RNN), 3 (GRU) or 4 (LSTM)", "hidden": "units", "input": "features", "steps": "", "batch": "",
         "directions": "1 or 2", "state": "recurrent features (hidden)", "biases": "vectors added per gate",
         "peepholes": "peephole connections per unit", "projection": "features after projection",
         "further": "further operations per unit and step of all directions (other functions, a clip)"},
    ),
    "elementwise": Kind(
        "element-wise arithmetic", _elementwise, "ops = outputs × per_element + activation",
        {"per_element": "operations per output element", "activation": _FUSED["activation"]},
    ),
    "activation": Kind(
        "activation", _activation_function, "ops = outputs × the function's (`ACTIVATIONS`)",
        {"activation": _FUSED["activation"]},
    ),
    "normalization": Kind(
        "normalisation", _elementwise,
        "ops = outputs × per_element: 2 if mean and variance are constants (batch normalisation: one multiplication "
        "and one addition), 8 if they are computed (mean 1, variance 3, normalise 2, scale and shift 2)",
        {"per_element": "operations per output element", "activation": _FUSED["activation"]},
    ),
    "softmax": Kind(
        "softmax", _softmax, "ops = 5 × outputs (maximum, subtract, exp, add, divide); 6 for log-softmax",
        {"logarithm": "whether it is log-softmax"},
    ),
    "pooling": Kind(
        "pooling", _pooling, "ops = outputs × window (maximum) or outputs × (window + 1) (average) + activation",
        {"window": "elements of the window", "average": "whether it is a mean", "activation": _FUSED["activation"]},
    ),
    "reduction": Kind(
        "reduction", _reduction, "ops = inputs × per_input + outputs × per_output",
        {"per_input": "operations per input element (1)", "per_output": "per output element (a mean's division: 1)",
         "data": "index of the reduced input (0)"},
    ),
    "resize": Kind(
        "resize", _elementwise,
        "ops = outputs × per_element: 0 for nearest, 2 × taps − 1 for interpolation (3, 7, 15 linear in 1, 2, 3 "
        "dimensions; 31 bicubic)",
        {"per_element": "operations per output element"},
    ),
    "quantize": Kind(
        "quantise", _elementwise, "ops = 4 × outputs (divide, add, two for the clamp); 6 between two quantised types",
        {"per_element": "4; 6 from integers, or if the range is computed first"},
    ),
    "dequantize": Kind(
        "dequantise", _elementwise, "ops = 2 × outputs (subtract, multiply)", {"per_element": "2"},
    ),
    "movement": Kind(
        "data movement", _movement, "no operations: values are moved, selected, repeated or renamed", {},
    ),
    "sorting": Kind(
        "work that depends on the data", _data_dependent, "no MACs; ops depend on the data", {},
    ),
    "counted": Kind(
        "other", _counted, "MACs and ops by the operator's definition",
        {"macs": "in all", "ops": "in all"},
    ),
    "branch": Kind("branch", _branch, (
        "cost of the branch that runs, or of all branches if they cost the same; otherwise unknown"
    ),
                   {"branch": "the branch that ran"}),
    "loop": Kind("loop", _loop, "trips × its body, or unknown where trips depend on data", {"trips": "repetitions"}),
}  # fmt: skip
"""Every kind of operator and what its formula needs (`Operator.geometry`)."""

_WITH_MACS = frozenset(
    {
        "convolution", "transposed-convolution", "matrix-multiplication", "attention", "recurrent", "counted", "branch",
        "loop",
    }
)  # fmt: skip
"""Kinds that may accumulate products, or run operators that do; the others have 0 MACs whatever their shapes are."""


def cost_of(operator: Operator, graph: Graph) -> Cost:
    """MACs and ops of one operator; unknown ones say why."""
    if not operator.kind:
        noun = "custom operator" if operator.custom else "operator"
        return Cost(None, None, operator.unknown_because or f"no formula for the {noun} {operator.op}")
    try:
        return KINDS[operator.kind].compute(operator, graph)
    except _Unknown as lack:
        macs = None if operator.kind in _WITH_MACS else 0
        return Cost(macs, None, operator.unknown_because or str(lack))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCost:
    """Everything counted of one operator.

    Attributes:
        parameters: elements of its weights, those in its options and in the graphs that it runs included.
        weight_bytes: of its weights as the file stores them.
        scale_bytes: of the scales and zero points of its quantised weights, which are not among `parameters` and
            `weight_bytes`.
        activation_bytes: of the inputs it reads and the outputs it writes, constants not among them.
        intensity: ops per byte of weights and activations as they lie in memory, ops/B; None where one is unknown or no
            bytes move.
        why: why `macs` or `ops` are None.
    """

    macs: int | None
    ops: int | None
    parameters: int | None
    weight_bytes: int | None
    scale_bytes: int | None
    activation_bytes: int | None
    intensity: float | None
    why: str = ""


def count(operator: Operator, graph: Graph) -> OperatorCost:
    """Everything that can be counted of `operator`."""
    cost = cost_of(operator, graph)
    found = {name: graph.tensors[name] for name in (*operator.weights, *operator.option_weights)}
    for name in operator.subgraphs:
        inner = graph.subgraphs.get(name)
        found |= _seen_from(graph, inner) if inner is not None else {}
    weights = list(found.values())
    moving = dict.fromkeys((*operator.inputs, *operator.outputs))
    tensors = [graph.tensors[name] for name in moving if name and not graph.tensors[name].constant]
    weight_bytes = add_known([stored_size(tensor) for tensor in weights])
    activation_bytes = add_known([tensor.size_bytes for tensor in tensors])
    intensity = None
    unpacked = add_known([tensor.size_bytes for tensor in weights])
    if cost.ops is not None and unpacked is not None and activation_bytes:
        intensity = cost.ops / (unpacked + activation_bytes)
    return OperatorCost(
        macs=cost.macs,
        ops=cost.ops,
        parameters=add_known([tensor.elements for tensor in weights]),
        weight_bytes=weight_bytes,
        scale_bytes=_scale_bytes(weights),
        activation_bytes=activation_bytes,
        intensity=intensity,
        why=cost.why,
    )


def stored_size(tensor: Tensor) -> int | None:
    """Bytes that a constant takes in the file."""
    return tensor.size_bytes if tensor.stored_bytes is None else tensor.stored_bytes


def add_known(values: Sequence[int | None]) -> int | None:
    """Their sum; None where one is not known, as an unknown part makes an unknown whole."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Of a graph with what its operators run inside them.

    Attributes:
        macs, ops: None where any operator's are unknown; then `why` names the first, and the known part is in
            `macs_known` and `ops_known`.
        unknown: names of the operators with an unknown cost.
        parameters: elements of all weights, each tensor counted once however often it is used.
        weight_bytes: of all weights; those that the file stores in one place count once.
        scale_bytes: of the scales and zero points of quantised weights, each tensor counted once.
        depth: operators on the longest path from an input to an output, data movement included.
    """

    macs: int | None
    ops: int | None
    macs_known: int
    ops_known: int
    unknown: tuple[str, ...]
    parameters: int | None
    weight_bytes: int | None
    scale_bytes: int | None
    depth: int
    why: str = ""


def total_of(graph: Graph, costs: Sequence[Cost | OperatorCost] | None = None) -> Total:
    """Return sums over all operators of `graph`; bodies and branches count as the operators that run them say.

    Args:
        costs: of its operators in order, where they are known already.
    """
    if costs is None:
        costs = [cost_of(operator, graph) for operator in graph.operators]
    lacking = [
        (operator.name, cost.why)
        for operator, cost in zip(graph.operators, costs, strict=True)
        if cost.macs is None or cost.ops is None
    ]
    weights = list(_weights(graph).values())
    return Total(
        macs=add_known([cost.macs for cost in costs]),
        ops=add_known([cost.ops for cost in costs]),
        macs_known=sum(cost.macs or 0 for cost in costs),
        ops_known=sum(cost.ops or 0 for cost in costs),
        unknown=tuple(name for name, _ in lacking),
        parameters=add_known([tensor.elements for tensor in weights]),
        weight_bytes=add_known([stored_size(tensor) for tensor in _stored_once(weights)]),
        scale_bytes=_scale_bytes(weights),
        depth=depth_of(graph),
        why=f"{lacking[0][0]}: {lacking[0][1]}" if lacking else "",
    )


def _scale_bytes(weights: Sequence[Tensor]) -> int | None:
    """Bytes of all scales and zero points of `weights`, those of the same name once."""
    found = {name: size for tensor in weights for name, size in tensor.scales.items()}
    return add_known(list(found.values()))


def _weights(graph: Graph) -> dict[str, Tensor]:
    """Name → tensor of every weight of `graph` and the graphs inside it."""
    found = {
        name: graph.tensors[name]
        for operator in graph.operators
        for name in (*operator.weights, *operator.option_weights)
    }
    for inner in graph.subgraphs.values():
        for weight, tensor in _seen_from(graph, inner).items():
            found.setdefault(weight, tensor)
    return found


def _stored_once(weights: Iterable[Tensor]) -> list[Tensor]:
    """Return `weights` without those that a file stores in the same place as another one, as OpenVINO's do."""
    found: dict[object, Tensor] = {}
    for tensor in weights:
        data = tensor.data
        place = (data.file, data.offset, data.size) if data is not None and data.file else None
        found.setdefault(id(tensor) if place is None else place, tensor)
    return list(found.values())


def _seen_from(graph: Graph, inner: Graph) -> dict[str, Tensor]:
    """Weights of a body: one that it captures from outside has its name in `graph`, and a body that two operators run
    is one object, so that both count once.
    """
    return {
        weight if weight in graph.tensors else f"\0{id(tensor)}": tensor for weight, tensor in _weights(inner).items()
    }


def depth_of(graph: Graph) -> int:
    """Operators on the longest path through `graph`."""
    depth: dict[str, int] = {}
    deepest = 0
    for operator in graph.operators:
        here = 1 + max((depth.get(name, 0) for name in operator.inputs), default=0)
        depth.update((name, here) for name in operator.outputs if name)
        deepest = max(deepest, here)
    return deepest
