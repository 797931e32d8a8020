"""ncnn's ``benchncnn``.

Format: ``benchmark/benchncnn.cpp`` of github.com/Tencent/ncnn: the settings, then one line of results per network.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer
from edgewise.predicting.tables import NCNN_NAME, NCNN_TIME

_ERROR = (
    r"^((?:fopen|find_blob_index_by_name|parse|vk[A-Z]\w*) .{0,200}failed.{0,40}|"
    r"layer .{1,200} not exists or registered|network graph not ready)$"
)
"""Lines of ncnn's ``net.cpp``, ``gpu.cpp`` and ``allocator.cpp`` after which a network has no output."""


def _finish(part: Part) -> None:
    settings = part.settings
    if settings.get("provider") not in (None, "cpu"):
        settings["provider"] = "vulkan"
    if settings.get("model", "").endswith(("_int8", "-int8")):
        settings["precision"] = "int8"


class Benchncnn(Importer):
    """Text of ``benchncnn``: one run per line of results."""

    title = "benchncnn"
    runtime = "ncnn"
    absent: Mapping[str, str] = {"load_time": "benchncnn loads empty weights and does not time it"}
    forms = (
        Form(
            title="text", kind="text", mark=rf"^{NCNN_NAME}.*[ \t]max[ \t]*=|^loop_count = ",
            expects="lines like 'squeezenet  min =  2.10  max =  2.40  avg =  2.20'",
            method="its own timer around the extraction, one process, empty weights", each=rf"^{NCNN_NAME}.*$",
            ends=True,
            # The tool ignores what a network that can't be loaded or run returns, and times the calls.
            failed=_ERROR, errors=(_ERROR,),
            fields=(
                Field("model", rf"^{NCNN_NAME}"),
                Field("threads", r"num_threads = (\S+)"),
                Field("iterations", r"loop_count = (\S+)"),
                Field("provider", r"gpu_device = (\S+)", words={"-1": "cpu"}),
                Field("latency_min", rf"min{NCNN_TIME}", unit="ms"),
                Field("latency_max", rf"max{NCNN_TIME}", unit="ms"),
                Field("latency_mean", rf"avg{NCNN_TIME}", unit="ms"),
            ),
            finish=_finish, gives=("precision",),
        ),
    )  # fmt: skip
