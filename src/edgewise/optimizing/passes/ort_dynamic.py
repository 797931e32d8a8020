"""Dynamic 8-bit quantisation by onnxruntime: int8 weights, activations quantised anew in every inference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work
from edgewise.optimizing.passes.saturation import sums_saturate

_INTEGER = ("ConvInteger", "MatMulInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QAttention")
_MATRIX_PRODUCTS = ("MatMul", "Gemm", "LSTM", "Attention")
_FEW = 3
"""A classifier at the end of convolutions has so many of them at most."""


class OrtDynamic(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.quantization.quantize_dynamic``.

    Settings:
        operators: ``all`` that it quantises by default, convolutions among them, or ``matmul``: products of matrices.
        weights: ``int8`` or ``uint8``. onnxruntime's ConvInteger has a kernel for uint8 weights only.
        per_channel: a scale for every output channel of the weights.
        reduce_range: 7-bit weights, for processors whose 8-bit sums saturate.
    """

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
        """The library's default with weights its engine has kernels for; products of matrices alone beside it.

        These come first where a network is made of them, as transformers are: a convolution loses by it, and int8
        weights multiply faster than uint8.
        """
        ops = {operator.op for operator in facts.graph.operators if operator.weights}
        if facts.quantized or not ops & {"Conv", *_MATRIX_PRODUCTS}:
            return ()
        base = {"per_channel": False, "reduce_range": sums_saturate()}
        weights = "uint8" if "Conv" in ops else "int8"
        found = [Recipe(settings={**base, "operators": "all", "weights": weights})]
        if ops & set(_MATRIX_PRODUCTS):
            few = sum(each.op in _MATRIX_PRODUCTS and bool(each.weights) for each in facts.graph.operators) <= _FEW
            rank = 2 if "Conv" not in ops else 1 if few else 0
            found += [
                Recipe(label="matmul", settings={**base, "operators": "matmul", "weights": "int8"}, rank=rank),
                Recipe(
                    label="matmul per-channel",
                    settings={**base, "operators": "matmul", "weights": "int8", "per_channel": True},
                    rank=1,
                ),
            ]
        return tuple(sorted(found, key=lambda recipe: recipe.rank))

    def apply(self, work: Work) -> Product:
        """Quantise. Raises `CannotApply` where the model has nothing to quantise."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        from edgewise.optimizing.passes.onnx_files import count_nodes, load_model, versions_of
        from edgewise.optimizing.passes.ort_preparation import prepare

        path = work.folder / "model.onnx"
        settings: dict[str, Any] = {"operators": "all", "weights": "uint8", "per_channel": False, "reduce_range": False}
        settings |= dict(work.settings)
        with prepare(work) as prepared:
            kept, only = (_split(prepared.named(names)) for names in (work.keep_float, work.only))
            if work.only and not only:
                raise CannotApply("none of the named layers is left after folding")
            quantize_dynamic(
                _forget_shapes(prepared.path),
                path,
                op_types_to_quantize=list(_MATRIX_PRODUCTS) if settings["operators"] == "matmul" else None,
                per_channel=settings["per_channel"],
                reduce_range=settings["reduce_range"],
                weight_type={"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}[settings["weights"]],
                nodes_to_quantize=only,
                nodes_to_exclude=kept,
            )
            note = prepared.note
        counts = count_nodes(load_model(path))
        found = {op: counts[op] for op in _INTEGER if counts[op]}
        if not found:
            path.unlink()
            raise CannotApply("it has no operator that onnxruntime quantises dynamically")
        changed = ", ".join(f"{count} {op}" for op, count in found.items())
        return Product(
            model=path,
            notes=tuple(filter(None, (f"quantised operators: {changed}", note))),
            versions=versions_of("onnxruntime", "onnx"),
        )


def _forget_shapes(path: Path) -> Path:
    """The model beside it without the shapes that were inferred of its constants.

    The quantiser transposes weights of Gemm, and then trips over the shapes that they had.
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
    """`names`, and those of the MatMul nodes that the quantiser makes of Gemm nodes before it looks at any name."""
    return [*names, *(f"{name}_MatMul" for name in names)]
