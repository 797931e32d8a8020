"""What the networks of ncnn's benchmark take on this machine, with ncnn and one thread.

    pip install ncnn
    python benchmarks/prediction_host.py [--rounds 15] [-o benchmarks/prediction_host.csv]

The networks are those of `prediction_networks.py`, written in ncnn's format with all weights 0, as ncnn's own benchmark
has them. Each operator has the shapes of the published network. Where a tensor is joined from others or split, the
operator behind it reads an input of its own, so that joins cost what `prediction_networks.py` counts for them: an
addition of a constant. A time is the processor time of the thread, which is what the network takes
where no other program runs, and the least of all rounds, which go through all networks one after the other: other
programs make a run longer, never shorter. Values of an earlier run in the file stay where they are less.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prediction_networks import NETWORKS, Layer

INT8 = ("googlenet", "mobilenet", "mobilenet_ssd", "resnet18", "resnet50", "squeezenet", "squeezenet_ssd", "vgg16")
SECONDS = 0.1
"""Of one network in one round, but at least one run."""


@dataclass
class Graph:
    """The lines of a ``.param`` file, and the shapes of its inputs."""

    int8: bool
    lines: list[str] = field(default_factory=list)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def enter(self, shape: tuple[int, ...]) -> None:
        """A new input, of which the next operators are."""
        name = f"input{len(self.inputs)}"
        self.inputs[name] = shape
        self.lines.append(f"Input {name} 0 1 {name}")
        self.outputs.append(name)

    def add(self, kind: str, parameters: str) -> None:
        """An operator behind the last one."""
        name = f"layer{len(self.lines)}"
        self.lines.append(f"{kind} {name} 1 1 {self.outputs[-1]} {name} {parameters}")
        self.outputs[-1] = name

    @property
    def text(self) -> str:
        """The content of the file."""
        return "\n".join(["7767517", f"{len(self.lines)} {len(self.lines)}", *self.lines, ""])


def graph_of(layers: list[Layer], *, int8: bool) -> Graph:
    """`layers` one after the other; those that do not fit the one before begin anew."""
    graph, shape = Graph(int8), ()
    for at, layer in enumerate(layers):
        needed = (layer.side, layer.channels) if layer.kind == "matrix" else (layer.channels, layer.side, layer.side)
        if needed != shape:
            graph.enter(needed)
        following = layers[at + 1].kind if at + 1 < len(layers) else ""
        side = _side(layer)
        _add(graph, layer, following)
        shape = (layer.side, layer.out) if layer.kind == "matrix" else (layer.out, side, side)
    return graph


def _side(layer: Layer) -> int:
    """Of what `layer` writes."""
    if layer.kind in ("mean", "dense"):
        return 1
    return (layer.side - layer.kernel) // layer.stride + 1 if layer.valid else -(-layer.side // layer.stride)


def _add(graph: Graph, layer: Layer, following: str) -> None:
    # -233: padding so that the output has the side of the input over the stride.
    pad = 0 if layer.valid else -233
    if layer.kind in ("conv", "depthwise") and layer.side > 1:
        weights = layer.out * layer.channels // layer.groups * layer.kernel**2
        # Between two convolutions, values stay integers: 100 is added.
        scales = (2 - (layer.kind == "depthwise") + 100 * (following in ("conv", "depthwise"))) * graph.int8
        shape = f"0={layer.out} 1={layer.kernel} 3={layer.stride} 4={pad} 5=1 6={weights} 8={scales} 9=1"
        graph.add("Convolution" if layer.groups == 1 else "ConvolutionDepthWise", f"{shape} 7={layer.groups}")
    elif layer.kind == "pool":
        graph.add("Pooling", f"0=0 1=3 2={layer.stride} 5={1 if layer.valid else 2}")
    elif layer.kind == "mean":
        graph.add("Pooling", "0=1 4=1")
    elif layer.kind == "elements":
        graph.add("BinaryOp", "0=0 1=1 2=0.5")
    else:
        graph.add("InnerProduct", f"0={layer.out} 1=1 2={layer.out * layer.channels} 8={2 * graph.int8}")


def load(graph: Graph) -> Callable[[], float]:
    """A function that runs `graph` once and returns what that took, in s."""
    import ncnn
    import numpy as np

    net = ncnn.Net()
    net.opt.num_threads = 1
    allocators = ncnn.UnlockedPoolAllocator(), ncnn.PoolAllocator()
    net.opt.blob_allocator, net.opt.workspace_allocator = allocators
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.param")
        path.write_text(graph.text, encoding="ascii")
        if net.load_param(str(path)):
            raise SystemExit(f"ncnn does not read\n{graph.text}")
    net.load_model(ncnn.DataReaderFromEmpty())
    tensors = {name: ncnn.Mat(np.full(shape, 0.01, np.float32)).clone() for name, shape in graph.inputs.items()}

    def run() -> float:
        _ = allocators  # the network does not keep them alive
        start = time.thread_time()
        extractor = net.create_extractor()
        for name, tensor in tensors.items():
            extractor.input(name, tensor)
        for name in graph.outputs:
            code, _found = extractor.extract(name)
            if code:
                raise SystemExit(f"ncnn fails with {code} at {name} of\n{graph.text}")
        return time.thread_time() - start

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    arguments = parser.parse_args()
    nets = {name: load(graph_of(count().layers, int8=False)) for name, count in NETWORKS.items()}
    nets |= {f"{name}_int8": load(graph_of(NETWORKS[name]().layers, int8=True)) for name in INT8}
    least = {name: min(run(), run()) for name, run in nets.items()}
    for _ in range(arguments.rounds):
        for name, run in nets.items():
            times = [run() for _ in range(max(1, int(SECONDS / least[name])))]
            least[name] = min(least[name], *times)
    if arguments.output.exists():
        with arguments.output.open(newline="", encoding="utf-8") as file:
            earlier = {row["model"]: float(row["latency_ms"]) / 1e3 for row in csv.DictReader(file)}
        least = {name: min(seconds, earlier.get(name, seconds)) for name, seconds in least.items()}
    with arguments.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("model", "latency_ms"))
        writer.writerows((name, f"{seconds * 1e3:.3f}") for name, seconds in sorted(least.items()))


if __name__ == "__main__":
    main()
