"""Small OpenVINO networks of one operation, or of a chain that computes shapes, drawn by chance.

A function here answers the shapes of the inputs and what builds the operation from them.
"""

from __future__ import annotations

import random

import pytest

ov = pytest.importorskip("openvino")
np = pytest.importorskip("numpy")


class Chance(random.Random):
    """Draws what operations are made of."""

    def sizes(self, rank, low=1, high=9):
        return [self.randint(low, high) for _ in range(rank)]

    def open(self, sizes):
        """The shape with some dimensions open, most often all."""
        if self.random() < 0.1:
            return ov.PartialShape.dynamic()
        share = self.choice([1, 1, 0.5])
        return ov.PartialShape([-1 if self.random() < share else size for size in sizes])

    def stretched(self, sizes):
        """A shape that `sizes` and it stretch each other to."""
        return [1 if self.random() < 0.3 else size for size in sizes[self.randint(0, len(sizes)) :]]

    def axes(self, rank, count=None):
        chosen = self.sample(range(rank), self.randint(0, rank) if count is None else count)
        return [axis - rank if self.random() < 0.5 else axis for axis in chosen]

    def window(self, rank):
        pad = self.choice(["explicit", "explicit", "same_upper", "same_lower", "valid"])
        return {
            "strides": self.sizes(rank, high=3), "pads_begin": self.sizes(rank, 0, 2), "pads_end": self.sizes(rank, 0, 2),
            "auto_pad": pad,
        }  # fmt: skip

    def cut(self, sizes):
        """Starts, stops and steps, some beyond the ends."""
        ends = [-(2**63), -99, -3, -1, 0, 1, 2, 5, 2**31 - 1, 2**63 - 1]
        steps = [self.choice([-3, -2, -1, 1, 2, 3]) for _ in sizes]
        # Of what goes backwards from before the front OpenVINO says one thing or the other.
        return [
            [self.choice(ends[3:] if step < 0 else ends) for step in steps],
            [self.choice(ends) for _ in steps],
            steps,
        ]


def integers(values, dtype="int64"):
    return ov.opset13.constant(np.array(values, dtype))


def floats(*sizes):
    return ov.opset13.constant(np.zeros(sizes, "float32"))


def binary(c, ops):
    sizes = c.sizes(c.randint(0, 4))
    one, other = c.stretched(sizes), c.stretched(sizes)
    op = c.choice(
        [ops.add, ops.multiply, ops.divide, ops.power, ops.maximum, ops.squared_difference, ops.less, ops.mod]
    )
    return [one, other], op


def select(c, ops):
    sizes = c.sizes(3)
    return [c.stretched(sizes), sizes], lambda a, b: ops.select(ops.less(a, floats()), a, b)


def unary(c, ops):
    op = c.choice([ops.relu, ops.sigmoid, ops.tanh, ops.exp, ops.hswish, lambda x: ops.gelu(x, "ERF"), ops.abs, lambda x: ops.clamp(x, 0, 6),
                   lambda x: ops.softmax(x, 0), lambda x: ops.convert(x, "i32"), lambda x: ops.elu(x, 1.0),
                   lambda x: ops.mvn(x, integers([0]), True, 1e-5, "inside_sqrt"), lambda x: ops.prelu(x, floats(1)),
                   lambda x: ops.normalize_l2(x, integers([0]), 1e-5, "add"),
                   lambda x: ops.cum_sum(x, integers(0)), lambda x: ops.swish(x)])  # fmt: skip
    return [c.sizes(c.randint(1, 5), 0)], op


def quantize(c, ops):
    sizes = c.sizes(3)
    ranges = [floats(*c.stretched(sizes)) for _ in range(4)]
    return [sizes], lambda x: ops.fake_quantize(x, *ranges, 256)


def convolve(c, ops):
    rank = c.randint(1, 3)
    groups = c.choice([0, 0, 1, 2, 3])
    each, made = c.randint(1, 3), c.randint(1, 3)
    kernel = c.sizes(rank, high=3)
    filters = floats(*([groups] if groups else []), made, each, *kernel)
    options = c.window(rank) | {"dilations": c.sizes(rank, high=2)}
    op = ops.group_convolution if groups else ops.convolution
    return [[2, each * max(groups, 1), *c.sizes(rank, 3, 20)]], lambda x: op(x, filters, **options)


