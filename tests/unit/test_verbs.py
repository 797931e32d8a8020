"""Verbs: what each declares is there."""

from __future__ import annotations

import pytest

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
