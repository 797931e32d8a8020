"""The measurements of a run, from what its workers sent.

Pure data → data. Nothing is invented: a figure that no worker could give becomes a measurement without a value and with
the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np

from edgewise.record import Job, Measurement, SessionRecord, Variation
from edgewise.run.energy import energy_rows, failures_of, source_of, token_energy_rows
from edgewise.run.generated import generated_rows
from edgewise.run.host_protocol import SessionResult
from edgewise.run.metering import OF_ENERGY
from edgewise.run.rates import distribution, rate_ends
from edgewise.run.variation import widen
from edgewise.stats import intervals
from edgewise.stats.proportions import wilson_interval
from edgewise.stats.summary import summarise
from edgewise.text import one_line

WARMUP_KEPT = 1000
"""Warm-up times that are kept: a fast model has tens of thousands, and only the first ones are of interest."""

Z95 = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


def measurements_of(
    job: Job,
    sessions: Sequence[SessionResult],
    *,
    meter_absences: Mapping[str, str],
    variation: Variation | None = None,
    layered: Sequence[SessionResult] = (),
) -> tuple[Measurement, ...]:
    """Every measurement that complete sessions of one job support, headline first.

    Args:
        meter_absences: metric → why no sensor tells it here.
        variation: what runs on this machine differ by; it is in every interval of a time or a rate.
        layered: sessions that timed layers in turns with ordinary inferences, which the latency is then of.
    """
    rows: list[Measurement] = []
    if (kind := job.workload.scenario.kind) == "generate":
        rows += generated_rows(job, sessions, variation)
    elif layered:
        rows.append(_latency_in_turns(layered, variation))
        own = [row for row in _latencies(job, sessions, variation) if row.metric != "latency"]
        rows += [replace(row, method=_APART + row.method) if row.metric == "latency_engine" else row for row in own]
    else:
        rows += _latencies(job, sessions, variation)
    if kind != "generate":
        rows += throughput(job, sessions, variation, layered=layered)
    rows += _phases(sessions, variation, starts=kind != "generate")
    rows += _memory(sessions)
    rows.append(_cpu_utilization(job, sessions))
    rows += _background_cpu(job, sessions)
    method = "size of the model's files on disk, weight files included"
    rows.append(Measurement.of("model_size", job.model.size_bytes, method))
    rows += _metered(job, sessions, meter_absences if kind != "generate" else _absences_of_text(job, meter_absences))
    rows += deployment(sessions)
    return tuple(rows)


def headline_of(job: Job, sessions: Sequence[SessionResult], variation: Variation | None) -> Measurement | None:
    """Return the headline alone, as `measurements_of` has it; None where it has no value."""
    headline = job.workload.scenario.headline
    if job.workload.scenario.kind == "generate":
        rows = generated_rows(job, sessions, variation)
    elif headline == "throughput":
        rows = throughput(job, sessions, variation)
    else:
        rows = _latencies(job, sessions, variation, only=headline)
    return next((row for row in rows if row.metric == headline and row.value is not None), None)


_UNMETERED = "in the scenario generate it is read only where a meter reads energy, too"
_AT_A_DEPTH = "filling the KV cache up to the depth would be in each window of a meter, so none is read"


def _absences_of_text(job: Job, absences: Mapping[str, str]) -> dict[str, str]:
    """Return why a language model's run lacks readings of a meter, by metric."""
    if job.workload.scenario.depth:
        return dict.fromkeys(("energy", "power", "temperature", "clock_rate"), _AT_A_DEPTH) | dict(absences)
    return dict.fromkeys(("temperature", "clock_rate"), _UNMETERED) | dict(absences)


INDEPENDENT = frozenset({"model_size", "network_bytes", "memory_limit"})
"""Measurements that don't depend on the processor."""


def without_processor(rows: Sequence[Measurement], why: str) -> tuple[Measurement, ...]:
    """`rows` with those absent that depend on the processor; `rows` itself if `why`, the reason, is empty."""
    return tuple(Measurement.absent(row.metric, why) if why and row.metric not in INDEPENDENT else row for row in rows)


