"""How the layers of one OpenVINO network hang together: which output feeds which input, and an order to run them in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from edgewise.model.readers.base import damaged, order_by_needs
from edgewise.model.readers.openvino_layers import IrLayer, IrNetwork, IrPort

Key = tuple[int, str]
"""A port: the place of its layer in `Network.layers` and the port's own id."""


class Wiring:
    """Layers by id, ports by key and the edges between them.

    Attributes:
        sources: input → the output that feeds it.
        uses: output → how many inputs it feeds.

    Raises:
        BadModel: doubled ids, edges from or to nowhere, an input that nothing feeds or that two outputs feed, a cycle.
    """

    def __init__(self, path: Path, network: IrNetwork) -> None:
        self.path = path
        self.layers = network.layers
        self.places: dict[str, int] = {}
        self.inputs: dict[Key, IrPort] = {}
        self.outputs: dict[Key, IrPort] = {}
        for place, layer in enumerate(self.layers):
            if self.places.setdefault(layer.id, place) != place:
                raise damaged(path, f"two layers have the id {layer.id[:40]!r}")
            self._add_ports(place, layer)
        self.sources: dict[Key, Key] = {}
        self.uses: Counter[Key] = Counter()
        for edge in network.edges:
            self._connect(*edge)
        for place, port in self.inputs:
            if (place, port) not in self.sources:
                raise damaged(path, f"port {port[:40]!r} of layer {self.layers[place].name!r} is not connected")
        self.order = self._sort()

    def input_keys(self, place: int) -> list[Key]:
        """The outputs that feed the layer at `place`, in the order of its inputs."""
        return [self.sources[place, port.id] for port in self.layers[place].inputs]

    def _add_ports(self, place: int, layer: IrLayer) -> None:
        for ports, found in ((layer.inputs, self.inputs), (layer.outputs, self.outputs)):
            for port in ports:
                if found.setdefault((place, port.id), port) is not port:
                    raise damaged(self.path, f"two ports of layer {layer.name!r} have the id {port.id[:40]!r}")

    def _connect(self, from_layer: str, from_port: str, to_layer: str, to_port: str) -> None:
        source = self.places.get(from_layer, -1), from_port
        target = self.places.get(to_layer, -1), to_port
        if source not in self.outputs or target not in self.inputs:
            known = "from" if source not in self.outputs else "to"
            layer, port = (from_layer, from_port) if known == "from" else (to_layer, to_port)
            raise damaged(
                self.path, f"an edge goes {known} layer {layer[:40]!r}, port {port[:40]!r}, which does not exist"
            )
        if target in self.sources:
            raise damaged(self.path, f"two edges feed port {to_port[:40]!r} of layer {to_layer[:40]!r}")
        self.sources[target] = source
        self.uses[source] += 1

    def _sort(self) -> list[int]:
        """Places of the layers, each after those that feed it and else in the file's order."""
        needs: list[set[int]] = [set() for _ in self.layers]
        for (target, _), (source, _) in self.sources.items():
            needs[target].add(source)
        for reader, writer in self._states():
            needs[writer].add(reader)
        order, waiting = order_by_needs(needs)
        if len(order) < len(self.layers):
            stuck = next(place for place, count in enumerate(waiting) if count)
            raise damaged(self.path, f"its layers depend on each other in a cycle through {self.layers[stuck].name!r}")
        return order

    def _states(self) -> list[tuple[int, int]]:
        """Readers and writers of a state: it is read before it is written, which no edge says."""
        readers: dict[str, int] = {}
        for place, layer in enumerate(self.layers):
            if layer.type == "ReadValue":
                readers.setdefault(layer.options.get("variable_id", ""), place)
        pairs: list[tuple[int, int]] = []
        for place, layer in enumerate(self.layers):
            reader = readers.get(layer.options.get("variable_id", ""))
            # A writer that feeds others may be wired before the reader; then its edges say enough.
            feeds = any(self.uses[place, port.id] for port in layer.outputs)
            if layer.type == "Assign" and reader is not None and not feeds:
                pairs.append((reader, place))
        return pairs
