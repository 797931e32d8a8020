"""Makes requests of a verb's name and of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.errors import BadField, BadInput
from edgewise.verbs.checking import checked, make_request
from edgewise.verbs.request import FROM_JSON, SCHEMA, Request
from edgewise.verbs.verb import VERBS


def request_for(verb: str, **fields: Any) -> Request:
    """Return the request of `verb`. Raises as `make_request` does, and `Unavailable` where there is no such verb."""
    return make_request(VERBS.get(verb).request_type(), **fields)


def read_request(document: Any) -> Request:
    """Return the request in a JSON document. Raises `BadInput`."""
    if not isinstance(document, Mapping) or "verb" not in document:
        raise BadInput("not a request: there is no verb", advice="'edgewise bench MODEL --dry-run --json' writes one")
    schema, verb = document.get("schema"), document["verb"]
    if isinstance(schema, int) and schema > SCHEMA:
        raise BadInput(
            f"the request has schema {schema}, and this edgewise reads up to {SCHEMA}",
            advice="update edgewise, or write the request with this version",
        )
    if verb not in VERBS.names():
        raise BadInput(f"{verb!r} is not a verb", advice=f"one of: {', '.join(VERBS.names())}")
    kind = VERBS.get(verb).request_type()
    if schema is None:
        raise BadField("the request has no ⟦schema⟧", advice=f'add "schema": {SCHEMA}')
    return checked(kind, lambda: kind.model_validate(document, context=FROM_JSON))
