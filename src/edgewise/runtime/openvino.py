"""OpenVINO.

The engine times its inferences itself (`InferRequest.latency`, from its own call to its own return), which leaves out
the binding's work around them (a few µs a call); that is the latency edgewise quotes.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgewise.model.flex import flex_words
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import (
    check_dtypes,
    check_rank,
    closed,
    own_copies,
    refused,
    run_on_threads,
    shapes_in_order,
    tell,
)
from edgewise.runtime.base import (
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.runtime.onnx_functions import has_functions, write_inlined
from edgewise.runtime.tflite_buffers import NOT_IN_OPENVINO, has_buffers_behind
from edgewise.text import means_out_of_memory

#: the engine's element types → numpy's names
DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "boolean": "bool",
    **{f"{short}{bits}": f"{long}{bits}" for short, long in (("i", "int"), ("u", "uint"))
       for bits in (4, 8, 16, 32, 64)},
}  # fmt: skip
#: property of a compiled model → what it is called in `effective`
_TOLD = {
    "INFERENCE_NUM_THREADS": "threads",
    "NUM_STREAMS": "streams",
    "PERFORMANCE_HINT": "performance_hint",
    "EXECUTION_MODE_HINT": "execution_mode",
    "ENABLE_CPU_PINNING": "cpu_pinning",
}
#: nodes of the compiled graph that compute nothing
PASSIVE = frozenset({"Input", "Output", "Const", "Parameter", "Result"})
#: the plug-in's words for layers that multiply and accumulate: in their number format a network is computed
_PRODUCTS = frozenset({
    "Convolution", "BinaryConvolution", "DeformableConvolution", "Deconvolution", "FullyConnected", "MatMul",
    "GatherMatmul", "RNNSeq", "RNNCell", "ScaledDotProductAttention", "PagedAttention", "MHA",
    "QKVProjection", "LLMMLP",
})  # fmt: skip
#: on these devices float32 is not a matter of course: bfloat16 or float16 is their default where they have it
_TAKES_PRECISION = frozenset({"CPU", "GPU"})


class OpenVino:
    """Intel's OpenVINO."""

    name = "openvino"
    title = "OpenVINO"
    formats: Sequence[str] = ("openvino", "onnx", "tflite", "savedmodel", "tensorflow", "paddle")
    providers: Sequence[Provider] = (
        Provider(name="cpu", title="CPU", precisions=("f32", "bf16", "f16")),
        Provider(name="gpu", title="GPU", precisions=("f32", "f16"), accelerator=True),
        Provider(name="npu", title="NPU", precisions=("f16",), accelerator=True),
        Provider(name="auto", title="AUTO"),
    )
    in_default = True
    #: properties of devices; others name files or folders (CACHE_DIR, WEIGHTS_PATH, CONFIG_FILE) or hold more of them
    settings = frozenset({
        "CPU_DENORMALS_OPTIMIZATION", "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE", "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "ENABLE_CPU_PINNING", "ENABLE_CPU_RESERVATION", "ENABLE_HYPER_THREADING", "EXECUTION_MODE_HINT",
        "KV_CACHE_PRECISION", "NUM_STREAMS", "PERFORMANCE_HINT", "PERFORMANCE_HINT_NUM_REQUESTS",
        "SCHEDULING_CORE_TYPE",
    })  # fmt: skip

    def availability(self) -> Availability:
        """Whether the package openvino is installed."""
        return package_availability("openvino", extra="openvino", module="openvino")

    def import_engine(self) -> str:
        """Import the engine and return its version as its package has it."""
        from importlib.metadata import version

        import openvino

        del openvino
        return version("openvino")

    def describe(self, path: Path) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Inputs and outputs of the model at `path`; see `edgewise.runtime.base.DescribesModels`."""
        import openvino

        model = _read_model(openvino.Core(), path)
        return tuple(map(_spec, model.inputs)), tuple(map(_spec, model.outputs))

    def load(self, path: Path, options: LoadOptions) -> OpenVinoSession:
        """A session for the model at `path`, reshaped to `options.shapes`.

        Raises `UnsupportedModel`, `InvalidModel`, MemoryError or the engine's own exceptions.
        """
        check_settings(self.title, self.settings, options.extra)
        import openvino

        core = openvino.Core()
        device = _find_device(core, options.provider)
        model = _read_model(core, path)
        try:
            _reshape(model, options.shapes)
        except Exception as error:
            raise _explain(error, otherwise=UnsupportedModel, context=refused(options.shapes)) from error
        config = _configure(device, options)
        try:
            compiled = core.compile_model(model, device, config)
        except Exception as error:
            raise _explain(error, otherwise=UnsupportedModel) from error
        if options.profile:
            from edgewise.runtime.openvino_profile import ProfiledOpenVinoSession

            again = partial(core.compile_model, model, device, config | {"PERF_COUNT": True})
            return ProfiledOpenVinoSession(compiled, options, model=model, path=path, compile_anew=again)
        return OpenVinoSession(compiled, options)


def _read_model(core: Any, path: Path) -> Any:
    """The model at `path`. OpenVINO knows TFLite by the extension alone, so any other name gets a proper link.

    Raises `UnsupportedModel`, `InvalidModel` or MemoryError.
    """
    try:
        with path.open("rb") as file:
            head = file.read(8)
        if path.name == "saved_model.pb" and head[:1] == b"\x08":  # no frozen graph of that name
            return core.read_model(str(path.parent))
        if path.suffix == ".onnx" and has_functions(path):
            with tempfile.TemporaryDirectory() as folder:
                return core.read_model(str(write_inlined(path, Path(folder))))
        if head[4:] != b"TFL3" or path.suffix == ".tflite":
            return core.read_model(str(path))
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder, "model.tflite")
            link.symlink_to(path.resolve())
            return core.read_model(str(link))
    except Exception as error:
        if has_buffers_behind(path):
            raise UnsupportedModel(NOT_IN_OPENVINO) from error
        raise _explain(error, otherwise=InvalidModel) from error


class OpenVinoSession:
    """A model in OpenVINO. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(self, compiled: Any, options: LoadOptions) -> None:
        self.inputs: Sequence[TensorSpec] = tuple(map(_spec, compiled.inputs))
        self.outputs: Sequence[TensorSpec] = tuple(map(_spec, compiled.outputs))
        check_dtypes(self.inputs, "input")
        check_dtypes(self.outputs, "output")
        self.invoke: Callable[[], object] = closed
        self._provider = options.provider
        self._compiled = compiled
        self._request = compiled.create_infer_request()
        self._requests = _count_requests(compiled, options)
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
        return _effective(self._compiled, self._provider, self._requests)

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into the engine's own input tensors. Raises ValueError where they don't fit."""
        self._arrays = own_copies(arrays, self.inputs)
        fill(self._request, self._arrays)
        self._pool = None
        self.invoke = call_of(self._request)

    def read_outputs(self) -> Sequence[Any]:
        """Copies of the outputs of the last inference."""
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
    """The binding's own `method` below the Python class, which looks at inputs not given and wraps outputs not read."""
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


