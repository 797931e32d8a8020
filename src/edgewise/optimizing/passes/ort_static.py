"""Static 8-bit quantisation by onnxruntime: QuantizeLinear and DequantizeLinear around every supported operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.model.graph import Graph
from edgewise.model.identity import read_graph
from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.onnx_files import save_model, sort_nodes
from edgewise.optimizing.passes.ort_calibration import Method, find_ranges, quantizable_types
from edgewise.optimizing.passes.ort_preparation import (
    Prepared,
    describe_quantized,
    find_clamps,
    find_stem,
    prepare,
)
from edgewise.optimizing.passes.qdq_float_layers import protect_float_layers
from edgewise.optimizing.processor import sums_saturate
from edgewise.packages import versions_of

HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_COLORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticSettings(PassSettings):
    """Settings of ort-static.

    Attributes:
        method: of calibration.
        per_channel: a scale for every output channel of the weights.
        activations: type of the activations; weights are int8 in both cases.
        reduce_range: 7-bit weights, for processors whose 8-bit sums saturate.
        float_stem: leave the first convolution in float if it has at most four input channels.
        operators: ``all`` that the quantiser supports, or ``heavy`` ones only.
        samples: most samples to calibrate on.
    """

    method: Method = "minmax"
    per_channel: bool = True
    activations: Literal["uint8", "int8"] = "uint8"
    reduce_range: bool = False
    float_stem: bool = False
    operators: Literal["all", "heavy"] = "all"
    samples: int = 128


class OrtStatic(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.quantization``."""

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
        """Return the usual one, one with a float stem if the network has a stem, then other calibrations and types."""
        if facts.quantized or not _has_weights(facts.graph):
            return ()
        # Measured with AVX-512 VNNI: with one channel float is faster, with three it is not.
        stem = bool(find_stem(facts.graph, most=_COLORS - 1))
        base = StaticSettings(reduce_range=sums_saturate())
        first = replace(base, float_stem=stem)
        signed, whole = replace(first, activations="int8"), replace(first, per_channel=False)
        variants: list[tuple[str, StaticSettings, int]] = [
            *([("float-stem", first, 0)] if stem else []),
            ("", base, 0),
            *([("float-stem", replace(base, float_stem=True), 1)] if find_stem(facts.graph) and not stem else []),
            ("percentile", replace(first, method="percentile"), 1),
            ("entropy", replace(first, method="entropy"), 1),
            ("heavy-only", replace(first, operators="heavy"), 1),
            ("s8s8", signed, 1),
            ("per-tensor", whole, 1),
            ("per-tensor percentile", replace(whole, method="percentile"), 2),
            ("per-tensor entropy", replace(whole, method="entropy"), 2),
            ("s8s8 percentile", replace(signed, method="percentile"), 2),
            ("s8s8 entropy", replace(signed, method="entropy"), 2),
            ("s8s8 per-tensor", replace(signed, per_channel=False), 2),
        ]
        return tuple(Recipe(label=label, settings=settings, rank=rank) for label, settings, rank in variants)

    def apply(self, task: PassTask[StaticSettings]) -> PassResult:
        """Fold, calibrate, quantise. Raises `CannotApply` where nothing in the model can be quantised."""
        settings = task.settings
        with prepare(task) as prepared:
            stem = find_stem(read_graph(prepared.path)) if settings.float_stem else []
            excluded = [*prepared.named(task.keep_float), *stem]
            ranges = find_ranges(prepared, task, method=settings.method, samples=settings.samples)
            only = prepared.only(task)
            only += find_clamps(prepared.model, only)
            model = _quantize(prepared, ranges, settings, excluded=excluded, only=only)
            if not any(node.op_type == "QuantizeLinear" for node in model.graph.node):
                raise CannotApply("onnxruntime found no operator to quantise")
            protect_float_layers(model)
            notes = [describe_quantized(model, before=prepared.model, heavy=HEAVY), prepared.note]
        path = save_model(model, task.folder / "model.onnx")
        notes += [f"kept in float because of few input channels: {', '.join(stem)}"] if stem else []
        return PassResult(model=path, notes=tuple(filter(None, notes)), versions=versions_of("onnxruntime", "onnx"))


def _quantize(
    prepared: Prepared, ranges: Any, settings: StaticSettings, *, excluded: Sequence[str], only: Sequence[str]
) -> Any:
    """Return the quantised ``onnx.ModelProto``."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer

    types = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
    quantizer = _quantizer_of_averages()(
        load_model_with_shape_infer(prepared.path),
        settings.per_channel,
        settings.reduce_range,
        QuantType.QInt8,
        types[settings.activations],
        ranges,
        list(only),
        list(excluded),
        list(HEAVY) if settings.operators == "heavy" else quantizable_types(),
        {},
    )
    quantizer.quantize_model()
    return sort_nodes(quantizer.model.model)


def _quantizer_of_averages() -> type[Any]:
    """Return onnxruntime's quantiser, but an average gets the scale of its own range.

    The original gives it that of what is averaged. Averages of many positions take a small part of that range, so that
    few of the 256 levels are left for what the last layer of most classifiers sees.
    """
    from onnxruntime.quantization import QDQQuantizer

    class Quantizer(QDQQuantizer):  # type: ignore[misc]  # onnxruntime has no types
        def quantize_output_same_as_input(self, output: str, given: str, node: str) -> None:
            if self.model.output_name_to_node()[output].op_type == "AveragePool":
                self.quantize_activation_tensor(output)
            else:
                super().quantize_output_same_as_input(output, given, node)

    return Quantizer


def _has_weights(graph: Graph) -> bool:
    return any(operator.weights and operator.op in HEAVY for operator in graph.operators)
