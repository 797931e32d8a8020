"""``profile``: measure the time of each layer; show where it goes and why."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class Profile(Verb):
    """Measure the time of each layer and show where it goes and why: attribution, roofline, memory, ranked findings."""

    name = "profile"
    summary = "Measure the time of each layer; show where it goes and why."
    examples = ("edgewise profile model.onnx -r onnxruntime -o profile.html",)
    group = "Understand"
    request = ".request:ProfileRequest"
    work = "edgewise.verbs.measuring:measure"
    shown = ".presentation:ProfilePresentation"
    arguments: ClassVar = {"models": "paths", "cases": "what_if", "set": "settings"}
    reader = ".request:read"
    in_lab = frozenset({"measure"})
    form = Form(
        top=("device", "runtime", "threads", "duration"),
        also=("estimate",),
        graph="times",
        places=("measured", "estimated"),
        intro="Time and cost of each layer and of the whole model: measured here or on a registered device, or "
        "estimated for a core, board or accelerator that is not at hand.",
    )
