"""Every PyTorch operator that is understood, with costs that were worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pytest

from case_tables import with_each
from edgewise.model.cost import KINDS, cost_of
from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.torch import OPERATORS, UNKNOWN, interpret
from edgewise.model.graph import Graph, Operator, Tensor


@dataclass(frozen=True)
class Case:
    """An operator, its inputs by role, its outputs' shapes, and what it costs."""

    op: str
    inputs: list[tuple[str, tuple[Any, ...]]]
    outputs: list[tuple[Any, ...]]
    macs: int | None
    ops: int | None
    attributes: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, str] = ("float32", "float32")


def ask(case: Case):
    inputs = [Tensor(name=f"i{at}", shape=shape, dtype=case.dtypes[0]) for at, (_, shape) in enumerate(case.inputs)]
    outputs = [Tensor(name=f"o{at}", shape=shape, dtype=case.dtypes[1]) for at, shape in enumerate(case.outputs)]
    roles = tuple(role for role, _ in case.inputs)
    op = case.op if "." in case.op else f"aten.{case.op}.default"
    raw = RawOperator(op=op, attributes={**case.attributes, "roles": roles}, inputs=inputs, outputs=outputs)
    semantics = interpret(raw)
    operator = Operator(
        subgraphs=("body",) if semantics.kind == "loop" else (),
        index=0, name="n", op=op, kind=semantics.kind, inputs=tuple(each.name for each in inputs),
        outputs=tuple(each.name for each in outputs), geometry=semantics.geometry, unknown_because=semantics.why,
    )  # fmt: skip
    tensors = {each.name: each for each in (*inputs, *outputs)}
    body = Operator(index=0, name="b", op="add", kind="elementwise", outputs=("o0",), geometry={"per_element": 1})
    inner = Graph(name="body", format="torch", tensors=tensors, operators=(body,), inputs=(), outputs=())
    graph = replace(inner, operators=(operator,), subgraphs={"body": inner})
    return semantics, cost_of(operator, graph)


def group(names: str, per_output: int) -> list[Case]:
    """Operators of one tensor [2, 3] that give another, at `per_output` operations for each of its 6 elements."""
    return [Case(name, [("self", (2, 3))], [(2, 3)], 0, 6 * per_output) for name in names.split()]


MOVED = """
    view view_copy view_as reshape reshape_as _unsafe_view _reshape_alias permute permute_copy transpose transpose_copy
    t t_copy numpy_T mT movedim moveaxis swapaxes swapdims flatten unflatten squeeze squeeze_copy unsqueeze
    unsqueeze_copy expand expand_copy expand_as repeat tile repeat_interleave cat concat concatenate stack hstack vstack
    dstack split split_copy split_with_sizes split_with_sizes_copy tensor_split chunk unsafe_chunk unsafe_split unbind
    unbind_copy slice slice_copy select select_copy narrow narrow_copy index _unsafe_index index_select gather take
    take_along_dim scatter slice_scatter select_scatter index_put _unsafe_index_put index_copy index_fill masked_fill
    masked_scatter diagonal_scatter where clone contiguous alias alias_copy detach detach_copy lift_fresh
    lift_fresh_copy lift dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout identity positive
    copy fill zero full full_like zeros zeros_like ones ones_like empty empty_like empty_permuted empty_strided
    new_zeros new_ones new_full new_empty new_empty_strided scalar_tensor eye pad constant_pad_nd reflection_pad1d
    reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d _pad_circular pixel_shuffle
    pixel_unshuffle channel_shuffle native_channel_shuffle unfold unfold_copy im2col roll flip fliplr flipud rot90 tril
    triu diagonal diagonal_copy diag diag_embed one_hot as_strided as_strided_copy view_as_real view_as_complex real
    imag conj _conj resolve_conj resolve_neg block_diag meshgrid broadcast_tensors broadcast_to atleast_1d atleast_2d
    atleast_3d embedding ravel
"""
ONE_EACH = """
    mul multiply maximum minimum fmax fmin abs absolute neg negative floor ceil round trunc fix reciprocal eq ne lt le
    gt ge less less_equal greater greater_equal not_equal logical_and logical_or logical_xor logical_not bitwise_and
    bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__
    __rshift__ isnan isinf isfinite sgn square copysign heaviside remainder fmod outer ger arange true_divide cumsum
    cumprod cummax cummin signbit exp2 expm1 log2 log10 log1p cos tan asin acos atan arcsin arccos arctan sinh cosh
    asinh acosh atanh erfc erfinv lgamma digamma atan2 arctan2 hypot special_erf i0 add sub rsub subtract div divide
    clamp_min clamp_max relu threshold sign exp log sqrt sin erf pow
"""
SORTED = """
    sort argsort msort topk kthvalue median nanmedian mode unique unique_dim unique_consecutive _unique2 nonzero
    argwhere masked_select bucketize searchsorted histc bincount multinomial isin
"""
ONE_PER_INPUT = "sum nansum prod amax amin argmax argmin any all count_nonzero max min"

