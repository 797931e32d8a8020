"""``edgewise exec``: run any program as if on a smaller device."""

from __future__ import annotations

from pathlib import Path

from edgewise.cli import options
from edgewise.cli.bench import RunPresentation
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import output_of, perform
from edgewise.cli.words import words
from edgewise.units import parse_duration

OPTIONS = (
    argument("command", "Program and arguments, after --; {model} stands for a model.", list[str], metavar="-- CMD…"),
    *options.CONSTRAINTS,
    option(
        "--sample T",
        options.MEASURE,
        "Time between samples of the counters; 0s takes none",
        read=parse_duration,
        default="0.5s",
    ),
    option("--timeout T", options.MEASURE, "Kill the command after this time", read=parse_duration),
    option("--repeat N", options.MEASURE, "Number of executions; several give intervals", int, default=1),
    option(
        "-m --models A,B",
        options.VARY,
        "Models to put in place of {model}; each is measured, and they are ranked",
        list[str],
        read=words,
    ),
    option("-f --models-file F", options.VARY, "File with one model per line", Path),
    options.SEED.worded("Random seed of the order of executions"),
    options.OUTPUTS,
    *options.REPORTING,
)
PRESENTATION = RunPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Run a program as if on a smaller device: processor and memory limits, and what it used, with intervals.

    The program's standard input is empty, and its output goes to standard error.
    """
    from edgewise.service.requests import ExecRequest

    return perform(request_of(ExecRequest, OPTIONS, values), PRESENTATION, output_of(values))
