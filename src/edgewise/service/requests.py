"""One frozen, JSON-shaped, versioned request per verb, checked when it is made.

Values are in SI units. Paths are kept as given: `Request.with_paths_from` makes them absolute. Every error is a
`BadField`, which names the field, or another `BadInput`. `edgewise.service.reading` makes requests.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from edgewise.comparing.criteria import Criteria
from edgewise.comparing.requirement import Requirement, parse_requirements
from edgewise.constraints.base import CONTAINER_NAMES, IMAGE_NAME, MECHANISMS
from edgewise.device.devices import transport_of
from edgewise.errors import BadField, Unavailable
from edgewise.record import Constraints, Scenario, Stopping, TargetSpec
from edgewise.record.job import LoadKind, ScenarioKind
from edgewise.run.battery import Quantity
from edgewise.run.limits import check_settings, require_at_least, require_time
from edgewise.service.request import Case, FilePath, Number, Request, Shapes, Texts, Whole
from edgewise.text import listing
from edgewise.units import POWERS, parse_capacity, parse_interval

if TYPE_CHECKING:
    from edgewise.run.plan import Axes

SPREAD_SESSIONS = 10
"""Sessions that are spread over a time, unless their number is given."""


COLD_STARTS = 10
"""Sessions in the scenario cold-start, unless their number is given."""
UNUSED = ("iterations", "warmup", "duration", "report_every")
"""Fields that mean nothing where the number of inferences follows from the scenario."""


class _Target(Request):
    """Where to run, and on inputs of which shape.

    Attributes:
        device: its name or URL; ``local`` is this machine.
        shapes: input name → shape, for inputs with open dimensions; "" is the only input.
        memory_limit: bytes that a worker may allocate; None is the available memory.
    """

    device: str = "local"
    shapes: Shapes = Field(default_factory=dict)
    memory_limit: Whole | None = None

    def target(self) -> TargetSpec:
        """As a job has it."""
        return TargetSpec(device=self.device, transport=transport_of(self.device), memory_limit_bytes=self.memory_limit)


class _Limited(Request):
    """Limits of a smaller device.

    Attributes:
        cpus: processors, 1.0 is one core; None sets no limit.
        memory: bytes of all processes of a job together; None sets no limit.
        mechanism: what holds the limits; None is the best that works.
    """

    cpus: Number | None = None
    memory: Whole | None = None
    mechanism: str | None = None

    def constraints(self) -> Constraints | None:
        """As a job has them; None where there are none."""
        limits = Constraints(cpus=self.cpus, memory_bytes=self.memory, mechanism=self.mechanism)
        return limits if limits != Constraints() else None


class _LimitedTarget(_Limited, _Target):
    """Where to run, within limits."""

    def target(self) -> TargetSpec:
        """As a job has it."""
        return replace(super().target(), constraints=self.constraints())

    def check(self) -> None:
        """Reject limits that can't be held."""
        super().check()
        limits = self.constraints()
        check_constraints(limits or Constraints())
        if limits is not None and self.device != "local":
            raise BadField(
                "{cpus} and {memory} apply only to {device=local}",
                advice="leave {device} out; limits of a container are settings of its device: cpus, memory",
            )


class _Measuring(_LimitedTarget):
    """How to measure models.

    Attributes:
        runtimes: names, or ``name/provider``; empty is every installed runtime that reads the model.
        providers: empty is each runtime's first.
        threads: empty is one thread; in the scenario offline, all usable cores.
        precisions: empty is the like-for-like default.
        input_data: an ``.npz`` file with one array per input; None generates random inputs from `seed`.
        seed: of the random inputs and of every random choice.
        timeout: s; a worker that is silent for this long is killed.
    """

    runtimes: Texts = ()
    providers: Texts = ()
    threads: tuple[Whole, ...] = ()
    batches: tuple[Whole, ...] = (1,)
    precisions: Texts = ()
    input_data: FilePath | None = None
    seed: Whole = 0
    timeout: Number = 120.0

    def axes(self) -> Axes:
        """What is varied."""
        from edgewise.run.plan import Axes  # it takes 0.15 s to import

        return Axes(
            runtimes=self.runtimes,
            providers=self.providers,
            threads=self.threads,
            batches=self.batches,
            precisions=self.precisions,
            shapes=self.shapes,
        )

    def scenario_spec(self) -> Scenario:
        """As a job has it."""
        return Scenario()

    def stopping(self) -> Stopping:
        """As a job has it."""
        return Stopping(timeout_s=self.timeout)

    def plan_settings(self) -> dict[str, Any]:
        """The arguments of `edgewise.run.plan.make_plan` that say how models are measured."""
        return {
            "axes": self.axes(),
            "scenario": self.scenario_spec(),
            "stopping": self.stopping(),
            "target": self.target(),
            "seed": self.seed,
            "input_data": None if self.input_data is None else Path(self.input_data),
        }

    def check(self) -> None:
        """Reject settings that no engine supports."""
        super().check()
        check_settings(
            threads=self.threads,
            batches=self.batches,
            scenario=self.scenario_spec(),
            stopping=self.stopping(),
            target=self.target(),
            seed=self.seed,
        )


