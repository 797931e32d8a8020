"""Reads results from the tables of published documents: Markdown and reStructuredText. One function per publication.

Each publication names columns, devices and units in its own way; the docstrings name the documents.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path, PurePosixPath

from edgewise.errors import BadInput
from edgewise.predicting.atlas import AtlasRow
from edgewise.predicting.source_files import Place, files_below, read_text
from edgewise.progress import LogLine, emit

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)|`([^`<]*)<[^>]*>`_+")
_NOT_MEASURED = {"", "-", "--", "---", "/", "n/a", "na"}


def _plain(cell: str) -> str:
    """Return a cell without links, markup and repeated blanks."""
    text = _LINK.sub(lambda found: found[1] or found[3] or "", cell)
    return " ".join(html.unescape(re.sub(r"<br\s*/?>|\*\*", " ", text)).split())


def _markdown_rows(path: Path) -> Iterator[tuple[Place, Mapping[str, str]]]:
    """Rows of all pipe tables in a document: header in plain text → cell as it is written."""
    header: list[str] = []
    before = ""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.count("|") == 0:
            header = []
        elif re.fullmatch(r"[\s|:-]+", line):
            header = [_plain(cell) for cell in _split(before)]
        elif header:
            cells = _split(line)
            if len(cells) == len(header):
                yield Place(path, number), dict(zip(header, cells, strict=True))
        before = line


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))]


def _list_table_rows(path: Path) -> Iterator[tuple[Place, Mapping[str, str]]]:
    """Rows of all ``list-table`` directives of a reStructuredText document: header → cell, in plain text."""
    lines = enumerate(read_text(path).splitlines(), start=1)
    for _, line in lines:
        if not line.lstrip().startswith(".. list-table::"):
            continue
        rows: list[tuple[int, list[str]]] = []
        for number, inside in takewhile(lambda pair: not pair[1] or pair[1][0].isspace(), lines):
            if found := re.match(r"\s+\* - ?(.*)", inside):
                rows.append((number, [_plain(found[1])]))
            elif rows and (found := re.match(r"\s+- ?(.*)", inside)):
                rows[-1][1].append(_plain(found[1]))
        for number, cells in rows[1:]:
            if len(cells) != len(rows[0][1]):
                raise Place(path, number).error(f"{len(cells)} cells for {len(rows[0][1])} columns", "mend the row")
            yield Place(path, number), dict(zip(rows[0][1], cells, strict=True))


def read_tflite_hosted(path: Path) -> Iterator[AtlasRow]:
    """``tensorflow/lite/g3doc/guide/hosted_models.md`` of TensorFlow: one phone, columns with milliseconds."""
    device = re.search(r"measured on\s+(Pixel[ -]?\d\w*)", read_text(path))
    if device is None:
        raise BadInput(f"{path} does not name its phone", advice="expected: hosted_models.md, 'measured on Pixel 3'")
    for place, cells in _markdown_rows(path):
        model = _plain(cells.get("Model name", ""))
        for column, unit in (("CPU, 4 threads", "CPU"), ("GPU", "GPU"), ("NNAPI", "NNAPI")):
            time = _plain(cells.get(column, ""))
            if model and time not in _NOT_MEASURED:
                yield AtlasRow(
                    model=model,
                    device=device[1].replace("-", " "),
                    runtime="tflite",
                    precision="int8" if model.casefold().endswith("quant") else "float",
                    unit=unit,
                    setting="4 threads" if unit == "CPU" else "",
                    latency_s=place.positive(time.removesuffix("ms").strip(), column) / 1e3,
                )


def read_stm32(path: Path) -> Iterator[AtlasRow]:
    """``README.md`` of a model of STM32's AI model zoo, or a folder with such files.

    A model is named by the file that its row links to.
    """
    for file in files_below(path, "README.md"):
        for place, written in _markdown_rows(file):
            columns = {name.casefold(): cell for name, cell in written.items()}
            timed = next((name for name in columns if re.match(r"inference time.*\(ms\)", name)), None)
            time = "" if timed is None else _plain(columns[timed]).removesuffix("ms").strip()
            if timed is None or "board" not in columns or "model" not in columns or time.casefold() in _NOT_MEASURED:
                continue
            engine = _plain(columns.get("execution engine", ""))
            link = _LINK.search(columns["model"])
            version = next((name for name in columns if name.endswith("version")), "")
            yield AtlasRow(
                model=PurePosixPath(link[2]).stem if link and link[2] else _plain(columns["model"]),
                variant=_plain(columns.get("resolution", "")),
                device=_plain(columns["board"]),
                runtime=version.removesuffix("version").strip() or "stm32cube.ai",
                precision=_plain(columns.get("format", "")).casefold(),
                unit=next((unit for unit in ("NPU", "GPU") if unit in engine.upper()), "CPU"),
                setting=engine,
                latency_s=place.positive(time, timed) / 1e3,
            )


def read_arm(path: Path) -> Iterator[AtlasRow]:
    """``README.md`` of an optimized model that Arm publishes on Hugging Face, or a folder with such files.

    The tables "Key results" and "Original model" name the device, the runtime, the network and the median in ms; where
    the median of the original precedes it, as in "(292.05 ms to 49.43 ms)", the last one is the file's. Cards of
    language models have no median and are left out, with a note.
    """
    for file in files_below(path, "README.md"):
        found = {
            _plain(row.get("Area") or row.get("Field", "")): (place, _plain(row.get("Result") or row.get("Value", "")))
            for place, row in _markdown_rows(file)
            if {"Area", "Result"} <= set(row) or {"Field", "Value"} <= set(row)
        }
        place, result = found.get("Primary performance result", (None, ""))
        if place is None:
            continue
        if "p50 latency" not in result:
            emit(LogLine(text=f"{file}: {result!r} is no median latency, and is left out"))
            continue
        times = re.findall(r"([\d.,]+) ?ms\b", result)
        for name in ("Reference device", "Original model", "Model format"):
            if name not in found:
                raise place.error(f"no {name}", "give the model card as Arm wrote it")
        if len(times) != 1 and not re.search(r"[\d.,]+ ?ms to [\d.,]+ ?ms\b", result):
            raise place.error(f"{result!r} has no single time", "give the model card as Arm wrote it")
        precision = re.search(r"-(int\d+|fp\d+|bf16)-", f"-{file.resolve().parent.name}-")
        stated = re.search(r"\A---\n(?:.*\n)*?license: *(\S+)", read_text(file))
        yield AtlasRow(
            model=PurePosixPath(found["Original model"][1]).name,
            device=re.sub(r" *\(.*", "", found["Reference device"][1]),
            runtime=re.sub(r" *[(.].*", "", found["Model format"][1]).casefold(),
            precision=precision[1] if precision else "",
            unit="CPU",
            latency_s=place.positive(times[-1].replace(",", ""), "the median") / 1e3,
            licence=stated[1] if stated else "",
        )


def read_rknn(path: Path) -> Iterator[AtlasRow]:
    """``README.md`` of Rockchip's RKNN model zoo: images per second, a column per chip; rows of audio give none."""
    for place, written in _markdown_rows(path):
        if "model_name" not in written:
            continue
        for column, cell in written.items():
            value = re.fullmatch(r"([\d.]+)\s*(?:\((\w+)\))?", _plain(cell))
            if value is None or not re.match(r"R[KV]\d{3,4}", column):
                continue
            yield AtlasRow(
                model=_plain(written["model_name"]),
                variant=_plain(written.get("inputs_shape", "")),
                device=column,
                runtime="rknn",
                precision=(value[2] or _plain(written.get("dtype", ""))).casefold(),
                unit="NPU",
                latency_s=1 / place.positive(value[1], column),
            )


