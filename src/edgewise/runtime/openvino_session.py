"""A model that OpenVINO has compiled.

The engine times its inferences itself (`InferRequest.latency`, from its own call to its own return), which leaves out
the binding's work around them (a few µs a call); that is the latency edgewise quotes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import check_dtypes, closed, own_copies, run_on_threads
from edgewise.runtime.base import INPUTS_FIRST, LoadOptions

#: the engine's element types → numpy's names
DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "boolean": "bool",
    **{f"{short}{bits}": f"{long}{bits}" for short, long in (("i", "int"), ("u", "uint"))
       for bits in (4, 8, 16, 32, 64)},
}  # fmt: skip


#: property of a compiled model → what it is called in `effective`
_TOLD = {
    "INFERENCE_NUM_THREADS": "threads", "NUM_STREAMS": "streams", "PERFORMANCE_HINT": "performance_hint",
    "EXECUTION_MODE_HINT": "execution_mode", "ENABLE_CPU_PINNING": "cpu_pinning",
}  # fmt: skip


#: nodes of the compiled graph that compute nothing
PASSIVE = frozenset({"Input", "Output", "Const", "Parameter", "Result"})


#: the plug-in's words for layers that multiply and accumulate: in their number format a network is computed
_PRODUCTS = frozenset({
    "Convolution", "BinaryConvolution", "DeformableConvolution", "Deconvolution", "FullyConnected", "MatMul",
    "GatherMatmul", "RNNSeq", "RNNCell", "ScaledDotProductAttention", "PagedAttention", "MHA",
    "QKVProjection", "LLMMLP",
})  # fmt: skip


class OpenVinoSession:
    """A model in OpenVINO. Attributes as in `edgewise.runtime.base.Session`.

    `tell_more`: entries of `effective` that the compiled model does not know.
    """

    def __init__(self, compiled: Any, options: LoadOptions, tell_more: Callable[[], Mapping[str, Any]] = dict) -> None:
        self._tell_more = tell_more
        self.inputs: Sequence[TensorSpec] = tuple(map(spec_of, compiled.inputs))
        self.outputs: Sequence[TensorSpec] = tuple(map(spec_of, compiled.outputs))
        check_dtypes(self.inputs, self.outputs)
        self.invoke: Callable[[], object] = closed
        self._provider = options.provider
        self._compiled = compiled
        self._request = compiled.create_infer_request()
        # One inference at a time; in the offline scenario those asked for, else what the engine calls optimal.
        self._requests = 1
        if options.offline:
            self._requests = options.requests or int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._streams = _told(compiled, "NUM_STREAMS") or 0
        self._arrays: list[Any] | None = None
        # The requests of the offline scenario, as a list or as the engine's queue.
        self._pool: Any = None

    @cached_property
    def states(self) -> Sequence[str]:
        """Names of the variables that ReadValue and Assign keep."""
        return [state.name for state in self._request.query_state()]

    def reset_state(self) -> bool:
        """Give every variable its initial value."""
        self._request.reset_state()
        return True

    @cached_property
    def effective(self) -> Mapping[str, Any]:
        """What the compiled model says of itself; read late, so that asking is no part of the loading time."""
        return {**_effective(self._compiled, self._provider, self._requests), **self._tell_more()}

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into the engine's own input tensors. Raises ValueError where they don't fit."""
        self._arrays = own_copies(arrays, self.inputs)
        fill(self._request, self._arrays)
        self._pool = None
        self.invoke = call_of(self._request)

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        import numpy as np

        return [np.array(self._request.get_output_tensor(index).data) for index in range(len(self.outputs))]

    def engine_latency_ns(self) -> int:
        """Nanoseconds of the last inference by the engine's steady clock; it tells milliseconds with a fraction."""
        milliseconds: float = self._request.latency
        return round(milliseconds * 1e6)

    def run_many(
        self, *, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]
    ) -> None:
        """Keep every request busy.

        Where each request has a stream of its own, a Python thread calls it: the queue of asynchronous requests needs
        Python's lock for every completion and then starts the next one elsewhere, which made small models up to 1.6
        times slower here. More requests than streams go through the queue, because threads would be more than were
        asked for.
        """
        if self._arrays is None:
            closed()
        elif self._requests <= self._streams:
            run_on_threads(
                self._synchronous_calls(), clock=clock, until_ns=until_ns, count=count, completions=completions
            )
        else:
            self._run_queue(clock=clock, until_ns=until_ns, count=count, completions=completions)

    def _synchronous_calls(self) -> list[Callable[[], object]]:
        """One inference of each request, made once per binding."""
        if self._pool is None:
            self._pool = [self._compiled.create_infer_request() for _ in range(self._requests)]
            for request in self._pool:
                fill(request, self._arrays or [])
        return [call_of(request) for request in self._pool]

    def _run_queue(
        self, *, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]
    ) -> None:
        """Keep a queue of asynchronous requests full; each completion's callback reads `clock`."""
        if until_ns is None and count is None:
            raise ValueError("neither an end time nor a number of inferences given")
        if self._pool is None:
            from openvino import AsyncInferQueue

            self._pool = AsyncInferQueue(self._compiled, self._requests)
            for request in self._pool:
                fill(request, self._arrays or [])
        # Called on the engine's threads under Python's lock.
        self._pool.set_callback(lambda request, data: completions.append(clock()))
        start = partial(_below(self._pool, "start_async"), {}, None)
        begun = 0
        while (count is None or begun < count) and (until_ns is None or clock() < until_ns):
            start()  # waits for an idle request
            begun += 1
        self._pool.wait_all()

    def close(self) -> None:
        """Release requests and compiled model."""
        self.invoke = closed
        self._arrays = self._pool = self._request = self._compiled = None


