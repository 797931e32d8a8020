"""Outputs compared: the reference is the majority's, the odd one out is named, roundings are not a mismatch."""

import numpy as np
import pytest

from edgewise.run.agreement import (
    BEYOND,
    NO_MAJORITY,
    NOT_FINITE,
    Outputs,
    check_finite,
    compare_outputs,
    difference_of,
)
from messages import wording


def outputs(label, *arrays, reduced=""):
    return Outputs(run_id=label, label=label, arrays=tuple(np.asarray(a) for a in arrays), reduced=reduced)


ROW = np.array([[0.1, 0.7, 0.2]], dtype=np.float32)


def test_equal_outputs_differ_by_nothing():
    verdicts = compare_outputs([outputs("ort", ROW), outputs("ov", ROW.copy())])
    assert {row.absent_because for row in verdicts["ort"].measurements} == {"this run is the reference"}
    values = {row.metric: row.value for row in verdicts["ov"].measurements}
    assert values == {"output_max_abs_error": 0.0, "output_max_rel_error": 0.0, "agreement_top1": 1.0}
    assert verdicts["ov"].cautions == verdicts["ort"].cautions == ()


def test_the_odd_one_out_is_named_even_when_it_comes_first():
    wrong = np.array([[0.7, 0.1, 0.2]], dtype=np.float32)
    verdicts = compare_outputs([outputs("a", wrong), outputs("b", ROW), outputs("c", ROW + 1e-7)])
    assert verdicts["b"].cautions == verdicts["c"].cautions == ()
    (caution,) = verdicts["a"].cautions
    assert caution.code == "output-mismatch"
    assert "the outputs of a differ from those of b, c" in caution.message
    assert "top-1 agreement 0%" in caution.message
    values = {row.metric: row.value for row in verdicts["a"].measurements}
    assert values["output_max_abs_error"] == pytest.approx(0.6)
    assert values["output_max_rel_error"] == pytest.approx(0.6 / 0.7)


def test_two_that_disagree_are_both_marked_because_nothing_tells_which_is_right():
    verdicts = compare_outputs([outputs("a", ROW), outputs("b", -ROW)])
    assert [len(verdicts[name].cautions) for name in "ab"] == [1, 1]
    assert "there is no majority, so it is unknown which is right" in verdicts["a"].cautions[0].message


def test_quantised_engines_may_round_differently_but_float_ones_may_not():
    a, b = np.array([[100, 20]], dtype=np.int8), np.array([[103, 20]], dtype=np.int8)
    assert difference_of(outputs("a", a, reduced="int8"), outputs("b", b)).close
    assert not difference_of(outputs("a", a), outputs("b", b)).close


def test_a_mismatch_states_the_tolerance_and_why_it_is_this_one():
    far = -ROW
    (plain,) = compare_outputs([outputs("a", ROW), outputs("b", ROW), outputs("c", far)])["c"].cautions
    assert "0.2% is allowed: everything computes in float32" in plain.message
    word = "the model computes in int8"
    told = [outputs("a", ROW, reduced=word), outputs("b", ROW, reduced=word), outputs("c", far, reduced=word)]
    (reduced,) = compare_outputs(told)["c"].cautions
    assert "6.0% is allowed: the model computes in int8" in reduced.message


def test_int8_differences_do_not_wrap_around():
    a, b = np.array([[-128, 0]], dtype=np.int8), np.array([[127, 0]], dtype=np.int8)
    assert difference_of(outputs("a", a), outputs("b", b)).max_abs == 255


def test_a_tie_of_the_largest_is_agreement():
    a, b = np.array([[5, 4, 5]]), np.array([[5, 4, 5]])
    a[0, 0] = 4  # a's best is at 2, b's at 0 and 2
    assert difference_of(outputs("a", a), outputs("b", b)).top1 == 1.0


@pytest.mark.parametrize(
    ("own", "other", "why"),
    [
        (ROW, np.zeros((1, 4)), "outputs have shapes 1×4, those of the reference 1×3"),
        (ROW, np.array([[np.nan, 0.0, 0.0]]), "NaN or infinity in different places"),
        (np.array(["yes"]), np.array(["no"]), "non-numeric outputs differ"),
    ],
)
def test_a_mismatch_without_a_number_says_what_it_is(own, other, why):
    verdicts = compare_outputs([outputs("a", own), outputs("b", own), outputs("c", other)])
    (caution,) = verdicts["c"].cautions
    assert f"({why})" in caution.message
    assert {(row.value, row.basis) for row in verdicts["c"].measurements if row.metric != "agreement_top1"} == {
        (None, None)
    }
    assert why in {row.absent_because for row in verdicts["c"].measurements}


