"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.units import parse_duration, parse_size
from edgewise.verbs import choices, words
from edgewise.verbs.option import argument, option

MEASURE, VARY, OUTPUT, MODEL = "How to measure", "What to vary", "Output", "Which model"
LIMITS, VERDICT, DATA = "Limits", "What decides a verdict", "Data and task"
PLAIN = "Options"
"""The heading of a command with few options."""

MODELS = argument(
    "models",
    ".onnx, .ort, .tflite, OpenVINO .xml, .pt2, .keras, .pb, .pdmodel, a SavedModel's folder, or FILE.py:FUNCTION.",
    list[str],
    metavar="MODEL",
)

RUNTIMES = option(
    "-r --runtime A,B",
    VARY,
    "Runtimes by name or name/provider (default: all installed)",
    list[str],
    read=words.words,
    choices=choices.runtimes,
    field="runtimes",
)
DEVICE = option(
    "-d --device NAME",
    VARY,
    "Device to measure on: its name, or a URL such as ssh://USER@HOST",
    default="local",
    choices=choices.measured_devices,
)
SETTINGS = option(
    "--set NAME=VALUE",
    VARY,
    "Setting of the engine by its own name, such as channels_last=true for torch; repeatable",
    list[str],
    read=words.pairs,
)
PROVIDERS = option(
    "--provider A,B",
    VARY,
    "Providers by name (default: each runtime's first)",
    list[str],
    read=words.words,
    field="providers",
)
THREADS = option("-t --threads 1,2", VARY, "Thread counts (default: 1)", list[str], read=words.numbers)
BATCHES = option("--batch 1,8", VARY, "Batch sizes (default: 1)", list[str], read=words.numbers, field="batches")
PRECISIONS = option(
    "--precision P,…",
    VARY,
    "f32 or fp32, bf16, f16 or fp16 (default: f32)",
    list[str],
    read=words.words,
    choices=("f32", "bf16", "f16"),
    field="precisions",
)
SIGNATURE = option("--signature NAME", MODEL, "Entry point of a file with several signatures (default: the first)")
SIGNATURES = option(
    "--signature NAME,…",
    VARY,
    "Entry points of files with several signatures, such as a .tflite with encode and decode (default: the first)",
    list[str],
    read=words.words,
    field="signatures",
)
SHAPES = option(
    "--shape NAME=1x3x224x224",
    MEASURE,
    "Shape of an input with open dimensions; repeatable",
    list[str],
    read=words.shapes,
    field="shapes",
)
INPUT_DATA = option(
    "--input-data F.npz",
    MEASURE,
    "File with one array per input; its sizes also fix open dimensions (default: random inputs)",
    Path,
)
SEED = option("--seed N", MEASURE, "Random seed", int, default=0)
SCENARIO = option(
    "--scenario KIND",
    MEASURE,
    "single-stream, offline or paced",
    default="single-stream",
    choices=("single-stream", "offline", "paced"),
)
FPS = option("--fps N", MEASURE, "Inputs per second in the scenario paced", float)
ITERATIONS = option("--iterations N", MEASURE, "Number of timed inferences per session", int)
WARMUP = option("--warmup N", MEASURE, "Number of warm-up inferences per session (default: found from the data)", int)
DURATION = option("--duration 5s", MEASURE, "Measuring time per session", read=parse_duration)
TIMEOUT = option(
    "--timeout T", MEASURE, "Kill a worker that has been silent for this long", read=parse_duration, default="120s"
)
MEMORY_LIMIT = option(
    "--memory-limit 2GiB", MEASURE, "Memory that a worker may allocate (default: available memory)", read=parse_size
)
CONSTRAINTS = (
    option(
        "--cpus N", LIMITS, "Number of processors that the job may use, such as 0.5: simulates a smaller device", float
    ),
    option(
        "--memory 2GiB",
        LIMITS,
        "Memory that all processes of the job may use together: simulates a smaller device",
        read=parse_size,
    ),
    option(
        "--mechanism NAME",
        LIMITS,
        "cgroup-v2, cgroup-v1 or affinity-rlimit (default: the best that works here)",
        choices=("cgroup-v2", "cgroup-v1", "affinity-rlimit"),
    ),
)
"""Limits of a smaller device."""
BUILD = option("--build MODULE:FUNCTION", MODEL, "A factory that returns a model, trained or not")
CASES = option(
    "--what-if NAME=VALUE",
    MODEL,
    "Keyword argument of the factory; several values (width=0.5,1) make one model each; repeatable",
    list[str],
    read=words.cases,
    field="cases",
)

