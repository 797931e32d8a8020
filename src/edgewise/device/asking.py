"""How a process on a target is asked: one JSON object to its standard input, and one from its standard output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgewise.device.link import FREE_SPACE, TargetError, read_all
from edgewise.device.target import Target
from edgewise.text import means_disk_full, one_line

MOST_ANSWER = 64 * 2**20


def ask(
    target: Target,
    module: str,
    question: Mapping[str, Any],
    *,
    folder: Path,
    timeout_s: float,
    files: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what a process on `target` answers to one JSON object on its standard input.

    Args:
        module: whose ``main`` answers with one JSON object on standard output.
        files: name → file on this machine; a value of `question` that is the name in braces becomes its path there.

    Raises:
        OSError: the process can't be started, crashed or is silent for longer than `timeout_s`.
        TypeError, ValueError: it answered something else.
        Cancelled: the work was stopped.
    """
    with target.workspace(folder, files) as workspace:
        paths = {f"{{{name}}}": target.locate(workspace, name, file) for name, file in (files or {}).items()}
        fitted = {key: paths.get(value, value) if isinstance(value, str) else value for key, value in question.items()}
        process = workspace.start(module, environment=environment)
        try:
            process.stdin.write(json.dumps(fitted).encode())
            process.stdin.close()
            answer = read_all(process, timeout_s=timeout_s, most=MOST_ANSWER)
        finally:
            process.kill()
    if not answer:
        told = process.stderr.read_text(errors="replace").strip().splitlines() if process.stderr.exists() else []
        why = one_line(told[-1])[:300] if told else "it ended without an answer"
        raise TargetError(why, advice=FREE_SPACE if means_disk_full(why) else "")
    return dict(json.loads(answer))
