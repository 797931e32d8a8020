"""Options of ``bench``."""

from __future__ import annotations

from edgewise.units import parse_duration
from edgewise.verbs import shared_options as options
from edgewise.verbs import words
from edgewise.verbs.option import option

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
