"""ExecuTorch, PyTorch's engine for the edge: programs (``.pte``) by the Python binding of its C++ runtime."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel
from edgewise.model.graph import Graph
from edgewise.model.readers.executorch_graph import KERNELS, read_method
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_dtypes, closed, in_shapes, own_copies, refused, tell
from edgewise.runtime.base import (
    EngineProfile,
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)

_NO_MEMORY = re.compile(r"error 0x2[12]\b")
"""MemoryAllocationFailed, of the runtime and of a delegate: runtime/core/error.h of ExecuTorch."""


class ExecuTorch:
    """ExecuTorch on the processor. Which delegate runs which part was decided when the program was exported."""

    name = "executorch"
    title = "ExecuTorch"
    formats: Sequence[str] = ("executorch",)
    providers: Sequence[Provider] = (Provider(name="cpu", title="The program's own delegates, ExecuTorch's kernels"),)
    in_default = True
    signature_formats = ("executorch",)

    def availability(self) -> Availability:
        """Whether the package executorch is installed."""
        return package_availability("executorch", extra="executorch", module="executorch")

    def import_engine(self) -> str:
        """Import the engine and return its version."""
        from importlib.metadata import version

        _import_binding()
        return version("executorch")

    def load(self, path: Path, options: LoadOptions) -> ExecuTorchSession:
        """Return a session for a method of the program at `path`. Raises as `Runtime.load`."""
        check_settings(self.title, (), options.extra)
        if options.precision not in (None, "f32"):
            raise UnsupportedModel(f"ExecuTorch runs a program in its own precision, not in {options.precision}")
        try:
            graph = read_method(path, options.signature)
        except KeyError as error:
            raise UnsupportedModel(f"the program has no method {options.signature!r}") from error
        except BadModel as error:
            raise InvalidModel(error.message) from error
        except OSError as error:
            raise InvalidModel(f"can't read {path.name}: {error.strerror}") from error
        binding = _import_binding()
        _check_parts(binding, graph)
        _set_threads(binding, options.threads)
        load = partial(_load_method, binding, path, graph.signature)
        return ExecuTorchSession(load, graph, options, threads=int(binding._threadpool_get_thread_count()))


def _import_binding() -> Any:
    """Return the module of the binding: ``executorch.runtime`` is a thin layer above it that can't set threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that its interface may change
        from executorch.extension.pybindings import portable_lib
    return portable_lib


def _check_parts(binding: Any, graph: Graph) -> None:
    """Raise `UnsupportedModel` for delegates or kernels that the package lacks; the engine names them to no caller."""
    has = {*binding._get_registered_backend_names()}
    wanted = {each["backend"] for each in graph.metadata["delegates"]}
    if lacking := sorted(wanted - has):
        raise UnsupportedModel(
            f"the program needs the delegate {', '.join(lacking)}, which the package executorch lacks here (it has: "
            f"{', '.join(sorted(has))}); export the program for one of these"
        )
    kernels = {*binding._get_operator_names()}
    # ``aten::add.out`` of ``aten.add.out``
    needed = {each.op.replace(".", "::", 1) for each in graph.operators if each.attributes["runs_in"] == KERNELS}
    if lacking := sorted(needed - kernels - {"MoveCall", "JumpFalseCall"}):
        raise UnsupportedModel(f"the package executorch has no kernel {', '.join(lacking[:5])}")


def _set_threads(binding: Any, threads: int | None) -> None:
    """Make the process's one pool anew. Raises `UnsupportedModel` where a program that is loaded still uses it."""
    found = int(binding._threadpool_get_thread_count())
    if threads is None or threads == found:
        return
    if ExecuTorchSession.loaded:
        raise UnsupportedModel(f"a program with {found} threads is loaded in this process; close it first")
    binding._unsafe_reset_threadpool(threads)


