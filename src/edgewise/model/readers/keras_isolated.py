"""A Keras model as Keras itself builds it from its configuration: layers, shapes and parameters.

``python -m edgewise.model.readers.keras_isolated`` reads ``{"document": …, "shapes": {input: sizes}}`` from stdin and
answers with what `describe_model` gives, or ``{"refused": reason}`` where the shapes don't suit the model. Weights are
not read. Layers that are made of others come as their parts where Keras has them as layers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from edgewise.model.readers.isolated import Refused, answer_requests
from edgewise.model.readers.unique_names import UniqueNames

CPU_SECONDS = 100
MEMORY_BYTES = 8 * 2**30
"""Of private memory: frameworks take much, and Keras makes the weights."""
MAX_ROWS = 50_000

#: Tensors of a call that do not flow through the layer.
_SIDE = ("mask", "attention_mask", "query_mask", "value_mask", "key_mask", "initial_state", "sample_weight", "training")
_PUBLIC = {"GroupedQueryAttention": "GroupQueryAttention"}
"""Class → the name that Keras exports it by, where the two differ."""
_PROJECTIONS = ("query", "key", "value")


class NotFunctional(Exception):
    """The model's layers are in its Python code, so that nothing but a run would tell what they do."""


def describe_model(model: Any, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return what a Keras model consists of, JSON-shaped.

    Args:
        model: a built Functional or Sequential model of Keras 3.
        shapes: name of an input → its shape; the others stay as the model has them.

    Returns:
        ``class``, ``name``, ``inputs`` and ``outputs`` (names of tensors), ``tensors`` (name → shape and type),
        ``weights`` (the same of parameters) and ``layers``: each with ``path``, ``op``, ``module``, ``inputs``,
        ``weights``, ``outputs`` and ``config``.

    Raises:
        NotFunctional, Refused.
    """
    return _Walk().describe(model, shapes)


def _functional(operation: Any) -> Any:
    """Return the functional model that `operation` is, or stands for; None for a layer."""
    import keras

    if isinstance(operation, keras.Sequential):
        if not operation.built or operation._functional is None:
            raise NotFunctional("it was saved before it was built, so its input has no shape")
        return operation._functional
    if isinstance(operation, keras.Model):
        if not hasattr(operation, "_nodes_by_depth"):
            name = type(operation).__name__
            raise NotFunctional(f"the layers of its class {name!r} exist only in its Python code")
        return operation
    return None


class _Walk:
    def __init__(self) -> None:
        self.tensors: dict[str, list[Any]] = {}
        self.weights: dict[str, list[Any]] = {}
        self.layers: list[dict[str, Any]] = []
        self._unique = UniqueNames("{}~{}", longest=sys.maxsize)
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        self._variables: dict[int, str] = {}

    def describe(self, model: Any, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        functional = _functional(model)
        if functional is None:
            raise NotFunctional("it is not a model")
        given = []
        for each in functional.inputs:
            given.append(self._tensor(shapes.get(each.name, each.shape), each.dtype, each.name))
        try:
            outputs = self.run(functional, given, "")
        except (NotFunctional, MemoryError):
            raise
        except Exception as error:  # whatever a layer raises
            if not shapes:
                raise
            raise Refused(str(error)) from error
        return {
            "class": type(model).__name__,
            "name": model.name,
            "inputs": [self._names[id(each)] for each in given],
            "outputs": [self._names[id(each)] for each in outputs],
            "tensors": self.tensors,
            "weights": self.weights,
            "layers": self._needed(outputs),
        }

    def _needed(self, outputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Rows that lead to the outputs: what computes masks is for training, and nobody takes it."""
        wanted = {self._names[id(each)] for each in outputs}
        kept = []
        for row in reversed(self.layers):
            if wanted & {*row["outputs"]}:
                wanted |= {*row["inputs"]}
                kept.append(row)
        return kept[::-1]

    def run(self, model: Any, inputs: Sequence[Any], prefix: str) -> list[Any]:
        """Return the layers of a functional model, applied to symbolic tensors; what comes out of it."""
        from keras import tree

        known = {id(own): given for own, given in zip(model.inputs, inputs, strict=True)}
        for depth in sorted(model._nodes_by_depth, reverse=True):
            for node in model._nodes_by_depth[depth]:
                if node.is_input or not all(id(each) in known for each in node.arguments.keras_tensors):
                    continue
                args, kwargs = node.arguments.fill_in(known)
                path = prefix + node.operation.name
                made = self.apply(node.operation, args, kwargs, path)
                for own, tensor in zip(node.outputs, tree.flatten(made), strict=True):
                    known[id(own)] = tensor
        return [known[id(each)] for each in model.outputs]

    def apply(self, operation: Any, args: Any, kwargs: Any, path: str) -> Any:
        """One operation: the rows it consists of, and its outputs."""
        inner = _functional(operation)
        sources = list(_symbolic((args, {key: each for key, each in kwargs.items() if key not in _SIDE})))
        if inner is not None:
            return self.run(inner, sources, f"{path}/")
        made = _infer(operation, *args, **kwargs)
        split = _SPLIT.get(_kind(operation))
        own = type(operation).__module__.startswith("keras.")
        if not (own and split is not None and split(self, operation, sources, list(_symbolic(made)), path)):
            self.add(operation, sources, list(_symbolic(made)), path)
        if len(self.layers) > MAX_ROWS:
            raise NotFunctional(f"models in models make more than {MAX_ROWS} layers")
        return made

    def add(self, operation: Any, sources: Sequence[Any], made: Sequence[Any], path: str, **facts: Any) -> None:
        """Add a row for an operation."""
        weights = [self._weight(each, path) for each in getattr(operation, "weights", ())]
        self.layers.append({
            "path": path,
            "op": facts.pop("op", _kind(operation)),
            "module": type(operation).__module__,
            "inputs": [self._names[id(each)] for each in sources if id(each) in self._names],
            "weights": facts.pop("weights", weights),
            "outputs": [self._name(each, f"{path}:{at}" if at else path) for at, each in enumerate(made)],
            "config": {**_plain(_options(operation)), **facts},
        })  # fmt: skip

    def part(self, layer: Any, source: Any, path: str) -> Any:
        """Return a layer inside of another as a row of its own; what it gives."""
        made = _infer(layer, source)
        self.add(layer, [source], [made], path)
        return made

    def _tensor(self, shape: Any, dtype: Any, name: str) -> Any:
        import keras

        tensor = keras.KerasTensor(tuple(shape), dtype=dtype)
        self._name(tensor, name)
        return tensor

    def _name(self, tensor: Any, wanted: str) -> str:
        if id(tensor) not in self._names:
            name = self._names[id(tensor)] = self._unique.take(wanted)
            self._kept.append(tensor)  # so that no other gets its id
            self.tensors[name] = [list(tensor.shape), str(tensor.dtype)]
        return self._names[id(tensor)]

    def _weight(self, variable: Any, path: str) -> str:
        if id(variable) not in self._variables:
            name = self._unique.take(f"{path}/{variable.path.rpartition('/')[2]}")
            self._variables[id(variable)] = name
            self.weights[name] = [list(variable.shape), str(variable.dtype)]
        return self._variables[id(variable)]


def _infer(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what an operation gives, symbolically; Keras leaves open what an EinsumDense keeps of its input's
    shape.
    """
    import keras

    made = operation.compute_output_spec(*args, **kwargs)
    if not isinstance(operation, keras.layers.EinsumDense) or None not in made.shape:
        return made
    left, _, result = operation.equation.replace(" ", "").partition("->")
    sizes: dict[str, Any] = {}
    for letters, shape in zip(left.split(","), (args[0].shape, operation.kernel.shape), strict=True):
        front, _, back = letters.rpartition("...")
        sizes |= dict(zip(front, shape, strict=False))
        sizes |= dict(zip(reversed(back), reversed(shape), strict=False))
    front, _, back = result.rpartition("...")
    rest = made.shape[len(front) : len(made.shape) - len(back)]
    shape = (*(sizes.get(each) for each in front), *rest, *(sizes.get(each) for each in back))
    return keras.KerasTensor(shape if len(shape) == len(made.shape) else made.shape, dtype=made.dtype)


def _symbolic(value: Any) -> Iterator[Any]:
    from keras import KerasTensor, tree

    return (each for each in tree.flatten(value) if isinstance(each, KerasTensor))


def _kind(operation: Any) -> str:
    name = type(operation).__name__
    return _PUBLIC.get(name, name)


def _options(operation: Any) -> Mapping[str, Any]:
    try:
        found = operation.get_config()
    except Exception:  # a class of its own that has none
        return {}
    if not isinstance(found, Mapping):
        return {}
    listed = found.get("config", found) if set(found) <= {"name", "config"} else found
    return {**{key: value for key, value in vars(operation).items() if key in _ARGUMENTS}, **listed}


_ARGUMENTS = {"axis", "axes", "axis1", "axis2", "keepdims", "approximate"}
"""Of operations of ``keras.ops`` that a formula asks for."""


def _plain(value: Any, depth: int = 6) -> Any:
    """`value` as JSON can hold it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping) and depth:
        return {str(key): _plain(each, depth - 1) for key, each in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [_plain(each, depth - 1) for each in value]
    return getattr(value, "__name__", None) or str(value)[:100]


# -- layers that are made of others: True where they have been added part by part -------------------------------------


def _split_heads(walk: _Walk, layer: Any, sources: list[Any], made: list[Any], path: str) -> bool:
    """Projections of query, key and value, attention between them, and the projection of the result."""
    import keras

    query, value = sources[0], sources[1] if len(sources) > 1 else sources[0]
    key = sources[2] if len(sources) > 2 else value
    if any(len(each.shape) != 3 for each in (query, key, value)):
        return False
    given = dict(zip(_PROJECTIONS, (query, key, value), strict=True))
    parts = [walk.part(getattr(layer, f"_{name}_dense"), each, f"{path}/{name}") for name, each in given.items()]
    heads, depth, wide = parts[0].shape[2], parts[0].shape[3], parts[2].shape[3]
    mixed = keras.KerasTensor((*query.shape[:2], heads, wide), dtype=made[0].dtype)
    geometry = {
        "batch": query.shape[0], "heads": heads, "queries": query.shape[1], "keys": key.shape[1], "depth": depth,
        "value_depth": wide,
    }  # fmt: skip
    walk.add(layer, parts, [mixed], f"{path}/attention", weights=[], geometry=geometry)
    if getattr(layer, "use_gate", False):
        gate = walk.part(layer._gate_dense, query, f"{path}/gate")
        gated = keras.KerasTensor(mixed.shape, dtype=made[0].dtype)
        walk.add(layer, [mixed, gate], [gated], f"{path}/gating", weights=[], op="Multiply")
        mixed = gated
    walk.add(layer._output_dense, [mixed], made[:1], f"{path}/attention_output")
    for each in made[1:]:  # the scores, where they are asked for
        walk._name(each, f"{path}:1")
    return True


def _split_directions(walk: _Walk, layer: Any, sources: list[Any], made: list[Any], path: str) -> bool:
    """One recurrent layer forwards, one backwards, and how their results are merged."""
    both = []
    for name, each in (("forward", layer.forward_layer), ("backward", layer.backward_layer)):
        found = list(_symbolic(each.compute_output_spec(sources[0])))
        if not _split_cells(walk, each, sources, found, f"{path}/{name}"):
            walk.add(each, sources[:1], found, f"{path}/{name}")
        both.append(found[0])
    merge = {"concat": "Concatenate", "sum": "Add", "mul": "Multiply", "ave": "Average"}.get(layer.merge_mode)
    walk.add(layer, both, made, f"{path}/merge", weights=[], op=merge or "Identity", activation="linear")
    return True


def _split_cells(walk: _Walk, layer: Any, sources: list[Any], made: list[Any], path: str) -> bool:
    """Return a recurrent layer for each cell of an ``RNN``; False for other layers and for cells that are not
    Keras' own.
    """
    import keras

    source, cell = sources[0], cast(Any, getattr(layer, "cell", None))
    cells = list(cell.cells) if isinstance(cell, keras.layers.StackedRNNCells) else [cell]
    kinds = {keras.layers.LSTMCell: "LSTM", keras.layers.GRUCell: "GRU", keras.layers.SimpleRNNCell: "SimpleRNN"}
    if not all(type(each) in kinds for each in cells) or len(source.shape) != 3:
        return False
    for at, each in enumerate(cells):
        last = at == len(cells) - 1
        inner = keras.KerasTensor((*source.shape[:2], each.units), dtype=made[0].dtype)
        outputs = made if last else [inner]
        walk.add(each, [source], outputs, f"{path}/{at}" if len(cells) > 1 else path, op=kinds[type(each)])
        source = inner
    return True


def _split_steps(walk: _Walk, layer: Any, sources: list[Any], made: list[Any], path: str) -> bool:
    """Return the inner layer on all steps at once, as if they were examples: the cost is the same."""
    import keras

    batch, steps, *rest = sources[0].shape
    many = None if batch is None or steps is None else batch * steps
    joined = keras.KerasTensor((many, *rest), dtype=sources[0].dtype)
    walk.add(layer, sources[:1], [joined], f"{path}/steps", weights=[], op="Reshape", activation="linear")
    inner = walk.apply(layer.layer, (joined,), {}, f"{path}/{layer.layer.name}")
    walk.add(layer, list(_symbolic(inner)), made, path, weights=[], op="Reshape", activation="linear")
    return True


_SPLIT = {
    "MultiHeadAttention": _split_heads,
    "GroupQueryAttention": _split_heads,
    "Bidirectional": _split_directions,
    "TimeDistributed": _split_steps,
    **dict.fromkeys(("RNN", "LSTM", "GRU", "SimpleRNN"), _split_cells),
}


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    import keras

    # Within this scope weights get a shape and no values: a hostile size costs no memory, a large model no time.
    with keras.StatelessScope(initialize_variables=False):
        model = keras.saving.deserialize_keras_object(asked["document"], safe_mode=True)
        return describe_model(model, asked["shapes"])


if __name__ == "__main__":
    raise SystemExit(answer_requests(_answer, cpu_seconds=CPU_SECONDS, memory_bytes=MEMORY_BYTES))
