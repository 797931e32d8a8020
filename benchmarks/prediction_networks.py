"""The work of the networks of NAS-Bench-201, counted from the description of their cells."""

from __future__ import annotations

import re

from edgewise.predicting.features import TERMS, OperatorProfile


def cell_profile(text: str) -> OperatorProfile:
    """Return the work of the network whose cell is `text`: five equal cells at each of three resolutions, on CIFAR-10.

    Before the second and the third resolution stands a residual block with a stride of 2, whose shortcut is a mean and
    a 1×1 convolution (Dong and Yang, 2020, figure 1). The network of empty cells has 7.78 million MACs, and that of 3×3
    convolutions alone 220.12 million.
    """
    amounts = dict.fromkeys(TERMS, 0.0)

    def add(term: str, amount: int, times: int = 1) -> None:
        amounts[term] += times * amount
        amounts["operators"] += times

    add("spatial", 32**2 * 9 * 3 * 16)
    for channels, side in ((32, 16), (64, 8)):
        before, pixels = channels // 2, side**2
        add("elements", (2 * side) ** 2 * before)  # of the block's input
        add("elements", pixels * before)  # the mean in the shortcut
        add("pointwise", pixels * before * channels)
        add("spatial", 9 * pixels * before * channels)
        add("elements", pixels * channels)
        add("spatial", 9 * pixels * channels**2)
        add("elements", pixels * channels)
    add("elements", 8**2 * 64, times=2)
    add("elements", 64)
    add("dense", 64 * 10)
    for channels, side in ((16, 32), (32, 16), (64, 8)):
        pixels = side * side
        for operation in re.findall(r"(\w+)~", text):
            if operation == "none":
                continue
            amounts["pointwise"] += 5 * pixels * channels**2 * (operation == "nor_conv_1x1")
            amounts["spatial"] += 5 * 9 * pixels * channels**2 * (operation == "nor_conv_3x3")
            amounts["elements"] += 5 * pixels * channels * (2 if operation == "avg_pool_3x3" else 1)
            amounts["operators"] += 5
    return OperatorProfile(amounts=tuple(amounts[term] for term in TERMS))
