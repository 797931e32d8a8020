"""Magnitude pruning of ONNX models: the smallest weights become zero.

Unstructured: a share of all weights, or of every layer's. N:M: of every M neighbours along the input dimension the N
largest stay, as sparse matrix units require. The file keeps its size and its dense form; zeros help where files are
compressed or kernels are sparse.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgewise.model.readers.onnx import OnnxReader
from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.onnx_files import NATIVE, load_model, save_model
from edgewise.packages import versions_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PRUNED = frozenset({"Conv", "Gemm", "MatMul"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSettings(PassSettings):
    """Settings of onnx-prune.

    Attributes:
        sparsity: share of the weights that become zero, between 0 and 1.
        scope: of the share: ``global``, all layers together, or ``layer``, each alone.
        pattern: ``N:M`` instead of a share: of M neighbours along the input dimension, N stay.
    """

    sparsity: float = 0.5
    scope: Literal["global", "layer"] = "global"
    pattern: str = ""


class OnnxPrune(Packaged):
    """Sets the smallest weights of Conv, Gemm and MatMul to zero, but no biases and normalisations."""

    name = "onnx-prune"
    title = "ONNX magnitude pruning"
    capabilities = Capabilities(
        kind="pruning", reads=("onnx",), writes="onnx", keeps_float=True, distributions=("onnx",)
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """None is tried first: without sparse kernels nothing gets faster, and small networks tolerate 30 % at most."""
        operators = facts.graph.operators
        if facts.quantized or not any(operator.op in PRUNED and operator.weights for operator in operators):
            return ()
        return (
            Recipe(label="30 %", settings=PruneSettings(sparsity=0.3), rank=1),
            Recipe(label="50 %", settings=PruneSettings(sparsity=0.5), rank=1),
            Recipe(label="2:4", settings=PruneSettings(pattern="2:4"), rank=1),
            Recipe(label="70 %", settings=PruneSettings(sparsity=0.7), rank=2),
            Recipe(label="90 %", settings=PruneSettings(sparsity=0.9), rank=2),
            Recipe(label="50 % of every layer", settings=PruneSettings(sparsity=0.5, scope="layer"), rank=2),
            Recipe(label="1:4", settings=PruneSettings(pattern="1:4"), rank=2),
        )

    def apply(self, task: PassTask[PruneSettings]) -> PassResult:
        """Prune. Raises `CannotApply` if there is nothing to prune."""
        from onnx import numpy_helper

        source = Path(task.model)
        model = load_model(source)
        weights, notes = _choose(model, task)
        if task.settings.pattern:
            keep, of = map(int, task.settings.pattern.split(":"))
            fitting = [each for each in weights if each.array.shape[each.axis] % of == 0]
            if len(fitting) < len(weights):
                notes.append(
                    f"layers left alone because their input dimension is not a multiple of {of}: "
                    f"{len(weights) - len(fitting)}"
                )
            weights = fitting
            masks = [mask_pattern(each.array, keep, of, axis=each.axis) for each in weights]
        else:
            masks = _mask_shares(weights, task.settings)
        if not weights:
            raise CannotApply("; ".join(["nothing is left to prune", *notes]))
        for weight, mask in zip(weights, masks, strict=True):
            pruned = (weight.array * mask).astype(weight.array.dtype)
            weight.tensor.CopyFrom(numpy_helper.from_array(pruned, weight.tensor.name))
        path = save_model(model, task.folder / source.name)
        zeros = sum(int((~mask | (each.array == 0)).sum()) for each, mask in zip(weights, masks, strict=True))
        total = sum(mask.size for mask in masks)
        notes = [
            f"{zeros} of {total} weights of {len(weights)} layers are zero ({100 * zeros / total:.1f} %)",
            f"compressed by gzip: {_compressed(source)} bytes before, {_compressed(path)} bytes after",
            "the file is not smaller, and dense kernels compute zeros like any number",
            *notes,
        ]
        return PassResult(model=path, notes=tuple(notes), versions=versions_of("onnx", "numpy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weight:
    """A weight that can be pruned.

    Attributes:
        tensor: the ``onnx.TensorProto`` that holds it.
        axis: its input dimension.
    """

    tensor: Any
    array: Array
    axis: int


def _choose(model: Any, task: PassTask[PruneSettings]) -> tuple[list[_Weight], list[str]]:
    """Weights to prune, and notes on weights left alone.

    A weight that several operators share is pruned only if all of them may change.
    """
    from onnx import TensorProto, numpy_helper

    names = {node.name for node in model.graph.node}
    if unknown := [name for name in (*task.keep_float, *task.only) if name not in names]:
        raise CannotApply(f"the model has no operator called {', '.join(unknown[:3])}")
    floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
    constants = _constants(model.graph)
    uses = Counter(_taken(model.graph))
    chosen: dict[str, tuple[int, int]] = {}
    for node in model.graph.node:
        found = _find_weight(node, constants)
        if found is None or task.spares(node.name) or constants[found[0]].data_type not in floats:
            continue
        name, axis = found
        _, count = chosen.get(name, (axis, 0))
        chosen[name] = axis, count + 1
    if not chosen:
        raise CannotApply("it has no float weights of Conv, Gemm or MatMul that may be pruned")
    own = [name for name, (_, count) in chosen.items() if count == uses[name]]
    notes = []
    if len(own) < len(chosen):
        notes.append(f"weights left alone because other operators share them: {len(chosen) - len(own)}")
    weights = [
        _Weight(tensor=constants[name], array=numpy_helper.to_array(constants[name]), axis=chosen[name][0])
        for name in own
    ]
    return [weight for weight in weights if weight.array.size], notes


def _constants(graph: Any) -> dict[str, Any]:
    """Name → ``TensorProto`` of the constants of the main graph."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in NATIVE:
            values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
            found.update((node.output[0], value) for value in values)
    return found