def read_hailo(path: Path) -> Iterator[AtlasRow]:
    """``docs/public_models/`` of Hailo's model zoo, or one of its files: images per second, one at a time."""
    for file in files_below(path, "HAILO*.rst"):
        chip = re.match(r"(HAILO\w*?)_", file.name)
        if chip is None:
            raise BadInput(f"{file.name} does not name its chip", advice="keep names such as HAILO8_classification.rst")
        for place, cells in _list_table_rows(file):
            speed = cells.get("FPS (Batch Size=1)", "")
            model = next((cells[name] for name in cells if name.startswith("Network Name")), "")
            if model and speed.casefold() not in _NOT_MEASURED:
                yield AtlasRow(
                    model=re.sub(r"\|\w+\|", "", model).strip(),
                    variant=next((cells[name] for name in cells if name.startswith("Input Resolution")), ""),
                    device=chip[1],
                    runtime="hailort",
                    unit="NPU",
                    latency_s=1 / place.positive(speed, "FPS (Batch Size=1)"),
                )


def read_mlperf_tiny(path: Path) -> Iterator[AtlasRow]:
    """Yield the results of a round of MLPerf Tiny:
    ``DIVISION/SUBMITTER/results/SYSTEM/MODEL/performance/results.txt``.
    """
    for file in files_below(path, "results.txt"):
        parts = file.resolve().parts
        if parts[-2] != "performance" or len(parts) < 6:
            continue
        for number, line in enumerate(read_text(file).splitlines(), start=1):
            if found := re.search(r"Median throughput is\s+(\S+)\s+inf", line):
                yield AtlasRow(
                    model=parts[-3],
                    device=parts[-4],
                    runtime="mlperf-tiny",
                    setting=parts[-6],
                    latency_s=1 / Place(file, number).positive(found[1], "the median throughput"),
                )
