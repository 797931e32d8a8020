"""Runs from what files of other tools say. What a file lacks is absent with the reason; nothing is filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from edgewise.errors import BadInput, as_flag
from edgewise.importing.extraction import NOT_ATTRIBUTED, Part
from edgewise.importing.reading import to_word
from edgewise.importing.spec import Form, Importer
from edgewise.metrics import METRICS
from edgewise.model.identity import open_model
from edgewise.record import (
    Caution,
    Job,
    Measurement,
    ModelRef,
    Profile,
    Run,
    RuntimeSpec,
    Scenario,
    Source,
    Stopping,
    TargetSpec,
    Variation,
    Workload,
)
from edgewise.record.job import NAME_ALONE, UNKNOWN_DEVICE, ScenarioKind
from edgewise.run.rates import distribution
from edgewise.run.trust import LEAST_SAMPLES, about_provider, grade_of
from edgewise.run.variation import UNKNOWN, assumed, cautions_about
from edgewise.store.codec import parse_time

_UNTOLD = "other tools don't time edgewise's reference kernels"
LATEST = 4e9
"""Latest time of a file that is believed, s since 1970."""
_EXPECTED = ("load_time", "latency_first", "memory_peak", "model_size")
"""Absent with a reason where the tool does not report them; so are the headline and the throughput."""
_EXPECTED_OF_TEXT = (
    "ttft", "ttft_model", "prefill_rate", "decode_rate", "kv_cache_bytes", "load_time", "memory_peak", "model_size",
)  # fmt: skip
"""The same, of a run that makes text."""
_TAKEN_AS = {"batch": "1", "scenario": "single-stream"}
"""Settings that a job needs and a file may lack."""
_STATISTICS = {
    "latency_mean": "mean", "latency_min": "minimum", "latency_max": "maximum", "latency_std": "standard deviation",
    "latency_p90": "90th percentile", "latency_p95": "95th percentile", "latency_p99": "99th percentile",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the user adds to a file.

    Attributes:
        model: file of the model that ran.
        device: name of the device; ``local`` is this machine.
        settings: ``threads``, ``batch``, ``precision``, ``provider`` or ``version``.
    """

    model: Path | None = None
    device: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """Return the settings that the user gave, as the run keeps them."""
        record = {**self.settings, "model": self.model and self.model.name, "device": self.device}
        return {name: value for name, value in record.items() if value is not None}


def build_run(part: Part, *, importer: Importer, name: str, index: int, told: Told) -> Run:
    """Return the run of one part of a file.

    Args:
        name: of the importer.
        index: of the part in its file.

    Raises `BadInput`: the user says other than the file, or the model can't be read.
    """
    source = part.source
    settings = _merge_settings(part, told.settings)
    job = _make_job(settings, part, importer, told)
    origin = Source(
        tool=importer.title, importer=name, form=part.form.title, file=to_word(source.path.name), sha256=source.sha256,
        part=part.where, told=told.as_record(), unknown=tuple(_list_unknown(settings, job, part.form)),
        time_from="file" if "created" in settings else "modified",
    )  # fmt: skip
    # Earlier versions took failed executions for samples: their run of this file is another one.
    outcome = [part.failure.message] if part.failure else [part.left_out] if part.left_out else []
    outcome += [part.beside] if part.beside else []
    identity = json.dumps([name, source.sha256, index, origin.told, *outcome], sort_keys=True, default=str)
    variation = _assume_variation(part, job)
    run = Run(
        id=str(uuid5(NAMESPACE_OID, identity)),  # importing twice gives the same run
        created_at=_find_time(settings, part), job=job, status="failed" if part.failure else "done",
        failure=part.failure, effective=_collect_facts(part, job), environment=part.environment,
        measurements=tuple(_make_measurements(part, importer, job, variation)), variation=variation, source=origin,
    )  # fmt: skip
    cautions = tuple(_make_cautions(run, importer, part))
    trust = grade_of(cautions, measured=run.value(run.headline) is not None)
    return _add_layers(replace(run, cautions=cautions, trust=trust), part)


