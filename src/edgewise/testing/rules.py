"""What the conformance suites share: failing with the name of a rule, and importing a plug-in in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

DEADLINE_S = 120.0


def requiring(subject: str) -> Callable[[bool, str], None]:
    """Return a function of a condition and a message that raises AssertionError, about `subject`, where the
    condition fails.

    Unlike `assert` it also holds under ``python -O``.
    """

    def require(condition: bool, message: str) -> None:
        if not condition:
            raise AssertionError(f"{subject}: {message}" if subject else message)

    return require


def probe_import(plugin: object, code: str, *words: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what `code` tells of `plugin` in a fresh interpreter, and the last line of its standard error.

    Args:
        code: gets the plug-in's ``module:class`` and `words` as arguments, and prints ``PROBE`` and a JSON object.

    Returns:
        None for what it tells where it did not get so far.
    """
    location = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
    # -P would hide a plug-in that lies beside the test, so this process's path is handed on instead.
    code = f"import sys; sys.path[:] = {sys.path!r}\n{code}"
    command = [sys.executable, "-c", code, location, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("PROBE")]
    told = json.loads(lines[0].removeprefix("PROBE")) if lines else None
    return told, done.stderr.strip().splitlines()[-1:]
