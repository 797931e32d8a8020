"""``edgewise bench``: measure models on every runtime, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli.verb import Output, Presentation, output_of, perform, say_skipped
from edgewise.units import parse_duration
from edgewise.verbs import shared_options as options
from edgewise.verbs import words
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, option, request_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.service.measuring import Measured
    from edgewise.service.requests import BenchRequest

OPTIONS = (
    options.MODELS,
    options.RUNTIMES,
    options.DEVICE.worded(
        "Devices to measure on, one after the other: names, or URLs such as ssh://USER@HOST",
        kind=list[str],
        default=None,
        read=lambda given: ",".join(words.words(given)),
    ),
    options.PROVIDERS,
    options.THREADS.worded("Thread counts (default: 1; offline: all usable cores)"),
    options.SETTINGS,
    *options.FED,
    options.SCENARIO.worded(
        "single-stream, offline, paced or cold-start", choices=("single-stream", "offline", "paced", "cold-start")
    ),
    options.FPS,
    option("--streams N", options.MEASURE, "Number of parallel streams in the scenario offline", int),
    option("--requests N", options.MEASURE, "Number of requests in flight in the scenario offline", int),
    *options.PROTOCOL,
    options.DURATION,
    option(
        "--sessions N",
        options.MEASURE,
        "Number of fresh processes (default: 5; 1 with --iterations, --warmup or --duration)",
        int,
    ),
    option(
        "--spread 10min",
        options.MEASURE,
        "Spread the session starts over this time (10 unless --sessions is given), so that the interval includes the "
        "variation of the machine's speed",
        read=parse_duration,
    ),
    option(
        "--sustained 30min",
        options.MEASURE,
        "Run inferences without a break for this time in one process; show latency, clock and temperature over time",
        read=parse_duration,
    ),
    option(
        "--duty-cycle 20%",
        options.MEASURE,
        "Share of the time in which inferences run, with rests in between: simulates a power limit",
        read=words.share,
    ),
    option(
        "--drop-cache",
        options.MEASURE,
        "Drop the model's files from the file cache before each start in the scenario cold-start",
        bool,
    ),
    option("--background-load N", options.MEASURE, "Number of busy processes beside the model", int),
    option(
        "--background-kind KIND",
        options.MEASURE,
        "Work of the background processes: compute or memory (default: compute)",
        choices=("compute", "memory"),
    ),
    option("--report-every N", options.MEASURE, "Print the running average every N inferences", int),
    *options.WORKER,
    *options.CONSTRAINTS,
    option("--meters/--no-meters", options.MEASURE, "Read sensors where there are any", bool, default=True),
    options.OUTPUTS,
    *options.REPORTING,
)


class RunPresentation(Presentation["Measured"]):
    """How runs are shown.

    Attributes:
        profiles: whether the runs have profiles.
    """

    profiles = False

    def check_file(self, path: Path, *, overwrite: bool) -> None:
        """Refuse what is no report, or in the way."""
        from edgewise.report.files import check_target

        check_target(path, overwrite=overwrite, profiles=self.profiles)

    def document(self, result: Measured) -> Any:
        """Runs and recommendations."""
        from edgewise.report.files import runs_document

        say_skipped(result.skipped)
        return runs_document(result.runs)

    def show(self, result: Measured, console: Console, *, output: Output) -> None:
        """The table of `bench`."""
        from edgewise.report.bench import bench_document
        from edgewise.report.text import print_document

        if result.runs:
            print_document(bench_document(result.runs), console, details=output.details)
        say_skipped(result.skipped)

    def write(self, result: Measured, path: Path, *, overwrite: bool) -> None:
        """In the format of the extension; nothing without runs."""
        from edgewise.report.files import write_report

        write_report(result.runs, path, overwrite=overwrite)

    def has_failed(self, result: Measured) -> bool:
        """Whether a run failed, or a device could not measure."""
        return bool(result.devices_left_out) or any(run.status == "failed" for run in result.runs)


PRESENTATION = RunPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Measure models on every runtime, side by side: latency, throughput, memory, start-up, with intervals."""
    return perform(request_from(values), PRESENTATION, output_of(values))


def request_from(values: Values) -> BenchRequest:
    """The request that the command line describes. Raises `BadInput`."""
    from edgewise.service.requests import BenchRequest

    return request_of(BenchRequest, OPTIONS, values)
