"""How a gate is carried out: what is measured, what is taken from the store, and when to measure again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.clock import now
from edgewise.comparing.assessment import assess, require_fair
from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.environments import same_hardware
from edgewise.comparing.fairness import check_fairness, check_jobs, differences_of_judging
from edgewise.comparing.gate import (
    BASELINE,
    CANDIDATE,
    MOST_ATTEMPTS,
    OF_BASELINE,
    Check,
    GateResult,
    Policy,
    is_settled,
    judge,
    refuse,
)
from edgewise.comparing.jobs import (
    JobSettings,
    Subject,
    find_model,
    make_job,
    make_job_like,
    refuse_unasked_environment,
)
from edgewise.comparing.metrics import is_same_run
from edgewise.comparing.requirement import Requirement, format_limit
from edgewise.comparing.session_values import OF_DATA, OF_LABELS
from edgewise.comparing.trial import TrialSettings, run_trial
from edgewise.errors import BadInput, as_flag
from edgewise.metrics import METRICS
from edgewise.record import ABOUT_DATA, Job, Measurement, Run
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.plan import NetworkFile, Plan
from edgewise.run.run_builder import METERED, Sensors, is_metered
from edgewise.run.variation import History
from edgewise.units import format_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate: its requirements and how it measures.

    Attributes:
        save: keeps a run.
        given: settings that were given; others are those of the baseline.
        policy: what becomes of inconclusive checks.
        time_budget_s: of the first measurement; under the policy ``retry`` each further one has twice as much.
        stored: compare with the baseline's stored samples even where its model is at hand.
        baseline_model: where the baseline's model file is, where the record does not know.
        seed: of the order of turns.
        history: the reference times of earlier runs on this machine; None reads those in the user's own store.
        holding: the device is held inside; entered once all that can be refused before measuring was.
        accuracies: label and job of what is measured → label and a run with its accuracy; None where that is not asked
            for.
    """

    requirements: tuple[Requirement, ...]
    save: Callable[[Run], None]
    given: JobSettings = field(default_factory=JobSettings)
    policy: Policy = "retry"
    time_budget_s: float = 60.0
    stored: bool = False
    baseline_model: Path | None = None
    seed: int = 0
    history: History | None = None
    holding: Callable[[], AbstractContextManager[None]] = nullcontext
    accuracies: Callable[[Mapping[str, Job]], Mapping[str, Run]] | None = None

    @property
    def criteria(self) -> Criteria:
        """The criteria of the comparison beside the checks: the headline's own limit is its margin.

        Forced, because what can't be compared fairly is refused here, in words of a gate.
        """
        limits = [one.limit for one in self.requirements if one.kind == "regression" and not one.metric]
        return Criteria(threshold=limits[0], force=True) if limits and limits[0] > 0.0 else Criteria(force=True)

    @property
    def times_nothing(self) -> bool:
        """Whether every requirement is about the answers on data, so that no time decides anything."""
        return self.accuracies is not None and all(one.metric in OF_DATA for one in self.requirements)

    @property
    def attempts(self) -> int:
        """How often may be measured."""
        return MOST_ATTEMPTS if self.policy == "retry" else 1

    @property
    def sensors(self) -> Sensors | None:
        """None reads all sensors; without a requirement on a metered metric none is read."""
        if any(one.metric and is_metered(one.metric) for one in self.requirements):
            return None
        return Sensors(absences=dict.fromkeys(METERED, "the gate read no meter, as none of its requirements needs one"))

    def settings_of(self, subject: Subject) -> JobSettings:
        """Return the settings of a subject that is a model: its own win over those given for both."""
        return replace(self.given, **subject.settings)

    def check(self, baseline: Run | None, candidate: Run, *, attempts: int = 1) -> tuple[Check, ...]:
        """Return the verdict on every requirement."""
        return judge(self.requirements, baseline, candidate, criteria=self.criteria, attempts=attempts)

    def result(
        self, checks: tuple[Check, ...], findings: ComparisonResult, *, attempts: int = 0, notes: Sequence[str] = ()
    ) -> GateResult:
        """Return the result; where stored runs leave a check open that measuring could settle, a note says so."""
        if not attempts and self.policy == "retry" and any(check.verdict == "inconclusive" for check in checks):
            notes = (
                *notes, "nothing was measured again, as only stored runs were given; give model files to settle it"
            )  # fmt: skip
        return GateResult(checks=checks, findings=findings, policy=self.policy, attempts=attempts, notes=tuple(notes))

    def refused(self, baseline: Run, reason: str) -> GateResult:
        """Return the result where nothing can be measured, for `reason`."""
        return self.result(refuse(self.requirements, reason, headline=baseline.headline), _alone(BASELINE, baseline))


