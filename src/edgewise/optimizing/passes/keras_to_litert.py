"""Keras model → LiteRT (``.tflite``, float32), by Keras' own exporter.

Keras exports with PyTorch behind it through litert-torch, without TensorFlow, and with TensorFlow behind it through
TensorFlow's converter; with JAX or numpy it can't (``keras.Model.export``, format ``litert``, Keras 3.13 and later).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.converting.base import ConvertOptions
from edgewise.converting.keras_model import backend, choose_backend, run_keras, write_tflite
from edgewise.errors import BadInput
from edgewise.optimizing.base import Capabilities, Packaged, PassResult, PassSettings, PassTask
from edgewise.optimizing.calibration import make_probes, read_calibration
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.torch_agreement import check_agreement
from edgewise.packages import packages_availability, versions_of
from edgewise.registry import Availability

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class KerasToLitert(Packaged):
    """Converts a model of a factory, and compares the file's outputs with the model's."""

    name = "keras-to-litert"
    title = "Keras → LiteRT"
    capabilities = Capabilities(
        kind="conversion",
        reads=("keras",),
        writes="tflite",
        exact=True,
        distributions=("keras", "ai-edge-litert"),
        extra="torch-optimize",
    )

    def availability(self) -> Availability:
        """Whether Keras is installed, and as its backend PyTorch with litert-torch, or TensorFlow."""
        found = packages_availability(self.capabilities.distributions, extra="keras,torch-optimize")
        if found and not versions_of("tensorflow"):
            behind = packages_availability(("torch", "litert-torch"), extra=self.capabilities.extra)
            return found if behind else behind
        return found

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Write ``model.tflite``. Raises `CannotApply` if Keras fails, or the file's outputs differ."""
        if task.model.endswith((".keras", ".h5")):
            raise CannotApply(
                "loading a Keras file can run code: give a function that loads the file and returns the model"
            )
        choose_backend()
        from edgewise.model.build import build_graph

        network = build_graph(task.model).made
        if network.kind != "keras":
            raise CannotApply(f"{task.model} makes {network.title} and no Keras model")
        feeds = _make_feeds(network.value, task)
        expected = [run_keras(network.value, feed) for feed in feeds]
        path = task.folder / "model.tflite"
        if backend() == "torch":
            import torch

            torch.set_num_threads(max(1, task.threads))
        write_tflite(network.value, path, ConvertOptions())
        note = check_agreement(path, feeds, expected)
        names = ("keras", "torch", "litert-torch", "litert-converter", "tensorflow", "ai-edge-litert")
        return PassResult(
            model=path,
            notes=(f"by Keras with {backend()} behind it", note),
            versions=versions_of(*names),
        )


def _make_feeds(model: Any, task: PassTask[PassSettings]) -> list[list[Array]]:
    """Two inputs: samples, or random numbers without samples; open sizes are 1."""
    import numpy as np

    shapes = [tuple(1 if size is None else int(size) for size in each.shape) for each in model.inputs]
    # Integers without samples are 0, which is a valid index in any range.
    examples = [np.zeros(shape, dtype=str(each.dtype)) for shape, each in zip(shapes, model.inputs, strict=True)]
    samples = read_calibration(task.calibration) if task.calibration is not None else None
    if samples is not None and [array.shape[1:] for array in samples.arrays] != [shape[1:] for shape in shapes]:
        raise BadInput(
            f"the samples have the shapes {[list(array.shape[1:]) for array in samples.arrays]}; "
            f"{task.model} takes {[list(shape[1:]) for shape in shapes]}",
            advice="check the layout (Keras models are NHWC as a rule) and size that the data is prepared with",
        )
    return make_probes(examples, samples, seed=task.seed)
