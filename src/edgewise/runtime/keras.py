"""Keras on its own backend: TensorFlow, PyTorch or JAX, as ``KERAS_BACKEND`` says, else the first that is installed.

Three ways into a model differ by orders of magnitude in what they cost beside the network:

- ``function``: one call of the model as the backend runs it fastest: a concrete ``tf.function``, ``jax.jit``, or
  PyTorch in inference mode. It is what ``model.predict`` runs for each batch, without the loop around it.
- ``call``: ``model(x, training=False)``, layer by layer in Python.
- ``predict``: ``model.predict_on_batch(x)``, from numpy arrays to numpy arrays.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from edgewise.errors import as_flag
from edgewise.model.keras_code import find_code
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime import tensorflow as tensorflow_runtime
from edgewise.runtime.arrays import check_dtypes, check_fits, closed, in_shapes, own_copies
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

BACKENDS = ("tensorflow", "torch", "jax")
"""In the order in which they are looked for."""
OLDEST = (3, 12)
"""Earlier versions have known ways around their safe mode (CVE-2025-8747, CVE-2025-9906, CVE-2025-12058)."""
_CONFIG = "config.json"
_TOP_ENTRIES = frozenset({_CONFIG, "metadata.json", "model.weights.h5", "model.weights.npz", "assets"})
_MAX_CONFIG_BYTES = 128 * 2**20
Pack = Callable[[Sequence[Any]], Any]
"""Puts tensors into the structure that a model takes: one tensor, a list or a dict."""
_PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64"}


class Keras:
    """Keras 3."""

    name = "keras"
    title = "Keras"
    formats: Sequence[str] = ("keras",)
    providers: Sequence[Provider] = (
        Provider(name="function", title="compiled function of the backend", precisions=("f32", "bf16")),
        Provider(name="call", title="model(x, training=False)", precisions=("f32", "bf16")),
        Provider(name="predict", title="model.predict_on_batch(x)", precisions=("f32", "bf16")),
    )
    in_default = True

    def availability(self) -> Availability:
        """Whether Keras and its backend are installed."""
        extra = "keras" if choose_backend() else "keras,tensorflow"
        answer = package_availability("keras", extra=extra, module="keras")
        if not answer:
            return answer
        if tuple(map(int, re.findall(r"\d+", answer.version or "")[:2])) < OLDEST:
            return Availability(
                False,
                f"Keras {answer.version} may run code and read files that a model names; 3.12 and newer don't",
                "pip install --upgrade keras",
            )
        backend = choose_backend()
        if backend not in BACKENDS:
            return Availability(
                False,
                f"Keras' backend {backend!r} is not supported" if backend else "Keras has no backend",
                "pip install 'edgewise[tensorflow]', or set KERAS_BACKEND to tensorflow, torch or jax",
            )
        if find_spec(backend) is None:
            return Availability(False, f"KERAS_BACKEND is {backend}, which is not installed", f"pip install {backend}")
        return answer

    def import_engine(self) -> str:
        """Import Keras with its backend and return Keras' version."""
        os.environ["KERAS_BACKEND"] = choose_backend()
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        if os.environ["KERAS_BACKEND"] == "tensorflow":
            tensorflow_runtime.import_quietly()
        import keras

        return str(keras.__version__)

    def load(self, path: Path, options: LoadOptions) -> KerasSession:
        """Return a session for a ``.keras`` file, which is traced here, not later. Raises as `Runtime.load`."""
        providers = {known.name: known for known in self.providers}
        if options.provider not in providers:
            raise UnsupportedModel(f"Keras has no provider {options.provider!r} (it has: {', '.join(providers)})")
        if options.precision not in (None, "f32", "bf16"):
            raise UnsupportedModel(f"Keras runs a model in its own precision or in bf16, not in {options.precision}")
        check_settings(self.title, (), options.extra)
        self.import_engine()
        backend = _backend()
        threads = _set_threads(backend, options.threads)
        model = load_model(path)
        if options.precision == "bf16":
            for layer in model._flatten_layers(include_self=True):
                layer.dtype_policy = "mixed_bfloat16"
        return KerasSession(model, options, backend=backend, threads=threads)


