"""`import edgewise` is the only public face: what it offers, and what importing it costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import edgewise
from messages import says
from patience import LIMIT_S

FACE = [
    "BadInput",
    "BadModel",
    "Caution",
    "EdgewiseError",
    "Finding",
    "Job",
    "Layer",
    "Measurement",
    "Profile",
    "Run",
    "RunFailed",
    "StoreError",
    "Unavailable",
    "__version__",
    "bench",
    "calibrate",
    "compare",
    "convert",
    "diff",
    "estimate",
    "evaluate",
    "fits",
    "import_runs",
    "inspect",
    "open_store",
    "optimize",
    "predict",
    "profile",
]
HEAVY = {
    "ai_edge_litert", "jinja2", "numpy", "onnx", "onnxruntime", "openvino", "psutil", "pydantic", "scipy",
    "sqlalchemy", "tflite", "torch", "vl_convert",
}  # fmt: skip


def modules_after(statement: str) -> set[str]:
    """Top-level names of all modules that a fresh process has after `statement`."""
    script = (
        f"{statement}\nimport sys, json; print('\\n' + json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_face_is_exactly_this():
    assert edgewise.__all__ == FACE == sorted(FACE)
    assert dir(edgewise) == FACE


@pytest.mark.parametrize("name", FACE)
def test_every_name_resolves(name: str):
    assert getattr(edgewise, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=says("module-edgewise-no-attribute", name="benhc")):
        _ = edgewise.benhc  # type: ignore[attr-defined]


def test_results_of_a_verb_without_a_function_in_the_api_are_shown_as_all_others():
    modules_after("import edgewise; edgewise.gate; from edgewise import shown; assert shown.presenter is not None")


def test_type_checkers_see_what_is_there_at_run_time():
    tree = ast.parse(Path(edgewise.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert all(getattr(edgewise, name) is getattr(import_module(module), name) for name, module in seen.items())
    assert set(seen) == set(FACE) - {"__version__"}


def test_it_is_typed():
    assert files("edgewise").joinpath("py.typed").is_file()


def test_importing_costs_nothing():
    assert modules_after("import edgewise") & (HEAVY | {"rich", "click"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_neither_an_engine_nor_numpy(arguments: list[str]):
    statement = f"from edgewise.cli.main import run; assert run({arguments!r}) == 0"
    assert modules_after(statement) & HEAVY == set()
