"""Options that the fields of a request declare, each with the field it fills.

    class PaceRequest(Request):
        verb: Literal["pace"] = "pace"
        count: Annotated[Whole, option("--count N", MEASURE, "Number of inferences")] = 10
        wait: Annotated[Number, option("--wait 2s", MEASURE, "Time between them", read=parse_duration)] = 1.0

What an option does not say comes from its field: the type, whether it repeats, the default that help shows.
"""

from __future__ import annotations

from dataclasses import replace
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from edgewise.errors import Unavailable
from edgewise.verbs import words
from edgewise.verbs.option import Option
from edgewise.verbs.shared_options import OUTPUTS, REPORTING

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from edgewise.verbs.request import Request

STANDARD = (OUTPUTS, *REPORTING)
"""Options about output, which every command has."""


def declared_options(kind: type[Request]) -> tuple[Option, ...]:
    """The options of the fields of `kind`, in their order, then those about output.

    Raises `Unavailable` where two have one flag.
    """
    own = [
        _completed(field, info, one)
        for field, info in kind.model_fields.items()
        for one in info.metadata
        if isinstance(one, Option)
    ]
    found = (*own, *STANDARD)
    flags = [flag for one in found for flag in (*one.flags, *filter(None, (one.off,)))]
    if twice := sorted({flag for flag in flags if flags.count(flag) > 1}):
        raise Unavailable(
            f"{kind.__name__} declares {', '.join(twice)} twice, or as an option about output",
            advice="report it to the authors of the verb",
        )
    return found


def _completed(field: str, info: FieldInfo, one: Option) -> Option:
    """`one` with what its field says."""
    annotation = _plain(info.annotation)
    changes: dict[str, Any] = {"field": field}
    if not one.flags:
        changes["name"] = field
    if one.kind is str and one.read is None:
        changes |= _reading(annotation)
    if not one.choices and get_origin(annotation) is Literal:
        changes["choices"] = tuple(map(str, get_args(annotation)))
    if info.is_required():
        return replace(one, **changes, default=...)
    completed = replace(one, **changes)
    default = info.get_default(call_default_factory=True)
    if completed.kind is bool:
        return replace(completed, default=bool(default) if completed.off or default is not None else False)
    if default not in (None, "", (), {}) and "(default:" not in completed.help:
        written = " ".join(word for word in completed.words(default) if word not in completed.flags)
        completed = replace(completed, help=f"{completed.help} (default: {written})")
    return completed


def _plain(annotation: Any) -> Any:
    """A type without ``None`` and without what is annotated."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation, *_) = (part for part in get_args(annotation) if part is not type(None))
    return _plain(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _reading(annotation: Any) -> dict[str, Any]:
    """How the command line reads a field of that type."""
    if annotation in (bool, int, float):
        return {"kind": annotation}
    if get_origin(annotation) is tuple:
        item = _plain(get_args(annotation)[0])
        return {"kind": list[str], "read": words.numbers if item is int else words.words}
    return {"kind": list[str], "read": words.pairs} if get_origin(annotation) is dict else {}
