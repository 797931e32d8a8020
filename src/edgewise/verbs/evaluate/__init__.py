"""``evaluate``: measure the accuracy of models on your data."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class Evaluate(Verb):
    """Measure the accuracy of models on your data, with intervals, and their latency."""

    name = "evaluate"
    summary = "Measure the accuracy of models on your data."
    examples = ("edgewise evaluate model.onnx --data pictures/ --task classification --prepare scale=1/255",)
    group = "Measure"
    request = ".request:EvaluateRequest"
    work = ".work:evaluate"
    rehearses = True
    shown = ".presentation:EvaluatePresentation"
    arguments: ClassVar = {"own_metrics": "metrics"}
    in_lab = frozenset({"measure"})
    form = Form(top=("data", "task", "prepare", "runtime", "device", "limit"))
