"""Post-training 8-bit quantisation by NNCF, with bias correction."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work


class NncfPtq(Packaged):
    """`edgewise.optimizing.base.Pass` around ``nncf.quantize``.

    Settings:
        preset: ``performance`` (symmetric activations) or ``mixed`` (asymmetric ones).
        bias_correction: ``fast`` (NNCF's default), ``thorough`` (slower) or ``none``. Which is best differs
            from network to network: fast correction can be worse than none.
        float_stem: ONNX: as of ort-static.
        transformer: treat it as a transformer.
        samples: to calibrate on, at most.
    """

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

        What NNCF does to transformers for accuracy, asymmetric activations among it, costs time: these are also tried
        with what is its default for other networks.
        """
        from edgewise.optimizing.passes.nncf_tools import attends, worth_quantizing
        from edgewise.optimizing.passes.ort_static import stem_channels

        if facts.quantized or not worth_quantizing(facts.graph):
            return ()
        base = {"preset": "mixed", "bias_correction": "fast", "float_stem": False, "samples": 300}
        plain = {**base, "preset": "performance"}
        attending = attends(facts.graph)
        base |= {"transformer": True} if attending else {}
        thorough = {**base, "bias_correction": "thorough"}
        found = [
            Recipe(settings=base),
            *([Recipe(label="plain", settings=plain)] if attending else []),
            Recipe(label="thorough", settings=thorough),
            Recipe(label="no bias correction", settings={**base, "bias_correction": "none"}, rank=1),
            Recipe(label="performance thorough", settings={**thorough, "preset": "performance"}, rank=2),
            Recipe(label="performance", settings={**base, "preset": "performance"}, rank=2),
        ]
        if facts.format == "onnx" and stem_channels(facts.graph):
            stem = Recipe(label="float-stem thorough", settings={**thorough, "float_stem": True}, rank=1)
            found.insert(sum(not one.rank for one in found), stem)
        return tuple(found)

    def apply(self, work: Work) -> Product:
        """Quantise. Raises `CannotApply` without samples, or where NNCF quantises nothing."""
        from edgewise.optimizing.passes.nncf_tools import make_dataset, make_scope, open_subject, read_samples, refusals
        from edgewise.optimizing.passes.openvino_tools import import_nncf
        from edgewise.optimizing.passes.thread_limits import at_most

        nncf = import_nncf()
        settings = work.settings
        correction = settings.get("bias_correction", "fast")
        if correction not in ("fast", "thorough", "none"):
            raise CannotApply(f"bias_correction is {correction!r}; fast, thorough and none are known")
        with at_most(work.threads), open_subject(work) as subject:
            calibration = read_samples(subject, work)
            with refusals():
                model = nncf.quantize(
                    subject.model,
                    make_dataset(subject, calibration),
                    preset=nncf.QuantizationPreset(settings.get("preset", "mixed")),
                    subset_size=min(len(calibration), int(settings.get("samples", 300))),
                    fast_bias_correction=correction != "thorough",
                    model_type=nncf.ModelType.TRANSFORMER if settings.get("transformer") else None,
                    ignored_scope=make_scope(subject, float_stem=bool(settings.get("float_stem"))),
                    advanced_parameters=subject.parameters(correct_biases=correction != "none"),
                )
            count = subject.quantized(model)
            if not count:
                raise CannotApply("NNCF found no operator to quantise in it")
            fitted = subject.finish(model)
            path = subject.save(model, work.folder)
            notes = (f"{count} of {subject.heavy} heavy operators quantised", fitted, subject.note)
            return Product(model=path, notes=tuple(filter(None, notes)), versions=subject.versions())
