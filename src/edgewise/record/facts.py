"""What came into force in a run, as far as its record tells; else what was asked for."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.record.run import Run
from edgewise.text import one_line


def threads_of(run: Run) -> int | None:
    """Threads in force, else those asked for; None where the engine chose and does not tell."""
    value = run.effective.get("threads")
    return value if type(value) is int else run.job.runtime.threads


def precision_of(run: Run) -> str | None:
    """Execution precision in force, else the one asked for; None where the engine does not tell.

    A quantised network is ``int8 + f32``: its floating-point precision is only that of the operators around it.
    """
    value = run.effective.get("precision")
    floats = one_line(str(value)) if value else run.job.runtime.precision
    operators = run.effective.get("precision_of_operators")
    if isinstance(operators, Mapping) and {"i8", "u8"} & set(operators):
        return f"int8 + {floats}" if floats else "int8"
    return floats
