"""Stopping rules: each says when and why, and the first reason wins."""

from dataclasses import asdict

import numpy as np
import pytest

from edgewise.record import Stopping
from edgewise.run.stopping import (
    Duration,
    Iterations,
    Precision,
    Progress,
    StableNoise,
    TimeBudget,
    first_reason,
    rules_for,
)


def progress(count, elapsed_s, samples=None):
    def get():
        assert samples is not None, "this rule must not look at samples"
        return samples

    return Progress(count, elapsed_s, get)


def test_iterations_count_and_nothing_else():
    rule = Iterations(1000)
    assert rule.finished(progress(999, 1e9)) is None
    assert rule.finished(progress(1000, 0.0)) == "1000 iterations"


def test_duration_is_time_and_nothing_else():
    rule = Duration(5.0)
    assert rule.finished(progress(10**9, 4.999)) is None
    assert rule.finished(progress(1, 5.0)) == "5 s of measuring"


def test_precision_waits_for_samples_and_time():
    constant = np.full(100, 1e-3)
    rule = Precision(0.01, min_s=0.25)
    assert rule.finished(progress(9, 1.0)) is None
    assert rule.finished(progress(100, 0.2)) is None
    assert rule.finished(progress(100, 0.25, constant)) == "the median is known to ± 0.01"


def test_precision_goes_on_while_the_median_is_uncertain():
    wild = np.random.default_rng(1).lognormal(0, 1, 30)
    assert Precision(0.01, min_s=0.0).finished(progress(30, 10.0, wild)) is None


class _Widths(Progress):
    """Progress whose half-width is given."""

    def __init__(self, width):
        super().__init__(100, 1.0, lambda: None)
        self._half_width = width


def test_stable_noise_needs_a_full_window_that_is_flat():
    rule = StableNoise(min_s=0.1, window=3, tolerance=0.05)
    assert rule.finished(_Widths(0.20)) is None
    assert rule.finished(_Widths(0.10)) is None
    assert rule.finished(_Widths(0.101)) is None  # the window still holds 0.20
    assert rule.finished(_Widths(0.099)) == "the noise is stable at ± 0.1"


@pytest.mark.parametrize(
    ("count", "elapsed", "reason"),
    [
        (1000, 0.49, None),
        (1000, 0.5, "time budget"),
        (9, 0.5, None),  # a slow model gets ten inferences …
        (10, 0.6, "time budget"),
        (9, 5.0, "time budget"),  # … unless they take ten budgets …
        (2, 50.0, None),  # … and always three
        (3, 50.0, "time budget"),
    ],
)
def test_time_budget_is_patient_with_slow_models(count, elapsed, reason):
    assert TimeBudget(0.5).finished(progress(count, elapsed)) == reason


def test_prescriptions_leave_no_other_rule():
    assert rules_for(asdict(Stopping(iterations=7))) == (Iterations(7),)
    assert rules_for(asdict(Stopping(duration_s=2.0))) == (Duration(2.0),)
    assert [type(rule) for rule in rules_for(asdict(Stopping()))] == [Precision, StableNoise, TimeBudget]


def test_first_reason_wins_but_every_rule_is_asked():
    asked = []

    class Rule:
        def __init__(self, name, reason):
            self.name, self.reason = name, reason

        def finished(self, _):
            asked.append(self.name)
            return self.reason

    rules = [Rule("a", None), Rule("b", "second"), Rule("c", "third")]
    assert first_reason(rules, progress(1, 1.0)) == "second"
    assert asked == ["a", "b", "c"]
