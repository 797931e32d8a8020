"""The trust grade of a run: cautions found in the data and about the machine, and the grade that follows from them.

All thresholds are in this module. The grade is the worst one to which any caution limits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgewise.formatting import VERY_WIDE, amount_text, is_very_wide, width_text
from edgewise.record import CAUTIONS, Caution, Job, Measurement, Trust
from edgewise.record.facts import emulation_of
from edgewise.record.run import Grade
from edgewise.run.generated import cautions_of_stalls
from edgewise.run.host_protocol import SessionResult
from edgewise.run.limit_cautions import about_limits
from edgewise.run.stopping import TIME_BUDGET
from edgewise.runtime.arrays import MOST_TOLD
from edgewise.stats import diagnosis
from edgewise.stats.summary import outlier_mask
from edgewise.text import listing
from edgewise.units import format_quantity
from edgewise.workload.input_shapes import ASSUMED, open_axes
from edgewise.workload.inputs import CONVERTED

LEAST_SAMPLES = 9
"""With fewer samples, the interval of a median can't reach 95 %. Google Benchmark has the same rule."""
WIDE = 0.05
SESSIONS_DIFFER = 0.03
DRIFT, DRIFT_P = 0.05, 0.01
OUTLIER_SHARE, FAR = 0.01, 0.2
MEAN_ABOVE = 1.25
"""The mean in medians from which a throughput seems to contradict the latency."""
OVERLOADED = 0.01
BUSY, STEAL = 0.10, 0.01
MEMORY_PRESSURE = 0.05
SWITCHES_PER_S = 100.0
DUTY_OFF = 0.1
STILL_CACHED = 0.05
CLOCK_OFF, LEAST_CLOCK_S = 0.05, 0.5
"""Both lines with the times of a window cross the port, which delays each by some milliseconds."""
NOT_REPEATABLE = "not-repeatable"
NOT_DEFAULT = "not-default-precision"
TOLD_BY_SESSIONS = frozenset({"graph-breaks", "keeps-state", NOT_REPEATABLE})
"""Cautions that an engine's session finds (`edgewise.runtime.base.TellsCautions`)."""
LOAD_SHARE = 0.5
"""A background load that used less than this share of the cores that it could have was not a load."""


def cautions_of(
    job: Job,
    *,
    sessions: Sequence[SessionResult],
    measurements: Sequence[Measurement],
    usable_cores: int,
    layered: Sequence[SessionResult] = (),
) -> tuple[Caution, ...]:
    """Return the cautions of a run, from its data, its machine and its settings.

    Args:
        layered: sessions that timed layers, where the headline is of those.
    """
    rows = {row.metric: row for row in measurements}
    headline, misses = rows.get(job.workload.scenario.headline), rows.get("deadline_miss_rate")
    found: list[Caution] = []
    if headline is not None and headline.value is not None:
        found += _about_data(job, headline, layered or sessions)
    if misses is not None and (misses.low or 0.0) > OVERLOADED:
        message = f"{misses.value:.0%} of the inputs were unfinished when the next one was due"
        found.append(Caution.of("overloaded", message))
    found += _about_scenario(job, sessions, usable_cores)
    found += _about_machine(job, [*sessions, *layered], usable_cores)
    return (*found, *_about_conditions(sessions), *_about_board(sessions), *_about_settings(job, sessions))


def about_emulation(environment: Mapping[str, Any]) -> tuple[Caution, ...]:
    """Return the caution about an emulated processor, if it is one."""
    why = emulation_of(environment)
    return (Caution.of("emulated-processor", why),) if why else ()


def grade_of(cautions: Sequence[Caution], *, measured: bool) -> Trust:
    """Return the grade to which `cautions` limit a run, with all reasons. A run without a headline value gets D."""
    if not measured:
        return Trust(grade="D", reasons=("no headline value",))
    order: tuple[Grade, ...] = ("A", "B", "C", "D")
    caps = [(CAUTIONS[caution.code][0], caution.message) for caution in cautions]
    worst = max((order.index(cap) for cap, _ in caps if cap in order), default=0)
    reasons = tuple(f"{message} (at best {cap})" for cap, message in sorted(caps, reverse=True) if cap != "A")
    return Trust(grade=order[worst], reasons=reasons)


