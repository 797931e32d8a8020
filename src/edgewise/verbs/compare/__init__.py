"""``compare``: measure models in turns and report whether B is faster than A."""

from __future__ import annotations

from edgewise.verbs.verb import Form, Verb


class Compare(Verb):
    """Measure models side by side, in turns, and report whether B is faster than A, with intervals and verdicts.

    The exit code is 4 if a variant could not be measured.
    """

    name = "compare"
    summary = "Measure models in turns and report whether B is faster than A."
    group = "Measure"
    request = ".request:CompareRequest"
    work = ".work:compare"
    shown = ".presentation:ComparePresentation"
    reader = ".request:read"
    form = Form(top=("runtime", "device", "threads", "precision", "time_budget"), variants=2, kept=("force",))