class KerasSession:
    """A model in Keras. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(self, model: Any, options: LoadOptions, *, backend: str, threads: dict[str, int | None]) -> None:
        import keras

        taken = [_spec(each, name) for each, name in zip(model.inputs, _names(model.inputs), strict=True)]
        self.inputs: Sequence[TensorSpec] = in_shapes(taken, options.shapes)
        check_fits(taken, self.inputs)
        # numpy has no bfloat16: such outputs are read as float32.
        self.outputs: Sequence[TensorSpec] = tuple(
            _spec(each, name, readable=True) for each, name in zip(model.outputs, _names(model.outputs), strict=True)
        )
        check_dtypes(self.inputs, self.outputs)
        self.invoke: Callable[[], object] = closed
        self._model, self._backend, self._threads = model, backend, threads
        self._provider = options.provider
        self._call: Callable[[], Any] = closed
        self._result: Any = None
        struct = getattr(getattr(model, "_functional", None) or model, "_inputs_struct", None)
        self._pack: Pack = partial(keras.tree.pack_sequence_as, list(model.inputs) if struct is None else struct)
        self._function: Callable[..., Any] | None = None
        if self._provider == "function":
            self._function = _FUNCTIONS[backend](model, self._pack, self.inputs)

    @cached_property
    def states(self) -> Sequence[str]:
        """Names of the recurrent layers that keep their state; the function of JAX changes nothing."""
        if self._provider == "function" and self._backend == "jax":
            return ()
        layers = self._model._flatten_layers(include_self=False)
        return [layer.name for layer in layers if getattr(layer, "stateful", False) and hasattr(layer, "reset_state")]

    def reset_state(self) -> bool:
        """Give the layers in `states` their initial state."""
        for layer in self._model._flatten_layers(include_self=False):
            if layer.name in self.states:
                layer.reset_state()
        return True

    @cached_property
    def effective(self) -> dict[str, Any]:
        """Settings in effect. Precision: the one type that the layers with weights compute in."""
        kinds = {layer.compute_dtype for layer in self._model._flatten_layers(include_self=False) if layer.weights}
        kinds = kinds or {self._model.compute_dtype}
        return {
            "provider": self._provider, "precision": _PRECISIONS.get(kinds.pop()) if len(kinds) == 1 else None,
            "streams": None, "accelerator": "CPU", "backend": self._backend,
            "backend_version": str(sys.modules[self._backend].__version__),
            "call": _FUNCTION_CALLS[self._backend] if self._provider == "function" else _CALLS[self._provider],
            **self._threads,
        }  # fmt: skip

    def bind(self, arrays: Sequence[Any]) -> None:
        """Make one tensor of the backend per input, or keep arrays for `predict`. Raises ValueError on a mismatch."""
        import keras

        copies = own_copies(arrays, self.inputs)
        if self._model is None:
            closed()
        if self._provider == "predict":
            self._call = partial(self._model.predict_on_batch, self._pack(copies))
        else:
            tensors = [keras.ops.convert_to_tensor(copy) for copy in copies]
            if self._function is not None:
                self._call = partial(self._function, *tensors)
            else:
                self._call = partial(_call_layers, self._model, self._pack(tensors), self._backend)
        self.invoke = self._infer

    def _infer(self) -> None:
        self._result = self._call()

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        import keras
        import numpy as np

        found = keras.tree.flatten(self._result)
        return [
            np.array(keras.ops.convert_to_numpy(each)).astype(spec.dtype)
            for each, spec in zip(found, self.outputs, strict=True)
        ]

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Time the operators of the function by TensorFlow's profiler. Raises `CannotProfile` on other backends."""
        if self._backend != "tensorflow" or self._provider != "function":
            other = as_flag("runtime", "keras/function")
            raise CannotProfile(
                f"Keras on {self._backend} through {self._provider!r} times no layers; use {other} with "
                "KERAS_BACKEND=tensorflow"
            )
        from edgewise.runtime.tensorflow_profile import profile_calls

        known, graph = set(_layer_paths(self._model, "")), getattr(self._function, "graph", None)
        return profile_calls(self.invoke, inferences, name_layers=lambda name: _layers_of(name, known), graph=graph)

    def close(self) -> None:
        """Release the model."""
        self.invoke = self._call = closed
        self._model = self._function = self._result = None


def choose_backend() -> str:
    """``KERAS_BACKEND``, else the first backend that is installed; "" where none is."""
    chosen = os.environ.get("KERAS_BACKEND", "")
    return chosen or next((name for name in BACKENDS if find_spec(name) is not None), "")


