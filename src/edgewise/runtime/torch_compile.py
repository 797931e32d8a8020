"""Modules compiled by TorchInductor: ``torch.compile``, and AOTInductor ahead of time.

Compiling is a step of its own (`edgewise.runtime.base.Compiles`), so that its time is in no latency. Inductor's cache
is a folder of the job: the first process compiles, those that follow take its code, and nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgewise.folders import enclosing_job_folder
from edgewise.model.eager import EagerModule
from edgewise.runtime.arrays import closed, tell
from edgewise.runtime.base import EngineProfile, LoadOptions, UnsupportedModel
from edgewise.runtime.torch_profile import KernelRecorder, profile_torch
from edgewise.runtime.torch_session import TorchSession

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_SETTLES = 4
"""Calls after which a module that compiles itself anew in every call is left alone."""


def find_compiler() -> str | None:
    """Return the C++ compiler that Inductor calls; None where there is none."""
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))


class CompiledSession(TorchSession):
    """A module compiled by ``torch.compile``, with static shapes."""

    def __init__(self, found: EagerModule, options: LoadOptions) -> None:
        if find_compiler() is None:
            wanted = os.environ.get("CXX") or "g++"
            raise UnsupportedModel(
                f"torch/{options.provider} needs a C++ compiler, and {wanted} is not installed: install it "
                "(apt-get install g++), name another one in the environment variable CXX, or use torch/eager"
            )
        self._mode = str(options.extra.get("mode", "default"))
        if self._mode not in MODES:
            raise UnsupportedModel(f"torch.compile has no mode {self._mode!r} (it has: {', '.join(MODES)})")
        super().__init__(found, options)
        self._options = options
        self._source = self.module
        self._recorder = KernelRecorder()
        self._call: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def bind_call(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Keep the arguments, and let `invoke` compile first where `compile` was not called."""
        self._call = args, keywords
        if self.module is not self._source:
            super().bind_call(args, keywords)
        else:
            self.invoke = self._compile_first

    def _compile_first(self) -> object:
        self.compile()
        return self.invoke()

    def compile(self) -> Mapping[str, Any]:
        """Compile for the bound inputs; see `edgewise.runtime.base.Compiles`."""
        if self.invoke is closed:
            closed()
        import torch
        from torch._dynamo.utils import counters
        from torch._inductor import config

        folder = self._make_cache_folder()
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
        # Sessions of one process compile the same code for their own modules.
        torch._dynamo.config.recompile_limit = 10_000
        # Shapes stay static. ``dynamic=False`` sets the same for each call: 20 µs in which nothing is computed.
        torch._dynamo.config.automatic_dynamic_shapes = False
        counters.clear()
        with config.patch({"freezing": bool(self._options.extra.get("freezing"))}):
            facts = self._make(folder)
        self._effective |= {"compiled_from_cache": facts["cached"]}
        if not facts["ahead"]:
            self._count_graphs(counters)
        super().bind_call(*self._call)
        return facts

    def reset_state(self) -> bool:
        """As `TorchSession.reset_state`; False where the compiled code has buffers of its own."""
        return not self._options.extra.get("freezing") and super().reset_state()

    def _make_cache_folder(self) -> Path:
        """Make the folder of compiled code: the job's, else one that goes with this session.

        The names of compiled files don't tell whose module it is, so that another job's code may never lie there.
        """
        job = enclosing_job_folder(Path(tempfile.gettempdir()))
        if job is None:
            folder = Path(tempfile.mkdtemp(prefix="edgewise-inductor-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = job / "edgewise-inductor"
            folder.mkdir(exist_ok=True)
        return folder

    def _count_graphs(self, counters: Mapping[str, Any]) -> None:
        """Count the compiled graphs, and the breaks between them, where Python runs the module's code."""
        # PyTorch counts most breaks under both names, and those at a branch on a tensor under the second alone.
        breaks = max(counters["graph_break"], counters["unimplemented"], key=lambda counted: sum(counted.values()))
        total, graphs = sum(breaks.values()), counters["stats"]["unique_graphs"]
        self._effective |= {"graphs": graphs, "graph_breaks": total}
        if total or not graphs:
            why = f" ({tell(str(next(iter(breaks))))[:200]})" if total else ""
            self.cautions["graph-breaks"] = f"{graphs} graphs were compiled, with {total} breaks between them{why}"

    def _make(self, folder: Path) -> dict[str, bool]:
        import torch
        from torch._dynamo.utils import counters

        del folder
        settings: dict[str, Any] = {"mode": None if self._mode == "default" else self._mode}
        if self._options.profile:
            self._recorder = KernelRecorder(torch._inductor.list_mode_options(self._mode))
            settings = {"backend": self._recorder}
        self.module = torch.compile(self._source, **settings)
        args, keywords = self._call
        graphs = -1
        for _ in range(_SETTLES):  # a changed state may need another graph
            self.module(*args, **keywords)
            if counters["stats"]["unique_graphs"] == graphs:
                break
            graphs = counters["stats"]["unique_graphs"]
        inductor = counters["inductor"]
        return {"cached": bool(inductor["fxgraph_cache_hit"]) and not inductor["fxgraph_cache_miss"], "ahead": False}

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run this number of inferences under PyTorch's profiler. Raises `CannotProfile`."""
        return profile_torch(self.invoke, inferences, kernels=self._recorder.kernels)

    def close(self) -> None:
        """Release the module and its compiled code."""
        super().close()
        self._source = None
        self._call = ((), {})


class AheadOfTimeSession(CompiledSession):
    """A module exported by ``torch.export`` and compiled to a library by AOTInductor; Python calls the library."""

    def reset_state(self) -> bool:
        """Return False: the library has the buffers."""
        return False

    def _make(self, folder: Path) -> dict[str, bool]:
        import torch

        options = self._options
        key = repr((options.shapes, options.dtypes, options.threads, options.precision, dict(options.extra)))
        word = "aoti-profiled" if options.profile else "aoti"
        package = folder / f"{word}-{sha256(key.encode()).hexdigest()[:16]}.pt2"
        cached = package.is_file() and not options.profile
        if not cached:
            args, keywords = self._call
            try:
                program = torch.export.export(self._source, args, keywords)
            except Exception as error:  # whatever the module's own code or the exporter raises
                raise UnsupportedModel(
                    f"torch.export can't export the module, which torch/aoti needs: {type(error).__name__}: "
                    f"{tell(str(error))[:400]} (use torch/eager or torch/compile)"
                ) from error
            recording = self._recorder.recording(program.graph_module) if options.profile else nullcontext()
            with recording as settings:
                torch._inductor.aoti_compile_and_package(program, package_path=str(package), inductor_configs=settings)
        self.module = torch._inductor.aoti_load_package(str(package))
        return {"cached": cached, "ahead": True}
