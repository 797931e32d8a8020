"""The request of ``optimize``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from edgewise.errors import BadInput
from edgewise.run.limits import require_at_least, require_time
from edgewise.units import parse_duration
from edgewise.verbs import choices, words
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.fields import Device, Runtimes, Signature
from edgewise.verbs.option import Values, argument, option, worded
from edgewise.verbs.request import FilePath, Number, Texts, Whole
from edgewise.verbs.shared import DataRequest, check_signature
from edgewise.verbs.shared_options import AS_JSON, DATA, DETAILS, FORCE, MEASURE, OUTPUT, STORING, VARY

OF_MODELS = (".onnx", ".ort", ".tflite", ".xml", ".pt2", ".keras")
"""Endings of the names of model files."""
BOUNDS, PASSES = "Bounds of a variant", "Passes to try"


class OptimizeRequest(DataRequest):
    """Find the fastest variant of a model that keeps its accuracy.

    The fields are the arguments of `edgewise.optimize`, but for:

    Attributes:
        folder: its `output`: where variants and the result go; None is ``MODEL-optimized`` in the current folder.
        lab: ``make``, in a job of a lab: makes and checks variants, and measures none.
    """

    PATHS = ("model", "also", "data", "instructions", "classes", "folder")

    OTHER_OPTIONS = (
        option("--report F", OUTPUT, "Also write .md, .html, .csv or .json; repeatable", list[Path], common=True),
        FORCE.worded("Overwrite the report"),
        DETAILS,
        AS_JSON,
        *STORING,
    )

    verb: Literal["optimize"] = "optimize"
    model: Annotated[
        FilePath,
        argument("model", ".onnx, .tflite, OpenVINO .xml, or a factory FILE.py:FUNCTION.", str, metavar="MODEL"),
    ]
    signature: Signature = ""
    also: Annotated[
        tuple[FilePath, ...],
        option(
            "--also FILE",
            PASSES,
            "The same network in another format, for engines that don't read MODEL; repeatable",
            list[str],
            common=True,
        ),
    ] = ()
    data: Annotated[
        FilePath | None,
        option(
            "--data PATH",
            DATA,
            "Data for evaluation; calibration uses its training part or, without one, a part set apart",
            common=True,
        ),
    ] = None
    calibrate_on: Annotated[
        str | None,
        option(
            "--calibrate-on SPLIT",
            DATA,
            "Part of the data that passes use for calibration and training (default: train, otherwise a part that is "
            "not evaluated)",
        ),
    ] = None
    calibration_limit: Annotated[
        Whole | None,
        option(
            "--calibration-limit N",
            DATA,
            "Number of calibration samples; if given, training uses the same samples (default: 128)",
        ),
    ] = None
    max_latency: Annotated[
        Number | None, option("--max-latency 5ms", BOUNDS, "Highest latency", read=words.time_with_unit, common=True)
    ] = None
    max_size: Annotated[
        Whole | None,
        option("--max-size 1MB", BOUNDS, "Largest size of the model's files", read=words.size_with_unit, common=True),
    ] = None
    max_memory: Annotated[
        Whole | None,
        option(
            "--max-memory 64MiB",
            BOUNDS,
            "Highest peak memory of the process during inference",
            read=words.size_with_unit,
        ),
    ] = None
    max_accuracy_drop: Annotated[
        str | None,
        option(
            "--max-accuracy-drop 1pt",
            BOUNDS,
            "Largest loss of accuracy: 1pt (percentage points), 2% (of the original's value) or 0.05 (in the metric's "
            "unit) (default: 1pt; 1% if the metric is not a share)",
            common=True,
        ),
    ] = None
    min_accuracy: Annotated[
        Number | None, option("--min-accuracy 0.9", BOUNDS, "Lowest value of the task's headline metric", common=True)
    ] = None
    min_snr: Annotated[
        Number | None,
        option(
            "--min-snr 20dB",
            BOUNDS,
            "Lowest signal-to-noise ratio of the outputs relative to the original's; needs no labels",
            read=words.decibels,
        ),
    ] = None
    aim: Annotated[
        Literal["latency", "size"],
        option(
            "--aim AIM",
            BOUNDS,
            "Aim of the search: latency, or size, which also accepts a smaller variant that is no slower",
        ),
    ] = "latency"
    passes: Annotated[
        Texts,
        option(
            "--passes P,…",
            PASSES,
            "Passes to try, NAME or NAME:RECIPE (default: all installed)",
            list[str],
            choices=choices.passes,
            common=True,
        ),
    ] = ()
    keep_float: Annotated[
        Texts,
        option("--keep-float LAYER", PASSES, "Layer that passes keep in float and don't prune; repeatable", list[str]),
    ] = ()
    sensitivity: Annotated[
        bool | None,
        option(
            "--sensitivity/--no-sensitivity",
            PASSES,
            "Quantise layers one at a time to find fragile ones (default: if int8 loses too much accuracy)",
        ),
    ] = None
    everything: Annotated[bool, option("--everything", PASSES, "Also try recipes that seldom win")] = False
    runtimes: Annotated[Runtimes, worded("Engines that may be used (default: all)")] = ()
    device: Annotated[
        Device,
        worded(
            "Device to measure on; or one that 'edgewise estimate' knows, such as nucleo-l4r5zi or ethos-u55-128: "
            "speed and memory are then estimated, and accuracy is measured here",
            choices=choices.devices,
        ),
    ] = "local"
    threads: Annotated[
        Whole | None,
        option(
            "-t --threads N",
            VARY,
            "Number of inference threads (default: 1; the pass tune also tries more)",
            minimum=1,
            common=True,
        ),
    ] = None
    time_budget: Annotated[
        Number,
        option(
            "--time-budget T",
            MEASURE,
            "Time limit of the search; what has begun by then still ends, and the result is written",
            read=parse_duration,
            default="5min",
            common=True,
        ),
    ] = 300.0
    lab: Annotated[
        bool | Literal["make"],
        option(
            "--lab",
            MEASURE,
            "Let the lab in the store (--store, EDGEWISE_STORE) do it: any host makes variants, then -d measures them",
            bool,
            not_asked="the studio works on this machine",
        ),
    ] = False
    fresh: Annotated[bool, option("--fresh", MEASURE, "Ignore files and answers kept from an earlier search")] = False
    folder: Annotated[
        FilePath | None,
        option(
            "-o --output FOLDER",
            OUTPUT,
            "Folder for variants and the result (default: MODEL-optimized)",
            Path,
            common=True,
        ),
    ] = None

    def check(self) -> None:
        """Reject amounts that no variant can meet, and a signature with a function."""
        super().check()
        check_signature(self.signature, self.model)
        require_at_least(1, threads=self.threads, calibration_limit=self.calibration_limit)
        require_at_least(1, max_size=self.max_size, max_memory=self.max_memory)
        require_time(max_latency=self.max_latency, time_budget=self.time_budget)


def read(values: Values) -> OptimizeRequest:
    """Return the request that the options describe. Raises `BadInput`."""
    _check_folder(values["output"])
    return request_of(OptimizeRequest, declared_options(OptimizeRequest), values)


def _check_folder(folder: Path | None) -> None:
    """Raise `BadInput` where a report is meant: other commands write one with -o."""
    if folder is None or not folder.suffix or folder.is_dir():
        return
    from edgewise.verbs.optimize.presentation import FORMAT

    if folder.suffix in FORMAT.extensions:
        raise BadInput(
            f"⟦output={folder}⟧ would be the name of a folder",
            advice=f"⟦report⟧ {folder} writes a report; ⟦output⟧ takes the folder",
        )
    if folder.suffix in OF_MODELS:
        raise BadInput(
            f"⟦output={folder}⟧ would be the name of a folder: the chosen file and all variants go there",
            advice=f"for example ⟦output={folder.with_suffix('')}⟧; the first lines name the chosen file",
        )