def _make_job(settings: Mapping[str, Any], part: Part, importer: Importer, told: Told) -> Job:
    """Return the job that the tool carried out."""
    command, streams, requests = (settings.get(name) for name in ("command", "streams", "requests"))
    usual: ScenarioKind = "offline" if (streams or 1) > 1 else "single-stream"
    kind: ScenarioKind = settings.get("scenario") or part.form.scenario or usual
    if kind == "single-stream":
        streams = requests = None  # tools also print the only stream, and the only request
    return Job(
        model=_find_model(settings, told, part),
        runtime=RuntimeSpec(
            name="command" if command else settings.get("runtime", importer.runtime), version=settings.get("version"),
            provider=settings.get("provider"), threads=settings.get("threads"), precision=settings.get("precision"),
        ),
        target=TargetSpec(device=told.device or settings.get("device") or UNKNOWN_DEVICE, transport="file"),
        workload=Workload(
            scenario=Scenario(
                kind="command" if command else kind, streams=streams, requests=requests,
                prompt_tokens=settings.get("prompt_tokens"), new_tokens=settings.get("new_tokens"),
                depth=settings.get("depth_tokens"),
            ),
            inputs=part.inputs,
            batch=settings.get("batch", 1),
            stopping=Stopping(
                sessions=len(next(iter(part.samples.values()), ())) if part.form.sessions else 1,
                iterations=settings.get("iterations"),
                warmup=settings.get("warmup"),
            ),
        ),
        command=(command,) if command else (),
    )  # fmt: skip


