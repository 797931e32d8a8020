"""PyTorch's operators of networks: convolutions, products, norms, pools, attention, recurrent layers.

An operator's tensors are found by their arguments' names, which stand in its attribute ``roles``.
"""

from __future__ import annotations

from math import prod
from typing import Any

from edgewise.model.cost import ACTIVATIONS, cost_of
from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    add,
    attention,
    counted,
    each,
    mean,
    multiply,
    other_functions,
    per_element,
    pool_areas,
    product_of,
    rank,
    shape_of,
    size_of,
    unknown,
)
from edgewise.model.dialects.einsum import read_einsum
from edgewise.model.graph import Graph, Operator
from edgewise.model.signature import Dimension


def split_words(text: str) -> tuple[str, ...]:
    """Names that are written as one text."""
    return tuple(text.split())


#: Arguments that select, mask or describe and are never parameters.
_NOT_WEIGHTS = frozenset(
    split_words("""
    index indices mask attn_mask attn_bias scale scales zero_point zero_points condition target boundaries offsets hx
    mapped pred
    """)
)


def base_name(op: str) -> str:
    """``conv2d`` of ``aten.conv2d.default``; in-place forms lose their underscore."""
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def find_inputs(raw: RawOperator, role: str) -> tuple[int, ...]:
    """Positions of the inputs that were given as the argument `role`."""
    roles = raw.attributes.get("roles", ())
    return tuple(at for at, name in enumerate(roles) if name == role and raw.given(at))


def find_first(raw: RawOperator, role: str, at: int) -> int | None:
    """Position of the argument `role`, which is input `at` where inputs have no names."""
    if raw.attributes.get("roles"):
        return next(iter(find_inputs(raw, role)), None)
    return at if raw.given(at) else None


def weights_of(raw: RawOperator) -> tuple[int, ...]:
    """Positions of everything that is a parameter if it is constant."""
    roles = raw.attributes.get("roles", ())
    return tuple(at for at in raw.positions if at >= len(roles) or roles[at] not in _NOT_WEIGHTS)


def keep_integer(value: Any) -> int | None:
    """`value` where it is an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_sizes(value: Any, rank: int) -> tuple[int, ...] | None:
    """Return an argument like ``kernel_size`` as `rank` integers; None where it is not that."""
    listed = tuple(value) if isinstance(value, list | tuple) else (value,)
    if len(listed) == 1:
        listed *= rank
    integers = tuple(size for size in listed if keep_integer(size) is not None)
    return integers if len(integers) == rank == len(listed) else None


def _bias(raw: RawOperator) -> bool:
    return find_first(raw, "bias", 2) is not None


def _convolution(raw: RawOperator) -> Semantics:
    """Return filters are [outputs, inputs / groups, kernel…]; transposed ones [inputs, outputs / groups, kernel…]."""
    filters = shape_of(raw.input(find_first(raw, "weight", 1)))
    transposed = "transpose" in raw.op or raw.attributes.get("transposed") is True
    groups = keep_integer(raw.attributes.get("groups", 1)) or 1
    depthwise = groups > 1 and len(filters) > 2 and (filters[1] == 1 or (transposed and filters[0] == groups))
    return mean(
        "transposed-convolution" if transposed else "convolution",
        reduction=multiply(*filters[1:]) if filters else None,
        depthwise=depthwise or None,
        bias=_bias(raw),
    )


def _linear(raw: RawOperator) -> Semantics:
    filters = raw.input(find_first(raw, "weight", 1))
    return mean("matrix-multiplication", reduction=size_of(filters, -1), bias=_bias(raw))


def _product(raw: RawOperator) -> Semantics:
    """``mm``, ``bmm``, ``matmul``, ``mv``, ``dot``: the inner dimension is the first factor's last."""
    return mean("matrix-multiplication", reduction=size_of(raw.input(0), -1))


