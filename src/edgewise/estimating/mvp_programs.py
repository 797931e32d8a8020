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
from edgewise.estimating.mcu.emit import CanNotLower, activation, padding_of
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
        count: of the outputs.
        kernel: elements of the window inside the image.
        skipped: elements of the window before the image.
        origin: first input.
    """

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
    """Return the programs for `operator`.

    Args:
        scaled_first: whether a convolution first scales its input in a program of its own (Gecko SDK 4.1) instead of in
            its innermost loop (4.0).

    Raises:
        NotAccelerated: the driver has no program for the operator, or it exceeds the limits of the hardware.
        NotModelled: the accelerator executes it, in a number of cycles that is not known.
        BadModel: the operator lacks an input, or its shapes or options can't be.
    """
    try:
        return _programs(operator, scaled_first=scaled_first)
    except CanNotLower as error:
        raise NotAccelerated(error.message) from error
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        where = f"operator {operator.index} ({operator.code})"
        raise BadModel(f"{where} has shapes or options that can't be: {error}") from error


def _programs(operator: IntOperator, *, scaled_first: bool) -> Programs:
    code = operator.code
    if code == "TRANSPOSE_CONV":
        raise NotModelled("edgewise has no model of transposed convolutions on the MVP")
    if code not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "AVERAGE_POOL_2D", "MAX_POOL_2D", "ADD"):
        raise NotAccelerated("the MVP's driver has no program for this operator")
    source, (out,) = operator.input(0), operator.outputs
    for tensor in (*operator.inputs[:2], out):
        if tensor is not None and tensor.dtype != "int8":
            raise NotAccelerated(f"the MVP computes int8, not {tensor.dtype}")
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
    if not clipped or out.elements <= 160:
        return Programs(0, 0)
    whole, rest = divmod(out.elements, 2048)
    steps = rest // 4 if rest >= 160 else 0
    return Programs(whole * (2048 // 2 + 1), whole) + Programs(2 * steps + 1 if steps else 0, int(steps > 0))


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
    (batch, height, width, channels), (_, out_height, out_width, _) = source.shape, out.shape
    if "POOL" in operator.code:
        kernel = options["filter_height"], options["filter_width"]
    else:
        kernel = operator.input(1).shape[1], operator.input(1).shape[2]
    strides = options["stride_h"], options["stride_w"]
    if min(*kernel, *strides) < 1:
        raise ValueError(f"a window of {kernel} with strides {strides}")
    _check(kernel)
    dilations = {options.get(name, 1) for name in ("dilation_h_factor", "dilation_w_factor")}
    if dilations != {1}:
        if operator.code == "CONV_2D":
            raise NotAccelerated("the MVP's convolution has no dilation")
        raise NotModelled("edgewise has no model of dilated depthwise convolutions on the MVP")
    if batch != 1:
        raise NotModelled(f"edgewise has no model of a batch of {batch} on the MVP")
    sizes = [(height, out_height, kernel[0], strides[0], 1), (width, out_width, kernel[1], strides[1], 1)]
    if any((outputs - 1) * stride >= size for size, outputs, _, stride, _ in sizes):
        raise ValueError(f"an output of {out.shape} from an input of {source.shape} with strides {strides}")
    down, across = (
        _spans(size, outputs, k, stride, before)
        for (size, outputs, k, stride, _), before in zip(sizes, padding_of(operator, sizes), strict=True)
    )
    return _Window(height, width, channels, out_height, out_width, kernel, strides, down, across)


def _spans(size: int, outputs: int, kernel: int, stride: int, before: int) -> list[_Span]:
    """Return the outputs along a dimension: those with a whole window together, each at the border by itself."""
    found: list[_Span] = []
    at = 0
    while at < outputs:
        origin = at * stride - before
        whole = origin >= 0 and size - origin >= kernel
        last = min((size - kernel + before) // stride, outputs - 1) if whole else at
        skipped = max(0, -origin)
        found.append(_Span(last - at + 1, min(kernel, size - origin) - skipped, skipped, max(origin, 0)))
        at = last + 1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowProgram:
    """A program for some rows of a span. It moves through the input row by row and never goes back.

    So windows that overlap need several programs, unless the span has one column: then the columns' dimension of the
    arrays is free for the rows.

    Attributes:
        offset, count: first row of the span, and number of rows.
        skipped: rows of the input that are skipped between two windows.
        moved: stride between two windows.
        store: stride between two rows of the output, which is done `steps` times.
    """

    columns: _Span
    rows: _Span
    offset: int
    count: int
    skipped: int
    moved: int
    store: int
    steps: int
    one_column: bool

    @property
    def times(self) -> int:
        """Number of windows."""
        return self.columns.count * self.count

    def idle(self, hidden: int) -> int:
        """Cycles per window that do nothing but skip rows; other instructions skip `hidden` of them, a loop one."""
        left = self.skipped - hidden
        return self.steps - 1 + (max(1, left - 1) if left > 0 else 0)

    def check(self, *, line: int, row: int, by: int, strides: Sequence[int]) -> None:
        """Raise `NotAccelerated` beyond the limits, with `by` values per element."""
        size = self.rows.count if self.one_column else self.columns.count
        lines = self.rows.kernel if self.one_column else (self.rows.kernel + self.skipped) * self.count
        _check([size, lines, line // by, self.count * self.steps], [self.moved // by, row // by, *strides])


def _row_programs(window: _Window, outputs: int, *, long_rows: bool = False) -> Iterator[_RowProgram]:
    """Yield the programs of a convolution or pooling with this number of output channels; for pooling, of one channel.

    Args:
        long_rows: whether spans of one column are treated as the others.
    """
    (s_h, s_w), wide = window.strides, window.out_width * outputs
    for columns, rows in window.spans:
        one = columns.count == 1 and not long_rows
        passes = 1 if one or rows.count == 1 else max(1, -(-rows.kernel // s_h))
        steps = passes if passes * wide > MOST_STRIDE else 1
        for offset in range(min(passes, rows.count)):
            count = -(-(rows.count - offset) // passes)
            yield _RowProgram(
                columns=columns,
                rows=rows,
                offset=offset,
                count=count,
                skipped=passes * s_h - rows.kernel if count > 1 and not one else 0,
                moved=(s_h * window.width if one else s_w) * window.channels,
                store=wide if steps > 1 else passes * wide,
                steps=steps,
                one_column=one,
            )


def _convolution(window: _Window, out: IntTensor, *, scaled_first: bool) -> Programs:
    channels, outputs = window.channels, out.shape[3]
    (k_h, k_w), s_h, row = window.kernel, window.strides[0], window.width * window.channels
    found, inner = Programs(0, 0), 3
    if scaled_first:
        found, inner = Programs(window.height * row // (1 if channels % 2 else 2), 1), 1
    for each in _row_programs(window, outputs):
        columns, rows, line = each.columns, each.rows, each.columns.kernel * channels
        lengths = (
            ((rows.origin + each.offset * s_h) * window.width + columns.origin) * channels,
            (rows.skipped * k_w + columns.skipped) * channels,
            line, row, each.moved, k_w * channels, k_h * k_w * channels,
        )  # fmt: skip
        paired = not any(length % 2 for length in lengths)
        by = 2 if paired else 1
        weights = (k_w * channels // by, k_h * k_w * channels // by)
        each.check(line=line, row=row, by=by, strides=(*weights, each.store))
        _check([outputs])
        loop = rows.kernel * line // by
        cycles = outputs * (1 + each.times * (inner * loop + 3 + paired + each.idle(2 + paired)))
        found += Programs(cycles, 1, outputs * each.times * loop * by if scaled_first else 0)
    return found


def _pooling(window: _Window, *, average: bool, clipped: bool) -> Programs:
    channels, (s_h, s_w), row = window.channels, window.strides, window.width * window.channels
    by = 1 if channels % 2 else 2
    lanes, extra = channels // by, 3 + clipped if average else 2
    flat = max(row, window.out_width * channels) // by <= MOST_STRIDE
    flat = flat and max(lanes, window.height, window.width) <= MOST_ELEMENTS
    positions, size = window.out_height * window.out_width, window.kernel[0] * window.kernel[1]
    if average and flat and positions <= (9 * size * channels + 5) // 10:
        return _per_position(window, lanes, work=1, extra=extra)
    found = Programs(0, 0)
    for each in _row_programs(window, channels, long_rows=average and s_h * row > MOST_STRIDE):
        size = each.columns.kernel * each.rows.kernel
        if average and (s_w * channels > MOST_STRIDE or size > 512):
            raise NotAccelerated(f"a stride of {s_w * channels:,} elements or a window of {size:,} in an average")
        each.check(line=each.columns.kernel * by, row=row, by=by, strides=(lanes, each.store // by))
        found += Programs(lanes * each.times * (size + extra + each.idle(2)), lanes)
    return found


def _per_position(window: _Window, lanes: int, *, work: int, extra: int) -> Programs:
    """Return a program per position of the output, with `work` cycles per element of the window."""
    cycles = sum(
        columns.count * rows.count * lanes * (work * columns.kernel * rows.kernel + extra)
        for columns, rows in window.spans
    )
    return Programs(cycles, window.out_height * window.out_width)


def _depthwise(window: _Window, out: IntTensor, *, clipped: bool) -> Programs:
    outputs = out.shape[3]
    k_h, k_w = window.kernel
    small = window.width * window.height <= 4 * k_w * k_h * outputs
    lanes = outputs if outputs % 2 else outputs // 2
    near = max(window.width, k_w) * lanes <= MOST_STRIDE and lanes <= MOST_ELEMENTS
    if outputs == window.channels and small and near:
        return _per_position(window, lanes, work=3, extra=3 + clipped)
    found = _depthwise_by_channel(window, outputs) + _clip(out, clipped=clipped)
    if k_h * k_w * out.elements // found.count < 120:
        raise NotAccelerated("so little work per program that the CPU is faster")
    return found


def _depthwise_by_channel(window: _Window, outputs: int) -> Programs:
    """Programs that go through the image channel by channel."""
    lanes, by = _lanes(window, outputs)
    wide, (s_h, s_w) = window.out_width * outputs // by, window.strides
    for size, stride in ((window.channels, lanes), (window.out_height, wide), (window.out_width, outputs // by)):
        if size > 1:
            _check([size], [stride])
    _check([outputs // by], [window.kernel[1] * outputs // by])
    found = Programs(0, 0)
    for columns in window.across:
        waiting = list(window.down)
        while waiting:
            rows, groups, ratio = waiting.pop(0), 1, 0
            dimensions = _dimensions(window, columns, rows)
            if "columns" in dimensions and _folds(dimensions, "rows"):
                # Rows and columns become one dimension, in steps of a column.
                ratio, rest = divmod(window.width * s_h, s_w)
                if rest or ratio < columns.count:
                    raise NotAccelerated("a row is no whole number of horizontal strides")
                if ratio * rows.count > MOST_ELEMENTS:
                    # Groups of as many rows as one window covers; the remainder is a span of its own.
                    size = -(-rows.kernel // s_h)
                    groups, left = divmod(rows.count, size)
                    if not groups:
                        raise NotAccelerated("more rows and columns than the MVP's arrays can address")
                    waiting[:0] = [replace(rows, count=left)] if left else []
                    rows = replace(rows, count=size)
            found += _channel_programs(window, columns, rows, groups=groups, ratio=ratio, outputs=outputs)
    return found


def _lanes(window: _Window, outputs: int) -> tuple[int, int]:
    """Return iterations over the outputs of one input channel, and the outputs in one of them."""
    by = 2 if outputs // window.channels % 2 == 0 else 1
    return outputs // window.channels // by, by


def _dimensions(window: _Window, columns: _Span, rows: _Span, *, groups: int = 1) -> dict[str, tuple[int, int]]:
    """Return the dimensions of the input with more than one element: name → elements, stride."""
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


def _channel_programs(
    window: _Window, columns: _Span, rows: _Span, *, groups: int, ratio: int, outputs: int
) -> Programs:
    """Programs for a span, in `groups` of rows; `ratio` is the number of columns per row where they are folded."""
    lanes, by = _lanes(window, outputs)
    dimensions = _dimensions(window, columns, rows, groups=groups)
    row_skips, window_skip = [], 0  # Iterations of loops that only skip elements: after a row, after a window.
    if ratio:
        dimensions.pop("rows", None)
        dimensions["columns"] = ratio * rows.count, window.channels * window.strides[1]
        row_skips.append(ratio - columns.count - 1)
    if min(window.channels * lanes, rows.count, columns.count, groups) > 1:  # The output has to be folded, too.
        row_skips.append(window.out_width - columns.count - 1)
    if _folds(dimensions, "groups") and "kernel rows" in dimensions:
        covered = dimensions.pop("groups")[1] // (window.width * window.channels)
        dimensions["kernel rows"] = covered * groups, window.width * window.channels
        window_skip = max(0, covered - rows.kernel - 1)
    by_channel = len(dimensions) > 3
    if by_channel:
        dimensions.pop("channels", None)
    if len(dimensions) > 3:
        raise NotAccelerated("more dimensions than the MVP's arrays have")
    _check([size for size, _ in dimensions.values()], [stride for _, stride in dimensions.values()])
    steps, store = 1, rows.count * window.out_width * outputs // by
    if groups > 1 and store > MOST_STRIDE:  # A group further on in the output is reached in several steps.
        steps, store = rows.count, store // rows.count
        while store > MOST_STRIDE:
            if store % 2:
                raise NotAccelerated(f"a stride of {store:,} elements")
            steps, store = 2 * steps, store // 2
    channels = 1 if by_channel else window.channels
    row_skips = [each for each in row_skips if each > 0]
    loops = 5 + len(row_skips) + (window_skip > 0)
    if loops + (channels > 1) + (lanes > 1) + (steps > 1) > MOST_STEPS or loops > MOST_STEPS:
        raise NotAccelerated(f"more than {MOST_STEPS} nested loops or instructions")
    once = 3 * rows.kernel * columns.kernel + window_skip + (1 + steps if steps > 1 else 3)
    cycles = lanes * (1 + rows.count * (columns.count * groups * once + sum(row_skips)))
    return Programs(window.channels * cycles, window.channels if by_channel else 1)
