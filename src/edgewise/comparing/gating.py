"""How a gate gets its evidence: what is measured anew, what is taken from the store, and when to measure again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgewise.comparing.assessment import assess
from edgewise.comparing.baseline import find_model
from edgewise.comparing.comparison import Findings, Variant
from edgewise.comparing.environments import same_hardware
from edgewise.comparing.fairness import check_fairness, check_jobs
from edgewise.comparing.gate import (
    BASELINE,
    CANDIDATE,
    MOST_ATTEMPTS,
    Check,
    Outcome,
    Policy,
    is_settled,
    judge,
    refuse,
)
from edgewise.comparing.like_for_like import Asked, make_job, make_job_like
from edgewise.comparing.metrics import is_same_run
from edgewise.comparing.requirement import Requirement
from edgewise.comparing.terms import Terms
from edgewise.comparing.trial import Trial, run_trial
from edgewise.errors import BadInput
from edgewise.record import Job, Run
from edgewise.run.assembly import METERED, Sensors
from edgewise.run.dispatch import Dispatcher, Interrupted, Observer
from edgewise.run.plan import Plan
from edgewise.run.variation import History

Save = Callable[[Run], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How to get evidence.

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
        asked: settings of the candidate that were given; others are those of the baseline.
        asked_baseline: settings of a baseline that is a model; one that is a run has its own.
        save: keeps a run.
        observer: told what happens while it is measured.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
    """

    requirements: tuple[Requirement, ...]
    asked: Asked
    asked_baseline: Asked
    ways: Ways
    save: Save
    observer: Observer | None = None
    history: History | None = None

    @property
    def terms(self) -> Terms:
        """The terms of the comparison beside the checks: the headline's own limit is its margin.

        Forced, because what can't be compared fairly is refused here, in words of a gate.
        """
        limits = [one.limit for one in self.requirements if one.kind == "regression" and not one.metric]
        return Terms(threshold=limits[0], force=True) if limits and limits[0] > 0.0 else Terms(force=True)


def run_gate(gate: Gate, candidate: Path | Run, baseline: Path | Run | None) -> Outcome:
    """Get the evidence and check every requirement.

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


def _gate_alone(gate: Gate, candidate: Path | Run) -> Outcome:
    """Budgets only."""
    if isinstance(candidate, Run):
        checks = judge(gate.requirements, None, candidate)
        return _outcome(gate, checks, _findings_of(candidate), attempts=0, notes=_no_retry(gate, checks))
    made = make_job(candidate, gate.asked)

    def measure(attempt: int) -> tuple[Findings, tuple[Check, ...]]:
        run = _measure_apart(gate, made.job, attempt=attempt)
        return _findings_of(run), judge(gate.requirements, None, run, attempts=_attempts(gate))

    return _repeat(gate, measure, notes=made.notes)


def _gate_stored(gate: Gate, candidate: Run, baseline: Run, notes: tuple[str, ...] = ()) -> Outcome:
    """Two runs that were measured before; nothing can be measured again."""
    variants = _variants(baseline, candidate)
    _refuse_unfair(check_fairness(variants).obstacles)
    same, reasons = same_hardware(baseline, candidate)
    if not same and not is_same_run(baseline, candidate):
        what = "different hardware" if same is False else "hardware that their records do not tell"
        told = "; ".join(reasons) or "nothing is known of it"
        return _refused(gate, baseline, f"baseline and candidate were measured on {what} ({told}). Measure both on one")
    checks = judge(gate.requirements, baseline, candidate, terms=gate.terms)
    findings = assess(variants, gate.terms)
    return _outcome(gate, checks, findings, attempts=0, notes=(*notes, *_no_retry(gate, checks)))


def _gate_models(gate: Gate, candidate: Path, baseline: Path) -> Outcome:
    first = make_job(baseline, gate.asked_baseline)
    second = make_job_like(candidate, first.job, gate.asked)
    return _gate_in_turns(gate, first.job, second.job, notes=(*first.notes, *second.notes))


def _gate_against_run(gate: Gate, candidate: Path, baseline: Run) -> Outcome:
    """A model against a run: in turns with the baseline's model where that is at hand, else with its samples."""
    if baseline.status != "done":
        why = f": {baseline.failure.cause}: {baseline.failure.message}" if baseline.failure is not None else ""
        return _refused(gate, baseline, f"the baseline run {baseline.status}{why}; make a new baseline")
    second = make_job_like(candidate, baseline.job, gate.asked)
    found = find_model(baseline, given=gate.ways.baseline_model, beside=gate.ways.beside)
    if found.path is not None and not gate.ways.stored:
        own = Asked(timeout_s=gate.asked.timeout_s, input_data=gate.asked.input_data, target=gate.asked.target)
        first = make_job_like(found.path, baseline.job, own)
        then, now = baseline.job.runtime, first.job.runtime
        notes = [f"the baseline's model was measured again beside the candidate: {found.because}"]
        if then.version and now.version and then.version != now.version and then.name == now.name:
            notes.append(f"both ran on {now.name} {now.version}; the baseline was recorded with {then.version}")
        return _gate_in_turns(gate, first.job, second.job, notes=(*notes, *first.notes, *second.notes))
    same, reasons = same_hardware(baseline, _here(baseline, second.job))
    if not same:
        what = "other hardware" if same is False else "hardware that its record does not tell"
        return _refused(
            gate,
            baseline,
            f"the baseline was measured on {what} ({'; '.join(reasons) or 'nothing is known of it'})"
            + ("" if gate.ways.stored else f", and its model is not at hand: {found.because}")
            + ". Give its model with --baseline-model, or make a baseline on this machine",
        )
    _refuse_unfair(_obstacles(baseline.job, second.job))
    asked = "as --stored asks" if gate.ways.stored else f"its model is not at hand: {found.because}"
    notes = [f"the baseline is the stored run {baseline.id}, measured before and not beside the candidate ({asked})"]

    def measure(attempt: int) -> tuple[Findings, tuple[Check, ...]]:
        run = _measure_apart(gate, second.job, attempt=attempt)
        _refuse_unfair(check_fairness(_variants(baseline, run)).obstacles)
        checks = judge(gate.requirements, baseline, run, terms=gate.terms, attempts=_attempts(gate))
        return assess(_variants(baseline, run), gate.terms), checks

    return _repeat(gate, measure, notes=(*notes, *second.notes))


