"""Options of ``compare``, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.units import parse_duration
from edgewise.verbs import choices, words
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, argument, option, request_of

if TYPE_CHECKING:
    from edgewise.verbs.compare.request import CompareRequest

OPTIONS = (
    argument(
        "subjects",
        "Models (files or FILE.py:FUNCTION), stored runs or exported files; NAME=MODEL gives a label, MODEL,threads=2 "
        "its settings",
        list[str],
        metavar="A B…",
        choices=choices.runs_and_files,
        files=True,
    ),
    option(
        "--vary threads=1,2",
        options.VARY,
        "Compare settings: runtime, provider, threads, precision, batch, signature; or versions of an engine, "
        "onnxruntime=1.30.0,1.32.0, each in a Python environment of its own; repeatable",
        list[str],
    ),
    options.RUNTIMES.worded("Runtimes by name or name/provider (default: the runtime of the model's own format)"),
    options.DEVICE,
    options.PROVIDERS,
    options.THREADS,
    options.SETTINGS,
    *options.FED,
    options.SCENARIO,
    options.FPS,
    options.WARMUP,
    option(
        "--time-budget T",
        options.MEASURE,
        "Time limit of measuring (default: 60s for two variants, 30s more for each further one)",
        read=parse_duration,
    ),
    option(
        "--rounds N",
        options.MEASURE,
        "Maximum number of rounds; each round starts a fresh process per variant",
        int,
        minimum=1,
        maximum=90,
    ),
    option("--stored", options.MEASURE, "Use the samples of stored runs instead of measuring their models again", bool),
    option("--meters/--no-meters", options.MEASURE, "Read sensors, about 3 s per process", bool),
    *options.WORKER,
    *options.CONSTRAINTS,
    option(
        "--metrics M,…",
        options.VERDICT,
        "Metrics by id (default: latency, throughput, memory, size, energy and accuracy, if a run has them)",
        list[str],
        read=words.words,
    ),
    option("--until M", options.VERDICT, "The metric whose verdict ends the measurement (default: latency)"),
    option(
        "--threshold 3%",
        options.VERDICT,
        "Largest relative difference that doesn't matter",
        read=words.share,
        default="3%",
    ),
    option(
        "--floor latency=1us",
        options.VERDICT,
        "Largest absolute difference that doesn't matter; repeatable",
        list[str],
        read=words.floors,
        field="floors",
    ),
    option("--pareto M,…", options.VERDICT, "Metrics of the Pareto front", list[str], read=words.words),
    options.OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"),
    options.FORCE.worded("Compare even if it is unfair, such as different input shapes; overwrite output files"),
    options.DETAILS,
    options.AS_JSON,
    *options.STORING,
)
_VARIED = {
    "runtime": options.RUNTIMES,
    "provider": options.PROVIDERS,
    "threads": options.THREADS,
    "precision": options.PRECISIONS,
    "batch": options.BATCHES,
    "signature": options.SIGNATURES,
}


def read(values: Values) -> CompareRequest:
    """The request that the options describe. Raises `BadInput`."""
    from edgewise.verbs.compare.request import CompareRequest

    return request_of(CompareRequest, OPTIONS, values, **_varied(values))


def _varied(values: Values) -> dict[str, Any]:
    """The axes that ``--vary`` fills. Raises `BadInput` where another flag says something else."""
    from edgewise.verbs.compare.request import CompareRequest
    from edgewise.verbs.subjects import split_vary

    found: dict[str, Any] = {}
    for key, varied in split_vary(values["vary"]).items():
        if key not in _VARIED:
            found["environments"] = tuple(varied)
            continue
        axis = _VARIED[key]
        typed = values[axis.name]
        if typed and axis.read is not None and axis.read(typed) not in ((1,), tuple(varied)):
            raise BadInput(f"--vary {key} and {axis.flag} contradict each other", advice="give one")
        found[str(axis.field_of(CompareRequest))] = tuple(varied)
    return found
