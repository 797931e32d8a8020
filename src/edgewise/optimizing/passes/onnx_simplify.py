"""Graph simplification by onnxslim: constants folded, nodes without effect removed, equal ones merged."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work


class OnnxSimplify(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxslim.slim``. It has no settings."""

    name = "onnx-simplify"
    title = "onnxslim"
    capabilities = Capabilities(
        kind="simplification", reads=("onnx",), writes="onnx", exact=True, distributions=("onnxslim",)
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """One. It changes nothing that a quantised model's engine looks for, so such models are taken too."""
        del facts
        return (Recipe(),)

    def apply(self, work: Work) -> Product:
        """Simplify. Raises `CannotApply` where onnxslim fails on the model."""
        import onnxslim

        from edgewise.optimizing.passes.onnx_files import count_nodes, first_line, load_model, save_model, versions_of

        model = load_model(work.model)
        before = count_nodes(model)
        try:
            simplified = onnxslim.slim(model)
        except MemoryError:
            raise
        except Exception as error:  # onnxslim raises whatever its graph library meets
            raise CannotApply(f"onnxslim can't read the model: {first_line(error)}") from error
        after = count_nodes(simplified)
        path = save_model(simplified, work.folder / "model.onnx")
        gone = {op: count - after[op] for op, count in sorted(before.items()) if count > after[op]}
        note = f"{before.total()} → {after.total()} nodes"
        fewer = ", ".join(f"{count} {op}" for op, count in gone.items())
        return Product(
            model=path,
            notes=(f"{note} (fewer: {fewer})" if fewer else note,),
            versions=versions_of("onnxslim", "onnx"),
            unchanged=before == after,
        )
