"""A process of its own for the onnx package's C++: a hostile model that crashes it, or fills memory, ends only this.

It is run by its path, with nothing but the standard library, and loads the extension module without the package around
it (some 30 ms in all): ``python -I -S onnx_isolated.py EXTENSION inline? propagate?``, a ModelProto on stdin, the
answer on stdout.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

CPU_SECONDS = 20
MEMORY_BYTES = 2**30
"""Of address space. The description that comes in is at most 64 MiB."""


def main() -> int:
    """Answers one question; anything that goes wrong is one line on stderr and exit code 1."""
    extension, inline, strict = sys.argv[1], sys.argv[2] == "1", sys.argv[3] == "1"
    _limit()
    name = "onnx.onnx_cpp2py_export"
    spec = spec_from_file_location(name, extension, loader=ExtensionFileLoader(name, extension))
    if spec is None:
        return 1
    exported = module_from_spec(spec)
    sys.modules[name] = exported
    if spec.loader is not None:
        spec.loader.exec_module(exported)
    model = sys.stdin.buffer.read()
    try:
        if inline:
            model = exported.inliner.inline_local_functions(model, False)
        else:
            model = exported.shape_inference.infer_shapes(model, False, strict, True)
    except Exception as error:
        sys.stderr.write(" ".join(str(error).split())[:2000])
        return 1
    sys.stdout.buffer.write(model)
    return 0


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