def _find_device(core: Any, provider: str) -> str:
    """The engine's name of the device `provider`. Raises `UnsupportedModel` where the engine sees none."""
    device = provider.upper()
    seen = list(core.available_devices)
    if device == "AUTO" or any(name == device or name.startswith(f"{device}.") for name in seen):
        return device
    raise UnsupportedModel(f"OpenVINO finds no {device} on this machine (it finds: {', '.join(seen)})")


def _reshape(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Give every input its wanted shape, where it has another. Raises the engine's error where that can't be."""
    wanted = shapes_in_order([tuple(port.get_names()) for port in model.inputs], shapes)
    changed: dict[int, list[int]] = {}
    for index, (port, shape) in enumerate(zip(model.inputs, wanted, strict=True)):
        own = _shape(port)
        if shape is None or own == shape:
            continue
        if own is not None:
            check_rank(_spec(port).name, len(own), shape)
        changed[index] = list(shape)
    if changed:
        model.reshape(changed)


def _configure(device: str, options: LoadOptions) -> dict[str, Any]:
    """The engine's properties for `options`."""
    config: dict[str, Any] = {}
    if options.precision or device in _TAKES_PRECISION:
        config["INFERENCE_PRECISION_HINT"] = options.precision or "f32"
    if options.threads is not None and device == "CPU":
        config["INFERENCE_NUM_THREADS"] = options.threads
    if options.streams is not None:
        config["NUM_STREAMS"] = options.streams
    else:
        config["PERFORMANCE_HINT"] = "THROUGHPUT" if options.offline else "LATENCY"
    if device == "AUTO":
        # AUTO hands neither down by itself: on a processor with bfloat16 it would run that, on all cores.
        processor: dict[str, Any] = {"INFERENCE_PRECISION_HINT": options.precision or "f32"}
        if options.threads is not None:
            processor["INFERENCE_NUM_THREADS"] = options.threads
        config["DEVICE_PROPERTIES"] = {"CPU": processor}
    return config | dict(options.extra)


def _count_requests(compiled: Any, options: LoadOptions) -> int:
    """Requests in flight: one, or in the offline scenario those asked for, else what the engine calls optimal."""
    if not options.offline:
        return 1
    return options.requests or int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))


