"""Weights in 8 or 4 bits by NNCF, arithmetic in float."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work

_MODES = ("int8_sym", "int8_asym", "int4_sym", "int4_asym")


class NncfWeights(Packaged):
    """`edgewise.optimizing.base.Pass` around ``nncf.compress_weights``.

    Settings:
        mode: ``int8_sym``, ``int8_asym``, ``int4_sym`` or ``int4_asym``.
        group_size: 4 bits: weights that share a scale; -1 is a whole channel.
    """

    name = "nncf-weights"
    title = "NNCF weight compression"
    capabilities = Capabilities(
        kind="compression",
        reads=("openvino",),
        writes="openvino",
        keeps_float=True,
        runtimes=("openvino",),
        distributions=("nncf", "openvino"),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """8 bits first; 4 bits only where there are products of matrices."""
        from edgewise.optimizing.passes.nncf_tools import worth_quantizing

        if facts.quantized or not worth_quantizing(facts.graph):
            return ()
        found = [
            Recipe(settings={"mode": "int8_sym"}, rank=1),
            Recipe(label="int8 asymmetric", settings={"mode": "int8_asym"}, rank=2),
        ]
        if any(each.op == "MatMul" and each.weights for each in facts.graph.operators):
            found.append(Recipe(label="int4", settings={"mode": "int4_sym", "group_size": -1}, rank=2))
        return tuple(found)

    def apply(self, work: Work) -> Product:
        """Compress. Raises `CannotApply` where no weight can be compressed."""
        from edgewise.optimizing.passes.nncf_tools import make_scope, open_subject
        from edgewise.optimizing.passes.openvino_tools import import_nncf
        from edgewise.optimizing.passes.thread_limits import at_most

        nncf = import_nncf()
        mode = str(work.settings.get("mode", "int8_sym"))
        if mode not in _MODES:
            raise CannotApply(f"mode is {mode!r}; known are {', '.join(_MODES)}")
        grouped = {"group_size": int(work.settings.get("group_size", -1))} if mode.startswith("int4") else {}
        with at_most(work.threads), open_subject(work) as subject:
            model = nncf.compress_weights(
                subject.model,
                mode=nncf.CompressWeightsMode(mode),
                ignored_scope=make_scope(subject),
                **grouped,
            )
            constants = [each for each in model.get_ops() if each.get_type_name() == "Constant"]
            kinds = [each.get_element_type().get_type_name() for each in constants]
            counts = {kind: kinds.count(kind) for kind in ("i8", "u8", "i4", "u4") if kind in kinds}
            if not counts:
                raise CannotApply("NNCF found no weight to compress in it")
            if grouped and not {"i4", "u4"} & set(counts):
                raise CannotApply("it has no layer that NNCF stores in 4 bits: it keeps the last one in 8 bits")
            told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            return Product(
                model=subject.save(model, work.folder),
                notes=(f"constants in integers now (weights and zero points): {told}",),
                versions=subject.versions(),
            )
