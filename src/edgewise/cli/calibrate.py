"""``edgewise calibrate``: learn a device from a few measured models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.errors import BadInput, ExitCode
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option, request_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.calibration import Calibration

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
        "Also write .md, .html, .csv or .json; repeatable. With --suggest: the folder of the networks"
    ),
    options.FORCE,
    options.STORE,
    options.AS_JSON,
    options.DRY_RUN,
    options.ABSOLUTE,
)


class CalibrationPresentation(Presentation["Calibration"]):
    """How a calibration is shown."""

    files = "CALIBRATIONS"

    def show(self, result: Calibration, console: Console, *, output: Output) -> None:
        """Laws, points and cautions."""
        from edgewise.report.forecast import calibration_document
        from edgewise.report.text import print_document

        print_document(calibration_document(result), console, details=output.details)

    def finish(self, result: Calibration, *, output: Output) -> int:
        """Nothing can fail any more."""
        return ExitCode.DONE


PRESENTATION = CalibrationPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Learn a device from a few models that were measured on it; 'edgewise estimate -d DEVICE' then predicts others.

    Without --measurements, the runs of DEVICE in the store are taken: those of 'edgewise bench -d DEVICE', and those of
    other tools that 'edgewise runs import --device DEVICE' read. Give 3 models or more, better 5 to 10 of different
    size and kind. Models that 'edgewise bench' has measured on this machine, or whose values on it are in the table,
    are predicted better. Each law is judged by what it predicts for models that it was not fitted to.
    """
    from edgewise.service.requests import CalibrateRequest

    if values["suggest"] is not None:
        return _suggest(values)
    if values["format"] != "onnx":
        raise BadInput("--format applies only to --suggest", advice="leave it out")
    return perform(request_of(CalibrateRequest, OPTIONS, values), PRESENTATION, output_of(values))


def _suggest(values: Values) -> int:
    from edgewise.cli.suggest import PRESENTATION as SUGGESTION
    from edgewise.service.requests import SuggestRequest

    if unused := [name for name in ("measurements", "method", "host", "model_dir") if values[name]]:
        flag = unused[0].replace("_", "-")
        advice = "calibrate when the suggested models are measured"
        raise BadInput(f"--suggest and --{flag} exclude each other", advice=advice)
    folders = values["output"] or ()
    if len(folders) > 1:
        raise BadInput(f"--suggest writes to one folder, not {len(folders)}", advice="give -o once")
    request = request_of(SuggestRequest, OPTIONS, values, folder=str(folders[0]) if folders else None)
    return perform(request, SUGGESTION, replace(output_of(values), files=()))