def _effective(compiled: Any, provider: str, requests: int) -> Mapping[str, Any]:
    precision = _told(compiled, "INFERENCE_PRECISION_HINT")
    devices = _told(compiled, "EXECUTION_DEVICES")
    layers = _layers(compiled)
    operators = None if layers is None else dict(Counter(precision for _, precision in layers))
    products = Counter(precision for kind, precision in layers or () if kind in _PRODUCTS)
    return {
        "provider": provider,
        "device": ", ".join(devices) if devices else None,
        "precision": _common(operators) if precision is None else precision.get_type_name(),
        "precision_of_operators": operators,
        "precision_of_products": None if layers is None else dict(products),
        "requests": requests,
        **{name: _plain(_told(compiled, key)) for key, name in _TOLD.items()},
    }


def _told(compiled: Any, name: str) -> Any:
    """The property `name` of a compiled model; None where its device has none."""
    return compiled.get_property(name) if name in compiled.get_property("SUPPORTED_PROPERTIES") else None


def _plain(value: Any) -> Any:
    """`value` as JSON has it; the engine's enumerations by their name."""
    return value if value is None or isinstance(value, bool | int | float | str) else getattr(value, "name", str(value))


def _common(operators: Mapping[str, int] | None) -> str | None:
    """The one floating-point precision that all operators run in; None where they mix or the device does not tell."""
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


def _shape(port: Any) -> tuple[int | None, ...] | None:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return None
    return tuple(None if size.is_dynamic else size.get_length() for size in shape)


def _spec(port: Any) -> TensorSpec:
    names = sorted(port.get_names())
    kind = port.get_element_type().get_type_name()
    name = names[0] if names else port.get_node().get_friendly_name()
    return TensorSpec(name=name, shape=_shape(port), dtype=DTYPES.get(kind, kind))


_UNSUPPORTED = re.compile(
    r"OpConversionFailure|NotImplementedFailure|not (?:yet )?(?:supported|implemented)|unsupported|No translator|"
    r"Unexpected type: RESOURCE|already produced by previous operators",  # states of TFLite files
    re.IGNORECASE,
)


def _explain(error: Exception, *, otherwise: type[Exception], context: str = "") -> Exception:
    """The engine's error as one of ours, after `context`; `otherwise` where its text tells nothing."""
    if isinstance(error, MemoryError | UnsupportedModel):
        return error
    text = str(error).replace(" with a message:", ":")
    if means_out_of_memory(text):
        return MemoryError(tell(text, noise=_NOISE))
    # The engine says of every file that no front end takes that its format may not be supported: that is no model.
    kind = UnsupportedModel if _UNSUPPORTED.search(text) and "Unable to read the model" not in text else otherwise
    return kind(context + (flex_words(text, "OpenVINO") or tell(text, noise=_NOISE)))


_NOISE = (
    r"Exception from |Check '.*' failed at |FrontEnd API failed|Summary:|Model wasn't fully converted|While validating|"
    r"Loading input model|Conversion is failed for"
)