class _Protocol(_Measuring):
    """How much to measure. What is None follows from the data.

    Attributes:
        models: files and folders; ``file.py:function`` and ``module:function`` are called to make one.
        iterations: timed inferences per session.
        warmup: untimed inferences before them.
        duration: s to measure for, per session.
    """

    PATHS = ("models", "input_data")

    models: tuple[FilePath, ...] = Field(min_length=1)
    iterations: Whole | None = None
    warmup: Whole | None = None
    duration: Number | None = None


class BenchRequest(_Protocol):
    """Measure models on every runtime, side by side. The fields are the arguments of `edgewise.bench`."""

    verb: Literal["bench"] = "bench"
    scenario: ScenarioKind = "single-stream"
    fps: Number | None = None
    streams: Whole | None = None
    requests: Whole | None = None
    sessions: Whole | None = None
    spread: Number | None = None
    report_every: Whole | None = None
    sustained: Number | None = None
    duty_cycle: Number | None = None
    drop_cache: bool = False
    background_load: Whole | None = None
    background_kind: LoadKind | None = None
    meters: bool = True

    def scenario_spec(self) -> Scenario:
        """As a job has it."""
        return Scenario(
            kind=self.scenario,
            fps=self.fps,
            streams=self.streams,
            requests=self.requests,
            sustained_s=self.sustained,
            duty_cycle=self.duty_cycle,
            drop_cache=self.drop_cache,
            background_load=self.background_load,
            background_kind=self.background_kind or ("compute" if self.background_load else None),
        )

    def stopping(self) -> Stopping:
        """As a job has it."""
        given = (self.iterations, self.warmup, self.duration, self.sustained)
        prescribed = any(value is not None for value in given)
        usual = SPREAD_SESSIONS if self.spread is not None else 1 if prescribed else Stopping().sessions
        if self.scenario == "cold-start":
            usual = COLD_STARTS
        return Stopping(
            iterations=self.iterations,
            warmup=self.warmup,
            duration_s=self.duration,
            sessions=usual if self.sessions is None else self.sessions,
            spread_s=self.spread,
            report_every=self.report_every,
            timeout_s=self.timeout,
        )

    def check(self) -> None:
        """Reject settings that no engine supports, and settings that a sustained measurement has no use for."""
        super().check()
        unused: tuple[str, ...] = ()
        why = ""
        if self.sustained is not None:
            unused, why = (*UNUSED, "sessions", "spread"), "{sustained} measures in one process for a given time"
        elif self.scenario == "cold-start":
            unused, why = UNUSED, "the scenario cold-start runs one inference per process"
        if given := [f"{{{name}}}" for name in unused if getattr(self, name) is not None]:
            raise BadField(f"{why}; it excludes {listing(given)}", advice=f"leave {listing(given)} out")


