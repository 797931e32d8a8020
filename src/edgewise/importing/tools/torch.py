"""``torch.utils.benchmark``: what ``print(measurement)`` prints.

Format: ``Measurement.__repr__`` in ``torch/utils/benchmark/utils/common.py`` of PyTorch 1.8 to 2.13. A pickle is not
read, because reading a pickle runs its code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from edgewise.importing.extraction import Part
from edgewise.importing.spec import Field, Form


def _finish(part: Part) -> None:
    """The title, and what the printed number is the statistic of."""
    found = part.found
    count = re.search(r"^  (\d+) measurements?, (\d+) runs ", part.text, re.MULTILINE)
    if count is not None:
        blocks, runs = part.number(count[1], "1", at=part.where, what="measurements"), int(count[2][:9])
        found.settings["iterations"] = max(1, min(int(blocks) * runs, 2**31 - 1))
        if "latency" in found.values and runs > 1:
            found.notes["latency"] = f"median of {count[1]} measurements, each the mean of {count[2][:9]} runs"
    header = re.search(r"<torch\.utils\.benchmark[^\n]*>\n(.+)\n(?:(?!setup:)(\S.*)\n)?", part.text)
    if header is not None:
        part.set("model", " ".join(filter(None, header.groups())), at=part.where)


class TorchBenchmark:
    """Printed measurements of ``torch.utils.benchmark.Timer``, one run each."""

    title = "torch.utils.benchmark"
    runtime = "torch"
    absent: Mapping[str, str] = {
        metric: f"torch.utils.benchmark does not measure {what}"
        for metric, what in (
            ("throughput", "rates"),
            ("load_time", "loading"),
            ("latency_first", "the first inference"),
            ("memory_peak", "memory"),
        )
    }
    forms = (
        Form(
            title="text",
            kind="text",
            mark=r"<torch\.utils\.benchmark\.\S+ object|^  \d+ measurements?, \d+ runs ",
            expects="what print(measurement) prints: '  Median: 5.73 us' and '  372 measurements, 100 runs per …'",
            method="torch.utils.benchmark.Timer, warm, one process",
            each=r"^<torch\.utils\.benchmark\.",
            fields=(
                Field(name="latency", at=r"Median: (\S+) (?P<unit>\S+)"),
                Field(name="latency_mean", at=r"^  (\d\S*) (?P<unit>[num]?s)$"),
                Field(name="threads", at=r"runs (?:per measurement,|,) (\S+) threads?$"),
            ),
            finish=_finish,
            gives=("model", "iterations"),
        ),
    )