def _gate_in_turns(gate: Gate, baseline: Job, candidate: Job, *, notes: tuple[str, ...]) -> Outcome:
    _refuse_unfair(_obstacles(baseline, candidate))

    def look(variants: Sequence[Variant]) -> tuple[Check, ...]:
        runs = {variant.label: variant.run for variant in variants}
        return judge(gate.requirements, runs[BASELINE], runs[CANDIDATE], terms=gate.terms, attempts=_attempts(gate))

    def measure(attempt: int) -> tuple[Findings, tuple[Check, ...]]:
        trial = Trial(
            budget_s=gate.ways.time_budget_s * 2**attempt,
            duet=gate.ways.duet,
            seed=gate.ways.seed + attempt,
        )
        findings = run_trial(
            (baseline, candidate),
            labels=(BASELINE, CANDIDATE),
            terms=gate.terms,
            trial=trial,
            save=gate.save,
            observer=gate.observer,
            sensors=_sensors(gate),
            settled=lambda variants: is_settled(look(variants)),
        )
        if findings.interrupted:
            raise Interrupted([variant.run for variant in findings.variants])
        _refuse_unfair(findings.obstacles)
        return findings, look(findings.variants)

    return _repeat(gate, measure, notes=notes)


def _repeat(
    gate: Gate, measure: Callable[[int], tuple[Findings, tuple[Check, ...]]], *, notes: tuple[str, ...]
) -> Outcome:
    """Measure until it is decided, as often as the policy allows."""
    for attempt in range(_attempts(gate)):
        findings, checks = measure(attempt)
        if is_settled(checks) is not None or any(check.verdict == "unmeasured" for check in checks):
            break
    return _outcome(gate, checks, findings, attempts=attempt + 1, notes=notes)


def _attempts(gate: Gate) -> int:
    return MOST_ATTEMPTS if gate.ways.policy == "retry" else 1


def _measure_apart(gate: Gate, job: Job, *, attempt: int) -> Run:
    """The run of `job` alone; each further attempt has twice as many fresh processes."""
    stopping = job.workload.stopping
    longer = replace(stopping, sessions=stopping.sessions * 2**attempt)
    workload = replace(job.workload, stopping=longer, interleave=None, profile=False)
    dispatcher = Dispatcher(save=gate.save, observer=gate.observer, sensors=_sensors(gate), history=gate.history)
    budget_s = gate.ways.time_budget_s * 2**attempt
    return dispatcher.execute(Plan(jobs=(replace(job, workload=workload),)), budget_s=budget_s)[0]


def _sensors(gate: Gate) -> Sensors | None:
    """None reads whatever sensors there are; nothing is read where nothing is required of them."""
    if any(one.metric in METERED for one in gate.requirements):
        return None
    return Sensors(absences=dict.fromkeys(METERED, "no requirement asked for it"))


def _here(baseline: Run, job: Job) -> Run:
    """A run of this machine that has not been measured yet, for the question whether the hardware is the same."""
    from edgewise.run.environment import fingerprint

    return replace(baseline, job=job, environment=fingerprint(), measurements=(), sessions=(), effective={})


def _variants(baseline: Run, candidate: Run) -> tuple[Variant, Variant]:
    return Variant(label=BASELINE, run=baseline), Variant(label=CANDIDATE, run=candidate)


def _findings_of(candidate: Run) -> Findings:
    return Findings(variants=(Variant(label=CANDIDATE, run=candidate),), comparisons=())


def _obstacles(baseline: Job, candidate: Job) -> list[str]:
    return check_jobs(baseline, candidate, labels=(BASELINE, CANDIDATE))


def _refuse_unfair(obstacles: Sequence[str]) -> None:
    if obstacles:
        raise BadInput(
            f"these can't be compared fairly: {'; '.join(obstacles)}",
            advice="a gate needs the same inputs, batch and scenario on both sides",
        )


def _refused(gate: Gate, baseline: Run, reason: str) -> Outcome:
    findings = Findings(variants=(Variant(label=BASELINE, run=baseline),), comparisons=(), notes=())
    return _outcome(gate, refuse(gate.requirements, reason, headline=baseline.headline), findings, attempts=0, notes=())


def _no_retry(gate: Gate, checks: Sequence[Check]) -> tuple[str, ...]:
    if gate.ways.policy == "retry" and any(check.verdict == "inconclusive" for check in checks):
        return ("nothing was measured again: stored runs are all there is; give model files to decide",)
    return ()


def _outcome(
    gate: Gate, checks: tuple[Check, ...], findings: Findings, *, attempts: int, notes: tuple[str, ...]
) -> Outcome:
    return Outcome(checks=checks, findings=findings, policy=gate.ways.policy, attempts=attempts, notes=tuple(notes))
