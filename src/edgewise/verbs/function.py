"""The Python function of a verb, made from what it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from edgewise.verbs.hub import fetch_models, takes_models
from edgewise.verbs.verb import VERBS, Verb, named_for_python
from edgewise.verbs.verb import carry_out as carry_out_request

if TYPE_CHECKING:
    from edgewise.progress import Progress
    from edgewise.record import Run
    from edgewise.store import Store
    from edgewise.verbs.context import Context


def find_function(name: str) -> Callable[..., Any] | None:
    """Return the function of the verb of that name; None where there is no such verb."""
    return function_of(VERBS.get(name)) if name in VERBS.names() else None


def function_of(verb: Verb) -> Callable[..., Any]:
    """``edgewise.NAME(…)`` of a verb: its arguments are the fields of its request, and ``store`` and ``progress``.

    It returns the verb's result. Nothing is kept without a store.
    """
    kind, options = verb.request_type(), verb.all_options()
    helps = {one.field_of(kind): one for one in options}
    fields = {name: info for name, info in kind.model_fields.items() if name not in ("schema_version", "verb")}

    def call(*things: Any, **given: Any) -> Any:
        bound = signature.bind(*things, **given).arguments
        store, progress = bound.pop("store", None), bound.pop("progress", None)
        return carry_out(verb.name, context_of(store, progress), **bound)

    parameters = [
        Parameter(
            name,
            Parameter.POSITIONAL_OR_KEYWORD if (one := helps.get(name)) and not one.flags else Parameter.KEYWORD_ONLY,
            default=Parameter.empty if info.is_required() else info.get_default(call_default_factory=True),
            annotation=info.annotation,
        )
        for name, info in fields.items()
    ]
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in ("store", "progress")]
    parameters.sort(key=lambda one: (one.kind, one.default is not Parameter.empty))
    signature = Signature(parameters)
    lines = [f"    {name}: {one.help}" for name, one in helps.items() if name in fields]
    call.__name__ = call.__qualname__ = verb.name
    call.__doc__ = "\n".join([verb.help, "", "Args:", *lines])
    call.__signature__ = signature  # type: ignore[attr-defined]  # functions may have one; `inspect` reads it
    return call


def context_of(
    store: str | Store | None, progress: Progress | None, *, runs: Mapping[str, Run] | None = None
) -> Context:
    """Return the context of a function: without a store, nothing is kept; `own_progress` stands in for progress."""
    from edgewise.verbs.context import Context

    if progress is None and own_progress is not None:
        progress = own_progress()
    return Context(store=store, keep=store is not None, progress=progress, runs=runs or {})


own_progress: Callable[[], Progress | None] | None = None
"""What receives the events of a call that names nothing; `edgewise.api` sets it, since what prints stands above."""


def carry_out(verb: str, context: Context, **fields: Any) -> Any:
    """Return what the request gives; arguments that are None are left to it. Raises errors that name arguments."""
    from edgewise.verbs.reading import request_for

    with named_for_python((known := VERBS.get(verb)).argument_of):
        models = {one.field_of(known.request_type()) for one in known.all_options() if takes_models(one)}
        given = {
            name: fetch_models(value) if name in models else value
            for name, value in fields.items()
            if value is not None
        }
        return carry_out_request(request_for(verb, **given), context)
