"""Keras' Functional and Sequential models: which layer takes what from whom.

Both generations of the configuration are read: Keras 3 writes the tensors of a call as ``__keras_tensor__`` objects,
tf.keras 2 as ``[layer, node, tensor, keyword arguments]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.readers.keras_config import Layer, Shape, Wrong, read_layer, read_shape
from edgewise.model.readers.keras_graph import Workshop
from edgewise.model.readers.keras_operations import Call

MAX_CALLS = 200_000
_MAX_NESTING = 20

Reference = tuple[str, int, int]
"""Layer, which of its calls, which of the call's outputs."""

#: Tensors of a call that do not flow through the layer.
_SIDE = ("mask", "attention_mask", "query_mask", "value_mask", "key_mask", "initial_state", "sample_weight", "training")
_ORDER = ("query", "value", "key")


@dataclass(frozen=True, slots=True)
class _Visit:
    """One call of a layer.

    Attributes:
        layer: which is called.
        sources: tensors that it takes.
        plain: positional arguments that are no tensors.
        keywords: keyword arguments that are no tensors.
    """

    layer: Layer
    sources: tuple[Reference, ...]
    plain: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Wiring:
    """A functional model's calls.

    Attributes:
        told: call → output → the shape and type that the file states where another layer takes it.
        first: layer → the number of its first call, where that is not 0: a functional model counts its own making.
    """

    visits: dict[tuple[str, int], _Visit] = field(default_factory=dict)
    told: dict[tuple[str, int], dict[int, tuple[Shape | None, str]]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)


def is_input(layer: Layer) -> bool:
    """Whether a layer only declares an input."""
    return layer.kind == "InputLayer"


def input_shape(layer: Layer) -> Shape | None:
    """The shape that a layer declares, its batch included; None where it declares none."""
    for option in ("batch_shape", "batch_input_shape"):
        shape = read_shape(layer.options.get(option))
        if shape is not None:
            return shape
    return None


def put_to_work(shop: Workshop, model: Layer, inputs: Sequence[str], path: str) -> tuple[str, ...]:
    """The layers of `model`, which is a layer itself, one after the other. Raises `Wrong`."""
    prefix = f"{path}/" if path else ""
    if "input_layers" in model.options:
        return _run_functional(shop, model, inputs, prefix)
    return _run_sequential(shop, model, inputs, prefix)


def sequence_of(model: Layer) -> list[Layer]:
    """The layers of a Sequential model, inputs included. Raises `Wrong`."""
    listed = model.options.get("layers")
    return [read_layer(each) for each in listed] if isinstance(listed, list) else []


def _run_sequential(shop: Workshop, model: Layer, inputs: Sequence[str], prefix: str) -> tuple[str, ...]:
    made = tuple(inputs)
    for layer in sequence_of(model):
        if not is_input(layer):
            made = shop.apply(layer, made, prefix + layer.name)
    return made


def _run_functional(shop: Workshop, model: Layer, inputs: Sequence[str], prefix: str) -> tuple[str, ...]:
    wiring = read_wiring(model)
    starts = references_of(model.options.get("input_layers"))
    if len(starts) > len(inputs):
        raise Wrong(f"the model {model.name[:40]!r} takes {len(starts)} inputs and is given {len(inputs)}")
    made: dict[tuple[str, int], tuple[str, ...]] = {
        (name, node): (given,) for (name, node, _), given in zip(starts, inputs, strict=False)
    }
    for key in _order(wiring, set(made)):
        visit = wiring.visits[key]
        given = [_pick(made, source) for source in visit.sources]
        call = None
        if _is_operation(visit.layer):
            options = {**visit.layer.options, **visit.keywords}
            call = Call(shapes=(), options=options, plain=visit.plain)
        told = wiring.told.get(key, {})
        made[key] = shop.apply(visit.layer, given, prefix + visit.layer.name, call=call, told=told)
    ends = references_of(model.options.get("output_layers"))
    return tuple(_pick(made, (name, node - wiring.first.get(name, 0), at)) for name, node, at in ends)


def _is_operation(layer: Layer) -> bool:
    return layer.module.startswith("keras.src.ops.")


def _pick(made: Mapping[tuple[str, int], tuple[str, ...]], reference: Reference) -> str:
    name, node, at = reference
    found = made.get((name, node), ())
    if not 0 <= at < len(found):
        raise Wrong(f"output {at} of the layer {name[:40]!r} is made nowhere")
    return found[at]


