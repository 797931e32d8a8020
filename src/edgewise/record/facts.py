"""Facts about a run: settings in effect, as the engine reports them or else as requested, and its processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.record.run import Run
from edgewise.text import one_line

SCRIPTS = ("py", "sh", "js", "pl", "rb", "jar", "exe")
"""Endings of files that are programs."""
NOT_A_MODEL = ("program", "name", *SCRIPTS)
"""Formats of `ModelRef` that stand for a program or a script, or for a word in a command that names no file."""


def is_unreliable(run: Run) -> bool:
    """Return whether `run` has grade D."""
    return run.trust is not None and run.trust.grade == "D"


def is_profiled(run: Run) -> bool:
    """Return whether `run` has a profile with layers."""
    return run.profile is not None and bool(run.layers)


def is_only_vague(run: Run) -> bool:
    """Return whether the grade D of `run` says no more than that the interval of its headline is very wide."""
    codes = {caution.code for caution in run.cautions}
    return "very-wide-interval" in codes and "too-few-samples" not in codes


def threads_of(run: Run) -> int | None:
    """Return the number of threads in effect, otherwise the number requested; None if neither is known."""
    value = run.effective.get("threads")
    return value if type(value) is int else run.job.runtime.threads


def precision_of(run: Run) -> str | None:
    """Return the precision in effect, otherwise the one requested; None if neither is known.

    A network whose products (convolutions, matrix products, recurrent layers) run on 8-bit integers has ``int8 + f32``;
    ``f32`` is the precision of its other operators. In records of earlier versions, all operators are counted.
    """
    floats = floats_of(run)
    if uses_int8(run):
        return f"int8 + {floats}" if floats else "int8"
    return floats


def network_precision(run: Run) -> str | None:
    """``"float32"``, ``"int8"``, ``"float32 run in bfloat16"``: the precision in the file, and the engine's where it is
    another one. What the engine reports where the file's is not recorded; None if neither is known.
    """
    file, used = one_line(str(run.effective.get("file_precision") or "")), precision_of(run)
    if not file or used is None:
        return file or used
    engine = "int8" if uses_int8(run) else _LONG.get(used.lower(), used)
    alike = engine in file or (engine == "int8" and "int" in file)
    return file if alike else f"{file} run in {engine}"


_LONG = {"f32": "float32", "fp32": "float32", "f16": "float16", "fp16": "float16", "bf16": "bfloat16"}
"""What engines call a precision → what model files call it."""


def floats_of(run: Run) -> str | None:
    """Return the precision of the operators on floating-point numbers, as `precision_of`."""
    value = run.effective.get("precision")
    return one_line(str(value)) if value else run.job.runtime.precision


def uses_int8(run: Run) -> bool | None:
    """Return whether products run on 8-bit integers; None if the engine reports neither them nor a precision."""
    counted = run.effective.get("precision_of_products")
    counted = run.effective.get("precision_of_operators") if counted is None else counted
    if isinstance(counted, Mapping) and counted:
        return bool({"i8", "u8"} & set(counted))
    return False if floats_of(run) else None


def environment_words(environment: str | None) -> str:
    """``"onnxruntime 1.30.0"``: a Python environment by what it has."""
    return one_line(environment or "edgewise's own").replace("==", " ")


def variable_words(variables: Sequence[str]) -> str:
    """``"OMP_WAIT_POLICY=active"``: the environment variables that were set for a worker."""
    return one_line(" ".join(variables)) or "no variables set"


def differing_variables(sets: Sequence[Sequence[str]]) -> list[str]:
    """`variable_words` of each set without the variables that all sets have."""
    common = set(sets[0]).intersection(*sets) if sets else set()
    return [variable_words([text for text in each if text not in common]) for each in sets]


def emulation_of(environment: Mapping[str, Any]) -> str:
    """Return why times, energy and memory say nothing in this environment: its processor is emulated; "" if not."""
    machine = environment.get("virtualisation")
    emulator = machine.get("emulator") if isinstance(machine, Mapping) else None
    return f"emulated processor: {one_line(str(emulator))} runs the programs of this device" if emulator else ""