def convolve_back(c, ops):
    rank = c.randint(1, 3)
    groups = c.choice([0, 0, 1, 2])
    each, made = c.randint(1, 3), c.randint(1, 3)
    filters = floats(*([groups] if groups else []), each, made, *c.sizes(rank, high=4))
    options = c.window(rank) | {"dilations": c.sizes(rank, high=2), "output_padding": c.sizes(rank, 0, 1)}
    if c.random() < 0.3:
        options["output_shape"] = integers(c.sizes(rank, 5, 30))
    op = ops.group_convolution_backprop_data if groups else ops.convolution_backprop_data
    return [[2, each * max(groups, 1), *c.sizes(rank, 2, 12)]], lambda x: op(x, filters, **options)


def pool(c, ops):
    rank = c.randint(1, 3)
    options = c.window(rank) | {"kernel_shape": c.sizes(rank, 2, 4)}
    rounding = c.choice(["floor", "ceil", "ceil_torch"])
    last = ov.opset14
    if c.random() < 0.5:
        return [[2, 3, *c.sizes(rank, 4, 20)]], lambda x: last.avg_pool(
            x, exclude_pad=True, rounding_type=rounding, **options
        )
    dilations = c.sizes(rank, high=2)
    return [[2, 3, *c.sizes(rank, 4, 20)]], lambda x: last.max_pool(
        x, dilations=dilations, rounding_type=rounding, **options
    )


def pool_first(c, ops):
    rank = c.randint(1, 3)
    options = c.window(rank) | {"kernel_shape": c.sizes(rank, 2, 4), "rounding_type": c.choice(["floor", "ceil"])}
    if c.random() < 0.5:
        return [[2, 3, *c.sizes(rank, 4, 20)]], lambda x: ov.opset1.max_pool(x, **options)
    return [[2, 3, *c.sizes(rank, 4, 20)]], lambda x: ov.opset1.avg_pool(x, exclude_pad=False, **options)


def pool_adaptively(c, ops):
    rank = c.randint(1, 3)
    sizes = integers(c.sizes(rank))
    return [[2, 3, *c.sizes(rank, 4, 20)]], lambda x: ov.opset8.adaptive_avg_pool(x, sizes)


def multiply(c, ops):
    lead, rows, inner, columns = c.sizes(2), c.randint(1, 9), c.randint(1, 9), c.randint(1, 9)
    turn_one, turn_other = c.random() < 0.5, c.random() < 0.5
    one = [*c.stretched(lead), *((inner, rows) if turn_one else (rows, inner))]
    other = [*c.stretched(lead), *((columns, inner) if turn_other else (inner, columns))]
    one, other = [inner] if c.random() < 0.2 else one, [inner] if c.random() < 0.2 else other
    return [one, other], lambda a, b: ops.matmul(a, b, turn_one, turn_other)


def reshape(c, ops):
    sizes = [c.choice([1, 2, 3, 4]) for _ in range(c.randint(1, 4))]
    special = c.random() < 0.6
    target = list(sizes)
    c.shuffle(target)
    if special and c.random() < 0.5:
        keep = c.randrange(len(sizes))
        target = [*sizes[:keep], 0, *sizes[keep + 1 :]]
    if c.random() < 0.6:
        target[c.randrange(len(target))] = -1
    target += [1] * c.randint(0, 2)
    return [sizes], lambda x: ops.reshape(x, integers(target), special)


def squeeze(c, ops):
    sizes = [c.choice([1, 1, 2, 3]) for _ in range(c.randint(1, 5))]
    ones = [at for at, size in enumerate(sizes) if size == 1]
    axes = [axis - len(sizes) if c.random() < 0.5 else axis for axis in c.sample(ones, c.randint(0, len(ones)))]
    return [sizes], lambda x: ops.squeeze(x, integers(axes)) if axes else ops.squeeze(x, integers(np.zeros(0)))


def unsqueeze(c, ops):
    rank = c.randint(0, 4)
    axes = c.axes(rank + 2, 2)
    return [c.sizes(rank)], lambda x: ops.unsqueeze(x, integers(axes))


def transpose(c, ops):
    rank = c.randint(1, 5)
    order = c.sample(range(rank), rank) if c.random() < 0.8 else np.zeros(0)
    return [c.sizes(rank)], lambda x: ops.transpose(x, integers(order))


def concat(c, ops):
    sizes, axis = c.sizes(3), c.choice([-3, -1, 0, 1, 2])
    parts = [[*sizes] for _ in range(3)]
    for part in parts:
        part[axis] = c.randint(0, 5)
    return parts, lambda *all_of_them: ops.concat(list(all_of_them), axis)


def split(c, ops):
    sizes, axis, parts = c.sizes(3), c.choice([-3, -1, 0, 1, 2]), c.randint(1, 3)
    sizes[axis] = parts * c.randint(1, 4)
    if c.random() < 0.5:
        return [sizes], lambda x: ops.split(x, integers(axis), parts)
    lengths = [sizes[axis] - 1, 1] if c.random() < 0.5 else [1, -1]
    return [sizes], lambda x: ops.variadic_split(x, integers(axis), integers(lengths))