class ProfileRequest(_Protocol):
    """Time every layer of models; the latency is measured first, as `BenchRequest` does.

    Attributes:
        cases: keyword arguments of the factories among the models; each case is a model of every factory.
        sessions: fresh processes that measure the latency.
        set: settings of the estimator, where `device` can only be estimated, see `in_effect`.
    """

    verb: Literal["profile"] = "profile"
    cases: tuple[Case, ...] = ({},)
    sessions: Whole = 3
    set: dict[str, str] = Field(default_factory=dict)

    def stopping(self) -> Stopping:
        """As a job has it."""
        return Stopping(
            iterations=self.iterations,
            warmup=self.warmup,
            duration_s=self.duration,
            sessions=self.sessions,
            timeout_s=self.timeout,
        )

    def check(self) -> None:
        """Reject cases without a factory, and settings of an estimator for a device that is measured."""
        super().check()
        _check_cases(self.cases, self.models)
        if self.set and not is_estimated(self.device):
            raise BadField("{set} applies only to a device that is estimated", advice="leave {set} out")

    def in_effect(self) -> Request:
        """An `EstimateRequest` where the device can be estimated and not measured. Raises `BadField`."""
        if not is_estimated(self.device):
            return self
        found = self.changed_fields()
        models = found.pop("models")
        if unused := [f"{{{name}}}" for name in found if name not in EstimateRequest.model_fields]:
            raise BadField(
                f"{self.device} can only be estimated, and an estimate does not use {listing(unused)}",
                advice=f"leave {listing(unused)} out",
            )
        if len(models) > 1:
            raise BadField(
                f"{{models}} must be one model on {self.device}, which is estimated, not {len(models)}",
                advice="estimate them one by one",
            )
        return EstimateRequest(model=models[0], **found)


class InspectRequest(Request):
    """Count what a model costs, without timing it.

    Attributes:
        model: a file or folder; ``file.py:function`` and ``module:function`` are called to make one.
        cases: keyword arguments of the factory, one model each.
        shapes: input name → shape, for inputs with open dimensions.
        hash_weights: read weight files too, for the model's hash.
    """

    PATHS = ("model",)

    verb: Literal["inspect"] = "inspect"
    model: FilePath
    cases: tuple[Case, ...] = ({},)
    shapes: Shapes = Field(default_factory=dict)
    hash_weights: bool = False

    def check(self) -> None:
        """Reject cases without a factory."""
        _check_cases(self.cases, (self.model,))


def is_estimated(device: str) -> bool:
    """Whether an estimator knows `device`, and no device of this name can be measured on."""
    from edgewise.device.devices import find_device
    from edgewise.estimating.base import is_known

    try:
        find_device(device)
    except Unavailable:
        return is_known(device)
    return False


class _Estimated(Request):
    """A model on hardware that is not at hand.

    Attributes:
        model: a file; ``file.py:function`` and ``module:function`` are called to make one, which is quantised to int8.
        cases: keyword arguments of the function, at most one set of them.
        set: settings of the estimator, name → value.
        shapes: input name → shape, for inputs with open dimensions.
    """

    PATHS = ("model",)

    model: FilePath
    cases: tuple[Case, ...] = ({},)
    set: dict[str, str] = Field(default_factory=dict)
    shapes: Shapes = Field(default_factory=dict)

    def check(self) -> None:
        """Reject cases without a function, and more than one."""
        _check_cases(self.cases, (self.model,))
        if len(self.cases) > 1:
            raise BadField(f"{{cases}} must be one model for an estimate, not {len(self.cases)}")


class CalibrateRequest(Request):
    """Learn a device from a few models that were measured on it.

    Attributes:
        name: of the device, as ``-d`` takes it afterwards.
        measurements: CSV files, stored runs (id, its beginning, tag) or files of exported runs.
        method: the law to take; None chooses the one that predicts left-out models best.
        host: engine whose stored runs on this machine are taken, such as ``litert``; None takes the one with the most.
        runtime: engine whose runs of the device are taken; None where they are all of one.
    """

    PATHS = ()

    verb: Literal["calibrate"] = "calibrate"
    name: str
    measurements: Texts = Field(min_length=1)
    method: str | None = None
    host: str | None = None
    runtime: str | None = None


class SuggestRequest(Request):
    """Choose reference networks to measure next on a device, and write their files.

    Attributes:
        name: of the device that is to be calibrated.
        suggest: number of networks.
        folder: its `output`: where the files go; None is ``NAME-models`` in the current folder.
        format: ``onnx`` or ``tflite``.
        force: overwrite other files of the same names.
    """

    PATHS = ("folder",)

    verb: Literal["suggest"] = "suggest"
    name: str
    suggest: Whole = Field(ge=1)
    folder: FilePath | None = None
    format: Literal["onnx", "tflite"] = "onnx"
    force: bool = False


