"""PyTorch's operators that make networks: convolutions, products, norms, pools, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.torch_arguments import (
    count_of,
    find,
    output_shape,
    plain,
    product,
    shape_of,
    sizes_of,
    weights_of,
    whole,
    words,
)
from edgewise.model.signature import Dimension

MAX_EQUATION = 1000
"""Characters of an einsum's equation."""

_ADAPTIVE_LIMIT = 100_000
"""Windows of an uneven adaptive pool that are added up one by one."""


def _first(raw: RawOperator, role: str, at: int) -> int | None:
    """Position of the argument `role`, which is input `at` where inputs have no names."""
    if raw.attributes.get("roles"):
        return next(iter(find(raw, role)), None)
    return at if at < len(raw.inputs) and raw.inputs[at] is not None else None


def _bias(raw: RawOperator) -> bool:
    return _first(raw, "bias", 2) is not None


def _convolution(name: str, raw: RawOperator) -> Semantics:
    """Filters are [outputs, inputs / groups, kernel…]; transposed ones [inputs, outputs / groups, kernel…]."""
    filters = shape_of(raw, _first(raw, "weight", 1))
    transposed = "transpose" in name or raw.attributes.get("transposed") is True
    groups = whole(raw.attributes.get("groups", 1)) or 1
    depthwise = groups > 1 and len(filters) > 2 and (filters[1] == 1 or (transposed and filters[0] == groups))
    return plain(
        raw,
        "transposed-convolution" if transposed else "convolution",
        reduction=product(filters[1:]) if filters else None,
        depthwise=depthwise or None,
        bias=_bias(raw),
    )


def _linear(name: str, raw: RawOperator) -> Semantics:
    del name
    filters = shape_of(raw, _first(raw, "weight", 1))
    return plain(raw, "matrix-multiplication", reduction=_last(filters), bias=_bias(raw))


def _product(name: str, raw: RawOperator) -> Semantics:
    """``mm``, ``bmm``, ``matmul``, ``mv``, ``dot``: the inner dimension is the first factor's last."""
    del name
    return plain(raw, "matrix-multiplication", reduction=_last(shape_of(raw, 0)))


def _added_product(name: str, raw: RawOperator) -> Semantics:
    """``addmm`` and its kin: beta · bias + alpha · a @ b, counted in full where a factor is not 1."""
    reduction = _last(shape_of(raw, 1))
    alpha, beta = raw.attributes.get("alpha", 1), raw.attributes.get("beta", 1)
    if name == "addbmm":
        reduction = product((reduction, *shape_of(raw, 1)[:1]))
    if alpha in (1, 1.0) and beta in (1, 1.0):
        return plain(raw, "matrix-multiplication", reduction=reduction, bias=True)
    outputs = product(output_shape(raw)) if output_shape(raw) else None
    if outputs is None or reduction is None:
        return plain(raw, "counted")
    macs = outputs * reduction
    extra = 0 if alpha in (1, 1.0) else outputs
    # A beta of 0 leaves the bias out: it is neither scaled nor added.
    extra += 0 if beta in (0, 0.0) else outputs if beta in (1, 1.0) else 2 * outputs
    return plain(raw, "counted", macs=macs, ops=2 * macs + extra)


def _tensordot(name: str, raw: RawOperator) -> Semantics:
    del name
    shape, dims = shape_of(raw, 0), raw.attributes.get("dims_self")
    if not isinstance(dims, list | tuple) or not all(
        isinstance(d, int) and -len(shape) <= d < len(shape) for d in dims
    ):
        return plain(raw, "matrix-multiplication")
    return plain(raw, "matrix-multiplication", reduction=product(tuple(shape[d] for d in dims)))


def _einsum(name: str, raw: RawOperator) -> Semantics:
    """Two operands: the inner dimension is the product of the sizes of all indices that the result lacks."""
    del name
    equation = raw.attributes.get("equation")
    operands = count_of(raw)
    if not isinstance(equation, str) or len(equation) > MAX_EQUATION:
        return Semantics(why="its equation is unknown", weights=weights_of(raw))
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands) or len(terms) > 2:
        return Semantics(why="its cost depends on the order of its products", weights=weights_of(raw))
    sizes: dict[str, Dimension] = {}
    for term, at in zip(terms, operands, strict=True):
        sizes.update(_label(term, shape_of(raw, at)))
    if not arrow:
        right = "".join(sorted(letter for letter in set(left) - {",", "."} if left.count(letter) == 1))
    gone = tuple(size for letter, size in sizes.items() if letter not in right)
    if len(terms) == 1:
        return plain(raw, "reduction", per_input=1, per_output=0) if gone else plain(raw, "movement")
    if not gone:
        return plain(raw, "elementwise", per_element=1)
    return plain(raw, "matrix-multiplication", reduction=product(gone))


