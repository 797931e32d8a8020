"""The interval and the p-value of a comparison are one statistic: 1 is left out exactly where p is below 5 %."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comparable_runs import compare, row_of, run_of
from edgewise.metrics import METRICS
from edgewise.record import DataRef, Evaluation, Measurement, Run
from edgewise.stats.comparison import LEVEL, Contrast
from edgewise.stats.proportions import wilson_interval

LATENCY = ("latency", "latency_p99", "latency_mean", "throughput")
METRICS_HERE = (*LATENCY, "memory_peak", "energy", "accuracy_top1")
EDGE = 1e-9
"""What is so near to a border can be on either side of it, by rounding."""


def agree(p_value: float, low: float, high: float) -> bool:
    """Whether test and interval say the same of a ratio of 1."""
    at_border = min(abs(low - 1.0), abs(high - 1.0), abs(p_value - (1.0 - LEVEL))) < EDGE
    return at_border or (p_value < 1.0 - LEVEL) == (not low <= 1.0 <= high)


def answers(outcomes: np.ndarray) -> Measurement:
    """An accuracy with the outcome of each sample."""
    low, high = wilson_interval(int(outcomes.sum()), len(outcomes))
    row = row_of("accuracy_top1", [outcomes.tolist()], value=float(outcomes.mean()))
    return replace(row, low=low, high=high, session_lengths=())


def sample_run(source: np.random.Generator, *, number: int, processes: int, factor: float, **settings: str) -> Run:
    """A run of all metrics; B is `factor` times A, give or take how processes differ."""
    level = factor * np.exp(source.choice([0.002, 0.02, 0.2]) * source.standard_normal((processes, 3)))
    times = 1e-3 * level[:, :1] * np.exp(0.1 * source.standard_normal((processes, 1100)))
    memory, energy = (scale * level[:, [at]] for at, scale in ((1, 1e6), (2, 1e-3)))
    outcomes = (source.random(200) < min(0.95, 0.7 * factor)).astype(float)
    rows = [row_of(metric, part.tolist()) for metric, part in
            (("latency", times), ("memory_peak", memory), ("energy", energy))]  # fmt: skip
    rate = 1.0 / times.mean()
    row = replace(row_of("throughput", [[rate]]), samples=(), session_lengths=(), low=rate * 0.98, high=rate * 1.03)
    run = run_of(*rows, row, answers(outcomes), number=number, processes=processes, **settings)
    data = DataRef(name="d", path=None, format="npz", split="test", size=200, sha256="a" * 64)
    return replace(run, evaluation=Evaluation(task="classification", data=data, n=200))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    processes=st.sampled_from([(3, 3), (5, 5), (12, 12), (5, 8), (1, 5)]),
    factor=st.sampled_from([1.0, 1.005, 1.03, 1.2]),
    ways=st.sampled_from([("turns", "one"), ("duet", "one"), ("", "two"), ("", "one")]),
)
def test_the_interval_of_every_metric_leaves_out_1_exactly_where_p_is_small(seed, processes, factor, ways):
    source = np.random.default_rng(seed)
    runs = [
        sample_run(source, number=n, processes=count, factor=factor if n == 2 else 1.0, interleave=ways[0] or None,
                   group=ways[1] if ways[1] == "one" else f"g{n}")
        for n, count in enumerate(processes, start=1)
    ]  # fmt: skip
    rows = compare(*runs, metrics=METRICS_HERE)
    assert [row.metric for row in rows] == list(METRICS_HERE) and set(METRICS_HERE) <= set(METRICS)
    tested = [row for row in rows if row.p_value is not None]
    expected = {"accuracy_top1"} | ({"latency", "latency_p99"} if min(processes) > 2 else set())
    assert expected <= {row.metric for row in tested}
    for row in tested:
        assert agree(row.p_value, row.low, row.high), row


@pytest.mark.parametrize("sequential", [False, True])
@given(
    log_ratio=st.floats(-3.0, 3.0), error=st.floats(1e-4, 2.0), degrees=st.sampled_from([1.0, 2.0, 4.5, 89.0, math.inf])
)
def test_the_two_agree_of_any_contrast(sequential, log_ratio, error, degrees):
    found = Contrast(
        log_ratio=log_ratio, error=error, degrees=degrees, replicates=3, method="given", sequential=sequential
    )
    assert agree(found.p_value, *found.interval())
    assert agree(found.inverse().p_value, *found.inverse().interval())