class PredictRequest(Request):
    """Predict models for a calibrated device.

    Attributes:
        models: model files, names of models in the atlas, or CSV files with models and their values on this machine.
        device: the name of a calibrated device.
        targets: metric → largest value wanted, in SI.
    """

    PATHS = ("models",)

    verb: Literal["predict"] = "predict"
    models: tuple[FilePath, ...] = Field(min_length=1)
    device: str
    targets: dict[str, Number] = Field(default_factory=dict)


class EstimateRequest(_Estimated):
    """Estimate a model on hardware that is not at hand.

    Attributes:
        device: a device that an estimator knows, ``NAME`` or ``NAME@CLOCK``.
    """

    verb: Literal["estimate"] = "estimate"
    device: str


class FitsRequest(_Estimated):
    """List the boards of the catalogue that hold a model.

    Attributes:
        max_latency: s; None sets no limit.
        max_ram, max_flash: bytes that the model may take; None sets no limit.
        capacity: of a battery, such as ``10Wh``; with `idle_power` and `per_hour`, boards have a battery life.
        idle_power: between inferences, such as ``50mW±5mW``.
        per_hour: number of inferences an hour.
    """

    verb: Literal["fits"] = "fits"
    max_latency: Number | None = None
    max_ram: Whole | None = None
    max_flash: Whole | None = None
    capacity: str | None = None
    idle_power: str | None = None
    per_hour: Number | None = None

    def check(self) -> None:
        """Reject limits that are not positive, and a battery of which a part is missing or wrong."""
        super().check()
        for name in ("max_latency", "max_ram", "max_flash"):
            if (limit := getattr(self, name)) is not None and limit <= 0:
                raise BadField(f"{{{name}}} must be more than 0, not {limit:g}")
        if len({each is None for each in (self.capacity, self.idle_power, self.per_hour)}) > 1:
            raise BadField(
                "a battery life needs {capacity}, {idle_power} and {per_hour}", advice="give all three, or none of them"
            )
        if (battery := self.battery()) is not None and (battery[0] <= 0 or battery[2] < 0):
            raise BadField("{capacity} must be more than 0, and {per_hour} at least 0")

    def battery(self) -> tuple[float, Quantity, float] | None:
        """Capacity in J, idle power in W and inferences an hour; None without a battery. Raises `BadInput`."""
        if self.capacity is None or self.idle_power is None or self.per_hour is None:
            return None
        idle_power = Quantity(*parse_interval(self.idle_power, POWERS, what="power"))
        return parse_capacity(self.capacity), idle_power, self.per_hour


MOST_CASES = 1000


def _check_cases(cases: tuple[Case, ...], models: tuple[str, ...]) -> None:
    from edgewise.model.callable_loader import is_factory

    if not 1 <= len(cases) <= MOST_CASES:
        raise BadField(f"{{cases}} must be 1 to {MOST_CASES} models, not {len(cases)}")
    if cases != ({},) and not any(map(is_factory, models)):
        raise BadField("{cases} applies only to models that a function makes", advice="give {build=MODULE:FUNCTION}")


