"""Generated int8 networks: chains of operators with random shapes, parameters and scales, many in one file."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tflite_writer import FLOAT, INT8, INT32, Writer

UINT8, INT16, RESOURCE = 3, 7, 13

ACTIVATIONS = 4  # NONE, RELU, RELU_N1_TO_1, RELU6
OUTPUTS = {
    "L2_NORMALIZATION": (1 / 128, 0), "LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0),
}  # fmt: skip


class Net:
    """A file with several chains. A value is the index of a tensor; `shapes` and `scales` know it."""

    def __init__(self):
        self.writer, self.codes, self.buffers = Writer(), [], []
        self.tensors, self.steps, self.inputs, self.outputs = [], [], [], []
        self.shapes, self.scales = [], []
        self.first_tensors, self.first_steps = [], []  # of the subgraph that is executed once

    def tensor(self, shape, scale=None, zero=0, kind=INT8, data=None, name=None, axis=0, **rest):
        if data is not None:
            self.buffers.append(np.ascontiguousarray(data).tobytes())
        quantized = {} if scale is None else {"scale": np.atleast_1d(scale), "zero": zero, "axis": axis}
        name = f"{name or 't'}_{len(self.tensors)}"
        buffer = len(self.buffers) if data is not None else 0
        self.tensors.append(self.writer.tensor(name, [int(size) for size in shape], kind, buffer, **quantized, **rest))
        self.shapes.append(tuple(int(size) for size in shape))
        self.scales.append((None if scale is None else float(np.atleast_1d(scale)[0]), zero))
        return len(self.tensors) - 1

    def words(self, values):
        values = np.asarray(values, np.int32)
        return self.tensor(values.shape, kind=INT32, data=values)

    def step(self, code, inputs, outputs, **options):
        self.steps.append(self.writer.operator(self.code(code), inputs, outputs, **options))

    def code(self, name):
        if name not in self.codes:
            self.codes.append(name)
        return self.codes.index(name)

    def state(self, name):
        """A handle of the state `name`."""
        handle = self.tensor([1], kind=RESOURCE)
        self.step("VAR_HANDLE", [], [handle], VarHandle={"shared_name": name, "container": ""})
        return handle

    def begin(self, name, shape, scale, zero, data):
        """Assign `data` to the state `name` in the first inference."""
        self.buffers.append(data.tobytes())
        at = len(self.first_tensors)
        self.first_tensors += [
            self.writer.tensor(f"{name}_handle", [1], RESOURCE),
            self.writer.tensor(f"{name}_begin", shape, INT8, len(self.buffers), scale=[scale], zero=zero),
        ]
        self.first_steps += [
            self.writer.operator(self.code("VAR_HANDLE"), [], [at], VarHandle={"shared_name": name, "container": ""}),
            self.writer.operator(self.code("ASSIGN_VARIABLE"), [at, at + 1], [], AssignVariable={}),
        ]

    def finish(self, path):
        graphs = [self.writer.graph(self.tensors, self.steps, self.inputs, self.outputs)]
        if self.first_steps:
            graphs.append(self.writer.graph(self.first_tensors, self.first_steps, [], [], name="first"))
        path.write_bytes(self.writer.finish(graphs, self.codes, self.buffers))
        return path


def open_reshape(path, *, batch=1):
    """RELU, then a Keras Reshape with an open batch to rows of 8: SHAPE, STRIDED_SLICE and PACK compute its shape."""
    net = Net()
    given, made, flat = net.tensor([batch, 4, 2], 0.1), net.tensor([batch, 4, 2], 0.1), net.tensor([batch, 8], 0.1)
    shape, first, wanted = (net.tensor(sizes, kind=INT32) for sizes in ([3], [], [2]))
    rows = net.tensor([], kind=INT32, data=np.int32(8))
    net.step("RELU", [given], [made])
    net.step("SHAPE", [made], [shape], Shape={"out_type": INT32})
    net.step(
        "STRIDED_SLICE", [shape, net.words([0]), net.words([1]), net.words([1])], [first],
        StridedSlice={"shrink_axis_mask": 1},
    )  # fmt: skip
    net.step("PACK", [first, rows], [wanted], Pack={"values_count": 2, "axis": 0})
    net.step("RESHAPE", [made, wanted], [flat], Reshape={})
    net.inputs, net.outputs = [given], [flat]
    return net.finish(path)


def spatial(size, kernel, stride, dilation, same):
    """Output size of a convolution or pooling along one dimension."""
    return -(-size // stride) if same else -(-(size - (kernel - 1) * dilation) // stride)


@st.composite
def chain(draw, codes):
    """What a chain is made of: the seed of its numbers and the operators; each takes its parameters from the seed."""
    return draw(st.integers(0, 2**32 - 1)), draw(st.lists(st.sampled_from(sorted(codes)), min_size=2, max_size=4))


class Chain:
    """Adds one chain to `net`. An operator that the shape at hand can't have is left out."""

    def __init__(self, net, seed, codes):
        self.net, self.random = net, np.random.default_rng(seed)
        size = [int(self.random.integers(1, 13)) for _ in range(2)]
        channels = int(self.random.choice([1, 2, 3, 4, 5, 8, 12, 16, 17, 24]))
        everything = self.coin(0.5)
        floats = "QUANTIZE" in codes and self.coin(0.3)
        self.value = net.tensor([1, *size, channels], *self.quantization(), name="x")
        if floats:
            source = net.tensor(self.shape, kind=FLOAT, name="float")
            net.step("QUANTIZE", [source], [self.value], Quantize={})
            net.inputs.append(source)
        else:
            net.inputs.append(self.value)
        begin = self.value
        for code in codes:
            before = self.value
            getattr(self, f"op_{code.lower()}", self.unary)(code)
            if everything and self.value != before and before != begin:
                net.outputs.append(before)
        if floats and self.value != begin:
            out = net.tensor(self.shape, kind=FLOAT, name="float")
            net.step("DEQUANTIZE", [self.value], [out], Dequantize={})
            net.outputs.append(out)
        elif self.value == begin:
            self.unary("RELU")
            net.outputs.append(self.value)
        elif "QUANTIZE" in codes and self.coin():
            (scale, zero), shape = self.near(self.scale), self.shape
            bytes_ = [net.tensor(shape, scale, zero + 128, kind=UINT8)]
            net.step("QUANTIZE", [self.value], bytes_, Quantize={})
            back = net.tensor(shape, *self.near(self.scale))
            net.step("QUANTIZE", bytes_, [back], Quantize={})
            net.outputs += [*bytes_, back]
        else:
            net.outputs.append(self.value)

    @property
    def shape(self):
        return self.net.shapes[self.value]

    @property
    def scale(self):
        return self.net.scales[self.value][0]

    def coin(self, chance=0.5):
        return self.random.random() < chance

    def up_to(self, most):
        return int(self.random.integers(1, most + 1))

    def near(self, scale):
        """A scale about `scale`, and a zero point."""
        return np.float32(scale * 2 ** self.random.uniform(-1.5, 1.5)), int(self.random.integers(-128, 128))

    def quantization(self):
        return self.near(0.05)

    def emit(self, code, inputs, shape, scale_zero, **options):
        self.value, before = self.net.tensor(shape, *scale_zero, name=code), self.value
        self.net.step(code, [before, *inputs] if inputs is not None else [before], [self.value], **options)

    def moved(self, code, inputs, shape, **options):
        self.emit(code, inputs, shape, self.net.scales[self.value], **options)

    def image(self, most_channels=64):
        return len(self.shape) == 4 and self.shape[3] <= most_channels and np.prod(self.shape) < 20_000

    def weighted(self, shape, channels, *, axis, depth, may_vary=True):
        """Weights and bias, and the scale and zero point of the output."""
        many = may_vary and self.coin(0.7)
        scales = self.random.uniform(0.005, 0.05, channels if many else 1).astype(np.float32)
        data = self.random.integers(-127, 128, shape).astype(np.int8)
        weights = self.net.tensor(shape, scales, data=data, axis=axis)
        found = [weights]
        if self.coin(0.7):
            bias = self.random.integers(-3000, 3000, channels).astype(np.int32)
            found.append(self.net.tensor([channels], scales * np.float32(self.scale), kind=INT32, data=bias))
        return found, self.near(self.scale * float(scales.mean()) * 90 * depth**0.5)

    def window(self, most):
        """Kernel, stride, dilation and whether the padding is SAME, such that it fits."""
        _, height, width, _ = self.shape
        kernel, stride = [self.up_to(most), self.up_to(most)], [self.up_to(3), self.up_to(3)]
        dilation, same = [1, 1], self.coin()
        if self.coin(0.25):
            dilation, stride = [self.up_to(3), self.up_to(3)], [1, 1]
        if not same:
            kernel = [min(kernel[0], height), min(kernel[1], width)]
            dilation = [each if (k - 1) * each < size else 1
                        for each, k, size in zip(dilation, kernel, (height, width), strict=True)]  # fmt: skip
        return kernel, stride, dilation, same

    def op_conv_2d(self, code):
        if not self.image():
            return
        _, height, width, channels = self.shape
        kernel, stride, dilation, same = self.window(5)
        out = self.up_to(20)
        inputs, made = self.weighted([out, *kernel, channels], out, axis=0, depth=kernel[0] * kernel[1] * channels)
        self.emit(
            code, inputs,
            [self.shape[0], *(spatial(*each, same) for each in zip((height, width), kernel, stride, dilation, strict=True)), out],
            made,
            Conv2D={"padding": int(not same), "stride_h": stride[0], "stride_w": stride[1],
                    "dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1],
                    "fused_activation_function": int(self.random.integers(ACTIVATIONS))},
        )  # fmt: skip

    def op_depthwise_conv_2d(self, code):
        if not self.image():
            return
        _, height, width, channels = self.shape
        kernel, stride, dilation, same = self.window(5)
        if self.coin(0.3):
            kernel = [3, 3] if same else kernel
        stride[1] = stride[0]
        multiple = self.up_to(4) if self.coin(0.4) and channels <= 16 else 1
        out = channels * multiple
        inputs, made = self.weighted([1, *kernel, out], out, axis=3, depth=kernel[0] * kernel[1])
        self.emit(
            code, inputs,
            [self.shape[0], *(spatial(*each, same) for each in zip((height, width), kernel, stride, dilation, strict=True)), out],
            made,
            DepthwiseConv2D={"padding": int(not same), "stride_h": stride[0], "stride_w": stride[1],
                             "dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1],
                             "depth_multiplier": multiple,
                             "fused_activation_function": int(self.random.integers(ACTIVATIONS))},
        )  # fmt: skip

    def op_average_pool_2d(self, code):
        if not self.image():
            return
        _, height, width, channels = self.shape
        kernel, stride, _, same = self.window(4)
        kernel = [min(kernel[0], height), min(kernel[1], width)]
        self.moved(
            code, None, [self.shape[0],
                         *(spatial(*each, 1, same) for each in zip((height, width), kernel, stride, strict=True)),
                         channels],
            Pool2D={"padding": int(not same), "stride_h": stride[0], "stride_w": stride[1], "filter_height": kernel[0],
                    "filter_width": kernel[1], "fused_activation_function": int(self.random.integers(ACTIVATIONS))},
        )  # fmt: skip

    op_max_pool_2d = op_average_pool_2d

    def op_transpose_conv(self, code):
        if not self.image(24) or np.prod(self.shape) > 2000:
            return
        _, height, width, channels = self.shape
        kernel, stride, _, same = self.window(4)
        out = self.up_to(8)
        whole = [size * by if same else (size - 1) * by + max(k, by)
                 for size, by, k in zip((height, width), stride, kernel, strict=True)]  # fmt: skip
        shape = [self.shape[0], *whole, out]
        (weights, *bias), made = self.weighted([out, *kernel, channels], out, axis=0, depth=kernel[0] * channels)
        source, self.value = self.value, self.net.tensor(shape, *made, name=code)
        options = {"padding": int(not same), "stride_h": stride[0], "stride_w": stride[1]}
        self.net.step(code, [self.net.words(shape), weights, source, *bias], [self.value], TransposeConv=options)

    def op_fully_connected(self, code):
        depth = self.shape[-1] if self.coin() else int(np.prod(self.shape))
        rows = int(np.prod(self.shape)) // depth
        if depth > 800:
            return
        columns = self.up_to(20)
        inputs, made = self.weighted([columns, depth], columns, axis=0, depth=depth)
        self.emit(
            code, inputs, [rows, columns], made,
            FullyConnected={"fused_activation_function": int(self.random.integers(ACTIVATIONS))},
        )  # fmt: skip

    def op_add(self, code):
        shape = list(self.shape)
        kind = self.random.integers(4)
        if kind == 0:
            shape = [1]
        elif kind == 1:
            shape = shape[-1:]
        elif kind == 2:
            shape = [size if self.coin() else 1 for size in shape]
        same = code in ("MAXIMUM", "MINIMUM")
        scale, zero = self.net.scales[self.value] if same else self.near(self.scale)
        data = self.random.integers(-128, 128, shape).astype(np.int8)
        other = self.net.tensor(shape, scale, zero, data=data) if self.coin(0.7) else None
        if other is None:
            shape, other, scale = list(self.shape), self.value, self.scale
        product = code in ("MUL", "SQUARED_DIFFERENCE")
        made = self.near(self.scale * scale * 60) if product else self.near(2 * max(self.scale, scale))
        made = self.net.scales[self.value] if same else made
        act = {"fused_activation_function": int(self.random.integers(ACTIVATIONS))}
        options = {"MaximumMinimum": {}} if same else {code.capitalize(): act}
        options = {"SquaredDifference": {}} if code == "SQUARED_DIFFERENCE" else options
        whole = self.shape
        if other != self.value and self.coin(0.3):
            out = self.net.tensor(whole, *made, name=code)
            self.net.step(code, [other, self.value], [out], **options)
            self.value = out
        else:
            self.emit(code, [other], whole, made, **options)

    def op_prelu(self, code):
        shape = self.shape if self.coin() else self.shape[-1:]
        scale, zero = self.near(0.01)
        slopes = self.net.tensor(shape, scale, zero, data=self.random.integers(-128, 128, shape).astype(np.int8))
        self.emit(code, [slopes], self.shape, self.near(self.scale))

    op_squared_difference = op_sub = op_mul = op_maximum = op_minimum = op_add

    def unary(self, code):
        options = {
            "LEAKY_RELU": lambda: {"LeakyRelu": {"alpha": float(np.float32(self.random.uniform(0.01, 0.9)))}},
            "SOFTMAX": lambda: {"Softmax": {"beta": float(self.random.choice([1.0, 0.5, 2.0]))}},
            "HARD_SWISH": lambda: {"HardSwish": {}},
            "QUANTIZE": lambda: {"Quantize": {}},
            "L2_NORMALIZATION": lambda: {"L2Norm": {}},
        }.get(code, dict)()
        made = self.net.scales[self.value] if code == "RELU6" else OUTPUTS.get(code, self.near(self.scale))
        if code == "RELU6" and not -128 <= self.net.scales[self.value][1] + 6 / self.scale <= 127:
            return  # tflite-micro refuses it
        self.emit(code, None, self.shape, made, **options)

    def op_reshape(self, code):
        shape = [1, int(np.prod(self.shape))] if self.coin(0.3) else list(self.shape[::-1])
        self.moved(code, [self.net.words(shape)], shape, Reshape={"new_shape": shape})

    def op_pad(self, code):
        pads = [[int(self.random.integers(0, 4)) if self.coin() else 0 for _ in range(2)] for _ in self.shape]
        shape = [size + sum(pad) for size, pad in zip(self.shape, pads, strict=True)]
        if len(shape) > 4 or np.prod(shape) > 20_000:
            return
        inputs = [self.net.words(pads)]
        if code == "PADV2":
            value = self.random.integers(-128, 128, 1).astype(np.int8)
            inputs.append(self.net.tensor([1], *self.net.scales[self.value], data=value))
        self.moved(code, inputs, shape, **({"PadV2": {}} if code == "PADV2" else {"Pad": {}}))

    op_padv2 = op_pad

    def op_mirror_pad(self, code):
        mode = int(self.coin())  # REFLECT, SYMMETRIC
        pads = [[int(self.random.integers(0, max(min(4, size + mode), 1))) for _ in range(2)] for size in self.shape]
        shape = [size + sum(pad) for size, pad in zip(self.shape, pads, strict=True)]
        if np.prod(shape) < 20_000:
            self.moved(code, [self.net.words(pads)], shape, MirrorPad={"mode": mode})

    def op_gather(self, code):
        axis = int(self.random.integers(len(self.shape)))
        chosen = self.random.integers(0, self.shape[axis], self.up_to(6))
        shape = [*self.shape[:axis], len(chosen), *self.shape[axis + 1 :]]
        self.moved(code, [self.net.words(chosen)], shape, Gather={"axis": axis})

    def op_reverse_v2(self, code):
        axis = int(self.random.integers(len(self.shape)))
        self.moved(code, [self.net.words([axis])], self.shape, ReverseV2={})

    def op_space_to_batch_nd(self, code):
        if not self.image() or self.shape[0] > 1:
            return
        blocks = [self.up_to(3), self.up_to(3)]
        before = [int(self.random.integers(0, 3)) for _ in blocks]
        pads = [(first, -(size + first) % block)
                for size, first, block in zip(self.shape[1:3], before, blocks, strict=True)]  # fmt: skip
        sizes = [(size + sum(pad)) // block for size, pad, block in zip(self.shape[1:3], pads, blocks, strict=True)]
        shape = [blocks[0] * blocks[1], *sizes, self.shape[3]]
        self.moved(code, [self.net.words(blocks), self.net.words(pads)], shape, SpaceToBatchND={})

    def op_batch_to_space_nd(self, code):
        if len(self.shape) != 4 or self.shape[0] == 1:
            self.op_space_to_batch_nd("SPACE_TO_BATCH_ND")
        if len(self.shape) != 4:
            return
        batch = self.shape[0]
        blocks = [batch, 1] if self.coin() else [1, batch]
        whole = [size * block for size, block in zip(self.shape[1:3], blocks, strict=True)]
        crops = [[int(self.random.integers(0, min(3, (size + 1) // 2))) for _ in range(2)] for size in whole]
        shape = [1, *(size - sum(crop) for size, crop in zip(whole, crops, strict=True)), self.shape[3]]
        self.moved(code, [self.net.words(blocks), self.net.words(crops)], shape, BatchToSpaceND={})

    def op_mean(self, code):
        rank = len(self.shape)
        axes = [1, 2] if rank == 4 and self.coin(0.6) else sorted(
            int(each) for each in self.random.choice(rank, self.up_to(rank - 1) if rank > 1 else 1, replace=False)
        )  # fmt: skip
        keep = self.coin()
        shape = [1 if at in axes else size for at, size in enumerate(self.shape) if keep or at not in axes]
        if not shape:
            return
        factor = np.prod([self.shape[at] for at in axes]) ** 0.5
        made = self.near(self.scale * (factor if code == "SUM" else 1 / factor))
        if self.coin(0.3) or code.startswith("REDUCE"):
            made = self.net.scales[self.value]
        self.emit(code, [self.net.words(axes)], shape, made, Reducer={"keep_dims": bool(keep)})

    op_sum = op_reduce_max = op_reduce_min = op_mean

    def op_arg_max(self, code):
        """The places are an output of their own; the chain goes on with its value."""
        axis = int(self.random.integers(len(self.shape)))
        shape = [size for at, size in enumerate(self.shape) if at != axis]
        if not shape:
            return
        places = self.net.tensor(shape, kind=INT32, name=code)
        name = "ArgMax" if code == "ARG_MAX" else "ArgMin"
        self.net.step(code, [self.value, self.net.words([axis])], [places], **{name: {"output_type": INT32}})
        self.net.outputs.append(places)

    op_arg_min = op_arg_max

    def op_rsqrt(self, code):
        """Only of numbers that are not negative."""
        scale = self.near(self.scale)[0]
        self.emit("RELU", None, self.shape, (scale, -128))
        self.emit(code, None, self.shape, self.near(float(scale) ** -0.5 / 60))

    def op_batch_matmul(self, code):
        if len(self.shape) < 2 or len(self.shape) > 4 or np.prod(self.shape) > 4000:
            return
        depth, columns = self.shape[-1], self.up_to(12)
        turned, batches = self.coin(), [1 if self.coin(0.3) else size for size in self.shape[:-2]]
        shape = [*batches, *((columns, depth) if turned else (depth, columns))]
        scale, zero = self.near(0.03)
        data = self.random.integers(-128, 128, shape).astype(np.int8)
        other = self.net.tensor(shape, scale, zero, data=data)
        made = self.near(self.scale * float(scale) * 90 * depth**0.5)
        self.emit(code, [other], [*self.shape[:-1], columns], made, BatchMatMul={"adj_y": turned})

    def op_concatenation(self, code):
        axis = int(self.random.integers(len(self.shape)))
        more = [size if at != axis else self.up_to(3) for at, size in enumerate(self.shape)]
        data = self.random.integers(-128, 128, more).astype(np.int8)
        other = self.net.tensor(more, *self.net.scales[self.value], data=data)
        whole = [size + (more[at] if at == axis else 0) for at, size in enumerate(self.shape)]
        self.moved(code, [other], whole, Concatenation={"axis": axis - (len(whole) if self.coin() else 0)})

    def op_pack(self, code):
        if len(self.shape) > 3:
            return
        axis = int(self.random.integers(len(self.shape) + 1))
        shape = list(self.shape)
        shape.insert(axis, 2)
        self.moved(code, [self.value], shape, Pack={"axis": axis, "values_count": 2})

    def op_transpose(self, code):
        order = [int(each) for each in self.random.permutation(len(self.shape))]
        self.moved(code, [self.net.words(order)], [self.shape[at] for at in order], Transpose={})

    def op_strided_slice(self, code):
        if len(self.shape) > 4:
            return
        begin, end, step, shape = [], [], [], []
        masks = [0, 0, 0]
        for at, size in enumerate(self.shape):
            low, high = sorted(int(each) for each in self.random.integers(0, size + 1, 2))
            low, high = (0, size) if low == high else (low, high)
            by = self.up_to(3)
            if self.coin(0.2):
                low, high, by = high - 1, low - size - 1, -by
            for place in (0, 1):
                masks[place] |= int(self.coin(0.15)) << at
            if self.coin(0.15) and len(shape) + len(self.shape) - at > 1:
                masks[2] |= 1 << at
                low, high, by = low, low + 1, 1
                masks[0] &= ~(1 << at)
            first, last = (None if masks[place] >> at & 1 else each for place, each in ((0, low), (1, high)))
            kept = len(range(size)[slice(first, last, by)])
            begin, end, step = [*begin, low], [*end, high], [*step, by]
            if not masks[2] >> at & 1:
                shape.append(kept)
        if 0 in shape or not shape:
            return
        self.moved(
            code, [self.net.words(each) for each in (begin, end, step)], shape,
            StridedSlice={"begin_mask": masks[0], "end_mask": masks[1], "shrink_axis_mask": masks[2]},
        )  # fmt: skip

    def op_slice(self, code):
        begin = [int(self.random.integers(size)) for size in self.shape]
        sizes = [self.up_to(size - at) for size, at in zip(self.shape, begin, strict=True)]
        given = [-1 if at + size == whole and self.coin() else size
                 for at, size, whole in zip(begin, sizes, self.shape, strict=True)]  # fmt: skip
        self.moved(code, [self.net.words(begin), self.net.words(given)], sizes, Slice={})

    def op_split(self, code):
        even = [at for at, size in enumerate(self.shape) if size % 2 == 0]
        if not even:
            return
        axis = int(self.random.choice(even))
        shape = [size // 2 if at == axis else size for at, size in enumerate(self.shape)]
        halves = [self.net.tensor(shape, *self.net.scales[self.value], name=code) for _ in range(2)]
        self.net.step(code, [self.net.words([axis]), self.value], halves, Split={"num_splits": 2})
        self.net.outputs.append(halves[0])
        self.value = halves[1]

    def op_unpack(self, code):
        axis = int(self.random.integers(len(self.shape)))
        if self.shape[axis] > 6 or len(self.shape) < 2:
            return
        shape = [size for at, size in enumerate(self.shape) if at != axis]
        parts = [self.net.tensor(shape, *self.net.scales[self.value], name=code) for _ in range(self.shape[axis])]
        self.net.step(code, [self.value], parts, Unpack={"axis": axis, "num": len(parts)})
        self.net.outputs += parts[1:]
        self.value = parts[0]

    def op_resize_nearest_neighbor(self, code):
        if not self.image() or np.prod(self.shape) > 1000:
            return
        _, height, width, channels = self.shape
        sizes = [height * self.up_to(3), width * self.up_to(3)]
        self.moved(code, [self.net.words(sizes)], [self.shape[0], *sizes, channels], ResizeNearestNeighbor={})

    def op_resize_bilinear(self, code):
        if not self.image() or np.prod(self.shape) > 1000:
            return
        sizes = [self.up_to(3 * size) for size in self.shape[1:3]]
        how = self.random.choice(["none", "align_corners", "half_pixel_centers"])
        options = {} if how == "none" else {how: True}
        self.moved(code, [self.net.words(sizes)], [self.shape[0], *sizes, self.shape[3]], ResizeBilinear=options)

    def op_depth_to_space(self, code):
        if not self.image() or self.shape[3] % 4:
            return
        _, height, width, channels = self.shape
        self.moved(code, None, [self.shape[0], 2 * height, 2 * width, channels // 4], DepthToSpace={"block_size": 2})

    def op_space_to_depth(self, code):
        if not self.image() or self.shape[1] % 2 or self.shape[2] % 2:
            return
        _, height, width, channels = self.shape
        self.moved(code, None, [self.shape[0], height // 2, width // 2, channels * 4], SpaceToDepth={"block_size": 2})

    def op_read_variable(self, code):
        """A window over the last inferences: the state and the value make the input; its end is the next state."""
        if len(self.shape) > 4 or len(self.shape) < 2:
            return
        net, value, (scale, zero) = self.net, self.value, self.net.scales[self.value]
        shape = list(self.shape)
        kept, whole = ([shape[0], size, *shape[2:]] for size in (self.up_to(5), 0))
        whole[1] = kept[1] + shape[1]
        name = f"state_{value}"
        handle = net.state(name)
        if self.coin():
            data = self.random.integers(-128, 128, kept).astype(np.int8)
            if not net.first_steps:
                net.step("CALL_ONCE", [], [], CallOnce={"init_subgraph_index": 1})
            net.begin(name, kept, scale, zero, data)
        before, self.value, after = (net.tensor(each, scale, zero, name=code) for each in (kept, whole, kept))
        net.step("READ_VARIABLE", [handle], [before], ReadVariable={})
        net.step("CONCATENATION", [before, value], [self.value], Concatenation={"axis": 1})
        start = [0, shape[1], *(0 for _ in shape[2:])]
        net.step("SLICE", [self.value, net.words(start), net.words(kept)], [after], Slice={})
        net.step("ASSIGN_VARIABLE", [handle, after], [], AssignVariable={})

    def op_svdf(self, code):
        depth = self.shape[-1]
        rows = int(np.prod(self.shape)) // depth
        if rows > 24 or depth > 200:
            return
        net, rank, units, memory = self.net, self.up_to(3), self.up_to(8), self.up_to(10)
        filters, kind = rank * units, self.random.choice([INT8, INT16])
        if len(self.shape) != 2:
            flat = [rows, depth]
            self.moved("RESHAPE", [net.words(flat)], flat, Reshape={"new_shape": flat})
        layout, most = (np.int8, 127) if kind == INT8 else (np.int16, 32767)
        features = net.tensor([filters, depth], *self.near(0.02)[:1], data=self.int8(filters, depth))
        data = self.random.integers(-most, most + 1, [filters, memory]).astype(layout)
        times = net.tensor(data.shape, np.float32(1 / most), kind=kind, data=data)
        scale = np.float32(self.scale * 0.02 * 90 * 128 / most * depth**0.5)
        bias = net.tensor([units], scale / most, kind=INT32, data=self.random.integers(-999, 999, units, np.int32))
        state = net.tensor([rows, filters * memory], scale, kind=kind, variable=True)
        made = self.near(float(scale) * most / 4 * memory**0.5 / 4)
        self.emit(code, [features, times, bias, state], [rows, units], made,
                  SVDF={"rank": rank, "fused_activation_function": 1})  # fmt: skip

    def int8(self, *shape):
        return self.random.integers(-127, 128, shape).astype(np.int8)

    def op_broadcast_to(self, code):
        shape = [self.up_to(4) if size == 1 else size for size in self.shape]
        if np.prod(shape) < 20_000:
            self.moved(code, [self.net.words(shape)], shape, BroadcastTo={})


def write_chains(path, chains):
    """A file with all `chains`, as `chain` draws them."""
    net = Net()
    for seed, codes in chains:
        Chain(net, seed, codes)
    return net.finish(path)


def dense(tmp_path, name="dense.tflite", *, kind=INT8, code="FULLY_CONNECTED"):
    """16 → 8 values, fully connected, with a bias and ReLU."""
    writer, scale = Writer(), {"scale": [0.1]}
    random = np.random.default_rng(1)
    tensors = [
        writer.tensor("x", [1, 16], kind, scale=[0.05], zero=3),
        writer.tensor("w", [8, 16], INT8, 1, **scale),
        writer.tensor("b", [8], INT32, 2, scale=[0.005]),
        writer.tensor("y", [1, 8], kind, scale=[0.2], zero=-20),
    ]
    step = writer.operator(0, [0, 1, 2], [3], FullyConnected={"fused_activation_function": 1})
    graph = writer.graph(tensors, [step], [0], [3])
    weights = random.integers(-127, 128, 128).astype(np.int8).tobytes()
    bias = random.integers(-500, 500, 8).astype(np.int32).tobytes()
    path = tmp_path / name
    path.write_bytes(writer.finish([graph], [code], [weights, bias]))
    return path
