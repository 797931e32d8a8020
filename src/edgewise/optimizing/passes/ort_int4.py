"""4-bit weights in blocks for products of matrices, as onnxruntime's MatMulNBits computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work

_NONE = "it has no MatMul with a constant matrix, the only operator that takes 4-bit weights"


class OrtInt4(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.quantization.matmul_nbits_quantizer``.

    Settings:
        block_size: weights that share a scale: a power of two from 16 on.
        symmetric: no zero points.
        accuracy_level: of onnxruntime's kernel: 1 computes in float32, 4 in int8.
    """

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
        base = {"block_size": 32, "symmetric": True, "accuracy_level": 4}
        return (
            Recipe(settings=base, rank=1),
            Recipe(label="asymmetric", settings={**base, "symmetric": False}, rank=2),
            Recipe(label="float32 arithmetic", settings={**base, "accuracy_level": 1}, rank=2),
        )

    def apply(self, work: Work) -> Product:
        """Quantise. Raises `CannotApply` for a model without a MatMul with a constant matrix."""
        from edgewise.optimizing.passes.onnx_files import count_nodes, load_model, raise_opset, save_model, versions_of

        model = raise_opset(load_model(work.model))
        weights = {tensor.name for tensor in model.graph.initializer}
        products = [node.name for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
        kept = set(work.keep_float) | (set(products) - set(work.only) if work.only else set())
        if not set(products) - kept:
            raise CannotApply(_NONE)
        quantized = _quantize(model, work, sorted(kept))
        count = count_nodes(quantized)["MatMulNBits"]
        if not count:
            raise CannotApply(_NONE)
        return Product(
            model=save_model(quantized, work.folder / "model.onnx"),
            notes=(f"{count} of {len(products)} MatMul with constant matrices have 4-bit weights",),
            versions=versions_of("onnxruntime", "onnx", "onnx-ir"),
        )


def _quantize(model: Any, work: Work, kept: list[str]) -> Any:
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    config = DefaultWeightOnlyQuantConfig(
        block_size=int(work.settings.get("block_size", 32)),
        is_symmetric=bool(work.settings.get("symmetric", True)),
        accuracy_level=int(work.settings.get("accuracy_level", 4)),
        op_types_to_quantize=("MatMul",),
    )
    quantizer = MatMulNBitsQuantizer(model, nodes_to_exclude=kept, algo_config=config)
    quantizer.process()
    return quantizer.model.model
