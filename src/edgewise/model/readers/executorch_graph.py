"""From the tables of an ExecuTorch program to a graph: kernels, and the nodes of the graphs that XNNPACK runs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from edgewise.model.graph import Graph, Operator, Quantization, StoredData, Tensor
from edgewise.model.readers.base import MAX_RANK, Wrong, check_shapes
from edgewise.model.readers.executorch_schema import DTYPES, LAYOUTS, XNNPACK_DTYPES
from edgewise.model.readers.tflite_tables import Table, Tables, Vector, open_tables
from edgewise.model.readers.unique_names import UniqueNames
from edgewise.model.signature import Dimension

XNNPACK = "XnnpackBackend"
KERNELS = "ExecuTorch's kernels"
_DYNAMIC = 1  # TensorShapeDynamism: sizes are upper bounds, or, if greater, mean nothing
_EXTERNAL = 1
_NO_VALUE = 0xFFFFFFFF
_PLAIN = ("Int", "Bool", "Double", "String", "IntList", "DoubleList", "BoolList")
_ROLES = (
    "input_id", "input1_id", "input2_id", "input3_id", "input4_id", "input5_id", "query_id", "key_id", "value_id",
    "scale_id", "mask_id", "filter_id", "bias_id",
)  # fmt: skip
_OUTPUTS = ("output_id", "output_value_id", "output_index_id")
_FEWER = {"XNNConcatenate2": 2, "XNNConcatenate3": 3, "XNNConcatenate4": 4, "XNNConcatenate5": 5}


class Meanings(Protocol):
    """What steps mean, which the process that runs a program need not know."""

    def arguments(self, op: str) -> Sequence[str]:
        """Names of the arguments of a kernel, as far as they are known."""

    def interpret(
        self, op: str, attributes: Mapping[str, Any], inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]
    ) -> Any:
        """Return the `edgewise.model.dialects.base.Semantics` of a step."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What becomes an operator; tensors by name."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    runs_in: str
    instruction: int
    node: bool = False


@dataclass(slots=True)
class _Method:
    """What is known of a method so far.

    Attributes:
        tensors: by name.
        names: index of a value → name of its tensor.
        made: names of tensors that are inputs, constants, states or outputs of a step.
    """

    values: Any
    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    steps: list[Operator] = field(default_factory=list)
    taken: UniqueNames = field(default_factory=UniqueNames)
    labels: UniqueNames = field(default_factory=UniqueNames)


