"""PyTorch module → LiteRT (``.tflite``, float32), by Google's litert-torch. The layout of inputs stays the module's."""

from __future__ import annotations

from edgewise.converting.base import ConvertOptions
from edgewise.converting.torch_program import TorchSource, write_tflite
from edgewise.optimizing.base import Capabilities, Packaged, PassResult, PassSettings, PassTask
from edgewise.optimizing.passes.torch_modules import (
    check_export,
    load_model,
    load_samples,
    probe_feeds,
    reproducible,
    run_module,
)
from edgewise.packages import versions_of


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

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Write ``model.tflite``. Raises `CannotApply` where its outputs differ from the module's."""
        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model), seed=task.seed)
            module = model.runnable
            expected = run_module(module, feeds)
            path = task.folder / "model.tflite"
            write_tflite(TorchSource(model.program, module), path, ConvertOptions())
            note = check_export(path, feeds, expected)
        versions = versions_of("torch", "litert-torch", "litert-converter", "ai-edge-litert")
        return PassResult(model=path, notes=(note,), versions=versions)
