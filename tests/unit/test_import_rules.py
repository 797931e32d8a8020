"""Heavy imports happen inside functions. That imports point one way is a contract of ``lint-imports``, in ``just lint``."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgewise
from patience import LIMIT_S

SOURCE = Path(__file__).parents[2] / "src" / "edgewise"
ENGINES = {"ai_edge_litert", "onnxruntime", "openvino", "tensorflow", "torch", "vl_convert"}
SENT_TO_DEVICES = ["edgewise.run.worker", "edgewise.run.protocol", "edgewise.run.timing", "edgewise.runtime.base"]
NOT_ON_DEVICES = {"click", "jinja2", "onnx", "psutil", "pydantic", "rich", "sqlalchemy", "tflite", *ENGINES}


def imports_on_load(path: Path) -> Iterator[str]:
    """Top-level packages that importing the module at `path` imports, by its text."""
    pending: list[ast.AST] = list(ast.parse(path.read_text("utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        pending.extend(ast.iter_child_nodes(node))


def test_the_reader_of_imports_sees_what_runs_and_nothing_else(tmp_path: Path):
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "try:\n    import onnx.helper\nexcept ImportError:\n    pass\n"
        "class A:\n    import numpy\n    def f(self):\n        import openvino\n"
    )
    assert set(imports_on_load(file)) == {"typing", "onnx", "numpy"}


def test_engines_are_imported_inside_functions():
    files = sorted(SOURCE.rglob("*.py"))
    found = {str(path.relative_to(SOURCE)): set(imports_on_load(path)) & ENGINES for path in files}
    assert len(files) > 500 and {name: engines for name, engines in found.items() if engines} == {}


@pytest.mark.parametrize("module", SENT_TO_DEVICES)
def test_what_is_sent_to_a_device_loads_without_the_rest(module: str):
    forbidden = sorted(NOT_ON_DEVICES)
    script = (
        f"import sys\n"
        f"for name in {forbidden!r}: sys.modules[name] = None\n"  # importing any of them now fails
        f"import {module}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_modules_are_named_after_what_they_hold():
    vague = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert {path.stem for path in SOURCE.rglob("*.py")} & vague == set()


def test_the_package_that_is_tested_is_this_one():
    assert Path(edgewise.__file__).parent.name == "edgewise"
