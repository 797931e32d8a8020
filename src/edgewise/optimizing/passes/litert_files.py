"""Prepares TFLite files for ai-edge-quantizer, and restores the interface of its results.

The quantizer requires more of a file than LiteRT does: new operator codes, unique names of tensors, an entry point, and
float32 weights as direct inputs of operators. `read_float_model` makes such a copy, which computes the same; `finish`
gives the result the interface of the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.model.graph import Graph
from edgewise.model.readers.tflite import TfliteReader
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.litert_rewrites import fold_stored_weights, fuse_activations

ENTRY = "edgewise-calibration"
"""The entry point of the copy; neither the original nor the result has it."""
_LAST_OLD_CODE = 127
"""Value of the old field of an operator's code for all newer codes (PLACEHOLDER_FOR_GREATER_OP_CODES)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAddress:
    """How the quantizer finds an operator.

    Attributes:
        scope: names of the operator's outputs, which the quantizer's rules match.
        kind: its type; None where the quantizer does not support it.
    """

    scope: str
    kind: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatModel:
    """A float network, ready for the quantizer.

    Attributes:
        content: the flatbuffer; its entry point `ENTRY` has the inputs ``input_0``, ``input_1`` …
        graph: of the original.
        operators: name of an operator of the main graph (`Graph.operators`) → its address. A fused activation has the
            address of the operator before it.
        makers: name of an operator's first output in `content` → the operator's address.
        uncalibrated: operators in graphs that calibration does not reach: branches, loop bodies, other entry points.
        interface: names of inputs and outputs in the file.
        notes: on the changes in the copy.
    """

    content: bytes
    graph: Graph
    operators: Mapping[str, OperatorAddress]
    makers: Mapping[str, OperatorAddress]
    uncalibrated: tuple[OperatorAddress, ...]
    interface: tuple[tuple[str, ...], tuple[str, ...]]
    notes: tuple[str, ...] = ()


def read_float_model(path: Path) -> FloatModel:
    """Return the network at `path`.

    Raises:
        BadModel: the file is damaged.
        CannotApply: the network is already quantised.
    """
    from ai_edge_litert.tools import flatbuffer_utils

    graph = TfliteReader().read_graph(path)
    model = flatbuffer_utils.read_model(str(path))
    _refuse_quantized(model)
    _fill_fields(model)
    main = model.subgraphs[0]
    named = list(zip([operator.name for operator in graph.operators], main.operators, strict=True))
    notes = []
    if folded := fold_stored_weights(model):
        notes.append(f"weights stored as float16 or sparse that were converted to float32 first: {folded}")
    if fused := fuse_activations(model):
        notes.append(f"activations that were fused into the operator before them: {len(fused)}")
    _name_tensors(model)
    _add_entry(model)
    addresses = {id(operator): _address(model, main, operator) for operator in main.operators}
    final = {name: fused.get(id(operator), operator) for name, operator in named}
    reached = _calibrated_subgraphs(model)
    rest = [subgraph for at, subgraph in enumerate(model.subgraphs) if at not in reached]
    return FloatModel(
        content=bytes(flatbuffer_utils.convert_object_to_bytearray(model)),
        graph=graph,
        operators={name: addresses[id(operator)] for name, operator in final.items() if id(operator) in addresses},
        makers={
            _text(main.tensors[each.outputs[0]].name): addresses[id(each)]
            for each in main.operators
            if each.outputs and each.outputs[0] >= 0
        },
        uncalibrated=tuple(_address(model, subgraph, each) for subgraph in rest for each in subgraph.operators),
        interface=(_names(main, main.inputs), _names(main, main.outputs)),
        notes=tuple(notes),
    )


def finish(content: Any, model: FloatModel, path: Path) -> Path:
    """Write the quantizer's result to `path` with the names of inputs and outputs of `model`. Returns `path`."""
    from ai_edge_litert.tools import flatbuffer_utils

    made = flatbuffer_utils.read_model_from_bytearray(bytes(content))
    made.signatureDefs = [each for each in made.signatureDefs or [] if _text(each.signatureKey) != ENTRY]
    main = made.subgraphs[0]
    _complete_borders(made)
    for indices, names in zip((main.inputs, main.outputs), model.interface, strict=True):
        for index, name in zip(indices, names, strict=True):
            _rename(main.tensors, index, name)
    flatbuffer_utils.write_model(made, str(path))
    return path


def _complete_borders(model: Any) -> None:
    """Complete the QUANTIZE and DEQUANTIZE operators that the quantizer adds.

    Older readers need their codes in the old field (LiteRT takes the greater code, OpenVINO the old one), and their
    outputs need the open dimensions of their inputs.
    """
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    for code in model.operatorCodes:
        code.deprecatedBuiltinCode = min(code.builtinCode, _LAST_OLD_CODE)
    for subgraph in model.subgraphs:
        for operator in subgraph.operators or []:
            code = model.operatorCodes[operator.opcodeIndex].builtinCode
            if code in (BuiltinOperator.QUANTIZE, BuiltinOperator.DEQUANTIZE):
                source, target = (subgraph.tensors[each[0]] for each in (operator.inputs, operator.outputs))
                if target.shapeSignature is None:
                    target.shapeSignature = source.shapeSignature


