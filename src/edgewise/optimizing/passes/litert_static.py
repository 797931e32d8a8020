"""Full integer quantisation of TFLite models: int8 weights per channel, ranges of activations from samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgewise.model.graph import Graph
from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.calibration import load_calibration
from edgewise.optimizing.passes import litert_recipes as recipes
from edgewise.optimizing.passes.litert_files import FloatModel, OperatorAddress, read_float_model
from edgewise.runtime.litert_sessions import replaced_by

FULL = ("every operator", "every operator, int8 in and out")
"""Recipes whose results compute in int8 alone, for devices that support nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LitertStaticSettings(PassSettings):
    """Settings of litert-static.

    Attributes:
        activations: bits of the activations.
        ranges: how ranges are found on samples.
        io: ``float``: inputs and outputs stay float; ``int8``: they become integers, and the caller converts.
        scope: ``accelerated``: operators with a float kernel and no int8 kernel in XNNPACK stay in float.
        stem: ``float``: all operators up to the first convolution stay in float.
    """

    activations: Literal[8, 16] = 8
    ranges: Literal["minmax", "moving-average"] = "minmax"
    io: Literal["float", "int8"] = "float"
    scope: Literal["accelerated", "all"] = "accelerated"
    stem: Literal["int8", "float"] = "int8"


class LitertStatic(Packaged):
    """ai-edge-quantizer's static quantisation."""

    name = "litert-static"
    title = "LiteRT static int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("tflite",),
        writes="tflite",
        arithmetic="int8",
        calibrates=True,
        keeps_float=True,
        distributions=recipes.DISTRIBUTIONS,
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Widest ranges first: on few samples, a moving average clips values that come late or rarely."""
        if facts.quantized or not recipes.has_weights(facts.graph):
            return ()
        found = [
            Recipe(settings=LitertStaticSettings()),
            Recipe(label=FULL[0], settings=LitertStaticSettings(scope="all"), rank=1),
            Recipe(label="moving average", settings=LitertStaticSettings(ranges="moving-average"), rank=1),
            Recipe(label="int8 in and out", settings=LitertStaticSettings(io="int8"), rank=1),
            Recipe(label=FULL[1], settings=LitertStaticSettings(scope="all", io="int8"), rank=2),
            # XNNPACK has no int16 kernels, so the scope "accelerated" would leave no operator.
            Recipe(label="int16 activations", settings=LitertStaticSettings(activations=16, scope="all"), rank=2),
        ]
        stem = _find_stem(facts.graph)
        if stem and facts.graph.operators[len(stem) - 1].op == "DEPTHWISE_CONV_2D":
            # With one input channel, int8 kernels gain little and conversions cost time.
            stem_recipe = Recipe(
                label="first convolution in float", settings=LitertStaticSettings(stem="float"), rank=1
            )
            found.insert(1, stem_recipe)
        return tuple(found)

    def apply(self, task: PassTask[LitertStaticSettings]) -> PassResult:
        """Quantise. Raises `CannotApply` where the model is quantised or the samples don't fit."""
        settings = task.settings
        bits, method = settings.activations, settings.ranges
        with recipes.quiet():
            model = read_float_model(Path(task.model))
            calibration = load_calibration(task, inputs=len(model.graph.inputs))
            words = f"compute in int{bits}, ranges from {len(calibration)} samples ({method})"
            quantizer = _build_quantizer(model, task)
            ranges = recipes.collect_ranges(quantizer, model, calibration, method=method, threads=task.threads)
            content = recipes.quantize(quantizer, ranges)
            if settings.scope == "accelerated" and not task.only:
                slow = [model.makers[name] for name in _lost_kernels(model, content)]
                if slow:
                    quantizer = _build_quantizer(model, task)
                    recipes.spare(quantizer, slow)
                    content = recipes.quantize(quantizer, ranges)
                    words += f"; {_count(slow)} stay in float, because XNNPACK has no int{bits} kernel"
            return recipes.deliver(content, model, task, words=words, is_changed=recipes.computes_in_integers)


def _build_quantizer(model: FloatModel, task: PassTask[LitertStaticSettings]) -> Any:
    """Return a quantizer with the rules of `task`."""
    from ai_edge_quantizer.qtyping import TFLOperationName
    from ai_edge_quantizer.quantizer import AlgorithmName

    settings = task.settings

    def add_rule(quantizer: Any, pattern: str, kind: Any) -> None:
        quantizer.add_static_config(pattern, kind, activation_num_bits=settings.activations, weight_num_bits=8)

    quantizer = recipes.build_quantizer(model, task, add_rule)
    recipes.spare(quantizer, model.uncalibrated)
    if settings.stem == "float":
        recipes.spare(quantizer, recipes.find(model, _find_stem(model.graph)))
    if settings.io == "float" and not task.only:
        for boundary in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
            quantizer.update_quantization_recipe(".*", boundary, algorithm_key=AlgorithmName.NO_QUANTIZE)
    return quantizer


def _find_stem(graph: Graph) -> tuple[str, ...]:
    """Names of the operators up to and with the first one that has weights."""
    at = next((operator.index for operator in graph.operators if operator.op in recipes.WEIGHTED), -1)
    return tuple(operator.name for operator in graph.operators[: at + 1])


def _lost_kernels(model: FloatModel, content: bytes) -> list[str]:
    """First outputs of the operators that XNNPACK computes in float but not in integers."""
    lost = _find_unaccelerated(content) - _find_unaccelerated(model.content)
    return sorted(lost & model.makers.keys())


def _count(addresses: Sequence[OperatorAddress]) -> str:
    """Types of operators with their numbers: ``2 HARD_SWISH, 1 GELU``."""
    counts = Counter(str(getattr(address.kind, "value", address.kind)) for address in addresses)
    return ", ".join(f"{count} {kind}" for kind, count in counts.most_common())


def _find_unaccelerated(content: bytes) -> frozenset[str]:
    """First outputs of the operators that LiteRT runs with its own, slower kernels instead of XNNPACK's.

    Raises:
        ValueError, RuntimeError: LiteRT can't run the model.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    nodes = interpreter._get_ops_details()  # the only list of what a delegate took
    operators = [node for node in nodes if node["op_name"] != "DELEGATE"]
    makers = {int(tensor): node for node in operators for tensor in node["outputs"]}
    taken = set[int]().union(*(replaced_by(node, makers) for node in nodes if node["op_name"] == "DELEGATE"))
    names = {int(detail["index"]): str(detail["name"]) for detail in interpreter.get_tensor_details()}
    left = [node for node in operators if int(node["index"]) not in taken and len(node["outputs"])]
    return frozenset(names[int(node["outputs"][0])] for node in left)
