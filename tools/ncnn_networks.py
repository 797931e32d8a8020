"""Counts the work of the networks of ncnn's benchmark in its ``.param`` files (needs `pip install ncnn`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

from edgewise.predicting.features import TERMS, OperatorProfile

SIDES = {"FastestDet": 352, "vision_transformer": 384}
"""Of the inputs that a file does not tell: those of ncnn's benchmark."""
NO_WORK = ("Input", "Split", "Noop", "Dropout", "MemoryData")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its type, the tensors that it reads and writes, and its parameters by number."""

    kind: str
    reads: list[str]
    writes: list[str]
    given: dict[int, str]

    @classmethod
    def of(cls, words: list[str]) -> Layer:
        """Of a line: type, name, numbers of inputs and outputs, their names, parameters."""
        read, written = int(words[2]), int(words[3])
        names, given = words[4 : 4 + read + written], words[4 + read + written :]
        numbers = {int(key): value for key, _, value in (word.partition("=") for word in given)}
        return cls(words[0], names[:read], names[read:], numbers)

    def number(self, key: int, default: int = 0) -> int:
        """Return the parameter `key`."""
        return int(self.given.get(key, default))


class Network:
    """The network at `path`, with weights of 0, for one thread.

    Layers of the type Noop are left out: ncnn's Python package may be built without.
    """

    def __init__(self, path: Path) -> None:
        import ncnn

        lines = path.read_text(encoding="ascii").splitlines()[2:]
        self.layers = [layer for layer in (Layer.of(line.split()) for line in lines if line) if layer.kind != "Noop"]
        (entry,) = (layer for layer in self.layers if layer.kind == "Input")
        self.entry = entry.writes[0]
        width, height = (entry.number(key, SIDES.get(path.stem, 0)) for key in (0, 1))
        self.net = ncnn.Net()
        self.net.opt.num_threads = 1
        self.allocators = ncnn.UnlockedPoolAllocator(), ncnn.PoolAllocator()  # the network does not keep them alive
        self.net.opt.blob_allocator, self.net.opt.workspace_allocator = self.allocators
        if self.net.load_param(str(path)):
            raise SystemExit(f"ncnn does not read {path}")
        self.net.load_model(ncnn.DataReaderFromEmpty())
        self.tensor = ncnn.Mat(width, height, 3)
        self.tensor.fill(0.01)

    @property
    def ends(self) -> list[str]:
        """The tensors that no layer reads."""
        read = {name for layer in self.layers for name in layer.reads}
        return [name for layer in self.layers for name in layer.writes if name not in read]

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor."""
        extractor = self.net.create_extractor()
        extractor.set_light_mode(False)
        extractor.input(self.entry, self.tensor)
        found = {}
        for layer in self.layers:
            for name in layer.writes:
                code, tensor = extractor.extract(name)
                if code:
                    raise SystemExit(f"ncnn fails with {code} at {name}")
                found[name] = (tensor.c, tensor.h, tensor.w)[3 - tensor.dims :] if tensor.dims else (0,)
        return found


def profile(network: Network) -> OperatorProfile:
    """Return what the layers of `network` do, as `edgewise.predicting.features.profile_of` counts a graph.

    A layer that ncnn takes for attention is its six matrix products and the softmax between.
    """
    shapes = network.sizes()
    amounts = dict.fromkeys(TERMS, 0)

    def add(term: str, amount: int) -> None:
        amounts[term] += amount
        amounts["operators"] += 1

    for layer in network.layers:
        if layer.kind in NO_WORK:
            continue
        before, after = ([shapes[name] for name in names] for names in (layer.reads, layer.writes))
        if layer.kind == "MultiHeadAttention":
            (rows, width), heads = before[0], layer.number(1)
            for amount in (*[rows * width * width] * 4, *[rows * rows * width] * 2):
                add("dense", amount)
            add("elements", heads * rows * rows)
        elif layer.kind == "InnerProduct":
            add("dense", prod(after[0]) // layer.number(0) * layer.number(2))
        elif "onvolution" in layer.kind:
            transposed = layer.kind.startswith("Deconvolution")
            channels = before[0][0] if len(before[0]) == 3 else prod(before[0])
            places = prod(before[0]) // channels if transposed else prod(after[0]) // layer.number(0)
            add(term_of(layer, channels), places * layer.number(6))
        else:
            add("elements", sum(map(prod, after)))
    return OperatorProfile(amounts=tuple(float(amounts[term]) for term in TERMS))


def term_of(layer: Layer, channels: int) -> str:
    """Of a convolution that reads `channels`."""
    kernel = layer.number(1)
    if layer.number(7, 1) == channels:
        return "depthwise"
    return "pointwise" if kernel * layer.number(11, kernel) == 1 else "spatial"


def profiles(folder: Path) -> dict[str, OperatorProfile]:
    """Of all float networks in `folder`, which is ``benchmark/`` of ncnn's source."""
    paths = sorted(path for path in folder.glob("*.param") if not path.stem.endswith("_int8"))
    return {path.stem: profile(Network(path)) for path in paths}
