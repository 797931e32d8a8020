"""What is printed of one run: its value, its name among others, what it used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise.formatting import amount_text, quantity
from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.record.facts import threads_of
from edgewise.report.runs.conditions import provider_of
from edgewise.text import one_line, plural
from edgewise.units import format_limit, significant


def use_of(run: Run) -> str:
    """``; peak memory 51.2 MiB of 512 MiB, 0.48 processors in use (limit 0.5, paused by it for 1.20 s)``: of a program.

    "" for a model.
    """
    if not run.job.command:
        return ""
    limits, peak, busy = run.job.target.constraints, run.value("memory_group_peak"), run.value("cpu_utilization")
    most, cpus = (limits.memory_bytes, limits.cpus) if limits else (None, None)
    of = f" of {format_limit(most)}" if most else ""
    words = [] if peak is None else [f"peak memory {quantity(peak, 'B')}{of}"]
    paused = run.value("throttled_time")
    held = "" if paused is None else f", paused by it for {quantity(paused, 's')}" if paused else ", never paused by it"
    limit = f" (limit {cpus:g}{held})" if cpus else ""
    words += [] if busy is None else [f"{significant(busy, 2)} processors in use{limit}"]
    return f"; {', '.join(words)}" if words else ""


def namer(runs: Sequence[Run]) -> Callable[[Run], str]:
    """Return what names one of `runs`: ``kws.onnx on onnxruntime/cpu with 2 threads``; a program by its name alone.

    Threads are named where any run has more than one.
    """
    told = any((threads_of(run) or 1) > 1 for run in runs)

    def name(run: Run) -> str:
        threads = threads_of(run) or 1
        where = "" if run.job.command else where_of(run)
        words = f" with {plural(threads, 'thread')}" if told and not run.job.command else ""
        return f"{one_line(run.job.model.name)}{where}{words}"

    return name


def where_of(run: Run) -> str:
    """Return ``" on onnxruntime/cpu"``; for a program with limits ``" (mechanism cgroup-v2)"``, without ``""``."""
    engine = provider_of(run)
    if not run.job.command:
        return f" on {engine}"
    return f" (mechanism {engine.partition('/')[2]})" if run.job.target.constraints is not None else ""


def judged_text(run: Run) -> str:
    """``"409 ± 17 µs, grade B"``: the same with the grade."""
    grade = "" if run.trust is None else f", grade {run.trust.grade}"
    return headline_text(run) + grade + (" (unreliable)" if grade.endswith("D") else "")


def headline_text(run: Run, *, interval: bool = True) -> str:
    """Return the value of the run's headline metric, ``"409 ± 17 µs"``, or ``"no latency"``."""
    row = run.measurement(run.headline)
    if row is None or row.value is None:
        return f"no {METRICS[run.headline].label.lower()}"
    return amount_text(row.unit, row.value, *((row.low, row.high) if interval else (None, None)))


def parts_of_start_up(run: Run) -> dict[str, list[float]]:
    """Return the parts that a start-up is the sum of, in s, process by process; {} where they are not recorded.

    The interpreter's start includes finding the adapter of the engine.
    """
    row = run.measurement("startup_time")
    if row is None or row.value is None:
        return {}
    phases = [session.phases for session in run.sessions if {"python", "import", "load", "first"} <= {*session.phases}]
    parts = {
        "starting Python": [each["python"] + each.get("prepare", 0.0) for each in phases],
        "importing the engine": [each["import"] for each in phases],
        "loading the model": [each["load"] for each in phases],
    }
    if "compile" in row.method:
        parts["compiling it"] = [each.get("compile", 0.0) for each in phases]
    return {**parts, "the first inference": [each["first"] for each in phases]} if phases else {}