#: x [2, 4, 5, 5], filters [6, 4, 3, 3] → [2, 6, 3, 3]: 108 outputs, 4 · 9 = 36 MACs each.
CONV = [("input", (2, 4, 5, 5)), ("weight", (6, 4, 3, 3))]
BIASED = [*CONV, ("bias", (6,))]
#: x [1, 6, 3, 3] with filters [6, 4, 2, 2] → [1, 4, 6, 6]: 54 inputs, 4 · 4 = 16 MACs each.
TRANSPOSED = [("input", (1, 6, 3, 3)), ("weight", (6, 4, 2, 2))]
NORM = [("input", (2, 3, 4)), ("weight", (3,)), ("bias", (3,)), ("running_mean", (3,)), ("running_var", (3,))]
QKV = [("query", (2, 3, 5, 8)), ("key", (2, 3, 7, 8)), ("value", (2, 3, 7, 4))]
#: 2 · 3 heads · 5 queries · 7 keys = 210 scores; (8 + 4) MACs each; ops = 2 · 2,520 + 6 · 210.
ATTENTION = (210 * 12, 2 * 210 * 12 + 6 * 210)
#: [5 steps, 2 sequences, 3 features] into 4 units.
SEQUENCE = [("input", (5, 2, 3)), ("hx", (1, 2, 4))]


def weights(gates: int, *, features: int = 3, bias: bool = True) -> list[tuple[str, tuple[int, ...]]]:
    rows = gates * 4
    found = [("params", (rows, features)), ("params", (rows, 4))]
    return [*found, ("params", (rows,)), ("params", (rows,))] if bias else found


def cell(gates: int) -> list[tuple[str, tuple[int, ...]]]:
    rows = gates * 4
    return [
        ("input", (2, 3)),
        ("hx", (2, 4)),
        ("w_ih", (rows, 3)),
        ("w_hh", (rows, 4)),
        ("b_ih", (rows,)),
        ("b_hh", (rows,)),
    ]


STACK = {"has_biases": True, "num_layers": 1, "bidirectional": False, "batch_first": False}
#: One cell of 4 units on 3 features: gates · 4 · (3 + 4) MACs; biases 2 · gates · 4; functions as cost.py lists them:
#: LSTM 3 sigmoids (4) + 2 tanhs (5) + 8 = 30 per unit, GRU 2 · 4 + 5 + 8 = 21, tanh 5 + 1 = 6, ReLU 1 + 1 = 2.
LSTM = (112, 2 * 112 + 32 + 120)
GRU = (84, 2 * 84 + 24 + 84)
TANH = (28, 2 * 28 + 8 + 24)
RELU = (28, 2 * 28 + 8 + 8)

