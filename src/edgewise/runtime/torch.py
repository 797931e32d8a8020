"""PyTorch: a module as its author has it, or a program of ``torch.export``.

The timed call is the one that an application makes, ``module(x)`` under ``torch.inference_mode()``, with the mode
entered once before: the same that ``torch.utils.benchmark.Timer`` times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.errors import EdgewiseError
from edgewise.model.eager import flatten_outputs, load_eager
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_dtypes, closed, own_copies, shapes_in_order
from edgewise.runtime.base import (
    EngineProfile,
    InvalidModel,
    LoadOptions,
    Provider,
    check_settings,
    package_availability,
)
from edgewise.runtime.torch_profile import profile_torch


class Torch:
    """PyTorch on the processor."""

    name = "torch"
    title = "PyTorch"
    formats: Sequence[str] = ("eager",)
    providers: Sequence[Provider] = (Provider(name="eager", title="Eager", precisions=("f32", "bf16")),)
    in_default = True
    settings = frozenset({"channels_last"})

    def availability(self) -> Availability:
        """Whether the package torch is installed."""
        return package_availability("torch", extra="torch", module="torch")

    def import_engine(self) -> str:
        """Import the engine and return its version."""
        import torch

        return str(torch.__version__)

    def load(self, path: Path, options: LoadOptions) -> TorchSession:
        """A session for the module at `path`.

        Raises `UnsupportedModel`, `InvalidModel`, MemoryError or whatever the module's own code raises.
        """
        check_settings(self.title, self.settings, options.extra)
        _set_threads(options.threads)
        try:
            found = load_eager(path)
        except EdgewiseError as error:
            raise InvalidModel(f"{error.message} ({error.advice})") from error
        return TorchSession(found.module, found.arrange, found.inputs, found.outputs, options)


class TorchSession:
    """A module in PyTorch. Attributes as in `edgewise.runtime.base.Session`.

    Args:
        arrange: positional and keyword arguments of one call, from one tensor per input.
    """

    def __init__(
        self,
        module: Any,
        arrange: Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        options: LoadOptions,
    ) -> None:
        import torch

        self.inputs = _with_shapes(inputs, options.shapes)
        self.outputs = outputs if self.inputs == tuple(inputs) else tuple(map(_without_sizes, outputs))
        check_dtypes(self.inputs, "input")
        check_dtypes(self.outputs, "output")
        self.invoke: Callable[[], object] = closed
        self._module = module
        self._arrange = arrange
        self._inference = _InferenceMode()
        self._outputs: list[Any] = [None]
        self.effective: Mapping[str, Any] = {
            "provider": options.provider,
            "precision": "f32",
            "threads": torch.get_num_threads(),
            "streams": None,
        }

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into a tensor. Raises ValueError where they don't fit."""
        import torch

        self._inference.enter()
        tensors = [torch.from_numpy(array) for array in own_copies(arrays, self.inputs)]
        args, keywords = self._arrange(tensors)
        self._outputs = [None]
        self.invoke = _keeping(partial(self._module, *args, **keywords), self._outputs)

    def read_outputs(self) -> Sequence[Any]:
        """Copies of the outputs of the last inference."""
        return [tensor.numpy().copy() for _, tensor in flatten_outputs(self._outputs[0])]

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run this number of inferences under PyTorch's profiler. Raises `CannotProfile`."""
        return profile_torch(self.invoke, inferences, module=self._module)

    def close(self) -> None:
        """Release the module and its tensors."""
        self.invoke = closed
        self._outputs = [None]
        self._module = None
        self._inference.leave()


def _keeping(call: Callable[[], Any], kept: list[Any]) -> Callable[[], object]:
    """`call`, whose outputs stay in `kept`; those before are released first, as where nobody keeps them."""

    def invoke() -> None:
        kept[0] = None
        kept[0] = call()

    return invoke


class _InferenceMode:
    """``torch.inference_mode`` of this thread for as long as any session needs it.

    Entering it for every inference would be timed.
    """

    _sessions = 0
    _mode: Any = None

    def __init__(self) -> None:
        self._entered = False

    def enter(self) -> None:
        """Enter the mode, once."""
        import torch

        if not self._entered:
            self._entered = True
            _InferenceMode._sessions += 1
            if _InferenceMode._sessions == 1:
                _InferenceMode._mode = torch.inference_mode()
                _InferenceMode._mode.__enter__()

    def leave(self) -> None:
        """Leave the mode where it was entered and no other session needs it."""
        if self._entered:
            self._entered = False
            _InferenceMode._sessions -= 1
            if _InferenceMode._sessions == 0:
                _InferenceMode._mode.__exit__(None, None, None)


def _set_threads(threads: int | None) -> None:
    """Set the number of threads within an operator; operators never run side by side."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)


def _with_shapes(inputs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]]) -> tuple[TensorSpec, ...]:
    """The inputs with the shapes that are wanted."""
    wanted = shapes_in_order([(spec.name,) for spec in inputs], shapes)
    return tuple(
        spec if shape is None else TensorSpec(name=spec.name, shape=shape, dtype=spec.dtype)
        for spec, shape in zip(inputs, wanted, strict=True)
    )


def _without_sizes(spec: TensorSpec) -> TensorSpec:
    """An output of inputs of another shape than was seen: its rank is known, its sizes are not."""
    return TensorSpec(name=spec.name, shape=(None,) * len(spec.shape or ()), dtype=spec.dtype)
