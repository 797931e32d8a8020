"""What PyTorch's operators (ATen, ``quantized_decomposed``, higher-order ones) mean, by their names without overload.

The operators are described in
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_ir.html and, all of them, in
``aten/src/ATen/native/native_functions.yaml``. An exported program names every argument. So an operator's attributes
are its plain arguments by name and ``roles``, the argument's name of every input.
"""

from __future__ import annotations

from dataclasses import replace

from edgewise.model.dialects.base import (
    RANDOM,
    RawOperator,
    Rule,
    Semantics,
    apply,
    data_dependent,
    each,
    function,
    mean,
    moving,
    per_element,
    rank,
    reducing,
    shape_of,
    unknown,
)
from edgewise.model.dialects.torch_network import NETWORK, base_name, find_inputs, split_words, weights_of

#: Values are moved, selected, repeated, renamed or written as constants.
MOVEMENT = frozenset(
    split_words("""
    view view_copy view_as reshape reshape_as _unsafe_view _reshape_alias permute permute_copy transpose
    transpose_copy t t_copy numpy_T mT movedim moveaxis swapaxes swapdims flatten unflatten squeeze squeeze_copy
    unsqueeze unsqueeze_copy expand expand_copy expand_as repeat tile repeat_interleave cat concat concatenate
    stack hstack vstack dstack split split_copy split_with_sizes split_with_sizes_copy tensor_split chunk
    unsafe_chunk unsafe_split unbind unbind_copy slice slice_copy select select_copy narrow narrow_copy index
    _unsafe_index index_select gather take take_along_dim scatter slice_scatter select_scatter index_put
    _unsafe_index_put index_copy index_fill masked_fill masked_scatter diagonal_scatter where clone contiguous
    alias alias_copy detach detach_copy lift_fresh lift_fresh_copy lift dropout alpha_dropout feature_dropout
    feature_alpha_dropout native_dropout identity positive copy fill zero full full_like zeros zeros_like ones
    ones_like empty empty_like empty_permuted empty_strided new_zeros new_ones new_full new_empty
    new_empty_strided scalar_tensor eye pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d _pad_circular pixel_shuffle pixel_unshuffle
    channel_shuffle native_channel_shuffle unfold unfold_copy im2col roll flip fliplr flipud rot90 tril triu
    diagonal diagonal_copy diag diag_embed one_hot as_strided as_strided_copy view_as_real view_as_complex real
    imag conj _conj resolve_conj resolve_neg block_diag meshgrid broadcast_tensors broadcast_to atleast_1d
    atleast_2d atleast_3d embedding ravel
    """)
)

#: How many operations one output element takes.
ELEMENTWISE: dict[str, int] = {
    **dict.fromkeys(
        # One addition, multiplication, division, comparison, rounding or bit operation.
        split_words("""
        mul multiply maximum minimum fmax fmin abs absolute neg negative floor ceil round trunc fix reciprocal eq ne lt
        le gt ge less less_equal greater greater_equal not_equal logical_and logical_or logical_xor
        logical_not bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift __and__ __or__
        __xor__ __lshift__ __rshift__ isnan isinf isfinite sgn square copysign heaviside remainder fmod outer ger arange
        true_divide cumsum cumprod cummax cummin signbit
        """),
        1,
    ),
    **dict.fromkeys(
        # One call of the processor's library.
        split_words("""
        exp2 expm1 log2 log10 log1p cos tan asin acos atan arcsin arccos arctan sinh cosh asinh acosh atanh erfc erfinv
        lgamma digamma atan2 arctan2 hypot special_erf i0
        """),
        1,
    ),
    "rsqrt": 2,  # square root, divide
    "floor_divide": 2,  # divide, floor
    "frac": 2,  # truncate, subtract
    "logaddexp": 4,  # two exps, add, log
    "lerp": 3,  # subtract, multiply, add
    "nan_to_num": 3,  # three comparisons
    "log_sigmoid": 5,  # −softplus(−x)
    "log_sigmoid_forward": 5,
    "glu": 5,  # sigmoid of one half, times the other
    "tanhshrink": 6,  # tanh, subtract
    "hardshrink": 2,  # absolute value, compare
    "softshrink": 4,  # absolute value, subtract, maximum, sign
    "logit": 3,  # subtract, divide, log
    "linspace": 2,  # multiply, add
    "fake_quantize_per_tensor_affine": 6,  # quantise 4, dequantise 2
    "fake_quantize_per_channel_affine": 6,
    "fake_quantize_per_tensor_affine_cachemask": 6,
    "fake_quantize_per_channel_affine_cachemask": 6,
}  # fmt: skip

