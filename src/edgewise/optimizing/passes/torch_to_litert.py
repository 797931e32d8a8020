"""PyTorch module → LiteRT (``.tflite``, float32), by Google's litert-torch. The layout of inputs stays the module's."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work


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

    def apply(self, work: Work) -> Product:
        """Write ``model.tflite``. Raises `CannotApply` where the file does not compute what the module does."""
        from edgewise.optimizing.passes.torch_agreement import check_agreement
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
            module = runnable(model)
            expected = run_module(module, feeds)
            import litert_torch

            path = work.folder / "model.tflite"
            try:
                litert_torch.convert(module, model.inputs).export(str(path))
            except Exception as error:  # the converter raises whatever its stages do
                message = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
                raise CannotApply(f"litert-torch can't convert {work.model}: {message}") from error
            note = check_agreement(path, [[each.numpy() for each in feed] for feed in feeds], expected)
        return Product(
            model=path,
            notes=(note,),
            versions=find_versions("torch", "litert-torch", "litert-converter", "ai-edge-litert"),
        )
