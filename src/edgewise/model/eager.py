"""The format ``eager``: a PyTorch module as its author has it, as files that last as long as a command.

`write_eager` writes a folder for the worker processes of this command:

- ``NAME.eager``: JSON with its inputs and outputs, and how to make the module again (its code's folder is elsewhere);
- ``NAME.weights.pt``: its state, so that every process has the same weights; or ``NAME.pickle``, of a module in memory;
- ``NAME.inputs.npz``: the author's example inputs, where they are more than a shape.

Making the module runs the author's code, so only what this very process wrote may be opened. It passes the SHA-256 of
every ``NAME.eager`` to the processes that it starts, in an environment variable; any other file is refused.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import inspect
import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.model.callable_loader import file_of, name_type, own_code
from edgewise.model.model_object import ModelObject, make_object
from edgewise.model.readers.unique_names import UniqueNames
from edgewise.model.signature import TensorSpec

if TYPE_CHECKING:
    from edgewise.model.build_network import BuiltModel
    from edgewise.model.graph import Graph, Tensor

EAGER = "eager"
"""The format's name."""
SCHEMA = "edgewise.eager/1"
UNEXPORTED = "unexported"
"""Key of the reason, in metadata of a graph, why it has no operators."""
IN_MEMORY = "in_memory"
"""Name of the Python module that holds models which were given as objects, so that they have names."""
WRITTEN = "EDGEWISE_EAGER"
"""Environment variable: SHA-256 of each file that this process wrote → its path → where its code is found."""
EXAMPLE_INPUTS = ".inputs.npz"
"""End of the name of the file with the author's example inputs."""
HIDDEN = "an attribute of the module"
"""Name of a state that is in no buffer."""
MAX_BYTES = 16 * 2**20
_PLAIN = bool | int | float | str | None

graphs: dict[str, Graph] = {}
"""SHA-256 of a file that this process wrote → the graph of its network, where it could be exported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerModule:
    """A module that was made again.

    Attributes:
        module: a ``torch.nn.Module`` in inference mode.
        inputs, outputs: its tensors in order.
        arrange: gives positional and keyword arguments of one call on tensors, one per input.
        states: names of the buffers that a call changes, or `HIDDEN` where the module keeps a state elsewhere.
        repeats: whether a second call on the same inputs gives the same outputs, as far as is known.
    """

    module: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arrange: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    repeats: bool
    states: tuple[str, ...] = ()


def write_eager(built: BuiltModel, folder: Path, *, name: str = "model") -> Path:
    """Write the PyTorch module that a function made, or one in memory, into `folder`; return its ``NAME.eager``.

    Without example inputs of its author, the inputs are zeros of the shapes that it was read with.

    Raises:
        BadInput: it is not a PyTorch module, or it can't run on its inputs.
        Unavailable: what writing it needs is not installed.
    """
    made, given = built.made, built.made.inputs is not None
    if made.kind == "torch" and not given:
        if built.unreadable is not None:
            raise built.unreadable
        made = ModelObject(made.kind, made.title, made.value, _zeros(built.graph))
    return write_module(
        made,
        folder,
        name=name,
        target="" if built.target.startswith(f"{IN_MEMORY}:") else built.target,
        parameters=built.parameters,
        graph=built.graph if built.unreadable is None else None,
        unexported="" if built.unreadable is None else built.unreadable.message,
        given=given,
    )


def write_module(
    made: ModelObject,
    folder: Path,
    *,
    name: str,
    target: str = "",
    parameters: Mapping[str, Any] | None = None,
    graph: Graph | None = None,
    unexported: str = "",
    given: bool = True,
) -> Path:
    """Write a PyTorch module with example inputs into `folder`; return the path of ``NAME.eager``.

    Args:
        name: of the files.
        target: the function that makes the module; "" for a module in memory, which is pickled.
        parameters: keyword arguments of the function.
        graph: of its network, where it is known.
        unexported: why its network is not known.
        given: whether the example inputs are the author's, so that models are fed with them by default.

    Raises:
        BadInput: it can't be pickled, it can't run on its inputs, or they are of a kind that can't be written.
        Unavailable: cloudpickle is not installed.
    """
    import torch

    label = target or name
    if made.kind != "torch":
        raise BadInput(f"{label} is {made.title}, not a PyTorch module", advice="give a torch.nn.Module")
    if made.inputs is None:
        raise BadInput(
            f"{label} is a PyTorch module without example inputs", advice="give example_inputs, as for torch.export"
        )
    document: dict[str, Any] = {"schema": SCHEMA, "framework": "torch", "name": name}
    if graph is not None:
        document["operators_sha256"] = hashlib.sha256(repr(graph.operators).encode()).hexdigest()
    if target:
        document["parameters"] = {key: _literal(key, value, label) for key, value in (parameters or {}).items()}
        document["source_sha256"] = _source_digest(target)
        weights = folder / f"{name}.weights.pt"
        torch.save(made.value.state_dict(), weights)
        document["weights"] = weights.name
        module = _copied(made.value)
    else:
        data = _pickled(made.value, label)
        weights = folder / f"{name}.pickle"
        weights.write_bytes(data)
        document |= {"pickle": weights.name, "pickle_sha256": hashlib.sha256(data).hexdigest()}
        module = _unpickled(data, label)
    leaves: list[tuple[str, Any]] = []
    document["arguments"] = _flatten(_named_arguments(module, made, label), "", leaves, label)
    document["inputs"] = _describe_tensors(leaves)
    outputs, repeats, states = _call_twice(module, made, label)
    document["outputs"] = _describe_tensors(outputs)
    document |= {"repeats": repeats, "states": states}
    if unexported:
        document[UNEXPORTED] = unexported
    if given:
        _write_inputs(folder / f"{name}{EXAMPLE_INPUTS}", leaves)
    path = folder / f"{name}.eager"
    data = json.dumps(document).encode()
    path.write_bytes(data)
    _note_written(path, data, graph, target)
    return path


def read_document(path: Path) -> dict[str, Any]:
    """Return the content of the ``NAME.eager`` at `path`.

    Raises `BadModel` unless this process, or its parent, wrote it.
    """
    return _read(path)[0]


def example_inputs(path: Path) -> Path | None:
    """Return the file with the author's example inputs for the ``NAME.eager`` at `path`; None where there is none."""
    file = path.with_name(path.name.removesuffix(".eager") + EXAMPLE_INPUTS)
    return file if file.is_file() else None


