"""Networks as objects in memory: what they are, and their graphs. No framework is imported that is not there yet."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.model.graph import Graph
from edgewise.model.identity import read_graph
from edgewise.model.model_object import ModelObject, describe_object, is_instance
from edgewise.model.readers.archive import parse_json
from edgewise.model.readers.base import check_shapes
from edgewise.model.readers.isolated import Refused, refuse_shapes
from edgewise.model.readers.keras import read_document
from edgewise.model.readers.keras_graph import build_graph
from edgewise.model.readers.keras_isolated import NotFunctional, describe_model
from edgewise.model.readers.onnx import OnnxReader
from edgewise.model.readers.torch import TorchReader
from edgewise.silence import silenced
from edgewise.text import first_line

__all__ = ["BuiltModel", "ModelObject", "describe_object", "export_program", "read_object"]

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """What a function made.

    Attributes:
        target: ``module:function`` as it was given.
        parameters: the keyword arguments that the function was called with.
        graph: the network.
        made: the object itself, with the inputs that it is exported with.
        unreadable: why `graph` is empty; None where it is the network.
    """

    target: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    graph: Graph
    made: ModelObject
    unreadable: EdgewiseError | None = None

    @property
    def thing(self) -> str:
        """What the function gave, in words: ``a PyTorch module``, ``an ONNX model``."""
        return self.made.title

    @property
    def path(self) -> Path | None:
        """The model file, where the function gave the path of one; for others see `edgewise.converting`."""
        return self.made.value if isinstance(self.made.value, Path) else None

    @property
    def source(self) -> dict[str, Any]:
        """Where it came from, JSON-shaped, with the keys of `edgewise.model.identity.describe_file`."""
        path = self.path
        return {
            "name": self.target,
            "path": None if path is None else str(path),
            "format": self.graph.format,
            "size_bytes": None if path is None else path.stat().st_size,
            "sha256": None,
            "sha256_absent_because": "built by a function, with the weights that it set",
            "built": {
                "thing": self.thing,
                "parameters": {name: _plain(value) for name, value in self.parameters.items()},
            },
        }


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)[:200]


def read_object(network: ModelObject, *, folder: Path, shapes: Shapes, label: str) -> Graph:
    """Return the graph of `network`.

    Args:
        folder: where files may be written on the way.
        shapes: as `edgewise.model.build.build_graph` has them.
        label: what it is called in messages.

    Raises:
        BadInput: it can't be read; `BadModel` where it is damaged.
        Unavailable: its library is too old.
    """
    value = network.value
    match network.kind:
        case "torch":
            return _read_program(export_program(network, shapes, label), folder)
        case "exported":
            return _read_program(value, folder, shapes)
        case "keras":
            return _read_keras(value, shapes, label)
        case "onnx":
            path = folder / "model.onnx"
            path.write_bytes(value.SerializeToString())
            return _read_with_shapes(partial(OnnxReader().read_graph, path), shapes)
        case "bytes":
            path = folder / label.rpartition(":")[2]
            path.write_bytes(value)
            return _read_with_shapes(partial(read_graph, path), shapes)
    if not value.is_file():
        raise BadInput(
            f"{label} returned a path where there is no file: {value}", advice="return the path of the model file"
        )
    return _read_with_shapes(partial(read_graph, value), shapes)


def _read_program(program: Any, folder: Path, shapes: Shapes | None = None) -> Graph:
    import torch

    path = folder / "model.pt2"
    torch.export.save(program, path)
    return _read_with_shapes(partial(TorchReader().read_graph, path), shapes or {})


def export_program(network: ModelObject, shapes: Shapes, label: str) -> Any:
    """Return a PyTorch module as a ``torch.export.ExportedProgram``, in inference mode.

    Raises:
        BadInput: it has no example inputs and no shapes are given, a shape is of no input, or the export fails.
    """
    import torch

    if not hasattr(torch, "export"):
        raise Unavailable(f"PyTorch {torch.__version__} has no torch.export", advice="pip install 'torch>=2.5'")
    module = network.value
    inputs = make_inputs(module, network.inputs, shapes, label)
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad(), silenced():  # PyTorch prints the graph of a failed export
            return torch.export.export(module, inputs, dict(network.keywords) or None)
    except Exception as error:  # whatever the module's own code or the exporter raises
        message = (str(error).strip() or "no message").splitlines()[0][:300]
        raise BadInput(
            f"{label}: torch.export can't export it: {type(error).__name__}: {message}",
            advice="check its example inputs, and that forward() has no branch on values (or use torch.cond)",
        ) from error
    finally:
        module.train(was_training)


def make_inputs(module: Any, given: tuple[Any, ...] | None, shapes: Shapes, label: str) -> tuple[Any, ...]:
    """Return example inputs: those it brings, those of `shapes` in their place; without any, float32 zeros of `shapes`.

    Raises:
        BadInput: there are neither example inputs nor shapes, or a shape is of no input.
    """
    import torch

    names = [
        each.name
        for each in inspect.signature(module.forward).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if set(shapes) == {""} and names:
        shapes = {names[0]: shapes[""]}
    for name in shapes:
        if name not in names:
            raise BadInput(f"{label} has no input {name!r}", advice=f"forward() takes {', '.join(names) or 'nothing'}")
    if given is None:
        wanted = names[: max((names.index(name) for name in shapes), default=-1) + 1]
        if not shapes or not set(wanted) <= set(shapes):
            raise BadInput(
                f"{label} is a PyTorch module without example inputs, so its shapes are unknown",
                advice="return (module, example_inputs), set module.example_inputs, or give ⟦shape⟧ "
                + " ".join(f"{name}=…" for name in (names or ["x"])[:4]),
            )
        return tuple(torch.zeros(shapes[name]) for name in wanted)
    made = list(given)
    for name, shape in shapes.items():
        at = names.index(name)
        if at >= len(made) or not isinstance(made[at], torch.Tensor):
            raise BadInput(
                f"{label}: the input {name!r} is not a tensor in its example inputs", advice="omit its shape"
            )
        made[at] = torch.zeros(shape, dtype=made[at].dtype)
    return tuple(made)


def _read_keras(model: Any, shapes: Shapes, label: str) -> Graph:
    """As it stands in this process; a tf.keras 2 model by the configuration that it writes. No weights, no file."""
    path, advice = Path(label.rpartition(":")[2] or label), "use the functional API or a Sequential model"
    try:
        if is_instance(model, "keras", "Model"):
            return _read_with_shapes(partial(_describe_keras, model, path), shapes)
        document = parse_json(path, "config.json", model.to_json().encode())
    except NotFunctional as error:
        raise BadInput(f"{label} made a Keras model that can't be taken apart: {error}", advice=advice) from error
    except Refused as error:
        raise refuse_shapes(shapes, error) from error
    except EdgewiseError:
        raise
    except Exception as error:  # whatever the model's own code raises
        raise BadInput(f"{label} made a Keras model that can't be read: {first_line(error)}", advice=advice) from error
    return _read_with_shapes(partial(read_document, path, document), shapes)


def _describe_keras(model: Any, path: Path, *, shapes: Shapes | None = None) -> Graph:
    version = str(getattr(sys.modules.get("keras"), "__version__", ""))
    check_shapes({each.name: each.shape for each in getattr(model, "inputs", None) or ()}, shapes or {})
    return build_graph(path, describe_model(model, shapes or {}), version)


def _read_with_shapes(read: Callable[..., Graph], shapes: Shapes) -> Graph:
    """Read with `shapes`, of which the name "" stands for the only input."""
    if "" not in shapes:
        return read(shapes=shapes or None)
    inputs = read(shapes=None).inputs
    if len(inputs) != 1 or len(shapes) > 1:
        raise BadInput(
            ("a shape without a name works only for models with one input"), advice=f"its inputs: {', '.join(inputs)}"
        )
    return read(shapes={inputs[0]: shapes[""]})
