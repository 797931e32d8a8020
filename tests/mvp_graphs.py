"""int8 networks of one operator, as Silicon Labs' MVP may execute it."""

from __future__ import annotations

import numpy as np

from mcu_graphs import Net, spatial
from tflite_writer import INT32

CODES = {"conv": "CONV_2D", "dw": "DEPTHWISE_CONV_2D", "fc": "FULLY_CONNECTED", "avg": "AVERAGE_POOL_2D",
         "max": "MAX_POOL_2D", "add": "ADD"}  # fmt: skip


def write_operator(path, kind, shape, *, out=1, kernel=(1, 1), strides=(1, 1), same=False, activation=0, dilation=1):
    """One operator of `kind` on an input of `shape`.

    Args:
        out: output channels of a convolution or fully connected layer; of a depthwise one, their multiple.
        activation: 0 none, 1 RELU, 3 RELU6; the output's zero point makes both clip.
    """
    net, random = Net(), np.random.default_rng(0)
    value = net.tensor(shape, 0.05, 3)
    net.inputs.append(value)
    inputs = [value]
    fused = {"fused_activation_function": activation}
    window = {"padding": int(not same), "stride_h": strides[0], "stride_w": strides[1], **fused}
    if kind == "fc":
        made, weights = [shape[0], out], ([out, shape[1]], 1, 0)
        options = {"FullyConnected": fused}
    elif kind == "add":
        made, weights, options = shape, None, {"Add": fused}
        inputs.append(net.tensor(shape, 0.04, -3))
        net.inputs.append(inputs[1])
    else:
        sizes = [spatial(*each, dilation, same) for each in zip(shape[1:3], kernel, strides, strict=True)]
        channels = {"conv": out, "dw": out * shape[3]}.get(kind, shape[3])
        made = [shape[0], *sizes, channels]
        dilations = {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
        weights, options = None, {"Pool2D": {**window, "filter_height": kernel[0], "filter_width": kernel[1]}}
        if kind == "conv":
            weights, options = ([out, *kernel, shape[3]], out, 0), {"Conv2D": {**window, **dilations}}
        if kind == "dw":
            weights = [1, *kernel, channels], channels, 3
            options = {"DepthwiseConv2D": {**window, **dilations, "depth_multiplier": out}}
    if weights is not None:
        size, scales, axis = weights
        data = random.integers(-127, 128, size).astype(np.int8)
        inputs.append(net.tensor(size, np.full(scales, 0.01, np.float32), data=data, axis=axis))
        bias = np.zeros(made[-1], np.int32)
        inputs.append(net.tensor(bias.shape, np.full(scales, 0.0005, np.float32), kind=INT32, data=bias))
    result = net.tensor(made, 0.05 if kind in ("avg", "max") else 0.2, 3 if kind in ("avg", "max") else -4)
    net.step(CODES[kind], inputs, [result], **options)
    net.outputs.append(result)
    return net.finish(path)


def draw_operator(random, *, large):
    """The arguments of `write_operator` for a random operator."""
    kind = str(random.choice(list(CODES)))
    activation = int(random.choice([0, 1, 3]))
    if kind == "fc":
        depth = int(random.choice([1, 2, 7, 64, 127, 500, 1023, 1024, 1025, 2047, 2048, 3000, 4096, 4099]))
        shape, out = (int(random.choice([1, 1, 2, 5])), depth), int(random.choice([1, 3, 10, 64, 200, 1024, 1025]))
        return kind, shape, {"out": out if out * depth < 500_000 else 10, "activation": activation}
    most = 160 if large else 40
    size = [int(each) for each in random.integers(1, most, 2)]
    channels = int(random.choice([1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 17, 24, 32, 48, 64, 96, 128, 256]))
    while size[0] * size[1] * channels > (400_000 if large else 40_000):
        size, channels = [each // 2 + 1 for each in size], max(1, channels // 2)
    kernel = [3, 3] if random.random() < 0.4 else [int(each) for each in random.integers(1, 8, 2)]
    strides = (
        [int(random.integers(1, 3))] * 2 if random.random() < 0.6 else [int(each) for each in random.integers(1, 4, 2)]
    )
    same = bool(random.integers(2))
    if not same:
        kernel = [min(each) for each in zip(kernel, size, strict=True)]
    out = int(random.choice([1, 1, 1, 2, 3, 4, 8] if kind == "dw" else [1, 3, 6, 16, 24, 64, 128]))
    words = {"out": out, "kernel": kernel, "strides": strides, "same": same, "activation": activation}
    return kind, (1, *size, channels), {} | words if kind != "add" else {"activation": activation}
