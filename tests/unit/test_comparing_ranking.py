"""Three or more variants: their order, who can't be told apart, and whom none beats."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from comparable_runs import row_of, run_of
from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_pairs
from edgewise.comparing.ranking import _letters, find_pareto_front, rank
from edgewise.errors import BadInput
from edgewise.grouping import in_levels
from edgewise.record import Scenario
from edgewise.record.run import Trust
from edgewise.report.comparison.words import ranking_conclusion
from sample_runs import failed_run, make_run, measured

PAIRS = 8


def variant(label, *, sigma=0.003, seed=0, number=1, size=None, **medians):
    """A variant whose processes took turns with the others', by metric → median."""
    rows = []
    for offset, (metric, median) in enumerate(medians.items()):
        scatter = sigma * np.random.default_rng([seed, offset, len(label), ord(label[0])]).standard_normal(PAIRS)
        rows.append(row_of(metric, [[float(value)] for value in median * np.exp(scatter - scatter.mean())]))
    if size is not None:
        rows.append(measured("model_size", size))
    scenario = Scenario(kind="offline" if "throughput" in medians else "single-stream")
    return Variant(
        label=label, run=run_of(*rows, processes=PAIRS, interleave="turns", number=number, scenario=scenario)
    )


def told(ranking):
    return [(one.label, one.place, one.groups) for one in ranking.places]


# Ranking


def test_an_order_with_two_that_can_not_be_told_apart():
    variants = [variant("slow", latency=2e-3), variant("one", latency=1e-3), variant("two", latency=1.005e-3)]
    found = rank(variants, Criteria(), "latency")
    assert found.metric == "latency"
    assert told(found) == [("one", 1, "a"), ("two", 1, "a"), ("slow", 2, "b")]
    best, second, last = found.places
    assert (best.ratio, best.low, best.high) == (1.0, 1.0, 1.0)
    assert second.ratio == pytest.approx(1.005)
    assert last.low < last.ratio < last.high
    assert last.ratio == pytest.approx(2.0)
    assert last.value == pytest.approx(2e-3, rel=0.01)


def test_a_run_of_grade_d_that_nothing_is_proven_of_has_no_place():
    poor = run_of(row_of("latency", [[0.9e-3], [3e-3]]), processes=2, number=4)
    poor = Variant(label="poor", run=replace(poor, trust=Trust(grade="D", reasons=("other processes ran",))))
    found = rank([poor, variant("slow", latency=2e-3), variant("one", latency=1e-3)], Criteria(), "latency")
    assert told(found) == [("one", 1, "a"), ("slow", 2, "b"), ("poor", 3, "")]
    assert ranking_conclusion(found).startswith("one is the best of 2 in latency; slow follows with a ratio of 2.0")
    assert ranking_conclusion(found).endswith("; not ranked: poor")


def test_more_throughput_ranks_first():
    variants = [variant("a", throughput=100.0), variant("b", throughput=300.0), variant("c", throughput=200.0)]
    found = rank(variants, Criteria(), "throughput")
    assert told(found) == [("b", 1, "a"), ("c", 2, "b"), ("a", 3, "c")]
    last = found.places[2]
    assert last.low < last.ratio < last.high
    assert last.ratio == pytest.approx(1 / 3)


def test_the_ratio_is_to_the_best_wherever_it_stands():
    variants = [variant("third", latency=3e-3), variant("second", latency=2e-3), variant("first", latency=1e-3)]
    found = rank(variants, Criteria(), "latency")
    rows = compare_pairs(variants, [(2, 0), (2, 1)], ("latency",), criteria=Criteria())
    assert [one.label for one in found.places] == ["first", "second", "third"]
    for one, row in zip(found.places[1:], reversed(rows), strict=True):
        assert (one.ratio, one.low, one.high) == pytest.approx((row.ratio, row.low, row.high))


def test_a_variant_between_two_shares_letters_with_both():
    variants = [
        variant("x", latency=1.0, sigma=0.05),
        variant("y", latency=1.06, sigma=0.05),
        variant("z", latency=1.2, sigma=0.02),
    ]
    rows = compare_pairs(variants, [(0, 1), (0, 2), (1, 2)], ("latency",), criteria=Criteria())
    assert [row.verdict for row in rows] == ["inconclusive", "slower", "inconclusive"]
    assert told(rank(variants, Criteria(), "latency")) == [("x", 1, "a"), ("y", 1, "ab"), ("z", 2, "b")]