class CompareRequest(_Measuring):
    """Measure models side by side, in turns, until the verdicts are decided; or compare stored runs.

    The fields are the arguments of `edgewise.compare`, but for:

    Attributes:
        subjects: ``[NAME=]THING[,key=value…]`` each: a model's file or a function that makes one, with settings; a
            stored run or its tag; a file of exported runs. The later ones are compared with the first.
        warmup: untimed inferences per session; None is found from the data.
    """

    PATHS = ("input_data",)

    verb: Literal["compare"] = "compare"
    subjects: Texts = Field(min_length=1)
    labels: tuple[str | None, ...] = ()
    scenario: Literal["single-stream", "offline", "paced"] = "single-stream"
    fps: Number | None = None
    warmup: Whole | None = None
    time_budget: Number | None = None
    rounds: Whole | None = None
    duet: bool = False
    stored: bool = False
    meters: bool = False
    metrics: Texts = ()
    until: str | None = None
    threshold: Number = 0.03
    floors: dict[str, Number] = Field(default_factory=dict)
    pareto: Texts = ()
    force: bool = False

    def scenario_spec(self) -> Scenario:
        """As a job has it."""
        return Scenario(kind=self.scenario, fps=self.fps)

    def stopping(self) -> Stopping:
        """As a job has it."""
        return Stopping(warmup=self.warmup, timeout_s=self.timeout)

    def criteria(self) -> Criteria:
        """On which terms the subjects are compared."""
        return Criteria(
            metrics=self.metrics, threshold=self.threshold, floors=self.floors, front=self.pareto, force=self.force
        )

    def check(self) -> None:
        """Reject unknown metrics, too."""
        super().check()
        if len(self.labels) > len(self.subjects):
            raise BadField(f"{{labels}} must be at most one per subject, not {len(self.labels)}")
        from edgewise.comparing.metrics import check_criteria, check_metric  # it takes 0.15 s to import

        check_criteria(self.criteria())
        if self.until is not None:
            check_metric(self.until)
        require_time(time_budget=self.time_budget)
        require_at_least(1, rounds=self.rounds)

    @property
    def functions(self) -> Texts:
        """The functions among the subjects."""
        from edgewise.service.subjects import functions_of

        return functions_of(self.subjects)

    def with_paths_from(self, folder: Path) -> Self:
        """The same with absolute paths, those in the subjects among them."""
        from edgewise.service.subjects import with_path_from

        words = tuple(with_path_from(word, folder) for word in self.subjects)
        return super().with_paths_from(folder).model_copy(update={"subjects": words})


class GateRequest(_Target):
    """Check a candidate against limits.

    Attributes:
        candidate, baseline: as the subjects of `CompareRequest`.
        max_regression: how much worse than the baseline: ``3%``, or ``latency=3%``.
        budget: limits of the candidate alone: ``latency=5ms``, ``accuracy_drop=1pt``.
        on_inconclusive: ``pass``, ``fail``, or ``retry``: measure again for longer, then fail.
        baseline_model: the file of the baseline's model, to measure it again.
        stored: don't measure the baseline again.
        time_budget: s; each retry takes twice as long.
        duet: measure both at once, on cores of their own.
        runtime, provider, threads, batch, precision: None is the baseline run's, else as in `BenchRequest`.
        seed: of the random inputs and of the order; None is the baseline run's, else 0.
    """

    PATHS = ("baseline_model", "input_data")

    verb: Literal["gate"] = "gate"
    candidate: FilePath
    baseline: FilePath | None = None
    max_regression: Texts = ()
    budget: Texts = ()
    on_inconclusive: Literal["pass", "fail", "retry"] = "retry"
    baseline_model: FilePath | None = None
    stored: bool = False
    time_budget: Number = 60.0
    duet: bool = False
    runtime: str | None = None
    provider: str | None = None
    threads: Whole | None = None
    batch: Whole | None = None
    precision: str | None = None
    input_data: FilePath | None = None
    seed: Whole | None = None
    timeout: Number = 120.0

    def requirements(self) -> tuple[Requirement, ...]:
        """What must hold. Raises `BadInput`."""
        return parse_requirements(self.max_regression, self.budget)

    def check(self) -> None:
        """Reject limits that say nothing, and settings that no engine supports."""
        self.requirements()
        require_time(LONGEST_GATE_S, time_budget=self.time_budget)
        check_settings(
            threads=() if self.threads is None else (self.threads,),
            batches=() if self.batch is None else (self.batch,),
            scenario=Scenario(),
            stopping=Stopping(timeout_s=self.timeout),
            target=self.target(),
            seed=self.seed or 0,
        )

    def with_paths_from(self, folder: Path) -> Self:
        """The same with absolute paths, those in the candidate and the baseline among them."""
        from edgewise.service.subjects import with_path_from

        words = {"candidate": with_path_from(self.candidate, folder)}
        if self.baseline is not None:
            words["baseline"] = with_path_from(self.baseline, folder)
        return super().with_paths_from(folder).model_copy(update=words)


LONGEST_GATE_S = 24 * 3600.0


