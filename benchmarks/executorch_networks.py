"""Programs of ExecuTorch, made of PyTorch's networks here, and Python's timer around the engine's call."""

from __future__ import annotations

import tempfile
import timeit
import warnings
from pathlib import Path

import torch
from taking_turns import MeanOf
from torch_networks import NETWORKS


def executorch_models() -> dict[str, Path]:
    """Name → program, in a temporary folder."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    folder = Path(tempfile.mkdtemp(prefix="edgewise-fidelity-"))
    files = {}
    for name, make in NETWORKS.items():
        module, inputs = make()
        program = torch.export.export(module, inputs)
        files[name] = folder / f"{name}.pte"
        lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        files[name].write_bytes(lowered.to_executorch().buffer)
    return files


def timer(path: str) -> MeanOf:
    """Return the binding's call without copies of outputs, as applications in C++ make it; one thread, as
    edgewise's side.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.extension.pybindings import portable_lib
    if portable_lib._threadpool_get_thread_count() != 1:
        portable_lib._unsafe_reset_threadpool(1)
    program = portable_lib._load_program(path)
    torch.manual_seed(0)
    names = {"call": program.load_method("forward").call, "inputs": (torch.rand(1, 1, 28, 28),), "program": program}
    run = timeit.Timer("call(inputs, clone_outputs=False)", globals=names)
    return lambda count: run.timeit(count) / count
