"""The network of an OpenVINO IR as a `Graph`.

Types are those the file states for its ports; shapes too. Where inputs with open dimensions are given shapes, OpenVINO
itself infers the others (`edgewise.model.readers.shape_worker`). Constants that are packed (16 bits with a
``Convert``, quantised weights with their scale) are one constant tensor each, as engines see them; all other layers are
operators. The ``.bin`` file is opened only for the values of small constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.openvino import interpret, is_known
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, Wrong, check_shapes, read_values
from edgewise.model.readers.isolated import ask_for_shapes, parse_shape
from edgewise.model.readers.openvino_constants import Packed, Weights, find_packed
from edgewise.model.readers.openvino_layers import (
    IrLayer,
    IrNetwork,
    IrPort,
    Key,
    Wiring,
    choose_name,
    name_dtype,
    read_layers,
    read_shape,
)
from edgewise.model.readers.openvino_options import (
    check_map,
    count_trips,
    find_captured,
    find_condition,
    is_scalar,
    place_of_result,
    read_option,
    read_version,
    show_attributes,
    show_text,
)
from edgewise.model.signature import Shape, shapes_fit


def read_network(path: Path, *, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the network at `path`; see `edgewise.model.readers.openvino.OpenVinoReader.read_graph`."""
    file = read_layers(path)
    builder = GraphBuilder(file.network, Weights(path))
    builder.inferred = inferred = _infer_shapes(path, builder, shapes)
    graph = builder.build()
    if not graph.outputs:
        raise Wrong("it has no outputs")
    information = file.information
    version = information.get("Runtime_version") or information.get("OpenVINO Runtime") or information.get("MO_version")
    unobserved = {"unobserved": inferred.why} if inferred.why else {}
    return replace(
        graph,
        producer=f"OpenVINO {version}" if version else "",
        version=f"IR {file.version}",
        metadata={**{key: show_text(value) for key, value in information.items()}, **unobserved},
    )


@dataclass(frozen=True, slots=True)
class Inferred:
    """What is known of a network beyond what its file states.

    Attributes:
        given: name of an input → its shape.
        shapes: path of a network ("" for the whole, else that of a body) → name of a layer → shapes of its outputs.
        trips: path of a loop → how often it repeats, negative where that is not known.
        why: why OpenVINO told nothing though it was needed, else "".
    """

    given: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)
    trips: Mapping[str, int] = field(default_factory=dict)
    why: str = ""


def _infer_shapes(path: Path, builder: GraphBuilder, shapes: Mapping[str, tuple[int, ...]]) -> Inferred:
    """Return what follows from concrete shapes of inputs; OpenVINO is asked only where an input is open. Raises
    `BadInput`.
    """
    places = builder.find_inputs()
    stated = {name: builder.read_input(place).shape for name, place in places.items()}
    given = {name: tuple(shape) for name, shape in shapes.items()}
    check_shapes(stated, given)
    if all(stated[name] == shape for name, shape in given.items()):
        return Inferred()
    by_layer = {builder.network.layers[places[name]].name: list(shape) for name, shape in given.items()}
    answer, why = ask_for_shapes("openvino", path, by_layer, given)
    if answer is None:
        return Inferred(given, why=why)
    return Inferred(given, answer["shapes"], answer["trips"])


