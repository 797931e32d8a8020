"""LiteRT (TensorFlow Lite): its interpreter and its compiled models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgewise.model.flex import flex_words
from edgewise.model.readers.tflite_entry import EntryPoint, read_entry
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_dtypes, check_rank, closed, own_copies, refused, shapes_in_order, tell
from edgewise.runtime.base import (
    CannotProfile,
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.text import means_out_of_memory

#: provider → name of the interpreter's set of kernels
_RESOLVERS = {
    "interpreter": "AUTO",
    "interpreter-noxnnpack": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "interpreter-reference": "BUILTIN_REF",
}
#: settings of the interpreter, without those that would change the provider or disturb measuring
_INTERPRETER_SETTINGS = frozenset({
    "experimental_default_delegate_latest_features", "experimental_disable_delegate_clustering",
})  # fmt: skip
#: of the compiled model's processor, without the path of XNNPACK's cache
_CPU_SETTINGS = frozenset({"kernel_mode", "enable_ynnpack", "xnnpack_flags"})


class LiteRt:
    """Google's LiteRT, the successor of TensorFlow Lite."""

    name = "litert"
    title = "LiteRT"
    formats: Sequence[str] = ("tflite",)
    providers: Sequence[Provider] = (
        Provider(
            name="interpreter",
            title="Interpreter, XNNPACK for operators that it supports",
            settings=_INTERPRETER_SETTINGS,
        ),
        Provider(name="compiled", title="CompiledModel on the CPU", settings=_CPU_SETTINGS),
        Provider(
            name="interpreter-noxnnpack",
            title="Interpreter, built-in kernels without XNNPACK",
            settings=_INTERPRETER_SETTINGS,
        ),
        Provider(name="interpreter-reference", title="Interpreter, reference kernels", settings=_INTERPRETER_SETTINGS),
    )
    in_default = True
    signature_formats = ("tflite",)
    settings = _INTERPRETER_SETTINGS | _CPU_SETTINGS

    def availability(self) -> Availability:
        """Whether the package ai-edge-litert is installed."""
        return package_availability("ai-edge-litert", extra="litert", module="ai_edge_litert")

    def import_engine(self) -> str:
        """Import both ways into the engine, so that neither pays for it while loading."""
        from importlib.metadata import version

        from ai_edge_litert import compiled_model, interpreter

        del compiled_model, interpreter
        return version("ai-edge-litert")

    def load(self, path: Path, options: LoadOptions) -> InterpreterSession | CompiledSession:
        """A session for the TFLite model at `path`, its inputs resized to `options.shapes`.

        Raises `UnsupportedModel`, `InvalidModel`, MemoryError or the engine's own exceptions.
        """
        if options.precision not in (None, "f32"):
            raise UnsupportedModel(f"LiteRT runs a model in its own precision, not in {options.precision}")
        if options.provider == "compiled":
            return _load_compiled(path, options)
        if options.provider not in _RESOLVERS:
            known = ", ".join(provider.name for provider in self.providers)
            raise UnsupportedModel(f"LiteRT has no provider {options.provider!r} (it has: {known})")
        return _load_interpreter(path, options)