def _added_product(raw: RawOperator) -> Semantics:
    """Return the cost of ``addmm`` and its variants: beta · bias + alpha · a @ b. A beta of 0 leaves the bias out."""
    left = raw.input(1)
    reduction = size_of(left, -1)
    if raw.op == "addbmm":
        reduction = multiply(reduction, size_of(left, 0))
    alpha, beta = raw.attributes.get("alpha", 1), raw.attributes.get("beta", 1)
    further = (alpha not in (1, 1.0)) + (beta not in (0, 0.0, 1, 1.0))
    return mean("matrix-multiplication", reduction=reduction, bias=beta not in (0, 0.0), further=further)


def _tensordot(raw: RawOperator) -> Semantics:
    left, dims = raw.input(0), raw.attributes.get("dims_self")
    listed = isinstance(dims, list | tuple) and all(isinstance(axis, int) for axis in dims)
    sizes = [size_of(left, axis) for axis in dims] if isinstance(dims, list | tuple) and listed else [None]
    return mean("matrix-multiplication", reduction=multiply(*sizes))


def _attention(raw: RawOperator) -> Semantics:
    """Query [batch, heads…, queries, depth], key [… keys, depth], value [… keys, value depth]; a mask saves nothing."""
    query = raw.input(0)
    batch = size_of(query, 0) if (rank(query) or 0) > 2 else 1
    return attention(raw, batch=batch, heads=product_of(query, 1, -2))


def _batch_normalization(raw: RawOperator) -> Semantics:
    """Return the cost of a normalisation, which is higher where it computes mean and variance itself.

    Batch normalisation does so in training only, ``instance_norm`` unless its statistics are given.
    """
    if raw.op == "instance_norm":
        computed = raw.attributes.get("use_input_stats", True) is not False
    elif raw.op in ("batch_norm", "native_batch_norm", "_native_batch_norm_legit"):
        computed = raw.attributes.get("training", False) is True
    else:
        computed = raw.op == "_batch_norm_with_update"
    return per_element(8 if computed else 2, kind="normalization")


def _layer_normalization(raw: RawOperator) -> Semantics:
    """Mean 1, variance 3, normalise 2; scale and shift are 1 each where they are there."""
    affine = sum(find_first(raw, role, 9) is not None for role in ("weight", "bias"))
    return per_element(6 + affine, kind="normalization")


def _rms_normalization(raw: RawOperator) -> Semantics:
    """Square, add, multiply by the root's reciprocal; scale."""
    return per_element(3 + (find_first(raw, "weight", 9) is not None), kind="normalization")


def _dimensions(raw: RawOperator) -> int:
    """Return number of dimensions that a pool's name mentions."""
    return next(int(letter) for letter in raw.op if letter.isdigit())


def _pool(raw: RawOperator) -> Semantics:
    kernel = read_sizes(raw.attributes.get("kernel_size"), _dimensions(raw))
    return mean("pooling", window=prod(kernel) if kernel else None, average="avg" in raw.op)


def _adaptive_pool(raw: RawOperator) -> Semantics:
    spatial = _dimensions(raw)
    before, after = shape_of(raw.input(0)), shape_of(raw.output())
    if len(before) < spatial or len(after) != len(before):
        return mean("pooling")
    channels = multiply(*after[:-spatial])
    return pool_areas(before[-spatial:], after[-spatial:], average="avg" in raw.op, channels=channels)


