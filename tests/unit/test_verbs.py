"""Verbs: what each declares is there."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path

import pytest

import edgewise
from edgewise.cli.main import run
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


CALLED_BY_THE_COMMAND = {("optimize", "report"), ("compare", "vary")}
"""Marks in texts that only the reading of a command line has."""


@pytest.mark.parametrize("name", VERBS.names())
def test_what_python_calls_a_field_is_an_argument_of_the_function(name):
    """A hint named ``set``, which `edgewise.bench` calls ``settings``."""
    verb = VERBS.get(name)
    kind, known = verb.request_type(), set(inspect.signature(getattr(edgewise, name)).parameters)
    named = {*kind.model_fields} - {"schema_version", "verb"}
    named |= {one.name for one in verb.all_options() if one.field_of(kind)}
    folder = Path(inspect.getfile(type(verb))).parent
    for module in ("request.py", "work.py"):
        if (folder / module).exists():
            named |= set(re.findall(r"⟦([a-z_0-9]+)", (folder / module).read_text()))
    named -= {field for verb_name, field in CALLED_BY_THE_COMMAND if verb_name == name}
    wrong = {each: called for each in sorted(named) if (called := verb.argument_of(each)) not in known}
    assert not wrong, f"edgewise.{name} has no such arguments: {wrong}"
    assert {*verb.arguments} <= {*kind.model_fields} and {*verb.arguments.values()} <= known


@pytest.mark.parametrize(
    ("name", "field", "value", "said"),
    [
        ("bench", "set", "a=1", "settings={'a': '1'}"),
        ("bench", "runtime", "onnxruntime,openvino", "runtimes=['onnxruntime', 'openvino']"),
        ("bench", "batch", "1", "batches=1"),
        ("bench", "duration", "5s", "duration=5.0"),
        ("bench", "memory", "512MiB", "memory=536870912"),
        ("bench", "models", None, "paths"),
        ("compare", "vary", "threads=1,2", "threads=[1, 2]"),
        ("compare", "subjects", None, "things"),
        ("estimate", "what_if", None, "what_if"),
        ("inspect", "cases", None, "what_if"),
        ("evaluate", "metric", None, "metrics"),
        ("evaluate", "task", "TASK", "task='TASK'"),
        ("optimize", "output", None, "output"),
        ("convert", "folder", None, "output"),
    ],
)
def test_python_has_values_as_its_arguments_take_them(name, field, value, said):
    assert VERBS.get(name).argument_of(field, value) == said


@pytest.mark.parametrize("name", [name for name, verb in VERBS if not verb.asked_by])
def test_the_help_of_each_verb_has_examples_that_can_be_read(name, capsys):
    """The help of `gate` had none."""
    verb = VERBS.get(name)
    assert verb.examples
    for line in verb.examples:
        program, command, *words = shlex.split(line)
        assert (program, command) == ("edgewise", name) and line in verb.help
        assert run([name, "--dry-run", "--json", *words]) == 0, line
        assert json.loads(capsys.readouterr().out)["verb"] in (name, *(each for each, one in VERBS if one.asked_by))