def load_eager(path: Path) -> EagerModule:
    """Make the module at `path` again: run its author's code, and load its weights.

    Raises:
        BadModel: this process, or its parent, did not write it, or the code makes another module than before.
        BadInput: the code fails.
    """
    document, place = _read(path)
    with _code_of(place):
        module = _remade(document, path, place["target"])
    return EagerModule(
        module=module.eval(),
        inputs=read_specs(document["inputs"]),
        outputs=read_specs(document["outputs"]),
        arrange=partial(_unflatten, document["arguments"]),
        repeats=document["repeats"],
        states=tuple(document["states"]),
    )


def read_specs(entries: Sequence[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    """Return inputs or outputs as a document has them."""
    return tuple(TensorSpec(name=one["name"], shape=tuple(one["shape"]), dtype=one["dtype"]) for one in entries)


def flatten_outputs(value: Any) -> list[tuple[str, Any]]:
    """Name and tensor of every tensor in what a module returned: tuples, dictionaries and their like, nested."""
    import torch
    from torch.utils import _pytree

    pairs, _ = _pytree.tree_flatten_with_path(value)
    found = []
    for path, leaf in pairs:
        if isinstance(leaf, torch.Tensor):
            keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
            words = "_".join(keys)
            found.append((words if words and not words[0].isdigit() else f"output_{words}".rstrip("_"), leaf))
    return found


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Document and where its code is found."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise BadModel(f"{path.name} is not an eager module", advice="give FILE.py:FUNCTION")
    data = path.read_bytes()
    places = _written().get(hashlib.sha256(data).hexdigest())
    if not places:
        raise BadModel(
            f"{path.name} can't be used: making its module would run code, and this command did not write it",
            advice="give the function that makes the module, FILE.py:FUNCTION, or edgewise.bench(module) in Python",
        )
    return json.loads(data), places.get(str(path.absolute()), next(iter(places.values())))


def _written() -> dict[str, dict[str, dict[str, Any]]]:
    try:
        found = json.loads(os.environ.get(WRITTEN, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _note_written(path: Path, data: bytes, graph: Graph | None, target: str) -> None:
    """Of the same network in two folders the files are the same, and the code is not."""
    digest, written = hashlib.sha256(data).hexdigest(), _written()
    place = {"target": target, "folder": str(Path.cwd()), "path": sys.path}
    written.setdefault(digest, {})[str(path.absolute())] = place
    os.environ[WRITTEN] = json.dumps(written)
    if graph is not None:
        graphs[digest] = graph


@contextmanager
def _code_of(place: Mapping[str, Any]) -> Iterator[None]:
    """Modules are found, and relative paths lead, where they did in the process that wrote the file."""
    added = [folder for folder in place["path"] if folder not in sys.path]
    sys.path += added
    try:
        with chdir(place["folder"]):
            yield
    finally:
        sys.path[:] = [folder for folder in sys.path if folder not in added]


def _remade(document: Mapping[str, Any], path: Path, target: str) -> Any:
    import torch

    if target:
        arguments = {name: ast.literal_eval(text) for name, text in document["parameters"].items()}
        with own_code(target.rpartition(":")[0]):
            module = make_object(target, arguments).value
        weights = torch.load(path.parent / document["weights"], weights_only=True)
        try:
            module.load_state_dict(weights)
        except (RuntimeError, AttributeError) as error:
            raise BadModel(
                f"{target} makes another module in every call: {str(error).splitlines()[0]}",
                advice="let it make the same layers for the same arguments",
            ) from error
        return module
    data = (path.parent / document["pickle"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != document["pickle_sha256"]:
        raise BadModel(f"{document['pickle']} was changed since it was written", advice="run the command again")
    return _unpickled(data, document["name"])


def _zeros(graph: Graph) -> tuple[Any, ...]:
    """Zeros of the shapes of a graph's inputs; an open size is 1."""
    import torch

    def zeros(tensor: Tensor) -> Any:
        shape = [size if isinstance(size, int) else 1 for size in tensor.shape or ()]
        return torch.zeros(shape, dtype=getattr(torch, tensor.dtype))

    return tuple(zeros(graph.tensors[name]) for name in graph.inputs)


def _literal(name: str, value: Any, label: str) -> str:
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return text
    except (ValueError, SyntaxError):
        pass
    raise BadInput(
        f"the argument {name!r} of {label} is {name_type(value)}, which a worker can't be given",
        advice="give numbers, text, lists, tuples or dictionaries of them",
    )


def _source_digest(target: str) -> str | None:
    """SHA-256 of the file that a function is in; None where there is no such file."""
    name = target.rpartition(":")[0]
    file = file_of(name) or getattr(sys.modules.get(name), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else None


def _copied(module: Any) -> Any:
    """Return a copy that can be run without changing the state of `module`; itself where it can't be copied."""
    try:
        return copy.deepcopy(module)
    except Exception:  # whatever the module's own code raises
        return module


def _pickled(module: Any, label: str) -> bytes:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise Unavailable(
            "a module in memory is sent to the measuring process by cloudpickle, which is not installed",
            advice="pip install 'edgewise[torch]'",
        ) from None
    try:
        data: bytes = cloudpickle.dumps(module)
    except Exception as error:  # whatever the module's own code raises
        raise BadInput(
            f"{label} can't be pickled: {_first_line(error)}",
            advice="write a function that makes it into a file, and give FILE.py:FUNCTION",
        ) from error
    return data


def _unpickled(data: bytes, label: str) -> Any:
    """Return the module that this very process, or its parent, pickled."""
    import pickle

    try:
        return pickle.loads(data)  # noqa: S301 - its hash is in a file that this process or its parent wrote
    except Exception as error:  # whatever the module's own code raises
        raise BadInput(
            f"{label} can't be made again from its pickle: {_first_line(error)}",
            advice="write a function that makes it into a file, and give FILE.py:FUNCTION",
        ) from error


def _named_arguments(module: Any, made: ModelObject, label: str) -> list[Any]:
    """Positional arguments and keyword arguments; the former in pairs with the names of the parameters they go to."""
    try:
        bound = inspect.signature(module.forward).bind(*(made.inputs or ()), **made.keywords)
    except TypeError as error:
        raise BadInput(
            f"{label}: forward() can't take the example inputs: {error}", advice="give one value for each parameter"
        ) from error
    except ValueError:  # some functions of extension modules have no signature
        return [[(f"input_{index}", value) for index, value in enumerate(made.inputs or ())], made.keywords]
    names: list[str] = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}_{index}" for index in range(len(bound.arguments.get(name, ())))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return [list(zip(names, made.inputs or (), strict=False)), made.keywords]


def _flatten(arguments: list[Any], prefix: str, leaves: list[tuple[str, Any]], label: str) -> Any:
    """`arguments` as JSON; their tensors go into `leaves` with names."""
    positional, keywords = arguments
    return [
        [_encode(value, name, leaves, label) for name, value in positional],
        {name: _encode(value, name, leaves, label) for name, value in keywords.items()},
    ]


def _encode(value: Any, name: str, leaves: list[tuple[str, Any]], label: str) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        leaves.append((name, value))
        return {"tensor": len(leaves) - 1}
    if isinstance(value, _PLAIN):
        return {"value": value}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(each, f"{name}_{key}", leaves, label) for key, each in value.items()}}
    if type(value) in (tuple, list):
        kind = type(value).__name__
        return {kind: [_encode(each, f"{name}_{index}", leaves, label) for index, each in enumerate(value)]}
    raise BadInput(
        f"{label}: the example input {name!r} is {name_type(value)}",
        advice="give tensors, numbers, text, and tuples, lists or dictionaries of them",
    )


def _unflatten(arguments: Any, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    positional, keywords = arguments
    named = {name: _decode(each, tensors) for name, each in keywords.items()}
    return tuple(_decode(each, tensors) for each in positional), named


def _decode(entry: Mapping[str, Any], tensors: Sequence[Any]) -> Any:
    ((kind, value),) = entry.items()
    match kind:
        case "tensor":
            return tensors[value]
        case "dict":
            return {key: _decode(each, tensors) for key, each in value.items()}
        case "tuple":
            return tuple(_decode(each, tensors) for each in value)
        case "list":
            return [_decode(each, tensors) for each in value]
    return value


def _describe_tensors(pairs: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Names, each given once, shapes and dtypes, JSON-shaped."""
    names = UniqueNames()
    specs = [
        TensorSpec(
            name=names.take(name), shape=tuple(map(int, tensor.shape)), dtype=str(tensor.dtype).removeprefix("torch.")
        )
        for name, tensor in pairs
    ]
    return [asdict(spec) for spec in specs]


def _call_twice(module: Any, made: ModelObject, label: str) -> tuple[list[tuple[str, Any]], bool, list[str]]:
    """Return outputs of a call on the example inputs, whether a second call gives the same, and the states that
    calls change.

    Raises `BadInput`.
    """
    import torch

    def call() -> list[tuple[str, Any]]:
        args, keywords = copy.deepcopy((made.inputs or (), dict(made.keywords)))
        return [(name, tensor.detach().clone()) for name, tensor in flatten_outputs(module(*args, **keywords))]

    module.eval()
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            before = {name: buffer.clone() for name, buffer in module.named_buffers()}
            first, second = call(), call()
            changed = [
                name for name, buffer in module.named_buffers() if not torch.equal(buffer, before.get(name, buffer))
            ]
            same = _are_same(first, second)
            if not same and not changed:
                # Outputs that differ with the same random numbers differ by a state.
                torch.manual_seed(0)
                first_seeded = call()
                torch.manual_seed(0)
                changed = [] if _are_same(first_seeded, call()) else [HIDDEN]
    except Exception as error:  # whatever the module's own code raises
        raise BadInput(
            f"{label}: forward() fails on the example inputs: {_first_line(error)}",
            advice="check that the module runs on them: module(*example_inputs)",
        ) from error
    if not first:
        raise BadInput(f"{label}: forward() returns no tensor", advice="return a tensor, or a tuple or dict of tensors")
    return first, same, changed


def _are_same(first: Sequence[tuple[str, Any]], second: Sequence[tuple[str, Any]]) -> bool:
    """Whether the outputs of two calls agree."""
    import torch

    return [name for name, _ in first] == [name for name, _ in second] and all(
        one.shape == two.shape and torch.allclose(one.double(), two.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for (_, one), (_, two) in zip(first, second, strict=True)
    )


def _write_inputs(file: Path, leaves: Sequence[tuple[str, Any]]) -> None:
    """Write the example inputs by position: exports may name them otherwise, and `numpy.savez` writes the time.

    Inputs of one value throughout, such as zeros, only tell a shape: outputs that agree on them prove little.
    """
    import numpy as np

    try:
        arrays = [tensor.detach().cpu().numpy() for _, tensor in leaves]
    except (TypeError, RuntimeError) as error:
        raise BadInput(
            f"an example input can't be written as an array: {_first_line(error)}", advice="give dense tensors"
        ) from error
    if all(array.size == 0 or (array == array.flat[0]).all() for array in arrays):
        return
    with zipfile.ZipFile(file, "w") as archive:
        for index, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"arr_{index}.npy"), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:300]}"
