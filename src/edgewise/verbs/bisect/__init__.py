"""``bisect``: which release of an engine made a model slower or larger, or changed its outputs."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Bisect(Verb):
    """Find the first release of an engine in which a model is slower, takes more memory, or gives other outputs.

    Each step measures a release and the good one in turns, in Python environments of their own. The next release is
    chosen by what all steps so far say, and the end states a probability. -o report.md writes what its maintainers ask.
    """

    name = "bisect"
    summary = "Find the release of an engine that made a model slower."
    examples = ("edgewise bisect model.onnx --engine onnxruntime --good 1.17.0 --bad 1.20.0",)
    group = "Understand"
    request = ".request:BisectRequest"
    work = ".work:bisect"
    shown = ".presentation:BisectPresentation"
