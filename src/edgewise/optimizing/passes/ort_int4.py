"""4-bit weights in blocks for products of matrices, as onnxruntime's MatMulNBits computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.onnx_files import count_nodes, load_model, raise_opset, save_model
from edgewise.packages import versions_of

_NONE = "it has no MatMul with a constant matrix, the only operator with 4-bit weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Settings(PassSettings):
    """Settings of ort-int4.

    Attributes:
        block_size: number of weights that share a scale: a power of two, at least 16.
        symmetric: no zero points.
        accuracy_level: of onnxruntime's kernel: 1 computes in float32, 4 in int8.
    """

    block_size: int = 32
    symmetric: bool = True
    accuracy_level: Literal[1, 4] = 4


class OrtInt4(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.quantization.matmul_nbits_quantizer``."""

    name = "ort-int4"
    title = "onnxruntime 4-bit weights"
    capabilities = Capabilities(
        kind="compression",
        reads=("onnx",),
        writes="onnx",
        keeps_float=True,
        runtimes=("onnxruntime",),
        distributions=("onnxruntime", "onnx-ir"),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Blocks of 32, computed in int8; then with zero points and in float32. None without a MatMul."""
        if facts.quantized or not any(each.op == "MatMul" and each.weights for each in facts.graph.operators):
            return ()
        return (
            Recipe(settings=Int4Settings(), rank=1),
            Recipe(label="asymmetric", settings=Int4Settings(symmetric=False), rank=2),
            Recipe(label="float32 arithmetic", settings=Int4Settings(accuracy_level=1), rank=2),
        )

    def apply(self, task: PassTask[Int4Settings]) -> PassResult:
        """Quantise. Raises `CannotApply` for a model without a MatMul with a constant matrix."""
        model = raise_opset(load_model(task.model))
        weights = {tensor.name for tensor in model.graph.initializer}
        products = [node.name for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
        kept = sorted(name for name in products if task.spares(name))
        if len(kept) == len(products):
            raise CannotApply(_NONE)
        quantized = _quantize(model, task.settings, [*kept, *task.keep_float])
        count = count_nodes(quantized)["MatMulNBits"]
        if not count:
            raise CannotApply(_NONE)
        return PassResult(
            model=save_model(quantized, task.folder / "model.onnx"),
            notes=(f"{count} of {len(products)} MatMul with constant matrices have 4-bit weights",),
            versions=versions_of("onnxruntime", "onnx", "onnx-ir"),
        )


def _quantize(model: Any, settings: Int4Settings, kept: list[str]) -> Any:
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    config = DefaultWeightOnlyQuantConfig(
        block_size=settings.block_size,
        is_symmetric=settings.symmetric,
        accuracy_level=settings.accuracy_level,
        op_types_to_quantize=("MatMul",),
    )
    quantizer = MatMulNBitsQuantizer(model, nodes_to_exclude=kept, algo_config=config)
    quantizer.process()
    return quantizer.model.model
