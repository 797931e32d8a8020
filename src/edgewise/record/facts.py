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

    A network whose products (convolutions, matrix products, recurrent layers) run on 8-bit integers is ``int8 + f32``:
    its floating-point precision is that of the operators around them. Records of earlier versions count all operators.
    """
    value = run.effective.get("precision")
    floats = one_line(str(value)) if value else run.job.runtime.precision
    counted = run.effective.get("precision_of_products")
    counted = run.effective.get("precision_of_operators") if counted is None else counted
    if isinstance(counted, Mapping) and {"i8", "u8"} & set(counted):
        return f"int8 + {floats}" if floats else "int8"
    return floats
