"""Verbs: what each declares is there."""

from __future__ import annotations

import inspect
import re

import pytest

import edgewise
from edgewise.verbs.request import Request
from edgewise.verbs.verb import VERBS


@pytest.mark.parametrize("name", VERBS.names())
def test_what_a_verb_names_is_there_and_is_of_its_name(name):
    verb = VERBS.get(name)
    kind = verb.request_type()
    assert verb.name == name == kind.model_fields["verb"].default and issubclass(kind, Request)
    assert verb.summary.endswith(".") and verb.help and verb.presentation()
    options = {one.name for one in verb.all_options()}
    assert verb.reports in ("", *options)
    assert verb.form is None or {*verb.form.top, *verb.form.kept, *verb.form.fixed} <= options
    assert all(callable(verb._load(place)) for place in (verb.work, verb.reader) if place)
    assert not verb.asked_by or verb.asked_by[0] in VERBS.names()


@pytest.mark.parametrize("name", [name for name in edgewise.__all__ if name in VERBS.names()])
def test_each_field_is_an_argument_of_the_function_and_reaches_the_request(monkeypatch, name):
    """Functions are written by hand: a new field of a request is a new argument, handed on by its name."""
    passed = {}

    class Reached(Exception):
        pass

    def carry_out(verb, context, **fields):
        passed.update(fields, verb=verb)
        raise Reached

    monkeypatch.setattr("edgewise.api.carry_out", carry_out)
    function = getattr(edgewise, name)
    given = {each: f"<{each}>" for each in inspect.signature(function).parameters}
    given |= {each: None for each in ("store", "progress", "example_inputs", "build", "what_if") if each in given}
    with pytest.raises(Reached):
        function(**given)
    assert passed.pop("verb") == name
    fields = set(VERBS.get(name).request_type().model_fields) - {"schema_version", "verb"}
    documented = (function.__doc__ or "").partition("Args:")[2].partition("Returns:")[0]
    if "as in" not in documented and "as for" not in documented:
        silent = [each for each in given if not re.search(rf"\b{each}\b", documented)]
        assert not silent, f"the docstring of edgewise.{name} says nothing of {', '.join(silent)}"
    missing, unknown = sorted(fields - passed.keys()), sorted(passed.keys() - fields)
    assert not missing, f"edgewise.{name} in api.py lacks an argument, or hands it not on: {', '.join(missing)}"
    assert not unknown, f"the request of {name} has no field {', '.join(unknown)}"
