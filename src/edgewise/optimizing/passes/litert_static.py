"""Full integer quantisation of TFLite models: int8 weights per channel, activations of ranges seen on samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.model.graph import Graph
from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work
from edgewise.optimizing.calibration import read_calibration
from edgewise.optimizing.passes import litert_recipes as recipes
from edgewise.optimizing.passes.litert_files import Address, FloatModel, read_float_model
from edgewise.optimizing.passes.litert_kernels import find_unaccelerated

_ACTIVATIONS = (8, 16)
_RANGES = ("minmax", "moving-average")
_INTERFACES = ("float", "int8")
_SCOPES = ("accelerated", "all")
_STEMS = ("int8", "float")


class LitertStatic(Packaged):
    """ai-edge-quantizer's static quantisation.

    Settings: ``activations``, bits, 8 or 16; ``ranges``, ``minmax`` or ``moving-average``; ``io``, ``float`` (inputs
    and outputs stay as they are) or ``int8`` (they become integers, and whoever feeds the model converts); ``scope``,
    ``accelerated`` (operators for which XNNPACK has a float kernel and no int8 one stay in float) or ``all``; ``stem``,
    ``int8`` or ``float`` (everything up to the first convolution stays).
    """

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
        """Widest ranges first: on small sets a moving average clips what is seen late or seldom."""
        if facts.quantized or not recipes.has_weights(facts.graph):
            return ()
        usual = {"activations": 8, "ranges": "minmax", "io": "float", "scope": "accelerated"}
        found = [
            Recipe(settings=usual),
            Recipe(label="every operator", settings={**usual, "scope": "all"}, rank=1),
            Recipe(label="moving average", settings={**usual, "ranges": "moving-average"}, rank=1),
            Recipe(label="int8 in and out", settings={**usual, "io": "int8"}, rank=1),
            # XNNPACK has no int16 kernels at all, so that no operator would be left.
            Recipe(label="int16 activations", settings={**usual, "activations": 16, "scope": "all"}, rank=2),
        ]
        stem = _find_stem(facts.graph)
        if stem and facts.graph.operators[len(stem) - 1].op == "DEPTHWISE_CONV_2D":
            # Of one input channel: there int8 kernels have little to win and conversions to lose.
            found.insert(1, Recipe(label="first convolution in float", settings={**usual, "stem": "float"}, rank=1))
        return tuple(found)

    def apply(self, work: Work) -> Product:
        """Quantise. Raises `CannotApply` where the model is quantised or the samples don't fit."""
        bits = recipes.read_setting(work.settings, "activations", _ACTIVATIONS)
        method = recipes.read_setting(work.settings, "ranges", _RANGES)
        scope = recipes.read_setting(work.settings, "scope", _SCOPES)
        if work.calibration is None:
            raise CannotApply("it needs samples to calibrate with")
        calibration = read_calibration(work.calibration)
        words = f"compute in int{bits}, ranges from {len(calibration)} samples ({method})"
        with recipes.quiet():
            model = read_float_model(Path(work.model))
            quantizer = _build_quantizer(model, work, bits)
            ranges = recipes.collect_ranges(quantizer, model, calibration, method=method, threads=work.threads)
            content = recipes.quantize(quantizer, ranges)
            if scope == "accelerated" and not work.only:
                slow = [model.makers[name] for name in _lost_kernels(model, content)]
                if slow:
                    quantizer = _build_quantizer(model, work, bits)
                    recipes.spare(quantizer, slow)
                    content = recipes.quantize(quantizer, ranges)
                    words += f"; {_count(slow)} stay in float, for which XNNPACK has no int{bits} kernel"
            return recipes.deliver(content, model, work, words=words, is_changed=recipes.computes_in_integers)


def _build_quantizer(model: FloatModel, work: Work, bits: int) -> Any:
    """A quantizer with the rules of `work`."""
    from ai_edge_quantizer.qtyping import TFLOperationName
    from ai_edge_quantizer.quantizer import AlgorithmName

    def add_rule(quantizer: Any, pattern: str, kind: Any) -> None:
        quantizer.add_static_config(pattern, kind, activation_num_bits=bits, weight_num_bits=8)

    interface = recipes.read_setting(work.settings, "io", _INTERFACES)
    quantizer = recipes.build_quantizer(model, work, add_rule)
    recipes.spare(quantizer, model.uncalibrated)
    if recipes.read_setting(work.settings, "stem", _STEMS) == "float":
        recipes.spare(quantizer, recipes.find(model, _find_stem(model.graph)))
    if interface == "float" and not work.only:
        for border in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
            quantizer.update_quantization_recipe(".*", border, algorithm_key=AlgorithmName.NO_QUANTIZE)
    return quantizer


def _find_stem(graph: Graph) -> tuple[str, ...]:
    """Names of the operators up to the first with weights, that one included; none where there is none."""
    at = next((operator.index for operator in graph.operators if operator.op in recipes.WEIGHTED), -1)
    return tuple(operator.name for operator in graph.operators[: at + 1])


def _lost_kernels(model: FloatModel, content: bytes) -> list[str]:
    """First outputs of the operators that XNNPACK computes in float and no longer in integers."""
    lost = find_unaccelerated(content) - find_unaccelerated(model.content)
    return sorted(lost & model.makers.keys())


def _count(addresses: Sequence[Address]) -> str:
    """Types of operators with their numbers: ``2 HARD_SWISH, 1 GELU``."""
    counts = Counter(str(getattr(address.kind, "value", address.kind)) for address in addresses)
    return ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
