"""Fusion by onnxruntime's own optimiser, kept in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.passes.onnx_files import count_nodes, load_model, save_model
from edgewise.optimizing.passes.ort_preparation import run_optimizer
from edgewise.packages import versions_of

_LAYOUT_DOMAIN = "com.microsoft.nchwc"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseSettings(PassSettings):
    """Settings of ort-fuse. `level` ``all`` also changes layouts for this processor."""

    level: Literal["extended", "all"] = "extended"


class OrtFuse(Packaged):
    """`edgewise.optimizing.base.Pass` around ``SessionOptions.optimized_model_filepath``.

    onnxruntime does the same when it loads a model, so the start becomes faster, but not the inference.
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
        """Return ``extended``, then ``all``, for this processor only."""
        return (
            Recipe(settings=FuseSettings(), rank=1),
            Recipe(label="all", settings=FuseSettings(level="all"), rank=1),
        )

    def apply(self, task: PassTask[FuseSettings]) -> PassResult:
        """Fuse. Raises `CannotApply` where onnxruntime does not load the model."""
        import onnx

        model = load_model(task.model)
        with tempfile.TemporaryDirectory(dir=task.folder, prefix="scratch-") as scratch:
            source = save_model(model, Path(scratch) / "named.onnx")
            target = Path(scratch) / "fused.onnx"
            run_optimizer(source, target, level=task.settings.level, threads=task.threads)
            fused = onnx.load(str(target))
        before, after = count_nodes(model), count_nodes(fused)
        versions = versions_of("onnxruntime", "onnx")
        layouts = sum(node.domain == _LAYOUT_DOMAIN for node in fused.graph.node)
        notes = [
            f"{before.total()} → {after.total()} nodes",
            f"for onnxruntime {versions['onnxruntime']} only: other versions may define these operators differently",
        ]
        notes += [f"{layouts} nodes use this processor's layout: not for other processors"] if layouts else []
        return PassResult(
            model=save_model(fused, task.folder / "model.onnx"),
            notes=tuple(notes),
            versions=versions,
            unchanged=before == after,
        )
