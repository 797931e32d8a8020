"""``convert``: convert a model to another format, and compare outputs."""

from __future__ import annotations

from edgewise.verbs.verb import Form, Verb


class Convert(Verb):
    """Convert a model to another format with the engines' own converters; the result is kept if its outputs agree."""

    name = "convert"
    summary = "Convert a model to another format, and compare outputs."
    group = "Improve"
    request = ".request:ConvertRequest"
    work = ".work:convert"
    shown = ".presentation:ConvertPresentation"
    reports = ""
    keeps_runs = False
    form = Form(top=("to", "precision", "opset"))
