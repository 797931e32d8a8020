"""The request of ``calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from edgewise.verbs import choices
from edgewise.verbs.option import argument, option
from edgewise.verbs.request import FilePath, Request, Texts
from edgewise.verbs.shared_options import ABSOLUTE, AS_JSON, DRY_RUN, FORCE, MEASURE, OUTPUTS, STORE


class CalibrateRequest(Request):
    """Learn a device from a few models that were measured on it."""

    PATHS = ("model_dir",)

    OTHER_OPTIONS = (
        OUTPUTS.worded(
            "Also write .md, .html, .csv or .json; repeatable. With --suggest: the folder of the networks",
            field="folder",
        ),
        FORCE,
        STORE,
        AS_JSON,
        DRY_RUN,
        ABSOLUTE,
    )

    verb: Literal["calibrate"] = "calibrate"
    name: Annotated[
        str,
        argument(
            "name",
            "Name of the device, as 'edgewise estimate -d' takes it afterwards.",
            str,
            metavar="DEVICE",
            choices=choices.devices,
        ),
    ]
    measurements: Annotated[
        Texts,
        option(
            "--measurements F",
            MEASURE,
            "CSV file with the columns model, latency_ms, host_latency_ms and the like; stored or exported runs of "
            "the device; output of another tool; or a folder of such files; repeatable (default: the stored runs of "
            "DEVICE)",
            list[str],
        ),
    ] = ()
    method: Annotated[
        str | None,
        option(
            "--method LAW",
            MEASURE,
            "Law to take (default: the one with the least error, here and on public devices together)",
        ),
    ] = None
    host: Annotated[
        str | None,
        option(
            "--host ENGINE",
            MEASURE,
            "Engine whose stored runs on this machine are taken, such as litert or 'litert/cpu, 1 thread', and that "
            "measured a table's host_ columns (default: the device's, or the one that predicts best)",
        ),
    ] = None
    runtime: Annotated[
        str | None,
        option(
            "--runtime ENGINE",
            MEASURE,
            "Engine whose runs of the device are taken, such as 'litert/cpu, 1 thread' or its beginning; needed where "
            "the runs are of several",
        ),
    ] = None
    atlas_device: Annotated[
        str | None,
        option(
            "--atlas-device NAME",
            MEASURE,
            "Name of the device in the atlas, where its results with other runtimes tell more of it",
        ),
    ] = None
    model_dir: Annotated[
        FilePath | None,
        option(
            "--model-dir PATH", MEASURE, "Folder of the measured models, which are found by their names or hashes", Path
        ),
    ] = None
