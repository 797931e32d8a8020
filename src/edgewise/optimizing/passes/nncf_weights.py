"""Weights in 8 or 4 bits by NNCF, arithmetic in float."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.nncf_tools import make_scope, open_model, worth_quantizing
from edgewise.optimizing.passes.openvino_tools import import_nncf
from edgewise.optimizing.passes.thread_limits import at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionSettings(PassSettings):
    """Settings of nncf-weights. With 4 bits a scale is shared by a whole channel."""

    mode: Literal["int8_sym", "int8_asym", "int4_sym", "int4_asym"] = "int8_sym"


class NncfWeights(Packaged):
    """`edgewise.optimizing.base.Pass` around ``nncf.compress_weights``."""

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
        if facts.quantized or not worth_quantizing(facts.graph):
            return ()
        found = [
            Recipe(settings=CompressionSettings(), rank=1),
            Recipe(label="int8 asymmetric", settings=CompressionSettings(mode="int8_asym"), rank=2),
        ]
        if any(each.op == "MatMul" and each.weights for each in facts.graph.operators):
            found.append(Recipe(label="int4", settings=CompressionSettings(mode="int4_sym"), rank=2))
        return tuple(found)

    def apply(self, task: PassTask[CompressionSettings]) -> PassResult:
        """Compress. Raises `CannotApply` if no weight can be compressed."""
        nncf = import_nncf()
        mode = task.settings.mode
        grouped = {"group_size": -1} if mode.startswith("int4") else {}
        with at_most(task.threads), open_model(task) as opened:
            model = nncf.compress_weights(
                opened.model,
                mode=nncf.CompressWeightsMode(mode),
                ignored_scope=make_scope(opened),
                **grouped,
            )
            constants = [each for each in model.get_ops() if each.get_type_name() == "Constant"]
            kinds = [each.get_element_type().get_type_name() for each in constants]
            counts = {kind: kinds.count(kind) for kind in ("i8", "u8", "i4", "u4") if kind in kinds}
            if not counts:
                raise CannotApply("NNCF found no weight to compress")
            if grouped and not {"i4", "u4"} & set(counts):
                raise CannotApply("NNCF stored no layer in 4 bits: it keeps the last layer in 8 bits")
            told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            return PassResult(
                model=opened.save(model, task.folder),
                notes=(f"constants in integers now (weights and zero points): {told}",),
                versions=opened.versions(),
            )