def _load_method(binding: Any, path: Path, name: str, *, events: bool = False) -> tuple[Any, Any]:
    """Return the program and its method `name`; with `events`, the program records what it does."""
    try:
        program = binding._load_program(
            str(path), enable_etdump=events, program_verification=binding.Verification.InternalConsistency
        )
        return program, program.load_method(name)
    except RuntimeError as error:
        raise _explain(error, InvalidModel) from error


def _explain(error: RuntimeError, otherwise: type[Exception], context: str = "") -> Exception:
    line = context + tell(str(error))
    return MemoryError(line) if _NO_MEMORY.search(line) else otherwise(line)


def _specs(graph: Graph, names: Sequence[str]) -> Sequence[TensorSpec]:
    tensors = [graph.tensors[name] for name in names]
    return tuple(TensorSpec(name=each.name, shape=each.shape, dtype=each.dtype) for each in tensors)


class ExecuTorchSession:
    """A method of a program. Attributes as in `edgewise.runtime.base.Session`.

    The timed call sets the inputs, runs, and leaves the outputs where the method keeps them: inputs lie in the memory
    that the program plans for all of its tensors, so a method that is run again without them computes something else.

    Args:
        load: loads the program and the method; takes ``events``.
        graph: the method.
        threads: of the pool that kernels and delegates share.

    Attributes:
        loaded: number of sessions that are not closed: delegates keep the pool, which must last as long as they do.
    """

    loaded = 0

    def __init__(
        self, load: Callable[..., tuple[Any, Any]], graph: Graph, options: LoadOptions, *, threads: int
    ) -> None:
        own, self.outputs = (_specs(graph, names) for names in (graph.inputs, graph.outputs))
        self.inputs = in_shapes(own, options.shapes)
        self._resized = {
            new.name: new.shape for old, new in zip(own, self.inputs, strict=True) if new != old and new.shape
        }
        check_dtypes(self.inputs, self.outputs)
        self.invoke: Callable[[], object] = closed
        self.states: Sequence[str] = graph.states
        self.graph = graph
        self.load = load
        self.tensors: list[Any] = []
        self._provider, self._threads = options.provider, threads
        self._program, self._method = load()
        ExecuTorchSession.loaded += 1

    @cached_property
    def effective(self) -> Mapping[str, Any]:
        """What the binding tells of the pool, and the file of the rest."""
        inside = sum(each["steps"] for each in self.graph.metadata["delegates"])
        return {
            "provider": self._provider, "precision": None, "threads": self._threads, "streams": None,
            "method": self.graph.signature, "delegates": [each["backend"] for each in self.graph.metadata["delegates"]],
            "operators": len(self.graph.operators), "operators_delegated": inside,
            "planned_bytes": sum(self.graph.metadata["planned_bytes"]),
        }  # fmt: skip

    def reset_state(self) -> bool:
        """Load the method anew, with the initial values of its states."""
        self._program, self._method = self.load()
        self._bind()
        return True

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into a tensor. Raises ValueError or `UnsupportedModel` where they don't fit."""
        import torch

        self.tensors = [torch.from_numpy(array) for array in own_copies(arrays, self.inputs)]
        self._bind()

    def _bind(self) -> None:
        try:
            self._method.set_inputs(self.tensors)
        except RuntimeError as error:
            raise _explain(error, UnsupportedModel, refused(self._resized)) from error
        # The second argument: outputs are not copied.
        self.invoke = partial(self._method.call, self.tensors, False)

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the last inference's outputs. Raises `UnsupportedModel` for one of a type numpy lacks."""
        return [each.numpy() for each in self._method.get_outputs(True)]

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run this number of inferences in a second copy that records events. Raises `CannotProfile`."""
        from edgewise.runtime.executorch_profile import profile_executorch

        return profile_executorch(self, inferences)

    def close(self) -> None:
        """Release the method and the program."""
        self.invoke = closed
        ExecuTorchSession.loaded -= self._program is not None
        self._method = self._program = None
        self.tensors = []
