"""Finds the messages of edgewise in its sources, for `renew_messages.py`.

A message is a text that reaches the user through an exception, or as a reason or a piece of advice: what is given to an
exception, what is given to an argument or attribute of such a name (`SINKS`), and what flows there from variables,
parameters and functions.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.errors import as_flag

SOURCE = Path(__file__).resolve().parents[1] / "src" / "edgewise"
SINKS = re.compile(r"(\w*_)?(absent_because|because|reason|advice|refused|install_hint|message|why)")
"""Names of arguments and attributes that hold messages."""
FEW = 4
"""Where more functions than that have a name, it means those of the same module."""
PASSED_ON = frozenset({
    "escape", "int", "list", "name_type", "one_line", "repr", "round", "set", "show", "sorted", "str", "tuple",
})  # fmt: skip
"""Functions that show what they are given: the field has the name of that."""


def find_messages(source: Path = SOURCE) -> dict[str, set[str]]:
    """Text → the functions that hold it, as ``run/plan.py:make_plan``."""
    return _Flow(source).found


@dataclass(eq=False)
class _Scope:
    """A function, class or module, with what it assigns, returns and calls."""

    site: str
    parent: _Scope | None
    parameters: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    assigned: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    returned: list[ast.expr] = field(default_factory=list)

    @property
    def module(self) -> str:
        """The file that it is in."""
        return self.site.split(":")[0]

    @property
    def name(self) -> str:
        """Its own name."""
        return self.site.split(":")[1].split(".")[-1]


class _Flow:
    """Follows messages from where they arrive back to their words."""

    def __init__(self, source: Path) -> None:
        self.found: dict[str, set[str]] = defaultdict(set)
        self._functions: dict[str, list[_Scope]] = defaultdict(list)
        self._calls: dict[str, list[tuple[_Scope, ast.Call]]] = defaultdict(list)
        self._modules: dict[str, _Scope] = {}
        self._attributes: dict[str, list[tuple[_Scope, ast.expr]]] = defaultdict(list)
        self._bases: dict[str, set[str]] = defaultdict(set)
        self._seen: set[object] = set()
        self._waiting: list[tuple[ast.expr, _Scope, bool]] = []
        for path in sorted(source.rglob("*.py")):
            name = path.relative_to(source).as_posix()
            self._modules[name] = scope = _Scope(name + ":", None)
            self._read(ast.parse(path.read_text(encoding="utf-8")), scope)
        self._start()
        while self._waiting:
            node, scope, whole = self._waiting.pop()
            self._look(node, scope, whole=whole)

    def _read(self, node: ast.AST, scope: _Scope) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = _Scope(f"{scope.site}{'.' * (scope.parent is not None)}{child.name}", scope)
                self._functions[child.name].append(inner)
                if isinstance(child, ast.ClassDef):
                    self._bases[child.name] |= {_last_name(base) for base in child.bases}
                else:
                    arguments = child.args
                    inner.parameters = [
                        one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                    ]
                    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
                        self._assign(ast.Name(one.arg), default, inner)
            elif isinstance(child, ast.Assign):
                for target in child.targets:
                    self._assign(target, child.value, scope)
            elif isinstance(child, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
                self._assign(child.target, child.value, scope)
                if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                    scope.fields.append(child.target.id)
            elif isinstance(child, ast.For | ast.comprehension):
                self._assign(child.target, child.iter, scope)
            elif isinstance(child, ast.Return | ast.Yield) and child.value is not None:
                scope.returned.append(child.value)
            elif isinstance(child, ast.Call):
                self._note_call(child, scope)
            self._read(child, inner)

    def _assign(self, target: ast.expr, value: ast.expr | None, scope: _Scope) -> None:
        if value is None:
            return
        for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(one, ast.Name):
                scope.assigned[one.id].append(value)
            elif isinstance(one, ast.Attribute):
                self._attributes[one.attr].append((scope, value))

    def _note_call(self, call: ast.Call, scope: _Scope) -> None:
        self._calls[_last_name(call.func)].append((scope, call))
        for one in call.keywords:
            if one.arg is not None:
                self._attributes[one.arg].append((scope, one.value))
        method = call.func
        if isinstance(method, ast.Attribute) and method.attr in {"append", "add", "extend", "insert"} and call.args:
            self._assign(method.value, call.args[-1], scope)

    def _start(self) -> None:
        for name, calls in self._calls.items():
            if self._is_exception(name):
                for scope, call in calls:
                    for given in (*call.args, *(one.value for one in call.keywords)):
                        self._follow(given, scope, whole=True)
        self._start_from_names()

    def _start_from_names(self) -> None:
        for name, values in self._attributes.items():
            if SINKS.fullmatch(name):
                for scope, value in values:
                    self._follow(value, scope, whole=True)
        for name, scopes in self._functions.items():
            for scope in scopes:
                for value in scope.returned if SINKS.fullmatch(name.removeprefix("_")) else ():
                    self._follow(value, scope, whole=True)
                for one in filter(SINKS.fullmatch, scope.parameters):
                    self._follow_parameter(one, scope, whole=True)
                if scope.fields and len(scopes) == 1:
                    self._follow_fields(name, scope.fields)
        for scope in self._modules.values():
            for name in scope.assigned:
                if SINKS.fullmatch(name.lstrip("_").lower()) or name == "CAUTIONS":
                    self._follow_name(name, scope, whole=True)

    def _follow_fields(self, name: str, fields: list[str]) -> None:
        """Note what a dataclass is given by position."""
        for caller, call in self._calls.get(name, ()):
            for one, value in zip(fields, call.args, strict=False):
                if SINKS.fullmatch(one):
                    self._follow(value, caller, whole=True)

    def _is_exception(self, name: str, depth: int = 0) -> bool:
        known = getattr(builtins, name, None)
        if isinstance(known, type):
            return issubclass(known, BaseException)
        return depth < 9 and any(self._is_exception(base, depth + 1) for base in self._bases.get(name, ()))

    def _follow(self, node: ast.expr, scope: _Scope, *, whole: bool) -> None:
        if (node, whole) not in self._seen:
            self._seen.add((node, whole))
            self._waiting.append((node, scope, whole))

    def _look(self, node: ast.expr, scope: _Scope, *, whole: bool) -> None:
        """Take the texts that `node` may be; a text that is not the whole message counts if it has several words."""
        parts = _parts(node)
        if parts is not None:
            self._take(parts, scope, whole=whole)
            for part in parts:
                if not isinstance(part, str):
                    self._follow(part.value, scope, whole=False)
        elif isinstance(node, ast.Name):
            self._follow_name(node.id, scope, whole=whole)
        elif isinstance(node, ast.Attribute):
            self._follow_attribute(node, whole=whole)
        elif isinstance(node, ast.Call):
            self._follow_call(node, scope, whole=whole)
        else:
            for inner in _alternatives(node):
                self._follow(inner, scope, whole=whole)

    def _take(self, parts: list[str | ast.FormattedValue], scope: _Scope, *, whole: bool) -> None:
        words = "".join(part for part in parts if isinstance(part, str))
        words = re.sub("⟦(.*?)=", "⟦\\1 ", words)  # a field in its mark is two words with its value
        if re.search(r"\w\W* \W*\w" if not whole or len(parts) == 1 else r"[^\W\d]{2}", words) and not _is_code(words):
            self.found[_text(parts)].add(scope.site)

    def _follow_name(self, name: str, scope: _Scope | None, *, whole: bool) -> None:
        while scope is not None:
            if (scope, name, whole) in self._seen:
                return
            self._seen.add((scope, name, whole))
            for value in scope.assigned.get(name, ()):
                self._follow(value, scope, whole=whole)
            if name in scope.parameters:
                self._follow_parameter(name, scope, whole=whole)
            if name in scope.parameters or name in scope.assigned:
                return
            scope = scope.parent
        self._follow_import(name, whole=whole)

    def _follow_import(self, name: str, *, whole: bool) -> None:
        """Note a constant of another module."""
        if name.isupper():
            for module in self._modules.values():
                for value in module.assigned.get(name, ()):
                    self._follow(value, module, whole=whole)

    def _follow_parameter(self, name: str, scope: _Scope, *, whole: bool) -> None:
        called = scope.parent.name if scope.name == "__init__" and scope.parent else scope.name
        if not self._named(called, scope):
            return
        is_method = scope.parameters[0] in {"self", "cls"}
        at = scope.parameters.index(name) - is_method
        kept_privately = self._calls.get(f"_{called}", ())  # _require = require_of("runtime")
        for caller, call in (*self._calls.get(called, ()), *kept_privately):
            if len(self._functions.get(called, ())) > FEW and caller.module != scope.module:
                continue
            given = [one.value for one in call.keywords if one.arg == name]
            given += call.args[at : at + 1] if not any(isinstance(one, ast.Starred) for one in call.args) else []
            for value in given:
                self._follow(value, caller, whole=whole)

    def _named(self, name: str, scope: _Scope) -> list[_Scope]:
        """Return the functions that `name` may mean in `scope`: where many have that name, those of the module."""
        known = self._functions.get(name, [])
        return known if len(known) <= FEW else [one for one in known if one.module == scope.module]

    def _follow_attribute(self, node: ast.Attribute, *, whole: bool) -> None:
        name = node.attr
        if (name, whole) in self._seen or not (SINKS.fullmatch(name) or name.startswith("_") or name.isupper()):
            return
        self._seen.add((name, whole))
        for scope, value in self._attributes.get(name, ()):
            self._follow(value, scope, whole=whole)
        self._follow_import(name, whole=whole)

    def _follow_call(self, node: ast.Call, scope: _Scope, *, whole: bool) -> None:
        name = _last_name(node.func)
        functions = self._named(name, scope)
        for function in functions:
            for value in function.returned:
                self._follow(value, function, whole=whole)
        if not functions:
            owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            for given in (*owner, *node.args):
                self._follow(given, scope, whole=False)


def _alternatives(node: ast.expr) -> Iterable[ast.expr]:
    """Return what the value of `node` may be, or hold."""
    match node:
        case ast.IfExp():
            return (node.body, node.orelse)
        case ast.BoolOp():
            return node.values
        case ast.Tuple() | ast.List() | ast.Set():
            return node.elts
        case ast.Dict():
            return node.values
        case ast.Subscript() | ast.Starred() | ast.NamedExpr() | ast.Await():
            return (node.value,)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return (node.elt,)
        case ast.BinOp():
            return (node.left, node.right)
        case ast.DictComp():
            return (node.value,)
    return ()


def _parts(node: ast.expr) -> list[str | ast.FormattedValue] | None:
    """Words and fields of a text; None for what is not written as one."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.FormattedValue(value=ast.Call(func=ast.Name("as_flag"), args=[ast.Constant(value=str(field)), *rest])):
            return [as_flag(field, *(each.value for each in rest if isinstance(each, ast.Constant)))]
        case ast.JoinedStr():
            return [part for value in node.values for part in _parts(value) or ()]
        case ast.FormattedValue():
            return [node]
        case ast.BinOp(op=ast.Add()):
            left, right = _parts(node.left), _parts(node.right)
            if left is None and right is None:
                return None
            return [
                *(left if left is not None else [ast.FormattedValue(node.left, -1)]),
                *(right if right is not None else [ast.FormattedValue(node.right, -1)]),
            ]
    return None


