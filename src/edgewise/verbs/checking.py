"""Makes requests of fields: one clear error for whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from edgewise.errors import BadField
from edgewise.verbs.request import Request

R = TypeVar("R", bound=Request)


def make_request(kind: type[R], **fields: Any) -> R:
    """Return a checked request.

    Raises `BadField` for a field that is unknown, lacking or of another type, and `BadInput`.
    """
    return checked(kind, lambda: kind(**fields))


def checked(kind: type[R], make: Callable[[], R]) -> R:
    """Return what `make` gives; an error of pydantic becomes a `BadField`."""
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
        what = describe_problem(found["type"], found["msg"], found.get("input"))
        raise BadField(f"⟦{field}⟧{inside} {what}" if field else what) from None


_KINDS = {"a valid tuple": "a list", "a valid list": "a list", "a valid string": "text",
          "a valid dictionary": "an object of names with values"}  # fmt: skip


def describe_problem(kind: str, message: str, value: Any) -> str:
    """Pydantic's words for a problem, as the end of a sentence that begins with a field's name."""
    if kind == "missing":
        return "is required"
    text = message.removeprefix("Value error, ").replace("Input should be", "must be")
    for theirs, plain in _KINDS.items():
        text = text.replace(theirs, plain)
    shown = repr(value)
    return f"{text[:1].lower()}{text[1:]}" + (f", not {shown[:60]}" if "not" not in text else "")
