"""What scripts of benchmarks/, tools/ and docs/ import from edgewise and from one another is there: nothing runs them all."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "benchmarks", ROOT / "tools", ROOT / "docs"]
SCRIPTS = sorted(path for folder in FOLDERS for path in folder.rglob("*.py") if "_build" not in path.parts)


def defined(path: Path) -> set[str]:
    """The names that a module binds at its top level."""
    bound = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return bound


def has(module: str, name: str, beside: Path) -> bool:
    if (local := beside.parent / f"{module}.py").exists():
        return name in defined(local)
    if module.partition(".")[0] != "edgewise":
        return True
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_script_imports_is_there(script):
    wanted = [
        (node.module, each.name)
        for node in ast.walk(ast.parse(script.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for each in node.names
    ]
    assert [f"{module}.{name}" for module, name in wanted if not has(module, name, script)] == []