CASES = [
    *group(MOVED, 0),
    *group(ONE_EACH, 1),
    *group("rsqrt floor_divide frac hardshrink linspace relu6 hardtanh leaky_relu prelu _prelu_kernel rrelu", 2),
    *group("addcmul addcdiv", 2),
    *group("lerp nan_to_num logit softplus softsign", 3),
    *group("logaddexp softshrink sigmoid special_expit hardsigmoid elu", 4),
    *group("log_sigmoid log_sigmoid_forward glu tanh silu hardswish selu celu gelu", 5),
    *group("softmax _softmax _safe_softmax", 5),
    *group("tanhshrink log_softmax _log_softmax", 6),
    *group("fake_quantize_per_tensor_affine fake_quantize_per_channel_affine", 6),
    *group("fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask", 6),
    *group("mish", 9),
    *[Case(name, [("self", (2, 3))], [(2, 3)], 0, None) for name in SORTED.split()],
    *[Case(name, [("self", (2, 3))], [(2,)], 0, 6) for name in ONE_PER_INPUT.split()],
    # 6 inputs, 2 outputs.
    Case("aminmax", [("self", (2, 3))], [(2,), (2,)], 0, 2 * 6),
    Case("mean", [("self", (2, 3))], [(2,)], 0, 6 + 2),
    Case("var", [("self", (2, 3))], [(2,)], 0, 4 * 6 + 2 * 2),
    Case("var_mean", [("self", (2, 3))], [(2,), (2,)], 0, 4 * 6 + 2 * 2),
    Case("std", [("self", (2, 3))], [(2,)], 0, 4 * 6 + 3 * 2),
    Case("std_mean", [("self", (2, 3))], [(2,), (2,)], 0, 4 * 6 + 3 * 2),
    *[Case(n, [("self", (2, 3))], [(2,)], 0, 2 * 6 + 2) for n in ("norm", "linalg_vector_norm", "frobenius_norm")],
    Case("logsumexp", [("self", (2, 3))], [(2,)], 0, 4 * 6 + 2 * 2),
    Case("max.other", [("self", (2, 3)), ("other", (2, 3))], [(2, 3)], 0, 6),
    Case("scatter_add", [("self", (9,)), ("index", (4,)), ("src", (4,))], [(9,)], 0, 4),
    Case("scatter_reduce", [("self", (9,)), ("index", (4,)), ("src", (4,))], [(9,)], 0, 4),
    Case("index_add", [("self", (9, 2)), ("index", (3,)), ("source", (3, 2))], [(9, 2)], 0, 6),
    *[
        Case(f"quantized_decomposed.{name}.default", [("input", (2, 3))], [(), ()], 0, 2 * 6 + 5)
        for name in (
            "choose_qparams", "choose_qparams_symmetric", "choose_qparams_per_token",
            "choose_qparams_per_token_asymmetric",
        )
    ],
    *[
        Case(f"quantized_decomposed.{verb}quantize_{what}.default", [("input", (2, 3))], [(2, 3)], 0, ops)
        for verb, ops in (("", 4 * 6), ("de", 2 * 6))
        for what in ("per_tensor", "per_channel", "per_token", "per_channel_group")
    ],
    # Variants by an option.
    Case("add", [("self", (6,)), ("other", (6,))], [(6,)], 0, 2 * 6, {"alpha": 0.5}),
    Case("addcmul", [("self", (6,))], [(6,)], 0, 3 * 6, {"value": 2}),
    Case("div", [("self", (6,))], [(6,)], 0, 2 * 6, {"rounding_mode": "floor"}),
    Case("clamp", [("self", (6,))], [(6,)], 0, 2 * 6, {"min": 0, "max": 6}),
    Case("clamp", [("self", (6,))], [(6,)], 0, 6, {"min": 0}),
    Case("pow", [("self", (6,))], [(6,)], 0, 2 * 6, {"exponent": 3}),
    Case("gelu", [("self", (6,))], [(6,)], 0, 13 * 6, {"approximate": "tanh"}),
    Case("relu_", [("self", (6,))], [(6,)], 0, 6),
    *[
        Case(name, [("self", (6,))], [(6,)], 0, 6, dtypes=("float32", "int8"))
        for name in ("to", "_to_copy", "type_as", "convert_element_type", "_to_dim_order_copy")
    ],
    Case("to", [("self", (6,))], [(6,)], 0, 0),
    # Resizing [1, 2, 2] to twice that in the last dimensions: 8, 16, 16 outputs.
    *[Case(name, [("self", (1, 2, 2))], [(1, 2, 4)], 0, 0) for name in ("upsample_nearest1d", "_upsample_nearest_exact1d")],
    *[Case(name, [("self", (1, 1, 2, 2))], [(1, 1, 4, 4)], 0, 0) for name in ("upsample_nearest2d", "_upsample_nearest_exact2d")],
    *[Case(name, [("self", (1, 1, 1, 2, 2))], [(1, 1, 1, 4, 4)], 0, 0) for name in ("upsample_nearest3d", "_upsample_nearest_exact3d")],
    Case("upsample_linear1d", [("self", (1, 2, 2))], [(1, 2, 4)], 0, 3 * 8),
    Case("upsample_bilinear2d.vec", [("self", (1, 1, 2, 2))], [(1, 1, 4, 4)], 0, 7 * 16),
    Case("upsample_trilinear3d", [("self", (1, 1, 1, 2, 2))], [(1, 1, 1, 4, 4)], 0, 15 * 16),
    Case("upsample_bicubic2d", [("self", (1, 1, 2, 2))], [(1, 1, 4, 4)], 0, 31 * 16),
    Case("grid_sampler", [("input", (1, 1, 4, 4)), ("grid", (1, 2, 2, 2))], [(1, 1, 2, 2)], 0, 7 * 4, {"interpolation_mode": 0}),
    Case("grid_sampler_2d", [("input", (1, 1, 4, 4))], [(1, 1, 2, 2)], 0, 0, {"interpolation_mode": 1}),
    Case("grid_sampler_3d", [("input", (1, 1, 4, 4, 4))], [(1, 1, 2, 2, 2)], 0, 15 * 8, {"interpolation_mode": 0}),
    # Convolutions: 108 outputs of 36 MACs; a bias is one addition per output.
    *[Case(n, CONV, [(2, 6, 3, 3)], 3888, 7776) for n in ("conv2d", "conv2d.padding")],
    Case("conv2d", BIASED, [(2, 6, 3, 3)], 3888, 7776 + 108),
    Case("convolution", BIASED, [(2, 6, 3, 3)], 3888, 7884, {"transposed": False, "groups": 1}),
    Case("_convolution", BIASED, [(2, 6, 3, 3)], 3888, 7884, {"transposed": False}),
    # Depthwise: 4 channels with a filter [3, 3] each, 2 · 4 · 9 = 72 outputs of 9 MACs.
    *[
        Case(n, [("input", (2, 4, 5, 5)), ("weight", (4, 1, 3, 3))], [(2, 4, 3, 3)], 648, 1296, {"groups": 4})
        for n in ("conv2d", "_conv_depthwise2d")
    ],
    Case("conv1d", [("input", (1, 4, 8)), ("weight", (6, 4, 3)), ("bias", (6,))], [(1, 6, 6)], 36 * 12, 2 * 432 + 36),
    Case("conv3d", [("input", (1, 2, 3, 3, 3)), ("weight", (5, 2, 2, 2, 2))], [(1, 5, 2, 2, 2)], 40 * 16, 2 * 640),
    Case("conv_depthwise3d", [("input", (1, 2, 3, 3, 3)), ("weight", (2, 1, 2, 2, 2))], [(1, 2, 2, 2, 2)], 16 * 8, 256, {"groups": 2}),
    # Transposed: 54 inputs of 16 MACs, 144 outputs.
    Case("conv_transpose2d", [*TRANSPOSED, ("bias", (4,))], [(1, 4, 6, 6)], 864, 1728 + 144),
    Case("convolution", TRANSPOSED, [(1, 4, 6, 6)], 864, 1728, {"transposed": True}),
    Case("conv_transpose1d", [("input", (1, 3, 4)), ("weight", (3, 2, 2))], [(1, 2, 8)], 12 * 4, 96),
    Case("conv_transpose3d", [("input", (1, 1, 2, 2, 2)), ("weight", (1, 2, 2, 2, 2))], [(1, 2, 4, 4, 4)], 8 * 16, 256),
    # Products: [2, 3] @ [3, 4] is 8 outputs of 3 MACs.
    Case("linear", [("input", (2, 3)), ("weight", (4, 3)), ("bias", (4,))], [(2, 4)], 24, 48 + 8),
    Case("linear", [("input", (2, 3)), ("weight", (4, 3))], [(2, 4)], 24, 48),
    *[Case(n, [("self", (2, 3)), ("mat2", (3, 4))], [(2, 4)], 24, 48) for n in ("mm", "matmul", "_int_mm", "inner")],
    Case("bmm", [("self", (5, 2, 3)), ("mat2", (5, 3, 4))], [(5, 2, 4)], 120, 240),
    Case("mv", [("self", (2, 3)), ("vec", (3,))], [(2,)], 6, 12),
    *[Case(n, [("self", (3,)), ("tensor", (3,))], [()], 3, 6) for n in ("dot", "vdot")],
    Case("affine_grid_generator", [("theta", (1, 2, 3))], [(1, 4, 5, 2)], 40 * 3, 240),
    Case("addmm", [("self", (4,)), ("mat1", (2, 3)), ("mat2", (3, 4))], [(2, 4)], 24, 48 + 8),
    # 0.5 · (a @ b) and no bias: a multiplication per output.
    Case("baddbmm", [("self", (5, 2, 4)), ("batch1", (5, 2, 3)), ("batch2", (5, 3, 4))], [(5, 2, 4)], 120, 240 + 40, {"alpha": 0.5, "beta": 0}),
    # 2 · bias + a @ b: two operations more per output.
    Case("addmm", [("self", (4,)), ("mat1", (2, 3)), ("mat2", (3, 4))], [(2, 4)], 24, 48 + 16, {"beta": 2}),
    Case("addmv", [("self", (2,)), ("mat", (2, 3)), ("vec", (3,))], [(2,)], 6, 12 + 2),
    Case("addbmm", [("self", (2, 4)), ("batch1", (5, 2, 3)), ("batch2", (5, 3, 4))], [(2, 4)], 120, 240 + 8),
    Case("tensordot", [("self", (2, 3, 4)), ("other", (4, 3, 5))], [(2, 5)], 10 * 12, 240, {"dims_self": [1, 2], "dims_other": [1, 0]}),
    Case("einsum", [("tensors", (2, 5, 3)), ("tensors", (2, 3, 4))], [(2, 5, 4)], 120, 240, {"equation": "bij,bjk->bik"}),
    Case("einsum", [("tensors", (2, 5, 3)), ("tensors", (3, 4))], [(2, 5, 4)], 120, 240, {"equation": "...j,jk->...k"}),
    Case("einsum", [("tensors", (2, 3)), ("tensors", (3, 4))], [(2, 4)], 24, 48, {"equation": "ij,jk"}),
    Case("einsum", [("tensors", (3,)), ("tensors", (4,))], [(3, 4)], 0, 12, {"equation": "i,j->ij"}),
    Case("einsum", [("tensors", (3, 4))], [(3,)], 0, 12, {"equation": "ij->i"}),
    Case("einsum", [("tensors", (3, 4))], [(4, 3)], 0, 0, {"equation": "ij->ji"}),
    Case("einsum", [("tensors", (3,)), ("tensors", (3,)), ("tensors", (3,))], [()], None, None, {"equation": "i,i,i->"}),
    *[
        Case(name, QKV, [(2, 3, 5, 4)], *ATTENTION)
        for name in (
            "scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_attention_math", "_scaled_dot_product_cudnn_attention",
        )
    ],
    # Normalisations of 24 elements.
    *[
        Case(name, NORM, [(2, 3, 4)], 0, 2 * 24)
        for name in (
            "batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
            "_batch_norm_no_update",
        )
    ],
    Case("batch_norm", NORM, [(2, 3, 4)], 0, 8 * 24, {"training": True}),
    Case("_batch_norm_with_update", NORM, [(2, 3, 4)], 0, 8 * 24),
    Case("instance_norm", NORM, [(2, 3, 4)], 0, 8 * 24),
    Case("instance_norm", NORM, [(2, 3, 4)], 0, 2 * 24, {"use_input_stats": False}),
    *[
        Case(name, [("input", (2, 3, 4)), ("weight", (4,)), ("bias", (4,))], [(2, 3, 4)], 0, 8 * 24)
        for name in ("layer_norm", "native_layer_norm", "group_norm", "native_group_norm")
    ],
    Case("layer_norm", [("input", (2, 3, 4))], [(2, 3, 4)], 0, 6 * 24),
    *[Case(n, [("input", (2, 12)), ("weight", (12,))], [(2, 12)], 0, 4 * 24) for n in ("rms_norm", "_fused_rms_norm")],
    # Pools: windows of 2 in every dimension; a mean has one division more.
    *[Case(n, [("self", (1, 3, 8))], [(1, 3, 4)], 0, 12 * 2, {"kernel_size": [2]}) for n in ("max_pool1d", "max_pool1d_with_indices")],
    *[Case(n, [("self", (1, 3, 4, 4))], [(1, 3, 2, 2)], 0, 12 * 4, {"kernel_size": [2, 2]}) for n in ("max_pool2d", "max_pool2d_with_indices")],
    *[Case(n, [("self", (1, 1, 4, 4, 4))], [(1, 1, 2, 2, 2)], 0, 8 * 8, {"kernel_size": [2]}) for n in ("max_pool3d", "max_pool3d_with_indices")],
    Case("avg_pool1d", [("self", (1, 3, 8))], [(1, 3, 4)], 0, 12 * 3, {"kernel_size": [2]}),
    Case("avg_pool2d", [("self", (1, 3, 4, 4))], [(1, 3, 2, 2)], 0, 12 * 5, {"kernel_size": [2, 2]}),
    Case("avg_pool3d", [("self", (1, 1, 4, 4, 4))], [(1, 1, 2, 2, 2)], 0, 8 * 9, {"kernel_size": 2}),
    Case("adaptive_avg_pool1d", [("self", (2, 6))], [(2, 3)], 0, 6 * 3),
    *[Case(n, [("self", (1, 2, 4, 6))], [(1, 2, 1, 1)], 0, 2 * 25) for n in ("adaptive_avg_pool2d", "_adaptive_avg_pool2d")],
    *[Case(n, [("self", (1, 2, 2, 2, 2))], [(1, 2, 1, 1, 1)], 0, 2 * 9) for n in ("adaptive_avg_pool3d", "_adaptive_avg_pool3d")],
    # 7 into 3: windows 0–3, 2–5, 4–7 of 3 elements each; 2 channels: 18 comparisons, and 6 divisions for a mean.
    Case("adaptive_max_pool1d", [("self", (2, 7))], [(2, 3)], 0, 18),
    Case("adaptive_avg_pool1d", [("self", (2, 7))], [(2, 3)], 0, 18 + 6),
    Case("adaptive_max_pool2d", [("self", (2, 4, 4))], [(2, 2, 2)], 0, 8 * 4),
    Case("adaptive_max_pool3d", [("self", (2, 4, 4, 4))], [(2, 2, 2, 2)], 0, 16 * 8),
    # Recurrent layers: 5 steps of 2 sequences are 10 cells.
    Case("lstm.input", [*SEQUENCE, *weights(4)], [(5, 2, 4)], 10 * LSTM[0], 10 * LSTM[1], STACK),
    Case("gru.input", [*SEQUENCE, *weights(3)], [(5, 2, 4)], 10 * GRU[0], 10 * GRU[1], STACK),
    Case("rnn_tanh.input", [*SEQUENCE, *weights(1)], [(5, 2, 4)], 10 * TANH[0], 10 * TANH[1], STACK),
    Case("rnn_relu.input", [*SEQUENCE, *weights(1)], [(5, 2, 4)], 10 * RELU[0], 10 * RELU[1], STACK),
    Case("gru.input", [*SEQUENCE, *weights(3, bias=False)], [(5, 2, 4)], 840, 10 * (2 * 84 + 84), {**STACK, "has_biases": False}),
    # In both directions twice the cells; a second layer sees both directions' 8 features: 4 · 4 · (8 + 4) = 192 MACs.
    Case(
        "lstm.input", [*SEQUENCE, *weights(4), *weights(4), *weights(4, features=8), *weights(4, features=8)],
        [(5, 2, 8)], 20 * 112 + 20 * 192, 20 * (2 * 112 + 152) + 20 * (2 * 192 + 152),
        {**STACK, "num_layers": 2, "bidirectional": True},
    ),
    # A projection to 2: 4 · 4 · (3 + 2) + 2 · 4 = 88 MACs per cell.
    Case(
        "lstm.input", [*SEQUENCE, ("params", (16, 3)), ("params", (16, 2)), ("params", (16,)), ("params", (16,)), ("params", (2, 4))],
        [(5, 2, 2)], 880, 10 * (176 + 152), STACK,
    ),
    Case("lstm_cell", cell(4), [(2, 4), (2, 4)], 2 * LSTM[0], 2 * LSTM[1]),
    Case("gru_cell", cell(3), [(2, 4)], 2 * GRU[0], 2 * GRU[1]),
    Case("rnn_tanh_cell", cell(1), [(2, 4)], 2 * TANH[0], 2 * TANH[1]),
    Case("rnn_relu_cell", cell(1), [(2, 4)], 2 * RELU[0], 2 * RELU[1]),
    # What runs graphs costs what they cost, here one addition for each of 8 outputs: once in a wrapper, 4 times along a
    # first dimension of 4. There is no branch here, and a loop's trips are unknown.
    *[
        Case(f"higher_order.{name}", [("", (4, 2))], [(4, 2)], 0, 8)
        for name in ("wrap_with_set_grad_enabled", "wrap_with_autocast", "invoke_subgraph", "wrap", "hints_wrapper")
    ],
    *[Case(f"higher_order.{name}", [("mapped", (4, 2))], [(4, 2)], 0, 32) for name in ("scan", "map", "map_impl")],
    Case("higher_order.cond", [("", ())], [(4, 2)], None, None),
    Case("higher_order.while_loop", [("", (4, 2))], [(4, 2)], None, None),
    *[
        Case(name, [("self", (2, 3))], [(2, 3)], 0, None)
        for name in (
            "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli", "normal", "uniform",
        )
    ],
    *[
        Case(name, [("self", (2, 3))], [(2, 3)], None, None)
        for name in (
            "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "auto_functionalized", "auto_functionalized_v2",
        )
    ],
]  # fmt: skip


