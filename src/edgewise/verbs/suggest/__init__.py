"""``calibrate``: write reference networks to measure next on a device."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Suggest(Verb):
    """Write reference networks to measure next on a device."""

    name = "suggest"
    summary = "Write reference networks to measure next on a device."
    group = "Predict"
    request = ".request:SuggestRequest"
    work = ".work:suggest"
    shown = ".presentation:SuggestionPresentation"
    reports = ""
    asked_by = ("calibrate",)
