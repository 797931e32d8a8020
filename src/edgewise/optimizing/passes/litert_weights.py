"""Smaller weights in TFLite models; arithmetic stays in float."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.optimizing.base import Capabilities, Facts, Packaged, Product, Recipe, Work
from edgewise.optimizing.passes import litert_recipes as recipes
from edgewise.optimizing.passes.litert_files import read_float_model

_WEIGHTS = ("int8", "float16", "int4")
_BITS = {"int8": 8, "float16": 16, "int4": 4}


class LitertWeights(Packaged):
    """ai-edge-quantizer's weight-only quantisation. Setting: ``weights``: ``int8``, ``float16`` or ``int4``."""

    name = "litert-weights"
    title = "LiteRT weights only"
    capabilities = Capabilities(
        kind="compression",
        reads=("tflite",),
        writes="tflite",
        arithmetic="f32",
        keeps_float=True,
        distributions=recipes.DISTRIBUTIONS,
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """int8, float16 where the weights are not of it already, and int4 where operators take it."""
        if facts.quantized or not recipes.has_weights(facts.graph):
            return ()
        found = [Recipe(label="int8", settings={"weights": "int8"})]
        if not any(tensor.constant and tensor.dtype == "float16" for tensor in facts.graph.tensors.values()):
            found.append(Recipe(label="float16", settings={"weights": "float16"}, rank=1))
        if recipes.has_weights(facts.graph, recipes.FOUR_BIT):
            found.append(Recipe(label="int4", settings={"weights": "int4"}, rank=2))
        return tuple(found)

    def apply(self, work: Work) -> Product:
        """Store weights in fewer bits. Raises `CannotApply` where the model is quantised."""
        from ai_edge_quantizer.quantizer import AlgorithmName

        weights = recipes.read_setting(work.settings, "weights", _WEIGHTS)
        algorithm = AlgorithmName.FLOAT_CASTING if weights == "float16" else AlgorithmName.MIN_MAX_UNIFORM_QUANT

        def add_rule(quantizer: Any, pattern: str, kind: Any) -> None:
            quantizer.add_weight_only_config(pattern, kind, num_bits=_BITS[weights], algorithm_key=algorithm)

        with recipes.quiet():
            model = read_float_model(Path(work.model))
            quantizer = recipes.build_quantizer(model, work, add_rule)
            content = recipes.quantize(quantizer)
            return recipes.deliver(
                content,
                model,
                work,
                words=f"have {weights} weights and compute in float",
                is_changed=recipes.has_small_weights,
            )