def _about_data(job: Job, headline: Measurement, sessions: Sequence[SessionResult]) -> Iterator[Caution]:
    summary = headline.summary
    n = summary.n if summary else len(headline.samples)
    # A sample of a board is the mean of a window.
    windows = [window for session in sessions for window in session.facts.get("board", {}).get("windows", ())]
    inferences = sum(window["inferences"] for window in windows) or n
    if headline.samples and inferences < LEAST_SAMPLES:
        yield Caution.of("too-few-samples", f"only {inferences} samples: unreliable")
    if len(sessions) == 1:
        single = Caution.of("single-session", "one process only: the interval lacks differences between processes")
        if job.workload.scenario.sustained_s is not None:  # excludes --sessions
            single = replace(single, advice="run the command again to see how much processes differ")
        yield single
    yield from _about_width(job, headline, sessions)
    if summary and summary.between_sessions is not None and summary.between_sessions > SESSIONS_DIFFER:
        message = f"medians of fresh processes differ by {summary.between_sessions:.1%} (standard deviation)"
        yield Caution.of("sessions-differ", message)
    if job.workload.scenario.kind == "generate":
        yield from cautions_of_stalls(sessions)
    if any(not session.facts.get("steady", {}).get("warmup_found", True) for session in sessions):
        yield Caution.of("no-steady-state", "latency was not steady when measuring ended")
    shape = list(_about_shape(headline))
    if job.workload.scenario.sustained_s is not None:  # a change over time is what such a run is to show
        shape = [caution for caution in shape if caution.code != "drift"]
    # Samples of a second cluster are far from the median, too: report them as a cluster only.
    far = 0 if any(caution.code == "multimodal" for caution in shape) else _far_outliers(headline)
    if far > OUTLIER_SHARE * n:
        yield Caution.of("outliers", f"{far} of {n} samples are more than {FAR:.0%} from the median")
    yield from shape
    if headline.metric == "latency" and summary and headline.value and summary.mean > MEAN_ABOVE * headline.value:
        yield _about_mean(headline, summary.mean, headline.value, _worst(sessions, "busy_share_of_others"))


def _about_mean(headline: Measurement, mean: float, median: float, busy: float | None) -> Caution:
    """Return the caution about a mean that is far above the median.

    Args:
        busy: the largest share of the processor time that other processes used; None where it is unknown.
    """
    long = float(np.mean(np.asarray(headline.samples) > mean)) if headline.samples else 0.0
    message = f"median {format_quantity(median, 's')}, mean {format_quantity(mean, 's')}"
    message += f": {long:.1%} of the inferences took longer than the mean" if long else ""
    if busy is not None and busy > BUSY:
        message += f", while other processes used up to {busy:.0%} of the processor time"
    return Caution.of("mean-above-median", message)


def about_width(headline: Measurement) -> Iterator[Caution]:
    """Return the caution about a wide interval, if it is one."""
    half, value, low, high = headline.half_width, headline.value, headline.low, headline.high
    if half is None or not value or low is None or high is None:
        return
    if is_very_wide(low, high):
        message = f"the 95 % interval, {amount_text(headline.unit, value, low, high)}, {VERY_WIDE}"
        yield Caution.of("very-wide-interval", message)
    elif half > WIDE:
        width = width_text(value, low, high, headline.unit)
        yield Caution.of("wide-interval", f"the 95 % interval is {width} of the value")


def _about_width(job: Job, headline: Measurement, sessions: Sequence[SessionResult]) -> Iterator[Caution]:
    yield from about_width(headline)
    value, low, high = headline.value, headline.low, headline.high
    if headline.half_width is None or not value or low is None or high is None:
        return
    target = job.workload.stopping.relative_half_width
    stopped = [session.facts.get("steady", {}).get("stopped_because") for session in sessions]
    within = headline.within_half_width
    if TIME_BUDGET in stopped and within is not None and within > target:
        low, high = headline.within_ends
        assert low is not None and high is not None
        width = width_text(value, low, high, headline.unit)
        message = f"the interval within this run is {width}, wider than the target of ± {target:.0%}"
        yield Caution.of("stopped-early", message)


def _far_outliers(headline: Measurement) -> int:
    """Count outliers that are also far from the median: on a quiet machine every timer tick is an outlier."""
    samples = np.asarray(headline.samples)
    if len(samples) == 0:
        return 0
    median = float(np.median(samples))
    return int(np.count_nonzero(outlier_mask(samples) & (np.abs(samples - median) > FAR * median)))


def _about_shape(headline: Measurement) -> Iterator[Caution]:
    """Return cautions about drift and clusters."""
    samples = np.asarray(headline.samples)
    if len(samples) < LEAST_SAMPLES:
        return
    drift = diagnosis.drift(samples, headline.session_lengths)
    if drift is not None and abs(drift.relative_change) > DRIFT and drift.p_value < DRIFT_P:
        way = "rose" if drift.relative_change > 0 else "fell"
        yield Caution.of(
            "drift", f"{headline.metric} {way} by {abs(drift.relative_change):.1%} of its median while measuring"
        )
    modes = diagnosis.modes(samples)
    if len(modes) > 1:
        clusters = ", ".join(f"{format_quantity(mode.value, headline.unit)} ({mode.share:.0%})" for mode in modes)
        yield Caution.of("multimodal", f"samples form {len(modes)} clusters: {clusters}")


