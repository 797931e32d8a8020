"""``edgewise calibrate``: learn a device from a few measured models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.cli import options
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.predicting.calibration import Calibration

OPTIONS = (
    argument("name", "Name of the device, as 'edgewise estimate -d' takes it afterwards.", str, metavar="DEVICE"),
    option(
        "--measurements F",
        options.MEASURE,
        "CSV file with the columns model, latency_ms, host_latency_ms and the like; stored runs or exported files of "
        "the device; repeatable",
        list[str],
        default=...,
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
    options.OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"),
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

    Give 3 models or more, better 5 to 10 of different size and kind. Models that 'edgewise bench' has measured on this
    machine, or whose values on it are in the table, are predicted better. Each law is judged by what it predicts for
    models that it was not fitted to.
    """
    from edgewise.service.requests import CalibrateRequest

    return perform(request_of(CalibrateRequest, OPTIONS, values), PRESENTATION, output_of(values))
