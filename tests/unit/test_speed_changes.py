"""A part of `benchmarks/speed_changes.py`: a throttle is named, and noise of many kinds is not. Seeded, so exact."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from edgewise.run.generated import stretches

PATH = Path(__file__).parents[2] / "benchmarks" / "speed_changes.py"


@pytest.fixture(scope="module")
def bench():
    if not PATH.exists():
        pytest.skip("benchmarks/speed_changes.py is not part of this distribution")
    spec = importlib.util.spec_from_file_location("benchmark_speed_changes", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    yield spec.loader.exec_module(module) or module
    del sys.modules[spec.name]


def test_a_quota_pauses_tokens_and_leaves_the_others(bench):
    """Tokens of 20 ms, of which half of a processor computes 2.5 in each 0.1 s: the mean gap doubles, not the median."""
    gaps = bench.quota(np.random.default_rng(1), 0.02, 186, 372, noise=0.0)
    assert gaps[:186] == pytest.approx(0.02)
    assert sorted(set(np.round(gaps[187:] * 1e3))) == [20, 70]
    assert gaps[186:].mean() == pytest.approx(0.04, rel=0.05)
    assert np.median(gaps[186:]) == pytest.approx(0.02)


def test_both_speeds_of_a_quota_are_means(bench):
    gaps = bench.quota(np.random.default_rng(2), 0.02, 186, 372)
    fast, slow = stretches([bench.session(gaps)])
    assert 1 / fast.gap_s == pytest.approx(50, rel=0.03)
    assert 1 / slow.gap_s == pytest.approx(25, rel=0.05)
    assert slow.begin_s == pytest.approx(186 * 0.02 + 6 * bench.PROMPT_S, abs=0.25)


def test_every_kind_of_throttle_is_named(bench):
    """But one of 1.1×, which is no other state of the machine."""
    generator = np.random.default_rng(3)
    for _ in range(5):
        assert [name for name, gaps in bench.throttled(generator) if not bench.is_named(gaps)] == ["each 1.1×"]


def test_three_requests_are_enough(bench):
    generator = np.random.default_rng(5)
    for _ in range(10):
        assert bench.is_named(bench.quota(generator, 0.05, 45, 93, requests=3))


def test_steady_gaps_are_no_change(bench):
    for name, draw in bench.STEADY.items():
        generator = np.random.default_rng(4)
        assert sum(bench.is_named(draw(generator, 12 * bench.TOKENS)) for _ in range(20)) == 0, name
