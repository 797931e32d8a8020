"""The network of an OpenVINO IR as a `Graph`.

Types are those the file states for its ports; shapes too, with what the inputs' shapes say of open dimensions (see
`edgewise.model.readers.openvino_shapes`). Constants that are packed (16 bits
with a ``Convert``, quantised weights with their scale) are one constant tensor each, as engines see them; all other
layers are operators. The ``.bin`` file is opened only for the values of small constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.errors import BadInput, BadModel
from edgewise.model.dialects.base import Meaning, Question
from edgewise.model.dialects.openvino import is_known, read_meaning
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers import openvino
from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, damaged
from edgewise.model.readers.openvino_bodies import (
    Captured,
    check_map,
    count_trips,
    find_captured,
    find_condition,
    place_of_result,
)
from edgewise.model.readers.openvino_constants import Constant, Weights, name_dtype
from edgewise.model.readers.openvino_decompression import Packed, find_packed
from edgewise.model.readers.openvino_layers import Layer, Network, Port, read_layers
from edgewise.model.readers.openvino_options import read_option, read_version, show_attributes, show_text
from edgewise.model.readers.openvino_ranks import is_scalar
from edgewise.model.readers.openvino_shapes_inference import Inference
from edgewise.model.readers.openvino_wiring import Key, Wiring
from edgewise.model.signature import Dimension


def read_network(path: Path, *, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """The network at `path`; see `edgewise.model.readers.openvino.OpenVinoReader.read_graph`."""
    file = read_layers(path)
    weights = Weights(path)
    graph = _build(path, file.network, weights, shapes)
    if not graph.outputs:
        raise damaged(path, "it has no outputs")
    information = file.information
    version = information.get("Runtime_version") or information.get("OpenVINO Runtime") or information.get("MO_version")
    return Graph(
        name=graph.name,
        format="openvino",
        producer=f"OpenVINO {version}" if version else "",
        version=f"IR {file.version}",
        tensors=graph.tensors,
        operators=graph.operators,
        inputs=graph.inputs,
        outputs=graph.outputs,
        subgraphs=graph.subgraphs,
        metadata={key: show_text(value) for key, value in information.items()},
    )


def _build(path: Path, network: Network, weights: Weights, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph; a network that holds together until shapes are given is sound, and the shapes are wrong."""
    try:
        return GraphBuilder(path, network, weights).build(shapes)
    except BadModel as error:
        if not shapes:
            raise
        GraphBuilder(path, network, weights).build({})
        given = ", ".join(f"{name!r}: {list(shape)}" for name, shape in shapes.items())
        raise BadInput(
            f"the network can't take {given}: {error.message}", advice="give shapes that it takes"
        ) from error