def cut(c, ops):
    sizes = c.sizes(c.randint(1, 4), 0)
    chosen = c.sample(range(len(sizes)), c.randint(1, len(sizes)))
    bounds = [integers(each) for each in c.cut(chosen)]
    return [sizes], lambda x: ops.slice(x, *bounds, integers(chosen))


def cut_strided(c, ops):
    sizes = c.sizes(c.randint(1, 4), 2)
    count = c.randint(1, len(sizes))
    bounds = [integers(each) for each in c.cut(range(count))]
    masks = [[int(c.random() < chance) for _ in range(count)] for chance in (0.4, 0.4, 0.15, 0.0, 0.0)]
    if c.random() < 0.5:
        masks[4][c.randrange(count)] = 1
    elif c.random() < 0.5:
        at = c.randrange(count)
        masks[3][at], masks[2][at], masks[0][at], masks[1][at] = 1, 0, 0, 0
        begins, ends, steps = ([*each.data] for each in bounds)
        begins[at], ends[at], steps[at] = (0, 1, 1) if c.random() < 0.5 else (-1, 2**31 - 1, 1)
        bounds = [integers(each) for each in (begins, ends, steps)]
    return [sizes], lambda x: ops.strided_slice(x, *bounds, *masks)


def gather(c, ops):
    sizes, axis, batch = c.sizes(3), c.choice([-1, 1, 2]), c.choice([0, 0, 1, -1])
    indices = [sizes[0], *c.sizes(1)] if batch else c.sizes(c.randint(0, 2))
    return [sizes], lambda x: ops.gather(x, integers(np.zeros(indices)), integers(axis), batch)


def gather_points(c, ops):
    depth, batch = c.randint(1, 2), c.choice([0, 1])
    sizes = c.sizes(4)
    indices = [*sizes[:batch], *c.sizes(1), depth]
    return [sizes], lambda x: ops.gather_nd(x, integers(np.zeros(indices)), batch)


def pad(c, ops):
    sizes = c.sizes(3, 3)
    begins, ends = c.sizes(3, -1, 3), c.sizes(3, -1, 3)
    return [sizes], lambda x: ops.pad(x, integers(begins), integers(ends), "constant", floats())


def reduce(c, ops):
    rank = c.randint(1, 4)
    axes, keep = c.axes(rank), c.random() < 0.5
    op = c.choice([ops.reduce_sum, ops.reduce_mean, ops.reduce_max, ops.reduce_l2, ops.reduce_prod])
    scalar = len(axes) == 1 and c.random() < 0.5
    return [c.sizes(rank)], lambda x: op(x, integers(axes[0] if scalar else axes), keep)


def resize(c, ops):
    rank = c.randint(1, 4)
    axes = sorted(c.sample(range(rank), c.randint(1, rank)))
    options = {"pads_begin": c.sizes(rank, 0, 1), "pads_end": c.sizes(rank, 0, 1)}
    if c.random() < 0.5:
        target, mode = integers(c.sizes(len(axes))), "sizes"
    else:
        scales = [c.choice([0.5, 2.0, 1.5, 0.25, 3.0, 0.3333333, 1.0]) for _ in axes]
        target, mode = ov.opset13.constant(np.array(scales, "float32")), "scales"
    if mode == "sizes" and c.random() < 0.3:
        return [c.sizes(rank)], lambda x: ov.opset1.interpolate(x, target, {"axes": axes, "mode": "nearest"})
    if c.random() < 0.5:
        return [c.sizes(rank)], lambda x: ov.opset11.interpolate(
            x, target, "nearest", mode, axes=integers(axes), **options
        )
    sizes = target if mode == "sizes" else integers([1] * len(axes))
    scales = target if mode == "scales" else ov.opset13.constant(np.ones(len(axes), "float32"))
    return [c.sizes(rank)], lambda x: ov.opset10.interpolate(
        x, sizes, scales, "nearest", mode, axes=integers(axes), **options
    )


def move_blocks(c, ops):
    rank, block = c.randint(1, 3), c.randint(1, 2)
    if c.random() < 0.5:
        sizes = [2, c.randint(1, 3), *(block * size for size in c.sizes(rank, 1, 4))]
        return [sizes], lambda x: ops.space_to_depth(x, "blocks_first", block)
    return [[2, block**rank * 2, *c.sizes(rank)]], lambda x: ops.depth_to_space(x, "depth_first", block)


