"""PyTorch module → ONNX, by PyTorch's own exporter (``torch.onnx.export`` over ``torch.export``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply, refusing, versions_of
from edgewise.optimizing.passes.onnx_files import opset
from edgewise.optimizing.passes.torch_agreement import check_agreement
from edgewise.optimizing.passes.torch_export import export_onnx
from edgewise.optimizing.passes.torch_modules import (
    TorchModel,
    load_model,
    load_samples,
    probe_feeds,
    reproducible,
    run_module,
    runnable,
)

MIN_OPSET = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings(PassSettings):
    """Settings of torch-to-onnx: whether the first dimension of every input is left open."""

    open_batch: bool = False


class TorchToOnnx(Packaged):
    """Exports a module as it is; the file's outputs are compared with the module's before it is handed on."""

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
        """With the batch of the example inputs; with an open batch only where everything is asked for."""
        del facts
        return (
            Recipe(settings=ExportSettings()),
            Recipe(label="open batch", settings=ExportSettings(open_batch=True), rank=2),
        )

    def apply(self, task: PassTask[ExportSettings]) -> PassResult:
        """Write ``model.onnx``. Raises `CannotApply` where the file does not compute what the module does."""
        import onnx

        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model))
            expected = run_module(runnable(model), feeds)
            program = _open_batch(model) if task.settings.open_batch else model.program
            path = export_onnx(model, program, task.folder)
            written = opset(onnx.load(str(path), load_external_data=False))
            if written < MIN_OPSET:
                raise CannotApply(f"PyTorch wrote opset {written}; {MIN_OPSET} or newer is needed")
            note = check_agreement(path, [[each.numpy() for each in feed] for feed in feeds], expected)
        return PassResult(
            model=path,
            notes=(f"opset {written}", note),
            versions=versions_of("torch", "onnx", "onnxscript", "onnxruntime"),
        )


def _open_batch(model: TorchModel) -> Any:
    """The module exported once more, the first dimension of every input open under one name."""
    import torch

    if model.module is None:
        raise CannotApply(f"{model.target} gives an exported program, whose shapes can't be opened any more")
    # A size of 1 would be taken for a constant.
    wide = tuple(torch.cat([each, each]) if each.shape[0] == 1 else each for each in model.inputs)
    batch = torch.export.Dim("batch")
    with torch.no_grad(), refusing(f"the batch of {model.target} can't be opened"):
        return torch.export.export(model.module, wide, dynamic_shapes=tuple({0: batch} for _ in wide))