def check_archive(path: Path) -> None:
    """Refuse what a ``.keras`` file must not contain, before Keras opens it.

    Raises:
        InvalidModel: it is no complete archive, or has entries that Keras does not write.
        UnsupportedModel: its configuration has code or classes that are not Keras' own.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                place = PurePosixPath(name)
                if place.is_absolute() or ".." in place.parts or place.parts[0] not in _TOP_ENTRIES or "\\" in name:
                    raise InvalidModel(f"its archive has an entry that Keras does not write: {name[:80]!r}")
            if archive.getinfo(_CONFIG).file_size > _MAX_CONFIG_BYTES:
                raise InvalidModel("its configuration is too large")
            document = json.loads(archive.read(_CONFIG))
    except (zipfile.BadZipFile, zlib.error, LookupError, ValueError, OSError, EOFError, RuntimeError) as error:
        raise InvalidModel(f"it is not a complete .keras file: {error or type(error).__name__}") from error
    if found := find_code(document):
        raise UnsupportedModel(f"{found[0]}; {found[1]}")


def load_model(path: Path) -> Any:
    """Return the Keras model in a ``.keras`` file, without its training; no code of the file runs.

    Raises:
        InvalidModel: the file is damaged, or is no Keras model.
        UnsupportedModel: it has code, or its inputs exist only in Python code.
        MemoryError: it needs more memory than there is.
    """
    check_archive(path)
    import keras

    try:
        with tempfile.TemporaryDirectory() as folder:
            if path.suffix != ".keras":  # Keras tells its format by the name alone
                link = Path(folder, "model.keras")
                link.symlink_to(path.resolve())
                path = link
            model = keras.saving.load_model(str(path), compile=False, safe_mode=True)
    except Exception as error:
        raise tensorflow_runtime.explain(error, context="Keras can't load it: ") from error
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise UnsupportedModel("its inputs exist only in Python code; save a functional or sequential model")
    return model


def _backend() -> str:
    """Return the backend in force, which the first import of Keras in this process has chosen."""
    import keras

    backend = str(keras.backend.backend())
    if backend not in BACKENDS:
        raise UnsupportedModel(f"Keras' backend {backend!r} is not supported; set KERAS_BACKEND=tensorflow")
    return backend


def _set_threads(backend: str, threads: int | None) -> dict[str, int | None]:
    """Set the backend's number of threads, and return what it then tells. Raises `UnsupportedModel`."""
    if backend == "tensorflow":
        tensorflow_runtime.set_threads(threads)
        return tensorflow_runtime.told_threads()
    if backend == "torch":
        import torch

        if threads:
            torch.set_num_threads(threads)
        return {"threads": torch.get_num_threads()}
    if threads:
        raise UnsupportedModel("JAX has no setting of its number of threads; leave out ⟦threads⟧")
    return {"threads": None}


def _tensorflow_function(model: Any, pack: Pack, inputs: Sequence[TensorSpec]) -> Callable[..., Any]:
    import tensorflow as tf

    function = tf.function(lambda *tensors: model(pack(tensors), training=False), autograph=False)
    concrete: Callable[..., Any] = function.get_concrete_function(
        *(tf.TensorSpec(spec.shape, spec.dtype) for spec in inputs)
    )
    return concrete


def _jax_function(model: Any, pack: Pack, inputs: Sequence[TensorSpec]) -> Callable[..., Any]:
    import jax
    import keras

    trained = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    stateless = jax.jit(lambda one, two, tensors: model.stateless_call(one, two, pack(tensors), training=False)[0])

    def call(*tensors: Any) -> Any:
        return jax.block_until_ready(stateless(trained, others, tensors))

    if not any(spec.dynamic for spec in inputs):
        call(*(keras.ops.zeros(spec.shape, spec.dtype) for spec in inputs))
    return call


_FUNCTIONS: dict[str, Callable[[Any, Pack, Sequence[TensorSpec]], Callable[..., Any]]] = {
    "tensorflow": _tensorflow_function,
    "torch": lambda model, pack, inputs: lambda *tensors: _call_layers(model, pack(tensors), "torch"),
    "jax": _jax_function,
}
_CALLS = {"call": "model(x, training=False)", "predict": "model.predict_on_batch(x)"}
_FUNCTION_CALLS = {"tensorflow": "tf.function", "torch": f"{_CALLS['call']} in torch.inference_mode", "jax": "jax.jit"}


def _call_layers(model: Any, given: Any, backend: str) -> Any:
    if backend != "torch":
        made = model(given, training=False)
        if backend == "jax":
            import jax

            jax.block_until_ready(made)
        return made
    import torch

    with torch.inference_mode():
        return model(given, training=False)


def _names(tensors: Sequence[Any]) -> list[str]:
    return [str(tensor.name) for tensor in tensors]


def _spec(tensor: Any, name: str, *, readable: bool = False) -> TensorSpec:
    dtype = str(tensor.dtype)
    if readable and dtype == "bfloat16":
        dtype = "float32"
    return TensorSpec(name=name, shape=tuple(tensor.shape), dtype=dtype)


def _layer_paths(model: Any, prefix: str) -> Iterator[str]:
    """Names of the layers as edgewise's reader of Keras models has them: those inside of models with their path."""
    for layer in model.layers:
        yield prefix + layer.name
        if hasattr(layer, "layers"):
            yield from _layer_paths(layer, f"{prefix}{layer.name}/")


def _layers_of(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the layer that a TensorFlow operator belongs to: ``model/block/conv1_1/BiasAdd`` → ``block/conv1``.

    Scopes carry the layers' names, behind that of the model. Where a name was taken already, a number follows it.
    """
    scopes = name.split("/")
    found: list[str] = []
    for begin in range(len(scopes)):
        path = ""
        for scope in scopes[begin:]:
            exact, stripped = path + scope, path + scope.rstrip("0123456789").removesuffix("_")
            chosen = exact if exact in known else stripped if stripped in known else ""
            if not chosen:
                break
            found.append(chosen)
            path = f"{chosen}/"
        if found:
            # Parts of a layer that the reader shows as rows of their own (attention) follow its name.
            rest = scopes[begin + found[-1].count("/") + 1 :]
            return (*(f"{found[-1]}/{'/'.join(rest[:count])}" for count in (2, 1) if len(rest) >= count), found[-1])
    return ()
