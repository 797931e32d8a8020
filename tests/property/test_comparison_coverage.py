"""A part of `benchmarks/decisions.py`: how often verdicts are wrong and intervals hold. Seeded, so exact.

Every bound is the promised share with four binomial standard errors of so many trials.
"""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from edgewise.stats.comparison import INTERVAL_FACTOR, LOOKS, RISK, RISK_FACTOR, STOPPED_LEVEL, risk_over_looks

FOLDER = Path(__file__).parents[2] / "benchmarks"
TRIALS = 2000


def slack(share: float, trials: int) -> float:
    """Four standard errors of a share."""
    return 4.0 * math.sqrt(share * (1.0 - share) / trials)


@pytest.fixture(scope="module", autouse=True)
def _path():
    if not (FOLDER / "decisions.py").exists():
        pytest.skip("benchmarks/ is not part of this distribution")
    sys.path.append(str(FOLDER))  # last: it has a coverage.py
    yield
    sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def rule():
    return importlib.import_module("stopping_rule")


@pytest.fixture(scope="module")
def decisions():
    return importlib.import_module("decisions")


@pytest.fixture(scope="module")
def noise():
    return importlib.import_module("noise")


def draw(rule, name, pairs=LOOKS[-1], trials=TRIALS, seed=3):
    return rule.PAIR_NOISE[name](np.random.default_rng(seed), (trials, pairs))


@pytest.mark.parametrize("shift", [0.0, math.log(1.02), math.log(1.1)])
def test_the_fast_rule_is_the_product_s(rule, shift):
    for name in rule.PAIR_NOISE:
        assert rule.disagreements(shift + 0.03 * draw(rule, name, pairs=35, trials=25), tests=2) == 0


@pytest.mark.parametrize(("risk", "used"), [(RISK, RISK_FACTOR), (0.05, INTERVAL_FACTOR)])
def test_the_divisors_of_risks_are_found_again(rule, risk, used):
    trials = 200_000
    found = rule.factor_for(risk, trials=trials, seed=5)
    # What is divided by too little makes errors; too much costs time. The share's own error is 1/√(risk · trials).
    error = 4.0 / math.sqrt(risk * trials)
    assert found * (1.0 - error) <= used <= found * (1.0 + error) * 1.1


@pytest.mark.parametrize("scatter", [0.005, 0.02, 0.04, 0.08])
@pytest.mark.parametrize("name", ["normal", "heavy (t, 3 degrees)", "two modes on each side", "rare modes (10 %)"])
def test_equal_sides_are_told_apart_in_one_of_a_hundred_at_most(rule, name, scatter):
    trials = 10_000
    judged = rule.judge(scatter * draw(rule, name, trials=trials))
    assert judged.share(-1, 1) <= RISK + slack(RISK, trials)


@pytest.mark.parametrize("scatter", [0.005, 0.02, 0.04, 0.3])
@pytest.mark.parametrize("name", ["normal", "heavy (t, 3 degrees)", "two modes on each side"])
def test_the_p_value_after_stopping_is_as_rare_as_it_says(rule, name, scatter):
    """Of equal sides; it leaves 1 out of the quoted interval exactly where it is below 5 %."""
    trials = 10_000
    judged = rule.judge(scatter * draw(rule, name, trials=trials))
    for at_a_look in (RISK / RISK_FACTOR, 0.005, 1.0 - STOPPED_LEVEL, 0.1, 0.3):
        p_value = risk_over_looks(at_a_look)
        assert 1.0 - judged.covered(0.0, 1.0 - at_a_look) <= p_value + slack(p_value, trials)


def test_a_place_that_matters_does_no_harm_where_orders_are_balanced(rule):
    judged = rule.judge(0.05 * draw(rule, "places, balanced", trials=10_000))
    assert judged.share(-1, 1) <= RISK


def test_a_difference_at_the_margin_is_hardly_ever_called_the_same(rule):
    for scatter in (0.005, 0.02, 0.04):
        judged = rule.judge(math.log(1.0 + rule.MARGIN) + scatter * draw(rule, "normal", trials=10_000))
        assert judged.share(0) <= 0.025 + slack(0.025, 10_000)
        assert judged.share(-1) <= RISK / 2


@pytest.mark.parametrize("ratio", [1.0, 1.01, 1.03, 1.05, 1.1])
@pytest.mark.parametrize("scatter", [0.005, 0.01, 0.02])
def test_intervals_hold_after_stopping(rule, ratio, scatter):
    truth = math.log(ratio)
    judged = rule.judge(truth + scatter * draw(rule, "normal", trials=10_000))
    held = judged.covered(truth, STOPPED_LEVEL)
    assert 0.93 - slack(0.93, 10_000) <= held <= 0.97 + slack(0.97, 10_000)


@pytest.mark.parametrize(
    "families",
    [
        pytest.param(("log-normal 10 %", "drifting"), marks=pytest.mark.long),
        pytest.param(("normal 2 %", "heavy tail"), marks=pytest.mark.long),
    ],
)
def test_intervals_of_the_ratio_hold_over_a_grid(decisions, noise, families):
    trials = 200
    known = {family.name: family for family in noise.FAMILIES}
    low, high = 0.93 - slack(0.93, trials), 0.97 + slack(0.97, trials)
    seen = 0
    for samples in families:
        family = known[samples]
        for _, processes, shares in decisions.coverage_cells(trials, 7, [family]):
            for design, share in shares.items():
                if not (design.startswith("apart") and family.slow):
                    assert low <= share <= high, (samples, processes, design, share)
                    seen += 1
    assert seen == 4 * sum(5 if known[samples].slow else 7 for samples in families)


@pytest.mark.parametrize(
    ("samples", "processes", "false", "caught"),
    [
        ("normal 2 %", "normal 1 %", 0.01, (0.95, 0.999)),
        ("drifting", "normal 1 %", 0.01, (0.95, 0.999)),
        ("bursts", "none", 0.02, (0.0, 0.95)),  # under bursts only the false alarms are promised
    ],
)
def test_errors_keep_their_rates_on_made_up_noise(decisions, noise, samples, processes, false, caught):
    trials = 200
    family = {family.name: family for family in noise.FAMILIES}[samples]
    same, three, ten = decisions.error_rates(family, processes, trials=trials, seed=11)
    assert same.trials == three.trials == ten.trials == trials
    assert same.counts["edgewise"] <= trials * (false + slack(false, trials))
    for tally, share in zip((three, ten), caught, strict=True):
        assert tally.counts["edgewise"] >= trials * (share - slack(share, trials))


def test_a_t_test_on_the_samples_of_one_process_cries_wolf(decisions, noise):
    """What this is for: processes of one model differ, and their samples don't show it."""
    family = {family.name: family for family in noise.FAMILIES}["normal 2 %"]
    same, _, _ = decisions.error_rates(family, "normal 1 %", trials=200, seed=13)
    assert same.counts["Welch's t, one process"] > 0.5 * same.trials
    assert same.counts["edgewise"] <= 0.01 * same.trials
