"""``estimate --fits``: list the boards of the catalogue that hold a model."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class FitsVerb(Verb):
    """List the boards of the catalogue that hold a model."""

    name = "fits"
    summary = "List the boards of the catalogue that hold a model."
    group = "Predict"
    request = ".request:FitsRequest"
    work = "edgewise.verbs.estimate.work:fits"
    rehearses = True
    shown = ".presentation:FitsPresentation"
    arguments: ClassVar = {"cases": "what_if", "set": "settings"}
    asked_by = ("estimate", "--fits")
    keeps_runs = False
    form = Form(
        title="Does it fit?",
        top=("max_latency", "max_ram", "max_flash"),
        fixed={"fits": True},
        intro="The boards of the catalogue that hold a model, with an estimate of its latency on each.",
    )
