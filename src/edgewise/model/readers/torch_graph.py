"""From a PyTorch export's JSON program to a graph: ATen operators, parameters as constants, symbols as open sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.torch import interpret
from edgewise.model.dialects.torch_network import base_name, split_words
from edgewise.model.graph import Graph, Operator, Quantization, Tensor
from edgewise.model.readers.archive import SHORT_LIST, SHORT_TEXT, shorten
from edgewise.model.readers.torch_program import DTYPES, Refuse, read_dimension, read_tensor
from edgewise.model.readers.unique_names import UniqueNames

MAX_NESTING = 40
"""Graphs in graphs."""


_TENSORS = ("as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors", "as_nested_tensors")
"""Kinds of arguments and outputs that are tensors."""


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


@dataclass(slots=True)
class _Arguments:
    """The arguments of a step, told apart.

    Attributes:
        inputs, roles: names of tensors, and of the arguments they were given as.
        plain: everything else by its name, JSON-shaped.
        graphs: names and documents of the graphs that the step runs.
    """

    inputs: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    plain: dict[str, Any] = field(default_factory=dict)
    graphs: list[tuple[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class GraphReader:
    """Reads one graph of a program; a graph inside of it has a reader of its own.

    Attributes:
        bindings: symbol → the size it stands for.
        depth: number of graphs around it.
        metas: the program's name of a tensor → its type.
        shown: the program's name of a value → its name in the graph.
        tensors: by name in the graph.
        integers: the program's name of a symbolic integer → its value, or the text of its expression.
        origins: name of a tensor that is a constant seen in another way → that constant.
        taken: names of operators and of the graphs inside.
    """

    refuse: Refuse
    bindings: Mapping[str, int]
    depth: int = 0
    metas: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    integers: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    subgraphs: dict[str, Graph] = field(default_factory=dict)
    taken: UniqueNames = field(default_factory=UniqueNames)

    def read(self, document: Any, content: Content, *, name: str = "") -> Graph:
        """Return the graph of `document`, a ``Graph`` of the schema. Raises `BadModel`."""
        if self.depth > MAX_NESTING:
            self.refuse(f"its graphs are nested more than {MAX_NESTING} deep")
        graph = self.refuse.mapping(document, "a graph")
        self.metas = self.refuse.mapping(graph.get("tensor_values") or {}, "the list of tensors")
        integers = self.refuse.mapping(graph.get("sym_int_values") or {}, "the list of sizes")
        self.integers = {key: read_dimension(value, self.bindings, self.refuse) for key, value in integers.items()}
        self._name_inputs(graph, content)
        operators: list[Operator] = []
        for node in self.refuse.items(graph.get("nodes"), "the list of steps"):
            operator = self._read_step(self.refuse.mapping(node, "a step"), len(operators))
            if operator is not None:
                operators.append(operator)
        inputs = content.inputs if content.inputs is not None else tuple(_tensor_names(graph.get("inputs")))
        outputs = content.outputs if content.outputs is not None else tuple(_tensor_names(graph.get("outputs")))
        shown_inputs = [self.shown[each] for each in inputs if each in self.shown]
        return Graph(
            name=name,
            format="torch",
            tensors=self.tensors,
            operators=tuple(operators),
            inputs=tuple(each for each in shown_inputs if not self.tensors[each].constant),
            outputs=tuple(self._find_output(each) for each in outputs),
            subgraphs=self.subgraphs,
        )

    def _name_inputs(self, graph: dict[str, Any], content: Content) -> None:
        for key in _tensor_names(graph.get("inputs")):
            self.refuse.name(key, "an input")
            tensor = content.constants.get(key) or self._read_tensor(key)
            if tensor.name in self.tensors:
                # Two of a program's names may share a parameter's; the program's own are distinct.
                tensor = replace(tensor, name=key)
            if key in self.shown or tensor.name in self.tensors:
                self.refuse(f"two inputs are called {key[:40]!r}")
            self._show(key, tensor)

    def _read_tensor(self, key: str) -> Tensor:
        if key not in self.metas:
            return Tensor(name=key, shape=None, dtype="unknown")
        return read_tensor(key, self.metas[key], self.bindings, self.refuse)

    def _show(self, key: str, tensor: Tensor) -> str:
        self.shown[key] = tensor.name
        self.tensors[tensor.name] = tensor
        return tensor.name

    def _find_output(self, key: str) -> str:
        if key not in self.shown:
            self.refuse(f"no step makes its output {key[:40]!r}")
        return self.shown[key]

    def _read_step(self, node: dict[str, Any], index: int) -> Operator | None:
        """Return the operator of a node; None for a step that only computes or checks sizes."""
        target = self.refuse.name(node.get("target"), "a step")
        op = target.removeprefix("torch.ops.").removeprefix("torch._ops.")
        arguments, special = _Arguments(), _roles(op)
        for at, entry in enumerate(self.refuse.items(node.get("inputs"), f"the arguments of {op[:40]!r}")):
            self._add_argument(arguments, at, self.refuse.mapping(entry, "an argument"), special.get(at, ""))
        outputs = self._read_outputs(node)
        if not any(outputs) and not arguments.graphs:
            return None
        name = self.taken.take(str(node.get("name") or next(filter(None, outputs), op)))
        ran = self._read_graphs(name, arguments)
        inputs = arguments.inputs
        raw = RawOperator(
            op=op,
            domain=op.partition(".")[0],
            attributes={**arguments.plain, "roles": tuple(arguments.roles)},
            inputs=[self.tensors[each] if each else None for each in inputs],
            outputs=[self.tensors[each] if each else None for each in outputs],
        )
        semantics = interpret(raw)
        weights = self._find_weights(op, [inputs[at] for at in semantics.weights if at < len(inputs)], outputs)
        self._note_quantization(op, raw)
        module = _find_module(node)
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

    def _add_argument(self, arguments: _Arguments, at: int, entry: dict[str, Any], special: str) -> None:
        """Add the ``NamedArgument`` at position `at`; `special` is its role where it has no name."""
        kind, value = self.refuse.union(entry.get("arg"), "an argument")
        given = entry.get("name")
        role = given if isinstance(given, str) and given else special
        if kind in _TENSORS:
            for key in _tensors_in(value):
                if key and key not in self.shown:
                    self.refuse(f"a step reads {str(key)[:40]!r} before it is made")
                arguments.inputs.append(self.shown[key] if key else "")
                arguments.roles.append(role)
        elif kind == "as_graph":
            graph = self.refuse.mapping(value, "a graph")
            arguments.graphs.append((self.refuse.name(graph.get("name"), "a graph"), graph.get("graph")))
        elif kind == "as_none" and role in _OPTIONAL:
            arguments.inputs.append("")
            arguments.roles.append(role)
        elif kind != "as_none":
            arguments.plain[role[:SHORT_TEXT] or f"argument {at}"] = self._describe(kind, value)

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
        """Return a symbolic integer by its value where that is known, else by its expression or name."""
        match value:
            case {"as_name": str(name)}:
                found = self.integers.get(name)
                return found if found is not None else name[:SHORT_TEXT]
            case dict() if value:
                return shorten(next(iter(value.values())))
        return shorten(value)

    def _read_outputs(self, node: dict[str, Any]) -> tuple[str, ...]:
        found: list[str] = []
        for entry in self.refuse.items(node.get("outputs"), "the outputs of a step"):
            kind, value = self.refuse.union(entry, "an output")
            if kind in _TENSORS:
                found += [self._add_output(key) if key else "" for key in _tensors_in(value)]
        return tuple(found)

    def _add_output(self, key: str) -> str:
        self.refuse.name(key, "an output")
        if key in self.shown:
            self.refuse(f"{key[:40]!r} is made twice")
        free = key
        while free in self.tensors:  # a parameter's own name is that of a step
            free += ":0"
        return self._show(key, replace(self._read_tensor(key), name=free))

    def _read_graphs(self, name: str, arguments: _Arguments) -> tuple[str, ...]:
        ran = []
        for title, document in arguments.graphs:
            graph = self.refuse.mapping(document, "a graph")
            shown = self.taken.take(f"{name}.{title}")
            content = Content(constants=_captured(graph, arguments.inputs, self.tensors))
            inner = GraphReader(self.refuse, self.bindings, self.depth + 1)
            self.subgraphs[shown] = inner.read(graph, content, name=shown)
            ran.append(shown)
        return tuple(ran)

    def _find_weights(self, op: str, given: list[str], outputs: tuple[str, ...]) -> tuple[str, ...]:
        """Return the constants among `given`, through whatever only shows them in another way; such a step has
        none itself.
        """
        found = [self.origins.get(each, each) for each in given if each]
        weights = tuple(dict.fromkeys(each for each in found if self.tensors[each].constant))
        if base_name(op) in _SHOWING and len(weights) == 1 and len(outputs) == 1:
            self.origins[outputs[0]] = weights[0]
            return ()
        return weights

    def _note_quantization(self, op: str, raw: RawOperator) -> None:
        """Note that what a reference quantiser makes has the scale and zero point that it was given."""
        scale, zero = raw.attributes.get("scale"), raw.attributes.get("zero_point")
        if not op.startswith("quantized_decomposed.quantize_per_tensor") or not raw.outputs:
            return
        made = raw.outputs[0]
        if made is not None and isinstance(scale, float) and isinstance(zero, int) and scale > 0:
            quantization = Quantization(scale=scale, zero_point=zero)
            self.tensors[made.name] = replace(self.tensors[made.name], quantization=quantization)


def _find_module(node: dict[str, Any]) -> dict[str, str]:
    """Path of the module that a step comes from: last entry of ``key,path,class;key,path,class``."""
    metadata = node.get("metadata")
    stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    parts = stack.split(";")[-1].split(",") if isinstance(stack, str) else []
    return {"module": parts[1][:SHORT_TEXT]} if len(parts) > 2 and parts[1] else {}


#: What shows its first input in another way: whoever takes the result takes the parameter behind it.
_SHOWING = frozenset(
    split_words("""
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


def _captured(graph: dict[str, Any], operands: list[str], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a subgraph's inputs that are constants of the graph around it: they keep their name."""
    inner = list(_tensor_names(graph.get("inputs")))
    outer = [each for each in operands if each][-len(inner) :] if inner else []
    if len(outer) != len(inner):
        return {}
    metas = graph.get("tensor_values")
    rank = {key: _rank(metas, key) for key in inner}
    pairs = ((key, tensors[each]) for key, each in zip(inner, outer, strict=True))
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
