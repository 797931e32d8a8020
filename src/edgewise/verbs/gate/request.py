"""The request of ``gate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from edgewise.comparing.requirement import Requirement, parse_requirements
from edgewise.errors import BadField
from edgewise.metrics import METRICS
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import check_settings, require_time
from edgewise.units import parse_duration
from edgewise.verbs import choices
from edgewise.verbs.fields import InputData, Timeout
from edgewise.verbs.option import argument, option
from edgewise.verbs.request import FilePath, Number, Texts, Whole
from edgewise.verbs.shared import GeneratingRequest, JudgingRequest
from edgewise.verbs.shared_options import DATA, LIMITS, MEASURE, OUTPUTS, REPORTING, SIGNATURE, VARY

LONGEST_GATE_S = 24 * 3600.0


class GateRequest(GeneratingRequest, JudgingRequest):
    """Check a candidate against limits.

    Attributes:
        candidate, baseline: as the subjects of `CompareRequest`.
        runtime, provider, threads, batch, precision, signature: None is the baseline run's, else as in `BenchRequest`.
        seed: of the random inputs, of the order, and of the choice of samples; None is the baseline run's, else 0.
        data: labelled samples, on which both models are judged too; fields on how are those of `EvaluateRequest`.
    """

    PATHS = ("baseline_model", "input_data", "data", "instructions", "classes")

    OTHER_OPTIONS = (OUTPUTS.worded("Also write .xml (JUnit), .md (a comment), .json or .html; repeatable"), *REPORTING)

    verb: Literal["gate"] = "gate"
    candidate: Annotated[
        FilePath,
        argument(
            "candidate",
            "A model, a stored run or an exported file",
            str,
            metavar="CANDIDATE",
            choices=choices.runs_and_files,
            files=True,
        ),
    ]
    baseline: Annotated[
        FilePath | None,
        option(
            "--baseline B",
            LIMITS,
            "A stored run or its tag, an exported file, or a model",
            choices=choices.runs_and_files,
            files=True,
            common=True,
        ),
    ] = None
    max_regression: Annotated[
        Texts,
        option(
            "--max-regression 3%",
            LIMITS,
            "Largest regression against the baseline; for single metrics: latency=3%,memory_peak=5%",
            list[str],
            common=True,
        ),
    ] = ()
    budget: Annotated[
        Texts,
        option(
            "--budget latency=5ms,…",
            LIMITS,
            "Limits of the candidate's own values; also accuracy_drop=1pt, against the baseline",
            list[str],
            common=True,
        ),
    ] = ()
    data: Annotated[
        FilePath | None,
        option(
            "--data PATH",
            DATA,
            "Labelled samples: judge both models on them too, for limits such as --budget accuracy_drop=1pt",
            common=True,
        ),
    ] = None
    on_inconclusive: Annotated[
        Literal["pass", "fail", "retry"],
        option(
            "--on-inconclusive WORD",
            LIMITS,
            "Result of an inconclusive check: pass, fail, or retry (measure again for longer, then fail)",
        ),
    ] = "retry"
    baseline_model: Annotated[
        FilePath | None,
        option("--baseline-model F", MEASURE, "Model file of a baseline run, to measure the baseline again", Path),
    ] = None
    stored: Annotated[
        bool,
        option("--stored", MEASURE, "Use the baseline's stored samples instead of measuring it again", common=True),
    ] = False
    time_budget: Annotated[
        Number,
        option(
            "--time-budget T",
            MEASURE,
            "Time limit of measuring; each retry has twice the time",
            read=parse_duration,
            default="60s",
            common=True,
        ),
    ] = 60.0
    scenario: Annotated[
        Literal["single-stream", "generate"] | None,
        option(
            "--scenario KIND",
            MEASURE,
            "single-stream or generate (default: the baseline run's, else single-stream)",
        ),
    ] = None
    runtime: Annotated[
        str | None,
        option("-r --runtime NAME", VARY, "A runtime, or runtime/provider", choices=choices.runtimes, common=True),
    ] = None
    provider: Annotated[str | None, option("--provider NAME", VARY, "A provider")] = None
    threads: Annotated[
        Whole | None,
        option(
            "-t --threads N", VARY, "Number of inference threads (default: the baseline run's, else 1)", common=True
        ),
    ] = None
    batch: Annotated[
        Whole | None, option("--batch N", VARY, "Batch size (default: the baseline run's, else 1)", common=True)
    ] = None
    precision: Annotated[str | None, option("--precision P", VARY, "f32, bf16 or f16", common=True)] = None
    signature: Annotated[str | None, SIGNATURE] = None
    input_data: InputData = None
    seed: Annotated[Whole | None, option("--seed N", MEASURE, "Random seed (default: the baseline run's, else 0)")] = (
        None
    )
    timeout: Timeout = 120.0

    def scenario_spec(self) -> Scenario | None:
        """As a job has it; None is the baseline run's, else a single stream."""
        given = (self.scenario, self.prompt_tokens, self.new_tokens, self.depth)
        if given == (None,) * len(given):
            return None
        return self.scenario_of(self.scenario or "single-stream", from_file=self.input_data is not None)

    def requirements(self) -> tuple[Requirement, ...]:
        """Return what must hold. Raises `BadInput`."""
        return parse_requirements(self.max_regression, self.budget)

    def check(self) -> None:
        """Reject limits that say nothing, data that no limit is about, and settings that no engine supports."""
        super().check()
        limited = {one.metric for one in self.requirements() if one.metric}
        if self.data is not None and not any(METRICS[metric].unit == "1" for metric in limited):
            raise BadField(
                "⟦data⟧ measures the accuracy, and no limit is about it",
                advice="add ⟦budget=accuracy_drop=1pt⟧ or ⟦budget=accuracy_top1=97%⟧",
            )
        require_time(LONGEST_GATE_S, time_budget=self.time_budget)
        check_settings(
            threads=() if self.threads is None else (self.threads,),
            batches=() if self.batch is None else (self.batch,),
            scenario=self.scenario_spec() or Scenario(),
            stopping=Stopping(timeout_s=self.timeout),
            target=self.target(),
            seed=self.seed or 0,
        )

    def with_paths_from(self, folder: Path) -> Self:
        """Return the same with absolute paths, those in the candidate and the baseline among them."""
        from edgewise.verbs.subjects import with_path_from

        words = {"candidate": with_path_from(self.candidate, folder)}
        if self.baseline is not None:
            words["baseline"] = with_path_from(self.baseline, folder)
        return super().with_paths_from(folder).model_copy(update=words)
