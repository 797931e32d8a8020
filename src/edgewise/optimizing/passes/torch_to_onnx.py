"""PyTorch module → ONNX, by PyTorch's own exporter (``torch.onnx.export`` over ``torch.export``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes.onnx_files import opset
from edgewise.optimizing.passes.torch_modules import (
    TorchModel,
    check_export,
    export_onnx,
    load_model,
    load_samples,
    probe_feeds,
    reproducible,
    run_module,
)
from edgewise.packages import versions_of

MIN_OPSET = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings(PassSettings):
    """Settings of torch-to-onnx: whether the first dimension of every input is left open."""

    open_batch: bool = False


class TorchToOnnx(Packaged):
    """Exports a module, and compares the file's outputs with the module's."""

    name = "torch-to-onnx"
    title = "PyTorch → ONNX"
    capabilities = Capabilities(
        kind="conversion",
        reads=("torch",),
        writes="onnx",
        exact=True,
        distributions=("torch", "onnxscript"),
        extra="torch-optimize",
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """With the batch of the example inputs; with an open batch only if everything is to be tried."""
        return (
            Recipe(settings=ExportSettings()),
            Recipe(label="open batch", settings=ExportSettings(open_batch=True), rank=2),
        )

    def apply(self, task: PassTask[ExportSettings]) -> PassResult:
        """Write ``model.onnx``. Raises `CannotApply` where its outputs differ from the module's."""
        import onnx

        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model), seed=task.seed)
            expected = run_module(model.runnable, feeds)
            program = _open_batch(model) if task.settings.open_batch else model.program
            path = export_onnx(program, task.folder)
            written = opset(onnx.load(str(path), load_external_data=False))
            if written < MIN_OPSET:
                raise CannotApply(f"PyTorch wrote opset {written}; {MIN_OPSET} or newer is needed")
            note = check_export(path, feeds, expected)
        versions = versions_of("torch", "onnx", "onnxscript", "onnxruntime")
        return PassResult(model=path, notes=(f"opset {written}", note), versions=versions)


def _open_batch(model: TorchModel) -> Any:
    """Return the module exported again with the first dimension of every input open, under one name."""
    import torch

    if model.module is None:
        raise CannotApply(f"{model.target} gives an exported program, whose shapes are fixed")
    # PyTorch takes a size of 1 for a constant.
    wide = tuple(torch.cat([each, each]) if each.shape[0] == 1 else each for each in model.inputs)
    batch = torch.export.Dim("batch")
    with torch.no_grad(), refusing(f"the batch of {model.target} can't be opened"):
        return torch.export.export(model.module, wide, dynamic_shapes=tuple({0: batch} for _ in wide))
