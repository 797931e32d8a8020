"""A process of its own for shape inference: a hostile model that crashes it, or fills memory, ends only this.

It is run by its path: ``python -I onnx_isolated.py MODE FILE``, a ModelProto on stdin, the answer on stdout. FILE is
the extension module of the onnx package, which is loaded without the package around it (with ``-S`` some 30 ms in all);
for ``symbolic`` it is ONNX Runtime's script for symbolic shape inference, which needs sympy and no engine.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

CPU_SECONDS = 20
MEMORY_BYTES = 2**30
"""Of address space. The description that comes in is at most 64 MiB."""


def main() -> int:
    """Answers one question; anything that goes wrong is one line on stderr and exit code 1."""
    mode, file = sys.argv[1:3]
    _limit()
    model = sys.stdin.buffer.read()
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    try:
        module = _load(file)
        if mode == "symbolic":
            model = _follow_values(module, model)
        elif mode == "inline":
            model = module.inliner.inline_local_functions(model, False)
        else:
            model = module.shape_inference.infer_shapes(model, False, mode == "strict", True)
    except Exception as error:
        sys.stderr.write((" ".join(str(error).split()) or type(error).__name__)[:2000])
        return 1
    answers.write(model)
    answers.flush()
    return 0


def _load(file: str) -> Any:
    native = not file.endswith(".py")
    name = "onnx.onnx_cpp2py_export" if native else "symbolic_shape_infer"
    spec = spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file) if native else None)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _follow_values(module: Any, model: bytes) -> bytes:
    """Shapes by ONNX Runtime's symbolic inference; nothing is merged or guessed, and what it leaves open stays open."""
    import onnx

    inferred = module.SymbolicShapeInference.infer_shapes(onnx.ModelProto.FromString(model), 2**31 - 1, False, False, 0)
    return b"" if inferred is None else inferred.SerializeToString()


def _limit() -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    raise SystemExit(main())
