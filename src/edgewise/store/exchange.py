"""Runs as files: one self-contained JSON bundle, CSV and Markdown to take away, JSON to bring back.

A file is written whole or not at all, and never in place of another one unless that was asked for.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, StoreError
from edgewise.metrics import METRICS
from edgewise.record import SCHEMA, Measurement, Run
from edgewise.store.codec import from_document, parse, to_document
from edgewise.store.upgrade import schema_of
from edgewise.text import for_csv, for_markdown
from edgewise.units import format_bytes, format_quantity

KIND = "edgewise-bundle"
MAX_BYTES = 128 * 2**20
"""The largest file that is read: parsed, JSON takes up to twenty times its size in memory."""

CSV_COLUMNS = (
    "run", "created", "model", "format", "runtime", "provider", "version", "threads", "batch", "scenario",
    "metric", "value", "low", "high", "unit", "basis", "method", "absent_because",
)  # fmt: skip

#: the metrics that the Markdown table shows, where any run has them
HEADLINES = (
    "latency", "latency_paced", "latency_first", "load_time", "throughput", "memory_peak", "energy", "model_size",
    "accuracy_top1",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a file held: its runs, each once, and how many times one came again with the same content."""

    runs: tuple[Run, ...]
    duplicates: int = 0


def bundle_document(runs: Iterable[Run]) -> dict[str, Any]:
    """`runs` as the JSON document of a bundle. Raises `BadInput` as `to_document` does."""
    return {"schema": SCHEMA, "kind": KIND, "runs": [to_document(run) for run in runs]}


def export_runs(runs: Sequence[Run], path: str | Path, *, overwrite: bool = False) -> None:
    """Write `runs` to `path`.

    Args:
        runs: in the order in which they are written.
        path: its ending says how: ``.json`` (everything; what `import_runs` reads), ``.csv`` (one row a measurement,
            SI base units) or ``.md`` (a table of headline metrics).
        overwrite: whether a file that is there may be replaced.

    Raises:
        BadInput: another ending, a file that is there, or a path that can't be written.
        StoreError: the disk is full or fails.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".json":
            text = json.dumps(bundle_document(runs), indent=1, allow_nan=False) + "\n"
        case ".csv":
            text = to_csv(runs)
        case ".md":
            text = to_markdown(runs)
        case other:
            raise BadInput(
                f"can't export to {other or 'a file without an ending'!r}", advice="write .json, .csv or .md"
            )
    write_file(path, text, overwrite=overwrite)


def import_runs(path: str | Path) -> list[Run]:
    """The runs in the JSON file at `path`, in its order, each once. Raises as `read_bundle` does."""
    return list(read_bundle(path).runs)


def read_bundle(path: str | Path) -> Bundle:
    """What the JSON file at `path` holds: a bundle, what ``--json`` of a command printed, or a single run.

    Raises:
        BadInput: no such file, too large, not JSON, no runs, a field that is missing or wrong (named by its path), a
            newer schema, or two runs with the same id and different content.
    """
    path = Path(path)
    try:
        document = parse(_read(path))
    except BadInput as error:
        raise BadInput(
            error.message if str(path) in error.message else f"{path}: {error.message}", advice=error.advice
        ) from error
    if not isinstance(document, Mapping):
        raise BadInput(f"{path} holds no runs", advice="export some with 'edgewise runs export -o F.json'")
    if "runs" not in document:
        return Bundle(runs=(_run(document, where=str(path)),))
    rows = document["runs"]
    if not isinstance(rows, list):
        raise BadInput(f"{path}: runs: is not a list", advice="export it again with 'edgewise runs export -o F.json'")
    if document.get("kind", KIND) != KIND:
        raise BadInput(f"{path}: kind: {document['kind']!r} is not {KIND!r}", advice="is this a file of edgewise?")
    if "schema" in document:
        schema = schema_of(document)
        if schema > SCHEMA:
            raise BadInput(
                f"{path} has schema {schema}: it was written by a newer edgewise (this one reads up to {SCHEMA})",
                advice="update edgewise, or read it where it was written",
            )
    found: dict[str, Run] = {}
    for index, row in enumerate(rows):
        run = _run(row, where=f"{path}: runs[{index}]")
        if run.id in found and to_document(found[run.id]) != to_document(run):
            raise BadInput(f"{path}: runs[{index}]: run {run.id} comes twice, with different content")
        found.setdefault(run.id, run)
    return Bundle(runs=tuple(found.values()), duplicates=len(rows) - len(found))


def to_csv(runs: Iterable[Run]) -> str:
    """One row a measurement, in SI base units and full precision; absent values are empty, and the row says why."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        job = run.job
        common = {
            "run": run.id, "created": run.created_at, "model": job.model.name, "format": job.model.format,
            "runtime": job.runtime.name, "provider": job.runtime.provider, "version": job.runtime.version,
            "threads": job.runtime.threads, "batch": job.workload.batch, "scenario": job.workload.scenario.kind,
        }  # fmt: skip
        for row in to_document(run)["measurements"]:
            cells = common | {name: row[name] for name in CSV_COLUMNS if name in row}
            writer.writerow({name: for_csv(cell) if isinstance(cell, str) else cell for name, cell in cells.items()})
    return stream.getvalue()


