"""Every option, declared once: its flag, its help, and the field of the request that it fills.

A command lists its options with `takes`, which gives Typer the signature that it reads; `request_of` makes the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from edgewise.cli import words
from edgewise.errors import BadInput

if TYPE_CHECKING:
    from edgewise.service.request import Request

    R = TypeVar("R", bound=Request)

MEASURE, VARY, OUTPUT, MODEL = "How to measure", "What to vary", "Output", "Which model"
LIMITS, VERDICT, DATA = "Limits", "What decides a verdict", "Data and task"

Values = Mapping[str, Any]
"""What was typed, by the options' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option or argument.

    Attributes:
        name: of the command's parameter, and key of `Values`.
        type: as Typer reads it.
        info: the flags, the help and the panel.
        default: where it is not typed; None leaves it to the request.
        field: of the request; empty where the option is about the command's output.
        read: the field's value from what was typed.
    """

    name: str
    type: Any
    info: Any
    default: Any = None
    field: str = ""
    read: Callable[[Any], Any] | None = None

    @property
    def flag(self) -> str:
        """The long flag; empty for an argument."""
        return next((flag for flag in self.info.param_decls or () if flag.startswith("--")), "").partition("/")[0]

    def worded(self, text: str, **changes: Any) -> Option:
        """The same option with another help text, and other attributes: its own, or Typer's."""
        info = copy(self.info)
        info.help = text
        own = {name: changes.pop(name) for name in ("default", "type", "read") if name in changes}
        for name, value in changes.items():
            setattr(info, name, value)
        return replace(self, info=info, **own)


def option(
    flags: str, text: str, kind: Any = str | None, *, panel: str, field: str | None = None, **more: Any
) -> Option:
    """An option called by `flags`, such as ``"-r --runtime"``; by default it fills the field called like its flag."""
    decls = flags.split()
    name = decls[-1].partition("/")[0].removeprefix("--").replace("-", "_")
    own = {key: more.pop(key) for key in ("default", "read") if key in more}
    return Option(
        name=name,
        type=kind,
        info=typer.Option(*decls, help=text, rich_help_panel=panel, **more),
        field=name if field is None else field,
        **own,
    )


def argument(name: str, text: str, kind: Any, *, metavar: str, field: str | None = None, **own: Any) -> Option:
    """An argument; required unless it has a default."""
    own.setdefault("default", ...)
    return Option(
        name=name,
        type=kind,
        info=typer.Argument(metavar=metavar, help=text),
        field=name if field is None else field,
        **own,
    )


def takes(*options: Option) -> Callable[[Callable[[Values], int]], Callable[..., int]]:
    """Makes a function of `Values` a command with these options."""

    def decorate(function: Callable[[Values], int]) -> Callable[..., int]:
        def command(**values: Any) -> int:
            return function(values)

        command.__doc__ = function.__doc__
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    one.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if one.default is ... else one.default,
                    annotation=Annotated[one.type, one.info],
                )
                for one in options
            ]
        )
        return command

    return decorate


def request_of(kind: type[R], options: Sequence[Option], values: Values, **fields: Any) -> R:
    """The request that was typed.

    Args:
        fields: of the request, where no option fills them alone.

    Raises:
        BadInput: a value that can't be used, named by its flag.
    """
    from edgewise.service.reading import make_request

    found: dict[str, Any] = {}
    for one in options:
        value = values[one.name]
        if not one.field or value is None or one.field in fields:
            continue
        try:
            found[one.field] = one.read(value) if one.read else value
        except BadInput as error:
            message = error.message if one.flag in error.message else f"{one.flag}: {error.message}"
            raise BadInput(message, advice=error.advice) from None
    return make_request(kind, **found, **fields)


TEXTS = list[str] | None

MODELS = argument(
    "models",
    ".onnx, .ort, .tflite, OpenVINO .xml, .pb, .pdmodel, a SavedModel's folder, or FILE.py:FUNCTION.",
    list[str],
    metavar="MODEL",
)