class InterpreterSession:
    """A model in LiteRT's interpreter. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(self, interpreter: Any, options: LoadOptions, *, path: Path) -> None:
        self._path, self._signature = path, options.signature or None
        self._interpreter = interpreter
        inputs, outputs = self._list_tensors()
        self.inputs: Sequence[TensorSpec] = tuple(map(_spec, inputs))
        self.outputs: Sequence[TensorSpec] = tuple(map(_spec, outputs))
        check_dtypes(self.inputs, "input")
        check_dtypes(self.outputs, "output")
        self.invoke: Callable[[], object] = closed
        self._provider = options.provider
        self._input_indices = [detail["index"] for detail in inputs]
        self._output_indices = [detail["index"] for detail in outputs]

    def _list_tensors(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """LiteRT's details of the inputs and of the outputs."""
        return self._interpreter.get_input_details(), self._interpreter.get_output_details()

    @cached_property
    def _entry(self) -> EntryPoint:
        return read_entry(self._path, self._signature)

    @property
    def states(self) -> Sequence[str]:
        """Names of the variable tensors and resource variables."""
        return (*self._entry.variables, *self._entry.resources)

    def reset_state(self) -> bool:
        """Give variable tensors their initial value; False where there are resource variables, which LiteRT keeps."""
        self._interpreter.reset_all_variables()
        return not self._entry.resources

    @cached_property
    def effective(self) -> Mapping[str, Any]:
        """The kernels in force; read late, so that asking is no part of the loading time. LiteRT tells no threads."""
        operators, delegates, delegated = _count_delegated(self._interpreter)
        return {
            "provider": self._provider,
            "precision": None,
            "threads": None,
            "streams": None,
            "op_resolver": _RESOLVERS[self._provider],
            "delegate": "XNNPACK" if delegates else None,
            "delegate_partitions": delegates,
            "operators": operators,
            "operators_delegated": delegated,
        }

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into the interpreter's tensors. Raises ValueError where they don't fit."""
        for index, array in zip(self._input_indices, own_copies(arrays, self.inputs), strict=True):
            self._interpreter.set_tensor(index, array)
        # The public method first looks for arrays that still point into the interpreter; this session makes none.
        inner = getattr(self._interpreter, "_interpreter", None)
        self.invoke = getattr(inner, "Invoke", None) or self._interpreter.invoke

    def read_outputs(self) -> Sequence[Any]:
        """Copies of the outputs of the last inference."""
        return [self._interpreter.get_tensor(index) for index in self._output_indices]

    def close(self) -> None:
        """Release the interpreter."""
        self.invoke = closed
        self._interpreter = None


class SignatureSession(InterpreterSession):
    """A signature of another subgraph than the first, which only methods below the public interpreter reach."""

    def _list_tensors(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """LiteRT's details of the inputs and of the outputs."""
        entry, read = self._entry, self._interpreter._get_tensor_details
        inputs, outputs = ([read(at, entry.subgraph) for at in each] for each in (entry.inputs, entry.outputs))
        return inputs, outputs

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into the interpreter's tensors. Raises ValueError where they don't fit."""
        inner, subgraph = self._interpreter._interpreter, self._entry.subgraph
        for index, array in zip(self._input_indices, own_copies(arrays, self.inputs), strict=True):
            inner.SetTensor(index, array, subgraph)
        self.invoke = partial(inner.Invoke, subgraph)

    def read_outputs(self) -> Sequence[Any]:
        """Copies of the outputs of the last inference."""
        return [self._interpreter.get_tensor(index, self._entry.subgraph) for index in self._output_indices]


class CompiledSession:
    """A model compiled by LiteRT for the CPU. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(
        self,
        model: Any,
        *,
        path: Path,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        signature: str = "",
    ) -> None:
        self._path = path
        self.inputs = inputs
        self.outputs = outputs
        self.invoke: Callable[[], object] = closed
        self._model = model
        self._signature = signature
        self._index = model.get_signature_index(signature) if signature else 0
        self._input_buffers: list[Any] = model.create_input_buffers(self._index)
        self._output_buffers: list[Any] = model.create_output_buffers(self._index)
        self.effective: Mapping[str, Any] = {
            "provider": "compiled",
            "precision": None,
            "threads": None,
            "streams": None,
            "accelerator": "CPU",
            "fully_accelerated": bool(model.is_fully_accelerated()),
        }

    @cached_property
    def states(self) -> Sequence[str]:
        """Names of the variable tensors and resource variables."""
        entry = read_entry(self._path, self._signature or None)
        return (*entry.variables, *entry.resources)

    def reset_state(self) -> bool:
        """False: a compiled model's states can't be reset."""
        return False

    def bind(self, arrays: Sequence[Any]) -> None:
        """Write one array per input into the engine's buffers. Raises ValueError where they don't fit."""
        import numpy as np

        for buffer, array in zip(self._input_buffers, own_copies(arrays, self.inputs), strict=True):
            # As bytes: the buffer's own `write` knows fewer types than models have (no int64).
            buffer.write(array.reshape(-1).view(np.uint8))
        # The public call, as LiteRT's own benchmark tool and every application makes it; the wrapped one underneath
        # would be 0.5 µs shorter.
        self.invoke = partial(self._model.run_by_index, self._index, self._input_buffers, self._output_buffers)

    def read_outputs(self) -> Sequence[Any]:
        """Copies of the outputs of the last inference."""
        import numpy as np

        arrays = []
        for buffer, spec in zip(self._output_buffers, self.outputs, strict=True):
            shape = tuple(buffer.get_tensor_details()["shape"])
            dtype = np.dtype(spec.dtype)
            count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            arrays.append(buffer.read(count, np.uint8).view(dtype).reshape(shape))
        return arrays

    def close(self) -> None:
        """Release buffers and model, in this order."""
        self.invoke = closed
        for buffer in (*self._input_buffers, *self._output_buffers):
            buffer.destroy()
        self._input_buffers = self._output_buffers = []
        if self._model is not None:
            self._model.close()
        self._model = None


