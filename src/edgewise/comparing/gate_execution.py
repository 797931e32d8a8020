"""How a gate is carried out: what is measured, what is taken from the store, and when to measure again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgewise.comparing.assessment import assess
from edgewise.comparing.baseline import find_model
from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.environments import same_hardware
from edgewise.comparing.fairness import check_fairness, check_jobs
from edgewise.comparing.gate import (
    BASELINE,
    CANDIDATE,
    MOST_ATTEMPTS,
    Check,
    GateResult,
    Policy,
    is_settled,
    judge,
    refuse,
)
from edgewise.comparing.jobs import JobSettings, make_job, make_job_like
from edgewise.comparing.metrics import is_same_run
from edgewise.comparing.requirement import Requirement
from edgewise.comparing.trial import TrialSettings, run_trial
from edgewise.errors import BadInput
from edgewise.record import Job, Run
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.plan import Plan
from edgewise.run.run_builder import METERED, Sensors
from edgewise.run.variation import History

Save = Callable[[Run], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """How a gate measures.

    Attributes:
        policy: what becomes of inconclusive checks.
        time_budget_s: of the first measurement; under the policy ``retry`` each further one has twice as much.
        stored: compare with the baseline's stored samples even where its model is at hand.
        baseline_model: where the baseline's model file is, where the record does not know.
        beside: folder of the baseline's bundle, where its model is looked for too.
        duet: measure both at once on cores of their own.
        seed: of the order of turns.
    """

    policy: Policy = "retry"
    time_budget_s: float = 60.0
    stored: bool = False
    baseline_model: Path | None = None
    beside: Path | None = None
    duet: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate: its requirements and everything that measuring needs.

    Attributes:
        candidate_settings: settings of the candidate that were given; others are those of the baseline.
        baseline_settings: settings of a baseline that is a model; one that is a run has its own.
        save: keeps a run.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
    """

    requirements: tuple[Requirement, ...]
    candidate_settings: JobSettings
    baseline_settings: JobSettings
    settings: GateSettings
    save: Save
    history: History | None = None

    @property
    def criteria(self) -> Criteria:
        """The criteria of the comparison beside the checks: the headline's own limit is its margin.

        Forced, because what can't be compared fairly is refused here, in words of a gate.
        """
        limits = [one.limit for one in self.requirements if one.kind == "regression" and not one.metric]
        return Criteria(threshold=limits[0], force=True) if limits and limits[0] > 0.0 else Criteria(force=True)


def run_gate(gate: Gate, candidate: Path | Run, baseline: Path | Run | None) -> GateResult:
    """Measure what is needed and check every requirement.

    Args:
        candidate: a model to measure, or a run that was.
        baseline: the same; None where no requirement needs one.

    Raises:
        BadInput: what can't be compared fairly, or a requirement without a baseline.
        Unavailable: a runtime that is not installed.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are those finished.
    """
    if baseline is None:
        if missing := [one.word for one in gate.requirements if one.needs_baseline]:
            raise BadInput(f"{', '.join(missing)} needs a baseline", advice="--baseline FILE, RUN, tag or MODEL")
        return _gate_alone(gate, candidate)
    if isinstance(candidate, Run):
        if isinstance(baseline, Run):
            return _gate_stored(gate, candidate, baseline)
        raise BadInput(
            "a stored candidate can't be measured beside a baseline's model",
            advice="give the candidate's model file, or a stored run as the baseline",
        )
    if isinstance(baseline, Path):
        return _gate_models(gate, candidate, baseline)
    return _gate_against_run(gate, candidate, baseline)


def _gate_alone(gate: Gate, candidate: Path | Run) -> GateResult:
    """Budgets only."""
    if isinstance(candidate, Run):
        checks = judge(gate.requirements, None, candidate)
        return _outcome(gate, checks, _alone(CANDIDATE, candidate), attempts=0, notes=_no_retry(gate, checks))
    made = make_job(candidate, gate.candidate_settings)

    def measure(attempt: int) -> tuple[ComparisonResult, tuple[Check, ...]]:
        run = _measure_apart(gate, made.job, attempt=attempt)
        return _alone(CANDIDATE, run), judge(gate.requirements, None, run, attempts=_attempts(gate))

    return _repeat(gate, measure, notes=made.notes)


