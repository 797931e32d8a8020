"""No circles among modules, imports in functions counted; no door knows another; all stand in the import contract."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

grimp = pytest.importorskip("grimp", reason="it comes with import-linter")
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "edgewise"
DOORS = ("api", "cli", "shims", "studio")


def circles(imports: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Groups of modules each of which reaches every other (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        number[module] = lowest[module] = len(number)
        open_.append(module)
        for other in imports.get(module, ()):
            if other not in number:
                yield from visit(other)
            if other in open_:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            group = open_[open_.index(module) :]
            del open_[-len(group) :]
            if len(group) > 1 or module in imports.get(module, ()):
                yield sorted(group)

    for module in imports:
        if module not in number:
            yield from visit(module)


@pytest.fixture(scope="module")
def graph():
    """Every import of the package, those in functions too, but not those for type checkers alone."""
    return grimp.build_graph("edgewise", exclude_type_checking_imports=True, cache_dir=None)


def test_circles_are_found():
    chain = {"a": {"b"}, "b": {"c"}, "c": set()}
    assert list(circles(chain)) == []
    assert list(circles(chain | {"c": {"b"}, "d": {"a"}})) == [["b", "c"]]
    assert list(circles(chain | {"c": {"a"}, "e": {"f", "c"}, "f": {"e"}})) == [["a", "b", "c"], ["e", "f"]]
    assert list(circles({"a": {"a"}})) == [["a"]]


def test_no_module_imports_itself_by_way_of_others_not_even_in_a_function(graph):
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 700 and list(circles(imports)) == []


def test_no_package_imports_itself_by_way_of_others(graph):
    tops = {module: ".".join(module.split(".")[:2]) for module in graph.modules if module != "edgewise"}
    imports: dict[str, set[str]] = {top: set() for top in tops.values()}
    for module, top in tops.items():
        imports[top] |= {tops.get(other, top) for other in graph.find_modules_directly_imported_by(module)} - {top}
    assert list(circles(imports)) == []


def test_no_door_knows_another():
    found = set()
    for door in DOORS:
        folder = SOURCE / door
        others = tuple(f"edgewise.{other}" for other in DOORS if other != door)
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]:
            texts = [
                node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)
            ]
            if any(
                isinstance(text, str) and f"{text}.".startswith(tuple(f"{one}." for one in others)) for text in texts
            ):
                found.add(str(path.relative_to(SOURCE)))
    assert not found  # what they import, the contract checks


def test_every_package_and_module_stands_in_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (layers,) = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    assert layers["exhaustive"] is True and layers["containers"] == ["edgewise"] and "ignore_imports" not in layers
    assert settings["exclude_type_checking_imports"] is True and not any(":" in layer for layer in layers["layers"])
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert {word for layer in layers["layers"] for word in layer.split(" | ")} == there - {"__init__"}
    assert " | ".join(DOORS) in layers["layers"]