class _Data(_Target):
    """Which data to judge on, and how: as for `edgewise.evaluate`."""

    task: str | None = None
    split: str | None = None
    limit: Whole | None = None
    seed: Whole = 0
    strict: bool = False
    data_format: str | None = None
    data_options: dict[str, str] = Field(default_factory=dict)
    task_options: dict[str, str] = Field(default_factory=dict)
    classes: Texts | FilePath = ()
    prepare: Texts = ()
    instructions: FilePath | None = None
    runtimes: Texts = ()

    def check(self) -> None:
        """Reject a limit below one."""
        super().check()
        require_at_least(1, limit=self.limit, memory_limit=self.memory_limit)


class EvaluateRequest(_LimitedTarget, _Data):
    """Measure the accuracy of models on labelled data, or against another model's outputs.

    The fields are the arguments of `edgewise.evaluate`, but for:

    Attributes:
        own_metrics: its `metrics`.
        classes: names of the model's classes, or a file with one name a line.
    """

    PATHS = ("models", "data", "own_metrics", "reference", "instructions", "classes")

    verb: Literal["evaluate"] = "evaluate"
    models: tuple[FilePath, ...] = Field(min_length=1)
    data: FilePath
    own_metrics: Texts = ()
    reference: FilePath | None = None
    providers: Texts = ()
    threads: Whole = 1
    precisions: Texts = ()
    latency: bool = True
    sessions: Whole = 3
    meters: bool = False
    timeout: Number = 120.0
    fresh: bool = False

    def check(self) -> None:
        """Reject settings that no engine supports."""
        super().check()
        if self.meters and not self.latency:
            raise BadField("{meters} needs the latency, which is not measured", advice="leave {latency=False} out")
        check_settings(
            threads=(self.threads,),
            batches=(),
            scenario=Scenario(),
            stopping=Stopping(sessions=self.sessions, timeout_s=self.timeout),
            target=self.target(),
            seed=self.seed,
        )


class OptimizeRequest(_Data):
    """Find the fastest variant of a model that keeps its accuracy.

    The fields are the arguments of `edgewise.optimize`, but for:

    Attributes:
        folder: its `output`: where variants and the result go; None is ``MODEL-optimized`` in the current folder.
    """

    PATHS = ("model", "also", "data", "instructions", "classes", "folder")

    verb: Literal["optimize"] = "optimize"
    model: FilePath
    also: tuple[FilePath, ...] = ()
    data: FilePath | None = None
    calibrate_on: str | None = None
    calibration_limit: Whole | None = None
    max_latency: Number | None = None
    max_size: Whole | None = None
    max_memory: Whole | None = None
    max_accuracy_drop: str | None = None
    min_accuracy: Number | None = None
    min_snr: Number | None = None
    aim: Literal["latency", "size"] = "latency"
    passes: Texts = ()
    keep_float: Texts = ()
    sensitivity: bool | None = None
    everything: bool = False
    threads: Whole | None = None
    time_budget: Number = 300.0
    fresh: bool = False
    folder: FilePath | None = None

    def check(self) -> None:
        """Reject amounts that no variant can meet."""
        super().check()
        require_at_least(1, threads=self.threads, calibration_limit=self.calibration_limit)
        require_at_least(1, max_size=self.max_size, max_memory=self.max_memory)
        require_time(max_latency=self.max_latency, time_budget=self.time_budget)


PLACEHOLDER = "{model}"
LEAST_CPUS, MOST_CPUS = 0.01, 1024
LEAST_MEMORY = 2**20
SHORTEST_SAMPLE_S = 0.01
"""Reading the counters more often would disturb what they count."""


