"""``convert``: convert a model to another format, and compare outputs."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class Convert(Verb):
    """Convert a model to another format, or to int8 with --precision int8 --data DATA, by the engines' own converters.

    The result is kept if its outputs agree.
    """

    name = "convert"
    summary = "Convert a model to another format or to int8."
    examples = ("edgewise convert model.onnx --to tflite",)
    group = "Improve"
    synonyms = ("export",)
    request = ".request:ConvertRequest"
    work = ".work:convert"
    rehearses = True
    shown = ".presentation:ConvertPresentation"
    arguments: ClassVar = {"folder": "output"}
    reports = ""
    keeps_runs = False
    in_lab = frozenset({"make"})
    form = Form(top=("to", "precision", "opset"))
