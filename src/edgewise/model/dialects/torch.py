"""What PyTorch's operators (ATen, ``quantized_decomposed``, higher-order ones) mean, by their names without overload.

The operators are described in
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_ir.html and, all of them, in
``aten/src/ATen/native/native_functions.yaml``. An exported program names every argument, so a
operator's attributes hold, beside the plain arguments by name, ``roles``: the argument's name of every input.
"""

from __future__ import annotations

from collections.abc import Callable

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.torch_arguments import base_name, count_of, find, plain, shape_of, weights_of, words
from edgewise.model.dialects.torch_network import NETWORK

#: Values are moved, selected, repeated, renamed or written as constants.
MOVEMENT = frozenset(
    words("""
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
        words("""
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
        words("""
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
    **dict.fromkeys(words("sum nansum prod amax amin argmax argmin any all count_nonzero"), (1, 0)),
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
    words("""
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

UNKNOWN: dict[str, str] = {
    **dict.fromkeys(
        ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli", "normal", "uniform"),
        "the cost of a random number depends on the generator",
    ),
    "_upsample_bilinear2d_aa": "an antialiasing window depends on the scale",
    "_upsample_bicubic2d_aa": "an antialiasing window depends on the scale",
    "auto_functionalized": "it wraps a custom operator",
    "auto_functionalized_v2": "it wraps a custom operator",
}


def interpret(raw: RawOperator) -> Semantics:
    """What the operator `raw` is; an unknown one has the kind ""."""
    name = base_name(raw.op)
    if name not in OPERATORS:
        return Semantics()
    return OPERATORS[name](name, raw)


def _movement(name: str, raw: RawOperator) -> Semantics:
    del name
    return Semantics(kind="movement", weights=weights_of(raw))


def _elementwise(name: str, raw: RawOperator) -> Semantics:
    return plain(raw, "elementwise", per_element=ELEMENTWISE[name])


def _activation(name: str, raw: RawOperator) -> Semantics:
    return plain(raw, "activation", activation=ACTIVATION[name])


def _gelu(name: str, raw: RawOperator) -> Semantics:
    del name
    return plain(raw, "activation", activation="gelu-tanh" if raw.attributes.get("approximate") == "tanh" else "gelu")


def _softmax(name: str, raw: RawOperator) -> Semantics:
    return plain(raw, "softmax", logarithm="log_softmax" in name)


def _reduction(name: str, raw: RawOperator) -> Semantics:
    per_input, per_output = REDUCTION[name]
    return plain(raw, "reduction", per_input=per_input, per_output=per_output)


def _sorting(name: str, raw: RawOperator) -> Semantics:
    del name
    return Semantics(kind="sorting", weights=weights_of(raw))


def _quantization(name: str, raw: RawOperator) -> Semantics:
    kind, per_element = QUANTIZATION[name]
    return plain(raw, kind, per_element=per_element)


def _resize(name: str, raw: RawOperator) -> Semantics:
    return plain(raw, "resize", per_element=RESIZE[name])


def _grid_sample(name: str, raw: RawOperator) -> Semantics:
    """``interpolation_mode``: 0 linear, 1 nearest, 2 bicubic. Where to sample is an input, not computed."""
    linear = 15 if name == "grid_sampler_3d" or len(shape_of(raw, 0)) == 5 else 7
    mode = raw.attributes.get("interpolation_mode", 0)
    per_element = {0: linear, 1: 0, 2: 31}.get(mode if isinstance(mode, int) else -1)
    return plain(raw, "resize", per_element=per_element)


def _unknown(name: str, raw: RawOperator) -> Semantics:
    return Semantics(why=UNKNOWN[name], weights=weights_of(raw))


def _control(name: str, raw: RawOperator) -> Semantics:
    """A wrapper is a body that runs once; ``scan`` and ``map`` run along the first dimension of what they map."""
    kind = CONTROL[name]
    if kind == "branch" or name == "while_loop":
        return Semantics(kind=kind)
    if name in ("scan", "map", "map_impl"):
        sizes = {shape_of(raw, at)[:1] for at in find(raw, "mapped")}
        size = sizes.pop()[:1] if len(sizes) == 1 else ()
        trips = size[0] if size else None
        return plain(raw, kind, trips=trips)
    return plain(raw, kind, trips=1)


def _convert(name: str, raw: RawOperator) -> Semantics:
    """A conversion where the type changes, a copy or nothing where it does not."""
    del name
    source = raw.inputs[0] if raw.inputs else None
    target = raw.outputs[0] if raw.outputs else None
    if source is None or target is None or source.dtype == target.dtype:
        return Semantics(kind="movement", weights=weights_of(raw))
    return plain(raw, "elementwise", per_element=1)


def _sum(name: str, raw: RawOperator) -> Semantics:
    """``add`` and ``sub`` scale their second term by ``alpha``."""
    del name
    scaled = raw.attributes.get("alpha", 1) not in (1, 1.0)
    return plain(raw, "elementwise", per_element=2 if scaled else 1)


def _scaled_product(name: str, raw: RawOperator) -> Semantics:
    """``addcmul``, ``addcdiv``: input + value · a · b."""
    del name
    scaled = raw.attributes.get("value", 1) not in (1, 1.0)
    return plain(raw, "elementwise", per_element=3 if scaled else 2)


def _divide(name: str, raw: RawOperator) -> Semantics:
    del name
    return plain(raw, "elementwise", per_element=2 if raw.attributes.get("rounding_mode") else 1)


def _clamp(name: str, raw: RawOperator) -> Semantics:
    """One comparison per bound that is given, be it a number or a tensor."""
    if name != "clamp":
        return plain(raw, "elementwise", per_element=1)
    bounds = [key for key in ("min", "max") if raw.attributes.get(key) is not None or find(raw, key)]
    return plain(raw, "elementwise", per_element=len(bounds))


def _power(name: str, raw: RawOperator) -> Semantics:
    """A square is one multiplication and a cube two; any other power is one call of the library."""
    del name
    return plain(raw, "elementwise", per_element=2 if raw.attributes.get("exponent") in (3, 3.0) else 1)


def _extremum(name: str, raw: RawOperator) -> Semantics:
    """``max`` and ``min``: of two tensors element by element, else along a dimension or of all."""
    del name
    if len(count_of(raw)) > 1:
        return plain(raw, "elementwise", per_element=1)
    return plain(raw, "reduction", per_input=1, per_output=0)


def _scatter_add(name: str, raw: RawOperator) -> Semantics:
    """One addition (or other reduction) per element that is added."""
    del name
    at = next(iter((*find(raw, "src"), *find(raw, "source"))), None)
    return plain(raw, "reduction", per_input=1, per_output=0, data=at)


Reading = Callable[[str, RawOperator], Semantics]

OPERATORS: dict[str, Reading] = {
    **dict.fromkeys(MOVEMENT, _movement),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(ACTIVATION, _activation),
    **dict.fromkeys(REDUCTION, _reduction),
    **dict.fromkeys(SORTING, _sorting),
    **dict.fromkeys(QUANTIZATION, _quantization),
    **dict.fromkeys(RESIZE, _resize),
    **dict.fromkeys(CONTROL, _control),
    **dict.fromkeys(UNKNOWN, _unknown),
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("to", "_to_copy", "type_as", "convert_element_type", "_to_dim_order_copy"), _convert),
    **dict.fromkeys(("add", "sub", "rsub", "subtract"), _sum),
    **dict.fromkeys(("addcmul", "addcdiv"), _scaled_product),
    **dict.fromkeys(("div", "divide"), _divide),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamp),
    **dict.fromkeys(("max", "min"), _extremum),
    **dict.fromkeys(("scatter_add", "index_add", "scatter_reduce"), _scatter_add),
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid_sample),
    "pow": _power,
    "gelu": _gelu,
    **NETWORK,
}
"""Operator without namespace and overload → how it is read. In-place forms (``relu_``) are read as the others."""
