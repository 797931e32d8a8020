"""Runs, and rows of pages, for tests of lists, trends and matrices: some hundred, each with one headline, made an hour apart."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from edgewise.record import Measurement, ModelRef, Run
from sample_runs import make_run, run_id

START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}\n\u202e😀.onnx"
_PATTERN = make_run(1)
_FEW = tuple(row for row in _PATTERN.measurements if row.metric in ("memory_peak", "model_size", "energy"))


def made_run(
    number: int,
    *,
    model: str = "kws.onnx",
    runtime: str = "onnxruntime",
    device: str = "local",
    latency: float = 1e-3,
    basis: str = "measured",
    version: str = "1.0",
    **changes,
) -> Run:
    """The run of hour `number`; ``0.98`` and ``1.02`` times its latency are the ends of its interval."""
    job = replace(
        _PATTERN.job,
        model=ModelRef(name=model, path=f"/m/{model}", format="onnx", sha256=f"{len(model):02x}" * 32, size_bytes=1),
        runtime=replace(_PATTERN.job.runtime, name=runtime, version=version),
        target=replace(_PATTERN.job.target, device=device),
    )
    row = Measurement(metric="latency", unit="s", basis=basis, method="made up", value=latency,
                      low=latency * 0.98, high=latency * 1.02)  # fmt: skip
    fields = {
        "id": run_id(number),
        "created_at": (START + timedelta(hours=number)).isoformat(timespec="milliseconds"),
        "group": None,
        "job": job,
        "measurements": (row, *_FEW),
        "sessions": (),
    }
    return replace(_PATTERN, **(fields | changes))


def rows_of(text: str) -> list[list[str]]:
    """The cells of each row of a page's first table, without tags."""
    body = text.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr.*?>(.*?)</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[" ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in row] for row in cells]
