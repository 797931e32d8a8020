"""Processes that the supervisor starts on a device: what runs it there, and the number of what it started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import PurePath
from typing import Any

from edgewise.cancellation import wait_readable
from edgewise.clock import now
from edgewise.device.link import LinkLost, TargetError
from edgewise.device.supervisor import MARK
from edgewise.device.transport import Process

OLDEST_PYTHON = (3, 11)
MOST_HEADER = 2**16
"""Bytes that a shell may print before the supervisor starts."""


def supervisor_words(command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str]) -> list[str]:
    """Return the words behind ``python -c`` that start `command` in `folder`: the supervisor and its arguments."""
    source = resources.files("edgewise.device").joinpath("supervisor.py").read_text(encoding="utf-8")
    return [source, str(folder), json.dumps(dict(environment)), *command]


def python_advice(device: str) -> str:
    """Return what to do where the Python of a registered device can't be used."""
    return f"edgewise devices check {device} lists what is missing there; set python = PATH in devices.toml"


def await_start(
    process: Process, python: str, *, timeout_s: float, advice: str, explain: Callable[[str], OSError]
) -> int:
    """Return the number of the process that the supervisor starts; `process`, the way to it, is killed where that
    fails.

    Args:
        python: the command of the interpreter that the supervisor runs in.
        advice: for errors about that interpreter.
        explain: returns the error where the supervisor does not start, given the last line that was printed instead.

    Raises:
        LinkLost: nothing was started within `timeout_s`.
        TargetError: the interpreter is too old, or nothing was started.
    """
    try:
        header = _read_header(process, timeout_s=timeout_s)
        if isinstance(header, str):
            raise explain(header)
        version = str(header.get("version", "0"))[:20]
        if tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2]) < OLDEST_PYTHON:
            raise TargetError(f"{python} is Python {version}; 3.11 or newer is needed", advice=advice)
        if not isinstance(number := header.get("pid"), int):
            raise TargetError(str(header.get("error", "its answer is garbage"))[:500])
    except BaseException:
        process.kill()
        raise
    return number


def _read_header(process: Process, *, timeout_s: float) -> Mapping[str, Any] | str:
    """Return the supervisor's first line; the last line before it where the output ends. Nothing behind it is read.

    Raises `LinkLost` after `timeout_s`, `TargetError` for garbage.
    """
    descriptor, end_by, line, last = process.stdout.fileno(), now() + timeout_s, bytearray(), ""
    for _ in range(MOST_HEADER):
        if not wait_readable([descriptor], max(0.0, end_by - now())):
            raise LinkLost(f"no process was started within {timeout_s:g} s")
        piece = os.read(descriptor, 1)
        if piece and piece != b"\n":
            line += piece
            continue
        text = line.decode(errors="replace")
        _, mark, header = text.partition(MARK)
        if mark:
            try:
                return dict(json.loads(header))
            except (ValueError, TypeError, RecursionError) as error:
                raise TargetError("its answer is garbage") from error
        last = text.strip() or last
        if not piece:
            return last
        line.clear()
    raise TargetError(f"its shell prints more than {MOST_HEADER} B")
