"""Builds the runs of one command from what its workers sent."""

from __future__ import annotations

import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.device.devices import LOCAL
from edgewise.errors import EdgewiseError
from edgewise.model.identity import read_graph
from edgewise.model.precision import is_of_integers, reduced_precision
from edgewise.model.random_operators import random_words
from edgewise.progress import HeadlineUpdated, LogLine, emit, is_watched
from edgewise.record import Caution, Constraints, Job, Measurement, ModelRef, Run, TargetSpec, Variation, new_run_id
from edgewise.record.facts import emulation_of, precision_of
from edgewise.registry import Registry, availability_of
from edgewise.run.agreement import Outputs, Verdict, absent_measurements, check_finite, compare_outputs
from edgewise.run.complexity import complexity_of, file_precision, with_engine_memory
from edgewise.run.energy import TOKEN_ENERGIES
from edgewise.run.executor import Beside, executor_for, facts_of
from edgewise.run.facts import environment_at
from edgewise.run.host_protocol import SessionRequest, SessionResult
from edgewise.run.measurements import headline_of, session_record, without_processor
from edgewise.run.meters.base import Meter, meters, watches_from_host
from edgewise.run.plan import count_cores
from edgewise.run.power_meter.meter import meter_of
from edgewise.run.protocol import Mode
from edgewise.run.sample_mode import MAX_OUTPUT_BYTES, load_outputs
from edgewise.run.sustained.result import completed, sustained_of, without_interval
from edgewise.run.trust import NOT_DEFAULT, NOT_REPEATABLE, about_emulation, cautions_of, grade_of
from edgewise.run.variation import History, SpeedHistory, cautions_about, stored_history
from edgewise.runtime.base import LoadOptions, runtimes
from edgewise.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensors:
    """Meters that can be used and, per metric, why there is none.

    Attributes:
        locations: where the classes of those are that the worker reads.
        beside: those that are read here while another machine works.
    """

    locations: tuple[str, ...] = ()
    beside: tuple[Meter, ...] = ()
    absences: Mapping[str, str]


KEPT_OUTPUT_BYTES = 2**30
"""Of the outputs of all runs of a command that are kept for their comparison."""

METERED = ("energy", "power", "temperature", "clock_rate")
"""Metrics that sensors measure, in a pass of its own."""


def is_metered(metric: str) -> bool:
    """Whether only a sensor measures a metric."""
    return metric in (*METERED, *TOKEN_ENERGIES, "gpu_utilization") or metric.startswith("energy:")


METERS_OFF = Sensors(absences=dict.fromkeys(METERED, "meters were switched off"))
"""Measure without sensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Facts about one target."""

    environment: Mapping[str, Any]
    sensors: Sensors
    speed: SpeedHistory


def find_sensors(registry: Registry[Meter] | None = None, *, target: TargetSpec | None = None) -> Sensors:
    """Ask every meter whether it can be used on `target`, which is this machine by default.

    The power meter of a device is always read: if it can't be, the run says why. Raises `BadInput` for a wrong setting.
    """
    registry = registry or meters()
    facts = None if target is None else facts_of(target)
    usable: list[str] = []
    beside: list[Meter] = []
    told: set[str] = set()
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, meter in registry:
        is_beside = facts is not None and watches_from_host(meter)
        availability = availability_of(meter) if facts is None or is_beside else facts.sensors[name]
        if availability:
            if is_beside:
                beside.append(meter)
            else:
                usable.append(registry.location(name))
            told.update(meter.metrics)
        else:
            for metric in meter.metrics:
                reasons[metric].append(f"{name}: {availability.reason}")
    own = meter_of(LOCAL if target is None else target.device)
    if own is not None:
        if not (state := own.availability()):
            emit(LogLine(text=f"no energy from the power meter: {state.reason}"))
        beside.append(own)
        told.update(own.metrics)
    absences = {metric: "; ".join(texts) for metric, texts in reasons.items() if metric not in told}
    return Sensors(locations=tuple(usable), beside=tuple(beside), absences=absences)