def _gate_stored(gate: Gate, candidate: Run, baseline: Run, notes: tuple[str, ...] = ()) -> GateResult:
    """Two runs that were measured before; nothing can be measured again."""
    variants = _variants(baseline, candidate)
    _refuse_unfair(check_fairness(variants).obstacles)
    same, reasons = same_hardware(baseline, candidate)
    if not same and not is_same_run(baseline, candidate):
        what = "different hardware" if same is False else "hardware that their records do not describe"
        told = "; ".join(reasons) or "nothing is known of it"
        return _refused(gate, baseline, f"baseline and candidate were measured on {what} ({told}). Measure both on one")
    checks = judge(gate.requirements, baseline, candidate, criteria=gate.criteria)
    findings = assess(variants, gate.criteria)
    return _outcome(gate, checks, findings, attempts=0, notes=(*notes, *_no_retry(gate, checks)))


def _gate_models(gate: Gate, candidate: Path, baseline: Path) -> GateResult:
    first = make_job(baseline, gate.baseline_settings)
    second = make_job_like(candidate, first.job, gate.candidate_settings)
    return _gate_in_turns(gate, first.job, second.job, notes=(*first.notes, *second.notes))


def _gate_against_run(gate: Gate, candidate: Path, baseline: Run) -> GateResult:
    """A model against a run: in turns with the baseline's model where it was found, else against stored samples."""
    if baseline.status != "done":
        why = f": {baseline.failure.cause}: {baseline.failure.message}" if baseline.failure is not None else ""
        return _refused(gate, baseline, f"the baseline run {baseline.status}{why}; make a new baseline")
    second = make_job_like(candidate, baseline.job, gate.candidate_settings)
    found = find_model(baseline, given=gate.settings.baseline_model, beside=gate.settings.beside)
    if found.path is not None and not gate.settings.stored:
        own = JobSettings(
            timeout_s=gate.candidate_settings.timeout_s,
            input_data=gate.candidate_settings.input_data,
            target=gate.candidate_settings.target,
        )
        first = make_job_like(found.path, baseline.job, own)
        then, now = baseline.job.runtime, first.job.runtime
        notes = [f"the baseline's model was measured again beside the candidate: {found.because}"]
        if then.version and now.version and then.version != now.version and then.name == now.name:
            notes.append(f"both ran on {now.name} {now.version}; the baseline was recorded with {then.version}")
        return _gate_in_turns(gate, first.job, second.job, notes=(*notes, *first.notes, *second.notes))
    same, reasons = same_hardware(baseline, _here(baseline, second.job))
    if not same:
        what = "other hardware" if same is False else "hardware that its record does not describe"
        return _refused(
            gate,
            baseline,
            f"the baseline was measured on {what} ({'; '.join(reasons) or 'nothing is known of it'})"
            + ("" if gate.settings.stored else f", and its model is not at hand: {found.because}")
            + ". Give its model with --baseline-model, or make a baseline on this machine",
        )
    _refuse_unfair(_obstacles(baseline.job, second.job))
    asked = "as --stored asks" if gate.settings.stored else f"its model is not at hand: {found.because}"
    notes = [f"the baseline is the stored run {baseline.id}, measured before and not beside the candidate ({asked})"]

    def measure(attempt: int) -> tuple[ComparisonResult, tuple[Check, ...]]:
        run = _measure_apart(gate, second.job, attempt=attempt)
        _refuse_unfair(check_fairness(_variants(baseline, run)).obstacles)
        checks = judge(gate.requirements, baseline, run, criteria=gate.criteria, attempts=_attempts(gate))
        return assess(_variants(baseline, run), gate.criteria), checks

    return _repeat(gate, measure, notes=(*notes, *second.notes))


