"""``edgewise firmware``: a model as firmware that speaks the protocol of MLPerf Tiny's runner."""

from __future__ import annotations

from pathlib import Path

from edgewise.verbs import choices
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import PLAIN, SIGNATURE


@takes(
    argument("model", "An int8 .tflite file", Path, metavar="MODEL"),
    option(
        "-d --device NAME",
        PLAIN,
        "Core or board, such as cortex-m4 or nucleo-l4r5zi",
        default=...,
        choices=choices.estimated_devices,
    ),
    option("-o --output DIR", PLAIN, "Folder to write; created if missing", Path, default=...),
    option(
        "--model-id NAME",
        PLAIN,
        "Model that the firmware reports; kws01, ic01, vww01 and ad01 are those of MLPerf Tiny",
        default="custom",
    ),
    SIGNATURE.worded("Entry point of a file with several signatures (default: the first)", panel=PLAIN),
    option("--force", PLAIN, "Write into a folder that is not empty", bool),
)
def command(values: Values) -> None:
    """Write C sources of a model and a firmware image that speaks the protocol of MLPerf Tiny's runner.

    The model first runs in QEMU, and its outputs must be equal to those of tflite-micro.

    The image runs in QEMU, too. README.md in the folder has the steps for your own board.
    """
    from edgewise.terminal.console import err
    from edgewise.verbs.estimate.work import firmware

    folder = values["output"]
    image = firmware(
        str(values["model"]),
        folder,
        device=values["device"],
        identity=values["model_id"],
        signature=values["signature"] or "",
        force=values["force"],
    )
    err().print(f"wrote {image}; {folder / 'README.md'} has the next steps", soft_wrap=True, markup=False)
