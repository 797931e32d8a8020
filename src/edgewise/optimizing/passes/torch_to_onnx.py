"""PyTorch module → ONNX, by PyTorch's own exporter (``torch.onnx.export`` over ``torch.export``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work
from edgewise.optimizing.passes.torch_modules import TorchModel

MIN_OPSET = 17


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
        return (Recipe(), Recipe(label="open batch", settings={"open_batch": True}, rank=2))

    def apply(self, work: Work) -> Product:
        """Write ``model.onnx``. Raises `CannotApply` where the file does not compute what the module does."""
        from edgewise.optimizing.passes.torch_agreement import check_agreement
        from edgewise.optimizing.passes.torch_export import export_onnx
        from edgewise.optimizing.passes.torch_modules import (
            find_versions,
            load_model,
            load_samples,
            probe_feeds,
            reproducible,
            run_module,
            runnable,
        )

        with reproducible(work):
            model = load_model(work)
            feeds = probe_feeds(model, load_samples(work, model))
            expected = run_module(runnable(model), feeds)
            program = _open_batch(model) if work.settings.get("open_batch") else model.program
            path = export_onnx(model, program, work.folder)
            opset = _find_opset(path)
            if opset < MIN_OPSET:
                raise CannotApply(f"PyTorch wrote opset {opset}; {MIN_OPSET} or newer is needed")
            note = check_agreement(path, [[each.numpy() for each in feed] for feed in feeds], expected)
        return Product(
            model=path,
            notes=(f"opset {opset}", note),
            versions=find_versions("torch", "onnx", "onnxscript", "onnxruntime"),
        )


def _open_batch(model: TorchModel) -> Any:
    """The module exported once more, the first dimension of every input open under one name."""
    import torch

    if model.module is None:
        raise CannotApply(f"{model.target} gives an exported program, whose shapes can't be opened any more")
    # A size of 1 would be taken for a constant.
    wide = tuple(torch.cat([each, each]) if each.shape[0] == 1 else each for each in model.inputs)
    batch = torch.export.Dim("batch")
    try:
        with torch.no_grad():
            return torch.export.export(model.module, wide, dynamic_shapes=tuple({0: batch} for _ in wide))
    except Exception as error:  # whatever the exporter finds in the module's code
        message = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise CannotApply(f"the batch of {model.target} can't be opened: {message}") from error


def _find_opset(path: Any) -> int:
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    return max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