RUNTIMES = option(
    "-r --runtime",
    "Runtimes by name or name/provider (default: all installed)",
    TEXTS,
    panel=VARY,
    field="runtimes",
    read=words.words,
    metavar="A,B",
)
DEVICE = option("-d --device", "Device to measure on", str, panel=VARY, metavar="NAME", default="local")
PROVIDERS = option(
    "--provider",
    "Providers by name (default: each runtime's first)",
    TEXTS,
    panel=VARY,
    field="providers",
    read=words.words,
    metavar="A,B",
)
THREADS = option("--threads", "Thread counts (default: 1)", TEXTS, panel=VARY, read=words.numbers, metavar="1,2")
BATCHES = option(
    "--batch", "Batch sizes (default: 1)", TEXTS, panel=VARY, field="batches", read=words.numbers, metavar="1,8"
)
PRECISIONS = option(
    "--precision",
    "f32 or fp32, bf16, f16 or fp16 (default: f32)",
    TEXTS,
    panel=VARY,
    field="precisions",
    read=words.words,
    metavar="P,…",
)
SHAPES = option(
    "--shape",
    "Shape of an input with open dimensions; repeatable",
    TEXTS,
    panel=MEASURE,
    field="shapes",
    read=words.shapes,
    metavar="NAME=1x3x224x224",
)
INPUT_DATA = option(
    "--input-data",
    "File with one array per input; its sizes also fix open dimensions (default: random inputs)",
    Path | None,
    panel=MEASURE,
    metavar="F.npz",
)
SEED = option("--seed", "Random seed", int, panel=MEASURE, default=0)
SCENARIO = option(
    "--scenario", "single-stream, offline or paced", str, panel=MEASURE, metavar="KIND", default="single-stream"
)
FPS = option("--fps", "Inputs per second in the scenario paced", float | None, panel=MEASURE)
ITERATIONS = option("--iterations", "Number of timed inferences per session", int | None, panel=MEASURE, metavar="N")
WARMUP = option(
    "--warmup",
    "Number of warm-up inferences per session (default: found from the data)",
    int | None,
    panel=MEASURE,
    metavar="N",
)
DURATION = option("--duration", "Time to measure for, per session", panel=MEASURE, read=words.seconds, metavar="5s")
TIMEOUT = option(
    "--timeout",
    "Kill a worker that has been silent for this long",
    str,
    panel=MEASURE,
    read=words.seconds,
    metavar="T",
    default="120s",
)
MEMORY_LIMIT = option(
    "--memory-limit",
    "Memory that a worker may allocate (default: available memory)",
    panel=MEASURE,
    read=words.size,
    metavar="2GiB",
)
CPUS = option(
    "--cpus", "Processors that the job may use, such as 0.5: simulates a smaller device", float | None, panel=LIMITS
)
MEMORY = option(
    "--memory",
    "Memory of all processes of the job together: simulates a smaller device",
    panel=LIMITS,
    read=words.size,
    metavar="2GiB",
)
CONSTRAINTS = (CPUS, MEMORY)
MECHANISM = option(
    "--mechanism",
    "cgroup-v2, cgroup-v1 or affinity-rlimit (default: the best that works)",
    panel=LIMITS,
    metavar="NAME",
)
BUILD = option(
    "--build", "A factory that returns a model, trained or not", panel=MODEL, field="", metavar="MODULE:FUNCTION"
)
CASES = option(
    "--what-if",
    "Keyword argument of the factory; several values (width=0.5,1) make one model each; repeatable",
    TEXTS,
    panel=MODEL,
    field="cases",
    read=words.cases,
    metavar="NAME=VALUE",
)

