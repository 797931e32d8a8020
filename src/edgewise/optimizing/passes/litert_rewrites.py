"""Exact rewrites of TFLite models for the quantizer and for int8 kernels.

The outputs stay the same: weights that operators decode on loading become plain constants, and an activation is fused
into the operator before it. The latter is needed for speed: XNNPACK has int8 kernels with a fused activation, and none
for an activation alone.

All functions take a ``ModelT`` of ``ai_edge_litert.schema_py_generated`` with new operator codes, and change its first
subgraph.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any


def fold_stored_weights(model: Any) -> int:
    """Replace DEQUANTIZE and DENSIFY of constants by their results. Returns the number of new float32 constants."""
    from ai_edge_litert.schema_py_generated import BufferT, BuiltinOperator

    main = model.subgraphs[0]
    makers = {BuiltinOperator.DEQUANTIZE, BuiltinOperator.DENSIFY}
    constant = {at for at, tensor in enumerate(main.tensors) if _size(model.buffers[tensor.buffer])}
    folded: list[Any] = []
    for operator in main.operators:
        if _code(model, operator) in makers and constant.issuperset(operator.inputs):
            folded.append(operator)
            constant.update(operator.outputs)
    if not folded:
        return 0
    gone = {id(operator) for operator in folded}
    kept = [operator for operator in main.operators if id(operator) not in gone]
    taken = {index for operator in kept for index in operator.inputs} | set(main.outputs)
    wanted = sorted(taken & {index for operator in folded for index in operator.outputs})
    values = _compute(model, folded, wanted)
    main.operators = kept
    for index, value in zip(wanted, values, strict=True):
        tensor = main.tensors[index]
        tensor.buffer, tensor.sparsity = len(model.buffers), None
        model.buffers.append(BufferT())
        model.buffers[-1].data = _bytes(value)
    drop_unused_tensors(model)
    return len(wanted)


def _compute(model: Any, operators: Sequence[Any], outputs: Sequence[int]) -> list[Any]:
    """Return the tensors `outputs` of `operators` on constants, computed by LiteRT."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from ai_edge_litert.tools import flatbuffer_utils

    part, graph = copy.copy(model), copy.copy(model.subgraphs[0])
    graph.operators, graph.inputs, graph.outputs = list(operators), [], list(outputs)
    part.subgraphs, part.signatureDefs, part.metadata = [graph], [], []
    interpreter = Interpreter(
        model_content=bytes(flatbuffer_utils.convert_object_to_bytearray(part)),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


_FUSABLE = ("RELU", "RELU6", "RELU_N1_TO_1")
_TAKERS = ("ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MUL", "SUB")


def fuse_activations(model: Any) -> dict[int, Any]:
    """Fuse each activation into the operator before it, if that supports it and has no other reader.

    Returns:
        id of a removed operator → the operator with its activation. The caller must keep the removed operators alive,
        or an id may get another object.
    """
    from ai_edge_litert.schema_py_generated import ActivationFunctionType, BuiltinOperator

    activations = {getattr(BuiltinOperator, name): getattr(ActivationFunctionType, name) for name in _FUSABLE}
    takers = {getattr(BuiltinOperator, name) for name in _TAKERS}
    main = model.subgraphs[0]
    entries = [entry for each in model.signatureDefs or [] if each.subgraphIndex == 0 for entry in _entries(each)]
    uses = Counter([*main.outputs, *(entry.tensorIndex for entry in entries)])
    uses.update(index for operator in main.operators for index in operator.inputs)
    makers = {index: operator for operator in main.operators for index in operator.outputs}
    gone: dict[int, Any] = {}
    for operator in main.operators:
        activation = activations.get(_code(model, operator))
        maker = makers.get(operator.inputs[0]) if activation is not None else None
        if maker is None or uses[operator.inputs[0]] > 1 or _code(model, maker) not in takers:
            continue
        options = maker.builtinOptions
        if options is not None and options.fusedActivationFunction == ActivationFunctionType.NONE:
            options.fusedActivationFunction = activation
            maker.outputs = list(operator.outputs)
            makers[operator.outputs[0]] = maker
            gone[id(operator)] = maker
    if gone:
        main.operators = [operator for operator in main.operators if id(operator) not in gone]
        drop_unused_tensors(model)
    return gone


def drop_unused_tensors(model: Any) -> None:
    """Remove tensors that no operator reads or makes, and the data that no tensor uses."""
    main = model.subgraphs[0]
    lists = [main.inputs, main.outputs]
    for operator in main.operators:
        lists += [operator.inputs, operator.outputs]
        if operator.intermediates is not None:
            lists.append(operator.intermediates)
    entries = [entry for each in model.signatureDefs or [] if each.subgraphIndex == 0 for entry in _entries(each)]
    used = {index for each in lists for index in each if index >= 0} | {entry.tensorIndex for entry in entries}
    place = {old: new for new, old in enumerate(sorted(used))}
    for each in {id(each): each for each in lists}.values():
        each[:] = [place.get(index, index) for index in each]
    for entry in entries:
        entry.tensorIndex = place[entry.tensorIndex]
    main.tensors = [main.tensors[index] for index in place]
    held = {tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors}
    held |= {note.buffer for note in model.metadata or []}
    for at, buffer in enumerate(model.buffers):
        if at not in held:
            buffer.data = None


def _code(model: Any, operator: Any) -> int:
    code: int = model.operatorCodes[operator.opcodeIndex].builtinCode
    return code


def _entries(signature: Any) -> list[Any]:
    return [*(signature.inputs or []), *(signature.outputs or [])]


def _size(buffer: Any) -> int:
    return 0 if buffer.data is None else len(buffer.data)


def _bytes(value: Any) -> Any:
    import numpy as np

    return np.frombuffer(np.ascontiguousarray(value).tobytes(), dtype=np.uint8)
