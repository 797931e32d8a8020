"""Messages as tests name them: by key and fields. Their wording stands in ``golden/messages.jsonl``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from edgewise.errors import as_flag

SNAPSHOT = Path(__file__).parent / "golden" / "messages.jsonl"
_PART = re.compile(
    r"⟦(?:\{(?P<variable>\w+)\}|(?P<request>[a-z0-9_]+))(?:=(?P<value>[^⟦⟧]*))?⟧|\{\{|\}\}"
    r"|\{(?P<field>\w+)(?P<quoted>!r)?\}|[^{}⟦⟧]+"
)


class Pattern(str):
    """A regular expression, where a text would be compared as it is."""

    __slots__ = ()


_ANY = Pattern("(?s:.*?)")


def has(part: str) -> Pattern:
    """The value of a field that has `part`, a text or another message, somewhere."""
    return Pattern(_ANY + _expression(part) + _ANY)


def says(key: str, /, **fields: object) -> Pattern:
    """The message as a regular expression: these fields have these values, the others any.

    A value may be a `Pattern`, too: what `has` or `says` gives.
    """
    return Pattern("".join(map(_expression, _fill(key, fields))))


def wording(key: str, /, **fields: object) -> str:
    """The text of the message, of which every field is given; fields of requests are flags where they are not."""
    values = list(_fill(key, fields, flags=True))
    assert not any(isinstance(value, Pattern) for value in values), f"{key}: not every field has a value: {values}"
    return "".join(values)


def is_in(expected: str, text: str) -> bool:
    """Whether `text` has what is expected: what `says` gives, or words that are no message of ours."""
    return re.search(_expression(expected), text) is not None


def parts(key: str) -> list[tuple[str, str | None, bool]]:
    """The message in parts: words, or the name of a field, of a request with its flag; and whether it is in quotes."""
    known = _texts()
    assert key in known, f"no message has the key {key!r}; near: {', '.join(get_close_matches(key, known, 5, 0.3))}"
    return _split(known[key])


def _expression(text: str) -> str:
    return text if isinstance(text, Pattern) else re.escape(text)


def _fill(key: str, fields: dict[str, object], *, flags: bool = False) -> Iterator[str]:
    names = {name for _, name, _ in parts(key) if name}
    assert fields.keys() <= names, f"{key} has the fields {', '.join(sorted(names)) or '(none)'}"
    for words, name, quoted in parts(key):
        value = words if name is None else fields.get(name, words if flags and words else _ANY)
        yield value if isinstance(value, Pattern) else repr(value) if quoted else str(value)


def _split(text: str) -> list[tuple[str, str | None, bool]]:
    found: list[tuple[str, str | None, bool]] = []
    for part in _PART.finditer(text):
        name = part["field"] or part["variable"] or (part["request"] and f"named_{part['request']}")
        words = "" if name else part[0].replace("{{", "{").replace("}}", "}")
        if part["request"] and "{" not in (part["value"] or ""):
            words = as_flag(part["request"], part["value"])
        found.append((words, name, part["quoted"] is not None))
    return found


@cache
def _texts() -> dict[str, str]:
    lines = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    return {key: text for key, text, *_ in map(json.loads, lines)}