def _about_scenario(job: Job, sessions: Sequence[SessionResult], usable_cores: int) -> Iterator[Caution]:
    """Return cautions about conditions of the scenario that did not hold."""
    scenario = job.workload.scenario
    if scenario.duty_cycle is not None:
        found = [session.facts.get("steady", {}).get("duty_cycle") for session in sessions]
        off = [share for share in found if share is not None and abs(share / scenario.duty_cycle - 1) > DUTY_OFF]
        if off:
            message = f"inferences took {off[0]:.1%} of the time, not {scenario.duty_cycle:.1%}"
            yield Caution.of("load-not-held", message)
    cached = [session.facts.get("file_cache", {}).get("cached_after") for session in sessions]
    if (left := max((share for share in cached if share is not None), default=0.0)) > STILL_CACHED:
        yield Caution.of("cache-not-dropped", f"{left:.0%} of the model's files stayed in the file cache")
    if scenario.background_load:
        used = [session.facts.get("background_cpu") for session in sessions if "background_cpu" in session.facts]
        if None in used:
            yield Caution.of("load-not-held", "a process of the background load ended before the measurement")
        expected = min(scenario.background_load, max(1, usable_cores - 1))
        if (least := min((share for share in used if share is not None), default=expected)) < LOAD_SHARE * expected:
            message = f"background load of {scenario.background_load}: it used {least:.2f} of {usable_cores} cores"
            yield Caution.of("load-not-held", message)


def _worst(sessions: Sequence[SessionResult], key: str) -> float | None:
    return _largest([session.facts.get("counters", {}) for session in sessions], key)


def _largest(counters: Sequence[Mapping[str, Any]], key: str) -> float | None:
    return max((value for each in counters if (value := each.get(key)) is not None), default=None)


def about_load(counters: Sequence[Mapping[str, Any]]) -> Iterator[Caution]:
    """Return cautions about processor time that other processes and other virtual machines used.

    Args:
        counters: of each process, as `edgewise.run.counters.Counters.delta` has them.
    """
    busy, steal = _largest(counters, "busy_share_of_others"), _largest(counters, "steal_share")
    if busy is not None and busy > BUSY:
        yield Caution.of("busy-host", f"other processes used up to {busy:.0%} of the processor time")
    if steal is not None and steal > STEAL:
        yield Caution.of("steal", f"other virtual machines took up to {steal:.1%} of the processor time")


_WHO_OTHERS_ARE = {"busy-host": "other programs", "steal": "other virtual machines"}


def _about_machine(job: Job, sessions: Sequence[SessionResult], usable_cores: int) -> Iterator[Caution]:
    load = list(about_load([session.facts.get("counters", {}) for session in sessions]))
    yield from load
    pinned = any(session.facts.get("effective", {}).get("cpu_pinning") is True for session in sessions)
    if pinned and load:
        others = listing([_WHO_OTHERS_ARE[each.code] for each in load])
        message = f"{job.runtime.name} pins its threads to processors, where they wait for {others}"
        yield Caution.of("pinned-threads", message)
    switches = _worst(sessions, "involuntary_per_s")
    if switches is not None and switches > SWITCHES_PER_S:
        yield Caution.of("context-switches", f"up to {switches:.0f} involuntary context switches per second")
    waited = _worst(sessions, "memory_pressure_share")
    if waited is not None and waited > MEMORY_PRESSURE:
        message = f"programs waited for memory up to {waited:.0%} of the time (/proc/pressure/memory)"
        yield Caution.of("memory-pressure", message)
    throttled = _worst(sessions, "throttled_s")
    limits = job.target.constraints
    if limits is not None:
        scenario = job.workload.scenario
        pauses = scenario.duty_cycle is not None or scenario.kind == "paced"
        yield from about_limits(limits, [session.facts for session in sessions], pauses=pauses)
    if throttled:
        expected = limits is not None and limits.cpus is not None
        code, cause = ("paused-by-limit", "the processor limit") if expected else ("throttled", "a cgroup quota")
        yield Caution.of(code, f"{cause} paused the worker for {throttled:.2f} s")
    if job.runtime.threads is not None and job.runtime.threads > usable_cores:
        yield Caution.of("oversubscribed", f"{job.runtime.threads} threads on {usable_cores} usable cores")


