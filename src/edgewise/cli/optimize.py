"""``edgewise optimize``: find a smaller and faster variant that keeps its accuracy, by measuring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cli import options, words
from edgewise.cli.console import complain
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import Output, Presentation, finish, output_of, perform
from edgewise.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.optimizing.variant import Optimization

BOUNDS, PASSES = "Bounds of a variant", "Passes to try"

OPTIONS = (
    argument("model", ".onnx, .tflite, OpenVINO .xml, or a factory FILE.py:FUNCTION.", str, metavar="MODEL"),
    option(
        "--also",
        "The same network in another format, for engines that don't read MODEL; repeatable",
        options.TEXTS,
        panel=PASSES,
        metavar="FILE",
    ),
    option(
        "--data",
        "Data for evaluation; calibration uses its training part or, without one, a part set apart",
        panel=options.DATA,
        metavar="PATH",
    ),
    *options.JUDGING[:3],
    option(
        "--calibrate-on",
        "Part of the data that passes use for calibration and training (default: train, otherwise a part that is not "
        "evaluated)",
        panel=options.DATA,
        metavar="SPLIT",
    ),
    option(
        "--calibration-limit",
        "Number of calibration samples; if given, training uses the same samples (default: 128)",
        int | None,
        panel=options.DATA,
        metavar="N",
    ),
    *options.JUDGING[3:],
    option("--max-latency", "Highest latency", panel=BOUNDS, read=words.time_with_unit, metavar="5ms"),
    option("--max-size", "Largest size of the model's files", panel=BOUNDS, read=words.size_with_unit, metavar="1MB"),
    option(
        "--max-memory",
        "Highest peak memory of the process during inference",
        panel=BOUNDS,
        read=words.size_with_unit,
        metavar="64MiB",
    ),
    option(
        "--max-accuracy-drop",
        "Largest loss of accuracy: 1pt (percentage points), 2% (of the original's value) or 0.05 (in the metric's "
        "unit) (default: 1pt; 1% if the metric is not a share)",
        panel=BOUNDS,
        metavar="1pt",
    ),
    option("--min-accuracy", "Lowest value of the task's headline metric", float | None, panel=BOUNDS, metavar="0.9"),
    option(
        "--min-snr",
        "Lowest signal-to-noise ratio of the outputs relative to the original's; needs no labels",
        panel=BOUNDS,
        read=words.decibels,
        metavar="20dB",
    ),
    option(
        "--aim",
        "Aim of the search: latency, or size, which also accepts a smaller variant that is no slower",
        str,
        panel=BOUNDS,
        metavar="AIM",
        default="latency",
    ),
    option(
        "--passes",
        "Passes to try, NAME or NAME:RECIPE (default: all installed)",
        options.TEXTS,
        panel=PASSES,
        metavar="P,…",
    ),
    option(
        "--keep-float",
        "Layer that passes keep in float and don't prune; repeatable",
        options.TEXTS,
        panel=PASSES,
        metavar="LAYER",
    ),
    option(
        "--sensitivity/--no-sensitivity",
        "Quantise layers one at a time to find fragile ones (default: if int8 loses too much accuracy)",
        bool | None,
        panel=PASSES,
    ),
    option("--everything", "Also try recipes that seldom win", bool, panel=PASSES, default=False),
    options.RUNTIMES.worded("Engines that may be used (default: all)"),
    options.DEVICE,
    options.THREADS.worded(
        "Number of inference threads (default: 1; the pass tune also tries more)",
        type=int | None,
        read=None,
        metavar="N",
        min=1,
    ),
    options.SHAPES,
    option(
        "--time-budget",
        "Time limit of the whole search",
        str,
        panel=options.MEASURE,
        read=words.seconds,
        metavar="T",
        default="5min",
    ),
    options.MEMORY_LIMIT,
    option(
        "--fresh", "Ignore files and answers kept from an earlier search", bool, panel=options.MEASURE, default=False
    ),
    option(
        "-o --output",
        "Folder for variants and the result (default: MODEL-optimized)",
        Path | None,
        panel=options.OUTPUT,
        field="folder",
        metavar="FOLDER",
    ),
    option(
        "--report",
        "Also write .md, .html, .csv or .json; repeatable",
        list[Path] | None,
        panel=options.OUTPUT,
        field="",
        metavar="F",
    ),
    options.FORCE.worded("Overwrite the report"),
    options.DETAILS,
    options.AS_JSON,
    *options.STORING,
)


class OptimizePresentation(Presentation["Optimization"]):
    """How the result of a search is shown."""

    files = "OPTIMIZATION"

    def show(self, result: Optimization, console: Console, *, output: Output) -> None:
        """Variants before and after, and the choice."""
        from edgewise.report.optimization import print_optimization

        print_optimization(result, console, details=output.details)

    def finish(self, result: Optimization, *, output: Output) -> int:
        """Exit code 4 where no variant keeps to the bounds."""
        if not result.interrupted and result.unmet:
            complain(
                f"nothing meets the bounds: {result.unmet}",
                f"the closest is {result.closest or 'none'}; loosen a bound, or add --passes or time",
            )
            return ExitCode.RUN_FAILED
        left = "the best so far is above; the same command continues with the variants already made"
        return finish(result, output=output, interrupted=left)


PRESENTATION = OptimizePresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Find the fastest variant of a model that keeps its accuracy: quantised, fused, pruned, converted, tuned."""
    from edgewise.service.requests import OptimizeRequest

    return perform(request_of(OptimizeRequest, OPTIONS, values), PRESENTATION, output_of(values, files="report"))
