"""ncnn's ``benchncnn``.

Format: ``benchmark/benchncnn.cpp`` of github.com/Tencent/ncnn: the settings, then one line of results per network.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form


def _finish(part: Part) -> None:
    settings = part.found.settings
    if settings.get("provider") not in (None, "cpu"):
        settings["provider"] = "vulkan"
    if settings.get("model", "").endswith(("_int8", "-int8")):
        settings["precision"] = "int8"


class Benchncnn:
    """Text of ``benchncnn``: one run per line of results."""

    title = "benchncnn"
    runtime = "ncnn"
    absent: Mapping[str, str] = {
        "load_time": "benchncnn loads empty weights and does not time it",
        "latency_first": "benchncnn does not report its warm-up",
        "throughput": "benchncnn reports times alone",
        "memory_peak": "benchncnn does not measure memory",
    }
    forms = (
        Form(
            title="text",
            kind="text",
            mark=r"^[ \t]*\S+[ \t]+min[ \t]*=[ \t]*\S+[ \t]+max[ \t]*=|^loop_count = ",
            expects="lines like 'squeezenet  min =  2.10  max =  2.40  avg =  2.20'",
            method="its own timer around the extraction, one process, empty weights",
            each=r"^[ \t]*\S+[ \t]+min[ \t]*=.*$",
            ends=True,
            fields=(
                Field(name="model", at=r"^[ \t]*(\S+)[ \t]+min[ \t]*="),
                Field(name="threads", at=r"num_threads = (\S+)"),
                Field(name="iterations", at=r"loop_count = (\S+)"),
                Field(name="provider", at=r"gpu_device = (\S+)", words={"-1": "cpu"}),
                Field(name="latency_min", at=r"min[ \t]*=[ \t]*(\S+)", unit="ms"),
                Field(name="latency_max", at=r"max[ \t]*=[ \t]*(\S+)", unit="ms"),
                Field(name="latency_mean", at=r"avg[ \t]*=[ \t]*(\S+)", unit="ms"),
            ),
            finish=_finish,
            gives=("precision",),
        ),
    )
