"""The worker as one archive for targets: the modules that it needs, found by their imports, in reproducible bytes."""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_ENTRY_MODULES = ("run/worker.py", "run/facts_worker.py", "run/peak_worker.py", "device/environment_maker.py")
_ENTRY_FOLDERS = ("runtime", "run/meters")
_OF_THE_HOST = {"runtime/device_tools.py", "runtime/describing.py"}
"""Modules in these folders that run on the host alone."""
_MAIN = """import sys
from importlib import import_module
import_module(sys.argv.pop(1)).main()
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def make_bundle() -> bytes:
    """Return a zip file whose ``__main__`` runs ``main`` of the module that is its first argument.

    It needs the standard library, numpy and the engine. The same sources give the same bytes. Docstrings and lines of
    comment, half of the text, stay here; lines keep their numbers.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        contents = {f"edgewise/{name}": _without_comments(source, nodes) for name, (source, nodes) in _needed().items()}
        contents["__main__.py"] = _MAIN.encode()
        for name, content in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)
    return out.getvalue()


def _without_comments(source: bytes, nodes: Sequence[ast.AST]) -> bytes:
    """`source` with an empty line for each of comment, and an empty string for each string that is a statement, on as
    many lines; `nodes` are those of its syntax.
    """
    lines = source.splitlines(keepends=True)
    texts = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
    kept = {line for node in texts for line in range(node.lineno, node.end_lineno or node.lineno)}
    for at, line in enumerate(lines):
        if line.lstrip().startswith(b"#") and at not in kept:  # line `at` + 1, which a text of several lines may have
            lines[at] = b"\n"
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            rest = lines[last][node.end_col_offset :]
            lines[first : last + 1] = [lines[first][: node.col_offset] + b'""\n', *[b"\n"] * (last - first)]
            lines[last] = lines[last].rstrip(b"\n") + rest
    return b"".join(lines)


def _needed() -> dict[str, tuple[bytes, Sequence[ast.AST]]]:
    """Return the files of all modules that the entry modules import, by their paths below the package: each with its
    source and the nodes of its syntax.
    """
    todo = [_ROOT / name for name in _ENTRY_MODULES]
    todo += [file for folder in _ENTRY_FOLDERS for file in (_ROOT / folder).glob("*.py")]
    todo = [file for file in todo if file.relative_to(_ROOT).as_posix() not in _OF_THE_HOST]
    found: dict[str, tuple[bytes, Sequence[ast.AST]]] = {}
    while todo:
        file = todo.pop()
        name = file.relative_to(_ROOT).as_posix()
        if name in found:
            continue
        source = file.read_bytes()
        tree = ast.parse(source)
        found[name] = source, list(ast.walk(tree))
        todo += [each for module in _imports(tree) for each in _files(module)]
        todo += [folder / "__init__.py" for folder in file.parents if folder.is_relative_to(_ROOT)]
    return found


def _files(module: str) -> list[Path]:
    """Return the file of a module of this package; none for what is not one."""
    place = _ROOT.joinpath(*module.split(".")[1:])
    return [each for each in (place / "__init__.py", place.with_suffix(".py")) if each.is_file()]


def _imports(tree: ast.Module) -> set[str]:
    """Names of modules of this package that a module imports, wherever in it, but not for type checkers alone."""
    names: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        todo += (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))  # none is in one
    return {name for name in names if name.startswith("edgewise.")}
