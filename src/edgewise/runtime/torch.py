"""PyTorch: a module as its author has it, or a program of ``torch.export``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import EdgewiseError
from edgewise.model.eager import EagerModule, load_eager
from edgewise.registry import Availability
from edgewise.runtime.base import (
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.runtime.torch_session import TorchSession


class Torch:
    """PyTorch on the processor."""

    name = "torch"
    title = "PyTorch"
    formats: Sequence[str] = ("eager", "torch")
    providers: Sequence[Provider] = (
        Provider(name="eager", title="Eager", precisions=("f32", "bf16"), settings=("channels_last",)),
        Provider(name="compile", title="torch.compile with TorchInductor", precisions=("f32", "bf16")),
        Provider(
            name="aoti",
            title="AOTInductor, compiled ahead of time",
            precisions=("f32", "bf16"),
            settings=("channels_last", "freezing"),
        ),
    )
    in_default = True
    settings = frozenset({"channels_last", "freezing", "mode"})

    @property
    def default_providers(self) -> Sequence[str]:
        """Eager, and compiled where there is a C++ compiler."""
        from edgewise.runtime.torch_compile import find_compiler

        return ("eager", "compile") if find_compiler() else ("eager",)

    def lacking(self, provider: str) -> Availability | None:
        """As `edgewise.runtime.base.ExplainsProviders`."""
        if provider not in ("cuda", "mps", "xpu"):
            return None
        return Availability(
            False,
            "edgewise runs PyTorch on the processor only",
            "use torch/eager or torch/compile; for a GPU, export the module and use onnxruntime/cuda or openvino/gpu",
        )

    def availability(self) -> Availability:
        """Whether the package torch is installed."""
        return package_availability("torch", extra="torch", module="torch")

    def import_engine(self) -> str:
        """Import the engine and return its version."""
        import torch

        return str(torch.__version__)

    def load(self, path: Path, options: LoadOptions) -> TorchSession:
        """Return a session for the module at `path`, written by this command (``eager``) or by ``torch.export.save``.

        Raises `UnsupportedModel`, `InvalidModel`, MemoryError or whatever the module's own code raises.
        """
        check_settings(self.title, self.settings, options.extra)
        for name in ("channels_last", "freezing"):
            if not isinstance(value := options.extra.get(name, False), bool):
                raise UnsupportedModel(f"PyTorch's setting {name} is true or false, not {value!r}")
        _set_threads(options.threads)
        found = _load_module(path)
        if options.provider == "eager":
            return TorchSession(found, options)
        from edgewise.runtime.torch_compile import AheadOfTimeSession, CompiledSession

        kind = {"compile": CompiledSession, "aoti": AheadOfTimeSession}.get(options.provider)
        if kind is None:
            known = ", ".join(provider.name for provider in self.providers)
            raise UnsupportedModel(f"PyTorch has no provider {options.provider!r} (it has: {known})")
        return kind(found, options)


def _load_module(path: Path) -> EagerModule:
    """Return the module at `path`, by its content: ``NAME.eager`` is JSON, a program is an archive."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise InvalidModel(f"can't read {path.name}: {error.strerror}") from error
    if head.startswith(b"PK"):
        from edgewise.runtime.torch_program import load_module

        return load_module(path)
    try:
        return load_eager(path)
    except EdgewiseError as error:
        raise InvalidModel(f"{error.message} ({error.advice})") from error


def _set_threads(threads: int | None) -> None:
    """Set the number of threads within an operator; operators never run side by side."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)