#: Operator → function of `edgewise.model.cost.ACTIVATIONS`.
ACTIVATION: dict[str, str] = {
    "relu": "relu", "relu6": "clamp", "hardtanh": "clamp", "leaky_relu": "leaky-relu", "prelu": "leaky-relu",
    "_prelu_kernel": "leaky-relu", "rrelu": "leaky-relu", "threshold": "threshold", "sign": "sign",
    "hardsigmoid": "hard-sigmoid", "hardswish": "hard-swish", "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin",
    "erf": "erf", "sigmoid": "sigmoid", "special_expit": "sigmoid", "tanh": "tanh", "silu": "silu",
    "softplus": "softplus", "softsign": "softsign", "elu": "elu", "selu": "selu", "celu": "celu", "mish": "mish",
}  # fmt: skip

#: Operator → operations per input element, per output element.
REDUCTION: dict[str, tuple[int, int]] = {
    **dict.fromkeys(split_words("sum nansum prod amax amin argmax argmin any all count_nonzero"), (1, 0)),
    "aminmax": (2, 0),
    "mean": (1, 1),
    **dict.fromkeys(("var", "var_mean"), (4, 2)),  # mean 1, then subtract, square, add; two divisions
    **dict.fromkeys(("std", "std_mean"), (4, 3)),
    **dict.fromkeys(("norm", "linalg_vector_norm", "frobenius_norm"), (2, 1)),  # power, add; root
    "logsumexp": (4, 2),  # maximum, subtract, exp, add; log, add
    "choose_qparams": (2, 5),  # minimum and maximum; (b − a) / levels, low − round(a / scale)
    "choose_qparams_symmetric": (2, 5),
    "choose_qparams_per_token": (2, 5),
    "choose_qparams_per_token_asymmetric": (2, 5),
}  # fmt: skip

SORTING = frozenset(
    split_words("""
    sort argsort msort topk kthvalue median nanmedian mode unique unique_dim unique_consecutive _unique2 nonzero
    argwhere masked_select bucketize searchsorted histc bincount multinomial isin
    """)
)

#: ``quantized_decomposed``, the reference quantisation of exported programs: name → kind, operations per element.
QUANTIZATION: dict[str, tuple[str, int]] = {
    **dict.fromkeys(
        ("quantize_per_tensor", "quantize_per_channel", "quantize_per_token", "quantize_per_channel_group"),
        ("quantize", 4),
    ),
    **dict.fromkeys(
        ("dequantize_per_tensor", "dequantize_per_channel", "dequantize_per_token", "dequantize_per_channel_group"),
        ("dequantize", 2),
    ),
}

#: Dimensions that are interpolated between → operations per element (nearest: 0).
RESIZE: dict[str, int] = {
    **dict.fromkeys((f"upsample_nearest{rank}d" for rank in (1, 2, 3)), 0),
    **dict.fromkeys((f"_upsample_nearest_exact{rank}d" for rank in (1, 2, 3)), 0),
    "upsample_linear1d": 3,
    "upsample_bilinear2d": 7,
    "upsample_trilinear3d": 15,
    "upsample_bicubic2d": 31,
}

#: Operators that run graphs: name → kind.
CONTROL: dict[str, str] = {
    "cond": "branch", "while_loop": "loop", "scan": "loop", "map_impl": "loop", "map": "loop",
    "wrap_with_set_grad_enabled": "loop", "wrap_with_autocast": "loop", "invoke_subgraph": "loop", "wrap": "loop",
    "hints_wrapper": "loop",
}  # fmt: skip

UNKNOWN: dict[str, Semantics] = {
    **dict.fromkeys(split_words("rand randn randint randperm rand_like randn_like bernoulli normal uniform"), RANDOM),
    **dict.fromkeys(
        ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"), unknown("an antialiasing window depends on the scale")
    ),
    **dict.fromkeys(("auto_functionalized", "auto_functionalized_v2"), unknown("it wraps a custom operator")),
}


