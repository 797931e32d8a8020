"""Networks as objects in memory, and the functions that make them. No framework is imported that is not there yet."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.model.callable_loader import ADVICE, call, find, import_module, name_type


@dataclass(frozen=True, slots=True)
class ModelObject:
    """A network as an object.

    Attributes:
        kind: ``torch``, ``exported``, ``keras``, ``onnx``, ``bytes`` or ``path``.
        title: what a person calls it.
        value: the object.
        inputs: example inputs of a PyTorch module, positional; None where it brings none.
        keywords: further example inputs, by the names of its parameters.
    """

    kind: str
    title: str
    value: Any
    inputs: tuple[Any, ...] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)


def describe_object(value: Any) -> ModelObject | None:
    """Return what `value` is; None where it is no network. A class is none either: it still has to make one."""
    if isinstance(value, bytes | bytearray):
        return ModelObject("bytes", "the bytes of a model file", bytes(value))
    if isinstance(value, str | os.PathLike):
        return ModelObject("path", "a model file", Path(os.fspath(value)))
    # Before PyTorch's: with PyTorch behind it a Keras model is a module too.
    if is_instance(value, "keras", "Model") or is_instance(value, "tf_keras", "Model"):
        return ModelObject("keras", "a Keras model", value)
    if isinstance(value, tuple | list) and len(value) == 2 and is_instance(value[0], "torch.nn", "Module"):
        if _are_keywords(value[0], value[1]):
            return ModelObject("torch", "a PyTorch module", value[0], (), dict(value[1]))
        return ModelObject("torch", "a PyTorch module", value[0], _listed(value[1]))
    if is_instance(value, "torch.nn", "Module"):
        return ModelObject("torch", "a PyTorch module", value, _own_inputs(value))
    if is_instance(value, "torch.export", "ExportedProgram"):
        return ModelObject("exported", "a PyTorch export", value)
    if is_instance(value, "onnx", "ModelProto"):
        return ModelObject("onnx", "an ONNX model", value)
    return None


def is_instance(value: Any, module: str, name: str) -> bool:
    """Whether `value` is of a class of a module; one that was never imported can't have made it."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _are_keywords(module: Any, inputs: Any) -> bool:
    """Whether example inputs are a dictionary of keyword arguments, and not one argument that is a dictionary."""
    if not isinstance(inputs, Mapping) or not inputs:
        return False
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):  # some functions of extension modules have none
        return False
    return all(name in parameters and parameters[name].kind is not inspect.Parameter.VAR_KEYWORD for name in inputs)


def _listed(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


def _own_inputs(module: Any) -> tuple[Any, ...] | None:
    """Return example inputs that a module brings: as ``example_inputs``, or as Lightning's ``example_input_array``."""
    for name in ("example_inputs", "example_input_array"):
        found = getattr(module, name, None)
        if callable(found) and not is_instance(found, "torch", "Tensor"):
            found = found()
        if found is not None:
            return _listed(found)
    return None


def make_object(target: str, arguments: Mapping[str, Any]) -> ModelObject:
    """Return the network that the function `target` makes, or that `target` itself is; inside `own_code`.

    Raises:
        BadInput: there is no such function, it takes no such argument, it fails, or what it makes is no network.
    """
    module_name, _, attribute = target.rpartition(":")
    module = import_module(module_name, target)
    thing = find(module, attribute, target, also=lambda found: describe_object(found) is not None)
    made = thing if describe_object(thing) is not None else call(thing, arguments, target)
    if made is thing and arguments:
        raise BadInput(f"{target} is a model, not a function, so it has no parameters", advice=ADVICE)
    network = describe_object(made)
    if network is None:
        raise BadInput(
            f"{target} returned {name_type(made)}, which is not a supported model",
            advice="return a torch.nn.Module, a Keras model, an ONNX ModelProto, or the path or bytes of a model file",
        )
    return network
