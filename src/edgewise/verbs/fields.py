"""Fields that requests of several verbs have: each with its type, and the option that fills it on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from edgewise.units import parse_duration, parse_size
from edgewise.verbs import choices, words
from edgewise.verbs.option import argument, option
from edgewise.verbs.request import Case, FilePath, Number, Settings, Shapes, Texts, Whole
from edgewise.verbs.shared_options import DATA, MEASURE, MODEL, SIGNATURE, VARY

Models = Annotated[
    tuple[FilePath, ...],
    argument(
        "models",
        ".onnx, .ort, .tflite, OpenVINO .xml, .pt2, .pte, .keras, .pb, .pdmodel, .gguf, the folder of a "
        "SavedModel, of ONNX Runtime GenAI or of OpenVINO GenAI, or FILE.py:FUNCTION.",
        list[str],
        metavar="MODEL",
    ),
]
Cases = Annotated[
    tuple[Case, ...],
    option(
        "--what-if NAME=VALUE",
        MODEL,
        "Keyword argument of the factory; several values (width=0.5,1) make one model each; repeatable",
        read=words.cases,
        not_asked="it is for functions that make models",
    ),
]
Runtimes = Annotated[
    Texts,
    option(
        "-r --runtime A,B",
        VARY,
        "Runtimes by name or name/provider (default: all installed)",
        choices=choices.runtimes,
        common=True,
    ),
]
Device = Annotated[
    str,
    option(
        "-d --device NAME",
        VARY,
        "Device to measure on: its name, or a URL such as ssh://USER@HOST",
        choices=choices.measured_devices,
        common=True,
    ),
]
Lab = Annotated[
    bool,
    option(
        "--lab",
        MEASURE,
        "Let hosts of the lab in the store (--store, EDGEWISE_STORE) do it; -d takes names and tags of its devices",
        not_asked="the studio works on this machine",
    ),
]
Providers = Annotated[Texts, option("--provider A,B", VARY, "Providers by name (default: each runtime's first)")]
Threads = Annotated[tuple[Whole, ...], option("-t --threads 1,2", VARY, "Thread counts (default: 1)", common=True)]
EngineSettings = Annotated[
    Settings,
    option(
        "--set NAME=VALUE",
        VARY,
        "Setting of the engine by its own name, such as channels_last=true for torch; repeatable",
    ),
]
Precisions = Annotated[
    Texts,
    option(
        "--precision P,…",
        VARY,
        "f32 or fp32, bf16, f16 or fp16 (default: f32)",
        choices=("f32", "bf16", "f16"),
        common=True,
    ),
]
Signature = Annotated[str, SIGNATURE]
Signatures = Annotated[
    Texts,
    option(
        "--signature NAME,…",
        VARY,
        "Entry points of files with several signatures, such as a .tflite with encode and decode (default: the first)",
    ),
]
Environments = Annotated[
    Texts,
    option(
        "--environment REQ",
        VARY,
        "Python environment with the engine: onnxruntime==1.30.0, which is made once, the path of one, or "
        "container://IMAGE; local is edgewise's own; repeatable",
        list[str],
    ),
]
Variables = Annotated[
    Texts,
    option(
        "--env NAME=VALUE",
        VARY,
        "Environment variable for the engine's process, such as OMP_WAIT_POLICY=active; repeatable, several values of "
        "one name are varied",
        list[str],
        not_asked="a variable may load code",
    ),
]
InputShapes = Annotated[
    Shapes,
    option(
        "--shape NAME=1x3x224x224",
        MEASURE,
        "Shape of an input with open dimensions; repeatable",
        read=words.shapes,
        common=True,
    ),
]
InputData = Annotated[
    FilePath | None,
    option(
        "--input-data F.npz",
        MEASURE,
        "File with one array per input; its sizes also fix open dimensions (default: random inputs); prompts of the "
        'scenario generate: a .jsonl with a line {"prompt": …} each',
        Path,
    ),
]
Seed = Annotated[Whole, option("--seed N", MEASURE, "Random seed")]
Fps = Annotated[Number | None, option("--fps N", MEASURE, "Inputs per second in the scenario paced")]
NewTokens = Annotated[
    Whole | None,
    option("--new-tokens N", MEASURE, "Tokens that each request of the scenario generate makes (default: 128)"),
]
Warmup = Annotated[
    Whole | None,
    option("--warmup N", MEASURE, "Number of warm-up inferences per session (default: found from the data)"),
]
Timeout = Annotated[
    Number,
    option(
        "--timeout T", MEASURE, "Kill a worker that has been silent for this long", read=parse_duration, default="120s"
    ),
]
MemoryLimit = Annotated[
    Whole | None,
    option(
        "--memory-limit 2GiB", MEASURE, "Memory that a worker may allocate (default: available memory)", read=parse_size
    ),
]
Prepare = Annotated[
    Texts,
    option(
        "--prepare STEP=VALUE",
        DATA,
        "Preparation of a sample, in order: resize=256 (or crop, pad, letterbox: the size to reach), scale=1/255; "
        "replaces the YAML's steps",
        list[str],
        common=True,
    ),
]