def _about_conditions(sessions: Sequence[SessionResult]) -> Iterator[Caution]:
    """Return cautions about the battery and the heat of a phone, read before and after each session."""
    readings = [each for session in sessions for each in session.facts.get("conditions", {}).values()]
    if any(each["charging"] for each in readings):
        yield Caution.of("charging", "the battery was charging while the device was measured")
    statuses = [each["thermal_status"] for each in readings if each["thermal_status"]]
    if statuses:
        yield Caution.of("thermal-status", f"Android's thermal status reached {max(statuses)} (0 is none, 6 shutdown)")


def about_provider(provider: str | None) -> Iterator[Caution]:
    """Return a caution about a provider that its makers have given up."""
    if provider == "nnapi":
        yield Caution.of("nnapi-deprecated", "NNAPI is deprecated since Android 15")


def _about_board(sessions: Sequence[SessionResult]) -> Iterator[Caution]:
    """Return a caution if the timer of a board at a serial port runs at another speed than this machine's clock."""
    boards = [session.facts["board"] for session in sessions if "board" in session.facts]
    windows = [window for board in boards if not board["emulated"] for window in board["windows"]]
    ratios = [window["board_s"] / window["host_s"] for window in windows if window["host_s"] >= LEAST_CLOCK_S]
    if ratios and abs(float(np.median(ratios)) - 1) > CLOCK_OFF:
        ratio = float(np.median(ratios))
        yield Caution.of("board-clock", f"the board's timer ran at {ratio:.3g} times the speed of this machine's clock")


def _about_settings(job: Job, sessions: Sequence[SessionResult]) -> Iterator[Caution]:
    yield from about_provider(job.runtime.provider)
    effective: Mapping[str, Any] = sessions[0].facts.get("effective", {}) if sessions else {}
    scenario = job.workload.scenario
    asked = {
        "threads": job.runtime.threads,
        "precision": job.runtime.precision,
        "streams": scenario.streams,
        "requests": scenario.requests,
    }
    for name, wanted in asked.items():
        got = effective.get(name)
        if wanted is None or got == wanted:
            continue
        if got is not None:
            yield Caution.of("settings-ignored", f"requested {name} {wanted}, the engine uses {got}")
        elif name in ("streams", "requests") and wanted != 1:
            yield Caution.of("settings-ignored", f"requested {name} {wanted}, the engine reports none")
    default, used = effective.get("default_precision"), effective.get("precision")
    if job.runtime.precision is None and default and used and default != used:
        yield Caution.of(
            NOT_DEFAULT,
            f"{job.runtime.name}'s own default on this device is {default}, and this ran in {used}; "
            f"⟦precision={used},{default}⟧ measures both",
        )
    if fixed := _fixed_dimensions(job, effective.get("fixed_dimensions")):
        yield Caution.of("fixed-dimensions", fixed)
    fell_back = next((session.facts["fell_back"] for session in sessions if "fell_back" in session.facts), None)
    if fell_back:
        yield Caution.of("slower-call", str(fell_back))
    for code, message in (sessions[0].facts.get("cautions", {}) if sessions else {}).items():
        if code in TOLD_BY_SESSIONS:
            yield Caution.of(code, str(message)[:MOST_TOLD])
    assumed = [f"{spec.name}: {spec.note}" for spec in job.workload.inputs if ASSUMED in spec.note]
    if assumed:
        yield Caution.of("assumed-shape", "; ".join(assumed))
    converted = [f"{spec.name}: {spec.note}" for spec in job.workload.inputs if CONVERTED in spec.note]
    if converted:
        yield Caution.of("input-converted", "; ".join(converted))


def _fixed_dimensions(job: Job, told: Mapping[str, Mapping[str, int]] | None) -> str:
    """Return which open dimensions the engine had fixed before it compiled the file; "" for none."""
    others = {(spec.name, axis) for spec in job.workload.inputs for axis in open_axes(spec)}
    sizes: dict[str, int] = {}
    for name, axes in (told or {}).items():
        for axis, size in axes.items():
            is_batch = axis == "0" and (name, 0) not in others and size == job.workload.batch
            sizes["batch" if is_batch else f"dimension {axis} of {name}"] = size
    if not sizes:
        return ""
    are, they = ("is", "it was") if len(sizes) == 1 else ("are", "they were")
    return (
        f"the file's {listing(list(sizes))} {are} open: {they} fixed to {listing(list(map(str, sizes.values())))} for "
        f"{job.runtime.name}; compiled as it is, it may be slower"
    )
