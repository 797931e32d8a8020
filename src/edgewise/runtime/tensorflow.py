"""TensorFlow: SavedModels and frozen graphs on the CPU.

A SavedModel is run by the concrete function of its serving signature, with constant tensors, as in TensorFlow's own
guides. A SavedModel is a program, so its operators are checked first (`edgewise.runtime.tensorflow_operators`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgewise.errors import as_flag
from edgewise.model.signature import TensorSpec
from edgewise.packages import SAME
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_dtypes, check_fits, closed, in_shapes, own_copies, run_on_threads, tell
from edgewise.runtime.base import (
    CannotProfile,
    EngineProfile,
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.runtime.tensorflow_operators import check_graph, check_saved_model
from edgewise.text import means_out_of_memory

SAVED_MODEL = "saved_model.pb"
_SERVING = "serving_default"
#: numbers of TensorFlow's floating-point types → our names of precisions
_FLOATS = {1: "f32", 2: "f64", 14: "bf16", 19: "f16"}


class TensorFlow:
    """Google's TensorFlow."""

    name = "tensorflow"
    title = "TensorFlow"
    formats: Sequence[str] = ("savedmodel", "tensorflow")
    providers: Sequence[Provider] = (
        Provider(name="function", title="concrete function on the CPU"),
        Provider(name="xla", title="concrete function, compiled by XLA for the CPU"),
    )
    in_default = True
    signature_formats = ("savedmodel",)

    def availability(self) -> Availability:
        """Whether one of the packages that bring TensorFlow is installed."""
        answers = [package_availability(name, extra="tensorflow", module="tensorflow") for name in SAME["tensorflow"]]
        return next((answer for answer in answers if answer), answers[0])

    def import_engine(self) -> str:
        """Import the engine without its chatter and return its version as its package has it."""
        import_quietly()
        return self.availability().version or ""

    def describe(self, path: Path) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Return inputs and outputs of the model at `path`; see `edgewise.runtime.base.DescribesModels`."""
        loaded = _load(path)
        return loaded.inputs, loaded.outputs

    def describe_signatures(self, path: Path) -> Mapping[str, tuple[Sequence[TensorSpec], Sequence[TensorSpec]]]:
        """Signatures of the SavedModel at `path`; see `edgewise.runtime.base.DescribesSignatures`."""
        if path.name != SAVED_MODEL:
            return {}
        try:
            known = _serving_graph(_read_document(path)).signature_def
            names = _list_signatures(known)
        except Exception as error:
            raise explain(error) from error
        return {name: (_told_specs(known[name].inputs), _told_specs(known[name].outputs)) for name in names}

    def load(self, path: Path, options: LoadOptions) -> TensorFlowSession:
        """Return a session for a SavedModel's ``saved_model.pb``, or for a frozen graph. Raises as `Runtime.load`."""
        if options.precision not in (None, "f32"):
            raise UnsupportedModel(f"TensorFlow runs a model in its own precision, not in {options.precision}")
        if options.provider not in {known.name for known in self.providers}:
            raise UnsupportedModel(f"TensorFlow has no provider {options.provider!r} (it has: function, xla)")
        check_settings(self.title, (), options.extra)
        # One inference at a time, or in the offline scenario those asked for, else one per thread.
        requests = (options.requests or options.streams or options.threads or 1) if options.offline else 1
        set_threads(options.threads, requests)
        loaded = _load(path, options.signature).shaped(options.shapes)
        if options.provider == "xla":
            return XlaSession(_with_xla(loaded), provider=options.provider, requests=requests)
        return TensorFlowSession(loaded, provider=options.provider, requests=requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A function with its inputs and outputs.

    Attributes:
        function: takes tensors by the names of `inputs` and returns a dict by those of `outputs`.
        graph: what it consists of, a ``GraphDef``.
        signature: its name in a SavedModel.
        owner: keeps the variables alive.
    """

    function: Callable[..., Mapping[str, Any]]
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    graph: Any
    signature: str | None = None
    owner: Any = None

    def shaped(self, shapes: Mapping[str, tuple[int, ...]]) -> _Loaded:
        """Return the same with its inputs in the order of `shapes`, and of these shapes. Raises `UnsupportedModel`."""
        inputs = self.inputs
        if {*shapes} == {spec.name for spec in inputs}:  # the reader of the file may list them in another order
            named = {spec.name: spec for spec in inputs}
            inputs = [named[name] for name in shapes]
        given = in_shapes(inputs, shapes)
        check_fits(inputs, given)
        return replace(self, inputs=given)


class TensorFlowSession:
    """A model in TensorFlow. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(self, loaded: _Loaded, *, provider: str, requests: int) -> None:
        self.inputs: Sequence[TensorSpec] = loaded.inputs
        self.outputs: Sequence[TensorSpec] = loaded.outputs
        check_dtypes(self.inputs, self.outputs)
        self.invoke: Callable[[], object] = closed
        self._loaded: _Loaded | None = loaded
        self._provider, self._requests = provider, requests
        self._functions = self._one_for_each(loaded, requests)
        self._calls: list[Callable[[], Mapping[str, Any]]] = [partial(dict)]
        self._result: Mapping[str, Any] = {}

    @cached_property
    def effective(self) -> Mapping[str, Any]:
        """Settings in effect. Precision: the one floating-point type of the graph; None where it has several."""
        graph = None if self._loaded is None else self._loaded.graph
        return {
            "provider": self._provider, "precision": None if graph is None else _precision(graph), "streams": None,
            "accelerator": "CPU", "requests": self._requests,
            "signature": None if self._loaded is None else self._loaded.signature, **told_threads(),
        }  # fmt: skip

    @cached_property
    def _initial(self) -> Sequence[tuple[Any, Any]]:
        """Variables that the function assigns, and the values that they begin with."""
        written = () if self._loaded is None else _find_written(self._loaded.function)
        return [(variable, variable.numpy()) for variable in written]

    @property
    def states(self) -> Sequence[str]:
        """Names of the variables that the function assigns."""
        return [variable.name.removesuffix(":0") for variable, _ in self._initial]

    def reset_state(self) -> bool:
        """Give the variables in `states` the values that they were loaded with."""
        for variable, value in self._initial:
            variable.assign(value)
        return True

    def bind(self, arrays: Sequence[Any]) -> None:
        """Make one constant tensor per input. Raises ValueError where they don't fit."""
        import tensorflow as tf

        copies = own_copies(arrays, self.inputs)
        if self._loaded is None:
            closed()
            return
        _ = self._initial  # before the first inference, which may change the variables
        tensors = {spec.name: tf.constant(copy) for spec, copy in zip(self.inputs, copies, strict=True)}
        self._calls = [partial(function, **tensors) for function in self._functions]
        self.invoke = self._infer

    def _infer(self) -> None:
        self._result = self._calls[0]()

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        import numpy as np

        return [np.array(self._result[spec.name].numpy()) for spec in self.outputs]

    def run_many(
        self, *, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]
    ) -> None:
        """As many Python threads as there are requests call their function, which releases Python's lock."""
        run_on_threads(self._calls, clock=clock, until_ns=until_ns, count=count, completions=completions)

    @staticmethod
    def _one_for_each(loaded: _Loaded, requests: int) -> list[Callable[..., Mapping[str, Any]]]:
        """As many functions as there are requests, with operators of their own and the same variables.

        TensorFlow 2.21 crashes where two threads call one function that adds to the output of a convolution, as
        residual networks do, with oneDNN (its default on processors with AVX-512 VNNI).
        """
        import tensorflow as tf

        specs = {spec.name: tf.TensorSpec(spec.shape, spec.dtype) for spec in loaded.inputs}
        others = [tf.function(loaded.function, autograph=False) for _ in range(requests - 1)]
        return [loaded.function, *(other.get_concrete_function(**specs) for other in others)]

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Time the operators by TensorFlow's profiler. Raises `CannotProfile` where it lists none."""
        from edgewise.runtime.tensorflow_profile import profile_calls

        return profile_calls(self.invoke, inferences)

    def close(self) -> None:
        """Release the function and its variables."""
        self.invoke = closed
        self._functions, self._calls, self._loaded, self._result = [], [partial(dict)], None, {}