@dataclass(slots=True)
class GraphBuilder:
    """Builds the graph of one network; a body has a builder of its own.

    Attributes:
        captured: ids of a body's Parameter layers that are constants outside → those constants.
    """

    path: Path
    network: Network
    weights: Weights
    captured: Mapping[str, Captured] = field(default_factory=dict)
    wiring: Wiring = field(init=False)
    constants: dict[int, Constant] = field(init=False)
    packed: dict[Key, Packed] = field(init=False)
    names: dict[Key, str] = field(init=False)
    taken: set[str] = field(init=False)
    tensors: dict[str, Tensor] = field(init=False, default_factory=dict)
    values: dict[str, Constant] = field(init=False, default_factory=dict)
    operators: list[Operator] = field(init=False, default_factory=list)
    operator_names: set[str] = field(init=False, default_factory=set)
    subgraphs: dict[str, Graph] = field(init=False, default_factory=dict)
    variables: dict[str, str] = field(init=False, default_factory=dict)
    inference: Inference = field(init=False)

    def __post_init__(self) -> None:
        self.wiring = Wiring(self.path, self.network)
        self.inference = Inference(self.path, self.weights, self.values)
        layers = self.network.layers
        self.constants = {at: self.weights.describe(each) for at, each in enumerate(layers) if each.type == "Const"}
        self.packed = find_packed(self.wiring, self.constants)
        self.taken = {each.tensor.name for each in self.captured.values()}
        self.names = self._name_ports()

    def build(self, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """The graph, with `shapes` for its inputs. Raises `BadModel`, `BadInput`."""
        results = self._find_results()
        inputs = [
            self._output_name(place)
            for place, layer in enumerate(self.network.layers)
            if layer.type == "Parameter" and layer.id not in self.captured
        ]
        for name in shapes:
            if name not in inputs:
                raise BadInput(f"the model has no input {name!r}", advice=f"its inputs: {', '.join(map(repr, inputs))}")
        unpacking = {place for each in self.packed.values() for place in each.members}
        finals = {key[0]: key for key in self.packed}
        for place in self.wiring.order:
            layer = self.wiring.layers[place]
            if place in finals:
                self._add_packed(finals[place])
            elif place in unpacking or layer.type == "Result":
                self._check_ports(place)
            elif layer.type == "Const":
                self._add_constant(place)
            elif layer.type == "Parameter":
                self._add_input(place, shapes)
            else:
                self._add_operator(place)
        return Graph(
            name=self.network.name,
            format="openvino",
            tensors=self.tensors,
            operators=tuple(self.operators),
            inputs=tuple(inputs),
            outputs=tuple(self.names[key] for key in results),
            subgraphs=self.subgraphs,
        )

    def _find_results(self) -> list[Key]:
        """The outputs that Result layers take, in the file's order."""
        found: list[Key] = []
        for place, layer in enumerate(self.network.layers):
            if layer.type == "Result":
                if len(layer.inputs) != 1 or any(self.wiring.uses[place, port.id] for port in layer.outputs):
                    raise damaged(self.path, f"result {layer.name!r} has {len(layer.inputs)} inputs or feeds others")
                found += self.wiring.input_keys(place)
        return found

    def _name_ports(self) -> dict[Key, str]:
        """Unique names of all outputs: those the file gives first, so that no other takes them."""
        names: dict[Key, str] = {}
        by_result = {
            self.wiring.sources[place, port.id]: layer.output_names
            for place, layer in enumerate(self.network.layers)
            if layer.type == "Result"
            for port in layer.inputs
        }
        packing = {place for each in self.packed.values() for place in each.members} - {
            place for place, _ in self.packed
        }
        for key, port in self.wiring.outputs.items():
            if key[0] in packing:
                continue
            given = openvino.choose_name(port.names) or openvino.choose_name(by_result.get(key, ""))
            if key in self.packed and not given:
                # The name of packed weights stays with the bytes, ahead of the layers that unpack them.
                packed = self.network.layers[self.packed[key].place]
                given = openvino.choose_name(packed.outputs[0].names)
            if len(given) > MAX_NAME_CHARACTERS:
                raise damaged(self.path, f"a tensor has a name of {len(given)} characters")
            if given and given not in self.taken:
                names[key] = given
                self.taken.add(given)
        for key in self.wiring.outputs:
            if key not in names:
                layer = self.network.layers[key[0]]
                plain = layer.name if layer.type == "Parameter" else f"{layer.name}:{key[1]}"
                names[key] = self._claim(plain, f"{layer.name}#{layer.id}:{key[1]}")
        return names

    def _claim(self, *candidates: str) -> str:
        """The first name that is free, else the last with a number."""
        name = next((each for each in candidates if each and each not in self.taken), "")
        number = len(self.taken)
        while not name:
            if f"{candidates[-1]}~{number}" not in self.taken:
                name = f"{candidates[-1]}~{number}"
            number += 1
        self.taken.add(name)
        return name

    def _output_name(self, place: int) -> str:
        layer = self.network.layers[place]
        if layer.id in self.captured:
            return self.captured[layer.id].tensor.name
        if len(layer.outputs) != 1:
            raise damaged(self.path, f"layer {layer.name!r} has {len(layer.outputs)} outputs")
        return self.names[place, layer.outputs[0].id]

    def _add(self, tensor: Tensor) -> None:
        if tensor.elements is not None and tensor.elements > MAX_DIMENSION:
            raise damaged(self.path, f"{tensor.name!r} has {tensor.elements} elements")
        self.tensors[tensor.name] = tensor

    def _add_constant(self, place: int) -> None:
        constant, layer = self.constants[place], self.network.layers[place]
        name = self._output_name(place)
        self._agree(layer, layer.outputs[0], constant.shape)
        self._add(
            Tensor(
                name=name,
                shape=constant.shape,
                dtype=constant.dtype,
                constant=True,
                stored_bytes=constant.stored_bytes,
            )
        )
        self.values[name] = constant

    def _add_packed(self, key: Key) -> None:
        self._check_ports(key[0])
        packed, layer = self.packed[key], self.network.layers[key[0]]
        self._agree(layer, self.wiring.outputs[key], packed.shape)
        self._add(
            Tensor(
                name=self.names[key],
                shape=packed.shape,
                dtype=packed.dtype,
                constant=True,
                quantization=packed.quantization(self.weights),
                stored_bytes=packed.stored_bytes,
            )
        )

    def _add_input(self, place: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
        layer = self.network.layers[place]
        name = self._output_name(place)
        if layer.id in self.captured:
            captured = self.captured[layer.id]
            # The body knows the constant by the name it has outside.
            self.names.update({(place, port.id): name for port in layer.outputs})
            self._add(captured.tensor)
            if captured.constant is not None:
                self.values[name] = captured.constant
            return
        if "shape" not in layer.options or "element_type" not in layer.options:
            raise damaged(self.path, f"input {layer.name!r} has no shape or element type")
        shape = openvino.read_shape(self.path, layer.options["shape"])
        if shape is not None:
            self._agree(layer, layer.outputs[0], shape)
        tensor = Tensor(name=name, shape=shape, dtype=name_dtype(layer.options["element_type"]))
        self._add(self.inference.open(tensor, shapes[name]) if name in shapes else tensor)

    def _agree(self, layer: Layer, port: Port, shape: tuple[Dimension, ...]) -> None:
        """Refuse a port whose dimensions contradict what is known of its tensor."""
        if not port.dims:
            return
        pairs = zip(port.dims, shape, strict=False)
        if len(port.dims) != len(shape) or any(
            isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs
        ):
            raise damaged(
                self.path, f"port {port.id[:40]!r} of layer {layer.name!r} has another shape than what it carries"
            )

    def _check_ports(self, place: int) -> None:
        """Refuse inputs of another shape than the outputs that feed them."""
        layer = self.network.layers[place]
        for port, key in zip(layer.inputs, self.wiring.input_keys(place), strict=True):
            tensor = self.tensors.get(self.names[key])
            if tensor is not None and tensor.shape is not None:
                self._agree(layer, port, tensor.shape)

    def _add_operator(self, place: int) -> None:
        layer = self.network.layers[place]
        self._check_ports(place)
        inputs = [self.tensors[self.names[key]] for key in self.wiring.input_keys(place)]
        # What a writer of a state puts out is the state itself; the file has a port for it all the same.
        ports = [port for port in layer.outputs if layer.type != "Assign" or self.wiring.uses[place, port.id]]
        options = {key: read_option(value) for key, value in layer.options.items()}
        stated = [self._make_output(place, port, inputs) for port in ports]
        outputs = self.inference.settle(layer, options, inputs=inputs, outputs=stated)
        for tensor in outputs:
            self._add(tensor)
        name = self._name_operator(layer)
        meaning = read_meaning(
            Question(
                op=layer.type,
                domain=layer.version,
                version=read_version(layer.version),
                attributes=options,
                inputs=inputs,
                outputs=outputs,
                values=lambda at: self.inference.read_values(inputs[at].name) if 0 <= at < len(inputs) else None,
            )
        )
        subgraphs, trips = self._build_bodies(layer, name, inputs)
        self.subgraphs.update(subgraphs)
        self.operators.append(
            Operator(
                index=len(self.operators),
                name=name,
                op=layer.type,
                kind=meaning.kind,
                inputs=(*(tensor.name for tensor in inputs), *self._find_state(layer, inputs, outputs)),
                outputs=tuple(tensor.name for tensor in outputs),
                weights=_choose_weights(meaning, inputs),
                geometry=meaning.geometry if trips is None else {**meaning.geometry, "trips": trips},
                attributes=show_attributes(layer, options),
                version=read_version(layer.version),
                custom=not is_known(layer.type) and read_version(layer.version) == 0,
                subgraphs=tuple(subgraphs),
                unknown_because=meaning.why,
            )
        )

    def _build_bodies(self, layer: Layer, name: str, inputs: list[Tensor]) -> tuple[dict[str, Graph], int | None]:
        """Graphs of the bodies of `layer` by name, and how often they run where that is known."""
        graphs: dict[str, Graph] = {}
        condition: tuple[int | float, ...] | None = None
        for body, network in layer.bodies.items():
            check_map(self.path, layer, body)
            captured = find_captured(layer, body, inputs, self.values)
            builder = GraphBuilder(self.path, network, self.weights, captured)
            graph = graphs[f"{name}/{body}"] = builder.build({})
            result = find_condition(layer)
            if result is not None and body == "body":
                condition = builder.inference.read_values(graph.outputs[place_of_result(network, result)])
        if layer.type not in ("Loop", "TensorIterator"):
            return graphs, None
        return graphs, count_trips(layer, inputs, values=self.inference.read_values, condition=condition)

    def _name_operator(self, layer: Layer) -> str:
        name, number = layer.name or f"{layer.type}#{layer.id}", 2
        if name in self.operator_names:
            name = f"{layer.name}#{layer.id}"
        while name in self.operator_names:
            name = f"{layer.name}#{layer.id}~{number}"
            number += 1
        self.operator_names.add(name)
        return name

    def _make_output(self, place: int, port: Port, inputs: list[Tensor]) -> Tensor:
        layer = self.network.layers[place]
        shape: tuple[Dimension, ...] | None = port.dims
        if layer.type == "ReadValue" and "variable_shape" in layer.options:
            shape = openvino.read_shape(self.path, layer.options["variable_shape"])
            if shape is not None:
                self._agree(layer, port, shape)
            shape = port.dims or shape
        elif not port.dims and not is_scalar(layer, self.inference.stated(inputs)):
            shape = None
        return Tensor(name=self.names[place, port.id], shape=shape, dtype=name_dtype(port.precision))

    def _find_state(self, layer: Layer, inputs: list[Tensor], outputs: list[Tensor]) -> tuple[str, ...]:
        """The variable that a layer reads or writes, as one more input of it: it lives on from run to run."""
        like = next(iter([*outputs, *inputs]), None)
        if layer.type not in ("ReadValue", "Assign") or "variable_id" not in layer.options or like is None:
            return ()
        identity = layer.options["variable_id"][:MAX_NAME_CHARACTERS]
        if identity not in self.variables:
            self.variables[identity] = self._claim(identity, f"variable {identity}")
            self._add(Tensor(name=self.variables[identity], shape=like.shape, dtype=like.dtype, variable=True))
        return (self.variables[identity],)


def _choose_weights(meaning: Meaning, inputs: list[Tensor]) -> tuple[str, ...]:
    names = [inputs[at].name for at in meaning.weights if at < len(inputs) and inputs[at].constant]
    return tuple(dict.fromkeys(names))
