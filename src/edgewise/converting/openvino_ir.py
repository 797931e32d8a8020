"""OpenVINO IR, written by OpenVINO's own front ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgewise.converting.base import ConvertOptions, calling
from edgewise.converting.torch_program import TorchSource
from edgewise.errors import Unavailable
from edgewise.model.identity import open_model, read_graph
from edgewise.runtime.onnx_functions import has_functions, write_inlined
from edgewise.runtime.tflite_buffers import NOT_IN_OPENVINO, has_buffers_behind


def write_from_file(source: Path, path: Path, options: ConvertOptions) -> None:
    """Convert a model file. Its reader first refuses weights outside the model's folder (`BadModel`).

    ``convert_model`` folds constants; ``read_model`` leaves biases behind a Reshape, and NNCF corrects only biases
    that are constants.
    """
    files = open_model(source).files
    if has_buffers_behind(files[0]):
        raise Unavailable(NOT_IN_OPENVINO, advice="keep the .tflite file, and use ⟦runtime=litert⟧")
    with calling("OpenVINO", to="IR"):
        import openvino

        # OpenVINO reads a SavedModel from its folder.
        given = files[0].parent if files[0].name == "saved_model.pb" else files[0]
        if given.suffix == ".onnx" and has_functions(given):
            read_graph(given)  # which bounds what they expand to
            given = write_inlined(given, path.parent)
        model = openvino.convert_model(str(given))
        if given.suffix == ".onnx" and len(model.inputs) > len(open_model(given).signature.inputs):
            # It makes a second input, which nothing feeds, of an input that is an output, too.
            model = openvino.Core().read_model(given)
        _save(model, path, options)


def write_from_torch(source: TorchSource, path: Path, options: ConvertOptions) -> None:
    """Convert a PyTorch export; inputs have the shapes of its example inputs, as in every other format."""
    with calling("OpenVINO", to="IR"):
        import openvino

        model = openvino.convert_model(source.program)
        inputs = [each for each in source.inputs if hasattr(each, "shape")]
        if len(inputs) == len(model.inputs):
            model.reshape({port: list(each.shape) for port, each in zip(model.inputs, inputs, strict=True)})
        _save(model, path, options)


def _save(model: Any, path: Path, options: ConvertOptions) -> None:
    import openvino

    if options.shapes:
        names = {name for port in model.inputs for name in port.names}
        model.reshape({name: list(shape) for name, shape in options.shapes.items() if name in names})
    openvino.save_model(model, str(path), compress_to_fp16=options.precision == "f16")
