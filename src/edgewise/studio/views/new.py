"""Forms for new jobs: ``/new/VERB?model=KEY``, every option by its name."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.datastructures import FormData, ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from edgewise.errors import BadInput
from edgewise.store.location import find_location
from edgewise.studio.catalogue import Choice, catalogue, listed
from edgewise.studio.forms import PICKED, Field, Filled, Form, Texts, form_of
from edgewise.studio.models import ModelEntry
from edgewise.studio.pages import page, without_folders
from edgewise.studio.studio import Studio, studio_of
from edgewise.text import listing, one_line
from edgewise.units import format_bytes
from edgewise.verbs.shared_options import OUTPUT
from edgewise.verbs.verb import VERBS, command_of

MOST_LISTED = 200
"""Models to pick on a form, besides those that are chosen."""
MOST_NAMED = 3


def show(request: Request) -> Response:
    """Return the form, filled as the query says."""
    form, studio = _form_of(request), studio_of(request)
    texts = _texts_of(request, form, studio)
    return _page(request, form, texts, form.fill(texts, studio.models), explain="show" in texts)


def command(request: Request) -> Response:
    """Return the command line that does what the query says, or what is wrong with it."""
    form, studio = _form_of(request), studio_of(request)
    filled = form.fill(_texts_of(request, form, studio), studio.models)
    problem = next((without_folders(request, error).message for error in filled.problems.values()), "")
    return JSONResponse({"command": _command(filled, studio), "problem": problem})


def submit(request: Request, sent: FormData) -> Response:
    """Queue the job, or show the form again with what is wrong."""
    form, studio = _form_of(request), studio_of(request)
    texts = _by_name(sent)
    filled = form.fill(texts, studio.models)
    if filled.request is None:
        return _page(request, form, texts, filled, explain=True, status=422)
    found = {key: _entry(key, studio) for key in texts.get("model", ()) if key}
    names = [entry.name if entry else f"run {key[:13]}" for key, entry in found.items()]
    more = " …" if len(names) > MOST_NAMED else ""
    title = one_line(f"{form.title.rstrip('?')} {listing(names[:MOST_NAMED])}{more}").strip()
    return RedirectResponse(f"/jobs/{studio.jobs.add(filled.request, title=title)}", 303)


def _form_of(request: Request) -> Form:
    form = form_of(request.path_params["verb"])
    if form is None:
        raise HTTPException(404)
    return form


def _by_name(sent: ImmutableMultiDict[str, Any]) -> Texts:
    return {name: [text for text in sent.getlist(name) if isinstance(text, str)] for name in sent}


def _texts_of(request: Request, form: Form, studio: Studio) -> Texts:
    """Return the fields in the query, on top of those of the job that it names. Raises `BadInput`."""
    texts = _by_name(request.query_params)
    if "job" in texts:
        from edgewise.verbs.reading import read_request

        earlier = read_request(json.loads(studio.store.jobs.get(texts["job"][-1]).request))
        texts = {**form.texts_of(earlier, studio.models), **texts}
    if form.own.variants > 1 and set(texts) == {"model"} and len(texts["model"]) == 1:
        # One model: engines that read it are something to compare.
        entry = _entry(texts["model"][0], studio)
        engines = [one.value for one in catalogue()["runtime"] if one.usable and entry and entry.format in one.formats]
        texts = {**texts, "runtime": engines[: form.own.variants]}
    return texts


def _entry(key: str, studio: Studio) -> ModelEntry | None:
    """Return the model of that key; None where there is none, such as for a stored run."""
    try:
        return studio.models.get(key)
    except BadInput:
        return None


def _command(filled: Filled, studio: Studio) -> str:
    """Return the command line, with the store where it is not the user's own; empty where something is wrong."""
    if filled.request is None:
        return ""
    place, line = find_location(studio.settings.store), command_of(filled.request)
    stores = VERBS.get(filled.request.verb).keeps_runs
    return f"{line} --store {shlex.quote(str(place.path))}" if stores and place.chosen and place.path else line


def _page(request: Request, form: Form, texts: Texts, filled: Filled, *, explain: bool, status: int = 200) -> Response:
    studio = studio_of(request)
    # What nobody has filled in yet is no mistake.
    problems = {name: error for name, error in filled.problems.items() if explain or any(texts.get(name, ()))}
    texts = {**texts, "runtime": ",".join(texts.get("runtime", ())).split(",")}
    inputs = form.fields()
    # Folders are gone through once, however many fields show what is in them.
    models = [_pick(entry) for entry in studio.models.entries()]
    has_data = any(one.kind == "data" for one in inputs)
    data = [_pick(entry) for entry in studio.models.entries("data")] if has_data else []
    ticked = [_entry(key, studio) for key in texts.get("model", ())]
    formats = sorted({entry.format for entry in ticked if entry})
    fields = {
        one.option.name: _with_choices(one, texts, data if one.kind == "data" else models, formats) for one in inputs
    }
    top = [*(one for one in fields.values() if one.name == "model"), *(fields[name] for name in form.own.top)]
    panels: dict[str, list[Field]] = {}
    for one in fields.values():
        if one not in top:
            panel = one.option.panel
            panels.setdefault("More" if panel == OUTPUT else panel, []).append(one)
    changed = {name for name in fields if texts.get(name, [""])[-1] not in ("", fields[name].default)}
    opened = {panel for panel, inside in panels.items() if {one.name for one in inside} & (changed | set(problems))}
    return page(
        request,
        "form.html.jinja",
        title=form.title,
        status=status,
        styles=("form.css",),
        scripts=("form.js",),
        form=form,
        top=top,
        panels=panels,
        opened=opened,
        texts=texts,
        problems={name: without_folders(request, error) for name, error in problems.items()},
        labels={one.name: one.label for one in fields.values()},
        command=_command(filled, studio),
    )


def _with_choices(one: Field, texts: Texts, picks: Sequence[Choice], formats: Sequence[str]) -> Field:
    """`one` with what can be ticked in it; of `picks`, models or data, those that are ticked come first."""
    given = [text for text in dict.fromkeys(texts.get(one.name, ())) if text]
    if one.kind == "runtimes":
        known = [choice.value for choice in one.choices]
        engines = [_for_models(choice, formats) for choice in one.choices]
        return replace(one, choices=[*engines, *listed([word for word in given if word not in known])])
    if one.kind not in PICKED:
        return one
    by_key = {choice.value: choice for choice in picks}
    chosen = [by_key.pop(key, Choice(value=key, text=f"run {key[:36]}")) for key in given]
    return replace(one, choices=[*chosen, *list(by_key.values())[:MOST_LISTED]])


def _for_models(engine: Choice, formats: Sequence[str]) -> Choice:
    """`engine`, which can't be used where it reads none of the formats of the models that are ticked."""
    if not engine.usable or not formats or set(formats) & set(engine.formats):
        return engine
    return replace(engine, usable=False, note=f"does not read {', '.join(formats)}")


def _pick(entry: ModelEntry) -> Choice:
    size = "" if entry.size_bytes is None else f", {format_bytes(entry.size_bytes)}"
    return Choice(value=entry.key, text=entry.name, note=f"{entry.format}{size}")
