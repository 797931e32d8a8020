"""``optimize``: find the fastest variant that keeps its accuracy."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class Optimize(Verb):
    """Find the fastest variant of a model that keeps its accuracy: quantised, fused, pruned, converted, tuned.

    It is the fastest on this machine, or with -d on a device or a microcontroller.
    """

    name = "optimize"
    summary = "Find the fastest variant, int8 too, also for a microcontroller."
    examples = ("edgewise optimize model.onnx --data pictures/ --prepare scale=1/255 --max-accuracy-drop 1pt",)
    group = "Improve"
    synonyms = ("quantize", "quantise")
    request = ".request:OptimizeRequest"
    work = ".work:optimize"
    rehearses = True
    shown = ".presentation:OptimizePresentation"
    arguments: ClassVar = {"folder": "output"}
    reader = ".request:read"
    reports = "report"
    in_lab = frozenset({"measure", "make"})
    form = Form(
        top=("data", "task", "prepare", "aim", "max_latency", "max_accuracy_drop", "time_budget", "runtime"),
        graph="errors",
    )
