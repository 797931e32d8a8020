"""hyperfine and pyperf: benchmarks of programs and of Python functions.

Formats: hyperfine's ``--export-json`` (``src/export/json.rs`` of github.com/sharkdp/hyperfine, versions 1.12 to 1.20);
pyperf's JSON 1.0 (pyperf.readthedocs.io, "JSON format", and ``pyperf/_bench.py``).
"""

from __future__ import annotations

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer


def _finish_hyperfine(part: Part) -> None:
    for metric, processes in part.samples.items():
        part.samples[metric] = [[value] for process in processes for value in process]
    codes = part.json.get("exit_codes")
    failed = sum(code != 0 for code in codes) if isinstance(codes, list) else 0
    if failed:
        part.notes["total_time"] = f"{failed} of {len(codes)} executions ended with an exit code other than 0"


def _finish_pyperf(part: Part) -> None:
    unit = part.settings.pop("unit", "second")
    if unit != "second":
        raise part.source.error(f"{part.path}.metadata.unit", f"the unit is {unit!r}; only times (second) are read")


class Hyperfine(Importer):
    """``hyperfine --export-json``: one run per command, one sample per execution."""

    title = "hyperfine"
    runtime = "command"
    forms = (
        Form(
            title="JSON of --export-json",
            kind="json",
            mark=r'"results"\s*:\s*\[\s*\{\s*"command"\s*:',
            expects="the list results, each with command and times",
            method="wall time from start to end of a process, by hyperfine",
            each="results",
            sessions="processes of their own",
            fields=(
                Field(name="command", at="command"),
                Field(name="total_time", at="median", unit="s"),
                Field(name="total_time", at="times", unit="s", samples=True),
                Field(name="memory_group_peak", at="memory_usage_byte", unit="B", samples=True),
            ),
            finish=_finish_hyperfine,
        ),
    )


class Pyperf(Importer):
    """pyperf's JSON: one run per benchmark, the values of each process."""

    title = "pyperf"
    runtime = "python"
    forms = (
        Form(
            title="JSON",
            kind="json",
            mark=r'"benchmarks"\s*:\s*\[',
            expects="the list benchmarks, each with runs and their values",
            method="warm-up values left out; each value is the mean of a loop",
            each="benchmarks",
            sessions="processes of their own",
            fields=(
                Field(name="model", at="$.metadata.name"),
                Field(name="model", at="metadata.name"),
                Field(name="version", at="$.metadata.python_version"),
                Field(name="version", at="metadata.python_version"),
                Field(name="device", at="$.metadata.cpu_model_name"),
                Field(name="created", at="runs[*].metadata.date", once=True),
                Field(name="unit", at="$.metadata.unit"),
                Field(name="unit", at="metadata.unit"),
                Field(name="latency", at="runs[*].values", unit="s", samples=True),
            ),
            finish=_finish_pyperf,
        ),
    )
