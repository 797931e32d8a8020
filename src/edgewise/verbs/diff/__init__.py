"""``diff``: in which layer two models begin to compute something else."""

from __future__ import annotations

from edgewise.verbs.verb import Form, Verb


class Diff(Verb):
    """Find the layer in which the values of two models begin to differ.

    Both get the same samples, and every layer of one is held against the layer of the other that makes the same tensor:
    a float model against its int8 version, or an ONNX file against the TFLite file converted from it.
    """

    name = "diff"
    summary = "Find the layer in which two models begin to differ."
    examples = ("edgewise diff model.onnx model.tflite --data pictures/",)
    group = "Understand"
    request = ".request:DiffRequest"
    work = ".work:diff"
    rehearses = True
    shown = ".presentation:DiffPresentation"
    form = Form(top=("other", "runtime", "data", "prepare", "limit"))