class ProgramReader:
    """Reads the methods of one program. Every method raises `Wrong` for what is wrong with the file."""

    def __init__(self, tables: Tables, meanings: Meanings | None = None) -> None:
        self._tables = tables
        self._meanings = meanings
        self._program: Table = {}
        self._base = 0
        self.methods: dict[str, Table] = {}

    def open(self) -> None:
        """Read the program's tables, and find its methods, the one that runs by default first."""
        head = bytes(self._tables.buffer[:32])
        if head[4:8] != b"ET12":
            version = head[4:8].decode(errors="replace")
            raise Wrong(f"its schema is {version}, and edgewise reads ET12", advice="export it with ExecuTorch 1.x")
        self._program = self._tables.read_root("Program", 0)
        if head[8:12] == b"eh00" and len(head) == 32:
            (self._base,) = struct.unpack_from("<Q", head, 24)
        for plan in sorted(self._program["execution_plan"], key=lambda plan: plan["name"] != "forward"):
            if not plan["name"] or plan["name"] in self.methods:
                raise Wrong(f"it has two methods called {plan['name']!r}, or one without a name")
            self.methods[plan["name"]] = plan
        if not self.methods:
            raise Wrong("it has no method")

    def read_method(self, name: str, shapes: Mapping[str, tuple[int, ...]], *, steps: bool = True) -> Graph:
        """Return the graph of a method; without `steps` its inputs and outputs alone."""
        plan = self.methods[name]
        method = _Method(plan["values"])
        inputs = self._name_ends(method, plan["inputs"], "input")
        method.made.update(inputs)
        outputs = self._name_ends(method, plan["outputs"], "output")
        check_shapes({each: method.tensors[each].shape for each in inputs}, shapes)
        for each, shape in shapes.items():
            method.tensors[each] = replace(method.tensors[each], shape=shape)
        delegates: list[dict[str, Any]] = []
        if steps:
            delegates = [{"backend": each["id"], "steps": 0} for each in plan["delegates"]]
            self._read_steps(method, plan, delegates)
        planned = list(self._tables.numbers(plan["non_const_buffer_sizes"]))[1:]
        return Graph(
            name="",
            format="executorch",
            producer="ExecuTorch",
            version=f"schema ET12, version {self._program['version']}",
            tensors=method.tensors,
            operators=tuple(method.steps),
            inputs=inputs,
            outputs=outputs,
            signature=name,
            metadata={
                "planned_bytes": planned,
                "delegates": delegates,
                "methods": list(self.methods),
                "bounds": {each: self._bound(method, at) for each, at in self._dynamic(method, plan)},
            },
        )

    def _dynamic(self, method: _Method, plan: Table) -> Iterator[tuple[str, int]]:
        """Names and indices of the inputs that may be smaller than the file says."""
        for at in self._tables.numbers(plan["inputs"]):
            value = self._value(method, at)
            if value and value[0] == "PlannedTensor" and value[1]["shape_dynamism"]:
                yield method.names[at], at

    def _bound(self, method: _Method, at: int) -> list[int]:
        return list(self._tables.numbers(self._value(method, at)[1]["sizes"]))

    def _name_ends(self, method: _Method, vector: Vector | None, word: str) -> tuple[str, ...]:
        """Names of a method's inputs or outputs; a value that is both, or twice an output, has its first name."""
        found = []
        for place, at in enumerate(self._tables.numbers(vector)):
            if at not in method.names:
                value = self._value(method, at)
                name = method.taken.take(f"{word}_{place}")
                method.names[at] = name
                if value and value[0] == "PlannedTensor":
                    method.tensors[name] = self._tensor(name, value[1])
                else:
                    kind = value[0] if value else "None"
                    method.tensors[name] = Tensor(name=name, shape=(), dtype=f"executorch-{kind.lower()}")
            found.append(method.names[at])
        return tuple(found)

    def _value(self, method: _Method, at: int) -> Any:
        """Kind and table of a value; None for a value of no kind that is known."""
        if not 0 <= at < len(method.values):
            raise Wrong(f"it refers to value {at} of {len(method.values)}")
        return method.values[at]["value"]

    def _tensor(self, name: str, record: Table) -> Tensor:
        sizes = self._tables.numbers(record["sizes"])
        if len(sizes) > MAX_RANK or any(size < 0 for size in sizes):
            raise Wrong(f"{name!r} has the impossible shape {list(sizes)[:8]}")
        extra = record["extra_tensor_info"] or {}
        if extra.get("location") == _EXTERNAL:
            raise Wrong("its weights are in another file (.ptd)", advice="export it with its weights inside")
        planned, buffer = record["allocation_info"] is not None, record["data_buffer_idx"]
        shape: tuple[Dimension, ...] = sizes
        if record["shape_dynamism"] >= _DYNAMIC:
            shape = tuple(1 if size == 1 == record["shape_dynamism"] else None for size in sizes)
        dtype = DTYPES.get(record["scalar_type"], f"executorch-type-{record['scalar_type']}")
        constant = buffer > 0 and not planned
        state = planned and (buffer > 0 or bool(extra.get("fully_qualified_name")))
        data = self._constant(buffer, dtype) if constant else None
        return Tensor(name=name, shape=shape, dtype=dtype, constant=constant, variable=state, data=data)

    def _constant(self, buffer: int, dtype: str) -> StoredData | None:
        """Where constant number `buffer` begins; None for a program of the old kind, whose constants are inside."""
        segment = self._program["constant_segment"]
        if segment is None or not segment["offsets"]:
            return None
        offsets = self._tables.numbers(segment["offsets"])
        if buffer >= len(offsets):
            raise Wrong(f"it refers to constant {buffer} of {len(offsets)}")
        start, size = self._segment(segment["segment_index"])
        if offsets[buffer] > size:
            raise Wrong("a constant lies outside its segment")
        return StoredData(dtype=dtype, file=str(self._tables.path), offset=start + offsets[buffer])

    def _segment(self, at: int) -> tuple[int, int]:
        """Offset and size of a segment in the file."""
        segments = self._program["segments"]
        if at >= len(segments):
            raise Wrong(f"it refers to segment {at} of {len(segments)}")
        start, size = self._base + segments[at]["offset"], segments[at]["size"]
        self._tables.check_span(start, size)
        return start, size

    def _read_steps(self, method: _Method, plan: Table, delegates: list[dict[str, Any]]) -> None:
        for chain in plan["chains"]:
            for place, instruction in enumerate(chain["instructions"]):
                match instruction["arguments"]:
                    case "KernelCall", call:
                        self._add(method, self._read_kernel(method, plan["operators"], call, place))
                    case "DelegateCall", call:
                        self._read_delegate(method, plan["delegates"], call, delegates, place)
                    case "MoveCall", call:
                        ends = (call["move_from"], call["move_to"])
                        source, target = (tuple(self._tensors_of(method, at)) for at in ends)
                        self._add(method, _Step("MoveCall", "move", source, target, {}, KERNELS, place))
                    case "FreeCall", _:
                        pass
                    case _:
                        self._add(method, _Step("JumpFalseCall", "jump", (), (), {}, KERNELS, place))

    def _tensors_of(self, method: _Method, at: int) -> Iterator[str]:
        """Names of the tensors that a value is or lists; those that nothing has named yet get one."""
        value = self._value(method, at)
        if value is None:
            return
        kind, record = value
        if kind in ("TensorList", "OptionalTensorList"):
            for each in self._tables.numbers(record["items"]):
                if each >= 0 and (inner := self._value(method, each)) and inner[0] == "PlannedTensor":
                    yield from self._tensors_of(method, each)
        if kind != "PlannedTensor":
            return
        if at not in method.names:
            stated = (record["extra_tensor_info"] or {}).get("fully_qualified_name")
            name = method.taken.take(stated or f"value_{at}")
            method.names[at] = name
            method.tensors[name] = self._tensor(name, record)
        name = method.names[at]
        if method.tensors[name].constant or method.tensors[name].variable:
            method.made.add(name)
        yield name

    def _read_kernel(self, method: _Method, operators: Any, call: Table, instruction: int) -> _Step:
        if not 0 <= call["op_index"] < len(operators):
            raise Wrong(f"it refers to operator {call['op_index']} of {len(operators)}")
        record = operators[call["op_index"]]
        op = ".".join(filter(None, (record["name"].replace("::", "."), record["overload"])))
        known = () if self._meanings is None else self._meanings.arguments(op)
        inputs: list[str] = []
        roles: list[str] = []
        plain: dict[str, Any] = {}
        places = self._tables.numbers(call["args"])
        # The last argument is what the kernel returns: its outputs, which stand among the arguments too.
        outputs = [*self._tensors_of(method, places[-1])] if places else []
        fresh = [name for name in outputs if name not in method.made]
        for place, at in enumerate(places[:-1] if outputs else places):
            role = known[place] if place < len(known) else f"argument {place}"
            names = [name for name in self._tensors_of(method, at) if name not in fresh]
            if outputs:
                self._note_states(method, names)
            inputs += [name for name in names if name in method.made]
            roles += [role for name in names if name in method.made]
            fresh += [name for name in names if name not in method.made]
            if not names and (value := self._value(method, at)) is not None and value[0] in _PLAIN:
                plain[role] = self._plain(method, value)
        attributes = {**plain, "roles": tuple(roles)}
        return _Step(
            op,
            op.split(".")[1 if "." in op else 0].rstrip("_") or op,
            tuple(inputs),
            tuple(fresh),
            attributes,
            KERNELS,
            instruction,
        )

    def _note_states(self, method: _Method, names: Iterable[str]) -> None:
        """Note that what is read and no step has made keeps its value from one inference to the next."""
        for name in names:
            if name not in method.made:
                method.tensors[name] = replace(method.tensors[name], variable=True)
                method.made.add(name)

    def _plain(self, method: _Method, value: Any) -> Any:
        """Return a number, a text, or a list of them; of a list of integers the values, which are values of the
        method.
        """
        kind, record = value
        if kind == "IntList":
            return [
                inner[1]["value"] if (inner := self._value(method, each)) and inner[0] == "Int" else None
                for each in self._tables.numbers(record["items"])
            ]
        return list(self._tables.numbers(record["items"])) if kind.endswith("List") else record["value"]

    def _add(self, method: _Method, step: _Step) -> None:
        """Append an operator; its outputs are made from now on."""
        roles = {name: value for name, value in step.attributes.items() if name != "roles"}
        kind, why = "", ""
        geometry: Mapping[str, Any] = {}
        weights: tuple[int, ...] = ()
        if self._meanings is not None:
            given = [method.tensors[each] if each else None for each in step.inputs]
            made = [method.tensors[each] for each in step.outputs]
            found = self._meanings.interpret(step.op, step.attributes, given, made)
            kind, geometry, weights, why = found.kind, found.geometry, found.weights, found.why
        names = [step.inputs[at] for at in weights if at < len(step.inputs) and step.inputs[at]]
        method.made.update(step.outputs)
        method.steps.append(
            Operator(
                index=len(method.steps),
                name=method.labels.take(step.name),
                op=step.op,
                kind=kind,
                inputs=step.inputs,
                outputs=step.outputs,
                weights=tuple(dict.fromkeys(each for each in names if method.tensors[each].constant)),
                geometry=geometry,
                attributes={**roles, "runs_in": step.runs_in, "instruction": step.instruction},
                custom=not kind and not step.node and not step.op.startswith(("aten.", "executorch_prim.")),
                unknown_because=why,
            )
        )

    # -- delegates ---------------------------------------------------------------------------------------------------

    def _read_delegate(
        self, method: _Method, found: Any, call: Table, delegates: list[dict[str, Any]], instruction: int
    ) -> None:
        at = call["delegate_index"]
        if not 0 <= at < len(found):
            raise Wrong(f"it refers to delegate {at} of {len(found)}")
        backend = found[at]["id"]
        names = [name for each in self._tables.numbers(call["args"]) for name in self._tensors_of(method, each)]
        start = self._find_delegate(found[at])
        if backend == XNNPACK and start is not None:
            steps = [*self._read_xnnpack(method, names, start, f"{backend}_{at}", instruction)]
        else:
            split = next((place for place, name in enumerate(names) if name not in method.made), len(names))
            steps = [_Step(backend, backend, tuple(names[:split]), tuple(names[split:]), {}, backend, instruction)]
        delegates[at]["steps"] = len(steps)
        for step in steps:
            self._add(method, step)

    def _find_delegate(self, record: Table) -> int | None:
        """Where the data of a delegate begins; None where there is none."""
        reference = record["processed"]
        if reference is None:
            return None
        if reference["location"]:
            return self._segment(reference["index"])[0]
        inline = self._program["backend_delegate_data"]
        if reference["index"] >= len(inline):
            raise Wrong(f"it refers to the data of delegate {reference['index']} of {len(inline)}")
        data = inline[reference["index"]]["data"]
        return None if data is None else data.start

    def _read_xnnpack(
        self, method: _Method, args: list[str], start: int, name: str, instruction: int
    ) -> Iterator[_Step]:
        """Yield the nodes of a graph of XNNPACK: a header ``XH00`` with the place of the flatbuffer, or the
        flatbuffer.
        """
        self._tables.check_span(start, 32)
        data_at = 0
        if self._tables.buffer[start + 4 : start + 8] == b"XH00":
            offset, _, data_at = struct.unpack_from("<III", self._tables.buffer, start + 10)
            data_at += start
            start += offset
        self._tables.check_span(start, 8)
        graph = self._tables.read_root("XNNGraph", start)
        names = self._name_values(method, graph, args, name, data_at)
        self._note_states(method, [names[at] for at in self._tables.numbers(graph["input_ids"]) if at in names])
        for place, record in enumerate(graph["xnodes"]):
            if record["node"] is None:
                raise Wrong(f"node {place} of {name} is of a kind that edgewise does not know")
            op, fields = record["node"]
            yield _Step(
                op,
                f"{name}/{op.removeprefix('XNN')}",
                tuple(_pick(names, fields, _input_roles(op), name)),
                tuple(each for each in _pick(names, fields, _OUTPUTS, name) if each),
                self._describe(op, fields, record["output_min_max"]),
                XNNPACK,
                instruction,
                node=True,
            )

    def _describe(self, op: str, fields: Table, bounds: Table | None) -> dict[str, Any]:
        """Return a node's options, and the clamp that is fused into it."""
        kept = {
            key: list(self._tables.numbers(value)) if isinstance(value, Vector) else value
            for key, value in fields.items()
            if not key.endswith("_id") and key != "flags" and value is not None
        }
        if bounds is None:
            return kept
        low, high = bounds["output_min"], bounds["output_max"]
        if op == "XNNClamp" or (low, high) == ("-inf", "inf"):
            return {**kept, "output_min": low, "output_max": high}
        word = "relu" if "inf" in (low, high) or "-inf" in (low, high) else "clamp"
        return {**kept, "output_min": low, "output_max": high, "activation": word}

    def _name_values(self, method: _Method, graph: Table, args: list[str], name: str, data_at: int) -> dict[int, str]:
        """Id of a value of an XNNPACK graph → name of its tensor; what the call gives and takes has its name there."""
        outer = {*self._tables.numbers(graph["input_ids"]), *self._tables.numbers(graph["output_ids"])}
        bounded = any(None in (method.tensors[each].shape or ()) for each in args)
        found: dict[int, str] = {}
        for record in graph["xvalues"]:
            if record["value"] is None:
                raise Wrong(f"a value of {name} is of a kind that edgewise does not know")
            kind, value = record["value"]
            scheme = value["params"] if kind == "XNNQuantizedTensorValue" else None
            value = value["tensor_value"] if kind == "XNNQuantizedTensorValue" else value
            if value is None:
                raise Wrong(f"a value of {name} has no tensor")
            at = value["id_out"]
            if at in outer and value["external_id"] < len(args):
                found[at] = args[value["external_id"]]
                continue
            shown = method.taken.take(f"{name}/{'constant' if value['constant_buffer_idx'] else 'value'}_{at}")
            found[at] = shown
            method.tensors[shown] = self._xnnpack_tensor(shown, value, scheme, graph, data_at, open_shape=bounded)
        return found

    def _xnnpack_tensor(
        self, name: str, value: Table, scheme: Any, graph: Table, data_at: int, *, open_shape: bool
    ) -> Tensor:
        sizes = self._tables.numbers(value["dims"])
        if len(sizes) > MAX_RANK:
            raise Wrong(f"{name!r} has {len(sizes)} dimensions, more than {MAX_RANK}")
        dtype = XNNPACK_DTYPES.get(value["datatype"], f"xnnpack-type-{value['datatype']}")
        buffer = value["constant_buffer_idx"]
        shape: tuple[Dimension, ...] = (None,) * len(sizes) if open_shape and not buffer else sizes
        tensor = Tensor(
            name=name, shape=shape, dtype=dtype, constant=bool(buffer), quantization=self._quantization(scheme)
        )
        place = self._xnnpack_constant(graph, buffer, data_at) if buffer else None
        if place is None or tensor.size_bytes is None or tensor.size_bytes > place[1]:
            return tensor
        return replace(
            tensor,
            data=StoredData(dtype=dtype, file=str(self._tables.path), offset=place[0], size=tensor.size_bytes),
        )

    def _xnnpack_constant(self, graph: Table, buffer: int, data_at: int) -> tuple[int, int] | None:
        """Offset and size of a constant in the file; None where it is inside the graph."""
        listed = graph["constant_data"]
        if not listed:
            return None
        if buffer >= len(listed):
            raise Wrong(f"it refers to constant {buffer} of {len(listed)}")
        record = listed[buffer]
        if not record["named_key"]:
            self._tables.check_span(data_at + record["offset"], record["size"])
            return data_at + record["offset"], record["size"]
        for each in self._program["named_data"]:
            if each["key"] == record["named_key"]:
                return self._segment(each["segment_index"])
        raise Wrong("weights that it names are not in it", advice="export it with its weights inside")

    def _quantization(self, scheme: Any) -> Quantization | None:
        """Scale and zero point; None for scales that lie among the weights or are found while it runs."""
        match scheme:
            case "PerTensorQuant", {"scale": float(scale), "zero_point": zero}:
                return Quantization(scale=scale, zero_point=zero)
            case "PerChannelQuant", {"scale": Vector() as scales, "channel_dim": axis} if scales.length:
                found = self._tables.numbers(scales)
                if isinstance(found[0], float):
                    return Quantization(scale=found[0], channels=len(found), axis=axis)
        return None


def _input_roles(op: str) -> Iterable[str]:
    """Fields of a node that are its inputs; one that it does not have is left out."""
    if op in _FEWER:
        return tuple(f"input{at + 1}_id" for at in range(_FEWER[op]))
    return _ROLES


def _pick(names: Mapping[int, str], fields: Table, roles: Iterable[str], name: str) -> Iterator[str]:
    """Names of the values in these fields; "" for one that is left out."""
    for role in roles:
        if role not in fields:
            continue
        at = fields[role]
        if at != _NO_VALUE and at not in names:
            raise Wrong(f"a node of {name} refers to value {at}, which is not there")
        yield "" if at == _NO_VALUE else names[at]


def read_method(path: Path, name: str = "") -> Graph:
    """Return the method `name` of the program at `path`, by default the first, without what its steps mean.

    Raises `BadModel`, OSError, or KeyError for a method that is not there.
    """
    with open_tables(path, LAYOUTS) as tables:
        reader = ProgramReader(tables)
        reader.open()
        return reader.read_method(name or next(iter(reader.methods)), {})