def base(op: str) -> str:
    name = (
        op.split(".")[1]
        if op.split(".", maxsplit=1)[0] in ("aten", "higher_order", "quantized_decomposed")
        else op.split(".", maxsplit=1)[0]
    )
    return name if name in OPERATORS else name.removesuffix("_")


@with_each(CASES)
def test_costs_are_those_worked_out_by_hand(case: Case):
    op = case.op if case.op.split(".")[0] in ("higher_order", "quantized_decomposed") else f"aten.{case.op}"
    semantics, cost = ask(Case(op, case.inputs, case.outputs, case.macs, case.ops, case.attributes, case.dtypes))
    assert (cost.macs, cost.ops) == (case.macs, case.ops), cost.why
    assert bool(cost.why) == (None in (case.macs, case.ops))
    assert semantics.kind == "" or set(semantics.geometry) <= set(KINDS[semantics.kind].geometry)


def test_every_operator_has_a_case():
    assert {base(case.op) for case in CASES} == set(OPERATORS)
    assert set(UNKNOWN) <= set(OPERATORS)


def test_an_operator_of_nobody_is_unknown():
    assert interpret(RawOperator(op="mylib.swish.default")).kind == ""
    assert interpret(RawOperator(op="aten.not_an_operator.default")).kind == ""