def deployment(sessions: Sequence[SessionResult]) -> list[Measurement]:
    """Time to bring the job to its target, and bytes that crossed the link."""
    links = [session.link for session in sessions if session.link is not None]
    if not links:
        return [
            Measurement.absent("deployment_time", "the job ran on this machine, so nothing was deployed"),
            Measurement.absent("network_bytes", "the job ran on this machine, so nothing was sent over a network"),
        ]
    first, load = links[0], sessions[0].phases.get("load", 0.0)
    method = (
        f"first session: {first.push_s:.3g} s to bring worker, model and inputs to the target ({first.pushed_bytes} B "
        f"sent, {first.kept_bytes} B were in its cache) + {load:.3g} s to load the model there"
    )
    total = sum(link.sent_bytes + link.received_bytes for link in links)
    return [
        Measurement.of("deployment_time", first.push_s + load, method),
        Measurement.of(
            "network_bytes",
            total,
            f"bytes sent and received for {len(links)} session(s): files, requests and messages, as handed to the link",
        ),
    ]


def _seconds(sessions: Sequence[SessionResult], name: str) -> list[list[float]]:
    return [[value * 1e-9 for value in session.samples[name]] for session in sessions if session.samples.get(name)]


def _latencies(
    job: Job, sessions: Sequence[SessionResult], variation: Variation | None, *, only: str | None = None
) -> list[Measurement]:
    """Distributions of times, each with how it was taken; of the metric `only`, where that is given."""
    clock = "monotonic clock around each call of the engine"
    scenario = job.workload.scenario
    n = len(sessions)
    processes = f"{n} fresh process" + ("es" if n > 1 else "")
    back_to_back = f"{clock}, back to back after warm-up, {processes}"
    kept = ""
    if scenario.sustained_s is not None:
        total = sum(int(row["inferences"] or 0) for session in sessions for row in session.bins)
        share = len(sessions[0].samples[scenario.headline])
        kept = f", {share} of {total} times kept, evenly picked"
        back_to_back = f"{clock}, {scenario.words}{kept}"
    elif scenario.kind == "paced":
        back_to_back = f"{clock}, back to back right after the paced pass, {processes}"
    methods = {
        "latency_paced": f"{clock}, arrivals every 1/{scenario.fps or 0:g} s, {processes}{kept}",
        "response_time": (
            f"from the scheduled arrival to the end of the inference, every 1/{scenario.fps or 0:g} s, {processes}"
        ),
        "latency": back_to_back,
        "latency_engine": f"the engine's own clock, same inferences as {scenario.headline}, {processes}",
        "latency_first": f"monotonic clock around the first call after loading, {processes}",
    }
    rows = [
        distribution(metric, per_session, method, variation=variation)
        for metric, method in methods.items()
        if only in (None, metric) and (per_session := _seconds(sessions, metric))
    ]
    if only is not None:
        return rows
    if scenario.kind == "cold-start":
        rows.append(Measurement.absent("latency", COLD))
    if scenario.kind == "offline":
        rows.append(
            Measurement.absent(
                "latency", "the offline scenario has several inferences in flight and measures throughput"
            )
        )
    if scenario.kind == "paced":
        rows += _paced(sessions, rows)
    return rows


_APART = "in other processes than the latency: "


def _latency_in_turns(layered: Sequence[SessionResult], variation: Variation | None) -> Measurement:
    """Return the latency of a profile: of the ordinary inferences between the profiled ones."""
    n, pairs = len(layered), sum(len(session.profile.pairs_ns) for session in layered if session.profile)
    method = (
        f"monotonic clock around each call of the engine without the profiler, in turns with profiled calls "
        f"({pairs} pairs of windows), {n} fresh process{'es' if n > 1 else ''}"
    )
    return distribution("latency", _ordinary(layered), method, variation=variation)


def _ordinary(layered: Sequence[SessionResult]) -> list[list[float]]:
    return [[value * 1e-9 for value in session.profile.unprofiled_ns] for session in layered if session.profile]


