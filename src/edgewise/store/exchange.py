"""Runs as files: one self-contained JSON bundle, CSV to take away, JSON to bring back.

A file is written whole or not at all, and never in place of another one unless that was asked for.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from edgewise.errors import BadInput, StoreError
from edgewise.folders import check_place
from edgewise.metrics import WITHOUT_A_RUN
from edgewise.record import SCHEMA, Run
from edgewise.store.codec import encode, from_document, parse, to_document
from edgewise.store.merging import later_version
from edgewise.store.redaction import redact_run_paths
from edgewise.store.series import newest_of_each_setting, openmetrics, same_setting, series_csv
from edgewise.store.tables import row_of
from edgewise.store.upgrade import schema_of
from edgewise.text import for_csv
from edgewise.units import format_bytes

KIND = "edgewise-bundle"
MAX_BYTES = 128 * 2**20
"""The most that is read at once: parsed, JSON takes up to twenty times its size in memory."""

LARGEST = 1e100
"""No number of an imported record may be larger."""

_END = "]}"
"""The last line of a bundle."""

_DELEGATED = ("operators", "operators_delegated", "delegate_partitions")
"""Settings in effect, where the engine reports them: operators of the model, and what delegates took of them."""
CSV_COLUMNS = (
    "run", "created", "model", "format", "runtime", "provider", "version", "threads", "batch", "scenario",
    "metric", "value", "low", "high", "unit", "basis", "method", "absent_because", *_DELEGATED,
)  # fmt: skip


def export_runs(
    runs: Iterable[Run],
    path: str | Path,
    *,
    overwrite: bool = False,
    redact: bool = False,
    metric: str | None = None,
) -> int:
    """Write `runs` to `path`, one after the other, and say how many they were.

    Args:
        runs: in the order in which they are written, the oldest first; read once.
        path: its ending says how: ``.json`` (everything; a bundle with one run a line), ``.jsonl`` (the lines alone),
            ``.csv`` (one row a measurement, SI base units), ``.trend.csv`` (one row a run, of those that measured what
            the newest did), or ``.prom`` (OpenMetrics: the newest value under each setting).
        overwrite: whether a file that is there may be replaced.
        redact: leave out where models lie on this machine.
        metric: whose values ``.trend.csv`` and ``.prom`` have (default: the headline of each run).

    Raises:
        BadInput: another ending, a file that is there, or a path that can't be written.
        StoreError: the disk is full or fails.
    """
    path = Path(path)
    written = 0

    def counted() -> Iterator[Run]:
        nonlocal written
        for run in runs:
            written += 1
            yield run

    def lines() -> Iterator[str]:
        return (redact_run_paths(encode(run), [run]) if redact else encode(run) for run in counted())

    text: Iterable[str]
    match path.suffix.lower():
        case ".json":
            text = _bundle_lines(lines())
        case ".jsonl":
            text = (f"{line}\n" for line in lines())
        case ".csv" if path.name.lower().endswith(".trend.csv"):
            rows = same_setting([row_of(run, metric) for run in runs])
            text, written = series_csv(rows), len(rows)
        case ".csv":
            text = csv_lines(counted())
        case ".prom":
            rows = newest_of_each_setting([row_of(run, metric) for run in runs][::-1])
            text, written = openmetrics(rows), len(rows)
        case _:
            raise _no_export(path)
    write_file(path, text, overwrite=overwrite)
    return written


def check_export(path: Path, *, overwrite: bool) -> None:
    """Refuse a file of `edgewise runs export` before runs are read. Raises `BadInput`."""
    if path.suffix.lower() not in (".json", ".jsonl", ".csv", ".prom", ".md"):
        raise _no_export(path)
    check_place(path, overwrite=overwrite, example="runs.json")


def _no_export(path: Path) -> BadInput:
    ending = path.suffix.lower() or "a file without an extension"
    return BadInput(f"can't export to {ending!r}", advice="use .json, .jsonl, .csv, .trend.csv, .prom or .md")


def _bundle_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the JSON document of a bundle, each run on a line of its own."""
    yield json.dumps({"schema": SCHEMA, "kind": KIND, "runs": []})[: -len(_END)]
    between = "\n"
    for line in lines:
        yield between + line
        between = ",\n"
    yield f"\n{_END}\n"