def test_depthwise_is_told():
    shapes = [("input", (2, 4, 5, 5)), ("weight", (4, 1, 3, 3))]
    assert ask(Case("conv2d", shapes, [(2, 4, 3, 3)], 0, 0, {"groups": 4}))[0].geometry["depthwise"] is True
    assert "depthwise" not in ask(Case("conv2d", CONV, [(2, 6, 3, 3)], 0, 0))[0].geometry


def test_what_selects_is_no_parameter():
    semantics, _ = ask(Case("embedding", [("weight", (9, 4)), ("indices", (2,))], [(2, 4)], 0, 0))
    assert semantics.weights == (0,)
    semantics, _ = ask(Case("batch_norm", NORM, [(2, 3, 4)], 0, 0))
    assert semantics.weights == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("op", ["conv2d", "linear", "mm", "mean", "adaptive_avg_pool2d", "lstm.input", "relu"])
def test_open_dimensions_leave_costs_unknown(op: str):
    inputs = [("input", ("n", "c", 4, 4)), ("weight", (3, "c", 1, 1))]
    _, cost = ask(Case(op, inputs, [("n", 3, 1, 1)], None, None))
    assert cost.ops is None
    assert cost.why


@pytest.mark.parametrize("hostile", [None, "text", -1, 2**70, [], [[]], {}, 0.5, True])
def test_no_option_of_a_hostile_file_is_a_crash(hostile: Any):
    names = [
        "kernel_size",
        "groups",
        "transposed",
        "equation",
        "dims_self",
        "alpha",
        "beta",
        "value",
        "num_layers",
        "bidirectional",
        "batch_first",
        "has_biases",
        "exponent",
        "approximate",
        "interpolation_mode",
        "rounding_mode",
        "min",
        "max",
        "training",
        "use_input_stats",
    ]
    for op, shape in product(sorted(OPERATORS), ((), (2, 3), ("n", 0, 3, 4))):
        for roles in ([], ["self"], ["input", "weight", "params", "params"], ["mapped"] * 4):
            tensors = [Tensor(name=str(at), shape=shape, dtype="?") for at in range(4)]
            attributes = {**dict.fromkeys(names, hostile), "roles": tuple(roles)}
            semantics = interpret(
                RawOperator(op=f"aten.{op}", attributes=attributes, inputs=tensors, outputs=tensors[:1])
            )
            assert semantics.kind in (*KINDS, "")