def _load_interpreter(path: Path, options: LoadOptions) -> InterpreterSession:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    check_settings("LiteRT's interpreter", _INTERPRETER_SETTINGS, options.extra)
    try:
        interpreter = Interpreter(
            model_path=str(path),
            num_threads=options.threads,
            experimental_op_resolver_type=OpResolverType[_RESOLVERS[options.provider]],
            **options.extra,
        )
    except (ValueError, RuntimeError, TypeError) as error:
        raise _explain(error, otherwise=UnsupportedModel if isinstance(error, TypeError) else InvalidModel) from error
    resized: dict[str, tuple[int, ...]] = {}
    if options.signature and read_entry(path, options.signature).subgraph:
        return _load_signature(interpreter, path, options)
    try:
        details = interpreter.get_input_details()
        wanted = shapes_in_order([(detail["name"],) for detail in details], options.shapes)
        for detail, shape in zip(details, wanted, strict=True):
            if shape is not None and tuple(detail["shape"]) != shape:
                check_rank(detail["name"], len(detail["shape"]), shape)
                resized[detail["name"]] = shape
                interpreter.resize_tensor_input(detail["index"], list(shape))
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise _explain(error, otherwise=UnsupportedModel, context=refused(resized)) from error
    if options.profile:
        from edgewise.runtime.litert_profile import ProfiledInterpreterSession

        return ProfiledInterpreterSession(interpreter, options, path=path, options=options)
    return InterpreterSession(interpreter, options, path=path)


def _load_signature(interpreter: Any, path: Path, options: LoadOptions) -> SignatureSession:
    """A session of a signature whose subgraph is not the first. Raises `UnsupportedModel` or `CannotProfile`."""
    if options.profile:
        raise CannotProfile("LiteRT's profiler times only the first subgraph of a file")
    import numpy as np

    entry, inner = read_entry(path, options.signature), interpreter._interpreter
    details = [interpreter._get_tensor_details(at, entry.subgraph) for at in entry.inputs]
    resized: dict[str, tuple[int, ...]] = {}
    try:
        wanted = shapes_in_order([(each["name"],) for each in details], options.shapes)
        for detail, shape in zip(details, wanted, strict=True):
            if shape is not None and tuple(detail["shape"]) != shape:
                check_rank(detail["name"], len(detail["shape"]), shape)
                resized[detail["name"]] = shape
                inner.ResizeInputTensor(detail["index"], np.array(shape, np.int32), False, entry.subgraph)
        inner.AllocateTensors(entry.subgraph)
    except (ValueError, RuntimeError) as error:
        raise _explain(error, otherwise=UnsupportedModel, context=refused(resized)) from error
    return SignatureSession(interpreter, options, path=path)


