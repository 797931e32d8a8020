"""Networks that a Python function makes, trained or not: ``package.module:make_model``, ``path/to/file.py:make_model``.

The function is the user's own and is run, in this process, because that is what the user asks for. What it may give: a
PyTorch module (alone or with example inputs), a PyTorch ``ExportedProgram``, a Keras model, an ONNX ``ModelProto``, the
bytes of a model file, or the path of one.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from edgewise.errors import BadInput
from edgewise.model.build_export import export_runnable
from edgewise.model.build_network import BuiltModel, Network, describe_network, read_network

__all__ = ["BuiltModel", "build_graph", "export_runnable", "give_shapes", "is_factory"]

_ADVICE = "give module:function or path/to/file.py:function"


def is_factory(text: str) -> bool:
    """Whether `text` names a function and no file: ``module:function``, ``file.py:function``."""
    module, sign, name = text.rpartition(":")
    if not sign or not name or not all(part.isidentifier() for part in name.split(".")) or Path(text).exists():
        return False
    return module.endswith(".py") or all(part.isidentifier() for part in module.split("."))


def build_graph(
    target: str, *, what_if: Mapping[str, Any] | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> BuiltModel:
    """Call the function that `target` names and read the network that it makes.

    Args:
        target: ``package.module:function`` or ``path/to/file.py:function``; modules are also looked for in the current
            folder. It may also name a class, or a model itself.
        what_if: keyword arguments for the function.
        shapes: input name → shape: what a PyTorch module is exported with, and what open dimensions are otherwise; the
            name "" stands for the only input.

    Raises:
        BadInput: there is no such function, it takes no such argument, it fails, or what it makes is no network that
            can be read (`BadModel` where it is damaged).
    """
    what_if = dict(what_if or {})
    module_name, _, attribute = target.rpartition(":")
    if not module_name or not attribute:
        raise BadInput(f"{target!r} names no function", advice=_ADVICE)
    with _own_code(module_name):
        module = _import(module_name, target)
        thing = _find(module, attribute, target)
        made = thing if describe_network(thing) is not None else _call(thing, what_if, target)
        if made is thing and what_if:
            raise BadInput(f"{target} is a model and no function: it takes no parameters", advice=_ADVICE)
        network = describe_network(made)
        if network is None:
            raise BadInput(
                f"{target} made {_name_type(made)}, which is no model that can be read",
                advice="make a torch.nn.Module, a Keras model, an ONNX ModelProto, or a model file's path or bytes",
            )
        return _read(target, what_if, network, shapes or {})


def give_shapes(built: BuiltModel, shapes: Mapping[str, tuple[int, ...]]) -> BuiltModel:
    """The same network with other shapes of its inputs; the function is not called again. Raises as `build_graph`."""
    with _own_code(built.target.rpartition(":")[0]):
        return _read(built.target, built.parameters, built.network, shapes)


def _read(
    target: str, what_if: Mapping[str, Any], network: Network, shapes: Mapping[str, tuple[int, ...]]
) -> BuiltModel:
    with tempfile.TemporaryDirectory(prefix="edgewise-build-") as folder:
        graph = read_network(network, folder=Path(folder), shapes=shapes, label=target)
    return BuiltModel(target=target, parameters=what_if, graph=graph, network=network)


@contextlib.contextmanager
def _own_code(module_name: str) -> Iterator[None]:
    """The user's folders on the module path while its code runs; what it prints goes to stderr."""
    beside = Path(module_name).resolve().parent if module_name.endswith(".py") else Path.cwd()
    added = [str(folder) for folder in dict.fromkeys((beside, Path.cwd())) if str(folder) not in sys.path]
    sys.path[:0] = added
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        for folder in added:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)


def _import(name: str, target: str) -> ModuleType:
    if not name.endswith(".py"):
        try:
            with explained(target):
                return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise BadInput(f"there is no module {error.name!r} for {target}", advice=_ADVICE) from error
    file = Path(name)
    if not file.is_file():
        raise BadInput(f"no such file: {name}", advice=_ADVICE)
    # A name of its own, by the whole path: two files called model.py are two modules.
    unique = "edgewise_build_" + str(file.resolve()).encode().hex()
    if unique in sys.modules:
        return sys.modules[unique]
    spec = importlib.util.spec_from_file_location(unique, file)
    if spec is None or spec.loader is None:
        raise BadInput(f"{name} can't be imported", advice=_ADVICE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    try:
        with explained(target):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[unique]
        if isinstance(error, ModuleNotFoundError):
            raise BadInput(
                f"{name} needs the module {error.name!r}, which is not installed", advice=f"pip install {error.name}"
            ) from error
        raise
    return module


def _find(module: ModuleType, attribute: str, target: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            known = ", ".join(sorted(names)[:12]) or "none"
            raise BadInput(f"{target} is not there", advice=f"what can be called in the module: {known}") from None
    if not callable(found) and describe_network(found) is None:
        raise BadInput(f"{target} is {_name_type(found)} and can't be called", advice=_ADVICE)
    return found


def _call(factory: Callable[..., Any], what_if: Mapping[str, Any], target: str) -> Any:
    try:
        signature = inspect.signature(factory)
    except (ValueError, TypeError):  # some functions of extension modules have none
        signature = None
    if signature is not None:
        _check_parameters(signature, what_if, target)
    with explained(target):
        return factory(**what_if)


def _check_parameters(signature: inspect.Signature, what_if: Mapping[str, Any], target: str) -> None:
    parameters = signature.parameters.values()
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    known = "it takes " + (", ".join(names) or "no parameters")
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for name in what_if:
            if name not in names:
                raise BadInput(f"{target} has no parameter {name!r}", advice=known)
    for each in parameters:
        given = each.name in what_if and each.kind is not each.POSITIONAL_ONLY
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and not given:
            raise BadInput(f"{target} needs a value for {each.name!r}", advice=f"give --what-if {each.name}=VALUE")


@contextlib.contextmanager
def explained(target: str) -> Iterator[None]:
    """What the user's code raises as `BadInput`: its type, its message and the line of the user's that raised it.

    A module that is missing stays what it is, for the caller to say which.
    """
    try:
        yield
    except (BadInput, ModuleNotFoundError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        message = (str(error).strip() or "no message").splitlines()[0][:300]
        raise BadInput(f"{target} failed: {type(error).__name__}: {message}", advice=_locate(error)) from error


def _locate(error: BaseException) -> str:
    """The last line of the user's own code that an error went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"see {_shorten(error.filename)}, line {error.lineno}: {(error.text or '').strip()[:120]}"
    ours = os.path.dirname(__file__)  # noqa: PTH120 (compared with names of files as Python has them)
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ is not None else []
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith((ours, "<")) and f"{os.sep}lib{os.sep}python" not in frame.filename
    ]
    if not own:
        return "it failed outside of your own files"
    code = (own[-1].code_context or [""])[0].strip()[:120]
    return f"see {_shorten(own[-1].filename)}, line {own[-1].lineno}: {code}"


def _shorten(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _name_type(value: Any) -> str:
    kind = type(value)
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"
