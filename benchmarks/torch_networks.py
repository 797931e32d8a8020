"""PyTorch modules with example inputs, from tens of microseconds to milliseconds: made by the same seed everywhere."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from nets.architectures import Cnn, Depthwise, Mlp
from taking_turns import MeanOf
from torch import nn
from torch.utils.benchmark import Timer

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def mlp() -> Made:
    """Dense layers: so short that Python's time between them counts."""
    return _make(Mlp)


def cnn() -> Made:
    """Three convolutions with batch norms and poolings."""
    return _make(Cnn)


def depthwise() -> Made:
    """Return a small MobileNet."""
    return _make(Depthwise)


def _make(kind: type[nn.Module]) -> Made:
    torch.manual_seed(0)
    return kind().eval(), (torch.rand(1, 1, 28, 28),)


NETWORKS = {made.__name__: made for made in (mlp, cnn, depthwise)}


def torch_models() -> dict[str, Path]:
    """Name → the module as a file for this process and those that it starts."""
    from edgewise.model.build import build_graph
    from edgewise.model.eager import write_eager

    folder = Path(tempfile.mkdtemp(prefix="edgewise-benchmark-"))
    return {name: write_eager(build_graph(f"{__file__}:{name}"), folder, name=name) for name in NETWORKS}


def timer(name: str, provider: str) -> MeanOf:
    """`torch.utils.benchmark.Timer` around the module, for "compile" compiled."""
    module, inputs = NETWORKS[name]()
    torch.set_num_threads(1)
    if provider == "compile":
        module = torch.compile(module)
    timed = Timer("module(*inputs)", globals={"module": module, "inputs": inputs}, num_threads=1)

    def mean_of(count: int) -> float:
        with torch.inference_mode():
            return float(timed.timeit(count).mean)

    return mean_of