def import_runs(path: str | Path) -> list[Run]:
    """Return the runs in the file at `path`, in its order, each once and in its latest version.

    Raises:
        BadInput: as `read_runs` does; more than `MAX_BYTES`; or two runs with the same id and different content.
    """
    with contextlib.suppress(OSError, ValueError):
        if Path(path).stat().st_size > MAX_BYTES:
            raise _too_large(Path(path))
    found: dict[str, Run] = {}
    for index, run in enumerate(read_runs(path)):
        later = later_version(found.get(run.id, run), run)
        if later is None:
            raise BadInput(f"{path}: runs[{index}]: run {run.id} occurs twice, with different content")
        found[run.id] = later
    return list(found.values())


def read_runs(path: str | Path) -> Iterator[Run]:
    """Yield the runs in the file at `path`, in its order.

    An export (``.json``, ``.jsonl``) is read line by line and may have any size. What ``--json`` of a command printed
    and a single run are read whole.

    Raises:
        BadInput: no such file, too large, not JSON, no runs, a field that is missing or wrong (named by its path), or a
            newer schema.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            yield from _runs_of(file, path)
    except (OSError, ValueError) as error:
        raise BadInput(f"can't read {path}: {getattr(error, 'strerror', None) or error}") from error
    except BadInput as error:
        raise BadInput(
            error.marked.message if str(path) in error.marked.message else f"{path}: {error.marked.message}",
            advice=error.marked.advice,
        ) from error


def _runs_of(file: BinaryIO, path: Path) -> Iterator[Run]:
    first = _read(file.readline, path)
    head: Any = None
    with contextlib.suppress(BadInput):
        head = parse(first + _END.encode() if first.rstrip().endswith(b"[") else first)
    if isinstance(head, Mapping) and "runs" not in head:
        yield from _runs_of_lines(first, file, path)
        return
    second = _read(file.readline, path)
    if isinstance(head, Mapping) and head["runs"] == [] and second.rstrip().endswith((b"}", b"},")):
        _check_head(head, path)
        yield from _runs_of_lines(second, file, path, end=_END.encode())
        return
    document = parse(first + second + _read(file.read, path))
    if not isinstance(document, Mapping):
        raise BadInput(f"{path} contains no runs", advice="export some with 'edgewise runs export -o F.json'")
    if isinstance(judged := document.get("evaluations"), list):  # what `evaluate` writes has a run in each
        for index, one in enumerate(judged):
            yield _run(one.get("run") if isinstance(one, Mapping) else one, where=f"{path}: evaluations[{index}].run")
        return
    if "runs" not in document:
        yield _run(document, where=str(path))
        return
    _check_head(document, path)
    for index, row in enumerate(document["runs"]):
        yield _run(row, where=f"{path}: runs[{index}]")


def _runs_of_lines(line: bytes, file: BinaryIO, path: Path, *, end: bytes = b"") -> Iterator[Run]:
    """Yield the runs on `line` and those that follow, up to the line `end` or, without one, the end of the file."""
    index = 0
    while (text := line.strip()) != end or (line and not end):
        if not line:
            raise BadInput(f"{path}: not JSON: it ends after {index} runs", advice="check that the file is complete")
        if text:
            where = f"{path}: runs[{index}]" if end or index else str(path)
            yield _run(text.removesuffix(b",") if end else text, where=where)
            index += 1
        line = _read(file.readline, path)
    if end and _read(file.read, path).strip():
        raise BadInput(f"{path}: not JSON: text follows its end", advice="check whether two files were joined")


def _check_head(document: Mapping[str, Any], path: Path) -> None:
    """Refuse what is no bundle and no output of a command of this edgewise. Raises `BadInput`."""
    if not isinstance(document["runs"], list):
        raise BadInput(f"{path}: runs: is not a list", advice="export it again with 'edgewise runs export -o F.json'")
    if document.get("kind", KIND) != KIND:
        raise BadInput(
            f"{path}: kind: {document['kind']!r} is not {KIND!r}", advice=("check that edgewise wrote this file")
        )
    if "schema" in document:
        schema = schema_of(document)
        if schema > SCHEMA:
            raise BadInput(
                f"{path} has schema {schema}: it was written by a newer edgewise (this one reads up to {SCHEMA})",
                advice="update edgewise",
            )


def csv_lines(runs: Iterable[Run]) -> Iterator[str]:
    """One row a measurement, in SI base units and full precision; absent values are empty, and the row says why.

    So are the values of a failed run but those of `WITHOUT_A_RUN`: what it measured before it failed is no result.
    """
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        counts = {name: run.effective.get(name) for name in _DELEGATED}
        common = conditions_of(run) | {name: each for name, each in counts.items() if isinstance(each, int)}
        for row in to_document(run)["measurements"]:
            cells = common | {name: row[name] for name in CSV_COLUMNS if name in row}
            if run.failure is not None and row["value"] is not None and row["metric"] not in WITHOUT_A_RUN:
                why = f"the run failed: {run.failure.cause}: {run.failure.message}"
                cells |= {"value": None, "low": None, "high": None, "basis": None, "absent_because": why}
            writer.writerow({name: for_csv(cell) if isinstance(cell, str) else cell for name, cell in cells.items()})
        yield stream.getvalue()
        stream.seek(0)
        stream.truncate()
    yield stream.getvalue()


def conditions_of(run: Run) -> dict[str, Any]:
    """Return the columns of `CSV_COLUMNS` that all measurements of `run` share."""
    job = run.job
    return {
        "run": run.id, "created": run.created_at, "model": job.model.name, "format": job.model.format,
        "runtime": job.runtime.name, "provider": job.runtime.provider, "version": job.runtime.version,
        "threads": job.runtime.threads, "batch": job.workload.batch, "scenario": job.workload.scenario.kind_in_words,
    }  # fmt: skip


def write_file(path: Path, content: str | bytes | Iterable[str], *, overwrite: bool) -> None:
    """Put `content`, text as UTF-8, at `path`, whole or not at all. Raises `BadInput`, `StoreError` for a bad disk."""
    parts = [content] if isinstance(content, str | bytes) else content
    if path.exists() and not overwrite:
        raise _exists(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as file:
            for part in parts:
                file.write(part.encode(errors="backslashreplace") if isinstance(part, str) else part)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            temporary.replace(path)
        else:
            _put_where_nothing_is(temporary, path)
    except OSError as error:
        kind = StoreError if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO) else BadInput
        raise kind(f"can't write {path}: {error.strerror}", advice="use another path") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_with_folder(path: Path, content: str, *, overwrite: bool) -> None:
    """`write_file`, after the folder was made where there was none. Raises `BadInput`, `StoreError` for a bad disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{path.parent} can't be made: {error}", advice="check the rights of your data folder") from None
    write_file(path, content, overwrite=overwrite)


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
    return BadInput(f"{path} already exists", advice="use another path, or ⟦force⟧ to overwrite it")


def _read(read: Callable[[int], bytes], path: Path) -> bytes:
    """Return what `read`, given the most bytes it may read, returns: a line or the rest."""
    content = read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _too_large(path)
    return content


def _too_large(path: Path) -> BadInput:
    return BadInput(
        f"{path} is larger than {format_bytes(MAX_BYTES)}", advice="export fewer runs at a time, and import each file"
    )


def _run(document: Any, *, where: str) -> Run:
    try:
        document = parse(document) if isinstance(document, bytes) else document
        _require_sizes(document)
        return from_document(document)
    except BadInput as error:
        raise BadInput(f"{where}: {error.marked.message}", advice=error.marked.advice) from error


def _require_sizes(document: Any) -> None:
    """Refuse numbers from elsewhere that no quantity has: sums and products of them are infinite. Raises `BadInput`."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict | list):
            left += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float) and not -LARGEST <= value <= LARGEST:
            raise BadInput(
                f"it contains a number beyond {LARGEST:g}, larger than any quantity",
                advice="check that edgewise wrote this document",
            )
