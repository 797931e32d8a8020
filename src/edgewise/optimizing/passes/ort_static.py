"""Static 8-bit quantisation by onnxruntime: QuantizeLinear and DequantizeLinear around every operator it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgewise.model.graph import Graph
from edgewise.optimizing.base import (
    CannotApply,
    Capabilities,
    Facts,
    Packaged,
    Product,
    Recipe,
    Work,
)
from edgewise.optimizing.passes.saturation import sums_saturate

if TYPE_CHECKING:
    from edgewise.optimizing.passes.ort_preparation import Prepared

HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
DEFAULTS: Mapping[str, Any] = {
    "method": "minmax",
    "per_channel": True,
    "activations": "uint8",
    "reduce_range": False,
    "float_stem": False,
    "operators": "all",
    "samples": 128,
}
_FEW_CHANNELS = 4
_COLORS = 3


class OrtStatic(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.quantization``.

    Settings:
        method: calibration: ``minmax``, ``entropy`` or ``percentile``.
        per_channel: a scale for every output channel of the weights.
        activations: ``uint8`` (weights are int8 all the same) or ``int8``.
        reduce_range: 7-bit weights, for processors whose 8-bit sums saturate.
        float_stem: leave the first convolution in float where it takes four channels or fewer.
        operators: ``all`` that the quantiser knows, or ``heavy`` ones only.
        samples: to calibrate on, at most.
    """

    name = "ort-static"
    title = "onnxruntime static int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("onnx",),
        writes="onnx",
        arithmetic="int8",
        calibrates=True,
        keeps_float=True,
        distributions=("onnxruntime",),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """The usual one, one with a float stem where there is one, then other calibrations and types."""
        if facts.quantized or not _has_weights(facts.graph):
            return ()
        base = {**DEFAULTS, "reduce_range": sums_saturate()}
        channels = stem_channels(facts.graph)
        # Measured with AVX-512 VNNI: one channel is faster in float, three are as fast or slower.
        stem = {"float_stem": True} if channels and channels < _COLORS else {}
        variants: list[tuple[str, dict[str, Any], int]] = [
            *([("float-stem", stem, 0)] if stem else []),
            ("", {}, 0),
            *([("float-stem", {"float_stem": True}, 1)] if channels and not stem else []),
            ("percentile", {"method": "percentile", **stem}, 1),
            ("entropy", {"method": "entropy", **stem}, 1),
            ("heavy-only", {"operators": "heavy", **stem}, 1),
            ("s8s8", {"activations": "int8", **stem}, 1),
            ("per-tensor", {"per_channel": False, **stem}, 1),
            ("per-tensor percentile", {"per_channel": False, "method": "percentile", **stem}, 2),
            ("per-tensor entropy", {"per_channel": False, "method": "entropy", **stem}, 2),
            ("s8s8 percentile", {"activations": "int8", "method": "percentile", **stem}, 2),
            ("s8s8 entropy", {"activations": "int8", "method": "entropy", **stem}, 2),
            ("s8s8 per-tensor", {"activations": "int8", "per_channel": False, **stem}, 2),
        ]
        return tuple(Recipe(label=label, settings={**base, **more}, rank=rank) for label, more, rank in variants)

    def apply(self, work: Work) -> Product:
        """Fold, calibrate, quantise. Raises `CannotApply` where nothing in the model can be quantised."""
        from edgewise.optimizing.passes.onnx_files import save_model, versions_of
        from edgewise.optimizing.passes.ort_calibration import find_ranges
        from edgewise.optimizing.passes.ort_preparation import describe_quantized, find_stem, prepare
        from edgewise.optimizing.passes.qdq_sparing import protect_float_layers

        settings = {**DEFAULTS, **work.settings}
        with prepare(work) as prepared:
            excluded = prepared.named(work.keep_float)
            excluded += find_stem(prepared.model) if settings["float_stem"] else []
            ranges = find_ranges(prepared, work, method=settings["method"], samples=settings["samples"])
            model = _quantize(prepared, ranges, settings, excluded=excluded, only=_only(prepared, work))
            if not any(node.op_type == "QuantizeLinear" for node in model.graph.node):
                raise CannotApply("onnxruntime found no operator to quantise in it")
            protect_float_layers(model)
            notes = [describe_quantized(model, before=prepared.model, heavy=HEAVY), prepared.note]
            stem = find_stem(prepared.model) if settings["float_stem"] else []
        path = save_model(model, work.folder / "model.onnx")
        notes += [f"kept in float because it takes few channels: {', '.join(stem)}"] if stem else []
        return Product(model=path, notes=tuple(filter(None, notes)), versions=versions_of("onnxruntime", "onnx"))


def _only(prepared: Prepared, work: Work) -> list[str]:
    """The only nodes to quantise; empty: all."""
    from edgewise.optimizing.passes.ort_preparation import find_clamps

    if not work.only:
        return []
    only = prepared.named(work.only)
    if not only:
        raise CannotApply("none of the named layers is left after folding")
    return only + find_clamps(prepared.model, only)


def _quantize(
    prepared: Prepared, ranges: Any, settings: Mapping[str, Any], *, excluded: Sequence[str], only: Sequence[str]
) -> Any:
    """The quantised ``onnx.ModelProto``."""
    from onnxruntime.quantization import QDQQuantizer, QuantType

    from edgewise.optimizing.passes.onnx_files import sort_nodes
    from edgewise.optimizing.passes.ort_calibration import load_shaped, quantizable_types

    types = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
    quantizer = QDQQuantizer(
        load_shaped(prepared.path),
        settings["per_channel"],
        settings["reduce_range"],
        QuantType.QInt8,
        types[settings["activations"]],
        ranges,
        list(only),
        list(excluded),
        list(HEAVY) if settings["operators"] == "heavy" else quantizable_types(),
        {},
    )
    quantizer.quantize_model()
    return sort_nodes(quantizer.model.model)


def _has_weights(graph: Graph) -> bool:
    return any(operator.weights and operator.op in HEAVY for operator in graph.operators)


def stem_channels(graph: Graph) -> int | None:
    """Input channels of an ungrouped convolution that takes an input of the network, where there are only a few."""
    for operator in graph.operators:
        if operator.op == "Conv" and operator.inputs[0] in graph.inputs and operator.weights:
            shape = graph.tensors[operator.weights[0]].shape or ()
            channels = shape[1] if len(shape) > 1 else None
            if isinstance(channels, int) and channels <= _FEW_CHANNELS and operator.attributes.get("group", 1) == 1:
                return channels
    return None