def _label(term: str, shape: tuple[Dimension, ...]) -> dict[str, Dimension]:
    """Index letter → size; what an ellipsis stands for is kept in every result and has no letter."""
    before, dots, after = term.partition("...")
    found = dict(zip(before, shape, strict=False))
    if dots and after:
        found.update(zip(after, shape[-len(after) :], strict=False))
    return found | {letter: None for letter in before + after if letter not in found}


def _attention(name: str, raw: RawOperator) -> Semantics:
    """Query [batch, heads…, queries, depth], key [… keys, depth], value [… keys, value depth]; a mask saves nothing."""
    del name
    query, key, value = (shape_of(raw, at) for at in range(3))
    if min(len(query), len(key), len(value)) < 2:
        return plain(raw, "attention")
    return plain(
        raw,
        "attention",
        batch=product(query[:1]) if len(query) > 2 else 1,
        heads=product(query[1:-2]),
        queries=product(query[-2:-1]),
        keys=product(key[-2:-1]),
        depth=product(query[-1:]),
        value_depth=product(value[-1:]),
    )


_TRAINING = {"batch_norm": "training", "native_batch_norm": "training", "_native_batch_norm_legit": "training"}


def _batch_normalization(name: str, raw: RawOperator) -> Semantics:
    """Statistics are constants in inference and computed in training; ``instance_norm`` computes them by default."""
    if name == "instance_norm":
        computed = raw.attributes.get("use_input_stats", True) is not False
    else:
        computed = raw.attributes.get(_TRAINING.get(name, ""), False) is True or name == "_batch_norm_with_update"
    return plain(raw, "normalization", per_element=8 if computed else 2)


def _layer_normalization(name: str, raw: RawOperator) -> Semantics:
    """Mean 1, variance 3, normalise 2; scale and shift are 1 each where they are there."""
    del name
    affine = sum(_first(raw, role, 9) is not None for role in ("weight", "bias"))
    return plain(raw, "normalization", per_element=6 + affine)


def _rms_normalization(name: str, raw: RawOperator) -> Semantics:
    """Square, add, multiply by the root's reciprocal; scale."""
    del name
    return plain(raw, "normalization", per_element=3 + (_first(raw, "weight", 9) is not None))


def _pool(name: str, raw: RawOperator) -> Semantics:
    rank = next(int(letter) for letter in name if letter.isdigit())
    kernel = sizes_of(raw.attributes.get("kernel_size"), rank)
    return plain(raw, "pooling", window=prod(kernel) if kernel else None, average="avg" in name or None)