@dataclass(slots=True)
class GraphBuilder:
    """Builds the graph of one network; a body has a builder of its own.

    Attributes:
        inferred: what is known beyond the file; `scope` is the path of this network in it.
        stated: name of a tensor → its shape as the file has it.
        captured: ids of a body's Parameter layers that are constants outside → those constants.
    """

    network: IrNetwork
    weights: Weights
    captured: Mapping[str, Tensor] = field(default_factory=dict)
    wiring: Wiring = field(init=False)
    constants: dict[int, Tensor] = field(init=False)
    packed: dict[Key, Packed] = field(init=False)
    names: dict[Key, str] = field(init=False)
    taken: set[str] = field(init=False)
    tensors: dict[str, Tensor] = field(init=False, default_factory=dict)
    operators: list[Operator] = field(init=False, default_factory=list)
    operator_names: set[str] = field(init=False, default_factory=set)
    subgraphs: dict[str, Graph] = field(init=False, default_factory=dict)
    variables: dict[str, str] = field(init=False, default_factory=dict)
    inferred: Inferred = field(default_factory=Inferred)
    scope: str = ""
    stated: dict[str, Shape | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.wiring = Wiring(self.network)
        layers = self.network.layers
        self.constants = {at: self.weights.describe(each) for at, each in enumerate(layers) if each.type == "Const"}
        self.packed = find_packed(self.wiring, self.constants)
        self.taken = {each.name for each in self.captured.values()}
        self.names = self._name_ports()

    def find_inputs(self) -> dict[str, int]:
        """Names of the inputs, in the file's order, and the places of their layers."""
        return {
            self._output_name(place): place
            for place, layer in enumerate(self.network.layers)
            if layer.type == "Parameter" and layer.id not in self.captured
        }

    def build(self) -> Graph:
        """Return the graph. Raises `BadModel`, or `BadInput` where only the given shapes are wrong."""
        results = self._find_results()
        inputs = self.find_inputs()
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
                self._add_input(place)
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
        """Return the outputs that Result layers take, in the file's order."""
        found: list[Key] = []
        for place, layer in enumerate(self.network.layers):
            if layer.type == "Result":
                if len(layer.inputs) != 1 or any(self.wiring.uses[place, port.id] for port in layer.outputs):
                    raise Wrong(f"result {layer.name!r} has {len(layer.inputs)} inputs or feeds others")
                found += self.wiring.input_keys(place)
        return found

    def _name_ports(self) -> dict[Key, str]:
        """Return unique names of all outputs: those the file gives first, so that no other takes them."""
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
            given = choose_name(port.names) or choose_name(by_result.get(key, ""))
            if key in self.packed and not given:
                # The name of packed weights stays with the bytes, ahead of the layers that unpack them.
                packed = self.network.layers[self.packed[key].place]
                given = choose_name(packed.outputs[0].names)
            if len(given) > MAX_NAME_CHARACTERS:
                raise Wrong(f"a tensor has a name of {len(given)} characters")
            if given and given not in self.taken:
                names[key] = given
                self.taken.add(given)
        for key in self.wiring.outputs:
            if key not in names:
                layer = self.network.layers[key[0]]
                plain = layer.name if layer.type == "Parameter" else f"{layer.name}:{key[1]}"
                names[key] = _claim(self.taken, plain, f"{layer.name}#{layer.id}:{key[1]}")
        return names

    def _output_name(self, place: int) -> str:
        layer = self.network.layers[place]
        if layer.id in self.captured:
            return self.captured[layer.id].name
        if len(layer.outputs) != 1:
            raise Wrong(f"layer {layer.name!r} has {len(layer.outputs)} outputs")
        return self.names[place, layer.outputs[0].id]

    def _add(self, tensor: Tensor, known: Shape | None = None) -> Tensor:
        """Add a tensor as the file states it, with the shape that is known better. Answers what was added."""
        self.stated[tensor.name] = tensor.shape
        if known is not None and known != tensor.shape:
            tensor = replace(tensor, shape=known)
        if tensor.elements is not None and tensor.elements > MAX_DIMENSION:
            reason = f"{tensor.name!r} has {tensor.elements} elements"
            raise Wrong(reason) if known is None else BadInput(f"with these shapes {reason}")
        self.tensors[tensor.name] = tensor
        return tensor

    def _add_constant(self, place: int) -> None:
        constant, layer = self.constants[place], self.network.layers[place]
        self._agree(layer, layer.outputs[0], constant.shape or ())
        self._add(replace(constant, name=self._output_name(place)))

    def _add_packed(self, key: Key) -> None:
        self._check_ports(key[0])
        packed, layer = self.packed[key], self.network.layers[key[0]]
        self._agree(layer, self.wiring.outputs[key], packed.shape)
        size = packed.constant.data.size if packed.constant.data else None
        self._add(
            replace(
                packed.constant,
                name=self.names[key],
                shape=packed.shape,
                dtype=packed.dtype,
                quantization=packed.quantization,
                stored_bytes=size if packed.dtype != packed.constant.dtype else packed.constant.stored_bytes,
                scales=packed.scales,
            )
        )

    def _add_input(self, place: int) -> None:
        layer = self.network.layers[place]
        if layer.id in self.captured:
            captured = self.captured[layer.id]
            # The body knows the constant by the name it has outside.
            self.names.update({(place, port.id): captured.name for port in layer.outputs})
            self._add(captured)
            return
        tensor = self.read_input(place)
        given = self.inferred.given.get(tensor.name) if not self.scope else None
        self._add(tensor, given or self._inferred(layer, 1)[0])

    def read_input(self, place: int) -> Tensor:
        """Return the input that the layer at `place` is, as the file states it."""
        layer = self.network.layers[place]
        if "shape" not in layer.options or "element_type" not in layer.options:
            raise Wrong(f"input {layer.name!r} has no shape or element type")
        shape = read_shape(layer.options["shape"])
        name = self._output_name(place)
        if shape is not None:
            self._agree(layer, layer.outputs[0], shape)
        return Tensor(name=name, shape=shape, dtype=name_dtype(layer.options["element_type"]))

    def _inferred(self, layer: IrLayer, outputs: int) -> list[Shape | None]:
        """Shapes of the outputs of a layer as OpenVINO infers them, None for those it does not tell."""
        found = self.inferred.shapes.get(self.scope, {}).get(layer.name) or []
        return [parse_shape(shape) for shape in (*found, *[None] * outputs)][:outputs]

    def _agree(self, layer: IrLayer, port: IrPort, shape: Shape) -> None:
        """Refuse a port whose dimensions contradict what is known of its tensor."""
        if not port.dims:
            return
        if not shapes_fit(port.dims, shape):
            raise Wrong(f"port {port.id[:40]!r} of layer {layer.name!r} has a shape that differs from its tensor")

    def _check_ports(self, place: int) -> None:
        """Refuse inputs of another shape than the outputs that feed them."""
        layer = self.network.layers[place]
        for port, key in zip(layer.inputs, self.wiring.input_keys(place), strict=True):
            shape = self.stated.get(self.names[key])
            if shape is not None:
                self._agree(layer, port, shape)

    def _add_operator(self, place: int) -> None:
        layer = self.network.layers[place]
        self._check_ports(place)
        inputs = [self.tensors[self.names[key]] for key in self.wiring.input_keys(place)]
        # What a writer of a state puts out is the state itself; the file has a port for it all the same.
        ports = [port for port in layer.outputs if layer.type != "Assign" or self.wiring.uses[place, port.id]]
        options = {key: read_option(value) for key, value in layer.options.items()}
        stated = [self._make_output(place, port, inputs) for port in ports]
        outputs = [
            self._add(tensor, known) for tensor, known in zip(stated, self._inferred(layer, len(stated)), strict=True)
        ]
        name = _claim(self.operator_names, layer.name or f"{layer.type}#{layer.id}", f"{layer.name}#{layer.id}")
        semantics = interpret(
            RawOperator(
                op=layer.type,
                domain=layer.version,
                version=read_version(layer.version),
                attributes=options,
                inputs=inputs,
                outputs=outputs,
                values=lambda at: self._read_values(inputs[at].name) if 0 <= at < len(inputs) else None,
            )
        )
        subgraphs, trips = self._build_bodies(layer, name, inputs)
        self.subgraphs.update(subgraphs)
        self.operators.append(
            Operator(
                index=len(self.operators),
                name=name,
                op=layer.type,
                kind=semantics.kind,
                inputs=(*(tensor.name for tensor in inputs), *self._find_state(layer, inputs, outputs)),
                outputs=tuple(tensor.name for tensor in outputs),
                weights=_choose_weights(semantics, inputs),
                geometry=semantics.geometry if trips is None else {**semantics.geometry, "trips": trips},
                attributes=show_attributes(layer, options),
                version=read_version(layer.version),
                custom=not is_known(layer.type) and read_version(layer.version) == 0,
                subgraphs=tuple(subgraphs),
                unknown_because=semantics.why,
            )
        )

    def _build_bodies(self, layer: IrLayer, name: str, inputs: list[Tensor]) -> tuple[dict[str, Graph], int | None]:
        """Graphs of the bodies of `layer` by name, and how often they run where that is known."""
        graphs: dict[str, Graph] = {}
        condition: tuple[int | float, ...] | None = None
        path = f"{self.scope}/{layer.name}" if self.scope else layer.name
        for body, network in layer.bodies.items():
            check_map(layer, body)
            captured = find_captured(layer, body, inputs)
            inner = f"{path}/{body}"
            builder = GraphBuilder(network, self.weights, captured, inferred=self.inferred, scope=inner)
            graph = graphs[f"{name}/{body}"] = builder.build()
            result = find_condition(layer)
            if result is not None and body == "body":
                condition = builder._read_values(graph.outputs[place_of_result(network, result)])
        if layer.type not in ("Loop", "TensorIterator"):
            return graphs, None
        trips = count_trips(layer, inputs, values=self._read_values, condition=condition)
        inferred_trips = self.inferred.trips.get(path, -1)
        return graphs, inferred_trips if trips is None and inferred_trips >= 0 else trips

    def _read_values(self, name: str) -> tuple[int | float, ...] | None:
        """Elements of the tensor `name`, where it is a small constant."""
        tensor = self.tensors[name]
        return read_values(tensor) if tensor.constant and not tensor.scales else None

    def _make_output(self, place: int, port: IrPort, inputs: list[Tensor]) -> Tensor:
        layer = self.network.layers[place]
        shape: Shape | None = port.dims
        if layer.type == "ReadValue" and "variable_shape" in layer.options:
            shape = read_shape(layer.options["variable_shape"])
            if shape is not None:
                self._agree(layer, port, shape)
            shape = port.dims or shape
        elif not port.dims and not is_scalar(layer, [replace(each, shape=self.stated[each.name]) for each in inputs]):
            shape = None
        return Tensor(name=self.names[place, port.id], shape=shape, dtype=name_dtype(port.precision))

    def _find_state(self, layer: IrLayer, inputs: list[Tensor], outputs: list[Tensor]) -> tuple[str, ...]:
        """Return the variable that a layer reads or writes, as one more input of it: it lives on from run to run."""
        like = next(iter([*outputs, *inputs]), None)
        if layer.type not in ("ReadValue", "Assign") or "variable_id" not in layer.options or like is None:
            return ()
        identity = layer.options["variable_id"][:MAX_NAME_CHARACTERS]
        if identity not in self.variables:
            self.variables[identity] = _claim(self.taken, identity, f"variable {identity}")
            self._add(Tensor(name=self.variables[identity], shape=like.shape, dtype=like.dtype, variable=True))
        return (self.variables[identity],)


def _choose_weights(semantics: Semantics, inputs: list[Tensor]) -> tuple[str, ...]:
    names = [inputs[at].name for at in semantics.weights if at < len(inputs) and inputs[at].constant]
    return tuple(dict.fromkeys(names))


def _claim(taken: set[str], *candidates: str) -> str:
    """Take the first name that is free, else the last with a number."""
    name = next((each for each in candidates if each and each not in taken), "")
    number = len(taken)
    while not name:
        if f"{candidates[-1]}~{number}" not in taken:
            name = f"{candidates[-1]}~{number}"
        number += 1
    taken.add(name)
    return name
