"""``compare``: measure models in turns and report whether B is faster than A."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class Compare(Verb):
    """Measure models side by side, in turns, and report whether B is faster than A, with intervals and verdicts.

    The exit code is 4 if a variant could not be measured.
    """

    name = "compare"
    summary = "Measure models in turns and report whether B is faster than A."
    examples = ("edgewise compare old.onnx new.onnx -r openvino", "edgewise compare model.onnx -r onnxruntime,openvino")
    group = "Measure"
    request = ".request:CompareRequest"
    work = ".work:compare"
    rehearses = True
    shown = ".presentation:ComparePresentation"
    arguments: ClassVar = {"subjects": "things", "set": "settings"}
    reader = ".request:read"
    form = Form(top=("runtime", "device", "threads", "precision", "time_budget"), variants=2, kept=("force",))

    def argument_of(self, field: str, value: str | None = None) -> str:
        """Also ``threads=[1, 2]`` for ``vary=threads=1,2``: in Python each setting that varies is its own argument."""
        setting, _, values = (value or "").partition("=")
        return super().argument_of(*(setting, values) if field == "vary" and values else (field, value))