def _rename(tensors: Sequence[Any], index: int, name: str) -> None:
    """Rename tensor `index` to `name`; another tensor of this name gets a new name."""
    if _text(tensors[index].name) == name:
        return
    taken = {_text(tensor.name) for tensor in tensors}
    for other in tensors:
        if _text(other.name) == name:
            other.name = _unique(f"{name}_quantized", taken).encode()
    tensors[index].name = name.encode()


def _refuse_quantized(model: Any) -> None:
    """Raise `CannotApply` for tensors of scaled integers, and remove the scales of float tensors."""
    from ai_edge_litert.schema_py_generated import TensorType

    floats = {TensorType.FLOAT32, TensorType.FLOAT16, TensorType.FLOAT64, TensorType.BFLOAT16}
    tensors = [tensor for subgraph in model.subgraphs for tensor in subgraph.tensors]
    scaled = [each for each in tensors if _scales(each)]
    integers = [each for each in scaled if each.type not in floats]
    if integers:
        raise CannotApply(
            f"it is already quantised: {len(integers)} of its {len(tensors)} tensors hold scaled integers"
        )
    for tensor in scaled:
        tensor.quantization = None


def _name_tensors(model: Any) -> None:
    """Give every tensor of every subgraph a unique name; inputs and outputs of the main graph keep their names."""
    main = model.subgraphs[0]
    public = [main.tensors[index] for index in (*main.inputs, *main.outputs)]
    rest = [tensor for subgraph in model.subgraphs for tensor in subgraph.tensors]
    taken: set[str] = set()
    done: set[int] = set()
    for tensor in (*public, *rest):
        if id(tensor) not in done:
            done.add(id(tensor))
            tensor.name = _unique(_text(tensor.name) or "tensor", taken).encode()


def _unique(name: str, taken: set[str]) -> str:
    """`name`, with a number if it is in `taken`. Adds the result to `taken`."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}#{number}"
    taken.add(unique)
    return unique


def _add_entry(model: Any) -> None:
    """Add the entry point `ENTRY` to the main graph."""
    from ai_edge_litert.schema_py_generated import SignatureDefT, TensorMapT

    main = model.subgraphs[0]

    def entries(word: str, indices: Sequence[int]) -> list[Any]:
        return [TensorMapT(name=f"{word}_{at}".encode(), tensorIndex=index) for at, index in enumerate(indices)]

    entry = SignatureDefT(
        inputs=entries("input", main.inputs),
        outputs=entries("output", main.outputs),
        signatureKey=ENTRY.encode(),
        subgraphIndex=0,
    )
    model.signatureDefs = [*(model.signatureDefs or []), entry]


def _calibrated_subgraphs(model: Any) -> set[int]:
    """Return indices of the main graph and of the graphs of its composite operators."""
    from ai_edge_quantizer.utils import tfl_flatbuffer_utils

    reached, waiting = set[int](), [0]
    while waiting:
        at = waiting.pop()
        if at not in reached:
            reached.add(at)
            for operator in model.subgraphs[at].operators:
                waiting += tfl_flatbuffer_utils.get_op_side_effect_subgraphs(operator)
    return reached


def _fill_fields(model: Any) -> None:
    """Fill the fields that the quantizer reads and older files leave out: new operator codes and empty lists."""
    from ai_edge_litert.tools import flatbuffer_utils

    for code in model.operatorCodes:
        code.builtinCode = flatbuffer_utils.get_builtin_code_from_operator_code(code)
    for subgraph in model.subgraphs:
        for each in (subgraph, *(subgraph.operators or [])):
            each.inputs = [] if each.inputs is None else list(each.inputs)
            each.outputs = [] if each.outputs is None else list(each.outputs)
        subgraph.operators = subgraph.operators or []


def _address(model: Any, subgraph: Any, operator: Any) -> OperatorAddress:
    from ai_edge_quantizer.utils import tfl_flatbuffer_utils

    code = model.operatorCodes[operator.opcodeIndex].builtinCode
    scope = tfl_flatbuffer_utils.get_op_scope(operator, subgraph.tensors)
    return OperatorAddress(scope=scope, kind=tfl_flatbuffer_utils.TFL_OP_CODE_TO_NAME.get(code))


def _names(subgraph: Any, indices: Sequence[int]) -> tuple[str, ...]:
    return tuple(_text(subgraph.tensors[index].name) for index in indices)


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""


def _scales(tensor: Any) -> int:
    """Return number of scales of a tensor."""
    scale = None if tensor.quantization is None else tensor.quantization.scale
    return 0 if scale is None else len(scale)