def test_a_difference_from_zeros_has_no_share():
    verdicts = compare_outputs([outputs("a", 0 * ROW), outputs("b", 0 * ROW), outputs("c", ROW)])
    assert "max abs error 0.7, the reference's output is 0 everywhere" in verdicts["c"].cautions[0].message
    row = next(row for row in verdicts["c"].measurements if row.metric == "output_max_rel_error")
    assert row.absent_because == wording("reference-output-0-everywhere-so")


def test_whoever_equals_the_reference_is_not_beyond_it_where_there_is_no_majority():
    verdicts = compare_outputs([outputs(name, row) for name, row in zip("abcd", [ROW, ROW, -ROW, -ROW], strict=True)])
    assert all(NO_MAJORITY in verdicts[name].cautions[0].message for name in "abcd")
    beyond = {name: any(row.method.endswith(BEYOND) for row in verdicts[name].measurements) for name in "abcd"}
    assert beyond == {"a": False, "b": False, "c": True, "d": True}


def test_nan_in_the_same_place_is_equal_and_counted():
    a = np.array([[np.nan, 1.0]])
    found = difference_of(outputs("a", a), outputs("b", a.copy()))
    assert found.max_abs == 0.0 and found.close
    assert found.allowed.endswith("; 1 of 2 elements are NaN or infinite in both")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_without_a_finite_element_are_not_compared(value):
    nothing = np.full((1, 3), value, np.float32)
    verdicts = compare_outputs([outputs("a", nothing), outputs("b", nothing.copy())])
    assert verdicts["a"].cautions == verdicts["b"].cautions == ()
    told = {(row.value, row.absent_because) for row in verdicts["b"].measurements}
    assert told == {(None, f"{NOT_FINITE}: give real inputs with --input-data")}
    beside = difference_of(outputs("a", nothing, ROW), outputs("b", nothing.copy(), ROW))
    assert beside.max_abs == 0.0 and beside.allowed.endswith("; 3 of 6 elements are NaN or infinite in both")


@pytest.mark.parametrize(("own", "difference"), [(2.5, 0.0), (2.0, 0.5), (np.nan, None), (np.inf, None)])
def test_scalars_are_compared(own, difference):
    found = difference_of(outputs("a", np.float32(own)), outputs("b", np.float32(2.5)))
    assert found.max_abs == (np.inf if difference is None else difference)
    assert found.top1 is None
    assert difference_of(outputs("a", np.float64(own)), outputs("b", np.float64(own))).close
    assert not difference_of(outputs("a", np.bool_(True)), outputs("b", np.bool_(False))).close


def test_layout_may_differ_when_the_elements_are_the_same():
    flat = outputs("a", np.arange(6.0))
    assert difference_of(flat, outputs("b", np.arange(6.0).reshape(1, 6))).close


def test_one_run_alone_has_nothing_to_agree_with():
    assert compare_outputs([outputs("a", ROW)]) == {}


def test_outputs_that_are_no_numbers_are_named_even_for_one_run():
    assert check_finite(outputs("a", ROW)) == ()
    (caution,) = check_finite(outputs("a", ROW, np.array([np.nan, np.inf, 1.0])))
    assert caution.code == "output-not-finite"
    assert caution.message == "33% of the outputs of a are NaN or infinite"


def test_rows_of_nan_have_no_largest_element():
    nothing = np.full((2, 3), np.nan)
    difference = difference_of(outputs("a", nothing), outputs("b", nothing.copy()))
    assert difference.top1 is None
    half = np.array([[np.nan, 1.0, 2.0], [0.0, 1.0, 2.0]])
    assert difference_of(outputs("a", half), outputs("b", half.copy())).top1 == 1.0


def test_one_step_of_a_quantised_output_is_rounding():
    for a, b in (([[5]], [[6]]), ([[5, 3]], [[5, 4]]), ([[-128, 127]], [[-126, 127]])):
        one, other = np.array(a, dtype=np.int8), np.array(b, dtype=np.int8)
        assert difference_of(outputs("a", one, reduced="int8"), outputs("b", other, reduced="int8")).close


def test_class_numbers_must_be_equal():
    one, other = np.array([[7]], dtype=np.int64), np.array([[8]], dtype=np.int64)
    assert not difference_of(outputs("a", one, reduced="int8"), outputs("b", other, reduced="int8")).close


def test_what_any_engine_rounds_is_no_difference_even_from_zero():
    assert difference_of(outputs("a", np.array([[1e-12, 0.0]])), outputs("b", np.zeros((1, 2)))).close
    assert not difference_of(outputs("a", np.array([[1e-3, 0.0]])), outputs("b", np.zeros((1, 2)))).close