def _adaptive_pool(name: str, raw: RawOperator) -> Semantics:
    """Window i of n along a dimension of size s reaches from ⌊i·s/n⌋ to ⌈(i+1)·s/n⌉."""
    rank = next(int(letter) for letter in name if letter.isdigit())
    average = "avg" in name
    inputs, outputs = shape_of(raw, 0), output_shape(raw)
    if len(inputs) < rank or len(outputs) != len(inputs):
        return plain(raw, "pooling")
    pairs = list(zip(inputs[-rank:], outputs[-rank:], strict=True))
    closed = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int) and b > 0]
    if len(closed) < rank or sum(b for _, b in closed) > _ADAPTIVE_LIMIT:
        return plain(raw, "pooling")
    if all(size % count == 0 for size, count in closed):
        return plain(raw, "pooling", window=prod(a // b for a, b in closed), average=average or None)
    others, all_outputs = product(outputs[:-rank]), product(outputs)
    if others is None or all_outputs is None:
        return plain(raw, "counted")
    read = others * prod(sum(-(-(i + 1) * a // b) - i * a // b for i in range(b)) for a, b in closed)
    return plain(raw, "counted", macs=0, ops=read + (all_outputs if average else 0))


def _last(shape: tuple[Dimension, ...]) -> int | None:
    return product(shape[-1:]) if shape else None


_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1, "lstm_cell": 4, "gru_cell": 3, "rnn_tanh_cell": 1,
          "rnn_relu_cell": 1}  # fmt: skip


def _recurrent(name: str, raw: RawOperator) -> Semantics:
    """A stack of layers; one layer is a plain recurrent one, several are the sum of theirs.

    Weights come layer by layer and direction by direction: [gates · hidden, input], [gates · hidden, state], then two
    biases, then the projection [projection, hidden] where there is one.
    """
    weights = weights_of(raw)
    layers, directions = (
        whole(raw.attributes.get("num_layers", 1)),
        1 + bool(raw.attributes.get("bidirectional")),
    )
    shape, params = shape_of(raw, 0), find(raw, "params")
    if layers is None or layers < 1 or len(params) < 2 * layers or find(raw, "batch_sizes"):
        return Semantics(why="its weights or steps are unknown", weights=weights)
    if len(shape) not in (2, 3):
        return Semantics(kind="recurrent", weights=weights)
    first = bool(raw.attributes.get("batch_first")) and len(shape) == 3
    steps, batch = (shape[1], shape[0]) if first else (shape[0], shape[1] if len(shape) == 3 else 1)
    each = len(params) // (layers * directions)
    geometries = [
        _layer(name, raw, params[at * each : (at + 1) * each]) for at in range(0, layers * directions, directions)
    ]
    for geometry in geometries:
        geometry.update({"steps": steps, "batch": batch, "directions": directions})
    return _stack(name, raw, geometries)


def _layer(name: str, raw: RawOperator, params: tuple[int, ...]) -> dict[str, Any]:
    """Geometry of one layer and direction, from the shapes of its weights."""
    gates = _GATES[name]
    into, state = (shape_of(raw, params[at] if at < len(params) else None) for at in range(2))
    rows = into[0] if len(into) == 2 else None
    biases = raw.attributes.get("has_biases", len(params) >= 4) is not False
    projection = shape_of(raw, params[-1])[:1] if len(params) in (3, 5) else ()
    found = {
        "gates": gates,
        "hidden": rows // gates if isinstance(rows, int) else None,
        "input": _last(into),
        "state": _last(state),
        "biases": 2 if biases else 0,
        "projection": projection[0] if projection else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _cell(name: str, raw: RawOperator) -> Semantics:
    """One step: input [batch, features], weights [gates · hidden, input] and [gates · hidden, hidden], biases."""
    weights = tuple(at for role in ("w_ih", "w_hh", "b_ih", "b_hh") for at in find(raw, role))
    shape = shape_of(raw, 0)
    geometry = _layer(name, raw, weights)
    geometry |= {"steps": 1, "batch": shape[0] if len(shape) == 2 else 1, "directions": 1}
    return _stack(name, raw, [geometry])


def _stack(name: str, raw: RawOperator, layers: list[dict[str, Any]]) -> Semantics:
    """One geometry where one will do, else the sum of all layers' costs."""
    # The formula of a simple recurrent layer is that of tanh; ReLU has another cost.
    rectified = name.startswith("rnn_relu")
    closed = [{key: value for key, value in layer.items() if isinstance(value, int)} for layer in layers]
    if len(closed) == 1 and not rectified:
        return plain(raw, "recurrent", **closed[0])
    macs = ops = 0
    for layer in closed:
        cost = _cost(layer, rectified=rectified)
        if cost is None:
            return plain(raw, "counted")
        macs, ops = macs + cost[0], ops + cost[1]
    return plain(raw, "counted", macs=macs, ops=ops)


def _cost(layer: dict[str, int], *, rectified: bool) -> tuple[int, int] | None:
    from edgewise.model.cost import ACTIVATIONS, cost_of
    from edgewise.model.graph import Graph, Operator

    operator = Operator(index=0, name="", op="", kind="recurrent", geometry=layer)
    cost = cost_of(operator, Graph(name="", format="", tensors={}, operators=(operator,), inputs=(), outputs=()))
    if cost.macs is None or cost.ops is None:
        return None
    saved = ACTIVATIONS["tanh"] - ACTIVATIONS["relu"] if rectified else 0
    return cost.macs, cost.ops - saved * layer["steps"] * layer["batch"] * layer["directions"] * layer["hidden"]


NETWORK: dict[str, Callable[[str, RawOperator], Semantics]] = {
    **dict.fromkeys(
        words("""
        conv1d conv2d conv3d convolution _convolution conv_transpose1d conv_transpose2d conv_transpose3d
        _conv_depthwise2d conv_depthwise3d
        """),
        _convolution,
    ),
    "linear": _linear,
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot", "inner", "_int_mm"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _added_product),
    "tensordot": _tensordot,
    "einsum": _einsum,
    "affine_grid_generator": _product,
    **dict.fromkeys(
        words("""
        scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention
        """),
        _attention,
    ),
    **dict.fromkeys(
        words("""
        batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
        _batch_norm_no_update _batch_norm_with_update instance_norm
        """),
        _batch_normalization,
    ),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "group_norm", "native_group_norm"), _layer_normalization),
    **dict.fromkeys(("rms_norm", "_fused_rms_norm"), _rms_normalization),
    **dict.fromkeys(
        words("""
        max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
        avg_pool1d avg_pool2d avg_pool3d
        """),
        _pool,
    ),
    **dict.fromkeys(
        words("""
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        """),
        _adaptive_pool,
    ),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), _cell),
}  # fmt: skip
