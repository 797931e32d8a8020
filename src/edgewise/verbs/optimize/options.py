"""Options of ``optimize``, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.units import parse_duration
from edgewise.verbs import choices, words
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, argument, option, request_of

if TYPE_CHECKING:
    from edgewise.verbs.optimize.request import OptimizeRequest

BOUNDS, PASSES = "Bounds of a variant", "Passes to try"

OPTIONS = (
    argument("model", ".onnx, .tflite, OpenVINO .xml, or a factory FILE.py:FUNCTION.", str, metavar="MODEL"),
    options.SIGNATURE,
    option(
        "--also FILE",
        PASSES,
        "The same network in another format, for engines that don't read MODEL; repeatable",
        list[str],
    ),
    option(
        "--data PATH",
        options.DATA,
        "Data for evaluation; calibration uses its training part or, without one, a part set apart",
    ),
    *options.JUDGING[:3],
    option(
        "--calibrate-on SPLIT",
        options.DATA,
        "Part of the data that passes use for calibration and training (default: train, otherwise a part that is not "
        "evaluated)",
    ),
    option(
        "--calibration-limit N",
        options.DATA,
        "Number of calibration samples; if given, training uses the same samples (default: 128)",
        int,
    ),
    *options.JUDGING[3:],
    option("--max-latency 5ms", BOUNDS, "Highest latency", read=words.time_with_unit),
    option("--max-size 1MB", BOUNDS, "Largest size of the model's files", read=words.size_with_unit),
    option(
        "--max-memory 64MiB", BOUNDS, "Highest peak memory of the process during inference", read=words.size_with_unit
    ),
    option(
        "--max-accuracy-drop 1pt",
        BOUNDS,
        "Largest loss of accuracy: 1pt (percentage points), 2% (of the original's value) or 0.05 (in the metric's "
        "unit) (default: 1pt; 1% if the metric is not a share)",
    ),
    option("--min-accuracy 0.9", BOUNDS, "Lowest value of the task's headline metric", float),
    option(
        "--min-snr 20dB",
        BOUNDS,
        "Lowest signal-to-noise ratio of the outputs relative to the original's; needs no labels",
        read=words.decibels,
    ),
    option(
        "--aim AIM",
        BOUNDS,
        "Aim of the search: latency, or size, which also accepts a smaller variant that is no slower",
        default="latency",
        choices=("latency", "size"),
    ),
    option(
        "--passes P,…",
        PASSES,
        "Passes to try, NAME or NAME:RECIPE (default: all installed)",
        list[str],
        choices=choices.passes,
    ),
    option("--keep-float LAYER", PASSES, "Layer that passes keep in float and don't prune; repeatable", list[str]),
    option(
        "--sensitivity/--no-sensitivity",
        PASSES,
        "Quantise layers one at a time to find fragile ones (default: if int8 loses too much accuracy)",
        bool,
        default=None,
    ),
    option("--everything", PASSES, "Also try recipes that seldom win", bool),
    options.RUNTIMES.worded("Engines that may be used (default: all)"),
    options.DEVICE.worded(
        "Device to measure on; or one that 'edgewise estimate' knows, such as nucleo-l4r5zi or ethos-u55-128: speed "
        "and memory are then estimated, and accuracy is measured here",
        choices=choices.devices,
    ),
    options.THREADS.worded(
        "Number of inference threads (default: 1; the pass tune also tries more)",
        kind=int,
        read=None,
        metavar="N",
        minimum=1,
    ),
    options.SHAPES,
    option("--time-budget T", options.MEASURE, "Time limit of the whole search", read=parse_duration, default="5min"),
    options.MEMORY_LIMIT,
    option("--fresh", options.MEASURE, "Ignore files and answers kept from an earlier search", bool),
    option(
        "-o --output FOLDER",
        options.OUTPUT,
        "Folder for variants and the result (default: MODEL-optimized)",
        Path,
        field="folder",
    ),
    option("--report F", options.OUTPUT, "Also write .md, .html, .csv or .json; repeatable", list[Path]),
    options.FORCE.worded("Overwrite the report"),
    options.DETAILS,
    options.AS_JSON,
    *options.STORING,
)


def read(values: Values) -> OptimizeRequest:
    """The request that the options describe. Raises `BadInput`."""
    from edgewise.verbs.optimize.request import OptimizeRequest

    _check_folder(values["output"])
    return request_of(OptimizeRequest, OPTIONS, values)


def _check_folder(folder: Path | None) -> None:
    """Raise `BadInput` where a report is meant: other commands write one with -o."""
    if folder is None or not folder.suffix or folder.is_dir():
        return
    from edgewise.report.result_files import OPTIMIZATION

    if folder.suffix in OPTIMIZATION.extensions:
        raise BadInput(
            f"-o {folder} would be the name of a folder",
            advice=f"--report {folder} writes a report; -o takes the folder",
        )