def _below(thing: Any, method: str) -> Any:
    """Return the binding's `method` without Python's class, which looks for inputs not given and wraps outputs."""
    return getattr(super(type(thing), thing), method)


def call_of(request: Any) -> Callable[[], object]:
    """One inference of `request` on what its input tensors hold; True shares the outputs' memory, copying nothing."""
    return partial(_below(request, "infer"), {}, True, decode_strings=False)


def fill(request: Any, arrays: Sequence[Any]) -> None:
    """Copy `arrays` into the request's input tensors."""
    for index, array in enumerate(arrays):
        tensor = request.get_input_tensor(index)
        if tuple(tensor.shape) != array.shape:  # only where the model stayed dynamic
            tensor.shape = array.shape
        tensor.data[...] = array


def _effective(compiled: Any, provider: str, requests: int) -> Mapping[str, Any]:
    precision = _told(compiled, "INFERENCE_PRECISION_HINT")
    devices = _told(compiled, "EXECUTION_DEVICES")
    layers = _layers(compiled)
    operators = None if layers is None else dict(Counter(precision for _, precision in layers))
    products = Counter(precision for kind, precision in layers or () if kind in _PRODUCTS)
    return {
        "provider": provider, "device": ", ".join(devices) if devices else None,
        "precision": _common(operators) if precision is None else precision.get_type_name(),
        "precision_of_operators": operators, "precision_of_products": None if layers is None else dict(products),
        "requests": requests, **INPUTS_FIRST, **{name: _plain(_told(compiled, key)) for key, name in _TOLD.items()},
    }  # fmt: skip


def _told(compiled: Any, name: str) -> Any:
    """Return the property `name` of a compiled model; None where its device has none."""
    return compiled.get_property(name) if name in compiled.get_property("SUPPORTED_PROPERTIES") else None


def _plain(value: Any) -> Any:
    """`value` as JSON has it; the engine's enumerations by their name."""
    return value if value is None or isinstance(value, bool | int | float | str) else getattr(value, "name", str(value))


def _common(operators: Mapping[str, int] | None) -> str | None:
    """Return the one floating-point precision of all operators; None where they mix or the device tells none."""
    floats = {name for name in operators or () if name in ("f32", "bf16", "f16")}
    return floats.pop() if len(floats) == 1 else None


def _layers(compiled: Any) -> list[tuple[str, str]] | None:
    """Type and precision of each layer of the compiled graph; None where the device does not tell."""
    try:
        told = [node.get_rt_info() for node in compiled.get_runtime_model().get_ordered_ops()]
        found = [(info["layerType"].astype(str), info["runtimePrecision"].astype(str)) for info in told]
    except (RuntimeError, KeyError, TypeError):
        return None
    return [(kind, precision) for kind, precision in found if kind not in PASSIVE]


def shape_of(port: Any) -> tuple[int | None, ...] | None:
    """Its shape; None of unknown rank."""
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return None
    return tuple(None if size.is_dynamic else size.get_length() for size in shape)


def spec_of(port: Any) -> TensorSpec:
    """Return an input or output of the engine."""
    names = sorted(port.get_names())
    kind = port.get_element_type().get_type_name()
    name = names[0] if names else port.get_node().get_friendly_name()
    return TensorSpec(name=name, shape=shape_of(port), dtype=DTYPES.get(kind, kind))
