"""Writes a subgraph of a network as a model file of the same format, with its own weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.model.identity import open_model
from edgewise.optimizing.base import PassResult, PassSettings, PassTask
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.litert_rewrites import drop_unused_tensors
from edgewise.optimizing.passes.onnx_files import in_order
from edgewise.record import InputSpec
from edgewise.workload.inputs import make_arrays

_ONNX_TYPES = {
    "float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float64": "DOUBLE", "bool": "BOOL",
    **{f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSettings(PassSettings):
    """What to cut.

    Attributes:
        cut: as `cut_model` has it; empty leaves the file as it is.
        input_shapes: of everything that may be fed.
    """

    cut: Mapping[str, Any] = field(default_factory=dict)
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


class CutSubgraph:
    """A pass that makes a subgraph of a model, with random samples beside it for passes that calibrate."""

    def apply(self, task: PassTask[CutSettings]) -> PassResult:
        """Write the subgraph and `SAMPLES_FILE`. Raises `CannotApply` where the file can't be cut."""
        model = Path(task.model)
        if task.settings.cut:
            model = cut_model(model, task.folder / f"subgraph.{task.format}", task.settings.cut)
        inputs = input_specs(model, task.settings.input_shapes)
        samples = [make_arrays(inputs, seed=seed) for seed in range(SAMPLES)]
        write_calibration(task.folder / SAMPLES_FILE, samples, None)
        return PassResult(model=model)


SAMPLES, SAMPLES_FILE = 2, "calibration.npz"
"""Random samples that a pass calibrates on: which ranges it finds does not change how fast the result is."""


def input_specs(model: Path, shapes: Mapping[str, Sequence[int]]) -> list[InputSpec]:
    """What the model at `model` is fed. Raises ValueError where a shape is open and not in `shapes`."""
    specs = []
    for spec in open_model(model).signature.inputs:
        shape = shapes.get(spec.name, spec.shape or ())
        if not all(isinstance(size, int) for size in shape):
            raise ValueError(f"the shape of input {spec.name!r} is open")
        specs.append(InputSpec(name=spec.name, shape=tuple(int(str(size)) for size in shape), dtype=spec.dtype))
    return specs


def cut_model(source: Path, target: Path, cut: Mapping[str, Any]) -> Path:
    """Write the part of the model at `source` that `cut` describes to `target`.

    Args:
        cut: JSON-shaped: ``format``; ``operators`` that stay, each with its ``index``, ``inputs`` and ``outputs`` by
            the graph's names for tensors; ``made``, what all operators of the graph make; ``renamed``,
            ``inputs`` and ``outputs`` as in `edgewise.optimizing.subgraph.Subgraph`.

    Raises:
        CannotApply: the file is made in a way that can't be cut.
    """
    return CUTTERS[cut["format"]](source, target, cut)


def cut_onnx(source: Path, target: Path, cut: Mapping[str, Any]) -> Path:
    """Nodes are told by what they make; nodes that the graph does not list make constants and stay where needed."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_model

    model = onnx.load(str(source), load_external_data=False)
    graph = model.graph
    if len(model.functions):
        raise CannotApply("its functions would have to be written out first")
    listed = {name for name in cut["made"] if name}
    wanted = {name for operator in cut["operators"] for name in operator["outputs"] if name}
    renamed = cut["renamed"]
    needed = set(cut["outputs"])
    boundaries = {boundary["name"] for boundary in cut["inputs"]}
    nodes = []
    for node in reversed(in_order(graph.node)):
        makes = {name for name in node.output if name}
        stays = bool(makes & wanted) or (not makes & listed and bool(makes & needed))
        if stays and not makes & boundaries:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            needed.update(filter(None, node.input))
            nodes.append(node)
    known = {info.name: info for info in (*graph.value_info, *graph.output)}
    outputs = [known.get(name) or onnx.helper.make_empty_tensor_value_info(name) for name in cut["outputs"]]
    inputs = [info for info in graph.input if info.name in needed and info.name not in boundaries]
    inputs += [_border(boundary) for boundary in cut["inputs"]]
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    part = onnx.helper.make_graph(nodes[::-1], "subgraph", inputs, outputs, weights)
    part.value_info.extend(info for info in graph.value_info if info.name in needed | wanted)
    part.sparse_initializer.extend(each for each in graph.sparse_initializer if each.values.name in needed)
    subgraph = onnx.helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)
    load_external_data_for_model(subgraph, str(source.parent))
    onnx.save(_with_types(subgraph), str(target))
    return target


def _border(boundary: Mapping[str, Any]) -> Any:
    import onnx

    if boundary["dtype"] not in _ONNX_TYPES:
        raise CannotApply(f"a tensor of type {boundary['dtype']} can't be an input")
    kind = getattr(onnx.TensorProto, _ONNX_TYPES[boundary["dtype"]])
    return onnx.helper.make_tensor_value_info(boundary["name"], kind, boundary["shape"])


def _with_types(model: Any) -> Any:
    """`model` with types for its outputs, which the file may not tell of values between operators."""
    import onnx

    if all(output.type.tensor_type.elem_type for output in model.graph.output):
        return model
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {info.name: info for info in (*inferred.graph.value_info, *inferred.graph.output)}
    for output in model.graph.output:
        if output.name in types:
            output.CopyFrom(types[output.name])
        if not output.type.tensor_type.elem_type:
            raise CannotApply(f"the type of {output.name!r} is not known")
    return model


def cut_tflite(source: Path, target: Path, cut: Mapping[str, Any]) -> Path:
    """Operators are told by their index; tensors of the file are found beside the graph's names for them."""
    import flatbuffers  # type: ignore[import-untyped]
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(source.read_bytes()), 0))
    graph = model.subgraphs[0]
    steps = [(graph.operators[operator["index"]], operator) for operator in cut["operators"]]
    places: dict[str, int] = {}
    for step, operator in steps:
        for side, names in ((step.inputs, operator["inputs"]), (step.outputs, operator["outputs"])):
            places.update({name: index for index, name in zip(_indices(side), names, strict=True) if name})
    moved = {places[old]: places[new] for old, new in cut["renamed"].items() if old in places and new in places}
    for step, _ in steps:
        step.inputs = [moved.get(index, index) for index in _indices(step.inputs)]
    for step, _ in steps:
        step.outputs = _indices(step.outputs)
        step.intermediates = None if step.intermediates is None else _indices(step.intermediates)
    read = {index for step, _ in steps for index in step.inputs}
    own = [index for index in _indices(graph.inputs) if index in read]
    graph.inputs = own + [places[border["name"]] for border in cut["inputs"] if places[border["name"]] not in own]
    graph.outputs = [moved.get(places[name], places[name]) for name in cut["outputs"]]
    graph.operators = [step for step, _ in steps]
    model.signatureDefs = None
    # Tools look at every tensor of a graph, and one that no operator makes has no data.
    drop_unused_tensors(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    target.write_bytes(bytes(builder.Output()))
    return target


def _indices(side: Any) -> list[int]:
    return [] if side is None else [int(index) for index in side]


CUTTERS: Mapping[str, Callable[[Path, Path, Mapping[str, Any]], Path]] = {"onnx": cut_onnx, "tflite": cut_tflite}
"""Format → what cuts its files."""
