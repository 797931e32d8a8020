"""Below the doors, texts name fields in marks (`edgewise.errors`) and no flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from edgewise.verbs.verb import VERBS
from interface import all_commands

SOURCE = Path(__file__).parents[2] / "src" / "edgewise"
DOORS = ("api.py", "cli", "shims", "studio", "terminal", "report")
"""They word fields themselves: `report` makes tables and pages of results, which have the flags of the command line."""
DECLARE = ("option", "argument", "worded")
"""What makes options and their help."""
FLAG = re.compile(
    r"(?<![\w-])--([a-z][a-z-]*)(?![\w=-])|\b(?:[bB]y|choose|give|leave|of|omit|only:|or|take|takes|use|with) (-[a-z])\b"
)
MARK = re.compile(r"⟦(\w*)")
COMMAND = re.compile(
    r"""'edgewise[ ][^']*' | `edgewise[ ][^`]*`         # a whole command, in quotes
    | (?:\b(?:edgewise|docker|podman|systemd-run|optimum-cli|trtexec|paddle2onnx)[ ]|\{\}[ ](?:run|ps)[ ])
      (?:[^,;)]|,(?![ ]))*                              # one up to the next comma
    | ^[ ]--.*                                          # the end of a command
    | ^--[a-z-]+$                                       # a word of one
    """,
    re.VERBOSE,
)
"""Commands to type, up to the next comma or semicolon: their flags stay flags."""


@cache
def declared() -> tuple[frozenset[str], frozenset[str]]:
    """The flags of all options, long ones without dashes, and the names of all options and fields."""
    options = [one for _, command in all_commands() if command is not None for one in command.options]
    flags = {flag.removeprefix("--") for one in options for flag in (*one.flags, one.off)}
    fields = {name for _, verb in VERBS for name in verb.request_type().model_fields}
    return frozenset(flags), frozenset(
        {name for one in options for name in (one.name, one.field)} | fields | {"schema"}
    )


@cache
def texts(code: str) -> tuple[tuple[int, str], ...]:
    """Line and text of each literal that is no docstring and declares no option; what an f-string fills in is ``{}``."""
    return tuple(_read(ast.parse(code)))


def _read(tree: ast.AST) -> Iterator[tuple[int, str]]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in DECLARE:
                continue
            case ast.Assign(targets=[ast.Name(id="summary" | "asked_by")]):  # of a verb
                continue
            case ast.JoinedStr(values=parts):
                yield node.lineno, "".join(one.value if isinstance(one, ast.Constant) else "{}" for one in parts)
                waiting += [one for one in parts if isinstance(one, ast.FormattedValue)]
                continue
            case ast.Constant(value=str(text)):
                yield node.lineno, text
        waiting.extend(ast.iter_child_nodes(node))


def flags_in(code: str) -> list[str]:
    """Where the texts of a module name flags of edgewise outside whole commands."""
    own, _ = declared()
    return [
        f"{line}: {flag} in {text!r}"
        for line, text in texts(code)
        for long, short in FLAG.findall(COMMAND.sub("", text))
        if (flag := long or short) in own
    ]


def unknown_marks_in(code: str) -> list[str]:
    """Where the texts of a module mark what is neither an option nor a field."""
    _, known = declared()
    return [
        f"{line}: {name} in {text!r}"
        for line, text in texts(code)
        for name in MARK.findall(text)
        if name not in {*known, ""}
    ]


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.split("/")[0] not in DOORS:
            yield name, path.read_text(encoding="utf-8")


def test_no_flag_is_named_below_the_doors():
    found = [f"{name}:{each}" for name, code in modules() for each in flags_in(code)]
    assert not found, "name the field in a mark, as ⟦batch⟧, or in texts of results by as_flag:\n" + "\n".join(found)


def test_marks_are_options_or_fields():
    assert [f"{name}:{each}" for name, code in modules() for each in unknown_marks_in(code)] == []


@pytest.mark.parametrize(
    "code",
    [
        'raise BadInput("--batch must be 1")', 'f(f"{x}: --batch {y}")', 'X = {"a": "raise --sessions"}',
        'f("see \'edgewise bench M\', or --threads 2")', 'f("edgewise bench M --batch 1, or --threads 2")', 'f("--data PATH")',
        'f("give another with -o FOLDER")', 'f("give -o once")',
    ],
)  # fmt: skip
def test_a_flag_is_found(code: str):
    assert len(flags_in(code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        'def f():\n    "Reads --batch."', 'option("--batch N", X, "With --json: more")', 'run(["--name", x])',
        'f("\'edgewise bench MODEL --batch 1\' does it")', 'f("edgewise bench a,b --batch 1; or ⟦batch⟧")', 'f(f" --batch {x}")',
        'f("its --weird flag")', 'f("JSON of --export_path")', 'f(f"{engine} run --name x")', 'f(f"{as_flag(\'batch\')} is 0")',
    ],
)  # fmt: skip
def test_a_declaration_and_a_command_are_no_finding(code: str):
    assert flags_in(code) == []


def test_an_unknown_mark_is_found():
    assert len(unknown_marks_in('f("⟦btach⟧ and ⟦batch=8⟧ and ⟦{field}⟧")')) == 1
