"""PyTorch module → LiteRT (``.tflite``, float32), by Google's litert-torch. The layout of inputs stays the module's."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import refusing, versions_of
from edgewise.optimizing.passes.torch_agreement import check_agreement
from edgewise.optimizing.passes.torch_modules import (
    load_model,
    load_samples,
    probe_feeds,
    reproducible,
    run_module,
    runnable,
)


class TorchToLitert(Packaged):
    """Converts a module as it is; the file's outputs are compared with the module's before it is handed on."""

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
        """Write ``model.tflite``. Raises `CannotApply` where the file does not compute what the module does."""
        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model))
            module = runnable(model)
            expected = run_module(module, feeds)
            import litert_torch

            path = task.folder / "model.tflite"
            with refusing(f"litert-torch can't convert {task.model}"):
                litert_torch.convert(module, model.inputs).export(str(path))
            note = check_agreement(path, [[each.numpy() for each in feed] for feed in feeds], expected)
        return PassResult(
            model=path,
            notes=(note,),
            versions=versions_of("torch", "litert-torch", "litert-converter", "ai-edge-litert"),
        )
