"""PyTorch module → LiteRT (``.tflite``, float32), by Google's litert-torch. The layout of inputs stays the module's."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import refusing, versions_of
from edgewise.optimizing.passes.torch_modules import (
    check_export,
    load_model,
    load_samples,
    probe_feeds,
    reproducible,
    run_module,
)


class TorchToLitert(Packaged):
    """Converts a module, and compares the file's outputs with the module's."""

    name = "torch-to-litert"
    title = "PyTorch → LiteRT"
    capabilities = Capabilities(
        kind="conversion",
        reads=("torch",),
        writes="tflite",
        exact=True,
        distributions=("torch", "litert-torch", "ai-edge-litert"),
        extra="torch-optimize",
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """One: shapes are those of the example inputs."""
        del facts
        return (Recipe(),)

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Write ``model.tflite``. Raises `CannotApply` where its outputs differ from the module's."""
        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model))
            module = model.runnable
            expected = run_module(module, feeds)
            import litert_torch

            path = task.folder / "model.tflite"
            with refusing(f"litert-torch can't convert {task.model}"):
                litert_torch.convert(module, model.inputs).export(str(path))
            note = check_export(path, feeds, expected)
        versions = versions_of("torch", "litert-torch", "litert-converter", "ai-edge-litert")
        return PassResult(model=path, notes=(note,), versions=versions)