class XlaSession(TensorFlowSession):
    """A model that XLA compiles for the shapes of the inputs."""

    @staticmethod
    def _one_for_each(loaded: _Loaded, requests: int) -> list[Callable[..., Mapping[str, Any]]]:
        """Return the function itself: what XLA compiles may be called by several threads, and is compiled once."""
        return [loaded.function] * requests

    def compile(self) -> Mapping[str, Any]:
        """Compile the function for the bound inputs; see `edgewise.runtime.base.Compiles`."""
        try:
            self._infer()
        except Exception as error:
            raise explain(error, otherwise=UnsupportedModel, context="XLA can't compile the model: ") from error
        return {"cached": False, "ahead": False}

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Raise `CannotProfile`."""
        other = as_flag("runtime", "tensorflow/function")
        raise CannotProfile(f"XLA fuses the operators of a model into one call; use {other}")


def import_quietly() -> None:
    """Import TensorFlow for the CPU, without what it and absl log below errors."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    tf.autograph.set_verbosity(0)


def set_threads(threads: int | None, requests: int = 1) -> None:
    """Size TensorFlow's two pools so that `threads` compute in all, `requests` inferences at a time.

    Operators run on the inter-op pool, one at a time in each inference, and split their work over the intra-op pool.
    Without a number the engine's defaults stay. Raises `UnsupportedModel`: this process has used TensorFlow already,
    with other pools.
    """
    import tensorflow as tf

    pools = tf.config.threading
    wanted = [(pools.set_inter_op_parallelism_threads, requests)] if threads or requests > 1 else []
    if threads:
        wanted.append((pools.set_intra_op_parallelism_threads, max(1, threads // requests)))
    for set_size, size in wanted:
        try:
            set_size(size)
        except RuntimeError as error:
            raise UnsupportedModel(
                "TensorFlow has fixed its number of threads in this process; use a fresh process to change it"
            ) from error


def told_threads() -> dict[str, int | None]:
    """Sizes of TensorFlow's pools; None where it chose them, because it does not tell."""
    import tensorflow as tf

    intra = tf.config.threading.get_intra_op_parallelism_threads() or None
    inter = tf.config.threading.get_inter_op_parallelism_threads() or None
    both = None if intra is None or inter is None else max(intra, inter)
    return {"threads": both, "intra_op_threads": intra, "inter_op_threads": inter}


def _load(path: Path, signature: str = "") -> _Loaded:
    """Return the model at `path`. Raises `UnsupportedModel`, `InvalidModel` or MemoryError."""
    try:
        return _load_saved(path, signature) if path.name == SAVED_MODEL else _load_frozen(path)
    except Exception as error:
        raise explain(error) from error


def _read_document(path: Path) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(path.read_bytes())


def _load_saved(path: Path, signature: str) -> _Loaded:
    import tensorflow as tf

    meta = _serving_graph(_read_document(path))
    names = _list_signatures(meta.signature_def)
    name = signature or names[0]
    if name not in names:
        raise UnsupportedModel(f"it has no signature {name!r} (it has: {', '.join(names)})")
    check_saved_model(meta, name)
    model = tf.saved_model.load(str(path.parent), tags=list(meta.meta_info_def.tags))
    function = model.signatures[name]
    taken = function.structured_input_signature[1]
    return _Loaded(
        function=function, inputs=_specs((key, taken[key]) for key in sorted(taken)),
        outputs=_specs(sorted(function.structured_outputs.items())), graph=meta.graph_def, signature=name, owner=model,
    )  # fmt: skip


def _find_written(function: Any) -> list[Any]:
    """Variables that a concrete function assigns, as far as TensorFlow does not list them among those it only reads."""
    if (own := getattr(function, "graph", None)) is None:
        return []  # a frozen graph has no variables
    graph = own.as_graph_def()
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    if not any(node.op.startswith("Assign") for node in nodes):
        return []
    written: set[str] = set()
    for node in graph.node:
        only_read = {*node.attr["_read_only_resource_inputs"].list.i}
        if only_read or node.op.startswith("Assign") or "Call" in node.op or node.op in ("If", "While"):
            written |= {name for place, name in enumerate(node.input) if place not in only_read}
    inner_names = [tensor.op.name for tensor in own.internal_captures]
    handles = [handle for name, handle in zip(inner_names, function.captured_inputs, strict=True) if name in written]
    return [variable for variable in function.variables if any(variable.handle is handle for handle in handles)]


def _serving_graph(document: Any) -> Any:
    """Return the graph for serving. Raises `InvalidModel` or `UnsupportedModel`."""
    if not document.meta_graphs:
        raise InvalidModel("it is not a SavedModel, or has no graph")
    for meta in document.meta_graphs:
        if "serve" in meta.meta_info_def.tags:
            return meta
    if len(document.meta_graphs) > 1:
        raise UnsupportedModel("none of its graphs has the tag 'serve'")
    return document.meta_graphs[0]


def _list_signatures(signatures: Mapping[str, Any]) -> list[str]:
    """Names of signatures: ``serving_default`` first, the others by name. Raises `UnsupportedModel` without any."""
    names = sorted(name for name in signatures if not name.startswith("__") and signatures[name].outputs)
    if not names:
        raise UnsupportedModel(
            "the SavedModel has no signature: export it with model.export(PATH), or with "
            "tf.saved_model.save(module, PATH, signatures=CONCRETE_FUNCTION)"
        )
    return sorted(names, key=lambda name: name != _SERVING)


def _told_specs(tensors: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    """Return inputs or outputs as a signature of a SavedModel has them."""
    import tensorflow as tf

    return _specs((name, tf.TensorSpec(tensors[name].tensor_shape, tensors[name].dtype)) for name in sorted(tensors))


def _load_frozen(path: Path) -> _Loaded:
    """Return a frozen graph: its inputs are the placeholders, its outputs what no other operator takes."""
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorflow.core.framework import graph_pb2

    if not path.is_file():
        raise InvalidModel(f"there is no file {path.name}")
    data, graph = path.read_bytes(), graph_pb2.GraphDef()
    if re.match(rb"\s*node\s*\{", data):
        text_format.Parse(data.decode(), graph)
    else:
        graph.ParseFromString(data)
    check_graph(graph)
    taken = {source.lstrip("^").partition(":")[0] for node in graph.node for source in node.input}
    feeds = [node.name for node in graph.node if node.op.startswith("Placeholder")]
    passive = {*feeds, *(node.name for node in graph.node if node.op in ("Const", "NoOp", "Assert"))}
    fetches = [node.name for node in graph.node if node.name not in taken and node.name not in passive]
    if not feeds or not fetches:
        raise InvalidModel("it is not a frozen graph, or has no inputs or outputs")
    whole = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    sources = [whole.graph.get_tensor_by_name(f"{name}:0") for name in feeds]
    pruned = whole.prune(sources, [whole.graph.get_tensor_by_name(f"{name}:0") for name in fetches])

    def call(**tensors: Any) -> dict[str, Any]:
        return dict(zip(fetches, pruned(*(tensors[name] for name in feeds)), strict=True))

    return _Loaded(
        function=call, inputs=_specs(zip(feeds, pruned.inputs, strict=True)),
        outputs=_specs(zip(fetches, pruned.outputs, strict=True)), graph=graph, owner=pruned,
    )  # fmt: skip


def _with_xla(loaded: _Loaded) -> _Loaded:
    """Return the same function, compiled by XLA when first called. Raises `UnsupportedModel` for open sizes."""
    import tensorflow as tf

    if any(spec.dynamic for spec in loaded.inputs):
        raise UnsupportedModel("XLA compiles for known shapes only; give them with ⟦shape⟧")
    compiled = tf.function(loaded.function, jit_compile=True, autograph=False)
    specs = {spec.name: tf.TensorSpec(spec.shape, spec.dtype) for spec in loaded.inputs}
    try:
        return replace(loaded, function=compiled.get_concrete_function(**specs), owner=loaded)
    except Exception as error:
        raise explain(error, otherwise=UnsupportedModel, context="XLA can't compile the model: ") from error


def _specs(named: Iterable[tuple[str, Any]]) -> tuple[TensorSpec, ...]:
    """Specs of tensors, or of what TensorFlow itself calls specs."""
    return tuple(
        TensorSpec(
            name=name,
            shape=None if tensor.shape.rank is None else tuple(tensor.shape.as_list()),
            dtype=tensor.dtype.name,
        )
        for name, tensor in named
    )


def _precision(graph: Any) -> str | None:
    """Return the one floating-point type that the operators of a ``GraphDef`` have; None where there are several."""
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    found = {_FLOATS[kind] for node in nodes if (kind := node.attr["T"].type) in _FLOATS}
    return found.pop() if len(found) == 1 else None


_UNSUPPORTED = re.compile(
    r"not registered|Unimplemented|not (?:yet )?(?:supported|implemented)|unsupported", re.IGNORECASE
)


def explain(error: Exception, *, otherwise: type[Exception] = InvalidModel, context: str = "") -> Exception:
    """Return the engine's error as one of ours, after `context`; `otherwise` where its text tells nothing."""
    if isinstance(error, MemoryError | UnsupportedModel | InvalidModel):
        return error
    text = str(error) or type(error).__name__
    if means_out_of_memory(text) or type(error).__name__ == "ResourceExhaustedError":
        return MemoryError(tell(text))
    return (UnsupportedModel if _UNSUPPORTED.search(text) else otherwise)(context + tell(text))
