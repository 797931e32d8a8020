"""The run of a program from its executions: measurements, cautions, and the cause of a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from edgewise.child_process import signal_name
from edgewise.record import Caution, Constraints, Failure, Job, Measurement, Run, SessionRecord, new_run_id
from edgewise.record.facts import NOT_A_MODEL, emulation_of
from edgewise.run.command import NOT_STARTED, Execution
from edgewise.run.limit_cautions import Use, cautions_about_limits
from edgewise.run.measurements import without_processor
from edgewise.run.rates import distribution
from edgewise.run.trust import about_load, about_width, grade_of
from edgewise.text import enumerate_few, means_out_of_memory
from edgewise.units import format_bytes, format_limit

PAUSED_S, PAUSED_SHARE = 1.0, 0.05
"""Above this time, and this share of the total time, a pause of edgewise itself is reported."""

_NO_COUNTER = "the mechanism {mechanism} does not count it"


def build_run(
    job: Job,
    executions: Sequence[Execution],
    *,
    environment: Mapping[str, Any],
    group: str,
    not_applied: Sequence[str] = (),
) -> Run:
    """Return the run of a job's executions; an execution that failed gives the run its failure.

    Args:
        not_applied: requirements of another tool's file that are not met here.

    Measurements are those of the executions that succeeded; if none did, of all of them but the total time.
    """
    limits = job.target.constraints or Constraints()
    has_model = job.model.format not in NOT_A_MODEL
    failures = [failure_of(one, limits, has_model=has_model) for one in executions]
    failure = next((each for each in failures if each is not None), None)
    good = [one for one, why in zip(executions, failures, strict=True) if why is None]
    if failure is not None and good:
        bad = len(executions) - len(good)
        count = f"{bad} of {len(executions)} executions failed and {'are' if bad > 1 else 'is'} left out"
        failure = replace(failure, message=f"{count}: {failure.message}")
    rows = list(without_processor(measurements_of(good or executions, limits), emulation_of(environment)))
    if has_model:
        rows.append(Measurement.of("model_size", job.model.size_bytes, "size of the file"))
    if not good and failure is not None:
        rows = [Measurement.absent("total_time", f"the command did not finish: {failure.message}"), *rows[1:]]
    cautions = tuple(cautions_of(good or executions, limits, failed=failure is not None))
    cautions += tuple(about_width(rows[0]))
    if not_applied:
        cautions += (Caution.of("native-environment", f"not applied: {'; '.join(not_applied)}"),)
    last = executions[-1]
    return Run(
        id=new_run_id(),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        job=job,
        status="failed" if failure else "done",
        group=group,
        failure=failure,
        effective={"mechanism": last.mechanism, "passed_over": list(last.passed_over)},
        environment=dict(environment),
        measurements=tuple(rows),
        sessions=tuple(
            SessionRecord(
                index=index,
                started_at=one.started_at,
                pid=one.pid,
                phases={"command": one.seconds},
                stopped_because=_stopped_because(one),
                facts=one.facts(),
            )
            for index, one in enumerate(executions)
        ),
        cautions=cautions,
        trust=grade_of(cautions, measured=rows[0].value is not None),
    )


def _stopped_because(one: Execution) -> str:
    if one.late:
        return "deadline"
    return "interrupted after the memory limit was reached" if one.interrupted else "the command ended"


def failure_of(one: Execution, limits: Constraints, *, has_model: bool = False) -> Failure | None:
    """Why an execution failed; None if it ended with exit code 0 and the kernel killed nothing in it."""
    code, waited = one.returncode, one.limit_reached_s is not None and not one.ended
    memory = "the memory" if limits.memory_bytes is None else f"the memory limit of {format_limit(limits.memory_bytes)}"
    told = code > 0 and means_out_of_memory(one.tail) and limits.memory_bytes is not None
    reached = _reached_limit(one, limits)
    common: dict[str, Any] = {
        "phase": "command",
        "stderr_tail": one.tail if code else "",
        "exit_code": code if code >= 0 else None,
        "signal": signal_name(-code) if code < 0 else None,
    }
    less = "free some on this machine" if limits.memory_bytes is None else "raise ⟦memory⟧"
    less += ", or use a smaller model" if has_model else ", or make the command use less"
    if one.usage.oom_kills or (reached and (told or waited)):
        message = f"the command ran out of memory: {memory} was reached"
        if waited:
            killed = f", the kernel killed {enumerate_few(one.killed)}" if one.killed else ""
            message += (
                f" after {one.limit_reached_s:.3g} s{killed}, and the command had not ended after {one.seconds:.3g} s"
            )
        return Failure(cause="OutOfMemory", message=message, advice=less, **common)
    counts, peak = one.usage.oom_kills is not None, _peak_memory(one)
    if told or (waited and not counts):  # without a counter: a limit can refuse memory that was never in use
        seen = (
            "the highest memory is not known" if peak is None else f"the highest memory seen was {format_bytes(peak)}"
        )
        end = f"had not ended after {one.seconds:.3g} s" if waited else f"ended with exit code {code}"
        message = (
            f"the command {end}, and its output says that memory ran out; {memory} "
            f"{'was not reached' if counts else 'was not seen to be reached'}: {seen}"
        )
        return Failure(
            cause="CommandFailed" if counts else "OutOfMemory",
            message=message,
            advice="see its output" if counts else less,
            **common,
        )
    if one.late:
        message = f"the command had not ended after {one.seconds:.3g} s and was killed"
        return Failure(cause="Timeout", message=message, advice="raise ⟦timeout⟧", **common)
    if code in NOT_STARTED:
        message = f"the command could not be started (exit code {code})"
        return Failure(cause="CommandFailed", message=message, advice="see its output", **common)
    if code > 0:
        advice = f"see its output; {memory} may be the reason" if reached else "see its output"
        message = f"the command ended with exit code {code}"
        return Failure(cause="CommandFailed", message=message, advice=advice, **common)
    if code < 0:
        return Failure(cause="Killed", message=f"the command was ended by {signal_name(-code)}", **common)
    return None


def _reached_limit(one: Execution, limits: Constraints) -> bool:
    """Whether the kernel, or the highest memory seen, says that the memory limit was reached."""
    told = one.limit_reached_s is not None and one.limit_told_by == "kernel"
    limit = limits.memory_bytes
    return limit is not None and (told or one.usage.reached(limit) or (_peak_memory(one) or 0) >= limit)


def _limit_hits(one: Execution) -> int | None:
    """Return a counter that stands at 0 after a kill at the limit did not count it."""
    return None if one.usage.oom_kills and not one.usage.limit_hits else one.usage.limit_hits


def measurements_of(executions: Sequence[Execution], limits: Constraints) -> list[Measurement]:
    """Every measurement, total time first. One value per execution, a median and its interval over them."""
    n = len(executions)
    over = f"{n} execution{'s' if n > 1 else ''}"
    mechanism = executions[0].mechanism
    counted = f"counters of {mechanism}"

    def row(metric: str, value: Callable[[Execution], float | None], method: str, because: str = "") -> Measurement:
        values = [value(one) for one in executions]
        known = [[float(each)] for each in values if each is not None]
        if len(known) < n:
            return Measurement.absent(metric, because or _NO_COUNTER.format(mechanism=mechanism))
        return distribution(metric, known, f"{method}, {over}")

    too_short = "the command ended before the second sample; use a shorter ⟦sample⟧"
    rusage = "resource usage of the process and of the descendants that it waited for"
    killed = any(one.usage.oom_kills for one in executions)
    interfaces = "the system does not count traffic"
    rows = [
        row("total_time", lambda one: one.seconds, "monotonic clock from the start to the end of the process"),
        row("cpu_time", lambda one: one.cpu_s, counted if executions[0].usage.cpu_s is not None else rusage),
        row("cpu_utilization", _utilization, "processor time divided by total time; 1 = one core"),
        row("cpu_utilization_peak", _peak_utilization, "highest between two samples, at least the average", too_short),
        row("throttled_time", lambda one: one.usage.throttled_s, counted),
        row(
            "memory_average",
            _average_memory,
            f"mean over {_count_samples(executions)}",
            "too few samples over the time that the command ran; use a shorter ⟦sample⟧",
        ),
        row(
            "memory_group_peak",
            _highest_memory,
            f"{counted}, page cache included; or more for one of the processes (VmHWM, ru_maxrss): pages of files that "
            "were in memory before count for whoever read them first"
            if executions[0].usage.memory_peak_bytes is not None
            else "resident memory: the highest sample (all processes), or more for one of them (ru_maxrss)",
            "no sample was taken, and ru_maxrss is that of edgewise itself; use a shorter ⟦sample⟧",
        ),
        row(
            "memory_limit_hits",
            _limit_hits,
            counted,
            f"{mechanism} did not count the limit at which a process was killed" if killed else "",
        ),
        row("network_received", lambda one: one.network and one.network[0], "/proc/net/dev without lo", interfaces),
        row("network_sent", lambda one: one.network and one.network[1], "/proc/net/dev without lo", interfaces),
    ]
    for metric, name, field in (
        ("block_read", "read_bytes", "ru_inblock"),
        ("block_written", "written_bytes", "ru_oublock"),
    ):
        has_counter = all(getattr(one.usage, name) is not None for one in executions)
        counter = _counter(name) if has_counter else _blocks(field)
        rows.append(row(metric, counter, counted if has_counter else rusage))
    for metric, fields in (
        ("page_faults", ("ru_minflt",)),
        ("page_faults_major", ("ru_majflt",)),
        ("context_switches", ("ru_nvcsw", "ru_nivcsw")),
    ):
        rows.append(row(metric, _rusage_sum(fields), rusage))
    if limits.memory_bytes is None:
        rows.append(Measurement.absent("memory_limit", "no memory limit was set"))
    else:
        rows.append(row("memory_limit", lambda _: limits.memory_bytes, f"set through {mechanism}"))
    return rows


def _utilization(one: Execution) -> float | None:
    return one.cpu_s / one.seconds if one.cpu_s is not None and one.seconds > 0 else None


def _peak_utilization(one: Execution) -> float | None:
    """Highest processor time per wall time between two samples; the start counts as one.

    After the last sample it may have been higher, so that the average over the whole time may exceed it.
    """
    points = [(0.0, 0.0), *((at, usage.cpu_s) for at, usage in one.samples if usage.cpu_s is not None)]
    rates = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(points)]
    return max(*rates, _utilization(one) or 0.0) if rates else None


def _count_samples(executions: Sequence[Execution]) -> str:
    counts = sorted({len(_memory_samples(one)) for one in executions})
    return f"{counts[0]} samples" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} samples"


def _memory_samples(one: Execution) -> list[int]:
    return [usage.memory_bytes for _, usage in one.samples if usage.memory_bytes is not None]


def _average_memory(one: Execution) -> float | None:
    """Return the mean of the samples; None where there are fewer than two, or half of the time passed without one."""
    known = _memory_samples(one)
    times = [at for at, usage in one.samples if usage.memory_bytes is not None]
    longest = max(after - before for before, after in pairwise([0.0, *times, one.seconds]))
    return sum(known) / len(known) if len(known) > 1 and longest <= one.seconds / 2.0 else None


def _peak_memory(one: Execution) -> float | None:
    """Return the kernel's peak, which the limit is about; without it, the highest that is known."""
    if one.usage.memory_peak_bytes is not None:
        return one.usage.memory_peak_bytes
    return _highest_memory(one)


