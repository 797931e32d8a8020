"""``torch.utils.benchmark``: what ``print(measurement)`` prints.

Format: ``Measurement.__repr__`` in ``torch/utils/benchmark/utils/common.py`` of PyTorch 1.8 to 2.13. A pickle is not
read, because reading a pickle runs its code.
"""

from __future__ import annotations

import re

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form, Importer


def _finish(part: Part) -> None:
    """Take the title, and describe the statistic that the printed number is."""
    count = re.search(r"^  (\d+) measurements?, (\d+) runs ", part.text, re.MULTILINE)
    if count is not None:
        blocks, runs = part.number(count[1], "1", at=part.where, what="measurements"), int(count[2][:9])
        part.settings["iterations"] = max(1, min(int(blocks) * runs, 2**31 - 1))
        if "latency" in part.values and runs > 1:
            part.notes["latency"] = f"median of {count[1]} measurements, each the mean of {count[2][:9]} runs"
    header = re.search(r"<torch\.utils\.benchmark[^\n]{0,200}>\n(.+)\n(?:(?!setup:)(\S.*)\n)?", part.text)
    if header is not None:
        part.set("model", " ".join(filter(None, header.groups())), at=part.where)


class TorchBenchmark(Importer):
    """Printed measurements of ``torch.utils.benchmark.Timer``, one run each."""

    title = "torch.utils.benchmark"
    runtime = "torch"
    forms = (
        Form(
            title="text", kind="text",
            mark=r"<torch\.utils\.benchmark\.\S{1,100} object|^  \d+ measurements?, \d+ runs ",
            expects="what print(measurement) prints: '  Median: 5.73 us' and '  372 measurements, 100 runs per …'",
            method="torch.utils.benchmark.Timer, warm, one process", each=r"^<torch\.utils\.benchmark\.",
            fields=(
                Field("latency", r"Median: (\S+) (?P<unit>\S+)"),
                Field("latency_mean", r"^  (\d\S*) (?P<unit>[num]?s)$"),
                Field("threads", r"runs (?:per measurement,|,) (\S+) threads?$"),
            ),
            finish=_finish, gives=("model", "iterations"),
        ),
    )  # fmt: skip