def _gate_in_turns(gate: Gate, baseline: Job, candidate: Job, *, notes: tuple[str, ...]) -> GateResult:
    _refuse_unfair(_obstacles(baseline, candidate))

    def look(variants: Sequence[Variant]) -> tuple[Check, ...]:
        runs = {variant.label: variant.run for variant in variants}
        return judge(
            gate.requirements, runs[BASELINE], runs[CANDIDATE], criteria=gate.criteria, attempts=_attempts(gate)
        )

    def measure(attempt: int) -> tuple[ComparisonResult, tuple[Check, ...]]:
        trial = TrialSettings(
            budget_s=gate.settings.time_budget_s * 2**attempt,
            duet=gate.settings.duet,
            seed=gate.settings.seed + attempt,
        )
        findings = run_trial(
            (baseline, candidate),
            labels=(BASELINE, CANDIDATE),
            criteria=gate.criteria,
            trial=trial,
            save=gate.save,
            sensors=_sensors(gate),
            settled=lambda variants: is_settled(look(variants)),
        )
        if findings.interrupted:
            raise Interrupted([variant.run for variant in findings.variants])
        _refuse_unfair(findings.obstacles)
        return findings, look(findings.variants)

    return _repeat(gate, measure, notes=notes)


def _repeat(
    gate: Gate, measure: Callable[[int], tuple[ComparisonResult, tuple[Check, ...]]], *, notes: tuple[str, ...]
) -> GateResult:
    """Measure until it is decided, as often as the policy allows."""
    for attempt in range(_attempts(gate)):
        findings, checks = measure(attempt)
        if is_settled(checks) is not None or any(check.verdict == "unmeasured" for check in checks):
            break
    return _outcome(gate, checks, findings, attempts=attempt + 1, notes=notes)


def _attempts(gate: Gate) -> int:
    return MOST_ATTEMPTS if gate.settings.policy == "retry" else 1


def _measure_apart(gate: Gate, job: Job, *, attempt: int) -> Run:
    """The run of `job` alone; each further attempt has twice as many fresh processes."""
    stopping = job.workload.stopping
    longer = replace(stopping, sessions=stopping.sessions * 2**attempt)
    workload = replace(job.workload, stopping=longer, interleave=None, profile=False)
    dispatcher = Dispatcher(save=gate.save, sensors=_sensors(gate), history=gate.history)
    budget_s = gate.settings.time_budget_s * 2**attempt
    return dispatcher.execute(Plan(jobs=(replace(job, workload=workload),)), budget_s=budget_s)[0]


def _sensors(gate: Gate) -> Sensors | None:
    """None reads all sensors; without a requirement on a metered metric none is read."""
    if any(one.metric in METERED for one in gate.requirements):
        return None
    return Sensors(absences=dict.fromkeys(METERED, "no requirement asked for it"))


def _here(baseline: Run, job: Job) -> Run:
    """A run of the target that has not been measured yet, to check whether the hardware is the same."""
    from edgewise.run.facts import environment_at

    return replace(
        baseline, job=job, environment=environment_at(job.target), measurements=(), sessions=(), effective={}
    )


def _variants(baseline: Run, candidate: Run) -> tuple[Variant, Variant]:
    return Variant(label=BASELINE, run=baseline), Variant(label=CANDIDATE, run=candidate)


def _alone(label: str, run: Run) -> ComparisonResult:
    """The result where one side alone was measured."""
    return ComparisonResult(variants=(Variant(label=label, run=run),), comparisons=())


def _obstacles(baseline: Job, candidate: Job) -> list[str]:
    return check_jobs(baseline, candidate, labels=(BASELINE, CANDIDATE))


def _refuse_unfair(obstacles: Sequence[str]) -> None:
    if obstacles:
        raise BadInput(
            f"these can't be compared fairly: {'; '.join(obstacles)}",
            advice="a gate needs the same inputs, batch and scenario on both sides",
        )


def _refused(gate: Gate, baseline: Run, reason: str) -> GateResult:
    checks = refuse(gate.requirements, reason, headline=baseline.headline)
    return _outcome(gate, checks, _alone(BASELINE, baseline), attempts=0, notes=())


def _no_retry(gate: Gate, checks: Sequence[Check]) -> tuple[str, ...]:
    if gate.settings.policy == "retry" and any(check.verdict == "inconclusive" for check in checks):
        return ("nothing was measured again, as only stored runs were given; give model files to settle it",)
    return ()


def _outcome(
    gate: Gate, checks: tuple[Check, ...], findings: ComparisonResult, *, attempts: int, notes: tuple[str, ...]
) -> GateResult:
    return GateResult(
        checks=checks, findings=findings, policy=gate.settings.policy, attempts=attempts, notes=tuple(notes)
    )
