"""LiteRT's sessions that can time their layers: loaded instead of the plain ones where a profile is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import own_copies
from edgewise.runtime.base import CannotProfile, EngineProfile, LoadOptions
from edgewise.runtime.litert import CompiledSession, InterpreterSession
from edgewise.runtime.litert_profile import Structure, Subject, read_structure, time_layers


class ProfiledInterpreterSession(InterpreterSession):
    """An interpreter's session; its layers are timed in a compiled model of the same kernels."""

    def __init__(self, interpreter: Any, options: LoadOptions, path: Path) -> None:
        super().__init__(interpreter, options)
        self._options = options
        self._path = path
        self._bound: list[Any] = []

    def bind(self, arrays: Sequence[Any]) -> None:
        """As every session does, keeping copies for the pass that times layers."""
        super().bind(arrays)
        self._bound = own_copies(arrays, self.inputs)

    def profile_layers(self, inferences: int) -> EngineProfile:
        """See `edgewise.runtime.litert_profile.time_layers`."""
        structure = read_structure(self._interpreter)
        return time_layers(_subject(self, self._path, self._options, self._bound, structure=structure), inferences)


class ProfiledCompiledSession(CompiledSession):
    """A compiled model's session; its layers are timed in a second compiled model, reached through C."""

    def __init__(
        self,
        model: Any,
        *,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        path: Path,
        options: LoadOptions,
    ) -> None:
        super().__init__(model, inputs=inputs, outputs=outputs)
        self._options = options
        self._path = path
        self._bound: list[Any] = []

    def bind(self, arrays: Sequence[Any]) -> None:
        """As every session does, keeping copies for the pass that times layers."""
        super().bind(arrays)
        self._bound = own_copies(arrays, self.inputs)

    def profile_layers(self, inferences: int) -> EngineProfile:
        """See `edgewise.runtime.litert_profile.time_layers`."""
        from ai_edge_litert.interpreter import Interpreter

        # Only an interpreter lists operators and what the delegate made of them.
        try:
            interpreter = Interpreter(model_path=str(self._path))
            interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise CannotProfile(f"LiteRT's interpreter does not take the model: {error}") from error
        structure = read_structure(interpreter)
        return time_layers(_subject(self, self._path, self._options, self._bound, structure=structure), inferences)


def _subject(
    session: InterpreterSession | CompiledSession,
    path: Path,
    options: LoadOptions,
    bound: Sequence[Any],
    *,
    structure: Structure,
) -> Subject:
    """The session's settings and data, with the outputs of one inference."""
    session.invoke()
    return Subject(
        path=path,
        provider=options.provider,
        threads=options.threads,
        structure=structure,
        inputs=list(zip([spec.name for spec in session.inputs], bound, strict=True)),
        outputs=list(zip([spec.name for spec in session.outputs], session.read_outputs(), strict=True)),
        invoke=session.invoke,
        extra=options.extra,
    )
