"""Smaller weights in TFLite models; arithmetic stays in float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.optimizing.base import Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.passes import litert_recipes as recipes
from edgewise.optimizing.passes.litert_static import LitertStatic

_BITS = {"int8": 8, "float16": 16, "int4": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSettings(PassSettings):
    """Settings of litert-weights: the type of the weights."""

    weights: Literal["int8", "float16", "int4"] = "int8"


class LitertWeights(Packaged):
    """ai-edge-quantizer's weight-only quantisation."""

    name = "litert-weights"
    title = "LiteRT weights only"
    capabilities = replace(LitertStatic.capabilities, kind="compression", arithmetic="f32", calibrates=False)

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """int8, float16 unless weights are float16 already, and int4 if operators support it."""
        if facts.quantized or not recipes.has_weights(facts.graph):
            return ()
        found = [Recipe(label="int8", settings=WeightSettings(weights="int8"))]
        if not any(tensor.constant and tensor.dtype == "float16" for tensor in facts.graph.tensors.values()):
            found.append(Recipe(label="float16", settings=WeightSettings(weights="float16"), rank=1))
        if recipes.has_weights(facts.graph, recipes.FOUR_BIT):
            found.append(Recipe(label="int4", settings=WeightSettings(weights="int4"), rank=2))
        return tuple(found)

    def apply(self, task: PassTask[WeightSettings]) -> PassResult:
        """Store weights in fewer bits. Raises `CannotApply` where the model is quantised."""
        from ai_edge_quantizer.quantizer import AlgorithmName

        weights = task.settings.weights
        algorithm = AlgorithmName.FLOAT_CASTING if weights == "float16" else AlgorithmName.MIN_MAX_UNIFORM_QUANT

        def add_rule(quantizer: Any, pattern: str, kind: Any) -> None:
            quantizer.add_weight_only_config(pattern, kind, num_bits=_BITS[weights], algorithm_key=algorithm)

        return recipes.apply_rule(task, add_rule, words=f"have {weights} weights and compute in float")