OUTPUTS = option(
    "-o --output",
    "Also write a report: .md, .html, .csv or .json; repeatable",
    list[Path] | None,
    panel=OUTPUT,
    field="",
    metavar="F",
)
FORCE = option("--force", "Overwrite output files", bool, panel=OUTPUT, field="", default=False)
DETAILS = option(
    "--details", "Print cautions, reasons and conditions in full", bool, panel=OUTPUT, field="", default=False
)
AS_JSON = option("--json", "Print one JSON document", bool, panel=OUTPUT, field="", default=False)
QUIET = option("-q --quiet", "Print no progress", bool, panel=OUTPUT, field="", default=False)
STORE = option(
    "--store",
    "Store of the runs: a path or a database URL (default: EDGEWISE_STORE, otherwise a file in your data folder)",
    panel=OUTPUT,
    field="",
    metavar="URL",
)
NO_STORE = option("--no-store", "Don't keep runs", bool, panel=OUTPUT, field="", default=False)
TOP = option(
    "--top", "Number of layers to print; 0 prints all", int, panel=OUTPUT, field="", metavar="N", default=15, min=0
)
DRY_RUN = option(
    "--dry-run",
    "Print what the command would do, without doing it; with --json, print the request for 'edgewise run'",
    bool,
    panel=OUTPUT,
    field="",
    default=False,
)
ABSOLUTE = option(
    "--absolute", "With --dry-run --json: make paths absolute", bool, panel=OUTPUT, field="", default=False
)
STORING = (QUIET, STORE, NO_STORE, DRY_RUN, ABSOLUTE)
"""Options of every command that saves runs."""
REPORTING = (FORCE, DETAILS, AS_JSON, *STORING)
"""Options of every command that measures, behind its report files."""
WHERE = (RUNTIMES, DEVICE, PROVIDERS)
FED = (BATCHES, PRECISIONS, SHAPES, INPUT_DATA, SEED)
PROTOCOL = (ITERATIONS, WARMUP)
WORKER = (TIMEOUT, MEMORY_LIMIT)
TASK = option(
    "--task",
    "classification, detection, segmentation … (default: from the YAML beside the model)",
    panel=DATA,
    metavar="TASK",
)
SPLIT = option(
    "--split",
    "Part of the data to evaluate (default: the first of test, validation, val, eval, dev, all, train)",
    panel=DATA,
    metavar="NAME",
)
LIMIT = option(
    "--limit",
    "Number of samples to evaluate, chosen at random by --seed (default: all)",
    int | None,
    panel=DATA,
    metavar="N",
)
STRICT = option("--strict", "Fail on a sample that can't be used", bool, panel=DATA, default=False)
DATA_FORMAT = option(
    "--data-format", "npz, folders, csv, coco, idx, wav, huggingface, loader", panel=DATA, metavar="FORMAT"
)
DATA_OPTIONS = option(
    "--data-option",
    "How to read the data; repeatable",
    TEXTS,
    panel=DATA,
    field="data_options",
    read=words.pairs,
    metavar="NAME=VALUE",
)
TASK_OPTIONS = option(
    "--task-option",
    "How to read the outputs; repeatable",
    TEXTS,
    panel=DATA,
    field="task_options",
    read=words.pairs,
    metavar="NAME=VALUE",
)
PREPARE = option(
    "--prepare",
    "Preparation of a sample, in order: resize=256, crop=224, scale=1/255; replaces the YAML's steps",
    TEXTS,
    panel=DATA,
    metavar="STEP=VALUE",
)
INSTRUCTIONS = option(
    "--instructions", "Read this file instead of the YAML beside the model", Path | None, panel=DATA, metavar="F.yaml"
)
CLASSES = option(
    "--classes", "File with the names of the model's classes, one per line", Path | None, panel=DATA, metavar="F.txt"
)
DATA_SEED = option("--seed", "Random seed", int, panel=DATA, default=0)
JUDGING = (
    TASK,
    SPLIT,
    LIMIT,
    DATA_SEED,
    STRICT,
    DATA_FORMAT,
    DATA_OPTIONS,
    TASK_OPTIONS,
    PREPARE,
    INSTRUCTIONS,
    CLASSES,
)
"""How to judge on data."""


def models_or_factory(models: Sequence[str] | None, build: str | None) -> tuple[str, ...]:
    """The models that were typed, or the factory. Raises `BadInput` where both are given, or neither."""
    if bool(models) == bool(build):
        raise BadInput("give model files or a factory with --build, and not both", advice="a model's file is enough")
    return tuple(models or ()) or (str(build),)
