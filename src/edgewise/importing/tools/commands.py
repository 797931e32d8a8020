"""hyperfine and pyperf: benchmarks of programs and of Python functions.

Formats: hyperfine's ``--export-json`` (``src/export/json.rs`` of github.com/sharkdp/hyperfine, versions 1.12 to 1.20);
pyperf's JSON 1.0 (pyperf.readthedocs.io, "JSON format", and ``pyperf/_bench.py``).
"""

from __future__ import annotations

from collections import Counter

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer
from edgewise.text import enumerate_few

_OF_SHELLS = {126: "the shell can't execute the program", 127: "the shell finds no such program"}
"""Meaning of an exit code where a shell started the program, as hyperfine does by default."""


def _finish_hyperfine(part: Part) -> None:
    """Take a process per execution, and leave out those that failed, which ``--ignore-failure`` keeps in the lists."""
    for metric, processes in part.samples.items():
        part.samples[metric] = [[value] for process in processes for value in process]
    codes = _read_exit_codes(part)
    failed = Counter(code for code in codes if code != 0)
    if not failed:
        return
    if failed.total() == len(codes):
        (code,) = failed if len(failed) == 1 else (None,)
        every = f"all {len(codes)} executions" if len(codes) > 1 else "the only execution"
        part.fail(f"{every} failed: {_describe_failures(failed)}", cause="CommandFailed", exit_code=code)
    else:
        verb = "are" if failed.total() > 1 else "is"
        part.left_out = (
            f"{failed.total()} of {len(codes)} executions failed and {verb} left out: {_describe_failures(failed)}"
        )
        part.values.pop("total_time", None)  # hyperfine's median is over all executions
        for metric, processes in part.samples.items():
            part.samples[metric] = [each for each, code in zip(processes, codes, strict=True) if code == 0]
            part.notes[metric] = part.left_out
    part.effective |= {"executions": len(codes), "failed_executions": failed.total()}


def _read_exit_codes(part: Part) -> list[int | None]:
    """Return the exit code of each execution, None after a signal; empty in files of versions that wrote none."""
    at, codes = f"{part.path}.exit_codes", part.json.get("exit_codes") or []
    if not isinstance(codes, list) or any(type(code) not in (int, type(None)) for code in codes):
        raise part.source.error(at, "expected a list of whole numbers")
    for metric, processes in part.samples.items():
        if codes and len(processes) != len(codes):
            raise part.source.error(at, f"{len(codes)} exit codes of {len(processes)} values of {metric}")
    return codes


def _describe_failures(failed: Counter[int | None]) -> str:
    """Describe failures: ``exit code 2 (4 times)``."""
    kinds = []
    for code, count in failed.most_common():
        word = "ended by a signal" if code is None else f"exit code {code}"
        details = [_OF_SHELLS[code]] if code in _OF_SHELLS else []
        details += [f"{count} times"] if count > 1 else []
        kinds.append(word + (f" ({', '.join(details)})" if details else ""))
    return enumerate_few(kinds)


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
            title="JSON of --export-json", kind="json", mark=r'"results"\s*:\s*\[\s*\{\s*"command"\s*:',
            expects="the list results, each with command and times",
            method="wall time from start to end of a process, by hyperfine", each="results",
            sessions="processes of their own",
            fields=(
                Field("command", "command"),
                Field("total_time", "median", unit="s"),
                Field("total_time", "times", unit="s", samples=True),
                Field("memory_group_peak", "memory_usage_byte", unit="B", samples=True),
            ),
            finish=_finish_hyperfine,
        ),
    )  # fmt: skip


class Pyperf(Importer):
    """pyperf's JSON: one run per benchmark, the values of each process."""

    title = "pyperf"
    runtime = "python"
    forms = (
        Form(
            title="JSON",
            kind="json",
            mark=r'"benchmarks"\s*:\s*\[\s*\{\s*"(?:metadata|runs)"',  # a list that other tools have, too
            expects="the list benchmarks, each with runs and their values",
            method="warm-up values left out; each value is the mean of a loop",
            each="benchmarks",
            sessions="processes of their own",
            fields=(
                Field("model", "$.metadata.name"), Field("model", "metadata.name"),
                Field("version", "$.metadata.python_version"), Field("version", "metadata.python_version"),
                Field("device", "$.metadata.cpu_model_name"), Field("created", "runs[*].metadata.date", once=True),
                Field("unit", "$.metadata.unit"), Field("unit", "metadata.unit"),
                Field("latency", "runs[*].values", unit="s", samples=True),
            ),
            finish=_finish_pyperf,
        ),
    )  # fmt: skip
