"""Post-training 8-bit quantisation by NNCF, with bias correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.calibration import load_calibration
from edgewise.optimizing.libraries import refusing
from edgewise.optimizing.passes.nncf_tools import attends, make_dataset, make_scope, open_model, worth_quantizing
from edgewise.optimizing.passes.openvino_tools import import_nncf
from edgewise.optimizing.passes.ort_preparation import find_stem
from edgewise.optimizing.passes.thread_limits import at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class PtqSettings(PassSettings):
    """Settings of nncf-ptq.

    Attributes:
        preset: ``performance`` (symmetric activations) or ``mixed`` (asymmetric ones).
        bias_correction: ``fast`` (NNCF's default), ``thorough`` (slower) or ``none``. The best one depends on the
            network: fast correction can be worse than none.
        float_stem: as of ort-static; ONNX only.
        transformer: use NNCF's scheme for transformers.
        samples: most samples to calibrate on.
    """

    preset: Literal["mixed", "performance"] = "mixed"
    bias_correction: Literal["fast", "thorough", "none"] = "fast"
    float_stem: bool = False
    transformer: bool = False
    samples: int = 300


class NncfPtq(Packaged):
    """`edgewise.optimizing.base.Pass` around ``nncf.quantize``."""

    name = "nncf-ptq"
    title = "NNCF int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("onnx", "openvino"),
        writes="",
        arithmetic="int8",
        calibrates=True,
        keeps_float=True,
        distributions=("nncf", "openvino"),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """NNCF's default and thorough bias correction; then none, a float stem for ONNX, and the other preset.

        NNCF's scheme for transformers costs time for accuracy, so these are also tried with its usual scheme.
        """
        if facts.quantized or not worth_quantizing(facts.graph):
            return ()
        attending = attends(facts.graph)
        base = PtqSettings(transformer=attending)
        thorough, fast = replace(base, bias_correction="thorough"), replace(base, preset="performance")
        found = [
            Recipe(settings=base),
            *([Recipe(label="plain", settings=PtqSettings(preset="performance"))] if attending else []),
            Recipe(label="thorough", settings=thorough),
            Recipe(label="no bias correction", settings=replace(base, bias_correction="none"), rank=1),
            Recipe(label="performance thorough", settings=replace(thorough, preset="performance"), rank=2),
            Recipe(label="performance", settings=fast, rank=2),
        ]
        if facts.format == "onnx" and find_stem(facts.graph):
            stem = Recipe(label="float-stem thorough", settings=replace(thorough, float_stem=True), rank=1)
            found.insert(sum(not one.rank for one in found), stem)
        return tuple(found)

    def apply(self, task: PassTask[PtqSettings]) -> PassResult:
        """Quantise. Raises `CannotApply` without samples, or where NNCF quantises nothing."""
        nncf = import_nncf()
        settings = task.settings
        correction = settings.bias_correction
        with at_most(task.threads), open_model(task) as opened:
            calibration = load_calibration(task, inputs=len(opened.inputs))
            with refusing("NNCF fails on the model"):
                model = nncf.quantize(
                    opened.model,
                    make_dataset(opened, calibration),
                    preset=nncf.QuantizationPreset(settings.preset),
                    subset_size=min(len(calibration), settings.samples),
                    fast_bias_correction=correction != "thorough",
                    model_type=nncf.ModelType.TRANSFORMER if settings.transformer else None,
                    ignored_scope=make_scope(opened, float_stem=settings.float_stem),
                    advanced_parameters=opened.parameters(correct_biases=correction != "none"),
                )
            return opened.deliver(model, task.folder, nothing="NNCF found no operator to quantise")
