"""``edgewise compare``: is B really faster than A? Measured side by side, with intervals and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.cli import options, words
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import Output, Presentation, finish, output_of, perform
from edgewise.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.comparing.comparison import ComparisonResult

OPTIONS = (
    argument(
        "subjects",
        "Models (files or FILE.py:FUNCTION), stored runs or exported files; NAME=MODEL names one, MODEL,threads=2 sets "
        "its engine",
        list[str],
        metavar="A B…",
    ),
    option(
        "--vary",
        "Compare settings: runtime, provider, threads, precision, batch; repeatable",
        options.TEXTS,
        panel=options.VARY,
        field="",
        metavar="threads=1,2",
    ),
    options.RUNTIMES.worded("Runtimes by name or name/provider (default: the runtime of the model's own format)"),
    options.DEVICE,
    options.PROVIDERS,
    options.THREADS,
    *options.FED,
    options.SCENARIO,
    options.FPS,
    options.WARMUP,
    option(
        "--time-budget",
        "Time limit of measuring (default: 60s for two variants, 30s more for each further one)",
        panel=options.MEASURE,
        read=words.seconds,
        metavar="T",
    ),
    option(
        "--rounds",
        "Maximum number of rounds; each round starts a fresh process per variant",
        int | None,
        panel=options.MEASURE,
        metavar="N",
        min=1,
        max=90,
    ),
    option(
        "--duet",
        "Measure all variants at the same time, each on its own cores",
        bool,
        panel=options.MEASURE,
        default=False,
    ),
    option("--stored", "Don't measure the models of stored runs again", bool, panel=options.MEASURE, default=False),
    option("--meters/--no-meters", "Read sensors, about 3 s per process", bool, panel=options.MEASURE, default=False),
    *options.WORKER,
    option(
        "--metrics",
        "Metrics by id (default: latency, throughput, memory, size, energy and accuracy, if a run has them)",
        options.TEXTS,
        panel=options.VERDICT,
        read=words.words,
        metavar="M,…",
    ),
    option(
        "--until",
        "The metric whose verdict ends the measurement (default: latency)",
        panel=options.VERDICT,
        metavar="M",
    ),
    option(
        "--threshold",
        "Relative difference up to which a difference doesn't matter",
        str,
        panel=options.VERDICT,
        read=words.share,
        metavar="3%",
        default="3%",
    ),
    option(
        "--floor",
        "Absolute difference up to which a difference doesn't matter; repeatable",
        options.TEXTS,
        panel=options.VERDICT,
        field="floors",
        read=words.floors,
        metavar="latency=1us",
    ),
    option(
        "--pareto", "Metrics of the Pareto front", options.TEXTS, panel=options.VERDICT, read=words.words, metavar="M,…"
    ),
    options.OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"),
    options.FORCE.worded("Compare what can't be compared fairly; overwrite the output"),
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
}


class ComparePresentation(Presentation["ComparisonResult"]):
    """How a comparison is shown."""

    files = "COMPARISON"

    def show(self, result: ComparisonResult, console: Console, *, output: Output) -> None:
        """Verdicts, and what they rest on."""
        from edgewise.report.comparison import print_comparison

        print_comparison(result, console, details=output.details)

    def finish(self, result: ComparisonResult, *, output: Output) -> int:
        """Exit code 4 where a variant could not be measured."""
        failed = result.failures or any(variant.run.status == "failed" for variant in result.variants)
        if failed and not result.interrupted:
            return ExitCode.RUN_FAILED
        return finish(result, output=output)


PRESENTATION = ComparePresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Measure models side by side, in turns, and report whether B is faster than A, with intervals and verdicts.

    The exit code is 4 if a variant could not be measured.
    """
    from edgewise.service.requests import CompareRequest

    request = request_of(CompareRequest, OPTIONS, values, force=values["force"], **_varied(values))
    return perform(request, PRESENTATION, output_of(values))


def _varied(values: Values) -> dict[str, Any]:
    """The axes that ``--vary`` fills. Raises `BadInput` where another flag says something else."""
    from edgewise.service.subjects import split_vary

    found: dict[str, Any] = {}
    for key, varied in split_vary(values["vary"]).items():
        axis = _VARIED[key]
        typed = values[axis.name]
        if typed and axis.read is not None and axis.read(typed) not in ((1,), tuple(varied)):
            raise BadInput(f"--vary {key} and {axis.flag} contradict each other", advice="give one")
        found[axis.field] = tuple(varied)
    return found