_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _recurrent(raw: RawOperator) -> Semantics:
    """Return a stack of layers; one layer is a plain recurrent one, several are the sum of theirs.

    Weights come layer by layer and direction by direction: [gates · hidden, input], [gates · hidden, state], then two
    biases, then the projection [projection, hidden] where there is one.
    """
    layers, directions = (
        keep_integer(raw.attributes.get("num_layers", 1)),
        1 + bool(raw.attributes.get("bidirectional")),
    )
    shape, params = shape_of(raw.input(0)), find_inputs(raw, "params")
    if layers is None or layers < 1 or len(params) < 2 * layers or find_inputs(raw, "batch_sizes"):
        return unknown("its weights or steps are unknown")
    if len(shape) not in (2, 3):
        return mean("recurrent")
    first = bool(raw.attributes.get("batch_first")) and len(shape) == 3
    steps, batch = (shape[1], shape[0]) if first else (shape[0], shape[1] if len(shape) == 3 else 1)
    each = len(params) // (layers * directions)
    starts = range(0, layers * directions * each, directions * each)
    stack = [_layer(raw, params[at : at + each], steps, batch, directions=directions) for at in starts]
    if len(stack) == 1:
        return stack[0]
    graph = Graph(name="", format="", tensors={}, operators=(), inputs=(), outputs=())
    operators = [Operator(index=0, name="", op="", kind=layer.kind, geometry=layer.geometry) for layer in stack]
    costs = [cost_of(operator, graph) for operator in operators]
    return counted(add(*(cost.macs for cost in costs)), add(*(cost.ops for cost in costs)))


def _layer(
    raw: RawOperator, params: tuple[int, ...], steps: Dimension, batch: Dimension, *, directions: int = 1
) -> Semantics:
    """One layer, from the shapes of one direction's weights."""
    gates = _GATES[raw.op.removesuffix("_cell")]
    into, state = (raw.input(params[at]) if at < len(params) else None for at in range(2))
    rows = size_of(into, 0) if rank(into) == 2 else None
    biases = raw.attributes.get("has_biases", len(params) >= 4) is not False
    # The formula of a simple recurrent layer is that of tanh.
    relu = other_functions(1, [ACTIVATIONS["relu"]]) if raw.op.startswith("rnn_relu") else 0
    return mean(
        "recurrent",
        gates=gates,
        hidden=rows // gates if rows is not None else None,
        input=size_of(into, -1),
        state=size_of(state, -1),
        steps=keep_integer(steps),
        batch=keep_integer(batch),
        biases=2 if biases else 0,
        projection=size_of(raw.input(params[-1]), 0) if len(params) in (3, 5) else None,
        directions=directions,
        further=directions * relu,
    )


def _cell(raw: RawOperator) -> Semantics:
    """One step: input [batch, features], weights [gates · hidden, input] and [gates · hidden, hidden], biases."""
    params = tuple(at for role in ("w_ih", "w_hh", "b_ih", "b_hh") for at in find_inputs(raw, role))
    shape = shape_of(raw.input(0))
    return _layer(raw, params, 1, shape[0] if len(shape) == 2 else 1)


NETWORK: dict[str, Rule] = {
    **each("conv1d conv2d conv3d convolution _convolution _conv_depthwise2d conv_depthwise3d", _convolution),
    **each("conv_transpose1d conv_transpose2d conv_transpose3d", _convolution),
    "linear": _linear,
    **each("mm bmm matmul mv dot vdot inner _int_mm affine_grid_generator", _product),
    **each("addmm baddbmm addmv addbmm", _added_product),
    "tensordot": _tensordot,
    "einsum": read_einsum,
    **each(
        """
        scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention
        """,
        _attention,
    ),
    **each(
        """
        batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
        _batch_norm_no_update _batch_norm_with_update instance_norm
        """,
        _batch_normalization,
    ),
    **each("layer_norm native_layer_norm group_norm native_group_norm", _layer_normalization),
    **each("rms_norm _fused_rms_norm", _rms_normalization),
    **each("max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d", _pool),
    **each("max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices", _pool),
    **each("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", _adaptive_pool),
    **each("_adaptive_avg_pool2d _adaptive_avg_pool3d", _adaptive_pool),
    **each("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d", _adaptive_pool),
    **each("lstm gru rnn_tanh rnn_relu", _recurrent),
    **each("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", _cell),
}
"""Operator → what it means."""
