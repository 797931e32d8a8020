"""``estimate``: estimate a model on hardware that is not at hand."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class EstimateVerb(Verb):
    """Estimate a model on hardware that is not at hand: latency, cycles and memory, in total and per layer.

    The device is not measured. The output names the software that computed the numbers, and its assumptions.
    """

    name = "estimate"
    summary = "Estimate on a board not at hand; --fits: which boards."
    examples = ("edgewise estimate model.tflite -d cortex-m4@120MHz", "edgewise estimate model.tflite --fits")
    group = "Predict"
    request = ".request:EstimateRequest"
    work = ".work:estimate"
    rehearses = True
    shown = ".presentation:EstimatePresentation"
    arguments: ClassVar = {"cases": "what_if", "set": "settings"}
    reader = ".reading:read"
    keeps_runs = False
    estimates = True
    in_lab = frozenset()
    form = Form(
        top=("device", "set", "target"), also=("predict",), places=("calibrated", "estimated"), fixed={"fits": False}
    )
