"""The stopping rule: when a session ends, and why."""

from dataclasses import asdict

import numpy as np
import pytest

from edgewise.record import Stopping
from edgewise.run import stopping
from edgewise.run.stopping import StoppingRule
from messages import wording


def rule(**settings):
    return StoppingRule(asdict(Stopping(**settings)))


def not_needed():
    raise AssertionError("the rule must not look at samples")


def test_iterations_count_and_nothing_else():
    assert rule(iterations=1000).reason(999, 1e9, not_needed) is None
    assert rule(iterations=1000).reason(1000, 0.0, not_needed) == "1000 iterations"


def test_duration_is_time_and_nothing_else():
    assert rule(duration_s=5.0).reason(10**9, 4.999, not_needed) is None
    assert rule(duration_s=5.0).reason(1, 5.0, not_needed) == wording("s-measuring", elapsed=5)


def test_precision_waits_for_samples_and_time():
    steady = rule(relative_half_width=0.01, min_s=0.25, max_s=100.0)
    assert steady.reason(9, 1.0, not_needed) is None
    assert steady.reason(100, 0.2, not_needed) is None
    assert steady.reason(100, 0.25, lambda: np.full(100, 1e-3)) == wording("median-known", stopping="0.01")


def test_precision_goes_on_while_the_median_is_uncertain():
    wild = np.random.default_rng(1).lognormal(0, 1, 30)
    assert rule(min_s=0.0, max_s=100.0).reason(30, 10.0, lambda: wild) is None


def test_stable_noise_needs_a_full_window_that_is_flat(monkeypatch):
    monkeypatch.setattr(stopping, "NOISE_WINDOW", 3)
    monkeypatch.setattr(stopping, "relative_half_width", lambda width: width)
    noisy = rule(min_s=0.1, max_s=100.0)
    assert noisy.reason(100, 1.0, lambda: 0.20) is None
    assert noisy.reason(100, 1.0, lambda: 0.10) is None
    assert noisy.reason(100, 1.0, lambda: 0.101) is None  # the window still holds 0.20
    assert noisy.reason(100, 1.0, lambda: 0.099) == wording("noise-stable", mean="0.1")


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
def test_the_time_budget_is_patient_with_slow_models(count, elapsed, reason):
    wild = np.random.default_rng(1).lognormal(0, 1, 30)
    assert rule(max_s=0.5).reason(count, elapsed, lambda: wild) == reason


def test_precision_comes_before_the_time_budget():
    assert rule(max_s=0.5).reason(10, 0.6, lambda: np.full(10, 1e-3)) == wording("median-known", stopping="0.01")
