"""Writes a subgraph of a network as a model file of the same format, with its own weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.model.identity import open_model
from edgewise.optimizing.libraries import refusing
from edgewise.optimizing.passes.litert_rewrites import drop_unused_tensors
from edgewise.optimizing.passes.onnx_files import sort_nodes
from edgewise.record import InputSpec


def input_specs(model: Path, shapes: Mapping[str, Sequence[int]]) -> list[InputSpec]:
    """Inputs of the model at `model`. Raises ValueError where a shape is open and not in `shapes`."""
    specs = []
    for spec in open_model(model).signature.inputs:
        shape = shapes.get(spec.name, spec.shape or ())
        if not all(isinstance(size, int) for size in shape):
            raise ValueError(f"the shape of input {spec.name!r} is open")
        specs.append(InputSpec(name=spec.name, shape=tuple(int(str(size)) for size in shape), dtype=spec.dtype))
    return specs


def cut_model(source: Path, target: Path, cut: Mapping[str, Any]) -> Path:
    """Write the part of the model at `source` that `cut` describes to `target`. Returns `target`.

    Args:
        cut: JSON-shaped: ``format``; ``operators`` that stay, each with its ``index``, ``inputs`` and ``outputs`` by
            the graph's names of tensors; ``inputs`` and ``outputs`` as in `edgewise.optimizing.subgraph.Subgraph`.

    Raises:
        CannotApply: this file can't be cut.
    """
    with refusing("the file can't be cut"):
        CUTTERS[cut["format"]](source, target, cut)
    return target


def _cut_onnx(source: Path, target: Path, cut: Mapping[str, Any]) -> None:
    import numpy as np
    import onnx
    import onnx.utils
    from onnx.external_data_helper import load_external_data_for_model

    model = onnx.load(str(source), load_external_data=False)
    model = onnx.shape_inference.infer_shapes(sort_nodes(model))  # for the types of outputs
    boundaries = [each["name"] for each in cut["inputs"]]
    known = [info for info in model.graph.value_info if info.name not in boundaries]
    del model.graph.value_info[:]
    model.graph.value_info.extend(known)
    for each in cut["inputs"]:
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(each["dtype"]))
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(each["name"], kind, each["shape"]))
    read = {name for operator in cut["operators"] for name in operator["inputs"]}
    inputs = [info.name for info in model.graph.input if info.name in read]
    part = onnx.utils.Extractor(model).extract_model([*inputs, *boundaries], list(cut["outputs"]))
    load_external_data_for_model(part, str(source.parent))
    onnx.save(part, str(target))


def _cut_tflite(source: Path, target: Path, cut: Mapping[str, Any]) -> None:
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(source.read_bytes()), 0))
    graph = model.subgraphs[0]
    steps = [(graph.operators[operator["index"]], operator) for operator in cut["operators"]]
    places: dict[str, int] = {}
    for step, operator in steps:
        step.inputs, step.outputs = _indices(step.inputs), _indices(step.outputs)
        step.intermediates = None if step.intermediates is None else _indices(step.intermediates)
        for side, names in ((step.inputs, operator["inputs"]), (step.outputs, operator["outputs"])):
            places.update({name: index for index, name in zip(side, names, strict=True) if name})
    read = {index for step, _ in steps for index in step.inputs}
    own = [index for index in _indices(graph.inputs) if index in read]
    graph.inputs = own + [places[each["name"]] for each in cut["inputs"] if places[each["name"]] not in own]
    graph.outputs = [places[name] for name in cut["outputs"]]
    graph.operators = [step for step, _ in steps]
    model.signatureDefs = None
    # Tools look at every tensor of a graph, and one that no operator makes has no data.
    drop_unused_tensors(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(bytes(builder.Output()))


def _indices(side: Any) -> list[int]:
    return [] if side is None else [int(index) for index in side]


CUTTERS: Mapping[str, Callable[[Path, Path, Mapping[str, Any]], None]] = {"onnx": _cut_onnx, "tflite": _cut_tflite}
"""Format → the function that cuts its files."""
