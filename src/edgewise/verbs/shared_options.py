"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.verbs.option import option

MEASURE, VARY, OUTPUT, MODEL = "How to measure", "What to vary", "Output", "Which model"
LIMITS, VERDICT, DATA = "Limits", "What decides a verdict", "Data and task"
PLAIN = "Options"
"""The heading of a command with few options."""


SIGNATURE = option("--signature NAME", MODEL, "Entry point of a file with several signatures (default: the first)")
BUILD = option(
    "--build MODULE:FUNCTION",
    MODEL,
    "A factory that returns a model, trained or not",
    common=True,
    not_asked="a function runs code",
)

OUTPUTS = option(
    "-o --output F", OUTPUT, "Also write a report: .md, .html, .csv or .json; repeatable", list[Path], common=True
)
FORCE = option("--force", OUTPUT, "Overwrite output files", bool)
DETAILS = option("--details", OUTPUT, "Print cautions, reasons and conditions in full", bool)
AS_JSON = option("--json", OUTPUT, "Print one JSON document", bool, common=True)
QUIET = option("-q --quiet", OUTPUT, "Print no progress", bool)
STORE = option(
    "--store URL",
    OUTPUT,
    "Store of the runs: a path or a database URL (default: EDGEWISE_STORE, otherwise a file in your data folder)",
)
JSON_TOO, STORE_TOO = (replace(one, panel=PLAIN) for one in (AS_JSON, STORE))
NO_STORE = option("--no-store", OUTPUT, "Don't keep runs", bool)
TOP = option("--top N", OUTPUT, "Number of layers to print; 0 prints all", int, default=15, minimum=0, common=True)
DRY_RUN = option(
    "--dry-run",
    OUTPUT,
    "Print what the command would do, without doing it; with --json, print the request for 'edgewise run'",
    bool,
)
ABSOLUTE = option("--absolute", OUTPUT, "With --dry-run --json: make paths absolute", bool)
STORING = (QUIET, STORE, NO_STORE, DRY_RUN, ABSOLUTE)
"""Options of every command that saves runs."""
REPORTING = (FORCE, DETAILS, AS_JSON, *STORING)
"""Options of every command that measures, behind its report files."""


def models_or_factory(models: Sequence[str] | None, build: str | None) -> tuple[str, ...]:
    """Return the given models, or the factory. Raises `BadInput` where both are given, or neither."""
    if bool(models) == bool(build):
        raise BadInput("give model files or a factory with ⟦build⟧, and not both", advice="a model's file is enough")
    return tuple(models or ()) or (str(build),)
