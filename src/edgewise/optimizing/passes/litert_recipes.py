"""Shared by the passes on TFLite: rules for ai-edge-quantizer, ranges of activations, and the result's notes."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.model.graph import Graph, Operator
from edgewise.model.readers.tflite import TfliteReader
from edgewise.model.signature import shapes_fit
from edgewise.optimizing.base import PassResult, PassTask
from edgewise.optimizing.calibration import Calibration
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.litert_files import ENTRY, FloatModel, OperatorAddress, finish, read_float_model
from edgewise.packages import versions_of
from edgewise.text import first_line

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

DISTRIBUTIONS = ("ai-edge-quantizer", "ai-edge-litert")
WEIGHTED = frozenset(
    {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "TRANSPOSE_CONV", "EMBEDDING_LOOKUP"}
)
"""Operators whose weights the quantizer supports."""
FOUR_BIT = frozenset({"CONV_2D", "FULLY_CONNECTED", "EMBEDDING_LOOKUP"})
"""Operators whose weights may have four bits."""
_INTEGERS = frozenset({"int2", "int4", "int8", "int16", "uint8"})
_BORDERS = frozenset({"QUANTIZE", "DEQUANTIZE"})

AddRule = Callable[[Any, str, Any], None]
"""Adds a rule to a quantizer, for operators of a type whose scope matches a pattern."""


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the quantizer's warnings about its own use of LiteRT."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def has_weights(graph: Graph, ops: frozenset[str] = WEIGHTED) -> bool:
    """Whether any operator of these types has weights."""
    return any(operator.op in ops and operator.weights for operator in graph.operators)


def apply_rule(task: PassTask[Any], add_rule: AddRule, *, words: str) -> PassResult:
    """Store weights in fewer bits by one rule, without samples. Raises `CannotApply` for a quantised model."""
    with quiet():
        model = read_float_model(Path(task.model))
        content = quantize(build_quantizer(model, task, add_rule))
        return deliver(content, model, task, words=words, is_changed=has_small_weights)


def build_quantizer(model: FloatModel, task: PassTask[Any], add_rule: AddRule) -> Any:
    """Return a quantizer with the rules of `task`.

    Args:
        add_rule: adds the rule for the operators to change.

    Raises:
        CannotApply: `task` names operators that the model does not have, or only operators that can't be changed.
    """
    from ai_edge_quantizer.quantizer import Quantizer

    quantizer = Quantizer(model.content)
    if not task.only:
        add_rule(quantizer, ".*", "*")
    elif not sum(_try_rule(add_rule, quantizer, address) for address in find(model, task.only)):
        raise CannotApply(f"none of the operators to change can be: {_shorten(task.only)}")
    spare(quantizer, find(model, task.keep_float))
    return quantizer


def _try_rule(add_rule: AddRule, quantizer: Any, address: OperatorAddress) -> bool:
    """Add the rule; False if the quantizer does not support it for operators of this type."""
    try:
        add_rule(quantizer, _exactly(address.scope), address.kind)
    except ValueError:
        return False
    return True


def spare(quantizer: Any, addresses: Iterable[OperatorAddress]) -> None:
    """Leave these operators in float."""
    from ai_edge_quantizer.quantizer import AlgorithmName

    for each in addresses:
        if each.kind is not None:
            pattern = _exactly(each.scope)
            quantizer.update_quantization_recipe(pattern, each.kind, algorithm_key=AlgorithmName.NO_QUANTIZE)


def find(model: FloatModel, names: Sequence[str]) -> list[OperatorAddress]:
    """Addresses of the operators called `names` that the quantizer supports, each once."""
    known = {operator.name for operator in model.graph.operators}
    if unknown := [name for name in names if name not in known]:
        raise CannotApply(f"the model has no operator called {_shorten(unknown)}")
    found = dict.fromkeys(model.operators[name] for name in names if name in model.operators)
    return [address for address in found if address.kind is not None]


def _exactly(scope: str) -> str:
    return rf"\A{re.escape(scope)}\Z"


def _shorten(names: Sequence[str], limit: int = 3) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(name if len(name) <= 120 else f"{name[:119]}…" for name in names[:limit]) + more


def collect_ranges(quantizer: Any, model: FloatModel, calibration: Calibration, *, method: str, threads: int) -> Any:
    """Tensor → the range of its values over all samples, for the quantizer.

    Args:
        method: ``minmax``: the widest range; ``moving-average``: of the samples' ranges, the quantizer's default.

    Raises:
        CannotApply: the samples don't fit, the model can't be run or gives values that are not finite, or there is
            nothing to quantise.
    """
    import numpy as np
    from ai_edge_quantizer.calibrator import Calibrator
    from ai_edge_quantizer.recipe_manager import RecipeManager
    from ai_edge_quantizer.utils.qsv_utils import min_max_update

    feeds = list(_feeds(model.graph, calibration))
    rules = RecipeManager()
    rules.load_quantization_recipe(quantizer.get_quantization_recipe())
    update = {"qsv_update_func": min_max_update} if method == "minmax" else {}
    try:
        calibrator = Calibrator(model.content, num_threads=threads, **update)
    except (ValueError, RuntimeError) as error:
        raise CannotApply(f"LiteRT can't run the float model: {first_line(error, 300)}") from error
    calibrator.calibrate({ENTRY: feeds}, rules)
    ranges = calibrator.get_model_qsvs()
    if not ranges:
        raise CannotApply("no operator is left to quantise")
    for name, values in ranges.items():
        if not all(np.all(np.isfinite(each)) for each in values.values()):
            raise CannotApply(f"on the calibration samples, tensor {_shorten([name])} has values that are not finite")
    return ranges


def _feeds(graph: Graph, calibration: Calibration) -> Iterator[dict[str, Array]]:
    """Inference after inference: the entry point's input names → arrays."""
    import numpy as np

    tensors = [graph.tensors[name] for name in graph.inputs]
    columns: list[Array] = []
    for tensor, array in zip(tensors, calibration.arrays, strict=True):
        if array.dtype.name != tensor.dtype:
            raise CannotApply(f"calibration samples of input {tensor.name} are {array.dtype}, not {tensor.dtype}")
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise CannotApply(f"calibration samples of input {tensor.name} have values that are not finite")
        columns.append(_per_inference(array, tensor.shape, tensor.name))
    runs = {len(column) for column in columns}
    if len(runs) > 1:
        raise CannotApply("the inputs have different numbers of calibration samples")
    for index in range(runs.pop()):
        yield {f"input_{at}": column[index] for at, column in enumerate(columns)}