def _text(parts: list[str | ast.FormattedValue]) -> str:
    names: dict[str, str] = {}
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part.replace("{", "{{").replace("}", "}}")
            continue
        shown = ast.unparse(part.value)
        if shown not in names:
            name = base = _field_name(part.value)
            number = 1
            while name in names.values():
                number += 1
                name = f"{base}_{number}"
            names[shown] = name
        text += "{" + names[shown] + "!r" * (part.conversion == ord("r")) + "}"
    return text


def _field_name(node: ast.expr) -> str:
    match node:
        case ast.Name():
            name = node.id
        case ast.Attribute():
            name = node.attr
        case ast.Call(func=ast.Attribute(attr="join"), args=[only]) | ast.Call(func=ast.Name(id="len"), args=[only]):
            name = _field_name(only) if not isinstance(node.func, ast.Name) else f"{_field_name(only)}_count"
        case ast.Call(args=[first, *_]) if _last_name(node.func) in PASSED_ON:
            name = _field_name(first)
        case ast.Call():
            name = _last_name(node.func)
        case ast.ListComp() | ast.GeneratorExp():
            name = _field_name(node.generators[0].iter)
        case ast.Subscript() | ast.Starred() | ast.Await():
            name = _field_name(node.value)
        case ast.IfExp():
            name = _field_name(node.body)
        case ast.BoolOp():
            name = _field_name(node.values[0])
        case ast.BinOp():
            name = _field_name(node.left)
        case _:
            name = "value"
    return name.strip("_").lower() or "value"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_code(words: str) -> bool:
    """Statements for a database, a shell or a C compiler."""
    return bool(re.search(r"\b(SELECT|INSERT|UPDATE|CREATE|ALTER|DELETE FROM|PRAGMA)\b|#include|;\n|</", words))