def _paced(sessions: Sequence[SessionResult], rows: Sequence[Measurement]) -> list[Measurement]:
    missed = sum(session.facts["steady"]["deadline_misses"] for session in sessions)
    arrivals = sum(session.facts["steady"]["arrivals"] for session in sessions)
    low, high = wilson_interval(missed, arrivals)
    values = {row.metric: row.value for row in rows}
    method = f"{missed} of {arrivals} inputs were unfinished when the next one was due; Wilson's interval"
    answer = [Measurement.of("deadline_miss_rate", missed / arrivals, method, low=low, high=high)]
    paced, busy = values.get("latency_paced"), values.get("latency")
    if paced and busy:
        method = "median paced latency divided by median back-to-back latency of the same processes"
        answer.append(Measurement.of("idle_gap_penalty", paced / busy, method, basis="derived"))
    return answer


WINDOWS = 10

COLD = "in the scenario cold-start, each process runs one inference"


def throughput(
    job: Job,
    sessions: Sequence[SessionResult],
    variation: Variation | None,
    *,
    layered: Sequence[SessionResult] = (),
) -> list[Measurement]:
    """Return samples per second of the scenario, from the data of that scenario."""
    batch, kind = job.workload.batch, job.workload.scenario.kind
    if kind == "offline":
        return [_offline_throughput(job, sessions, variation)]
    if kind == "paced":
        return [Measurement.absent("throughput", "the paced scenario sets the rate of arrivals")]
    if kind == "cold-start":
        return [Measurement.absent("throughput", COLD)]
    per_session = _ordinary(layered) or _seconds(sessions, "latency")
    count, total = sum(map(len, per_session)), sum(map(sum, per_session))
    if not total:
        return [Measurement.absent("throughput", "no time passed on the clock")]
    # Inferences × batch over the summed time; its interval follows from the mean latency's.
    samples = np.concatenate([np.asarray(values) for values in per_session])
    interval = intervals.mean_interval(samples, tuple(map(len, per_session)))
    method = f"inferences × batch / time: {count} × {batch} / {total:.6g} s, {job.workload.scenario.words}"
    duty = [session.facts["steady"].get("duty_cycle") for session in sessions]
    if duty[0] is not None:  # rests are part of the time
        share = sum(each or 0.0 for each in duty) / len(duty)
        total /= share
        method += f", of which inferences took {share:.1%}"
        samples = samples / share
        interval = intervals.mean_interval(samples, tuple(map(len, per_session)))
    value = count * batch / total
    widened = None if interval is None else widen(interval, total / count, variation)
    rates = rate_ends(widened, value, batch, within=interval)
    return [Measurement.of("throughput", value, method, basis="derived", **rates)]


def _offline_throughput(job: Job, sessions: Sequence[SessionResult], variation: Variation | None) -> Measurement:
    """All completions over all the time. Windows of it give the interval only, so that none can distort the value."""
    batch = job.workload.batch
    stamps = [session.samples["completions"] for session in sessions if session.samples["completions"]]
    total = sum(completions[-1] for completions in stamps) * 1e-9
    if not total:
        return Measurement.absent("throughput", "no inference was completed in the time given")
    value = sum(map(len, stamps)) * batch / total
    requests = int(sessions[0].facts.get("effective", {}).get("requests") or 1)
    times = [_window_times(completions, requests) for completions in stamps]
    method = (
        f"completions × batch / time: {sum(map(len, stamps))} × {batch} / {total:.6g} s, {len(sessions)} process(es), "
        f"offline scenario, {job.runtime.threads} threads"
    )
    flat = np.concatenate([np.asarray(part) for part in times])
    lengths = tuple(map(len, times))
    interval = intervals.mean_interval(flat, lengths)
    widened = None if interval is None else widen(interval, total / sum(map(len, stamps)), variation)
    if widened is not None:
        method += f"; 95 % interval of the mean time: {widened.method}"
    rates = batch / flat
    return Measurement.of(
        "throughput",
        value,
        method,
        **rate_ends(widened, value, batch, within=interval),
        samples=tuple(round(float(rate), 6) for rate in rates),
        session_lengths=lengths,
        summary=summarise(rates, lengths),
    )


