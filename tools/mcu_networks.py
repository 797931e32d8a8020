"""The networks of EdgeMark's benchmark as int8 ``.tflite`` files with random weights.

Their layers are those of github.com/Black3rror/Benchmarking, folder ``target_models/.Main`` (of FC_6: ``.Ekkono``),
commit c752d4386b0f6f46169983d6653334ca7713f34c. Weights have random values: the number of instructions of an int8
kernel depends on its shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from mcu_graphs import Net
from tflite_writer import INT32

MNIST, CIFAR = (28, 28, 1), (32, 32, 3)
GLOBAL, POOL = (0, 0, 0), (0, 2, 2)
"""Global average pooling and 2×2 max pooling, in EdgeMark's notation: channels, kernel, stride."""

NETWORKS: Mapping[str, tuple[tuple[int, ...], Sequence[tuple[int, int, int]], Sequence[int], bool]] = {
    "FC_0": ((1,), (), (1,), False),
    "FC_1": ((1,), (), (5, 1), False),
    "FC_2": ((1,), (), (10, 10, 1), False),
    "FC_3": ((50,), (), (16, 8, 10), True),
    "FC_4": ((50,), (), (32, 16, 10), True),
    "FC_5": ((13,), (), (64, 32, 16, 1), False),
    "FC_6": ((13,), (), (64, 64, 64, 1), False),
    "FC_7": ((128,), (), (64, 32, 16, 10), True),
    "FC_8": ((13,), (), (128, 128, 128, 1), False),
    "FC_9": ((784,), (), (60, 32, 16, 10), True),
    "FC_10": ((3072,), (), (64, 32, 16, 10), True),
    "CNN_1": (MNIST, ((4, 3, 2), (6, 3, 2), (8, 3, 2), GLOBAL), (10,), True),
    "CNN_2": (MNIST, ((6, 3, 2), (8, 3, 2), (8, 3, 2), (10, 3, 2)), (10,), True),
    "CNN_3": (MNIST, ((4, 3, 1), (8, 3, 2), (12, 3, 2), (16, 3, 2), (20, 3, 2)), (10,), True),
    "CNN_4": (MNIST, ((8, 3, 1), (8, 3, 2), (16, 3, 1), (16, 3, 2), (32, 3, 1), GLOBAL), (64, 16, 10), True),
    "CNN_5": (CIFAR, ((16, 3, 1), (16, 3, 1), POOL, (32, 3, 2), (32, 3, 1), GLOBAL), (64, 32, 10), True),
    "CNN_6": (
        CIFAR, ((16, 3, 1), (16, 3, 1), POOL, (32, 3, 1), (32, 3, 1), POOL, (64, 3, 1), GLOBAL), (100, 50, 10), True,
    ),
    "CNN_7": (
        CIFAR,
        ((16, 3, 1), (16, 3, 1), POOL, (32, 3, 1), (32, 3, 1), POOL, (64, 3, 1), (64, 3, 1), POOL, (128, 3, 1), GLOBAL),
        (128, 64, 10), True,
    ),
}  # fmt: skip
"""Name → shape of the input, convolutions and poolings, sizes of the dense layers, and whether a softmax ends it."""


def write_network(name: str, folder: Path) -> Path:
    """Write the network `name` into `folder` and return its path."""
    shape, convolutions, dense, softmax = NETWORKS[name]
    net, random = Net(), np.random.default_rng(0)
    value = net.tensor((1, *shape), 0.05, 0, name="x")
    net.inputs.append(value)

    def weights(shape: tuple[int, ...], channels: int) -> list[int]:
        data = random.integers(-127, 128, shape).astype(np.int8)
        scales = np.full(channels, 0.01, np.float32)
        bias = random.integers(-3000, 3000, shape[0]).astype(np.int32)
        return [
            net.tensor(shape, scales, data=data),
            net.tensor([shape[0]], scales * np.float32(0.05), kind=INT32, data=bias),
        ]

    for out, kernel, stride in convolutions:
        _, height, width, channels = net.shapes[value]
        image = [1, -(-height // stride), -(-width // stride), out or channels] if stride else [1, channels]
        made = net.tensor(image, 0.05, 0)
        if out:
            options = {"padding": 0, "stride_h": stride, "stride_w": stride, "fused_activation_function": 1}
            operands = weights((out, kernel, kernel, channels), out)
            net.step("CONV_2D", [value, *operands], [made], Conv2D=options)
        elif kernel:
            options = {"padding": 0, "stride_h": stride, "stride_w": stride, "filter_height": kernel}
            net.step("MAX_POOL_2D", [value], [made], Pool2D={**options, "filter_width": kernel})
        else:
            net.step("MEAN", [value, net.words([1, 2])], [made], Reducer={"keep_dims": False})
        value = made
    if len(net.shapes[value]) == 4:
        flat = [1, int(np.prod(net.shapes[value]))]
        made = net.tensor(flat, 0.05, 0)
        net.step("RESHAPE", [value, net.words(flat)], [made], Reshape={"new_shape": flat})
        value = made
    for at, out in enumerate(dense):
        made, last = net.tensor([1, out], 0.05, 0), at == len(dense) - 1
        operands = weights((out, net.shapes[value][1]), 1)
        net.step("FULLY_CONNECTED", [value, *operands], [made], FullyConnected={"fused_activation_function": not last})
        value = made
    if softmax:
        made = net.tensor([1, dense[-1]], 1 / 256, -128)
        net.step("SOFTMAX", [value], [made], Softmax={"beta": 1.0})
        value = made
    net.outputs.append(value)
    return net.finish(folder / f"{name}.tflite")