def interpret(raw: RawOperator) -> Semantics:
    """Return what the operator `raw` is; an unknown one has the kind "".

    Parameters follow from the arguments' names alone.
    """
    name = base_name(raw.op)
    if name not in OPERATORS:
        return Semantics()
    semantics = apply(OPERATORS[name], replace(raw, op=name))
    runs_graphs = semantics.kind == "branch" or name == "while_loop"
    return semantics if runs_graphs else replace(semantics, weights=weights_of(raw))


def _grid_sample(raw: RawOperator) -> Semantics:
    """``interpolation_mode``: 0 linear, 1 nearest, 2 bicubic. Where to sample is an input, not computed."""
    linear = 15 if raw.op == "grid_sampler_3d" or rank(raw.input(0)) == 5 else 7
    mode = raw.attributes.get("interpolation_mode", 0)
    return per_element({0: linear, 1: 0, 2: 31}.get(mode if isinstance(mode, int) else -1), kind="resize")


def _control(raw: RawOperator) -> Semantics:
    """Return a wrapper is a body that runs once; ``scan`` and ``map`` run along the first dimension of what they
    map.
    """
    kind = CONTROL[raw.op]
    if kind == "branch" or raw.op == "while_loop":
        return mean(kind)
    if raw.op not in ("scan", "map", "map_impl"):
        return mean(kind, trips=1)
    sizes = {shape_of(raw.input(at))[:1] for at in find_inputs(raw, "mapped")}
    size = sizes.pop() if len(sizes) == 1 else ()
    return mean(kind, trips=size[0] if size else None)


def _convert(raw: RawOperator) -> Semantics:
    """Return a conversion where the type changes, a copy or nothing where it does not."""
    source, target = raw.input(0), raw.output()
    return moving() if source is None or target is None or source.dtype == target.dtype else per_element(1)


def _sum(raw: RawOperator) -> Semantics:
    """``add`` and ``sub`` scale their second term by ``alpha``."""
    return per_element(2 if raw.attributes.get("alpha", 1) not in (1, 1.0) else 1)


def _clamp(raw: RawOperator) -> Semantics:
    """One comparison per bound that is given, be it a number or a tensor."""
    return per_element(
        sum(raw.attributes.get(key) is not None or bool(find_inputs(raw, key)) for key in ("min", "max"))
    )


def _scatter_add(raw: RawOperator) -> Semantics:
    """One addition (or other reduction) per element that is added."""
    return reducing(data=next(iter((*find_inputs(raw, "src"), *find_inputs(raw, "source"))), None))


OPERATORS: dict[str, Rule] = {
    **each(MOVEMENT, moving()),
    **{op: per_element(operations) for op, operations in ELEMENTWISE.items()},
    **{op: function(name) for op, name in ACTIVATION.items()},
    **{op: reducing(*operations) for op, operations in REDUCTION.items()},
    **each(SORTING, data_dependent()),
    **{op: per_element(operations, kind=kind) for op, (kind, operations) in QUANTIZATION.items()},
    **{op: per_element(operations, kind="resize") for op, operations in RESIZE.items()},
    **each(CONTROL, _control),
    **UNKNOWN,
    **each("softmax _softmax _safe_softmax", mean("softmax")),
    **each("log_softmax _log_softmax", mean("softmax", logarithm=True)),
    **each("to _to_copy type_as convert_element_type _to_dim_order_copy", _convert),
    **each("add sub rsub subtract", _sum),
    # ``addcmul``, ``addcdiv``: input + value · a · b.
    **each("addcmul addcdiv", lambda raw: per_element(3 if raw.attributes.get("value", 1) not in (1, 1.0) else 2)),
    **each("div divide", lambda raw: per_element(2 if raw.attributes.get("rounding_mode") else 1)),
    "clamp": _clamp,
    **each("clamp_min clamp_max", per_element(1)),
    # ``max`` and ``min``: of two tensors element by element, else along a dimension or of all.
    **each("max min", lambda raw: per_element(1) if sum(map(raw.given, raw.positions)) > 1 else reducing()),
    **each("scatter_add index_add scatter_reduce", _scatter_add),
    **each("grid_sampler grid_sampler_2d grid_sampler_3d", _grid_sample),
    # A square is one multiplication and a cube two; any other power is one call of the library.
    "pow": lambda raw: per_element(2 if raw.attributes.get("exponent") in (3, 3.0) else 1),
    "gelu": lambda raw: function("gelu-tanh" if raw.attributes.get("approximate") == "tanh" else "gelu"),
    **NETWORK,
}
"""Operator without namespace and overload → what it means. In-place forms (``relu_``) are read as the others."""
