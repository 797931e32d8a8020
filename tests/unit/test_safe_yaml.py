"""The same documents are read and refused with libyaml and without it."""

from __future__ import annotations

import importlib

import pytest
import yaml

from edgewise import safe_yaml
from edgewise.errors import BadInput


@pytest.fixture(params=[True, False], ids=["libyaml", "without"])
def reader(request, monkeypatch):
    if request.param and not yaml.__with_libyaml__:
        pytest.skip("this PyYAML was built without libyaml")
    with monkeypatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", request.param)
        yield importlib.reload(safe_yaml)
    importlib.reload(safe_yaml)


def test_every_scalar_is_text_and_every_value_has_its_line(reader):
    text = "models: [a.onnx, 'no']\ninclude:\n  - {threads: 010}\n"
    assert reader.parse_value(text, "s.yaml") == {"models": ["a.onnx", "no"], "include": [{"threads": "010"}]}
    lines = reader.lines_of(text, "s.yaml")
    assert (lines["models", 1], lines["include", 0, "threads"]) == (1, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x 1\nb: *x\n", "anchor or alias in line 1"),
        ("a: !!int 1\n", "has the tag"),
        ("a: 1\na: 2\n", "line 2: the key 'a' is given twice"),
        ("a: [1\n", "is not YAML in line"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ("a: " + "[" + "1," * 60_000 + "1]", "too many values"),
    ],
)
def test_what_is_refused(reader, text, words):
    with pytest.raises(BadInput, match=words):
        reader.parse_value(text, "s.yaml")
