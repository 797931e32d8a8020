"""Shared by the passes of NNCF: models of both formats, samples, and the layers to leave alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.model.graph import Graph
from edgewise.model.identity import read_graph
from edgewise.optimizing.base import PassResult, PassTask
from edgewise.optimizing.calibration import Calibration
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.onnx_files import save_model
from edgewise.optimizing.passes.openvino_tools import HEAVY, hidden_biases, import_nncf, read_model
from edgewise.optimizing.passes.openvino_tools import save_model as save_openvino
from edgewise.optimizing.passes.ort_calibration import model_inputs
from edgewise.optimizing.passes.ort_preparation import count_quantized, find_stem, prepare
from edgewise.optimizing.passes.qdq_float_layers import protect_float_layers
from edgewise.optimizing.passes.qdq_types import fit_for_onnxruntime
from edgewise.packages import versions_of

_SCALING = ("Convert", "Multiply", "Subtract", "Reshape", "Transpose", "Squeeze", "Unsqueeze")
_ATTENTION = frozenset({"Softmax", "SoftMax", "ScaledDotProductAttention", "Attention", "MultiHeadAttention"})
HEAVY_ONNX = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True, kw_only=True)
class NncfModel:
    """A model for NNCF.

    Attributes:
        model: an ``onnx.ModelProto`` or an ``openvino.Model``.
        inputs: names of the inputs; of an OpenVINO model, their places.
        kept: names of the nodes to leave alone.
        heavy: number of nodes worth quantising.
        file: of an ONNX model.
        note: on the preparation; may be empty.
    """

    format: str
    model: Any
    inputs: tuple[str | int, ...]
    kept: tuple[str, ...]
    heavy: int
    file: Path | None = None
    note: str = ""

    def parameters(self, *, correct_biases: bool = True) -> Any:
        """NNCF's advanced settings. ONNX: one scale per activation, since onnxruntime has no kernels for more."""
        import_nncf()
        from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, QuantizationParameters

        skipped = {} if correct_biases else {"disable_bias_correction": True}
        if self.format != "onnx":
            return AdvancedQuantizationParameters(**skipped)
        per_tensor = QuantizationParameters(per_channel=False)
        return AdvancedQuantizationParameters(activations_quantization_params=per_tensor, **skipped)

    def deliver(self, model: Any, folder: Path, *, nothing: str, notes: tuple[str, ...] = ()) -> PassResult:
        """Fit the quantised `model` for its engines and write it. Raises `CannotApply(nothing)` if nothing changed."""
        count = self.quantized(model)
        if not count:
            raise CannotApply(nothing)
        fitted = ""
        if self.format == "onnx":
            fitted = fit_for_onnxruntime(model)
            protect_float_layers(model)
        lines = (f"{count} of {self.heavy} heavy operators quantised", *notes, fitted, self.note)
        return PassResult(model=self.save(model, folder), notes=tuple(filter(None, lines)), versions=self.versions())

    def save(self, model: Any, folder: Path) -> Path:
        """Write `model` to `folder`."""
        if self.format == "onnx":
            return save_model(model, folder / "model.onnx")
        return save_openvino(model, folder / "model.xml")

    def quantized(self, model: Any) -> int:
        """Return number of heavy nodes of `model` with quantised weights."""
        if self.format == "onnx":
            return count_quantized(model, HEAVY_ONNX)
        return sum(operation.get_type_name() in HEAVY and _is_quantized(operation) for operation in model.get_ops())

    def versions(self) -> dict[str, str]:
        """Distribution → version."""
        return versions_of("nncf", "onnxruntime", "onnx") if self.format == "onnx" else versions_of("nncf", "openvino")


def _is_quantized(operation: Any) -> bool:
    """Whether its weights come from integers or a FakeQuantize, through steps that only scale or move them."""
    node = operation.input_value(1).get_node()
    while node.get_type_name() in _SCALING:
        node = node.input_value(0).get_node()
    if node.get_type_name() == "Constant":
        return node.get_element_type().get_type_name() in ("i8", "u8")
    return bool(node.get_type_name() == "FakeQuantize")


@contextmanager
def open_model(task: PassTask[Any]) -> Iterator[NncfModel]:
    """Yield the model of `task` for NNCF; ONNX is folded first. Raises `CannotApply` where the engine can't read it."""
    if task.format == "openvino":
        yield _open_openvino(task)
        return
    with prepare(task) as prepared:
        names = tuple(node.name for node in prepared.model.graph.node)
        yield NncfModel(
            format="onnx",
            model=prepared.model,
            inputs=tuple(model_inputs(prepared.model)),
            kept=_kept(names, prepared.named(task.keep_float), prepared.named(task.only) if task.only else None),
            heavy=sum(node.op_type in HEAVY_ONNX for node in prepared.model.graph.node),
            file=prepared.path,
            note=prepared.note,
        )


def _open_openvino(task: PassTask[Any]) -> NncfModel:
    model = read_model(task.model)
    names = tuple(operation.get_friendly_name() for operation in model.get_ordered_ops())
    hidden = hidden_biases(model)
    only = [name for name in task.only if name in names] if task.only else None
    return NncfModel(
        format="openvino",
        model=model,
        inputs=tuple(range(len(model.inputs))),
        kept=_kept(names, [name for name in task.keep_float if name in names], only),
        heavy=sum(operation.get_type_name() in HEAVY for operation in model.get_ops()),
        note=f"{hidden} biases are not constants, so NNCF can't correct them" if hidden else "",
    )


def _kept(names: Sequence[str], spared: Sequence[str], only: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the nodes to leave alone: `spared`, and all but `only`. Raises `CannotApply` for an empty `only`."""
    if only is not None and not only:
        raise CannotApply("none of the named layers is in the model")
    return tuple(sorted({*spared, *(() if only is None else set(names) - set(only))}))


def make_dataset(opened: NncfModel, calibration: Calibration, *, labels: bool = False) -> Any:
    """Return an ``nncf.Dataset`` that yields one sample at a time; `labels`: with its label, which is not fed."""
    nncf = import_nncf()
    feeds = [dict(zip(opened.inputs, feed, strict=True)) for feed in calibration.feeds()]
    if not labels or calibration.labels is None:
        return nncf.Dataset(feeds)
    return nncf.Dataset(list(zip(feeds, calibration.labels.tolist(), strict=True)), lambda item: item[0])


def make_scope(opened: NncfModel, *, float_stem: bool = False) -> Any:
    """Return the nodes that NNCF leaves alone; None for none."""
    kept = {*opened.kept, *(find_stem(read_graph(opened.file)) if float_stem and opened.file else ())}
    if not kept:
        return None
    # The names include constants and other nodes that NNCF's own graph lacks.
    return import_nncf().IgnoredScope(names=sorted(kept), validate=False)


def attends(graph: Graph) -> bool:
    """Whether the network has attention: by an operator's name, or a softmax before its end."""
    return any(operator.op in _ATTENTION for operator in graph.operators[:-2])


def worth_quantizing(graph: Graph) -> bool:
    """Whether an operator with weights is one that NNCF quantises."""
    heavy = {*HEAVY_ONNX, *HEAVY}
    return any(operator.op in heavy and operator.weights for operator in graph.operators)