def _per_inference(array: Array, shape: tuple[Any, ...] | None, name: str) -> Array:
    """Return the samples along the first axis as inputs of the model's shape along a new first axis.

    With a fixed batch, samples that fill no batch are left out; with fewer samples than a batch, samples are repeated.
    """
    import numpy as np

    shape = array.shape if shape is None else shape
    sample = array.shape[1:]
    if not shape or not shapes_fit(shape[1:], sample):
        wanted = "×".join(str(size) if isinstance(size, int) else "?" for size in shape)
        raise CannotApply(f"a calibration sample of input {name} has shape {(1, *sample)}; the model takes {wanted}")
    batch = shape[0] if shape and isinstance(shape[0], int) else 1
    if len(array) < batch:
        array = np.resize(array, (batch, *sample))
    count = len(array) // batch
    return array[: count * batch].reshape(count, batch, *sample)


def quantize(quantizer: Any, ranges: Any = None) -> bytes:
    """Return the quantizer's result as it is."""
    made = quantizer.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    return bytes(made.quantized_model)


def deliver(
    content: bytes, model: FloatModel, task: PassTask[Any], *, words: str, is_changed: Callable[[Graph, Operator], bool]
) -> PassResult:
    """Write the quantizer's result, with notes on the changed and the unchanged operators."""
    path = finish(content, model, task.folder / f"{Path(task.model).stem}.tflite")
    graph = TfliteReader().read_graph(path)
    operators = [operator for operator in graph.operators if operator.op not in _BORDERS]
    changed = [operator for operator in operators if is_changed(graph, operator)]
    left = Counter(each.op for each in operators if (each.op in WEIGHTED or each.weights) and each not in changed)
    notes = [*model.notes, f"{len(changed)} of {len(operators)} operators {words}"]
    if left:
        kinds = ", ".join(f"{count} {op}" for op, count in left.most_common())
        notes.append(f"operators with weights that stay in float: {kinds}")
    return PassResult(model=path, notes=tuple(notes), versions=versions_of(*DISTRIBUTIONS), unchanged=not changed)


def computes_in_integers(graph: Graph, operator: Operator) -> bool:
    """Whether the first output of an operator is quantised."""
    tensor = next(graph.output_tensors(operator), None)
    return tensor is not None and tensor.dtype in _INTEGERS and tensor.quantization is not None


def has_small_weights(graph: Graph, operator: Operator) -> bool:
    """Whether any of an operator's weights is stored in fewer bits than float32."""
    tensors = [graph.tensors[name] for name in operator.weights]
    return any(
        tensor.dtype in _INTEGERS
        or tensor.dtype == "float16"
        or (tensor.stored_bytes is not None and tensor.stored_bytes < (tensor.size_bytes or 0))
        for tensor in tensors
    )
