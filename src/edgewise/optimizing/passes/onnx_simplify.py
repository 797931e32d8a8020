"""Graph simplification by onnxslim: constants folded, nodes without effect removed, equal ones merged."""

from __future__ import annotations

from edgewise.optimizing.base import Capabilities, Packaged, PassResult, PassSettings, PassTask
from edgewise.optimizing.libraries import refusing
from edgewise.optimizing.passes.onnx_files import count_nodes, load_model, save_model
from edgewise.packages import versions_of


class OnnxSimplify(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxslim.slim``."""

    name = "onnx-simplify"
    title = "onnxslim"
    capabilities = Capabilities(
        kind="simplification", reads=("onnx",), writes="onnx", exact=True, distributions=("onnxslim",)
    )

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Simplify. Raises `CannotApply` where onnxslim fails on the model."""
        import onnxslim

        model = load_model(task.model)
        before = count_nodes(model)
        with refusing("onnxslim can't read the model"):
            simplified = onnxslim.slim(model)
        after = count_nodes(simplified)
        path = save_model(simplified, task.folder / "model.onnx")
        gone = {op: count - after[op] for op, count in sorted(before.items()) if count > after[op]}
        note = f"{before.total()} → {after.total()} nodes"
        fewer = ", ".join(f"{count} {op}" for op, count in gone.items())
        return PassResult(
            model=path,
            notes=(f"{note} (fewer: {fewer})" if fewer else note,),
            versions=versions_of("onnxslim", "onnx"),
            unchanged=before == after,
        )
