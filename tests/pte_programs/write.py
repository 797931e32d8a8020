"""Writes the files of this folder with ExecuTorch 1.5.1: ``python tests/pte_programs/write.py``.

``methods.pte`` has three methods: ``forward``, of which XNNPACK runs the convolution and the product; ``grow``, whose
batch is open; and ``count``, which adds its input to a state. ``events.etdp`` records two inferences of ``forward``.
"""

from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.extension.pybindings import portable_lib

HERE = Path(__file__).parent


class Forward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(2, 3, 3)
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x):
        x = torch.cumsum(torch.relu(self.convolution(x)), dim=2)
        return self.linear(x.mean((2, 3)))


class Grow(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * 2


class Count(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total.add_(x)
        return self.total + 1


def main():
    torch.manual_seed(0)
    image = torch.linspace(0, 1, 2 * 8 * 8).reshape(1, 2, 8, 8)
    programs = {
        "forward": torch.export.export(Forward().eval(), (image,)),
        "grow": torch.export.export(
            Grow(), (torch.ones(2, 3),), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=8)}}
        ),
        "count": torch.export.export(Count(), (torch.ones(2),)),
    }
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()])
    made = lowered.to_executorch(ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass()))
    (HERE / "methods.pte").write_bytes(made.buffer)
    portable_lib._unsafe_reset_threadpool(1)
    program = portable_lib._load_program(str(HERE / "methods.pte"), enable_etdump=True)
    method = program.load_method("forward")
    for _ in range(2):
        method.call((image,), False)
    program.write_etdump_result_to_file(str(HERE / "events.etdp"), str(HERE / "debug.bin"))
    (HERE / "debug.bin").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
