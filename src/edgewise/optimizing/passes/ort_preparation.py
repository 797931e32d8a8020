"""Prepares ONNX models for onnxruntime's quantiser: folds constants, merges BatchNormalization, infers all shapes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.model.graph import Graph
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes.onnx_files import copy_model, count_nodes, load_model, raise_opset, save_model

FEW_CHANNELS = 4
"""With at most this many input channels, a convolution multiplies vectors that are too short for integer kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model prepared for the quantiser.

    Attributes:
        path: its file, in a folder that is removed when the context ends.
        model: the ``onnx.ModelProto`` at `path`.
        original: the model before.
        origins: name of a node of `model` → names of the nodes of `original` that it replaces.
        folder: for further temporary files.
    """

    path: Path
    model: Any
    original: Any
    origins: dict[str, frozenset[str]]
    folder: Path

    @property
    def note(self) -> str:
        """How many nodes were removed, in words; "" where none were."""
        before, after = len(self.original.graph.node), len(self.model.graph.node)
        return f"{before - after} of {before} nodes folded or merged before quantising" if after < before else ""

    def named(self, names: tuple[str, ...]) -> list[str]:
        """Nodes of `model` that replace any of the original nodes called `names`."""
        return [node for node, covered in self.origins.items() if not covered.isdisjoint(names)]

    def only(self, task: PassTask[Any]) -> list[str]:
        """Return the only nodes of `model` to change; empty: all. Raises `CannotApply` where none of them is left."""
        nodes = self.named(task.only)
        if task.only and not nodes:
            raise CannotApply("none of the named layers is left after folding")
        return nodes


@contextmanager
def prepare(task: PassTask[Any]) -> Iterator[Prepared]:
    """Yield the model of `task`, prepared. Raises `CannotApply` where the engine can't run it."""
    original = load_model(task.model)
    # On the disk of the result, so that a lack of space shows before the work.
    with tempfile.TemporaryDirectory(dir=task.folder, prefix="scratch-") as scratch:
        folder = Path(scratch)
        raised = save_model(raise_opset(copy_model(original)), folder / "raised.onnx")
        path = folder / "prepared.onnx"
        model = _fold(raised, path, threads=task.threads)
        yield Prepared(path=path, model=model, original=original, origins=find_origins(original, model), folder=folder)


def _fold(source: Path, path: Path, *, threads: int) -> Any:
    """Optimise and infer shapes; symbolically only where plain inference leaves a tensor without a type."""
    import onnx
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    optimized = path.with_name("folded.onnx")
    run_optimizer(source, optimized, level="basic", threads=threads)
    onnx.shape_inference.infer_shapes_path(str(optimized), str(path), data_prop=True)
    model = onnx.load(str(path))
    if not _is_typed(model):
        model = _infer_symbolically(model) or model
    _name_rest(model)
    _flatten_biases(model)
    add_pre_process_metadata(model)
    save_model(model, path)
    return model


def run_optimizer(source: Path, target: Path, *, level: str, threads: int) -> None:
    """Write the graph that onnxruntime runs at `level`: ``basic``, ``extended`` or ``all``.

    Raises:
        CannotApply: the engine does not load the model.
    """
    import onnxruntime

    options = session_options(threads)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    options.optimized_model_filepath = str(target)
    # Shared constants would give two layers' tensors one name, and so one set of quantisation parameters.
    disabled = ["ConstantSharing"] if level == "basic" else []
    with refusing("onnxruntime does not load the model"):
        onnxruntime.InferenceSession(
            str(source), options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
        )