def read_wiring(model: Layer) -> _Wiring:
    """The calls of a functional model's layers. Raises `Wrong`."""
    wiring = _Wiring()
    seen: set[str] = set()
    old: list[tuple[str, int]] = []
    for document in model.options["layers"]:
        layer = read_layer(document)
        if layer.name in seen:
            raise Wrong(f"two layers are called {layer.name[:40]!r}")
        seen.add(layer.name)
        nodes = document.get("inbound_nodes")
        for node, call in enumerate(nodes if isinstance(nodes, list) else []):
            wiring.visits[layer.name, node] = _read_visit(layer, call, wiring)
            old += [(layer.name, node)] if isinstance(call, list) else []
            if len(wiring.visits) > MAX_CALLS:
                raise Wrong(f"it has more than {MAX_CALLS} calls of layers")
        if _counts_its_making(
            layer, of_keras_2=isinstance(nodes, list) and any(isinstance(call, list) for call in nodes)
        ):
            wiring.first[layer.name] = 1
    for key in old:
        # tf.keras 2 counts so between layers too, Keras 3 only where a model's outputs are named.
        visit = wiring.visits[key]
        sources = tuple((name, node - wiring.first.get(name, 0), at) for name, node, at in visit.sources)
        wiring.visits[key] = replace(visit, sources=sources)
    return wiring


def _counts_its_making(layer: Layer, *, of_keras_2: bool) -> bool:
    """Whether the first call of a model is number 1, because it was called once when it was made."""
    listed = layer.options.get("layers")
    if not isinstance(listed, list) or not listed:
        return False
    return "input_layers" in layer.options or (of_keras_2 and is_input(read_layer(listed[0])))


def _read_visit(layer: Layer, call: Any, wiring: _Wiring) -> _Visit:
    match call:
        case {"args": list(arguments), "kwargs": dict(keywords)}:
            flow = [keywords[name] for name in _ORDER if name in keywords]
            flow += [value for name, value in keywords.items() if name not in (*_SIDE, *_ORDER)]
            sources = [*_tensors(arguments, wiring), *_tensors(flow, wiring)]
            plain = tuple(each for each in arguments if not any(True for _ in _tensors(each, _Wiring())))
            rest = {key: value for key, value in keywords.items() if not any(True for _ in _tensors(value, _Wiring()))}
            return _Visit(layer, tuple(sources), plain, rest)
        case list():
            return _Visit(layer, references_of(call))
    raise Wrong(f"a call of the layer {layer.name[:40]!r} is not readable")


def _tensors(value: Any, wiring: _Wiring, depth: int = _MAX_NESTING) -> Iterator[Reference]:
    """Tensors in the arguments of a call of Keras 3; what the file says of them goes into `wiring`."""
    if depth == 0:
        raise Wrong("the arguments of a call are nested too deeply")
    match value:
        case {"class_name": "__keras_tensor__", "config": {"keras_history": [str(name), int(node), int(at)], **said}}:
            shape, dtype = read_shape(said.get("shape")), said.get("dtype")
            told = wiring.told.setdefault((name, node), {})
            if 0 <= at < 1000:
                told[at] = (shape, dtype[:40] if isinstance(dtype, str) else "")
            yield name, node, at
        case list():
            for each in value:
                yield from _tensors(each, wiring, depth - 1)
        case dict():
            for each in value.values():
                yield from _tensors(each, wiring, depth - 1)


def references_of(value: Any, depth: int = _MAX_NESTING) -> tuple[Reference, ...]:
    """``[layer, node, tensor]``, or lists and objects of them. Raises `Wrong`."""
    if depth == 0:
        raise Wrong("the list of inputs or outputs is nested too deeply")
    match value:
        case [str(name), int(node), int(at), *_]:
            return ((name, node, at),)
        case list():
            return tuple(found for each in value for found in references_of(each, depth - 1))
        case dict():
            return tuple(found for each in value.values() for found in references_of(each, depth - 1))
    raise Wrong("an input or output is no tensor of a layer")


def _order(wiring: _Wiring, ready: set[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Calls in an order in which each comes after those that it takes from. Raises `Wrong` where there is none."""
    waiting = {
        key: {source[:2] for source in visit.sources} - ready
        for key, visit in wiring.visits.items()
        if key not in ready and not is_input(visit.layer)
    }
    takers: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for key, sources in waiting.items():
        for source in sources:
            takers.setdefault(source, []).append(key)
    line = [key for key, sources in waiting.items() if not sources]
    for key in line:
        yield key
        for taker in takers.get(key, ()):
            waiting[taker].discard(key)
            if not waiting[taker]:
                line.append(taker)
    if len(line) < len(waiting):
        stuck = next(key for key, sources in waiting.items() if sources)
        raise Wrong(f"the layer {stuck[0][:40]!r} takes what is made nowhere, or by itself")
