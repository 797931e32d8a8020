"""Keras models as files: ``.keras``, SavedModel, ONNX and TFLite, by Keras' own exporters.

Keras exports ONNX with TensorFlow, JAX and PyTorch behind it. It exports TFLite with PyTorch behind it through
litert-torch, and with TensorFlow behind it through TensorFlow's converter (``keras.Model.export``, Keras 3.13 and
later). It exports a SavedModel with TensorFlow behind it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.converting.base import ConvertOptions, calling
from edgewise.errors import Unavailable

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array


def choose_backend() -> None:
    """Let Keras use a backend that is installed, before it is first imported. Its own default is TensorFlow."""
    from edgewise.runtime import keras

    if "keras" not in sys.modules and (installed := keras.choose_backend()):
        os.environ["KERAS_BACKEND"] = installed


def backend() -> str:
    """Return the library behind Keras."""
    return str(sys.modules["keras"].backend.backend()) if "keras" in sys.modules else "tensorflow"


def load_keras(path: Path) -> Any:
    """Return the model in a ``.keras`` file. Raises `UnsupportedModel` for code, and as the runtime Keras does."""
    from edgewise.runtime.keras import Keras, load_model

    Keras().import_engine()
    return load_model(path)


def write_keras(model: Any, path: Path, options: ConvertOptions) -> None:
    """Save the model with its weights."""
    del options
    with calling("Keras", to="a .keras file"):
        model.save(path)
        _without_time(path)


def _without_time(path: Path) -> None:
    """Leave out of a ``.keras`` file the time and the addresses in memory, which would make every file another one."""
    numbers: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(entries["metadata.json"])
    entries["metadata.json"] = json.dumps({"keras_version": about["keras_version"]}).encode()
    entries["config.json"] = re.sub(
        r'(?<="shared_object_id": )\d+',
        lambda found: numbers.setdefault(found[0], str(len(numbers))),
        entries["config.json"].decode(),
    ).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def write_onnx(model: Any, path: Path, options: ConvertOptions) -> None:
    """Export to ONNX."""
    if backend() == "torch" and importlib.util.find_spec("onnxscript") is None:
        raise Unavailable("Keras needs onnxscript to write ONNX", advice="pip install onnxscript")
    _export(model, path, "onnx", **({} if options.opset is None else {"opset_version": options.opset}))


def write_tflite(model: Any, path: Path, options: ConvertOptions) -> None:
    """Export to TFLite, in float32; open dimensions become 1."""
    del options
    if backend() == "torch" and importlib.util.find_spec("litert_torch") is None:
        raise Unavailable(
            "Keras with PyTorch behind it needs litert-torch to write TFLite",
            advice="pip install 'edgewise[torch-optimize]'",
        )
    _export(model, path, "litert")


def write_savedmodel(model: Any, path: Path, options: ConvertOptions) -> None:
    """Export as a SavedModel for inference."""
    del options
    if backend() != "tensorflow":
        raise Unavailable(
            f"Keras can't write a SavedModel with its {backend()} backend", advice="set KERAS_BACKEND=tensorflow"
        )
    _export(model, path, "tf_saved_model")


def _export(model: Any, path: Path, form: str, **settings: Any) -> None:
    if backend() == "numpy":
        raise Unavailable("Keras can't export with its numpy backend", advice="set KERAS_BACKEND=torch or tensorflow")
    with calling(f"Keras ({backend()})", to={"onnx": "ONNX", "litert": "TFLite"}.get(form, "a SavedModel")):
        _call_once(model)
        model.export(path, format=form, verbose=False, **settings)


def _call_once(model: Any) -> None:
    """Call the model on zeros; open sizes are 1. Keras exports only models that were called."""
    import numpy

    given = [
        numpy.zeros([1 if size is None else size for size in each.shape], dtype=str(each.dtype))
        for each in model.inputs
    ]
    model(given if len(given) > 1 else given[0])


def run_keras(model: Any, feed: Sequence[Array]) -> list[Array]:
    """Return the model's outputs in inference mode, in its own order."""
    import numpy as np

    convert = sys.modules["keras"].ops.convert_to_numpy if "keras" in sys.modules else np.asarray
    outputs = model(list(feed) if len(feed) > 1 else feed[0], training=False)
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    listed = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [np.asarray(convert(each)) for each in listed]