def test_the_correction_is_over_all_pairs():
    variants = [variant(label, latency=1e-3 * (1 + 0.01 * n), sigma=0.01) for n, label in enumerate("abcd")]
    pairs = list(combinations(range(4), 2))
    tested = compare_pairs(variants, pairs, ("latency",), criteria=Criteria())
    smallest = min(tested, key=lambda row: row.p_value)
    assert smallest.p_adjusted == pytest.approx(min(1.0, 6 * smallest.p_value))


@pytest.mark.parametrize(
    ("apart", "letters", "places"),  # of each pair that is apart, the first is better
    [
        ([], ["a", "a", "a", "a"], [1, 1, 1, 1]),
        ([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], ["a", "b", "c", "d"], [1, 2, 3, 4]),
        ([(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"], [1, 1, 2, 2]),
        ([(0, 3)], ["a", "ab", "ab", "b"], [1, 1, 1, 2]),
        ([(0, 1)], ["a", "b", "ab", "ab"], [1, 2, 1, 1]),  # wide intervals: told from neither
        ([(1, 2)], ["ab", "a", "b", "ab"], [1, 1, 2, 1]),
        ([(0, 1), (2, 3)], ["ab", "cd", "ac", "bd"], [1, 2, 1, 2]),
        ([(0, 1), (1, 2), (2, 0)], ["a", "b", "c", "abc"], [2, 3, 4, 1]),  # a circle, of ratios of several statistics
    ],
)
def test_letters_and_places(apart, letters, places):
    found = _letters(range(4), {tuple(sorted(pair)) for pair in apart})
    assert list(found.values()) == letters
    together = {pair for pair in combinations(range(4), 2) if set(found[pair[0]]) & set(found[pair[1]])}
    assert together == set(combinations(range(4), 2)) - {tuple(sorted(pair)) for pair in apart}
    better = {index: {first for first, second in apart if second == index} for index in range(4)}
    levels = in_levels(range(4), better)
    assert [next(place for place, level in enumerate(levels, 1) if index in level) for index in range(4)] == places


def test_rows_are_in_the_order_of_places_and_the_undecided_shares_letters():
    """A variant with a wide interval can't be told from the best one, nor from the one that is proven slower."""
    variants = [
        variant("wide", latency=1.115e-3, sigma=0.12),
        variant("second", latency=1.093e-3, sigma=0.004),
        variant("first", latency=1e-3, sigma=0.004),
    ]
    rows = compare_pairs(variants, [(0, 1), (0, 2), (1, 2)], ("latency",), criteria=Criteria())
    assert [row.verdict for row in rows] == ["inconclusive", "inconclusive", "faster"]
    found = rank(variants, Criteria(), "latency")
    assert told(found) == [("first", 1, "a"), ("wide", 1, "ab"), ("second", 2, "b")]
    assert [round(one.ratio, 3) for one in found.places] == [1.0, 1.115, 1.093]
    assert ranking_conclusion(found) == (
        "first and wide share the first place of 3 in latency: they can't be told apart"
    )


def test_letters_of_many():
    apart = set(combinations(range(60), 2))
    letters = list(_letters(range(60), apart).values())
    assert len(set(letters)) == 60
    assert all(len(one) == 1 and one.isalpha() for one in letters)
    assert letters[:3] + letters[25:28] + letters[51:53] == ["a", "b", "c", "z", "A", "B", "Z", "α"]


def test_who_has_no_ratio_is_last():
    variants = [
        Variant(label="failed", run=failed_run(4)),
        variant("two", latency=2e-3),
        variant("one", latency=1e-3),
        variant("none", memory_peak=1.0),
    ]
    found = rank(variants, Criteria(), "latency")
    assert told(found) == [("one", 1, "a"), ("two", 2, "b"), ("failed", 3, ""), ("none", 3, "")]
    assert [(one.value, one.ratio, one.low) for one in found.places[2:]] == [(None, None, None)] * 2


def test_a_ratio_without_a_verdict_still_ranks():
    variants = [
        Variant(label=label, run=run_of(row_of("latency", [[value]]), processes=1, interleave="turns"))
        for label, value in (("a", 3.0), ("b", 1.0), ("c", 2.0))
    ]
    found = rank(variants, Criteria(), "latency")
    assert told(found) == [("b", 1, "a"), ("c", 1, "a"), ("a", 1, "a")]
    assert [one.low for one in found.places] == [1.0, None, None]


def test_no_ranking():
    assert rank([variant("a", latency=1.0), variant("b", latency=2.0)], Criteria(), "latency") is None
    nothing = [variant("a", latency=1.0), variant("b", memory_peak=2.0), variant("c", memory_peak=2.0)]
    assert rank(nothing, Criteria(), "latency") is None
    for metric in ("clock_rate", "latncy"):
        with pytest.raises(BadInput):
            rank(nothing, Criteria(), metric)


def test_exact_sizes_rank():
    variants = [variant(label, size=size) for label, size in (("a", 300.0), ("b", 100.0), ("c", 101.0))]
    found = rank(variants, Criteria(), "model_size")
    assert told(found) == [("b", 1, "a"), ("c", 1, "a"), ("a", 2, "b")]


# The Pareto front


def test_what_is_worse_in_one_and_the_same_in_the_other_is_beaten():
    variants = [
        variant("base", latency=1e-3, size=1000.0),
        variant("slower", latency=2e-3, size=1000.0),
        variant("smaller", latency=2e-3, size=500.0),
    ]
    found = find_pareto_front(variants, Criteria())
    assert found.metrics == ("latency", "model_size")
    assert found.members == ("base", "smaller")
    assert found.beaten == {"slower": ("base", "smaller")}


def test_the_later_variant_beats_the_earlier_one():
    variants = [variant("old", latency=2e-3, size=1000.0), variant("new", latency=1e-3, size=900.0)]
    found = find_pareto_front(variants, Criteria())
    assert (found.members, found.beaten) == (("new",), {"old": ("new",)})


def test_what_is_better_in_one_and_worse_in_the_other_stays():
    variants = [variant("fast", latency=1e-3, size=1000.0), variant("small", latency=2e-3, size=500.0)]
    assert find_pareto_front(variants, Criteria()).members == ("fast", "small")


def test_equals_beat_nobody():
    variants = [variant(label, latency=1e-3, size=1000.0) for label in ("a", "b", "c")]
    found = find_pareto_front(variants, Criteria())
    assert (found.members, found.beaten) == (("a", "b", "c"), {})


def test_the_inconclusive_beats_nothing():
    noisy = [variant("a", latency=1e-3, sigma=0.2, size=500.0), variant("b", latency=1.1e-3, sigma=0.2, size=1000.0)]
    (row,) = compare_pairs(noisy, [(0, 1)], ("latency",), criteria=Criteria())
    assert row.verdict == "inconclusive"
    assert find_pareto_front(noisy, Criteria()).members == ("a", "b")


def test_metrics_of_the_front():
    variants = [
        variant("a", latency=1e-3, memory_peak=1e8, size=500.0),
        variant("b", latency=1e-3, memory_peak=2e8, size=500.0),
    ]
    assert find_pareto_front(variants, Criteria()).metrics == ("latency", "memory_peak", "model_size")
    assert find_pareto_front(variants, Criteria(front=("model_size", "latency", "model_size"))).members == ("a", "b")
    assert find_pareto_front(variants, Criteria(front=("memory_peak", "latency"))).members == ("a",)
    assert find_pareto_front(variants, Criteria(front=("latency", "energy"))) is None  # nobody tells energy
    assert find_pareto_front([*variants, variant("c", memory_peak=1e8)], Criteria()) is None  # one metric is left
    for front in (("latency", "macs"), ("latncy", "model_size")):
        with pytest.raises(BadInput):
            find_pareto_front(variants, Criteria(front=front))


def test_failed_runs_take_no_part_in_the_front():
    variants = [make_run(1), failed_run(2), make_run(3, latency=8e-4)]
    named = [Variant(label=f"v{n}", run=run) for n, run in enumerate(variants)]
    found = find_pareto_front(named, Criteria())
    assert (found.members, found.beaten) == (("v0",), {"v2": ("v0",)})
    assert find_pareto_front(named[:2], Criteria()) is None


def test_the_documents_of_all_this():
    variants = [variant(label, latency=1e-3, size=1000.0) for label in ("a", "b", "c")]
    findings = ComparisonResult(
        variants=tuple(variants),
        comparisons=tuple(compare_pairs(variants, [(0, 1), (0, 2)], ("latency",), criteria=Criteria())),
        ranking=rank(variants, Criteria(), "latency"),
        front=find_pareto_front(variants, Criteria()),
    )
    document = json.loads(json.dumps(findings.to_document(), allow_nan=False))
    assert [row["verdict"] for row in document["comparisons"]] == ["same", "same"]
    assert document["passed"] is True
    assert [one["groups"] for one in document["ranking"]["places"]] == ["a", "a", "a"]
    assert document["pareto"]["members"] == ["a", "b", "c"]