def move_batches(c, ops):
    block, ends = [1, 1, 2, 3], [0, 0, 1, 0]
    if c.random() < 0.5:
        return [[2, 3, 5, 6]], lambda x: ops.space_to_batch(x, integers(block), integers([0] * 4), integers(ends))
    return [[12, 3, 5, 4]], lambda x: ops.batch_to_space(x, integers(block), integers([0] * 4), integers(ends))


def repeat(c, ops):
    times = integers(c.sizes(c.randint(1, 4), 0, 3))
    return [c.sizes(c.randint(0, 4))], lambda x: ops.tile(x, times)


def stretch(c, ops):
    sizes = c.sizes(3)
    mode = c.choice(["NUMPY", "BIDIRECTIONAL"])
    data_, target = ([1, sizes[1], 1], sizes) if mode == "NUMPY" else (c.stretched(sizes), c.stretched(sizes) or [1])
    return [data_], lambda x: ops.broadcast(x, integers(target), broadcast_spec=mode)


def stretch_explicitly(c, ops):
    sizes = c.sizes(4)
    at = sorted(c.sample(range(4), 2))
    return [[sizes[each] for each in at]], lambda x: ops.broadcast(x, integers(sizes), integers(at), "EXPLICIT")


def recur(c, ops):
    family = c.choice(["lstm", "gru", "rnn"])
    gates, hidden, size, batch = (
        {"lstm": 4, "gru": 3, "rnn": 1}[family],
        c.randint(1, 5),
        c.randint(1, 5),
        c.randint(1, 4),
    )
    both = c.random() < 0.5
    one = 2 if both else 1
    rest = (floats(one, gates * hidden, size), floats(one, gates * hidden, hidden), floats(one, gates * hidden), hidden)
    if c.random() < 0.3:
        rest = (floats(gates * hidden, size), floats(gates * hidden, hidden), floats(gates * hidden), hidden)
        states = [[batch, hidden]] * (2 if family == "lstm" else 1)
        more = ([["tanh"], [], []]) if family == "rnn" else []
        return [[batch, size], *states], lambda x, *s: getattr(ops, f"{family}_cell")(x, *s, *rest, *more)
    states = [[batch, one, hidden]] * (2 if family == "lstm" else 1)
    direction = "BIDIRECTIONAL" if both else c.choice(["FORWARD", "REVERSE"])
    lengths = integers([2] * batch)
    return [[batch, c.randint(2, 5), size], *states], lambda x, *s: getattr(ops, f"{family}_sequence")(
        x, *s, lengths, *rest, direction
    )


def choose(c, ops):
    axis, count = c.choice([-1, 0, 1]), integers(c.randint(1, 9))
    return [c.sizes(3, 4)], lambda x: ov.opset11.topk(x, count, axis, "max", "value")


def attend(c, ops):
    lead, queries, keys, depth, width = c.sizes(2), *c.sizes(4)
    return [[*lead, queries, depth], [*lead, keys, depth], [*lead, keys, width]], ops.scaled_dot_product_attention


def sum_products(c, ops):
    a, b, d, e = c.sizes(4)
    equation, sizes = c.choice([("abd,abe->ade", [[a, b, d], [a, b, e]]), ("ab,bd->ad", [[a, b], [b, d]]),
                                ("abd->da", [[a, b, d]]), ("ab,cd->abcd", [[a, b], [d, e]])])  # fmt: skip
    return sizes, lambda *terms: ops.einsum(list(terms), equation)


def encode(c, ops):
    depth, axis = integers(c.randint(1, 9)), c.choice([-1, 0, 1])
    return [c.sizes(2)], lambda x: ops.one_hot(ops.convert(x, "i32"), depth, floats(), floats(), axis)


def sample_grid(c, ops):
    n, h, w = c.sizes(3)
    return [[n, 3, 8, 8], [n, h, w, 2]], lambda x, grid: ops.grid_sample(x, grid, {})


def normalize(c, ops):
    channels = c.randint(1, 4)
    four = [floats(channels) for _ in range(4)]
    first = c.random() < 0.5
    return [[2, channels, *c.sizes(2)]], lambda x: (ov.opset1 if first else ov.opset5).batch_norm_inference(
        x, *four, 1e-5
    )


OPERATIONS = (
    binary, select, unary, quantize, convolve, convolve_back, pool, pool_first, pool_adaptively, multiply,
    reshape, squeeze, unsqueeze, transpose, concat, split, cut, cut_strided, gather, gather_points, pad, reduce,
    resize, move_blocks, move_batches, repeat, stretch, stretch_explicitly, recur, choose, attend, sum_products,
    encode, sample_grid, normalize,
)  # fmt: skip
