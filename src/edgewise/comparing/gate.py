"""Whether a candidate meets its requirements: every verdict is proven, or says that it is not.

A requirement *passes* where the 95 % interval of what is required lies inside the limit and *fails* where it is shown
to lie beyond. In between it is inconclusive, which is neither: an unchanged model must not fail because of noise, and
a slowdown must not pass because of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from edgewise.comparing.allowed_loss import PairedAnswers, check_loss
from edgewise.comparing.comparison import ComparisonResult, Side
from edgewise.comparing.criteria import FLOORS, Criteria
from edgewise.comparing.fairness import describe_unlike
from edgewise.comparing.metrics import SAME_RUN, contrast_of, is_same_run
from edgewise.comparing.requirement import Requirement, format_limit
from edgewise.comparing.session_values import OF_DATA, OF_LABELS, Evidence, are_paired, gather_evidence, why_unpaired
from edgewise.errors import ExitCode
from edgewise.formatting import with_range
from edgewise.metrics import METRICS, Metric, in_sentence
from edgewise.record import Run
from edgewise.stats.comparison import INTERVAL_FACTOR, LEVEL, Contrast, decide_limit
from edgewise.stats.distributions import t_quantile
from edgewise.units import format_quantity

CheckVerdict = Literal["pass", "fail", "inconclusive", "unmeasured"]
Policy = Literal["pass", "fail", "retry"]

BASELINE, CANDIDATE = "baseline", "candidate"
"""Labels of the two variants."""
NAMED = 4
"""Most checks that a conclusion names."""
OF_BASELINE = "the baseline"
"""Begin of the note that tells where the values of a stored baseline are from."""

_ORDER: tuple[CheckVerdict, ...] = ("fail", "unmeasured", "inconclusive", "pass")
_STATES: dict[CheckVerdict, str] = {
    "fail": "failed", "unmeasured": "not measured", "inconclusive": "inconclusive", "pass": "passed"
}  # fmt: skip
_VERDICTS: dict[str, CheckVerdict] = {"within": "pass", "beyond": "fail", "inconclusive": "inconclusive"}

MOST_ATTEMPTS = 3
"""Under the policy ``retry``: the first measurement and two more, each with twice the time of the one before."""

_ROUNDING = 1e-12
#: maxima over the elements of outputs that were compared: nothing about them varies from process to process
_COUNTED = frozenset({"output_max_abs_error", "output_max_rel_error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The verdict on one requirement.

    Attributes:
        requirement: with its metric resolved.
        before: the baseline's value in the metric's unit; None where there is none or none is needed.
        value: the candidate's.
        low, high: the interval of `value` that the verdict on a budget rests on.
        ratio, ratio_low, ratio_high: candidate over baseline with its 95 % interval, where a baseline is needed.
        because: what the verdict rests on, or why there is none.
        samples_needed_low, samples_needed_high: of points lost that are inconclusive: how many samples would decide;
            None where that can't be told.
    """

    requirement: Requirement
    verdict: CheckVerdict
    because: str
    before: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    samples_needed_low: int | None = None
    samples_needed_high: int | None = None

    @property
    def state(self) -> str:
        """The verdict in short, with its reason: ``latency failed: 3.56× as long, at least 3.41× (limit +3 %)``."""
        return self.say(_STATES[self.verdict])

    def say(self, word: str = "") -> str:
        """``latency met: 0.12 % worse, at most 0.31 % worse (limit +3 %)`` for "met"; ``latency: …`` without a word."""
        name = " ".join(filter(None, (in_sentence(METRICS[self.requirement.metric].label), word)))
        is_said = self.requirement.kind == "drop" and self.verdict == "inconclusive"  # by the reason
        reason = f": {self.because}" if self.because else ""
        return f"{name}{reason}{'' if is_said else self.requirement.limit_text}"

    def to_document(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        required = self.requirement
        own = asdict(self)
        del own["requirement"]
        return {
            "metric": required.metric,
            "kind": required.kind,
            "limit": required.limit,
            "requirement": required.text,
            "word": required.word,
            "unit": METRICS[required.metric].unit if required.metric else None,
            **own,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The result of a gate.

    Attributes:
        findings: the comparison that the checks rest on; without comparisons where there was no baseline to measure.
        policy: how an inconclusive check counts in the end.
        attempts: how many times was measured; 0 where stored runs were compared or nothing could be measured.
        notes: one-line statements about how it was done.
        judging: one-line statements about how the accuracies were judged, which the verdict can't be read without.
    """

    checks: tuple[Check, ...]
    findings: ComparisonResult
    policy: Policy
    attempts: int
    notes: tuple[str, ...] = ()
    judging: tuple[str, ...] = ()

    def count(self, verdict: CheckVerdict) -> int:
        """How many checks have this verdict."""
        return sum(check.verdict == verdict for check in self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the process: a failed check decides, then one that could not be measured, then the policy."""
        if self.count("fail"):
            return ExitCode.BUDGET_EXCEEDED
        if self.count("unmeasured"):
            return ExitCode.RUN_FAILED
        if self.count("inconclusive") and self.policy != "pass":
            return ExitCode.BUDGET_EXCEEDED
        return ExitCode.DONE

    @property
    def passed(self) -> bool:
        """Whether the gate is open."""
        return self.exit_code == ExitCode.DONE

    @property
    def conclusion(self) -> str:
        """One sentence."""
        count = len(self.checks)
        if self.count("fail"):
            return f"failed: {self._states()}"
        if self.count("unmeasured"):
            return f"not measured: {self._states()}"
        if open_ := self.count("inconclusive"):
            if self.policy == "pass":
                return f"passed WITHOUT PROOF: {_of(open_, count)} inconclusive, and inconclusive checks pass"
            return f"failed, as it could not be ruled out that a limit is exceeded: {self._states()}"
        told = "" if count > NAMED else f": {'; '.join(check.say() for check in self.checks)}"
        return f"passed: {'the requirement is' if count == 1 else f'all {count} requirements are'} met{told}"

    def _states(self) -> str:
        """Every check that is not met, the worst first, then those that are: ``latency failed: …; size met: …``."""
        worst = sorted(self.checks, key=lambda check: _ORDER.index(check.verdict))
        words = [check.state for check in worst if check.verdict != "pass"]
        rest = len(words) - NAMED
        met = [check.say("met") for check in worst if check.verdict == "pass"]
        met = met if len(met) <= NAMED else [f"{len(met)} met"]
        return "; ".join([*words[:NAMED], *([f"{rest} more"] if rest > 0 else []), *met])

    def to_document(self) -> dict[str, Any]:
        """Return the JSON document of ``edgewise gate``: that of ``compare``, with `passed` the gate's own, and
        the checks.
        """
        return {
            **self.findings.to_document(),
            "passed": self.passed,
            "checks": [check.to_document() for check in self.checks],
            "conclusion": self.conclusion,
            "policy": self.policy,
            "attempts": self.attempts,
            "exit_code": int(self.exit_code),
            "gate_notes": [*self.judging, *self.notes],
        }


def _of(part: int, whole: int) -> str:
    if whole == 1:
        return "the requirement is"
    return f"{part} of {whole} requirements {'is' if part == 1 else 'are'}"


def judge(
    requirements: Sequence[Requirement],
    baseline: Run | None,
    candidate: Run,
    *,
    criteria: Criteria | None = None,
    attempts: int = 1,
) -> tuple[Check, ...]:
    """Check every requirement.

    Args:
        baseline: None where no requirement needs one.
        criteria: for absolute differences that don't matter; a regression below one is none, whatever its share.
        attempts: how many times there may be measured until a verdict; the error rates are kept over all of them.

    Raises:
        BadInput: a regression limit that allows everything.
    """
    resolved = [one.resolve(candidate.headline) for one in requirements]
    chances = max(1, attempts)
    tests = chances * max(1, sum(one.kind == "regression" for one in resolved))
    checks = []
    for one in resolved:
        after = gather_evidence(candidate, one.metric, name=f"the {CANDIDATE}")
        check = Check(requirement=one, verdict="inconclusive", because="", value=after.side.value)
        if not one.needs_baseline:
            looks = 1.0 if candidate.job.workload.interleave is None else INTERVAL_FACTOR
            checks.append(_lacking(check, [after]) or _check_budget(check, after, chances=chances * looks))
        elif baseline is None:
            checks.append(replace(check, verdict="unmeasured", because="there is no baseline"))
        elif after.side.value is not None and is_same_run(baseline, candidate):
            checks.append(_check_itself(check))
        else:
            sides = (BASELINE, baseline), (CANDIDATE, candidate)
            before = gather_evidence(baseline, one.metric, name=f"the {BASELINE}")
            check = replace(check, before=before.side.value)
            if (found := _lacking(check, [before, after])) is not None:
                checks.append(found)
            elif one.metric in OF_LABELS and (unlike := describe_unlike(*sides, steps=True)):
                checks.append(replace(check, verdict="unmeasured", because=unlike))
            elif one.kind == "drop":
                checks.append(_check_drop(check, before, after))
            else:
                terms = criteria or Criteria()
                checks.append(_check_regression(check, baseline, candidate, criteria=terms, tests=tests))
    return tuple(checks)


def refuse(requirements: Sequence[Requirement], reason: str, *, headline: str) -> tuple[Check, ...]:
    """Every requirement as unmeasured, for `reason`."""
    return tuple(Check(requirement=one.resolve(headline), verdict="unmeasured", because=reason) for one in requirements)


def is_settled(checks: Sequence[Check]) -> str | None:
    """Why more measuring changes nothing; None where it may.

    A check failed, or none is inconclusive but those of an accuracy, whose interval is over samples of the data.
    """
    if any(check.verdict == "fail" for check in checks):
        return "a requirement is not met"
    open_ = [check.requirement.metric for check in checks if check.verdict == "inconclusive"]
    if any(metric not in OF_DATA for metric in open_):
        return None
    return "more measuring decides nothing about the accuracy" if open_ else "every requirement is decided"


def _check_itself(check: Check) -> Check:
    """Return a run against itself: nothing changed, so only a required improvement fails."""
    ratio = 1.0 if check.requirement.kind == "regression" else None
    verdict: CheckVerdict = "pass" if check.requirement.limit >= 0.0 else "fail"
    return replace(
        check,
        verdict=verdict,
        because=SAME_RUN,
        before=check.value,
        ratio=ratio,
        ratio_low=ratio,
        ratio_high=ratio,
    )


def _lacking(check: Check, sides: Sequence[Evidence]) -> Check | None:
    """Return the check where a side lacks the evidence for any verdict; None where all have enough."""
    lacking = [one for one in sides if _is_unusable(one, check.requirement)]
    if not lacking:
        return None
    reasons = dict.fromkeys(one.absent or "there is no value" for one in lacking)
    # Too few samples for a percentile is a matter of time; a metric that was never measured is not.
    may_come = all(one.sessions for one in lacking)
    return replace(check, verdict="inconclusive" if may_come else "unmeasured", because="; ".join(reasons))


def _is_unusable(evidence: Evidence, requirement: Requirement) -> bool:
    """No value, or samples that are none. A zero has no ratio but may well be inside a budget.

    A run whose speed changed has no value but times of its processes, which a baseline that took turns is held against.
    """
    if evidence.side.value is None:
        return requirement.kind != "regression" or not evidence.values
    return bool(evidence.absent) and (requirement.kind == "regression" or evidence.side.value > 0.0)


def _check_regression(check: Check, baseline: Run, candidate: Run, *, criteria: Criteria, tests: int) -> Check:
    """Candidate over baseline against 1 + limit; of a metric where more is better, the inverse."""
    requirement = check.requirement
    row = METRICS[requirement.metric]
    found = contrast_of(baseline, candidate, row.id, names=(f"the {BASELINE}", f"the {CANDIDATE}"))
    before, after, contrast = found.before, found.after, found.contrast
    check = replace(check, before=before.value, value=after.value, low=after.low, high=after.high)
    if contrast is None:
        # Both sides have a value, so that more processes may bring what is missing.
        return replace(check, because=found.because)
    low, high = contrast.interval() or (None, None)
    limit, allowance = _allowance(requirement, before.value, row, criteria=criteria)
    worse = contrast if row.better == "lower" else contrast.inverse()
    # A size that is exactly at the limit is within it, whatever its logarithm rounds to.
    decision = decide_limit(worse, limit=limit + (_ROUNDING if worse.error == 0.0 else 0.0), tests=tests)
    verdict = _VERDICTS[decision]
    because = _explain_limit(worse, verdict, limit=limit, tests=tests, unit=row.unit) + allowance
    return replace(check, verdict=verdict, because=because, ratio=contrast.ratio, ratio_low=low, ratio_high=high)


def _allowance(requirement: Requirement, before: float | None, row: Metric, *, criteria: Criteria) -> tuple[float, str]:
    """Return the limit on worse over better, at least the absolute difference that doesn't matter, and a text about it.

    "3 % worse" is 3 % more of what should be small and 3 % less of what should be large.
    """
    limit = requirement.limit if row.better == "lower" else 1.0 / (1.0 - requirement.limit) - 1.0
    floor = criteria.floors.get(row.id, FLOORS.get(row.id, 0.0))
    if requirement.limit < 0.0 or not before or floor / before <= limit:
        return limit, ""
    return floor / before, f"; {format_quantity(floor, row.unit)} is allowed, as smaller differences do not matter"


def _explain_limit(worse: Contrast, verdict: CheckVerdict, *, limit: float, tests: int, unit: str) -> str:
    """Return what the verdict on a regression rests on."""
    if worse.doubt:
        return worse.doubt
    held = worse.held_interval((1.0 - LEVEL) / tests)
    if held is None:
        return "how far processes of one model differ is not known"
    if worse.error == 0.0:
        return _change(worse.log_ratio, unit)
    # The interval that is quoted is that of one look at one metric.
    which = " by the wider interval that decides" if worse.sequential or tests > 1 else ""
    if verdict == "fail":
        return f"{_change(worse.log_ratio, unit)}, {_bound(held[0], math.floor, unit)}{which}"
    if verdict == "pass":
        return f"{_change(worse.log_ratio, unit)}, {_bound(held[1], math.ceil, unit)}{which}"
    return (
        f"more than {_change(math.log1p(limit), unit)} could not be ruled out: it is between "
        f"{_change(held[0], unit, math.floor)} and {_change(held[1], unit, math.ceil)}"
    )


def _bound(log_ratio: float, rounding: Callable[[float], int], unit: str) -> str:
    """``at most 2.1 % worse``, from an end of the interval of worse over better."""
    end = "at most" if (rounding is math.ceil) == (log_ratio >= 0.0) else "at least"
    return f"{end} {_change(log_ratio, unit, rounding)}"


_TIMES_AS: dict[str, str] = {"s": "as long", "B": "as large", "1/s": "slower"}
"""Unit → what a multiple of the worse value means; of others ``as much``."""


def _change(log_ratio: float, unit: str, rounding: Callable[[float], int] = round) -> str:
    """``2.1 % worse`` or ``3.56× as long``, from the logarithm of worse over better, at three digits or 0.01 %."""
    share = math.expm1(log_ratio) * 100.0
    many = share >= 100.0
    number = math.exp(log_ratio) if many else share
    places = max(0, 2 - math.floor(math.log10(abs(number)))) if abs(number) >= 1.0 else 2
    shown = rounding(number * 10.0**places) / 10.0**places
    if many:
        return f"{shown:.{places}f}× {_TIMES_AS.get(unit, 'as much')}"
    if shown == 0.0:
        return "no worse"
    return f"{abs(shown):.{places}f} % {'worse' if shown > 0.0 else 'better'}"


def _check_budget(check: Check, evidence: Evidence, *, chances: float) -> Check:
    """Return the candidate's own value and interval against the limit.

    Args:
        chances: to be fooled: what the error risk is divided by, for looks and for attempts.
    """
    row, limit, value = METRICS[check.requirement.metric], check.requirement.limit, evidence.side.value
    assert value is not None
    shown = format_limit(limit, row)
    if evidence.exact or row.id in _COUNTED:
        met = value >= limit if row.better == "higher" else value <= limit
        because = f"{format_limit(value, row)} is exact, the limit {shown}"
        return replace(check, verdict="pass" if met else "fail", because=because)
    ends = _held_interval(evidence.side, chances=chances)
    if ends is None:
        return replace(check, because=f"without an interval the value alone does not show whether {shown} is kept")
    low, high = ends
    inside, outside = (low >= limit, high < limit) if row.better == "higher" else (high <= limit, low > limit)
    verdict: CheckVerdict = "pass" if inside else "fail" if outside else "inconclusive"
    words = "contains" if verdict == "inconclusive" else "is clear of"
    because = f"{with_range(row.id, row.unit, value, low, high)}, 95 % interval, {words} {shown}"
    if len(evidence.values) == 1:
        because += "; it is that of one process and leaves out how far processes differ"
    return replace(check, verdict=verdict, because=because, low=low, high=high)


def _held_interval(side: Side, *, chances: float) -> tuple[float, float] | None:
    """Return the value's interval; where measuring goes on until it decides, one that holds over all looks and
    attempts.

    Student's quantile at 5 % over `chances` relative to that at 5 %, on the logarithms, as for ratios.
    """
    if side.value is None or side.low is None or side.high is None:
        return None
    if chances <= 1.0 or side.replicates < 2 or not 0.0 < side.low <= side.high:
        return side.low, side.high
    risk, degrees = (1.0 - LEVEL) / 2.0, float(side.replicates - 1)
    wider = t_quantile(1.0 - risk / chances, degrees) / t_quantile(1.0 - risk, degrees)
    return side.value * (side.low / side.value) ** wider, side.value * (side.high / side.value) ** wider


def _check_drop(check: Check, old: Evidence, new: Evidence) -> Check:
    """Points lost against the baseline: by the samples whose outcome changed, where both answered the same ones.

    Without the outcomes, the two 95 % intervals in quadrature, as those of a difference.
    """
    before, after = old.side, new.side
    assert before.value is not None and after.value is not None
    lost, metric, limit = before.value - after.value, check.requirement.metric, check.requirement.limit
    if are_paired(old, new):
        answers = PairedAnswers.of(old.outcomes, new.outcomes)
        found = check_loss(lost, *answers.loss_interval(), limit=limit, metric=metric, answers=answers)
    elif before.low is None or before.high is None or after.low is None or after.high is None:
        return replace(check, because=check_loss(lost, None, None, limit=limit, metric=metric).because)
    else:
        low = lost - math.hypot(before.value - before.low, after.high - after.value)
        high = lost + math.hypot(before.high - before.value, after.value - after.low)
        aside = f" ({why})" if (why := why_unpaired(old, new)) else ""
        found = check_loss(lost, low, high, limit=limit, metric=metric, aside=aside)
    return replace(
        check,
        verdict=_VERDICTS[found.verdict],
        because=found.because,
        low=after.low,
        high=after.high,
        samples_needed_low=found.samples_needed_low,
        samples_needed_high=found.samples_needed_high,
    )