def to_markdown(runs: Sequence[Run]) -> str:
    """A table of the headline metrics, one row a run, with what is absent and why below it."""
    names = [name for name in HEADLINES if any(run.measurement(name) is not None for run in runs)]
    head = [
        "Run",
        "Model",
        "Runtime",
        "Threads",
        "Batch",
        "Scenario",
        *(METRICS[name].label for name in names),
        "Trust",
    ]
    lines = [_line(head), "|" + " --- |" * len(head)]
    notes: dict[str, int] = {}
    for run in runs:
        cells = [_cell(run.measurement(name), notes=notes) for name in names]
        job = run.job
        runtime = "/".join(filter(None, (job.runtime.name, job.runtime.provider)))
        settings = ["default" if job.runtime.threads is None else str(job.runtime.threads), str(job.workload.batch)]
        grade = run.trust.grade if run.trust else run.status
        fixed = [run.id, job.model.name, runtime, *settings, job.workload.scenario.kind]
        lines.append(_line([*fixed, *cells, grade]))
    text = "\n".join(lines) + "\n\nIn parentheses: 95 % interval. Values are measured unless they say otherwise.\n"
    return text + "".join(f"\n{number}. {for_markdown(why)}" for why, number in notes.items()) + ("\n" if notes else "")


def write_file(path: Path, content: str | bytes, *, overwrite: bool) -> None:
    """Put `content`, text as UTF-8, at `path`, whole or not at all. Raises `BadInput`, `StoreError` for a bad disk."""
    if path.exists() and not overwrite:
        raise _exists(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            temporary.replace(path)
        else:
            _put_where_nothing_is(temporary, path)
    except OSError as error:
        kind = StoreError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO) else BadInput
        raise kind(f"can't write {path}: {error.strerror}", advice="write to another place") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _put_where_nothing_is(temporary: Path, path: Path) -> None:
    try:
        path.hardlink_to(temporary)  # unlike a rename, fails where another process was faster
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without hard links, such as a memory card's
        if path.exists():
            raise _exists(path) from None
        temporary.replace(path)


def _exists(path: Path) -> BadInput:
    return BadInput(f"{path} is there already", advice="write to another place, or replace it with --force")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadInput(f"can't read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > MAX_BYTES:
        raise BadInput(
            f"{path} is larger than {format_bytes(MAX_BYTES)}",
            advice="export fewer runs at a time, and import each file",
        )
    return content


def _run(document: Any, *, where: str) -> Run:
    try:
        return from_document(document)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}", advice=error.advice) from error


def _cell(row: Measurement | None, *, notes: dict[str, int]) -> str:
    if row is None:
        return "not measured"
    if row.value is None:
        why = f"{METRICS[row.metric].label}: {row.absent_because or 'no reason was recorded'}"
        return f"absent ({notes.setdefault(why, len(notes) + 1)})"
    text = format_quantity(row.value, row.unit)
    if row.low is not None and row.high is not None:
        text += f" ({format_quantity(row.low, row.unit)} to {format_quantity(row.high, row.unit)})"
    return text if row.basis == "measured" else f"{text}, {row.basis or 'basis unknown'}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(for_markdown(cell) for cell in cells) + " |"
