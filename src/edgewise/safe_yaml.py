"""YAML as text, lists and mappings only: no type is guessed, no object made, nothing refers elsewhere.

People write class names such as ``no`` and ``010``, so every scalar stays text; each
setting decides whether it reads a number.
Files are hostile: their size, depth and number of values are bounded, and tags are refused, as are anchors, with which
a few lines expand to billions of values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from edgewise.errors import BadInput
from edgewise.text import one_line

MAX_BYTES = 2**22
"""Of a file, also of a list of classes."""
MAX_YAML_CHARACTERS = 2**18
MAX_DEPTH = 16
MAX_NODES = 50_000

_OURS = re.compile(r"^[\"']?edgewise[\"']?\s*:", re.MULTILINE)
_BREAKS = ("\x85", "\u2028", "\u2029", "\ufeff")


def _base() -> Any:
    """Return the loader whose nodes are composed in Python, one by one, so that each can be refused."""
    if not yaml.__with_libyaml__:
        return yaml.BaseLoader

    class ScansInC(Composer, yaml.CBaseLoader):  # type: ignore[misc]  # PyYAML has no types
        """Scans by libyaml, which the wheels of PyYAML have, in a fifth of the time."""

        def __init__(self, text: str) -> None:
            yaml.CBaseLoader.__init__(self, text)
            Composer.__init__(self)

    return ScansInC


class _Loader(_base()):  # type: ignore[misc]  # PyYAML has no types
    """Refuses what the module's docstring names. `name` is that of the document in messages."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self._name = name
        self._depth = self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            advice = "write the value out each time"
            raise BadInput(f"{self._name} has an anchor or alias in line {line}", advice=advice)
        if getattr(event, "tag", None) is not None:
            raise BadInput(f"{self._name} has the tag {event.tag!r} in line {line}", advice="leave it out")
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH + 1 or self._nodes > MAX_NODES:
            raise BadInput(f"{self._name} is nested too deeply or has too many values", advice="is it the right file?")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            doubled = isinstance(key, yaml.ScalarNode) and key.value in found
            if doubled or not isinstance(key, yaml.ScalarNode):
                problem = f"the key {key.value!r} is given twice" if doubled else "a key is not a word"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            found[key.value] = self.construct_object(value, deep=deep)
        return found


def read_text(file: Path, *, most: int = MAX_BYTES) -> str:
    """Return the text of a file of at most `most` bytes. Raises `BadInput`: too large, not UTF-8, or not readable."""
    try:
        with file.open("rb") as stream:
            is_large = os.fstat(stream.fileno()).st_size > most
            content = b"" if is_large else stream.read(most + 1)
        if is_large or len(content) > most:  # a pipe has no size
            raise BadInput(f"{file.name} has more than {most} bytes", advice="is it the right file?")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name} is not text in UTF-8", advice="save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"can't read {file}: {reason}", advice="check the path") from error


def read_lines(text: str) -> list[str]:
    """Lines without white space around them; empty lines at the end are left out."""
    return [line.strip() for line in text.rstrip().split("\n")] if text.strip() else []


def format_yaml(document: Mapping[str, Any]) -> str:
    """Return a JSON-shaped mapping as YAML that `parse_mapping` reads back, its scalars as text."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    if any(mark in text for mark in _BREAKS):
        # PyYAML writes these as they are, and reads them as ends of lines.
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=1000)
    return text


def says_edgewise(file: Path) -> bool:
    """Whether a YAML file has the key ``edgewise``, broken or not; others of that name belong to other tools."""
    try:
        return _OURS.search(read_text(file)) is not None
    except BadInput:
        return False


def parse_mapping(text: str, name: str) -> dict[str, Any]:
    """Return a YAML document that is a mapping, all its scalars as text.

    Raises:
        BadInput: it is not YAML or not a mapping, or holds anchors, tags, a key twice or too much.
    """
    found = parse_value(text, name)
    if not isinstance(found, dict):
        raise BadInput(f"{name} is not a mapping", advice="begin it with edgewise: 1")
    return found


def parse_value(text: str, name: str) -> Any:
    """Any YAML value, its scalars as text; an empty document is empty text. Raises `BadInput` as `parse_mapping`."""
    if len(text) > MAX_YAML_CHARACTERS:
        raise BadInput(
            f"{name} has more than {MAX_YAML_CHARACTERS} characters", advice="put classes in a file of their own"
        )
    try:
        found = _Loader(text, name).get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise BadInput(f"{name} is not YAML{where}: {one_line(str(problem))[:200]}", advice="fix that line") from error
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{name} is not YAML: {one_line(str(error))[:200]}", advice="is it the right file?") from error
    return "" if found is None else found


def lines_of(text: str, name: str) -> dict[tuple[str | int, ...], int]:
    """Where each value of a YAML document is: keys and positions that lead to it → its line, from 1.

    A value of a mapping has the line of its key. For texts that `parse_value` reads.
    """
    found: dict[tuple[str | int, ...], int] = {}

    def visit(node: Any, place: tuple[str | int, ...], line: int) -> None:
        found[place] = line + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                visit(value, (*place, key.value), key.start_mark.line)
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                visit(value, (*place, at), value.start_mark.line)

    root = _Loader(text, name).get_single_node()
    if root is not None:
        visit(root, (), root.start_mark.line)
    return found