def _taken(graph: Any) -> Iterator[str]:
    """Every use of a tensor, also in branches and loop bodies."""
    yield from (output.name for output in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _taken(inner)


def _find_weight(node: Any, constants: dict[str, Any]) -> tuple[str, int] | None:
    """Name and input dimension of the node's weight; None where it has none."""
    if node.op_type not in PRUNED or node.domain not in NATIVE or len(node.input) < 2:
        return None
    left, right = node.input[:2]
    ranks = {name: len(constants[name].dims) for name in (left, right) if name in constants}
    if node.op_type == "Gemm":
        flags = {attribute.name: attribute.i for attribute in node.attribute}
        return (right, 1 if flags.get("transB") else 0) if right in ranks else None
    if ranks.get(right, 0) >= 2:
        return right, 1 if node.op_type == "Conv" else ranks[right] - 2
    if node.op_type == "MatMul" and ranks.get(left, 0) >= 2 and right not in ranks:
        return left, ranks[left] - 1
    return None


def _mask_shares(weights: Sequence[_Weight], settings: PruneSettings) -> list[Array]:
    """Per weight, the mask of the elements that stay, for unstructured pruning."""
    import numpy as np

    sparsity = settings.sparsity
    if settings.scope == "layer":
        return [mask_share(weight.array, sparsity) for weight in weights]
    if not weights:
        return []
    mask = mask_share(np.concatenate([weight.array.ravel() for weight in weights]), sparsity)
    ends = np.cumsum([weight.array.size for weight in weights])[:-1]
    parts = np.split(mask, ends)
    return [part.reshape(weight.array.shape) for weight, part in zip(weights, parts, strict=True)]


def mask_share(array: Array, sparsity: float) -> Array:
    """The mask of the elements that stay (bool, of the array's shape) without the smallest ``round(sparsity × size)``.

    Of equal magnitudes, the first are removed.
    """
    import numpy as np

    count = round(sparsity * array.size)
    order = np.argsort(np.abs(array), axis=None, kind="stable")
    mask = np.ones(array.size, dtype=bool)
    mask[order[:count]] = False
    return mask.reshape(array.shape)


def mask_pattern(array: Array, keep: int, of: int, *, axis: int) -> Array:
    """The mask of the elements that stay (bool, of the array's shape): the `keep` largest of `of` neighbours on `axis`.

    Of equal magnitudes, the last stay. Raises ValueError if `of` does not divide the axis.
    """
    import numpy as np

    if array.shape[axis] % of:
        raise ValueError(f"{array.shape[axis]} is no multiple of {of}")
    moved = np.moveaxis(array, axis, -1)
    groups = np.abs(moved).reshape(-1, of)
    order = np.argsort(groups, axis=1, kind="stable")
    mask = np.ones(groups.shape, dtype=bool)
    np.put_along_axis(mask, order[:, : of - keep], values=False, axis=1)
    return np.moveaxis(mask.reshape(moved.shape), -1, axis)


def _compressed(path: Path) -> int:
    """Bytes of a model with its weight files after deflate, which gzip uses, at its usual level."""
    return sum(len(zlib.compress(file.read_bytes())) for file in (path, *OnnxReader().weight_files(path)))
