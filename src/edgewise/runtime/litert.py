"""LiteRT (TensorFlow Lite): its interpreter and its compiled models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.model.flex import flex_words
from edgewise.model.readers.tflite_entry import read_entry
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_dtypes, check_rank, refused, shapes_in_order, tell
from edgewise.runtime.base import (
    CannotProfile,
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.runtime.litert_sessions import RESOLVERS, CompiledSession, InterpreterSession, SignatureSession
from edgewise.text import means_out_of_memory

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
        """Return a session for a TFLite model, its inputs resized to `options.shapes`. Raises as `Runtime.load`."""
        if options.precision not in (None, "f32"):
            raise UnsupportedModel(f"LiteRT runs a model in its own precision, not in {options.precision}")
        if options.provider == "compiled":
            return _load_compiled(path, options)
        if options.provider not in RESOLVERS:
            known = ", ".join(provider.name for provider in self.providers)
            raise UnsupportedModel(f"LiteRT has no provider {options.provider!r} (it has: {known})")
        return _load_interpreter(path, options)


def _load_interpreter(path: Path, options: LoadOptions) -> InterpreterSession:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    check_settings("LiteRT's interpreter", _INTERPRETER_SETTINGS, options.extra)
    try:
        interpreter = Interpreter(
            model_path=str(path),
            num_threads=options.threads,
            experimental_op_resolver_type=OpResolverType[RESOLVERS[options.provider]],
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
    """Return a session of a signature whose subgraph is not the first. Raises `UnsupportedModel` or `CannotProfile`."""
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
        check_dtypes(inputs, outputs)
        if options.profile and options.signature and read_entry(path, options.signature).subgraph:
            raise CannotProfile("LiteRT's profiler times only the first subgraph of a file")
        if options.profile:
            from edgewise.runtime.litert_profile import ProfiledCompiledSession

            return ProfiledCompiledSession(model, inputs=inputs, outputs=outputs, path=path, options=options)
        return CompiledSession(model, path=path, inputs=inputs, outputs=outputs, signature=options.signature)
    except (ValueError, RuntimeError) as error:
        raise _explain(error, otherwise=UnsupportedModel, context=refused(resized)) from error


def _signature_specs(details: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Return inputs or outputs in the order of the signature's list, which is that of the buffers."""
    return tuple(
        TensorSpec(
            name=str(details[name]["name"]), shape=tuple(details[name]["shape"]), dtype=str(details[name]["dtype"])
        )
        for name in names
    )


_UNSUPPORTED = re.compile(r"unresolved custom op|not supported|unsupported|Didn't find op|Select TensorFlow op", re.I)
_INVALID = re.compile(r"not a valid Flatbuffer|model identifier|Failed to load model|Could not open|mmap of size", re.I)


def _explain(error: Exception, *, otherwise: type[Exception], context: str = "") -> Exception:
    """Return the engine's error as one of ours, after `context`; `otherwise` where its text tells nothing."""
    text = str(error)
    line = tell(text, noise=r".*ERROR: \[\S+\]$")
    if means_out_of_memory(text):
        return MemoryError(line)
    if _UNSUPPORTED.search(text):
        return UnsupportedModel(context + (flex_words(text, "the package ai-edge-litert") or line))
    return InvalidModel(line) if _INVALID.search(text) else otherwise(context + line)
