"""LiteRT's sessions that can time their layers: loaded instead of the plain ones where a profile is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import own_copies
from edgewise.runtime.base import CannotProfile, EngineProfile, LoadOptions
from edgewise.runtime.litert import CompiledSession, InterpreterSession
from edgewise.runtime.litert_profile import ProfiledModel, read_structure, time_layers


class _TimesLayers:
    """Times the layers of the session it is mixed into, in a compiled model of the same kernels, reached through C.

    Args:
        path: of the model's file.
        given: what the session itself takes.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    invoke: Callable[[], object]
    if TYPE_CHECKING:

        def read_outputs(self) -> Sequence[Any]: ...

    def __init__(self, *given: Any, path: Path, options: LoadOptions, **more: Any) -> None:
        super().__init__(*given, **more)
        self._path = path
        self._options = options
        self._bound: list[Any] = []

    def bind(self, arrays: Sequence[Any]) -> None:
        """As every session does, keeping copies for the pass that times layers."""
        super().bind(arrays)  # type: ignore[misc]
        self._bound = own_copies(arrays, self.inputs)

    def _interpreter_of_model(self) -> Any:
        """An interpreter of the model: only that lists operators and what the delegate made of them."""
        from ai_edge_litert.interpreter import Interpreter

        try:
            interpreter = Interpreter(model_path=str(self._path))
            interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise CannotProfile(f"LiteRT's interpreter does not support the model: {error}") from error
        return interpreter

    def profile_layers(self, inferences: int) -> EngineProfile:
        """See `edgewise.runtime.litert_profile.time_layers`."""
        structure = read_structure(self._interpreter_of_model())
        self.invoke()
        model = ProfiledModel(
            path=self._path,
            provider=self._options.provider,
            threads=self._options.threads,
            structure=structure,
            inputs=list(zip([spec.name for spec in self.inputs], self._bound, strict=True)),
            outputs=list(zip([spec.name for spec in self.outputs], self.read_outputs(), strict=True)),
            invoke=self.invoke,
            extra=self._options.extra,
        )
        return time_layers(model, inferences)


class ProfiledInterpreterSession(_TimesLayers, InterpreterSession):
    """An interpreter's session that can time its layers."""

    def _interpreter_of_model(self) -> Any:
        return self._interpreter


class ProfiledCompiledSession(_TimesLayers, CompiledSession):
    """A compiled model's session that can time its layers."""