def _load_compiled(path: Path, options: LoadOptions) -> CompiledSession:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.options import CpuOptions, HardwareAccelerator, Options

    check_settings("LiteRT's CPU accelerator", _CPU_SETTINGS, options.extra)
    # Without a number the accelerator decides: 0.
    settings = CpuOptions(num_threads=options.threads or 0, **options.extra)
    if not path.is_file():
        raise InvalidModel(f"there is no file {path.name}")
    try:
        model = CompiledModel.from_file(
            str(path), options=Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=settings)
        )
    except (ValueError, RuntimeError) as error:
        raise _explain(error, otherwise=UnsupportedModel) from error
    resized: dict[str, tuple[int, ...]] = {}
    try:
        listed = model.get_signature_list()
        key = options.signature or next(iter(listed))
        names, at = (key, listed[key]), model.get_signature_index(key)
        inputs = _signature_specs(model.get_input_tensor_details(names[0]), names[1]["inputs"])
        wanted = shapes_in_order([(spec.name,) for spec in inputs], options.shapes)
        for index, (spec, shape) in enumerate(zip(inputs, wanted, strict=True)):
            if shape is not None and spec.shape != shape:
                check_rank(spec.name, len(spec.shape or ()), shape)
                resized[spec.name] = shape
                model.resize_input_tensor(index, shape, signature_index=at, strict=False)
        inputs = _signature_specs(model.get_input_tensor_details(names[0]), names[1]["inputs"])
        outputs = _signature_specs(model.get_output_tensor_details(names[0]), names[1]["outputs"])
        check_dtypes(inputs, "input")
        check_dtypes(outputs, "output")
        if options.profile and options.signature and read_entry(path, options.signature).subgraph:
            raise CannotProfile("LiteRT's profiler times only the first subgraph of a file")
        if options.profile:
            from edgewise.runtime.litert_profile import ProfiledCompiledSession

            return ProfiledCompiledSession(model, inputs=inputs, outputs=outputs, path=path, options=options)
        return CompiledSession(model, path=path, inputs=inputs, outputs=outputs, signature=options.signature)
    except (ValueError, RuntimeError) as error:
        raise _explain(error, otherwise=UnsupportedModel, context=refused(resized)) from error


def _count_delegated(interpreter: Any) -> tuple[int | None, int | None, int | None]:
    """Operators of the model, partitions that a delegate took, and operators inside them; None if not told.

    A delegate's partition stands in the list of operators beside those it replaced.
    """
    try:
        nodes = interpreter._get_ops_details()
    except (AttributeError, RuntimeError, ValueError):
        return None, None, None
    operators = [node for node in nodes if node["op_name"] != "DELEGATE"]
    partitions = [node for node in nodes if node["op_name"] == "DELEGATE"]
    producers = {int(tensor): node for node in operators for tensor in node["outputs"]}
    replaced = set[int]().union(*(replaced_by(partition, producers) for partition in partitions))
    return len(operators), len(partitions), len(replaced)


def replaced_by(partition: Mapping[str, Any], producers: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """Indices of the operators that a delegate's partition replaces: those between its outputs and its inputs.

    Args:
        producers: tensor → the operator that makes it, as the interpreter lists them.
    """
    border = {int(tensor) for tensor in partition["inputs"]}
    open_tensors = [int(tensor) for tensor in partition["outputs"]]
    replaced: set[int] = set()
    while open_tensors:
        node = producers.get(open_tensors.pop())
        if node is not None and int(node["index"]) not in replaced:
            replaced.add(int(node["index"]))
            open_tensors.extend(int(tensor) for tensor in node["inputs"] if int(tensor) not in border)
    return replaced


def _spec(detail: Mapping[str, Any]) -> TensorSpec:
    import numpy as np

    shape = tuple(int(size) for size in detail["shape"])
    return TensorSpec(name=detail["name"], shape=shape, dtype=np.dtype(detail["dtype"]).name)


def _signature_specs(details: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Inputs or outputs in the order of the signature's list, which is that of the buffers."""
    return tuple(
        TensorSpec(
            name=str(details[name]["name"]), shape=tuple(details[name]["shape"]), dtype=str(details[name]["dtype"])
        )
        for name in names
    )


_UNSUPPORTED = re.compile(r"unresolved custom op|not supported|unsupported|Didn't find op|Select TensorFlow op", re.I)
_INVALID = re.compile(r"not a valid Flatbuffer|model identifier|Failed to load model|Could not open|mmap of size", re.I)


def _explain(error: Exception, *, otherwise: type[Exception], context: str = "") -> Exception:
    """The engine's error as one of ours, after `context`; `otherwise` where its text tells nothing."""
    text = str(error)
    line = tell(text, noise=r".*ERROR: \[\S+\]$")
    if means_out_of_memory(text):
        return MemoryError(line)
    if _UNSUPPORTED.search(text):
        return UnsupportedModel(context + (flex_words(text, "the package ai-edge-litert") or line))
    return InvalidModel(line) if _INVALID.search(text) else otherwise(context + line)
