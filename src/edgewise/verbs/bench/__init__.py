"""``bench``: measure models on every runtime, side by side."""

from __future__ import annotations

from typing import ClassVar

from edgewise.verbs.verb import Form, Verb


class Bench(Verb):
    """Measure models on every runtime, side by side: latency, throughput, memory, start-up, with intervals."""

    name = "bench"
    summary = "Measure models on every runtime, side by side."
    examples = ("edgewise bench model.onnx --threads 1,2",)
    group = "Measure"
    synonyms = ("measure",)
    request = ".request:BenchRequest"
    work = "edgewise.verbs.measuring:measure"
    shown = "edgewise.verbs.measuring:RunPresentation"
    arguments: ClassVar = {"models": "paths", "set": "settings"}
    in_lab = frozenset({"measure"})
    form = Form(action="Benchmark", top=("runtime", "device", "threads", "batch", "precision", "duration"))
