"""Options of ``gate``."""

from __future__ import annotations

from pathlib import Path

from edgewise.units import parse_duration
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import argument, option

OPTIONS = (
    argument(
        "candidate",
        "A model, a stored run or an exported file",
        str,
        metavar="CANDIDATE",
        choices=choices.runs_and_files,
        files=True,
    ),
    option(
        "--baseline B",
        options.LIMITS,
        "A stored run or its tag, an exported file, or a model",
        choices=choices.runs_and_files,
        files=True,
    ),
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
        choices=("pass", "fail", "retry"),
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
    option("-r --runtime NAME", options.VARY, "A runtime, or runtime/provider", choices=choices.runtimes),
    options.DEVICE,
    option("--provider NAME", options.VARY, "A provider"),
    option("-t --threads N", options.VARY, "Number of inference threads (default: the baseline run's, else 1)", int),
    option("--batch N", options.VARY, "Batch size (default: the baseline run's, else 1)", int),
    option("--precision P", options.VARY, "f32, bf16 or f16"),
    options.SIGNATURE,
    options.SHAPES,
    options.INPUT_DATA,
    options.SEED.worded("Random seed (default: the baseline run's, else 0)", kind=int, default=None),
    *options.WORKER,
    options.OUTPUTS.worded("Also write .xml (JUnit), .md (a comment), .json or .html; repeatable"),
    *options.REPORTING,
)
