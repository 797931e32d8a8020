"""MLPerf Tiny: the results and the log that its runners write.

Formats: ``results.txt`` and ``log.txt`` of EEMBC's EnergyRunner (rounds 0.5 to 1.2) and of ``benchmark/runner`` of
github.com/mlcommons/tiny (since 1.3), as in the folders of github.com/mlcommons/tiny_results_v1.2 and _v1.3:
``…/results/SYSTEM/MODEL/performance/results.txt``. The log has the board's own lines (``m-lap-us-…``), see
`edgewise.device.board`.
"""

from __future__ import annotations

import re
from itertools import pairwise

from edgewise.importing.extraction import Part
from edgewise.importing.spec import NUMBER, Field, Form, Importer

_WINDOW = re.compile(r"# Inferences\s*:\s*(\S+)[^\n]{0,200}\n[^\n]{0,200}Runtime\s*:\s*(\S+) sec")
_INFER = re.compile(r"m-infer-start-(\d{1,9})\b")
_LAP = re.compile(r"m-lap-us-(\d{1,20})\b")
_PROBLEM = re.compile(r"\be-\[([^\]\n]{1,200})\]")
"""How a board reports an error, such as a command that it does not know."""


def _finish_results(part: Part) -> None:
    """Take the mean of each window of inferences; system and model are names of folders."""
    windows = []
    for match in _WINDOW.finditer(part.text):
        at = part.line_of(match.start())
        count = part.number(match[1], "1", at=at, what="the number of inferences")
        if count < 1:
            raise part.source.error(at, "a window without inferences")
        windows.append(part.number(match[2], "s", at=at, what="the runtime") / count)
    _add_windows(part, windows)
    folders = part.source.path.resolve().parts
    if len(folders) > 5 and folders[-5] == "results" and folders[-2] in ("performance", "energy", "accuracy"):
        part.settings |= {"model": folders[-3], "device": folders[-4]}


def _finish_log(part: Part) -> None:
    """Take the time between the two laps of every window."""
    windows: list[float] = []
    starts = list(_INFER.finditer(part.text))
    for start, end in pairwise([*(match.start() for match in starts), len(part.text)]):
        at, laps = part.line_of(start), [int(match[1]) for match in _LAP.finditer(part.text, start, end)]
        count = int(starts[len(windows)][1])
        problem = _PROBLEM.search(part.text, start, end)
        if len(laps) < 2 and problem is not None:
            part.fail(f"the board reports an error in a window of {count} inferences: {problem[1]}")
            return
        if len(laps) < 2 or laps[1] <= laps[0] or count < 1:
            raise part.source.error(at, f"a window of {count} inferences with the times {laps[:2]}; expected two laps")
        windows.append(part.number((laps[1] - laps[0]) / count, "us", at=at, what="the time of a window"))
    if not windows:
        raise part.source.error(part.where, f"the results are missing; expected {part.form.expects}")
    _add_windows(part, windows)


def _add_windows(part: Part, windows: list[float]) -> None:
    if windows:
        part.samples["latency"] = [windows]
        part.notes["latency"] = "means of windows of inferences, so there are no percentiles"


class MlperfTinyRunner(Importer):
    """``results.txt`` and ``log.txt`` of MLPerf Tiny's runners."""

    title = "MLPerf Tiny's runner"
    runtime = "mlperf_tiny"
    forms = (
        Form(
            title="results.txt",
            kind="text",
            mark=r"Median throughput is\s|Median energy cost is\s|ulp-ml(?:perf)?: Top[- ]1",
            expects="a line like 'Median throughput is 6.056 inf./sec.' or 'Top-1: 85.5%'",
            method="the board's timer around each window",
            fields=(
                Field("throughput", rf"Median throughput is\s+{NUMBER} inf", unit="1/s"),
                Field("energy", rf"Median energy cost is\s+{NUMBER} (?P<unit>uJ)/inf"),
                Field("accuracy_top1", r"Top-1: ([^%\n]{0,100})%", unit="%"),
                Field("accuracy_top1", r"Top 1% = (\S+)", unit="%"),
            ),
            finish=_finish_results,
            gives=("latency", "model", "device"),
        ),
        Form(
            title="log.txt", kind="text", mark=r"m-lap-us-\d|m-infer-start-\d",
            expects="the lines 'm-infer-start-100' and two of 'm-lap-us-…'",
            method="the board's timer around each window",
            fields=(Field("model", r"m-model-\[([^\]\n]{1,200})\]"), Field("warmup", r"m-warmup-start-(\d+)")),
            finish=_finish_log, gives=("latency",),
        ),
    )  # fmt: skip
