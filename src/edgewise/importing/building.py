"""Runs from what files of other tools say. What a file lacks is absent with the reason; nothing is filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from edgewise.errors import BadInput
from edgewise.importing.extraction import Found, LayerRow, Part
from edgewise.importing.reading import to_word
from edgewise.importing.spec import Form, Importer
from edgewise.metrics import METRICS
from edgewise.model.identity import open_model
from edgewise.record import (
    Caution,
    Job,
    Layer,
    Measurement,
    ModelRef,
    Profile,
    Run,
    RuntimeSpec,
    Scenario,
    Source,
    Stopping,
    TargetSpec,
    Workload,
)
from edgewise.record.job import UNKNOWN_DEVICE
from edgewise.run.measurements import distribution
from edgewise.run.trust import LEAST_SAMPLES, grade_of
from edgewise.run.variation import UNKNOWN, assumed, cautions_about
from edgewise.store.codec import parse_time

VARIATION = assumed(UNKNOWN, "other tools don't time edgewise's reference kernels")
NOT_ATTRIBUTED = "the rows are the tool's own, not attributed to operators of a model"
LATEST = 4e9
"""Latest time of a file that is believed, s since 1970."""
NAME_ALONE = "name"
"""Format of a `ModelRef` whose file is not known: its hash is that of the name."""
_EXPECTED = ("load_time", "latency_first", "memory_peak", "model_size")
"""Absent with a reason where the tool does not report them; so are the headline and the throughput."""
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
        """What is told, as the run keeps it."""
        record: dict[str, Any] = dict(self.settings)
        if self.model is not None:
            record["model"] = self.model.name
        if self.device is not None:
            record["device"] = self.device
        return record


def build_run(part: Part, *, importer: Importer, name: str, index: int, told: Told) -> Run:
    """The run of one part of a file.

    Args:
        name: of the importer.
        index: of the part in its file.

    Raises:
        BadInput: the user says other than the file, or the model can't be read.
    """
    found, source = part.found, part.source
    settings = _merged(found.settings, told.settings, part)
    command = settings.get("command")
    scenario = Scenario(
        kind="command" if command else settings.get("scenario", "single-stream"),
        streams=settings.get("streams"),
        requests=settings.get("requests"),
    )
    model = _model_of(settings, told, part)
    runtime = RuntimeSpec(
        name="command" if command else settings.get("runtime", importer.runtime),
        version=settings.get("version"),
        provider=settings.get("provider"),
        threads=settings.get("threads"),
        precision=settings.get("precision"),
    )
    samples = next(iter(found.samples.values()), [])
    workload = Workload(
        scenario=scenario,
        batch=settings.get("batch", 1),
        stopping=Stopping(
            sessions=len(samples) if part.form.processes else 1,
            iterations=settings.get("iterations"),
            warmup=settings.get("warmup"),
        ),
    )
    device = told.device or settings.get("device") or UNKNOWN_DEVICE
    job = Job(
        model=model,
        runtime=runtime,
        target=TargetSpec(device=device, transport="file"),
        workload=workload,
        command=(command,) if command else (),
    )
    rows = tuple(_measurements(part, importer, job))
    origin = Source(
        tool=importer.title,
        importer=name,
        form=part.form.title,
        file=to_word(source.path.name),
        sha256=source.sha256,
        part=part.where,
        told=told.as_record(),
        unknown=tuple(_unknown(settings, job, part.form)),
        time_from="file" if "created" in settings else "modified",
    )
    run = Run(
        id=_stable_id(origin, index),
        created_at=_created(settings, part),
        job=job,
        status="done",
        effective=_effective(found.settings, model, scenario),
        measurements=rows,
        variation=VARIATION if found.samples else None,
        source=origin,
    )
    latency = _latency_of_layers(run)
    run = replace(run, layers=tuple(_layers(found.layers, latency)))
    cautions = tuple(_cautions(run, importer, part))
    trust = grade_of(cautions, measured=run.value(run.headline) is not None)
    return replace(run, cautions=cautions, trust=trust, profile=_profile(run, found, latency))


def _merged(found: Mapping[str, Any], told: Mapping[str, Any], part: Part) -> dict[str, Any]:
    for name, value in told.items():
        if name in found and found[name] != value:
            raise BadInput(
                f"{part.source.path}, {part.where}: {name} is {found[name]}, and --set says {name}={value}",
                advice="leave out --set for what the file has",
            )
    return {**found, **told}


def _model_of(settings: Mapping[str, Any], told: Told, part: Part) -> ModelRef:
    if told.model is not None:
        return open_model(told.model).ref
    if "command" in settings:
        name = str(settings["command"])
    else:
        name = _base_name(settings.get("model", "")) or f"model of {to_word(part.source.path.name)}"
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return ModelRef(name=name, path="", format=NAME_ALONE, sha256=digest, size_bytes=0)


def _effective(found: Mapping[str, Any], model: ModelRef, scenario: Scenario) -> dict[str, Any]:
    """Requests in flight, and the model's name in the file where the user gave a file of another name."""
    told = {} if scenario.requests is None else {"requests": scenario.requests}
    name = _base_name(found.get("model", ""))
    return told if name in ("", model.name) else told | {"model_in_file": name}