class _Measured:
    """The runs of a gate as they are checked: with the accuracies that were measured apart from their times.

    Attributes:
        doubts: that the baseline scores otherwise than in its stored run, where that makes no check impossible.
    """

    def __init__(self, gate: Gate, jobs: Mapping[str, Job], *, stored: Run | None) -> None:
        self._accuracies = {} if gate.accuracies is None else gate.accuracies(jobs)
        self._wanted = [one.metric for one in gate.requirements if one.metric]
        doubt, refused = "", False
        if stored is not None and (judged := self._accuracies.get(BASELINE)) is not None:
            doubt, refused = _doubt_baseline(stored, judged, self._wanted)
        self.doubts = (f"caution: {doubt}",) if doubt and not refused else ()
        self._refusal = doubt if refused else ""

    def variant(self, label: str, run: Run) -> Variant:
        """`run` with the accuracy of its model, or with why there is none."""
        judged = self._accuracies.get(label)
        if judged is None:
            return Variant(label=label, run=run)
        had = {row.metric for row in run.measurements} | {"inference_time"}
        rows = [row for row in judged.measurements if row.metric not in had]
        if judged.failure is not None:
            lacking = [metric for metric in self._wanted if metric not in had and METRICS[metric].unit == "1"]
            rows += [Measurement.absent(metric, judged.failure.message) for metric in lacking]
        about = [each for each in judged.cautions if each.code in ABOUT_DATA]
        run = replace(
            run,
            measurements=(*run.measurements, *rows),
            evaluation=judged.evaluation,
            cautions=(*run.cautions, *about),
        )
        return Variant(label=label, run=run)

    def judged(self, label: str) -> Variant:
        """Return the run that judged a model on data."""
        return Variant(label=label, run=self._accuracies[label])

    def refuse(self, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """Return `checks`, those of accuracies unmeasured where the baseline was judged otherwise than in its
        stored run.
        """
        if not self._refusal:
            return checks
        return tuple(
            replace(check, verdict="unmeasured", because=self._refusal, ratio=None, ratio_low=None, ratio_high=None)
            if check.requirement.metric in OF_LABELS
            else check
            for check in checks
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """On which data the accuracies are, and in which runs they are stored."""
        found = {label: run for label, run in self._accuracies.items() if run.evaluation is not None}
        seen = [run.evaluation for run in found.values() if run.evaluation is not None]
        data = {f"{each.n} samples of {each.data.name} ({each.data.hashes()})" for each in seen}
        runs = ", ".join(f"{run.id} ({label})" for label, run in found.items())
        return (f"accuracy on {' and on '.join(sorted(data))}: run {runs}",) if data else ()


def _doubt_baseline(stored: Run, judged: Run, metrics: Sequence[str]) -> tuple[str, bool]:
    """Return that the baseline scores beyond the interval of its stored run on the same samples, and whether it was
    judged otherwise, so that its accuracy can't stand for the stored one; "" and False where it does not.
    """
    a, b = stored.evaluation, judged.evaluation
    if a is None or b is None or a.data.sha256 != b.data.sha256:
        return "", False
    for metric in metrics:
        was, now = stored.measurement(metric), judged.value(metric)
        if was is None or now is None or was.value is None or was.low is None or was.high is None:
            continue
        if metric in OF_LABELS and not was.low <= now <= was.high:
            row = METRICS[metric]
            differing = differences_of_judging(("stored", stored), ("now", judged))
            doubt = (
                f"{OF_BASELINE} has {format_limit(now, row)} now, and {format_limit(was.value, row)} in its stored run "
                f"{stored.id} on the same {b.n} samples"
            )
            return doubt + (f", judged otherwise: {'; '.join(differing)}" if differing else ""), bool(differing)
    return "", False


Measure = Callable[[int, _Measured], tuple[ComparisonResult, tuple[Check, ...]]]


def run_gate(gate: Gate, candidate: Subject, baseline: Subject | None) -> GateResult:
    """Measure what is needed and check every requirement.

    Args:
        baseline: None where no requirement needs one.

    Raises:
        BadInput: what can't be compared fairly, or a requirement without a baseline.
        Unavailable: a runtime that is not installed.
        KeyboardInterrupt: `edgewise.run.dispatch.Interrupted`, whose `runs` are those finished.
    """
    if baseline is None:
        if missing := [one.word for one in gate.requirements if one.needs_baseline]:
            raise BadInput(f"{', '.join(missing)} needs a baseline", advice="⟦baseline⟧ FILE, RUN, tag or MODEL")
        return _gate_alone(gate, candidate)
    match candidate.thing, baseline.thing:
        case Run() as after, Run() as before:
            return _gate_stored(gate, after, before)
        case Run(), _:
            raise BadInput(
                "a stored candidate can't be measured beside a baseline's model",
                advice="give the candidate's model file, or a stored run as the baseline",
            )
        case model, Run() as before:
            return _gate_against_run(gate, candidate, model, before, beside=baseline.file and baseline.file.parent)
        case model, other:
            first = make_job(other, gate.settings_of(baseline))
            second = make_job_like(model, first.job, gate.settings_of(candidate))
            return _gate_in_turns(gate, first.job, second.job, notes=(*first.notes, *second.notes))


def _gate_alone(gate: Gate, candidate: Subject) -> GateResult:
    """Budgets only."""
    if isinstance(candidate.thing, Run):
        return gate.result(gate.check(None, candidate.thing), _alone(CANDIDATE, candidate.thing))
    made = make_job(candidate.thing, gate.settings_of(candidate))

    def measure(attempt: int, measured: _Measured) -> tuple[ComparisonResult, tuple[Check, ...]]:
        if gate.times_nothing:
            run = measured.judged(CANDIDATE).run
        else:
            run = measured.variant(CANDIDATE, _measure_apart(gate, made.job, attempt=attempt)).run
        return _alone(CANDIDATE, run), gate.check(None, run, attempts=gate.attempts)

    return _repeat(gate, measure, {CANDIDATE: made.job}, notes=made.notes)


def _gate_stored(gate: Gate, candidate: Run, baseline: Run) -> GateResult:
    """Two runs that were measured before; nothing can be measured again."""
    variants = Variant(label=BASELINE, run=baseline), Variant(label=CANDIDATE, run=candidate)
    _require_fair(check_fairness(variants).obstacles)
    same, reasons = same_hardware(baseline, candidate)
    if not same and not is_same_run(baseline, candidate):
        what = "different hardware" if same is False else "hardware that their records do not describe"
        told = "; ".join(reasons) or "nothing is known of it"
        return gate.refused(baseline, f"baseline and candidate were measured on {what} ({told}). Measure both on one")
    return gate.result(gate.check(baseline, candidate), assess(variants, gate.criteria))


def _gate_against_run(
    gate: Gate, candidate: Subject, model: Path | NetworkFile, baseline: Run, *, beside: Path | None
) -> GateResult:
    """Return a model against a run: in turns with the baseline's model where it was found, else against stored
    samples.
    """
    if baseline.status != "done":
        why = f": {baseline.failure.cause}: {baseline.failure.message}" if baseline.failure is not None else ""
        return gate.refused(baseline, f"the baseline run {baseline.status}{why}; make a new baseline")
    given = gate.settings_of(candidate)
    refuse_unasked_environment(baseline.job, given)
    second = make_job_like(model, baseline.job, given)
    found = find_model(baseline, given=gate.baseline_model, beside=beside)
    if found.path is not None and not gate.stored:
        own = JobSettings(timeout_s=gate.given.timeout_s, input_data=gate.given.input_data, target=gate.given.target)
        first = make_job_like(found.path, baseline.job, own)
        then, now = baseline.job.runtime, first.job.runtime
        had = _stored_headline(baseline)
        notes = [f"{OF_BASELINE}'s model was measured again beside the candidate ({found.because}){had}"]
        if then.version and now.version and then.version != now.version and then.name == now.name:
            notes.append(f"both ran on {now.name} {now.version}; the baseline was recorded with {then.version}")
        return _gate_in_turns(gate, first.job, second.job, notes=(*notes, *first.notes, *second.notes), stored=baseline)
    same, reasons = same_hardware(baseline, _here(baseline, second.job))
    if not same:
        what = "other hardware" if same is False else "hardware that its record does not describe"
        return gate.refused(
            baseline,
            f"the baseline was measured on {what} ({'; '.join(reasons) or 'nothing is known of it'})"
            + ("" if gate.stored else f", and its model was not found: {found.because}")
            + f". Give its model with {as_flag('baseline_model')}, or make a baseline on this machine",
        )
    _require_alike(baseline.job, second.job)
    asked = f"because of {as_flag('stored')}" if gate.stored else f"its model was not found: {found.because}"
    notes = [f"{OF_BASELINE} is the stored run {baseline.id}, measured before and not beside the candidate ({asked})"]

    def measure(attempt: int, measured: _Measured) -> tuple[ComparisonResult, tuple[Check, ...]]:
        if gate.times_nothing:
            after = measured.judged(CANDIDATE)
        else:
            after = measured.variant(CANDIDATE, _measure_apart(gate, second.job, attempt=attempt))
        variants = Variant(label=BASELINE, run=baseline), after
        _require_fair(check_fairness(variants).obstacles)
        checks = gate.check(baseline, variants[1].run, attempts=gate.attempts)
        return assess(variants, gate.criteria), checks

    return _repeat(gate, measure, {CANDIDATE: second.job}, notes=(*notes, *second.notes))


def _stored_headline(run: Run) -> str:
    """``"; the stored run has latency 86.9 µs"``: what the new value stands for; "" where it has none."""
    value, row = run.value(run.headline), METRICS[run.headline]
    return "" if value is None else f"; its stored run has {row.label.lower()} {format_quantity(value, row.unit)}"


def _gate_in_turns(
    gate: Gate, baseline: Job, candidate: Job, *, notes: Sequence[str], stored: Run | None = None
) -> GateResult:
    _require_alike(baseline, candidate)

    def measure(attempt: int, measured: _Measured) -> tuple[ComparisonResult, tuple[Check, ...]]:
        def look(variants: Sequence[Variant]) -> tuple[Check, ...]:
            runs = {variant.label: variant.run for variant in variants}
            return measured.refuse(gate.check(runs[BASELINE], runs[CANDIDATE], attempts=gate.attempts))

        if gate.times_nothing:
            both = measured.judged(BASELINE), measured.judged(CANDIDATE)
            return assess(both, gate.criteria), look(both)
        findings = run_trial(
            (baseline, candidate),
            labels=(BASELINE, CANDIDATE),
            criteria=gate.criteria,
            trial=TrialSettings(budget_s=gate.time_budget_s * 2**attempt, seed=gate.seed + attempt),
            save=gate.save,
            sensors=gate.sensors,
            history=gate.history,
            settled=lambda variants: is_settled(look(variants)),
            variant=measured.variant,
        )
        if findings.interrupted:
            raise Interrupted([variant.run for variant in findings.variants])
        _require_fair(findings.obstacles)
        return findings, look(findings.variants)

    return _repeat(gate, measure, {BASELINE: baseline, CANDIDATE: candidate}, notes=notes, stored=stored)


def _repeat(
    gate: Gate, measure: Measure, jobs: Mapping[str, Job], *, notes: Sequence[str], stored: Run | None = None
) -> GateResult:
    """Judge accuracies once, then measure until it is decided, as often as the policy allows.

    The time is that of all attempts.

    Args:
        stored: the baseline's run, where its model is judged again.
    """
    elapsed_s = 0.0
    with gate.holding():
        measured = _Measured(gate, jobs, stored=stored)
        for attempt in range(gate.attempts):
            begin = now()
            findings, checks = measure(attempt, measured)
            elapsed_s += now() - begin
            if is_settled(checks) is not None or any(check.verdict == "unmeasured" for check in checks):
                break
    findings = replace(findings, elapsed_s=elapsed_s)
    result = gate.result(checks, findings, attempts=attempt + 1, notes=(*notes, *measured.notes))
    return replace(result, judging=measured.doubts)


def _measure_apart(gate: Gate, job: Job, *, attempt: int) -> Run:
    """Return the run of `job` alone; each further attempt has twice as many fresh processes."""
    stopping = job.workload.stopping
    longer = replace(stopping, sessions=stopping.sessions * 2**attempt)
    workload = replace(job.workload, stopping=longer, interleave=None, profile=False)
    dispatcher = Dispatcher(save=gate.save, sensors=gate.sensors, history=gate.history)
    plan = Plan(jobs=(replace(job, workload=workload),))
    return dispatcher.execute(plan, budget_s=gate.time_budget_s * 2**attempt)[0]


def _here(baseline: Run, job: Job) -> Run:
    """Return a run of the target that has not been measured yet, to check whether the hardware is the same."""
    from edgewise.run.facts import environment_at

    return replace(
        baseline, job=job, environment=environment_at(job.target), measurements=(), sessions=(), effective={}
    )


def _alone(label: str, run: Run) -> ComparisonResult:
    """Return the result where one side alone was measured."""
    return ComparisonResult(variants=(Variant(label=label, run=run),), comparisons=())


def _require_alike(baseline: Job, candidate: Job) -> None:
    _require_fair(check_jobs(baseline, candidate, labels=(BASELINE, CANDIDATE)))


def _require_fair(obstacles: Sequence[str]) -> None:
    require_fair(obstacles, advice="a gate needs the same inputs, batch and scenario on both sides")