class ExecRequest(_Limited):
    """Run a program within the limits of a smaller device.

    Attributes:
        command: program and arguments; ``{model}`` in them stands for a model.
        model_names: names or paths to put there; each is a run of its own. They count from the folder in
            which the command runs.
        models_file: a file with one of them per line.
        run_in: the folder in which the command runs; None is the current folder.
        image: of a container in which the command runs; None runs it on the machine itself.
        mount: whether the container has `run_in` as its working folder; otherwise it is the image's own.
        container_options: further options for the start of the container.
        dockerfile: text of a Dockerfile from which the image is built; where that fails, and `mechanism` names no
            container runtime, the command runs on the machine itself.
        build_context: folder with the files for `dockerfile`; None is `run_in`.
        not_applied: requirements of another tool's file that are not met here; each run says so.
        sample: s between samples of the counters; 0 takes none.
        timeout: s; a command that takes longer is killed. None waits for its end.
        repeat: number of executions.
        seed: of the order of executions.
    """

    PATHS = ("models_file", "run_in", "build_context")

    verb: Literal["exec"] = "exec"
    image: str | None = None
    mount: bool = True
    container_options: Texts = ()
    dockerfile: str | None = None
    build_context: str | None = None
    command: Texts = Field(min_length=1)
    model_names: Texts = ()
    models_file: FilePath | None = None
    run_in: FilePath | None = None
    not_applied: Texts = ()
    sample: Number = 0.5
    timeout: Number | None = None
    repeat: Whole = 1
    seed: Whole = 0

    @property
    def functions(self) -> Texts:
        """The command, and what makes and starts its container: code that this request runs."""
        return (" ".join(self.command), *filter(None, (self.dockerfile, " ".join(self.container_options))))

    def constraints(self) -> Constraints | None:
        """As a job has them; None where there are none."""
        limits = replace(super().constraints() or Constraints(), image=self.image)
        return limits if limits != Constraints() else None

    def check(self) -> None:
        """Reject limits that no program can run in, and models without a place in the command."""
        limits = self.constraints() or Constraints()
        check_constraints(limits if self.dockerfile is None else replace(limits, mechanism=None))
        if self.dockerfile is not None and self.image is not None:
            raise BadField("give either {image} or {dockerfile}")
        if self.image is not None and not IMAGE_NAME.fullmatch(self.image):
            raise BadField(f"{{image}}: {self.image!r} is not the name of an image", advice="such as python:3.13-slim")
        require_time(timeout=self.timeout, sample=self.sample or None)
        if 0 < self.sample < SHORTEST_SAMPLE_S:
            raise BadField(f"{{sample}} must be 0 or at least {SHORTEST_SAMPLE_S:g} s, not {self.sample:g} s")
        require_at_least(1, repeat=self.repeat)
        require_at_least(0, seed=self.seed)
        has_place = any(PLACEHOLDER in word for word in self.command)
        if has_place and not (self.model_names or self.models_file):
            raise BadField(
                "the placeholder in {command} needs {model_names} or {models_file}",
                advice="for example {model_names=a.onnx,b.onnx}",
            )
        if not has_place and (self.model_names or self.models_file):
            raise BadField(
                "{model_names} and {models_file} need a placeholder in {command}",
                advice="write the word model in braces, { and }, where the name of the model belongs",
            )


def check_constraints(limits: Constraints) -> None:
    """Reject limits that no program can run in. Raises `BadField`."""
    if limits.cpus is not None and not LEAST_CPUS <= limits.cpus <= MOST_CPUS:
        raise BadField(f"{{cpus}} must be {LEAST_CPUS:g} to {MOST_CPUS}, not {limits.cpus:g}", advice="1 is one core")
    if limits.memory_bytes is not None and not LEAST_MEMORY <= limits.memory_bytes < 2**63:
        raise BadField(
            f"{{memory}} must be at least 1 MiB and less than 8 EiB, not {limits.memory_bytes} B",
            advice="for example {memory=512MiB}",
        )
    known = (*MECHANISMS, *CONTAINER_NAMES)
    if limits.mechanism is not None and limits.mechanism not in known:
        raise BadField(f"{{mechanism}} must be one of {', '.join(known)}, not {limits.mechanism!r}")
    if limits.mechanism in CONTAINER_NAMES and limits.image is None:
        raise BadField(
            f"{{mechanism={limits.mechanism}}} needs the name of an image",
            advice="exec runs a program in {image}; for models in an engine use {device=container://IMAGE}",
        )
    if limits.mechanism in MECHANISMS and limits.image is not None:
        raise BadField(
            f"{{mechanism={limits.mechanism}}} does not run containers", advice=f"use {' or '.join(CONTAINER_NAMES)}"
        )


REQUESTS: dict[str, type[Request]] = {
    kind.model_fields["verb"].default: kind
    for kind in (
        BenchRequest,
        ProfileRequest,
        InspectRequest,
        EstimateRequest,
        CalibrateRequest,
        SuggestRequest,
        PredictRequest,
        FitsRequest,
        EvaluateRequest,
        OptimizeRequest,
        CompareRequest,
        GateRequest,
        ExecRequest,
    )
}
