"""``edgewise exec``: run any program as if on a smaller device."""

from __future__ import annotations

from pathlib import Path

from edgewise.cli import options
from edgewise.cli.bench import RunPresentation
from edgewise.cli.options import TEXTS, Values, argument, option, request_of, takes
from edgewise.cli.verb import output_of, perform
from edgewise.cli.words import seconds, words

OPTIONS = (
    argument("command", "Program and arguments, after --; {model} stands for a model.", TEXTS, metavar="-- CMD…",
             default=None),
    *options.CONSTRAINTS,
    options.MECHANISM,
    option("--sample", "Time between samples of the counters; 0 takes none", str, panel=options.MEASURE, read=seconds,
           metavar="T", default="0.5s"),
    option("--timeout", "Kill the command after this time", panel=options.MEASURE, read=seconds, metavar="T"),
    option("--repeat", "Number of executions; several give intervals", int, panel=options.MEASURE, metavar="N",
           default=1),
    option("-m --models", "Models to put in place of {model}, each measured and ranked", TEXTS, panel=options.VARY,
           read=words, metavar="A,B"),
    option("-f --models-file", "File with one model per line", Path | None, panel=options.VARY, metavar="F"),
    options.SEED.worded("Random seed of the order of executions"),
    options.OUTPUTS,
    *options.REPORTING,
)  # fmt: skip
PRESENTATION = RunPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Run a program as if on a smaller device: processor and memory limits, and what it used, with intervals.

    The program's standard input is empty, and its output goes to standard error.
    """
    from edgewise.service.requests import ExecRequest

    return perform(request_of(ExecRequest, OPTIONS, values), PRESENTATION, output_of(values))
