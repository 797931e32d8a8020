"""``edgewise compare``: is B really faster than A? Measured side by side, with intervals and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.cli import options, words
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.errors import BadInput
from edgewise.units import parse_duration

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.service.requests import CompareRequest

OPTIONS = (
    argument(
        "subjects",
        "Models (files or FILE.py:FUNCTION), stored runs or exported files; NAME=MODEL gives a label, MODEL,threads=2 "
        "its settings",
        list[str],
        metavar="A B…",
    ),
    option(
        "--vary threads=1,2",
        options.VARY,
        "Compare settings: runtime, provider, threads, precision, batch, signature; repeatable",
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
        min=1,
        max=90,
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


class ComparePresentation(Presentation["ComparisonResult"]):
    """How a comparison is shown."""

    files = "COMPARISON"

    def show(self, result: ComparisonResult, console: Console, *, output: Output) -> None:
        """Verdicts, and what they rest on."""
        from edgewise.report.comparison import comparison_document
        from edgewise.report.text import print_titled

        print_titled(comparison_document(result), console, details=output.details)

    def has_failed(self, result: ComparisonResult) -> bool:
        """Whether a variant could not be measured."""
        return bool(result.failures) or any(variant.run.status == "failed" for variant in result.variants)


PRESENTATION = ComparePresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Measure models side by side, in turns, and report whether B is faster than A, with intervals and verdicts.

    The exit code is 4 if a variant could not be measured.
    """
    return perform(request_from(values), PRESENTATION, output_of(values))


def request_from(values: Values) -> CompareRequest:
    """The request that the command line describes. Raises `BadInput`."""
    from edgewise.service.requests import CompareRequest

    return request_of(CompareRequest, OPTIONS, values, **_varied(values))


def _varied(values: Values) -> dict[str, Any]:
    """The axes that ``--vary`` fills. Raises `BadInput` where another flag says something else."""
    from edgewise.service.requests import CompareRequest
    from edgewise.service.subjects import split_vary

    found: dict[str, Any] = {}
    for key, varied in split_vary(values["vary"]).items():
        axis = _VARIED[key]
        typed = values[axis.name]
        if typed and axis.read is not None and axis.read(typed) not in ((1,), tuple(varied)):
            raise BadInput(f"--vary {key} and {axis.flag} contradict each other", advice="give one")
        found[str(axis.field_of(CompareRequest))] = tuple(varied)
    return found
