"""The request of ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from edgewise.comparing.criteria import Criteria, check_criteria, check_metric
from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import require_at_least, require_time
from edgewise.verbs.request import Number, Texts, Whole
from edgewise.verbs.shared import MeasuringRequest

LONGEST_GATE_S = 24 * 3600.0


class CompareRequest(MeasuringRequest):
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
        """The same with absolute paths, those in the subjects among them."""
        from edgewise.verbs.subjects import with_path_from

        words = tuple(with_path_from(word, folder) for word in self.subjects)
        return super().with_paths_from(folder).model_copy(update={"subjects": words})
