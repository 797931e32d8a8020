"""How often the loops of a kernel run, from the call that the lowering made.

The loops are those of CMSIS-NN 4.0.0 and of kernels.c. CMSIS-NN picks a kernel by the shapes and by the core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgewise.estimating.mcu.calls import Call, Counts, Family, UnknownKernel, blockwise, read_calls

HELIUM_CHANNELS = 124
"""Channels that CMSIS-NN's depthwise convolution with Helium computes at a time (CH_IN_BLOCK_MVE)."""


def kernel_loops(statement: str, constants: bytes | bytearray, family: Family) -> dict[str, Counts]:
    """Return how often each loop of each kernel runs in the C statement of one operator.

    Args:
        statement: as `edgewise.estimating.mcu.lowering.Lowered.calls` has it.
        constants: `Lowered.constants`.

    Raises:
        UnknownKernel: the statement calls a kernel whose loops are not known.
    """
    found: dict[str, Counts] = defaultdict(lambda: defaultdict(int))
    for call in read_calls(statement, constants, family):
        if call.name not in _KERNELS:
            raise UnknownKernel(call.name)
        try:
            kernel, counts = _KERNELS[call.name](call)
        except (ValueError, TypeError, IndexError) as error:
            raise UnknownKernel(call.name) from error
        for loop, count in {"calls": 1, **counts}.items():
            if count:
                found[kernel][loop] += int(count)
    return {kernel: dict(counts) for kernel, counts in found.items()}


