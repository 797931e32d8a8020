"""Options of ``calibrate``, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, argument, option, request_of

if TYPE_CHECKING:
    from edgewise.verbs.request import Request

OPTIONS = (
    argument(
        "name",
        "Name of the device, as 'edgewise estimate -d' takes it afterwards.",
        str,
        metavar="DEVICE",
        choices=choices.devices,
    ),
    option(
        "--measurements F",
        options.MEASURE,
        "CSV file with the columns model, latency_ms, host_latency_ms and the like; stored or exported runs of the "
        "device; output of another tool; or a folder of such files; repeatable (default: the stored runs of DEVICE)",
        list[str],
    ),
    option(
        "--model-dir PATH",
        options.MEASURE,
        "Folder of the measured models, which are found by their names or hashes",
        Path,
    ),
    option(
        "--suggest K",
        options.MEASURE,
        "Instead of learning: write K reference networks to measure next on DEVICE to the folder of -o (default: "
        "DEVICE-models), and print the commands to run",
        int,
    ),
    option(
        "--format FORMAT",
        options.MEASURE,
        "Of the networks of --suggest: onnx or tflite",
        default="onnx",
        choices=("onnx", "tflite"),
    ),
    option("--method LAW", options.MEASURE, "Law to take (default: the one that predicts left-out models best)"),
    option(
        "--host ENGINE",
        options.MEASURE,
        "Engine whose stored runs on this machine are taken, such as litert (default: the one with the most)",
    ),
    option(
        "--runtime ENGINE",
        options.MEASURE,
        "Engine whose runs of the device are taken, such as 'litert/cpu, 1 thread' or its beginning; needed where the "
        "runs are of several",
    ),
    options.OUTPUTS.worded(
        "Also write .md, .html, .csv or .json; repeatable. With --suggest: the folder of the networks", field="folder"
    ),
    options.FORCE,
    options.STORE,
    options.AS_JSON,
    options.DRY_RUN,
    options.ABSOLUTE,
)


def read(values: Values) -> Request:
    """The request of these options: to learn a device, or to suggest what to measure on it. Raises `BadInput`."""
    from edgewise.verbs.calibrate.request import CalibrateRequest

    if values["suggest"] is not None:
        return _suggestion(values)
    if values["format"] != "onnx":
        raise BadInput("--format applies only to --suggest", advice="leave it out")
    return request_of(CalibrateRequest, OPTIONS, values)


def _suggestion(values: Values) -> Request:
    from edgewise.verbs.suggest.request import SuggestRequest

    if unused := [name for name in ("measurements", "method", "host", "model_dir") if values[name]]:
        flag = unused[0].replace("_", "-")
        advice = "calibrate when the suggested models are measured"
        raise BadInput(f"--suggest and --{flag} exclude each other", advice=advice)
    folders = values["output"] or ()
    if len(folders) > 1:
        raise BadInput(f"--suggest writes to one folder, not {len(folders)}", advice="give -o once")
    return request_of(SuggestRequest, OPTIONS, values, folder=str(folders[0]) if folders else None)
