"""Built networks as files that a runtime can run: ONNX by the framework's own exporter."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

from edgewise.errors import Unavailable
from edgewise.model.build_network import BuiltModel, export_program

_SUFFIXES = {"onnx": ".onnx", "tflite": ".tflite", "torch": ".pt2", "keras": ".keras"}


def export_runnable(built: BuiltModel, folder: Path) -> Path:
    """A file in `folder` in a format that runtimes read, with the network's weights as they are.

    A path that the function gave is answered as it is: its weights may lie beside it.

    Raises:
        Unavailable: what the export needs is not installed, or the exporter can't.
        BadInput: the network can't be exported at all.
    """
    network = built.made
    match network.kind:
        case "path":
            return Path(network.value)
        case "bytes":
            path = folder / ("model" + _SUFFIXES.get(built.graph.format, ".bin"))
            path.write_bytes(network.value)
            return path
        case "onnx":
            path = folder / "model.onnx"
            path.write_bytes(network.value.SerializeToString())
            return path
        case "keras":
            return _export_keras(network.value, folder)
    program = network.value
    if network.kind == "torch":
        shapes = {name: built.graph.tensors[name].shape for name in built.graph.inputs}
        closed = {name: shape for name, shape in shapes.items() if shape is not None} if network.inputs is None else {}
        program = export_program(network, {name: _whole(shape) for name, shape in closed.items()}, built.target)
    return _export_torch(program, folder)


def _whole(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int))


def _export_torch(program: Any, folder: Path) -> Path:
    if importlib.util.find_spec("onnxscript") is None:
        raise Unavailable("PyTorch needs onnxscript to write ONNX", advice="pip install onnxscript")
    import torch

    path = folder / "model.onnx"
    with _quietly("PyTorch"):
        torch.onnx.export(program, (), path, dynamo=True, verbose=False, external_data=False)
    return path


def _export_keras(model: Any, folder: Path) -> Path:
    """ONNX, which Keras writes with TensorFlow, JAX and PyTorch behind it."""
    if sys.modules.get("keras") is not None:
        backend = sys.modules["keras"].backend.backend()
        if backend == "numpy":
            raise Unavailable(
                ("Keras can't export with its numpy backend"), advice="set KERAS_BACKEND=torch or tensorflow"
            )
        if backend == "torch" and importlib.util.find_spec("onnxscript") is None:
            raise Unavailable("Keras needs onnxscript to write ONNX", advice="pip install onnxscript")
    path = folder / "model.onnx"
    with _quietly("Keras"):
        _call_once(model)
        model.export(path, format="onnx", verbose=False)
    return path


def _call_once(model: Any) -> None:
    """Keras exports only what has been called; an untrained model never was. Open sizes are 1 for that."""
    import numpy

    given = [
        numpy.zeros([1 if size is None else size for size in each.shape], dtype=str(each.dtype))
        for each in model.inputs
    ]
    model(given if len(given) > 1 else given[0])


@contextlib.contextmanager
def _quietly(who: str) -> Any:
    """An exporter's chatter goes to stderr, its warnings nowhere, and what it raises is `Unavailable`."""
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise Unavailable(f"{who} can't export it: {error}", advice="install the missing packages") from error
    except Exception as error:
        message = (str(error).strip() or "no message").splitlines()[0][:300]
        raise Unavailable(
            f"{who} can't export it to ONNX: {type(error).__name__}: {message}",
            advice="export it yourself and give the file",
        ) from error