def _merge_settings(part: Part, told: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in told.items():
        if part.settings.get(name, value) != value:
            raise BadInput(
                f"{part.source.path}, {part.where}: {name} is {part.settings[name]}, and ⟦set⟧ says {name}={value}",
                advice="leave out ⟦set⟧ for what the file has",
            )
    return {**part.settings, **told}


def _find_model(settings: Mapping[str, Any], told: Told, part: Part) -> ModelRef:
    if told.model is not None:
        return open_model(told.model).ref
    if "command" in settings:
        name = str(settings["command"])
    else:
        name = _base_name(settings.get("model", "")) or f"model of {to_word(part.source.path.name)}"
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return ModelRef(name=name, path="", format=NAME_ALONE, sha256=digest, size_bytes=0)


def _collect_facts(part: Part, job: Job) -> dict[str, Any]:
    """Return further facts of the file, and the model's name in it where the user gave another file."""
    name = _base_name(part.settings.get("model", ""))
    found = {
        **part.effective,
        "streams": part.settings.get("streams"),
        "requests": job.workload.scenario.requests,
        "model_in_file": None if name in ("", job.model.name) else name,
    }
    return {key: value for key, value in found.items() if value is not None}


def _base_name(path: str) -> str:
    """Return the last part of a path of any system."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _assume_variation(part: Part, job: Job) -> Variation | None:
    """Return the assumed variation between runs, from the headline's single values; None where there are none."""
    if not part.samples:
        return None
    metric = job.workload.scenario.headline
    metric = metric if metric in part.samples else next(iter(part.samples))
    return assumed(UNKNOWN, _UNTOLD, row=distribution(metric, part.samples[metric], ""))


def _make_measurements(part: Part, importer: Importer, job: Job, variation: Variation | None) -> Iterator[Measurement]:
    """Yield the headline, then the file's other metrics, then those that are absent."""
    headline, printed = job.workload.scenario.headline, f"as printed by {importer.title}"
    per_call = {one.name for one in part.form.fields if one.per_call}
    rows: dict[str, Measurement] = {}
    for metric, processes in part.samples.items():
        count = sum(map(len, processes))
        own = f"in {part.form.sessions}" if part.form.sessions and len(processes) > 1 else "of one process"
        words = (f"{printed}: {part.form.method}", part.notes.get(metric), f"{count} single values {own}")
        method, basis = f"{_join(*words)}; statistics by edgewise", part.basis.get(metric, "measured")
        rows[metric] = distribution(metric, processes, method, basis=basis, variation=variation)
    for metric, value in part.values.items():
        if metric in rows:
            continue  # single values say more than the tool's own statistic
        if value == 0 and METRICS[metric].unit in ("s", "1/s"):
            rows[metric] = Measurement.absent(metric, f"{importer.title} prints 0: it is below the printed digits")
            continue
        timed = metric.startswith("latency") and metric != "latency_first"
        method = f"{printed}: {part.form.method}" if timed else printed
        method = _join(method, _STATISTICS.get(metric), part.notes.get(metric))
        rate = value * job.workload.batch if metric in per_call else value
        rows[metric] = Measurement.of(metric, rate, method, basis=part.basis.get(metric, "measured"))
    if job.model.is_known:
        rows["model_size"] = Measurement.of(
            "model_size", job.model.size_bytes, f"size of the file given with {as_flag('model')}"
        )
    makes_text = job.workload.scenario.kind == "generate"
    for metric in (headline, *(_EXPECTED_OF_TEXT if makes_text else ("throughput", *_EXPECTED))):
        if metric not in rows:
            why = part.reasons.get(metric, "")
            if part.failure and metric != "model_size":
                why = f"the run failed: {part.failure.message}"
            rows[metric] = Measurement.absent(metric, why or _explain_absence(metric, rows, importer, part.form))
    order = {metric: place for place, metric in enumerate((headline, "latency_engine", "latency_mean"))}
    yield from sorted(rows.values(), key=lambda row: (order.get(row.metric, len(order)), row.value is None))


def _join(*words: str | None) -> str:
    return "; ".join(filter(None, words))


def _explain_absence(metric: str, rows: Mapping[str, Measurement], importer: Importer, form: Form) -> str:
    if metric == "latency" and "latency_engine" in rows:
        return f"{importer.title} reads the engine's own clock: see {METRICS['latency_engine'].label}"
    if metric == "latency" and "latency_mean" in rows:
        return f"{importer.title} gives the mean and no median: see {METRICS['latency_mean'].label}"
    if metric == "model_size":
        return "the file does not have the model; add ⟦model⟧ FILE on import"
    if metric in importer.absent:
        return importer.absent[metric]
    if not form.method:
        return "this file has layers alone"
    if not any(metric in each.names for each in importer.forms):
        return f"{importer.title} does not report this metric"
    return f"not in the file of {importer.title}"


def _list_unknown(settings: Mapping[str, Any], job: Job, form: Form) -> Iterator[str]:
    """Yield the settings that neither the file nor the user gave, in words."""
    if not job.command:
        if not job.model.is_known:
            yield "model file" if settings.get("model") else "model"
        names = ["version", "threads", "batch", "precision"]
        if not form.one_at_a_time:
            names.append("requests" if form.scenario else "scenario")
        yield from (name for name in names if settings.get(name) is None)
    if job.target.device == UNKNOWN_DEVICE:
        yield "device"


def _make_cautions(run: Run, importer: Importer, part: Part) -> Iterator[Caution]:
    assert run.source is not None
    words = (f"{name} (taken as {_TAKEN_AS[name]})" if name in _TAKEN_AS else name for name in run.source.unknown)
    unknown = f"; not known: {', '.join(words)}" if run.source.unknown else ""
    basis = part.basis.get(run.headline, "measured")
    verb = "measured" if basis == "derived" else basis
    message = f"{verb} by {importer.title}: load, clock and temperature of the machine are not known{unknown}"
    yield Caution.of("imported", message)
    if part.left_out:
        yield Caution.of("failed-executions", part.left_out)
    yield from about_provider(run.job.runtime.provider)
    row = run.measurement(run.headline)
    if row is None or row.value is None:
        return
    if not row.samples:
        yield Caution.of("statistics-only", f"{importer.title} gives statistics without single times: no interval")
        return
    if len(row.samples) < LEAST_SAMPLES:
        yield Caution.of("too-few-samples", f"only {len(row.samples)} samples: unreliable")
    if len(row.session_lengths) == 1:
        yield Caution.of("single-session", "one process only: the interval lacks differences between processes")
    advice = "measure with edgewise on that machine, which learns it"
    yield from (replace(caution, advice=advice) for caution in cautions_about(run.variation))


def _add_layers(run: Run, part: Part) -> Run:
    """Return the run with the rows of the tool, and with their sum where there is a latency to compare it with."""
    latency = None
    if METRICS[run.headline].unit == "s":
        latency = run.value("latency_mean") or run.value(run.headline) or None
    layers = tuple(
        replace(row, index=index, share=row.time / latency if latency and row.time is not None else None)
        for index, row in enumerate(part.layers)
    )
    if latency is None or all(layer.time is None for layer in layers):
        return replace(run, layers=layers)
    total = sum(layer.time or 0.0 for layer in layers)
    profile = Profile(
        method=part.layers_method, sessions=1, inferences=run.job.workload.stopping.iterations or 0, latency=latency,
        operators_time=total, overheads_time=0.0, conservation=total / latency, attributed=min(1.0, total / latency),
        unattributed=latency - total, profiled_latency=latency, peaks_absent_because=NOT_ATTRIBUTED,
        memory_absent_because=NOT_ATTRIBUTED,
    )  # fmt: skip
    return replace(run, layers=layers, profile=profile)


def _find_time(settings: Mapping[str, Any], part: Part) -> str:
    """Return when the tool measured; where the file has no time, when the file was last modified. ISO 8601, UTC."""
    if "created" in settings:
        moment = parse_time(settings["created"], what=f"{part.source.path}, {part.where}")
    else:
        moment = datetime.fromtimestamp(min(max(part.source.modified, 0.0), LATEST), UTC)
    return moment.isoformat(timespec="milliseconds")
