"""Networks that a Python function makes, trained or not: ``package.module:make_model``, ``path/to/file.py:make_model``.

The function is the user's own and is run, in this process, because that is what the user asks for. What it may give: a
PyTorch module (alone or with example inputs), a PyTorch ``ExportedProgram``, a Keras model, an ONNX ``ModelProto``, the
bytes of a model file, or the path of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.errors import BadInput, EdgewiseError
from edgewise.folders import job_folder
from edgewise.model.build_network import BuiltModel, read_object
from edgewise.model.callable_loader import ADVICE, is_factory, own_code
from edgewise.model.graph import Graph
from edgewise.model.model_object import ModelObject, make_object

__all__ = ["BuiltModel", "build_graph", "give_shapes", "is_factory"]


def build_graph(
    target: str,
    *,
    what_if: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    needs_graph: bool = True,
) -> BuiltModel:
    """Call the function that `target` names and read the network that it makes.

    Args:
        target: ``package.module:function`` or ``path/to/file.py:function``; modules are also looked for in the current
            folder. It may also name a class, or a model itself.
        what_if: keyword arguments for the function.
        shapes: input name → shape: what a PyTorch module is exported with, and what open dimensions are otherwise; the
            name "" stands for the only input.
        needs_graph: whether a network that can't be read is an error; otherwise the answer's graph is empty then, and
            `BuiltModel.unreadable` says why.

    Raises:
        BadInput: there is no such function, it takes no such argument, it fails, or what it makes is no network that
            can be read (`BadModel` where it is damaged).
    """
    what_if = dict(what_if or {})
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise BadInput(f"{target!r} does not name a function", advice=ADVICE)
    with own_code(module_name):
        network = make_object(target, what_if)
        try:
            return _read(target, what_if, network, shapes or {})
        except EdgewiseError as error:
            if needs_graph:
                raise
            empty = Graph(name=target, format=network.kind, tensors={}, inputs=(), outputs=(), operators=())
            return BuiltModel(target=target, parameters=what_if, graph=empty, made=network, unreadable=error)


def give_shapes(built: BuiltModel, shapes: Mapping[str, tuple[int, ...]]) -> BuiltModel:
    """Return the same network with other input shapes, without calling its factory again. Raises as `build_graph`."""
    with own_code(built.target.rpartition(":")[0]):
        return _read(built.target, built.parameters, built.made, shapes)


def _read(
    target: str, what_if: Mapping[str, Any], network: ModelObject, shapes: Mapping[str, tuple[int, ...]]
) -> BuiltModel:
    with job_folder() as folder:
        graph = read_object(network, folder=folder, shapes=shapes, label=target)
    return BuiltModel(target=target, parameters=what_if, graph=graph, made=network)
