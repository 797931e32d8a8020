"""Fusion by onnxruntime's own optimiser, done once and kept in a file."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work

_LAYOUT_DOMAIN = "com.microsoft.nchwc"


class OrtFuse(Packaged):
    """`edgewise.optimizing.base.Pass` around ``SessionOptions.optimized_model_filepath``.

    onnxruntime does the same whenever it loads a model, so the gain is a faster start, not a faster inference.

    Settings:
        level: ``extended``, or ``all``, which also changes layouts for the processor it runs on.
    """

    name = "ort-fuse"
    title = "onnxruntime offline fusion"
    capabilities = Capabilities(
        kind="fusion",
        reads=("onnx",),
        writes="onnx",
        exact=True,
        runtimes=("onnxruntime",),
        distributions=("onnxruntime",),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """``extended``, then ``all``, whose result fits this processor only."""
        del facts
        return (
            Recipe(settings={"level": "extended"}, rank=1),
            Recipe(label="all", settings={"level": "all"}, rank=1),
        )

    def apply(self, work: Work) -> Product:
        """Fuse. Raises `CannotApply` where onnxruntime does not load the model."""
        import tempfile
        from pathlib import Path

        import onnx

        from edgewise.optimizing.passes.onnx_files import count_nodes, load_model, save_model, versions_of
        from edgewise.optimizing.passes.ort_preparation import run_optimizer

        level = work.settings.get("level", "extended")
        if level not in ("extended", "all"):
            raise CannotApply(f"level is {level!r}; extended or all are known")
        model = load_model(work.model)
        with tempfile.TemporaryDirectory(dir=work.folder, prefix="scratch-") as scratch:
            source = save_model(model, Path(scratch) / "named.onnx")
            target = Path(scratch) / "fused.onnx"
            run_optimizer(source, target, level=level, threads=work.threads)
            fused = onnx.load(str(target))
        before, after = count_nodes(model), count_nodes(fused)
        versions = versions_of("onnxruntime", "onnx")
        layouts = sum(node.domain == _LAYOUT_DOMAIN for node in fused.graph.node)
        notes = [
            f"{before.total()} → {after.total()} nodes",
            f"meant for onnxruntime {versions['onnxruntime']}: fused operators are its own and may change with it",
        ]
        notes += [f"{layouts} nodes in this processor's own layout: not for other processors"] if layouts else []
        return Product(
            model=save_model(fused, work.folder / "model.onnx"),
            notes=tuple(notes),
            versions=versions,
            unchanged=before == after,
        )
