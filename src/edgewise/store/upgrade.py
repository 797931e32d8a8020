"""Old documents made new, on read, by a chain of pure functions: one step a schema number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise.errors import BadInput
from edgewise.record import SCHEMA

Document = dict[str, Any]
Step = Callable[[Document], Document]

#: schema number → the function that turns a document of that number into one of the next. Steps may change the
#: document they are given: `upgrade` hands them one that nobody else holds at its top level, and they must not
#: change what lies below in place.
STEPS: dict[int, Step] = {}


def upgrade(document: Mapping[str, Any], *, steps: Mapping[int, Step] = STEPS, target: int = SCHEMA) -> Document:
    """`document` as one of schema `target`, by as many of `steps` as it takes. The argument is not changed.

    Raises:
        BadInput: no schema number, one that is newer than `target`, or one that no step leads away from.
    """
    schema = schema_of(document)
    if schema > target:
        raise BadInput(
            f"this record has schema {schema}: it was written by a newer edgewise (this one reads up to {target})",
            advice="update edgewise",
        )
    current = dict(document)
    for number in range(schema, target):
        if number not in steps:
            raise BadInput(
                f"this record has schema {schema}, which this edgewise can't read (it writes {target})",
                advice="read it with the edgewise that wrote it, or measure again",
            )
        current = {**steps[number](current), "schema": number + 1}
    return current


def schema_of(document: Mapping[str, Any]) -> int:
    """Return the schema number that `document` carries. Raises `BadInput` where it carries none."""
    schema = document.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise BadInput(
            "schema: a record must have its schema number, a whole number from 1",
            advice="check that edgewise wrote this document",
        )
    return schema