def _base_name(path: str) -> str:
    """The last part of a path of any system."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _measurements(part: Part, importer: Importer, job: Job) -> Iterator[Measurement]:
    """Headline first, then what else the file has, then what is absent."""
    found, headline = part.found, job.workload.scenario.headline
    printed = f"as printed by {importer.title}"
    rows: dict[str, Measurement] = {}
    for metric, processes in found.samples.items():
        count = sum(map(len, processes))
        own = "in processes of their own" if part.form.processes and len(processes) > 1 else "of one process"
        method = _joined(f"{printed}: {part.form.method}", found.notes.get(metric), f"{count} single values {own}")
        basis, method = found.basis.get(metric, "measured"), f"{method}; statistics by edgewise"
        rows[metric] = distribution(metric, processes, method, basis=basis, variation=VARIATION)
    for metric, value in found.values.items():
        if metric in rows:
            continue  # single values say more than the tool's own statistic
        if value == 0 and METRICS[metric].unit in ("s", "1/s"):
            rows[metric] = Measurement.absent(metric, f"{importer.title} prints 0: it is below the printed digits")
            continue
        timed = metric.startswith("latency") and metric != "latency_first"
        method = f"{printed}: {part.form.method}" if timed else printed
        rate = value * job.workload.batch if metric in found.per_call else value
        words = _joined(method, _STATISTICS.get(metric), found.notes.get(metric))
        rows[metric] = Measurement.of(metric, rate, words, basis=found.basis.get(metric, "measured"))
    if job.model.format != NAME_ALONE:
        rows["model_size"] = Measurement.of("model_size", job.model.size_bytes, "size of the file given with --model")
    for metric in dict.fromkeys((headline, "throughput", *_EXPECTED)):
        if metric not in rows:
            reason = found.absent.get(metric) or importer.absent.get(metric) or _why_absent(metric, rows, importer)
            rows[metric] = Measurement.absent(metric, reason)
    order = {metric: place for place, metric in enumerate((headline, "latency_engine", "latency_mean"))}
    yield from sorted(rows.values(), key=lambda row: (order.get(row.metric, len(order)), row.value is None))


def _joined(*words: str | None) -> str:
    return "; ".join(word for word in words if word)


def _why_absent(metric: str, rows: Mapping[str, Measurement], importer: Importer) -> str:
    if metric == "latency" and "latency_engine" in rows:
        return f"{importer.title} reads the engine's own clock: see {METRICS['latency_engine'].label}"
    if metric == "latency" and "latency_mean" in rows:
        return f"{importer.title} gives the mean and no median: see {METRICS['latency_mean'].label}"
    if metric == "model_size":
        return "the file does not have the model; add --model FILE on import"
    return f"not in the file of {importer.title}"


def _unknown(settings: Mapping[str, Any], job: Job, form: Form) -> Iterator[str]:
    """Settings that nobody gave, in words."""
    if not job.command:
        if job.model.format == NAME_ALONE:
            yield "model file" if settings.get("model") else "model"
        names = ["version", "threads", "batch", "precision", *(() if form.one_at_a_time else ("scenario",))]
        yield from (name for name in names if settings.get(name) is None)
    if job.target.device == UNKNOWN_DEVICE:
        yield "device"


def _cautions(run: Run, importer: Importer, part: Part) -> Iterator[Caution]:
    assert run.source is not None
    words = (f"{name} (taken as {_TAKEN_AS[name]})" if name in _TAKEN_AS else name for name in run.source.unknown)
    unknown = f"; not known: {', '.join(words)}" if run.source.unknown else ""
    basis = part.found.basis.get(run.headline, "measured")
    message = f"{basis} by {importer.title}: load, clock and temperature of the machine are not known{unknown}"
    yield Caution.of("imported", message)
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


def _latency_of_layers(run: Run) -> float | None:
    """The time that layers are compared with: the mean, otherwise the headline if it is a time; None without one."""
    if METRICS[run.headline].unit != "s":
        return None
    return run.value("latency_mean") or run.value(run.headline) or None


def _layers(rows: list[LayerRow], latency: float | None) -> Iterator[Layer]:
    """Rows of the tool as layers, without a model to attribute them to."""
    for index, row in enumerate(rows):
        yield Layer(
            index=index,
            name=row.name,
            op=row.op,
            kind="operator" if row.executed else "eliminated",
            engine_nodes=(row.name,),
            engine_op=row.kernel,
            provider=row.provider,
            time=row.time,
            time_absent_because=None
            if row.time is not None
            else ("the tool gives no time" if row.executed else "not executed by the engine"),
            cost_unknown_because=NOT_ATTRIBUTED,
            share=row.time / latency if latency and row.time is not None else None,
        )


def _profile(run: Run, found: Found, latency: float | None) -> Profile | None:
    """What the layers add up to; None without layers, or without a latency to compare them with."""
    if not run.layers or latency is None:
        return None
    total = sum(layer.time or 0.0 for layer in run.layers)
    return Profile(
        method=found.layers_method,
        sessions=1,
        inferences=run.job.workload.stopping.iterations or 0,
        latency=latency,
        operators_time=total,
        overheads_time=0.0,
        conservation=total / latency,
        attributed=min(1.0, total / latency),
        unattributed=latency - total,
        profiled_latency=latency,
        peaks_absent_because=NOT_ATTRIBUTED,
        memory_absent_because=NOT_ATTRIBUTED,
    )


def _created(settings: Mapping[str, Any], part: Part) -> str:
    """When the tool measured; where the file has no time, when the file was last modified. ISO 8601, UTC."""
    if "created" in settings:
        moment = parse_time(settings["created"], what=f"{part.source.path}, {part.where}")
    else:
        moment = datetime.fromtimestamp(min(max(part.source.modified, 0.0), LATEST), UTC)
    return moment.isoformat(timespec="milliseconds")


def _stable_id(source: Source, index: int) -> str:
    """A UUID version 8 (RFC 9562) from the file and what the user told: importing twice gives the same run."""
    identity = json.dumps([source.importer, source.sha256, index, source.told], sort_keys=True, default=str)
    value = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:16], "big")
    value = value & ~(0xF << 76) | 0x8 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))
