"""The request of ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from edgewise.comparing.criteria import Criteria, check_criteria, check_metric
from edgewise.comparing.jobs import AXES
from edgewise.device.environments import variable_sets
from edgewise.errors import BadField, BadInput
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import require_at_least, require_time
from edgewise.units import parse_duration
from edgewise.verbs import choices, words
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.fields import Fps, Runtimes, Warmup
from edgewise.verbs.option import Values, argument, option, worded
from edgewise.verbs.request import Number, Texts, Whole
from edgewise.verbs.shared import GeneratingRequest, MeasuringRequest
from edgewise.verbs.shared_options import AS_JSON, DETAILS, FORCE, MEASURE, OUTPUTS, STORING, VARY, VERDICT


class CompareRequest(GeneratingRequest, MeasuringRequest):
    """Measure models side by side, in turns, until the verdicts are decided; or compare stored runs.

    The fields are the arguments of `edgewise.compare`, but for:

    Attributes:
        subjects: ``[NAME=]THING[,key=value…]`` each: a model's file or a function that makes one, with settings; a
            stored run or its tag; a file of exported runs. The later ones are compared with the first.
        warmup: untimed inferences per session; None is found from the data.
    """

    PATHS = ("input_data",)

    OTHER_OPTIONS = (
        option(
            "--vary threads=1,2",
            VARY,
            "Compare settings: runtime, provider, threads, precision, batch, signature; or versions of an engine, "
            "onnxruntime=1.30.0,1.32.0, each in a Python environment of its own; or container=IMAGE,IMAGE; or "
            "environment variables, env.OMP_WAIT_POLICY=active,passive; repeatable",
            list[str],
            common=True,
            not_asked="the fields of runtimes, providers, threads, precision and batch take several values",
        ),
        OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"),
        DETAILS,
        AS_JSON,
        *STORING,
    )

    verb: Literal["compare"] = "compare"
    subjects: Annotated[
        Texts,
        argument(
            "subjects",
            "Models (files or FILE.py:FUNCTION), stored runs or exported files; NAME=MODEL gives a label, "
            "MODEL,threads=2 its settings",
            list[str],
            metavar="A B…",
            choices=choices.runs_and_files,
            files=True,
        ),
    ] = Field(min_length=1)
    labels: tuple[str | None, ...] = ()
    runtimes: Annotated[
        Runtimes, worded("Runtimes by name or name/provider (default: the runtime of the model's own format)")
    ] = ()
    scenario: Annotated[
        Literal["single-stream", "offline", "paced", "generate"],
        option("--scenario KIND", MEASURE, "single-stream, offline, paced or generate", common=True),
    ] = "single-stream"
    fps: Fps = None
    warmup: Warmup = None
    time_budget: Annotated[
        Number | None,
        option(
            "--time-budget T",
            MEASURE,
            "Time limit of measuring (default: 60s for two variants, 30s more for each further one; generate: three "
            "times as long)",
            read=parse_duration,
            common=True,
        ),
    ] = None
    rounds: Annotated[
        Whole | None,
        option(
            "--rounds N",
            MEASURE,
            "Maximum number of rounds; each round starts a fresh process per variant",
            minimum=1,
            maximum=90,
        ),
    ] = None
    stored: Annotated[
        bool,
        option(
            "--stored",
            MEASURE,
            "Use the samples of a stored run beside a model instead of measuring the run's model again",
            common=True,
        ),
    ] = False
    meters: Annotated[bool, option("--meters/--no-meters", MEASURE, "Read sensors, about 3 s per process")] = False
    metrics: Annotated[
        Texts,
        option(
            "--metrics M,…",
            VERDICT,
            "Metrics by id (default: latency, time per token and to first text, throughput, memory, size, energy and "
            "accuracy, if a run has them)",
        ),
    ] = ()
    until: Annotated[
        str | None,
        option(
            "--until M",
            VERDICT,
            "The metric whose verdict ends the measurement (default: latency; generate: tpot)",
            common=True,
        ),
    ] = None
    threshold: Annotated[
        Number,
        option(
            "--threshold 3%", VERDICT, "Largest relative difference that doesn't matter", read=words.share, default="3%"
        ),
    ] = 0.03
    floors: Annotated[
        dict[str, Number],
        option(
            "--floor latency=1us",
            VERDICT,
            "Largest absolute difference that doesn't matter; repeatable",
            read=words.floors,
        ),
    ] = Field(default_factory=dict)
    pareto: Annotated[Texts, option("--pareto M,…", VERDICT, "Metrics of the Pareto front")] = ()
    force: Annotated[
        bool, FORCE, worded("Compare even if it is unfair, such as different input shapes; overwrite output files")
    ] = False

    def scenario_spec(self) -> Scenario:
        """As a job has it."""
        return self.scenario_of(self.scenario, fps=self.fps, from_file=self.input_data is not None)

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
            raise BadField(f"⟦labels⟧ must be at most one per subject, not {len(self.labels)}")
        check_criteria(self.criteria())
        if self.until is not None:
            check_metric(self.until)
        require_time(time_budget=self.time_budget)
        require_at_least(1, rounds=self.rounds)

    @property
    def functions(self) -> Texts:
        """The functions among the subjects."""
        from edgewise.verbs.subjects import functions_of

        return functions_of(self.subjects)

    def with_paths_from(self, folder: Path) -> Self:
        """Return the same with absolute paths, those in the subjects among them."""
        from edgewise.verbs.subjects import with_path_from

        words = tuple(with_path_from(word, folder) for word in self.subjects)
        return super().with_paths_from(folder).model_copy(update={"subjects": words})


def read(values: Values) -> CompareRequest:
    """Return the request that the options describe. Raises `BadInput`."""
    return request_of(CompareRequest, declared_options(CompareRequest), values, **_varied(values))


def _varied(values: Values) -> dict[str, Any]:
    """Return the axes that ``--vary`` fills. Raises `BadInput` where another flag says something else."""
    from edgewise.verbs.subjects import SETTINGS, split_vary

    options = {option.field: option for option in declared_options(CompareRequest)}
    axes: dict[str, Any] = {}
    for key, varied in split_vary(values["vary"]).items():
        axis = options[AXES.get(key, key)]
        typed = values[axis.name]
        if key == "variables":
            axes[axis.field] = (*(typed or ()), *varied)
            continue
        if typed and axis.read is not None and axis.read(typed) not in ((1,), tuple(varied)):
            raise BadInput(f"⟦vary⟧ {key} and ⟦{axis.name}⟧ contradict each other", advice="give one")
        axes[axis.field] = tuple(varied)
    typed = [str(values[options[AXES[key]].name] or "") for key in SETTINGS if AXES[key] in options]
    sets = variable_sets(axes.get("variables") or values["env"] or ())
    several = (
        len(sets) > 1
        or any(len(each) > 1 for axis, each in axes.items() if axis != "variables")
        or any("," in each for each in typed)
    )
    if axes and not several and len(values["subjects"]) == 1:
        (given, *_) = values["vary"]
        raise BadInput(
            f"⟦vary⟧ {given} has one value: there is nothing to compare with", advice=f"⟦vary⟧ {given},ANOTHER"
        )
    return axes
