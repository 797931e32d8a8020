"""Options of ``evaluate``."""

from __future__ import annotations

from pathlib import Path

from edgewise.verbs import shared_options as options
from edgewise.verbs.option import option

OPTIONS = (
    options.MODELS.worded(".onnx, .tflite or OpenVINO .xml files."),
    option(
        "--data PATH",
        options.DATA,
        "Class folders, .npz, CSV, COCO, IDX, WAV … or MODULE:FUNCTION",
        default=...,
    ),
    options.JUDGING[0],
    option(
        "--metric M",
        options.DATA,
        "A metric of your own: MODULE:FUNCTION, FILE.py:FUNCTION, hf:FOLDER; append =lower if less is better; "
        "repeatable",
        list[str],
        field="own_metrics",
    ),
    option("--reference MODEL", options.DATA, "Model whose outputs count as correct, for data without labels", Path),
    *options.JUDGING[1:],
    options.RUNTIMES.worded("Runtimes (default: the runtime of the model's own format)"),
    options.DEVICE,
    options.PROVIDERS,
    options.THREADS.worded("Number of inference threads", kind=int, default=1, read=None, metavar="N"),
    options.PRECISIONS,
    options.SIGNATURES,
    options.SHAPES,
    option("--latency/--no-latency", options.MEASURE, "Measure the latency too", bool, default=True),
    option("--sessions N", options.MEASURE, "Number of fresh processes for the latency", int, default=3),
    option("--meters/--no-meters", options.MEASURE, "Read sensors, about 3 s per run", bool),
    *options.WORKER,
    *options.CONSTRAINTS,
    option("--keep-state", options.MEASURE, "Keep a model's state from sample to sample: they are one sequence", bool),
    option("--fresh", options.MEASURE, "Start anew instead of resuming an interrupted evaluation", bool),
    options.OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"),
    *options.REPORTING,
)
