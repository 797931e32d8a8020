"""``inspect``: count what a model costs, layer by layer, without timing it."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Verb


class Inspect(Verb):
    """Count what a model costs without timing it: MACs, ops, parameters, memory, and which engines support it.

    An ONNX model whose shapes depend on values is run once, in a process with limits.
    """

    name = "inspect"
    summary = "Count what a model costs, layer by layer, without timing it."
    examples = ("edgewise inspect model.tflite",)
    group = "Understand"
    request = ".request:InspectRequest"
    work = ".work:inspect"
    rehearses = True
    shown = ".presentation:InspectPresentation"
    arguments: ClassVar = {"cases": "what_if"}
    reader = ".request:read"
    keeps_runs = False
