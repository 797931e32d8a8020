"""OpenVINO: what is installed, how it reads a model, and its errors."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.model.flex import flex_words
from edgewise.model.signature import TensorSpec, shapes_fit
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_rank, open_sizes, refused, shapes_in_order, tell
from edgewise.runtime.base import (
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.runtime.onnx_functions import has_functions, write_inlined
from edgewise.runtime.openvino_session import OpenVinoSession, spec_of
from edgewise.runtime.tflite_buffers import NOT_IN_OPENVINO, has_buffers_behind
from edgewise.text import means_out_of_memory

#: on these devices float32 is not a matter of course: bfloat16 or float16 is their default where they have it
_TAKES_PRECISION = frozenset({"CPU", "GPU"})
KEEP_OPEN = "keep_open_dimensions"
"""Setting of edgewise's own: compile the file as it is, instead of for the sizes that its inputs get."""


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
    #: edgewise keeps telemetry out (`edgewise.__init__`), and the converter is not imported without it
    not_imported = "its telemetry and its converter (openvino.tools.ovc)"
    #: `KEEP_OPEN` and properties of devices; other properties name files or folders (CACHE_DIR, WEIGHTS_PATH,
    #: CONFIG_FILE) or hold more of them
    settings = frozenset({
        KEEP_OPEN,
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
        """Return inputs and outputs of the model at `path`; see `edgewise.runtime.base.DescribesModels`."""
        import openvino

        model = read_model(openvino.Core(), path)
        return tuple(map(spec_of, model.inputs)), tuple(map(spec_of, model.outputs))

    def load(self, path: Path, options: LoadOptions) -> OpenVinoSession:
        """Return a session for the model at `path`, reshaped to `options.shapes`. Raises as `Runtime.load`.

        With the setting `KEEP_OPEN`, only inputs that could not be fed otherwise are reshaped.
        """
        check_settings(self.title, self.settings, options.extra)
        keep_open = options.extra.get(KEEP_OPEN, False)
        if not isinstance(keep_open, bool):
            raise UnsupportedModel(f"{KEEP_OPEN} is true or false, not {keep_open!r}")
        import openvino

        core = openvino.Core()
        device = _find_device(core, options.provider)
        model = read_model(core, path)
        try:
            dimensions = _reshape(model, options.shapes, keep_open=keep_open)
        except Exception as error:
            raise _explain(error, otherwise=UnsupportedModel, context=refused(options.shapes)) from error
        config = _configure(device, options)
        try:
            compiled = core.compile_model(model, device, config)
        except Exception as error:
            raise _explain(error, otherwise=UnsupportedModel) from error
        tell_more = partial(_tell_more, core, device, dimensions)
        if options.profile:
            from edgewise.runtime.openvino_profile import ProfiledOpenVinoSession

            again = partial(core.compile_model, model, device, config | {"PERF_COUNT": True})
            return ProfiledOpenVinoSession(compiled, options, tell_more, model=model, path=path, compile_anew=again)
        return OpenVinoSession(compiled, options, tell_more)


def read_model(core: Any, path: Path) -> Any:
    """Return the model at `path`. OpenVINO knows TFLite by the extension alone, so any other name gets a proper link.

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


def _find_device(core: Any, provider: str) -> str:
    """Return the engine's name of the device `provider`. Raises `UnsupportedModel` where the engine sees none."""
    device = provider.upper()
    seen = list(core.available_devices)
    if device == "AUTO" or any(name == device or name.startswith(f"{device}.") for name in seen):
        return device
    raise UnsupportedModel(f"OpenVINO finds no {device} on this machine (it finds: {', '.join(seen)})")


def _tell_more(core: Any, device: str, dimensions: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a compiled model does not say of itself, as `Session.effective` has it."""
    return {"default_precision": _ask_default_precision(core, device), **dimensions}


def _ask_default_precision(core: Any, device: str) -> str | None:
    """Return the precision in which the engine itself would compute on `device`; None where the device has none."""
    if device not in _TAKES_PRECISION:
        return None
    name: str = core.get_property(device, "INFERENCE_PRECISION_HINT").get_type_name()
    return name


def _reshape(model: Any, shapes: Mapping[str, tuple[int, ...]], *, keep_open: bool) -> dict[str, Any]:
    """Give every input its wanted shape, where it has another. Raises the engine's error where that can't be.

    Args:
        keep_open: leave inputs as they are whose open dimensions take any size.

    Returns:
        Sizes of the dimensions that the file leaves open, under ``fixed_dimensions`` or ``open_dimensions``.
    """
    wanted = shapes_in_order([tuple(port.get_names()) for port in model.inputs], shapes)
    inputs, changed = [spec_of(port) for port in model.inputs], dict[int, list[int]]()
    for index, (own, shape) in enumerate(zip(inputs, wanted, strict=True)):
        if shape is None or own.shape == shape or (keep_open and shapes_fit(own.shape, shape)):
            continue
        if own.shape is not None:
            check_rank(own.name, len(own.shape), shape)
        changed[index] = list(shape)
    if changed:
        model.reshape(changed)
    sizes = open_sizes(inputs, wanted)
    fixed = {inputs[index].name for index in changed}
    parts = {
        "fixed_dimensions": {name: of for name, of in sizes.items() if name in fixed},
        "open_dimensions": {name: of for name, of in sizes.items() if name not in fixed},
    }
    return {word: part for word, part in parts.items() if part}


def _configure(device: str, options: LoadOptions) -> dict[str, Any]:
    """Return the engine's properties for `options`."""
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
    return config | {name: value for name, value in options.extra.items() if name != KEEP_OPEN}


_UNSUPPORTED = re.compile(
    r"OpConversionFailure|NotImplementedFailure|not (?:yet )?(?:supported|implemented)|unsupported|No translator|"
    r"Unexpected type: RESOURCE|already produced by previous operators",  # states of TFLite files
    re.IGNORECASE,
)


def _explain(error: Exception, *, otherwise: type[Exception], context: str = "") -> Exception:
    """Return the engine's error as one of ours, after `context`; `otherwise` where its text tells nothing."""
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
