"""A module or program that PyTorch runs.

The timed call is the one that an application makes, ``module(x)`` under ``torch.inference_mode()``, with the mode
entered once before: the same that ``torch.utils.benchmark.Timer`` times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from edgewise.model.eager import EagerModule, flatten_outputs
from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import check_dtypes, closed, in_shapes, own_copies
from edgewise.runtime.base import EngineProfile, LoadOptions
from edgewise.runtime.torch_profile import profile_torch


class TorchSession:
    """A module in PyTorch, run as its code stands. Attributes as in `edgewise.runtime.base.Session`.

    In bf16, weights, buffers and floating-point inputs are converted once, with ``.to(torch.bfloat16)``: autocast would
    convert the weights in every call. Outputs are read as float32 then.
    """

    def __init__(self, found: EagerModule, options: LoadOptions) -> None:
        import torch

        self.inputs: Sequence[TensorSpec] = in_shapes(found.inputs, options.shapes)
        reshaped = self.inputs != found.inputs
        self.outputs: Sequence[TensorSpec] = tuple(_readable(spec, reshaped=reshaped) for spec in found.outputs)
        check_dtypes(self.inputs, self.outputs)
        self.invoke: Callable[[], object] = closed
        self.module = found.module
        self._dtype = torch.bfloat16 if options.precision == "bf16" else None
        self._channels_last = bool(options.extra.get("channels_last"))
        if self._dtype is not None:
            self.module = self.module.to(self._dtype)
        if self._channels_last:
            self.module = self.module.to(memory_format=torch.channels_last)
        self._arrange = found.arrange
        self._inference = _InferenceMode()
        self._outputs: list[Any] = [None]
        self._effective: dict[str, Any] = {
            "provider": options.provider, "precision": _precision(self.module), "threads": torch.get_num_threads(),
            "streams": None, "channels_last": self._channels_last,
        }  # fmt: skip
        self.states: Sequence[str] = found.states
        buffers = dict(self.module.named_buffers())
        self._initial = {name: buffers[name].clone() for name in found.states if name in buffers}
        self.cautions: dict[str, str] = {}
        if not found.repeats and not found.states:  # with a state, outputs from the same state are compared
            self.cautions["not-repeatable"] = "a second call on the same inputs gives other outputs, or changes a state"

    @property
    def effective(self) -> Mapping[str, Any]:
        """Settings in effect."""
        return self._effective

    def reset_state(self) -> bool:
        """Give the buffers in `states` their initial values; False where a state lies elsewhere."""
        if self._initial.keys() != {*self.states}:
            return False
        module = getattr(self.module, "_orig_mod", self.module)  # torch.compile wraps it
        for path, value in self._initial.items():
            owner, _, name = path.rpartition(".")
            # Not copied into the buffer: forward() may have put one of its inputs or outputs there.
            module.get_submodule(owner)._buffers[name] = value.clone()
        return True

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into a tensor. Raises ValueError where they don't fit."""
        import torch

        # First: a tensor that was made in this mode is another kind, for which compiled code would be compiled anew.
        self._inference.enter()
        tensors = [torch.from_numpy(array) for array in own_copies(arrays, self.inputs)]
        if self._dtype is not None:
            tensors = [each.to(self._dtype) if each.is_floating_point() else each for each in tensors]
        if self._channels_last:
            tensors = [
                each.contiguous(memory_format=torch.channels_last) if each.dim() == 4 else each for each in tensors
            ]
        self._outputs = [None]
        self.bind_call(*self._arrange(tensors))

    def bind_call(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Make `invoke` call the module with these arguments."""
        self.invoke = _keeping(partial(self.module, *args, **keywords), self._outputs)

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        import torch

        tensors = [tensor for _, tensor in flatten_outputs(self._outputs[0])]
        return [(each.float() if each.dtype == torch.bfloat16 else each).numpy().copy() for each in tensors]

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run this number of inferences under PyTorch's profiler. Raises `CannotProfile`."""
        import torch

        # The modules of an exported program are gone: its steps are those of its graph.
        module = None if isinstance(self.module, torch.fx.GraphModule) else self.module
        return profile_torch(self.invoke, inferences, module=module)

    def close(self) -> None:
        """Release the module and its tensors."""
        self.invoke = closed
        self._outputs = [None]
        self.module = None
        self._inference.leave()


def _precision(module: Any) -> str | None:
    """Return the one floating-point type of a module's parameters and buffers; None for none or several."""
    names = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float64": "f64"}
    found = {
        names.get(str(tensor.dtype))
        for tensors in (module.parameters(), module.buffers())
        for tensor in tensors
        if tensor.is_floating_point()
    }
    return found.pop() if len(found) == 1 else None


def _keeping(call: Callable[[], Any], kept: list[Any]) -> Callable[[], object]:
    """`call`, with its outputs in `kept`. The outputs of the call before are released first."""

    def invoke() -> None:
        kept[0] = None
        kept[0] = call()

    return invoke


class _InferenceMode:
    """``torch.inference_mode`` of this thread while any session needs it; entering it each time would be timed."""

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


def _readable(spec: TensorSpec, *, reshaped: bool) -> TensorSpec:
    """Return an output as it is read: numpy has no bfloat16, and inputs of another shape make other sizes."""
    shape = (None,) * len(spec.shape or ()) if reshaped else spec.shape
    return TensorSpec(name=spec.name, shape=shape, dtype="float32" if spec.dtype == "bfloat16" else spec.dtype)
