"""``gate``: check a candidate against limits and a baseline, in CI."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Gate(Verb):
    """Check a candidate against limits.

    The exit code is 0 if all limits are met, 5 if a limit is not met, and 4 if a check could not be measured.
    If a check stays inconclusive, the exit code is 5, or 0 with --on-inconclusive pass.
    """

    name = "gate"
    summary = "Check a candidate against limits and a baseline, in CI."
    examples = (
        "edgewise gate new.onnx --baseline old.onnx --max-regression 3%",
        "edgewise gate model.onnx --budget latency=5ms",
    )
    group = "Measure"
    request = ".request:GateRequest"
    work = ".work:gate"
    rehearses = True
    shown = ".presentation:GatePresentation"
