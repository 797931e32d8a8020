"""Who wins and why the others did not, on made-up numbers: never what is slower, broken or outside a bound."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.comparing.comparison import Comparison, Ranked, Ranking, Side
from edgewise.optimizing import choice
from edgewise.optimizing.choice import (
    accuracy_words,
    check_bounds,
    drop_of,
    factor_of,
    find_closest,
    judge_speed,
    judged_words,
    limit_of,
)
from edgewise.optimizing.variant import SMALLER, Bound, Candidate, MetricValue
from edgewise.record import RuntimeSpec
from messages import says, wording

FINITE = st.floats(1e-6, 1e6)


def number(value, low=None, high=None, **facts):
    return MetricValue(value=value, low=low, high=high, **facts)


def row(verdict="faster", ratio=0.5, low=0.4, high=0.8, **facts):
    empty = Side(value=None)
    return Comparison(
        a="original", b="v", metric="latency", before=empty, after=empty, verdict=verdict, ratio=ratio, low=low,
        high=high, method="pairs", **facts,
    )  # fmt: skip


def candidate(name, *, accepted=True, **metrics):
    return Candidate(
        id=name,
        parent="original",
        runtime=RuntimeSpec(name="fake"),
        accepted=accepted,
        metrics={key: value if isinstance(value, MetricValue) else number(value) for key, value in metrics.items()},
    )


def ranking(**places):
    ranked = tuple(
        Ranked(label=name, place=place, groups="a", value=1.0)
        for name, place in sorted(places.items(), key=lambda item: item[1])
    )
    return Ranking(metric="latency", places=ranked)


# --- speed ---


def test_a_speed_up_is_the_ratio_upside_down_with_its_ends_swapped():
    found = factor_of(row(ratio=0.5, low=0.4, high=0.8))
    assert (found.value, found.low, found.high, found.basis) == (2.0, 1.25, 2.5, "derived") and "pairs" in found.method


def test_memory_is_reduced_by_the_ratio_upside_down():
    found = factor_of(row(ratio=0.5, low=0.4, high=0.8), "peak memory")
    assert (found.value, found.low, found.high, found.basis) == (2.0, 1.25, 2.5, "derived")
    assert found.method.startswith("peak memory of the original over the variant's; ")
    assert factor_of(None, "peak memory").absent_because == wording("not-measured-race")


@pytest.mark.parametrize(
    ("given", "because"),
    [
        (None, "it was not measured in a race"),
        (row(ratio=None, because="B failed"), "B failed"),
        (row(ratio=None), "the race gave no ratio"),
        (row(ratio=0.0), "the race gave no ratio"),
    ],
)
def test_without_a_ratio_there_is_no_speed_up_but_a_reason(given, because):
    found = factor_of(given)
    assert (found.value, found.low, found.high, found.absent_because) == (None, None, None, because)
    assert judge_speed(given, smaller=True, aim="size") == (False, because)
    assert found.verdict is None


def test_a_half_known_interval_stays_half_known():
    found = factor_of(row(low=None, high=0.8))
    assert (found.low, found.high) == (1.25, None)


@pytest.mark.parametrize(
    ("verdict", "smaller", "aim", "accepted", "words"),
    [
        ("faster", False, "latency", True, "faster: 2.00× [1.25, 2.50]"),
        ("faster", False, "size", True, "faster: 2.00× [1.25, 2.50]"),
        ("slower", True, "size", False, "slower: 2.00× the speed [1.25, 2.50]; no kernel"),
        ("slower", True, "latency", False, "slower: 2.00× the speed [1.25, 2.50]; no kernel"),
        ("same", True, "size", True, "smaller and as fast: 2.00× the speed [1.25, 2.50]"),
        ("same", False, "size", False, "no difference that matters: 2.00× the speed [1.25, 2.50]"),
        ("same", True, "latency", False, "no difference that matters: 2.00× the speed [1.25, 2.50]"),
        ("inconclusive", True, "size", False, "probably faster, not proven: 2.00× the speed [1.25, 2.50]"),
        ("inconclusive", True, "latency", False, "probably faster, not proven: 2.00× the speed [1.25, 2.50]"),
    ],
)
def test_only_what_is_proven_is_accepted(verdict, smaller, aim, accepted, words):
    assert judge_speed(row(verdict), smaller=smaller, aim=aim, reason="no kernel") == (accepted, words)


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        ((0.9, 0.87, 0.93), "probably slower, not proven: 0.90× the speed [0.87, 0.93] (p)"),
        ((0.98, 0.96, 1.02), "not faster by an amount that matters: 0.98× the speed [0.96, 1.02] (p)"),
        ((0.98, 0.905, 1.095), "not proven faster: 0.98× the speed [0.90, 1.10] (p)"),
    ],
)
def test_what_is_below_the_original_is_not_called_not_proven_faster(speed, words):
    """0.90× [0.87, 0.93] was "not proven faster" and left the search undecided."""
    value, low, high = (1.0 / each for each in speed)
    one = row("inconclusive", value, high, low, because="p")
    assert judge_speed(one, smaller=True, aim="latency") == (False, words)


def test_what_is_in_the_way_of_a_verdict_is_told():
    assert judge_speed(row("inconclusive", because="too few"), smaller=False, aim="latency")[1].endswith("(too few)")


# --- how the headline moved ---


def test_a_drop_is_positive_where_it_became_worse():
    assert drop_of(number(-0.02, -0.03, 0.01), "accuracy_top1") == number(0.02, -0.01, 0.03)
    assert drop_of(number(0.02, -0.01, 0.03), "mae") == number(0.02, -0.01, 0.03)
    assert drop_of(number(0.02, -0.01, 0.03), "loss:mine") == number(0.02, -0.01, 0.03)
    assert drop_of(number(0.02, None, 0.03), "score:mine") == number(-0.02, -0.03, None)
    absent = number(None, absent_because="why")
    assert drop_of(absent, "accuracy_top1") is absent


@pytest.mark.parametrize(
    ("drop", "metric", "words"),
    [
        (number(0.041, 0.035, 0.047), "accuracy_top1", "Top-1 accuracy −4.10 pt [−4.70, −3.50]"),
        (number(-0.002, -0.006, 0.002), "accuracy_top1", "Top-1 accuracy +0.20 pt [−0.20, +0.60]"),
        (number(0.0, 0.0, 0.0), "accuracy_top1", "Top-1 accuracy +0.00 pt [+0.00, +0.00]"),
        (number(0.02), "agreement_top1", "Top-1 agreement −2.00 pt"),
        (number(0.1, 0.05, 0.2), "error_rate", "Error rate +10.00 pt [+5.00, +20.00]"),
        (number(0.00021, 0.0001, 0.0003), "mae", "MAE +0.000210 [+0.000100, +0.000300]"),
        (number(-12.5, -20.0, 3.0), "rmse", "RMSE −12.5 [−20.0, +3.00]"),
        (number(0.25), "r2", "R² −0.250"),
        (number(None, absent_because="one class only"), "auroc", "AUC (ROC): one class only"),
    ],
)
def test_how_the_headline_moved_in_words(drop, metric, words):
    assert accuracy_words(drop, metric) == words


# --- bounds ---

LATENCY = Bound(metric="latency", limit=0.005, words="--max-latency 5.00 ms")
SIZE = Bound(metric="model_size", limit=1e6, words="--max-size 1 MB (977 KiB)")
DROP = Bound(metric="accuracy_drop", limit=0.01, words="--max-accuracy-drop 1pt")
PERCENT = replace(DROP, words="--max-accuracy-drop 1%", relative_to="accuracy_top1")
LEAST = Bound(metric="accuracy_top1", limit=0.9, words="--min-accuracy 0.9", upper=False)
MOST_ERRORS = Bound(metric="mae", limit=0.5, words="--min-accuracy 0.5", upper=True)


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        (LATENCY, 0.005, True),
        (LATENCY, 0.00500001, False),
        (LEAST, 0.9, True),
        (LEAST, 0.8999, False),
        (MOST_ERRORS, 0.5, True),
        (MOST_ERRORS, 0.51, False),
        (DROP, 0.01, True),
        (DROP, 0.0101, False),
        (DROP, -0.5, True),
        (PERCENT, 0.005, True),  # of 0.5
        (PERCENT, 0.0051, False),
    ],
)
def test_a_limit_itself_is_met(bound, value, met):
    found = check_bounds({bound.metric: number(value)}, [bound], {"accuracy_top1": number(0.5)})
    assert (found == []) == met, found


@pytest.mark.parametrize("bound", [LATENCY, LEAST, DROP, PERCENT])
@pytest.mark.parametrize("value", [None, math.nan])
def test_what_is_absent_or_no_number_meets_no_bound(bound, value):
    original = {"accuracy_top1": number(0.5)}
    assert len(check_bounds({bound.metric: number(value)}, [bound], original)) == 1
    assert len(check_bounds({}, [bound], original)) == 1
    assert find_closest([candidate("a", **{bound.metric: value})], [bound], original) is None


def test_why_a_bound_is_not_met_in_words():
    original = {"accuracy_top1": number(0.5)}
    metrics = {
        "latency": number(0.0062), "model_size": number(2.5e6), "accuracy_drop": number(0.041),
        "accuracy_top1": number(0.85),
    }  # fmt: skip
    assert check_bounds(metrics, [LATENCY, SIZE, DROP, PERCENT, LEAST], original) == [
        "Latency 6.20 ms is over --max-latency 5.00 ms",
        "Model size 2.38 MiB is over --max-size 1 MB (977 KiB)",
        "a drop of 4.10 pt is over --max-accuracy-drop 1pt",
        "a drop of 4.10 pt is over --max-accuracy-drop 1%",
        "Top-1 accuracy 85.0 % is under --min-accuracy 0.9",
    ]
    assert check_bounds({}, [LATENCY], original) == ["--max-latency 5.00 ms: it was not measured"]
    absent = number(None, absent_because="the race failed")
    assert check_bounds({"latency": absent}, [LATENCY], original) == ["--max-latency 5.00 ms: the race failed"]


def test_a_drop_of_what_is_no_share_has_no_points():
    bound = replace(DROP, limit=0.05, words="--max-accuracy-drop 0.05")
    assert check_bounds({"accuracy_drop": number(0.06)}, [bound], {}) == [
        "a drop of 0.0600 is over --max-accuracy-drop 0.05"
    ]
    share = replace(bound, limit=0.1, words="--max-accuracy-drop 10%", relative_to="mae")
    assert check_bounds({"accuracy_drop": number(0.06)}, [share], {"mae": number(0.5)}) == [
        "a drop of 0.0600 is over --max-accuracy-drop 10%"
    ]


def test_a_relative_limit_of_what_is_not_known_is_not_met():
    for original in ({}, {"accuracy_top1": number(None)}):
        assert limit_of(PERCENT, original) is None
        (words,) = check_bounds({"accuracy_drop": number(0.0)}, [PERCENT], original)
        assert re.search(says("original-not-known", relative_to="accuracy_top1"), words)


def test_a_relative_limit_of_a_negative_value_is_an_amount():
    assert limit_of(replace(PERCENT, limit=0.1, relative_to="r2"), {"r2": number(-2.0)}) == pytest.approx(0.2)


# --- what comes closest ---


def test_the_closest_has_the_least_relative_excess():
    original = {}
    slow = candidate("slow", latency=0.006, accuracy_drop=0.0)  # a fifth over
    wrong = candidate("wrong", latency=0.001, accuracy_drop=0.011)  # a tenth over
    both = candidate("both", latency=0.0051, accuracy_drop=0.0105)  # 2 % and 5 %
    unknown = candidate("unknown", latency=0.001)
    bounds = [LATENCY, DROP]
    assert find_closest([slow, wrong, unknown], bounds, original) == "wrong"
    assert find_closest([slow, wrong, both], bounds, original) == "both"
    assert find_closest([unknown], bounds, original) is None
    assert find_closest([], bounds, original) is None


def test_an_excess_over_a_limit_of_nothing_counts_as_it_is():
    none = replace(DROP, limit=0.0)
    assert find_closest([candidate("a", accuracy_drop=0.2), candidate("b", accuracy_drop=0.1)], [none], {}) == "b"


# --- the choice ---


def choose(*given, **settings):
    """The id of the choice."""
    found = choice.choose(*given, **settings)
    return None if found is None else found.id


def test_nothing_accepted_is_nothing_chosen():
    assert choose([], None, headline="") is None
    assert choose([candidate("a", accepted=False, speedup=9.0)], ranking(a=1), headline="") is None


def test_the_best_place_wins_whatever_the_speed_up_says():
    found = [candidate("a", speedup=2.0, model_size=9.0), candidate("b", speedup=2.1, model_size=1.0)]
    assert choose(found, ranking(a=1, original=2, b=3), headline="") == "a"


def test_of_equals_the_most_accurate_then_the_smallest_then_the_fastest():
    def made(name, accuracy, size, speedup):
        return candidate(name, accuracy_top1=accuracy, model_size=size, speedup=speedup)

    places = ranking(a=1, b=1, c=1, original=4)
    exact, small, fast = made("a", 0.98, 100.0, 2.0), made("b", 0.97, 10.0, 3.0), made("c", 0.97, 10.0, 4.0)
    assert choose([exact, small, fast], places, headline="accuracy_top1") == "a"
    near = made("a", 0.9705, 100.0, 2.0)  # less than a tenth of a point better
    assert choose([near, small, fast], places, headline="accuracy_top1") == "c"
    assert choose([near, small, made("c", 0.97, 10.2, 4.0)], places, headline="accuracy_top1") == "c"
    assert choose([near, small, made("c", 0.97, 11.0, 4.0)], places, headline="accuracy_top1") == "b"


def accurate(name, accuracy, size, *, drop, speedup=2.0, **facts):
    one = candidate(name, accuracy_top1=accuracy, model_size=size, speedup=speedup, accuracy_drop=drop)
    return replace(one, **facts)


def test_a_smaller_file_that_is_as_fast_and_as_accurate_as_can_be_told_wins():
    """A file of 169 kB was chosen before one of 160 kB that was as fast, for one sample of 540."""
    large = accurate("ort-static", 0.9981, 169e3, drop=number(0.0, -0.007, 0.007))
    small = accurate("nncf-ptq", 0.9963, 160e3, drop=number(0.0018, -0.005, 0.010))
    places = ranking(**{"ort-static": 1, "nncf-ptq": 1})
    assert choose([large, small], places, headline="accuracy_top1") == "nncf-ptq"
    worse = replace(small, metrics={**small.metrics, "accuracy_drop": number(0.0074, 0.0, 0.015)})
    found = choice.choose([large, worse], places, headline="accuracy_top1")
    assert found.id == "ort-static"
    assert found.because == ("as fast, as far as can be told: nncf-ptq (99.63 %, 1.06× smaller), less accurate")


def test_of_equals_an_inexact_file_is_chosen_only_where_size_is_the_aim():
    """Weights in int8 of half the size were chosen before the float file, which is as fast, as an int8 that is faster."""
    weights = SimpleNamespace(capabilities=SimpleNamespace(kind="compression", family="weight compression"))
    setting = SimpleNamespace(capabilities=SimpleNamespace(kind="tuning", family=""))
    same = number(0.0, -0.01, 0.01)
    plain = accurate("net.tflite", 0.98, 130e3, drop=same)
    small = accurate("weights", 0.98, 65e3, drop=same, task=weights, speedup=2.1)
    tuned = accurate("weights, 2 threads", 0.98, 65e3, drop=same, task=setting, speedup=2.2, parent="weights")
    found, places = [small, tuned, plain], ranking(**{"net.tflite": 1, "weights": 1, "weights, 2 threads": 1})
    chosen = choice.choose(found, places, headline="accuracy_top1")
    assert (chosen.id, chosen.because) == (
        "net.tflite",
        "as fast, as far as can be told: weights (2.00× smaller) and weights, 2 threads (2.00× smaller), "
        "changed by an inexact pass",
    )
    assert choose(found, places, headline="accuracy_top1", aim="size") == "weights"
    assert choose(found[:2], places, headline="accuracy_top1") == "weights"
    faster = ranking(**{"weights": 1, "weights, 2 threads": 2, "net.tflite": 2})
    assert choose(found, faster, headline="accuracy_top1") == "weights"


def test_a_setting_of_the_engine_is_chosen_only_where_it_is_proven_faster():
    tuning = SimpleNamespace(capabilities=SimpleNamespace(kind="tuning", family=""))
    plain = accurate("v", 0.98, 10e3, drop=number(0.0, -0.01, 0.01))
    tuned = accurate("v, bf16", 0.98, 10e3, drop=number(0.0, -0.01, 0.01), speedup=2.1, task=tuning)
    large = accurate("w", 0.98, 12e3, drop=number(0.0, -0.01, 0.01))
    found = choice.choose([plain, tuned, large], ranking(**{"v": 1, "v, bf16": 1, "w": 1}), headline="accuracy_top1")
    assert found.id == "v"
    assert found.because.endswith("w (1.20× larger); v, bf16, with a further setting of the engine")
    proven = choice.choose([plain, tuned, large], ranking(**{"v, bf16": 1, "v": 2, "w": 2}), headline="accuracy_top1")
    assert (proven.id, proven.because) == ("v, bf16", "")


def test_what_is_slower_in_the_table_is_not_called_as_fast():
    """Five rounds prove little of 45 pairs: 1.24× [1.21, 1.27] was "as fast" as 1.49× [1.42, 1.57]."""
    same = number(0.0, -0.01, 0.01)
    best = accurate("nncf-ptq @ openvino", 0.98, 100e3, drop=same, speedup=number(1.49, 1.42, 1.57))
    near = accurate("ort-static @ openvino", 0.98, 100e3, drop=same, speedup=number(1.45, 1.38, 1.52))
    slow = accurate("nncf-ptq @ onnxruntime", 0.99, 90e3, drop=same, speedup=number(1.24, 1.21, 1.27))
    found = [slow, near, best]
    places = ranking(**{one.id: 1 for one in found})
    chosen = choice.choose(found, places, headline="accuracy_top1")
    assert (chosen.id, chosen.because) == (
        best.id, "as fast, as far as can be told: ort-static @ openvino, with a lower speed-up"
    )  # fmt: skip
    # What a race proved of the two themselves counts as well, whatever their intervals with the original.
    proven = choice.choose(found[1:], places, headline="accuracy_top1", apart={(near.id, best.id)})
    assert (proven.id, proven.because) == (best.id, "")
    # A variant of an earlier race is held against the fastest of those that share the first place.
    early = ranking(**{near.id: 1, best.id: 1})
    assert choose(found, early, headline="accuracy_top1") == best.id


def test_differences_that_matter_stand_beside_what_is_as_fast():
    """A variant of another engine with half the peak memory and an int8 input was of "no other difference"."""

    def made(name, speedup, memory, dtype, size=100e3):
        job = SimpleNamespace(workload=SimpleNamespace(inputs=(SimpleNamespace(dtype=dtype),)))
        one = accurate(name, 0.98, size, drop=number(0.0, -0.01, 0.01), speedup=number(speedup, 1.0, 2.0), job=job)
        return replace(one, metrics={**one.metrics, "memory_peak": memory})

    best = made("a @ openvino", 1.6, number(120e6, 119e6, 121e6), "float32")
    others = [
        made("b @ litert", 1.5, number(60e6, 59e6, 61e6), "int8", size=97e3),
        made("c @ openvino", 1.4, number(150e6, 100e6, 200e6), "float32"),
    ]
    found = choice.choose([best, *others], ranking(**{one.id: 1 for one in [best, *others]}), headline="accuracy_top1")
    assert found.because == (
        "as fast, as far as can be told: b @ litert (peak memory 2.00× smaller, input int8, not float32) and "
        "c @ openvino, with a lower speed-up"
    )
    same = choice.choose([best, others[0]], None, headline="accuracy_top1", time=lambda one: 1.0)
    assert same.because == (
        "as fast, as far as can be told: a @ openvino (peak memory 2.00× larger, input float32, not int8)"
    )


def test_less_is_better_for_errors():
    found = [candidate("a", mae=0.5, speedup=9.0), candidate("b", mae=0.4, speedup=2.0)]
    assert choose(found, ranking(a=1, b=1), headline="mae") == "b"


def test_the_smallest_where_size_is_the_aim():
    found = [
        candidate("fast", model_size=100.0, speedup=9.0),
        candidate("small", model_size=10.0, speedup=1.0),
        candidate("nearly", model_size=10.4, speedup=2.0),
    ]
    assert choose(found, ranking(fast=1, nearly=2, small=3), headline="", aim="size") == "nearly"
    assert choose(found[:2], ranking(fast=1, small=2), headline="", aim="size") == "small"


def test_what_was_not_ranked_comes_last():
    found = [candidate("tuned", speedup=2.0), candidate("old", speedup=9.0)]
    assert choose(found, ranking(original=1, tuned=2), headline="") == "tuned"


def test_without_a_ranking_the_speed_up_decides():
    assert choose([candidate("a", speedup=2.0), candidate("b", speedup=3.0)], None, headline="") == "b"


VERDICTS = st.sampled_from(["faster", "slower", "same", "inconclusive"])


@st.composite
def searched(draw):
    """Raced variants with what the race said, and bounds."""
    aim = draw(st.sampled_from(["latency", "size"]))
    bounds = draw(st.lists(st.sampled_from([LATENCY, SIZE, DROP, LEAST]), unique=True))
    found = []
    for index in range(draw(st.integers(0, 6))):
        verdict, ratio = draw(VERDICTS), draw(st.one_of(st.none(), FINITE))
        values = {
            "latency": draw(st.one_of(st.none(), st.floats(0.001, 0.01))),
            "model_size": draw(st.floats(1e5, 2e6)),
            "accuracy_drop": draw(st.one_of(st.none(), st.just(math.nan), st.floats(-0.1, 0.1))),
            "accuracy_top1": draw(st.one_of(st.none(), st.floats(0.5, 1.0))),
        }
        found.append((f"v{index}", row(verdict, ratio, None, None), values))
    places = draw(st.permutations([name for name, _, _ in found]))
    return aim, bounds, found, ranking(**{name: place for place, name in enumerate(places, 1)})


@given(searched())
def test_what_is_chosen_is_proven_and_keeps_to_every_bound(case):
    aim, bounds, found, ranked = case
    whole = 1e6
    rated = []
    for name, said, values in found:
        smaller = values["model_size"] <= SMALLER * whole
        accepted, why = judge_speed(said, smaller=smaller, aim=aim)
        one = candidate(name, **values, speedup=factor_of(said))
        unmet = check_bounds(one.metrics, bounds, {})
        rated.append(replace(one, accepted=accepted and not unmet, why=why))
        assert why
    chosen = choose(rated, ranked, headline="accuracy_top1", aim=aim)
    assert (chosen is None) == (not any(one.accepted for one in rated))
    if chosen is None:
        return
    _, said, values = next(each for each in found if each[0] == chosen)
    smaller = values["model_size"] <= SMALLER * whole
    assert said.ratio is not None
    assert said.verdict == "faster" or (said.verdict == "same" and aim == "size" and smaller)
    limits = {"latency": 0.005, "model_size": 1e6, "accuracy_drop": 0.01}
    for bound in bounds:
        value = values[bound.metric]
        assert value is not None and (value >= 0.9 if bound is LEAST else value <= limits[bound.metric])
    if aim == "latency":
        places = {one.label: one.place for one in ranked.places}
        assert places[chosen] == min(places[one.id] for one in rated if one.accepted)


@given(FINITE, FINITE, FINITE)
def test_a_speed_up_lies_in_its_interval(a, b, c):
    low, ratio, high = sorted((a, b, c))
    found = factor_of(row(ratio=ratio, low=low, high=high))
    assert found.low <= found.value <= found.high


def snr_metrics(decibels, *, error=1.0, low=None, high=None):
    found = (
        number(decibels, low, high) if decibels is not None else number(None, absent_because="outputs are identical")
    )
    return {"output_snr_worst": found, "output_max_abs_error": number(error), "model_size": number(10.0)}


LEAST_SNR = Bound(metric="output_snr_worst", limit=20.0, words="--min-snr 20dB", upper=False)


def test_a_bound_on_the_snr_is_met_by_outputs_that_are_the_same():
    assert check_bounds(snr_metrics(27.0), [LEAST_SNR], {}) == []
    assert check_bounds(snr_metrics(12.34), [LEAST_SNR], {}) == ["an SNR of 12.3 dB is under --min-snr 20dB"]
    assert check_bounds(snr_metrics(None, error=0.0), [LEAST_SNR], {}) == []
    assert check_bounds(snr_metrics(None), [LEAST_SNR], {}) == ["--min-snr 20dB: outputs are identical"]


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (snr_metrics(27.26, low=26.81, high=27.84), "SNR 27.3 dB [26.8, 27.9]"),
        (snr_metrics(27.0), "SNR 27.0 dB"),
        (snr_metrics(None, error=0.0), wording("outputs-same")),
        (snr_metrics(None), "SNR: outputs are identical"),
        ({}, "SNR: not known"),
    ],
)
def test_an_snr_is_told_as_it_is(metrics, words):
    assert judged_words(metrics, "output_snr_worst") == words


def test_of_equally_fast_variants_the_one_with_the_higher_snr_is_chosen():
    def variant(name, decibels, error=1.0):
        return candidate(name, speedup=number(2.0), **snr_metrics(decibels, error=error))

    found = [variant("near", 24.0), variant("nearer", 33.0), variant("nearer still", 33.5)]
    assert choose(found, None, headline="output_snr_worst") in ("nearer", "nearer still")
    assert choose([*found, variant("same", None, 0.0)], None, headline="output_snr_worst") == "same"
