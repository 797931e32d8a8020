"""Options that the fields of a request declare, and requests of the values of options.

    class PaceRequest(Request):
        verb: Literal["pace"] = "pace"
        count: Annotated[Whole, option("--count N", MEASURE, "Number of inferences")] = 10
        wait: Annotated[Number, option("--wait 2s", MEASURE, "Time between them", read=parse_duration)] = 1.0

What an option does not say comes from its field: the type, whether it repeats, the default that help shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from inspect import get_annotations
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from edgewise.errors import BadInput, Unavailable
from edgewise.verbs import words
from edgewise.verbs.checking import make_request
from edgewise.verbs.option import Changes, Option, Values
from edgewise.verbs.request import Request

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

R = TypeVar("R", bound=Request)


@cache
def declared_options(kind: type[Request], *others: type[Request]) -> tuple[Option, ...]:
    """List the options of the fields of `kind` and `others`, then those that fill no field.

    Raises `Unavailable` where two have one flag.
    """
    options = {one.name: one for one in _options_of_fields(kind)}
    for other in others:
        options = {one.name: one for one in _options_of_fields(other)} | options
    declared = (*options.values(), *kind.OTHER_OPTIONS)
    flags = [flag for one in declared for flag in (*one.flags, *filter(None, (one.off,)))]
    if twice := sorted({flag for flag in flags if flags.count(flag) > 1}):
        raise Unavailable(
            f"{kind.__name__} declares {', '.join(twice)} twice, or as an option about output",
            advice="report it to the authors of the verb",
        )
    return declared


def _options_of_fields(kind: type[Request]) -> list[Option]:
    """Return the options of the fields that `kind` itself declares, which are about what it does, then those of its
    bases.
    """
    options = []
    names = dict.fromkeys(name for base in kind.__mro__ for name in get_annotations(base))
    for name in names:
        if (info := kind.model_fields.get(name)) is None:
            continue
        option: Option | None = None
        for item in info.metadata:
            if isinstance(item, Option):
                option = item
            elif isinstance(item, Changes) and option is not None:
                option = replace(option, **item.attributes)
        if option is not None:
            options.append(_complete(option, name, info))
    return options


def _complete(option: Option, field: str, info: FieldInfo) -> Option:
    """`option` with what its field says."""
    annotation = _plain(info.annotation)
    option = replace(option, field=field)
    if option.kind is str:
        option = _with_type(option, annotation)
    if not option.choices and get_origin(annotation) is Literal:
        option = replace(option, choices=tuple(map(str, get_args(annotation))))
    if info.is_required():
        return replace(option, default=None if option.optional else ...)
    default = info.get_default(call_default_factory=True)
    if option.kind is bool:
        return replace(option, default=bool(default) if default is not None or not option.off else None)
    if option.default not in (None, ...):
        return option
    option = replace(option, default=None)
    if default in (None, "", (), {}) or "(default:" in option.help:
        return option
    if option.read is None and option.kind in (str, int, float):
        return replace(option, default=default)
    written = " ".join(word for word in option.words(default) if word not in option.flags)
    return replace(option, help=f"{option.help} (default: {written})") if written else option


def _plain(annotation: Any) -> Any:
    """Return a type without ``None`` and without what is annotated."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation, *_) = (part for part in get_args(annotation) if part is not type(None))
    return _plain(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _with_type(option: Option, annotation: Any) -> Option:
    """`option` with how the command line reads a field of that type."""
    if annotation in (bool, int, float):
        if option.read is not None:
            return option
        return replace(option, kind=annotation, metavar="" if annotation is bool else option.metavar)
    read: Callable[[Any], Any]
    if get_origin(annotation) is tuple:
        read = words.numbers if _plain(get_args(annotation)[0]) is int else words.words
    elif get_origin(annotation) is dict:
        read = words.pairs
    else:
        return option
    return replace(option, kind=list[str], read=option.read or read)


def request_of(kind: type[R], options: Sequence[Option], values: Values, **fields: Any) -> R:
    """Return the request that the values of `options` describe.

    Args:
        fields: fields of the request that no single option fills.

    Raises:
        BadInput: a value that can't be used, named by its flag.
    """
    given: dict[str, Any] = {}
    for one in options:
        field = one.field_of(kind)
        if field is None or field in fields or (value := values[one.name]) is None:
            continue
        try:
            given[field] = one.read(value) if one.read else value
        except BadInput as error:
            message, advice = error.marked
            named = f"⟦{one.name}⟧" if one.flags else one.name
            raise BadInput(message if named[:-1] in message else f"{named}: {message}", advice=advice) from None
    return make_request(kind, **given, **fields)
