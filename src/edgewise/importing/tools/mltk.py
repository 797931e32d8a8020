"""Silicon Labs' MLTK: the JSON report of its model profiler.

Format of MLTK 0.20 (``mltk profile --format json --no-format``): the objects ``summary`` and ``layers``, as
`edgewise.report.profile.mltk` writes them. Without ``--device``, MLTK counts the accelerator's cycles in a simulator
and estimates cycles, time and energy of the processor; only then does a report have energy.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer, LayerRows


def _finish(part: Part) -> None:
    for name in ("latency", "energy", "accelerator_cycles", "cpu_cycles", "clock_rate"):
        if part.values.get(name) == 0:  # MLTK writes 0 for what it does not know
            del part.values[name]
    if "energy" in part.values:
        part.basis |= dict.fromkeys(("latency", "energy", "cpu_cycles"), "estimated")
        part.basis |= dict.fromkeys(("accelerator_cycles", "memory_arena", "clock_rate"), "simulated")


class Mltk(Importer):
    """JSON of ``mltk profile``."""

    title = "MLTK"
    runtime = "tflite-micro"
    absent: Mapping[str, str] = {"latency_first": "MLTK profiles one inference"}
    forms = (
        Form(
            title="JSON of the model profiler", kind="json", mark=r'"summary"\s*:\s*\{[^{}]*"n_unsupported_layers"\s*:',
            expects="the objects summary (with 'cpu_cycles' or 'time') and layers", method="one inference",
            fields=(
                Field("model", "summary.name"), Field("provider", "summary.accelerator", words={"None": "cpu"}),
                Field("precision", "summary.input_dtype"), Field("latency", "summary.time", unit="s"),
                Field("energy", "summary.energy", unit="J"), Field("cpu_cycles", "summary.cpu_cycles", unit="1"),
                Field("accelerator_cycles", "summary.accelerator_cycles", unit="1"),
                Field("clock_rate", "summary.cpu_clock_rate", unit="Hz"),
                Field("memory_arena", "summary.runtime_memory_size", unit="B"),
                Field("model_size", "summary.tflite_size", unit="B"),
            ),
            rows=LayerRows(
                at="layers[*]",
                columns={"name": "index", "op": "opcode", "time": "time"},
                unit="s",
                method="MLTK's model profiler: time of each layer",
            ),
            finish=_finish,
        ),
    )  # fmt: skip
