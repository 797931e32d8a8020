"""Dynamic-range quantisation of TFLite models: integer weights, activations quantised anew in every inference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.optimizing.base import Capabilities, Facts, Packaged, Product, Recipe, Work
from edgewise.optimizing.passes import litert_recipes as recipes
from edgewise.optimizing.passes.litert_files import read_float_model

_WEIGHTS = (8, 4)


class LitertDynamic(Packaged):
    """ai-edge-quantizer's dynamic-range quantisation. Setting: ``weights``, bits, 8 or 4."""

    name = "litert-dynamic"
    title = "LiteRT dynamic int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("tflite",),
        writes="tflite",
        arithmetic="int8-dynamic",
        keeps_float=True,
        runtimes=("litert",),
        distributions=recipes.DISTRIBUTIONS,
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """int8 weights, and four bits where operators take them."""
        if facts.quantized or not recipes.has_weights(facts.graph):
            return ()
        found = [Recipe(settings={"weights": 8})]
        if recipes.has_weights(facts.graph, recipes.FOUR_BIT):
            found.append(Recipe(label="int4 weights", settings={"weights": 4}, rank=2))
        return tuple(found)

    def apply(self, work: Work) -> Product:
        """Quantise. Raises `CannotApply` where the model is quantised."""
        bits = recipes.read_setting(work.settings, "weights", _WEIGHTS)

        def add_rule(quantizer: Any, pattern: str, kind: Any) -> None:
            quantizer.add_dynamic_config(pattern, kind, num_bits=bits)

        with recipes.quiet():
            model = read_float_model(Path(work.model))
            quantizer = recipes.build_quantizer(model, work, add_rule)
            content = recipes.quantize(quantizer)
            return recipes.deliver(
                content,
                model,
                work,
                words=f"have int{bits} weights and quantise what they are fed",
                is_changed=recipes.has_small_weights,
            )
