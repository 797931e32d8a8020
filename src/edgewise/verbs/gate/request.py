"""The request of ``gate``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from edgewise.comparing.requirement import Requirement, parse_requirements
from edgewise.errors import BadField
from edgewise.metrics import METRICS
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import check_settings, require_time
from edgewise.verbs.request import FilePath, Number, Texts, Whole
from edgewise.verbs.shared import JudgingRequest

LONGEST_GATE_S = 24 * 3600.0


class GateRequest(JudgingRequest):
    """Check a candidate against limits.

    Attributes:
        candidate, baseline: as the subjects of `CompareRequest`.
        max_regression: how much worse than the baseline: ``3%``, or ``latency=3%``.
        budget: limits of the candidate alone: ``latency=5ms``, ``accuracy_drop=1pt``.
        on_inconclusive: ``pass``, ``fail``, or ``retry``: measure again for longer, then fail.
        baseline_model: the file of the baseline's model, to measure it again.
        stored: don't measure the baseline again.
        time_budget: s; each retry takes twice as long.
        runtime, provider, threads, batch, precision, signature: None is the baseline run's, else as in `BenchRequest`.
        seed: of the random inputs, of the order, and of the choice of samples; None is the baseline run's, else 0.
        data: labelled samples, on which both models are judged too; fields on how are those of `EvaluateRequest`.
    """

    PATHS = ("baseline_model", "input_data", "data", "instructions", "classes")

    verb: Literal["gate"] = "gate"
    candidate: FilePath
    baseline: FilePath | None = None
    max_regression: Texts = ()
    budget: Texts = ()
    data: FilePath | None = None
    on_inconclusive: Literal["pass", "fail", "retry"] = "retry"
    baseline_model: FilePath | None = None
    stored: bool = False
    time_budget: Number = 60.0
    runtime: str | None = None
    provider: str | None = None
    threads: Whole | None = None
    batch: Whole | None = None
    precision: str | None = None
    signature: str | None = None
    input_data: FilePath | None = None
    seed: Whole | None = None
    timeout: Number = 120.0

    def requirements(self) -> tuple[Requirement, ...]:
        """What must hold. Raises `BadInput`."""
        return parse_requirements(self.max_regression, self.budget)

    def check(self) -> None:
        """Reject limits that say nothing, data that no limit is about, and settings that no engine supports."""
        super().check()
        limited = {one.metric for one in self.requirements() if one.metric}
        if self.data is not None and not any(METRICS[metric].unit == "1" for metric in limited):
            raise BadField(
                "{data} measures the accuracy, and no limit is about it",
                advice="add {budget=accuracy_drop=1pt} or {budget=accuracy_top1=97%}",
            )
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
        from edgewise.verbs.subjects import with_path_from

        words = {"candidate": with_path_from(self.candidate, folder)}
        if self.baseline is not None:
            words["baseline"] = with_path_from(self.baseline, folder)
        return super().with_paths_from(folder).model_copy(update=words)