def _highest_memory(one: Execution) -> int | None:
    """Return the highest memory that is known of all processes together, or of one of them.

    A process keeps in ``ru_maxrss`` what its parent had before the program started: no more than that tells nothing.
    That of a container's client says nothing of the container.
    """
    counted = one.usage.memory_peak_bytes
    if counted is not None and (one.usage.oom_kills or one.usage.limit_hits):
        return counted  # it met its limit, which is about this number
    known = _memory_samples(one) if counted is None else [counted]
    inside = counted is None or one.mechanism.startswith("cgroup")
    known += [one.resident_bytes] if inside and one.resident_bytes else []
    if inside and one.rusage is not None and one.rusage.ru_maxrss * 1024 > one.own_rss_bytes:
        known.append(one.rusage.ru_maxrss * 1024)
    return max(known, default=None)


def _counter(name: str) -> Callable[[Execution], float | None]:
    return lambda one: getattr(one.usage, name)


def _blocks(field: str) -> Callable[[Execution], float | None]:
    """Linux counts these in units of 512 B (getrusage(2))."""
    return lambda one: None if one.rusage is None else getattr(one.rusage, field) * 512


def _rusage_sum(fields: Sequence[str]) -> Callable[[Execution], float | None]:
    return lambda one: None if one.rusage is None else sum(getattr(one.rusage, field) for field in fields)


def cautions_of(executions: Sequence[Execution], limits: Constraints, *, failed: bool) -> list[Caution]:
    """Limits that did not hold, processors that were not used fully, too few executions, processes left behind."""
    uses = [
        Use(
            cpu_s=one.cpu_s,
            seconds=one.seconds,
            memory_bytes=None if one.usage.memory_peak_bytes is None else _highest_memory(one),
            cannot_hold=one.cannot_hold,
        )
        for one in executions
    ]
    found = cautions_about_limits(limits, uses, complete=not failed)
    found += about_load([one.counters for one in executions])
    if left := max(one.left for one in executions):
        found.append(Caution.of("processes-left", f"up to {left} processes were still running when the command ended"))
    paused = max(one.paused_s for one in executions)
    if paused > PAUSED_S and any(one.paused_s > PAUSED_SHARE * one.seconds for one in executions):
        found.append(Caution.of("edgewise-paused", f"the total time may be too long by up to {paused:.3g} s"))
    if len(executions) == 1:
        advice = "use ⟦repeat=3⟧ or more, so that there is an interval over executions"
        found.append(Caution(code="single-session", message="one execution: there is no interval", advice=advice))
    return found
