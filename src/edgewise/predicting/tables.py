"""Reads public tables of results for the atlas; one function per format. Errors name the wrong line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.predicting.atlas import GROUP_LENGTH, AtlasRow
from edgewise.predicting.documents import (
    read_arm,
    read_hailo,
    read_mlperf_tiny,
    read_rknn,
    read_stm32,
    read_tflite_hosted,
)
from edgewise.predicting.points import UNITS
from edgewise.predicting.source_files import Place, files_below, read_text
from edgewise.progress import LogLine, emit

NCNN_NAME, NCNN_TIME = r"[ \t]*(\S+)[ \t]+(?=min[ \t]*=)", r"[ \t]*=[ \t]*(\S+)"
"""Patterns of a line of benchncnn: the network at its beginning, and a time in ms after ``min``, ``max`` or ``avg``."""
_RESULT = re.compile(rf"{NCNN_NAME}min{NCNN_TIME}[ \t]+max{NCNN_TIME}[ \t]+avg{NCNN_TIME}[ \t]*")
_SETTING = re.compile(r"\s*(num_threads|powersave|gpu_device)\s*=\s*(-?\d+)\s*")
_TIMM = re.compile(r"benchmark-infer-([a-z0-9_]+)-(nchw|nhwc)-(pt\d+)-(?:(cpu|cu\d+)-)?(.+?)(-dynamo)?\.csv")
_NO_TIME = (None, "", "null", "~")
"""Times of jobs that failed; edgewise reads scalars of YAML as text."""
_FILES = {
    "ncnn": "README.md", "litert-board": "*.jsonl", "tflite-hosted": "hosted_models.md", "rknn": "README.md",
    "table": "*.csv", "runs": "*.json",
}  # fmt: skip
"""Kind of results that one file has, never a folder → what such a file is usually called."""
_LATENCIES = {f"latency_{unit}": factor for unit, factor in UNITS["latency"].items()}


def read_source(kind: str, path: Path, *, source: str = "", licence: str = "") -> list[AtlasRow]:
    """Return the rows of the results at `path`.

    Args:
        kind: one of `SOURCES`.
        source, licence: for rows that have none of their own; without `source`, the file is named.

    Raises:
        BadInput: no such kind, an unreadable file, a wrong line, or no rows.
    """
    if kind not in SOURCES:
        raise BadInput(f"no source {kind!r}", advice=f"one of: {', '.join(SOURCES)}")
    if path.is_dir() and kind in _FILES:
        name = _FILES[kind]
        inside = next(iter(sorted(path.glob(name))), None)
        raise BadInput(
            f"{path} is a folder, and results of the kind {kind!r} are one file",
            advice=f"give the file: {inside}"
            if inside
            else f"give the file, such as {path / name.replace('*', 'results')}",
        )
    rows = [
        replace(
            row,
            group=row.group or row.device[:GROUP_LENGTH],
            source=row.source or source or path.name,
            licence=row.licence or licence,
        )
        for row in SOURCES[kind](path)
    ]
    if not rows:
        raise BadInput(f"{path} has no results", advice=f"is it of the kind {kind!r}?")
    return rows


def _lines(path: Path) -> Iterator[tuple[Place, Mapping[str, str]]]:
    """Yield the rows of a CSV file by its header. Raises `BadInput`."""
    reader = csv.reader(read_text(path).splitlines())
    header: list[str] | None = None
    try:
        for cells in reader:
            place = Place(path, reader.line_num)
            if header is None:
                header = [cell.strip() for cell in cells]
                if len(set(header)) < len(header):
                    raise place.error("a column is there twice", "give each column once")
            elif any(cells):
                if len(cells) != len(header):
                    raise place.error(f"{len(cells)} cells for {len(header)} columns", "mend or remove the line")
                yield place, {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    except csv.Error as error:
        raise Place(path, reader.line_num).error(str(error), "mend or remove the line") from None


def _ncnn(path: Path) -> Iterator[AtlasRow]:
    """``benchmark/README.md`` of ncnn: a block per device, named by the last line before it; ms in the column avg.

    A block repeats the program's settings (``num_threads = 4``) before the results of each call.
    """
    device, inside, settings = "", False, dict[str, str]()
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        place = Place(path, number)
        if line.lstrip().startswith("```"):
            inside, settings = not inside, {}
        elif not inside:
            device = line.strip().lstrip("#").strip() or device
        elif "loop_count" in line:
            settings = {}
        elif found := _SETTING.fullmatch(line):
            settings[found[1]] = found[2]
        elif found := _RESULT.fullmatch(line):
            if "num_threads" not in settings:
                raise place.error("a result before num_threads", "keep the lines that benchncnn prints before results")
            if not device:
                raise place.error("a result of an unnamed device", "name the device in the line before the block")
            cores = settings.get("powersave", "0")
            yield AtlasRow(
                model=found[1],
                device=device,
                runtime="ncnn",
                precision="int8" if re.search(r"[-_]int8$", found[1]) else "float",
                unit="CPU" if int(settings.get("gpu_device", "-1")) < 0 else "GPU",
                setting=f"{settings['num_threads']} threads" + (f", powersave {cores}" if cores != "0" else ""),
                latency_s=place.positive(found[4], "avg") / 1e3,
            )
        elif re.search(r"\b(min|avg)\s*=", line):
            raise place.error(f"{line.strip()[:60]!r} is not a result", "expected: NAME min = 1.0 max = 1.2 avg = 1.1")


def perf_cells(document: Any) -> Iterator[tuple[str, str, str, str, Mapping[str, Any]]]:
    """Precision, component, device, runtime and results of every job in a ``perf.yaml``.

    A job that is listed for several devices ran on one of them and comes once.

    Raises:
        KeyError, AttributeError, TypeError: the document has another structure.
    """
    jobs = set[str]()
    for precision, found in document["precisions"].items():
        for component, part in found["components"].items():
            for device, runtimes in (part.get("performance_metrics") or {}).items():
                for runtime, cell in runtimes.items():
                    job = f"{cell.get('job_id') or device} {component} {precision} {runtime}"
                    if job not in jobs:
                        jobs.add(job)
                        yield precision, component, device, runtime, cell


def has_time(cell: Mapping[str, Any]) -> bool:
    """Whether a job of a ``perf.yaml`` has a time; one that failed has none."""
    return cell.get("inference_time_milliseconds") not in _NO_TIME


def _ai_hub(path: Path) -> Iterator[AtlasRow]:
    """``perf.yaml`` of Qualcomm AI Hub, or a folder with such files, each in the folder of its model.

    Precision → component of the model → device → runtime.
    """
    from edgewise.safe_yaml import parse_mapping

    for file in files_below(path, "perf.yaml"):
        document, model = parse_mapping(read_text(file), str(file)), file.resolve().parent.name
        try:
            jobs = list(perf_cells(document))
            cells = [job for job in jobs if has_time(job[4])]
        except (KeyError, AttributeError, TypeError) as error:
            raise BadInput(
                f"{file} is no perf.yaml of AI Hub: {error!r}",
                advice="precisions, components, performance_metrics are expected, as in releases since 2025",
            ) from None
        if failed := len(jobs) - len(cells):
            emit(LogLine(text=f"{file}: {failed} of {len(jobs)} jobs have no time, as they failed, and are left out"))
        for precision, component, device, runtime, cell in cells:
            where = Place(file, f"{precision}, {component}, {device}, {runtime}")
            yield AtlasRow(
                model=model,
                variant=component,
                device=device,
                runtime=runtime,
                precision=precision,
                unit=str(cell.get("primary_compute_unit") or ""),
                latency_s=where.positive(cell["inference_time_milliseconds"], "the time") / 1e3,
            )


def _litert_board(path: Path) -> Iterator[AtlasRow]:
    """``benchmark/leaderboard/data/measurements.jsonl`` of LiteRT's samples: a job per line, its median in ms.

    A network of which an accelerator took only a part ran on two units, so its unit is left open.
    """
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        place = Place(path, number)
        try:
            job = json.loads(line)
            if job["status"] != "measured" or "latency_ms" not in job:
                continue  # jobs of language models have rates instead
            taken, nodes, unit = job.get("nodes_delegated"), job.get("nodes_total"), job["accelerator"].upper()
            yield AtlasRow(
                model=job["file"],
                device=job["device"],
                runtime=job["runtime"],
                unit=unit if taken == nodes or unit == "CPU" else "",
                setting=f"{taken} of {nodes} nodes by {job['delegate']}" if taken != nodes else "",
                latency_s=place.positive(job["latency_ms"]["median"], "the median") / 1e3,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise place.error(f"not a job of the leaderboard: {error!r}", "give its measurements.jsonl") from None


def _timm(path: Path) -> Iterator[AtlasRow]:
    """``results/benchmark-infer-*.csv`` of timm, or a folder with them; the conditions are in the name of the file."""
    for file in files_below(path, "benchmark-infer-*.csv"):
        name = _TIMM.fullmatch(file.name)
        if name is None:
            raise BadInput(
                f"{file.name} does not tell its conditions",
                advice="keep timm's names, such as benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv",
            )
        precision, layout, version, backend, device, compiled = name.groups()
        for place, cells in _lines(file):
            if not cells.get("model"):
                raise place.error("no model", "the columns model and infer_samples_per_sec are needed")
            if not cells.get("infer_samples_per_sec"):
                continue  # timm leaves the cells of models that failed empty
            yield AtlasRow(
                model=cells["model"],
                variant=cells.get("infer_img_size", ""),
                device=device,
                runtime=f"pytorch-{layout}{compiled or ''}",
                precision=precision,
                unit="CPU" if backend == "cpu" else "GPU",
                setting=" ".join(filter(None, (version, backend))),
                batch=place.count(cells.get("infer_batch_size") or 1, "infer_batch_size"),
                latency_s=1 / place.positive(cells["infer_samples_per_sec"], "infer_samples_per_sec"),
            )


def _table(path: Path) -> Iterator[AtlasRow]:
    """Yield a CSV file with the columns model, device and latency_ms (or _s, _us, _ns), and others by their names."""
    for place, cells in _lines(path):
        column = next((name for name in _LATENCIES if cells.get(name)), None)
        if column is None or not cells.get("model") or not cells.get("device"):
            advice = "each line needs model, device and latency_ms; others: variant, runtime, precision, threads, …"
            raise place.error("no model, device or latency", advice)
        threads = cells.get("threads")
        yield AtlasRow(
            model=cells["model"],
            variant=cells.get("variant", ""),
            device=cells["device"],
            group=cells.get("group", ""),
            runtime=cells.get("runtime", ""),
            precision=cells.get("precision", ""),
            unit=cells.get("compute_unit") or cells.get("unit", ""),
            setting=f"{place.count(threads, 'threads')} threads" if threads else "",
            batch=place.count(cells.get("batch") or 1, "batch"),
            latency_s=place.positive(cells[column], column) * _LATENCIES[column],
            source=cells.get("source", ""),
            licence=cells.get("licence") or cells.get("license", ""),
        )


def _runs(path: Path) -> Iterator[AtlasRow]:
    """Yield the runs that ``edgewise runs export`` wrote; those that failed, of grade D or without a latency are
    left out.
    """
    from edgewise.record.facts import is_unreliable, precision_of, threads_of
    from edgewise.store.exchange import read_runs
    from edgewise.store.tables import machine_of

    for run in read_runs(path):
        latency = run.value("latency")
        if latency is None or latency <= 0 or run.status == "failed" or is_unreliable(run):
            continue
        threads = threads_of(run)
        yield AtlasRow(
            model=run.job.model.name,
            device=machine_of(run) or run.job.target.device,
            runtime=run.job.runtime.name,
            precision=precision_of(run) or "",
            unit=run.job.runtime.provider or "",
            setting="" if threads is None else f"{threads} threads",
            batch=run.job.workload.batch,
            latency_s=latency / run.job.workload.batch,
            source=f"run {run.id}",
        )


SOURCES: Mapping[str, Callable[[Path], Iterator[AtlasRow]]] = {
    "ncnn": _ncnn,
    "ai-hub": _ai_hub,
    "timm": _timm,
    "litert-board": _litert_board,
    "tflite-hosted": read_tflite_hosted,
    "stm32": read_stm32,
    "arm": read_arm,
    "rknn": read_rknn,
    "hailo": read_hailo,
    "mlperf-tiny": read_mlperf_tiny,
    "table": _table,
    "runs": _runs,
}
"""Kind of results → reader. A reader leaves `group`, `source` and `licence` empty where the results don't tell them."""