OUTPUTS = option("-o --output F", OUTPUT, "Also write a report: .md, .html, .csv or .json; repeatable", list[Path])
FORCE = option("--force", OUTPUT, "Overwrite output files", bool)
DETAILS = option("--details", OUTPUT, "Print cautions, reasons and conditions in full", bool)
AS_JSON = option("--json", OUTPUT, "Print one JSON document", bool)
QUIET = option("-q --quiet", OUTPUT, "Print no progress", bool)
STORE = option(
    "--store URL",
    OUTPUT,
    "Store of the runs: a path or a database URL (default: EDGEWISE_STORE, otherwise a file in your data folder)",
)
JSON_TOO, STORE_TOO = (replace(one, panel=PLAIN) for one in (AS_JSON, STORE))
NO_STORE = option("--no-store", OUTPUT, "Don't keep runs", bool)
TOP = option("--top N", OUTPUT, "Number of layers to print; 0 prints all", int, default=15, minimum=0)
DRY_RUN = option(
    "--dry-run",
    OUTPUT,
    "Print what the command would do, without doing it; with --json, print the request for 'edgewise run'",
    bool,
)
ABSOLUTE = option("--absolute", OUTPUT, "With --dry-run --json: make paths absolute", bool)
STORING = (QUIET, STORE, NO_STORE, DRY_RUN, ABSOLUTE)
"""Options of every command that saves runs."""
REPORTING = (FORCE, DETAILS, AS_JSON, *STORING)
"""Options of every command that measures, behind its report files."""
WHERE = (RUNTIMES, DEVICE, PROVIDERS)
ENVIRONMENTS = option(
    "--environment REQ",
    VARY,
    "Python environment with the engine: onnxruntime==1.30.0, which is made once, or the path of one; repeatable",
    list[str],
    field="environments",
    read=tuple,
)
FED = (BATCHES, PRECISIONS, SIGNATURES, ENVIRONMENTS, SHAPES, INPUT_DATA, SEED)
PROTOCOL = (ITERATIONS, WARMUP)
WORKER = (TIMEOUT, MEMORY_LIMIT)
JUDGING = (
    option(
        "--task TASK",
        DATA,
        "classification, detection, segmentation … (default: from the YAML beside the model)",
        choices=choices.tasks,
    ),
    option(
        "--split NAME",
        DATA,
        "Part of the data to evaluate (default: the first of test, validation, val, eval, dev, all, train)",
    ),
    option("--limit N", DATA, "Number of samples to evaluate, chosen at random by --seed (default: all)", int),
    option("--seed N", DATA, "Random seed", int, default=0),
    option("--strict", DATA, "Fail on a sample that can't be used", bool),
    option(
        "--data-format FORMAT",
        DATA,
        "npz, folders, csv, coco, idx, wav, huggingface, loader",
        choices=choices.data_formats,
    ),
    option(
        "--data-option NAME=VALUE",
        DATA,
        "How to read the data; repeatable",
        list[str],
        read=words.pairs,
        field="data_options",
    ),
    option(
        "--task-option NAME=VALUE",
        DATA,
        "How to read the outputs; repeatable",
        list[str],
        read=words.pairs,
        field="task_options",
    ),
    option(
        "--prepare STEP=VALUE",
        DATA,
        "Preparation of a sample, in order: resize=256, crop=224, scale=1/255; replaces the YAML's steps",
        list[str],
    ),
    option("--instructions F.yaml", DATA, "Read this file instead of the YAML beside the model", Path),
    option(
        "--classes F.txt",
        DATA,
        "File with the names of the model's classes, one per line",
        Path,
        write=lambda classes: [classes] if isinstance(classes, str) else [],
    ),
)
"""How to judge on data."""


def models_or_factory(models: Sequence[str] | None, build: str | None) -> tuple[str, ...]:
    """The given models, or the factory. Raises `BadInput` where both are given, or neither."""
    if bool(models) == bool(build):
        raise BadInput("give model files or a factory with --build, and not both", advice="a model's file is enough")
    return tuple(models or ()) or (str(build),)
