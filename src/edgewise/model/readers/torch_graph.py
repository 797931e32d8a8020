"""From a PyTorch export's JSON program to a graph: ATen operators, parameters as constants, symbols as open sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.torch import interpret
from edgewise.model.dialects.torch_network import base_name, words
from edgewise.model.graph import Graph, Operator, Quantization, Tensor
from edgewise.model.readers.archive import SHORT_LIST, SHORT_TEXT, shorten
from edgewise.model.readers.torch_program import DTYPES, Refuse, read_dimension, read_tensor
from edgewise.model.readers.unique_names import UniqueNames

MAX_NESTING = 40
"""Graphs in graphs."""


@dataclass
class Names:
    """What the tensors of one graph are called and what they are.

    Attributes:
        shown: the program's name of a value → its name in the graph.
        tensors: by name in the graph.
        integers: the program's name of a symbolic integer → its value, or the text of its expression.
        origins: name of a tensor that is a constant seen in another way → that constant.
    """

    shown: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    integers: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What the rest of a program says of the values of a graph.

    Attributes:
        constants: the program's name of a value → the tensor that is in the model.
        inputs: program's names of the inputs that the user gives; None: all that are no constants.
        outputs: program's names of what the user gets; None: all.
    """

    constants: Mapping[str, Tensor] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds graphs of one program.

    Attributes:
        bindings: symbol → the size it stands for.
    """

    refuse: Refuse
    bindings: Mapping[str, int]

    def build(self, document: Any, content: Content, *, name: str = "", depth: int = 0) -> Graph:
        """The graph of `document`, a ``Graph`` of the schema. Raises `BadModel`."""
        if depth > MAX_NESTING:
            self.refuse(f"its graphs are nested more than {MAX_NESTING} deep")
        graph = self.refuse.mapping(document, "a graph")
        names = self._name_inputs(graph, content)
        metas = self.refuse.mapping(graph.get("tensor_values") or {}, "the list of tensors")
        operators: list[Operator] = []
        subgraphs: dict[str, Graph] = {}
        taken = UniqueNames()
        for node in self.refuse.items(graph.get("nodes"), "the list of steps"):
            step = _TorchNode(self, self.refuse.mapping(node, "a step"), names, metas, depth)
            operator = step.read(len(operators), subgraphs, taken)
            if operator is not None:
                operators.append(operator)
        inputs = content.inputs if content.inputs is not None else tuple(_tensor_names(graph.get("inputs")))
        outputs = content.outputs if content.outputs is not None else tuple(_tensor_names(graph.get("outputs")))
        shown_inputs = [names.shown[each] for each in inputs if each in names.shown]
        return Graph(
            name=name,
            format="torch",
            tensors=names.tensors,
            operators=tuple(operators),
            inputs=tuple(each for each in shown_inputs if not names.tensors[each].constant),
            outputs=tuple(self._find_output(each, names) for each in outputs),
            subgraphs=subgraphs,
        )

    def _name_inputs(self, graph: dict[str, Any], content: Content) -> Names:
        metas = self.refuse.mapping(graph.get("tensor_values") or {}, "the list of tensors")
        names = Names()
        integers = self.refuse.mapping(graph.get("sym_int_values") or {}, "the list of sizes")
        for key, value in integers.items():
            names.integers[key] = read_dimension(value, self.bindings, self.refuse)
        for key in _tensor_names(graph.get("inputs")):
            self.refuse.name(key, "an input")
            tensor = content.constants.get(key)
            if tensor is None:
                tensor = read_tensor(key, metas[key], self.bindings, self.refuse) if key in metas else _unknown(key)
            if tensor.name in names.tensors:
                # Two of a program's names may share a parameter's; the program's own are distinct.
                tensor = replace(tensor, name=key)
            if key in names.shown or tensor.name in names.tensors:
                self.refuse(f"two inputs are called {key[:40]!r}")
            names.shown[key] = tensor.name
            names.tensors[tensor.name] = tensor
        return names

    def _find_output(self, key: str, names: Names) -> str:
        if key not in names.shown:
            self.refuse(f"no step makes its output {key[:40]!r}")
        return names.shown[key]


@dataclass(frozen=True, slots=True)
class _TorchNode:
    """One node of a graph."""

    builder: Builder
    node: dict[str, Any]
    names: Names
    metas: dict[str, Any]
    depth: int

    def read(self, index: int, subgraphs: dict[str, Graph], taken: UniqueNames) -> Operator | None:
        """The operator; None for a step that only computes or checks sizes. Puts its graphs into `subgraphs`."""
        refuse = self.builder.refuse
        target = refuse.name(self.node.get("target"), "a step")
        op = target.removeprefix("torch.ops.").removeprefix("torch._ops.")
        arguments = _Arguments(self.builder, self.names, _roles(op))
        for entry in refuse.items(self.node.get("inputs"), f"the arguments of {op[:40]!r}"):
            arguments.add(refuse.mapping(entry, "an argument"))
        outputs = self._read_outputs(refuse)
        if not any(outputs) and not arguments.graphs:
            return None
        name = taken.take(str(self.node.get("name") or next(filter(None, outputs), op)))
        ran = self._read_graphs(name, arguments, subgraphs, taken)
        raw = RawOperator(
            op=op,
            domain=op.partition(".")[0],
            attributes={**arguments.plain, "roles": tuple(arguments.roles)},
            inputs=[self.names.tensors[each] if each else None for each in arguments.inputs],
            outputs=[self.names.tensors[each] if each else None for each in outputs],
        )
        semantics = interpret(raw)
        inputs = arguments.inputs
        weights = self._find_weights(op, [inputs[at] for at in semantics.weights if at < len(inputs)], outputs)
        self._note_quantization(op, raw)
        module = self._find_module()
        custom = not semantics.kind and not op.startswith(("aten.", "prims.", "quantized_decomposed.", "higher_order."))
        return Operator(
            index=index,
            name=name,
            op=op,
            kind=semantics.kind,
            inputs=tuple(inputs),
            outputs=outputs,
            weights=weights,
            geometry=semantics.geometry,
            attributes={**arguments.plain, **module},
            custom=custom,
            subgraphs=ran,
            unknown_because=semantics.why,
            label=f"{module['module']}/{name}" if module else "",
        )

    def _read_outputs(self, refuse: Refuse) -> tuple[str, ...]:
        found: list[str] = []
        for entry in refuse.items(self.node.get("outputs"), "the outputs of a step"):
            kind, value = refuse.union(entry, "an output")
            if kind in ("as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors", "as_nested_tensors"):
                found += [self._add_output(key, refuse) if key else "" for key in _tensors_in(value)]
        return tuple(found)

    def _add_output(self, key: str, refuse: Refuse) -> str:
        refuse.name(key, "an output")
        if key in self.names.shown:
            refuse(f"{key[:40]!r} is made twice")
        bindings = self.builder.bindings
        tensor = read_tensor(key, self.metas[key], bindings, refuse) if key in self.metas else _unknown(key)
        if key in self.names.tensors:  # a parameter's own name is that of a step
            tensor = replace(tensor, name=self._free_name(key))
        self.names.shown[key] = tensor.name
        self.names.tensors[tensor.name] = tensor
        return tensor.name

    def _free_name(self, key: str) -> str:
        while key in self.names.tensors:
            key += ":0"
        return key

    def _read_graphs(
        self, name: str, arguments: _Arguments, subgraphs: dict[str, Graph], taken: UniqueNames
    ) -> tuple[str, ...]:
        ran = []
        for title, document in arguments.graphs:
            graph = self.builder.refuse.mapping(document, "a graph")
            shown = taken.take(f"{name}.{title}")
            content = Content(constants=_captured(graph, arguments.inputs, self.names))
            subgraphs[shown] = self.builder.build(graph, content, name=shown, depth=self.depth + 1)
            ran.append(shown)
        return tuple(ran)

    def _find_weights(self, op: str, given: list[str], outputs: tuple[str, ...]) -> tuple[str, ...]:
        """The constants among `given`, through whatever only shows them in another way; such a step has none itself."""
        origins, tensors = self.names.origins, self.names.tensors
        found = [origins.get(each, each) for each in given if each]
        weights = tuple(dict.fromkeys(each for each in found if tensors[each].constant))
        if base_name(op) in _SHOWING and len(weights) == 1 and len(outputs) == 1:
            origins[outputs[0]] = weights[0]
            return ()
        return weights

    def _find_module(self) -> dict[str, str]:
        """Path of the module that this step comes from: last entry of ``key,path,class;key,path,class``."""
        metadata = self.node.get("metadata")
        stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
        parts = stack.split(";")[-1].split(",") if isinstance(stack, str) else []
        return {"module": parts[1][:SHORT_TEXT]} if len(parts) > 2 and parts[1] else {}

    def _note_quantization(self, op: str, raw: RawOperator) -> None:
        """What a reference quantiser makes has the scale and zero point that it was given."""
        scale, zero = raw.attributes.get("scale"), raw.attributes.get("zero_point")
        if not op.startswith("quantized_decomposed.quantize_per_tensor") or not raw.outputs:
            return
        made = raw.outputs[0]
        if made is not None and isinstance(scale, float) and isinstance(zero, int) and scale > 0:
            quantization = Quantization(scale=scale, zero_point=zero)
            self.names.tensors[made.name] = replace(self.names.tensors[made.name], quantization=quantization)


@dataclass
class _Arguments:
    """The arguments of a step, told apart.

    Attributes:
        special: position → role, for operators whose arguments have no names.
        inputs, roles: names of tensors, and of the arguments they were given as.
        plain: everything else by its name, JSON-shaped.
    """

    builder: Builder
    names: Names
    special: Mapping[int, str]
    inputs: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    plain: dict[str, Any] = field(default_factory=dict)
    graphs: list[tuple[str, Any]] = field(default_factory=list)
    position: int = 0

    def add(self, entry: dict[str, Any]) -> None:
        """One ``NamedArgument``."""
        refuse = self.builder.refuse
        kind, value = refuse.union(entry.get("arg"), "an argument")
        given = entry.get("name")
        role = given if isinstance(given, str) and given else self.special.get(self.position, "")
        label = role[:SHORT_TEXT] or f"argument {self.position}"
        self.position += 1
        if kind in ("as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors", "as_nested_tensors"):
            for key in _tensors_in(value):
                if key and key not in self.names.shown:
                    refuse(f"a step reads {str(key)[:40]!r} before it is made")
                self.inputs.append(self.names.shown[key] if key else "")
                self.roles.append(role)
        elif kind == "as_graph":
            graph = refuse.mapping(value, "a graph")
            self.graphs.append((refuse.name(graph.get("name"), "a graph"), graph.get("graph")))
        elif kind == "as_none" and role in _OPTIONAL:
            self.inputs.append("")
            self.roles.append(role)
        elif kind != "as_none":
            self.plain[label] = self._describe(kind, value)

    def _describe(self, kind: str, value: Any) -> Any:
        if kind == "as_scalar_type":
            return DTYPES.get(value, f"torch-type-{str(value)[:20]}") if isinstance(value, int) else None
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return self._resolve(value)
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats") and isinstance(value, list):
            return [self._resolve(each) for each in value[:SHORT_LIST]]
        if kind == "as_device" and isinstance(value, dict):
            return str(value.get("type"))[:SHORT_TEXT]
        return shorten(value)

    def _resolve(self, value: Any) -> Any:
        """A symbolic integer by its value where that is known, else by its expression or name."""
        match value:
            case {"as_name": str(name)}:
                found = self.names.integers.get(name)
                return found if found is not None else name[:SHORT_TEXT]
            case dict() if value:
                return shorten(next(iter(value.values())))
        return shorten(value)


#: What shows its first input in another way: whoever takes the result takes the parameter behind it.
_SHOWING = frozenset(
    words("""
    permute permute_copy transpose transpose_copy t t_copy numpy_T mT view view_copy reshape _unsafe_view alias
    alias_copy detach detach_copy clone contiguous unsqueeze unsqueeze_copy squeeze squeeze_copy flatten unflatten
    expand expand_copy lift_fresh_copy to _to_copy dequantize_per_tensor dequantize_per_channel
    dequantize_per_channel_group
    """)
)

#: Optional tensors; a None that was given for any other argument is no tensor that is left out.
_OPTIONAL = {"weight", "bias", "running_mean", "running_var", "attn_mask", "b_ih", "b_hh"}


def _roles(op: str) -> Mapping[int, str]:
    """Roles of the nameless arguments of higher-order operators: what they map runs along its first dimension."""
    if op.startswith("higher_order.scan"):
        return {2: "mapped"}
    return {1: "mapped"} if op.startswith("higher_order.map") else {}


def _captured(graph: dict[str, Any], operands: list[str], names: Names) -> dict[str, Tensor]:
    """A subgraph's inputs that are constants of the graph around it: they keep their name."""
    inner = list(_tensor_names(graph.get("inputs")))
    outer = [each for each in operands if each][-len(inner) :] if inner else []
    if len(outer) != len(inner):
        return {}
    metas = graph.get("tensor_values")
    rank = {key: _rank(metas, key) for key in inner}
    pairs = ((key, names.tensors[each]) for key, each in zip(inner, outer, strict=True))
    return {key: tensor for key, tensor in pairs if tensor.constant and len(tensor.shape or ()) == rank[key]}


def _rank(metas: Any, key: str) -> int | None:
    match metas:
        case dict() if isinstance(metas.get(key), dict) and isinstance(metas[key].get("sizes"), list):
            return len(metas[key]["sizes"])
    return None


def _tensor_names(arguments: Any) -> Iterator[str]:
    """Names of the tensors among arguments, which may be lists of them."""
    for entry in arguments if isinstance(arguments, list) else ():
        for kind, value in entry.items() if isinstance(entry, dict) else ():
            if kind.startswith("as_") and "tensor" in kind:
                yield from filter(None, _tensors_in(value))


def _tensors_in(value: Any) -> Iterator[str]:
    """Names in a ``TensorArgument``, an optional one, or a list of them; "" for one that is left out."""
    match value:
        case {"name": str(name)}:
            yield name
        case {"as_tensor": dict(inner)}:
            yield from _tensors_in(inner)
        case {"as_none": _}:
            yield ""
        case list():
            for each in value:
                if isinstance(each, list):
                    for inner in each:
                        yield from _tensors_in(inner) if isinstance(inner, dict) else ()
                else:
                    yield from _tensors_in(each)


def _unknown(name: str) -> Tensor:
    return Tensor(name=name, shape=None, dtype="unknown")
