"""Cycles of Silicon Labs' MVP: the programs that carry out an operator, and the cycles of each.

The MVP executes programs of at most 8 instructions in at most 8 nested loops on up to 5 arrays of 3 dimensions. One
instruction takes one cycle, and one more where it needs the result of a multiplication just before. Two neighbouring
int8 are one complex number wherever sizes and addresses are even, which halves the iterations. The driver of the Gecko
SDK decides how many programs an operator needs; its structure and limits are public (Gecko SDK,
``platform/driver/mvp``, and docs.silabs.com, "MVP Accelerator"). The cycles were checked against the simulator of the
package ``silabs-mltk``: ``tools/mvp_sweep.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.errors import BadModel
from edgewise.estimating.mcu.emit import activation, padding_of
from edgewise.estimating.mcu.network import IntOperator, IntTensor

MOST_ELEMENTS, MOST_STRIDE, MOST_STEPS = 1024, 2047, 8
"""Elements of an array's dimension and iterations of a loop; stride of a dimension; loops or instructions."""
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)


class NotAccelerated(Exception):
    """The driver leaves an operator to the CPU; the text is the reason."""


class NotModelled(Exception):
    """The accelerator may execute the operator, but its cycles are not known; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Programs:
    """What carries out an operator.

    Attributes:
        cycles: of the accelerator, when memory never makes it wait.
        count: number of programs that the CPU starts.
        streamed_bytes: weights read by loops that take one cycle per iteration.
    """

    cycles: int
    count: int
    streamed_bytes: int = 0

    def __add__(self, other: Programs) -> Programs:
        return Programs(
            self.cycles + other.cycles, self.count + other.count, self.streamed_bytes + other.streamed_bytes
        )


@dataclass(frozen=True, slots=True)
class _Span:
    """Neighbouring outputs along one dimension whose windows lie inside the image by the same part.

    Attributes:
        first, count: of the outputs.
        kernel: elements of the window inside the image.
        skipped: elements of the window before the image.
        origin: first input.
    """

    first: int
    count: int
    kernel: int
    skipped: int
    origin: int


@dataclass(frozen=True, slots=True)
class _Window:
    """A convolution or pooling: a span of outputs per combination of `across` and `down`."""

    height: int
    width: int
    channels: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    down: Sequence[_Span]
    across: Sequence[_Span]

    @property
    def spans(self) -> Iterator[tuple[_Span, _Span]]:
        """All combinations: columns, rows."""
        return ((columns, rows) for columns in self.across for rows in self.down)


def programs_of(operator: IntOperator, *, scaled_first: bool) -> Programs:
    """The programs for `operator`.

    Args:
        scaled_first: whether a convolution first scales its input in a program of its own (Gecko SDK 4.1) instead of in
            its innermost loop (4.0).

    Raises:
        NotAccelerated: the driver has no program for the operator, or it exceeds the limits of the hardware.
        NotModelled: the accelerator executes it, in a number of cycles that is not known.
        BadModel: the operator lacks an input.
    """
    code = operator.code
    if code == "TRANSPOSE_CONV":
        raise NotModelled("edgewise has no model of transposed convolutions on the MVP")
    if code not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "AVERAGE_POOL_2D", "MAX_POOL_2D", "ADD"):
        raise NotAccelerated("the MVP's driver has no program for this operator")
    source, (out,) = operator.input(0), operator.outputs
    if {source.dtype, out.dtype} != {"int8"}:
        raise NotAccelerated(f"the MVP computes int8, not {source.dtype}")
    clipped = activation(operator, out) != (-128, 127)
    if code == "ADD":
        if source.shape != operator.input(1).shape:
            raise NotAccelerated("the MVP adds tensors of equal shapes only")
        pairs = out.elements // 2
        return Programs(5 * pairs, -(-pairs // MOST_ELEMENTS)) + _clip(out, clipped=clipped)
    if code == "FULLY_CONNECTED":
        return _fully_connected(operator.input(1), out) + _clip(out, clipped=clipped)
    window = _window(operator, source, out)
    if code == "CONV_2D":
        return _convolution(window, out, scaled_first=scaled_first) + _clip(out, clipped=clipped)
    if code == "DEPTHWISE_CONV_2D":
        return _depthwise(window, out, clipped=clipped)
    return _pooling(window, average=code == "AVERAGE_POOL_2D", clipped=clipped)


def _clip(out: IntTensor, *, clipped: bool) -> Programs:
    """Programs that apply an activation: 2,048 elements each, the last at least 160; the CPU does the rest."""
    found, left = Programs(0, 0), out.elements if clipped and out.elements > 160 else 0
    while left >= 160:
        steps = min(2048, left) // 4
        found += Programs(2 * steps + 1, 1)
        left -= 4 * steps
    return found


def _check(sizes: Sequence[int], strides: Sequence[int] = ()) -> None:
    if max(sizes) > MOST_ELEMENTS:
        raise NotAccelerated(f"a dimension of {max(sizes):,} elements, and the MVP's arrays have {MOST_ELEMENTS:,}")
    if max(strides, default=0) > MOST_STRIDE:
        raise NotAccelerated(f"a stride of {max(strides):,} elements, and the MVP's arrays have {MOST_STRIDE:,}")


def _fully_connected(weights: IntTensor, out: IntTensor) -> Programs:
    columns, depth = weights.shape
    paired = depth % 2 == 0
    steps = depth // 2 if paired else depth
    if steps <= MOST_ELEMENTS:
        _check([columns, out.elements // columns])
        return Programs(out.elements * (3 * steps + 3 + paired), 1)
    rest = steps  # A longer row is folded into two dimensions, by small prime factors.
    while rest > MOST_ELEMENTS:
        factor = next((prime for prime in _PRIMES if rest % prime == 0), None)
        if factor is None:
            raise NotAccelerated(f"rows of {depth:,} weights, which can't be folded into {MOST_ELEMENTS:,} elements")
        rest //= factor
    return Programs(out.elements * (3 * steps + 2 + paired), out.elements)


def _window(operator: IntOperator, source: IntTensor, out: IntTensor) -> _Window:
    options = operator.options
    if len(source.shape) != 4 or len(out.shape) != 4:
        raise BadModel(f"operator {operator.index} ({operator.code}) has no images as input and output")
    (batch, height, width, channels), (_, out_height, out_width, _) = source.shape, out.shape
    if "POOL" in operator.code:
        kernel = options["filter_height"], options["filter_width"]
    else:
        kernel = operator.input(1).shape[1], operator.input(1).shape[2]
    strides = options["stride_h"], options["stride_w"]
    dilations = {options.get(name, 1) for name in ("dilation_h_factor", "dilation_w_factor")}
    if dilations != {1}:
        if operator.code == "CONV_2D":
            raise NotAccelerated("the MVP's convolution has no dilation")
        raise NotModelled("edgewise has no model of dilated depthwise convolutions on the MVP")
    if batch != 1:
        raise NotModelled(f"edgewise has no model of a batch of {batch} on the MVP")
    sizes = [(height, out_height, kernel[0], strides[0], 1), (width, out_width, kernel[1], strides[1], 1)]
    down, across = (
        _spans(size, outputs, k, stride, before)
        for (size, outputs, k, stride, _), before in zip(sizes, padding_of(operator, sizes), strict=True)
    )
    return _Window(height, width, channels, out_height, out_width, kernel, strides, down, across)


def _spans(size: int, outputs: int, kernel: int, stride: int, before: int) -> list[_Span]:
    """The outputs along a dimension: those with a whole window together, each at the border by itself."""
    found: list[_Span] = []
    at = 0
    while at < outputs:
        origin = at * stride - before
        whole = origin >= 0 and size - origin >= kernel
        last = min((size - kernel + before) // stride, outputs - 1) if whole else at
        skipped = max(0, -origin)
        found.append(_Span(at, last - at + 1, min(kernel, size - origin) - skipped, skipped, max(origin, 0)))
        at = last + 1
    return found


def _pass_count(rows: _Span, stride: int, *, one_column: bool) -> int:
    """Number of programs for the rows of a span.

    A program moves through the input row by row without going back, so windows that overlap need several programs.
    """
    return 1 if rows.count == 1 or one_column else max(1, -(-rows.kernel // stride))


def _passes(rows: _Span, stride: int, *, one_column: bool) -> Iterator[tuple[int, int, int]]:
    """Per program: offset, number of outputs, and rows of the input that it skips between two."""
    if rows.count == 1 or one_column:
        yield 0, rows.count, 0
        return
    passes = _pass_count(rows, stride, one_column=one_column)
    for offset in range(min(passes, rows.count)):
        count = -(-(rows.count - offset) // passes)
        yield offset, count, passes * stride - rows.kernel if count > 1 else 0


def _idle(rows: int) -> int:
    """Cycles that do nothing but skip `rows` rows; a loop skips one by itself."""
    return max(1, rows - 1) if rows > 0 else 0


def _convolution(window: _Window, out: IntTensor, *, scaled_first: bool) -> Programs:
    channels, outputs = window.channels, out.shape[3]
    (k_h, k_w), (s_h, s_w), row = window.kernel, window.strides, window.width * window.channels
    pixels = window.height * row
    inner = 1 if scaled_first else 3
    found = Programs(pixels if channels % 2 else pixels // 2, 1) if scaled_first else Programs(0, 0)
    for columns, rows in window.spans:
        one_column = columns.count == 1
        moved = s_h * row if one_column else s_w * channels
        for offset, count, skipped in _passes(rows, s_h, one_column=one_column):
            starts = (
                ((rows.origin + offset * s_h) * window.width + columns.origin) * channels,
                (rows.skipped * k_w + columns.skipped) * channels,
            )
            line = columns.kernel * channels
            paired = not any(each % 2 for each in (*starts, line, row, moved, k_w * channels, k_h * k_w * channels))
            by = 2 if paired else 1
            # Rows of the output that lie too far apart are reached one by one.
            passes = _pass_count(rows, s_h, one_column=one_column)
            apart = passes * window.out_width * outputs
            single = apart > MOST_STRIDE
            _check(
                [rows.count if one_column else columns.count,
                 rows.kernel if one_column else (rows.kernel + skipped) * count,
                 line // by, outputs, count * (passes if single else 1)],
                [moved // by, row // by, k_w * channels // by, k_h * k_w * channels // by,
                 apart // passes if single else apart],
            )  # fmt: skip
            loop = rows.kernel * line // by
            once = 3 + paired + _idle(skipped - 2 - paired) + (passes - 1 if single else 0)
            times = columns.count * count
            found += Programs(
                outputs * (1 + times * (inner * loop + once)), 1, outputs * times * loop * by if scaled_first else 0
            )
    return found


def _pooling(window: _Window, *, average: bool, clipped: bool) -> Programs:
    channels, (s_h, s_w), row = window.channels, window.strides, window.width * window.channels
    by = 1 if channels % 2 else 2
    lanes = channels // by
    extra = (4 if clipped else 3) if average else 2
    wide = window.out_width * channels
    flat = max(row, wide) // by <= MOST_STRIDE and max(lanes, window.height, window.width) <= MOST_ELEMENTS
    positions, size = window.out_height * window.out_width, window.kernel[0] * window.kernel[1]
    if average and flat and positions <= (9 * size * channels + 5) // 10:  # a program per position
        cycles = sum(
            columns.count * rows.count * lanes * (columns.kernel * rows.kernel + extra)
            for columns, rows in window.spans
        )
        return Programs(cycles, positions)
    found = Programs(0, 0)
    for columns, rows in window.spans:
        one_column = columns.count == 1 and not (average and s_h * row > MOST_STRIDE)
        if average and (s_w * channels > MOST_STRIDE or columns.kernel * rows.kernel > 512):
            raise NotAccelerated(f"a stride of {s_w * channels:,} elements or a window above 512")
        for _, count, skipped in _passes(rows, s_h, one_column=one_column):
            passes = _pass_count(rows, s_h, one_column=one_column)
            single = passes * wide > MOST_STRIDE
            _check(
                [rows.count if one_column else columns.count,
                 rows.kernel if one_column else (rows.kernel + skipped) * count,
                 columns.kernel, columns.count, count * (passes if single else 1)],
                [(s_h * row if one_column else s_w * channels) // by, row // by, lanes,
                 (wide if single else passes * wide) // by],
            )  # fmt: skip
            once = columns.kernel * rows.kernel + extra + _idle(skipped - 2) + (passes - 1 if single else 0)
            found += Programs(lanes * columns.count * count * once, lanes)
    return found


def _depthwise(window: _Window, out: IntTensor, *, clipped: bool) -> Programs:
    outputs = out.shape[3]
    k_h, k_w = window.kernel
    small = window.width * window.height <= 4 * k_w * k_h * outputs
    lanes = outputs if outputs % 2 else outputs // 2
    near = max(window.width, k_w) * lanes <= MOST_STRIDE and lanes <= MOST_ELEMENTS
    if outputs == window.channels and small and near:  # a program per position
        cycles = sum(
            columns.count * rows.count * lanes * (3 * columns.kernel * rows.kernel + 3 + clipped)
            for columns, rows in window.spans
        )
        return Programs(cycles, window.out_height * window.out_width)
    found = _depthwise_by_channel(window, outputs) + _clip(out, clipped=clipped)
    if k_h * k_w * out.elements // found.count < 120:
        raise NotAccelerated("so little work per program that the CPU is faster")
    return found


def _depthwise_by_channel(window: _Window, outputs: int) -> Programs:
    """Programs that go through the image channel by channel."""
    by = 2 if outputs // window.channels % 2 == 0 else 1
    wide = window.out_width * outputs // by
    dimensions = ((window.channels, outputs // window.channels // by), (window.out_height, wide),
                  (window.out_width, outputs // by))  # fmt: skip
    for size, stride in dimensions:
        if size > 1:
            _check([size], [stride])
    found = Programs(0, 0)
    for columns in window.across:
        waiting = list(window.down)
        while waiting:
            rows = waiting.pop(0)
            groups = 1
            if _overflows(window, columns, rows):
                # The rows are computed in groups of as many as one window covers; the remainder is a span of its own.
                size = -(-rows.kernel // window.strides[0])
                groups, left = divmod(rows.count, size)
                if not groups:
                    raise NotAccelerated("more rows and columns than the MVP's arrays can address")
                if left:
                    waiting.insert(0, replace(rows, first=rows.first + rows.count - left, count=left))
                rows = replace(rows, count=size)
            found += _channel_programs(window, columns, rows, groups=groups, outputs=outputs)
    return found


def _dimensions(window: _Window, columns: _Span, rows: _Span, *, groups: int) -> dict[str, tuple[int, int]]:
    """The dimensions of the input with more than one element: name → elements, stride."""
    row, down = window.width * window.channels, window.strides[0]
    found = {
        "channels": (window.channels, 1),
        "rows": (rows.count, row * down),
        "columns": (columns.count, window.channels * window.strides[1]),
        "groups": (groups, rows.count * row * down),
        "kernel rows": (rows.kernel, row),
        "kernel columns": (columns.kernel, window.channels),
    }
    return {name: each for name, each in found.items() if each[0] > 1}


def _folds(dimensions: Mapping[str, tuple[int, int]], name: str) -> bool:
    """Whether the dimension `name` has to become a part of another one."""
    return name in dimensions and (len(dimensions) > 3 or dimensions[name][1] > MOST_STRIDE)


def _overflows(window: _Window, columns: _Span, rows: _Span) -> bool:
    """Whether rows and columns together exceed one dimension."""
    dimensions = _dimensions(window, columns, rows, groups=1)
    if not _folds(dimensions, "rows") or "columns" not in dimensions:
        return False
    return _ratio(window) * rows.count > MOST_ELEMENTS


def _ratio(window: _Window) -> int:
    """How many steps between columns make a step between rows."""
    ratio, rest = divmod(window.width * window.strides[0], window.strides[1])
    if rest:
        raise NotAccelerated("a row is no whole number of horizontal strides")
    return ratio


def _channel_programs(window: _Window, columns: _Span, rows: _Span, *, groups: int, outputs: int) -> Programs:
    multiple = outputs // window.channels
    by = 2 if multiple % 2 == 0 else 1
    lanes = multiple // by
    dimensions = _dimensions(window, columns, rows, groups=groups)
    skips = []  # Iterations of loops that skip inputs or outputs: after a row, after an output.
    if groups > 1 or (_folds(dimensions, "rows") and "columns" in dimensions):
        ratio = _ratio(window)
        if ratio < columns.count:
            raise NotAccelerated("rows that overlap")
        dimensions.pop("rows", None)
        dimensions["columns"] = ratio * rows.count, window.channels * window.strides[1]
        skips.append(ratio - columns.count - 1)
    made = (window.channels * lanes, rows.count, columns.count, groups)
    if sum(each > 1 for each in made) > 3:
        skips.append(window.out_width - columns.count - 1)
    inner_skip = 0
    if _folds(dimensions, "groups") and "kernel rows" in dimensions:
        ratio = dimensions.pop("groups")[1] // (window.width * window.channels)
        if ratio < rows.kernel:
            raise NotAccelerated("windows that overlap")
        dimensions["kernel rows"] = ratio * groups, window.width * window.channels
        inner_skip = max(0, ratio - rows.kernel - 1)
    by_channel = len(dimensions) > 3
    if by_channel:
        dimensions.pop("channels", None)
    if len(dimensions) > 3:
        raise NotAccelerated("more dimensions than the MVP's arrays have")
    _check([size for size, _ in dimensions.values()], [stride for _, stride in dimensions.values()])
    store = rows.count * window.out_width * outputs // by
    steps = 0  # A group's distance in the output may have to be reached in several steps.
    if groups > 1 and store > MOST_STRIDE:
        parts, distance = rows.count, store // rows.count
        while distance > MOST_STRIDE:
            if distance % 2:
                raise NotAccelerated(f"a stride of {distance:,} elements")
            parts, distance = 2 * parts, distance // 2
        steps = parts - 1
    channels = 1 if by_channel else window.channels
    skips = [each for each in skips if each > 0]
    idle = len(skips) + (inner_skip > 0)
    if max(5 + (channels > 1) + (lanes > 1) + idle + (steps > 0), 5 + idle) > MOST_STEPS:
        raise NotAccelerated(f"more than {MOST_STEPS} nested loops or instructions")
    once = 3 * rows.kernel * columns.kernel + inner_skip + (2 + steps if steps else 3)
    cycles = channels * lanes * (1 + rows.count * (columns.count * groups * once + sum(skips)))
    return Programs(cycles, 1) if not by_channel else Programs(window.channels * cycles, window.channels)
