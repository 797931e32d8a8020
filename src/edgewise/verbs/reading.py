"""Makes requests of fields and of JSON: one clear error for whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from edgewise.errors import BadField, BadInput
from edgewise.verbs.request import FROM_JSON, SCHEMA, Request
from edgewise.verbs.verb import VERBS

R = TypeVar("R", bound=Request)


def make_request(kind: type[R], **fields: Any) -> R:
    """A checked request. Raises `BadField` for a field that is unknown, lacking or of another type, and `BadInput`."""
    return _checked(kind, lambda: kind(**fields))


def request_for(verb: str, **fields: Any) -> Request:
    """The request of `verb`. Raises as `make_request` does, and `Unavailable` where there is no such verb."""
    return make_request(VERBS.get(verb).request_type(), **fields)


def read_request(document: Any) -> Request:
    """The request in a JSON document. Raises `BadInput`."""
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
        raise BadField("the request has no {schema}", advice=f'add "schema": {SCHEMA}')
    return _checked(kind, lambda: kind.model_validate(document, context=FROM_JSON))


def _checked(kind: type[R], make: Callable[[], R]) -> R:
    try:
        return make()
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        place = [str(part) for part in found["loc"]]
        field = next((name for name in place if name in (*kind.model_fields, "schema")), "")
        if found["type"] == "extra_forbidden":
            message = f"{place[-1]!r} is not a field of a request to {kind.model_fields['verb'].default}"
            raise BadField(message, advice=f"fields: {', '.join(list(kind.model_fields)[2:])}") from None
        inside = "".join(f"[{part}]" for part in place[1:] if part not in ("int", "float", "str"))
        what = _what_is_wrong(found["type"], found["msg"], found.get("input"))
        raise BadField(f"{{{field}}}{inside} {what}" if field else what) from None


def _what_is_wrong(kind: str, message: str, value: Any) -> str:
    """Pydantic's words for the end of a sentence."""
    if kind == "missing":
        return "is required"
    text = message.removeprefix("Value error, ").replace("Input should be", "must be")
    shown = repr(value)
    return f"{text[:1].lower()}{text[1:]}" + (f", not {shown[:60]}" if "not" not in text else "")
