"""YAML as text, lists and mappings, and nothing else: no types are guessed, no objects made, nothing refers elsewhere.

That ``no`` is a word and ``010`` has a zero in front is how people write class names. What a number is, its setting
knows. Files are hostile: their size, depth and count of values are bounded, and anchors, which a few lines can make
into billions of values, are refused, as are tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from edgewise.errors import BadInput
from edgewise.text import one_line

MAX_BYTES = 2**22
"""Of a file, a list of classes included."""
MAX_YAML_CHARACTERS = 2**18
MAX_DEPTH = 16
MAX_NODES = 50_000

_OURS = re.compile(r"^[\"']?edgewise[\"']?\s*:", re.MULTILINE)
_BREAKS = ("\x85", "\u2028", "\u2029", "\ufeff")
_STARTS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_ENDS = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def read_text(file: Path) -> str:
    """The text of a file beside a model. Raises `BadInput`: too large, not UTF-8, not to be read."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise BadInput(f"{file.name} has more than {MAX_BYTES} bytes", advice="is it the right file?")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name} is not text in UTF-8", advice="save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"can't read {file}: {reason}", advice="check the path") from error


def read_lines(text: str) -> list[str]:
    """Lines without white space around them; empty ones at the end are none."""
    lines = [line.strip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def format_yaml(document: Mapping[str, Any]) -> str:
    """A JSON-shaped mapping as YAML that `parse_mapping` reads back, its scalars as text."""
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    if any(mark in text for mark in _BREAKS):
        # PyYAML writes these as they are and reads them as ends of lines.
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=1000)
    return text


def says_edgewise(file: Path) -> bool:
    """Whether a YAML file has the key ``edgewise``, broken or not; others of that name are somebody else's."""
    try:
        return _OURS.search(read_text(file)) is not None
    except BadInput:
        return False


def parse_mapping(text: str, name: str) -> dict[str, Any]:
    """The mapping that a YAML document is, all its scalars as text.

    Raises:
        BadInput: it is no YAML or no mapping, or holds anchors, tags, doubled keys or too much.
    """
    found = parse_value(text, name)
    if not isinstance(found, Mapping):
        raise BadInput(f"{name} is no mapping", advice="begin it with edgewise: 1")
    return dict(found)


def parse_value(text: str, name: str) -> Any:
    """Any YAML value, its scalars as text. Raises `BadInput` as `parse_mapping`."""
    if len(text) > MAX_YAML_CHARACTERS:
        raise BadInput(
            f"{name} has more than {MAX_YAML_CHARACTERS} characters", advice="put classes in a file of their own"
        )
    try:
        _check(text, name)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return "" if node is None else _plain(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise BadInput(f"{name} is no YAML{where}: {one_line(str(problem))[:200]}", advice="mend that line") from error
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{name} is no YAML: {one_line(str(error))[:200]}", advice="is it the right file?") from error


def _check(text: str, name: str) -> None:
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            line = event.start_mark.line + 1
            raise BadInput(f"{name} has an anchor or alias in line {line}", advice="write the value out each time")
        if getattr(event, "tag", None) is not None:
            line = event.start_mark.line + 1
            raise BadInput(f"{name} has the tag {event.tag!r} in line {line}", advice="leave it out")
        depth += isinstance(event, _STARTS) - isinstance(event, _ENDS)
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise BadInput(f"{name} is nested too deeply or has too many values", advice="is it the right file?")


def _plain(node: Any) -> Any:
    """A node as text, list or mapping; a key must be a word and stands once."""
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        doubled = isinstance(key, yaml.ScalarNode) and key.value in found
        if doubled or not isinstance(key, yaml.ScalarNode):
            problem = f"the key {key.value!r} stands there twice" if doubled else "a key is no word"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        found[key.value] = _plain(value)
    return found