class RunBuilder:
    """The runs of one command: requests for its workers, runs from what they told, and where runs are saved.

    Attributes:
        group: the id that the runs of this command share.

    Args:
        save: keeps a run; called once its job is done and again when its outputs were compared.
        sensors: None asks the meters; ``Sensors(absences=…)`` without locations measures without them.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
    """

    def __init__(
        self, *, save: Callable[[Run], None], sensors: Sensors | None = None, history: History | None = None
    ) -> None:
        self.group = new_run_id()
        self.outputs: dict[str, Outputs] = {}
        self._unkept: dict[str, str] = {}  # run id → why its outputs are not
        self.save = save
        self._sensors = sensors
        self._history = history or stored_history()
        self._runtimes = runtimes()
        self._places: dict[tuple[str, str | None, Constraints | None], _Place] = {}

    def usual_variation(self, target: TargetSpec) -> Variation:
        """How the speed of a target varies between runs."""
        return self._place(target).speed.usual()

    def environment(self, target: TargetSpec) -> Mapping[str, Any]:
        """Return the fingerprint of a target's machine."""
        return self._place(target).environment

    def _place(self, target: TargetSpec) -> _Place:
        """Facts about a target, collected once."""
        key = (target.device, target.environment, target.constraints)
        if key not in self._places:
            environment = _limited(environment_at(target), target.constraints)
            self._places[key] = _Place(
                environment=environment,
                sensors=self._sensors or find_sensors(target=target),
                speed=SpeedHistory(environment, self._history),
            )
        return self._places[key]

    def request(self, job: Job, *, index: int, mode: Mode = "measure") -> SessionRequest:
        """Return what the worker of session `index` of `job` is asked to do."""
        sensors = self._place(job.target).sensors
        # Each process of a comparison is a replicate; of other runs the first one's reading is enough.
        metered = mode != "layers" and (index == 0 or job.workload.interleave is not None)
        return SessionRequest(
            job=job,
            index=index,
            runtime=self._runtimes.location(job.runtime.name),
            meters=sensors.locations if metered else (),
            beside=sensors.beside if metered else (),
            options=asdict(replace(_load_options(job), profile=mode == "layers")),
            mode=mode,
            outputs=index == 0 and mode != "layers",
        )

    def build(
        self,
        job: Job,
        sessions: Sequence[SessionResult],
        *,
        created: str,
        run_id: str | None = None,
        layered: Sequence[SessionResult] = (),
    ) -> Run:
        """Return the run of complete sessions; a session that failed gives the run its failure and status.

        A sustained measurement that ended early counts as far as it came.

        Args:
            layered: those that timed layers; the latency is of their ordinary inferences, where they have some.
        """
        layered = [session for session in layered if session.profile is not None and session.profile.unprofiled_ns]
        complete = [completed(session) for session in sessions if session.failure is None or session.bins]
        failure = next((session.failure for session in sessions if session.failure is not None), None)
        place = self._place(job.target)
        emulated = emulation_of(place.environment)
        records = tuple(session_record(session, timed=not emulated) for session in complete)
        executor = executor_for(job)
        headline = headline_of(job, complete, None) if complete else None
        variation = place.speed.variation(job, records, headline=headline, always=executor.varies)
        measurements: tuple[Measurement, ...] = ()
        cautions: tuple[Caution, ...] = ()
        sustained = None
        if complete:
            absences = place.sensors.absences
            beside = Beside(variation=variation, layered=layered, absences=absences)
            measured = executor.measurements(job, complete, beside)
            if complete[0].bins and not emulated:
                sustained = sustained_of(job, complete[0], absences=absences)
                measured = without_interval(measured, sustained)
            measurements = without_processor(measured, emulated)
            cautions = cautions_of(
                job,
                sessions=complete,
                measurements=measurements,
                usable_cores=count_cores(job.target),
                layered=layered,
            )
            cautions += about_emulation(place.environment)
            if any(each.code == NOT_DEFAULT for each in cautions) and _is_of_integers(job.model):
                cautions = tuple(each for each in cautions if each.code != NOT_DEFAULT)
        python = sessions[0].python if sessions else ""
        run = Run(
            id=run_id or new_run_id(),
            created_at=created,
            job=job,
            status="failed" if failure else "done",
            group=self.group,
            failure=failure,
            effective=_effective(complete) | (file_precision(job) if complete else {}),
            environment={**place.environment, **({"worker_python": python} if python else {})},
            measurements=with_engine_memory(measurements + complexity_of(job)),
            sessions=records,
            sustained=sustained,
            variation=variation,
            cautions=cautions + cautions_about(variation),
        )
        return _graded(run)

    def tell_headline(self, job: Job, sessions: Sequence[SessionResult]) -> None:
        """Report the headline of the sessions so far, as `build` computes it, to whoever watches.

        Without a worker statistics are the device's own, and a sustained measurement reports its bins.
        """
        own = not executor_for(job).is_worker
        complete = [session for session in sessions if session.failure is None]
        place = self._place(job.target)
        if own or not complete or complete[0].bins or not is_watched() or emulation_of(place.environment):
            return
        records = tuple(map(session_record, complete))
        variation = place.speed.variation(job, records, headline=headline_of(job, complete, None))
        row = headline_of(job, complete, variation)
        if row is None or row.value is None:
            return
        emit(
            HeadlineUpdated(
                metric=row.metric,
                unit=row.unit,
                value=row.value,
                low=row.low,
                high=row.high,
                n=len(row.samples or ()),
                sessions=len(complete),
            )
        )

    def note_outputs(self, run: Run, sessions: Sequence[SessionResult]) -> Run:
        """Return the run, with a caution where its outputs are not finite; they are kept for `with_agreement`."""
        found = self.outputs.get(run.id) or _outputs_of(run, sessions)
        size = sessions[0].facts.get("output_bytes") if sessions else None
        if found is None and isinstance(size, int) and size > MAX_OUTPUT_BYTES:
            most = format_bytes(MAX_OUTPUT_BYTES)
            self._unkept[run.id] = f"outputs of {format_bytes(size)} are not compared: the limit is {most}"
        if found is None or run.status == "failed":
            return run
        kept = sum(_size_of(other) for run_id, other in self.outputs.items() if run_id != run.id)
        if kept + _size_of(found) > KEPT_OUTPUT_BYTES:
            self._unkept[run.id] = (
                f"outputs of earlier runs already use the {format_bytes(KEPT_OUTPUT_BYTES)} that edgewise keeps"
            )
        else:
            self.outputs[run.id] = found
        return with_cautions(run, check_finite(found))

    def with_agreement(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs with their outputs compared, network by network; changed ones are saved again."""
        groups: dict[tuple[Any, ...], list[Outputs]] = defaultdict(list)
        references = self._references(runs)
        for run in runs:
            if run.id in self.outputs:
                model, workload = run.job.model, run.job.workload
                # Exports of one network may name its inputs differently.
                fed = workload.inputs if model.origin is None else tuple(each.shape for each in workload.inputs)
                group = groups[model.family, fed, workload.seed, workload.input_data]
                group += filter(None, (references.get(run.id), self.outputs[run.id]))
        models = {run.job.model.family: run.job.model for run in runs}
        changing = {run.id for run in runs if any(caution.code == NOT_REPEATABLE for caution in run.cautions)}
        verdicts = {
            run_id: verdict
            for key, group in groups.items()
            for run_id, verdict in _judge(group, models[key[0]], changing).items()
        }
        mixed = _mixed_precisions([run for run in runs if run.id in verdicts])
        answer = []
        for run in runs:
            if run.id in self._unkept and (len(runs) > 1 or run.id in references):
                rows = absent_measurements(self._unkept[run.id])
                self.save(run := replace(run, measurements=run.measurements + rows))
            if run.id not in verdicts:
                answer.append(run)
                continue
            verdict = verdicts[run.id]
            compared = replace(run, measurements=run.measurements + verdict.measurements)
            cautions = verdict.cautions
            if any(caution.code == NOT_REPEATABLE for caution in cautions):  # with the reason, which the session lacks
                others = tuple(each for each in run.cautions if each.code != NOT_REPEATABLE)
                compared = replace(compared, cautions=others)
            if advice := executor_for(run.job).if_outputs_differ:
                cautions = tuple(replace(caution, advice=advice) for caution in cautions)
            answer.append(with_cautions(compared, cautions + mixed.get(run.id, ())))
            self.save(answer[-1])
        return answer

    def _references(self, runs: Sequence[Run]) -> dict[str, Outputs | None]:
        """Return what runs are compared with that needs no other run, by their ids; None where it is missing:
        why is noted.
        """
        found: dict[str, Outputs | None] = {}
        for run in runs:
            if (has_outputs := run.id in self.outputs) or run.status == "done":
                try:
                    outputs = executor_for(run.job).reference(run, has_outputs=has_outputs)
                    found |= {} if outputs is None else {run.id: outputs}
                except EdgewiseError as error:
                    found[run.id], self._unkept[run.id] = None, error.message
        return found


def _judge(group: Sequence[Outputs], model: ModelRef, changing: Set[str]) -> dict[str, Verdict]:
    """How far the outputs of one model differ; its network is read only where float32's tolerance is exceeded.

    Args:
        changing: ids of runs in which two inferences on the same inputs gave different outputs.
    """
    verdicts = compare_outputs(group)
    if not any(verdict.cautions for verdict in verdicts.values()):
        return verdicts
    try:
        graph = read_graph(model)
        random, word = random_words(graph), reduced_precision(graph)
    except EdgewiseError:  # it is gone, or its reader tells no network
        random = word = ""
    if not random and (labels := [each.label for each in group if each.run_id in changing]):
        random = f"two inferences of {', '.join(dict.fromkeys(labels))} on the same inputs give different outputs"
    if random:
        caution = Caution.of(NOT_REPEATABLE, random)
        return {each.run_id: Verdict(absent_measurements(random), (caution,)) for each in group}
    if not word:
        return verdicts
    return compare_outputs([replace(each, reduced=each.reduced or f"the model computes in {word}") for each in group])


def _is_of_integers(model: ModelRef) -> bool:
    """Whether another format of real numbers would leave all products of the model as they are."""
    try:
        return is_of_integers(read_graph(model))
    except EdgewiseError:  # it is gone, or its reader tells no network
        return False


def _mixed_precisions(runs: Sequence[Run]) -> dict[str, tuple[Caution, ...]]:
    """Return a caution for each run of a model whose runs differ in precision, unless a precision was requested."""
    told: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.effective.get("precision"):
            told[run.job.model.family].add(run.effective["precision"])
    return {
        run.id: (
            Caution.of(
                "precision-differs", f"the runtimes computed in {', '.join(sorted(told[run.job.model.family]))}"
            ),
        )
        for run in runs
        if len(told[run.job.model.family]) > 1 and run.job.runtime.precision is None
    }


def _limited(environment: Mapping[str, Any], limits: Constraints | None) -> Mapping[str, Any]:
    """Return the fingerprint of a machine as a worker within `limits` finds it: a smaller one, with a history of
    its own.
    """
    if limits is None:
        return environment
    cpu = environment["cpu"] | ({"quota_cores": limits.cpus} if limits.cpus else {})
    memory = environment["memory"] | ({"limit_bytes": limits.memory_bytes} if limits.memory_bytes else {})
    return {**environment, "cpu": cpu, "memory": memory}


def _load_options(job: Job) -> LoadOptions:
    scenario = job.workload.scenario
    return LoadOptions(
        provider=job.runtime.provider or "cpu",
        shapes={spec.name: spec.shape for spec in job.workload.inputs},
        dtypes={spec.name: spec.dtype for spec in job.workload.inputs},
        threads=job.runtime.threads,
        precision=job.runtime.precision,
        streams=scenario.streams,
        requests=scenario.requests,
        offline=scenario.kind == "offline",
        extra=job.runtime.options,
        signature=job.model.signature or next(iter(job.model.signatures), ""),
    )


def _effective(sessions: Sequence[SessionResult]) -> dict[str, Any]:
    if not sessions:
        return {}
    facts = sessions[0].facts
    told = {**facts.get("effective", {}), "engine_version": facts.get("engine_version")}
    return told | {name: facts[name] for name in ("inputs", "outputs") if name in facts}


def with_cautions(run: Run, cautions: tuple[Caution, ...]) -> Run:
    """Return the run with more cautions, and its grade anew."""
    return _graded(replace(run, cautions=run.cautions + cautions)) if cautions else run


def _graded(run: Run) -> Run:
    measured = run.value(run.headline) is not None
    return replace(run, trust=grade_of(run.cautions, measured=measured))


def _outputs_of(run: Run, sessions: Sequence[SessionResult]) -> Outputs | None:
    """Return the outputs that a worker left in its folder; a worker's file is not trusted to be one."""
    if run.status == "failed" or not sessions or sessions[0].outputs is None:
        return None
    file, _ = sessions[0].outputs
    try:
        with load_outputs(file) as data:
            arrays = tuple(data[key] for key in data.files)
    except (OSError, ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile):
        return None
    runtime = run.job.runtime
    label = f"{runtime.name}/{runtime.provider}" + (f" {runtime.precision}" if runtime.precision else "")
    origin = run.job.model.origin
    original = origin is not None and origin.original
    reduced = reduced_words(runtime.name, precision_of(run), arrays)
    return Outputs(run_id=run.id, label=label, arrays=arrays, reduced=reduced, original=original)


def _size_of(outputs: Outputs) -> int:
    return sum(array.nbytes for array in outputs.arrays)


def reduced_words(engine: str, precision: str | None, arrays: Sequence[NDArray[np.generic]]) -> str:
    """Return what an engine's precision and outputs tell that was not computed in float32; "" where they tell of
    none.
    """
    if precision not in (None, "f32"):
        return f"{engine} ran it in {precision}"
    narrow = next((array.dtype for array in arrays if array.dtype.itemsize <= 2 and array.dtype != np.bool_), None)
    return f"an output is {narrow}" if narrow is not None else ""
