"""Dynamic-range quantisation of TFLite models: integer weights; every inference quantises the activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.optimizing.base import Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.passes import litert_recipes as recipes
from edgewise.optimizing.passes.litert_static import LitertStatic


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicRangeSettings(PassSettings):
    """Settings of litert-dynamic: bits of the weights."""

    weights: Literal[8, 4] = 8


class LitertDynamic(Packaged):
    """ai-edge-quantizer's dynamic-range quantisation."""

    name = "litert-dynamic"
    title = "LiteRT dynamic int8"
    capabilities = replace(LitertStatic.capabilities, arithmetic="int8-dynamic", calibrates=False, runtimes=("litert",))

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """int8 weights, and four bits if operators support them."""
        if facts.quantized or not recipes.has_weights(facts.graph):
            return ()
        found = [Recipe(settings=DynamicRangeSettings())]
        if recipes.has_weights(facts.graph, recipes.FOUR_BIT):
            found.append(Recipe(label="int4 weights", settings=DynamicRangeSettings(weights=4), rank=2))
        return tuple(found)

    def apply(self, task: PassTask[DynamicRangeSettings]) -> PassResult:
        """Quantise. Raises `CannotApply` where the model is quantised."""
        bits = task.settings.weights

        def add_rule(quantizer: Any, pattern: str, kind: Any) -> None:
            quantizer.add_dynamic_config(pattern, kind, num_bits=bits)

        words = f"have int{bits} weights and quantise their inputs"
        return recipes.apply_rule(task, add_rule, words=words)
