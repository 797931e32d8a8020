"""The sentences of comparisons: no rounding that flatters, no verdict that the row does not hold."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.comparing.comparison import Side
from edgewise.formatting import ends_text, percent, ratio_text, time_text
from edgewise.report.comparison.words import conclusion, factor_of, verdict_text
from sample_comparisons import (
    latency_row,
    row,
)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (0.412, 0.405, 0.419, "0.412 (0.405 to 0.419)"),
        (1.0, 0.9991, 1.0012, "1.000 (0.999 to 1.002)"),
        (1.00012, 0.99987, 1.00037, "1.0001 (0.9998 to 1.0004)"),
        (0.25, 0.25, 0.25, "0.250"),
        (1.0000927, 1.0000927, 1.0000927, "1.000093"),
        (1.9167, 1.9102, 1.9231, "1.917 (1.910 to 1.924)"),
        (12.34, 11.98, 12.71, "12.3 (11.9 to 12.8)"),
        (0.01234, 0.012, 0.0128, "0.0123 (0.0120 to 0.0128)"),
        (1.2, None, None, "1.200"),
        (2.5e8, 2.41e8, 2.6123e8, "2.50e+08 (2.41e+8 to 2.62e+8)"),
        (None, None, None, "n/a"),
        (1.0, 1.0 - 1e-9, 1.0 + 1e-9, "1.000000 (0.999999 to 1.000001)"),
    ],
)
def test_ratios(ratio, low, high, text):
    assert ratio_text(ratio, low, high) == text


@given(
    st.floats(1e-5, 1e5), st.floats(0.0, 3.0), st.floats(0.0, 3.0)
)  # fmt: skip
def test_a_printed_interval_holds_the_interval(ratio, below, above):
    low, high = ratio * math.exp(-below), ratio * math.exp(above)
    text = ratio_text(ratio, low, high)
    if low == high:
        return
    ends = text.partition("(")[2].rstrip(")").split(" to ")
    assert Decimal(ends[0]) <= Decimal(repr(low)) and Decimal(repr(high)) <= Decimal(ends[1])
    assert float(ends[0]) <= float(text.partition(" (")[0]) <= float(ends[1])


def test_ends_of_binary_fractions_stay_what_they_are():
    assert ends_text(0.405, 0.419, 3) == ("0.405", "0.419")
    assert ends_text(0.4051, 0.4189, 3) == ("0.405", "0.419")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, "B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419)"),
        ({"verdict": "slower", "ratio": 1.0312, "low": 1.0201, "high": 1.0421, "after": Side(value=4.341e-4)},
         "B is 1.03× slower than A (ratio 1.031, 95 % interval 1.020 to 1.043)"),
        ({"verdict": "same", "ratio": 1.002, "low": 0.991, "high": 1.013},
         "B is as fast as A (within ± 3 %, ratio 1.002, 95 % interval 0.991 to 1.013)"),
        ({"verdict": "inconclusive", "ratio": 1.02, "low": 0.97, "high": 1.08, "decides_in_s": 39.2},
         "No verdict yet on B against A in latency (ratio 1.020, 95 % interval 0.970 to 1.080, ≈ 40 s more "
         "would decide)"),
        ({"verdict": "inconclusive", "ratio": None, "because": "one process only"},
         "No verdict on B against A in latency (one process only)"),
        ({"verdict": "inconclusive", "ratio": 1.02, "low": 0.24, "high": 4.43, "because": "B has grade D"},
         "No verdict on B against A in latency (ratio 1.020, 95 % interval 0.240 to 4.430)"),
        # An interval without 1 looks like a verdict: what is probable is said, and why it is not proven in the table.
        ({"verdict": "inconclusive", "ratio": 1.4, "low": 1.081, "high": 1.943, "because": "adjusted p 0.07",
          "p_adjusted": 0.07},
         "B is probably 1.40× slower than A, which is not proven"),
        ({"verdict": "inconclusive", "ratio": 1.4, "low": 1.081, "high": 1.943, "p_adjusted": 0.07,
          "decides_in_s": 11.0, "rerun_low": 0.9, "rerun_high": 2.1},
         "B is probably 1.40× slower than A, which is not proven (in these minutes, at another time 0.900 to 2.100, "
         "≈ 11 s more would decide)"),
        ({"metric": "throughput", "verdict": "inconclusive", "ratio": 1.4, "low": 1.081, "high": 1.943,
          "p_adjusted": 0.07},
         "B is probably 1.40× faster than A in throughput, which is not proven"),
        ({"metric": "energy", "verdict": "inconclusive", "ratio": 0.5, "low": 0.4, "high": 0.9, "p_adjusted": 0.07},
         "B probably needs 2.00× less energy than A, which is not proven"),
        # Where something else speaks against the interval, nothing is probable.
        ({"verdict": "inconclusive", "ratio": 1.4, "low": 1.081, "high": 1.943, "because": "B has grade D",
          "p_value": None, "p_adjusted": None},
         "No verdict on B against A in latency (ratio 1.400, 95 % interval 1.081 to 1.943, B has grade D)"),
        ({"metric": "energy", "ratio": 0.5, "low": 0.4, "high": 0.6},
         "B needs 2.00× less energy than A (ratio 0.500, 95 % interval 0.400 to 0.600)"),
        ({"metric": "model_size", "ratio": 0.25, "low": 0.25, "high": 0.25},
         "B is 4.00× smaller than A in model size (ratio 0.250)"),
        ({"metric": "accuracy_top1", "verdict": "slower", "ratio": 0.99, "low": 0.98, "high": 0.995},
         "B is worse than A in top-1 accuracy (ratio 0.990, 95 % interval 0.980 to 0.995)"),
    ],
)  # fmt: skip
def test_conclusions(facts, sentence):
    assert conclusion(latency_row(**{"metric": "latency", **facts})) == sentence


def test_an_order_that_may_turn_at_another_time_says_so():
    apart = {"ratio": 1.133, "low": 1.048, "high": 1.226, "rerun_high": 1.622, "verdict": "slower"}
    apart |= {"before": Side(value=1.0), "after": Side(value=1.133)}
    assert conclusion(latency_row(rerun_low=0.792, **apart)) == (
        "B is 1.13× slower than A (ratio 1.133, 95 % interval 1.048 to 1.226) in these minutes, "
        "which need not hold at another time (0.792 to 1.622)"
    )
    assert conclusion(latency_row(rerun_low=1.01, **apart)) == (
        "B is 1.13× slower than A (ratio 1.133, 95 % interval 1.048 to 1.226, at another time 1.010 to 1.622)"
    )


@pytest.mark.parametrize(
    ("rerun", "sentence"),
    [
        ((0.899, 1.126), ") in these minutes, which need not hold at another time (0.899 to 1.126)"),
        ((0.98, 1.02), ", at another time 0.980 to 1.020)"),
    ],
)  # fmt: skip
def test_as_fast_holds_in_these_minutes_where_another_time_may_differ(rerun, sentence):
    same = latency_row(
        verdict="same", ratio=1.002, low=0.991, high=1.013, rerun_low=rerun[0], rerun_high=rerun[1],
        before=Side(value=1.0), after=Side(value=1.002),
    )  # fmt: skip
    assert conclusion(same) == f"B is as fast as A (within ± 3 %, ratio 1.002, 95 % interval 0.991 to 1.013{sentence}"


def test_what_turns_the_picture_is_said():
    same = latency_row(verdict="same", ratio=1.0, low=0.99, high=1.01)
    smaller = row("model_size", "faster", ratio=0.25, low=0.25, high=0.25)
    worse = [row(metric, "slower", ratio=2.0, low=1.9, high=2.1)
             for metric in ("memory_peak", "memory_load", "memory_delta", "latency_p99")]  # fmt: skip
    assert conclusion(same, [smaller, worse[0]]).endswith(
        "), and 4.00× smaller in model size, but 2.00× larger in peak memory"
    )
    assert conclusion(latency_row(), worse).endswith(
        "), but 2.00× larger in peak memory, 2.00× larger in memory after load and worse in 2 other metrics"
    )


def test_without_a_verdict_what_is_proven_of_other_metrics_is_said():
    none = latency_row(verdict="inconclusive", ratio=1.343, low=0.892, high=1.467, because="not yet proven")
    slower = row("latency_p99", "slower", ratio=2.296, low=1.849, high=2.851)
    same = row("memory_peak", "same", ratio=1.0005, low=0.9998, high=1.0012)
    told = "No verdict on B against A in latency (ratio 1.343, 95 % interval 0.892 to 1.467)"
    assert conclusion(none, [same, row("throughput", "inconclusive")]) == told
    assert conclusion(none, [slower, same]) == f"{told}, but latency p99 is 2.30× slower"
    smaller = row("model_size", "faster", ratio=0.25, low=0.25, high=0.25)
    energy = row("energy", "faster", ratio=0.5, low=0.4, high=0.6)
    assert conclusion(none, [smaller, energy, slower]) == (
        f"{told}, but latency p99 is 2.30× slower, model size is 4.00× smaller and it needs 2.00× less energy"
    )
    more = row("memory_peak", "slower", ratio=2.0, low=1.9, high=2.1)
    assert conclusion(none, [smaller, energy, slower, more]) == (
        f"{told}, but latency p99 is 2.30× slower, peak memory is 2.00× larger and 2 other metrics differ"
    )


def test_words_of_verdicts():
    assert verdict_text(latency_row(verdict="inconclusive", decides_in_s=7300.0)) == (
        "inconclusive (≈ 3 h more would decide)"
    )
    assert verdict_text(latency_row(verdict="same", margin=0.0421)) == "same (within ± 4.2 %)"
    assert factor_of(latency_row(ratio=1.0031, low=1.0022, high=1.0041)) == "1.003×"
    assert factor_of(latency_row(ratio=0.9615, low=0.9615, high=0.9615)) == "1.04×"
    assert factor_of(latency_row(ratio=0.004)) == "250×"
    assert factor_of(latency_row(ratio=None)) == ""
    assert [time_text(value) for value in (0.2, 40.0, 119.1, 150.0, 7200.0)] == ["1 s", "40 s", "120 s", "3 min", "2 h"]
    assert [percent(value) for value in (0.03, 0.1, 0.0421, 1.0, 0.005)] == ["3 %", "10 %", "4.2 %", "100 %", "0.5 %"]
