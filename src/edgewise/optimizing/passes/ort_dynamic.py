"""Dynamic 8-bit quantisation by onnxruntime: 8-bit weights; every inference quantises the activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.onnx_files import count_nodes, load_model
from edgewise.optimizing.passes.ort_preparation import prepare
from edgewise.optimizing.processor import sums_saturate
from edgewise.packages import versions_of

_INTEGER = ("ConvInteger", "MatMulInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QAttention")
_MATRIX_PRODUCTS = ("MatMul", "Gemm", "LSTM", "Attention")
_FEW = 3
"""Most products of matrices in a classifier behind convolutions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSettings(PassSettings):
    """Settings of ort-dynamic.

    Attributes:
        operators: ``all`` of onnxruntime's default, with convolutions, or ``matmul``: products of matrices only.
        weights: type of the weights. onnxruntime's ConvInteger has a kernel for uint8 weights only.
        per_channel: a scale for every output channel of the weights.
        reduce_range: 7-bit weights, for processors whose 8-bit sums saturate.
    """

    operators: Literal["all", "matmul"] = "all"
    weights: Literal["uint8", "int8"] = "uint8"
    per_channel: bool = False
    reduce_range: bool = False


class OrtDynamic(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.quantization.quantize_dynamic``."""

    name = "ort-dynamic"
    title = "onnxruntime dynamic int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("onnx",),
        writes="onnx",
        arithmetic="int8-dynamic",
        keeps_float=True,
        distributions=("onnxruntime",),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Return the default with weights for which the engine has kernels, and products of matrices alone.

        The latter come first in networks without convolutions, such as transformers: convolutions become slower, and
        int8 weights multiply faster than uint8.
        """
        ops = {operator.op for operator in facts.graph.operators if operator.weights}
        if facts.quantized or not ops & {"Conv", *_MATRIX_PRODUCTS}:
            return ()
        base = DynamicSettings(weights="uint8" if "Conv" in ops else "int8", reduce_range=sums_saturate())
        found = [Recipe(settings=base)]
        if ops & set(_MATRIX_PRODUCTS):
            few = sum(each.op in _MATRIX_PRODUCTS and bool(each.weights) for each in facts.graph.operators) <= _FEW
            rank = 2 if "Conv" not in ops else 1 if few else 0
            products = replace(base, operators="matmul", weights="int8")
            found += [
                Recipe(label="matmul", settings=products, rank=rank),
                Recipe(label="matmul per-channel", settings=replace(products, per_channel=True), rank=1),
            ]
        return tuple(sorted(found, key=lambda recipe: recipe.rank))

    def apply(self, task: PassTask[DynamicSettings]) -> PassResult:
        """Quantise. Raises `CannotApply` where the model has nothing to quantise."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = task.folder / "model.onnx"
        settings = task.settings
        with prepare(task) as prepared:
            kept, only = _split(prepared.named(task.keep_float)), _split(prepared.only(task))
            quantize_dynamic(
                _forget_shapes(prepared.path),
                path,
                op_types_to_quantize=list(_MATRIX_PRODUCTS) if settings.operators == "matmul" else None,
                per_channel=settings.per_channel,
                reduce_range=settings.reduce_range,
                weight_type={"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}[settings.weights],
                nodes_to_quantize=only,
                nodes_to_exclude=kept,
            )
            note = prepared.note
        counts = count_nodes(load_model(path))
        found = {op: counts[op] for op in _INTEGER if counts[op]}
        if not found:
            path.unlink()
            raise CannotApply("it has no operator that onnxruntime can quantise dynamically")
        changed = ", ".join(f"{count} {op}" for op, count in found.items())
        return PassResult(
            model=path,
            notes=tuple(filter(None, (f"quantised operators: {changed}", note))),
            versions=versions_of("onnxruntime", "onnx"),
        )


def _forget_shapes(path: Path) -> Path:
    """Write the model without the inferred shapes of its constants beside it. Returns the new path.

    The quantiser transposes weights of Gemm and fails if the model states their former shapes.
    """
    import onnx

    model = onnx.load(path)
    constants = {constant.name for constant in model.graph.initializer}
    kept = [info for info in model.graph.value_info if info.name not in constants]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    bare = path.with_name("bare.onnx")
    onnx.save(model, bare)
    return bare


def _split(names: Sequence[str]) -> list[str]:
    """`names`, and the names of the MatMul nodes into which the quantiser first turns Gemm nodes."""
    return [*names, *(f"{name}_MatMul" for name in names)]