def _window_times(completions: Sequence[int], requests: int) -> list[float]:
    """Mean s per completion in up to `WINDOWS` windows of equally many, the last one takes what is left over.

    Requests in flight end in clusters, so a window holds at least five rounds of them; else there is one window.
    """
    windows = max(1, min(WINDOWS, len(completions) // (5 * requests)))
    size = len(completions) // windows
    edges = [*(size * index for index in range(windows)), len(completions)]
    stamps = [0, *completions]
    times = [(stamps[end] - stamps[start]) / (end - start) * 1e-9 for start, end in pairwise(edges)]
    return times if min(times) > 0 else [completions[-1] / len(completions) * 1e-9]


def _phases(sessions: Sequence[SessionResult], variation: Variation | None, *, starts: bool) -> list[Measurement]:
    """Import, load and start-up, one sample a fresh process.

    Args:
        starts: whether the first inference is part of starting up; a language model's request is as long as asked.
    """
    rows = [
        distribution(
            metric, [[session.phases[phase]] for session in sessions], f"monotonic clock, {what}", variation=variation
        )
        for metric, phase, what in (
            ("import_time", "import", f"import of the engine in a fresh process{_left_out(sessions)}"),
            ("load_time", "load", f"from the model file to a session ready for inference; {_file_cache(sessions)}"),
        )
    ]
    anew = [session for session in sessions if not session.facts.get("compiled", {}).get("cached", True)]
    if anew:
        method = f"monotonic clock, compiling for the inputs, in {len(anew)} of {len(sessions)} processes"
        method += "; the others took the code from the job's cache" if len(anew) < len(sessions) else ""
        times = [[session.phases["compile"]] for session in anew]
        rows.append(distribution("compile_time", times, method, variation=variation))
    if not starts:
        return rows
    # Making the inputs is ours and not part of starting up.
    parts = ("python", "prepare", "import", "load", "first")
    startup = [[sum(session.phases[part] for part in parts) + _compiling_at_start(session)] for session in sessions]
    method = f"Python start + engine import{_left_out(sessions)} + load + first inference"
    if any(_compiling_at_start(session) for session in sessions):
        method = f"Python start + engine import + load + compile (anew in {len(anew)} processes) + first inference"
    rows.append(distribution("startup_time", startup, method, variation=variation))
    return rows


def _left_out(sessions: Sequence[SessionResult]) -> str:
    """Return what of its own an engine does not import in edgewise's processes, as a part of a sentence."""
    part = next((part for session in sessions if (part := session.facts.get("not_imported"))), "")
    return f", without {one_line(part)}, which a program of yours imports, too" if part else ""


def _compiling_at_start(session: SessionResult) -> float:
    """Time of compiling, s, where an application does it at its start."""
    return 0.0 if session.facts.get("compiled", {}).get("ahead") else session.phases.get("compile", 0.0)


def _file_cache(sessions: Sequence[SessionResult]) -> str:
    """Return what was in the kernel's file cache as loading began."""
    found = [session.facts["file_cache"]["cached_after"] for session in sessions if "file_cache" in session.facts]
    if not found:
        return "file cache warm"
    if None in found:
        return "model files dropped from the file cache, as far as the kernel complied"
    return f"model files dropped from the file cache, {max(found):.0%} of them still there"


def _memory(sessions: Sequence[SessionResult]) -> list[Measurement]:
    def figures(fact: str, key: str) -> list[list[float]]:
        values = [session.facts.get(fact, {}).get(key) for session in sessions]
        return [[float(value)] for value in values if value is not None]

    reset = all(session.facts.get("peak_was_reset") for session in sessions)
    peak_method = "VmHWM of a fresh process" + (
        ", reset after loading: the peak of inference alone" if reset else "; could not be reset: includes loading"
    )
    rows = []
    for metric, fact, key, method in (
        ("memory_baseline", "memory_baseline", "VmRSS", "VmRSS after importing the engine"),
        ("memory_load", "memory_load", "VmRSS", "VmRSS after loading, before the first inference"),
        ("memory_peak", "memory_peak", "VmHWM", peak_method),
    ):
        values = figures(fact, key)
        rows.append(
            distribution(metric, values, method) if values else Measurement.absent(metric, f"/proc has no {key} here")
        )
    base, peak = figures("memory_baseline", "VmRSS"), figures("memory_peak", "VmHWM")
    if base and len(base) == len(peak):
        delta = [[high[0] - low[0]] for high, low in zip(peak, base, strict=True)]
        rows.append(distribution("memory_delta", delta, "peak during inference − baseline", basis="derived"))
    else:
        rows.append(Measurement.absent("memory_delta", "baseline or peak is unknown"))
    return rows


def _cpu_utilization(job: Job, sessions: Sequence[SessionResult]) -> Measurement:
    if job.workload.interleave == "turns":
        return Measurement.absent("cpu_utilization", "in turns, a process computes for a part of the time only")
    values = []
    for session in sessions:
        counters = session.facts.get("counters", {})
        cpu, wall = counters.get("process_cpu_s"), counters.get("wall_s")
        if cpu is not None and wall:
            values.append([cpu / wall])
    if not values:
        ended = any(session.bins and "steady" not in session.phases for session in sessions)
        by = "the worker, which ended early, did not" if ended else "the system does not"
        return Measurement.absent("cpu_utilization", f"{by} report the processor time of the process")
    phase = "loading and the first inference" if "steady" not in sessions[0].phases else "the steady phase"
    return distribution("cpu_utilization", values, f"processor time / wall time of {phase}; 1 = one core")


def _background_cpu(job: Job, sessions: Sequence[SessionResult]) -> list[Measurement]:
    """Return what the background load used, for runs with one."""
    scenario = job.workload.scenario
    if not scenario.background_load:
        return []
    values = [[used] for session in sessions if (used := session.facts.get("background_cpu")) is not None]
    if not values:
        reason = "a process of the background load had ended, or the system does not report its processor time"
        return [Measurement.absent("background_cpu", reason)]
    method = f"processor time of {scenario.background_load} processes ({scenario.background_kind}) / wall time"
    return [distribution("background_cpu", values, f"{method} of the steady phase; 1 = one core")]


def _metered(job: Job, sessions: Sequence[SessionResult], reasons: Mapping[str, str]) -> list[Measurement]:
    """Energy, power, temperature, clock and more from the sensors' pass, or absent with the reason."""
    metered = [session.facts["meters"] for session in sessions if session.facts.get("meters")]
    absence = reasons.get("energy", "no energy meter was available")
    rows = energy_rows(metered, absence)
    scenario = job.workload.scenario
    if scenario.kind == "generate" and scenario.new_tokens:
        rows += token_energy_rows(metered, absence, prompt=scenario.prompt_tokens, new=scenario.new_tokens)
    readings = [[each for each in facts["load"]["readings"] if each["metric"] not in OF_ENERGY] for facts in metered]
    for metric in dict.fromkeys(("temperature", "clock_rate", *(each["metric"] for some in readings for each in some))):
        found = [[each for each in some if each["metric"] == metric] for some in readings]
        first = next((each for some in found for each in some), None)
        if first is None:
            why = failures_of(metered, metric) or reasons.get(metric, f"no meter for {metric} was available")
            rows.append(Measurement.absent(metric, why))
            continue
        values = [[each["value"] for each in some if source_of(each) == source_of(first)] for some in found]
        rows.append(distribution(metric, [some for some in values if some], first["method"]))
    return rows


def session_record(session: SessionResult, *, timed: bool = True) -> SessionRecord:
    """Return what is kept of one worker beside its samples; without times if they say nothing of a device (`timed`)."""
    steady = session.facts.get("steady", {})
    warmup = session.samples.get("warmup", ()) if timed else ()
    kept: tuple[str, ...] = ("constraints", "tool", "board", "conditions", "file_cache")
    if timed:
        kept += (
            "memory_baseline",
            "memory_load",
            "memory_peak",
            "counters",
            "reference",
            "steady",
            "meters",
            "generation",
        )
    return SessionRecord(
        index=session.index,
        started_at=session.started_at,
        pid=session.pid,
        phases=dict(session.phases) if timed else {},
        warmup=int(steady.get("warmup", 0)),
        warmup_samples=tuple(value * 1e-9 for value in warmup[:WARMUP_KEPT] if value),
        stopped_because=str(steady.get("stopped_because", "")),
        facts={name: session.facts[name] for name in kept if name in session.facts}
        | ({} if session.link is None else {"link": asdict(session.link)}),
    )
