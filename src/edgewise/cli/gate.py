"""``edgewise gate``: does a candidate meet its limits against a baseline? Made for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cli import options
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.units import parse_duration

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.comparing.gate import GateResult

OPTIONS = (
    argument("candidate", "A model, a stored run or an exported file", str, metavar="CANDIDATE"),
    option("--baseline B", options.LIMITS, "A stored run or its tag, an exported file, or a model"),
    option(
        "--max-regression 3%",
        options.LIMITS,
        "Largest regression against the baseline; for single metrics: latency=3%,memory_peak=5%",
        list[str],
    ),
    option(
        "--budget latency=5ms,…",
        options.LIMITS,
        "Limits of the candidate's own values; also accuracy_drop=1pt, against the baseline",
        list[str],
    ),
    option(
        "--on-inconclusive WORD",
        options.LIMITS,
        "Result of an inconclusive check: pass, fail, or retry (measure again for longer, then fail)",
        default="retry",
    ),
    option(
        "--data PATH",
        options.DATA,
        "Labelled samples: judge both models on them too, for limits such as --budget accuracy_drop=1pt",
    ),
    *(one for one in options.JUDGING if one.name != "seed"),
    option("--baseline-model F", options.MEASURE, "Model file of a baseline run, to measure the baseline again", Path),
    option("--stored", options.MEASURE, "Use the baseline's stored samples instead of measuring it again", bool),
    option(
        "--time-budget T",
        options.MEASURE,
        "Time limit of measuring; each retry has twice the time",
        read=parse_duration,
        default="60s",
    ),
    option("-r --runtime NAME", options.VARY, "A runtime, or runtime/provider"),
    options.DEVICE,
    option("--provider NAME", options.VARY, "A provider"),
    option("-t --threads N", options.VARY, "Number of inference threads (default: the baseline run's, else 1)", int),
    option("--batch N", options.VARY, "Batch size (default: the baseline run's, else 1)", int),
    option("--precision P", options.VARY, "f32, bf16 or f16"),
    options.SIGNATURE,
    options.SHAPES,
    options.INPUT_DATA,
    options.SEED.worded("Random seed (default: the baseline run's, else 0)", type=int, default=None),
    *options.WORKER,
    options.OUTPUTS.worded("Also write .xml (JUnit), .md (a comment), .json or .html; repeatable"),
    *options.REPORTING,
)


class GatePresentation(Presentation["GateResult"]):
    """How the result of a gate is shown."""

    files = "GATE"

    def show(self, result: GateResult, console: Console, *, output: Output) -> None:
        """Checks, and what they rest on."""
        from edgewise.report.gate import gate_document
        from edgewise.report.text import print_document

        print_document(gate_document(result), console, details=output.details)

    def finish(self, result: GateResult, *, output: Output) -> int:
        """The verdict alone: a store that fails changes nothing about it."""
        return result.exit_code


PRESENTATION = GatePresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Check a candidate against limits.

    The exit code is 0 if all limits are met, 5 if a limit is not met, and 4 if a check could not be measured.
    If a check stays inconclusive, the exit code is 5, or 0 with --on-inconclusive pass.
    """
    from edgewise.service.requests import GateRequest

    return perform(request_of(GateRequest, OPTIONS, values), PRESENTATION, output_of(values))
