"""Where passes work: processes of their own, with a memory limit and a deadline. Any end of one is a result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgewise.device.transports.local import LocalProcess
from edgewise.folders import job_folder
from edgewise.optimizing.base import Product, Work
from edgewise.optimizing.pass_worker import DISK_ERRORS
from edgewise.run.conversation import available_memory
from edgewise.text import one_line

Cause = Literal["unsuitable", "failed", "memory", "disk", "crashed", "late", ""]

TAIL_BYTES = 4000
OUTPUT_BYTES = 16 * 2**20
"""What the libraries of a pass print is begun anew beyond so much: a flood of it fills no disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came of one work.

    Attributes:
        product: None where there is none, and then `cause` and `reason` say why.
        cause: ``unsuitable``: the pass can't change this model; ``late``: it was ended at its deadline.
        tail: the last that its libraries printed, where it failed.
    """

    product: Product | None
    cause: Cause = ""
    reason: str = ""
    seconds: float | None = None
    tail: str = field(default="", repr=False)


def apply_pass(
    location: str, works: Sequence[Work], *, seconds: float, memory_limit: int | None = None
) -> Iterator[Made]:
    """Apply the pass whose class is at `location` (``module:Class``) to `works`, one after the other in one process.

    Results come as they are there. Where the process dies, the work it was at has failed, and the next ones go to a
    new process.

    Args:
        seconds: what one work may take.
        memory_limit: bytes that the process may allocate; None is what is available.
    """
    left = list(works)
    while left:
        done = 0
        try:
            with job_folder() as folder:
                request = {
                    "pass": location,
                    "works": [_fields(work) for work in left],
                    "memory_limit": memory_limit or available_memory(),
                }
                (folder / "work.json").write_text(json.dumps(request))
                for made in _run(folder, count=len(left), seconds=seconds):
                    yield made
                    done += 1
        except OSError as error:  # no room for a few kilobytes, or for one more process
            cause: Cause = "disk" if error.errno in DISK_ERRORS else "failed"
            made = Made(product=None, cause=cause, reason=one_line(error.strerror or str(error)))
            yield from [made] * (len(left) - done)
            return
        left = left[done:]


def _run(folder: Path, *, count: int, seconds: float) -> Iterator[Made]:
    """Results of one process; where it dies, one more that says how."""
    results = folder / "results.jsonl"
    results.touch()
    with (folder / "output").open("ab") as output, results.open(encoding="utf-8") as lines:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "edgewise.optimizing.pass_worker", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is the host's to understand
            env={**os.environ, "PYTHONWARNINGS": "ignore", "TMPDIR": str(folder)},
        )
        process = LocalProcess(child, folder / "output")
        try:
            for _ in range(count):
                line = _await_line(process, lines, seconds, output=output.fileno())
                made = _read(line, folder) if line else _ended(process, folder, seconds)
                yield made
                if not line:
                    return
        finally:
            process.kill()  # with everything that it started


def _await_line(process: LocalProcess, lines: Any, seconds: float, *, output: int) -> str:
    """The next result; "" where the process ended without one, or is late."""
    deadline = time.monotonic() + seconds
    text = ""
    while True:
        text += lines.readline()
        if text.endswith("\n"):
            return str(text)
        if process.returncode is not None:
            text += lines.readline()
            return str(text) if text.endswith("\n") else ""
        left = deadline - time.monotonic()
        if left <= 0:
            return ""
        # Nothing is being measured here, and a pass takes seconds: a look now and then costs nobody anything.
        with contextlib.suppress(TimeoutError):
            process.wait(min(0.05, left))
        if os.fstat(output).st_size > OUTPUT_BYTES:
            os.truncate(output, 0)


def _read(line: str, folder: Path) -> Made:
    answer: Mapping[str, Any] = json.loads(line)
    seconds = float(answer["seconds"])
    if "model" not in answer:
        tail = "" if answer["cause"] == "unsuitable" else _tail(folder)
        return Made(product=None, cause=answer["cause"], reason=one_line(answer["reason"]), seconds=seconds, tail=tail)
    product = Product(
        model=Path(answer["model"]),
        notes=tuple(answer["notes"]),
        versions=answer["versions"],
        unchanged=answer["unchanged"],
    )
    return Made(product=product, seconds=seconds)


def _ended(process: LocalProcess, folder: Path, seconds: float) -> Made:
    """Why there is no result."""
    code = process.returncode
    if code is None:
        return Made(product=None, cause="late", reason=f"it took longer than {seconds:.3g} s", tail=_tail(folder))
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        cause: Cause = "memory" if name == "SIGKILL" else "crashed"
        words = "was killed, most likely for want of memory" if cause == "memory" else f"crashed ({name})"
        return Made(product=None, cause=cause, reason=f"the pass {words}", tail=_tail(folder))
    tail = _tail(folder)
    words = tail.strip().splitlines()[-1] if tail.strip() else "it printed nothing"
    return Made(
        product=None, cause="crashed", reason=f"the pass ended with exit code {code}: {one_line(words)}", tail=tail
    )


def _tail(folder: Path) -> str:
    with contextlib.suppress(OSError), (folder / "output").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode(errors="replace")
    return ""


def _fields(work: Work) -> dict[str, Any]:
    fields = asdict(work)
    return {
        **fields,
        "folder": str(work.folder),
        "calibration": None if work.calibration is None else str(work.calibration),
    }