def scratch_bytes(statement: str, family: Family) -> int:
    """Return the scratch memory that CMSIS-NN needs for the C statement of one operator, bytes."""
    if "ew_scratch(" not in statement:
        return 0
    call, *_ = read_calls(statement, b"", family)  # the others, if any, are those of the other images of a batch
    if call.name == "arm_avgpool_s8":
        return 4 * int(call.arguments[2][3]) if family == "dsp" else 0
    if call.name not in ("arm_convolve_wrapper_s8", "arm_depthwise_conv_wrapper_s8"):
        return 0
    depthwise = "depthwise" in call.name
    _, parameters, _, source, _, weights, _, _, _, out, _ = call.arguments
    area, depth, dilations = int(weights[1] * weights[2]), int(source[3]), parameters[4 + depthwise]
    if depthwise:
        if depth != out[3] or dilations != [1, 1]:
            return 0
        return {"scalar": 0, "dsp": 2 * depth * area, "helium": 4 * HELIUM_CHANNELS * area}[family]
    if _kernel_of_convolution(call) != "arm_convolve_s8":
        return 0
    return 4 * -(-area * depth // 8) * 8 if family == "helium" else 4 * area * depth


def _taps(size: int, kernel: int, *, stride: int, before: int, count: int, dilation: int = 1) -> NDArray[np.int64]:
    """Return number of the kernel's taps that lie within the input, per output position along one dimension."""
    places = np.arange(count)[:, None] * stride - before + np.arange(kernel) * dilation
    return np.asarray(((places >= 0) & (places < size)).sum(1), np.int64)


def _matrix_product(call: Call, rows: int, columns: int, depth: int) -> Counts:
    """`arm_nn_mat_mult_nt_t_s8`: columns in pairs and rows in pairs, or four rows at a time with Helium."""
    if call.family == "helium":
        single = rows % 4
        return {
            "row quads": rows // 4,
            **call.inner("four rows by column", rows // 4 * columns, depth),
            "single rows": single,
            **call.inner("row by column", single * columns, depth),
            **blockwise("requantised", single, columns, 4),
        }
    pairs, odd = columns // 2, columns % 2
    return {
        **blockwise("sums of weights", pairs, depth),
        **blockwise("two rows by two columns", pairs * (rows // 2), depth, 16, 4),
        **blockwise("row by two columns", pairs * (rows % 2), depth, 16, 4),
        "last column": odd,
        **blockwise("row by last column", odd * rows, depth),
    }


def _kernel_of_convolution(call: Call) -> str:
    """Return the kernel that `arm_convolve_wrapper_s8` picks; what it calls `arm_convolve_1_x_n_s8` needs Helium."""
    _, parameters, _, source, _, weights, _, _, _, out, _ = call.arguments
    _, _, stride, padding, dilation, _ = parameters
    if weights[1:3] == dilation == [1, 1] and padding == [0, 0]:
        return "arm_convolve_1x1_s8_fast" if stride == [1, 1] else "arm_convolve_1x1_s8"
    in_row = source[1] == weights[1] == dilation[0] == 1 and out[2] % 4 == 0
    return "arm_convolve_1_x_n_s8" if in_row and call.family == "helium" else "arm_convolve_s8"


def _convolution(call: Call) -> tuple[str, Counts]:
    _, parameters, _, source, _, weights, _, _, _, out, _ = call.arguments
    _, _, (stride_w, stride_h), (pad_w, pad_h), (dilation_w, dilation_h), _ = parameters
    (_, height, width, depth), (_, k_h, k_w, _), (_, out_h, out_w, columns) = source, weights, out
    kernel = _kernel_of_convolution(call)
    if kernel == "arm_convolve_1x1_s8_fast":
        return kernel, _matrix_product(call, height * width, columns, depth)
    if kernel == "arm_convolve_1x1_s8":
        counts = _matrix_product(call, out_w, columns, depth)
        return kernel, {"rows": out_h} | {name: out_h * times for name, times in counts.items()}
    high = _taps(height, k_h, stride=stride_h, before=pad_h, count=out_h, dilation=dilation_h)
    wide = _taps(width, k_w, stride=stride_w, before=pad_w, count=out_w, dilation=dilation_w)
    if kernel == "arm_convolve_1_x_n_s8":
        return kernel, _row_convolution(call, wide, k_w, columns, depth)
    pixels, copies, whole = out_h * out_w, int(high.sum() * wide.sum()), k_h * k_w * depth
    fills = pixels * k_h * k_w - copies
    counts = {
        "pixels": pixels,
        "kernel rows": pixels * k_h,
        **call.inner("copies", copies, depth, 4),
        "fills": fills,
        **blockwise("filled", fills, depth, 8),
    }
    if call.family == "helium":
        padded = ~((high == k_h)[:, None] & (wide == k_w)).ravel()
        groups = int(padded[: pixels // 4 * 4].reshape(-1, 4).any(1).sum())
        counts |= call.inner("four columns by channel", (pixels // 4 - groups) * columns, whole)
        counts |= call.inner("four padded columns by channel", groups * columns, whole, lanes=8)
        counts |= call.inner("column by channel", pixels % 4 * columns, whole, lanes=8)
    else:
        counts["column pairs"] = pixels // 2
        counts |= blockwise("two columns by two channels", pixels // 2 * (columns // 2), whole, 4)
        counts |= blockwise("two columns by channel", pixels // 2 * (columns % 2), whole, 4)
        counts |= blockwise("column by channel", pixels % 2 * columns, whole, 4)
    return kernel, counts


def _row_convolution(call: Call, taps: NDArray[np.int64], kernel: int, columns: int, depth: int) -> Counts:
    """`arm_convolve_1_x_n_s8` with Helium: four pixels at a time, or one by one where the kernel leaves the input."""
    groups = taps.reshape(-1, 4)
    edge = (groups[:, 0] < kernel) | (groups[:, 3] < kernel)
    counts: Counts = defaultdict(int)
    counts["groups"] = len(groups)
    counts |= call.inner("four pixels by channel", int((~edge).sum()) * columns, kernel * depth)
    for length in groups[edge].ravel():
        for name, times in (
            *call.inner("pixel by channel", columns, int(length) * depth).items(),
            *blockwise("requantised", 1, columns, 4).items(),
        ):
            counts[name] += times
    return counts


def _depthwise(call: Call) -> tuple[str, Counts]:
    _, parameters, _, source, _, weights, _, _, _, out, _ = call.arguments
    _, _, multiple, (stride_w, stride_h), (pad_w, pad_h), (dilation_w, dilation_h), _ = parameters
    (_, height, width, channels), (_, k_h, k_w, _), (_, out_h, out_w, made) = source, weights, out
    high = _taps(height, k_h, stride=stride_h, before=pad_h, count=out_h, dilation=dilation_h)
    wide = _taps(width, k_w, stride=stride_w, before=pad_w, count=out_w, dilation=dilation_w)
    pixels, taps, rows = out_h * out_w, int(high.sum() * wide.sum()), int(high.sum()) * out_w
    plain, helium = dilation_w == dilation_h == 1, call.family == "helium"
    if multiple == 1 and plain and k_h == k_w == 3 and pad_h <= 1 and pad_w <= 1 and not helium:
        counts = {"output rows": out_h, "pixels": pixels}
        # The kernel tests its first and last column, and takes the middle one as it is.
        columns = int(sum(1 + (at >= 0) + (width - at >= 3) for at in np.arange(out_w) * stride_w - pad_w))
        for name, each in (("four channels", channels // 4), ("channel", channels % 4)):
            counts |= {name: pixels * each, f"{name}, rows": rows * each}
            counts |= {f"{name}, taps": int(high.sum()) * columns * each}
        return "arm_depthwise_conv_3x3_s8", counts
    if multiple == 1 and plain and call.family != "scalar":
        blocks = [(pixels, taps, rows, channels)]
        if helium:
            return "arm_depthwise_conv_s8_opt", _helium_depthwise(call, high, wide, (k_h, k_w), channels)
        return "arm_depthwise_conv_s8_opt", _dsp_depthwise(call, blocks[0], k_h, k_w)
    counts = {"output rows": out_h, "pixels": pixels}
    if multiple % 4 == 0 and plain:
        tiles = made // 4
        counts |= {"channels": pixels * channels, "four outputs": pixels * tiles}
        return "depthwise_conv_s8_mult_4", counts | {"rows": rows * tiles, "taps": taps * tiles}
    counts |= {"channels": pixels * channels, "outputs": pixels * made, "rows": rows * made, "taps": taps * made}
    counts |= {"dilated across": pixels * made * (dilation_w > 1), "dilated down": pixels * made * (dilation_h > 1)}
    return "depthwise_conv_s8_generic", counts


def _dsp_depthwise(call: Call, sizes: tuple[int, int, int, int], k_h: int, k_w: int) -> Counts:
    """`arm_depthwise_conv_s8_opt`: columns of 16-bit numbers, then four channels at a time."""
    pixels, taps, rows, channels = sizes
    return {
        "pixels": pixels,
        "kernel rows": rows,
        **blockwise("copies", taps, channels, 4),
        "fills": rows * k_w - taps,
        **blockwise("filled", rows * k_w - taps, channels, 8),
        **blockwise("filled rows", pixels * k_h - rows, channels * k_w, 8),
        **blockwise("four channels", pixels * (channels // 4), k_h * k_w, 2),
        **blockwise("channel", pixels * (channels % 4), k_h * k_w),
    }


def _helium_depthwise(
    call: Call, high: NDArray[np.int64], wide: NDArray[np.int64], kernel: tuple[int, int], channels: int
) -> Counts:
    """`arm_depthwise_conv_s8_opt` with Helium: blocks of channels, in each four pixels at a time."""
    pixels, taps, area = len(high) * len(wide), int(high.sum() * wide.sum()), kernel[0] * kernel[1]
    padded = ~((high == kernel[0])[:, None] & (wide == kernel[1])).ravel()
    groups = int(padded[: pixels // 4 * 4].reshape(-1, 4).any(1).sum())
    counts: Counts = defaultdict(int)
    for first in range(0, channels, HELIUM_CHANNELS):
        active = min(HELIUM_CHANNELS, channels - first)
        quads = -(-active // 4)
        for name, times in (
            ("blocks of channels", 1), ("pixels", pixels), ("kernel rows", pixels * kernel[0]),
            *call.inner("copies", taps, active).items(), *call.inner("fills", pixels * area - taps, active).items(),
            ("groups", pixels // 4 - groups), ("padded groups", groups), ("single pixels", pixels % 4),
            *blockwise("group by channels", (pixels // 4 - groups) * quads, area).items(),
            *blockwise("padded group by channels", groups * quads, area).items(),
            *blockwise("pixel by channels", pixels % 4 * quads, area).items(),
        ):  # fmt: skip
            counts[name] += times
    return counts


def _fully_connected(call: Call) -> tuple[str, Counts]:
    source, weights, out = (call.arguments[place] for place in (3, 5, 9))
    rows, depth, columns = source[0], weights[0], out[3]
    together = 2 if call.family == "dsp" else 3
    return "arm_fully_connected_s8", {
        "rows": rows,
        **call.inner("columns together", rows * (columns // together), depth, 4),
        **call.inner("column", rows * (columns % together), depth, 4),
    }


def _pool(call: Call) -> tuple[str, Counts]:
    _, ((stride_w, stride_h), (pad_w, pad_h), _), source, _, kernel, out, _ = call.arguments
    (_, height, width, channels), (_, k_h, k_w, _), (_, out_h, out_w, _) = source, kernel, out
    high = _taps(height, k_h, stride=stride_h, before=pad_h, count=out_h)
    wide = _taps(width, k_w, stride=stride_w, before=pad_w, count=out_w)
    pixels, taps = out_h * out_w, int(high.sum() * wide.sum())
    counts = {"output rows": out_h, "pixels": pixels, "kernel rows": int(high.sum()) * out_w, "taps": taps}
    if call.name == "arm_max_pool_s8":
        counts |= call.inner("copies", pixels, channels, 64, 16, 4)
        counts |= call.inner("comparisons", taps - pixels, channels, 4)
        return call.name, counts | call.inner("clamped", 1, pixels * channels, 4)
    if call.family == "helium":
        vectors = -(-channels // 16)
        return call.name, counts | {"vectors": pixels * vectors, "vector taps": taps * vectors}
    counts |= {"outputs": pixels * channels, "output taps": taps * channels}
    if call.family == "scalar":
        counts |= {"visited rows": pixels * channels * k_h, "visited taps": pixels * channels * k_h * k_w}
    return call.name, counts


def _nested(loops: Sequence[Sequence[int]]) -> tuple[int, int, int]:
    """Return number of nodes above the innermost loop, of runs of the innermost loop, and of its iterations per run."""
    nodes, runs = 0, 1
    for count, *_ in loops[:-1]:
        nodes += runs
        runs *= count
    return nodes, runs, loops[-1][0]


def _broadcast(call: Call) -> tuple[str, Counts]:
    loops = call.loops(6, 4)
    nodes, runs, length = _nested(loops)
    return call.arguments[0], {f"nodes of {len(loops)}": nodes, **call.plain("rows", runs, length)}


def _move(call: Call) -> tuple[str, Counts]:
    loops = call.loops(3, 3)
    nodes, runs, length = _nested(loops)
    if loops[-1][1] == loops[-1][2] == 1:
        return call.name, {"nodes": nodes, **blockwise("copies", runs, length, 64, 16, 4)}
    return call.name, {"nodes": nodes, **blockwise("strided rows", runs, length)}


def _reduction(call: Call) -> tuple[str, Counts]:
    nodes, rows, outputs = _nested(call.loops(len(call.arguments) - 1, 3))
    inner = call.loops(2, 2)
    inner_nodes, runs, length = _nested(inner)
    kind = "contiguous" if inner[-1][1] == 1 else "strided"
    made = rows * outputs
    return call.name, {
        "nodes": nodes, "rows": rows, "inner nodes": made * inner_nodes, f"outputs of {len(inner)} loops": made,
        **call.plain(f"{kind} runs of {len(inner)} loops", made * runs, length),
    }  # fmt: skip


def _arg(call: Call) -> tuple[str, Counts]:
    outer, count, inner = call.arguments[1:4]
    return call.name, {"outer": outer, **blockwise("rows", outer * inner, count - 1)}


def _matrices(call: Call) -> tuple[str, Counts]:
    nodes, runs, matrices = _nested(call.loops(5, 4))
    rows, depth, columns = call.arguments[2][0]
    made = runs * matrices * rows
    return call.name, {
        "nodes": nodes, "matrices": runs * matrices, "rows": made, **call.plain("outputs", made * columns, depth)
    }  # fmt: skip


def _bilinear(call: Call) -> tuple[str, Counts]:
    batches, _, _, channels, height, width = call.arguments[1:7]
    rows = batches * height
    return call.name, {"rows": rows, **call.plain("pixels", rows * width, channels)}


def _normalization(call: Call) -> tuple[str, Counts]:
    rows, columns = call.arguments[1:3]
    return call.name, call.plain("rows", rows, columns)


def _softmax(call: Call) -> tuple[str, Counts]:
    rows, columns, _, _, least = call.arguments[1:6]
    # Values that are far below the highest one have no exponential: these are the others, if all are equally frequent.
    near = round(rows * columns * min(1.0, (1 - least) / 256))
    return call.name, {"rows": rows, "values": rows * columns, "exponentials": near}


def _transposed(call: Call) -> tuple[str, Counts]:
    into, kernel, made, strides, before, *_ = call.arguments[2]
    pairs = [
        np.array([[(place - tap) % stride == 0 and 0 <= (place - tap) // stride < size for tap in range(taps)]
                  for place in range(first, first + count)])
        for size, taps, count, stride, first in zip(into, kernel, made, strides, before, strict=False)
    ]  # fmt: skip
    outputs, (down, across) = int(np.prod(made)), (int(each.sum()) for each in pairs)
    return call.name, {
        "rows": made[0], "pixels": made[0] * made[1], "outputs": outputs, "kernel rows": outputs * kernel[0],
        "visited": made[2] * down * made[1] * kernel[1],
        **call.plain("taps", made[2] * down * across, into[2]),
    }  # fmt: skip


def _svdf(call: Call) -> tuple[str, Counts]:
    batches, inputs, units, rank, memory, width, *_ = call.arguments[3]
    filters = batches * units * rank
    kind = f"{8 * width}-bit"
    return call.name, {
        "batches": batches, "outputs": batches * units, **call.plain(f"{kind} filters", filters, inputs),
        **call.plain(f"{kind} histories", filters, memory),
        **blockwise("moved", filters, (memory - 1) * width, 16, 4),
    }  # fmt: skip


def _elementwise(call: Call) -> tuple[str, Counts]:
    return call.name, call.plain("values", 1, call.arguments[-1])


def _bytes(call: Call) -> tuple[str, Counts]:
    return call.name, blockwise("bytes", 1, call.arguments[2], 64, 16, 4)


_KERNELS: Mapping[str, Callable[[Call], tuple[str, Counts]]] = {
    "arm_avgpool_s8": _pool,
    "arm_convolve_wrapper_s8": _convolution,
    "arm_depthwise_conv_wrapper_s8": _depthwise,
    "arm_fully_connected_s8": _fully_connected,
    "arm_max_pool_s8": _pool,
    "ew_arg_s8": _arg,
    "ew_broadcast": _broadcast,
    "ew_copy": _bytes,
    "ew_dequantize_f32": _elementwise,
    "ew_extreme_s8": _reduction,
    "ew_fill": _bytes,
    "ew_l2_normalization_s8": _normalization,
    "ew_lookup_s8": _elementwise,
    "ew_matmul_s8": _matrices,
    "ew_move": _move,
    "ew_quantize_f32": _elementwise,
    "ew_resize_bilinear_s8": _bilinear,
    "ew_rsqrt_s8": _elementwise,
    "ew_softmax_s8": _softmax,
    "ew_sum_s8": _reduction,
    "ew_svdf_s8": _svdf,
    "ew_transpose_conv_s8": _transposed,
}