def session_options(threads: int, *, made: Callable[[], Any] | None = None) -> Any:
    """Return settings of onnxruntime for work in a pass. `made` replaces the engine's own class."""
    import onnxruntime

    options = (made or onnxruntime.SessionOptions)()
    options.intra_op_num_threads = max(1, threads)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def _is_typed(model: Any) -> bool:
    known = {info.name for info in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
    return all(name in known for node in model.graph.node for name in node.output if name)


def _infer_symbolically(model: Any) -> Any:
    """Return the shape inference of onnxruntime; None where it fails or sympy, which it needs, is missing."""
    try:
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        return SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    except Exception:  # it raises AssertionError, AttributeError … on graphs that it does not know
        return None


def _name_rest(model: Any) -> None:
    """Names for the nodes that the optimiser added without one."""
    names = {node.name for node in model.graph.node}
    for node in model.graph.node:
        if not node.name:
            node.name = f"{node.op_type} of {next(filter(None, node.output), '')}"
            while node.name in names:
                node.name += "'"
            names.add(node.name)


def _flatten_biases(model: Any) -> None:
    """Give Gemm nodes a bias of one dimension in place of one row of a matrix; the quantiser fails on a row."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        bias = constants.get(node.input[2]) if node.op_type == "Gemm" and len(node.input) > 2 else None
        if bias is None or len(bias.dims) != 2 or bias.dims[0] != 1 or bias.dims[1] == 1:
            continue
        name = f"{bias.name} flat"
        if name not in constants:
            constants[name] = type(bias)()
            constants[name].CopyFrom(bias)
            constants[name].name = name
            del constants[name].dims[0]
            model.graph.initializer.append(constants[name])
        node.input[2] = name


def find_stem(graph: Graph, *, most: int = FEW_CHANNELS) -> list[str]:
    """Names of ungrouped convolutions with at most `most` channels that take an input of the network."""
    stem = []
    for operator in graph.operators:
        if operator.op == "Conv" and operator.inputs[0] in graph.inputs and operator.weights:
            channels = (graph.tensors[operator.weights[0]].shape or ())[1:2]
            is_narrow = all(isinstance(count, int) and count <= most for count in channels)
            if channels and is_narrow and operator.attributes.get("group", 1) == 1:
                stem.append(operator.name)
    return stem


def find_clamps(model: Any, names: list[str]) -> list[str]:
    """Names of the Relu and Clip nodes that alone read an output of the nodes called `names`; engines merge the two."""
    takers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            takers.setdefault(name, []).append(node)
    makers = [node for node in model.graph.node if node.name in set(names)]
    alone = [takers[output][0] for node in makers for output in node.output if len(takers.get(output, ())) == 1]
    return [node.name for node in alone if node.op_type in ("Relu", "Clip")]


def describe_quantized(model: Any, *, before: Any, heavy: tuple[str, ...]) -> str:
    """How many of the heavy nodes of `before` are quantised now, in words."""
    counts = count_nodes(before)
    total = {op: counts[op] for op in heavy if counts[op]}
    return f"{count_quantized(model, heavy)} of {sum(total.values())} heavy operators quantised ({', '.join(total)})"


def count_quantized(model: Any, heavy: tuple[str, ...]) -> int:
    """How many of the heavy nodes have quantised weights (of products of two activations: both are quantised)."""
    dequantized = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    return sum(node.op_type in heavy and node.input[1] in dequantized for node in model.graph.node)


def find_origins(before: Any, after: Any) -> dict[str, frozenset[str]]:
    """Name of a node of `after` → names of the nodes of `before` that it replaces; none where it is new.

    Optimisers rename nodes and keep tensors: a fused node makes the last tensor of the nodes that it replaces and takes
    the first ones.

    Args:
        before, after: ``onnx.ModelProto``; every node has a unique name.
    """
    makers = {output: node for node in before.graph.node for output in node.output if output}
    known = {output for node in after.graph.node for output in node.output if output}
    return {node.name: _covered(node, makers, known) for node in after.graph.node}


def _covered(node: Any, makers: dict[str, Any], known: set[str]) -> frozenset[str]:
    """Nodes between the outputs of `node` and the tensors that other nodes make now (`known`, with its own ones)."""
    own = set(node.output)
    found: set[str] = set()
    wanted = [output for output in node.output if output in makers]
    while wanted:
        maker = makers[wanted.pop()]
        if maker.name not in found:
            found.add(maker.name)
            wanted += [name for name in maker.input if name in makers and (name not in known or name in own)]
    return frozenset(found)
