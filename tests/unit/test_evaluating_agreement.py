"""Agreement with a reference, sample by sample and in all."""

import json
import math

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import compare_sample, tabulate
from edgewise.evaluating.scores import compare_tables, score
from messages import says, wording


def records(own, reference):
    pairs = zip(own, reference, strict=True)
    return json.loads(json.dumps([compare_sample([a[None]], [b[None]]) for a, b in pairs], allow_nan=False))


def by_metric(found):
    return {each.metric: each for each in found}


def test_values_against_the_definitions():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(60, 10)).astype(np.float32)
    own = (reference + 0.3 * rng.normal(size=reference.shape)).astype(np.float32)
    found = by_metric(score(tabulate(records(own, reference))))
    difference = own.astype(float) - reference
    top = found["agreement_top1"]
    assert top.value == (own.argmax(1) == reference.argmax(1)).mean()
    assert sum(top.outcomes) == top.value * 60
    snr = found["output_snr"]
    assert snr.value == pytest.approx(
        10 * np.log10((reference.astype(float) ** 2).sum() / (difference**2).sum()), rel=1e-9
    )
    assert snr.low < snr.value < snr.high
    worst = found["output_max_abs_error"]
    assert worst.value == pytest.approx(np.abs(difference).max())
    assert (worst.low, worst.high) == (None, None)
    assert "does not bound that of others" in worst.method


def test_identical_outputs():
    outputs = np.eye(12)
    found = by_metric(score(tabulate(records(outputs, outputs))))
    assert (found["agreement_top1"].value, found["output_max_abs_error"].value) == (1.0, 0.0)
    assert found["output_snr"].value is None
    assert found["output_snr"].absent_because == "outputs are identical"


def test_a_reference_of_zeros():
    found = by_metric(score(tabulate(records(np.ones((12, 3)), np.zeros((12, 3))))))
    assert found["output_snr"].absent_because == "all of the reference's outputs are 0"


def test_several_rows_a_sample_are_no_samples():
    rng = np.random.default_rng(1)
    reference, own = rng.normal(size=(2, 30, 4, 5))
    table = tabulate(records(own, reference))
    assert table.proportions == {}
    found = by_metric(score(table))["agreement_top1"]
    assert found.value == (own.argmax(-1) == reference.argmax(-1)).mean()
    assert "bootstrap" in found.method


def test_outputs_without_rows():
    found = by_metric(score(tabulate([compare_sample([np.array([[1.0]])], [np.array([[2.0]])])] * 12)))
    assert found["agreement_top1"].absent_because == "no output has rows of two or more elements"
    assert found["output_snr"].value == pytest.approx(10 * math.log10(4.0))


def test_ties_agree_and_several_outputs_add_up():
    record = compare_sample([np.array([[1.0, 0.0]]), np.array([[3.0]])], [np.array([[1.0, 1.0]]), np.array([[1.0]])])
    assert record == [1, 1, 3.0, 5.0, 2.0, 2.0, 1.0, 1.0, 4.0]
    found = by_metric(score(tabulate([record] * 12)))
    assert found["output_snr"].value == pytest.approx(10 * math.log10(3 / 5))
    assert found["output_snr_worst"].value == pytest.approx(10 * math.log10(1 / 4))
    assert tabulate([record]).worst_output() == 1


def test_an_output_that_does_not_differ_is_not_the_worst_and_one_of_zeros_leaves_it_undefined():
    same = compare_sample([np.array([[0.0]]), np.array([[3.0]])], [np.array([[0.0]]), np.array([[1.0]])])
    table = tabulate([same] * 12)
    assert by_metric(score(table))["output_snr_worst"].value == pytest.approx(10 * math.log10(1 / 4))
    assert table.worst_output() == 1
    zeros = compare_sample([np.array([[1.0]]), np.array([[3.0]])], [np.array([[0.0]]), np.array([[1.0]])])
    table = tabulate([zeros] * 12)
    assert by_metric(score(table))["output_snr_worst"].absent_because == (
        "all of the reference's values of one output are 0"
    )
    assert table.worst_output() is None


def test_of_probabilities_near_0_the_error_is_held_against_1():
    """A detector of speech that hears none says 0.001; 0.002 is no worse than 0.501 for 0.500."""
    record = compare_sample([np.array([[0.002]])], [np.array([[0.001]])], probabilities=[True])
    found = by_metric(score(tabulate([record] * 12)))
    assert found["output_snr"].value == pytest.approx(0.0)
    assert found["output_snr_worst"].value == pytest.approx(60.0)


def test_what_is_not_finite_is_said():
    reference = np.array([[1.0, 2.0], [3.0, 4.0]])
    own = np.array([[np.nan, 2.0], [3.0, 4.5]])
    kept = records(own, reference)
    assert kept[0] == [1, 0, 5.0, None, None]
    table = tabulate(kept)
    found = by_metric(score(table))
    assert found["agreement_top1"].value == 0.5
    for name in ("output_snr", "output_max_abs_error"):
        assert found[name].absent_because == "outputs of 1 of 2 samples are NaN, infinite or too large to square"
    assert table.values(np.array([0.0, 1.0]))["output_max_abs_error"] == 0.5
    assert compare_sample([np.array([[1.0, 1.0]])], [np.array([[np.nan, 1.0]])])[:2] == [0, 0]


def test_outputs_that_cannot_be_compared():
    with pytest.raises(
        BadInput, match=says("outputs-shapes-cant-compared-reference", shapes="[1, 3]", shapes_2="[1, 4]")
    ):
        compare_sample([np.zeros((1, 3))], [np.zeros((1, 4))])
    with pytest.raises(BadInput, match=says("outputs-cant-compared-number-number")):
        compare_sample([np.array([["a"]])], [np.array([["b"]])])


def test_two_variants_against_the_same_reference():
    rng = np.random.default_rng(2)
    reference = rng.normal(size=(80, 6))
    near, far = (reference + spread * rng.normal(size=reference.shape) for spread in (0.05, 0.6))
    found = by_metric(compare_tables(tabulate(records(near, reference)), tabulate(records(far, reference))))
    assert found["output_snr"].high < -15.0
    assert found["agreement_top1"].method.startswith("McNemar")
    assert found["output_max_abs_error"].low is None
    assert found["output_max_abs_error"].difference > 0.5


def test_no_samples():
    for found in score(tabulate([])):
        assert found.absent_because == wording("there-no-samples")
